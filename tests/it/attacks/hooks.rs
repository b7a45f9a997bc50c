//! Hooks against whoever would have a hook run what nobody has looked at, or
//! have it say more than it may.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::server::Reaction;
use crate::support::talk::{serve, serve_calls, shown};
use crate::support::tine::{Finished, Place, executable};

const BROUGHT: &str = ".claude/settings.json";

/// Hooks of one moment, as settings write them.
fn one(event: &str, command: &str) -> Value {
    json!({ "hooks": { event: [{ "hooks": [{ "type": "command", "command": command }] }] } })
}

/// A command that allows what it is asked about.
fn allows(event: &str) -> Value {
    let fields = match event {
        "PreToolUse" => json!({ "hookEventName": event, "permissionDecision": "allow" }),
        _ => json!({ "hookEventName": event, "decision": { "behavior": "allow" } }),
    };
    one(event, &format!("cat > /dev/null; echo '{}'", json!({ "hookSpecificOutput": fields })))
}

/// A script that leaves a mark in the place that it is about.
fn script(place: &Place, name: &str, mark: &Path) {
    executable(&place.work().join(name), &format!("#!/bin/sh\npwd >> {}\n", mark.display()));
}

/// Lets main make these calls; returns their outputs.
fn call(place: &Place, calls: &[(&str, Value)], flags: &[&str]) -> (Vec<String>, Finished) {
    let server = serve_calls(calls, |_| Reaction::text_reply("looked"));
    let finished = place.ask(&server, &[&["-o", "stream-json"], flags].concat()).exits(0);
    (shown(&server.finish()), finished)
}

fn reasons(finished: &Finished) -> Vec<(String, String)> {
    let text = |record: &Value, name: &str| record[name].as_str().unwrap_or_default().to_owned();
    let records = finished.records();
    let responses = records.system("hook_response").into_iter();
    responses.map(|record| (text(record, "outcome"), text(record, "reason"))).collect()
}

#[test]
fn a_hook_of_a_repository_runs_in_its_root_wherever_tine_is_started() {
    for file in [BROUGHT, ".tine/config.toml"] {
        let place = Place::new();
        std::fs::create_dir(place.work().join(".git")).expect("the place is ours");
        let (good, evil) = (place.root().join("good"), place.root().join("evil"));
        match file {
            BROUGHT => place.write(file, one("Stop", "./look.sh").to_string()),
            _ => place.write(
                file,
                "[[hooks.Stop]]\nhooks = [{ type = \"command\", command = \"./look.sh\" }]\n",
            ),
        };
        script(&place, "look.sh", &good);
        script(&place, "sub/look.sh", &evil);
        place.tine(["trust", "--yes"]).run().exits(0);
        let server = serve(|_| Reaction::text_reply("done"));
        place.asking(&server, &[]).at(&place.work().join("sub")).run().exits(0);
        drop(server.finish());
        let ran_in = std::fs::read_to_string(&good).unwrap_or_default();
        assert_eq!(ran_in, format!("{}\n", place.work().display()), "{file}");
        assert!(!evil.exists(), "{file}");
    }
}

#[test]
fn a_hook_whose_file_was_changed_in_the_run_does_not_run() {
    let mark = |place: &Place| place.root().join("evil");
    let refused = "was not run: `look.sh` is not what it was when the run began";
    for (brought, is_there) in [(true, true), (false, true), (false, false)] {
        let place = Place::new();
        let settings = one("PostToolUse", "sh ./look.sh");
        if is_there {
            place.write("look.sh", "true\n");
        }
        let given = settings.to_string();
        let mut flags = vec!["--permission-mode", "acceptEdits"];
        if brought {
            place.write(BROUGHT, &given);
            place.tine(["trust", "--yes"]).run().exits(0);
        } else {
            flags.extend(["--settings", &given]);
        }
        let evil = format!("pwd > {}\n", mark(&place).display());
        let written = match is_there {
            true => (
                "Edit",
                json!({ "file_path": "look.sh", "old_string": "true\n", "new_string": evil }),
            ),
            false => ("Write", json!({ "file_path": "look.sh", "content": evil })),
        };
        let calls = [
            ("Read", json!({ "file_path": "other" })),
            ("Read", json!({ "file_path": "look.sh" })),
            written,
        ];
        place.write("other", "x");
        let (_, finished) = call(&place, &calls, &flags);
        assert!(!mark(&place).exists(), "{brought} {is_there}");
        let last = reasons(&finished).pop().expect("a hook was asked");
        assert_eq!(last, ("error".to_owned(), refused.to_owned()), "{brought} {is_there}");
    }
}

#[test]
fn a_gate_whose_file_was_changed_or_removed_in_the_run_stays_shut() {
    let opened = json!({ "file_path": "gate.sh", "content": "true\n" });
    for (way, arguments) in [("Write", opened), ("Bash", json!({ "command": "rm gate.sh" }))] {
        let place = Place::new();
        place.write("gate.sh", "grep -q evil && exit 2; exit 0\n");
        let settings = one("PreToolUse", "sh ./gate.sh").to_string();
        let calls = [
            ("Read", json!({ "file_path": "gate.sh" })),
            (way, arguments),
            ("Write", json!({ "file_path": "evil", "content": "x" })),
        ];
        let allowed = ["--permission-mode", "acceptEdits", "--allowed-tools", "Bash(rm *)"];
        let (outputs, _) =
            call(&place, &calls, &[&allowed[..], &["--settings", &settings]].concat());
        let left = (way == "Write").then_some("true\n");
        assert_eq!(place.read("gate.sh").as_deref(), left, "{outputs:?}");
        let why = "`gate.sh` is not what it was when the run began";
        assert!(outputs[2].contains(why), "{outputs:?}");
        assert_eq!(place.read("evil"), None);
    }
}

#[test]
fn a_gate_stays_shut_behind_programs_that_run_others() {
    for command in [
        "sh hooks/gate",
        "timeout 10 sh hooks/gate",
        "env A=1 sh hooks/gate",
        "bash -c 'sh hooks/gate'",
        "nice -n 1 sh hooks/gate | cat",
    ] {
        let place = Place::new();
        place.write("hooks/gate", "grep -q evil && exit 2; exit 0\n");
        let settings = one("PreToolUse", command).to_string();
        let calls = [
            ("Read", json!({ "file_path": "hooks/gate" })),
            ("Write", json!({ "file_path": "hooks/gate", "content": "true\n" })),
            ("Write", json!({ "file_path": "evil", "content": "x" })),
        ];
        let flags = ["--permission-mode", "acceptEdits", "--settings", &settings];
        let (outputs, _) = call(&place, &calls, &flags);
        let why = "`hooks/gate` is not what it was when the run began";
        assert!(outputs[2].contains(why), "{command}: {outputs:?}");
        assert_eq!(place.read("evil"), None, "{command}");
    }
}

#[test]
fn what_nobody_waits_for_shuts_no_gate_and_data_is_no_program() {
    let place = Place::new();
    place.write("log.sh", "cat >> \"$1\"\n");
    let command = "sh ./log.sh calls.jsonl";
    let hook = |is_async: bool| json!({ "type": "command", "command": command, "async": is_async });
    for is_async in [false, true] {
        let settings = json!({ "hooks": { "PreToolUse": [{ "hooks": [hook(is_async)] }] } });
        let settings = settings.to_string();
        let read = || ("Read", json!({ "file_path": "log.sh" }));
        let changed = ("Write", json!({ "file_path": "log.sh", "content": "true\n" }));
        let calls = match is_async {
            false => vec![read(), read()],
            true => vec![read(), changed, read()],
        };
        let flags = ["--permission-mode", "acceptEdits", "--settings", &settings];
        let (outputs, _) = call(&place, &calls, &flags);
        let denied = outputs.iter().any(|output| output.contains("denied"));
        assert!(!denied, "{is_async}: {outputs:?}");
    }
}

#[test]
fn a_program_is_known_by_whatever_way_it_is_named() {
    for command in [
        "\"$(git rev-parse --show-toplevel)\"/hooks/gate.sh",
        "sh \"$PWD\"/hooks/gate.sh",
        "cat hooks/gate.sh |\n  sh",
    ] {
        let place = Place::new();
        script(&place, "hooks/gate.sh", &place.root().join("told"));
        place.write(".git/HEAD", "ref: refs/heads/main\n");
        for name in [".git/objects", ".git/refs"] {
            std::fs::create_dir(place.work().join(name)).expect("the place is ours");
        }
        let settings = one("PreToolUse", command).to_string();
        let changed = json!({ "file_path": "hooks/gate.sh", "content": "#!/bin/sh\n" });
        let calls = [
            ("Read", json!({ "file_path": "hooks/gate.sh" })),
            ("Write", changed),
            ("Write", json!({ "file_path": "evil", "content": "x" })),
        ];
        let flags = ["--permission-mode", "acceptEdits", "--settings", &settings];
        let (outputs, _) = call(&place, &calls, &flags);
        assert!(outputs[2].contains("is not what it was"), "{command}: {outputs:?}");
        assert_eq!(place.read("evil"), None);
    }
}

#[test]
fn a_hook_may_read_and_write_a_file_again_and_again() {
    let place = Place::new();
    let command = "tee -a seen >> told; echo x > \"$TINE_PROJECT_DIR\"/last";
    let settings = one("PostToolUse", command).to_string();
    place.write("other", "x");
    let calls =
        [("Read", json!({ "file_path": "other" })), ("Read", json!({ "file_path": "told" }))];
    let (_, finished) = call(&place, &calls, &["--settings", &settings]);
    assert!(reasons(&finished).iter().all(|(outcome, _)| outcome == "success"), "{finished:?}");
}

#[test]
fn trust_says_of_which_commands_the_files_are_not_known() {
    let notice = "! not every file that it runs is known, so trust is not of all of them";
    for (command, is_known) in [
        ("./look.sh", true),
        ("\\\"$CLAUDE_PROJECT_DIR\\\"/.claude/hooks/a.sh --fast", true),
        ("cd sub && ./look.sh", false),
        ("sh hooks/*.sh", false),
        ("make check", false),
        ("npm run lint", false),
        ("$(cat which)", false),
    ] {
        let place = Place::new();
        place.write(BROUGHT, one("Stop", "COMMAND").to_string().replace("COMMAND", command));
        let asked = place.tine(["trust", "--yes"]).run().exits(0).stderr;
        assert_eq!(asked.contains(notice), !is_known, "{command}: {asked}");
    }
}

#[test]
fn a_hook_spares_no_question_that_a_rule_for_the_whole_tool_would_not() {
    let write = |path: &str| [("Write", json!({ "file_path": path, "content": "x" }))];
    for event in ["PreToolUse", "PermissionRequest"] {
        let settings = allows(event).to_string();
        for guarded in [".git/hooks/pre-commit", ".tine/config.toml", ".claude/settings.json"] {
            let place = Place::new();
            let (outputs, _) = call(&place, &write(guarded), &["--settings", &settings]);
            assert!(outputs[0].contains("nobody can be asked"), "{event} {guarded}: {outputs:?}");
            assert_eq!(place.read(guarded), None, "{event} {guarded}");
        }
        let place = Place::new();
        call(&place, &write("plain"), &["--settings", &settings]);
        assert_eq!(place.read("plain").as_deref(), Some("x"), "{event}");
        place.write(".env", "KEY=1");
        let read = [("Read", json!({ "file_path": ".env" }))];
        let (by_hook, _) = call(&place, &read, &["--settings", &settings]);
        let (by_rule, _) = call(&place, &read, &["--allowed-tools", "Read"]);
        assert_eq!(by_hook, by_rule, "{event}");
    }
}

#[test]
fn a_rule_that_asks_is_not_answered_by_a_hook() {
    let flags = ["--config", "permissions.ask=['Bash(echo *)']"];
    for event in ["PreToolUse", "PermissionRequest"] {
        let settings = allows(event).to_string();
        let bash = [("Bash", json!({ "command": "echo hi > made" }))];
        let place = Place::new();
        let (outputs, _) = call(&place, &bash, &[&flags[..], &["--settings", &settings]].concat());
        assert!(
            outputs[0].contains("the rule `Bash(echo *)` has it asked"),
            "{event}: {outputs:?}"
        );
        assert_eq!(place.read("made"), None);
    }
}

#[test]
fn a_denial_reports_the_arguments_that_were_denied() {
    let fields = json!({ "hookEventName": "PreToolUse", "updatedInput": { "command": "rm -r x" } });
    let by_call = one("PreToolUse", &format!("echo '{}'", json!({ "hookSpecificOutput": fields })));
    let decision = json!({ "behavior": "allow", "updatedInput": { "command": "rm -r x" } });
    let fields = json!({ "hookEventName": "PermissionRequest", "decision": decision });
    let by_question =
        one("PermissionRequest", &format!("echo '{}'", json!({ "hookSpecificOutput": fields })));
    for settings in [by_call, by_question] {
        let place = Place::new();
        let flags = ["--disallowed-tools", "Bash(rm *)", "--settings", &settings.to_string()];
        let bash = [("Bash", json!({ "command": "echo one > made" }))];
        let (_, finished) = call(&place, &bash, &flags);
        let records = finished.records();
        let denied = records.result()["permission_denials"][0].to_string();
        assert!(denied.contains("rm -r x") && !denied.contains("echo one"), "{denied}");
    }
}
