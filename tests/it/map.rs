//! `tine map` through the binary: tables, lines and failures; in files of their
//! own what is refused, maps that go on, and what people see.

mod going_on;
mod refused;
mod seen;

use serde_json::{Value, json};

use crate::support::server::{Gate, Reaction, Server};
use crate::support::talk::{Talk, serve};
use crate::support::tine::{Place, Tine};

const PAGE: &str = include_str!("../../docs/map.md");

const SESSION: &str = "0199a000-0000-7000-8000-000000000001";

/// With these a map can be gone on with.
const KEPT: [&str; 6] = ["--output", "out.jsonl", "--max-concurrent", "4", "--session-id", SESSION];

/// What is asked for each row, unless a test is about that.
const PROMPT: &str = "Look at {{ path }}";

/// A map of `items.csv` with these flags.
fn map(place: &Place, server: &Server, flags: &[&str]) -> Tine {
    let asked = ["map", "--prompt", "p.md", "-m", "m", "--config", "retry.most=0"];
    let input: &[&str] = if flags.contains(&"--input") { &[] } else { &["--input", "items.csv"] };
    place.tine(asked.iter().chain(input).chain(flags)).server(server)
}

/// A place with a table of these paths.
fn place(paths: &[&str]) -> Place {
    let place = Place::new();
    place.write("p.md", PROMPT);
    place.write("items.csv", format!("path\n{}\n", paths.join("\n")));
    place
}

/// A place with so many rows, `r0` and so on.
fn rows(count: usize) -> Place {
    let names: Vec<String> = (0..count).map(|number| format!("r{number}")).collect();
    place(&names.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The row that a request is about.
fn row(talk: &Talk) -> &str {
    talk.task().strip_prefix("Look at ").expect("every request is about a row")
}

/// A server that says which row it was asked for.
fn echo() -> Server {
    serve(|talk| Reaction::text_reply(&format!("saw {}", row(talk))))
}

#[track_caller]
fn parse(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

/// The id, the status and the result of each line.
#[track_caller]
fn short(lines: &str) -> Vec<Value> {
    let short = |line: Value| json!([line["id"], line["status"], line["result"]]);
    parse(lines).into_iter().map(short).collect()
}

#[track_caller]
fn check_all_completed(place: &Place, count: usize) {
    let lines = short(&place.read("out.jsonl").expect("it was written"));
    let expected = (0..count)
        .map(|index| json!([(index + 1).to_string(), "completed", format!("saw r{index}")]));
    assert_eq!(lines, expected.collect::<Vec<_>>());
}

#[test]
fn lines_stand_in_the_order_of_the_table_however_long_each_row_takes() {
    let place = place(&["a", "b", "c"]);
    place.write("items.csv", "id,path\nfirst,a\nsecond,b\nthird,c\n");
    let gate = Gate::closed();
    let held = gate.clone();
    let server = serve(move |talk| {
        let answer = Reaction::text_reply(&format!("saw {}", row(talk)));
        if row(talk) == "a" { answer.behind(&held) } else { answer }
    });
    let running = map(&place, &server, &["--max-concurrent", "2"]).start();
    server.wait_until_came(3);
    gate.open();
    let finished = running.wait().exits(0);
    let expected = [
        json!(["first", "completed", "saw a"]),
        json!(["second", "completed", "saw b"]),
        json!(["third", "completed", "saw c"]),
    ];
    assert_eq!(short(&finished.stdout), expected);
    assert!(server.most_open() <= 2);
    let said: Vec<&str> = finished.stderr.lines().collect();
    let [begun, summary, tokens] = said[..] else { panic!("{said:?}") };
    assert!(begun.starts_with("3 rows, session "), "{begun}");
    assert!(summary.starts_with("3 rows: 3 completed"), "{summary}");
    assert!(tokens.starts_with("45 tokens"), "{tokens}");
}

#[test]
fn csv_json_lines_and_standard_input_are_the_same_rows() {
    let csv = "id,path,n\nx,\"a, b\",1\ny,\"c\nd\",2\n";
    let jsonl = "{\"id\": \"x\", \"path\": \"a, b\", \"n\": 1}\n\n\
                 {\"id\": \"y\", \"path\": \"c\\nd\", \"n\": 2}\n";
    let place = Place::new();
    place.write("p.md", "Look at {{ path }}{% if n == 1 or n == \"1\" %}!{% endif %}");
    let expected = [json!(["x", "completed", "saw a, b!"]), json!(["y", "completed", "saw c\nd"])];
    for (name, text) in [("items.csv", csv), ("items.jsonl", jsonl), ("-", csv), ("-", jsonl)] {
        place.write("items.csv", "");
        if name != "-" {
            place.write(name, text);
        }
        let server = echo();
        let run = map(&place, &server, &["--input", name]).stdin(text).run().exits(0);
        assert_eq!(short(&run.stdout), expected, "{name}");
    }
}

#[test]
fn a_row_that_fails_says_why_and_the_others_go_on() {
    let place = place(&["a", "b", "c"]);
    let server = serve(|talk| match row(talk) {
        "b" => Reaction::json(400, &json!({ "error": { "message": "no such thing" } })),
        path => Reaction::text_reply(path),
    });
    let finished = map(&place, &server, &["--session-id", SESSION]).run().exits(1);
    let lines = parse(&finished.stdout);
    let status: Vec<&str> = lines.iter().filter_map(|line| line["status"].as_str()).collect();
    assert_eq!(status, ["completed", "failed", "completed"]);
    let error = lines[1]["error"].as_str().expect("it says why");
    assert!(error.starts_with("request: ") && error.contains("no such thing"), "{error}");
    assert_eq!((&lines[1]["result"], &lines[0]["error"]), (&Value::Null, &Value::Null));
    assert_eq!(lines[0]["usage"]["input_tokens"], 10);
    let hint = format!(
        "hint: the same command with `--resume {SESSION} --retry-failed` runs the rows again that \
         failed"
    );
    assert_eq!(finished.stderr.lines().last(), Some(&*hint));
    assert!(finished.stderr.contains("3 rows: 2 completed, 1 failed"), "{}", finished.stderr);
    let reason = format!("1 row failed: {error}");
    assert!(finished.stderr.lines().any(|line| line == reason), "{}", finished.stderr);
}

#[test]
fn what_no_row_can_be_asked_is_for_the_prompt_to_mend() {
    let place = place(&["a", "b"]);
    place.write("p.md", "Look at {{ path.name }}");
    let server = echo();
    let finished = map(&place, &server, &KEPT).run().exits(1);
    let hint = format!(
        "hint: the prompt has to be mended; then the same command with `--resume {SESSION}` runs \
         the rows again that failed"
    );
    assert_eq!(finished.stderr.lines().last(), Some(&*hint), "{}", finished.stderr);
    assert!(server.finish().is_empty());
    place.write("p.md", PROMPT);
    let flags = ["--output", "out.jsonl", "--resume", SESSION];
    map(&place, &echo(), &flags).run().exits(0);
    let lines = short(&place.read("out.jsonl").expect("it was written"));
    assert_eq!(lines, [json!(["1", "completed", "saw a"]), json!(["2", "completed", "saw b"])]);
}

#[test]
fn no_room_for_any_row_becomes_room_for_one_with_a_warning() {
    for most in ["0", "-3"] {
        let place = place(&["a", "b"]);
        let finished = map(&place, &echo(), &["--max-concurrent", most]).run().exits(0);
        let warning = format!("warning: `agents.max_concurrent` is {most}; 1 is used instead\n");
        assert!(finished.stderr.contains(&warning), "{}", finished.stderr);
    }
}

#[test]
fn an_answer_that_fits_a_schema_is_json_in_its_line() {
    let place = place(&["a"]);
    let schema = json!({ "type": "object", "properties": { "size": { "type": "integer" } },
        "required": ["size"] });
    place.write("s.json", schema.to_string());
    let answer = [("StructuredOutput", json!({ "size": 3 }))];
    let server = serve(move |_| Reaction::call_reply(&answer));
    let finished = map(&place, &server, &["--schema", "s.json"]).run().exits(0);
    assert_eq!(short(&finished.stdout), [json!(["1", "completed", { "size": 3 }])]);
}

#[test]
fn rows_are_asked_of_the_agent_that_is_named_and_nobody_is_asked_for_leave() {
    let place = place(&["a"]);
    let server = serve(|talk| match talk.turn() {
        1 => Reaction::call_reply(&[("Bash", json!({ "command": "touch made" }))]),
        _ => Reaction::text_reply(talk.outputs()[0]),
    });
    let flags = ["--config", "sandbox.mode=\"off\""];
    let finished = map(&place, &server, &flags).run().exits(0);
    assert!(finished.stdout.contains("denied"), "{}", finished.stdout);
    assert!(finished.stderr.contains("\n1 call was denied\n"));
    assert_eq!(place.read("made"), None);
    let server = echo();
    map(&place, &server, &["--agent", "explore"]).run().exits(0);
    let requests = server.finish();
    let talk = Talk::of(&requests[0]);
    assert!(talk.tools().contains(&"Read") && !talk.tools().contains(&"Write"));
}

#[test]
fn a_row_that_takes_too_long_fails() {
    let place = place(&["a"]);
    let server = serve(|_| Reaction::Hang);
    let finished = map(&place, &server, &["--timeout", "1s"]).run().exits(1);
    let lines = parse(&finished.stdout);
    assert_eq!((lines.len(), &lines[0]["status"]), (1, &json!("failed")));
    assert!(lines[0]["error"].as_str().is_some_and(|error| error.starts_with("timeout: ")));
}

#[test]
fn a_runner_of_github_obeys_nothing_that_a_row_was_answered_with() {
    let place = place(&["a", "b"]);
    let hostile = "x ##[add-mask]y";
    let server = serve(move |talk| match row(talk) {
        "a" => Reaction::text_reply(hostile),
        _ => Reaction::json(400, &json!({ "error": { "message": "no ##[error]y" } })),
    });
    let finished = map(&place, &server, &[]).env("GITHUB_ACTIONS", "true").run().exits(1);
    assert!(!finished.stdout.contains("##["), "{}", finished.stdout);
    assert_eq!(parse(&finished.stdout)[0]["result"], hostile);
    let stderr = &finished.stderr;
    assert!(stderr.contains("##\\[error]y") && !stderr.contains("##["), "{stderr}");
}

#[test]
fn the_line_of_the_page_has_the_fields_of_a_line() {
    let place = place(&["a"]);
    let server = echo();
    let url = server.base_url();
    let model = format!("[models.m]\nbase_url = '{url}'\nprice = {{ input = 1, output = 2 }}\n");
    place.configure(&model);
    let printed = map(&place, &server, &[]).run().exits(0).stdout;
    let (_, example) = PAGE.split_once("```json\n").expect("the page has an example");
    let line = example.lines().next().expect("it has a line");
    let fields = |line: &str| -> Vec<String> {
        let line: Value = serde_json::from_str(line).expect("it is JSON");
        let object = line.as_object().expect("it is an object");
        let usage = line["usage"].as_object().expect("it is an object");
        object.keys().chain(usage.keys()).cloned().collect()
    };
    assert_eq!(fields(&printed), fields(line));
    let named = |name: &String| PAGE.contains(&format!("`{name}`"));
    let missing: Vec<String> = fields(line).into_iter().filter(|name| !named(name)).collect();
    assert_eq!(missing, [""; 0], "the page explains each of them");
}
