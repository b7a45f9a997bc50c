//! The bodies of the log's lines: one struct for each kind of event.
//!
//! A field's name here is what lies on disk. Unknown fields are skipped, so
//! that a later tine may add some; a missing one makes the line a bad one.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::calls::{Denied, SandboxBody, ToolFinished, ToolStarted};
use super::changes::{FileChangedBody, WorktreeBody};
use super::ends::{InvocationEnded, LostBody, ShareBody, UnitEnded};
use super::flows::{OriginBody, StepBody, WalkedBody};
use super::hooks::HookRanBody;
use super::images::Prompted;
use super::offered::OfferedBody;
use super::questions::{Answered, Asked};
use super::requests::{Admitted, FailedBody, RepliedBody, ThrottledBody, UsageBody};
use super::{Text, parse, unit};
use crate::event::{
    Chosen, Compaction, CompactionTrigger, EventKind, NoticeLevel, Origin, Seq, SessionHead,
    SessionId, SlotPosition, UnitHead, UnitId,
};
use crate::message::CallId;

/// What is written as `body`; `kind` says which it is.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Body<'a> {
    SessionOpened(SessionOpened<'a>),
    InvocationStarted(InvocationStarted<'a>),
    Prompted(Prompted<'a>),
    Notified(Notified<'a>),
    UserWrote(UserWrote<'a>),
    UserTookBack(UserTookBack),
    Offered(OfferedBody<'a>),
    Compacted(Compacted<'a>),
    PrefixShared(ShareBody),
    UnitQueued(UnitQueued<'a>),
    UnitStarted(UnitStarted),
    Lost(LostBody<'a>),
    TurnStarted(TurnStarted),
    Throttled(ThrottledBody<'a>),
    Admitted(Admitted),
    RequestFailed(FailedBody<'a>),
    Replied(RepliedBody<'a>),
    ToolStarted(ToolStarted<'a>),
    FileChanged(FileChangedBody<'a>),
    Worktree(WorktreeBody<'a>),
    HookRan(HookRanBody<'a>),
    ToolFinished(ToolFinished<'a>),
    Denied(Denied<'a>),
    Asked(Asked<'a>),
    Answered(Answered<'a>),
    UnitEnded(UnitEnded<'a>),
    SetAside(SetAside<'a>),
    Rewound(Rewound),
    Walked(WalkedBody<'a>),
    Joined(Joined<'a>),
    Notice(Notice<'a>),
    InvocationEnded(InvocationEnded<'a>),
    Chosen(ChosenBody<'a>),
    Left(Left),
}

impl<'a> Body<'a> {
    /// Returns the body of a kind.
    pub(super) fn of(kind: &'a EventKind) -> Self {
        match kind {
            EventKind::SessionOpened(head) => Self::SessionOpened(SessionOpened::of(head)),
            EventKind::InvocationStarted { prompt, message } => {
                let message = message.as_ref().map(text);
                Self::InvocationStarted(InvocationStarted { prompt: text(prompt), message })
            }
            EventKind::Prompted(prompt) => Self::Prompted(Prompted::of(prompt)),
            EventKind::Notified { children, text: all, wrote } => {
                Self::Notified(Notified::of(children, all, *wrote))
            }
            EventKind::UserWrote { text: all } => Self::UserWrote(UserWrote { text: text(all) }),
            EventKind::UserTookBack => Self::UserTookBack(UserTookBack {}),
            EventKind::Offered(offered) => Self::Offered(OfferedBody::of(offered)),
            EventKind::Compacted(compaction) => Self::Compacted(Compacted::of(compaction)),
            EventKind::PrefixShared(share) => Self::PrefixShared(ShareBody::of(share)),
            EventKind::UnitQueued(head) => Self::UnitQueued(UnitQueued::of(head)),
            EventKind::UnitStarted => Self::UnitStarted(UnitStarted {}),
            EventKind::Lost { worker, attempt } => Self::Lost(LostBody::of(worker, *attempt)),
            EventKind::TurnStarted { turn } => Self::TurnStarted(TurnStarted { turn: *turn }),
            EventKind::Throttled(throttled) => Self::Throttled(ThrottledBody::of(throttled)),
            EventKind::Admitted { waited_ms } => Self::Admitted(Admitted::of(*waited_ms)),
            EventKind::RequestFailed(failed) => Self::RequestFailed(FailedBody::of(failed)),
            EventKind::Replied(replied) => Self::Replied(RepliedBody::of(replied)),
            EventKind::ToolStarted { call, tool, subject, confinement } => {
                Self::ToolStarted(ToolStarted::of(call, [tool, subject], *confinement))
            }
            EventKind::FileChanged(change) => Self::FileChanged(FileChangedBody::of(change)),
            EventKind::Worktree(worktree) => Self::Worktree(WorktreeBody::of(worktree)),
            EventKind::HookRan(ran) => Self::HookRan(HookRanBody::of(ran)),
            EventKind::ToolFinished { call, tool, output, took_ms } => {
                Self::ToolFinished(ToolFinished::of(call, tool, output, *took_ms))
            }
            EventKind::Denied { call, tool, arguments, reason } => {
                Self::Denied(Denied::of(call, [tool, arguments, reason]))
            }
            EventKind::Asked { id, question } => Self::Asked(Asked::of(*id, question)),
            EventKind::Answered { id, question, answer } => {
                Self::Answered(Answered::of(*id, question, answer))
            }
            EventKind::UnitEnded(end) => Self::UnitEnded(UnitEnded::of(end)),
            EventKind::SetAside { units } => Self::SetAside(SetAside { units: unit_names(units) }),
            EventKind::Rewound { to } => Self::Rewound(Rewound { to: to.0 }),
            EventKind::Walked(head) => Self::Walked(WalkedBody::of(head)),
            EventKind::Joined { children } => {
                Self::Joined(Joined { children: unit_names(children) })
            }
            EventKind::Notice { level, text } => Self::Notice(Notice::of(*level, text)),
            EventKind::InvocationEnded(end) => Self::InvocationEnded(InvocationEnded::of(end)),
            EventKind::Chosen(chosen) => Self::Chosen(ChosenBody::of(chosen)),
            EventKind::Left => Self::Left(Left {}),
        }
    }

    /// Returns the name that is written as `kind`.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::SessionOpened(_) => "session_opened",
            Self::InvocationStarted(_) => "invocation_started",
            Self::Prompted(_) => "prompted",
            Self::Notified(_) => "notified",
            Self::UserWrote(_) => "user_wrote",
            Self::UserTookBack(_) => "user_took_back",
            Self::Offered(_) => "offered",
            Self::Compacted(_) => "compacted",
            Self::PrefixShared(_) => "prefix_shared",
            Self::UnitQueued(_) => "unit_queued",
            Self::UnitStarted(_) => "unit_started",
            Self::Lost(_) => "lost",
            Self::TurnStarted(_) => "turn_started",
            Self::Throttled(_) => "throttled",
            Self::Admitted(_) => "admitted",
            Self::RequestFailed(_) => "request_failed",
            Self::Replied(_) => "replied",
            Self::ToolStarted(_) => "tool_started",
            Self::FileChanged(_) => "file_changed",
            Self::Worktree(_) => "worktree",
            Self::HookRan(_) => "hook_ran",
            Self::ToolFinished(_) => "tool_finished",
            Self::Denied(_) => "denied",
            Self::Asked(_) => "asked",
            Self::Answered(_) => "answered",
            Self::UnitEnded(_) => "unit_ended",
            Self::SetAside(_) => "set_aside",
            Self::Rewound(_) => "rewound",
            Self::Walked(_) => "walked",
            Self::Joined(_) => "joined",
            Self::Notice(_) => "notice",
            Self::InvocationEnded(_) => "invocation_ended",
            Self::Chosen(_) => "chosen",
            Self::Left(_) => "left",
        }
    }
}

/// Reads the body of a kind; `None` if the kind is not known.
pub(super) fn read(kind: &str, body: &[u8]) -> Result<Option<EventKind>, String> {
    let kind = match kind {
        "session_opened" => parse::<SessionOpened<'_>>(body)?.into_kind()?,
        "invocation_started" => {
            let InvocationStarted { prompt, message } = parse(body)?;
            let message = message.map(Into::into);
            EventKind::InvocationStarted { prompt: prompt.into(), message }
        }
        "prompted" => parse::<Prompted<'_>>(body)?.into_kind()?,
        "notified" => {
            let Notified { children, text, wrote } = parse(body)?;
            EventKind::Notified { children: units(&children)?, text: text.into(), wrote }
        }
        "user_wrote" => EventKind::UserWrote { text: parse::<UserWrote<'_>>(body)?.text.into() },
        "user_took_back" => {
            let UserTookBack {} = parse(body)?;
            EventKind::UserTookBack
        }
        "offered" => parse::<OfferedBody<'_>>(body)?.into_kind()?,
        "compacted" => parse::<Compacted<'_>>(body)?.into_kind()?,
        "prefix_shared" => EventKind::PrefixShared(parse::<ShareBody>(body)?.into_share()),
        "unit_queued" => parse::<UnitQueued<'_>>(body)?.into_kind()?,
        "unit_started" => {
            let UnitStarted {} = parse(body)?;
            EventKind::UnitStarted
        }
        "lost" => parse::<LostBody<'_>>(body)?.into_kind(),
        "turn_started" => EventKind::TurnStarted { turn: parse::<TurnStarted>(body)?.turn },
        "throttled" => parse::<ThrottledBody<'_>>(body)?.into_kind()?,
        "admitted" => parse::<Admitted>(body)?.into_kind(),
        "request_failed" => parse::<FailedBody<'_>>(body)?.into_kind(),
        "replied" => parse::<RepliedBody<'_>>(body)?.into_kind()?,
        "tool_started" => parse::<ToolStarted<'_>>(body)?.into_kind()?,
        "file_changed" => parse::<FileChangedBody<'_>>(body)?.into_kind()?,
        "worktree" => EventKind::Worktree(parse::<WorktreeBody<'_>>(body)?.into_worktree()),
        "hook_ran" => parse::<HookRanBody<'_>>(body)?.into_kind()?,
        "tool_finished" => parse::<ToolFinished<'_>>(body)?.into_kind()?,
        "denied" => parse::<Denied<'_>>(body)?.into_kind(),
        "asked" => parse::<Asked<'_>>(body)?.into_kind()?,
        "answered" => parse::<Answered<'_>>(body)?.into_kind()?,
        "unit_ended" => parse::<UnitEnded<'_>>(body)?.into_kind()?,
        "set_aside" => EventKind::SetAside { units: units(&parse::<SetAside<'_>>(body)?.units)? },
        "rewound" => EventKind::Rewound { to: Seq(parse::<Rewound>(body)?.to) },
        "walked" => parse::<WalkedBody<'_>>(body)?.into_kind(),
        "joined" => EventKind::Joined { children: units(&parse::<Joined<'_>>(body)?.children)? },
        "notice" => {
            let Notice { level, text } = parse(body)?;
            let level =
                named(&[NoticeLevel::Info, NoticeLevel::Warning], NoticeLevel::as_str, &level)?;
            EventKind::Notice { level, text: text.into() }
        }
        "invocation_ended" => parse::<InvocationEnded<'_>>(body)?.into_kind()?,
        "chosen" => parse::<ChosenBody<'_>>(body)?.into_kind(),
        "left" => {
            let Left {} = parse(body)?;
            EventKind::Left
        }
        _ => return Ok(None),
    };
    Ok(Some(kind))
}

pub(super) fn text(text: &Arc<str>) -> Text<'_> {
    (&**text).into()
}

pub(super) fn unit_names(units: &[UnitId]) -> Vec<Text<'static>> {
    units.iter().map(|unit| unit.to_string().into()).collect()
}

pub(super) fn units(names: &[Text<'_>]) -> Result<Vec<UnitId>, String> {
    names.iter().map(|name| unit(name)).collect()
}

/// Finds the value of a closed set that has the given name.
pub(super) fn named<T: Copy>(
    all: &[T],
    as_str: fn(T) -> &'static str,
    name: &str,
) -> Result<T, String> {
    all.iter()
        .copied()
        .find(|&value| as_str(value) == name)
        .ok_or_else(|| format!("`{name}` is not known"))
}

#[derive(Serialize, Deserialize)]
pub(super) struct SessionOpened<'a> {
    session: Text<'a>,
    version: Text<'a>,
    cwd: Text<'a>,
    model: Text<'a>,
    mode: Text<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    forked_from: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sandbox: Option<SandboxBody<'a>>,
}

impl<'a> SessionOpened<'a> {
    fn of(head: &'a SessionHead) -> Self {
        Self {
            session: text(&head.session.0),
            version: text(&head.version),
            cwd: text(&head.cwd),
            model: text(&head.model),
            mode: text(&head.mode),
            forked_from: head.forked_from.as_ref().map(|session| text(&session.0)),
            sandbox: head.sandbox.map(SandboxBody::of),
        }
    }

    fn into_kind(self) -> Result<EventKind, String> {
        Ok(EventKind::SessionOpened(SessionHead {
            session: SessionId(self.session.into()),
            version: self.version.into(),
            cwd: self.cwd.into(),
            model: self.model.into(),
            mode: self.mode.into(),
            forked_from: self.forked_from.map(|session| SessionId(session.into())),
            sandbox: self.sandbox.map(SandboxBody::into_head).transpose()?,
        }))
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct InvocationStarted<'a> {
    prompt: Text<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none", borrow)]
    message: Option<Text<'a>>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Notified<'a> {
    children: Vec<Text<'a>>,
    text: Text<'a>,
    #[serde(default, skip_serializing_if = "is_zero")]
    wrote: u32,
}

impl<'a> Notified<'a> {
    fn of(children: &[UnitId], all: &'a Arc<str>, wrote: u32) -> Self {
        Self { children: unit_names(children), text: text(all), wrote }
    }
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

#[derive(Serialize, Deserialize)]
pub(super) struct UserWrote<'a> {
    text: Text<'a>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct UserTookBack {}

#[derive(Serialize, Deserialize)]
pub(super) struct SetAside<'a> {
    units: Vec<Text<'a>>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Rewound {
    to: u64,
}

#[derive(Serialize, Deserialize)]
pub(super) struct ChosenBody<'a> {
    model: Text<'a>,
    mode: Text<'a>,
}

impl<'a> ChosenBody<'a> {
    fn of(Chosen { model, mode }: &'a Chosen) -> Self {
        Self { model: text(model), mode: text(mode) }
    }

    fn into_kind(self) -> EventKind {
        let Self { model, mode } = self;
        EventKind::Chosen(Chosen { model: model.into(), mode: mode.into() })
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Left {}

#[derive(Serialize, Deserialize)]
pub(super) struct Compacted<'a> {
    trigger: Text<'a>,
    text: Text<'a>,
    kept_prompts: u32,
    tokens_before: u64,
    tokens_after: u64,
    model: Text<'a>,
    usage: UsageBody,
    took_ms: u64,
}

impl<'a> Compacted<'a> {
    fn of(compaction: &'a Compaction) -> Self {
        Self {
            trigger: compaction.trigger.as_str().into(),
            text: text(&compaction.text),
            kept_prompts: compaction.kept_prompts,
            tokens_before: compaction.tokens_before,
            tokens_after: compaction.tokens_after,
            model: text(&compaction.model),
            usage: UsageBody::of(compaction.usage),
            took_ms: compaction.took_ms,
        }
    }

    fn into_kind(self) -> Result<EventKind, String> {
        Ok(EventKind::Compacted(Arc::new(Compaction {
            trigger: named(&CompactionTrigger::ALL, CompactionTrigger::as_str, &self.trigger)?,
            text: self.text.into(),
            kept_prompts: self.kept_prompts,
            tokens_before: self.tokens_before,
            tokens_after: self.tokens_after,
            model: self.model.into(),
            usage: self.usage.into_usage(),
            took_ms: self.took_ms,
        })))
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct UnitQueued<'a> {
    description: Text<'a>,
    agent: Text<'a>,
    call: Option<Text<'a>>,
    parent: Text<'a>,
    depth: u32,
    slot: Option<Slot>,
    /// Left out where it is the unit's own prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<OriginBody<'a>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    background: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    again: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none", borrow)]
    step: Option<StepBody<'a>>,
}

#[derive(Serialize, Deserialize)]
struct Slot {
    index: u32,
    total: u32,
}

impl<'a> UnitQueued<'a> {
    fn of(head: &'a UnitHead) -> Self {
        Self {
            description: text(&head.description),
            agent: text(&head.agent),
            call: head.call.as_ref().map(|call| text(&call.0)),
            parent: head.parent.to_string().into(),
            depth: head.depth,
            slot: head.slot.map(|SlotPosition { index, total }| Slot { index, total }),
            origin: OriginBody::of(head.origin),
            background: head.is_background,
            again: head.again.map(|unit| unit.to_string().into()),
            step: head.step.as_ref().map(StepBody::of),
        }
    }

    fn into_kind(self) -> Result<EventKind, String> {
        Ok(EventKind::UnitQueued(UnitHead {
            description: self.description.into(),
            agent: self.agent.into(),
            call: self.call.map(|call| CallId(call.into())),
            parent: unit(&self.parent)?,
            depth: self.depth,
            slot: self.slot.map(|Slot { index, total }| SlotPosition { index, total }),
            origin: self.origin.map_or(Ok(Origin::Prompt), OriginBody::into_origin)?,
            is_background: self.background,
            again: self.again.map(|name| unit(&name)).transpose()?,
            step: self.step.map(StepBody::into_mark).transpose()?,
        }))
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct UnitStarted {}

#[derive(Serialize, Deserialize)]
pub(super) struct TurnStarted {
    turn: u32,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Joined<'a> {
    children: Vec<Text<'a>>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Notice<'a> {
    level: Text<'a>,
    text: Text<'a>,
}

impl<'a> Notice<'a> {
    fn of(level: NoticeLevel, sentence: &'a Arc<str>) -> Self {
        Self { level: level.as_str().into(), text: text(sentence) }
    }
}
