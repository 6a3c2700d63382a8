//! What the model is told, and which rows can be mounted.

use reins_agent::{AnyTool, ToolEffect};
use serde_json::{Value, json};

use crate::bench::{Bench, build};

#[tokio::test]
async fn six_tools_fit_into_seven_kilobytes() {
    let bench = Bench::new().await;
    let mut names = Vec::new();
    let mut bytes = 0;
    for entry in bench.generation.scope.entries::<dyn AnyTool>() {
        let schema = entry.value.schema();
        bytes += schema.name.len() + schema.description.len() + schema.parameters.get().len();
        let parameters: Value = serde_json::from_str(schema.parameters.get()).unwrap();
        let keys: Vec<&String> = parameters["properties"].as_object().unwrap().keys().collect();
        let keys: Vec<&str> = keys.into_iter().map(String::as_str).collect();
        names.push(format!("{}({})", schema.name, keys.join(", ")));
        assert_eq!(parameters["additionalProperties"], false, "{}", schema.name);
        for noise in ["$ref", "$schema", "\"format\"", "null"] {
            assert!(!schema.parameters.get().contains(noise), "{}", schema.parameters);
        }
    }
    assert_eq!(
        names,
        [
            "bash(command, description, timeoutMs, workdir)",
            "edit(file_path, old_string, new_string, replace_all)",
            "glob(pattern, path)",
            "grep(pattern, path, include)",
            "read(file_path, offset, limit, column)",
            "write(file_path, content)",
        ]
    );
    assert!(bytes < 5_000, "{bytes} bytes");
}

/// What the model reads is looked at when it changes.
#[tokio::test]
async fn the_model_is_told_exactly_this() {
    let bench = Bench::new().await;
    let cases = [
        ("bash", include_str!("../../src/bash/schema.snap")),
        ("edit", include_str!("../../src/edit/schema.snap")),
        ("glob", include_str!("../../src/glob/schema.snap")),
        ("grep", include_str!("../../src/grep/schema.snap")),
        ("read", include_str!("../../src/read/schema.snap")),
        ("write", include_str!("../../src/write/schema.snap")),
    ];
    for (name, expected) in cases {
        let tool = bench.tool(name);
        let schema = tool.schema();
        let told = format!("{}\n\n{}\n", schema.description, schema.parameters);
        assert_eq!(told, expected, "src/{name}/schema.snap should hold:\n{told}");
    }
}

#[tokio::test]
async fn only_looking_may_overlap() {
    let bench = Bench::new().await;
    let cases = [
        ("read", json!({"file_path": "a"}), ToolEffect::ReadOnly),
        ("glob", json!({"pattern": "*"}), ToolEffect::ReadOnly),
        ("grep", json!({"pattern": "x"}), ToolEffect::ReadOnly),
        ("write", json!({"file_path": "a", "content": ""}), ToolEffect::Exclusive),
        (
            "edit",
            json!({"file_path": "a", "old_string": "b", "new_string": "c"}),
            ToolEffect::Exclusive,
        ),
        ("bash", json!({"command": "ls", "description": "lists"}), ToolEffect::Exclusive),
    ];
    for (name, arguments, effect) in cases {
        assert_eq!(bench.effect(name, arguments), effect, "{name}");
    }
}

#[tokio::test]
async fn features_that_are_off_are_refused() {
    let bench = Bench::new().await;
    let calls = [
        json!({"command": "ls", "description": "lists", "run_in_background": true}),
        json!({"command": "ls", "description": "lists", "sandbox_permissions": "x"}),
    ];
    for arguments in calls {
        let failure = bench.tool("bash").check(&arguments).unwrap_err();
        assert_eq!(failure.code, "INVALID_ARGS");
        assert!(failure.message.contains("there is no parameter"), "{failure}");
    }
    let failure = bench.tool("write").check(&json!({"file_path": "a"})).unwrap_err();
    assert!(failure.message.contains("`content` is missing"), "{failure}");
}

#[tokio::test]
async fn rows_with_impossible_limits_are_refused() {
    let cases = [
        ("read", "max_line_bytes = 50001", "max_line_bytes"),
        ("read", "max_lines = 0", "max_lines"),
        ("bash", "timeout_ms = 700000", "timeout_ms"),
        ("glob", "max_files = 0", "max_files"),
        ("grep", "max_matches = 0", "max_matches"),
        ("edit", "max_file_byte = 1", "max_file_byte"),
    ];
    for (row, config, field) in cases {
        let error = build(&[(row, config)]).await.unwrap_err();
        assert!(error.contains(row) && error.contains(field), "{error}");
    }
}
