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
}

/// The letters that stand for some of them.
const SHORT: [(&str, char); 1] = [("extensions", 'e')];

const FLAGS: &[Inert] = {
    use Says::{Because, Inert as Nought, Nothing as Silent, Unless};
    use Takes::{Nothing, Truth, Value, Values};
    const fn flag(name: &'static str, takes: Takes, says: Says) -> Inert {
        Inert { name, takes, says }
    }
    &[
        // Stream-json is always whole.
        flag("verbose", Nothing, Silent),
        // A program may ask for any mode while it drives a run.
        flag("allow-dangerously-skip-permissions", Nothing, Silent),
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
        flag("ide", Nothing, Nought),
        flag("include-hook-events", Nothing, Nought),
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
        flag("safe-mode", Nothing, Nought),
        flag("task-budget", Value, Because("`--max-budget-usd` bounds a run")),
        flag("telemetry", Truth, Nought),
        flag("telemetry-log-prompts", Truth, Nought),
        flag("telemetry-otlp-endpoint", Value, Nought),
        flag("telemetry-otlp-protocol", Value, Nought),
        flag("telemetry-outfile", Value, Nought),
        flag("telemetry-target", Value, Nought),
        flag("thinking", Value, Because("`--effort` says how hard models think")),
        flag("thinking-display", Value, Nought),
        flag(
            "worktree",
            Nothing,
            Because("agents work in worktrees of their own where they ask for one"),
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
}

impl InertFlags {
    /// Returns a line for each flag that was given and does nothing.
    #[must_use]
    pub fn said(&self) -> &[String] {
        &self.said
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
            Takes::Value => arg.action(ArgAction::Append).num_args(1),
            Takes::Values => arg.action(ArgAction::Append).num_args(1..),
        }
    }

    /// Returns what to say if it was given.
    fn said(&self, matches: &ArgMatches) -> Option<String> {
        if matches.value_source(self.name) != Some(ValueSource::CommandLine) {
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
            Says::Because(why) => Some(format!("note: `--{name}` does nothing here: {why}")),
        }
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
        Ok(Self { said: FLAGS.iter().filter_map(|flag| flag.said(matches)).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
