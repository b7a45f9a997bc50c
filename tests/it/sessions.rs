//! What is kept of a session, and how it is found again.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::server::Reaction;
use crate::support::talk::serve_calls;
use crate::support::tine::Place;

const FIRST: &str = "0199a000-0000-7000-8000-000000000001";
const SECOND: &str = "0199b000-0000-7000-8000-000000000002";

/// Two sessions, the second with a batch.
fn two_sessions() -> Place {
    let place = Place::new();
    let run = |id: &str, prompt: &str, script: &Value| {
        let model = place.script(&format!("{id}.json"), script);
        place.tine(["-p", prompt, "-m", &model, "--session-id", id]).run().exits(0);
    };
    run(FIRST, "the first prompt", &json!({ "units": { "main": [{ "text": "one" }] } }));
    let task = json!({ "description": "look", "prompt": "p", "subagent_type": "explore" });
    run(
        SECOND,
        "the second prompt",
        &json!({ "units": {
        "main": [
            { "calls": [{ "name": "Agent", "arguments": { "tasks": [task] } }] },
            { "text": "two" },
        ],
        "look": [{ "text": "I looked." }],
    } }),
    );
    place
}

#[test]
fn sessions_are_listed_newest_first() {
    let place = two_sessions();
    let finished = place.tine(["sessions"]).run().exits(0);
    let lines: Vec<_> = finished.stdout.lines().collect();
    let [newest, oldest] = lines[..] else { panic!("{}", finished.stdout) };
    let work = place.work();
    for (line, id, prompt) in
        [(newest, SECOND, "the second prompt"), (oldest, FIRST, "the first prompt")]
    {
        assert!(line.starts_with(id) && line.ends_with(prompt), "{line}");
        assert!(line.contains("  ended ") && line.contains(work.to_str().unwrap()), "{line}");
    }
}

#[test]
fn no_sessions_is_no_error() {
    let finished = Place::new().tine(["sessions"]).run().exits(0);
    assert_eq!(finished.stdout, "");
    assert!(finished.stderr.starts_with("no sessions yet"), "{}", finished.stderr);
}

#[test]
fn a_session_is_shown_by_its_id_or_the_beginning_of_it() {
    let place = two_sessions();
    let show = |id: &str| place.tine(["session", "show", id]).run().exits(0).stdout;
    let text = show(SECOND);
    for part in ["the second prompt", "agent-1 (look)", "I looked.", "two", "invocation 1 done"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert_eq!(show("0199b"), text);
    assert!(show("0199A").contains("the first prompt"));
}

#[test]
fn a_session_is_shown_as_its_log_if_asked_for() {
    let place = two_sessions();
    let finished = place.tine(["session", "show", FIRST, "--format", "jsonl"]).run().exits(0);
    let kinds: Vec<_> = finished
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["kind"].clone())
        .collect();
    let expected = [
        "session_opened",
        "invocation_started",
        "prompted",
        "turn_started",
        "replied",
        "invocation_ended",
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn an_id_that_means_none_or_several_is_bad_input() {
    let place = two_sessions();
    let said = "error: no session `zzz`\nhint: `tine sessions` lists all of them\n";
    place.tine(["session", "show", "zzz"]).run().refuses(42, said);
    let said = format!(
        "error: `0199` could be any of 2 sessions\n  {FIRST}\n  {SECOND}\nhint: give more of the id\n"
    );
    place.tine(["session", "show", "0199"]).run().refuses(42, &said);
}

/// Checks that only the owner can look at anything below.
fn check_private(path: &Path) {
    let metadata = fs::symlink_metadata(path).expect("the session is there");
    let mode = metadata.permissions().mode() & 0o777;
    if metadata.is_dir() {
        assert_eq!(mode, 0o700, "{}", path.display());
        for entry in fs::read_dir(path).expect("its owner can read it") {
            check_private(&entry.expect("its owner can read it").path());
        }
    } else {
        assert_eq!(mode, 0o600, "{}", path.display());
    }
}

#[test]
fn nobody_else_can_read_what_is_kept() {
    let place = Place::new();
    let task = json!({ "description": "look", "prompt": "look", "subagent_type": "explore" });
    let server = serve_calls(
        &[("Agent", json!({ "tasks": [task] })), ("Bash", json!({ "command": "seq 10000" }))],
        |_| Reaction::text_reply(&"long ".repeat(1_000)),
    );
    place.ask(&server, &["--permission-mode", "bypassPermissions"]).exits(0);
    let [session] = &place.sessions()[..] else { panic!("one session") };
    assert!(fs::read_dir(session).unwrap().count() >= 4, "log, lock, an answer, an output");
    check_private(&place.home().join(".local/state/tine"));
}

#[test]
fn a_session_that_is_not_to_be_kept_leaves_nothing() {
    let place = Place::new();
    let temporary = place.root().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let script = json!({ "units": { "main": [
        { "calls": [{ "name": "Bash", "arguments": { "command": "seq 10000" } }] },
        { "text": "done" },
    ] } });
    let model = place.script("script.json", &script);
    let run = |flag: &[&str]| {
        let flags = ["-p", "go", "-m", &model, "--permission-mode", "bypassPermissions"];
        let tine = place.tine([&flags, flag].concat());
        tine.env("TMPDIR", temporary.to_str().unwrap()).run().exits(0);
    };
    run(&["--no-session-persistence"]);
    run(&["--config", "session.persist=false"]);
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
    assert_eq!(fs::read_dir(place.home()).unwrap().count(), 0);
    assert_eq!(fs::read_dir(place.work()).unwrap().count(), 0);
}

#[test]
fn the_log_tells_what_the_records_tell() {
    let place = two_sessions();
    let sessions = place.sessions();
    let log = fs::read_to_string(sessions[1].join("log.jsonl")).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let numbers: Vec<_> = lines.iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    let of_slot = lines
        .iter()
        .filter(|line| line["unit"] == "agent-1")
        .map(|line| line["kind"].as_str().unwrap());
    let expected =
        ["unit_queued", "unit_started", "prompted", "turn_started", "replied", "unit_ended"];
    assert_eq!(of_slot.collect::<Vec<_>>(), expected);
}
