//! Command lines that were written for other harnesses.
//!
//! A script goes on with the words it was written in: what they mean in words
//! that clap knows is said here, and what is not quite the same is said to
//! people. A program passes the flags of its next version, too: one that is not
//! known is left out and said, so that the program runs; a person's is an error,
//! since it is a slip.

use std::ffi::OsString;

use clap::CommandFactory as _;

use super::{Arguments, inert};

/// A command line, and what was changed in it.
#[derive(Debug, PartialEq, Eq)]
pub struct Sifted {
    /// What there is to parse.
    pub arguments: Vec<OsString>,
    /// A line for each thing that is not as it was asked for.
    pub notes: Vec<String>,
}

/// What can follow `--debug` as a word of its own, in a list or alone.
const DEBUGGED: [&str; 6] = ["api", "file", "hooks", "mcp", "statsig", "1p"];

/// Flags that do something here and may be followed by `true` or `false`.
const TRUTHS: [&str; 2] = ["chat-recording", "screen-reader"];

/// Puts a command line in words that are known here. If it is a program's, which
/// says that its messages come as records, it also leaves out what is not known.
#[must_use]
pub fn sift(arguments: Vec<OsString>) -> Sifted {
    let is_of_a_program = is_of_a_program(&arguments);
    let sifted = in_own_words(arguments);
    if is_of_a_program { without_unknown(sifted) } else { sifted }
}

/// Replaces what other harnesses write in other words.
fn in_own_words(arguments: Vec<OsString>) -> Sifted {
    let mut sifted = Sifted { arguments: Vec::new(), notes: Vec::new() };
    let mut rest = arguments.into_iter().peekable();
    while let Some(argument) = rest.next() {
        if argument == "--" {
            sifted.arguments.push(argument);
            sifted.arguments.extend(rest);
            break;
        }
        let text = argument.to_str().unwrap_or_default();
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        let long = name.strip_prefix("--").unwrap_or_default();
        if is_truth(long) {
            let value = value.or_else(|| {
                let value = rest.next_if(|value| value == "true" || value == "false");
                value.and_then(|value| value.into_string().ok())
            });
            sifted.arguments.extend(truth(long, value.as_deref() != Some("false")));
        } else if matches!(name, "--debug" | "-d") {
            let given = value.clone().filter(|value| is_known(value)).or_else(|| {
                let next =
                    rest.next_if(|next| value.is_none() && next.to_str().is_some_and(is_about));
                next.and_then(|next| next.into_string().ok())
            });
            match given {
                Some(about) => {
                    sifted.notes.push(format!("note: `--debug` shows all, not only `{about}`"));
                    sifted.arguments.push("--debug".into());
                }
                None => sifted.arguments.push(argument),
            }
        } else if name == "--no-chat-recording" {
            sifted.arguments.extend(truth("chat-recording", false));
        } else {
            if is_mode(long) && is_auto(value.as_deref(), rest.peek()) {
                sifted.notes.push(AUTO.to_owned());
            }
            sifted.arguments.push(argument);
        }
    }
    sifted
}

/// What is said of the mode in which another harness has a model decide.
const AUTO: &str = "note: no model decides here about what may run: \
    `auto` is `acceptEdits`, and you are asked about the rest";

fn is_mode(long: &str) -> bool {
    ["permission-mode", "approval-mode"].contains(&long)
}

fn is_auto(value: Option<&str>, next: Option<&OsString>) -> bool {
    value.or_else(|| next.and_then(|next| next.to_str())) == Some("auto")
}

fn is_truth(long: &str) -> bool {
    TRUTHS.contains(&long) || inert::truths().any(|truth| truth == long)
}

/// Returns a flag with what was said of it, in words that are known here.
fn truth(long: &str, is_true: bool) -> Option<OsString> {
    match (long, is_true) {
        ("chat-recording", true) | ("screen-reader", false) => None,
        ("chat-recording", false) => Some("--no-session-persistence".into()),
        ("screen-reader", true) => Some("--screen-reader".into()),
        (inert, _) => Some(format!("--{inert}={is_true}").into()),
    }
}

/// Tells whether all that is to be debugged goes by names of another harness.
fn is_known(list: &str) -> bool {
    list.split(',').all(|name| DEBUGGED.contains(&name.trim_start_matches('!')))
}

/// Tells whether a word names what to debug, and is no prompt.
fn is_about(word: &str) -> bool {
    let names = || word.split(',').map(|name| name.trim_start_matches('!'));
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_:".contains(c))
    };
    let is_list = word.contains(',') && names().all(is_name);
    names().all(|name| DEBUGGED.contains(&name)) || is_list && !word.contains("::")
}

/// Leaves out the flags that are not known. A value that looks like a flag is
/// joined to its own.
fn without_unknown(written: Sifted) -> Sifted {
    let mut command = Arguments::command();
    command.build();
    let takes_value = |name: &str| -> Option<bool> {
        let flag = command.get_arguments().find(|flag| {
            let aliases = flag.get_all_aliases().unwrap_or_default();
            flag.get_long() == Some(name) || aliases.contains(&name)
        })?;
        Some(flag.get_action().takes_values() && !flag.is_require_equals_set())
    };
    let mut sifted = Sifted { arguments: Vec::new(), notes: written.notes };
    let mut rest = written.arguments.into_iter().peekable();
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
                sifted.notes.push(format!("note: `--{name}` does nothing here"));
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
        let notes = left_out.iter().map(|flag| format!("note: `{flag}` does nothing here"));
        check_notes(arguments, expected, &notes.collect::<Vec<_>>());
    }

    #[track_caller]
    fn check_notes(arguments: &str, expected: &str, notes: &[String]) {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let sifted = sift(words(arguments));
        assert_eq!(sifted, Sifted { arguments: words(expected), notes: notes.to_vec() });
    }

    #[test]
    fn a_programs_unknown_flags_are_left_out_with_their_values() {
        check(
            "tine --input-format stream-json --model m --workload=a --channels a -o stream-json",
            "tine --input-format stream-json --model m -o stream-json",
            &["--workload", "--channels"],
        );
        check(
            "tine --not-yet-known --input-format=stream-json --nor-this 90",
            "tine --input-format=stream-json",
            &["--not-yet-known", "--nor-this"],
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
        check("tine -p hi --not-yet-known=x", "tine -p hi --not-yet-known=x", &[]);
        check("tine --input-format text --x", "tine --input-format text --x", &[]);
    }

    #[test]
    fn a_truth_may_stand_behind_a_flag_and_a_prompt_may_too() {
        check("tine --telemetry false -p hi", "tine --telemetry=false -p hi", &[]);
        check("tine --openai-logging hi", "tine --openai-logging=true hi", &[]);
        check("tine -p hi --chat-recording false", "tine -p hi --no-session-persistence", &[]);
        check("tine --no-chat-recording hi", "tine --no-session-persistence hi", &[]);
        check("tine --chat-recording=true -p hi", "tine -p hi", &[]);
        check("tine --screen-reader -p hi", "tine --screen-reader -p hi", &[]);
        check("tine -p hi -- --telemetry false", "tine -p hi -- --telemetry false", &[]);
    }

    #[test]
    fn what_is_debugged_is_no_prompt_and_a_prompt_is_not_debugged() {
        let all = |about: &str| vec![format!("note: `--debug` shows all, not only `{about}`")];
        check_notes("tine -p hi --debug api,hooks", "tine -p hi --debug", &all("api,hooks"));
        check_notes("tine -d !file,x hi", "tine --debug hi", &all("!file,x"));
        check_notes("tine --debug=mcp hi", "tine --debug hi", &all("mcp"));
        check("tine --debug hi", "tine --debug hi", &[]);
        check(
            "tine --debug=tine::run=trace,tine=info hi",
            "tine --debug=tine::run=trace,tine=info hi",
            &[],
        );
    }

    #[test]
    fn a_mode_in_which_a_model_decides_is_told_apart() {
        for line in ["tine -p hi --permission-mode auto", "tine --approval-mode=auto hi"] {
            check_notes(line, line, &[AUTO.to_owned()]);
        }
        check("tine --permission-mode plan auto", "tine --permission-mode plan auto", &[]);
    }
}
