//! Command lines that were written for other harnesses.
//!
//! A script goes on with the words it was written in: what they mean in words
//! that clap knows is said here, and what is not quite the same is said to
//! people. A program passes the flags of its next version, too: one that is not
//! known is left out and said, so that the program runs; a person's is an error,
//! since it is a slip.

use std::ffi::{OsStr, OsString};

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

/// Flags that are there or not, which others also write as `--yolo=true`, `-y false`
/// or `--no-yolo`, and the letters that stand for them.
const SWITCHES: [(&str, Option<char>); 10] = [
    ("bare", None),
    ("continue", Some('c')),
    (YOLO, None),
    ("debug", Some('d')),
    ("fork-session", None),
    ("include-partial-messages", None),
    ("list-extensions", Some('l')),
    ("sandbox", Some('s')),
    ("screen-reader", None),
    ("yolo", Some('y')),
];

/// Flags that come to something else here, and may be followed by a truth, too.
const RENAMED: [&str; 3] = ["acp", "chat-recording", "experimental-acp"];

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
        if let Some((truth, is_true)) = truth_of(name, value.as_deref(), rest.peek()) {
            if value.is_none() && is_true.is_some() && !name.starts_with("--no-") {
                rest.next();
            }
            sifted.take_truth(truth, is_true, argument);
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
        } else {
            if is_mode(long) && is_auto(value.as_deref(), rest.peek()) {
                sifted.notes.push(AUTO.to_owned());
            }
            sifted.arguments.push(argument);
        }
    }
    sifted
}

impl Sifted {
    /// Takes a flag that is there or not, and what was said of it, if anything.
    fn take_truth(&mut self, name: &'static str, said: Option<bool>, typed: OsString) {
        let is_inert = inert::truths().any(|truth| truth == name);
        match (name, said.unwrap_or(true)) {
            ("chat-recording", false) => self.arguments.push("--no-session-persistence".into()),
            // Behind flags that take several values it would be one of them.
            ("acp" | "experimental-acp", true) => {
                if self.arguments.get(1).is_none_or(|first| first != "acp") {
                    self.arguments.insert(self.arguments.len().min(1), "acp".into());
                }
            }
            ("chat-recording", true) | ("acp" | "experimental-acp", false) => {}
            (_, is_true) if is_inert => self.arguments.push(format!("--{name}={is_true}").into()),
            (_, true) if said.is_none() => self.arguments.push(typed),
            (_, true) => self.arguments.push(format!("--{name}").into()),
            ("sandbox", false) => self.notes.push(UNBOXED.to_owned()),
            // The last word on it counts, whatever an alias has said before.
            (_, false) => self.arguments.retain(|argument| !turns_on(argument, name)),
        }
    }
}

/// Tells whether an argument is a switch, under any of its names.
fn turns_on(argument: &OsStr, name: &'static str) -> bool {
    let only = |name| if name == YOLO { "yolo" } else { name };
    argument.to_str().and_then(truth_called).is_some_and(|called| only(called) == only(name))
}

/// The other name of `--yolo`.
const YOLO: &str = "dangerously-skip-permissions";

/// What is said where no sandbox is wanted.
const UNBOXED: &str = "note: `--sandbox=false` is as without the flag: \
    `sandbox.mode` says whether there is one";

/// Returns a flag that is there or not, and what is said of it: behind it, or by
/// its `no`. Any other value is no truth, and left to whoever takes flags apart.
fn truth_of(
    name: &str,
    value: Option<&str>,
    next: Option<&OsString>,
) -> Option<(&'static str, Option<bool>)> {
    let read = |word: &str| match word {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    };
    let negated = name.strip_prefix("--no-").and_then(|long| truth_called(&format!("--{long}")));
    match (negated, value) {
        (Some(negated), None) => Some((negated, Some(false))),
        (Some(_), Some(_)) => None,
        (None, Some(value)) => Some((truth_called(name)?, Some(read(value)?))),
        (None, None) => {
            let truth = truth_called(name)?;
            let said = next.and_then(|next| read(next.to_str()?));
            // What else may stand behind it is its own affair.
            (said.is_some() || truth != "debug").then_some((truth, said))
        }
    }
}

/// Returns the flag of that name, or of that letter, if it is there or not.
fn truth_called(name: &str) -> Option<&'static str> {
    if let Some(long) = name.strip_prefix("--") {
        let switches = SWITCHES.iter().map(|(name, _)| *name);
        let all = switches.chain(RENAMED).chain(inert::truths());
        return all.into_iter().find(|truth| *truth == long);
    }
    let mut letters = name.strip_prefix('-')?.chars();
    let (letter, None) = (letters.next()?, letters.next()) else { return None };
    SWITCHES.iter().find(|(_, short)| *short == Some(letter)).map(|(name, _)| *name)
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
        // One that may stand alone takes nothing that looks like a flag.
        let needs_one = flag.get_num_args().is_some_and(|range| range.min_values() > 0);
        Some(flag.get_action().takes_values() && needs_one)
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
    fn a_programs_flag_that_may_stand_alone_takes_no_flag() {
        let line = "tine --input-format stream-json --worktree --yolo --resume --verbose --name -n";
        check(line, &line.replace("--name -n", "--name=-n"), &[]);
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
    fn what_is_there_or_not_is_written_in_many_ways() {
        for line in ["--yolo=true", "--yolo true", "-y true", "-y=true"] {
            check(&format!("tine {line} -p hi"), "tine --yolo -p hi", &[]);
        }
        for line in ["--yolo=false", "--yolo false", "-y false", "-y=false", "--no-yolo"] {
            check(&format!("tine {line} -p hi"), "tine -p hi", &[]);
        }
        for line in
            ["--yolo --no-yolo", "-y --yolo=false", "--dangerously-skip-permissions -y false"]
        {
            check(&format!("tine {line} -p hi"), "tine -p hi", &[]);
        }
        check("tine --no-yolo -y hi", "tine -y hi", &[]);
        check("tine --debug true --bare=true -c true", "tine --debug --bare --continue", &[]);
        check("tine --debug=false --no-debug -p hi", "tine -p hi", &[]);
        check("tine -y -s -c -d hi", "tine -y -s -c -d hi", &[]);
        check("tine -p hi --yolo true -- -y false", "tine -p hi --yolo -- -y false", &[]);
        check("tine --yolo=yes --no-yolo=true", "tine --yolo=yes --no-yolo=true", &[]);
        check("tine --no-session-persistence", "tine --no-session-persistence", &[]);
        let unboxed = [UNBOXED.to_owned()];
        check_notes("tine -p hi --sandbox=false", "tine -p hi", &unboxed);
        check_notes("tine -p hi -s false", "tine -p hi", &unboxed);
        check("tine --sandbox true hi", "tine --sandbox hi", &[]);
    }

    #[test]
    fn an_editor_is_served_wherever_the_flag_stands() {
        for flag in ["--acp", "--experimental-acp", "--acp=true", "--acp true", "--acp --acp"] {
            let line = format!("tine --allowed-tools Read {flag} -y");
            check(&line, "tine acp --allowed-tools Read -y", &[]);
        }
        check("tine --acp=false --no-experimental-acp hi", "tine hi", &[]);
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
