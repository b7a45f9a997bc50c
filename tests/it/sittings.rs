//! A run that lives on from one prompt to the next, on paused time.

use std::io;

use serde_json::{Value, json};
use tine::agent::Opening;
use tine::event::{CancelReason, Delta, Event, EventKind, Origin, Outcome, Seq, UnitId, UnitState};
use tine::guard::Mode;
use tine::model::check;
use tine::run::undo::Said;
use tine::run::{Asked, FromUser, NoRewind, NoUndo, Reporter, Signal, TakeBack};
use tine::session::Past;
use tine::session::undo::Selection;
use tine::tool::Task;
use tokio::sync::oneshot;

use crate::fanout::check_invariants;
use crate::support::inside::{Setup, Sitting, Story};

/// Each prompt of a sitting brings its own script.
fn setup() -> Setup {
    Setup::new(json!({ "units": {} }))
}

fn sit() -> Sitting {
    setup().sit()
}

fn call(name: &str, arguments: Value) -> Value {
    json!({ "name": name, "arguments": arguments })
}

fn task(name: &str) -> Value {
    json!({"description": name, "prompt": "do it", "subagent_type": "general-purpose"})
}

fn beside(name: &str) -> Value {
    let mut task = task(name);
    task["run_in_background"] = json!(true);
    call("Agent", task)
}

fn says(text: &str) -> Value {
    json!([{ "text": text }])
}

/// The texts of the messages to main's conversation, oldest first.
fn told(events: &[Event]) -> Vec<&str> {
    let text = |event: &'_ Event| event.unit == UnitId::MAIN;
    let main = events.iter().filter(|event| text(event));
    main.filter_map(|event| match &event.kind {
        EventKind::Prompted(prompt) => Some(prompt.text.trim()),
        EventKind::Notified { text, .. } => Some(text.trim()),
        _ => None,
    })
    .collect()
}

/// How each invocation ended, in words.
fn endings(events: &[Event]) -> Vec<String> {
    let ending = |event: &Event| match &event.kind {
        EventKind::InvocationEnded(end) => Some(match &end.outcome {
            Outcome::Done { text } => text.to_string(),
            bad => bad.state().as_str().to_owned(),
        }),
        _ => None,
    };
    events.iter().filter_map(ending).collect()
}

fn past(events: &[Event]) -> Past {
    let mut past = Past::default();
    events.iter().for_each(|event| past.take(event));
    past
}

/// Leaves, and checks that everything has its end and the session can be gone
/// on with as it is.
async fn leave(sitting: Sitting) -> Story {
    let story = sitting.leave().await;
    check(&story);
    story
}

#[track_caller]
fn check(story: &Story) {
    check_invariants(story);
    assert_eq!(story.events.last().map(|event| &event.kind), Some(&EventKind::Left));
    let past = past(&story.events);
    assert!(past.units().values().all(|unit| unit.end.is_some()), "{:?}", past.units());
    assert!(past.invocations().values().all(|invocation| !invocation.is_open));
}

#[tokio::test(start_paused = true)]
async fn a_second_message_sends_the_first_ones_bytes() {
    let sitting = sit();
    let glob = call("Glob", json!({ "pattern": "*" }));
    sitting.ask("one", json!({ "main": [{ "calls": [glob] }, { "text": "first" }] })).await;
    sitting.wait(1_000).await;
    sitting.ask("two", json!({ "main": says("second") })).await;
    sitting.wait(1_000).await;
    let bodies = sitting.bodies();
    assert_eq!(bodies.len(), 3);
    for pair in bodies.windows(2) {
        check::check_continues(&pair[0], &pair[1]).expect("nothing is sent as other bytes");
    }
    let story = leave(sitting).await;
    assert_eq!(endings(&story.events), ["first", "second"]);
    let numbers: Vec<u32> = story.events.iter().map(|event| event.invocation.0).collect();
    assert!(numbers.is_sorted() && numbers.last() == Some(&2), "{numbers:?}");

    // What the next process sends goes on from the same bytes.
    let again = setup().sit_after(story);
    again.ask("three", json!({ "main": says("third") })).await;
    again.wait(1_000).await;
    check::check_continues(&bodies[2], &again.bodies()[0]).expect("nor by the next process");
    let story = leave(again).await;
    assert_eq!(endings(&story.events), ["first", "second", "third"]);
}

#[tokio::test(start_paused = true)]
async fn each_prompt_has_a_model_of_its_own() {
    let sitting = sit();
    sitting.ask("one", json!({ "main": says("first") })).await;
    sitting.wait(1_000).await;
    let other = ("other", json!({ "main": says("second") }));
    sitting.invoke("two", Opening::Prompt("two".into()), other).await;
    sitting.wait(1_000).await;
    let story = leave(sitting).await;
    let models: Vec<&str> = story
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Replied(replied) => Some(&*replied.model),
            _ => None,
        })
        .collect();
    assert_eq!(models, ["scripted", "other"]);
}

#[tokio::test(start_paused = true)]
async fn a_unit_in_the_background_outlives_the_end_of_the_turn_and_its_news_start_one() {
    let sitting = sit();
    let units = json!({
        "main": [{ "calls": [beside("look"), beside("listen")] }, { "text": "long", "delay_ms": 90_000 }],
        "*": [{ "text": "found", "delay_ms": 10_000 }],
    });
    sitting.ask("one", units).await;
    sitting.wait(1_000).await;
    sitting.say(FromUser::EndTurn).await;
    sitting.wait(5_000).await;
    let events = sitting.events();
    assert_eq!(endings(&events), ["cancelled"]);
    assert!(!events.iter().any(|event| matches!(event.kind, EventKind::UnitEnded(_))));
    sitting.wait(10_000).await;
    sitting.tell_news(json!({ "main": says("I see.") })).await;
    sitting.wait(1_000).await;
    // There is nothing new any more.
    sitting.tell_news(json!({ "main": says("never asked") })).await;
    sitting.wait(1_000).await;
    let story = leave(sitting).await;
    assert_eq!(story.states(), [UnitState::Completed; 2]);
    assert_eq!(endings(&story.events), ["cancelled", "I see.", ""]);
    let [_, news] = told(&story.events)[..] else { panic!("{:?}", told(&story.events)) };
    assert_eq!(news.matches("<task-notification").count(), 2, "two ends are one message");
}

#[tokio::test(start_paused = true)]
async fn news_join_the_next_message_if_that_comes_first() {
    let sitting = sit();
    let units = json!({
        "main": [{ "calls": [beside("look")] }, { "text": "it runs" }],
        "look": [{ "text": "found", "delay_ms": 10_000 }],
    });
    sitting.ask("one", units).await;
    sitting.wait(1_000).await;
    assert_eq!(endings(&sitting.events()), ["it runs"], "main does not wait for it");
    sitting.ask("two", json!({ "main": says("it still runs") })).await;
    sitting.wait(20_000).await;
    sitting.ask("three", json!({ "main": says("it has ended") })).await;
    sitting.wait(1_000).await;
    let story = leave(sitting).await;
    let told = told(&story.events);
    assert_eq!(told[..3], ["one", "two", "three"]);
    assert!(told[3].contains("found"), "{told:?}");
    // It joins where it was started, not where it was told.
    let joined = story.events.iter().find(|event| matches!(event.kind, EventKind::Joined { .. }));
    assert_eq!(joined.map(|event| event.invocation.0), Some(1));
}

#[tokio::test(start_paused = true)]
async fn whoever_has_ended_can_be_continued_from_a_later_prompt() {
    let sitting = sit();
    let units = json!({
        "main": [{ "calls": [beside("look")] }, { "text": "ok" }],
        "look": [{ "text": "found" }],
        // Whoever goes on does so on the model it was on.
        "look again": [{ "text": "found more" }],
    });
    sitting.ask("one", units).await;
    sitting.wait(1_000).await;
    let send = call("SendMessage", json!({ "to": "agent-1", "message": "and now?" }));
    sitting.ask("two", json!({ "main": [{ "calls": [send] }, { "text": "ok" }] })).await;
    sitting.wait(1_000).await;
    let story = leave(sitting).await;
    assert_eq!(story.states(), [UnitState::Completed; 2]);
    let origins: Vec<Origin> = story
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::UnitQueued(head) => Some(head.origin),
            _ => None,
        })
        .collect();
    assert_eq!(origins, [Origin::Prompt, Origin::Continued(UnitId(1))]);
}

#[tokio::test(start_paused = true)]
async fn a_conversation_is_summed_up_between_two_messages() {
    let sitting = sit();
    sitting.ask("one", json!({ "main": says("first") })).await;
    sitting.wait(1_000).await;
    let units = json!({ "main:compact": [{ "text": "they said first" }] });
    sitting.invoke("/compact", Opening::Compact { hint: None }, ("scripted", units)).await;
    sitting.wait(1_000).await;
    sitting.ask("two", json!({ "main": says("second") })).await;
    sitting.wait(1_000).await;
    let last = String::from_utf8(sitting.bodies().pop().unwrap()).unwrap();
    assert!(last.contains("they said first") && !last.contains(r#""content":"first""#), "{last}");
    leave(sitting).await;
}

#[tokio::test(start_paused = true)]
async fn leaving_ends_what_still_runs() {
    let sitting = sit();
    let units = json!({
        "main": [{ "calls": [beside("look")] }, { "text": "ok" }],
        "look": [{ "text": "found", "delay_ms": 90_000 }],
    });
    sitting.ask("one", units).await;
    sitting.wait(1_000).await;
    let story = leave(sitting).await;
    assert_eq!(story.states(), [UnitState::Cancelled]);
    assert_eq!(story.end.outcome, Outcome::Done { text: "ok".into() });
    assert!(story.end.unfinished.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_unit_that_does_not_stop_keeps_nobody_from_leaving() {
    let sitting = sit();
    let units = json!({
        "main": [{ "calls": [beside("look")] }, { "text": "ok" }],
        "look": [{ "fault": "hang" }],
    });
    sitting.ask("one", units).await;
    sitting.wait(1_000).await;
    leave(sitting).await;
}

#[tokio::test(start_paused = true)]
async fn a_sitting_in_which_nothing_was_asked_is_left_too() {
    let story = leave(sit()).await;
    assert_eq!(story.events.len(), 2);
    let again = setup().sit_after(story);
    again.ask("one", json!({ "main": says("first") })).await;
    again.wait(1_000).await;
    let story = leave(again).await;
    assert_eq!(story.events.last().map(|event| event.invocation.0), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_signal_that_ends_the_process_is_heard_at_rest_and_at_work() {
    for (after, signal) in [
        (1_000, Signal::Terminate),
        (1_000, Signal::Hangup),
        (10_000, Signal::Terminate),
        (10_000, Signal::Hangup),
    ] {
        let sitting = sit();
        let units = json!({
            "main": [{ "calls": [beside("look")] }, { "text": "ok", "delay_ms": 5_000 }],
            "look": [{ "text": "found", "delay_ms": 90_000 }],
        });
        sitting.ask("one", units).await;
        sitting.wait(after).await;
        sitting.signal(signal).await;
        let (story, end) = sitting.ends().await;
        check(&story);
        assert_eq!(end.signal, Some(signal));
        assert_eq!(story.states(), [UnitState::Cancelled]);
        let cancel = (after == 1_000).then_some(match signal {
            Signal::Hangup => CancelReason::Hangup,
            Signal::OutputGone => CancelReason::OutputGone,
            Signal::Interrupt | Signal::Terminate => CancelReason::Terminate,
        });
        assert_eq!(end.end.cancel, cancel, "a turn that is over was not cancelled");
    }
}

#[tokio::test(start_paused = true)]
async fn one_interrupt_at_rest_is_nothing_and_a_second_ends_what_works_beside_main() {
    let sitting = sit();
    let units = json!({
        "main": [{ "calls": [beside("look")] }, { "text": "ok" }],
        "look": [{ "text": "found", "delay_ms": 90_000 }],
    });
    sitting.ask("one", units).await;
    sitting.wait(1_000).await;
    sitting.signal(Signal::Interrupt).await;
    sitting.wait(10_000).await;
    assert!(past(&sitting.events()).units().values().all(|unit| unit.end.is_none()));
    sitting.signal(Signal::Interrupt).await;
    sitting.wait(1_000).await;
    assert!(past(&sitting.events()).units().values().all(|unit| unit.end.is_some()));
    // In the next invocation the first one ends the turn again.
    let units = json!({
        "main": [{ "calls": [beside("look")] }, { "text": "long", "delay_ms": 90_000 }],
        "look": [{ "text": "found", "delay_ms": 5_000 }],
    });
    sitting.ask("two", units).await;
    sitting.wait(1_000).await;
    sitting.signal(Signal::Interrupt).await;
    sitting.wait(10_000).await;
    let story = leave(sitting).await;
    assert_eq!(endings(&story.events), ["ok", "cancelled"]);
    assert_eq!(story.states(), [UnitState::Cancelled, UnitState::Completed]);
}

#[tokio::test(start_paused = true)]
async fn whoever_leaves_while_main_works_hears_its_answer() {
    let sitting = sit();
    let units = json!({
        "main": [{ "calls": [beside("look")] }, { "text": "ok", "delay_ms": 5_000 }],
        "look": [{ "text": "found", "delay_ms": 90_000 }],
    });
    sitting.ask("one", units).await;
    sitting.wait(1_000).await;
    let story = leave(sitting).await;
    assert_eq!(endings(&story.events), ["ok"]);
    assert_eq!(story.states(), [UnitState::Cancelled]);
}

#[tokio::test(start_paused = true)]
async fn a_main_unit_that_panics_ends_its_invocation_and_no_more() {
    let sitting = sit();
    let units = json!({
        "main": [{ "calls": [beside("look")] }, { "fault": "panic" }],
        "look": [{ "text": "found", "delay_ms": 5_000 }],
    });
    sitting.ask("one", units).await;
    sitting.wait(1_000).await;
    sitting.ask("two", json!({ "main": says("second") })).await;
    sitting.wait(10_000).await;
    let story = leave(sitting).await;
    assert_eq!(endings(&story.events), ["failed", "second"]);
    assert_eq!(story.states(), [UnitState::Completed]);
}

/// Somebody who sees everything until the user has written something.
struct Gone;

impl Reporter for Gone {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        match event.kind {
            EventKind::UserWrote { .. } => Err(io::ErrorKind::BrokenPipe.into()),
            _ => Ok(()),
        }
    }

    fn delta(&mut self, _: &Delta) -> io::Result<()> {
        Ok(())
    }

    fn pause(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// On real time: whoever is shown a run has a thread of their own.
#[tokio::test]
async fn once_nobody_can_be_shown_anything_a_run_at_rest_is_over() {
    let sitting = setup().sit_before(Box::new(Gone));
    let units = json!({
        "main": [{ "calls": [beside("look")] }, { "text": "ok" }],
        "look": [{ "fault": "hang" }],
    });
    sitting.ask("one", units).await;
    until_ended(&sitting, 1).await;
    sitting.say(FromUser::Wrote("are you there?".into())).await;
    let (story, end) = sitting.ends().await;
    check(&story);
    assert_eq!(end.output_error.map(|error| error.kind()), Some(io::ErrorKind::BrokenPipe));
    assert_eq!(end.signal, None);
    assert_eq!(story.states(), [UnitState::Cancelled]);
}

#[tokio::test(start_paused = true)]
async fn after_everything_was_ended_the_next_prompt_works() {
    let sitting = sit();
    let units = json!({
        "main": [{ "calls": [beside("look")] }, { "text": "ok", "delay_ms": 90_000 }],
        "look": [{ "fault": "hang" }],
    });
    sitting.ask("one", units).await;
    sitting.wait(1_000).await;
    sitting.say(FromUser::EndAll).await;
    let units = json!({
        "main": [{ "calls": [call("Agent", task("look"))] }, { "text": "done" }],
        "look": [{ "text": "found" }],
    });
    sitting.ask("two", units).await;
    sitting.wait(10_000).await;
    let story = leave(sitting).await;
    assert_eq!(endings(&story.events), ["cancelled", "done"]);
    assert_eq!(story.states(), [UnitState::Cancelled, UnitState::Completed]);
}

#[tokio::test(start_paused = true)]
async fn esc_at_rest_and_the_time_after_it_touch_nothing() {
    let sitting = sit();
    sitting.ask("one", json!({ "main": says("first") })).await;
    sitting.wait(1_000).await;
    sitting.say(FromUser::EndTurn).await;
    sitting.wait(1_000).await;
    sitting.ask("two", json!({ "main": [{ "text": "second", "delay_ms": 5_000 }] })).await;
    sitting.wait(10_000).await;
    let story = leave(sitting).await;
    assert_eq!(endings(&story.events), ["first", "second"]);
}

#[tokio::test(start_paused = true)]
async fn at_whatever_moment_a_cancel_comes_a_sitting_is_whole_and_goes_on() {
    let fork = |name: &str| json!({ "description": name, "prompt": name });
    let slot = |name: &str| json!({"description": name, "prompt": name, "subagent_type": "fork"});
    let tasks = json!({ "tasks": [slot("b"), slot("c")] });
    let units = json!({
        "main": [
            { "calls": [call("Agent", fork("a")), call("Agent", tasks)], "delay_ms": 5 },
            { "calls": [call("TaskWait", json!({}))], "delay_ms": 5 },
            { "text": "ok", "delay_ms": 5, "repeat": true },
        ],
        "*": [
            { "calls": [call("Glob", json!({ "pattern": "*" }))], "delay_ms": 7 },
            { "text": "ok", "delay_ms": 11 },
        ],
    });
    for after in 0..60 {
        let sitting = setup().cap(2).sit();
        sitting.ask("one", units.clone()).await;
        sitting.wait(after).await;
        let end = if after % 3 == 2 { FromUser::EndAll } else { FromUser::EndTurn };
        sitting.say(end).await;
        if after % 2 == 0 {
            sitting.wait(5).await;
        }
        sitting.ask("two", json!({ "main": [{ "text": "second", "repeat": true }] })).await;
        until(&sitting, |events| endings(events).last().is_some_and(|end| end == "second")).await;
        leave(sitting).await;
    }
}

fn batch(names: &[&str]) -> Value {
    call("Agent", json!({ "tasks": names.iter().map(|name| task(name)).collect::<Vec<_>>() }))
}

/// The output of main's only call.
#[track_caller]
fn output(story: &Story) -> &str {
    let [output] = story.outputs(UnitId::MAIN)[..] else { panic!("not one call") };
    output
}

/// Main starts a batch of `a`, which takes a second, and `b`, which `b` plays.
async fn with_batch(b: Value, others: Value) -> Sitting {
    let mut units = json!({
        "main": [{ "calls": [batch(&["a", "b"])] }, { "text": "done" }],
        "a": [{ "text": "from a", "delay_ms": 1_000 }],
        "b": b,
    });
    for (name, replies) in others.as_object().expect("names of units") {
        units[name] = replies.clone();
    }
    let sitting = sit();
    sitting.ask("one", units).await;
    sitting.wait(500).await;
    sitting
}

#[tokio::test(start_paused = true)]
async fn one_slot_is_stopped_and_its_siblings_end_well() {
    let sitting = with_batch(json!([{ "text": "late", "delay_ms": 90_000 }]), json!({})).await;
    sitting.say(FromUser::Stop(UnitId(2))).await;
    // Longer than whatever is told to stop altogether would be given.
    sitting.say(FromUser::Stop(UnitId::MAIN)).await;
    sitting.wait(5_000).await;
    let story = leave(sitting).await;
    assert_eq!(story.states(), [UnitState::Completed, UnitState::Cancelled]);
    assert_eq!(endings(&story.events), ["done"]);
    assert!(output(&story).contains("from a"), "{}", output(&story));
}

#[tokio::test(start_paused = true)]
async fn a_stopped_unit_that_hangs_does_not_give_the_run_up() {
    let slow = json!([{ "text": "from b", "delay_ms": 20_000 }]);
    let sitting = with_batch(slow, json!({ "a": [{ "fault": "hang" }] })).await;
    sitting.say(FromUser::Stop(UnitId(1))).await;
    sitting.wait(30_000).await;
    let story = leave(sitting).await;
    assert_eq!(story.states(), [UnitState::Cancelled, UnitState::Completed]);
    assert_eq!(endings(&story.events), ["done"]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_set_aside_comes_back_as_news() {
    let b = json!([{ "text": "from b", "delay_ms": 10_000 }]);
    let sitting = with_batch(b, json!({ "b again": says("more from b") })).await;
    sitting.wait(1_000).await;
    sitting.say(FromUser::SetAside).await;
    sitting.wait(1_000).await;
    assert_eq!(endings(&sitting.events()), ["done"], "main goes on at once");
    sitting.wait(20_000).await;
    sitting.tell_news(json!({ "main": says("I see.") })).await;
    sitting.wait(1_000).await;
    // Its conversation is held, as that of any unit in the background.
    let send = call("SendMessage", json!({ "to": "agent-2", "message": "and now?" }));
    sitting.ask("two", json!({ "main": [{ "calls": [send] }, { "text": "ok" }] })).await;
    sitting.wait(1_000).await;
    let story = leave(sitting).await;
    assert_eq!(story.states(), [UnitState::Completed; 3]);
    let [output, sent] = story.outputs(UnitId::MAIN)[..] else { panic!("not two calls") };
    assert!(output.contains("from a") && output.contains("background as agent-2"), "{output}");
    assert!(sent.contains("agent-3 continues"), "{sent}");
    let told = told(&story.events);
    assert!(told[1].contains("from b") && !told[1].contains("from a"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_fork_that_the_user_started_goes_on_while_main_rests() {
    let sitting = sit();
    sitting.ask("one", json!({ "main": says("first") })).await;
    sitting.wait(1_000).await;
    let task = Task::background_fork("look", "look");
    let opening = Opening::Fork { task, request: "/fork look".into() };
    let units = json!({ "look": [{ "text": "found", "delay_ms": 10_000 }] });
    sitting.invoke("/fork look", opening, ("scripted", units)).await;
    sitting.wait(1_000).await;
    assert_eq!(endings(&sitting.events()).len(), 2);
    sitting.wait(20_000).await;
    sitting.tell_news(json!({ "main": says("I see.") })).await;
    sitting.wait(1_000).await;
    let story = leave(sitting).await;
    assert_eq!(endings(&story.events)[2], "I see.");
    assert!(told(&story.events).last().unwrap().contains("found"));
}

#[tokio::test(start_paused = true)]
async fn a_call_of_one_unit_is_set_aside_too_and_one_that_waits_for_its_permit() {
    let units = json!({
        "main": [{ "calls": [call("Agent", task("a")), call("Agent", task("b"))] }, { "text": "done" }],
        "*": [{ "text": "found", "delay_ms": 10_000 }],
    });
    let sitting = setup().cap(1).sit();
    sitting.ask("one", units).await;
    sitting.wait(1_000).await;
    sitting.say(FromUser::SetAside).await;
    sitting.wait(1_000).await;
    assert_eq!(endings(&sitting.events()), ["done"]);
    // The end of a later turn does not reach them either.
    sitting.ask("two", json!({ "main": [{ "text": "long", "delay_ms": 90_000 }] })).await;
    sitting.wait(1_000).await;
    sitting.say(FromUser::EndTurn).await;
    sitting.wait(60_000).await;
    let story = leave(sitting).await;
    assert_eq!(story.states(), [UnitState::Completed; 2]);
    assert_eq!(endings(&story.events), ["done", "cancelled"]);
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_failed_is_run_again_and_its_second_answer_counts() {
    let failing = json!([{ "fault": { "error": { "status": 400, "message": "out of cheese" } } }]);
    let sitting = with_batch(failing, json!({ "b again": says("second try") })).await;
    sitting.say(FromUser::Again(UnitId(2))).await;
    sitting.wait(5_000).await;
    let story = leave(sitting).await;
    assert_eq!(story.states(), [UnitState::Completed, UnitState::Failed, UnitState::Completed]);
    assert_eq!(
        output(&story),
        "## Task 1: a (general-purpose)\n\nfrom a\n\n---\n\n\
         ## Task 2: b (general-purpose)\n\nsecond try"
    );
}

#[tokio::test(start_paused = true)]
async fn one_that_runs_is_stopped_first_and_the_batch_waits_for_the_second() {
    let hanging = json!([{ "fault": "hang" }]);
    let second = json!({ "b again": [{ "text": "second try", "delay_ms": 10_000 }] });
    let sitting = with_batch(hanging, second).await;
    sitting.say(FromUser::Again(UnitId(2))).await;
    sitting.wait(30_000).await;
    // Nobody waits for it any more.
    sitting.say(FromUser::Again(UnitId(3))).await;
    sitting.wait(1_000).await;
    let story = leave(sitting).await;
    assert_eq!(story.states(), [UnitState::Completed, UnitState::Cancelled, UnitState::Completed]);
    assert!(output(&story).ends_with("second try"), "{}", output(&story));
    let notice = |event: &&Event| matches!(event.kind, EventKind::Notice { .. });
    assert_eq!(story.events.iter().filter(notice).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_run_again_just_before_its_batch_is_set_aside_goes_on_beside_main() {
    let hanging = json!([{ "fault": "hang" }]);
    let second = json!({ "b again": [{ "text": "second try", "delay_ms": 10_000 }] });
    let sitting = with_batch(hanging, second).await;
    sitting.say(FromUser::Again(UnitId(2))).await;
    sitting.say(FromUser::SetAside).await;
    sitting.wait(1_000).await;
    assert_eq!(endings(&sitting.events()), ["done"]);
    sitting.wait(20_000).await;
    sitting.tell_news(json!({ "main": says("I see.") })).await;
    sitting.wait(1_000).await;
    let story = leave(sitting).await;
    assert_eq!(story.states(), [UnitState::Completed, UnitState::Cancelled, UnitState::Completed]);
    assert!(output(&story).contains("background as agent-3"), "{}", output(&story));
    let told = told(&story.events);
    assert!(told[1].contains("from a") && told[1].contains("second try"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_its_permit_as_it_is_set_aside_is_not_lost_by_the_end_of_the_turn() {
    let units = json!({
        "main": [{ "calls": [batch(&["a", "b", "c"])] }, { "text": "done" }],
        "*": [{ "text": "found", "delay_ms": 5_000 }],
    });
    for pause in [0, 1, 1_000] {
        let sitting = setup().cap(1).sit();
        sitting.ask("one", units.clone()).await;
        sitting.wait(1_000).await;
        sitting.say(FromUser::SetAside).await;
        if pause > 0 {
            sitting.wait(pause).await;
        }
        sitting.say(FromUser::EndTurn).await;
        sitting.wait(30_000).await;
        let story = leave(sitting).await;
        assert_eq!(story.states(), [UnitState::Completed; 3], "{pause}");
    }
}

#[tokio::test(start_paused = true)]
async fn at_whatever_moment_a_batch_is_set_aside_or_run_again_the_log_is_whole() {
    let units = json!({
        "main": [
            { "calls": [batch(&["a", "b"]), call("Agent", task("c"))], "delay_ms": 5 },
            { "text": "ok", "delay_ms": 5, "repeat": true },
        ],
        "*": [
            { "calls": [call("Glob", json!({ "pattern": "*" }))], "delay_ms": 7 },
            { "text": "ok", "delay_ms": 11 },
        ],
    });
    for after in 0..40 {
        let sitting = setup().cap(2).sit();
        sitting.ask("one", units.clone()).await;
        sitting.wait(after).await;
        sitting.say(FromUser::Again(UnitId(2))).await;
        if after % 2 == 0 {
            sitting.wait(1).await;
        }
        sitting.say(FromUser::SetAside).await;
        if after % 4 < 2 {
            sitting.say(FromUser::EndTurn).await;
        }
        sitting.wait(10_000).await;
        sitting.tell_news(json!({ "main": says("I see.") })).await;
        // Each comes to its own end before it is told to.
        until(&sitting, |events| {
            let past = past(events);
            let mut units = past.units().values();
            endings(events).len() == 2 && units.all(|unit| unit.end.is_some())
        })
        .await;
        leave(sitting).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_written_joins_at_the_next_boundary_with_its_outputs_before_it() {
    let units = json!({
        "main": [{ "calls": [call("Agent", task("a"))] }, { "text": "done" }],
        "a": [{ "text": "from a", "delay_ms": 10_000 }],
    });
    let sitting = sit();
    sitting.ask("one", units).await;
    sitting.wait(1_000).await;
    sitting.say(FromUser::Wrote("mind the gap".into())).await;
    sitting.say(FromUser::Wrote("not this".into())).await;
    sitting.say(FromUser::TookBack).await;
    sitting.say(FromUser::Wrote("mind the step".into())).await;
    sitting.wait(20_000).await;
    let last = String::from_utf8(sitting.bodies().pop().unwrap()).unwrap();
    let story = leave(sitting).await;
    assert_eq!(endings(&story.events), ["done"]);
    assert!(last.find("from a").unwrap() < last.find("mind the step").unwrap(), "{last}");
    assert!(!last.contains("mind the gap") && !last.contains("not this"), "{last}");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_ends_goes_on_for_what_was_written_meanwhile() {
    let units = json!({
        "main": [{ "text": "one", "delay_ms": 5_000 }, { "text": "and two" }],
    });
    let sitting = sit();
    sitting.ask("one", units).await;
    sitting.wait(1_000).await;
    sitting.say(FromUser::Wrote("and two?".into())).await;
    sitting.wait(10_000).await;
    // And what comes at rest is read when main is told the news.
    sitting.say(FromUser::Wrote("and three?".into())).await;
    sitting.wait(1_000).await;
    assert_eq!(endings(&sitting.events()), ["and two"]);
    sitting.tell_news(json!({ "main": says("and three") })).await;
    sitting.wait(1_000).await;
    let story = leave(sitting).await;
    assert_eq!(endings(&story.events), ["and two", "and three"]);
}

async fn rewind(sitting: &Sitting, to: Seq) -> Result<(), NoRewind> {
    let (reply, answer) = oneshot::channel();
    sitting.order(Asked::Rewind(to, reply)).await;
    answer.await.expect("the run answers")
}

/// The messages of a request, but for what the harness itself says first.
fn messages(body: &[u8]) -> Vec<String> {
    let body: Value = serde_json::from_slice(body).expect("a body is JSON");
    let messages = body["messages"].as_array().expect("it has messages").iter();
    messages.filter(|message| message["role"] != "system").map(Value::to_string).collect()
}

/// Where the first invocation with this prompt began.
#[track_caller]
fn before(events: &[Event], prompt: &str) -> Seq {
    let begins = |event: &&Event| matches!(&event.kind, EventKind::InvocationStarted { prompt: p, .. } if **p == *prompt);
    Seq(events.iter().find(begins).expect("it was asked").seq.0 - 1)
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_goes_back_sends_what_it_sent_then() {
    let sitting = sit();
    let glob = json!([{ "calls": [call("Glob", json!({ "pattern": "*" }))] }, { "text": "found" }]);
    for (typed, main) in [("one", says("first")), ("two", glob), ("three", says("third"))] {
        sitting.ask(typed, json!({ "main": main })).await;
        sitting.wait(1_000).await;
    }
    let events = sitting.events();
    let middle = events
        .iter()
        .find(|event| matches!(event.kind, EventKind::ToolStarted { .. }))
        .map(|event| event.seq)
        .unwrap();
    assert_eq!(rewind(&sitting, middle).await, Err(NoRewind::NotThere { to: middle }));
    let never = Seq(9_999);
    assert_eq!(rewind(&sitting, never).await, Err(NoRewind::NotThere { to: never }));
    let to = before(&events, "two");
    assert_eq!(rewind(&sitting, to).await, Ok(()));
    // Whoever is told so can rely on it.
    let last = sitting.events().pop().map(|event| event.kind);
    assert_eq!(last, Some(EventKind::Rewound { to }));
    sitting.ask("better", json!({ "main": says("fine") })).await;
    sitting.wait(1_000).await;
    let bodies = sitting.bodies();
    check::check_continues(&bodies[0], bodies.last().unwrap()).expect("it goes on from the first");
    let said = messages(bodies.last().unwrap());
    let has = |text: &str| said.iter().any(|message| message.contains(text));
    assert!(has("first") && has("better"), "{said:?}");
    assert!(!has("two") && !has("found") && !has("third"), "{said:?}");
    let story = leave(sitting).await;

    // The next process goes on from there, too.
    let again = setup().sit_after(story);
    again.ask("on", json!({ "main": says("yes") })).await;
    again.wait(1_000).await;
    check::check_continues(bodies.last().unwrap(), &again.bodies()[0]).expect("the same bytes");
    leave(again).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_goes_back_while_units_work_or_behind_a_summary() {
    let sitting = sit();
    let units = json!({
        "main": [{ "calls": [beside("look")] }, { "text": "ok" }],
        "look": [{ "text": "found", "delay_ms": 10_000 }],
    });
    sitting.ask("one", units).await;
    sitting.wait(1_000).await;
    let start = before(&sitting.events(), "one");
    assert_eq!(rewind(&sitting, start).await, Err(NoRewind::Busy { units: 1 }));
    let undo = sitting.look_back();
    let plan = undo.plan(Selection::LastPrompt);
    let said = Said { typed: "/undo".into(), text: "".into() };
    let (reply, answer) = oneshot::channel();
    sitting
        .order(Asked::Undo(Box::new(TakeBack { undo, plan, said, is_shown: true }), reply))
        .await;
    let refused = answer.await.expect("the run answers");
    assert!(matches!(refused, Err(NoUndo::Busy { units: 1 })), "{refused:?}");
    sitting.wait(20_000).await;
    let units = json!({ "main:compact": says("they looked") });
    sitting.invoke("/compact", Opening::Compact { hint: None }, ("scripted", units)).await;
    sitting.wait(1_000).await;
    assert_eq!(rewind(&sitting, start).await, Err(NoRewind::NotThere { to: start }));
    leave(sitting).await;
}

/// Waits until so many invocations have ended.
async fn until_ended(sitting: &Sitting, count: usize) {
    until(sitting, |events| endings(events).len() == count).await;
}

/// Waits until something holds of what has happened: paused time may run ahead
/// of threads that work on files.
async fn until(sitting: &Sitting, holds: impl Fn(&[Event]) -> bool) {
    for _ in 0..20_000 {
        if holds(&sitting.events()) {
            return;
        }
        sitting.wait(5).await;
    }
    panic!("it never came: {:#?}", sitting.events());
}

/// On real time: a disk is slower than paused time.
#[tokio::test]
async fn files_go_back_in_a_run_that_rests_and_main_is_told() {
    let sitting = setup().mode(Mode::BypassPermissions).sit();
    let write = call("Write", json!({ "file_path": "a.txt", "content": "wrong" }));
    sitting.ask("one", json!({ "main": [{ "calls": [write] }, { "text": "written" }] })).await;
    until_ended(&sitting, 1).await;
    assert_eq!(sitting.read("a.txt").as_deref(), Some("wrong"));
    let undo = sitting.look_back();
    let plan = undo.plan(Selection::LastPrompt);
    let said = Said { typed: "/undo".into(), text: "1 file went back".into() };
    let (reply, answer) = oneshot::channel();
    let take_back = TakeBack { undo, plan, said, is_shown: true };
    sitting.order(Asked::Undo(Box::new(take_back), reply)).await;
    answer.await.expect("the run answers").expect("the file goes back");
    assert_eq!(sitting.read("a.txt"), None);
    sitting.ask("two", json!({ "main": says("I see.") })).await;
    until_ended(&sitting, 3).await;
    let last = String::from_utf8(sitting.bodies().pop().unwrap()).unwrap();
    assert!(last.contains("a.txt"), "{last}");
    let story = leave(sitting).await;
    assert_eq!(endings(&story.events), ["written", "1 file went back", "I see."]);
    let numbers: Vec<u64> = story.events.iter().map(|event| event.seq.0).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn what_is_stopped_before_the_run_has_taken_it_ends_as_soon_as_it_has_begun() {
    let sitting = sit();
    sitting.say(FromUser::EndAsked(1)).await;
    sitting.wait(1_000).await;
    sitting.ask("one", json!({ "main": [{ "text": "so far", "fault": "hang" }] })).await;
    sitting.wait(1_000).await;
    assert_eq!(endings(&sitting.events()), ["cancelled"]);
    // It is over: whoever stops it once more stops nothing else.
    sitting.say(FromUser::EndAsked(1)).await;
    sitting.ask("two", json!({ "main": says("here") })).await;
    sitting.wait(1_000).await;
    let story = leave(sitting).await;
    assert_eq!(endings(&story.events), ["cancelled", "here"]);
}
