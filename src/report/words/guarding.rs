//! The words of what people decide and of what is done to their files.

use std::sync::Arc;

use super::{SENTENCE_CAP, SUBJECT_CAP, agents, call, short_line};
use crate::event::{
    Access, Backend, CallQuestion, ChangedBy, Confinement, Entry, Field, FileChange, Form, Lasting,
    NetworkAccess, Question, Terms, Verdict, Worktree,
};
use crate::message::counted;
use crate::report::result::Ending;
use crate::report::sanitise;

/// Returns a question, as it is put to people.
#[must_use]
pub fn question(question: &Question) -> String {
    match question {
        Question::Batch { slots } => format!("start {} at once?", agents(u64::from(*slots))),
        Question::Form(form) => form_in_short(form),
        Question::Call(asked) => {
            let CallQuestion { tool, subject, reason, confinement, .. } = &**asked;
            let reason = short_line(reason, SENTENCE_CAP);
            let bounds = confinement.map(|bounds| format!("; it would run {}", confined(bounds)));
            format!("{}? ({reason}{})", call(tool, subject), bounds.unwrap_or_default())
        }
    }
}

/// Returns what is asked first, and how much more.
fn form_in_short(form: &Form) -> String {
    let first = form.fields.first().map(|field| short_line(&field.text, SENTENCE_CAP));
    let first = first.unwrap_or_else(|| short_line(&form.message, SENTENCE_CAP));
    match form.fields.len() {
        0 | 1 => first,
        count => format!("{first} (and {} more)", count - 1),
    }
}

/// Returns what was said to each field.
fn filled(form: &Form, given: &[Entry]) -> String {
    let said = |(field, given): (&Field, &Entry)| match field.said(given) {
        Some(said) => short_line(&said, SUBJECT_CAP),
        None => "nothing".to_owned(),
    };
    form.fields.iter().zip(given).map(said).collect::<Vec<_>>().join("; ")
}

/// Returns a question and what became of it.
#[must_use]
pub fn answered(question: &Question, answer: &Verdict) -> String {
    let answer = match (answer, question) {
        (Verdict::Filled(given), Question::Form(form)) => filled(form, given),
        (Verdict::Filled(_), Question::Batch { slots: _ } | Question::Call(_)) => "no".to_owned(),
        (Verdict::No, Question::Form(_)) => "no answer".to_owned(),
        (Verdict::Yes, _) => "yes".to_owned(),
        (Verdict::YesWith(terms), _) => on_terms(terms),
        (Verdict::Covered(_), _) => "yes, by an earlier answer".to_owned(),
        (Verdict::ForBatch, _) => "yes, for this batch".to_owned(),
        (Verdict::ForSession, _) => "yes, for this session".to_owned(),
        (Verdict::Always, _) => "yes, always".to_owned(),
        (Verdict::No, _) => "no".to_owned(),
        (Verdict::NoBecause(message), _) => format!("no: {}", short_line(message, SENTENCE_CAP)),
        (Verdict::NobodyToAsk, Question::Batch { slots: _ }) => {
            "nobody can be asked; `--allow-large-batches` allows it".to_owned()
        }
        (Verdict::NobodyToAsk, Question::Call(_) | Question::Form(_)) => {
            "nobody can be asked".to_owned()
        }
        (Verdict::Withdrawn, _) => "withdrawn".to_owned(),
    };
    format!("{} {answer}", self::question(question))
}

/// Tells whether an answer is told by nothing else: a call that nobody could be
/// asked about is told as denied, one that an earlier answer allows as started.
#[must_use]
pub fn is_told_alone(question: &Question, answer: &Verdict) -> bool {
    match (question, answer) {
        (_, Verdict::Covered(_))
        | (Question::Call(_) | Question::Form(_), Verdict::NobodyToAsk) => false,
        (
            Question::Batch { slots: _ } | Question::Call(_) | Question::Form(_),
            Verdict::Yes
            | Verdict::YesWith(_)
            | Verdict::ForBatch
            | Verdict::ForSession
            | Verdict::Always
            | Verdict::Filled(_)
            | Verdict::No
            | Verdict::NoBecause(_)
            | Verdict::NobodyToAsk
            | Verdict::Withdrawn,
        ) => true,
    }
}

fn on_terms(terms: &Terms) -> String {
    let Terms { arguments, lasting, rules } = terms;
    let arguments = match arguments {
        Some(arguments) => {
            format!(", with other arguments: {}", short_line(arguments, SUBJECT_CAP))
        }
        None => String::new(),
    };
    let lasting = match lasting {
        Lasting::Once => return format!("yes{arguments}"),
        Lasting::Batch => "for this batch",
        Lasting::Session => "for this session",
        Lasting::Always => "always",
    };
    let rules = short_line(&rules.join(", "), SUBJECT_CAP);
    format!("yes{arguments}, and {lasting}: {rules}")
}

/// Returns how many calls were denied, and what would have allowed those that
/// nobody could be asked about.
pub(super) fn denied_in_all(ending: &Ending) -> Vec<String> {
    let listed = u64::try_from(ending.denials.len()).unwrap_or(u64::MAX);
    let denied = match listed.saturating_add(ending.denials_left_out) {
        0 => return Vec::new(),
        1 => "1 call was denied".to_owned(),
        count => format!("{count} calls were denied"),
    };
    if ending.suggested.is_empty() {
        return vec![denied];
    }
    let quoted = |rule: &Arc<str>| format!("'{}'", sanitise::line(rule).replace('\'', "'\\''"));
    let rules: Vec<String> = ending.suggested.iter().map(quoted).collect();
    vec![denied, format!("hint: `--allowed-tools {}` allows such calls", rules.join(" "))]
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
    let network = match network {
        NetworkAccess::None => "without network",
        NetworkAccess::Hosts => "with allowed hosts only",
        NetworkAccess::Public => "with the public internet",
        NetworkAccess::Shared => "with network",
    };
    format!("in a sandbox ({backend}, {access}, {network})")
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
    let verb = match (&change.by, change.before, change.after) {
        (ChangedBy::Undo { from: _ }, _, Some(_)) => "puts back",
        (ChangedBy::Call(_), None, Some(_)) => "makes",
        (_, Some(_), None) => "deletes",
        (ChangedBy::Call(_), Some(_), Some(_)) | (_, None, None) => "changes",
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
