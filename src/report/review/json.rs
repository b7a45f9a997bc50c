//! A review as one JSON value, for programs. Its form is a promise: docs/review.md
//! has its schema, and a test holds this to it.

use serde_json::{Map, Value, json};

use super::{change_name, missing, missing_name, part, reason, unread, why_name};
use crate::review::{File, Judged, Outcome, Reviewer};

/// The version of the form. Fields may come without a new one.
const VERSION: u32 = 1;

/// Returns a review as a value.
#[must_use]
pub fn json(outcome: &Outcome<'_>) -> Value {
    let plan = outcome.plan;
    let unread: Vec<&str> = unread(outcome).map(|hunk| &*hunk.id.0).collect();
    let angles: Vec<_> = outcome.coverage.angles().map(|angle| angle.as_str()).collect();
    let left_out = outcome.left_out();
    let left_out =
        left_out.map(|aside| json!({ "path": &*aside.path, "why": why_name(aside.why) }));
    json!({
        "version": VERSION,
        "title": plan.title,
        "effort": plan.effort.as_str(),
        "complete": outcome.is_complete(),
        "findings": outcome.findings.iter().map(finding).collect::<Vec<_>>(),
        "findings_left_out": outcome.dropped,
        "coverage": {
            "angles": angles,
            "hunks": (0..plan.hunks.len()).map(|place| hunk(outcome, place)).collect::<Vec<_>>(),
            "unread": unread,
            "without_lines": plan.without_lines().map(without_lines).collect::<Vec<_>>(),
        },
        "reviewers": outcome.coverage.reviewers.iter().map(|it| reviewer(outcome, it)).collect::<Vec<_>>(),
        "left_out": left_out.collect::<Vec<_>>(),
    })
}

fn finding(judged: &Judged) -> Value {
    let (finding, claim) = (&judged.finding, &judged.finding.claim);
    let mut value = json!({
        "id": &*finding.id.0,
        "fingerprint": finding.fingerprint,
        "path": claim.path,
        "line": claim.line,
        "severity": claim.severity.as_str(),
        "title": claim.title,
        "reason": claim.reason,
        "found_by": finding.finders.iter().map(|angle| angle.as_str()).collect::<Vec<_>>(),
        "in_change": finding.is_in_change,
        "verification": { "verdict": judged.verified.as_str() },
    });
    put(&mut value, "end_line", claim.end_line.map(Value::from));
    put(&mut value, "suggestion", claim.suggestion.as_deref().map(Value::from));
    put(&mut value["verification"], "reason", reason(&judged.verified).map(Value::from));
    value
}

fn hunk(outcome: &Outcome<'_>, place: usize) -> Value {
    let hunk = &outcome.plan.hunks[place];
    let angles = outcome.coverage.angles();
    let by: Map<String, Value> = angles
        .map(|angle| (angle.as_str().to_owned(), outcome.coverage.read_by(angle, place).0.into()))
        .collect();
    let (read, changed) = outcome.coverage.read(place);
    json!({
        "id": &*hunk.id.0,
        "path": &*hunk.path,
        "first_line": hunk.lines.0,
        "last_line": hunk.lines.1,
        "deleted": hunk.is_gone,
        "changed_lines": changed,
        "read_lines": read,
        "read_lines_by": by,
    })
}

/// A file of which no line is another one.
fn without_lines(file: &File) -> Value {
    let mut value = json!({ "path": &*file.path, "change": change_name(file.kind) });
    put(&mut value, "from", file.from.as_deref().map(Value::from));
    value
}

fn reviewer(outcome: &Outcome<'_>, reviewer: &Reviewer) -> Value {
    let mut value = json!({
        "angle": reviewer.angle.as_str(),
        "part": part(outcome, reviewer),
        "looks": reviewer.looks,
    });
    put(&mut value, "agent_id", reviewer.unit.map(|unit| unit.to_string().into()));
    let why = reviewer.missing.as_ref();
    put(
        &mut value,
        "missing",
        why.map(|why| json!({ "why": missing_name(why), "message": missing(why) })),
    );
    value
}

/// Adds a field if there is something in it.
fn put(value: &mut Value, name: &str, field: Option<Value>) {
    if let Some(field) = field {
        value[name] = field;
    }
}
