//! What rules see of a command: the programs in it, wherever they stand.
//!
//! A deny rule is compared with every command of the line, at any depth, its
//! quotes taken off; and a line that may run something unseen is refused to
//! whoever denies by pattern. What a program does is not known here: a script
//! or an interpreter can still do what a pattern denies.

use super::syntax::{self, Script, Simple};
use super::word;
use crate::guard::launch;
use crate::guard::pattern::{Behind, single_spaces, without_directory};

/// Words that make another word the command, or run one they are given.
/// Keywords are among them: as the name of a command one is a sign of a line
/// that was read wrongly.
const LAUNCHING_WORDS: &str = "! { } if then elif else fi while until do done for select case esac \
    in function coproc time eval exec command builtin source . trap alias enable env xargs sudo doas su \
    nohup nice ionice timeout setsid stdbuf watch parallel chroot unshare nsenter strace ltrace gdb \
    flock script busybox toybox sh bash dash zsh ksh fish rbash ash mksh csh tcsh chpst runuser \
    systemd-run at batch";

/// Returns every form in which a deny pattern may recognise a command: as a
/// whole, and each command in it with and without assignments, directory and
/// quotes.
pub(in crate::guard) fn forms(command: &str) -> Vec<String> {
    let mut forms = vec![single_spaces(command)];
    for simple in &syntax::parse(command).commands {
        let written = simple.words.iter().map(|word| &command[word.range.clone()]);
        let written = single_spaces(&written.collect::<Vec<_>>().join(" "));
        let meant = meant(command, simple).join(" ");
        let whole = single_spaces(&command[simple.range.clone()]);
        forms.extend([
            without_directory(&written),
            without_directory(&meant),
            written,
            meant,
            whole,
        ]);
    }
    forms.retain(|form| !form.is_empty());
    forms
}

/// How deep commands are looked for in the quotes of others.
const DEPTH_CAP: usize = 3;

/// Returns where in a command another one may begin: at each word, at what is
/// behind a directory, an option's letter or one of some signs in it, in the text
/// of quotes, and in what a variable is set to.
///
/// Which words a program runs is not known here, so each may be one.
pub(in crate::guard) fn behind(command: &str) -> Vec<Behind> {
    let mut found = Vec::new();
    look_behind(command, DEPTH_CAP, &mut found);
    found
}

fn look_behind(command: &str, depth: usize, found: &mut Vec<Behind>) {
    for simple in &syntax::parse(command).commands {
        let meant = meant(command, simple);
        let written = simple.words.iter().map(|word| &command[word.range.clone()]);
        found.push(Behind::of(written));
        found.push(Behind::of(meant.iter().copied()));
        let set = simple.assignments.iter().map(|assignment| {
            let written = &command[assignment.clone()];
            written.split_once('=').map_or(written, |(_, value)| value)
        });
        let set: Vec<String> =
            set.map(|value| word::literal(value).unwrap_or_else(|| value.to_owned())).collect();
        set.iter().for_each(|value| found.push(Behind::of([value.as_str()].into_iter())));
        let texts = meant.iter().copied().chain(set.iter().map(String::as_str)).map(|word| {
            let bare = word.strip_prefix('"').and_then(|word| word.strip_suffix('"'));
            bare.unwrap_or(word)
        });
        let is_text =
            |word: &&str| word.contains(|c: char| c.is_whitespace() || ";&|(`".contains(c));
        if depth > 0 {
            texts.filter(is_text).for_each(|text| look_behind(text, depth - 1, found));
        }
    }
}

/// Signs inside a word behind which programs have taken another one's name.
const SIGNS: [char; 5] = ['/', '=', '!', ':', '|'];

impl Behind {
    fn of<'a>(words: impl Iterator<Item = &'a str>) -> Self {
        let mut behind = Self::default();
        for word in words {
            if !behind.text.is_empty() {
                behind.text.push(' ');
            }
            let start = behind.text.len();
            let word = single_spaces(word).to_lowercase();
            let within = SIGNS.into_iter().filter_map(|c| word.rfind(c)).map(|at| at + 1);
            // The value of a short option may stand right behind its letter.
            let letter = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
            let value = letter.and_then(|rest| rest.char_indices().nth(1)).map(|(at, _)| at + 1);
            let starts = [0].into_iter().chain(within).chain(value);
            behind.starts.extend(starts.map(|at| start + at));
            behind.text.push_str(&word);
        }
        behind
    }
}

/// Tells why a pattern cannot be compared with a command, if it cannot.
pub(in crate::guard) fn obscurity(command: &str) -> Option<String> {
    if let Some(c) = word::unseen(command).filter(|c| c.is_control() || c.is_whitespace()) {
        return Some(format!("it holds the character {}", c.escape_unicode()));
    }
    let Script { commands, compound: _, unsure } = syntax::parse(command);
    unsure.or_else(|| commands.iter().find_map(|simple| why_obscure(command, simple)))
}

fn why_obscure(command: &str, simple: &Simple) -> Option<String> {
    let first = simple.words.first()?;
    let Some(program) = &first.literal else {
        return Some(format!(
            "its program `{}` is not a plain word",
            &command[first.range.clone()]
        ));
    };
    let name = program.rsplit('/').next().unwrap_or(program);
    if LAUNCHING_WORDS.split_whitespace().any(|word| word == name) {
        return Some(format!("`{name}` runs another command"));
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./+@%,:=".contains(c);
    if !program.chars().all(is_plain) && program != "[" {
        return Some(format!("its program `{program}` is not a plain word"));
    }
    launch::option_of(&meant(command, simple))
        .map(|option| format!("the option `{option}` runs another program"))
}

/// The words of a command without their quotes; what is more than a literal as
/// it is written.
fn meant<'a>(command: &'a str, simple: &'a Simple) -> Vec<&'a str> {
    let meant = |word: &'a syntax::Word| match &word.literal {
        Some(literal) => literal.as_str(),
        None => &command[word.range.clone()],
    };
    simple.words.iter().map(meant).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::pattern::Pattern;

    #[track_caller]
    fn check_hidden(commands: &[&str]) {
        for command in commands {
            let pattern = Pattern::command("rm *");
            let seen = forms(command).iter().any(|form| form == "rm x")
                || behind(command).iter().any(|behind| pattern.denies_behind(behind));
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
    fn a_program_is_seen_behind_any_launcher() {
        check_hidden(&[
            "taskset 1 rm x",
            "chrt -i 0 /bin/rm x",
            "prlimit --nproc=9 rm x",
            "setarch -R rm x",
            "fd -x rm x",
            "setpriv --reuid=0 'rm' x",
            "unbuffer rm x",
            "git submodule foreach 'rm x'",
            "git submodule foreach \"cd $y; rm x\"",
            "git bisect run ../bin/rm x",
            "rsync --rsh='sh -c \"rm x\"' a b",
            "tool --run=rm x",
            "tool 'a; tool \"tool rm x\"'",
            "setarch x\\\n86 rm x",
            "GIT_EXTERNAL_DIFF='rm -f x' git diff",
            "PAGER=rm man ls",
            "CC=\"rm\" make",
            "git rebase -xrm HEAD~1",
            "git grep -Orm x",
            "vim -c '!rm x'",
            "less '+!rm x'",
            "socat - EXEC:'rm x'",
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
