//! The words of what people decide and of what is done to their files.

use super::{SENTENCE_CAP, SUBJECT_CAP, agents, call, short_line};
use crate::event::{
    Access, Backend, CallQuestion, Confinement, FileChange, Question, Verdict, Worktree,
};
use crate::message::counted;

/// Returns a question, as it is put to people.
#[must_use]
pub fn question(question: &Question) -> String {
    match question {
        Question::Batch { slots } => format!("start {} at once?", agents(u64::from(*slots))),
        Question::Call(asked) => {
            let CallQuestion { tool, subject, reason, confinement, .. } = &**asked;
            let reason = short_line(reason, SENTENCE_CAP);
            let bounds = confinement.map(|bounds| format!("; it would run {}", confined(bounds)));
            format!("{}? ({reason}{})", call(tool, subject), bounds.unwrap_or_default())
        }
    }
}

/// Returns a question and what became of it.
#[must_use]
pub fn answered(question: &Question, answer: &Verdict) -> String {
    let answer = match (answer, question) {
        (Verdict::Yes, _) => "yes".to_owned(),
        (Verdict::ForBatch, _) => "yes, for this batch".to_owned(),
        (Verdict::ForSession, _) => "yes, for this session".to_owned(),
        (Verdict::Always, _) => "yes, always".to_owned(),
        (Verdict::No, _) => "no".to_owned(),
        (Verdict::NoBecause(message), _) => format!("no: {}", short_line(message, SENTENCE_CAP)),
        (Verdict::NobodyToAsk, Question::Batch { slots: _ }) => {
            "nobody can be asked; `--allow-large-batches` allows it".to_owned()
        }
        (Verdict::NobodyToAsk, Question::Call(_)) => "nobody can be asked".to_owned(),
        (Verdict::Withdrawn, _) => "withdrawn".to_owned(),
    };
    format!("{} {answer}", self::question(question))
}

/// Returns how a command is kept in bounds.
#[must_use]
pub fn confined(confinement: Confinement) -> String {
    let Confinement { backend, access, network } = confinement;
    let access = match access {
        Access::ReadOnly => "read-only",
        Access::WorkspaceWrite => "writing only the workspace",
        Access::Off => return "without a sandbox".to_owned(),
    };
    let backend = match backend {
        Backend::Bwrap => "bwrap",
        Backend::Landlock => "Landlock",
        Backend::None => return "without a sandbox".to_owned(),
    };
    let network = if network { "with" } else { "without" };
    format!("in a sandbox ({backend}, {access}, {network} network)")
}

/// Returns a call that runs, and how it is kept in bounds.
#[must_use]
pub fn started(tool: &str, subject: &str, confinement: Option<Confinement>) -> String {
    let bounds = confinement.map(|bounds| format!(", {}", confined(bounds)));
    format!("{}{}", call(tool, subject), bounds.unwrap_or_default())
}

/// Returns what is done to a file.
#[must_use]
pub fn file_changed(change: &FileChange) -> String {
    let verb = match (change.before, change.after) {
        (None, Some(_)) => "makes",
        (Some(_), None) => "deletes",
        (Some(_), Some(_)) | (None, None) => "changes",
    };
    format!("{verb} {}", short_line(&change.path, SUBJECT_CAP))
}

/// Returns what became of a unit's own worktree.
#[must_use]
pub fn worktree(worktree: &Worktree) -> String {
    let path = |path| short_line(path, SUBJECT_CAP);
    match worktree {
        Worktree::Made { path: directory, base: _ } => {
            format!("works in a worktree of its own: {}", path(directory))
        }
        Worktree::Dropped => "changed nothing in its worktree, which is gone".to_owned(),
        Worktree::Applied { patch: _, files } => {
            format!("{} of its worktree put into the workspace", counted(*files, "changed file"))
        }
        Worktree::Kept { path: directory, patch, conflicts } => {
            let why = match conflicts.len() {
                0 => String::new(),
                count => {
                    format!(
                        ", because {} in conflict",
                        counted(u32::try_from(count).unwrap_or(u32::MAX), "file")
                    )
                }
            };
            format!("its worktree is kept{why}: {} (patch: {})", path(directory), path(patch))
        }
    }
}
