//! What is asked, with a relay on each side of the wire.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::super::relay::{Came, Heard, Parted, Reply, event, heard, part};
use super::*;
use crate::line::{Orders, Seat, UnitEvent};

/// Something that was asked, with both relays between the unit and the
/// dispatcher.
struct Relayed {
    /// What the unit waits for.
    unit: BoxFuture<'static, Came>,
    /// Where the far side puts the answer.
    reply: Reply,
    /// What the dispatcher is asked.
    event: UnitEvent,
    /// What the near side waits for.
    coming: BoxFuture<'static, Came>,
}

/// A unit asks something, which reaches the dispatcher.
fn relayed(ask: &Ask, orders: &Orders) -> Relayed {
    let (asked, unit) = event(ask.clone(), Some(orders.clone()));
    let Parted::Asked { ask: parted, reply, orders: kept } = part(asked) else { unreachable!() };
    assert_eq!(parted, *ask);
    assert_eq!(kept.is_some(), matches!(ask, Ask::Declare { .. }));
    let word = Word::Ask { id: AskId(1), ask: parted };
    let frame = Frame { attempt: 1, seq: 1, words: vec![(UnitId(4), word)] };
    let (_, word) = sent(&frame, Frame::encode, Frame::decode).words.remove(0);
    let Heard::Asked(AskId(1), arrived) = heard(word) else { unreachable!() };
    let (event, coming) = event(arrived, Some(orders.clone()));
    Relayed { unit: unit.unwrap(), reply: reply.unwrap(), event, coming: coming.unwrap() }
}

/// Brings an answer back to the unit.
fn returned(coming: BoxFuture<'static, Came>, reply: Reply) {
    let answered = told(coming);
    let what = Back::Answer { id: AskId(1), answered };
    let message = ToSlot { run: "run".into(), unit: UnitId(4), attempt: 1, number: 1, what };
    let arrived = sent(&message, ToSlot::encode, ToSlot::decode);
    let Back::Answer { id: AskId(1), answered } = arrived.what else { unreachable!() };
    reply.give(answered, seat);
}

/// What somebody is told who has waited.
#[track_caller]
fn told(coming: BoxFuture<'static, Came>) -> Answered {
    match coming.now_or_never().unwrap() {
        Came::Answered(answered) => answered,
        Came::Seats(seats) => Answered::Seats(seats.iter().map(FarSeat::from).collect()),
    }
}

fn seat(seat: FarSeat) -> Seat {
    let FarSeat { unit, branch, origin } = seat;
    let (cancel, aside) = (CancellationToken::new(), CancellationToken::new());
    Seat { unit, branch, origin, cancel, aside }
}

fn dispatchers(event: UnitEvent) -> Reply {
    let Parted::Asked { ask: _, reply, orders: _ } = part(event) else { unreachable!() };
    reply.unwrap()
}

#[test]
fn all_that_is_asked_reaches_the_dispatcher_and_its_answer_the_unit() {
    let (orders, _receiver) = mpsc::channel(1);
    for (ask, answered) in asks_and_answers() {
        let Relayed { unit, reply, event, coming } = relayed(&ask, &orders);
        let Parted::Asked { ask: reached, reply: dispatchers, .. } = part(event) else {
            unreachable!()
        };
        assert_eq!(reached, ask);
        dispatchers.unwrap().give(answered.clone(), seat);
        returned(coming, reply);
        assert_eq!(told(unit), answered);
    }
}

#[test]
fn a_question_that_is_dropped_is_dropped_everywhere() {
    let (orders, _receiver) = mpsc::channel(1);
    for (ask, _) in asks_and_answers() {
        let Relayed { unit, reply, event, coming } = relayed(&ask, &orders);
        drop(event);
        returned(coming, reply);
        assert_eq!(told(unit), Answered::Dropped, "{ask:?}");
    }
}

#[test]
fn an_answer_to_something_else_is_none() {
    let (orders, _receiver) = mpsc::channel(1);
    for (ask, _) in asks_and_answers() {
        let wrong = if ask == Ask::Visible { Answered::GoOn } else { Answered::Visible(vec![]) };
        let Relayed { unit, reply, .. } = relayed(&ask, &orders);
        reply.give(wrong, seat);
        assert_eq!(told(unit), Answered::Dropped, "{ask:?}");
    }
    let (declare, seats) = asks_and_answers().swap_remove(6);
    let Answered::Seats(mut seats) = seats else { unreachable!() };
    seats.pop();
    let Relayed { unit, reply, .. } = relayed(&declare, &orders);
    reply.give(Answered::Seats(seats), seat);
    assert_eq!(told(unit), Answered::Dropped);
}

#[test]
fn a_unit_that_waits_no_more_is_noticed_on_both_sides() {
    let (orders, _receiver) = mpsc::channel(1);
    for (ask, _) in asks_and_answers() {
        let Relayed { unit, reply, event, coming } = relayed(&ask, &orders);
        let dispatchers = dispatchers(event);
        assert!(!reply.is_unheard() && !dispatchers.is_unheard(), "{ask:?}");
        drop(unit);
        assert!(reply.is_unheard() && !dispatchers.is_unheard(), "{ask:?}");
        drop(coming);
        assert!(dispatchers.is_unheard(), "{ask:?}");
    }
}

#[test]
fn a_call_that_nobody_waits_for_the_log_of_has_no_answer() {
    let started = Ask::ToolStarted {
        call: "call-1".into(),
        tool: "Read".into(),
        subject: "a".into(),
        confinement: None,
        is_synced: false,
    };
    let (event, coming) = event(started.clone(), None);
    assert!(coming.is_none());
    let Parted::Asked { ask, reply, orders } = part(event) else { unreachable!() };
    assert!(ask == started && reply.is_none() && orders.is_none());
}

#[test]
fn what_is_only_said_is_said_again_by_the_relay() {
    for word in words() {
        match heard(word.clone()) {
            Heard::Event(event) => {
                let Parted::Word(again) = part(event) else { panic!("{word:?} is asked") };
                assert_eq!(again, word);
            }
            Heard::Unheard(asks) => assert_eq!(Word::Unheard(asks), word),
            Heard::Asked(id, ask) => assert_eq!(Word::Ask { id, ask }, word),
        }
    }
}
