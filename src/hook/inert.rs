//! The parts of a hook's command whose files do not run: what it writes to, and
//! what programs read that do nothing else. Such files change all the time.

use std::sync::LazyLock;

use fancy_regex::Regex;

/// Programs that run nothing of what the files hold that they are given.
const READERS: [&str; 32] = [
    "[", "basename", "cat", "cmp", "cp", "cut", "date", "diff", "dirname", "echo", "egrep", "exit",
    "false", "fgrep", "grep", "head", "jq", "ls", "mkdir", "mv", "printf", "rg", "rm", "sort",
    "stat", "tail", "tee", "test", "touch", "true", "uniq", "wc",
];

/// Words that stand before a program's name, or alone.
const BEFORE: [&str; 13] =
    ["!", "[[", "do", "done", "elif", "else", "fi", "if", "then", "until", "while", "{", "}"];

/// What a command writes to by itself, which does not run. `<>` opens what may
/// well be run.
static WRITTEN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?<![<=\\-])>{1,2}[|&]?\s*[^\s;|&<>()]+").expect("the pattern is one")
});

/// Where one pipeline ends and the next begins. A lone `|` stays inside.
static ENDS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[;&()\n]|\|\|").expect("the pattern is one"));

/// Returns a command without the parts whose files do not run.
pub(super) fn without(text: &str) -> String {
    let text = WRITTEN.replace_all(text, " ");
    // What is read may become a command's own words.
    if text.contains(['`', '<']) || text.contains("$(") {
        return text.into_owned();
    }
    let pipelines = ENDS.split(&text).map_while(Result::ok);
    // What one reads, the next one of a pipeline may run.
    let run = pipelines.filter(|pipeline| !pipeline.split('|').all(reads));
    run.collect::<Vec<_>>().join(";")
}

/// Tells whether a command does no more with files than to read and write them.
fn reads(command: &str) -> bool {
    let is_before = |word: &&str| BEFORE.contains(word);
    let program = command.split_whitespace().find(|word| !is_before(word));
    program.is_none_or(|program| READERS.contains(&program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_only_writes_to_is_nothing_that_it_runs() {
        for (text, expected) in [
            ("tr a b >> told", "tr a b"),
            ("sh a.sh >\"$D\"/b 2>&1", "sh a.sh 2"),
            ("sh b >a; sh a", "sh b ; sh a"),
            ("sh <> a.sh", "sh <> a.sh"),
            ("sh < a.sh", "sh < a.sh"),
            ("sh >(sh a.sh)", "sh >;sh a.sh"),
        ] {
            let left = without(text);
            let left: Vec<&str> = left.split_whitespace().collect();
            assert_eq!(left.join(" "), expected, "{text}");
        }
    }

    #[test]
    fn what_is_only_read_is_nothing_that_runs_either() {
        for text in [
            "cat CLAUDE.md",
            "tee -a told | grep -q x || { echo no >&2; exit 2; }",
            "if [ -f .ready ]; then echo yes; else jq . package.json | head; fi",
            "test -f a && ! grep -q b c",
        ] {
            assert_eq!(without(text), "", "{text}");
        }
    }

    #[test]
    fn what_may_run_after_it_was_read_is_left() {
        for text in [
            "cat a.sh | sh",
            "sh -c \"$(cat a.sh)\"",
            "sh <(cat a.sh)",
            "eval `cat a.sh`",
            "./a.sh",
            "./cat a.sh",
            "A=b cat a.sh",
        ] {
            assert!(without(text).contains("a.sh"), "{text}");
        }
    }
}
