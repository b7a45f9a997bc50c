//! Sums, limits and leave.

use std::num::NonZeroU64;

use super::*;
use crate::event::{AfterFailure, RequestFailed};
use crate::line::testing::plain;
use crate::line::{CallLeave, RequestLeave};
use crate::message::{Cost, Usd};

/// Tokens, what they cost, and the rest of a reply.
fn used(bench: &mut Bench, unit: UnitId, tokens: u64, dollars: f64) {
    bench.say(
        unit,
        UnitEvent::Replied(Replied {
            reply: Arc::default(),
            model: "m".into(),
            usage: usage(tokens, dollars),
            stop: StopReason::EndTurn,
            took_ms: 5,
        }),
    );
}

fn usage(tokens: u64, dollars: f64) -> Usage {
    let cost = Cost { usd: Usd::from_dollars(dollars).unwrap(), is_partial: false };
    Usage { input: tokens, cost, ..Usage::default() }
}

fn dollars(most: f64) -> Budget {
    Budget { usd: Usd::from_dollars(most), ..Budget::default() }
}

fn tokens(most: u64) -> Budget {
    Budget { tokens: NonZeroU64::new(most), ..Budget::default() }
}

fn tool_calls(most: u32) -> Budget {
    Budget { tool_calls: Some(most), ..Budget::default() }
}

/// Declares a child that may use so much, and starts it.
fn child(bench: &mut Bench, parent: UnitId, budget: Budget) -> UnitId {
    let child = Child { budget, ..plain("child") };
    let unit = bench.declare_all(parent, vec![child])[0].unit;
    bench.may_start(unit).unwrap();
    unit
}

fn may_call(bench: &mut Bench, unit: UnitId, count: usize) -> (usize, Option<String>) {
    let (reply, mut answer) = oneshot::channel();
    bench.say(unit, UnitEvent::MayCall { count, reply });
    let CallLeave { count, refused } = answer.try_recv().unwrap();
    (count, refused.map(|failure| failure.message.to_string()))
}

const GO: Result<RequestLeave, String> = Ok(RequestLeave { calls_are_limited: false });

#[test]
fn the_run_pays_for_what_every_unit_does_however_deep_and_whoever_asks_is_told_whose_limit_it_was()
{
    let mut bench = Bench::new();
    bench.dispatcher.limit(dollars(1.0));
    let outer = child(&mut bench, UnitId::MAIN, Budget::default());
    let inner = child(&mut bench, outer, Budget::default());
    used(&mut bench, UnitId::MAIN, 1, 0.3);
    used(&mut bench, outer, 1, 0.3);
    used(&mut bench, inner, 1, 0.3999);
    assert_eq!(bench.may_request(inner, Some(2)), GO);
    used(&mut bench, inner, 1, 0.25);
    let refusal = "budget: the run reached its limit of $1.00 (`--max-budget-usd`): $1.25 used";
    for unit in [inner, outer, UnitId::MAIN] {
        assert_eq!(bench.may_request(unit, Some(3)), Err(refusal.to_owned()));
    }
    bench.end(inner, Outcome::Cancelled { ran: true });
    bench.end(outer, Outcome::Cancelled { ran: true });
    assert_eq!(bench.may_request(UnitId::MAIN, Some(3)), Err(refusal.to_owned()));
    let turns = |event: &&Event| matches!(event.kind, EventKind::TurnStarted { .. });
    assert_eq!(bench.events.iter().filter(turns).count(), 1);
}

#[test]
fn a_tasks_tokens_are_its_own_and_those_of_all_it_starts_and_of_nobody_else() {
    let mut bench = Bench::new();
    let outer = child(&mut bench, UnitId::MAIN, tokens(100));
    let inner = child(&mut bench, outer, tokens(1_000));
    let beside = child(&mut bench, UnitId::MAIN, Budget::default());
    used(&mut bench, beside, 5_000, 0.0);
    used(&mut bench, inner, 99, 0.0);
    assert_eq!(bench.may_request(outer, Some(1)), GO);
    bench.say(inner, compacted());
    let refusal = "reached its limit of 100 tokens (`max_tokens`): 1029 used";
    assert_eq!(bench.may_request(outer, Some(2)), Err(format!("max_tokens: {refusal}")));
    // The nearest limit is the one that is told.
    let own = "max_tokens: reached its limit of 1000 tokens (`max_tokens`): 1029 used";
    assert_eq!(bench.may_request(inner, Some(2)), Err(own.to_owned()));
    let other = child(&mut bench, outer, Budget::default());
    let outers = format!("max_tokens: {outer}, on whose behalf it works, {refusal}");
    assert_eq!(bench.may_request(other, Some(1)), Err(outers));
    assert_eq!(bench.may_request(beside, Some(1)), GO);
    assert_eq!(bench.may_request(UnitId::MAIN, Some(1)), GO);
}

#[test]
fn a_request_that_failed_is_paid_for_and_so_is_a_summary() {
    let mut bench = Bench::new();
    bench.dispatcher.limit(dollars(0.05));
    let failed = RequestFailed {
        model: "m".into(),
        attempt: 1,
        status: Some(529),
        message: "overloaded".into(),
        usage: usage(10, 0.05),
        took_ms: 1,
        next: AfterFailure::Nothing,
    };
    assert_eq!(bench.may_request(UnitId::MAIN, None), GO);
    bench.say(UnitId::MAIN, Told::RequestFailed(Arc::new(failed)).into());
    let refusal = "budget: the run reached its limit of $0.0500 (`--max-budget-usd`): $0.0500 used";
    assert_eq!(bench.may_request(UnitId::MAIN, None), Err(refusal.to_owned()));
}

#[test]
fn as_many_calls_run_as_the_limit_says_and_an_answer_may_follow_the_last_of_them() {
    let mut bench = Bench::new();
    bench.dispatcher.limit(tool_calls(5));
    let slot = child(&mut bench, UnitId::MAIN, Budget::default());
    let limited = Ok(RequestLeave { calls_are_limited: true });
    assert_eq!(bench.may_request(slot, Some(1)), limited);
    assert_eq!(may_call(&mut bench, slot, 3), (3, None));
    assert_eq!(may_call(&mut bench, UnitId::MAIN, 2), (2, None));
    assert_eq!(bench.may_request(slot, Some(2)), limited);
    let refusal = "the run reached its limit of 5 tool calls (`--max-tool-calls`): 8 asked for";
    assert_eq!(may_call(&mut bench, slot, 3), (0, Some(refusal.to_owned())));
    assert_eq!(bench.may_request(slot, Some(3)), Err(format!("max_tool_calls: {refusal}")));
}

#[test]
fn of_the_calls_of_one_answer_the_first_run_as_far_as_the_limit_goes() {
    let mut bench = Bench::new();
    bench.dispatcher.limit(tool_calls(1));
    let refusal = "the run reached its limit of 1 tool call (`--max-tool-calls`): 3 asked for";
    assert_eq!(may_call(&mut bench, UnitId::MAIN, 3), (1, Some(refusal.to_owned())));
}

#[test]
fn where_no_call_may_run_a_request_may_be_sent_and_its_first_call_is_one_too_many() {
    let mut bench = Bench::new();
    bench.dispatcher.limit(tool_calls(0));
    let limited = Ok(RequestLeave { calls_are_limited: true });
    assert_eq!(bench.may_request(UnitId::MAIN, Some(1)), limited);
    assert_eq!(may_call(&mut bench, UnitId::MAIN, 0), (0, None));
    assert_eq!(bench.may_request(UnitId::MAIN, Some(2)), limited);
    let refusal = "the run reached its limit of 0 tool calls (`--max-tool-calls`): 1 asked for";
    assert_eq!(may_call(&mut bench, UnitId::MAIN, 1), (0, Some(refusal.to_owned())));
    let over = Err(format!("max_tool_calls: {refusal}"));
    assert_eq!(bench.may_request(UnitId::MAIN, Some(3)), over);
}

#[test]
fn once_a_cancel_has_begun_no_request_goes_out_and_no_call_runs() {
    let mut bench = Bench::new();
    let slot = child(&mut bench, UnitId::MAIN, Budget::default());
    bench.give(Input::Cancel(Reach::Turn, CancelReason::Interrupt));
    for unit in [UnitId::MAIN, slot] {
        assert_eq!(bench.may_request(unit, Some(1)), Err("channel closed".to_owned()));
        let (reply, mut answer) = oneshot::channel();
        bench.say(unit, UnitEvent::MayCall { count: 1, reply });
        assert_eq!(answer.try_recv(), Err(TryRecvError::Closed));
    }
    let turns = |event: &&Event| matches!(event.kind, EventKind::TurnStarted { .. });
    assert_eq!(bench.events.iter().filter(turns).count(), 0);
}

#[test]
fn an_invocation_begins_with_nothing_used() {
    let mut first = Bench::new();
    first.dispatcher.limit(dollars(1.0));
    used(&mut first, UnitId::MAIN, 1, 2.0);
    first.end(UnitId::MAIN, done("x"));
    let seed = Seed { last: first.last().seq, invocation: Invocation(2), ..Seed::default() };
    let mut second = Bench { dispatcher: Dispatcher::after(seed), ..Bench::new() };
    second.dispatcher.limit(dollars(1.0));
    assert_eq!(second.may_request(UnitId::MAIN, Some(1)), GO);
}
