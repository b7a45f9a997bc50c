//! Command lines of programs that know more flags than there are here.
//!
//! A program that drives tine passes the flags of the harness it was written
//! for, and its next version passes more of them. One that is not known is left
//! out and said, so that the program runs; a person's is an error, since it is a
//! slip.

use std::ffi::OsString;

use clap::CommandFactory as _;

use super::Arguments;

/// A command line, and what was left out of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Sifted {
    /// What there is to parse.
    pub arguments: Vec<OsString>,
    /// The flags that are not known, without their values.
    pub left_out: Vec<String>,
}

/// Leaves out what is not known, if the command line is a program's: it says
/// that its messages come as records. A value that looks like a flag is joined
/// to its own.
#[must_use]
pub fn sift(arguments: Vec<OsString>) -> Sifted {
    if !is_of_a_program(&arguments) {
        return Sifted { arguments, left_out: Vec::new() };
    }
    let mut command = Arguments::command();
    command.build();
    let takes_value = |name: &str| -> Option<bool> {
        let flag = command.get_arguments().find(|flag| {
            let aliases = flag.get_all_aliases().unwrap_or_default();
            flag.get_long() == Some(name) || aliases.contains(&name)
        })?;
        Some(flag.get_action().takes_values() && !flag.is_require_equals_set())
    };
    let mut sifted = Sifted { arguments: Vec::new(), left_out: Vec::new() };
    let mut rest = arguments.into_iter().peekable();
    while let Some(argument) = rest.next() {
        let flag = argument.to_str().and_then(|text| text.strip_prefix("--"));
        let Some(flag) = flag.filter(|flag| !flag.is_empty()).map(str::to_owned) else {
            sifted.arguments.push(argument);
            continue;
        };
        let (name, has_value) = match flag.split_once('=') {
            Some((name, _)) => (name, true),
            None => (&*flag, false),
        };
        match takes_value(name) {
            Some(true) if !has_value => {
                // `--flag -1` is one flag with its value, and so is a text that
                // begins with a dash.
                let value = rest.next_if(|value| value.to_string_lossy().starts_with('-'));
                sifted.arguments.push(match value {
                    Some(value) => joined(argument, &value),
                    None => argument,
                });
            }
            Some(true | false) => sifted.arguments.push(argument),
            None => {
                sifted.left_out.push(format!("--{name}"));
                // There is no prompt on such a command line, so a word that
                // stands alone belongs to the flag before it.
                if !has_value {
                    rest.next_if(|value| !value.to_string_lossy().starts_with('-'));
                }
            }
        }
    }
    sifted
}

fn is_of_a_program(arguments: &[OsString]) -> bool {
    let pairs = arguments.windows(2);
    arguments.iter().any(|argument| argument == "--input-format=stream-json")
        || pairs.into_iter().any(|pair| pair[0] == "--input-format" && pair[1] == "stream-json")
}

fn joined(flag: OsString, value: &OsString) -> OsString {
    let mut joined = flag;
    joined.push("=");
    joined.push(value);
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(arguments: &str, expected: &str, left_out: &[&str]) {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let sifted = sift(words(arguments));
        let left_out = left_out.iter().map(|flag| (*flag).to_owned()).collect();
        assert_eq!(sifted, Sifted { arguments: words(expected), left_out });
    }

    #[test]
    fn a_programs_unknown_flags_are_left_out_with_their_values() {
        check(
            "tine --input-format stream-json --model m --thinking=adaptive --betas a -o stream-json",
            "tine --input-format stream-json --model m -o stream-json",
            &["--thinking", "--betas"],
        );
        check(
            "tine --experimental-lsp --input-format=stream-json --max-wall-time 90",
            "tine --input-format=stream-json",
            &["--experimental-lsp", "--max-wall-time"],
        );
    }

    #[test]
    fn a_programs_value_may_look_like_a_flag() {
        check(
            "tine --input-format stream-json --max-session-turns -1 --yolo --system-prompt -x --name n",
            "tine --input-format stream-json --max-session-turns=-1 --yolo --system-prompt=-x --name n",
            &[],
        );
    }

    #[test]
    fn a_persons_command_line_is_left_as_it_is() {
        check("tine -p hi --thinking=adaptive", "tine -p hi --thinking=adaptive", &[]);
        check("tine --input-format text --x", "tine --input-format text --x", &[]);
    }
}
