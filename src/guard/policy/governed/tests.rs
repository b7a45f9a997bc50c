//! What is left to a unit of another machine's run.

use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::git::tests::program;
use crate::guard::shell::Machine;
use crate::guard::{Decision, Effect, Gate, Mode, SandboxIsThere, Searches, Secrets, Source};

/// A workspace of each machine, and a home of this one.
struct Places(tempfile::TempDir);

impl Places {
    fn new() -> Self {
        let places = Self(tempfile::tempdir().unwrap());
        for file in ["there/src/lib.rs", "here/src/lib.rs", "here/src/key", "home/.ssh/id_rsa"] {
            let file = places.path(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "").unwrap();
        }
        places
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn rule(&self, tool: &str, name: &str) -> String {
        format!("{tool}(/{})", self.path(name).display())
    }

    fn policy(&self, mode: Mode, root: &str, rules: Rules) -> Policy {
        let secrets = Secrets::new(Some(&self.path("home")), None);
        Policy::new(mode, [self.path(root)]).with_rules(rules).keeping(secrets)
    }
}

fn rules(texts: &[&str]) -> Vec<Sourced> {
    let sourced = |text: &&str| Sourced { rule: text.parse().unwrap(), source: Source::User };
    texts.iter().map(sourced).collect()
}

fn wired(policy: &Policy) -> PolicyParts {
    PolicyParts::decode(&policy.parts().encode()).unwrap()
}

/// How much a decision lets happen: not at all, after a yes, at once.
fn leave(policy: &Policy, (tool, effect, arguments): &Call) -> u8 {
    match policy.decide(tool, *effect, arguments) {
        Decision::Deny { .. } => 0,
        Decision::Ask(_) => 1,
        Decision::Allow(_) => 2,
    }
}

type Call = (&'static str, Effect, Value);

fn bash(command: &str) -> Call {
    ("Bash", Effect::Executes, json!({ "command": command }))
}

fn edit(path: &str) -> Call {
    ("Edit", Effect::Edits, json!({ "file_path": path }))
}

fn read(path: &str) -> Call {
    ("Read", Effect::Reads, json!({ "file_path": path }))
}

#[test]
fn a_file_that_they_bar_by_its_whole_path_is_barred_in_the_copy() {
    let places = Places::new();
    let deny = [places.rule("Read", "there/src/key"), places.rule("Edit", "main/old")];
    let deny = deny.iter().flat_map(|rule| rules(&[rule])).collect();
    let ask = rules(&[&places.rule("Edit", "there/src/lib.rs")]);
    let allow = rules(&["Edit"]);
    let theirs = places.policy(Mode::AcceptEdits, "there", Rules { allow, ask, deny });
    // Their working directory is a copy itself.
    let roots = [places.path("there")];
    let theirs = theirs.at(&roots, (&places.path("main"), &roots[0]));
    let here = places.policy(Mode::BypassPermissions, "here", Rules::default());
    let unit = here.governed_by(&wired(&theirs));
    let copy = unit.at(&[places.path("here")], (&places.path("before"), &places.path("here")));
    for unit in [&unit, &copy] {
        for (call, expected) in [
            (read("src/key"), 0),
            (read(&places.path("here/src/key").display().to_string()), 0),
            (edit("src/key"), 0),
            (edit("old"), 0),
            (edit("src/lib.rs"), 1),
            (edit("src/new.rs"), 2),
        ] {
            assert_eq!(leave(unit, &call), expected, "{call:?}");
        }
        let searches = Searches::by(&Arc::new(unit.clone()));
        let left_out = searches.left_out("Grep", &unit.roots()[0]);
        assert!(left_out.covers(&places.path("here/src/key")));
        assert!(!left_out.covers(&places.path("here/src/new.rs")));
    }
}

#[test]
fn a_command_that_reads_what_they_bar_is_seen_through() {
    let places = Places::new();
    let deny = rules(&[&places.rule("Read", "there/src/key")]);
    let theirs = places.policy(Mode::Default, "there", Rules { deny, ..Rules::default() });
    let here = places.policy(Mode::Default, "here", Rules::default());
    let roots = [places.path("here")];
    let machine = Arc::new(Machine::new("/usr/bin:/bin".as_ref(), None, &roots, program()));
    let here = here.with_gate(Gate { machine, sandbox: SandboxIsThere::new(|| true) });
    let unit = here.governed_by(&wired(&theirs));
    for (command, expected) in
        [("cat src/key", 0), ("grep -r x src", 1), ("grep -r x .", 1), ("cat src/lib.rs", 2)]
    {
        assert_eq!(leave(&unit, &bash(command)), expected, "{command}");
    }
    std::fs::remove_file(places.path("here/src/key")).unwrap();
    assert_eq!(leave(&unit, &bash("grep -r x src")), 2);
}

#[test]
fn their_home_and_this_one_are_both_meant() {
    let places = Places::new();
    let ada = Some(Path::new("/home/ada"));
    let rule = crate::guard::Rule::parse("Read(~/notes/**)", ada).unwrap();
    let deny = vec![Sourced { rule, source: Source::User }];
    let theirs = places.policy(Mode::Default, "there", Rules { deny, ..Rules::default() });
    let here = places.policy(Mode::Default, "here", Rules::default());
    let unit = here.governed_by(&wired(&theirs));
    for path in [places.path("home/notes/a"), "/home/ada/notes/a".into()] {
        assert_eq!(leave(&unit, &read(&path.display().to_string())), 0, "{}", path.display());
    }
    assert_eq!(leave(&unit, &read(&places.path("home/other").display().to_string())), 2);
}

#[test]
fn their_rules_allow_nothing_outside_of_this_workspace() {
    let places = Places::new();
    let allow = rules(&["Edit", "Edit(**)", "Read", "Edit(src/**)", &places.rule("Edit", "**")]);
    let theirs = places.policy(Mode::Default, "there", Rules { allow, ..Rules::default() });
    let leave_of = Sourced { rule: "Write".parse().unwrap(), source: Source::Skill };
    let theirs = theirs.with_leave(&[leave_of]);
    let own = Rules { allow: rules(&["Bash(make)"]), ..Rules::default() };
    let here = places.policy(Mode::AcceptEdits, "here", own);
    let unit = here.governed_by(&wired(&theirs));
    let outside = |name: &str| places.path(name).display().to_string();
    let write = |path: String| ("Write", Effect::Edits, json!({ "file_path": path }));
    for (call, expected) in [
        (edit("src/lib.rs"), 2),
        (edit("new"), 2),
        (write("new".to_owned()), 2),
        (write(outside("there/new")), 1),
        (edit(&outside("there/new")), 1),
        (edit(&outside("home/new")), 1),
        (read(&outside("home/.ssh/id_rsa")), 1),
        (bash("make"), 1),
    ] {
        assert_eq!(leave(&unit, &call), expected, "{call:?}");
    }
    let searches = Searches::by(&Arc::new(unit));
    let home = places.path("home");
    assert!(searches.left_out("Grep", &home).covers(&home.join(".ssh/id_rsa")));
}

const RULES: [&str; 11] = [
    "Bash",
    "Bash(git *)",
    "Bash(rm *)",
    "Edit",
    "Edit(src/**)",
    "Edit(.git/**)",
    "Read(src/**)",
    "Read",
    "Read(//etc/**)",
    "Agent(explore)",
    "mcp__a__b",
];

/// Calls that are the same in each workspace.
fn calls() -> Vec<Call> {
    let mut calls: Vec<_> =
        ["git status", "git push && rm x", "rm x", "$x", "make"].map(bash).into();
    calls.extend(["src/lib.rs", ".git/config", "/etc/passwd", ".env", "x", "../x"].map(edit));
    calls.extend(["src/lib.rs", ".env", "/etc/passwd", "src"].map(read));
    calls.push(("Agent", Effect::Delegates, json!({ "subagent_type": "explore" })));
    calls.push(("WebFetch", Effect::Fetches, json!({ "url": "https://example.com" })));
    calls.push(("mcp__a__b", Effect::Executes, json!({})));
    calls
}

/// Rules, some of which name files by their whole path.
fn some_rules(root: PathBuf) -> impl Strategy<Value = Vec<Sourced>> {
    let whole = ["src/**", "src/lib.rs", "x", ".", "**"].map(|name| {
        let root = root.display();
        [format!("Edit(/{root}/{name})"), format!("Read(/{root}/{name})")]
    });
    let all: Vec<String> = RULES.map(str::to_owned).into_iter().chain(whole.concat()).collect();
    proptest::sample::subsequence(all, 0..5)
        .prop_map(|texts| texts.iter().flat_map(|text| rules(&[text])).collect())
}

fn all_rules(root: PathBuf) -> impl Strategy<Value = Rules> {
    let some = || some_rules(root.clone());
    (some(), some(), some()).prop_map(|(allow, ask, deny)| Rules { allow, ask, deny })
}

fn modes() -> impl Strategy<Value = Mode> {
    proptest::sample::select(&Mode::ALL[..])
}

#[test]
fn it_is_never_more_than_either() {
    let places = Places::new();
    let (there, here) = (places.path("there"), places.path("here"));
    let given = (
        (modes(), all_rules(there.clone()), some_rules(there)),
        (modes(), all_rules(here)),
        any::<bool>(),
    );
    proptest!(|(((their_mode, their_rules, denied), (mode, own_rules), may_ask) in given)| {
        let allow = their_rules.allow.clone();
        let theirs = places.policy(their_mode, "there", their_rules).narrowed(None, &denied);
        let theirs = if may_ask { theirs } else { theirs.without_questions() };
        let own = places.policy(mode, "here", own_rules.clone());
        let unit = own.governed_by(&wired(&theirs));
        // This machine's own rules bar what they bar, whatever allows it; of what
        // they say nothing about, only the mode bars it.
        let bars = places.policy(mode, "here", Rules { allow, ..own_rules });
        for call in calls() {
            let left = leave(&unit, &call);
            prop_assert!(left <= leave(&theirs, &call), "more than theirs: {:?}", call);
            prop_assert!(left <= leave(&bars, &call), "more than its own: {:?}", call);
            let (tool, effect, arguments) = &call;
            let own_says = own.explain(tool, *effect, arguments);
            if own_says.rule.is_some() {
                let is_less = left <= leave(&own, &call);
                let has_allowed = leave(&own, &call) == 2;
                prop_assert!(is_less || has_allowed, "its own rule bars it: {:?}", call);
            }
        }
    });
}
