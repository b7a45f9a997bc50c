//! Units that are set aside and run again while their callers wait for them.

use tokio::sync::mpsc;

use super::sitting::sitting;
use super::*;
use crate::line::Order;
use crate::line::testing::plain;

/// A unit waits for others of these names. Returns them, and where the orders
/// about them arrive.
fn waits(bench: &mut Bench, parent: UnitId, names: &[&str]) -> (Vec<Seat>, mpsc::Receiver<Order>) {
    let (orders, ordered) = mpsc::channel(4);
    let total = u32::try_from(names.len()).unwrap();
    let children = (0..total).zip(names).map(|(index, name)| child(name, (index, total), None));
    let seats = bench.declare_with(parent, children.collect(), Some(orders));
    seats.iter().for_each(|seat| bench.may_start(seat.unit).unwrap());
    (seats, ordered)
}

fn child(name: &str, (index, total): (u32, u32), again: Option<UnitId>) -> Child {
    Child { slot: Some(SlotPosition { index, total }), again, ..plain(name) }
}

fn units(seats: &[Seat]) -> Vec<UnitId> {
    seats.iter().map(|seat| seat.unit).collect()
}

/// The units that were set aside, by event.
fn aside(bench: &Bench) -> Vec<Vec<UnitId>> {
    let units = |event: &Event| {
        let EventKind::SetAside { units } = &event.kind else { return None };
        Some(units.clone())
    };
    bench.events.iter().filter_map(units).collect()
}

fn notices(bench: &Bench) -> Vec<String> {
    let text = |event: &Event| {
        let EventKind::Notice { text, level: _ } = &event.kind else { return None };
        Some(text.to_string())
    };
    bench.events.iter().filter_map(text).collect()
}

#[test]
fn what_is_set_aside_is_news_when_it_ends() {
    let mut bench = sitting();
    let (seats, mut ordered) = waits(&mut bench, UnitId::MAIN, &["a", "b", "c"]);
    bench.end(seats[1].unit, done("b"));
    bench.give(Input::SetAside(None));
    let expected = [seats[0].unit, seats[2].unit];
    assert_eq!(aside(&bench), [expected]);
    assert_eq!(ordered.try_recv(), Ok(Order::Aside(expected.to_vec())));
    assert!(seats[0].aside.is_cancelled());
    // Once more there is nothing to set aside.
    bench.give(Input::SetAside(None));
    assert_eq!(aside(&bench).len(), 1);
    bench.join(UnitId::MAIN, &seats[1..2]);
    bench.end(seats[0].unit, done("found"));
    assert!(matches!(
        bench.news(UnitId::MAIN, Wait::No).try_recv(),
        Ok(News::Message(text)) if text.contains("found") && text.contains("1 agent is still out")
    ));
}

#[test]
fn esc_right_after_it_leaves_its_units_alone() {
    let mut bench = sitting();
    let (seats, _ordered) = waits(&mut bench, UnitId::MAIN, &["a"]);
    bench.give(Input::SetAside(None));
    bench.give(Input::Cancel(Reach::Turn, CancelReason::Interrupt));
    assert!(!seats[0].cancel.is_cancelled() && bench.dispatcher.main_cancel().is_cancelled());
    bench.end(UnitId::MAIN, Outcome::Cancelled { ran: true });
    assert!(bench.dispatcher.rests() && bench.ends().is_empty());
}

#[test]
fn right_after_esc_nothing_is_set_aside() {
    let mut bench = sitting();
    let (seats, mut ordered) = waits(&mut bench, UnitId::MAIN, &["a"]);
    bench.give(Input::Cancel(Reach::Turn, CancelReason::Interrupt));
    bench.give(Input::SetAside(None));
    assert!(aside(&bench).is_empty() && ordered.try_recv().is_err());
    assert!(seats[0].cancel.is_cancelled());
}

#[test]
fn with_nothing_to_set_aside_nothing_happens() {
    let mut bench = sitting();
    bench.fork(UnitId::MAIN, &["beside"]);
    let (seats, ordered) = waits(&mut bench, UnitId::MAIN, &["a"]);
    let (_, mut inner) = waits(&mut bench, seats[0].unit, &["inner"]);
    // Whoever takes no orders waits on.
    drop(ordered);
    let before = bench.events.len();
    bench.give(Input::SetAside(None));
    assert_eq!(bench.events.len(), before);
    assert!(inner.try_recv().is_err());
}

#[test]
fn of_two_batches_of_a_turn_both_are_set_aside() {
    let mut bench = sitting();
    let (first, mut of_first) = waits(&mut bench, UnitId::MAIN, &["a"]);
    let (second, mut of_second) = waits(&mut bench, UnitId::MAIN, &["b", "c"]);
    bench.give(Input::SetAside(None));
    assert_eq!(of_first.try_recv(), Ok(Order::Aside(units(&first))));
    assert_eq!(of_second.try_recv(), Ok(Order::Aside(units(&second))));
    assert_eq!(aside(&bench), [[units(&first), units(&second)].concat()]);
}

#[test]
fn a_unit_that_is_run_again_is_stopped_and_another_takes_its_place_in_the_batch() {
    let mut bench = sitting();
    let (seats, mut ordered) = waits(&mut bench, UnitId::MAIN, &["a", "b"]);
    let old = seats[1].unit;
    bench.give(Input::Again(old));
    assert_eq!(ordered.try_recv(), Ok(Order::Again(old)));
    assert!(seats[1].cancel.is_cancelled() && !seats[0].cancel.is_cancelled());
    // It is being replaced already.
    bench.give(Input::Again(old));
    assert!(ordered.try_recv().is_err());
    assert_eq!(notices(&bench), ["agent-2 is not run again: nobody waits for it any more"]);

    let new = bench.declare_all(UnitId::MAIN, vec![child("b", (1, 2), Some(old))])[0].unit;
    let EventKind::UnitQueued(head) = &bench.last().kind else { panic!("{:?}", bench.last()) };
    assert_eq!(head.again, Some(old));
    let batch = |unit| bench.dispatcher.units[&unit].batch;
    assert_eq!((batch(new), batch(old)), (Some(seats[0].unit), Some(seats[0].unit)));
    // And the new one again.
    bench.give(Input::Again(new));
    assert_eq!(ordered.try_recv(), Ok(Order::Again(new)));
}

#[test]
fn one_that_has_ended_is_run_again_as_long_as_its_batch_is_open() {
    let mut bench = sitting();
    let (seats, mut ordered) = waits(&mut bench, UnitId::MAIN, &["a", "b"]);
    let failed = seats[0].unit;
    bench.end(failed, Outcome::failed(FailureKind::Provider, "503"));
    bench.give(Input::Again(failed));
    assert_eq!(ordered.try_recv(), Ok(Order::Again(failed)));
    assert!(notices(&bench).is_empty());
    bench.end(seats[1].unit, done("x"));
    drop(ordered);
    bench.join(UnitId::MAIN, &seats);
    for gone in [seats[1].unit, UnitId::MAIN, UnitId(99)] {
        bench.give(Input::Again(gone));
    }
    assert_eq!(notices(&bench).len(), 3);
}

#[test]
fn a_unit_of_a_unit_is_run_again_too() {
    let mut bench = sitting();
    let (seats, _ordered) = waits(&mut bench, UnitId::MAIN, &["a"]);
    let (inner, mut ordered) = waits(&mut bench, seats[0].unit, &["x", "y"]);
    bench.give(Input::Again(inner[0].unit));
    assert_eq!(ordered.try_recv(), Ok(Order::Again(inner[0].unit)));
}

#[test]
fn one_that_takes_a_place_in_a_batch_that_was_set_aside_goes_on_beside_main_too() {
    let mut bench = sitting();
    let (seats, mut ordered) = waits(&mut bench, UnitId::MAIN, &["a", "b"]);
    let old = seats[1].unit;
    bench.give(Input::Again(old));
    bench.give(Input::SetAside(None));
    assert_eq!(ordered.try_recv(), Ok(Order::Again(old)));
    assert_eq!(ordered.try_recv(), Ok(Order::Aside(vec![seats[0].unit])));
    bench.end(old, Outcome::Cancelled { ran: true });
    let new = bench.declare_all(UnitId::MAIN, vec![child("b", (1, 2), Some(old))]).remove(0);
    assert!(new.aside.is_cancelled());
    let EventKind::UnitQueued(head) = &bench.last().kind else { panic!("{:?}", bench.last()) };
    assert!(head.is_background);
    bench.may_start(new.unit).unwrap();
    // Nobody looks at orders about that call any more.
    bench.give(Input::Again(old));
    bench.give(Input::SetAside(None));
    assert!(ordered.try_recv().is_err() && aside(&bench).len() == 1);
    bench.join(UnitId::MAIN, &seats[1..]);
    bench.end(UnitId::MAIN, done("x"));
    bench.end(new.unit, done("found"));
    bench.give(Input::Begin("next".into()));
    assert!(matches!(
        bench.news(UnitId::MAIN, Wait::No).try_recv(),
        Ok(News::Message(text)) if text.contains("found") && text.contains("1 agent is still out")
    ));
}
