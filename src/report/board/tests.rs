//! The board as it is drawn after what happened in a story.

use insta::assert_snapshot;

use super::*;
use crate::event::ThrottleCause;
use crate::report::row::Row;
use crate::report::story::{Story, done, failed, question, text_delta};

fn board(story: &Story) -> Board {
    let mut board = Board::default();
    story.events().iter().for_each(|event| drop(board.take(event)));
    board
}

fn drawn(board: &Board, columns: u16, rows: usize, picked: Option<u32>) -> String {
    let now = UnixMillis(1_014_000);
    let view = View { columns, rows, now, picked: picked.map(UnitId) };
    let rows = board.rows(view);
    assert!(rows.iter().all(|row| row.columns() <= usize::from(columns)), "{rows:?}");
    rows.iter().map(|row: &Row| row.plain().trim_end().to_owned() + "\n").collect()
}

/// Eight slots, two of which have no permit.
fn eight() -> Story {
    let names =
        ["correctness", "security", "tests", "performance", "clarity", "docs", "style", "naming"];
    let mut story = Story::new();
    story.invocation("/review").call(0, "c", "Agent", "8 tasks").batch("c", &names);
    (1..=6).for_each(|unit| {
        story.start(unit).turn(unit, 1);
    });
    story.reply(1, "x", 5_000, 200).call(1, "r", "Read", "src/price.rs");
    story.reply(2, "x", 4_000, 0).call(2, "b", "Bash", "cargo audit --deny warnings");
    story.throttled(4, ThrottleCause::Provider, Some(21_000));
    story
}

#[test]
fn eight_slots_have_a_row_each_and_those_that_wait_their_place() {
    let mut board = board(&eight());
    board.delta(&text_delta(5, "a"));
    assert_snapshot!(drawn(&board, 79, 12, None), @"
    1 correctness  running Read src/price.rs                       5.2k tok     12s
    2 security     running Bash cargo audit --deny warnings        4.0k tok     12s
    3 tests        running                                                      12s
    4 performance  throttled provider asked to wait 10 s                        12s
    5 clarity      running writing                                              12s
    6 docs         running                                                      11s
    7 style        queued 1st
    8 naming       queued 2nd
    8 agents: 5 running, 1 throttled, 2 queued                     9.2k tok     13s
    ");
    assert_snapshot!(drawn(&board, 88, 12, Some(3)), @"
    1 correctness  running Read src/price.rs                                5.2k tok     12s
    2 security     running Bash cargo audit --deny warnings                 4.0k tok     12s
    3>tests        running                                                               12s
    4 performance  throttled provider asked to wait 10 s                                 12s
    5 clarity      running writing                                                       12s
    6 docs         running                                                               11s
    7 style        queued 1st
    8 naming       queued 2nd
    8 agents: 5 running, 1 throttled, 2 queued                              9.2k tok     13s
    ");
}

#[test]
fn on_a_narrow_screen_what_is_least_wanted_goes_into_the_sums() {
    let board = board(&eight());
    assert_snapshot!(drawn(&board, 39, 8, None), @"
    1 correctness  Read src/price.…     12s
    2 security     Bash cargo audi…     12s
    3 tests        running              12s
    4 performance  throttled 10 s       12s
    5 clarity      running              12s
    6 docs         running              11s
    8 agents: 5 running, 1
      throttled, 2 queued               13s
    ");
}

#[test]
fn a_unit_that_asks_is_the_last_to_go() {
    let mut story = eight();
    story.asks(6, 90, question("make docs"));
    story.end(1, done("fine"));
    let board = board(&story);
    assert_snapshot!(drawn(&board, 79, 2, None), @"
    6 docs  asks Bash make docs                                                 11s
    8 agents: 3 running, 1 asks, 1 throttled, 2 queued, 1 done     9.2k tok     13s
    ");
    assert_snapshot!(drawn(&board, 79, 5, None), @"
    2 security     running Bash cargo audit --deny warnings        4.0k tok     12s
    3 tests        running                                                      12s
    4 performance  throttled provider asked to wait 10 s                        12s
    6 docs         asks Bash make docs                                          11s
    8 agents: 3 running, 1 asks, 1 throttled, 2 queued, 1 done     9.2k tok     13s
    ");
}

#[test]
fn numbers_stay_and_are_given_again_when_a_unit_leaves() {
    let mut story = eight();
    story.end(1, done("fine")).end(2, failed("the provider said 500"));
    let mut board = board(&story);
    let numbers = |board: &Board| [1, 2, 8].map(|unit| board.number_of(UnitId(unit)));
    assert_eq!(numbers(&board), [Some(1), Some(2), Some(8)]);
    let mut more = Story::new();
    more.push(0, EventKind::Joined { children: vec![UnitId(2), UnitId(1)] });
    let left = board.take(&more.events()[0]);
    assert_eq!(left.iter().map(|ended| ended.unit.0).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(numbers(&board), [None, None, Some(8)]);
    let mut later = eight();
    later.queue("more", "c2", None);
    drop(board.take(later.events().last().unwrap()));
    assert_eq!(board.numbered(1), Some(UnitId(9)));
}

#[test]
fn whatever_has_a_row_can_be_picked_in_the_order_of_the_rows() {
    let names = ["slot"; 8];
    let mut story = Story::new();
    story.invocation("go").batch("c", &names).batch("d", &names);
    (1..=12).for_each(|unit| {
        story.start(unit);
    });
    story.end(2, failed("boom")).end(11, done("x"));
    let board = board(&story);
    let all: Vec<UnitId> = (1..=16).map(UnitId).collect();
    assert_eq!(board.pickable(), all);
    for unit in 1..=16 {
        let drawn = drawn(&board, 79, 4, Some(unit));
        assert!(drawn.contains(">slot"), "{unit}: {drawn}");
    }
}

/// The second of three slots is run again.
fn again(story: &mut Story) -> &mut Story {
    story.queue("b", "c", Some(crate::event::SlotPosition { index: 1, total: 3 }));
    let mut event = story.events().last().unwrap().clone();
    let EventKind::UnitQueued(head) = &mut event.kind else { unreachable!() };
    head.again = Some(UnitId(2));
    story.replace_last(event.kind)
}

#[test]
fn a_unit_that_is_run_again_takes_the_number_and_the_place_of_the_old_one() {
    let begun = || {
        let mut story = Story::new();
        story.invocation("go").batch("c", &["a", "b", "c"]).start(1).start(2).start(3);
        story
    };
    let mut story = begun();
    story.end(2, failed("boom"));
    again(&mut story).start(4).end(1, done("x"));
    let ended_before = board(&story);
    assert_snapshot!(drawn(&ended_before, 79, 8, None), @"
    1 a  done                                                      1.2k tok      3s
    2 b  running                                                                13s
    3 c  running                                                                13s
    3 agents: 2 running, 1 done                                                 13s
    ");
    assert_eq!(ended_before.numbered(2), Some(UnitId(4)));
    assert_eq!(ended_before.pickable(), [1, 4, 3].map(UnitId));

    let mut story = begun();
    again(&mut story);
    assert_snapshot!(drawn(&board(&story), 79, 8, None), @"
    1 a  running                                                                13s
    2 b  queued 1st
    3 c  running                                                                13s
    3 agents: 2 running, 1 queued                                               13s
    ");
    story.end(2, crate::report::story::cancelled()).start(4).end(4, done("x"));
    let mut board = board(&story);
    assert_snapshot!(drawn(&board, 79, 8, None), @"
    1 a  running                                                                13s
    2 b  done                                                      1.2k tok      3s
    3 c  running                                                                13s
    3 agents: 2 running, 1 done                                                 13s
    ");
    let mut more = Story::new();
    more.push(0, EventKind::Joined { children: vec![UnitId(1), UnitId(4), UnitId(3)] });
    let left = board.take(&more.events()[0]);
    assert_eq!(left.iter().map(|ended| ended.unit.0).collect::<Vec<_>>(), [4]);
}

#[test]
fn at_rest_there_are_no_sums() {
    let mut story = Story::new();
    story.invocation("go").batch("c", &["a", "b"]).start(1).start(2);
    story.end(1, done("x")).end(2, done("y"));
    story.push(0, EventKind::Joined { children: vec![UnitId(1), UnitId(2)] });
    story.over(done("x"), "x");
    assert_eq!(drawn(&board(&story), 79, 4, None), "");
    let mut story = Story::new();
    story.invocation("go").batch("c", &["a", "b"]).start(1).start(2).end(1, done("x"));
    story.push(0, EventKind::SetAside { units: vec![UnitId(2)] }).over(done("x"), "x");
    assert_snapshot!(drawn(&board(&story), 79, 4, None), @"
    2 b  running                                                                13s
    2 agents: 1 running, 1 done
    ");
}

#[test]
fn what_only_holds_the_branch_of_steps_takes_no_row_and_no_number() {
    let mut story = Story::angles();
    let mut board = board(&story);
    assert_snapshot!(drawn(&board, 79, 8, None), @"
      tests           failed                                       1.2k tok      3s
    1 correctness[0]  running                                                   13s
    2 security[0]     failed                                       1.2k tok      3s
    2 agents: 1 running, 1 failed                                               13s
    ");
    assert_eq!(board.pickable(), [4, 5].map(UnitId));
    let told = story.events().len();
    story.push(2, EventKind::Joined { children: vec![UnitId(5)] });
    story.push(0, EventKind::Joined { children: vec![UnitId(2), UnitId(3)] });
    let left = story.events()[told..].iter().flat_map(|event| board.take(event));
    let left: Vec<u32> = left.map(|ended| ended.unit.0).collect();
    assert_eq!(left, [5, 3], "the failure of the second angle is that of its agent");
}

#[test]
fn main_has_a_row_while_it_works_alone() {
    let mut story = Story::new();
    story.invocation("go").turn(0, 1).call(0, "g", "Grep", "retry");
    assert_snapshot!(drawn(&board(&story), 79, 4, None), @"main  running Grep retry                                                    13s");
    story.output(0, "g", "Grep", "x").over(done("x"), "x");
    assert_eq!(drawn(&board(&story), 79, 4, None), "");
}

#[test]
fn ten_thousand_slots_are_a_few_rows() {
    let names = vec!["slot"; 10_000];
    let mut story = Story::new();
    story.invocation("x").batch("c", &names);
    (1..=40).for_each(|unit| {
        story.start(unit);
    });
    (1..=30).for_each(|unit| {
        story.end(unit, done("x"));
    });
    let board = board(&story);
    assert_snapshot!(drawn(&board, 79, 4, None), @"
    4 slot  running                                                              0s
    5 slot  running                                                              0s
    6 slot  running                                                              0s
    10000 agents: 10 running, 9960 queued, 30 done                              13s
    ");
    let pickable: Vec<u32> = board.pickable().iter().map(|unit| unit.0).collect();
    assert_eq!(pickable, (31..=72).collect::<Vec<_>>(), "ten run, and as many wait as are seen");
}
