//! Sessions for the tests of whatever is folded from events.

use std::sync::Arc;

use super::{
    Choice, Event, EventKind, Field, Form, HookDecision, HookEvent, HookOutcome, HookRan,
    Invocation, Origin, Outcome, Replied, Seq, Takes, UnitEnd, UnitHead, UnitId, UnixMillis,
};
use crate::branch::Branch;
use crate::message::{Call, CallId, Output, Reply, StopReason, Usage};

/// A session that is put down event by event.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) events: Vec<Event>,
    pub(crate) invocation: u32,
}

impl Log {
    /// Adds an event of a unit, on a branch with these tokens.
    pub(crate) fn put(&mut self, unit: u32, tokens: &str, kind: EventKind) -> &mut Self {
        self.events.push(Event {
            seq: Seq(self.events.len() as u64 + 1),
            at: UnixMillis(0),
            invocation: Invocation(self.invocation),
            unit: UnitId(unit),
            branch: Branch { tokens: tokens.parse().unwrap(), ..Branch::root() },
            kind,
        });
        self
    }
}

pub(crate) fn queued(name: &str, parent: u32, origin: Origin, call: Option<&str>) -> EventKind {
    EventKind::UnitQueued(UnitHead {
        description: name.into(),
        agent: "explore".into(),
        call: call.map(CallId::from),
        parent: UnitId(parent),
        depth: 1,
        slot: None,
        origin,
        is_background: false,
        again: None,
        step: None,
    })
}

pub(crate) fn prompted(text: &str) -> EventKind {
    EventKind::Prompted(text.into())
}

pub(crate) fn replied(text: &str) -> EventKind {
    answer(Reply { text: text.to_owned(), ..Reply::default() })
}

/// An answer with calls, each a tool and its arguments; a call's id is the
/// tool's name.
pub(crate) fn called(text: &str, calls: &[(&str, &str)]) -> EventKind {
    let call = |&(tool, arguments): &(&str, &str)| Call {
        id: tool.into(),
        tool: tool.to_owned(),
        arguments: arguments.to_owned(),
    };
    let calls = calls.iter().map(call).collect();
    answer(Reply { text: text.to_owned(), calls, ..Reply::default() })
}

fn answer(reply: Reply) -> EventKind {
    EventKind::Replied(Replied {
        reply: Arc::new(reply),
        model: "m".into(),
        usage: Usage::default(),
        stop: StopReason::EndTurn,
        took_ms: 1,
    })
}

/// The output of a call of [`called`].
pub(crate) fn finished(tool: &str, output: Output) -> EventKind {
    let output = Arc::new(output);
    EventKind::ToolFinished { call: tool.into(), tool: tool.into(), output, took_ms: 1 }
}

pub(crate) fn ended(outcome: Outcome, text: &str) -> EventKind {
    EventKind::UnitEnded(Arc::new(UnitEnd {
        outcome,
        text: text.into(),
        usage: Usage::default(),
        turns: 1,
        tool_uses: 0,
        duration_ms: 1,
        output_file: None,
        share: None,
    }))
}

/// A field with these options that takes own words, too.
pub(crate) fn field(text: &str, labels: &[&str], several: bool) -> Field {
    let offered = |label: &&str| Choice {
        label: (*label).into(),
        description: format!("what {label} means").into(),
    };
    let options = labels.iter().map(offered).collect();
    Field {
        name: text.into(),
        header: "".into(),
        text: text.into(),
        takes: Takes::Options { options, several, own_words: true },
        may_be_empty: false,
    }
}

/// A form of fields that can be answered with yes and no.
pub(crate) fn form(texts: &[&str]) -> Form {
    Form {
        call: "ask-1".into(),
        tool: "AskUserQuestion".into(),
        server: None,
        arguments: "{}".into(),
        message: "".into(),
        fields: texts.iter().map(|text| field(text, &["yes", "no"], false)).collect(),
    }
}

/// A hook that has said all that one can.
pub(crate) fn hook_ran() -> HookRan {
    HookRan {
        event: HookEvent::PreToolUse,
        hook: "./check.sh".into(),
        call: Some("call-2".into()),
        outcome: HookOutcome::Blocked,
        exit_code: Some(2),
        decision: Some(HookDecision::Deny),
        reason: "not there".into(),
        context: "more".into(),
        message: "look".into(),
        changes_input: true,
        took_ms: 12,
    }
}
