//! A trace as JSON: what `tine trace --format json` prints and what the page
//! holds. Names and order of the fields are a promise; `docs/trace.md` tells
//! them. Times are milliseconds since the first event.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::event::{Origin, Seq, UnitId, UnixMillis};
use crate::message::Usage;

use super::super::lines;
use super::super::usage::Spent;
use super::{
    Activity, Course, Leg, LegKind, Meeting, PromptTrace, Said, Span, Trace, TraceFacts, UnitTrace,
};

/// The version of the form.
const VERSION: u32 = 1;

impl Trace {
    /// Returns it as one JSON object and a line feed. What a terminal would obey
    /// or hide is escaped.
    #[must_use]
    pub fn json(&self, facts: &TraceFacts) -> Vec<u8> {
        self.json_after(facts, Seq::default())
    }

    /// Returns the same without the rows that no event after this one has
    /// changed.
    #[must_use]
    pub fn json_after(&self, facts: &TraceFacts, after: Seq) -> Vec<u8> {
        let mut line = Vec::new();
        lines::write(&self.record(facts, after), &mut line)
            .expect("text and numbers are always JSON, and a buffer takes every write");
        line
    }

    fn record<'a>(&'a self, facts: &'a TraceFacts, after: Seq) -> TraceRecord<'a> {
        let clock = Clock { first: self.first(), end: self.end(facts) };
        let courses = self.courses(facts);
        let prompts = self.prompts.iter().zip(&courses);
        let units = self.units.iter().filter(|unit| unit.changed > after);
        let spans = self.spans.iter().filter(|span| span.changed > after);
        let meetings = self.meetings.iter().filter(|meeting| meeting.changed > after);
        TraceRecord {
            format: super::MARK,
            version: VERSION,
            session: self.session(facts),
            from_unix_ms: clock.first.0,
            took_ms: clock.ms(clock.end),
            last_event: self.last.0,
            is_live: facts.now.is_some(),
            bad_lines: facts.bad_lines,
            unknown_events: facts.unknown_events,
            prompts: prompts.map(|(prompt, course)| clock.prompt(prompt, course)).collect(),
            units: units.map(|unit| clock.unit(unit)).collect(),
            spans: spans.map(|span| clock.span(span)).collect(),
            branches: meetings.map(|meeting| clock.meeting(meeting)).collect(),
        }
    }

    fn session<'a>(&'a self, facts: &'a TraceFacts) -> SessionRecord<'a> {
        let head = self.head.as_ref();
        SessionRecord {
            id: head.map_or(&facts.session, |head| &head.session.0),
            name: facts.name.as_deref(),
            cwd: head.map(|head| &*head.cwd),
            model: head.map(|head| &*head.model),
            mode: head.map(|head| &*head.mode),
            tine_version: head.map(|head| &*head.version),
            forked_from: head.and_then(|head| head.forked_from.as_ref()).map(|from| &*from.0),
        }
    }
}

/// Tells times as milliseconds since the first event.
#[derive(Clone, Copy)]
struct Clock {
    first: UnixMillis,
    end: UnixMillis,
}

impl Clock {
    fn ms(self, at: UnixMillis) -> u64 {
        at.since(self.first)
    }

    fn prompt<'a>(self, prompt: &'a PromptTrace, course: &Course) -> PromptRecord<'a> {
        let failure = prompt.failure.as_ref();
        let kinds = LegKind::ALL.into_iter();
        PromptRecord {
            number: prompt.invocation.0,
            prompt: SaidRecord::from(&prompt.prompt),
            from_ms: self.ms(prompt.from),
            to_ms: prompt.to.map(|to| self.ms(to)),
            state: prompt.state.map(|state| state.as_str()),
            error: failure.map(|failure| &*failure.message),
            took_ms: course.took_ms(),
            work_ms: course.work_ms,
            most_at_once: course.most_at_once,
            speed_up: course.speed_up(),
            ideal_ms: course.ideal_ms(),
            share_of_ideal: course.share_of_ideal(),
            path_ms: kinds.map(|kind| (kind.as_str(), course.path_ms(kind))).collect(),
            path: course.path.iter().map(|leg| self.leg(leg)).collect(),
        }
    }

    fn leg(self, leg: &Leg) -> LegRecord {
        LegRecord {
            kind: leg.kind.as_str(),
            unit: name(leg.unit),
            span: leg.span,
            from_ms: self.ms(leg.from),
            to_ms: self.ms(leg.to),
        }
    }

    fn unit(self, unit: &UnitTrace) -> UnitRecord<'_> {
        let head = unit.head.as_ref();
        let times = Activity::ALL.into_iter();
        let failure = unit.failure.as_ref();
        UnitRecord {
            id: name(unit.id),
            parent: head.map(|head| name(head.parent)),
            prompt: unit.invocation.0,
            description: head.map_or("", |head| &head.description),
            agent: head.map_or("main", |head| &head.agent),
            begins_with: begins_with(head.map_or(Origin::Prompt, |head| head.origin)),
            continues: head.and_then(|head| match head.origin {
                Origin::Continued(unit) | Origin::Reused(unit) => Some(name(unit)),
                Origin::Prompt | Origin::Visible | Origin::Fork | Origin::Steps => None,
            }),
            repeats: head.and_then(|head| head.again).map(name),
            call: head.and_then(|head| head.call.as_ref()).map(|call| &*call.0),
            slot: head.and_then(|head| head.slot).map(|slot| [slot.index + 1, slot.total]),
            depth: head.map_or(0, |head| head.depth),
            is_background: unit.is_beside(),
            tokens: &unit.tokens,
            path: &unit.path,
            state: unit.state.as_str(),
            failure: failure.map(|failure| failure.kind.as_str()),
            error: failure.map(|failure| &*failure.message),
            queued_ms: self.ms(unit.queued),
            started_ms: unit.started.map(|started| self.ms(started)),
            ended_ms: unit.ended.map(|ended| self.ms(ended)),
            turns: unit.turns,
            tool_uses: unit.tool_uses,
            spent: SpentRecord::from(unit.spent),
            times_ms: times.map(|it| (it.as_str(), unit.time(it, self.end))).collect(),
            doing: unit.doing.iter().map(|it| self.doing(it)).collect(),
        }
    }

    fn doing(self, doing: &super::Doing) -> (&'static str, u64, Option<u64>) {
        (doing.activity.as_str(), self.ms(doing.from), doing.to.map(|to| self.ms(to)))
    }

    fn span(self, span: &Span) -> SpanRecord<'_> {
        SpanRecord {
            id: span.id,
            unit: name(span.unit),
            prompt: span.invocation.0,
            kind: span.kind.as_str(),
            from_ms: self.ms(span.from),
            to_ms: span.to.map(|to| self.ms(to)),
            name: &span.name,
            about: &span.about,
            failed: span.failed.as_deref(),
            usage: span.usage.map(UsageRecord::from),
            call: span.call.as_ref().map(|call| &*call.0),
            texts: span.texts.iter().map(SaidRecord::from).collect(),
        }
    }

    fn meeting(self, meeting: &Meeting) -> MeetingRecord<'_> {
        MeetingRecord {
            id: meeting.id.0,
            kind: meeting.kind.as_str(),
            unit: name(meeting.unit),
            children: meeting.children.iter().copied().map(name).collect(),
            call: meeting.call.as_ref().map(|call| &*call.0),
            prompt: meeting.invocation.0,
            at_ms: self.ms(meeting.at),
            tokens: &meeting.tokens,
        }
    }
}

fn name(unit: UnitId) -> String {
    unit.to_string()
}

pub(super) fn begins_with(origin: Origin) -> &'static str {
    match origin {
        Origin::Prompt => "prompt",
        Origin::Visible => "visible",
        Origin::Fork => "fork",
        Origin::Continued(_) => "continued",
        Origin::Steps => "steps",
        Origin::Reused(_) => "reused",
    }
}

#[derive(Serialize)]
struct TraceRecord<'a> {
    format: &'static str,
    version: u32,
    session: SessionRecord<'a>,
    from_unix_ms: u64,
    took_ms: u64,
    last_event: u64,
    is_live: bool,
    bad_lines: u64,
    unknown_events: u64,
    prompts: Vec<PromptRecord<'a>>,
    units: Vec<UnitRecord<'a>>,
    spans: Vec<SpanRecord<'a>>,
    branches: Vec<MeetingRecord<'a>>,
}

#[derive(Serialize)]
struct SessionRecord<'a> {
    id: &'a str,
    name: Option<&'a str>,
    cwd: Option<&'a str>,
    model: Option<&'a str>,
    mode: Option<&'a str>,
    tine_version: Option<&'a str>,
    forked_from: Option<&'a str>,
}

#[derive(Serialize)]
struct PromptRecord<'a> {
    number: u32,
    prompt: SaidRecord<'a>,
    from_ms: u64,
    to_ms: Option<u64>,
    state: Option<&'static str>,
    error: Option<&'a str>,
    took_ms: u64,
    work_ms: u64,
    most_at_once: u64,
    speed_up: f64,
    ideal_ms: u64,
    share_of_ideal: f64,
    path_ms: BTreeMap<&'static str, u64>,
    path: Vec<LegRecord>,
}

#[derive(Serialize)]
struct LegRecord {
    kind: &'static str,
    unit: String,
    span: Option<usize>,
    from_ms: u64,
    to_ms: u64,
}

#[derive(Serialize)]
struct UnitRecord<'a> {
    id: String,
    parent: Option<String>,
    prompt: u32,
    description: &'a str,
    agent: &'a str,
    begins_with: &'static str,
    continues: Option<String>,
    repeats: Option<String>,
    call: Option<&'a str>,
    slot: Option<[u32; 2]>,
    depth: u32,
    is_background: bool,
    tokens: &'a str,
    path: &'a str,
    state: &'static str,
    failure: Option<&'static str>,
    error: Option<&'a str>,
    queued_ms: u64,
    started_ms: Option<u64>,
    ended_ms: Option<u64>,
    turns: u32,
    tool_uses: u32,
    spent: SpentRecord,
    times_ms: BTreeMap<&'static str, u64>,
    doing: Vec<(&'static str, u64, Option<u64>)>,
}

#[derive(Serialize)]
struct SpentRecord {
    requests: u64,
    retries: u64,
    waited_ms: u64,
    usage: UsageRecord,
}

impl From<Spent> for SpentRecord {
    fn from(spent: Spent) -> Self {
        let Spent { usage, requests, retries, waited_ms } = spent;
        Self { requests, retries, waited_ms, usage: usage.into() }
    }
}

#[derive(Serialize)]
pub(super) struct UsageRecord {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_creation: u64,
    cost_usd: f64,
    /// Whether a model without a price has a part in it.
    cost_is_partial: bool,
}

impl From<Usage> for UsageRecord {
    fn from(usage: Usage) -> Self {
        let Usage { input, output, cache_read, cache_creation, cost } = usage;
        let (cost_usd, cost_is_partial) = (cost.usd.dollars(), cost.is_partial);
        Self { input, output, cache_read, cache_creation, cost_usd, cost_is_partial }
    }
}

#[derive(Serialize)]
struct SpanRecord<'a> {
    id: usize,
    unit: String,
    prompt: u32,
    kind: &'static str,
    from_ms: u64,
    to_ms: Option<u64>,
    name: &'a str,
    about: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<UsageRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<&'a str>,
    texts: Vec<SaidRecord<'a>>,
}

#[derive(Serialize)]
struct SaidRecord<'a> {
    label: &'static str,
    text: &'a str,
    /// The length of the whole text, if this is not all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    cut_from_bytes: Option<u64>,
}

impl<'a> From<&'a Said> for SaidRecord<'a> {
    fn from(said: &'a Said) -> Self {
        let cut_from_bytes = said.is_cut().then_some(said.bytes);
        Self { label: said.label.as_str(), text: &said.text, cut_from_bytes }
    }
}

#[derive(Serialize)]
struct MeetingRecord<'a> {
    id: u64,
    kind: &'static str,
    unit: String,
    children: Vec<String>,
    call: Option<&'a str>,
    prompt: u32,
    at_ms: u64,
    tokens: &'a str,
}
