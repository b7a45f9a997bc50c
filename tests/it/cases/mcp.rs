//! Replies, schemas and results of MCP servers in unusual shapes.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::play::Case;
use crate::support::tine::Finished;

/// Returns an entry for a server that plays a file, as `--mcp-config` takes it.
fn playing(file: &str, more: &[&str]) -> String {
    let script: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/play.mjs");
    let script = script.to_str().expect("the checkout's path is UTF-8");
    let arguments: Vec<&str> = [script, file].iter().chain(more).copied().collect();
    json!({ "mcpServers": { "s": { "command": "node", "args": arguments } } }).to_string()
}

/// Writes what a server plays into the case's place, and returns the file's path.
fn write(case: &Case, play: &Value) -> String {
    let file = case.place.root().join("play.json");
    std::fs::write(&file, play.to_string()).expect("the place can be written");
    file.to_str().expect("the path is UTF-8").to_owned()
}

/// Runs a case with the server that its file plays. Servers have a minute to start, and a call
/// that waits for its limit would take ten.
fn run(case: &Case, model: &str, play: &str, more: &[&str]) -> Finished {
    case.place.configure(&format!(
        "[mcp]\nstartup_ms = 60000\n[models.v]\nbase_url = \"{}\"\nimages = true\n",
        case.server.base_url()
    ));
    let config = playing(play, more);
    case.tine(&["-m", model, "-p", "go", "--yolo", "--mcp-config", &config]).run()
}

/// Returns the message with the output of the first call in the last request.
fn output(case: &Case) -> Value {
    let bodies = case.bodies();
    let messages = bodies.last().expect("there is a request")["messages"].clone();
    let messages = messages.as_array().expect("it has messages").clone();
    messages.into_iter().find(|it| it["role"] == "tool").expect("a call has an output")
}

/// Returns the server's tools as they are sent to the model.
fn tools(case: &Case) -> Vec<Value> {
    let bodies = case.bodies();
    let tools = bodies[0]["tools"].as_array().expect("there are tools").iter();
    let functions = tools.map(|tool| tool["function"].clone());
    functions.filter(|it| it["name"].as_str().is_some_and(|it| it.starts_with("mcp__"))).collect()
}

#[test]
fn a_tool_whose_properties_are_null_is_offered() {
    let case = Case::open("mcp-null-properties");
    let finished = run(&case, "m", &case.file("play.json"), &[]).exits(0);
    let tools = tools(&case);
    assert_eq!(tools[0]["name"], "mcp__s__get", "{}", finished.stderr);
    assert_eq!(tools[0]["parameters"], json!({ "type": "object", "properties": {} }));
}

#[test]
fn a_choice_at_the_top_of_a_schema_is_told_in_words() {
    let case = Case::playing("mcp-schema-combinators", &["../mcp-null-properties/1.200.sse"]);
    run(&case, "m", &case.file("play.json"), &[]).exits(0);
    let tool = &tools(&case)[0];
    assert_eq!(
        tool["description"],
        "adds a comment\n\nArguments: At least one of: {body} or {reaction}."
    );
    let text = json!({ "type": "string" });
    let expected = json!({ "type": "object", "properties": { "body": text, "reaction": text } });
    assert_eq!(tool["parameters"], expected);
}

#[test]
fn a_refusal_for_a_tools_schema_names_the_tool_and_its_server() {
    let case = Case::open("mcp-schema-combinators");
    let finished = run(&case, "m", &case.file("play.json"), &[]);
    let said = "the tool `comment` of the MCP server `s`";
    assert!(finished.stderr.contains(said), "{}", finished.stderr);
}

#[test]
fn a_result_whose_content_is_a_text_reaches_the_model() {
    let case = Case::open("mcp-result-of-another-shape");
    run(&case, "m", &case.file("play.json"), &[]).exits(0);
    assert_eq!(output(&case)["content"], "the answer as a text");
}

#[test]
fn structured_content_reaches_the_model_beside_a_text_without_it() {
    let case = Case::open("mcp-structured-content-lost");
    run(&case, "m", &case.file("play.json"), &[]).exits(0);
    let expected = "2 items\n{\"items\":[{\"id\":7},{\"id\":9}]}";
    assert_eq!(output(&case)["content"], expected);
}

#[test]
fn an_image_in_base64_with_line_breaks_is_shown_to_the_model() {
    let case = Case::open("mcp-image-base64-lines");
    run(&case, "v", &case.file("play.json"), &[]).exits(0);
    let bodies = case.bodies();
    let messages = bodies.last().expect("there is a request")["messages"].to_string();
    assert!(messages.contains("data:image/png;base64,iVBORw0KGgo"), "{messages}");
}

#[test]
fn a_reply_with_a_null_error_is_its_result_and_an_error_without_a_code_ends_the_call() {
    let case = Case::open("mcp-unreadable-reply-hangs");
    run(&case, "m", &case.file("play.json"), &[]).exits(0);
    assert_eq!(output(&case)["content"], "the answer");
    let case = Case::open("mcp-unreadable-reply-hangs");
    run(&case, "m", &case.file("other.json"), &[]).exits(0);
    assert_eq!(output(&case)["content"], "The server `s` gave no result: no code");
}

#[test]
fn a_log_on_standard_output_is_left_out_and_told_of_once() {
    let case = Case::open("mcp-unreadable-reply-hangs");
    let result =
        r#"{"jsonrpc":"2.0","id":@ID@,"result":{"content":[{"type":"text","text":"fine"}]}}"#;
    let play =
        json!({ "lines": ["server is up", "still up"], "reply": format!("a call\n{result}") });
    let finished = run(&case, "m", &write(&case, &play), &[]).exits(0);
    assert_eq!(output(&case)["content"], "fine");
    let told = finished.stderr.matches("belong on standard error): `server is up`").count();
    assert_eq!(told, 1, "{}", finished.stderr);
    assert!(!finished.stderr.contains("still up"), "{}", finished.stderr);
}

#[test]
fn a_list_of_tools_that_cannot_be_read_is_the_servers_failure_at_once() {
    let case = Case::open("mcp-null-properties");
    let play = json!({ "reply": "{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":{\"tools\":[" });
    let finished = run(&case, "m", &write(&case, &play), &["tools/list"]).exits(0);
    assert!(finished.stderr.contains("its reply is not valid JSON: "), "{}", finished.stderr);
}
