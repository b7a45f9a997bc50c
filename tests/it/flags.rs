//! Command lines that were written for other harnesses: what their flags do
//! here, and what is said where they do nothing.

use std::io::Write as _;

use serde_json::{Value, json};

use crate::support::server::{Reaction, Server};
use crate::support::tine::{Finished, Place};

fn answering() -> Server {
    Server::start(|_| Reaction::text_reply("hi"))
}

/// A server whose model first makes these calls.
fn calling(calls: Vec<(&'static str, Value)>) -> Server {
    Server::start(move |request| match request.json()["messages"].to_string() {
        messages if messages.contains("tool_call_id") => Reaction::text_reply("hi"),
        _ => Reaction::call_reply(&calls),
    })
}

/// Runs a prompt with these flags, which ends well.
#[track_caller]
fn runs(place: &Place, flags: &[&str]) -> Finished {
    let finished = place.ask(&answering(), flags).exits(0);
    assert_eq!(finished.stdout, "hi\n", "{flags:?}");
    finished
}

#[test]
fn a_flag_that_does_nothing_is_one_line_and_ends_nothing() {
    let place = Place::new();
    for (flags, said) in [
        (&["--betas", "interleaved-thinking"][..], "`--betas` does nothing here"),
        (&["--ide"], "`--ide` does nothing here"),
        (&["--plugin-dir", "./plugins"], "`--plugin-dir` does nothing here"),
        (&["-e", "none"], "`--extensions` does nothing here"),
        (&["--telemetry", "true"], "`--telemetry` does nothing here"),
        (&["--max-wall-time", "90"], "`--max-wall-time` does nothing here: "),
        (&["--insecure"], "certificates are always checked"),
        (&["--permission-prompt-tool", "mcp__a__b"], "`--permission-prompt-tool` does nothing"),
        (&["--debug", "api,hooks"], "`--debug` shows all, not only `api,hooks`"),
        (&["--permission-mode", "auto"], "no model decides here about what may run"),
        (&["--worktree"], "`--worktree` does nothing here: it works in this directory"),
        (&["-w", "feature/login"], "`--worktree feature/login` does nothing here"),
        (&["--worktree=#12", "--ax-screen-reader"], "`--worktree #12` does nothing here"),
        (&["--tmux=classic"], "`--tmux` does nothing here: start it inside `tmux`"),
        (&["--init"], "`--init` does nothing here: a `SessionStart` hook"),
        (&["-a"], "`--all-files` does nothing here"),
        (&["--show-memory-usage"], "`--show-memory-usage` does nothing here"),
        (&["--safe-mode", "true"], "`--safe-mode` does nothing here"),
        (&["--sandbox-image", "node:22"], "`--sandbox-image` does nothing here"),
        (&["--restore-ask-user-question"], "`--restore-ask-user-question` does nothing here"),
        (&["--sandbox=false"], "`--sandbox=false` is as without the flag"),
    ] {
        let stderr = runs(&place, flags).stderr;
        let lines = stderr.lines().filter(|line| line.starts_with("note: "));
        let lines: Vec<&str> = lines.collect();
        assert!(matches!(lines[..], [line] if line.contains(said)), "{flags:?}: {stderr}");
    }
}

#[test]
fn a_flag_that_asks_for_what_is_so_anyway_says_nothing() {
    let place = Place::new();
    for flags in [
        &["--verbose"][..],
        &["--allow-dangerously-skip-permissions"],
        &["--permission-prompt-tool", "stdio"],
        &["--telemetry", "false"],
        &["--no-chrome"],
        &["-d", "--debug-file", "debug.log"],
        &["-y"],
        &["--yolo=true", "--dangerously-skip-permissions", "-y", "--yolo"],
        &["--yolo", "false", "--debug=false"],
        &["--acp=false", "--no-debug", "--all-files=false", "--include-partial-messages=false"],
    ] {
        let stderr = runs(&place, flags).stderr;
        assert!(!stderr.contains("note: "), "{flags:?}: {stderr}");
    }
}

#[test]
fn a_switch_is_what_its_truth_says() {
    for (flags, is_on) in [
        (&["--yolo=true"][..], true),
        (&["-y", "true"], true),
        (&["--dangerously-skip-permissions", "--yolo"], true),
        (&["--yolo=false"], false),
        (&["-y", "false"], false),
        (&["--no-yolo"], false),
    ] {
        let place = Place::new();
        let write = json!({ "file_path": place.work().join("a"), "content": "a" });
        place.ask(&calling(vec![("Write", write)]), flags).exits(0);
        assert_eq!(place.read("a").is_some(), is_on, "{flags:?}");
    }
    let place = Place::new();
    let said = place.tine(["-p", "go", "-m", "offline", "--yolo=perhaps"]).run().exits(2).stderr;
    assert!(said.contains("perhaps"), "{said}");
}

#[test]
fn what_would_be_wrong_without_its_flag_does_not_run_and_says_what_to_do() {
    let place = Place::new();
    for (flags, said) in [
        (&["--from-pr"][..], "`tine sessions search WORDS` finds one"),
        (&["--from-pr", "12"], "no session belongs to a pull request"),
        (&["--input-file", "in.jsonl"], "`--input-format stream-json` takes them"),
        (&["-w", "fix the bug"], "a prompt stands before the flag, or behind `-p`"),
        (&["-i", "go on"], "cannot be used with"),
        (&["--json-fd", "3", "--json-file", "a"], "cannot be used with"),
        (&["--json-fd", "1"], "1 is not in 3.."),
    ] {
        let finished = place.tine(["-p", "go", "-m", "offline"].iter().chain(flags)).run().exits(2);
        assert!(finished.stderr.contains(said), "{flags:?}: {}", finished.stderr);
        assert_eq!((&*finished.stdout, place.sessions().len()), ("", 0), "{flags:?}");
    }
    let said = place.tine(["-m", "offline", "-i", "go"]).run().exits(2).stderr;
    assert!(said.contains("`-p PROMPT` answers without one"), "{said}");
}

#[test]
fn there_are_no_extensions_and_the_list_of_them_is_empty() {
    for flag in ["-l", "--list-extensions", "--list-extensions=true"] {
        let place = Place::new();
        let finished = place.tine([flag]).run().exits(0);
        assert_eq!(finished.stdout, "");
        assert!(finished.stderr.starts_with("there are no extensions\n"), "{}", finished.stderr);
    }
}

#[test]
fn records_go_to_what_is_open_behind_what_is_there() {
    let place = Place::new();
    place.write("records.jsonl", "{}\n");
    let line = "\"$0\" \"$@\" --json-fd 3 3>>records.jsonl";
    let server = answering();
    let tine = place.tine(["-p", "go", "-m", "m"]).server(&server);
    assert_eq!(tine.by("bash", ["-c", line]).run().exits(0).stdout, "hi\n");
    let records = place.read("records.jsonl").expect("it is there");
    let types =
        |line: &str| serde_json::from_str::<Value>(line).expect("it is JSON")["type"].clone();
    let types: Vec<Value> = records.lines().map(types).collect();
    assert_eq!(types.first(), Some(&Value::Null), "{records}");
    assert_eq!(types.last(), Some(&json!("result")), "{records}");
    let closed = place.tine(["-p", "go", "-m", "offline", "--json-fd", "99"]).run().exits(42);
    assert!(
        closed.stderr.contains("hint: open it where tine is started: `99>FILE`"),
        "{}",
        closed.stderr
    );
}

#[test]
fn an_editor_is_served_where_a_flag_asks_for_it() {
    let place = Place::new();
    let parameters = json!({ "protocolVersion": 1, "clientCapabilities": {} });
    let line = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": parameters });
    for flag in ["--acp", "--experimental-acp"] {
        let tine = place.tine(["-m", "offline", "--allowed-tools", "Read", flag, "--channel=ACP"]);
        let stdout = tine.stdin(format!("{line}\n")).run().exits(0).stdout;
        let answer: Value = serde_json::from_str(&stdout).expect("it is one line of JSON");
        assert_eq!(answer["result"]["protocolVersion"], 1, "{stdout}");
    }
}

#[test]
fn a_slip_of_a_person_is_still_an_error_with_what_was_meant() {
    let place = Place::new();
    let stderr = place.tine(["-p", "go", "--setings", "x"]).run().exits(2).stderr;
    assert!(stderr.contains("--settings"), "{stderr}");
}

#[test]
fn what_happens_inside_goes_to_the_file_that_was_named() {
    let place = Place::new();
    let stderr =
        runs(&place, &["--debug-file", "debug.log", "--settings", r#"{"theme": "dark"}"#]).stderr;
    let log = place.read("debug.log").expect("it was written");
    assert!(log.contains("theme") && !stderr.contains("theme"), "{log}{stderr}");
    assert!(!log.contains('\u{1b}'), "{log}");
}

#[test]
fn a_recording_of_the_chat_that_is_not_wanted_is_none() {
    let place = Place::new();
    runs(&place, &["--chat-recording", "false"]);
    assert_eq!(place.sessions(), [] as [std::path::PathBuf; 0]);
    runs(&place, &["--chat-recording", "true"]);
    assert_eq!(place.sessions().len(), 1);
}

#[test]
fn a_key_on_the_command_line_is_used_warned_about_and_given_to_no_command() {
    let place = Place::new();
    let server = calling(vec![("Bash", json!({ "command": "env" }))]);
    let url = server.base_url();
    let flags = ["-p", "go", "-m", "m", "--yolo", "--openai-api-key", "sk-typed"];
    let flags = flags.into_iter().chain(["--openai-base-url", &url]);
    let finished = place.tine(flags).run().exits(0);
    assert!(finished.stderr.contains("whoever lists processes sees"), "{}", finished.stderr);
    let requests = server.finish();
    assert_eq!(requests[0].header("authorization"), Some("Bearer sk-typed"));
    let seen = requests[1].json()["messages"].to_string();
    assert!(!seen.contains("sk-typed"), "{seen}");
}

#[test]
fn settings_say_what_runs_where_and_with_which_variables() {
    let place = Place::new();
    let beside = place.root().join("beside/b.txt");
    let server = calling(vec![
        ("Bash", json!({ "command": "touch \"$NAME\"" })),
        ("Bash", json!({ "command": "touch denied" })),
        ("Write", json!({ "file_path": beside, "content": "b" })),
    ]);
    std::fs::create_dir(place.root().join("beside")).unwrap();
    let settings = json!({
        "permissions": {
            "allow": ["Bash"], "deny": ["Bash(touch denied)"],
            "defaultMode": "acceptEdits", "additionalDirectories": ["../beside"],
        },
        "env": { "NAME": "made" }, "statusLine": { "type": "command" },
    });
    place.write("settings.json", settings.to_string());
    place.ask(&server, &["--settings", "settings.json"]).exits(0);
    assert_eq!(place.read("made").as_deref(), Some(""));
    assert_eq!(place.read("denied"), None);
    assert_eq!(place.read("../beside/b.txt").as_deref(), Some("b"));
}

#[test]
fn settings_choose_the_model_and_a_flag_another() {
    let place = Place::new();
    let server = answering();
    let tine = |flags: &[&str]| {
        let flags = ["-p", "go", "--settings", r#"{"model": "of-settings"}"#].iter().chain(flags);
        let tine = place.tine(flags).server(&server);
        tine.run().exits(0);
    };
    tine(&[]);
    tine(&["--config", "model=of-pair"]);
    tine(&["-m", "of-flag"]);
    let models: Vec<_> = server.finish().iter().map(|it| it.json()["model"].clone()).collect();
    assert_eq!(models, ["of-settings", "of-pair", "of-flag"]);
}

#[test]
fn settings_that_are_wrong_are_refused_with_their_place() {
    let place = Place::new();
    place.write("settings.json", "{\n  \"permissions\": {\"allow\": [\"Bash(\"]}\n}");
    for (given, said) in [
        ("settings.json", "error: `--settings`: `settings.json`: `permissions.allow[0]`: "),
        ("{\"model\": 3}", "error: `--settings`: `model`: it must be a string"),
        ("none.json", "error: `--settings`: `none.json`: there is no such file"),
        ("/dev/zero", "error: `--settings`: `/dev/zero`: it is longer than 1048576 bytes"),
    ] {
        let stderr = place.tine(["-p", "go", "-m", "offline", "--settings", given]).run().exits(52);
        assert!(stderr.stderr.starts_with(said), "{}", stderr.stderr);
    }
}

/// Makes a pipe, and says this to the first who reads it. Nobody says anything to
/// a second one, who would wait for ever.
fn pipe(place: &Place, name: &str, text: &Value) -> String {
    let path = place.root().join(name);
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("the place is ours");
    let (pipe, text) = (path.clone(), text.to_string());
    std::thread::spawn(move || {
        // Whoever leaves before the end is no failure of this thread.
        std::fs::OpenOptions::new().write(true).open(pipe)?.write_all(text.as_bytes())
    });
    path.to_str().expect("the path is UTF-8").to_owned()
}

#[test]
fn what_comes_through_a_pipe_is_read_once_and_whole() {
    let place = Place::new();
    let server = calling(vec![
        ("Bash", json!({ "command": "touch \"$NAME\"" })),
        ("Write", json!({ "file_path": place.root().join("beside/b.txt"), "content": "b" })),
    ]);
    std::fs::create_dir(place.root().join("beside")).unwrap();
    let settings = json!({
        "permissions": {
            "allow": ["Bash"], "defaultMode": "acceptEdits", "additionalDirectories": ["../beside"],
        },
        "model": "of-pipe", "env": { "NAME": "made" },
        "hooks": { "SessionStart": [{ "hooks": [{ "type": "command", "command": "echo hooked" }] }] },
    });
    let agents = json!({ "poet": { "description": "Rhymes", "prompt": "You rhyme." } });
    let servers = json!({ "mcpServers": { "absent": { "command": "/no/such/program" } } });
    let pipes = [("settings", &settings), ("agents", &agents), ("mcp-config", &servers)];
    let mut flags = vec!["-p".to_owned(), "go".to_owned(), "--agent=poet".to_owned()];
    for (name, text) in pipes {
        flags.push(format!("--{name}={}", pipe(&place, name, text)));
    }
    let finished = place.tine(&flags).server(&server).run().exits(0);
    assert_eq!(finished.stdout, "hi\n");
    assert!(finished.stderr.contains("`absent`"), "{}", finished.stderr);
    let requests = server.finish();
    let first = requests[0].json();
    assert_eq!(first["model"], "of-pipe");
    let messages = first["messages"].to_string();
    assert!(messages.contains("You rhyme.") && messages.contains("hooked"), "{messages}");
    assert_eq!(place.read("made").as_deref(), Some(""));
    assert_eq!(place.read("../beside/b.txt").as_deref(), Some("b"));
}

#[test]
fn a_schema_may_come_through_a_pipe_too() {
    let place = Place::new();
    let schema = pipe(&place, "schema", &json!({"type": "object", "required": ["n"]}));
    let give = json!({"calls": [{"name": "StructuredOutput", "arguments": {"n": 4}}]});
    let script = json!({ "units": { "main": [give] } });
    let result = place.play(&script, &["-o", "json", "--json-schema", &schema]).exits(0).result();
    assert_eq!(result["structured_output"], json!({ "n": 4 }));
}

#[test]
fn commands_that_run_no_model_read_a_pipe_once_too() {
    for command in [&["doctor"][..], &["models"], &["permissions"], &["mcp", "list"]] {
        let place = Place::new();
        let settings = pipe(&place, "settings", &json!({ "model": "offline" }));
        let settings = ["--settings", &settings];
        let flags = command.iter().chain(&settings);
        // What the doctor finds wrong with this machine is not the point.
        assert_ne!(place.tine(flags).run().status.code(), Some(52), "{command:?}");
    }
}

#[test]
fn a_shell_may_put_a_command_in_the_place_of_a_file() {
    let place = Place::new();
    let server = answering();
    let line = "\"$0\" \"$@\" --settings <(echo '{\"model\": \"of-a-command\"}')";
    let tine = place.tine(["-p", "go"]).server(&server);
    assert_eq!(tine.by("bash", ["-c", line]).run().exits(0).stdout, "hi\n");
    assert_eq!(server.finish()[0].json()["model"], "of-a-command");
}

/// A project and a user who have written something for agents.
fn furnished() -> Place {
    let place = Place::new();
    place.write("CLAUDE.md", "Paint it blue.");
    place.write(".claude/skills/greet/SKILL.md", "---\nname: greet\ndescription: Greets\n---\nHi.");
    place.write("../home/.config/tine/AGENTS.md", "Whisper.");
    place.write(
        "../home/.claude/agents/poet.md",
        "---\nname: poet\ndescription: Rhymes\n---\nRhyme.",
    );
    place
}

#[test]
fn only_what_the_sources_hold_is_read() {
    let place = furnished();
    for (flags, project, user) in [
        (&[][..], true, true),
        (&["--setting-sources", "user,project,local"], true, true),
        (&["--setting-sources=user"], false, true),
        (&["--setting-sources=project"], true, false),
        (&["--setting-sources="], false, false),
        (&["--bare"], false, false),
    ] {
        let server = answering();
        place.ask(&server, flags).exits(0);
        let body = server.finish()[0].json().to_string();
        let holds = ["blue", "Greets", "Whisper", "Rhymes"].map(|text| body.contains(text));
        assert_eq!(holds, [project, project, user, user], "{flags:?}");
    }
    let said = place.tine(["-p", "go", "--setting-sources=all"]).run().exits(2).stderr;
    assert!(said.contains("none of `user`, `project`, `local`"), "{said}");
}

#[test]
fn without_slash_commands_there_are_no_skills() {
    let place = furnished();
    let server = answering();
    place.ask(&server, &["--disable-slash-commands", "-o", "stream-json"]).exits(0);
    let body = server.finish()[0].json().to_string();
    assert!(body.contains("blue") && !body.contains("Greets"), "{body}");
}

#[test]
fn nobody_is_asked_where_nobody_is_to_be() {
    let place = Place::new();
    let call = json!({"name": "Write", "arguments": {"file_path": "a", "content": "a"}});
    let script = json!({"units": {"main": [{"calls": [call]}, {"text": "done"}]}});
    let model = place.script("writes.json", &script);
    let flags = ["--input-format", "stream-json", "-o", "stream-json", "-m", &model];
    let flags = flags.into_iter().chain(["--permission-prompts=none"]);
    let message = json!({"type": "user", "message": {"role": "user", "content": "go"}});
    let finished = place.tine(flags).stdin(format!("{message}\n")).run().exits(0);
    assert!(!finished.stdout.contains("can_use_tool"), "{}", finished.stdout);
    let result = finished.stdout.lines().last().expect("there is a result");
    let result: Value = serde_json::from_str(result).expect("it is JSON");
    assert_eq!(result["permission_denials"][0]["tool_name"], "Write");
    assert_eq!(place.read("a"), None);
}

#[test]
fn directories_come_in_lists_with_commas() {
    let place = Place::new();
    for name in ["one", "two"] {
        std::fs::create_dir(place.root().join(name)).unwrap();
    }
    let server = calling(vec![
        ("Write", json!({ "file_path": place.root().join("one/a"), "content": "a" })),
        ("Write", json!({ "file_path": place.root().join("two/a"), "content": "a" })),
    ]);
    let flags = ["--include-directories", "../one,../two", "--approval-mode", "auto-edit"];
    place.ask(&server, &flags).exits(0);
    for name in ["../one/a", "../two/a"] {
        assert_eq!(place.read(name).as_deref(), Some("a"), "{name}");
    }
}

#[test]
fn the_id_of_a_new_session_is_one_that_any_client_takes() {
    let place = Place::new();
    let result = place.tine(["-p", "go", "-m", "offline", "-o", "json"]).run().exits(0).result();
    let id: uuid::Uuid = result["session_id"].as_str().unwrap().parse().unwrap();
    assert_eq!(id.get_version_num(), 4);
}

/// Both write there: what one wrote is not replaced by the other.
#[test]
fn standard_output_has_everything_that_is_written_to_it_by_another_name() {
    let place = Place::new();
    let to_file = ["-c", "exec \"$@\" > out.txt", "sh"];
    let asked = ["-p", "hello", "-m", "offline", "-o", "json"];
    let flags = ["--output-last-message", "/dev/stdout", "--session-id", SESSION];
    place.tine(asked.iter().chain(&flags)).by("sh", to_file).run().exits(0);
    let out = place.read("out.txt").expect("it was written");
    assert!(out.starts_with("{\"type\":\"result\"") && out.lines().count() > 1, "{out}");
    std::os::unix::fs::symlink("/proc/self/fd/1", place.work().join("link")).expect("a new link");
    place.tine(["trace", SESSION, "-o", "link"]).by("sh", to_file).run().exits(0);
    let page = place.read("out.txt").expect("it was written");
    assert!(page.starts_with("<!doctype html>"), "{page}");
    assert!(place.work().join("link").is_symlink());
}

const SESSION: &str = "0199a000-0000-7000-8000-00000000000f";
