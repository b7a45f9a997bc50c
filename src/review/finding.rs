//! What reviewers and verifiers answer: the schemas, and how an answer is read.
//!
//! A model that keeps to the schema is read as JSON. One that has no such answer
//! is read in the line format of the review skill, `- [SEVERITY] PATH:LINE:
//! REASON`. An answer in neither form is none: nobody knows what it says.

use serde_json::Value;

/// Most findings of one reviewer: more is a list of remarks, and each of them
/// costs a verifier.
pub const FINDINGS_PER_REVIEWER_CAP: usize = 50;

/// Most characters of a title.
const TITLE_CAP: usize = 120;

/// Most characters of a reason or a suggestion.
const TEXT_CAP: usize = 4_000;

/// Most characters of a path.
const PATH_CAP: usize = 4_096;

/// How bad a finding is, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Wrong results, lost data, a hole or a crash in ordinary use.
    High,
    /// The same in rare cases, or a cost that will be felt.
    Medium,
    /// Worth changing while one is there.
    Low,
}

impl Severity {
    /// Every severity, the worst first.
    pub const ALL: [Self; 3] = [Self::High, Self::Medium, Self::Low];

    /// Returns the name in answers, reports and flags.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }

    /// Reads a name, in any case.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|severity| severity.as_str().eq_ignore_ascii_case(name.trim()))
    }
}

/// What one reviewer says is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The file, as the reviewer names it.
    pub path: String,
    /// The line after the change, from 1.
    pub line: u32,
    /// The last line, if it is about several.
    pub end_line: Option<u32>,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, on one line.
    pub title: String,
    /// What goes wrong, and when.
    pub reason: String,
    /// What to do instead.
    pub suggestion: Option<String>,
}

/// What a verifier says of a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// Whether it holds.
    pub verdict: Verdict,
    /// What in the code shows that.
    pub reason: String,
    /// How bad it is, if not as bad or worse than claimed.
    pub severity: Option<Severity>,
    /// Where it is, if elsewhere.
    pub line: Option<u32>,
}

/// Whether a finding holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The code shows it.
    Confirmed,
    /// The code shows the contrary.
    Refuted,
    /// The code shows neither.
    Unsure,
}

impl Verdict {
    /// Every verdict.
    pub const ALL: [Self; 3] = [Self::Confirmed, Self::Refuted, Self::Unsure];

    /// Returns the name in answers and reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Refuted => "refuted",
            Self::Unsure => "unsure",
        }
    }
}

/// Returns the JSON Schema of a reviewer's answer.
#[must_use]
pub const fn findings_schema() -> &'static str {
    include_str!("../../prompts/review/findings.schema.json")
}

/// Returns the JSON Schema of a verifier's answer.
#[must_use]
pub const fn verdict_schema() -> &'static str {
    include_str!("../../prompts/review/verdict.schema.json")
}

/// What one reviewer says it has found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Claims {
    /// The worst of it, the worst first.
    pub found: Vec<Claim>,
    /// How many more it named than there is room for.
    pub dropped: usize,
}

/// Reads a reviewer's answer; `None` if it has no form that is known. What in it
/// is no whole finding is left out.
#[must_use]
pub fn claims(answer: &str) -> Option<Claims> {
    let listed = json(answer).and_then(|value| match value {
        Value::Array(items) => Some(items),
        Value::Object(mut fields) => match fields.remove("findings")? {
            Value::Array(items) => Some(items),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Object(_) => None,
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    });
    if let Some(items) = listed {
        let found: Vec<_> = items.iter().filter_map(claim).collect();
        let is_read = !found.is_empty() || items.is_empty();
        return is_read.then(|| bounded(found));
    }
    let found: Vec<_> = answer.lines().filter_map(claim_of_line).collect();
    let says_none = || answer.to_lowercase().contains("no findings");
    (!found.is_empty() || says_none()).then(|| bounded(found))
}

/// Reads a verifier's answer; `None` if it has no form that is known.
#[must_use]
pub fn ruling(answer: &str) -> Option<Ruling> {
    let verdict = |name: &str| {
        Verdict::ALL.into_iter().find(|verdict| verdict.as_str().eq_ignore_ascii_case(name))
    };
    if let Some(value) = json(answer).filter(Value::is_object) {
        return Some(Ruling {
            verdict: verdict(value["verdict"].as_str()?.trim())?,
            reason: text(&value["reason"], TEXT_CAP).unwrap_or_default(),
            severity: value["severity"].as_str().and_then(Severity::from_name),
            line: number(&value["line"]),
        });
    }
    let first = answer.trim_start().trim_start_matches(['*', '#', '`', '-', ' ']);
    let end = first.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(first.len());
    let reason = first[end..].trim_matches(|c: char| c.is_whitespace() || ":*`.".contains(c));
    let reason = head(reason, TEXT_CAP);
    Some(Ruling { verdict: verdict(&first[..end])?, reason, severity: None, line: None })
}

/// The JSON of an answer: all of it, or what stands between the first bracket
/// and the last.
fn json(answer: &str) -> Option<Value> {
    let parsed = |text: &str| serde_json::from_str::<Value>(text).ok();
    let is_answer = |value: &Value| value.is_object() || value.is_array();
    let between = |open: char, close: char| {
        let (start, end) = (answer.find(open)?, answer.rfind(close)?);
        answer.get(start..=end).and_then(parsed)
    };
    parsed(answer.trim())
        .or_else(|| between('{', '}'))
        .or_else(|| between('[', ']'))
        .filter(is_answer)
}

fn claim(value: &Value) -> Option<Claim> {
    let reason = text(&value["reason"], TEXT_CAP);
    let title = text(&value["title"], TITLE_CAP);
    let line = number(&value["line"])?;
    Some(Claim {
        // As it is written: a name may hold any white space.
        path: value["path"]
            .as_str()
            .filter(|path| !path.trim().is_empty())
            .map(|path| head(path, PATH_CAP))?,
        line,
        end_line: number(&value["end_line"]).filter(|end| *end > line),
        severity: Severity::from_name(value["severity"].as_str()?)?,
        title: one_line(&title.or_else(|| reason.as_deref().map(first_sentence))?),
        reason: reason.unwrap_or_default(),
        suggestion: text(&value["suggestion"], TEXT_CAP),
    })
}

/// Reads `- [SEVERITY] PATH:LINE: REASON`. Marks of Markdown around the parts
/// are nothing but that.
fn claim_of_line(line: &str) -> Option<Claim> {
    let line = line.trim_start_matches(|c: char| c.is_whitespace() || "-*+".contains(c));
    let (severity, rest) = line.strip_prefix('[')?.split_once(']')?;
    let severity = Severity::from_name(severity)?;
    let rest = rest.trim_start_matches(['*', ' ', '`']);
    // A path may hold colons itself, and so may a reason.
    let (path, lines, reason) = rest.match_indices(':').find_map(|(at, _)| {
        let behind = &rest[at + 1..];
        let digits = behind.find(|c: char| !c.is_ascii_digit() && c != '-')?;
        let (lines, reason) = behind.split_at(digits);
        let reason = reason.trim_start_matches(['`', '*']).strip_prefix(':')?;
        let (first, last) = lines.split_once('-').unwrap_or((lines, lines));
        Some((&rest[..at], (first.parse().ok()?, last.parse::<u32>().ok()?), reason.trim()))
    })?;
    (!path.is_empty() && !reason.is_empty() && lines.0 > 0).then(|| Claim {
        path: head(path, PATH_CAP),
        line: lines.0,
        end_line: Some(lines.1).filter(|end| *end > lines.0),
        severity,
        title: first_sentence(reason),
        reason: head(reason, TEXT_CAP),
        suggestion: None,
    })
}

/// Returns the first sentence of a reason, or as much of it as a title holds.
fn first_sentence(reason: &str) -> String {
    let end = [". ", "; ", "\n"].iter().filter_map(|end| reason.find(end)).min();
    let sentence = &reason[..end.unwrap_or(reason.len())];
    one_line(&head(sentence.trim_end_matches('.'), TITLE_CAP))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn bounded(mut found: Vec<Claim>) -> Claims {
    let dropped = found.len().saturating_sub(FINDINGS_PER_REVIEWER_CAP);
    found.sort_by_key(|claim| claim.severity);
    found.truncate(FINDINGS_PER_REVIEWER_CAP);
    Claims { found, dropped }
}

/// A text that says something.
fn text(value: &Value, cap: usize) -> Option<String> {
    let text = value.as_str()?.trim();
    (!text.is_empty()).then(|| head(text, cap))
}

/// The first characters of a text; where that is not all, so it says.
fn head(text: &str, cap: usize) -> String {
    match text.char_indices().nth(cap) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

/// A line's number, also one in quotes.
fn number(value: &Value) -> Option<u32> {
    let number = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())?;
    u32::try_from(number).ok().filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use crate::json_schema::Schema;

    use super::*;

    fn claim(path: &str, line: u32, severity: Severity, title: &str) -> Claim {
        Claim {
            path: path.to_owned(),
            line,
            end_line: None,
            severity,
            title: title.to_owned(),
            reason: title.to_owned(),
            suggestion: None,
        }
    }

    #[track_caller]
    fn check(answer: &str, expected: Option<&[Claim]>) {
        let found = claims(answer).map(|claims| claims.found);
        assert_eq!(found.as_deref(), expected, "{answer}");
    }

    #[test]
    fn an_answer_that_fits_the_schema_is_read_whole() {
        let answer = serde_json::json!({"findings": [{
            "path": "src/a.rs", "line": 3, "end_line": 5, "severity": "high",
            "title": "it panics", "reason": "With an empty list.\nAlways.", "suggestion": "Ask first.",
        }]});
        Schema::compile(&serde_json::from_str(findings_schema()).unwrap())
            .unwrap()
            .check(&answer)
            .unwrap();
        let expected = Claim {
            end_line: Some(5),
            reason: "With an empty list.\nAlways.".to_owned(),
            suggestion: Some("Ask first.".to_owned()),
            ..claim("src/a.rs", 3, Severity::High, "it panics")
        };
        check(&answer.to_string(), Some(std::slice::from_ref(&expected)));
        check(&format!("Here it is:\n```json\n{answer}\n```\n"), Some(&[expected]));
        check(r#"{"findings":[]}"#, Some(&[]));
    }

    #[test]
    fn lines_of_the_skill_are_read_too() {
        let answer = "I looked.\n\n- [high] src/a.rs:3: it panics\n* **[LOW]** `b: c.rs:7-9`: dull. Say more\n\
                      - [urgent] a:1: no\n- [low] nowhere: no\n- [low] a.rs:0: no";
        let second = Claim {
            end_line: Some(9),
            reason: "dull. Say more".to_owned(),
            ..claim("b: c.rs", 7, Severity::Low, "dull")
        };
        check(
            "- [high] src/a.rs:3: it panics",
            Some(&[claim("src/a.rs", 3, Severity::High, "it panics")]),
        );
        let read = claims(answer).unwrap().found;
        assert_eq!(read.len(), 2, "{read:?}");
        assert_eq!(read[1], second);
        check("No findings.", Some(&[]));
        check("Checked for tests by fixed rules, without a model.\n\nNo findings.", Some(&[]));
    }

    #[test]
    fn an_answer_in_no_known_form_is_none() {
        for answer in [
            "",
            "Looks good to me!",
            r#"{"findings":"none"}"#,
            r#"{"findings":[{"path":1}]}"#,
            "[1]",
        ] {
            check(answer, None);
        }
    }

    #[test]
    fn what_a_model_gets_wrong_in_one_finding_costs_no_other() {
        let answer = r#"{"findings":[
            {"path":"a","line":"4","severity":"High","reason":"It fails. Often."},
            {"path":"a","line":0,"severity":"high","title":"x","reason":"y"},
            {"path":"a","line":1,"severity":"worst","title":"x","reason":"y"}]}"#;
        let expected = Claim {
            reason: "It fails. Often.".to_owned(),
            ..claim("a", 4, Severity::High, "It fails")
        };
        check(answer, Some(&[expected]));
    }

    #[test]
    fn reviewers_are_told_how_many_findings_are_taken() {
        let schema: Value = serde_json::from_str(findings_schema()).unwrap();
        let most = &schema["properties"]["findings"]["maxItems"];
        assert_eq!(most.as_u64(), Some(FINDINGS_PER_REVIEWER_CAP as u64));
    }

    #[test]
    fn no_answer_gives_more_than_its_share_and_the_worst_are_kept() {
        let mut answer: String = (1..200).map(|line| format!("- [low] a.rs:{line}: x\n")).collect();
        answer += &format!("- [high] a.rs:999: {}\n", "y".repeat(9_999));
        let Claims { found: read, dropped } = claims(&answer).unwrap();
        assert_eq!((read.len(), read[0].line), (FINDINGS_PER_REVIEWER_CAP, 999));
        assert_eq!(dropped, 200 - FINDINGS_PER_REVIEWER_CAP, "what has no room is counted");
        assert_eq!(read[0].reason.chars().count(), TEXT_CAP + 1);
        assert_eq!(read[0].title.chars().count(), TITLE_CAP + 1);
    }

    #[test]
    fn rulings_are_read_from_json_and_from_words() {
        let answer = serde_json::json!({"verdict": "refuted", "reason": "line 4 asks", "severity": "low", "line": 4});
        Schema::compile(&serde_json::from_str(verdict_schema()).unwrap())
            .unwrap()
            .check(&answer)
            .unwrap();
        let expected = Ruling {
            verdict: Verdict::Refuted,
            reason: "line 4 asks".to_owned(),
            severity: Some(Severity::Low),
            line: Some(4),
        };
        assert_eq!(ruling(&answer.to_string()), Some(expected));
        let words = Ruling {
            verdict: Verdict::Confirmed,
            reason: "it panics".to_owned(),
            severity: None,
            line: None,
        };
        assert_eq!(ruling("**Confirmed**: it panics."), Some(words));
        assert_eq!(ruling("I am not sure"), None);
        assert_eq!(ruling(r#"{"verdict":"maybe"}"#), None);
    }
}
