//! What the task of a unit was, as its session log has it.

use std::num::NonZeroU64;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::branch::Branch;
use crate::event::{
    CallQuestion, HookEvent, HookOutcome, HookRan, Invocation, Lasting, QuestionId, Seq,
    SlotPosition, Terms, UnixMillis,
};
use crate::message::{Call, Reply, StopReason, Usage};
use crate::tool::Isolation;

fn known() -> Known {
    Known {
        agents: vec!["explore".to_owned()],
        tools: ["Read", "Grep", "Bash"].map(str::to_owned).to_vec(),
    }
}

fn event(kind: EventKind) -> Event {
    Event {
        seq: Seq(1),
        at: UnixMillis(0),
        invocation: Invocation(1),
        unit: UnitId::MAIN,
        branch: Branch::root(),
        kind,
    }
}

/// An answer of main's model with one call, whose id is `c`.
fn called(tool: &str, arguments: &str) -> Event {
    let call = Call { id: "c".into(), tool: tool.to_owned(), arguments: arguments.to_owned() };
    event(EventKind::Replied(Replied {
        reply: Arc::new(Reply { calls: vec![call], ..Reply::default() }),
        model: "m".into(),
        usage: Usage::default(),
        stop: StopReason::ToolUse,
        took_ms: 0,
    }))
}

fn asked(arguments: &Value, answer: Verdict) -> Event {
    let question = Question::Call(Arc::new(CallQuestion {
        call: "c".into(),
        tool: "Agent".into(),
        subject: "".into(),
        arguments: arguments.to_string().into(),
        reason: "".into(),
        rules: Vec::new(),
        confinement: None,
    }));
    event(EventKind::Answered { id: QuestionId(Seq(1)), question, answer })
}

fn changed_by_a_hook() -> Event {
    event(EventKind::HookRan(Arc::new(HookRan {
        event: HookEvent::PreToolUse,
        hook: "h".into(),
        call: Some("c".into()),
        outcome: HookOutcome::Done,
        exit_code: Some(0),
        decision: None,
        reason: "".into(),
        context: "".into(),
        message: "".into(),
        changes_input: true,
        took_ms: 0,
    })))
}

fn head(slot: Option<u32>) -> UnitHead {
    UnitHead {
        description: "d".into(),
        agent: "explore".into(),
        call: Some("c".into()),
        parent: UnitId::MAIN,
        depth: 1,
        slot: slot.map(|index| SlotPosition { index, total: 2 }),
        origin: Origin::Prompt,
        is_background: true,
        again: None,
        step: None,
    }
}

/// A task with a limit of every kind.
fn limited() -> Value {
    json!({ "description": "d", "prompt": "p", "subagent_type": "explore", "tools": ["Read"],
        "isolation": "worktree", "max_turns": 3, "max_tokens": 9, "timeout_s": 2,
        "schema": { "type": "object" } })
}

#[track_caller]
fn check_limits(events: &[Event], slot: Option<u32>) {
    let task = task_of(events, &head(slot), &known()).expect("the task is found");
    let TaskKind::Typed(typed) = &task.kind else { panic!("{task:?}") };
    assert_eq!(typed.tools.as_deref(), Some(&["Read".to_owned()][..]));
    assert_eq!(task.isolation, Some(Isolation::Worktree));
    let limits = (task.max_turns, task.max_tokens, task.timeout);
    assert_eq!(limits, (Some(3), NonZeroU64::new(9), Some(Duration::from_secs(2))));
    assert!(task.schema.is_some());
}

/// Models quote arrays, objects and numbers, or all arguments.
#[test]
fn a_task_keeps_its_limits_however_the_model_wrote_them() {
    let quoted = |value: Value| Value::String(value.to_string());
    let other =
        json!({ "description": "o", "prompt": "p", "subagent_type": "explore", "tools": [] });
    let batch = json!([other, limited()]);
    let mut inner = limited();
    for name in ["tools", "max_turns", "max_tokens", "timeout_s", "schema"] {
        inner[name] = quoted(inner[name].clone());
    }
    inner["model"] = "".into();
    for tasks in [
        batch.clone(),
        quoted(batch.clone()),
        quoted(quoted(batch.clone())),
        Value::String(format!("```json\n{batch}\n```")),
        json!([quoted(other.clone()), quoted(limited())]),
        quoted(json!([other, inner])),
    ] {
        let arguments = json!({ "tasks": tasks });
        check_limits(&[called("Agent", &arguments.to_string())], Some(1));
        check_limits(&[called("Task", &quoted(arguments).to_string())], Some(1));
    }
    for single in [limited(), inner, quoted(limited())] {
        check_limits(&[called("Agent", &single.to_string())], None);
    }
}

#[test]
fn a_task_is_that_of_the_call_that_started_its_unit() {
    let limited = limited();
    let mut without = limited.clone();
    without.as_object_mut().unwrap().retain(|name, _| name.len() > 9 || name == "prompt");
    let (call, other) =
        (called("Agent", &limited.to_string()), called("Agent", &without.to_string()));
    check_limits(&[other.clone(), call.clone()], None);
    check_limits(&[other.clone(), asked(&limited, Verdict::Yes)], None);
    check_limits(&[other.clone(), changed_by_a_hook(), asked(&limited, Verdict::Yes)], None);
    check_limits(&[other.clone(), changed_by_a_hook(), call], None);
    let terms = Terms {
        arguments: Some(limited.to_string().into()),
        lasting: Lasting::Once,
        rules: Vec::new(),
    };
    check_limits(&[other, asked(&without, Verdict::YesWith(Arc::new(terms)))], None);
}

#[test]
fn a_task_that_the_log_does_not_tell_is_an_error() {
    let batch = json!({ "tasks": [limited()] }).to_string();
    let mut gone = limited();
    gone["tools"] = json!(["mcp__gone__find"]);
    for (events, expected) in [
        (vec![], "does not have the call"),
        (vec![called("Agent", "{\"tasks\": [")], "not valid JSON"),
        (vec![called("Agent", "[]")], "must be a JSON object"),
        (vec![called("Agent", "")], "Parameters missing"),
        (vec![called("Agent", &gone.to_string())], "\"mcp__gone__find\" not found"),
        (vec![called("Agent", &batch)], "does not have its task"),
        (vec![called("Agent", &batch), changed_by_a_hook()], "a hook changed"),
        (vec![called("SendMessage", r#"{"to":"agent-1","message":"m"}"#)], "Parameters missing"),
    ] {
        let error = task_of(&events, &head(Some(1)), &known()).unwrap_err();
        assert!(error.contains(expected) && !error.ends_with('.'), "{error}");
    }
    for (call, tool) in [(None, "Agent"), (Some("c".into()), "Skill")] {
        let head = UnitHead { call, ..head(None) };
        let task = task_of(&[called(tool, r#"{"skill":"s"}"#)], &head, &known()).unwrap();
        assert_eq!((&*task.agent(), task.max_turns), ("explore", None));
    }
}
