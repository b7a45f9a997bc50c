//! Tests of every form of one review that has all there is to say.

use std::path::Path;

use proptest::prelude::*;
use pulldown_cmark::{Event as Markup, Parser, Tag};
use serde_json::{Value, json};

use super::*;
use crate::event::{FailureKind, Outcome as Ended};
use crate::git::{Apart, ApartKind};
use crate::json_schema::Schema;
use crate::review::testing::{ROOT, Session, adds, change, plan};
use crate::review::{Effort, Plan};

const DIFF: &str = "diff --git a/gone.rs b/gone.rs\ndeleted file mode 100644\n--- a/gone.rs\n+++ /dev/null\n\
    @@ -1,1 +0,0 @@\n-x\n\
    diff --git a/p.png b/p.png\nindex 1..2 100644\nBinary files a/p.png and b/p.png differ\n\
    diff --git a/Cargo.lock b/Cargo.lock\n--- a/Cargo.lock\n+++ b/Cargo.lock\n@@ -1 +1 @@\n-x\n+y\n";

/// With a table of answers and a repository beside it that git was never told of.
fn whole_plan() -> Plan {
    let mut change = change(&(adds("src/a b.rs", &["x"; 9]) + DIFF));
    let apart = [("inside", ApartKind::Repository), ("rows.jsonl", ApartKind::Ours)];
    change.apart = apart.map(|(path, kind)| Apart { path: path.to_owned(), kind }).into();
    Plan::of(&change, Path::new(ROOT), Effort::Low)
}

/// A review of which one reviewer failed, one hunk was not read, one finding was
/// confirmed, one refuted, and one names another file in hostile words.
fn session(plan: &Plan) -> Session {
    let mut session = Session::new();
    let diff = &plan.territories[0].diff;
    // What it was given of the line that is gone is something else.
    let unit = session.unit("correctness", 0, &diff.replace("\n-x\n", "\n-?\n"));
    session.call(unit, ("Glob", "{}"), "a");
    let findings = json!({ "findings": [
        { "path": "src/a b.rs", "line": 3, "end_line": 5, "severity": "high", "title": "it panics on <b>empty</b> input",
          "reason": "With no line.\n\n# Always", "suggestion": "Ask first: 100%, of course." },
        { "path": "src/a b.rs", "line": 8, "severity": "medium", "title": "it is slow", "reason": "It grows." },
        { "path": "/etc/\u{1b}[2Jx,y:z", "line": 1, "severity": "low", "title": "odd::error::", "reason": "![x](http://e)" },
    ]});
    session.answer(unit, &findings.to_string());
    let failed = session.declare("security", 0);
    session.end(failed, Ended::failed(FailureKind::Provider, "overloaded"));
    let names: Vec<String> =
        Outcome::of(plan, &session.log.events).to_verify().map(|it| it.id.to_string()).collect();
    assert_eq!(names.len(), 1, "low effort verifies what is high");
    let unit = session.unit("verify", 0, &format!("Finding: {}\n", names[0]));
    session.call(unit, ("Glob", "{}"), "a");
    session.answer(unit, r#"{"verdict":"confirmed","reason":"line 3 asks nobody"}"#);
    // Whoever has it verified by hand gets a verdict on another one, too.
    let slow = Outcome::of(plan, &session.log.events).findings[1].finding.id.to_string();
    let unit = session.unit("verify", 1, &format!("Finding: {slow}\n"));
    session.call(unit, ("Glob", "{}"), "a");
    session.answer(unit, r#"{"verdict":"refuted","reason":"it runs once"}"#);
    session
}

#[track_caller]
fn check(schema: &str, value: &Value) -> Schema {
    let schema = Schema::compile(&serde_json::from_str(schema).unwrap()).unwrap();
    schema.check(value).unwrap();
    schema
}

/// The schema as OASIS publishes it.
const SARIF: &str = include_str!("../../../tests/fixtures/sarif-2.1.0.schema.json");

#[test]
fn sarif_fits_the_schema_of_the_standard() {
    let plan = whole_plan();
    let session = session(&plan);
    let mut log = sarif(&Outcome::of(&plan, &session.log.events));
    let schema = check(SARIF, &log);
    check(SARIF, &sarif(&Outcome::of(&plan, &[])));
    let results = &log["runs"][0]["results"];
    assert_eq!(results.as_array().map(Vec::len), Some(2), "what did not hold is no result");
    assert_eq!(
        results[0]["locations"][0]["physicalLocation"],
        json!({
            "artifactLocation": { "uri": "src/a%20b.rs", "uriBaseId": "%SRCROOT%" },
            "region": { "startLine": 3, "endLine": 5 },
        })
    );
    let elsewhere = &results[1]["locations"][0]["physicalLocation"]["artifactLocation"];
    assert_eq!(elsewhere, &json!({ "uri": "file:///etc/%1B%5B2Jx%2Cy%3Az" }));
    let rules = &log["runs"][0]["tool"]["driver"]["rules"];
    let index = results[0]["ruleIndex"].as_u64().unwrap() as usize;
    assert_eq!(rules[index]["id"], results[0]["ruleId"]);
    let invocation = &log["runs"][0]["invocations"][0];
    assert_eq!(invocation["executionSuccessful"], false);
    assert_eq!(invocation["toolExecutionNotifications"].as_array().map(Vec::len), Some(6));
    // The schema is one that refuses something.
    log["runs"][0]["results"][0]["level"] = "high".into();
    assert!(schema.check(&log).is_err());
}

#[test]
fn json_fits_the_schema_that_is_documented() {
    let document = include_str!("../../../docs/review.md");
    let schema = document.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let plan = whole_plan();
    let session = session(&plan);
    let outcome = Outcome::of(&plan, &session.log.events);
    let value = json(&outcome);
    check(schema, &value);
    check(schema, &json(&Outcome::of(&plan, &[])));
    assert_eq!((&value["complete"], &value["effort"]), (&false.into(), &"low".into()));
    let verdicts: Vec<_> =
        value["findings"].as_array().unwrap().iter().map(|it| &it["verification"]).collect();
    assert_eq!(
        json!(verdicts),
        json!([
            { "verdict": "confirmed", "reason": "line 3 asks nobody" },
            { "verdict": "refuted", "reason": "it runs once" },
            { "verdict": "not_asked" },
        ])
    );
    assert_eq!(value["coverage"]["unread"], json!(["gone.rs:-1-1"]));
    assert_eq!(
        value["coverage"]["hunks"][1],
        json!({
            "id": "src/a b.rs:1-9", "path": "src/a b.rs", "first_line": 1, "last_line": 9, "deleted": false,
            "changed_lines": 9, "read_lines": 9, "read_lines_by": { "correctness": 9, "security": 0 },
        })
    );
    assert_eq!(
        value["reviewers"][1],
        json!({
            "angle": "security", "part": "t1", "looks": 0, "agent_id": "agent-2",
            "missing": { "why": "failed", "message": "it failed: overloaded" },
        })
    );
    assert_eq!(
        value["left_out"],
        json!([
            { "path": "Cargo.lock", "why": "lock_file" },
            { "path": "inside", "why": "repository" },
            { "path": "p.png", "why": "binary" },
            { "path": "rows.jsonl", "why": "written_by_tine" },
        ])
    );
}

#[test]
fn the_report_says_what_stands_what_did_not_hold_and_what_is_not_known() {
    let plan = whole_plan();
    let session = session(&plan);
    let report = markdown(&Outcome::of(&plan, &session.log.events), false);
    let expected = "# Review of a change

2 findings: 1 high, 1 low. 1 more did not hold.

1 of 2 reviewers gave an answer; 1 of 2 changed places were read whole. Effort: low.

## Findings

- [high] src/a b.rs:3-5: it panics on \\<b>empty\\</b> input (correctness; confirmed)

  With no line.

  # Always

  Instead: Ask first: 100%, of course.

  Verifier: line 3 asks nobody

- [low] /etc/\\u{1b}[2Jx,y:z:1: odd::error:: (correctness; outside the change; not verified)

  \\![x](http://e)

## What did not hold

- [medium] src/a b.rs:8: it is slow (correctness)

  Refuted: it runs once

## Coverage

Changed lines that each angle's reviewers were shown before they answered.

| changed place | correctness | security |
|---|---|---|
| `gone.rs:-1-1` | – | – |
| `src/a b.rs:1-9` | read | – |

Nobody has read all of these:

- `gone.rs:-1-1`

## Missing reviewers

Nothing counts as read by these:

- security of part t1 (2 files): it failed: overloaded

## Not reviewed

- `Cargo.lock`: it is a lock file, by its name
- `inside`: it is a repository of its own, which this one does not track
- `p.png`: it is no text
- `rows.jsonl`: tine wrote it, by how it begins
";
    assert_eq!(report, expected);
}

#[test]
fn a_finding_at_no_place_is_named_where_people_read_and_nowhere_else() {
    let plan = whole_plan();
    let session = session(&plan);
    let find = &mut |path: &str, line: u32| (line > 3).then(|| path.to_owned());
    let outcome = Outcome::found(&plan, &session.log.events, find);
    let report = markdown(&outcome, false);
    for line in [
        "No findings, but not all of the change was reviewed. 3 more did not hold.",
        "## What did not hold",
        "- [high] src/a b.rs:3-5: it panics on \\<b>empty\\</b> input (correctness; there is no such place)",
        "- [low] /etc/\\u{1b}[2Jx,y:z:1: odd::error:: (correctness; there is no such place)",
    ] {
        assert!(report.lines().any(|it| it == line), "{line}:\n{report}");
    }
    assert_eq!(sarif(&outcome)["runs"][0]["results"], json!([]));
    assert_eq!(annotations(&outcome), "");
    let value = json(&outcome);
    let document = include_str!("../../../docs/review.md");
    check(document.split("```json\n").nth(1).unwrap().split("```").next().unwrap(), &value);
    let verdicts = value["findings"].as_array().unwrap().iter();
    let verdicts: Vec<_> = verdicts.map(|it| &it["verification"]["verdict"]).collect();
    assert_eq!(json!(verdicts), json!(["no_such_place", "refuted", "no_such_place"]));
}

#[test]
fn a_review_without_gaps_that_found_nothing_says_so_and_one_with_gaps_does_not() {
    let plan = plan(&adds("a.rs", &["x"]), Effort::Low);
    let first = |session: &Session| {
        let report = markdown(&Outcome::of(&plan, &session.log.events), false);
        report.lines().nth(2).unwrap().to_owned()
    };
    let mut session = Session::new();
    assert_eq!(first(&session), "No findings, but not all of the change was reviewed.");
    session.all_read(&plan);
    assert_eq!(first(&session), "No findings.");
}

#[test]
fn a_change_of_many_places_has_a_row_for_each_file() {
    let hunks: String =
        (0..300).map(|at| format!("@@ -{0},1 +{0},1 @@\n-a\n+b\n", 1 + at * 10)).collect();
    let text = format!("diff --git a/a b/a\n--- a/a\n+++ b/a\n{hunks}");
    let plan = plan(&(text + &adds("b", &["x"])), Effort::Low);
    let mut session = Session::new();
    session.all_read(&plan);
    let report = markdown(&Outcome::of(&plan, &session.log.events), false);
    assert!(report.contains("| `a` | read | read |\n| `b` | read | read |\n"), "{report}");
}

#[test]
fn annotations_stand_beside_the_code_one_on_a_line() {
    let plan = whole_plan();
    let session = session(&plan);
    let lines = annotations(&Outcome::of(&plan, &session.log.events));
    let expected = "::error file=src/a b.rs,line=3,endLine=5,title=it panics on <b>empty</b> input (correctness)\
        ::With no line.%0A%0A# Always%0A%0AAsk first: 100%25, of course.\n\
        ::notice file=/etc/\\u{1b}[2Jx%2Cy%3Az,line=1,title=odd%3A%3Aerror%3A%3A (correctness)::![x](http://e)\n";
    assert_eq!(lines, expected);
}

/// Pieces of what could be markup somewhere.
const PIECES: &str = "\\ ` `` ``` ~~~ <img <a <!-- --> <?x ?> <![CDATA[ ]]> <div> </p> <script> > ! [ ![x ](u) ][a] [a]: \
    (u) | - 1. # * _ $ & &lt; x \" ' = :: ##[error]";

/// Any words of these pieces.
fn words() -> impl Strategy<Value = String> {
    let pieces: Vec<&str> =
        PIECES.split_whitespace().chain([" ", "\n", "\n\n", "    ", "\t"]).collect();
    proptest::collection::vec(proptest::sample::select(pieces), 1..40).prop_map(|it| it.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn no_page_holds_html_or_an_image_or_a_command_whatever_anybody_wrote(
        (path, title, reason, suggestion, verdict) in (words(), words(), words(), words(), words()),
    ) {
        let mut plan = plan(&(adds("a.rs", &["x"; 9]) + DIFF), Effort::Medium);
        plan.title.push_str(&title);
        let mut session = Session::new();
        let unit = session.unit("correctness", 0, &plan.territories[0].diff);
        session.call(unit, ("Glob", "{}"), "a");
        let finding = json!({
            "path": path, "line": 1, "severity": "high", "title": title, "reason": reason, "suggestion": suggestion,
        });
        session.answer(unit, &json!({ "findings": [finding] }).to_string());
        let failed = session.declare("security", 0);
        session.end(failed, Ended::failed(FailureKind::Provider, reason.as_str()));
        let name = Outcome::of(&plan, &session.log.events).to_verify().next().map(|it| it.id.to_string());
        if let Some(name) = name {
            let unit = session.unit("verify", 0, &format!("Finding: {name}\n"));
            session.call(unit, ("Glob", "{}"), "a");
            session.answer(unit, &json!({ "verdict": "unsure", "reason": verdict }).to_string());
        }
        let page = markdown(&Outcome::of(&plan, &session.log.events), true);
        for options in page::readers() {
            for event in Parser::new_ext(&page, options) {
                let is_markup = matches!(event, Markup::Html(_) | Markup::InlineHtml(_) | Markup::Start(Tag::Image { .. }));
                prop_assert!(!is_markup, "{:?} in {}", event, page);
            }
        }
        for line in page.lines() {
            prop_assert!(!line.trim().starts_with("::") && !line.contains("##["), "{}", line);
        }
    }
}
