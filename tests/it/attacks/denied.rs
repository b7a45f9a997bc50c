//! Commands that would read what a rule denies to read.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::repository::Repository;
use crate::support::tine::{Place, executable};

/// Ways to a file in the home directory. Each prints it where no rule denies that.
const SPELLINGS: [&str; 26] = [
    "cat ~/Desktop/k",
    "cat $HOME/Desktop/k",
    "cat ${HOME}/Desktop/k",
    "cat \"$HOME/Desktop/k\"",
    "cat \"$HOME\"/Desktop/k",
    "cat ~/'Desk'top/k",
    "cat ../home/Desktop/k",
    "cat /proc/self/root$HOME/Desktop/k",
    "cd ~/Desktop && cat k",
    "cd ~ && cat Desktop/k",
    "(cd ~/Desktop; cat k)",
    "cp ~/Desktop/k copy && cat copy",
    "tar cf - -C ~/Desktop k | tar xOf -",
    "head < ~/Desktop/k",
    "while read -r line; do echo $line; done < ~/Desktop/k",
    "git diff --no-index /dev/null ~/Desktop/k",
    "dd if=$HOME/Desktop/k 2>/dev/null",
    "grep -r SECRET ~/Desktop",
    "bash -c 'cat ~/Desktop/k'",
    "ln -s ~/Desktop/k link && cat link",
    "mv ~/Desktop/k moved && cat moved",
    // No word tells these.
    "cat ~/D*/k",
    "x=~/Desktop; cat $x/k",
    "x=Desktop; cat ~/$x/k",
    "find ~ -name k -exec cat {} +",
    "sh ./script.sh",
];

/// Number of spellings, from the first on, that name the file.
const TOLD: usize = 21;

/// A home with a secret that commands can see and move.
fn place() -> Place {
    let place = Place::new();
    let desktop = place.home().join("Desktop");
    std::fs::create_dir(&desktop).expect("the place is ours");
    std::fs::write(desktop.join("k"), "SECRET\n").expect("the place is ours");
    executable(&place.work().join("script.sh"), "cat ~/Desktop/k\n");
    place
}

/// Settings under which the home's directory is in sight, below a temporary directory
/// too, with this rule.
fn configure(place: &Place, permissions: &str) {
    let text = format!("[sandbox]\nwrite = [\"~/Desktop\"]\n[permissions]\n{permissions}\n");
    place.configure(&text);
}

/// Runs a command in a sandbox and returns all that it said; `None` without that backend.
fn sandboxed(place: &Place, backend: &str, command: &str) -> Option<String> {
    let run = |script: &str| {
        place.tine(["sandbox", "--backend", backend, "--", "bash", "-c", script]).run()
    };
    if !run("exit 0").status.success() {
        let required = std::env::var("REQUIRE_SANDBOX").is_ok_and(|value| value == "1");
        assert!(!required, "no {backend}");
        return None;
    }
    let finished = run(command);
    Some(finished.stdout + &finished.stderr)
}

#[test]
fn no_spelling_gets_a_denied_file_out_of_a_sandbox() {
    for command in SPELLINGS {
        let free = place();
        let shell = ["sandbox", "--policy", "off", "--", "bash", "-c", command];
        let said = free.tine(shell).run().stdout;
        assert!(said.contains("SECRET"), "{command} is no attack: {said}");
        for rule in ["Read(~/Desktop/**)", "Read(~/Desktop/k)", "Read($HOME/*/k)"] {
            for backend in ["bwrap", "landlock"] {
                let place = place();
                configure(&place, &format!("deny = [\"{rule}\"]"));
                let Some(said) = sandboxed(&place, backend, command) else { continue };
                assert!(!said.contains("SECRET"), "{backend}, {rule}: {command}: {said}");
                let kept = std::fs::read_to_string(place.home().join("Desktop/k"));
                assert_eq!(kept.ok().as_deref(), Some("SECRET\n"), "{backend}: {command}");
            }
        }
    }
}

#[test]
fn a_sandbox_hides_what_a_rule_denies_and_nothing_else() {
    for (rule, hidden, seen) in [
        ("Read(.env)", &[".env"][..], &[".env.local", "keys/a.key", "src/main.rs"][..]),
        ("Read(.env*)", &[".env", ".env.local"], &["keys/a.key", "src/main.rs"]),
        ("Read(keys)", &["keys/a.key", "keys/deep/b.key"], &[".env", "src/main.rs"]),
        ("Read(**/*.key)", &["keys/a.key", "keys/deep/b.key"], &[".env", "src/main.rs"]),
        ("Read(KEYS/A.key)", &["keys/a.key"], &["keys/deep/b.key", "src/main.rs"]),
        ("Read(link)", &["keys/deep/b.key", "link/b.key"], &["keys/a.key"]),
    ] {
        for backend in ["bwrap", "landlock"] {
            let place = Place::new();
            for name in [".env", ".env.local", "keys/a.key", "keys/deep/b.key", "src/main.rs"] {
                place.write(name, "CONTENT");
            }
            std::os::unix::fs::symlink("keys/deep", place.work().join("link")).expect("it is new");
            configure(&place, &format!("deny = [\"{rule}\"]"));
            for (names, is_seen) in [(hidden, false), (seen, true)] {
                for name in names {
                    let command = format!("cat '{name}'");
                    let Some(said) = sandboxed(&place, backend, &command) else { continue };
                    assert_eq!(
                        said.contains("CONTENT"),
                        is_seen,
                        "{backend}, {rule}: {name}: {said}"
                    );
                }
            }
            // Other work in the workspace is possible.
            let build = "mkdir -p src/new && echo x > src/new/a && cat src/new/a";
            let Some(said) = sandboxed(&place, backend, build) else { continue };
            assert_eq!(said, "x\n", "{backend}, {rule}");
        }
    }
}

#[test]
fn no_other_name_shows_a_denied_file_to_the_next_command() {
    for backend in ["bwrap", "landlock"] {
        let place = Place::new();
        configure(&place, "deny = [\"Read(.env)\", \"Read(keys/deep/k)\"]");
        for name in [".env", "keys/deep/k"] {
            place.write(name, "SECRET");
        }
        place.write("src/a", "a");
        for file in [".env", "keys/deep/k"] {
            let directory = file.rsplit_once('/').map_or(".", |(directory, _)| directory);
            for name in [format!("{directory}/other"), "src/other".to_owned()] {
                for way in ["ln", "mv", "cp -l", "ln -s", "cp"] {
                    let command = format!("{way} {file} {name}");
                    let Some(said) = sandboxed(&place, backend, &command) else { continue };
                    let next = sandboxed(&place, backend, &format!("cat {name} {file}"));
                    let next = next.expect("the backend is there");
                    assert!(!next.contains("SECRET"), "{backend}, {command}: {said}{next}");
                    assert_eq!(place.read(file).as_deref(), Some("SECRET"), "{backend}, {command}");
                    let _ = std::fs::remove_file(place.work().join(name.as_str()));
                }
            }
        }
    }
}

#[test]
fn a_directory_with_a_denied_file_is_not_moved_away_from_its_rule() {
    for (rule, moves) in [
        ("Read(keys/deep/k)", &["mv keys other", "mv keys/deep keys/other"][..]),
        ("Read(keys/**/k)", &["mv keys other"]),
        ("Read(keys/*/k)", &["mv keys src/other", "mv keys/deep other"]),
        ("Read(**/deep/k)", &["mv keys/deep keys/other"]),
        ("Read(**/k)", &["mv keys other", "mv keys/deep other"]),
    ] {
        for (backend, way) in
            ["bwrap", "landlock"].into_iter().flat_map(|it| moves.iter().map(move |way| (it, way)))
        {
            let place = Place::new();
            configure(&place, &format!("deny = [\"{rule}\"]"));
            place.write("keys/deep/k", "SECRET");
            place.write("src/a", "");
            let Some(said) = sandboxed(&place, backend, way) else { continue };
            let next = sandboxed(&place, backend, "cat $(find . -name k)");
            let next = next.expect("the backend is there");
            assert!(!next.contains("SECRET"), "{backend}, {rule}: {way}: {said}{next}");
        }
    }
    // The same where one answer has both commands.
    let place = Place::new();
    configure(&place, "allow = [\"Bash\"]\ndeny = [\"Read(**/k)\"]");
    place.write("keys/deep/k", "SECRET");
    for output in agent(&place, &["mv keys other", "cat $(find . -type f)"], &[]) {
        assert!(!output.contains("SECRET"), "{output}");
    }
}

#[test]
fn a_link_to_a_directory_shows_nothing_that_is_denied_by_its_path() {
    for (rule, command) in [
        ("Read(**/link/**)", "cat src/link/k"),
        ("Read(**/k)", "cat src/link/k"),
        ("Read(src/*/k)", "cat $(readlink -f src/link)/k"),
    ] {
        for backend in ["bwrap", "landlock"] {
            let place = Place::new();
            configure(&place, &format!("deny = [\"{rule}\"]"));
            place.write("src/main.rs", "");
            let outside = place.home().join("Desktop");
            std::fs::create_dir(&outside).expect("the place is ours");
            std::fs::write(outside.join("k"), "SECRET").expect("the place is ours");
            std::os::unix::fs::symlink(&outside, place.work().join("src/link")).expect("it is new");
            let free = place.tine(["sandbox", "--policy", "off", "--", "sh", "-c", command]).run();
            assert!(free.stdout.contains("SECRET"), "{command} is no attack");
            let Some(said) = sandboxed(&place, backend, command) else { continue };
            assert!(!said.contains("SECRET"), "{backend}, {rule}: {said}");
        }
    }
}

/// Runs commands by an agent and returns what it reads of each.
fn agent(place: &Place, commands: &[&str], flags: &[&str]) -> Vec<String> {
    let call = |command: &&str| json!({ "name": "Bash", "arguments": { "command": command } });
    let calls: Vec<Value> = commands.iter().map(call).collect();
    let script = json!({ "units": { "main": [{ "calls": calls }, { "text": "END" }] } });
    let flags: Vec<&str> = ["-o", "stream-json"].iter().chain(flags).copied().collect();
    let finished = place.play(&script, &flags).exits(0);
    finished.records().outputs().into_iter().map(|output| output.text).collect()
}

#[test]
fn an_allowed_command_that_names_a_denied_file_is_denied_and_any_other_cannot_read_it() {
    let place = place();
    configure(&place, "allow = [\"Bash\"]\ndeny = [\"Read(~/Desktop/**)\"]");
    let outputs = agent(&place, &SPELLINGS, &[]);
    for (at, (command, output)) in SPELLINGS.iter().zip(&outputs).enumerate() {
        assert!(!output.contains("SECRET"), "{command}: {output}");
        // The directory itself may be seen.
        let is_named = at < TOLD && !command.starts_with("grep");
        assert_eq!(output.contains("denied by the rule"), is_named, "{command}: {output}");
    }
    let told: Vec<&str> =
        SPELLINGS[..TOLD].iter().copied().filter(|it| !it.starts_with("grep")).collect();
    for output in agent(&place, &told, &["--yolo"]) {
        assert!(output.contains("denied by the rule"), "{output}");
    }
}

#[test]
fn without_a_sandbox_what_cannot_be_told_is_asked_about() {
    let place = place();
    configure(&place, "allow = [\"Bash\"]\ndeny = [\"Read(~/Desktop/**)\"]");
    let off = ["--config", "sandbox.mode=\"off\""];
    let told = ["echo hi", "touch made && echo ok", "cat 'script.sh' | wc -l"];
    for output in agent(&place, &told, &off) {
        assert!(!output.contains("denied"), "{output}");
    }
    let untold =
        ["cat ~/D*/k", "x=~/Desktop; cat $x/k", "cat $(find ~ -name k)", "tar cf - ~/Desktop"];
    for output in agent(&place, &untold, &off) {
        assert!(output.contains("there is no sandbox, and `"), "{output}");
    }
}

#[test]
fn a_rule_that_no_sandbox_can_hold_is_asked_about() {
    let place = place();
    configure(&place, "allow = [\"Bash\"]\ndeny = [\"Read(../**)\"]");
    let output = &agent(&place, &["make"], &[])[0];
    assert!(output.contains("`Read(../**)` denies reading the working directory"), "{output}");
}

#[test]
fn git_tells_no_line_of_a_file_that_its_configuration_names() {
    let repository = Repository::new();
    repository.write("a.txt", "one\n");
    repository.commit("Begin");
    repository.write(".env", "KEY=SECRET\n");
    repository.write("names", "SECRET <ada@localhost>\n");
    let settings = [
        ("blame.ignoreRevsFile", ".env"),
        ("mailmap.file", "names"),
        ("diff.orderFile", ".env"),
        ("fsck.skipList", ".env"),
        ("core.excludesFile", ".env"),
        ("core.attributesFile", ".env"),
        ("commit.template", ".env"),
        ("format.signatureFile", ".env"),
    ];
    let place = &repository.place;
    let commands = [
        "git blame a.txt",
        "git log --format=%aN",
        "git shortlog -s HEAD",
        "git diff HEAD",
        "git status --short",
        "git show HEAD",
        "git check-ignore -v a.txt",
    ];
    for (name, value) in settings {
        repository.git(&["config", name, value]);
        let outputs = agent(place, &commands, &[]);
        for (command, output) in commands.iter().zip(&outputs) {
            assert!(!output.contains("SECRET"), "{name}: {command}: {output}");
        }
        // It reads what a rule has asked about.
        let is_asked = name == "blame.ignoreRevsFile";
        assert_eq!(outputs[0].contains("`.env` holds keys"), is_asked, "{outputs:?}");
        assert!(is_asked || outputs[0].contains("one"), "{outputs:?}");
        assert!(outputs[1].contains("Ada"), "{outputs:?}");
        repository.git(&["config", "--unset", name]);
    }
    // Without that, git tells it.
    repository.git(&["config", "blame.ignoreRevsFile", ".env"]);
    let mut blame = Command::new("git");
    blame.args(["blame", "a.txt"]).current_dir(place.work()).env("GIT_CONFIG_GLOBAL", "/dev/null");
    let said = blame.output().expect("git is there").stderr;
    assert!(String::from_utf8_lossy(&said).contains("SECRET"));
}
