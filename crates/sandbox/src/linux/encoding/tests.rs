use proptest::collection::vec;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use proptest::prelude::*;

use super::*;

fn text() -> impl Strategy<Value = OsString> {
    proptest::collection::vec(1..=255u8, 0..40).prop_map(OsString::from_vec)
}

proptest! {
    #[test]
    fn bytes_survive_a_round_trip(
        program in "[a-z/]{1,20}",
        arguments in proptest::collection::vec(text(), 0..20),
        env in proptest::collection::vec(("[A-Z_]{1,10}", text()), 0..20),
    ) {
        let mut spec = CommandSpec::new([program], Path::new("/some/where"));
        spec.argv.extend(arguments);
        spec.env = env.into_iter().map(|(name, value)| (name.into(), value)).collect();
        let bytes = encode(&spec).unwrap();
        let decoded = Decoded::parse(&bytes).unwrap();
        prop_assert_eq!(decoded.cwd.to_bytes(), b"/some/where");
        let argv: Vec<_> = decoded.argv.iter().map(|a| a.to_bytes()).collect();
        prop_assert_eq!(argv, spec.argv.iter().map(|a| a.as_bytes()).collect::<Vec<_>>());
        prop_assert_eq!(decoded.env.len(), spec.env.len());
        for (entry, (name, value)) in decoded.env.iter().zip(&spec.env) {
            prop_assert_eq!(entry.to_bytes(), [name.as_bytes(), b"=", value.as_bytes()].concat());
        }
        for cut in 0..bytes.len() {
            prop_assert!(Decoded::parse(&bytes[..cut]).is_none(), "cut at {}", cut);
        }
    }

    #[test]
    fn any_bytes_are_judged_without_a_panic(bytes in vec(any::<u8>(), 0..200)) {
        drop(Decoded::parse(&bytes));
    }
}

#[test]
fn what_execve_cannot_take_is_refused_with_the_reason() {
    let good = CommandSpec::new(["true"], Path::new("/"));
    let with = |change: fn(&mut CommandSpec)| {
        let mut spec = good.clone();
        change(&mut spec);
        encode(&spec).unwrap_err().to_string()
    };
    assert!(with(|s| s.argv.clear()).contains("no program"));
    assert!(with(|s| s.argv[0] = "".into()).contains("no program"));
    assert!(with(|s| s.argv.push("a\0b".into())).contains("an argument contains a NUL"));
    assert!(with(|s| s.cwd = "here".into()).contains("here is not absolute"));
    assert!(with(|s| s.env.push(("A=B".into(), "".into()))).contains("environment name"));
    assert!(with(|s| s.env.push(("A".into(), "\0".into()))).contains("a variable contains a NUL"));
    assert!(with(|s| s.argv.push("x".repeat(MAX_SPEC_BYTES).into())).contains("in a file"));
}

#[test]
fn a_bare_name_is_searched_in_absolute_path_entries_only() {
    let mut spec = CommandSpec::new(["tool"], Path::new("/"));
    spec.env = vec![("X".into(), "1".into()), ("PATH".into(), "/a:rel::./b:/c/d".into())];
    let bytes = encode(&spec).unwrap();
    let candidates = Decoded::parse(&bytes).unwrap().candidates();
    assert_eq!(candidates, [c"/a/tool".to_owned(), c"/c/d/tool".to_owned()]);

    spec.argv[0] = "./tool".into();
    let bytes = encode(&spec).unwrap();
    assert_eq!(Decoded::parse(&bytes).unwrap().candidates(), [c"./tool".to_owned()]);
}
