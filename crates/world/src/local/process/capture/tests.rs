use proptest::prelude::*;

use super::Capture;

proptest! {
    #[test]
    fn both_ends_and_the_count_are_exact(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20),
        limit in 0_usize..60,
    ) {
        let mut capture = Capture::new(limit);
        pieces.iter().for_each(|piece| capture.push(piece));
        let kept = capture.take();
        let all = pieces.concat();
        if all.len() <= limit {
            prop_assert_eq!(kept.head, all);
            prop_assert_eq!((kept.tail.len(), kept.omitted), (0, 0));
        } else {
            prop_assert_eq!(kept.head.len() + kept.tail.len(), limit);
            prop_assert_eq!(kept.omitted, (all.len() - limit) as u64);
            prop_assert!(all.starts_with(&kept.head) && all.ends_with(&kept.tail));
        }
    }
}
