//! `tine map` through the binary: tables, lines, failures, signals, and maps that
//! go on.

use std::collections::BTreeMap;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::server::{Gate, Reaction, Server};
use crate::support::talk::{Talk, serve};
use crate::support::tine::{Finished, Place, Tine};

const PAGE: &str = include_str!("../../docs/map.md");

const SESSION: &str = "0199a000-0000-7000-8000-000000000001";

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

/// Which row each request was about, and how often.
fn counts(servers: Vec<Server>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for request in servers.into_iter().flat_map(Server::finish) {
        *counts.entry(row(&Talk::of(&request)).to_owned()).or_default() += 1;
    }
    counts
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
    assert!(summary.starts_with("3 of 3 rows, 3 completed · "), "{summary}");
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
    assert!(finished.stderr.contains("3 of 3 rows, 2 completed, 1 failed"), "{}", finished.stderr);
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
    let run = map(&place, &echo(), &["--agent", "explroe"]).run().exits(2);
    assert!(run.stderr.starts_with("error: there is no agent `explroe`\nhint: "), "{}", run.stderr);
}

#[test]
fn a_row_that_takes_too_long_fails_alone() {
    let place = place(&["a", "b"]);
    let server = serve(|talk| match row(talk) {
        "a" => Reaction::Hang,
        path => Reaction::text_reply(path),
    });
    let finished = map(&place, &server, &["--timeout", "1s"]).run().exits(1);
    let lines = parse(&finished.stdout);
    assert_eq!((&lines[0]["status"], &lines[1]["status"]), (&json!("failed"), &json!("completed")));
    assert!(lines[0]["error"].as_str().is_some_and(|error| error.starts_with("timeout: ")));
}

/// Checks that a map is refused before anything is asked or kept.
#[track_caller]
fn refuses(place: &Place, flags: &[&str], code: i32, said: &str) {
    let server = echo();
    map(place, &server, flags).run().refuses(code, said);
    assert!(server.finish().is_empty() && place.sessions().is_empty());
}

#[test]
fn what_cannot_be_mapped_is_refused_with_its_line_before_anything_is_asked() {
    let place = place(&["a"]);
    place.write("bad.csv", "path,b\n1,2\n3\n");
    place.write("bad.jsonl", "{\"path\":1}\n{\"pat\":1}\n");
    refuses(&place, &["--input", "bad.csv"], 42, {
        "error: `bad.csv`: line 3: the row has 1 field, and the first line names 2 columns\n"
    });
    refuses(&place, &["--input", "bad.jsonl"], 42, {
        "error: `p.md`: it names `path`, which the row of line 2 has not\n"
    });
    refuses(&place, &["--input", "none.csv"], 42, {
        "error: cannot read `none.csv`: No such file or directory (os error 2)\n"
    });
    place.write("p.md", "Look at {{ pth }}");
    refuses(&place, &[], 42, "error: `p.md`: there is no column `pth`; there are `path`\n");
    place.write("p.md", "Look at path");
    refuses(&place, &[], 42, {
        "error: `p.md`: the prompt names no column, so every row would be asked the same; there \
         are `path`\n"
    });
    place.write("p.md", PROMPT);
    let run = map(&place, &echo(), &["--schema", "{\"type\":7}"]).run().exits(42);
    let said = "error: `--schema` is no JSON Schema that can be used: ";
    assert!(run.stderr.starts_with(said), "{}", run.stderr);
}

#[test]
fn flags_that_a_map_has_no_use_for_are_refused_with_what_to_do() {
    let place = place(&["a"]);
    refuses(&place, &["--retry-failed"], 2, {
        "error: `--retry-failed` needs a session to go on with\n\
         hint: add `--resume SESSION` or `--continue`\n"
    });
    place.write("out.jsonl", "mine\n");
    refuses(&place, &["--output", "out.jsonl"], 42, {
        "error: there is something in `out.jsonl`\n\
         hint: name another file, or go on with its session: `--resume SESSION`\n"
    });
    assert_eq!(place.read("out.jsonl").as_deref(), Some("mine\n"));
    // A result of its own stands on standard output in these formats.
    let run = map(&place, &echo(), &["-o", "json"]).run().exits(2);
    let expected = "error: a map's output is a line for each row\n\
                    hint: `--json-file FILE` takes the records of its run besides\n";
    assert_eq!(run.stderr, expected);
    assert!(place.sessions().is_empty());
}

/// The rows that have ended well by a log.
fn done(place: &Place) -> Vec<String> {
    let log = place.log();
    let mut names = BTreeMap::new();
    for line in log.iter().filter(|line| line["kind"] == "unit_queued") {
        let name = line["body"]["description"].as_str().expect("it is a text");
        let index = name.trim_start_matches("rows[").trim_end_matches(']');
        names.insert(line["unit"].to_string(), format!("r{index}"));
    }
    let ended = log.iter().filter(|line| line["kind"] == "unit_ended");
    let done = ended.filter(|line| line["body"]["outcome"]["state"] == "done");
    done.filter_map(|line| names.get(&line["unit"].to_string()).cloned()).collect()
}

#[track_caller]
fn check_all_completed(place: &Place, count: usize) {
    let lines = short(&place.read("out.jsonl").expect("it was written"));
    let expected = (0..count)
        .map(|index| json!([(index + 1).to_string(), "completed", format!("saw r{index}")]));
    assert_eq!(lines, expected.collect::<Vec<_>>());
}

const KEPT: [&str; 6] = ["--output", "out.jsonl", "--max-concurrent", "4", "--session-id", SESSION];

const GONE_ON: [&str; 6] = ["--output", "out.jsonl", "--max-concurrent", "4", "--resume", SESSION];

#[test]
fn a_map_that_is_killed_goes_on_and_runs_no_row_twice_whose_result_is_on_disk() {
    for killed_at in [1, 9, 22, 40] {
        let place = rows(40);
        let first = echo();
        let running = map(&place, &first, &KEPT).start();
        first.wait_until_came(killed_at);
        running.signal(Signal::SIGKILL);
        drop(running.wait());
        let done = done(&place);
        let lines = parse(&place.read("out.jsonl").unwrap_or_default());
        assert!(lines.len() <= done.len(), "a line is written behind the log");
        let second = echo();
        map(&place, &second, &GONE_ON).run().exits(0);
        check_all_completed(&place, 40);
        let counts = counts(vec![first, second]);
        assert_eq!(counts.len(), 40);
        assert!(done.iter().all(|row| counts[row] == 1), "{killed_at}: {done:?} {counts:?}");
        assert!(counts.values().sum::<usize>() <= 44, "only those at work run again: {counts:?}");
    }
}

#[test]
fn rows_that_were_at_work_and_those_behind_them_run_when_a_killed_map_goes_on() {
    let place = rows(12);
    let gate = Gate::closed();
    let held = gate.clone();
    let first = serve(move |talk| {
        let answer = Reaction::text_reply(&format!("saw {}", row(talk)));
        let number: usize = row(talk)[1..].parse().expect("rows are numbered");
        if number < 5 { answer } else { answer.behind(&held) }
    });
    let running = map(&place, &first, &KEPT).start();
    // Each row beyond the first four has a place because another's end is on disk.
    first.wait_until_came(9);
    running.signal(Signal::SIGKILL);
    drop(running.wait());
    let second = echo();
    map(&place, &second, &GONE_ON).run().exits(0);
    check_all_completed(&place, 12);
    let lines = parse(&place.read("out.jsonl").expect("it was written"));
    let from_before = |line: &Value| line["from_before"] == true;
    let expected: Vec<bool> = (0..12).map(|index| index < 5).collect();
    assert_eq!(lines.iter().map(from_before).collect::<Vec<_>>(), expected);
    // Also what they used, though it was not in this process.
    assert!(lines.iter().all(|line| line["usage"]["input_tokens"] == 10 && line["turns"] == 1));
    let counts = counts(vec![first, second]);
    let twice: Vec<&str> =
        counts.iter().filter(|(_, count)| **count == 2).map(|(row, _)| &**row).collect();
    assert_eq!((counts.len(), twice), (12, vec!["r5", "r6", "r7", "r8"]));
}

#[test]
fn rows_that_failed_run_again_only_where_that_is_wanted() {
    let place = rows(3);
    let failing = || {
        serve(|talk| match row(talk) {
            "r1" => Reaction::json(400, &json!({ "error": { "message": "no" } })),
            path => Reaction::text_reply(&format!("saw {path}")),
        })
    };
    let first = failing();
    let before = map(&place, &first, &KEPT).run().exits(1);
    assert!(before.stderr.contains("--retry-failed"), "{}", before.stderr);
    let lines = parse(&place.read("out.jsonl").expect("it was written"));
    let second = echo();
    let again = map(&place, &second, &GONE_ON).run().exits(1);
    assert!(
        again.stderr.contains("3 of 3 rows, 2 completed, 1 failed (3 before)"),
        "{}",
        again.stderr
    );
    assert!(second.finish().is_empty());
    let mut expected = lines;
    expected.iter_mut().for_each(|line| line["from_before"] = json!(true));
    assert_eq!(parse(&place.read("out.jsonl").expect("it was written")), expected);
    let third = echo();
    map(&place, &third, &[&GONE_ON[..], &["--retry-failed"]].concat()).run().exits(0);
    check_all_completed(&place, 3);
    assert_eq!(counts(vec![third]), BTreeMap::from([("r1".to_owned(), 1)]));
}

#[test]
fn a_map_that_is_interrupted_has_a_line_for_each_row_and_goes_on() {
    let place = rows(8);
    let first = serve(|talk| match row(talk) {
        "r0" => Reaction::text_reply("saw r0"),
        _ => Reaction::Hang,
    });
    let running = map(&place, &first, &KEPT).start();
    first.wait_until_came(5);
    running.signal(Signal::SIGINT);
    let Finished { stderr, .. } = running.wait().exits(130);
    assert!(stderr.contains("8 of 8 rows, 1 completed, 7 not done"), "{stderr}");
    let hint = format!("hint: the same command with `--resume {SESSION}` goes on with the rest");
    assert_eq!(stderr.lines().last(), Some(&*hint));
    let lines = parse(&place.read("out.jsonl").expect("it was written"));
    let status: Vec<&str> = lines.iter().filter_map(|line| line["status"].as_str()).collect();
    let expected = ["completed", "cancelled", "cancelled", "cancelled", "cancelled", "skipped"];
    assert_eq!(status[..6], expected);
    assert_eq!(status[6..], ["skipped", "skipped"]);
    map(&place, &echo(), &GONE_ON).run().exits(0);
    check_all_completed(&place, 8);
}

#[test]
fn a_row_that_was_edited_runs_again_and_a_session_of_another_sort_is_no_map() {
    let place = rows(3);
    map(&place, &echo(), &KEPT).run().exits(0);
    place.write("items.csv", "path\nr0\nnew\nr2\n");
    let server = echo();
    map(&place, &server, &GONE_ON).run().exits(0);
    assert_eq!(counts(vec![server]), BTreeMap::from([("new".to_owned(), 1)]));
    let other = Place::new();
    other.write("p.md", PROMPT);
    other.write("items.csv", "path\na\n");
    other.tine(["-p", "go", "-m", "offline", "--session-id", SESSION]).run().exits(0);
    let run = map(&other, &echo(), &["--resume", SESSION]).run().exits(42);
    let expected = format!("error: session `{SESSION}` is no map\n");
    assert!(run.stderr.starts_with(&expected), "{}", run.stderr);
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
