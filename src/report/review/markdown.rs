//! A review as a Markdown report.
//!
//! What a model wrote stands below its finding, further in than that: so it can
//! begin a list, a heading or a block of code of its own, and end none of ours.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::super::{inert, sanitise};
use super::{changed, counts, missing, page, part, reason, unread, why};
use crate::message::counted;
use crate::review::{Angle, Aside, Judged, Outcome, Verified, Why};

/// Most rows of the table of hunks. With more of them it has one for each file.
const ROWS_CAP: usize = 200;

/// Most rows of a table that has one for each file.
const FILES_CAP: usize = 1_000;

/// Most names of a list. The JSON form has all of them.
const NAMES_CAP: usize = 100;

/// Returns the report. `is_inert` says that a runner of GitHub reads it, which must
/// obey nothing of it.
#[must_use]
pub fn markdown(outcome: &Outcome<'_>, is_inert: bool) -> String {
    let mut text = format!("# Review of {}\n\n", prose(&outcome.plan.title));
    summary(outcome, &mut text);
    findings(outcome, &mut text);
    refuted(outcome, &mut text);
    coverage(outcome, &mut text);
    reviewers(outcome, &mut text);
    left_out(outcome, &mut text);
    // In this order: a backslash more can make an image of what was none.
    page::harmless(if is_inert { inert::text(&text) } else { text })
}

fn summary(outcome: &Outcome<'_>, text: &mut String) {
    let parts = counts(outcome).into_iter().filter(|(_, count)| *count > 0);
    let parts: Vec<_> =
        parts.map(|(severity, count)| format!("{count} {}", severity.as_str())).collect();
    let standing = outcome.standing().count();
    let found = match standing {
        0 => nothing(outcome).to_owned(),
        count => format!("{}: {}.", counted(count as u64, "finding"), parts.join(", ")),
    };
    let refuted = match outcome.refuted().count() {
        0 => String::new(),
        count => format!(" {count} more did not hold."),
    };
    let dropped = match outcome.dropped {
        0 => String::new(),
        count => format!(" {count} more had no room in this report."),
    };
    let reviewers = &outcome.coverage.reviewers;
    let there = reviewers.iter().filter(|it| it.missing.is_none()).count();
    let whole = outcome.plan.hunks.len();
    let read = whole - outcome.coverage.unread().len();
    let _ = write!(
        text,
        "{found}{refuted}{dropped}\n\n{there} of {} gave an answer; {read} of {} read whole. Effort: {}.\n",
        counted(reviewers.len() as u64, "reviewer"),
        match whole {
            1 => "1 changed place was".to_owned(),
            count => format!("{count} changed places were"),
        },
        outcome.plan.effort.as_str(),
    );
}

/// What a review says that has no findings.
fn nothing(outcome: &Outcome<'_>) -> &'static str {
    match (outcome.plan.territories.is_empty(), outcome.is_complete()) {
        (true, _) => "Nothing was reviewed: all of the change is set aside.",
        (false, true) => "No findings.",
        (false, false) => "No findings, but not all of the change was reviewed.",
    }
}

fn findings(outcome: &Outcome<'_>, text: &mut String) {
    text.push_str("\n## Findings\n\n");
    let items: Vec<_> = outcome.standing().map(finding).collect();
    match items.is_empty() {
        true => text.push_str(&format!("{}\n", nothing(outcome))),
        false => text.push_str(&joined(&items)),
    }
}

/// One finding, with what there is to say of it below its line.
fn finding(judged: &Judged) -> String {
    let claim = &judged.finding.claim;
    let mut item = line(judged, verification(&judged.verified));
    // In the line format the reason is the title already.
    if claim.reason != claim.title {
        item.push_str(&inset("", &claim.reason));
    }
    if let Some(suggestion) = &claim.suggestion {
        item.push_str(&inset("Instead: ", suggestion));
    }
    if let Some(reason) = reason(&judged.verified) {
        item.push_str(&inset("Verifier: ", &reason));
    }
    item
}

fn refuted(outcome: &Outcome<'_>, text: &mut String) {
    let items = outcome.refuted().map(|judged| {
        if judged.verified == Verified::Nowhere {
            return line(judged, verification(&judged.verified));
        }
        let reason = reason(&judged.verified).unwrap_or_else(|| "without a reason".to_owned());
        line(judged, "") + &inset("Refuted: ", &reason)
    });
    let items: Vec<_> = items.collect();
    if !items.is_empty() {
        text.push_str("\n## What did not hold\n\n");
        text.push_str(&joined(&items));
    }
}

/// Puts items into one list: with air between them, if one has more than a line.
fn joined(items: &[String]) -> String {
    let is_long = items.iter().any(|item| item.contains("\n\n"));
    items.join(if is_long { "\n" } else { "" })
}

/// The line of a finding, as the review skill asks for it.
fn line(judged: &Judged, note: &str) -> String {
    let (finding, claim) = (&judged.finding, &judged.finding.claim);
    let finders: Vec<_> = finding.finders.iter().map(|angle| angle.as_str()).collect();
    let end = claim.end_line.map_or(String::new(), |end| format!("-{end}"));
    let place = format!("{}:{}{end}", name(&claim.path), claim.line);
    let severity = claim.severity.as_str();
    let is_elsewhere = !finding.is_in_change && judged.verified != Verified::Nowhere;
    let outside = if is_elsewhere { "; outside the change" } else { "" };
    let (title, finders) = (prose(&claim.title), finders.join(", "));
    format!("- [{severity}] {place}: {title} ({finders}{outside}{note})\n")
}

fn verification(verified: &Verified) -> &'static str {
    match verified {
        Verified::Confirmed(_) => "; confirmed",
        Verified::Unsure(_) => "; neither confirmed nor refuted",
        Verified::Unanswered(_) => "; its verifier gave no answer",
        Verified::NotAsked => "; not verified",
        Verified::Refuted(_) => "; refuted",
        Verified::Nowhere => "; there is no such place",
    }
}

fn coverage(outcome: &Outcome<'_>, text: &mut String) {
    if outcome.plan.territories.is_empty() {
        return;
    }
    text.push_str("\n## Coverage\n\n");
    table(outcome, text);
    let bare = outcome
        .plan
        .without_lines()
        .map(|it| format!("{}: {}", code(&it.path), name(&changed(it))));
    let bare: Vec<_> = bare.collect();
    if !bare.is_empty() {
        let air = if outcome.plan.hunks.is_empty() { "" } else { "\n" };
        let _ = write!(text, "{air}Part of the change without a changed line:\n\n");
        listed(bare.into_iter(), text);
    }
}

fn table(outcome: &Outcome<'_>, text: &mut String) {
    let (plan, coverage) = (outcome.plan, &outcome.coverage);
    if plan.hunks.is_empty() {
        return;
    }
    text.push_str("Changed lines that each angle's reviewers were shown before they answered.\n\n");
    let angles: Vec<_> = coverage.angles().collect();
    let head: Vec<_> = angles.iter().map(|angle| angle.as_str()).collect();
    let _ = writeln!(text, "| changed place | {} |", head.join(" | "));
    let _ = writeln!(text, "|---|{}", "---|".repeat(angles.len()));
    let rows: Vec<(String, Vec<usize>)> = match plan.hunks.len() <= ROWS_CAP {
        true => plan
            .hunks
            .iter()
            .map(|hunk| hunk.id.to_string())
            .zip((0..).map(|at| vec![at]))
            .collect(),
        false => {
            let files = plan.files.iter().filter(|file| !file.hunks().is_empty());
            files.map(|file| (file.path.to_string(), file.hunks().collect())).collect()
        }
    };
    let more = rows.len().saturating_sub(FILES_CAP);
    for (row, hunks) in rows.into_iter().take(FILES_CAP) {
        let cells = angles.iter().map(|angle| {
            let sums = hunks.iter().map(|hunk| coverage.read_by(*angle, *hunk));
            cell(sums.fold((0, 0), |(read, all), (more, of)| (read + more, all + of)))
        });
        let _ = writeln!(text, "| {} | {} |", code(&row), cells.collect::<Vec<_>>().join(" | "));
    }
    if more > 0 {
        let _ = writeln!(text, "\nand {more} more files, which the JSON form has.");
    }
    let names: Vec<_> = unread(outcome).map(|hunk| hunk.id.to_string()).collect();
    if !names.is_empty() {
        let again = coverage.angles().any(|angle| angle == Angle::Again);
        let again = if again { ", also when they were sent out once more" } else { "" };
        let _ = write!(text, "\nNobody has read all of these{again}:\n\n");
        listed(names.iter().map(|name| code(name)), text);
    }
}

/// What a table says of so many read lines of so many.
fn cell((read, all): (usize, usize)) -> String {
    match read {
        0 if all > 0 => "–".to_owned(),
        _ if read == all => "read".to_owned(),
        _ => format!("{read} of {all}"),
    }
}

fn reviewers(outcome: &Outcome<'_>, text: &mut String) {
    let missing = outcome.coverage.missing().map(|(reviewer, why)| {
        let (angle, part) = (reviewer.angle.as_str(), part(outcome, reviewer));
        let of = outcome.plan.territories.iter().find(|territory| territory.id == part);
        let of = of.map_or(String::new(), |territory| format!(" ({})", name(&territory.title)));
        format!("{angle} of part {part}{of}: {}", prose(&self::missing(why)))
    });
    let missing: Vec<_> = missing.collect();
    if !missing.is_empty() {
        text.push_str("\n## Missing reviewers\n\nNothing counts as read by these:\n\n");
        listed(missing.into_iter(), text);
    }
}

fn left_out(outcome: &Outcome<'_>, text: &mut String) {
    let mut by_reason = BTreeMap::<Why, Vec<&Aside>>::new();
    outcome.left_out().for_each(|it| by_reason.entry(it.why).or_default().push(it));
    if by_reason.is_empty() {
        return;
    }
    text.push_str("\n## Not reviewed\n\n");
    // Each reason for itself: five hundred files of one hide none of another.
    for aside in by_reason.values().rev() {
        listed(aside.iter().map(|it| format!("{}: {}", code(&it.path), why(it))), text);
    }
}

fn listed(mut names: impl ExactSizeIterator<Item = String>, text: &mut String) {
    for name in names.by_ref().take(NAMES_CAP) {
        let _ = writeln!(text, "- {name}");
    }
    if names.len() > 0 {
        let _ = writeln!(text, "- and {} more", names.len());
    }
}

/// Text below a line of a list, in the same item.
fn inset(label: &str, text: &str) -> String {
    let text = prose(&format!("{label}{}", text.trim()));
    let lines = text.lines().map(|line| match line.trim_end() {
        "" => "\n".to_owned(),
        line => format!("  {line}\n"),
    });
    // An empty line: else it would go on with the line above.
    format!("\n{}", lines.collect::<String>())
}

/// Words of a model, safe for a terminal. What they are in the page is seen to
/// where there is a page.
fn prose(text: &str) -> String {
    sanitise::text(text).into_owned()
}

/// A file's name on a line.
fn name(path: &str) -> String {
    prose(&sanitise::line(path))
}

/// A name as code, in a table or a list.
fn code(name: &str) -> String {
    let name = sanitise::line(name).replace('|', "\\|");
    match name.contains('`') {
        true => prose(&name),
        false => format!("`{name}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_cells() {
        assert_eq!(code("a|b.rs:1-2"), "`a\\|b.rs:1-2`");
    }

    #[test]
    fn text_below_a_finding_stays_below_it() {
        assert_eq!(inset("", "one\n\n```\n# two"), "\n  one\n\n  ```\n  # two\n");
    }
}
