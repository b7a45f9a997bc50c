//! What of a hook's command does not run: what it writes to, and what is read by
//! programs that do nothing else. Such files change all the time.

use std::path::Path;

use crate::guard::shell::{self, Outline};

/// Programs that run nothing of what is in the files that they are given. Those
/// of searches and filters do if their options say so.
const READERS: [&str; 30] = [
    ":", "[", "[[", "basename", "cat", "cmp", "cut", "date", "diff", "dirname", "echo", "egrep",
    "exit", "false", "fgrep", "grep", "head", "jq", "ls", "mkdir", "printf", "rm", "stat", "tail",
    "tee", "test", "touch", "true", "uniq", "wc",
];

/// What a command may run.
pub(super) struct Running {
    /// The text with what it only writes to left out; empty if it only reads.
    pub(super) text: String,
    /// The words that surely are programs, or scripts that one of the
    /// interpreters here is given; `None` if any word may be one.
    pub(super) programs: Option<Vec<String>>,
}

impl Running {
    /// Returns whether a path that the text names may be a program.
    pub(super) fn may_run(&self, path: &Path) -> bool {
        let is_program =
            |programs: &Vec<String>| programs.iter().any(|it| Path::new(it).ends_with(path));
        self.programs.as_ref().is_none_or(is_program)
    }

    /// Returns whether a path is surely a program, and no argument of one.
    pub(super) fn is_first(&self, path: &Path) -> bool {
        let first = self.programs.as_ref().and_then(|programs| programs.first());
        first.is_some_and(|first| Path::new(first).ends_with(path))
    }
}

/// Tells what a command for a shell may run. All of it, unless each of its
/// commands only reads: what one reads, another may run.
pub(super) fn running(text: &str) -> Running {
    let Some(Outline { commands, written }) = shell::outline(text) else {
        return Running { text: text.to_owned(), programs: None };
    };
    if commands.iter().all(|words| reads(words)) {
        return Running { text: String::new(), programs: Some(Vec::new()) };
    }
    let mut left = text.to_owned();
    // From the end, so that the ranges before it still hold.
    for range in written.into_iter().rev() {
        left.replace_range(range, " ");
    }
    let programs = commands.iter().map(|words| programs(words)).collect::<Option<Vec<_>>>();
    Running { text: left, programs: programs.map(|each| each.concat()) }
}

/// Returns the same of words that no shell reads, each word on its own.
pub(super) fn running_words(words: &[&str]) -> Vec<Running> {
    let owned: Vec<Result<String, String>> =
        words.iter().map(|&word| Ok(word.to_owned())).collect();
    let programs = programs(&owned);
    // An interpreter may be given any file as a script: `env bash notes.md`.
    let has_interpreter = words.iter().any(|word| is_interpreter(bare_name(word)));
    let part = |(index, &word): (usize, &&str)| {
        let is_read = index > 0 && programs.is_none() && !has_interpreter && is_data(word);
        let programs = if is_read { Some(Vec::new()) } else { programs.clone() };
        Running { text: word.to_owned(), programs }
    };
    words.iter().enumerate().map(part).collect()
}

/// Shells.
const SHELLS: [&str; 6] = ["bash", "dash", "fish", "ksh", "sh", "zsh"];

/// Other programs that run the first file that they are given. All of them take what
/// follows it for its arguments.
const INTERPRETERS: [&str; 9] =
    ["bun", "deno", "lua", "node", "perl", "php", "pypy", "python", "ruby"];

/// Suffixes of files that a program reads or writes, and that say nothing of what it
/// runs. Such files change all the time.
const DATA: [&str; 16] = [
    "csv", "db", "db3", "duckdb", "gguf", "jpg", "jsonl", "log", "md", "ndjson", "parquet", "pdf",
    "png", "sqlite", "sqlite3", "txt",
];

/// Directories of programs that a system or its user has installed.
const SYSTEM: [&str; 4] = ["/bin/", "/usr/", "/opt/", "/sbin/"];

/// Returns whether a program is a shell.
pub(super) fn is_shell(name: &str) -> bool {
    SHELLS.contains(&name)
}

/// Returns whether a program runs the first file that it is given. A version may stand
/// behind its name: `python3.12`.
pub(super) fn is_interpreter(name: &str) -> bool {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    is_shell(name) || INTERPRETERS.contains(&plain)
}

/// Returns the name of a program without the directory of a system.
pub(super) fn bare_name(program: &str) -> &str {
    match SYSTEM.iter().any(|directory| program.starts_with(directory)) {
        true => program.rsplit('/').next().unwrap_or_default(),
        false => program,
    }
}

/// Returns whether a word names a file of data.
fn is_data(word: &str) -> bool {
    let suffix = word.rsplit_once('.').map(|(_, suffix)| suffix.to_ascii_lowercase());
    !word.contains(char::is_whitespace)
        && suffix.is_some_and(|suffix| DATA.contains(&suffix.as_str()))
}

/// Returns which words of a command surely are programs, and that no other one
/// is; `None` if that cannot be told: what `timeout`, `env` or `make` do with
/// their words, they alone know.
fn programs(words: &[Result<String, String>]) -> Option<Vec<String>> {
    let (program, arguments) = words.split_first()?;
    let written = |word: &Result<String, String>| -> String {
        text_of(word).trim_end_matches(['"', '\'']).to_owned()
    };
    if reads(words) {
        return Some(Vec::new());
    }
    let program = written(program);
    let name = bare_name(&program);
    if is_interpreter(name) {
        // An option may be all that runs (`-c`), or name what runs before.
        let script = arguments.first().filter(|word| !text_of(word).starts_with(['-', '+']))?;
        // Of these two it is a command of theirs: `bun run x`.
        let is_script = !matches!(name, "bun" | "deno") || text_of(script).contains(['/', '.']);
        return is_script.then(|| vec![written(script)]);
    }
    // A program of the project may run what it is given first.
    name.contains('/').then(|| {
        let mut operands = arguments.iter().filter(|word| !text_of(word).starts_with('-'));
        let argument = operands.next().map(written).filter(|argument| !is_data(argument));
        let is_own_interpreter = program.rsplit('/').next().is_some_and(is_interpreter);
        match argument {
            // `.venv/bin/python`: what it is given is the program.
            Some(argument) if is_own_interpreter => vec![argument, program.clone()],
            argument => std::iter::once(program.clone()).chain(argument).collect(),
        }
    })
}

fn text_of(word: &Result<String, String>) -> &str {
    let (Ok(text) | Err(text)) = word;
    text
}

/// Tells whether a command does no more with files than to read and write them.
fn reads(words: &[Result<String, String>]) -> bool {
    let Some(Ok(program)) = words.first() else { return false };
    let filters = matches!(&**program, "jq" | "grep" | "egrep" | "fgrep");
    let names_program = |word: &str| {
        let is_long = word.starts_with("--f") || word.starts_with("--l");
        let is_short = word.starts_with('-') && !word.starts_with("--");
        is_long || (is_short && word.contains(['f', 'L']))
    };
    READERS.contains(&&**program)
        && !(filters && words[1..].iter().any(|word| names_program(text_of(word))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_only_writes_to_is_nothing_that_it_runs() {
        for (text, expected) in [
            ("tr a b >> told", "tr a b"),
            ("sh a.sh >\"$D\"/b 2>&1", "sh a.sh"),
            ("sh a.sh > b 2> c; sh d", "sh a.sh ; sh d"),
            ("sh b >a; sh a", "sh b ; sh a"),
            ("sh < a.sh", "sh < a.sh"),
            ("# by Jo <jo@x.org>\n./a.sh", "# by Jo <jo@x.org> ./a.sh"),
        ] {
            let left = running(text).text;
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
            assert_eq!(running(text).text, "", "{text}");
        }
    }

    #[test]
    fn of_a_program_that_may_run_any_of_its_words_none_is_ruled_out() {
        for text in [
            "timeout 10 sh hooks/gate",
            "env A=1 sh hooks/gate",
            "/usr/bin/env sh hooks/gate",
            "/usr/bin/timeout 5 sh hooks/gate",
            "bash -c 'sh hooks/gate'",
            "sh -x hooks/gate",
            "node -r ./hooks/gate x.js",
            "bun run hooks/gate",
            "make gate",
            "sh a; nice sh hooks/gate",
        ] {
            assert_eq!(running(text).programs, None, "{text}");
        }
        for (text, expected) in [
            ("sh hooks/gate state", &["hooks/gate"][..]),
            ("python3 \"$D\"/gate.py --log x", &["\"$D\"/gate.py"]),
            ("./gate state", &["./gate", "state"]),
            ("cat a | sh ./gate", &["./gate"]),
        ] {
            let expected = expected.iter().map(|&it| it.to_owned()).collect();
            assert_eq!(running(text).programs, Some(expected), "{text}");
        }
    }

    #[test]
    fn what_may_run_after_it_was_read_is_left() {
        for text in [
            "cat a.sh | sh",
            "cat a.sh |\n  sh",
            "cat a.sh \\\n | sh",
            "cat a.sh |& sh",
            "(cat a.sh) | sh",
            "{ cat a.sh; } | sh",
            "if test -f a.sh; then cat a.sh; fi | sh",
            "cat a.sh | (sh)",
            "cat a.sh | while true; do sh; done",
            "cat a.sh | tee >(sh)",
            "cat() { sh \"$@\"; }; cat a.sh",
            "cp a.sh /tmp/x && sh /tmp/x",
            "cat a.sh > /tmp/x; sh /tmp/x",
            "sh -c \"$(cat a.sh)\"",
            "sh <(cat a.sh)",
            "eval `cat a.sh`",
            "./a.sh",
            "./cat a.sh",
            "A=b ./a.sh",
            "jq -f a.sh",
            "jq -nf a.sh",
            "rg --pre ./a.sh x",
            "sort --compress-program=./a.sh x",
            "sh '/w/My (copy)/a.sh'",
        ] {
            assert!(running(text).text.contains("a.sh"), "{text}");
        }
    }
}
