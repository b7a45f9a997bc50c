//! Hooks and rules that cannot be understood: the call does not run.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::play::Case;
use crate::support::tine::Place;

/// Runs a script that writes `n.txt`, with these settings and no question; returns what
/// the call gave, and whether the file is there.
fn writes(place: &Place, settings: &Value) -> (String, bool) {
    let arguments = json!({ "file_path": "n.txt", "content": "hello\n" });
    let call = json!({ "calls": [{ "name": "Write", "arguments": arguments }] });
    let script = json!({ "units": { "main": [call, { "text": "END" }] } });
    let flags = ["--yolo", "-o", "stream-json", "--settings", &settings.to_string()];
    let finished = place.play(&script, &flags).exits(0);
    let outputs = finished.records().outputs();
    (outputs[0].text.clone(), place.read("n.txt").is_some())
}

fn hook(event: &str, command: &str) -> Value {
    let hook = json!({ "type": "command", "command": command, "timeout": 30 });
    json!({ "hooks": { event: [{ "hooks": [hook] }] } })
}

#[test]
fn a_denial_behind_a_banner_is_heard() {
    let case = Case::open("hook-deny-behind-a-banner");
    let flags = ["--yolo", "--settings", "@CASE@/settings.json"];
    let finished = case.scripted(&flags).run().exits(0);
    let output = &finished.records().outputs()[0];
    assert_eq!(output.text, "Permission to use Write denied: a hook says no: no writes");
    assert_eq!(case.place.read("n.txt"), None);
}

#[test]
fn a_hook_that_cannot_run_denies_the_call_and_says_what_to_mend() {
    let case = Case::open("hook-that-cannot-run");
    let flags = ["--yolo", "--settings", "@CASE@/settings.json"];
    let finished = case.scripted(&flags).run().exits(0);
    let output = &finished.records().outputs()[0].text;
    assert!(output.contains("ended with exit status 126"), "{output}");
    assert!(output.contains("make it executable: `chmod +x ./guard.py`"), "{output}");
    assert_eq!(case.place.read("n.txt"), None);
}

#[test]
fn a_gate_that_cannot_be_understood_stays_shut() {
    let place = Place::new();
    let mut settings = hook("PreToolUse", "sleep 1000");
    settings["hooks"]["PreToolUse"][0]["hooks"][0]["timeout"] = json!(0.05);
    let (output, is_written) = writes(&place, &settings);
    assert!(output.contains("ran past its limit of 0.05 s") && !is_written, "{output}");
    for (command, expected) in [
        ("./not-there.sh", "`./not-there.sh` does not exist: fix the path or `PATH`"),
        ("echo Traceback >&2; exit 1", "ended with exit status 1: Traceback"),
        ("echo hi; echo '{\"decision\": \"bl'", "it began: hi / {\"decision\": \"bl"),
        ("echo \"{'decision': 'block'}\"", "printed JSON that cannot be read"),
        ("echo '{\"permissionDecision\": \"alow\"}'", "unknown `permissionDecision` `alow`"),
        ("printf '\\357\\273\\277{\"decision\":\"Reject\",\"reason\":\"so\"}\\r\\n'", "no: so"),
        ("echo '```json'; echo '{\"deny\": true, \"reason\": 5}'; echo '```'", "no: 5"),
        ("echo '{\"decision\":\"block\",\"reason\":\"so\"}'; echo bye; exit 3", "no: so"),
        ("echo '{\"blocked\":\"true\",\"reason\":\"so\"}'", "no: so"),
        ("echo '{\"cancel\":true,\"errorMessage\":\"so\"}'", "no: so"),
        ("echo '{\"action\":\"block\",\"reason\":\"so\"}'", "no: so"),
        ("echo '{\"blocked\":\"rm\"}'", "unknown `blocked` `rm` (expected `true` or `false`)"),
        ("echo '{\"permission\":\"denyy\"}'", "unknown `permission` `denyy`"),
        ("echo '{\"decision\":\"block\",\"reason\":\"so\",\"decision\":\"approve\"}'", "no: so"),
        ("echo 'x {\"updatedInput\":{\"file_path\":\"n.txt\"}}'", "count only if one JSON object"),
    ] {
        let (output, is_written) = writes(&place, &hook("PreToolUse", command));
        assert!(output.contains(expected) && !is_written, "{command}: {output}");
    }
}

#[test]
fn a_hook_that_prints_a_command_takes_no_arguments_from_it() {
    let place = Place::new();
    let command = r#"ls # {"updatedInput": {"command": "touch made"}}"#;
    let call = json!({ "name": "Bash", "arguments": { "command": command } });
    let script = json!({ "units": { "main": [{ "calls": [call] }, { "text": "END" }] } });
    let settings =
        hook("PreToolUse", "cat | tr -d '\\\\' | sed 's/.*\"command\":\"//'").to_string();
    let flags = ["--yolo", "-o", "stream-json", "--settings", &settings];
    let finished = place.play(&script, &flags).exits(0);
    let output = &finished.records().outputs()[0].text;
    assert!(output.contains("`updatedInput` and `updatedToolOutput` count only"), "{output}");
    assert_eq!(place.read("made"), None);
}

#[test]
fn a_matcher_that_lists_a_name_and_a_pattern_is_asked_about_both() {
    for matcher in ["Write, mcp__github__.*", "mcp__github__.* | Write", "(mcp__a__.*, Write)"] {
        let mut settings = hook("PreToolUse", "echo no >&2; exit 2");
        settings["hooks"]["PreToolUse"][0]["matcher"] = json!(matcher);
        let (output, is_written) = writes(&Place::new(), &settings);
        assert!(output.contains("a hook says no: no") && !is_written, "{matcher}: {output}");
    }
}

#[test]
fn a_hook_that_says_nothing_lets_a_call_run() {
    for command in ["true", "echo all is well", "echo '{}'", "echo '{\"suppressOutput\": true}'"] {
        let (output, is_written) = writes(&Place::new(), &hook("PreToolUse", command));
        assert!(is_written, "{command}: {output}");
    }
}

#[test]
fn a_prompt_that_its_hook_cannot_look_at_is_not_sent() {
    let below = "echo banner; echo '{\"decision\":\"block\",\"reason\":\"x\",}'";
    let broken = "echo banner; printf '{\"decision\":\"block\",\"reason\":\"a\\nb\"}'";
    for command in ["./not-there.sh", "kill -9 $$", "echo '{\"decision\":'", below, broken] {
        let place = Place::new();
        let model = place.script("s.json", &json!({ "units": { "main": [{ "text": "END" }] } }));
        let settings = hook("UserPromptSubmit", command).to_string();
        let finished = place.tine(["-p", "go", "-m", &model, "--settings", &settings]).run();
        let stderr = &finished.exits(1).stderr;
        assert!(stderr.contains("a hook blocks the prompt: the hook `"), "{stderr}");
    }
}

#[test]
fn permission_that_another_hook_may_have_denied_is_asked_about() {
    let allow = r#"echo '{"hookSpecificOutput": {"decision": {"behavior": "allow"}}}'"#;
    let hooks = |more: &str| {
        let hook = |command: &str| json!({ "type": "command", "command": command });
        json!({ "hooks": { "PermissionRequest": [{ "hooks": [hook(allow), hook(more)] }] } })
    };
    let run = |settings: &Value| {
        let place = Place::new();
        let call = json!({ "name": "Bash", "arguments": { "command": "touch made" } });
        let script = json!({ "units": { "main": [{ "calls": [call] }, { "text": "END" }] } });
        place.play(&script, &["--settings", &settings.to_string()]).exits(0);
        place.read("made").is_some()
    };
    assert!(run(&hooks("true")) && !run(&hooks("exit 127")));
}

#[test]
fn a_rule_that_names_a_path_with_brackets_holds_for_it() {
    let case = Case::open("deny-rule-with-brackets");
    let rules = ["--disallowed-tools", "Read(app/[id]/secret.txt)", "Edit(app/[id]/**)"];
    let finished = case.scripted(&[&["--yolo"], &rules[..]].concat()).run().exits(0);
    let texts: Vec<String> = finished.records().outputs().into_iter().map(|it| it.text).collect();
    assert!(texts.iter().all(|text| text.contains("denied by the rule `")), "{texts:?}");
    assert_eq!(case.place.read("app/[id]/secret.txt").as_deref(), Some("SECRET\n"));
}

#[test]
fn a_rule_that_denies_holds_for_the_file_however_either_is_written() {
    for (rule, path) in [
        ("Read({a,b}/key)", "{a,b}/key"),
        ("Read(~/key)", "../home/key"),
        ("Read($HOME/key)", "../home/key"),
        ("Read(keys/)", "keys/key"),
        ("Read(.//keys/../keys/key)", "keys/key"),
        ("Read(/keys/key)", "keys/key"),
        ("Read(KEYS/Key)", "keys/key"),
        ("Read(caf\u{e9}/key)", "cafe\u{301}/key"),
        ("Read(link/key)", "link/key"),
    ] {
        let place = Place::new();
        for name in ["{a,b}", "keys", "cafe\u{301}"] {
            place.write(&format!("{name}/key"), "SECRET");
        }
        std::fs::write(place.home().join("key"), "SECRET").expect("the place is ours");
        std::os::unix::fs::symlink("keys", place.work().join("link")).expect("it is new");
        let call = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments });
        let below = if path.starts_with("..") { "../home" } else { "." };
        let calls = [
            call("Read", json!({ "file_path": path })),
            call("Grep", json!({ "pattern": "SECRET", "path": below })),
            call("Bash", json!({ "command": format!("cat '{path}'") })),
        ];
        let script = json!({ "units": { "main": [{ "calls": calls }, { "text": "END" }] } });
        let flags = ["-o", "stream-json", "--disallowed-tools", rule];
        let outputs = place.play(&script, &flags).exits(0).records().outputs();
        for output in [&outputs[0], &outputs[2]] {
            assert!(output.text.contains("denied by the rule"), "{rule}: {}", output.text);
        }
        let real = if path.starts_with("link") { "keys/key" } else { path };
        assert!(!outputs[1].text.contains(real), "{rule}: {}", outputs[1].text);
    }
}

#[test]
fn a_command_that_might_read_a_denied_directory_is_asked_about() {
    let place = Place::new();
    place.write("secrets/key", "pw=1\n");
    place.write("notes/todo", "pw=1\n");
    for (rule, command, is_run) in [
        ("Read(/secrets/**)", "grep -r pw .", false),
        ("Read(/secrets/key)", "grep -r pw .", false),
        ("Read(/SECRETS/*)", "grep -r pw .", false),
        ("Read(/*/key)", "grep -r pw secrets", false),
        ("Read(/secrets)", "cat secrets/key", false),
        ("Read(secrets/[!A-Z]*)", "cat secrets/key", false),
        ("Read(/secrets/**)", "grep -r pw notes", true),
    ] {
        let call = json!({ "name": "Bash", "arguments": { "command": command } });
        let script = json!({ "units": { "main": [{ "calls": [call] }, { "text": "END" }] } });
        let flags = ["-o", "stream-json", "--disallowed-tools", rule];
        let outputs = place.play(&script, &flags).exits(0).records().outputs();
        assert_eq!(outputs[0].text.contains("pw=1"), is_run, "{rule}: {}", outputs[0].text);
    }
}

#[test]
fn a_rule_that_can_match_nothing_is_an_error_wherever_it_is_written() {
    let place = Place::new();
    for (rule, expected) in [
        ("Read(app/[id)", "`Read(app/[id)` has a path pattern that cannot be read: `[` is not"),
        ("Read()", "`Read()` has empty parentheses"),
        ("Raed(x)", "`Raed(x)` names no tool"),
        (
            "Read('x')",
            "`Read('x')` can match nothing: it is read as a path that includes the quotes",
        ),
    ] {
        let denied = json!({ "permissions": { "deny": [rule] } }).to_string();
        let pair = format!("permissions.deny=[{rule:?}]");
        let flags = [["--disallowed-tools", rule], ["--settings", &denied], ["--config", &pair]];
        for [flag, value] in flags {
            let finished = place.tine(["-p", "go", "-m", "offline", flag, value]).run();
            let stderr = &finished.stderr;
            assert!(!finished.status.success() && stderr.contains(expected), "{flag}: {stderr}");
        }
    }
}

#[test]
fn a_rule_that_denies_a_directory_holds_for_the_links_in_it() {
    let place = Place::new();
    place.write("vault/a.key", "SECRET");
    place.write("secrets/note", "SECRET");
    let link = place.work().join("secrets/a.key");
    std::os::unix::fs::symlink("../vault/a.key", link).expect("it is new");
    let call = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments });
    let path = "secrets/a.key";
    let edit = json!({ "file_path": path, "old_string": "SECRET", "new_string": "x" });
    let calls = [
        call("Read", json!({ "file_path": path })),
        call("Edit", edit),
        call("Write", json!({ "file_path": path, "content": "x" })),
        call("Bash", json!({ "command": format!("cat {path}") })),
    ];
    let script = json!({ "units": { "main": [{ "calls": calls }, { "text": "END" }] } });
    for rule in ["Read(secrets)", "Read(secrets/**)", "Read(secrets/*.key)"] {
        let flags = ["--yolo", "-o", "stream-json", "--disallowed-tools", rule];
        let outputs = place.play(&script, &flags).exits(0).records().outputs();
        let is_denied = |text: &str| text.contains("denied by the rule");
        assert!(outputs.iter().all(|output| is_denied(&output.text)), "{rule}: {outputs:?}");
        assert_eq!(place.read("vault/a.key").as_deref(), Some("SECRET"));
    }
}

#[test]
fn a_rule_for_a_harmless_program_runs_no_other_one() {
    let make = "touch canary";
    for (rule, command) in [
        ("Bash(sed *)", format!("sed '1e {make}' n.txt")),
        ("Bash(sed *)", format!("sed -n -e p -e 's/^/{make} #/e' n.txt")),
        ("Bash(sed *)", "sed -f script n.txt".to_owned()),
        ("Bash(awk *)", format!("awk 'BEGIN{{system(\"{make}\")}}'")),
        ("Bash(awk *)", format!("awk 'BEGIN{{print \"{make}\" | \"sh\"}}'")),
        ("Bash(git *)", "git grep -Otouch hello".to_owned()),
        ("Bash(git *)", format!("git clone -u '{make};' . copy")),
        ("Bash(git clone *)", "git clone -c core.sshCommand=touch ssh://x/y".to_owned()),
        ("Bash(vim *)", format!("vim -es -c '!{make}' -c q")),
        ("Bash(zip *)", format!("zip -q a.zip n.txt -T -TT '{make};'")),
        ("Bash(sort *)", "sort -S 1b --compress-program=touch n.txt".to_owned()),
        ("Bash(split *)", format!("split --filter='{make}' n.txt")),
        ("Bash(tar *)", "tar cIf touch a.tar n.txt".to_owned()),
        ("Bash(make *)", "make SHELL=/bin/touch -f /dev/null".to_owned()),
    ] {
        let run = |rule: &str| {
            let place = Place::new();
            place.write("n.txt", "hello\n");
            place.write("script", format!("1e {make}\n"));
            let call = json!({ "name": "Bash", "arguments": { "command": command } });
            let script = json!({ "units": { "main": [{ "calls": [call] }, { "text": "END" }] } });
            let permissions = json!({ "permissions": { "allow": [rule] } }).to_string();
            let flags = ["-o", "stream-json", "--settings", &permissions];
            let outputs = place.play(&script, &flags).exits(0).records().outputs();
            (outputs[0].text.clone(), place.read("canary").is_some())
        };
        let (output, is_made) = run(rule);
        assert!(output.contains("no rule allows this command") && !is_made, "{command}: {output}");
        let (output, is_made) = run(&format!("Bash({command})"));
        assert!(!output.contains("no rule allows"), "{command}: {output}");
        assert!(
            is_made || !command.starts_with(['s', 'a']) || command.contains("sort"),
            "{output}"
        );
    }
    // What such programs are used for is still covered.
    for (rule, command, expected) in [
        ("Bash(sed *)", "sed -i 's/h[a-z]*/bye/' n.txt && sed -n '1{p;q}' n.txt", "bye"),
        ("Bash(awk *)", "awk '/hello|x/ {print $1 \"!\"}' n.txt", "hello!"),
    ] {
        let place = Place::new();
        place.write("n.txt", "hello\n");
        let call = json!({ "name": "Bash", "arguments": { "command": command } });
        let script = json!({ "units": { "main": [{ "calls": [call] }, { "text": "END" }] } });
        let flags = ["-o", "stream-json", "--allowed-tools", rule];
        let outputs = place.play(&script, &flags).exits(0).records().outputs();
        assert!(outputs[0].text.contains(expected), "{command}: {}", outputs[0].text);
    }
}

/// Writes the user's settings of Claude Code.
fn write_user_settings(place: &Place, text: &str) {
    let directory = place.home().join(".claude");
    std::fs::create_dir_all(&directory).expect("the place is ours");
    std::fs::write(directory.join("settings.json"), text).expect("the place is ours");
}

#[test]
fn a_bad_entry_of_the_users_settings_opens_no_gate() {
    let deny = json!({ "hooks": [{ "type": "command", "command": "echo no >&2; exit 2" }] });
    let allow = json!({ "hooks": [{ "type": "command", "command": "true" }] });
    let bad = |matcher: &str| json!({ "matcher": matcher, "hooks": [] });
    for (groups, expected) in [
        (json!([bad("*.py"), deny]), "Write denied: "),
        (json!([allow, bad("mcp__(")]), "`hooks.PreToolUse[1].matcher` is no regular expression"),
        (json!([allow, "guard.sh"]), "`hooks.PreToolUse[1]` must be an object"),
        (json!({ "Write": [allow] }), "`hooks.PreToolUse` has no `hooks`"),
        (deny, "a hook says no: no"),
    ] {
        let place = Place::new();
        let settings = json!({ "hooks": { "PreToolUse": groups } });
        write_user_settings(&place, &settings.to_string());
        let (output, is_written) = writes(&place, &json!({}));
        assert!(output.contains(expected) && !is_written, "{settings}: {output}");
    }
}

#[test]
fn user_settings_that_cannot_be_read_and_name_hooks_end_the_run() {
    let place = Place::new();
    for text in ["{\"hooks\": {},}", "{\"hooks\": []}", "{\"hooks\": {\"Stop\": [", "{hooks: {}}"] {
        write_user_settings(&place, text);
        let refused = place.tine(["-p", "go", "-m", "offline"]).run().exits(52);
        assert!(refused.stderr.contains("/.claude/settings.json` cannot be used: "), "{text}");
    }
    write_user_settings(&place, "{\"model\": \"x\",}");
    let script = json!({ "units": { "main": [{ "text": "END" }] } });
    let finished = place.play(&script, &[]).exits(0);
    assert!(finished.stderr.contains("/.claude/settings.json`: "), "{}", finished.stderr);
}

#[test]
fn user_settings_that_are_no_text_end_the_run() {
    let utf_16 = |text: &str| -> Vec<u8> {
        let units = std::iter::once(0xfeff).chain(text.encode_utf16());
        units.flat_map(u16::to_le_bytes).collect()
    };
    let link = |target: &str, path: &Path| std::os::unix::fs::symlink(target, path);
    type Make<'a> = &'a dyn Fn(&Path) -> std::io::Result<()>;
    let kinds: [(&str, Make<'_>); 6] = [
        ("UTF-16", &|path| std::fs::write(path, utf_16("{\"hooks\": {}}"))),
        ("not UTF-8", &|path| std::fs::write(path, b"{\"a\": \"\xff\"}")),
        ("a directory", &|path| std::fs::create_dir(path)),
        ("a link to nothing", &|path| link("../dotfiles/settings.json", path)),
        ("a link to itself", &|path| link("settings.json", path)),
        ("in a link to nothing", &|path| {
            let directory = path.parent().expect("it is below one");
            std::fs::remove_dir(directory)?;
            link("dotfiles", directory)
        }),
    ];
    for (kind, make) in kinds {
        let place = Place::new();
        let directory = place.home().join(".claude");
        std::fs::create_dir_all(&directory).expect("the place is ours");
        make(&directory.join("settings.json")).expect("the place is ours");
        let refused = place.tine(["-p", "go", "-m", "offline"]).run().exits(52);
        assert!(
            refused.stderr.contains("settings.json` cannot be used: it cannot be read"),
            "{kind}"
        );
        let flags = ["-p", "go", "-m", "offline", "--setting-sources", "project"];
        assert!(!place.tine(flags).run().stderr.contains("settings.json"), "{kind}");
    }
    let place = Place::new();
    std::fs::create_dir_all(place.home().join("dotfiles")).expect("the place is ours");
    link("dotfiles", &place.home().join(".claude")).expect("it is new");
    let script = json!({ "units": { "main": [{ "text": "END" }] } });
    place.play(&script, &[]).exits(0);
}
