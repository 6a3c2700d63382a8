use super::nearest;

#[test]
fn finds_the_probable_name() {
    let known = ["read", "write", "edit", "tool-read", "max_bytes"];
    let cases = [
        ("raed", Some("read")),
        ("READ", Some("read")),
        ("wirte", Some("write")),
        ("tool_read", Some("tool-read")),
        ("max-byte", Some("max_bytes")),
        ("e", None),
        ("zzzz", None),
        ("", None),
    ];
    for (name, expected) in cases {
        assert_eq!(nearest(name, known), expected, "{name}");
    }
}

#[test]
fn very_long_names_get_no_suggestion() {
    let long = "a".repeat(1000);
    assert_eq!(nearest(&long, [long.as_str()]), None);
}
