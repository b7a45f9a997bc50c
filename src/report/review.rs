//! A review for those who read it: people, programs, code scanning, a build's log.
//!
//! All of it is said of one [`Outcome`]: nothing here decides what was found or
//! read. Words of models and names of files stand in every form so that they
//! cannot end what surrounds them.

mod annotations;
mod json;
mod markdown;
mod page;
mod sarif;

use crate::diff::ChangeKind;
use crate::review::{
    Angle, Aside, File, Hunk, Missing, Outcome, Reviewer, Severity, Verified, Why,
};

pub use annotations::annotations;
pub use json::json;
pub use markdown::markdown;
pub use sarif::sarif;

/// Says why a reviewer does not count.
fn missing(why: &Missing) -> String {
    match why {
        Missing::NotStarted => "it never ran".to_owned(),
        Missing::Failed(failure) => format!("it failed: {}", failure.message),
        Missing::Cancelled => "it was cancelled".to_owned(),
        Missing::Interrupted => "it was interrupted".to_owned(),
        Missing::NoLook => "it looked at nothing but what it was given".to_owned(),
        Missing::Unreadable => "its answer has no form that could be read".to_owned(),
    }
}

/// Names the sort of that for programs.
fn missing_name(why: &Missing) -> &'static str {
    match why {
        Missing::NotStarted => "not_started",
        Missing::Failed(_) => "failed",
        Missing::Cancelled => "cancelled",
        Missing::Interrupted => "interrupted",
        Missing::NoLook => "no_look",
        Missing::Unreadable => "unreadable",
    }
}

/// Says what a verifier has to say, if it has.
fn reason(verified: &Verified) -> Option<String> {
    match verified {
        Verified::Confirmed(reason) | Verified::Refuted(reason) | Verified::Unsure(reason) => {
            (!reason.is_empty()).then(|| reason.clone())
        }
        Verified::Unanswered(why) => Some(missing(why)),
        Verified::Nowhere => Some("there is no such place".to_owned()),
        Verified::NotAsked => None,
    }
}

/// Names why a file is set aside for programs.
fn why_name(why: Why) -> &'static str {
    match why {
        Why::Ours => "written_by_tine",
        Why::Binary => "binary",
        Why::BinaryCode => "binary_code",
        Why::Submodule => "submodule",
        Why::Repository => "repository",
        Why::LockFile => "lock_file",
        Why::Generated => "generated",
        Why::LongLine => "long_line",
        Why::Combined => "combined",
        Why::TooLarge => "too_large",
        Why::TooMuch => "too_much",
    }
}

/// Says why a file is set aside.
fn why(aside: &Aside) -> &'static str {
    match aside.why {
        Why::Ours => "tine wrote it, by how it begins",
        Why::Binary => "it is no text",
        Why::BinaryCode => "it is no text, though code by its name",
        Why::Submodule => "it is a submodule, of which a commit is named",
        Why::Repository => "it is a repository of its own, which this one does not track",
        Why::LockFile => "it is a lock file, by its name",
        Why::Generated => "nobody has written it by hand, by its name or its first lines",
        Why::LongLine => "it has a line too long to be written by hand",
        Why::Combined => "its diff is that of a merge",
        Why::TooLarge => "it may be text, and is too large to be shown",
        Why::TooMuch => {
            "the change is too large for this effort, and not all of it was sent out first"
        }
    }
}

/// Names what happened to a file for programs.
fn change_name(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Added => "added",
        ChangeKind::Modified => "modified",
        ChangeKind::Deleted => "deleted",
        ChangeKind::Renamed => "renamed",
        ChangeKind::Copied => "copied",
    }
}

/// Says what happened to a file of which no line is another one.
fn changed(file: &File) -> String {
    let from = file.from.as_deref().unwrap_or("another file");
    match file.kind {
        ChangeKind::Added => "it is new, and empty".to_owned(),
        ChangeKind::Modified => "its mode is another".to_owned(),
        ChangeKind::Deleted => "it is gone, and was empty".to_owned(),
        ChangeKind::Renamed => format!("it was called {from}"),
        ChangeKind::Copied => format!("it is a copy of {from}"),
    }
}

/// Says what a review has not seen to, if there is something.
#[must_use]
pub fn gaps(outcome: &Outcome<'_>) -> Option<String> {
    let missing = outcome.coverage.missing().count();
    let unread = outcome.coverage.unread().len();
    let left_out = outcome.left_out().filter(|aside| aside.why.is_gap()).count();
    let counts = [
        (missing, "reviewer that is missing", "reviewers that are missing"),
        (
            unread,
            "changed place that nobody has read whole",
            "changed places that nobody has read whole",
        ),
        (left_out, "file that was left out", "files that were left out"),
    ];
    let counts = counts.into_iter().filter(|(count, _, _)| *count > 0);
    let said: Vec<String> = counts
        .map(|(count, one, several)| format!("{count} {}", if count == 1 { one } else { several }))
        .collect();
    (!said.is_empty()).then(|| said.join(", "))
}

/// Says how a review failed of which no reviewer counts.
#[must_use]
pub fn failure(outcome: &Outcome<'_>) -> Option<String> {
    let (reviewer, why) = outcome.coverage.failed()?;
    let (angle, part) = (reviewer.angle.as_str(), part(outcome, reviewer));
    Some(format!(
        "none of the reviewers counts; the one for {angle} of part {part}: {}",
        self::missing(why)
    ))
}

/// Names what a reviewer was given: the part of the first look, or of the second.
fn part(outcome: &Outcome<'_>, reviewer: &Reviewer) -> String {
    let number = reviewer.index + 1;
    match reviewer.angle {
        Angle::Again => format!("u{number}"),
        Angle::Correctness
        | Angle::Security
        | Angle::Tests
        | Angle::Performance
        | Angle::Clarity => {
            let territory = outcome.plan.territories.get(reviewer.index as usize);
            territory.map_or_else(|| format!("t{number}"), |territory| territory.id.clone())
        }
    }
}

/// Counts the findings that stand, by severity.
fn counts(outcome: &Outcome<'_>) -> [(Severity, usize); 3] {
    let of = |severity: Severity| {
        outcome.standing().filter(|judged| judged.finding.claim.severity == severity).count()
    };
    Severity::ALL.map(|severity| (severity, of(severity)))
}

/// Returns the hunks of which somebody should have read more.
fn unread<'a>(outcome: &'a Outcome<'_>) -> impl Iterator<Item = &'a Hunk> {
    outcome.coverage.unread().iter().map(|place| &outcome.plan.hunks[*place])
}

#[cfg(test)]
mod tests;
