use super::*;

#[test]
fn a_tool_that_is_not_there_is_refused_with_the_nearest() {
    let known = ["bash".to_owned(), "grep".to_owned()];
    assert!(check("grep", &known).is_ok());
    let error = |name| check(name, &known).map_err(|error| error.to_string());
    assert_eq!(error("gerp"), Err("no tool `gerp` is inherited; did you mean `grep`?".to_owned()));
    assert_eq!(error("zzz"), Err("no tool `zzz` is inherited; there are bash, grep".to_owned()));
    let none = check("grep", &[]).map_err(|error| error.to_string());
    assert_eq!(none, Err("no tool `grep` is inherited; there is none".to_owned()));
}
