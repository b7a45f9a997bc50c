//! The rule that a person means by "always".
//!
//! The narrowest one that is still of use: the very command, or a well-known
//! program with its subcommand; the directory of a file. Some calls have none,
//! because whatever would cover them covers what nobody meant.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::copies::Copies;
use super::path_pattern::escape_path;
use super::paths::{self, Ground};
use super::rules::Rule;
use super::shell;
use super::subjects::Subjects;
use crate::tool_name::SANDBOX_NETWORK;

/// Most characters of a command that a rule is made of. A longer one is not
/// run a second time to the letter.
const COMMAND_CAP: usize = 200;

/// Subcommands whose further words change what is built or tested, and not what
/// sort of thing is done.
const FAMILIES: [(&str, &[&str]); 7] = [
    ("cargo", &["bench", "build", "check", "clippy", "doc", "fmt", "nextest", "test", "tree"]),
    ("npm", &["ci", "ls", "test"]),
    ("pnpm", &["ls", "test"]),
    ("yarn", &["test"]),
    ("git", &["add", "commit", "fetch", "switch"]),
    ("pytest", &[]),
    ("ruff", &["check", "format"]),
];

/// Programs that no rule should let run: they destroy, become somebody else,
/// leave the machine, or run whatever they are given.
const NEVER: [&str; 52] = [
    "rm",
    "rmdir",
    "shred",
    "dd",
    "mkfs",
    "fdisk",
    "parted",
    "truncate",
    "chmod",
    "chown",
    "chgrp",
    "sudo",
    "doas",
    "su",
    "runuser",
    "pkexec",
    "systemctl",
    "service",
    "kill",
    "pkill",
    "killall",
    "reboot",
    "shutdown",
    "crontab",
    "at",
    "ssh",
    "scp",
    "sftp",
    "rsync",
    "nc",
    "ncat",
    "socat",
    "telnet",
    "curl",
    "wget",
    "eval",
    "exec",
    "source",
    ".",
    "env",
    "xargs",
    "parallel",
    "nohup",
    "setsid",
    "timeout",
    "time",
    "nice",
    "busybox",
    "docker",
    "podman",
    "kubectl",
    "trap",
];

/// Programs that run what they are told.
const INTERPRETERS: [&str; 20] = [
    "sh",
    "bash",
    "dash",
    "zsh",
    "ksh",
    "fish",
    "ash",
    "python",
    "python2",
    "python3",
    "perl",
    "ruby",
    "node",
    "deno",
    "bun",
    "php",
    "lua",
    "awk",
    "osascript",
    "pwsh",
];

/// Options and subcommands that make a program destroy, each behind its
/// program.
const DESTROYING: [(&str, &[&str]); 2] = [
    (
        "git",
        &[
            "push",
            "reset",
            "clean",
            "checkout",
            "restore",
            "rebase",
            "filter-branch",
            "update-ref",
            "config",
            "-c",
            "gc",
            "reflog",
        ],
    ),
    ("find", &["-delete", "-exec", "-execdir", "-ok", "-okdir"]),
];

/// Returns the rules that would let a call run, and others like it; none if
/// there is a part of it that has none.
pub(super) fn rules(
    tool: &str,
    subjects: &Subjects,
    (ground, copies): (Ground<'_>, &Copies),
) -> Vec<Rule> {
    let texts = match tool {
        "Bash" => match &subjects.words[..] {
            [command] => of_commands(command),
            _ => None,
        },
        "Edit" | "Write" | "ApplyPatch" => of_paths(&subjects.paths, (ground, copies)),
        "WebFetch" => {
            Some(subjects.words.iter().map(|site| format!("WebFetch(domain:{site})")).collect())
        }
        SANDBOX_NETWORK => {
            Some(subjects.words.iter().map(|host| format!("{SANDBOX_NETWORK}({host})")).collect())
        }
        _ => tool.starts_with("mcp__").then(|| vec![tool.to_owned()]),
    };
    let parsed = texts.unwrap_or_default().iter().map(|text| text.parse().ok()).collect();
    let mut rules: Vec<Rule> = Option::unwrap_or_default(parsed);
    let mut seen = BTreeSet::new();
    rules.retain(|rule| seen.insert(rule.to_string()));
    rules
}

/// Returns the rules for each command of a line. One that goes to a file, or
/// holds more than words, has none.
fn of_commands(line: &str) -> Option<Vec<String>> {
    let plain = shell::plain(line).ok()?;
    plain.commands().map(|(text, words)| of_command(text, words)).collect()
}

/// Returns the rule for one command, as it is written and as a shell reads its
/// words; `None` if there is no sensible one.
fn of_command(command: &str, words: &[String]) -> Option<String> {
    // A star in a rule stands for anything, and other signs for what they are
    // expanded to, which may be different every time.
    let is_plain = !command.contains(['*', '$', '`', '\n', '\r', '~', '<', '>', '(', ')', '\\']);
    if !is_plain || command.chars().count() > COMMAND_CAP {
        return None;
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (program, rest) = words.split_first()?;
    let name = program.rsplit('/').next().unwrap_or(program);
    let is_set_up = command.split_whitespace().next().is_some_and(|word| word.contains('='));
    let is_forced = rest.iter().any(|word| matches!(*word, "--force" | "-f" | "--hard"));
    let destroys =
        |(of, words): &(&str, &[&str])| *of == name && rest.iter().any(|word| words.contains(word));
    if NEVER.contains(&name)
        || name.starts_with("mkfs.")
        || is_set_up
        || is_forced
        || DESTROYING.iter().any(destroys)
        || INTERPRETERS.contains(&name) && runs_text(rest)
    {
        return None;
    }
    let exact = || format!("Bash({command})");
    // Rules of families compare what is written, and see no quotes.
    let is_as_written =
        command.split_whitespace().zip(&words).take(2).all(|(one, two)| one == *two);
    let family = FAMILIES.iter().find(|(of, _)| of == program && is_as_written);
    let Some((_, family)) = family else { return Some(exact()) };
    Some(match rest {
        _ if family.is_empty() => format!("Bash({program} *)"),
        [subcommand, ..] if family.contains(subcommand) => {
            format!("Bash({program} {subcommand} *)")
        }
        _ => exact(),
    })
}

/// Tells whether an interpreter is given its program as a text, or on its
/// standard input.
fn runs_text(words: &[&str]) -> bool {
    let options = words.iter().take_while(|word| word.starts_with('-'));
    let mut has_text = false;
    let count = options.inspect(|option| has_text |= **option != "-m").count();
    has_text || count == words.len()
}

/// Returns the rule for the directory of each path, or for the file alone where
/// the directory is the whole workspace or none of it.
fn of_paths(paths: &[PathBuf], (ground, copies): (Ground<'_>, &Copies)) -> Option<Vec<String>> {
    let rule = |path: &PathBuf| {
        if !ground.guards(path).is_empty() {
            return None;
        }
        let file = paths::opened(ground.root(), path)?;
        let directory = file.parent().filter(|directory| {
            let is_root = ground
                .roots
                .iter()
                .any(|root| paths::resolved(root, Path::new(".")).starts_with(directory));
            !is_root && paths::place(ground.root(), path, ground.roots).is_some()
        });
        let is_copy = copies.hold(&file);
        let pattern = |path: &Path| if is_copy { within(path, ground) } else { from_root(path) };
        Some(match directory {
            Some(directory) => format!("Edit({}/**)", pattern(directory)?),
            None => format!("Edit({})", pattern(&file)?),
        })
    };
    paths.iter().map(rule).collect()
}

/// Returns the pattern for a path by its whole name.
fn from_root(path: &Path) -> Option<String> {
    Some(format!("/{}", escape_path(path)?))
}

/// Returns the pattern for a path in a copy: as seen from the working directory,
/// so that it means the same file of the workspace and of every other copy. This
/// copy is gone when somebody gives the rule. `None` if it is not in there.
fn within(path: &Path, ground: Ground<'_>) -> Option<String> {
    let root = paths::resolved(ground.root(), Path::new("."));
    let inside = path.strip_prefix(root).ok().filter(|inside| !inside.as_os_str().is_empty())?;
    // `~/` would be the home directory.
    let pattern = escape_path(inside)?;
    let before = if pattern.starts_with(['~', '$']) { "./" } else { "" };
    Some(format!("{before}{pattern}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &str, expected: Option<&str>) {
        let rules = of_commands(command);
        let expected = expected.map(|rule| vec![rule.to_owned()]);
        assert_eq!(rules, expected, "{command}");
    }

    #[test]
    fn a_well_known_program_is_trusted_with_a_subcommand_and_any_other_to_the_letter() {
        check("cargo test -p x", Some("Bash(cargo test *)"));
        check("cargo run --release", Some("Bash(cargo run --release)"));
        check("npm run test", Some("Bash(npm run test)"));
        check("npm test -- -u", Some("Bash(npm test *)"));
        check("pytest -x tests", Some("Bash(pytest *)"));
        check("git commit -m 'a b'", Some("Bash(git commit *)"));
        check("./build.sh --fast", Some("Bash(./build.sh --fast)"));
        check("python3 tools/gen.py", Some("Bash(python3 tools/gen.py)"));
        check("python3 -m build", Some("Bash(python3 -m build)"));
        check("/opt/cargo test", Some("Bash(/opt/cargo test)"));
        check("cargo 'test' -p x", Some("Bash(cargo 'test' -p x)"));
        check("cargo \"run\"", Some("Bash(cargo \"run\")"));
    }

    #[test]
    fn what_no_rule_can_cover_safely_has_none() {
        for command in [
            "rm -rf target",
            "rm x",
            "/bin/rm x",
            "sudo ls",
            "curl https://x.invalid/i.sh",
            "git push --force",
            "git push origin main",
            "git -c a=b commit",
            "git reset --hard",
            "git switch -f main",
            "sh -c ls",
            "bash",
            "python3 -c pass",
            "python3 -",
            "node -e 1",
            "find . -delete",
            "X=1 make",
            "ls *",
            "echo $HOME",
            "make > log",
            "xargs touch",
            "'rm' -rf x",
            "\"rm\" x",
            "r''m x",
            "/bin/'rm' x",
            "'sudo' ls",
            "git 'push'",
            "git push \"--force\"",
            "python3 '-c' pass",
            "'X=1' make",
            "",
        ] {
            check(command, None);
        }
        check(&format!("echo {}", "x".repeat(300)), None);
    }

    #[test]
    fn an_edit_is_trusted_with_the_directory_of_its_file() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("src/a")).unwrap();
        let roots = [root.clone()];
        let ground = Ground { roots: &roots, own: &[], named: None };
        let rule_of = |path: &str| of_paths(&[PathBuf::from(path)], (ground, &Copies::default()));
        let root = root.display();
        assert_eq!(rule_of("src/a/b.rs"), Some(vec![format!("Edit(/{root}/src/a/**)")]));
        assert_eq!(rule_of("new/[x]/b.rs"), Some(vec![format!("Edit(/{root}/new/[[]x[]]/**)")]));
        assert_eq!(rule_of("Cargo.toml"), Some(vec![format!("Edit(/{root}/Cargo.toml)")]));
        assert_eq!(rule_of("/etc/hosts"), Some(vec!["Edit(//etc/hosts)".to_owned()]));
        for guarded in [".git/config", "sub/.mcp.json", ".tine/config.toml"] {
            assert_eq!(rule_of(guarded), None);
        }
    }

    #[test]
    fn an_edit_in_a_copy_is_trusted_as_the_same_one_of_the_workspace() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let (original, copy, other) = (place.join("main"), place.join("copy"), place.join("other"));
        for directory in [&original, &copy, &other] {
            std::fs::create_dir_all(directory.join("work/src")).unwrap();
        }
        let copies = Copies::default().and(&original, &copy);
        let roots = [copy.join("work"), other.clone()];
        let ground = Ground { roots: &roots, own: &[], named: None };
        let rule_of = |path: &Path| of_paths(&[path.to_owned()], (ground, &copies));
        let rule = |text: String| Some(vec![text]);
        assert_eq!(rule_of(Path::new("t_y.rs")), rule("Edit(t_y.rs)".to_owned()));
        assert_eq!(rule_of(Path::new("src/[x].rs")), rule("Edit(src/**)".to_owned()));
        assert_eq!(rule_of(&copy.join("work/src/x")), rule("Edit(src/**)".to_owned()));
        assert_eq!(rule_of(Path::new("~/x")), rule("Edit(./~/**)".to_owned()));
        // Elsewhere in the copy there is no working directory that it is seen from.
        for apart in [copy.join("x"), roots[0].clone()] {
            assert_eq!(rule_of(&apart), None, "{}", apart.display());
        }
        let apart = other.join("work/x");
        let expected = format!("Edit(/{}/**)", other.join("work").display());
        assert_eq!(rule_of(&apart), rule(expected));
    }
}
