//! Decisions of policies, rule by rule and mode by mode.

use serde_json::json;

use super::super::Source;
use super::*;
use crate::git::tests::program;
use crate::guard::Searches;

fn policy(mode: Mode, allow: &[&str], deny: &[&str]) -> Policy {
    let root = std::env::current_dir().unwrap();
    let rules = Rules { allow: rules(allow), deny: rules(deny), ask: Vec::new() };
    Policy::new(mode, [root]).with_rules(rules)
}

fn rules(texts: &[&str]) -> Vec<Sourced> {
    let sourced = |text: &&str| Sourced { rule: text.parse().unwrap(), source: Source::User };
    texts.iter().map(sourced).collect()
}

/// Checks whether a call runs unasked. What does not is asked about unless it
/// is denied: each denial has a test of its own.
#[track_caller]
fn check(policy: &Policy, call: (&str, Effect, Value), allowed: bool) {
    let decision = policy.decide(call.0, call.1, &call.2);
    assert_eq!(matches!(decision, Decision::Allow(_)), allowed, "{decision:?}");
}

#[track_caller]
fn check_denied(policy: &Policy, call: (&str, Effect, Value)) {
    let decision = policy.decide(call.0, call.1, &call.2);
    assert!(matches!(decision, Decision::Deny { .. }), "{decision:?}");
}

fn bash(command: &str) -> (&'static str, Effect, Value) {
    ("Bash", Effect::Executes, json!({"command": command}))
}

fn edit(path: &str) -> (&'static str, Effect, Value) {
    ("Edit", Effect::Edits, json!({"file_path": path}))
}

#[test]
fn reading_is_allowed_in_every_mode_unless_a_rule_denies_it() {
    for mode in Mode::ALL {
        let read = ("Read", Effect::Reads, json!({"file_path": "src/lib.rs"}));
        check(&policy(mode, &[], &[]), read.clone(), true);
        check(&policy(mode, &["Read"], &["Read(src/**)"]), read, false);
    }
}

#[test]
fn what_may_not_be_read_may_not_be_edited_either() {
    let denied = policy(Mode::BypassPermissions, &[], &["Read(src/**)"]);
    check(&denied, edit("src/lib.rs"), false);
    check(&denied, edit("tests/x.rs"), true);
}

#[test]
fn edits_need_a_mode_or_a_rule() {
    check(&policy(Mode::Default, &[], &[]), edit("src/lib.rs"), false);
    check(&policy(Mode::DontAsk, &[], &[]), edit("src/lib.rs"), false);
    check(&policy(Mode::AcceptEdits, &[], &[]), edit("src/lib.rs"), true);
    check(&policy(Mode::AcceptEdits, &[], &[]), edit("src/new/dir/file.rs"), true);
    check(&policy(Mode::BypassPermissions, &[], &[]), edit("/etc/passwd"), true);
    check(&policy(Mode::Default, &["Edit(src/**)"], &[]), edit("src/lib.rs"), true);
    check(&policy(Mode::Default, &["Edit(src/**)"], &[]), edit("tests/it/main.rs"), false);
    check(&policy(Mode::Plan, &["Edit"], &[]), edit("src/lib.rs"), false);
}

#[test]
fn accepted_edits_stay_inside_the_workspace_and_out_of_git() {
    let accept = policy(Mode::AcceptEdits, &[], &[]);
    for path in ["../x", "/etc/passwd", "src/../../x", ".git/hooks/pre-commit", ".git/config"] {
        check(&accept, edit(path), false);
    }
}

#[test]
fn what_decides_over_later_runs_needs_a_rule() {
    let accept = policy(Mode::AcceptEdits, &[], &[]);
    let own = accept.roots[0].join("own/tine");
    let accept = accept.guarding([own]);
    for path in [".mcp.json", "sub/.mcp.json", ".MCP.json", "own/tine", "own/tine/config.toml"] {
        check(&accept, edit(path), false);
    }
    check(&accept, edit("own/tiny"), true);
    for path in [".mcp.json", "sub/.git/config", "own/tine/x"] {
        check(&policy(Mode::Default, &[&format!("Edit({path})")], &[]), edit(path), true);
    }
}

#[test]
fn an_edit_that_names_no_file_is_denied() {
    let accept = policy(Mode::AcceptEdits, &[], &[]);
    for arguments in [json!({}), json!({"file_path": ["/etc/passwd"]})] {
        check(&accept, ("Write", Effect::Edits, arguments), false);
    }
}

#[test]
fn a_link_to_nothing_is_judged_by_where_its_target_would_be() {
    let outside = tempfile::tempdir().unwrap();
    let inside = tempfile::tempdir().unwrap();
    let target = outside.path().join("new");
    std::os::unix::fs::symlink(&target, inside.path().join("link")).unwrap();
    let rule = format!("Edit(/{}/**)", outside.path().canonicalize().unwrap().display());
    let write = ("Write", Effect::Edits, json!({"file_path": "link"}));
    let at = |policy: Policy| {
        policy.at(&[inside.path().to_owned()], (Path::new("/original"), inside.path()))
    };
    let accept = at(policy(Mode::AcceptEdits, &[], &[]));
    check(&accept, write.clone(), false);
    check_denied(&at(policy(Mode::BypassPermissions, &[], &[&rule])), write.clone());
    check(&at(policy(Mode::Default, &["Edit(link)"], &[])), write, false);
}

#[test]
fn what_denies_a_directory_denies_the_links_in_it() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().canonicalize().unwrap().join("work");
    for name in ["config", "vault/app", "open"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    std::fs::write(root.join("vault/a.key"), "").unwrap();
    for (target, name) in [
        ("/etc/hostname", "config/prod.env"),
        ("../vault/a.key", "config/a.key"),
        ("../vault/app", "config/app"),
        ("config/a.key", "open/../by"),
        ("nowhere", "config/new"),
    ] {
        std::os::unix::fs::symlink(target, root.join(name)).unwrap();
    }
    let policy_with = |denied: &str| {
        let rules = Rules { allow: Vec::new(), deny: rules(&[denied]), ask: Vec::new() };
        Policy::new(Mode::BypassPermissions, [root.clone()]).with_rules(rules)
    };
    let calls = |path: &str| {
        let file = json!({ "file_path": path });
        let patch = format!("*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch");
        [
            ("Read", Effect::Reads, file.clone()),
            ("Edit", Effect::Edits, file.clone()),
            ("Write", Effect::Edits, file),
            ("ApplyPatch", Effect::Edits, json!({ "patch": patch })),
        ]
    };
    for path in [
        "config/prod.env",
        "config/a.key",
        "config/app/x",
        "by",
        "config/new",
        "CONFIG/../config/a.key",
    ] {
        for rule in ["Read(config/**)", "Read(config)", "Read(config/)"] {
            for call in calls(path) {
                let Decision::Deny { .. } = policy_with(rule).decide(call.0, call.1, &call.2)
                else {
                    panic!("{rule}: {} {path}", call.0);
                };
            }
        }
    }
    let [read, edits @ ..] = calls("config/a.key");
    check(&policy_with("Edit(config/*.key)"), read, true);
    for call in edits {
        check_denied(&policy_with("Edit(config/*.key)"), call);
    }
    // A rule about a link says nothing of the other ways to its target.
    for call in calls("vault/a.key").into_iter().chain(calls("open/x")) {
        check(&policy_with("Read(config/**)"), call, true);
    }
}

#[test]
fn a_path_is_judged_as_the_tools_read_it() {
    // The tools take `\x2f` for a slash, unless a file has that very name.
    let accept = policy(Mode::AcceptEdits, &[], &[]);
    for path in [r"\x2fetc/passwd", r"\x2egit/hooks/pre-commit", r"src/\x2e\x2e/../../x"] {
        check(&accept, edit(path), false);
    }
    let denied = policy(Mode::BypassPermissions, &["Edit"], &["Edit(src/**)", "Read(src/**)"]);
    check(&denied, edit(r"\x73rc/lib.rs"), false);
    for tool in ["Read", "Grep", "Glob"] {
        let path = json!({"file_path": r"\x73rc/lib.rs", "path": r"\x73rc/lib.rs"});
        check(&denied, (tool, Effect::Reads, path), false);
    }
}

#[test]
fn commands_need_a_rule_and_a_pattern_never_covers_a_second_command() {
    check(&policy(Mode::AcceptEdits, &[], &[]), bash("ls"), false);
    let git = policy(Mode::Default, &["Bash(git *)", "Bash(npm run test)"], &[]);
    check(&git, bash("git status"), true);
    check(&git, bash("npm run test"), true);
    check(&git, bash("npm run test2"), false);
    for command in [
        "gitk",
        "git status; rm -rf .",
        "git status && rm x",
        "git log | sh",
        "git log > x",
        "git show $(rm x)",
        "git show `rm x`",
        "git status\nrm x",
        "git status & rm x",
        "git diff <(rm x)",
    ] {
        check(&git, bash(command), false);
    }
}

#[test]
fn a_deny_rule_wins_over_every_mode_and_sees_each_part_of_a_command() {
    let denied = policy(Mode::BypassPermissions, &["Bash"], &["Bash(rm *)"]);
    check(&denied, bash("ls"), true);
    for command in ["rm x", "ls; rm x", "ls && rm x", "ls | rm x", "  rm x", "ls\nrm x"] {
        check(&denied, bash(command), false);
    }
}

#[test]
fn a_deny_pattern_refuses_commands_it_cannot_see_through() {
    let denied = policy(Mode::BypassPermissions, &["Bash"], &["Bash(echo *)"]);
    for command in [
        "{ echo hi; }",
        "if true; then echo hi; fi",
        "X=1 echo hi",
        "/bin/echo hi",
        "ec\"\"ho hi",
        "echo  hi",
        "command echo hi",
    ] {
        check(&denied, bash(command), false);
    }
    check(&denied, bash("printf hi"), true);
    // A rule about the tool itself needs no look at the command.
    let free = policy(Mode::BypassPermissions, &[], &["Read(secrets)"]);
    check(&free, bash("{ echo hi; }"), true);
}

#[test]
fn an_allow_pattern_covers_no_option_that_runs_another_program() {
    let rules = ["Bash(git *)", "Bash(find *)", "Bash(git -c a=b log)"];
    let allowed = policy(Mode::Default, &rules, &[]);
    check(&allowed, bash("git switch -c new"), true);
    check(&allowed, bash("git -c a=b log"), true);
    check(&allowed, bash("git -c alias.x='!touch /tmp/x' x"), false);
    check(&allowed, bash("find . -exec touch x +"), false);
}

#[test]
fn agents_and_skills_can_be_denied_by_name() {
    let denied = policy(Mode::Default, &[], &["Agent(explore)", "Skill(deploy)"]);
    let agents = |names: &[&str]| {
        let tasks: Vec<Value> = names.iter().map(|name| json!({"subagent_type": name})).collect();
        ("Agent", Effect::Delegates, json!({"tasks": tasks}))
    };
    check(&denied, agents(&["reviewer"]), true);
    check(&denied, agents(&["reviewer", "Explore"]), false);
    check(&denied, ("Skill", Effect::Reads, json!({"skill": "deploy"})), false);
    check(&denied, ("Skill", Effect::Reads, json!({"skill": "/Deploy"})), false);
    check(&denied, ("Skill", Effect::Reads, json!({"skill": "review"})), true);
}

#[test]
fn what_is_empty_in_an_agent_call_counts_as_left_out() {
    let denied = policy(Mode::Default, &[], &["Agent(fork)", "Agent(explore)"]);
    let call = |arguments: Value| ("Agent", Effect::Delegates, arguments);
    check(&denied, call(json!({"subagent_type": "", "tasks": []})), false);
    check(&denied, call(json!({"subagent_type": " ", "prompt": "p", "tasks": {}})), false);
    check(&denied, call(json!({"subagent_type": "explore", "tasks": []})), false);
    check(&denied, call(json!({"subagent_type": "reviewer", "tasks": []})), true);
}

fn asking(mode: Mode, ask: &[&str]) -> Policy {
    let policy = policy(mode, &["Bash", "Edit"], &["Bash(rm *)"]);
    let rules = Rules { ask: rules(ask), ..policy.rules().clone() };
    policy.with_rules(rules)
}

/// Returns the question, if there is one.
fn question(policy: &Policy, call: (&str, Effect, Value)) -> Option<Ask> {
    match policy.decide(call.0, call.1, &call.2) {
        Decision::Ask(ask) => Some(ask),
        Decision::Allow(_) | Decision::Deny { .. } => None,
    }
}

#[test]
fn an_ask_rule_holds_in_every_mode_and_over_every_allow_rule() {
    for mode in [Mode::Default, Mode::AcceptEdits, Mode::BypassPermissions] {
        let policy = asking(mode, &["Bash(git push *)", "Edit(src/**)"]);
        let asked = question(&policy, bash("git push origin")).unwrap();
        assert_eq!(asked.reason, "the rule `Bash(git push *)` has it asked");
        assert_eq!((asked.rules, asked.remedy), (Vec::new(), None));
        assert!(question(&policy, bash("true && git push")).is_some());
        assert!(question(&policy, edit("src/lib.rs")).is_some());
        check(&policy, bash("git status"), true);
        check_denied(&policy, bash("rm x; git push"));
    }
    // Planning changes nothing, so there is nothing to ask.
    check_denied(&asking(Mode::Plan, &["Bash"]), bash("git push"));
    check_denied(&asking(Mode::DontAsk, &["Bash(git push *)"]), bash("git push"));
}

#[test]
fn what_an_ask_rule_cannot_see_through_is_asked_about() {
    let rules = Rules { ask: rules(&["Bash(git push *)"]), ..Rules::default() };
    let policy = policy(Mode::BypassPermissions, &[], &[]).with_rules(rules);
    let asked = question(&policy, bash("$GIT push")).unwrap();
    assert!(asked.reason.contains("`Bash(git push *)` cannot be compared"), "{}", asked.reason);
}

#[test]
fn commands_and_edits_that_nothing_allows_are_asked_about_with_the_rule_for_always() {
    let policy = policy(Mode::Default, &[], &[]);
    let asked = question(&policy, bash("cargo test -p x")).unwrap();
    let off = Allowed { access: Some(Access::Off), ..Allowed::default() };
    assert_eq!(
        asked,
        Ask {
            reason: "no rule allows this command".to_owned(),
            rules: vec!["Bash(cargo test *)".into()],
            allowed: off.clone(),
            remedy: Some("the rule `Bash(cargo test *)` would allow it".to_owned()),
            decided: asked.decided.clone(),
            is_sparable: true,
        }
    );
    assert_eq!(
        asked.refusal(),
        "no rule allows this command; nobody can be asked; the rule `Bash(cargo test *)` \
         would allow it"
    );
    let asked = question(&policy, bash("rm -rf x")).unwrap();
    assert_eq!((asked.rules, asked.remedy, asked.allowed), (Vec::new(), None, off));
    let asked = question(&policy, edit("src/lib.rs")).unwrap();
    let directory = std::env::current_dir().unwrap().join("src");
    assert_eq!(asked.rules, [format!("Edit(/{}/**)", directory.display()).into()]);
    let places = vec![directory.join("lib.rs")];
    assert_eq!(asked.allowed, Allowed { places, ..Allowed::default() });
}

#[test]
fn dont_ask_denies_what_would_be_asked_and_names_what_would_allow_it() {
    let policy = policy(Mode::DontAsk, &[], &[]);
    let (tool, effect, arguments) = bash("make");
    assert_eq!(
        policy.decide(tool, effect, &arguments),
        Decision::Deny {
            reason: "no rule allows this command; `dontAsk` asks nobody; the rule \
                     `Bash(make)` would allow it"
                .to_owned()
        }
    );
}

#[test]
fn a_command_runs_in_the_workspace_if_a_rule_allows_it_and_unbound_if_everything_is_allowed() {
    for (mode, access) in
        [(Mode::Default, Access::WorkspaceWrite), (Mode::BypassPermissions, Access::Off)]
    {
        let (tool, effect, arguments) = bash("make");
        let allowed = Allowed { access: Some(access), ..Allowed::default() };
        let policy = policy(mode, &["Bash(make)"], &[]);
        assert_eq!(policy.decide(tool, effect, &arguments), Decision::Allow(allowed));
    }
}

#[test]
fn a_wildcard_covers_what_programs_obey_only_behind_its_name() {
    let allows = |rule: &str, path: &str| {
        let policy = policy(Mode::Default, &[rule], &[]);
        let own = policy.roots()[0].join("own/tine");
        matches!(
            policy.guarding([own]).decide("Edit", Effect::Edits, &edit(path).2),
            Decision::Allow(_)
        )
    };
    for rule in ["Edit", "Edit(**)", "Edit(*/config)", "Edit(.c*/**)", "Edit(own/**)"] {
        for path in [".claude/config", "sub/.git/config", ".tine/config", "own/tine/config"] {
            assert!(!allows(rule, path), "{rule} {path}");
        }
    }
    assert!(allows("Edit", "src/lib.rs") && allows("Edit(**)", "own/tiny/x"));
    assert!(allows("Edit(.tine/**)", ".tine/config") && allows("Edit(**/.git/*)", "a/.git/config"));
    assert!(allows("Edit(.TINE/**)", ".TINE/config"));
    assert!(allows("Edit(own/tine/**)", "own/tine/config"));
    // One name does not stand for another.
    assert!(!allows("Edit(.tine/**)", ".tine/.claude/x"));
}

#[test]
fn secrets_are_asked_about_unless_a_rule_or_the_mode_lets_them_be_read() {
    let home = tempfile::tempdir().unwrap();
    let secrets = || Secrets::new(Some(home.path()), None);
    let key = home.path().join(".ssh/id_ed25519").to_str().unwrap().to_owned();
    let of = |mode, allow: &[&str]| policy(mode, allow, &[]).keeping(secrets());
    for tool in ["Read", "Grep", "Glob"] {
        let call = (tool, Effect::Reads, json!({"file_path": key, "path": key}));
        let asked = question(&of(Mode::Default, &[]), call.clone()).unwrap();
        assert!(asked.reason.ends_with("holds keys that open other machines"), "{}", asked.reason);
        check_denied(&of(Mode::DontAsk, &[]), call.clone());
        assert!(question(&of(Mode::Plan, &[]), call.clone()).is_some());
        check(&of(Mode::BypassPermissions, &[]), call.clone(), true);
        check(&of(Mode::Default, &[&format!("Read(/{key})")]), call, true);
    }
    let env = ("Read", Effect::Reads, json!({"file_path": "sub/.env"}));
    assert!(question(&of(Mode::Default, &[]), env.clone()).is_some());
    check(&of(Mode::Default, &["Read(sub/.env)"]), env, true);
    assert!(question(&of(Mode::AcceptEdits, &[]), edit(".env")).is_some());
}

#[test]
fn what_was_granted_answers_questions_like_it() {
    let policy = policy(Mode::Default, &[], &[]);
    let covers = |rule: &str, call: (&str, Effect, Value)| {
        let asked = question(&policy, call).unwrap();
        let granted: [Rule; 2] = ["Read".parse().unwrap(), rule.parse().unwrap()];
        asked.decided.covered_by(granted.iter().map(|rule| (rule, ()))).is_some()
    };
    assert!(covers("Bash(cargo test *)", bash("cargo test -p y")));
    assert!(!covers("Bash(cargo test *)", bash("cargo run")));
    assert!(!covers("Bash", bash("rm -rf /")), "what no rule is offered for is asked each time");
    assert!(covers("Edit(src/**)", edit("src/guard/x.rs")));
    assert!(!covers("Edit(src/**)", edit("tests/x.rs")));
    assert!(!covers("Edit", edit(".git/config")));
    let two = "cargo test && cargo clippy";
    assert!(!covers("Bash(cargo test *)", bash(two)));
    assert!(covers("Bash(cargo *)", bash(two)));
    assert!(!covers("Bash(git *)", bash("cargo test && git -c a=b status")));
    let patch = |body: &str| {
        let input = format!("*** Begin Patch\n{body}\n*** End Patch");
        ("ApplyPatch", Effect::Edits, json!({ "input": input }))
    };
    assert!(covers("Edit(src/**)", patch("*** Delete File: src/a\n*** Delete File: src/b")));
    assert!(!covers("Edit(src/**)", patch("*** Delete File: src/a\n*** Delete File: b")));
    let site = ("WebFetch", Effect::Executes, json!({"url": "https://example.com/x"}));
    assert!(covers("WebFetch(domain:example.com)", site.clone()));
    assert!(!covers("WebFetch(domain:example.org)", site));
}

#[test]
fn a_granted_rule_answers_for_the_file_that_was_decided_about_and_for_no_other() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().canonicalize().unwrap();
    let [work, copy, outside] = ["work", "copy", "home"].map(|name| place.join(name));
    for directory in [work.join("src"), copy.join("src"), outside.clone()] {
        std::fs::create_dir_all(directory).unwrap();
    }
    let granted: Rule = format!("Edit(/{}/src/**)", work.display()).parse().unwrap();
    let covers = |asked: &Ask| asked.decided.covered_by([(&granted, ())].into_iter()).is_some();
    let write = || ("Write", Effect::Edits, json!({"file_path": "src/x"}));
    let at = |root: &PathBuf| Policy::new(Mode::Default, [root.clone()]);
    // From a unit that works elsewhere the same words mean another file.
    let link = |root: &Path| {
        std::os::unix::fs::symlink(outside.join(".bashrc"), root.join("src/x")).unwrap();
    };
    link(&copy);
    let elsewhere = question(&at(&copy), write()).unwrap();
    assert_eq!(elsewhere.allowed.places, [outside.join(".bashrc")]);
    assert!(!covers(&elsewhere));
    // And a link that is gone by the time of the answer is none the less where
    // the call goes.
    link(&work);
    let linked = question(&at(&work), write()).unwrap();
    std::fs::remove_file(work.join("src/x")).unwrap();
    assert!(!covers(&linked));
    let inside = question(&at(&work), write()).unwrap();
    link(&work);
    assert_eq!(inside.allowed.places, [work.join("src/x")]);
    assert!(covers(&inside));
}

#[test]
fn a_rule_that_bars_a_file_by_its_whole_path_bars_copies_of_it_and_allows_none() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().canonicalize().unwrap();
    let roots = ["work", "one/work", "two/work"].map(|name| place.join(name));
    for root in &roots {
        std::fs::create_dir_all(root.join("src")).unwrap();
    }
    let [work, one, two] = &roots;
    let rule = |tool: &str, name: &str| format!("{tool}(/{}/src/{name})", work.display());
    let deny = [rule("Edit", "deny"), rule("Read", "secret")];
    let given = Rules {
        deny: deny.iter().flat_map(|rule| rules(&[rule])).collect(),
        ask: rules(&[&rule("Edit", "ask")]),
        allow: rules(&[&rule("Edit", "allow")]),
    };
    let main = Policy::new(Mode::AcceptEdits, [work.clone()]).with_rules(given);
    let copy = main.at(&roots[1..2], (work, one));
    let nested = copy.at(&roots[2..], (one, two));
    for policy in [&main, &copy, &nested] {
        let whole = |name: &str| policy.roots()[0].join(name).display().to_string();
        for name in ["src/deny", "src/secret", &whole("src/deny")] {
            check_denied(policy, edit(name));
        }
        check_denied(policy, ("Read", Effect::Reads, json!({"file_path": "src/secret"})));
        assert!(question(policy, edit("src/ask")).is_some());
        check(policy, edit("src/other"), true);
        let searches = Searches::by(&Arc::new(policy.clone()));
        let left_out = searches.left_out("Grep", &policy.roots()[0]);
        assert!(left_out.covers(&policy.roots()[0].join("src/secret")));
        assert!(!left_out.covers(&policy.roots()[0].join("src/other")));
    }
    let default = |policy: &Policy| policy.narrowed(Some(Mode::Default), &[]);
    check(&default(&main), edit("src/allow"), true);
    assert!(question(&default(&copy), edit("src/allow")).is_some());
}

#[test]
fn the_rule_that_is_suggested_in_a_copy_allows_the_same_in_the_next_one() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().canonicalize().unwrap();
    let roots = ["work", "one", "two"].map(|name| place.join(name));
    for root in &roots {
        std::fs::create_dir_all(root.join("src")).unwrap();
    }
    let [work, one, two] = &roots;
    let main = Policy::new(Mode::Default, [work.clone()]);
    let asked = question(&main.at(&roots[1..2], (work, one)), edit("src/new")).unwrap();
    assert_eq!(asked.rules, ["Edit(src/**)".into()]);
    let allow = rules(&[&*asked.rules[0]]);
    let main = main.with_rules(Rules { allow, ..Rules::default() });
    check(&main.at(&roots[2..], (work, two)), edit("src/new"), true);
    check(&main, edit("src/new"), true);
}

#[test]
fn a_unit_denied_something_by_its_definition_starts_none_that_may() {
    let parent = policy(Mode::BypassPermissions, &[], &[]);
    let child = parent.narrowed(None, &rules(&["Bash(git push *)"]));
    let grandchild = child.narrowed(Some(Mode::BypassPermissions), &rules(&["Read(src)"]));
    check(&parent, bash("git push"), true);
    for unit in [&child, &grandchild] {
        check_denied(unit, bash("git push"));
    }
    check(&child, edit("src/lib.rs"), true);
    check_denied(&grandchild, edit("src/lib.rs"));
    // Nor does one find there what it may not read.
    let root = std::env::current_dir().unwrap();
    for (unit, is_left_out) in [(&parent, false), (&child, false), (&grandchild, true)] {
        let searches = Searches::by(&Arc::new(unit.clone()));
        let left_out = searches.left_out("Grep", &root);
        assert_eq!(left_out.covers(&root.join("src/lib.rs")), is_left_out);
    }
}

mod unasked {
    use super::*;
    use crate::guard::SandboxIsThere;
    use crate::guard::sensitive::{ENDS_OF_KEYS, ENDS_OF_STATES, KEYS};
    use crate::guard::shell::Machine;

    /// A project, and policies in it that know the programs of this machine.
    struct Project(tempfile::TempDir);

    impl Project {
        fn new() -> Self {
            let project = Self(tempfile::tempdir().unwrap());
            for file in ["src/lib.rs", "secrets/key", "home/.ssh/id_rsa"] {
                let file = project.root().join(file);
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, "").unwrap();
            }
            project
        }

        fn root(&self) -> PathBuf {
            self.0.path().canonicalize().unwrap()
        }

        fn policy(&self, mode: Mode, given: Rules, has_sandbox: bool) -> Policy {
            let roots = [self.root()];
            let machine = Arc::new(Machine::new("/usr/bin:/bin".as_ref(), None, &roots, program()));
            let sandbox = SandboxIsThere::new(move || has_sandbox);
            let secrets = Secrets::new(Some(&self.root().join("home")), None);
            let policy = Policy::new(mode, roots).with_rules(given).keeping(secrets);
            policy.with_gate(Gate { machine, sandbox })
        }
    }

    /// Shows what is decided about a command: the decision, the access, whether
    /// what runs was written anew, and why.
    fn shown(policy: &Policy, command: &str) -> String {
        let (tool, effect, arguments) = bash(command);
        let Explained { decision, rule: _, reason } = policy.explain(tool, effect, &arguments);
        let how = |allowed: &Allowed| {
            let access = allowed.access.map_or("-", Access::as_str);
            let script = if allowed.script.is_some() { " anew" } else { "" };
            format!("{access}{script}")
        };
        match &decision {
            Decision::Allow(allowed) => format!("allow {}", how(allowed)),
            Decision::Ask(ask) => format!("ask {}: {reason}", how(&ask.allowed)),
            Decision::Deny { reason } => format!("deny: {reason}"),
        }
    }

    #[test]
    fn a_command_that_only_reads_runs_in_every_mode_but_only_in_a_sandbox() {
        let project = Project::new();
        for mode in [Mode::Plan, Mode::Default, Mode::DontAsk, Mode::AcceptEdits] {
            let policy = project.policy(mode, Rules::default(), true);
            assert_eq!(shown(&policy, "ls -la src && cat src/lib.rs"), "allow read-only anew");
        }
        let everything = project.policy(Mode::BypassPermissions, Rules::default(), true);
        assert_eq!(shown(&everything, "ls"), "allow off");
        let why = "it only reads, but there is no sandbox to hold it to that";
        let bare = |mode| shown(&project.policy(mode, Rules::default(), false), "ls");
        assert_eq!(bare(Mode::Default), format!("ask off: {why}"));
        assert_eq!(bare(Mode::Plan), format!("ask read-only anew: {why}"));
        assert!(bare(Mode::DontAsk).starts_with(&format!("deny: {why}")));
    }

    /// Returns what is hidden from a command, below the root; `None` if nobody looked.
    fn hidden(policy: &Policy, command: &str) -> Option<Vec<String>> {
        let (tool, effect, arguments) = bash(command);
        let allowed = match policy.decide(tool, effect, &arguments) {
            Decision::Allow(allowed) => allowed,
            Decision::Ask(ask) => ask.allowed,
            Decision::Deny { reason } => panic!("{reason}"),
        };
        let root = paths::resolved(policy.root(), Path::new("."));
        let below = |path: PathBuf| path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        Some(allowed.bounds?.hidden.into_iter().map(below).collect())
    }

    #[test]
    fn hidden_files_are_looked_for_once_an_answer_and_only_for_what_a_sandbox_holds() {
        let project = Project::new();
        let given = || Rules {
            allow: rules(&["Bash(touch *)"]),
            deny: rules(&["Read(**/.env)"]),
            ask: Vec::new(),
        };
        let put = |name: &str| std::fs::write(project.root().join(name), "").unwrap();
        let some = |names: &[&str]| Some(names.iter().map(|it| (*it).to_owned()).collect());
        put(".env");
        let free = project.policy(Mode::Default, given(), false);
        let yolo = project.policy(Mode::BypassPermissions, given(), true);
        for (policy, command) in [(&free, "touch x"), (&yolo, "touch x")] {
            assert_eq!(hidden(policy, command), None);
        }
        let policy = project.policy(Mode::AcceptEdits, given(), true);
        assert_eq!(hidden(&policy, "make x"), None);
        assert_eq!(hidden(&policy, "touch x"), some(&[".env"]));
        put("src/.env");
        assert_eq!(hidden(&policy, "touch x"), some(&[".env"]));
        policy.begin_batch();
        assert_eq!(hidden(&policy, "touch x"), some(&[".env", "src/.env"]));
        // What runs without a sandbox can put one there, and so can an edit.
        put("home/.env");
        assert_eq!(hidden(&policy, "make x"), None);
        let all = some(&[".env", "home/.env", "src/.env"]);
        assert_eq!(hidden(&policy, "touch x"), all);
        put("secrets/.env");
        let (tool, effect, arguments) = edit("src/new");
        assert!(matches!(policy.decide(tool, effect, &arguments), Decision::Allow(_)));
        let all = some(&[".env", "home/.env", "secrets/.env", "src/.env"]);
        assert_eq!(hidden(&policy, "touch x"), all);
        // A directory has been moved.
        std::fs::rename(project.root().join("secrets"), project.root().join("t")).unwrap();
        assert_eq!(hidden(&policy, "touch x"), some(&[".env", "home/.env", "src/.env", "t/.env"]));
    }

    #[test]
    fn it_is_bounded_as_a_reader_though_a_rule_would_allow_more() {
        let project = Project::new();
        let given = Rules { allow: rules(&["Bash(ls *)", "Bash(touch *)"]), ..Rules::default() };
        let policy = project.policy(Mode::Default, given.clone(), true);
        assert_eq!(shown(&policy, "ls"), "allow read-only anew");
        assert_eq!(shown(&policy, "ls && touch x"), "allow workspace-write");
        let policy = project.policy(Mode::Default, given, false);
        assert_eq!(shown(&policy, "ls"), "allow workspace-write");
    }

    #[test]
    fn what_it_reads_is_held_against_the_rules_about_reading() {
        let project = Project::new();
        let deny = || Rules { deny: rules(&["Read(secrets/**)"]), ..Rules::default() };
        for mode in [Mode::Default, Mode::BypassPermissions] {
            let policy = project.policy(mode, deny(), true);
            for command in ["cat secrets/key", "cat src/lib.rs; head src/../secrets/key"] {
                assert_eq!(shown(&policy, command), "deny: denied by the rule `Read(secrets/**)`");
            }
            let asked = shown(&policy, "grep -r x .");
            assert!(
                asked.ends_with("it may read what the rule `Read(secrets/**)` is about"),
                "{asked}"
            );
            assert!(shown(&policy, "grep -r x src").starts_with("allow"));
        }
        let ask = Rules { ask: rules(&["Read(secrets/**)"]), ..Rules::default() };
        let policy = project.policy(Mode::Default, ask, true);
        assert!(
            shown(&policy, "cat secrets/key").starts_with("ask off: the rule `Read(secrets/**)`")
        );
    }

    #[test]
    fn a_rule_about_a_file_that_is_not_there_bothers_nobody_who_searches() {
        let project = Project::new();
        let deny = Rules { deny: rules(&["Read(src/key)"]), ..Rules::default() };
        let policy = project.policy(Mode::Default, deny, true);
        assert_eq!(shown(&policy, "grep -r x src"), "allow read-only anew");
        std::fs::write(project.root().join("src/key"), "").unwrap();
        assert!(shown(&policy, "grep -r x src").starts_with("ask"));
    }

    #[test]
    fn secrets_are_asked_about_however_they_are_read() {
        let project = Project::new();
        let policy = project.policy(Mode::Default, Rules::default(), true);
        for command in ["cat home/.ssh/id_rsa", "grep -r x home", "wc -c home/.ssh/id_rsa | sort"] {
            let asked = shown(&policy, command);
            assert!(asked.contains("holds keys that open other machines"), "{command}: {asked}");
        }
    }

    #[test]
    fn a_search_through_a_tree_shows_no_secret_of_the_project_however_deep() {
        let project = Project::new();
        let named = [
            "src/.env",
            "src/deep/.envrc",
            "src/deep/.env",
            "src/deep/.ENV.local",
            "src/deep/a.env",
        ];
        let keys = KEYS.map(|name| format!("src/deep/{name}"));
        let ends = ENDS_OF_KEYS.into_iter().chain(ENDS_OF_STATES);
        let stores = ends.map(|end| format!("src/deep/store{end}"));
        for file in named.map(str::to_owned).into_iter().chain(keys).chain(stores) {
            let file = project.root().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "KEY=1\n").unwrap();
        }
        let policy = project.policy(Mode::Default, Rules::default(), true);
        for command in
            ["grep -rh KEY src", "grep -r -e KEY --include=.env -- src", "find src -name x"]
        {
            assert_eq!(shown(&policy, command), "allow read-only anew", "{command}");
        }
        for command in ["cat src/deep/.env", "rg KEY src/deep/.env", "rg --iglob '.env' KEY"] {
            assert!(shown(&policy, command).starts_with("ask"), "{command}");
        }
        let found = |command: &str| {
            let (tool, effect, arguments) = bash(command);
            let decision = policy.decide(tool, effect, &arguments);
            let Decision::Allow(Allowed { script: Some(script), .. }) = decision else {
                panic!("{decision:?}")
            };
            let mut shell = std::process::Command::new("sh");
            let output = shell.args(["-c", &script.text]).current_dir(project.root()).output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        };
        assert_eq!(found("grep -rl KEY src"), "src/deep/a.env\n");
        assert_eq!(found("grep -rl KEY src --include='*.env'"), "src/deep/a.env\n");
        assert_eq!(found("grep -rl --include=.env -- KEY src"), "");
    }

    #[test]
    fn each_part_of_a_command_may_be_allowed_by_a_rule_of_its_own() {
        let project = Project::new();
        let allow = rules(&["Bash(make)", "Bash(touch *)"]);
        let policy = project.policy(Mode::Default, Rules { allow, ..Rules::default() }, true);
        assert_eq!(shown(&policy, "make && touch x"), "allow workspace-write");
        assert!(shown(&policy, "make && rm x").starts_with("ask"));
        assert!(shown(&policy, "make > x").starts_with("ask"));
    }

    #[test]
    fn always_offers_a_rule_for_each_part() {
        let project = Project::new();
        let policy = project.policy(Mode::Default, Rules::default(), true);
        let offered = |command: &str| question(&policy, bash(command)).unwrap().rules;
        assert_eq!(
            offered("cargo build && cargo test -p x && ./run.sh"),
            ["Bash(cargo build *)".into(), "Bash(cargo test *)".into(), "Bash(./run.sh)".into()]
        );
        let none: [Arc<str>; 0] = [];
        for command in
            ["cargo build && rm -rf x", "make | sh", "make > log", "for x in a; do y; done"]
        {
            assert_eq!(offered(command), none, "{command}");
        }
    }
}

mod never_more_than_its_parent {
    use proptest::prelude::*;

    use super::*;

    const RULES: [&str; 10] = [
        "Bash",
        "Bash(git *)",
        "Bash(rm *)",
        "Edit",
        "Edit(src/**)",
        "Edit(.git/**)",
        "Read(src/**)",
        "Read",
        "Agent(explore)",
        "mcp__a__b",
    ];

    fn calls() -> Vec<(&'static str, Effect, Value)> {
        let mut calls: Vec<_> =
            ["git status", "git push && rm x", "rm x", "$x", "make"].map(bash).into();
        calls.extend(["src/lib.rs", ".git/config", "/etc/passwd", ".env", "x"].map(edit));
        for path in ["src/lib.rs", ".env", "/etc/passwd"] {
            calls.push(("Read", Effect::Reads, json!({"file_path": path})));
        }
        calls.push(("Agent", Effect::Delegates, json!({"subagent_type": "explore"})));
        calls.push(("mcp__a__b", Effect::Executes, json!({})));
        calls
    }

    fn some_rules() -> impl Strategy<Value = Vec<Sourced>> {
        proptest::sample::subsequence(&RULES[..], 0..4).prop_map(|texts| rules(&texts))
    }

    fn modes() -> impl Strategy<Value = Mode> {
        proptest::sample::select(&Mode::ALL[..])
    }

    /// How much a decision lets happen: not at all, after a yes, at once.
    fn leave(decision: &Decision) -> u8 {
        match decision {
            Decision::Deny { .. } => 0,
            Decision::Ask(_) => 1,
            Decision::Allow(_) => 2,
        }
    }

    proptest! {
        #[test]
        fn whatever_its_definition_says(
            (allow, ask, deny) in (some_rules(), some_rules(), some_rules()),
            parent in modes(),
            definitions in proptest::collection::vec((proptest::option::of(modes()), some_rules()), 1..3),
        ) {
            let mut unit = policy(parent, &[], &[]).with_rules(Rules { allow, ask, deny });
            for (mode, denied) in definitions {
                let child = unit.narrowed(mode, &denied);
                for (tool, effect, arguments) in calls() {
                    let of_parent = unit.decide(tool, effect, &arguments);
                    let of_child = child.decide(tool, effect, &arguments);
                    prop_assert!(
                        leave(&of_child) <= leave(&of_parent),
                        "{:?} {:?}: {of_parent:?}, but {of_child:?}", tool, arguments
                    );
                }
                unit = child;
            }
        }
    }
}

#[test]
fn a_hard_link_is_under_the_rules_and_questions_about_every_name_of_its_file() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("config")).unwrap();
    for (file, other) in [(".env", "notes.txt"), ("config/prod.key", "b.txt"), ("free", "c.txt")] {
        std::fs::write(root.join(file), "x").unwrap();
        std::fs::hard_link(root.join(file), root.join(other)).unwrap();
    }
    let policy = |mode, deny: &[&str]| {
        let rules = Rules { allow: Vec::new(), deny: rules(deny), ask: Vec::new() };
        Policy::new(mode, [root.clone()]).with_rules(rules)
    };
    let read = |path: &str| ("Read", Effect::Reads, json!({ "file_path": path }));
    let plain = policy(Mode::Default, &[]);
    for asked in [".env", "notes.txt"] {
        check(&plain, read(asked), false);
    }
    for allowed in ["b.txt", "c.txt", "config/prod.key"] {
        check(&plain, read(allowed), true);
    }
    for rule in ["Read(config/**)", "Read(**/*.key)", "Read(config/prod.key)"] {
        let denying = policy(Mode::BypassPermissions, &[rule]);
        for denied in [read("b.txt"), edit("b.txt"), read("config/prod.key")] {
            check_denied(&denying, denied);
        }
        check(&denying, read("c.txt"), true);
        check(&denying, read("notes.txt"), true);
    }
    check_denied(&policy(Mode::BypassPermissions, &["Read(.env)"]), read("notes.txt"));
    check_denied(&policy(Mode::BypassPermissions, &["Edit(free)"]), edit("c.txt"));
}
