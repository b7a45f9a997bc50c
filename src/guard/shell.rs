//! What a deny pattern can see of a command, without a parser.
//!
//! A conservative stop-gap until commands are parsed: it splits wherever a
//! command may begin, inside quotes too, and whoever denies commands by
//! pattern gets every command refused whose program is not a plain word. It
//! does not know what a program does: a script or an interpreter can still do
//! what a pattern denies.

use super::launch;
use super::pattern::{single_spaces, without_directory};

/// Characters with which a command can run a second one or write a file. A
/// pattern allows no command that holds one of them, because the pattern says
/// nothing about that second command.
pub(super) const OPERATORS: &[char] =
    &[';', '&', '|', '<', '>', '$', '`', '(', ')', '\n', '\r', '\\'];

/// Characters behind which a command or a redirection's file begins.
const SEPARATORS: &[char] = &[';', '&', '|', '<', '>', '`', '(', ')', '\n', '\r'];

/// Words that make another word the command, or run one they are given.
const LAUNCHING_WORDS: [&str; 62] = [
    "!",
    "{",
    "}",
    "if",
    "then",
    "elif",
    "else",
    "while",
    "until",
    "do",
    "for",
    "select",
    "case",
    "function",
    "coproc",
    "time",
    "eval",
    "exec",
    "command",
    "builtin",
    "source",
    ".",
    "trap",
    "alias",
    "env",
    "xargs",
    "sudo",
    "doas",
    "su",
    "nohup",
    "nice",
    "ionice",
    "timeout",
    "setsid",
    "stdbuf",
    "watch",
    "parallel",
    "chroot",
    "unshare",
    "nsenter",
    "strace",
    "ltrace",
    "gdb",
    "flock",
    "script",
    "busybox",
    "toybox",
    "sh",
    "bash",
    "dash",
    "zsh",
    "ksh",
    "fish",
    "rbash",
    "ash",
    "mksh",
    "csh",
    "tcsh",
    "chpst",
    "runuser",
    "systemd-run",
    "at",
];

/// A piece of a command between two separators.
#[derive(Debug, Clone, Copy)]
struct Piece<'a> {
    text: &'a str,
    start: Start,
    /// The separator behind it.
    end: Option<char>,
}

/// What the separators in front of a piece make of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// A command begins here.
    Command,
    /// The file of a redirection is here; a command may follow.
    Redirection,
    /// A parenthesis closed here; the rest of a word, or a command, follows.
    Closed,
}

/// Returns every form in which a deny pattern may recognise a command: as a
/// whole, and each part of it with and without assignments, directory and
/// quotes.
pub(super) fn forms(command: &str) -> Vec<String> {
    let mut forms = vec![single_spaces(command)];
    for piece in pieces(command) {
        let whole: Vec<&str> = piece.text.split_whitespace().collect();
        // Behind the file of a redirection, the second word may be the program.
        let from = match piece.start {
            Start::Command => 0,
            Start::Redirection | Start::Closed => 1,
        };
        for words in (0..=from).filter_map(|from| whole.get(from..)) {
            for words in [words, without_assignments(words)] {
                let text = words.join(" ");
                let bare = text.replace(['"', '\'', '\\'], "");
                forms.extend([without_directory(&text), without_directory(&bare), text, bare]);
            }
        }
    }
    forms.retain(|form| !form.is_empty());
    forms
}

/// Tells why a pattern cannot be compared with a command, if it cannot.
pub(super) fn obscurity(command: &str) -> Option<String> {
    pieces(command).into_iter().find_map(|piece| {
        let mut words: Vec<&str> = piece.text.split_whitespace().collect();
        let glued = piece.start == Start::Closed && !piece.text.starts_with(char::is_whitespace);
        if (piece.start == Start::Redirection || glued) && !words.is_empty() {
            let file = words.remove(0);
            let open = piece.end.is_some_and(|end| matches!(end, '(' | '`'));
            if !words.is_empty() && !is_closed(file) || words.is_empty() && open {
                return Some(format!("it is not plain where the word `{file}` ends"));
            }
        } else if words.first().is_some_and(|word| word.starts_with('#')) {
            return None;
        }
        if let Some(open) =
            words.iter().take_while(|word| is_assignment(word)).find(|word| !is_closed(word))
        {
            return Some(format!("it is not plain where the word `{open}` ends"));
        }
        let words = without_assignments(&words);
        let obscure = match words.first() {
            Some(program) => why_not_plain(program, words, piece),
            None => piece
                .end
                .filter(|end| *end == '`' || *end == '(' && !piece.text.trim().is_empty())
                .map(|_| "its program is the output of another command".to_owned()),
        };
        obscure.or_else(|| {
            launch::option_of(&words.join(" "))
                .map(|option| format!("the option `{option}` runs another program"))
        })
    })
}

fn why_not_plain(program: &str, words: &[&str], piece: Piece<'_>) -> Option<String> {
    let name = program.rsplit('/').next().unwrap_or(program);
    if LAUNCHING_WORDS.contains(&name) {
        return Some(format!("`{name}` runs another command"));
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./+@%,:=".contains(c);
    if !program.chars().all(is_plain) && !["[", "[[", "]]"].contains(&program) {
        return Some(format!("its program `{program}` is not a plain word"));
    }
    // A function, or a word that goes on with what another command prints.
    let goes_on = piece.end.is_some_and(|end| matches!(end, '(' | '`'))
        && words.len() == 1
        && (piece.end == Some('(') || !piece.text.ends_with(char::is_whitespace));
    goes_on.then(|| format!("`{program}` may be the name of a function or the start of a word"))
}

fn pieces(command: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut from = 0;
    // The separators directly in front of the next piece.
    let mut run = String::new();
    let ends = command.match_indices(SEPARATORS).map(|(at, end)| (at, end.chars().next()));
    for (at, end) in ends.chain([(command.len(), None)]) {
        let text = &command[from..at];
        pieces.push(Piece { text, start: start(&run), end });
        if !text.is_empty() {
            run.clear();
        }
        run.extend(end);
        from = at + 1;
    }
    pieces
}

fn start(run: &str) -> Start {
    match run.chars().next_back() {
        Some(')') => Start::Closed,
        Some('<' | '>') => Start::Redirection,
        // As in `>&` and `>|`.
        Some('&' | '|') if run.contains(['<', '>']) => Start::Redirection,
        Some(_) | None => Start::Command,
    }
}

fn without_assignments<'a, 'b>(words: &'b [&'a str]) -> &'b [&'a str] {
    let count = words.iter().take_while(|word| is_assignment(word)).count();
    &words[count..]
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        let name = name.strip_suffix('+').unwrap_or(name);
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// Tells whether a word surely ends where white space follows it.
fn is_closed(word: &str) -> bool {
    let count = |quote: char| word.matches(quote).count();
    let (single, double) = (count('\''), count('"'));
    !word.contains(['\\', '{']) && single * double == 0 && (single + double) % 2 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_hidden(commands: &[&str]) {
        for command in commands {
            let seen = forms(command).iter().any(|form| form == "rm x");
            assert!(seen || obscurity(command).is_some(), "{command}");
        }
    }

    #[test]
    fn a_program_is_seen_or_the_command_is_refused() {
        check_hidden(&[
            "rm x",
            "rm  x",
            "\trm\tx",
            "/bin/rm x",
            "X=1 rm x",
            "X='a b' rm x",
            "X='a b c' rm x",
            "X=$(:) rm x",
            "X=$(:)'a b c' rm x",
            "X=$(:)\"a\" \"rm\" x",
            "X=`:` 'rm' x",
            "X=${y:-a b} rm x",
            "r''m x",
            "\"rm\" x",
            "r\\m x",
            "r\\\nm x",
            "r$(:)m x",
            "r`:`m x",
            "$y x",
            "$(echo rm) x",
            "`echo rm` x",
            "{ rm x; }",
            "{ echo hi; rm x; }",
            "if true; then rm x; fi",
            "while rm x; do :; done",
            "! rm x",
            "(rm x)",
            "f() { rm x; }; f",
            "f () ( 'rm' x ); f",
            "case a in a) 'rm' x;; esac",
            "echo a | rm x",
            "echo a & rm x",
            "echo \"$(rm x)\"",
            "echo \"`rm x`\"",
            "cat <(rm x)",
            "> log rm x",
            ">log 'rm' x",
            ">|log rm x",
            "2>&1 rm x",
            ">'a b c' rm x",
            "> $(echo a) 'rm' x",
            "< <(:) 'rm' x",
            "eval rm x",
            "env rm x",
            "/usr/bin/env rm x",
            "sudo rm x",
            "xargs rm x",
            "sh -c 'rm x'",
            "find . -exec rm x",
            "/bin/r? x",
            "{rm,x}",
            "~/rm x",
            "# it's\nrm x",
            "cat <<'E'\n'\nE\nrm x",
        ]);
    }

    #[test]
    fn plain_commands_are_not_refused() {
        for command in [
            "ls -la",
            "X=1 cargo test 2>&1 | tail -5",
            "FOO=\"bar\" make all && echo done",
            "git commit -m \"mend it\"",
            "echo \"$(date)\" > log",
            "[ -f a ] || touch a",
            "# a comment\nls",
            "./run.sh --x=y",
        ] {
            assert_eq!(obscurity(command), None, "{command}");
        }
    }
}
