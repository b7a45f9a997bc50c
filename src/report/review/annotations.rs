//! A review as commands of GitHub Actions: each line of a build's log that is one
//! becomes a remark beside the code.

use super::super::sanitise;
use crate::review::{Judged, Outcome, Severity};

/// Returns a line for each finding that stands, the worst first.
///
/// GitHub shows ten errors, ten warnings and ten notices of a step; the log holds
/// all of them.
#[must_use]
pub fn annotations(outcome: &Outcome<'_>) -> String {
    outcome.standing().map(annotation).collect()
}

fn annotation(judged: &Judged) -> String {
    let claim = &judged.finding.claim;
    let command = match claim.severity {
        Severity::High => "error",
        Severity::Medium => "warning",
        Severity::Low => "notice",
    };
    let end = claim.end_line.map_or(String::new(), |end| format!(",endLine={end}"));
    let finders: Vec<_> = judged.finding.finders.iter().map(|angle| angle.as_str()).collect();
    let title = format!("{} ({})", claim.title, finders.join(", "));
    let advice = claim.suggestion.as_ref().map_or(String::new(), |it| format!("\n\n{it}"));
    format!(
        "::{command} file={},line={}{end},title={}::{}\n",
        property(&claim.path),
        claim.line,
        property(&title),
        data(&format!("{}{advice}", claim.reason)),
    )
}

/// Writes a message so that it stays on its line. A carriage return is kept from
/// what a terminal must not get: it is written as GitHub reads it.
fn data(text: &str) -> String {
    let safe: Vec<_> = text.split('\r').map(sanitise::text).collect();
    safe.join("\r").replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Writes the value of a property so that no other one begins in it.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_begins_another_property_or_another_command() {
        assert_eq!(property("a,line=1::b%\r\nc"), "a%2Cline=1%3A%3Ab%25%0D%0Ac");
        assert_eq!(data("50%: a, b\n::error::x"), "50%25: a, b%0A::error::x");
        assert_eq!(data("\u{1b}[2J"), "\\u{1b}[2J");
    }
}
