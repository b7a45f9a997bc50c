//! Exit codes, and what to print when a command cannot do its work.

use std::fmt;
use std::io;
use std::path::Path;

use crate::event::{CancelReason, Failure, FailureKind, InvocationEnd, Outcome};
use crate::git::{Elsewhere, GitError};
use crate::run::Signal;

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// All is well.
    Done,
    /// The run ended in an error.
    Error,
    /// The command line is wrong.
    Usage,
    /// The provider refused the key.
    Authentication,
    /// What the user gave cannot be worked on.
    BadInput,
    /// The configuration is wrong or missing.
    BadConfig,
    /// A limit on turns, tokens, money or tool calls was reached.
    Limit,
    /// The provider failed in a way worth retrying later.
    TryLater,
    /// SIGHUP.
    Hangup,
    /// SIGINT.
    Interrupted,
    /// SIGTERM.
    Terminated,
    /// The reader of standard output has gone.
    OutputGone,
    /// As the command ended that was run.
    Command(u8),
}

impl Exit {
    /// Returns the number the shell sees.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Error => 1,
            Self::Usage => 2,
            Self::Authentication => 41,
            Self::BadInput => 42,
            Self::BadConfig => 52,
            Self::Limit => 53,
            Self::TryLater => 75,
            Self::Hangup => 129,
            Self::Interrupted => 130,
            Self::Terminated => 143,
            // As SIGPIPE ends other programs.
            Self::OutputGone => 141,
            Self::Command(code) => code,
        }
    }

    /// Returns how a signal ends a process that had not begun its work.
    #[must_use]
    pub fn after(signal: Signal) -> Self {
        match signal {
            Signal::Interrupt => Self::Interrupted,
            Signal::Terminate => Self::Terminated,
            Signal::Hangup => Self::Hangup,
            Signal::OutputGone => Self::OutputGone,
        }
    }

    /// Tells whether a signal, or the loss of the reader, ended the process.
    #[must_use]
    pub fn is_by_signal(self) -> bool {
        matches!(self, Self::Hangup | Self::Interrupted | Self::Terminated | Self::OutputGone)
    }

    /// Returns how a run ends the process.
    #[must_use]
    pub fn of(end: &InvocationEnd) -> Self {
        match (end.cancel, &end.outcome) {
            // A turn that ended before the signal reached it is done.
            (_, Outcome::Done { text: _ }) => Self::Done,
            (Some(CancelReason::Interrupt), _) => Self::Interrupted,
            (Some(CancelReason::Hangup), _) => Self::Hangup,
            (Some(CancelReason::Terminate), _) => Self::Terminated,
            (Some(CancelReason::OutputGone), _) => Self::OutputGone,
            (None, Outcome::Failed(failure)) => Self::of_failure(failure),
            (None, Outcome::Cancelled { ran: _ } | Outcome::Interrupted) => Self::Error,
        }
    }

    fn of_failure(failure: &Failure) -> Self {
        match failure.kind {
            FailureKind::Authentication => Self::Authentication,
            FailureKind::Provider | FailureKind::EmptyAnswer => Self::TryLater,
            FailureKind::MaxTurns
            | FailureKind::Budget
            | FailureKind::MaxTokens
            | FailureKind::MaxToolCalls => Self::Limit,
            FailureKind::Request
            | FailureKind::Overflow
            | FailureKind::Loop
            | FailureKind::Timeout
            | FailureKind::Setup
            | FailureKind::Panic
            | FailureKind::Unfinished
            | FailureKind::Hook
            | FailureKind::StructuredOutput
            | FailureKind::OutputLimit
            | FailureKind::Refusal
            | FailureKind::Unmet => Self::Error,
        }
    }
}

/// Why a command could not do its work, in words for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// How the process ends.
    pub exit: Exit,
    /// What is wrong: lower case, no full stop.
    pub message: String,
    /// What to do about it, if that is not plain.
    pub hint: Option<String>,
    /// Whether all that is wrong is that no model is configured.
    pub lacks_model: bool,
    /// Whether it is written to no file that flags name: that would be written over
    /// what is read.
    pub keeps_files: bool,
}

impl Refusal {
    /// A refusal without a hint.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: None, lacks_model: false, keeps_files: false }
    }

    /// A refusal because a file cannot be written.
    pub fn cannot_write(exit: Exit, path: &Path, error: &io::Error) -> Self {
        Self::new(exit, format!("cannot write `{}`: {error}", path.display()))
    }

    /// A refusal because there is no change to look at.
    pub fn no_change(error: &GitError) -> Self {
        Self { hint: advice(error), ..Self::new(Exit::BadInput, error.to_string()) }
    }

    /// A refusal because only fixed rules answer; `needing` says what wants more.
    pub fn by_rules(needing: &str) -> Self {
        Self::new(Exit::BadInput, format!("{needing} a model, and fixed rules answer"))
            .hint("choose a model with `-m MODEL`; `tine doctor` says how to get one")
    }

    /// A refusal because of an error, with all its causes.
    pub fn because(exit: Exit, error: &dyn std::error::Error) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            message = format!("{message}: {error}");
            cause = error.source();
        }
        Self::new(exit, message)
    }

    /// Leaves files alone that flags name.
    #[must_use]
    pub fn keeping_files(self) -> Self {
        Self { keeps_files: true, ..self }
    }

    /// Adds what to do.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// What to do where a shallow clone ends too early.
const UNSHALLOW: &str =
    "`git fetch --unshallow` gets the older commits; in CI, check out with `fetch-depth: 0`";

/// Says what to do where there is no change to look at, if that is not plain.
fn advice(error: &GitError) -> Option<String> {
    match error {
        GitError::UnknownRevision { name, elsewhere } => match elsewhere {
            Elsewhere::Tracked => Some(format!(
                "`--base origin/{}` is the branch as it was last fetched",
                name.escape_debug()
            )),
            Elsewhere::Remote => {
                let branch = name.strip_prefix("origin/").unwrap_or(name);
                Some(format!("`git fetch origin {branch}`, and then `--base FETCH_HEAD`"))
            }
            Elsewhere::Older => Some(UNSHALLOW.to_owned()),
            Elsewhere::Unknown => None,
        },
        GitError::NoParent { commit: _, is_shallow: true } => Some(
            "`git fetch --deepen=1` gets it; in CI, check out with `fetch-depth: 2` or `0`"
                .to_owned(),
        ),
        GitError::NothingInCommon { name: _, is_shallow: true } => Some(UNSHALLOW.to_owned()),
        GitError::NoParent { commit: _, is_shallow: false }
        | GitError::NothingInCommon { name: _, is_shallow: false }
        | GitError::NotARepository { path: _ }
        | GitError::NoWorkingTree { path: _ }
        | GitError::Damaged { path: _ }
        | GitError::NoCommits
        | GitError::EmptyChange { title: _ }
        | GitError::GitMissing
        | GitError::GitOfWorkspace { path: _ }
        | GitError::Failed { message: _ } => error.way_out(),
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(outcome: Outcome, cancel: Option<CancelReason>) -> u8 {
        Exit::of(&InvocationEnd { outcome, text: "".into(), cancel, unfinished: Vec::new() }).code()
    }

    #[test]
    fn of_a_change_that_is_not_here_it_is_told_how_to_get_it() {
        let hint = |error: GitError| Refusal::no_change(&error).hint;
        let unknown = |name: &str, elsewhere| {
            hint(GitError::UnknownRevision { name: name.to_owned(), elsewhere }).unwrap_or_default()
        };
        assert!(unknown("main", Elsewhere::Tracked).starts_with("`--base origin/main`"));
        for name in ["main", "origin/main"] {
            let hint = unknown(name, Elsewhere::Remote);
            assert_eq!(hint, "`git fetch origin main`, and then `--base FETCH_HEAD`");
        }
        assert_eq!(unknown("main", Elsewhere::Unknown), "");
        let (commit, name) = (String::new(), String::new());
        let parent = hint(GitError::NoParent { commit, is_shallow: true }).unwrap();
        assert!(parent.contains("`git fetch --deepen=1`") && parent.contains("`fetch-depth: 2`"));
        let common = hint(GitError::NothingInCommon { name: name.clone(), is_shallow: true });
        assert!(common.unwrap().contains("`fetch-depth: 0`"));
        assert_eq!(hint(GitError::NothingInCommon { name, is_shallow: false }), None);
    }

    #[test]
    fn every_end_has_its_code() {
        let failed = |kind| Outcome::failed(kind, "x");
        assert_eq!(exit(Outcome::Done { text: "x".into() }, None), 0);
        assert_eq!(exit(failed(FailureKind::Authentication), None), 41);
        assert_eq!(exit(failed(FailureKind::Provider), None), 75);
        assert_eq!(exit(failed(FailureKind::MaxTurns), None), 53);
        assert_eq!(exit(failed(FailureKind::Request), None), 1);
        assert_eq!(exit(failed(FailureKind::StructuredOutput), None), 1);
        assert_eq!(exit(failed(FailureKind::Unmet), None), 1);
        let cancelled = || Outcome::Cancelled { ran: true };
        assert_eq!(exit(cancelled(), Some(CancelReason::Interrupt)), 130);
        assert_eq!(exit(cancelled(), Some(CancelReason::Terminate)), 143);
        assert_eq!(exit(cancelled(), Some(CancelReason::OutputGone)), 141);
        assert_eq!(exit(failed(FailureKind::Provider), Some(CancelReason::Terminate)), 143);
    }
}
