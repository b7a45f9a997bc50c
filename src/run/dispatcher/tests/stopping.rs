//! An answer after which the turn ends.

use super::questions::{answered, ask, asked};
use super::*;

#[test]
fn a_no_that_stops_the_turn_is_heard_and_leaves_no_room_for_a_request() {
    let mut bench = answered();
    let mut of_main = ask(&mut bench, UnitId::MAIN);
    let [(id, _)] = asked(&bench)[..] else { panic!("{:?}", bench.events) };
    bench.give(Input::AnswerLast(id, Verdict::NoBecause("stop".into())));
    assert_eq!(of_main.try_recv(), Ok(Verdict::NoBecause("stop".into())));
    assert_eq!(bench.dispatcher.cancel_reason(), Some(CancelReason::Interrupt));
    assert!(bench.dispatcher.units[&UnitId::MAIN].cancel.is_cancelled());
    assert!(bench.may_request(UnitId::MAIN, Some(2)).is_err());
}
