//! Files of rows after somebody's hand slipped: nothing panics, and what is wrong has a line.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use reins_kernel::*;

use crate::plugins::{catalog, layer, references};

/// Uses everything that a layer can say, with the plugins of these tests.
const FULL: &str = r#"bundles = ["base", "sdk"]

[[insert]]
id = "reader"
plugin = "tool-read"
config = { max_bytes = 5, root = "${home}/x", modes = ["text", "binary"] }

[[insert]]
id = "far"
plugin = "provider"
disabled = true
[insert.config]
url = "${env:TOKEN}"   # a comment
auth = { key = { value = "${env:EMPTY:-none}" } }
source = { kind = "file", path = 'C:\p' }
extra = { a = [1, 2.5, { b = true }], "c d" = """
two lines
""" }
[insert.config.models.big]
window = 0x10

[[row]]
id = "reader"
[row.config.retry]
attempts = 3
codes = [
  429,
  503,
]
"#;

/// The TOML of the README, without what stands around it.
fn of_readme() -> String {
    let readme = include_str!("../../../../README.md");
    let blocks = readme.split("```toml\n").skip(1);
    blocks.filter_map(|rest| Some(rest.split_once("```")?.0)).collect()
}

fn originals() -> Vec<String> {
    let shipped = [
        FULL,
        include_str!("../../../cli/bundles/base.toml"),
        include_str!("../../../cli/bundles/sdk.toml"),
        include_str!("../../../cli/presets/minimal.toml"),
        include_str!("../../../cli/presets/standard.toml"),
    ];
    shipped.into_iter().map(str::to_owned).chain([of_readme()]).collect()
}

/// A slip. Places are taken by their share of the text as it is then.
#[derive(Clone, Debug)]
enum Slip {
    Delete(Index, usize),
    Repeat(Index, usize, Index),
    Swap(Index, Index),
    Insert(Index, &'static [u8]),
    Cut(Index),
}

/// What means something in TOML or to us, and what means nothing anywhere.
const PIECES: [&[u8]; 24] = [
    b"\"",
    b"'",
    b"\"\"\"",
    b"[",
    b"]",
    b"[[",
    b"{",
    b"}",
    b"=",
    b",",
    b".",
    b"#",
    b"\n",
    b"\r",
    b"\0",
    b"\\",
    b"${",
    b"-",
    b"9999999999999999999",
    b"nan",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xc3",
    b"1979-05-27",
];

fn slip() -> impl Strategy<Value = Slip> {
    let at = any::<Index>;
    prop_oneof![
        (at(), 1..20_usize).prop_map(|(at, len)| Slip::Delete(at, len)),
        (at(), 1..60_usize, at()).prop_map(|(from, len, to)| Slip::Repeat(from, len, to)),
        (at(), at()).prop_map(|(a, b)| Slip::Swap(a, b)),
        (at(), select(&PIECES[..])).prop_map(|(at, piece)| Slip::Insert(at, piece)),
        at().prop_map(Slip::Cut),
    ]
}

impl Slip {
    fn happen(&self, text: &mut Vec<u8>) {
        if text.is_empty() {
            return;
        }
        let part = |at: &Index, len: usize, text: &[u8]| {
            let start = at.index(text.len());
            start..(start + len).min(text.len())
        };
        match self {
            Self::Delete(at, len) => drop(text.drain(part(at, *len, text))),
            Self::Repeat(from, len, to) => {
                let repeated = text[part(from, *len, text)].to_vec();
                let to = to.index(text.len());
                text.splice(to..to, repeated);
            }
            Self::Swap(a, b) => {
                let (a, b) = (a.index(text.len()), b.index(text.len()));
                text.swap(a, b);
            }
            Self::Insert(at, piece) => {
                let at = at.index(text.len());
                text.splice(at..at, piece.iter().copied());
            }
            Self::Cut(at) => text.truncate(at.index(text.len())),
        }
    }
}

#[test]
fn the_full_text_is_right_before_it_is_damaged() {
    let full = Layer { head: &["bundles"], ..layer("full", None, FULL) };
    assert_eq!(compose(&[full], &catalog(), &references()).map(drop), Ok(()));
}

proptest! {
    #[test]
    fn every_error_of_a_damaged_file_has_its_line(
        original in select(originals()),
        slips in prop::collection::vec(slip(), 1..6),
    ) {
        let mut bytes = original.into_bytes();
        slips.iter().for_each(|slip| slip.happen(&mut bytes));
        let text = String::from_utf8_lossy(&bytes);
        let lines = u32::try_from(text.matches('\n').count() + 1).unwrap();
        let head = &["bundles", "description"];
        let damaged = Layer { head, ..layer("damaged", Some("d.toml"), &text) };

        let own = damaged.errors();
        if let Some(head) = damaged.head_value("bundles") {
            let entries = head.value.as_array().map_or(0, Vec::len);
            prop_assert_eq!(entries, head.entry_lines.len());
            let mut told = head.entry_lines.iter().chain([&head.line]);
            prop_assert!(told.all(|line| (1..=lines).contains(line)), "{:?}", head);
        }

        let base = layer("base", None, "[[insert]]\nid = \"spare\"\nplugin = \"tool-read\"\n");
        let composed = compose(&[base, damaged], &catalog(), &references());
        let errors = composed.as_ref().err().cloned().unwrap_or_default();
        let warnings = composed.map(|found| found.warnings).unwrap_or_default();
        prop_assert!(own.iter().all(|error| errors.contains(error)), "{:?}\n{:?}", own, errors);
        for error in errors.iter().chain(warnings.iter().map(|warning| &warning.0)) {
            prop_assert_eq!(&*error.layer, "damaged");
            prop_assert!((1..=lines).contains(&error.line), "{}\n{}", error, text);
            prop_assert!(!error.problem.is_empty());
            prop_assert!(!error.to_string().contains("s3cret-value"), "{}", error);
        }
    }
}
