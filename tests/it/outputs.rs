//! Calls that cannot do what they ask for: each has an output that the model
//! can act on, and the run goes on.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use serde_json::{Value, json};

use crate::support::server::{Reaction, events};
use crate::support::talk::{serve, serve_calls, shown};
use crate::support::tine::Place;

/// Makes one call and returns its output, which main's next request and the
/// records agree on, and whether it is an error.
fn output_with(place: &Place, call: (&str, Value), flags: &[&str]) -> (String, bool) {
    let server = serve_calls(&[call], |_| Reaction::Close);
    let flags = [&["-o", "stream-json"], flags].concat();
    let records = place.ask(&server, &flags).exits(0).records();
    let [record] = &records.outputs()[..] else { panic!("one call, one output") };
    assert_eq!(shown(&server.finish()), [record.text.as_str()]);
    (record.text.clone(), record.is_error)
}

fn output(place: &Place, call: (&str, Value)) -> (String, bool) {
    output_with(place, call, &[])
}

fn read(path: &str) -> (&'static str, Value) {
    ("Read", json!({ "file_path": path }))
}

#[track_caller]
fn check(place: &Place, call: (&str, Value), text: &str, is_error: bool) {
    assert_eq!(output(place, call), (text.to_owned(), is_error));
}

#[test]
fn a_tool_that_is_not_there_is_answered_with_those_there_are() {
    let tools = tine::tool_name::KNOWN.join(", ");
    let expected = format!("Tool \"Browse\" not found. Available tools: {tools}");
    check(&Place::new(), ("Browse", json!({})), &expected, true);
}

#[test]
fn arguments_that_are_wrong_are_told_back() {
    let place = Place::new();
    let path = "Parameter \"file_path\" must be a non-empty string.";
    check(&place, ("Read", json!({})), path, true);
    check(&place, ("Read", json!({ "file_path": 7 })), path, true);
    let limit = json!({ "file_path": "a", "limit": "many" });
    let expected = "Parameter \"limit\" must be a whole number of 0 or more.";
    check(&place, ("Read", limit), expected, true);
    let list = "The arguments must be a JSON object, but were: [1]";
    check(&place, ("Read", json!([1])), list, true);
    let (text, is_error) = output(&place, ("Grep", json!({ "pattern": "(" })));
    assert!(is_error && text.contains('('), "{text}");
}

#[test]
fn arguments_that_are_no_json_are_told_back_and_the_run_goes_on() {
    let delta = json!({ "tool_calls": [{ "index": 0, "id": "c",
        "function": { "name": "Read", "arguments": "{\"file_path\": \"a" } }] });
    let calling = events([
        &json!({ "choices": [{ "index": 0, "delta": delta }] }),
        &json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "tool_calls" }] }),
    ]);
    let server = serve(move |talk| match talk.turn() {
        1 => Reaction::stream(calling.clone()),
        _ => Reaction::text_reply("done"),
    });
    let finished = Place::new().ask(&server, &[]).exits(0);
    assert_eq!(finished.stdout, "done\n");
    let outputs = shown(&server.finish());
    assert!(outputs[0].starts_with("The arguments are not valid JSON ("), "{outputs:?}");
    assert!(outputs[0].ends_with("They began: {\"file_path\": \"a"), "{outputs:?}");
}

#[test]
fn a_file_that_is_not_there_is_answered_with_the_nearest_name() {
    let place = Place::new();
    place.write("src/main.rs", "fn main() {}\n");
    let expected = "There is no file src/mian.rs. Did you mean src/main.rs?";
    check(&place, read("src/mian.rs"), expected, true);
    check(&place, read("nothing/like/it"), "There is no file nothing/like/it.", true);
}

#[test]
fn what_is_no_text_file_is_named_for_what_it_is() {
    let place = Place::new();
    place.write("a.out", b"\x7fELF\x02\x01\x01\0");
    check(&place, read("a.out"), "a.out is a binary file of 8 bytes.", true);
    place.write("dir/file", "");
    let expected = "dir is a directory. Use Glob with \"path\": \"dir\" to see its files.";
    check(&place, read("dir"), expected, true);
    check(&place, read("dir/file"), "dir/file is empty.", false);
}

/// A gigabyte that takes no room on the disk, with a line at its start.
#[test]
fn a_huge_file_costs_no_more_than_the_page_that_is_shown() {
    let place = Place::new();
    let path = place.write("huge.log", "the first line\n".repeat(1_000));
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_len(1024 * 1024 * 1024).unwrap();
    let page = ("Read", json!({ "file_path": "huge.log", "limit": 1 }));
    let note = "[Lines 1 to 1 are shown; more follow. Go on with \"offset\": 2.]\n";
    check(&place, page, &format!("     1\tthe first line\n{note}"), false);
    let sparse = place.write("zeros", "");
    std::fs::File::options().write(true).open(sparse).unwrap().set_len(1 << 30).unwrap();
    check(&place, read("zeros"), "zeros is a binary file of 1073741824 bytes.", true);
}

#[test]
fn bytes_that_are_no_utf_8_are_shown_as_such_and_stay_when_edited() {
    let place = Place::new();
    let path = place.write("latin.txt", b"caf\xe9\nbar\n");
    let note = "[Bytes that are not UTF-8 are shown as \u{fffd}.]\n";
    let expected = format!("     1\tcaf\u{fffd}\n     2\tbar\n{note}");
    check(&place, read("latin.txt"), &expected, false);
    let edit = json!({ "file_path": "latin.txt", "old_string": "bar", "new_string": "baz" });
    let server = serve_calls(&[read("latin.txt"), ("Edit", edit)], |_| Reaction::Close);
    place.ask(&server, &["--permission-mode", "acceptEdits"]).exits(0);
    assert_eq!(std::fs::read(path).unwrap(), b"caf\xe9\nbaz\n", "{:?}", shown(&server.finish()));
}

/// The name that Glob shows for the file is a name that Read takes.
#[test]
fn a_file_whose_name_is_no_utf_8_can_be_found_and_read() {
    let place = Place::new();
    let path = place.work().join(OsStr::from_bytes(b"caf\xe9.txt"));
    if std::fs::write(&path, "the text\n").is_err() {
        // A file system that has only UTF-8 names has no such file.
        return;
    }
    let (listed, is_error) = output(&place, ("Glob", json!({ "pattern": "*.txt" })));
    assert!(!is_error, "{listed}");
    let name = listed.lines().next().unwrap();
    check(&place, read(name), "     1\tthe text\n", false);
}

#[test]
fn a_working_directory_whose_name_is_no_utf_8_is_worked_in() {
    let place = Place::new();
    let directory = place.work().join(OsStr::from_bytes(b"caf\xe9"));
    if std::fs::create_dir(&directory).is_err() {
        return;
    }
    std::fs::write(directory.join("a.txt"), "inside\n").unwrap();
    let server = serve_calls(&[read("a.txt")], |_| Reaction::Close);
    place.asking(&server, &[]).at(&directory).run().exits(0);
    assert_eq!(shown(&server.finish()), ["     1\tinside\n"]);
    assert!(place.tine(["sessions"]).run().exits(0).stdout.contains("caf"));
}

#[test]
fn a_command_that_floods_one_slot_is_ended_and_the_others_finish() {
    let task = |name: &str| json!({ "description": name, "prompt": name, "subagent_type": "general-purpose" });
    let tasks: Vec<_> = ["flood", "a", "b", "c"].map(task).into();
    let server = serve_calls(&[("Agent", json!({ "tasks": tasks }))], |talk| {
        match (talk.task(), talk.turn()) {
            ("flood", 1) => Reaction::call_reply(&[("Bash", json!({ "command": "yes" }))]),
            ("flood", _) => Reaction::text_reply(talk.outputs()[0].lines().last().unwrap()),
            (task, _) => Reaction::text_reply(&format!("I did {task}.")),
        }
    });
    let place = Place::new();
    place.ask(&server, &["--allowed-tools", "Bash(yes)"]).exits(0);
    let outputs = shown(&server.finish());
    let ended = "[More than 64 MiB of output; the command and all it started were ended.]";
    let sections: Vec<_> = outputs[0].split("\n\n---\n\n").collect();
    assert_eq!(sections[0], format!("## Task 1: flood (general-purpose)\n\n{ended}"));
    assert_eq!(sections[3], "## Task 4: c (general-purpose)\n\nI did c.");
}

#[test]
fn long_output_is_cut_and_a_file_has_the_rest() {
    let place = Place::new();
    let call = ("Bash", json!({ "command": "seq 100000" }));
    let (text, is_error) = output_with(&place, call, &["--allowed-tools", "Bash(seq *)"]);
    assert!(!is_error && text.chars().count() <= 16_000, "{} bytes", text.len());
    assert!(text.starts_with("1\n2\n") && text.ends_with("99999\n100000\n"), "{text}");
    let file = text.split("the whole text is in ").nth(1).unwrap().split(" ...]").next().unwrap();
    assert_eq!(std::fs::read_to_string(file).unwrap().lines().count(), 100_000);
}

#[test]
fn a_command_that_fails_is_an_error_with_its_exit_code() {
    let call = ("Bash", json!({ "command": "ls /none/such" }));
    let (text, is_error) = output_with(&Place::new(), call, &["--allowed-tools", "Bash(ls *)"]);
    assert!(is_error && text.contains("exit code"), "{text}");
}

#[test]
fn an_edit_of_a_file_that_was_not_read_or_has_changed_is_refused() {
    let place = Place::new();
    place.write("a.txt", "one\n");
    let accept = ["--permission-mode", "acceptEdits"];
    let write = ("Write", json!({ "file_path": "a.txt", "content": "two\n" }));
    let (text, is_error) = output_with(&place, write, &accept);
    assert!(is_error && text.contains("a.txt"), "{text}");
    let edit = json!({ "file_path": "a.txt", "old_string": "none", "new_string": "two" });
    let (text, is_error) = output_with(&place, ("Edit", edit), &accept);
    assert!(is_error && text.contains("a.txt"), "{text}");
    assert_eq!(place.read("a.txt").as_deref(), Some("one\n"));
}
