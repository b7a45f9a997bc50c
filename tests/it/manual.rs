//! What the documents say about flags and records, held to the binary.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::tine::Place;

const README: &str = include_str!("../../README.md");
const JSON_PAGE: &str = include_str!("../../docs/json.md");

/// The run that the page's examples are from.
const RUN: [&str; 10] = [
    "--print",
    "What does price do?",
    "--model",
    "scripted:records.json",
    "--output-format=stream-json",
    "--include-partial-messages",
    "--forward-subagent-text",
    "--config",
    "agents.max_concurrent=1",
    "--no-session-persistence",
];

/// Flags of other programs that the README names.
const OTHER_FLAGS: [&str; 11] = [
    "--acp",
    "--from-pr",
    "--input-file",
    "--worktree",
    "--release",
    "--locked",
    "--no-default-features",
    "--path",
    "--enable-auto-tool-choice",
    "--tool-call-parser",
    "--jinja",
];

/// Runs the binary in a small project and returns what it prints.
fn tine(arguments: &[&str]) -> String {
    let place = Place::new();
    place.write("records.json", include_str!("../fixtures/records.json"));
    place.write("src/price.rs", "fn price() {}\n");
    // A hook that is asked once, at the end, and has something to say.
    let hook = r#"{ type = "command", command = "echo '{\"systemMessage\":\"look\"}'" }"#;
    place.configure(&format!("[[hooks.Stop]]\nhooks = [{hook}]\n"));
    place.tine(arguments).run().exits(0).stdout
}

/// Returns a value without what differs from run to run: keys and types stay,
/// and the words that say what a record is.
fn shape(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(name, value)| match (name.as_str(), value.as_str()) {
                    ("type" | "subtype" | "status" | "reason", Some(word)) => {
                        format!("{name}={word}")
                    }
                    _ => format!("{name}:{}", shape(value)),
                })
                .collect();
            format!("{{{}}}", fields.join(" "))
        }
        Value::Array(items) => {
            let items: BTreeSet<String> = items.iter().map(shape).collect();
            format!("[{}]", items.into_iter().collect::<Vec<_>>().join(" "))
        }
        Value::String(_) => "text".to_owned(),
        Value::Number(_) => "number".to_owned(),
        Value::Bool(_) => "truth".to_owned(),
        Value::Null => "null".to_owned(),
    }
}

fn shapes(lines: &str) -> BTreeSet<String> {
    lines.lines().map(|line| shape(&serde_json::from_str(line).expect("it is JSON"))).collect()
}

/// Returns what sort of record a shape is of.
fn kind(shape: &str) -> Vec<&str> {
    let words = shape.split([' ', '{', '}', '[', ']']);
    words.filter(|word| word.starts_with("type=") || word.starts_with("status=")).collect()
}

#[test]
fn the_examples_of_the_json_page_are_what_a_run_prints() {
    let printed = tine(&RUN);
    let real = shapes(&printed);
    // The last example is the end of a run that was interrupted.
    let (page, interrupted) = JSON_PAGE.rsplit_once("```json\n").expect("the page has examples");
    assert!(interrupted.contains("\"cancel_reason\":\"interrupt\""));
    let examples: Vec<&str> = page.lines().filter(|line| line.starts_with("{\"")).collect();
    let shown = shapes(&examples.join("\n"));
    let made_up: Vec<_> = shown.difference(&real).collect();
    assert!(made_up.is_empty(), "no run prints {made_up:#?}");
    let kinds = |shapes: &BTreeSet<String>| -> BTreeSet<String> {
        shapes.iter().map(|shape| kind(shape).join(" ")).collect()
    };
    assert_eq!(kinds(&shown), kinds(&real));
    // What there is to call and to type is the same everywhere.
    let opens = |line: &&str| line.contains(r#""subtype":"init""#);
    let offered = |line: Option<&str>| {
        let record: Value = serde_json::from_str(line.expect("a run opens")).expect("it is JSON");
        ["tools", "slash_commands", "agents", "skills"].map(|field| record[field].clone())
    };
    let page = examples.into_iter().find(opens);
    assert_eq!(offered(page), offered(printed.lines().find(opens)));
}

#[test]
fn the_example_of_a_listing_is_what_a_listing_prints() {
    let place = Place::new();
    place.tine(["-p", "go", "-m", "offline", "-n", "retry logic"]).run().exits(0);
    let listed = place.tine(["sessions", "--json"]).run().exits(0).stdout;
    let (_, example) = JSON_PAGE.rsplit_once("```jsonl\n").expect("the page has the example");
    let (example, _) = example.split_once("```").expect("the example has an end");
    // The order of the fields, too.
    let keys = |line: &str| -> Vec<String> {
        let fields = line.split(",\"").map(|field| field.split("\":").next().unwrap_or_default());
        fields.map(|name| name.trim_start_matches("{\"").to_owned()).collect()
    };
    assert_eq!(shapes(&listed), shapes(example));
    assert_eq!(keys(&listed), keys(example));
}

#[test]
fn the_conversation_of_a_program_is_as_the_json_page_shows_it() {
    let (_, section) = JSON_PAGE.split_once("# A program that answers\n").expect("it is there");
    let blocks: Vec<&str> = section.split("```jsonl\n").skip(1).take(2).collect();
    let [said, heard] = blocks[..] else { panic!("there are both sides") };
    let lines = |block: &'static str| block.split("```").next().unwrap_or_default().lines();
    let place = Place::new();
    let call = serde_json::json!({"name": "Bash", "arguments": {"command": "cargo test"}});
    let script = serde_json::json!({"units": {"main": [{"calls": [call]}, {"text": "done"}]}});
    let model = place.script("tests.json", &script);
    let flags = ["--input-format", "stream-json", "-o", "stream-json", "-m", &model];
    let mut running = place.tine(flags).silent_stdin().start();
    let mut real = BTreeSet::new();
    let mut until = |running: &mut crate::support::tine::Running, kind: &str| {
        running.read_until(|record| {
            if record["type"].as_str().is_some_and(|kind| kind.starts_with("control_")) {
                real.insert(shape(record));
            }
            record["type"] == kind
        })
    };
    // What each of them is followed by.
    let then = ["control_response", "control_request", "result", "control_response"];
    let then = then.into_iter().chain(std::iter::repeat("control_response"));
    for (line, then) in lines(said).zip(then) {
        running.say(line);
        until(&mut running, then);
    }
    running.hang_up();
    running.wait().exits(0);
    assert!(place.read("tests.txt").is_some(), "the changed call has run");
    assert_eq!(shapes(&lines(heard).collect::<Vec<_>>().join("\n")), real);
}

/// Returns the words of a text that look like long flags.
fn flags(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    let is_flag = |word: &&str| {
        word.strip_prefix("--").is_some_and(|name| name.starts_with(|c: char| c.is_alphabetic()))
    };
    words.filter(is_flag).collect()
}

#[test]
fn the_readme_names_every_flag_and_no_other() {
    let commands = [
        "",
        "review ",
        "sandbox ",
        "models ",
        "sessions list ",
        "sessions search ",
        "sessions rename ",
        "sessions delete ",
        "sessions prune ",
        "session show ",
        "session export ",
        "session usage ",
        "permissions ",
        "permissions check ",
        "trust ",
        "session revert ",
        "flow check ",
        "flow show ",
        "flow run ",
        "map ",
        "trace ",
        "worker ",
        "workers ",
    ];
    let help = commands
        .map(|command| tine(&format!("{command}--help").split(' ').collect::<Vec<_>>()))
        .join("\n");
    let mut real = flags(&help);
    real.extend(OTHER_FLAGS);
    let named = flags(README);
    let missing: Vec<_> = real.difference(&named).collect();
    let made_up: Vec<_> = named.difference(&real).collect();
    assert!(missing.is_empty(), "the README does not name {missing:?}");
    assert!(made_up.is_empty(), "there is no flag {made_up:?}");
}
