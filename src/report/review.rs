//! A review for those who read it: people, programs, code scanning, a build's log.
//!
//! All of it is said of one [`Outcome`]: nothing here decides what was found or
//! read. Words of models and names of files stand in every form so that they
//! cannot end what surrounds them.

mod annotations;
mod json;
mod markdown;
mod sarif;

use crate::review::{Angle, Aside, Hunk, Missing, Outcome, Reviewer, Severity, Verified, Why};

pub use annotations::annotations;
pub use json::json;
pub use markdown::markdown;
pub use sarif::sarif;

/// Says why a reviewer does not count.
fn missing(why: &Missing) -> String {
    match why {
        Missing::NotStarted => "it never ran".to_owned(),
        Missing::Failed(error) => format!("it failed: {error}"),
        Missing::Cancelled => "it was cancelled".to_owned(),
        Missing::Interrupted => "it was interrupted".to_owned(),
        Missing::NoLook => "it looked at nothing but the diff".to_owned(),
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
        Verified::NotAsked => None,
    }
}

/// Names why a file is set aside for programs.
fn why_name(why: Why) -> &'static str {
    match why {
        Why::Binary => "binary",
        Why::Submodule => "submodule",
        Why::Generated => "generated",
        Why::LongLine => "long_line",
        Why::Combined => "combined",
        Why::TooMuch => "too_much",
    }
}

/// Says why a file is set aside.
fn why(aside: &Aside) -> &'static str {
    match aside.why {
        Why::Binary => "it is no text",
        Why::Submodule => "it is a submodule, of which a commit is named",
        Why::Generated => "nobody has written it by hand, by its name or its first lines",
        Why::LongLine => "it has a line too long to be written by hand",
        Why::Combined => "its diff is that of a merge",
        Why::TooMuch => {
            "the change is too large for this effort, and not all of it was sent out first"
        }
    }
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
    outcome.coverage.unread().into_iter().map(|place| &outcome.plan.hunks[place])
}

#[cfg(test)]
mod tests;
