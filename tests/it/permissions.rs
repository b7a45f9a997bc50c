//! What a run may do: nothing that changes anything, unless it was allowed.

use serde_json::{Value, json};

use crate::support::server::Reaction;
use crate::support::talk::{serve_calls, shown};
use crate::support::tine::Place;

/// What became of the calls of one turn.
struct Verdicts {
    outputs: Vec<String>,
    /// The calls that the result lists as denied.
    denied: Vec<Value>,
    stderr: String,
}

fn run(place: &Place, calls: &[(&str, Value)], flags: &[&str]) -> Verdicts {
    let server = serve_calls(calls, |_| Reaction::Close);
    let finished = place.ask(&server, &[&["-o", "json"], flags].concat()).exits(0);
    let result = finished.result();
    let denied = result["permission_denials"].as_array().expect("the result lists them").clone();
    Verdicts { outputs: shown(&server.finish()), denied, stderr: finished.stderr }
}

fn bash(command: &str) -> (&'static str, Value) {
    ("Bash", json!({ "command": command }))
}

fn write(path: &str) -> (&'static str, Value) {
    ("Write", json!({ "file_path": path, "content": "new\n" }))
}

#[test]
fn commands_are_denied_unless_allowed_and_the_result_lists_them() {
    let verdicts = run(&Place::new(), &[bash("make all")], &[]);
    let expected = "Permission to use Bash denied: no rule allows this command, and `make` may do \
                    more than read; nobody can be asked; the rule `Bash(make all)` would allow it";
    assert_eq!(verdicts.outputs, [expected]);
    let denial = json!({ "tool_name": "Bash", "tool_use_id": "call_a",
        "tool_input": { "command": "make all" } });
    assert_eq!(verdicts.denied, [denial]);
    assert_eq!(verdicts.stderr, "");
}

#[test]
fn a_denial_is_told_to_people_and_to_programs_as_it_happens() {
    let server = serve_calls(&[bash("make all")], |_| Reaction::Close);
    let finished = Place::new().ask(&server, &[]).exits(0);
    assert!(
        finished.stderr.contains("denied Bash: no rule allows this command"),
        "{}",
        finished.stderr
    );
    let records = Place::new().ask(&server, &["-o", "stream-json"]).exits(0).records();
    let [denied] = records.system("permission_denied")[..] else { panic!("one denial") };
    assert_eq!((&denied["tool_name"], &denied["tool_use_id"]), (&json!("Bash"), &json!("call_a")));
}

#[test]
fn a_rule_allows_its_command_and_no_second_one_behind_it() {
    let place = Place::new();
    let calls =
        [bash("echo hi"), bash("echo hi; touch x"), bash("echo $(touch y)"), bash("touch z")];
    let verdicts = run(&place, &calls, &["--allowed-tools", "Bash(echo *)"]);
    assert_eq!(verdicts.outputs[0], "hi\n");
    let denied =
        verdicts.outputs[1..].iter().all(|text| text.starts_with("Permission to use Bash"));
    assert!(denied, "{:?}", verdicts.outputs);
    assert_eq!(verdicts.denied.len(), 3);
    assert_eq!(["x", "y", "z"].map(|name| place.read(name)), [None, None, None]);
}

#[test]
fn a_denying_rule_goes_before_all_that_allows() {
    let flags = [
        "--permission-mode",
        "bypassPermissions",
        "--disallowed-tools",
        "Bash(touch *) Read(secret/**)",
    ];
    let place = Place::new();
    place.write("secret/key", "k\n");
    place.write("open/key", "k\n");
    let read = |path: &str| ("Read", json!({ "file_path": path }));
    let calls = [bash("echo hi"), bash("true && touch x"), read("secret/key"), read("open/key")];
    let verdicts = run(&place, &calls, &flags);
    assert_eq!(
        (verdicts.outputs[0].as_str(), verdicts.outputs[3].as_str()),
        ("hi\n", "     1\tk\n")
    );
    for (output, rule) in verdicts.outputs[1..3].iter().zip(["Bash(touch *)", "Read(secret/**)"]) {
        assert!(output.ends_with(&format!("denied: denied by the rule `{rule}`")), "{output}");
    }
    assert_eq!(place.read("x"), None);
}

#[test]
fn edits_are_denied_unless_accepted() {
    let place = Place::new();
    let verdicts = run(&place, &[write("new.txt")], &[]);
    let expected = "Permission to use Write denied: no rule allows this edit; nobody can be \
                    asked; the rule `Write(new.txt)` would allow it, and so would \
                    `--permission-mode acceptEdits`";
    assert_eq!(verdicts.outputs, [expected]);
    assert_eq!((verdicts.denied.len(), place.read("new.txt")), (1, None));
    let verdicts = run(&place, &[write("new.txt")], &["--permission-mode", "acceptEdits"]);
    assert_eq!((verdicts.denied, place.read("new.txt")), (Vec::new(), Some("new\n".to_owned())));
}

#[test]
fn accepted_edits_stay_inside_the_workspace_and_out_of_git() {
    let place = Place::new();
    std::fs::create_dir_all(place.work().join(".git/hooks")).unwrap();
    std::fs::create_dir(place.work().join("sub")).unwrap();
    std::os::unix::fs::symlink(place.home(), place.work().join("sub/link")).unwrap();
    let outside = place.root().join("outside");
    let paths =
        [outside.to_str().unwrap(), "../outside", "sub/link/outside", ".git/hooks/pre-commit"];
    let verdicts = run(&place, &paths.map(write), &["--permission-mode", "acceptEdits"]);
    assert_eq!(verdicts.denied.len(), 4, "{:?}", verdicts.outputs);
    assert!(
        verdicts.outputs[0].contains("outside the workspace")
            && verdicts.outputs[0].contains("--add-dir")
    );
    assert!(verdicts.outputs[3].contains("`.git` can make programs run"));
    let gone =
        [outside.clone(), place.home().join("outside"), place.work().join(".git/hooks/pre-commit")];
    assert_eq!(gone.map(|path| path.exists()), [false, false, false]);

    let flags = ["--permission-mode", "acceptEdits", "--add-dir", place.root().to_str().unwrap()]
        .map(str::to_owned);
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let verdicts = run(&place, &[write("../outside")], &flags);
    assert_eq!((verdicts.denied.len(), outside.exists()), (0, true));
}

#[test]
fn the_project_cannot_allow_itself_anything() {
    let place = Place::new();
    place.write(".tine/config.toml", "[permissions]\nmode = \"bypassPermissions\"\n");
    let definition = "---\nname: wild\ndescription: d\npermissionMode: bypassPermissions\n---\nx";
    place.write(".tine/agents/wild.md", definition);
    let task = json!({ "description": "t", "prompt": "t", "subagent_type": "wild" });
    let server = serve_calls(&[("Agent", task), bash("touch x")], |talk| match talk.turn() {
        1 => Reaction::call_reply(&[bash("touch y")]),
        _ => Reaction::text_reply(talk.outputs()[0]),
    });
    place.ask(&server, &[]).exits(0);
    let outputs = shown(&server.finish());
    assert!(outputs.iter().all(|text| text.starts_with("Permission to use Bash")), "{outputs:?}");
    assert_eq!((place.read("x"), place.read("y")), (None, None));
}

#[test]
fn a_slots_denials_are_listed_too_and_stop_nobody_else() {
    let task = |name: &str| json!({ "description": name, "prompt": name, "subagent_type": "general-purpose" });
    let calls = [("Agent", json!({ "tasks": [task("tries"), task("talks")] }))];
    let server = serve_calls(&calls, |talk| match (talk.task(), talk.turn()) {
        ("tries", 1) => Reaction::call_reply(&[bash("rm -rf .")]),
        _ => Reaction::text_reply("I am fine."),
    });
    let result = Place::new().ask(&server, &["-o", "json"]).exits(0).result();
    assert_eq!(result["permission_denials"][0]["tool_input"], json!({ "command": "rm -rf ." }));
    assert_eq!(shown(&server.finish())[0].matches("I am fine.").count(), 2);
}

#[test]
fn plan_mode_only_reads_whatever_rules_allow() {
    let place = Place::new();
    let flags = ["--permission-mode", "plan", "--allowed-tools", "Bash Write"];
    let verdicts = run(&place, &[bash("touch x"), write("y")], &flags);
    let expected = "plan mode only reads; describe the change instead of making it";
    assert!(verdicts.outputs.iter().all(|text| text.ends_with(expected)), "{:?}", verdicts.outputs);
}

#[test]
fn the_configuration_and_the_flags_of_other_harnesses_set_the_same_things() {
    let place = Place::new();
    place.configure("[permissions]\nallow = [\"Bash(echo *)\"]\ndeny = [\"Bash(echo no)\"]\n");
    let verdicts = run(&place, &[bash("echo hi"), bash("echo no")], &[]);
    assert_eq!((verdicts.outputs[0].as_str(), verdicts.denied.len()), ("hi\n", 1));
    for flags in
        [&["--yolo"][..], &["--approval-mode", "yolo"], &["--allowedTools", "Bash(touch:*)"]]
    {
        let place = Place::new();
        assert_eq!(run(&place, &[bash("touch x")], flags).denied, [Value::Null; 0]);
        assert_eq!(place.read("x").as_deref(), Some(""), "{flags:?}");
    }
}

#[test]
fn only_the_tools_that_were_asked_for_are_offered() {
    let place = Place::new();
    let server = serve_calls(&[("Bash", json!({ "command": "ls" }))], |_| Reaction::Close);
    place.ask(&server, &["--tools", "Grep,read"]).exits(0);
    let requests = server.finish();
    assert_eq!(crate::support::talk::Talk::of(&requests[0]).tools(), ["Read", "Grep"]);
    assert_eq!(shown(&requests), ["Tool \"Bash\" not found. Available tools: Read, Grep"]);
}

/// Asks what would become of a call.
fn decision(place: &Place, flags: &[&str], call: &str) -> Value {
    let check = ["permissions", "check", "--json"];
    let finished = place.tine(check.iter().chain(flags).chain(&[call])).run().exits(0);
    assert_eq!(finished.stdout.lines().count(), 1, "{}", finished.stdout);
    serde_json::from_str(&finished.stdout).expect("it is JSON")
}

#[test]
fn a_decision_is_explained_for_every_mode_without_running_anything() {
    let place = Place::new();
    place.configure(
        "[permissions]\nallow = [\"Bash(make *)\"]\nask = [\"Bash(git push *)\"]\n\
         deny = [\"Bash(rm *)\", \"Read(secret/**)\"]\n",
    );
    let modes = ["plan", "default", "acceptEdits", "dontAsk", "bypassPermissions"];
    for (call, expected) in [
        ("Read(src/x.rs)", ["allow"; 5]),
        ("Grep(secret/x)", ["deny"; 5]),
        ("Edit(src/x.rs)", ["deny", "ask", "allow", "deny", "allow"]),
        ("Write(secret/x)", ["deny"; 5]),
        ("ApplyPatch(.git/x)", ["deny", "ask", "ask", "deny", "allow"]),
        ("Bash(make all)", ["deny", "allow", "allow", "allow", "allow"]),
        ("Bash(touch x)", ["deny", "ask", "ask", "deny", "allow"]),
        ("Bash(echo a; rm x)", ["deny"; 5]),
        ("bash(git push '(x)'\n)", ["deny", "ask", "ask", "deny", "ask"]),
        ("Agent(explore)", ["allow"; 5]),
        ("Skill(review)", ["allow"; 5]),
        ("WebFetch(domain:x.invalid)", ["ask", "ask", "ask", "deny", "allow"]),
        ("mcp__x__y", ["deny", "ask", "ask", "deny", "allow"]),
        ("mcp__x__y(what ever)", ["deny", "ask", "ask", "deny", "allow"]),
        ("TodoWrite(x)", ["allow"; 5]),
        ("TaskList(x)", ["allow"; 5]),
        ("Read(~/.ssh/id_rsa)", ["ask", "ask", "ask", "deny", "allow"]),
        ("Edit(~/notes)", ["deny", "ask", "ask", "deny", "allow"]),
        ("Bash", ["deny"; 5]),
    ] {
        let got = modes.map(|mode| decision(&place, &["--mode", mode], call)["decision"].clone());
        assert_eq!(got.map(|it| it.as_str().unwrap().to_owned()), expected, "{call}");
    }
    assert_eq!(place.read("x"), None);
    let record = decision(&place, &[], "Bash(rm -rf /)");
    let expected = json!({ "decision": "deny", "rule": "Bash(rm *)", "source": "user",
        "reason": "denied by the rule `Bash(rm *)`", "sandbox": null });
    assert_eq!(record, expected);
}

#[test]
fn a_command_that_only_reads_is_explained_with_its_sandbox() {
    let place = Place::new();
    let record = decision(&place, &[], "Bash(ls -la)");
    let has_sandbox = record["decision"] == "allow";
    assert!(has_sandbox || std::env::var("REQUIRE_SANDBOX").is_err(), "{record}");
    let expected = match has_sandbox {
        true => json!({ "decision": "allow", "rule": null, "source": null,
            "reason": "it only reads, and a sandbox holds it to that", "sandbox": "read-only" }),
        false => json!({ "decision": "ask", "rule": null, "source": null,
            "reason": "it only reads, but there is no sandbox to hold it to that",
            "sandbox": "off" }),
    };
    assert_eq!(record, expected);
    let off = decision(&place, &["--config", "sandbox.mode=off"], "Bash(ls -la)");
    assert_eq!(off["decision"], "ask");
}

#[test]
fn what_is_no_call_is_refused() {
    let not_a_path = ["ApplyPatch()", "ApplyPatch(a\n*** Delete File: b)"];
    let no_calls = ["", "Bash(ls", "Shell(ls)", "(ls)", "two words"];
    for call in no_calls.into_iter().chain(not_a_path) {
        let finished = Place::new().tine(["permissions", "check", call]).run().exits(2);
        assert!(finished.stderr.starts_with("error: "), "{call}: {finished:?}");
    }
}

#[test]
fn settings_that_come_with_a_repository_are_not_taken_for_the_users_own() {
    let place = Place::new();
    std::fs::create_dir(place.work().join(".git")).unwrap();
    place.write("sub/config.toml", "[permissions]\nmode = \"bypassPermissions\"\n");
    place.write("home/.config/tine/config.toml", "[permissions]\nallow = [\"Bash\"]\n");
    let list = |variable: &str, value: &std::path::Path, flags: &[&str]| {
        let value = value.to_str().expect("it is UTF-8");
        let run = place.tine(["permissions"].iter().chain(flags)).env("XDG_CONFIG_HOME", "");
        run.env(variable, value).run()
    };
    let [sub, home] = ["sub", "home"].map(|name| place.work().join(name));
    let config = home.join(".config");
    for (variable, value) in [("TINE_HOME", &sub), ("HOME", &home), ("XDG_CONFIG_HOME", &config)] {
        let refused = list(variable, value, &[]).exits(52).stderr;
        let expected = format!("`{variable}` lies in the repository that it would decide about");
        assert!(refused.contains(&expected), "{refused}");
        list(variable, value, &["--trust"]).exits(0);
    }
    // A home directory that is a repository is the user's all the same.
    place.write(".config/tine/config.toml", "[permissions]\nallow = [\"Bash\"]\n");
    list("HOME", &place.work(), &[]).exits(0);
}

#[test]
fn the_rules_in_force_are_listed_with_where_they_are_from() {
    let place = Place::new();
    let file = place.configure("[permissions]\nallow = [\"Read\"]\ndeny = [\"Bash(rm *)\"]\n");
    let flags = ["permissions", "--allowed-tools", "Bash(make)", "--permission-mode", "plan"];
    let listed = place.tine(flags).run().exits(0).stdout;
    let file = file.display();
    let (rules, secrets) = listed.split_at(listed.find("secret").expect("they are listed"));
    assert_eq!(
        rules,
        format!(
            "mode   plan\ndeny   Bash(rm *)  (user, {file})\nallow  Read  (user, {file})\n\
             allow  Bash(make)  (flag)\n"
        )
    );
    for line in [
        "secret ~/.ssh, ~/.tsh, ~/.vnc/passwd, ~/.putty  (keys that open other machines)",
        "secret .env, .env.*, .envrc  (keys and passwords of the project)",
    ] {
        assert!(secrets.lines().any(|listed| listed == line), "{secrets}");
    }
    assert!(secrets.contains(&format!("secret {file}  (keys, perhaps, among tine's settings)")));
    let bypassing = place.tine(["permissions", "--permission-mode", "bypassPermissions"]).run();
    assert!(!bypassing.exits(0).stdout.contains("\nsecret "), "nobody asks there");
    let listed = place.tine(flags.iter().chain(&["--json"])).run().exits(0).stdout;
    let rule = |decision: &str, rule: &str, source: &str, file: Option<String>| json!({ "decision": decision, "rule": rule, "source": source, "file": file });
    let file = Some(file.to_string());
    let mut listed: Value = serde_json::from_str(&listed).unwrap();
    let secrets = listed.as_object_mut().unwrap().remove("secrets").unwrap();
    let keys = json!({ "what": "keys that open other machines",
        "places": ["~/.ssh", "~/.tsh", "~/.vnc/passwd", "~/.putty"] });
    assert_eq!(secrets[0], keys);
    assert_eq!(
        listed,
        json!({ "mode": "plan", "rules": [
            rule("deny", "Bash(rm *)", "user", file.clone()),
            rule("allow", "Read", "user", file),
            rule("allow", "Bash(make)", "flag", None),
        ] })
    );
}

#[test]
fn the_examples_of_the_permissions_page_are_what_is_decided() {
    let page = include_str!("../../docs/permissions.md");
    let place = Place::new();
    std::fs::create_dir(place.work().join(".git")).unwrap();
    let rows: Vec<Vec<&str>> = page
        .lines()
        .map(|line| {
            line.trim_matches('|').split(" | ").map(|cell| cell.trim_matches([' ', '`'])).collect()
        })
        .filter(|row: &Vec<&str>| row.len() == 3 && ["allow", "ask", "deny"].contains(&row[2]))
        .collect();
    assert!(rows.len() > 10, "{rows:?}");
    for row in rows {
        assert_eq!(decision(&place, &["--mode", row[1]], row[0])["decision"], row[2], "{row:?}");
    }
}

#[test]
fn denials_are_records_and_listed_whoever_cannot_be_asked() {
    let place = Place::new();
    let calls = [write("new.txt"), bash("make"), ("Read", json!({ "file_path": ".env" }))];
    place.write(".env", "KEY=1\n");
    let server = serve_calls(&calls, |_| Reaction::Close);
    let finished = place.ask(&server, &["-o", "stream-json"]).exits(0);
    let records = finished.records();
    let denied = records.system("permission_denied");
    let tools: Vec<&Value> = denied.iter().map(|record| &record["tool_name"]).collect();
    assert_eq!(tools, ["Write", "Bash", "Read"]);
    let last: Value = serde_json::from_str(finished.stdout.lines().last().unwrap()).unwrap();
    let listed = last["permission_denials"].as_array().unwrap();
    let listed: Vec<&Value> = listed.iter().map(|denial| &denial["tool_name"]).collect();
    assert_eq!(listed, tools);
    assert_eq!(place.read("new.txt"), None);
}
