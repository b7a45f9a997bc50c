//! A review as SARIF 2.1.0, for code scanning.
//!
//! Rules are the angles, results the findings that stand. There are no columns:
//! reviewers name lines. What was not read is told as a notification, so that a
//! file without results does not look like a review without gaps.

use serde_json::{Value, json};

use super::{missing, part, unread, why};
use crate::review::{Angle, Finding, Judged, Outcome, Severity};

/// Where the schema of the form is.
const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// What relative paths begin at: the repository's top, wherever that is.
const ROOT: &str = "%SRCROOT%";

/// Names the way in which a fingerprint is made.
const FINGERPRINT: &str = "tineFinding/v1";

/// Returns a review as a SARIF log.
#[must_use]
pub fn sarif(outcome: &Outcome<'_>) -> Value {
    let is_successful = outcome.coverage.missing().next().is_none();
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "tine",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": Angle::ALL.map(rule),
            }},
            "automationDetails": { "id": "tine-review/" },
            "invocations": [{
                "executionSuccessful": is_successful,
                "toolExecutionNotifications": notifications(outcome),
            }],
            "originalUriBaseIds": {
                ROOT: { "description": { "text": "The top directory of the repository." } },
            },
            "results": outcome.standing().map(result).collect::<Vec<_>>(),
        }],
    })
}

fn rule(angle: Angle) -> Value {
    let text = match angle {
        Angle::Correctness => "The change does not do what it sets out to do.",
        Angle::Security => "Somebody can do with the change what they are not meant to.",
        Angle::Tests => "The tests of the change would not fail if it were wrong.",
        Angle::Performance => "The change costs noticeably more time or memory than it has to.",
        Angle::Clarity => "The next person will not understand the change at the first reading.",
        Angle::Again => "Found in a second look at what no reviewer had read.",
    };
    json!({
        "id": angle.as_str(),
        "name": angle.as_str(),
        "shortDescription": { "text": text },
        "defaultConfiguration": { "level": "warning" },
    })
}

fn result(judged: &Judged) -> Value {
    let (finding, claim) = (&judged.finding, &judged.finding.claim);
    let level = match claim.severity {
        Severity::High => "error",
        Severity::Medium => "warning",
        Severity::Low => "note",
    };
    // Whoever is first found it from the side that comes first.
    let rule = finding.finders.first().copied().unwrap_or(Angle::Correctness);
    let advice = claim.suggestion.as_ref().map_or(String::new(), |it| format!("\n\n{it}"));
    let mut region = json!({ "startLine": claim.line });
    if let Some(end) = claim.end_line {
        region["endLine"] = end.into();
    }
    json!({
        "ruleId": rule.as_str(),
        "ruleIndex": Angle::ALL.iter().position(|angle| *angle == rule),
        "level": level,
        "message": { "text": format!("{}\n\n{}{advice}", claim.title, claim.reason) },
        "locations": [{ "physicalLocation": {
            "artifactLocation": location(finding),
            "region": region,
        }}],
        "partialFingerprints": { FINGERPRINT: finding.fingerprint },
        "properties": {
            "id": &*finding.id.0,
            "severity": claim.severity.as_str(),
            "foundBy": finding.finders.iter().map(|angle| angle.as_str()).collect::<Vec<_>>(),
            "verdict": judged.verified.as_str(),
        },
    })
}

/// A path below the top is relative to it; a reviewer may name another one, too.
fn location(finding: &Finding) -> Value {
    let path = &finding.claim.path;
    match path.starts_with('/') {
        true => json!({ "uri": format!("file://{}", encoded(path)) }),
        false => json!({ "uri": encoded(path), "uriBaseId": ROOT }),
    }
}

/// Writes a path as a part of a URI. A colon in its first name would make that a
/// scheme, so all are written as escapes.
fn encoded(path: &str) -> String {
    let mut uri = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}

fn notifications(outcome: &Outcome<'_>) -> Vec<Value> {
    let unread = unread(outcome).map(|hunk| format!("nobody has read all of {}", hunk.id));
    let missing = outcome.coverage.missing().map(|(reviewer, why)| {
        let part = part(outcome, reviewer);
        format!(
            "the reviewer for {} of part {part} is missing: {}",
            reviewer.angle.as_str(),
            missing(why)
        )
    });
    let aside = outcome.left_out();
    let aside = aside.map(|aside| format!("{} was not reviewed: {}", aside.path, why(aside)));
    let said = |level: &'static str| move |text: String| json!({ "level": level, "message": { "text": text } });
    unread.chain(missing).map(said("warning")).chain(aside.map(said("note"))).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_path_is_a_relative_reference_whatever_is_in_it() {
        assert_eq!(super::encoded("src/a b.rs"), "src/a%20b.rs");
        assert_eq!(super::encoded("c:x?#%é"), "c%3Ax%3F%23%25%C3%A9");
    }
}
