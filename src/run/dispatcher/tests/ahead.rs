//! What a unit that goes to another machine is told ahead.

use super::*;
use crate::line::Ahead;

/// Asks what is known ahead of a unit.
fn ahead(bench: &mut Bench, unit: UnitId) -> Ahead {
    let (reply, mut answer) = oneshot::channel();
    bench.say(unit, UnitEvent::Ahead { reply });
    answer.try_recv().unwrap()
}

#[test]
fn a_unit_is_unlimited_if_neither_it_nor_whoever_it_works_for_has_a_limit() {
    let limits = |calls| Budget { tool_calls: calls, ..Budget::default() };
    for (of_run, of_unit) in [(None, None), (Some(9), None), (None, Some(9))] {
        let mut bench = Bench::new();
        bench.dispatcher.limit(limits(of_run));
        let unit = bench.fork(UnitId::MAIN, &["child"])[0].unit;
        bench.dispatcher.units.get_mut(&unit).unwrap().budget = limits(of_unit);
        let is_unlimited = ahead(&mut bench, unit).is_unlimited;
        assert_eq!(is_unlimited, of_run.is_none() && of_unit.is_none());
    }
}

#[test]
fn its_first_message_is_told_once_and_before_it_asks() {
    let mut bench = Bench::new();
    let unit = bench.fork(UnitId::MAIN, &["child"])[0].unit;
    let mut told = ahead(&mut bench, unit).news;
    assert_eq!(told.try_recv(), Err(TryRecvError::Empty));
    assert_eq!(bench.send(UnitId::MAIN, unit, "one"), Sent::Queued);
    assert_eq!(told.try_recv(), Ok(()));
    assert_eq!(bench.send(UnitId::MAIN, unit, "two"), Sent::Queued);
    // Whoever asks later, as for another attempt, knows at once.
    assert_eq!(ahead(&mut bench, unit).news.try_recv(), Ok(()));
}

#[test]
fn a_turn_that_began_with_leave_that_was_given_ahead_is_in_the_log_even_after_a_cancel() {
    let mut bench = Bench::new();
    let seat = bench.fork(UnitId::MAIN, &["child"])[0].clone();
    seat.cancel.cancel();
    bench.say(seat.unit, UnitEvent::TurnStarted { turn: 3 });
    let last = bench.events.last().unwrap();
    assert_eq!((last.unit, &last.kind), (seat.unit, &EventKind::TurnStarted { turn: 3 }));
    assert_eq!(bench.dispatcher.units[&seat.unit].turns, 3);
}
