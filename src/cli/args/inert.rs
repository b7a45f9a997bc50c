//! The flags that other harnesses have and that change nothing here.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

/// A flag that is accepted, so that the script or the program that passes it
/// runs, and said to do nothing.
struct Inert {
    name: &'static str,
    takes: Takes,
    says: Says,
}

/// What stands behind a flag.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// Nothing.
    Nothing,
    /// Nothing, or `true` or `false`.
    Truth,
    /// Nothing, or a word behind a `=`.
    Joined,
    /// Nothing, or a word, which stands behind it unless that is a flag.
    Word,
    /// A value.
    Value,
    /// Values, up to the next flag.
    Values,
}

/// What people are told of a flag that was given.
#[derive(Clone, Copy)]
enum Says {
    /// Nothing: it asks for what is so anyway.
    Nothing,
    /// That it does nothing.
    Inert,
    /// Nothing if this is its value: that is so anyway.
    Unless(&'static str),
    /// That, and this.
    Because(&'static str),
    /// That nothing runs with it, and what to do instead: it asks for so much
    /// else that a run without it would be wrong.
    Refused(&'static str, &'static str),
}

/// The letters that stand for some of them.
const SHORT: [(&str, char); 3] = [("all-files", 'a'), ("extensions", 'e'), ("worktree", 'w')];

const FLAGS: &[Inert] = {
    use Says::{Because, Inert as Nought, Nothing as Silent, Refused, Unless};
    use Takes::{Joined, Nothing, Truth, Value, Values, Word};
    const fn flag(name: &'static str, takes: Takes, says: Says) -> Inert {
        Inert { name, takes, says }
    }
    &[
        // Stream-json is always whole.
        flag("verbose", Nothing, Silent),
        // A program may ask for any mode while it drives a run.
        flag("allow-dangerously-skip-permissions", Nothing, Silent),
        flag("all-files", Truth, Because("agents read the files that they need")),
        flag("auth-type", Value, Nought),
        flag("betas", Values, Nought),
        flag("brief", Nothing, Nought),
        flag("channel", Value, Nought),
        flag(
            "checkpointing",
            Truth,
            Because("what a prompt changed is always put back by `/undo`"),
        ),
        flag("chrome", Nothing, Nought),
        flag("disabled-slash-commands", Values, Nought),
        flag("exclude-dynamic-system-prompt-sections", Nothing, Nought),
        flag("experimental-lsp", Truth, Nought),
        // They are no experiment here.
        flag("experimental-skills", Truth, Silent),
        flag("extensions", Values, Nought),
        flag(
            "from-pr",
            Word,
            Refused(
                "no session belongs to a pull request here",
                "`tine sessions search WORDS` finds one, `--resume ID` goes on with it",
            ),
        ),
        flag("ide", Nothing, Nought),
        flag("include-hook-events", Nothing, Nought),
        flag("init", Nothing, Because("a `SessionStart` hook prepares a session")),
        flag(
            "input-file",
            Value,
            Refused(
                "a chat takes no messages from a file",
                "`--input-format stream-json` takes them from standard input",
            ),
        ),
        flag(
            "insecure",
            Truth,
            Because("certificates are always checked; `SSL_CERT_FILE` adds one"),
        ),
        flag("max-thinking-tokens", Value, Because("`--effort` says how hard models think")),
        flag("max-wall-time", Value, Because("`timeout` ends a run after a time")),
        flag("mcp-debug", Nothing, Nought),
        flag("no-chrome", Nothing, Silent),
        flag("openai-logging", Truth, Because("`--record DIR` writes requests down")),
        flag("openai-logging-dir", Value, Because("`--record DIR` writes requests down")),
        flag("output-style", Value, Because("`--append-system-prompt` says how to write")),
        flag("permission-prompt-tool", Value, Unless("stdio")),
        flag("plugin-dir", Value, Nought),
        flag("project-config-root", Value, Nought),
        flag("proxy", Value, Because("`HTTPS_PROXY` names a proxy")),
        flag("resume-session-at", Value, Because("the whole session goes on")),
        flag("restore-ask-user-question", Truth, Nought),
        flag("safe-mode", Truth, Because("`--bare` leaves out what files bring along")),
        flag("sandbox-image", Value, Because("the sandbox needs no image")),
        flag("show-memory-usage", Truth, Nought),
        flag("task-budget", Value, Because("`--max-budget-usd` bounds a run")),
        flag("telemetry", Truth, Nought),
        flag("telemetry-log-prompts", Truth, Nought),
        flag("telemetry-otlp-endpoint", Value, Nought),
        flag("telemetry-otlp-protocol", Value, Nought),
        flag("telemetry-outfile", Value, Nought),
        flag("telemetry-target", Value, Nought),
        flag("thinking", Value, Because("`--effort` says how hard models think")),
        flag("thinking-display", Value, Nought),
        flag("tmux", Joined, Because("start it inside `tmux`")),
        flag(
            "worktree",
            Word,
            Because(
                "it works in this directory, and agents in worktrees of their own where they ask \
                 for one",
            ),
        ),
    ]
};

/// The names of those that may be followed by `true` or `false`.
pub(super) fn truths() -> impl Iterator<Item = &'static str> {
    FLAGS.iter().filter(|flag| flag.takes == Takes::Truth).map(|flag| flag.name)
}

/// Flags of other harnesses that scripts and programs pass and that change
/// nothing here.
#[derive(Debug, Clone, Default)]
pub struct InertFlags {
    said: Vec<String>,
    refused: Option<(String, &'static str)>,
}

impl InertFlags {
    /// Returns a line for each flag that was given and does nothing.
    #[must_use]
    pub fn said(&self) -> &[String] {
        &self.said
    }

    /// Returns why nothing runs, and what to do instead, if a flag was given that
    /// must not be passed over.
    #[must_use]
    pub fn refused(&self) -> Option<&(String, &'static str)> {
        self.refused.as_ref()
    }
}

impl Inert {
    fn arg(&self) -> Arg {
        let short = SHORT.iter().find(|(name, _)| *name == self.name).map(|(_, short)| *short);
        let arg = Arg::new(self.name).long(self.name).short(short).global(true).hide(true);
        match self.takes {
            Takes::Nothing => arg.action(ArgAction::SetTrue),
            Takes::Truth => arg
                .action(ArgAction::Append)
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true"),
            Takes::Joined => arg
                .action(ArgAction::Append)
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value(""),
            Takes::Word => arg
                .action(ArgAction::Append)
                .num_args(0..=1)
                .default_missing_value("")
                .value_parser(parse_word),
            Takes::Value => arg.action(ArgAction::Append).num_args(1),
            Takes::Values => arg.action(ArgAction::Append).num_args(1..),
        }
    }

    fn is_given(&self, matches: &ArgMatches) -> bool {
        matches.value_source(self.name) == Some(ValueSource::CommandLine)
    }

    /// Returns what to say if it was given.
    fn said(&self, matches: &ArgMatches) -> Option<String> {
        if !self.is_given(matches) {
            return None;
        }
        let name = self.name;
        let is = |value: &str| {
            let mut given = matches.get_raw(name).into_iter().flatten();
            given.all(|given| given == value)
        };
        if self.takes == Takes::Truth && is("false") {
            return None;
        }
        match self.says {
            Says::Nothing => None,
            Says::Unless(value) if is(value) => None,
            Says::Inert | Says::Unless(_) => Some(format!("note: `--{name}` does nothing here")),
            Says::Because(why) => {
                let typed = self.typed(matches);
                Some(format!("note: `{typed}` does nothing here: {why}"))
            }
            Says::Refused(_, _) => None,
        }
    }

    /// Returns the flag with the word behind it: whoever meant that for a prompt
    /// sees where it went.
    fn typed(&self, matches: &ArgMatches) -> String {
        let mut words = matches.get_raw(self.name).into_iter().flatten();
        let word = words.next().filter(|word| self.takes == Takes::Word && !word.is_empty());
        let word = word.map(|word| format!(" {}", word.to_string_lossy())).unwrap_or_default();
        format!("--{}{word}", self.name)
    }

    /// Returns why nothing runs if it was given.
    fn refused(&self, matches: &ArgMatches) -> Option<(String, &'static str)> {
        match self.says {
            Says::Refused(why, hint) if self.is_given(matches) => {
                Some((format!("`--{}`: {why}", self.name), hint))
            }
            Says::Nothing
            | Says::Inert
            | Says::Unless(_)
            | Says::Because(_)
            | Says::Refused(_, _) => None,
        }
    }
}

/// Reads a word that is a name: one with white space in it is a prompt, which a
/// flag before it has taken.
fn parse_word(word: &str) -> Result<String, &'static str> {
    match word.contains(char::is_whitespace) {
        true => Err("it is no name; a prompt stands before the flag, or behind `-p`"),
        false => Ok(word.to_owned()),
    }
}

impl Args for InertFlags {
    fn augment_args(command: Command) -> Command {
        FLAGS.iter().fold(command, |command, flag| command.arg(flag.arg()))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for InertFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self {
            said: FLAGS.iter().filter_map(|flag| flag.said(matches)).collect(),
            refused: FLAGS.iter().find_map(|flag| flag.refused(matches)),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
