//! What is kept of units, and what is shown of the one that is followed.

use insta::assert_snapshot;

use super::*;
use crate::report::story::{Story, done, text_delta, thinking_delta};

fn plain(rows: &[Row]) -> String {
    rows.iter().map(|row| row.plain().trim_end().to_owned() + "\n").collect()
}

fn running() -> (Story, Strands) {
    let mut story = Story::new();
    story.batch("c", &["security"]).start(1);
    let mut strands = Strands::default();
    story.events().iter().for_each(|event| strands.take(event));
    (story, strands)
}

#[test]
fn following_begins_with_what_was_there_and_goes_on_with_what_comes() {
    let (mut story, mut strands) = running();
    strands.delta(&thinking_delta(1, "I look"));
    strands.delta(&text_delta(1, "The total is summed in `f32`; amounts above"));
    strands.follow(Some(UnitId(1)));
    assert_snapshot!(plain(&strands.rows(39, 10)), @"
    I look
    The total is summed in `f32`; amounts
    above
    ");
    strands.delta(&text_delta(1, " 16 million lose cents.\n\n- one\n"));
    let told = story.events().len();
    story.reply(
        1,
        "The total is summed in `f32`; amounts above 16 million lose cents.\n\n- one\n- two",
        1,
        1,
    );
    story.call(1, "g", "Grep", "total").output(1, "g", "Grep", "a\nb").end(1, done("x"));
    story.events()[told..].iter().for_each(|event| strands.take(event));
    assert_snapshot!(plain(&strands.rows(39, 20)), @"
    I look
    The total is summed in `f32`; amounts
    above 16 million lose cents.

    - one
    - two
    Grep total  2 lines
    done in 3.2 s, 1.2k tokens
    ");
    strands.rows(39, 2);
    strands.scroll(-3);
    assert_eq!(plain(&strands.rows(39, 2)), "\n- one\n");
    strands.scroll(3);
    let now = strands.rows(79, 20);
    strands.follow(Some(UnitId(1)));
    assert_eq!(strands.rows(79, 20), now);
    assert_eq!(strands.last_output(UnitId(1)).map(|(title, _)| title), Some("Grep total"));
}

/// Scrolls, and returns what three rows show then.
#[track_caller]
fn check_scrolled(strands: &mut Strands, by: isize, expected: [&str; 3]) {
    strands.scroll(by);
    let rows: Vec<String> = strands.rows(39, 3).iter().map(Row::plain).collect();
    assert_eq!(rows, expected);
}

#[test]
fn what_was_scrolled_to_stands_still_while_the_unit_writes_on() {
    let (_, mut strands) = running();
    strands.follow(Some(UnitId(1)));
    strands.rows(39, 3);
    (1..=9).for_each(|number| {
        strands.delta(&text_delta(1, &format!("- {number}\n")));
    });
    check_scrolled(&mut strands, 0, ["- 7", "- 8", "- 9"]);
    check_scrolled(&mut strands, 1, ["- 7", "- 8", "- 9"]);
    check_scrolled(&mut strands, -2, ["- 5", "- 6", "- 7"]);
    (10..=12).for_each(|number| {
        strands.delta(&text_delta(1, &format!("- {number}\n")));
    });
    check_scrolled(&mut strands, 0, ["- 5", "- 6", "- 7"]);
    check_scrolled(&mut strands, -100, ["- 1", "- 2", "- 3"]);
    check_scrolled(&mut strands, 1, ["- 2", "- 3", "- 4"]);
    check_scrolled(&mut strands, 100, ["- 10", "- 11", "- 12"]);
    strands.delta(&text_delta(1, "- 13\n"));
    check_scrolled(&mut strands, 0, ["- 11", "- 12", "- 13"]);
    check_scrolled(&mut strands, -4, ["- 7", "- 8", "- 9"]);
    let at = strands.rows(79, 3);
    assert_eq!(plain(&at), "- 7\n- 8\n- 9\n", "at another width");
    strands.follow(Some(UnitId(1)));
    check_scrolled(&mut strands, 0, ["- 11", "- 12", "- 13"]);
}

#[test]
fn rows_that_are_gone_let_the_first_there_are_be_shown() {
    let (_, mut strands) = running();
    strands.follow(Some(UnitId(1)));
    strands.rows(39, 3);
    let write = |strands: &mut Strands, numbers: std::ops::Range<usize>| {
        numbers.for_each(|number| strands.delta(&text_delta(1, &format!("{number}\n\n"))));
    };
    write(&mut strands, 0..10);
    strands.scroll(-100);
    write(&mut strands, 10..5_000);
    let first = strands.followed.as_ref().unwrap().rows[0].plain();
    assert_eq!(strands.rows(39, 3)[0].plain(), first);
    assert_eq!(strands.rows(39, 3).len(), 3);
}

#[test]
fn what_a_unit_writes_is_kept_up_to_a_bound() {
    let (_, mut strands) = running();
    strands.follow(Some(UnitId(1)));
    strands.rows(79, 1);
    for number in 0..20_000 {
        strands.delta(&text_delta(1, &format!("line {number}\n\n")));
    }
    let strand = &strands.strands[&UnitId(1)];
    let bytes: usize = strand.pieces.iter().map(Written::bytes).sum();
    assert!(bytes <= KEPT && bytes == strand.bytes, "{bytes} {}", strand.bytes);
    assert_eq!(strands.followed.as_ref().unwrap().rows.len(), ROWS);
    assert_eq!(plain(&strands.rows(79, 1)), "line 19999\n");
}

#[test]
fn only_agents_can_be_followed() {
    let mut strands = Strands::default();
    Story::angles().events().iter().for_each(|event| strands.take(event));
    let known: Vec<UnitId> = strands.known().into_iter().map(|(unit, ..)| unit).collect();
    assert_eq!(known, [4, 5].map(UnitId));
    assert_eq!(strands.ended, [UnitId(5)]);
}

#[test]
fn units_that_ended_can_be_followed_up_to_a_bound() {
    let mut story = Story::new();
    story.batch("c", &["slot"; 40]);
    (1..=40).for_each(|unit| {
        story.start(unit).end(unit, done("x"));
    });
    let mut strands = Strands::default();
    strands.follow(Some(UnitId(1)));
    story.events().iter().for_each(|event| strands.take(event));
    assert_eq!(strands.strands.len(), ENDED);
    assert_eq!(plain(&strands.rows(79, 3)), "done in 3.2 s, 1.2k tokens\n");
}
