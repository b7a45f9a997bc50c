//! Shell commands: those that must not pass, and those that must.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::Output;

use serde::Deserialize;
use tine::guard::Decision;
use tine::guard::shell::Judged;

use crate::support::throwaway::{Throwaway, for_each, shows_denied};

#[derive(Deserialize)]
struct Corpus {
    class: Vec<Class>,
    reading: Vec<Reading>,
    environment: Vec<Environment>,
}

/// Attacks of one kind.
#[derive(Deserialize)]
struct Class {
    name: String,
    stopped: Stopped,
    #[serde(default)]
    setup: String,
    commands: Vec<String>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Stopped {
    /// The gate asks.
    Asked,
    /// It asks, or what it makes of the command is harmless.
    Rewritten,
}

/// Attacks that print what a rule denies.
#[derive(Deserialize)]
struct Reading {
    name: String,
    #[serde(default)]
    setup: String,
    commands: Vec<String>,
}

/// An attack by what is there before the command.
#[derive(Deserialize)]
struct Environment {
    command: String,
    #[serde(default)]
    setup: String,
    variables: BTreeMap<String, String>,
}

fn corpus() -> Corpus {
    toml::from_str(include_str!("../../attacks/shell.toml")).expect("the corpus is well formed")
}

fn prepared(setup: &str) -> Throwaway {
    let throwaway = Throwaway::new();
    throwaway.set_up(setup);
    assert!(!throwaway.has_canary(), "{setup}");
    throwaway
}

fn check(class: &Class, command: &str) -> Result<(), String> {
    let title = format!("{}: {command}", class.name);
    let alive = prepared(&class.setup);
    let judged = alive.judge(command);
    let output = alive.run(command, &alive.variables());
    if !alive.has_canary() {
        return Err(format!("{title} is not alive: {output:?}"));
    }
    match (judged, class.stopped) {
        (Judged::Ask { reason: _ }, _) => Ok(()),
        (Judged::Reads(reading), Stopped::Asked) => {
            Err(format!("{title} passed: {}", reading.script))
        }
        (Judged::Reads(_), Stopped::Rewritten) => check_rewritten(class, command),
    }
}

fn check_rewritten(class: &Class, command: &str) -> Result<(), String> {
    let guarded = prepared(&class.setup);
    let Judged::Reads(reading) = guarded.judge(command) else { return Ok(()) };
    let output = guarded.run_reading(&reading.script, guarded.variables());
    let lives = || format!("{}: {command} lives: {} {output:?}", class.name, reading.script);
    if guarded.has_canary() { Err(lives()) } else { Ok(()) }
}

#[test]
fn no_attack_passes_the_gate() {
    let corpus = corpus();
    let attacks: Vec<(&Class, &String)> = corpus
        .class
        .iter()
        .flat_map(|class| class.commands.iter().map(move |command| (class, command)))
        .collect();
    assert!(attacks.len() >= 250, "{}", attacks.len());
    let wrong = for_each(&attacks, |(class, command)| check(class, command));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn check_reading(class: &Reading, command: &str) -> Result<(), String> {
    let throwaway = prepared(&class.setup);
    let command = throwaway.spelt(command);
    let title = format!("{}: {command}", class.name);
    let output = throwaway.run(&command, &throwaway.variables());
    if !shows_denied(&output) {
        return Err(format!("{title} is not alive: {output:?}"));
    }
    match throwaway.decide(&command) {
        Decision::Ask(ask) if ask.reason.contains("is not found") => {
            Err(format!("{title} is asked about for another reason: {}", ask.reason))
        }
        Decision::Ask(_) | Decision::Deny { reason: _ } => Ok(()),
        Decision::Allow(allowed) => {
            let script = allowed.script.expect("what runs unasked is a script");
            let output = throwaway.run_reading(&script.text, throwaway.variables());
            let lives = || format!("{title} passed: {} {output:?}", script.text);
            if shows_denied(&output) { Err(lives()) } else { Ok(()) }
        }
    }
}

#[test]
fn nothing_that_a_rule_denies_is_printed_unasked() {
    let corpus = corpus();
    let attacks: Vec<(&Reading, &String)> = corpus
        .reading
        .iter()
        .flat_map(|class| class.commands.iter().map(move |command| (class, command)))
        .collect();
    assert!(attacks.len() >= 90, "{}", attacks.len());
    let wrong = for_each(&attacks, |(class, command)| check_reading(class, command));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn check_environment(attack: &Environment) -> Result<(), String> {
    let inherited = |throwaway: &Throwaway| {
        let ours = attack.variables.iter().map(|(name, value)| (name.into(), value.into()));
        throwaway.variables().into_iter().chain(ours).collect::<BTreeMap<OsString, OsString>>()
    };
    let alive = prepared(&attack.setup);
    let output = alive.run(&attack.command, &inherited(&alive));
    if !alive.has_canary() {
        return Err(format!("{:?} is not alive: {output:?}", attack.variables));
    }
    let guarded = prepared(&attack.setup);
    let Judged::Reads(reading) = guarded.judge(&attack.command) else {
        return Err(format!("{} asks", attack.command));
    };
    let output = guarded.run_reading(&reading.script, inherited(&guarded));
    if guarded.has_canary() || !output.status.success() {
        return Err(format!("{:?} reaches it: {output:?}", attack.variables));
    }
    Ok(())
}

#[test]
fn nothing_in_the_environment_reaches_what_passes_the_gate() {
    let wrong = for_each(&corpus().environment, check_environment);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What agents run all day to look around.
const EVERYDAY: [&str; 36] = [
    "git status",
    "git status --short --branch",
    "git log --oneline -n 5",
    "git log -3 --format='%h %an %s' -- src",
    "git diff",
    "git diff HEAD~1 --stat",
    "git show HEAD --stat",
    "git show HEAD~1:src/lib.rs",
    "git blame -L 1,2 src/lib.rs",
    "git branch -a",
    "git rev-parse --abbrev-ref HEAD",
    "git ls-files | head -n 20",
    "git grep -n fn -- src",
    "ls -la",
    "ls -la src && cat Cargo.toml",
    "pwd && ls",
    "cd src && ls -1 | wc -l",
    "rg -n fn src",
    "rg --files -g '*.rs' | sort",
    "grep -rn \"fn main\\|pub fn\" src --include='*.rs'",
    "find . -name '*.rs' -not -path './target/*' -type f | sort",
    "find src -maxdepth 2 -type f -size +0 -print",
    "cargo metadata --no-deps --format-version 1",
    "cargo metadata --no-deps --format-version 1 | jq -r '.packages[].name'",
    "cargo tree --depth 1",
    "wc -l src/lib.rs src/main.rs",
    "cat src/lib.rs | head -20",
    "tail -n +2 src/lib.rs 2>/dev/null",
    "sed -n '1,3p' src/lib.rs",
    "sort src/lib.rs | uniq -c | sort -rn | head -5",
    "diff src/lib.rs src/main.rs",
    "file src/lib.rs; stat -c '%s %n' src/lib.rs",
    "[ -f Cargo.toml ] && echo yes || echo no",
    "which git 2>&1; command -v sort",
    "du -sh src; printf '%s\\n' done",
    "cut -d= -f1 Cargo.toml | tr a-z A-Z",
];

const PROJECT: &str = r#"
git init -q
printf '[package]\nname = "p"\nversion = "0.1.0"\nedition = "2021"\n' > Cargo.toml
mkdir src; printf 'pub fn one() {}\n\npub fn two() {}\n' > src/lib.rs; echo 'fn main() {}' > src/main.rs
cargo generate-lockfile -q --offline
git add .; git commit -qm one; echo '// more' >> src/lib.rs; git commit -qam two; echo '// most' >> src/lib.rs
"#;

fn check_everyday(throwaway: &Throwaway, command: &str) -> Result<(), String> {
    let reading = match throwaway.judge(command) {
        Judged::Reads(reading) => reading,
        Judged::Ask { reason } => return Err(format!("{command} asks: {reason}")),
    };
    let program = command.split(' ').next().unwrap_or_default();
    let is_here = throwaway.run(&format!("command -v {program}"), &throwaway.variables());
    // ripgrep is not on every machine; the gate has been asked.
    if program == "rg" && !is_here.status.success() {
        return Ok(());
    }
    let told = |output: Output| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr), output.status.code())
    };
    let plain = told(throwaway.run(command, &throwaway.variables()));
    let read = told(throwaway.run_reading(&reading.script, throwaway.variables()));
    if read == plain {
        Ok(())
    } else {
        Err(format!("{command} says {plain:?}, but {} says {read:?}", reading.script))
    }
}

#[test]
fn everyday_commands_pass_and_do_what_they_say() {
    let throwaway = prepared(PROJECT);
    let wrong = for_each(&EVERYDAY, |command| check_everyday(&throwaway, command));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(!throwaway.has_canary());
}
