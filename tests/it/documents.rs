//! Sessions as text, lines and documents: whole, one strand of them, cut off.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::server::Reaction;
use crate::support::talk::serve;
use crate::support::tine::{Finished, Place};

const ID: &str = "0199a000-0000-7000-8000-000000000001";

/// A session with a batch of two, the second with an agent of its own.
fn batch(place: &Place) -> PathBuf {
    let task = |name: &str| json!({ "description": name, "prompt": name, "subagent_type": "general-purpose" });
    let agents = |names: &[&str]| {
        let tasks: Vec<Value> = names.iter().map(|name| task(name)).collect();
        json!({ "calls": [{ "name": "Agent", "arguments": { "tasks": tasks } }] })
    };
    let script = json!({ "units": {
        "main": [agents(&["orch", "orchestra"]), { "text": "main is done" }],
        "orch": [{ "text": "orch is done" }],
        "orchestra": [agents(&["violin"]), { "text": "orchestra is done" }],
        "violin": [{ "text": "violin is done\u{1b}[2J\n```\nopen" }],
    } });
    place.play(&script, &["--session-id", ID, "--config", "agents.max_concurrent=1"]).exits(0);
    place.sessions().remove(0)
}

fn show(place: &Place, flags: &[&str]) -> Finished {
    place.tine(["session", "show", ID].iter().chain(flags)).run()
}

/// Checks in every format whether main's end is shown, and what of which agent.
#[track_caller]
fn check_branch(place: &Place, branch: &str, main: bool, agents: [bool; 3]) {
    for (format, before, behind) in [
        ("text", "  agent-", " ("),
        ("jsonl", "\"unit\":\"agent-", "\""),
        ("md", "### agent-", ": "),
    ] {
        let shown = show(place, &["--branch", branch, "--format", format]).exits(0).stdout;
        assert_eq!(shown.contains("main is done"), main, "{branch} {format}\n{shown}");
        let is_shown = |number| shown.contains(&format!("{before}{number}{behind}"));
        assert_eq!([1, 2, 3].map(is_shown), agents, "{branch} {format}\n{shown}");
    }
}

#[test]
fn a_branch_shows_what_its_path_or_its_tokens_see() {
    let place = Place::new();
    batch(&place);
    check_branch(&place, "main", true, [false, false, false]);
    check_branch(&place, "main.orch", true, [true, false, false]);
    check_branch(&place, "main.orchestra", true, [false, true, false]);
    check_branch(&place, "main.orchestra.violin", true, [false, true, true]);
    // What main does after its agents came back has the tokens of all.
    check_branch(&place, "", false, [false, false, false]);
    check_branch(&place, "1", false, [true, false, false]);
    check_branch(&place, "3,2", false, [false, true, true]);
    check_branch(&place, "1-3", true, [true, true, true]);
}

#[test]
fn the_lines_of_a_branch_are_those_of_the_log() {
    let place = Place::new();
    let log = fs::read_to_string(batch(&place).join("log.jsonl")).unwrap();
    let shown = show(&place, &["--branch", "main.orch", "--format", "jsonl"]).exits(0).stdout;
    let is_seen = |line: &&str| {
        let path = &serde_json::from_str::<Value>(line).unwrap()["path"];
        path == "main" || path == "main.orch"
    };
    let expected: Vec<_> = log.lines().filter(is_seen).collect();
    assert_eq!(shown.lines().collect::<Vec<_>>(), expected);
    assert!(expected.len() < log.lines().count());
}

#[test]
fn a_branch_that_is_nowhere_is_refused_with_those_that_are_there() {
    let place = Place::new();
    batch(&place);
    let said = "error: there is no branch `main.orc` in this session\n\
                hint: there are: `main`, `main.orch`, `main.orchestra`, `main.orchestra.violin`\n";
    for format in ["text", "jsonl", "md"] {
        show(&place, &["--branch", "main.orc", "--format", format]).refuses(42, said);
    }
    let said = "error: `3-1` is not a token set such as `1-3,5`\n\
                hint: a branch is a set of tokens, or a path such as `main.review`\n";
    show(&place, &["--branch", "3-1"]).refuses(42, said);
}

#[test]
fn a_document_has_a_title_facts_and_a_part_for_each_agent() {
    let place = Place::new();
    batch(&place);
    place.tine(["sessions", "rename", ID, "Nightly"]).run().exits(0);
    let document = show(&place, &["--format", "md"]).exits(0).stdout;
    // What the agents' outputs say has headings of its own.
    let is_heading = |line: &&str| line.starts_with('#') && !line.starts_with("## Task");
    let headings: Vec<_> = document.lines().filter(is_heading).collect();
    let expected = [
        "# Nightly",
        "## Prompt 1",
        "### agent-1: orch (general-purpose)",
        "### agent-3: violin (general-purpose), for agent-2",
        "### agent-2: orchestra (general-purpose)",
        "### main",
    ];
    assert_eq!(headings, expected);
    let work = place.work();
    for part in [
        &format!("- session: `{ID}`\n- directory: `{}`\n- model: `scripted:", work.display()),
        "\n> go\n",
        "\n`Agent 2 tasks`\n",
        "\norch is done\n",
        "\nviolin is done[2J\n```\nopen\n```\n",
        "\n### main\n\n`Agent 2 tasks` took ",
        "\n\nmain is done\n",
    ] {
        assert!(document.contains(part), "{part} is missing in\n{document}");
    }
    assert!(!document.contains('\u{1b}'));
}

#[test]
fn an_export_is_a_new_file_for_the_user_alone() {
    let place = Place::new();
    let log = fs::read(batch(&place).join("log.jsonl")).unwrap();
    let export =
        |flags: &[&str]| place.tine(["session", "export", "0199a"].iter().chain(flags)).run();
    let finished = export(&["-o", "out.md"]).exits(0);
    let said = format!("session {ID} is in `out.md`\n");
    assert_eq!((&*finished.stdout, &*finished.stderr), ("", &*said));
    let mode = fs::metadata(place.work().join("out.md")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let document = show(&place, &["--format", "md"]).exits(0).stdout;
    assert_eq!(place.read("out.md"), Some(document.clone()));
    assert_eq!(export(&[]).exits(0).stdout, document);
    assert_eq!(export(&["--output", "-"]).exits(0).stdout, document);
    export(&["-o", "out.jsonl", "--format", "jsonl"]).exits(0);
    assert_eq!(fs::read(place.work().join("out.jsonl")).unwrap(), log);

    place.write("out.md", "mine");
    export(&["-o", "out.md"]).refuses(
        42,
        "error: `out.md` is there already\nhint: name another file, or remove that one first\n",
    );
    assert_eq!(place.read("out.md").as_deref(), Some("mine"));
    let nowhere = export(&["-o", "no/where.md"]).exits(42);
    assert!(
        nowhere.stderr.starts_with("error: cannot write `no/where.md`: "),
        "{}",
        nowhere.stderr
    );
}

#[test]
fn an_export_of_nothing_writes_nothing() {
    let place = Place::new();
    let finished = place.tine(["session", "export", "zzz", "-o", "out.md"]).run();
    finished.refuses(42, "error: no session `zzz`\nhint: `tine sessions` lists all of them\n");
    assert_eq!(place.read("out.md"), None);
    // A format for runs, which an export is not.
    place.tine(["-o", "json", "session", "export", "zzz"]).run().exits(2);
}

#[test]
fn what_a_killed_run_did_and_did_not_is_told() {
    let place = Place::new();
    let tasks: Vec<Value> = (1..=4)
        .map(|number| {
            let name = format!("slot {number}");
            json!({ "description": name, "prompt": name, "subagent_type": "explore" })
        })
        .collect();
    let call = Reaction::call_reply(&[("Agent", json!({ "tasks": tasks }))]);
    let server = serve(move |talk| match talk.task() {
        "go" => call.clone(),
        "slot 1" => Reaction::text_reply("I am done."),
        _ => Reaction::Hang,
    });
    let running =
        place.asking(&server, &["--session-id", ID, "--config", "agents.max_concurrent=2"]).start();
    server.wait_until_came(4);
    running.signal(Signal::SIGKILL);
    assert_eq!(running.wait().status.code(), None);

    assert!(place.tine(["sessions"]).run().exits(0).stdout.contains("  interrupted  "));
    let said = "interrupted: 1 done, 2 cut off (slot 2, slot 3), 1 never started (slot 4)";
    let text = show(&place, &[]).exits(0).stdout;
    assert!(text.ends_with(&format!("\n{said}\n")), "{text}");
    let strand = show(&place, &["--branch", "main.slot-2"]).exits(0).stdout;
    assert!(strand.ends_with(&format!("\n{said}\n")), "{strand}");
    let document = show(&place, &["--format", "md"]).exits(0).stdout;
    assert!(document.ends_with(&format!("\n---\n\n{said}\n\n")), "{document}");
}

#[test]
fn damaged_lines_are_reported_and_hide_nothing() {
    let place = Place::new();
    let path = batch(&place).join("log.jsonl");
    let log = fs::read_to_string(&path).unwrap();
    let later = "{\"seq\":9,\"at\":9,\"inv\":1,\"unit\":\"main\",\"branch\":\"\",\"path\":\"main\",\
                 \"kind\":\"later\",\"body\":{}}\n";
    fs::write(&path, format!("{}{later}{log}", "???\n".repeat(12))).unwrap();
    for format in ["text", "md"] {
        let shown = show(&place, &["--format", format]).exits(0);
        assert!(shown.stdout.contains("violin is done"), "{}", shown.stdout);
        let said: Vec<_> = shown.stderr.lines().collect();
        assert_eq!(said.len(), 12, "{said:?}");
        assert!(said[9].starts_with("warning: line 10 of the log cannot be read: "), "{said:?}");
        assert_eq!(said[10], "warning: 2 more lines cannot be read");
        assert_eq!(said[11], "note: 1 event of a later tine left out; `--format jsonl` has all");
    }
    let lines = show(&place, &["--branch", "main", "--format", "jsonl"]).exits(0);
    assert!(lines.stdout.lines().all(|line| line.starts_with("{\"")), "{}", lines.stdout);
    let whole = show(&place, &["--format", "jsonl"]).exits(0);
    assert_eq!(whole.stdout, fs::read_to_string(&path).unwrap());
}
