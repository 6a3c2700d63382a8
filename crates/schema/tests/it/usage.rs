use reins_schema::Usage;

#[test]
fn sums_of_numbers_that_are_too_large_stay_at_the_largest() {
    let huge = Usage {
        input_tokens: u64::MAX,
        output_tokens: u64::MAX,
        cache_read_tokens: u64::MAX,
        cache_write_tokens: u64::MAX,
        reasoning_tokens: u64::MAX,
    };
    assert_eq!(huge.plus(huge), huge);
    assert_eq!(huge.total_input(), u64::MAX);
    let small = Usage { input_tokens: 1, cache_read_tokens: 20, ..Usage::default() };
    let more = Usage { cache_write_tokens: 300, output_tokens: 7, ..Usage::default() };
    assert_eq!((small.plus(more).total_input(), small.plus(more).output_tokens), (321, 7));
}
