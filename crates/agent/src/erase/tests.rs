use std::num::NonZeroU64;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::*;
use crate::tool::ToolSuccess;

/// For authors only.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "only read from arguments")]
struct Input {
    /// Which file,
    /// absolute or relative.
    file_path: String,
    /// From here.
    offset: Option<NonZeroU64>,
    /// Every place.
    #[serde(default)]
    all: bool,
    mode: Option<Mode>,
    #[serde(default)]
    items: Vec<Item>,
    /// A property may be called like a keyword.
    title: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    /// One way.
    ReadOnly,
    /// Another way.
    Full,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "only read from arguments")]
struct Item {
    text: String,
    count: u8,
}

struct Probe;

impl Tool for Probe {
    type Input = Input;
    const NAME: &'static str = "probe";

    fn description(&self) -> String {
        "  Probes.\n".into()
    }

    fn effect(&self, input: &Input) -> ToolEffect {
        if input.all { ToolEffect::Exclusive } else { ToolEffect::ReadOnly }
    }

    fn run(&self, input: Input, _ctx: ToolContext) -> BoxFuture<'_, ToolReply> {
        Box::pin(async move { Ok(ToolSuccess::text(input.file_path)) })
    }
}

#[test]
fn schema_has_stable_plain_bytes() {
    let tool = erase(Probe);
    assert_eq!(tool.schema().name, "probe");
    assert_eq!(tool.schema().description, "Probes.");
    let expected = concat!(
        r#"{"type":"object","properties":{"#,
        r#""file_path":{"type":"string","description":"Which file, absolute or relative."},"#,
        r#""offset":{"type":"integer","description":"From here.","minimum":1},"#,
        r#""all":{"type":"boolean","description":"Every place.","default":false},"#,
        r#""mode":{"type":"string","enum":["read-only","full"]},"#,
        r#""items":{"type":"array","items":{"type":"object","properties":{"#,
        r#""text":{"type":"string"},"count":{"type":"integer","maximum":255}},"#,
        r#""required":["text","count"],"additionalProperties":false}},"#,
        r#""title":{"type":"string","description":"A property may be called like a keyword."}},"#,
        r#""required":["file_path"],"additionalProperties":false}"#,
    );
    assert_eq!(tool.schema().parameters.get(), expected);
    assert_eq!(erase(Probe).schema(), tool.schema());
}

#[test]
fn arguments_that_fit_tell_their_effect() {
    let tool = erase(Probe);
    let all = json!({"file_path": "a", "offset": null, "all": true, "mode": "full"});
    assert_eq!(tool.check(&all).unwrap(), ToolEffect::Exclusive);
    assert_eq!(tool.check(&json!({"file_path": "a"})).unwrap(), ToolEffect::ReadOnly);
}

#[test]
fn faults_are_named_with_key_and_expectation() {
    let takes = "`file_path`, `offset` (optional), `all` (optional), `mode` (optional), \
                 `items` (optional), `title` (optional)";
    let cases: Vec<(Value, String)> = vec![
        (Value::Null, format!("the arguments must be a JSON object with {takes}, got null")),
        (
            json!([1]),
            format!("the arguments must be a JSON object with {takes}, got the array [1]"),
        ),
        (json!({}), format!("`file_path` is missing; it takes {takes}")),
        (
            json!({"filepath": "a"}),
            "there is no parameter `filepath`; did you mean `file_path`?".into(),
        ),
        (
            json!({"file_path": "a", "sandbox_permissions": "x"}),
            format!("there is no parameter `sandbox_permissions`; it takes {takes}"),
        ),
        (json!({"file_path": 3}), "`file_path` must be a string, got the number 3".into()),
        (json!({"file_path": null}), "`file_path` must be a string, got null".into()),
        (
            json!({"file_path": "a", "offset": "3"}),
            "`offset` must be a whole number of at least 1, got the string \"3\"".into(),
        ),
        (
            json!({"file_path": "a", "offset": 0}),
            "`offset` must be a whole number of at least 1, got the number 0".into(),
        ),
        (
            json!({"file_path": "a", "all": "yes"}),
            "`all` must be true or false, got the string \"yes\"".into(),
        ),
        (
            json!({"file_path": "a", "mode": "fast"}),
            "`mode` must be one of `read-only`, `full`, got the string \"fast\"".into(),
        ),
        (
            json!({
                "file_path": "a",
                "items": [{"text": "t", "count": 1}, {"text": "t", "cont": 2}],
            }),
            "there is no parameter `cont` in `items[1]`; did you mean `count`?".into(),
        ),
        (
            json!({"file_path": "a", "items": [{"text": "t", "count": 300}]}),
            "`items[0].count` must be a whole number of at most 255, got the number 300".into(),
        ),
        (
            json!({"file_path": "a", "items": "x"}),
            "`items` must be an array, each item an object with `text`, `count`, \
             got the string \"x\""
                .into(),
        ),
    ];
    let tool = erase(Probe);
    for (arguments, message) in cases {
        let failure = tool.check(&arguments).unwrap_err();
        assert_eq!(failure.code, "INVALID_ARGS");
        assert_eq!(failure.message, format!("`probe`: {message}"), "{arguments}");
    }
}

#[test]
fn a_long_wrong_value_is_quoted_in_part() {
    let failure = erase(Probe).check(&Value::String("é".repeat(5000))).unwrap_err();
    assert!(failure.message.len() < 400, "{}", failure.message);
}

/// No parameters.
#[derive(Deserialize, JsonSchema)]
struct Nothing {}

struct Plain;

impl Tool for Plain {
    type Input = Nothing;
    const NAME: &'static str = "plain";

    fn description(&self) -> String {
        "Does.".into()
    }

    fn run(&self, _input: Nothing, _ctx: ToolContext) -> BoxFuture<'_, ToolReply> {
        Box::pin(async { Ok(ToolSuccess::default()) })
    }
}

#[test]
fn a_tool_may_take_nothing() {
    let tool = erase(Plain);
    assert_eq!(
        tool.schema().parameters.get(),
        r#"{"type":"object","properties":{},"additionalProperties":false}"#
    );
    assert_eq!(tool.check(&json!({})).unwrap(), ToolEffect::Exclusive);
    let failure = tool.check(&json!({"x": 1})).unwrap_err();
    assert_eq!(failure.message, "`plain`: there is no parameter `x`; it takes no parameters");
    assert!(tool.check(&Value::Null).is_err());
}
