use std::io::Error;

use super::plain;

#[test]
fn errors_are_told_without_the_library() {
    for (error, words) in [
        ("IO error for operation on /a: b: Permission denied (os error 13)", "Permission denied"),
        ("configured allocation limit (33554432) exceeded", "a line is longer than 32 MiB"),
        ("Input/output error (os error 5)", "Input/output error"),
    ] {
        assert_eq!(plain(&Error::other(error)), words);
    }
}
