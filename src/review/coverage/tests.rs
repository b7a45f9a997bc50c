//! Tests of who has read what.

use proptest::prelude::*;

use super::*;
use crate::event::testing::{called, finished};
use crate::event::{Compaction, CompactionTrigger, FailureKind};
use crate::message::{Output, Usage};
use crate::review::Effort;
use crate::review::testing::{Session, adds, plan};

/// Two changed places of one file, ten lines and one; and one line that is gone.
fn change() -> Plan {
    let lines: String = (1..=10).map(|number| format!("+line {number}\n")).collect();
    let text = format!(
        "diff --git a/src/a.rs b/src/a.rs\n--- a/src/a.rs\n+++ b/src/a.rs\n\
         @@ -0,0 +1,10 @@\n{lines}@@ -90,1 +100,2 @@\n kept\n+late\r\n@@ -200,2 +211,1 @@\n kept\n-gone\n"
    );
    plan(&text, Effort::Low)
}

/// How many changed lines of each hunk the reviewers for correctness have read.
fn read(plan: &Plan, session: &Session) -> Vec<usize> {
    let coverage = Coverage::of(plan, &session.log.events);
    (0..plan.hunks.len()).map(|hunk| coverage.read_by(Angle::Correctness, hunk).0).collect()
}

/// Has a reviewer with this prompt make a call, and checks what it has read.
#[track_caller]
fn check(prompt: &str, call: (&str, &str), output: &str, expected: [usize; 3]) {
    let (plan, mut session) = (change(), Session::new());
    let unit = session.unit("correctness", 0, prompt);
    session.call(unit, call, output);
    session.answer(unit, "No findings.");
    assert_eq!(read(&plan, &session), expected, "{call:?} {output}");
}

const LOOK: (&str, &str) = ("Glob", "{}");

fn page(lines: std::ops::RangeInclusive<u32>) -> String {
    lines.map(|number| format!("{number:>6}\tline {number}\n")).collect()
}

#[test]
fn what_stood_in_the_prompt_was_read_and_of_a_cut_one_only_what_is_left() {
    let whole = change().territories[0].diff.clone();
    check(&format!("Review this.\n\n{whole}</file>"), LOOK, "", [10, 1, 1]);
    // Cut in the middle of `line 8`.
    let cut = whole.find("line 8").unwrap() + 4;
    check(&whole[..cut], LOOK, "", [7, 0, 0]);
    check("Review the change in change.diff.", LOOK, "", [0, 0, 0]);
    // The right lines under the wrong name, and other lines under the right one.
    check(&whole.replace("src/a.rs", "src/b.rs"), LOOK, "", [0, 0, 0]);
    check(&whole.replace("line", "LINE"), LOOK, "", [0, 1, 1]);
}

#[test]
fn of_a_walk_count_its_own_steps_and_no_earlier_review_and_nobody_that_is_called_alike() {
    let (plan, mut session) = (change(), Session::new());
    let missing = |session: &Session| Coverage::of(&plan, &session.log.events).missing().count();
    session.all_read(&plan);
    assert_eq!(missing(&session), 0);
    session.walk();
    assert_eq!(missing(&session), 2);
    session.are_steps = false;
    session.all_read(&plan);
    assert_eq!(missing(&session), 2);
    session.are_steps = true;
    session.all_read(&plan);
    assert_eq!(missing(&session), 0);
}

#[test]
fn a_page_of_a_file_shows_its_own_lines_and_no_others() {
    let read = |path: &str| format!(r#"{{"file_path":"{path}"}}"#);
    for path in ["src/a.rs", "./src/a.rs", "/w/src/a.rs", "src/../src/a.rs"] {
        check("Go.", ("Read", &read(path)), &page(1..=10), [10, 0, 0]);
    }
    check("Go.", ("Read", &read("src/a.rs")), &page(4..=6), [3, 0, 0]);
    // The end of a line is not shown; what is gone is in no file.
    check("Go.", ("Read", &read("src/a.rs")), "   101\tlate\n   212\tgone\n", [0, 1, 0]);
    for path in ["src/b.rs", "a.rs", "/src/a.rs", "../src/a.rs"] {
        check("Go.", ("Read", &read(path)), &page(1..=10), [0, 0, 0]);
    }
    // The file has changed since.
    check("Go.", ("Read", &read("src/a.rs")), &page(1..=10).replace('l', "L"), [0, 0, 0]);
    check("Go.", ("Read", "no JSON"), &page(1..=10), [0, 0, 0]);
}

#[test]
fn rows_of_a_search_and_diffs_of_a_command_show_lines_too() {
    let rows =
        "src/a.rs:3:line 3\nsrc/a.rs-4-line 4\nsrc/a.rs:5:other\nsrc/b.rs:6:line 6\nline 7\n";
    check("Go.", ("Grep", r#"{"pattern":"line"}"#), rows, [2, 0, 0]);
    check("Go.", ("Bash", r#"{"command":"git diff"}"#), &change().territories[0].diff, [10, 1, 1]);
    check("Go.", ("Bash", r#"{"command":"cat src/a.rs"}"#), "line 1\nline 2\n", [0, 0, 0]);
}

#[test]
fn an_output_that_came_with_the_last_word_was_read_by_nobody() {
    let (plan, mut session) = (change(), Session::new());
    let unit = session.unit("correctness", 0, "Go.");
    let page = page(1..=10);
    session.log.put(
        unit,
        "",
        called("", &[("Read", r#"{"file_path":"src/a.rs"}"#), ("StructuredOutput", "{}")]),
    );
    session.log.put(unit, "", finished("Read", Output::ok(page.as_str())));
    session.log.put(unit, "", finished("StructuredOutput", Output::ok("taken")));
    session.end(unit, Outcome::Done { text: r#"{"findings":[]}"#.into() });
    assert_eq!(read(&plan, &session), [0, 0, 0]);
    let coverage = Coverage::of(&plan, &session.log.events);
    assert_eq!(coverage.reviewers[0].missing, Some(Missing::NoLook));
}

#[test]
fn an_output_that_may_have_been_left_out_of_a_summary_was_read_by_nobody() {
    let (plan, mut session) = (change(), Session::new());
    let unit = session.unit("correctness", 0, "Go.");
    session.call(unit, ("Read", r#"{"file_path":"src/a.rs"}"#), &page(1..=3));
    session.call(unit, ("Read", r#"{"file_path":"src/a.rs"}"#), &page(4..=10));
    let compaction = Compaction {
        trigger: CompactionTrigger::Auto,
        text: "what was said".into(),
        kept_prompts: 1,
        tokens_before: 9,
        tokens_after: 1,
        model: "m".into(),
        usage: Usage::default(),
        took_ms: 1,
    };
    session.log.put(unit, "", EventKind::Compacted(compaction.into()));
    session.answer(unit, "No findings.");
    assert_eq!(read(&plan, &session), [3, 0, 0]);
}

#[test]
fn a_call_that_failed_shows_nothing_and_is_no_look() {
    let (plan, mut session) = (change(), Session::new());
    let unit = session.unit("correctness", 0, &plan.territories[0].diff);
    session.log.put(unit, "", called("", &[("Read", r#"{"file_path":"src/a.rs"}"#)]));
    session.log.put(unit, "", finished("Read", Output::error("src/a.rs does not exist.")));
    session.answer(unit, "No findings.");
    let coverage = Coverage::of(&plan, &session.log.events);
    assert_eq!(
        (coverage.reviewers[0].looks, &coverage.reviewers[0].missing),
        (0, &Some(Missing::NoLook))
    );
}

/// Has the reviewer for correctness end like this, after it has read all.
#[track_caller]
fn check_missing(outcome: Option<Outcome>, expected: Option<Missing>) {
    let (plan, mut session) = (change(), Session::new());
    session.angle_reads(&plan, Angle::Security);
    let unit = session.unit("correctness", 0, &plan.territories[0].diff);
    session.call(unit, LOOK, "a");
    session.log.put(unit, "", crate::event::testing::replied("half"));
    if let Some(outcome) = outcome {
        session.end(unit, outcome);
    }
    let is_there = expected.is_none();
    let coverage = Coverage::of(&plan, &session.log.events);
    assert_eq!(coverage.reviewers[0].missing, expected);
    assert_eq!(coverage.read_by(Angle::Correctness, 0), (if is_there { 10 } else { 0 }, 10));
    assert_eq!(coverage.read(0), (10, 10), "the other one has read it");
}

#[test]
fn a_reviewer_without_an_answer_has_read_nothing() {
    check_missing(Some(Outcome::Done { text: "No findings.".into() }), None);
    check_missing(Some(Outcome::Done { text: "Fine!".into() }), Some(Missing::Unreadable));
    let failure = Failure { kind: FailureKind::Provider, message: "overloaded".into() };
    check_missing(Some(Outcome::Failed(failure.clone())), Some(Missing::Failed(failure)));
    check_missing(Some(Outcome::Cancelled { ran: true }), Some(Missing::Cancelled));
    check_missing(Some(Outcome::Cancelled { ran: false }), Some(Missing::NotStarted));
    check_missing(Some(Outcome::Interrupted), Some(Missing::Interrupted));
    check_missing(None, Some(Missing::NotStarted));
}

#[test]
fn who_need_not_look_around_counts_without_a_call() {
    let plan = plan(&adds("a.rs", &["x"]), Effort::Medium);
    let mut session = Session::new();
    for angle in plan.effort.angles() {
        let unit = session.unit(angle.as_str(), 0, &plan.territories[0].diff);
        session.answer(unit, "No findings.");
    }
    let coverage = Coverage::of(&plan, &session.log.events);
    let missing: Vec<_> = coverage.missing().map(|(it, _)| it.angle).collect();
    assert_eq!(missing, [Angle::Correctness, Angle::Security, Angle::Tests]);

    let plan = super::super::testing::plan(&adds("README.md", &["x"]), Effort::Medium);
    let mut session = Session::new();
    let unit = session.unit("correctness", 0, &plan.territories[0].diff);
    session.answer(unit, "No findings.");
    let coverage = Coverage::of(&plan, &session.log.events);
    assert_eq!(coverage.reviewers[0].missing, None, "in prose there is nothing to look up");
}

#[test]
fn what_nobody_has_read_goes_out_once_more_and_counts_when_it_is_read_then() {
    let text: String = ["a.rs", "b.rs"].map(|path| adds(path, &["x"; 5])).concat();
    let plan = plan(&text, Effort::Low);
    let mut session = Session::new();
    let only_a =
        &plan.territories[0].diff[..plan.territories[0].diff.find("diff --git a/b.rs").unwrap()];
    for angle in ["correctness", "security"] {
        let unit = session.unit(angle, 0, only_a);
        session.call(unit, LOOK, "a");
        session.answer(unit, "No findings.");
    }
    let coverage = Coverage::of(&plan, &session.log.events);
    assert_eq!(*coverage.unread(), [1].into());
    let again = plan.unread(&coverage);
    assert_eq!((again.len(), &*again[0].id, &*again[0].title), (1, "u1", "b.rs"));
    let inputs = plan.unread_inputs(&coverage);
    assert_eq!(inputs["territories"][0]["hunks"][0], "b.rs:1-5");

    let unit = session.unit("again", 0, &again[0].diff);
    session.call(unit, LOOK, "a");
    session.answer(unit, "- [low] b.rs:2: dull");
    let coverage = Coverage::of(&plan, &session.log.events);
    assert!(coverage.unread().is_empty() && coverage.missing().next().is_none());
    assert_eq!(coverage.angles().last(), Some(Angle::Again));
    assert_eq!(plan.unread_inputs(&coverage)["territories"].as_array().map(Vec::len), Some(0));
}

#[test]
fn of_several_units_with_one_task_the_one_that_did_it_counts() {
    let (plan, mut session) = (change(), Session::new());
    session.all_read(&plan);
    // The user had one run again, and it was cancelled.
    let late = session.declare("correctness", 0);
    session.end(late, Outcome::Cancelled { ran: false });
    let coverage = Coverage::of(&plan, &session.log.events);
    assert_eq!((coverage.missing().count(), coverage.read_by(Angle::Correctness, 0).0), (0, 10));
    // A review that was asked for later is another one.
    session.log.invocation = 2;
    session.declare("correctness", 0);
    let coverage = Coverage::of(&plan, &session.log.events);
    assert_eq!((coverage.missing().count(), coverage.read(0).0), (2, 0));
}

#[test]
fn others_of_the_session_are_no_reviewers() {
    let (plan, mut session) = (change(), Session::new());
    let other = session.unit("explore", 0, &plan.territories[0].diff);
    session.answer(other, "No findings.");
    let coverage = Coverage::of(&plan, &session.log.events);
    assert_eq!((coverage.read(0), coverage.reviewers.len()), ((0, 10), 2));
    assert_eq!(*coverage.unread(), [0, 1, 2].into());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn exactly_what_was_shown_was_read(
        sizes in proptest::collection::vec(1_u32..30, 1..5),
        cut in 0_usize..2_000,
        pages in proptest::collection::vec((0_usize..5, 1_u32..30, 1_u32..30), 0..6),
    ) {
        let text: String = (0..).zip(&sizes).map(|(file, size)| {
            let lines: Vec<String> = (1..=*size).map(|line| format!("file {file} line {line}")).collect();
            adds(&format!("f{file}.rs"), &lines.iter().map(|line| &**line).collect::<Vec<_>>())
        }).collect();
        let plan = plan(&text, Effort::Low);
        let diff = &plan.territories[0].diff;
        let cut = cut.min(diff.len());
        // Whatever ends before the cut was shown.
        let mut shown: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); sizes.len()];
        for (file, size) in sizes.iter().enumerate() {
            for line in 1..=*size {
                let row = format!("\n+file {file} line {line}\n");
                let end = diff.find(&row).unwrap() + row.len() - 1;
                shown[file].extend((end <= cut).then_some(line));
            }
        }
        let mut session = Session::new();
        let unit = session.unit("correctness", 0, &diff[..cut]);
        session.call(unit, LOOK, "a");
        for (file, first, count) in pages {
            let Some(size) = sizes.get(file) else { continue };
            let lines = first..(first + count).min(size + 1);
            let page: String = lines.clone().map(|line| format!("{line:>6}\tfile {file} line {line}\n")).collect();
            let arguments = format!(r#"{{"file_path":"f{file}.rs","offset":{first},"limit":{count}}}"#);
            session.call(unit, ("Read", &arguments), &page);
            shown[file].extend(lines);
        }
        session.answer(unit, "No findings.");
        let expected: Vec<usize> = shown.iter().map(BTreeSet::len).collect();
        prop_assert_eq!(read(&plan, &session), expected);
    }
}
