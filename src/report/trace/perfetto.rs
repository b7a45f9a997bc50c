//! A trace in Chrome's trace format, which Perfetto and `chrome://tracing` open.
//!
//! Each unit is a process: its first thread says what it was doing, the others
//! hold its spans, as many as it takes for those that overlap. Arrows lead from
//! where branches part to the children and back.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::event::{UnitId, UnixMillis};

use super::super::lines;
use super::record::UsageRecord;
use super::{Activity, MeetingKind, Span, SpanKind, Trace, TraceFacts, UnitTrace};

/// The thread that says what a unit was doing.
const DOING: u64 = 0;

impl Trace {
    /// Returns it as one JSON object and a line feed. What a terminal would obey
    /// or hide is escaped.
    #[must_use]
    pub fn perfetto(&self, facts: &TraceFacts) -> Vec<u8> {
        let session = self.head.as_ref().map_or(&facts.session, |head| &head.session.0);
        let mut file = Chrome { first: self.first(), end: self.end(facts), events: Vec::new() };
        for (place, unit) in self.units.iter().enumerate() {
            file.unit(self, place as u64, unit);
        }
        file.arrows(self);
        file.counts(self);
        let whole = Whole {
            other: Other { format: super::MARK, session },
            unit: "ms",
            events: file.events,
        };
        let mut line = Vec::new();
        lines::write(&whole, &mut line)
            .expect("text and numbers are always JSON, and a buffer takes every write");
        line
    }
}

#[derive(Serialize)]
struct Whole<'a> {
    #[serde(rename = "otherData")]
    other: Other<'a>,
    #[serde(rename = "displayTimeUnit")]
    unit: &'static str,
    #[serde(rename = "traceEvents")]
    events: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Other<'a> {
    format: &'static str,
    session: &'a str,
}

/// An event of Chrome's; times are microseconds.
#[derive(Serialize, Default)]
struct Entry<'a> {
    name: &'a str,
    cat: &'static str,
    ph: &'static str,
    ts: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<u64>,
    pid: u64,
    tid: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    /// Where an arrow ends: in what goes on then.
    #[serde(skip_serializing_if = "Option::is_none")]
    bp: Option<&'static str>,
    args: Args<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Args<'a> {
    Named { name: String },
    Sorted { sort_index: u64 },
    Span(Box<SpanArgs<'a>>),
    Counts(BTreeMap<&'static str, u64>),
    None {},
}

impl Default for Args<'_> {
    fn default() -> Self {
        Self::None {}
    }
}

#[derive(Serialize)]
struct SpanArgs<'a> {
    kind: &'static str,
    about: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<UsageRecord>,
    #[serde(flatten)]
    texts: BTreeMap<&'static str, &'a str>,
}

/// The events so far.
struct Chrome<'a> {
    first: UnixMillis,
    end: UnixMillis,
    events: Vec<Entry<'a>>,
}

impl<'a> Chrome<'a> {
    fn micros(&self, at: UnixMillis) -> u64 {
        at.since(self.first).saturating_mul(1_000)
    }

    fn unit(&mut self, trace: &'a Trace, place: u64, unit: &'a UnitTrace) {
        let pid = process(unit.id);
        let name = match &unit.head {
            Some(head) => format!("{} {} ({})", unit.id, head.description, head.agent),
            None => unit.id.to_string(),
        };
        self.tell("process_name", (pid, DOING), Args::Named { name });
        self.tell("process_sort_index", (pid, DOING), Args::Sorted { sort_index: place });
        self.tell("thread_name", (pid, DOING), Args::Named { name: "state".to_owned() });
        for doing in &unit.doing {
            let (ts, end) = (self.micros(doing.from), self.micros(doing.to.unwrap_or(self.end)));
            self.events.push(Entry {
                name: doing.activity.as_str(),
                cat: "state",
                ph: "X",
                ts,
                dur: Some(end.saturating_sub(ts)),
                pid,
                tid: DOING,
                ..Entry::default()
            });
        }
        self.spans(trace, pid, unit);
    }

    /// Puts each span into the first thread that is free by then.
    fn spans(&mut self, trace: &'a Trace, pid: u64, unit: &'a UnitTrace) {
        let mut spans: Vec<&Span> = unit.spans.iter().map(|&place| &trace.spans[place]).collect();
        spans.sort_by_key(|span| (span.from, span.id));
        let mut free: Vec<UnixMillis> = Vec::new();
        for span in spans {
            let to = span.to.unwrap_or(self.end).max(span.from);
            let lane = free.iter().position(|free| *free <= span.from).unwrap_or_else(|| {
                free.push(UnixMillis::default());
                let (lane, name) = (free.len() as u64, "work".to_owned());
                self.tell("thread_name", (pid, lane), Args::Named { name });
                free.len() - 1
            });
            free[lane] = to;
            let (ts, end) = (self.micros(span.from), self.micros(to));
            let is_moment = ts == end;
            self.events.push(Entry {
                name: title(span),
                cat: span.kind.as_str(),
                ph: if is_moment { "i" } else { "X" },
                ts,
                dur: (!is_moment).then(|| end.saturating_sub(ts)),
                pid,
                tid: lane as u64 + 1,
                args: Args::Span(Box::new(SpanArgs {
                    kind: span.kind.as_str(),
                    about: &span.about,
                    failed: span.failed.as_deref(),
                    usage: span.usage.map(UsageRecord::from),
                    texts: span.texts.iter().map(|it| (it.label.as_str(), &*it.text)).collect(),
                })),
                ..Entry::default()
            });
        }
    }

    /// Leads from where branches part to the children, and from their ends to
    /// where they come back.
    fn arrows(&mut self, trace: &'a Trace) {
        let mut id = 0;
        for meeting in &trace.meetings {
            let at = self.micros(meeting.at);
            for child in meeting.children.iter().filter_map(|child| trace.unit(*child)) {
                let (start, end) = match meeting.kind {
                    MeetingKind::Join => {
                        let over = self.micros(child.ended.unwrap_or(meeting.at)).min(at);
                        ((child.id, over), (meeting.unit, at))
                    }
                    MeetingKind::Split | MeetingKind::Step => {
                        ((meeting.unit, at), (child.id, self.micros(child.queued).max(at)))
                    }
                };
                let name = meeting.kind.as_str();
                id += 1;
                for (ph, (unit, ts)) in [("s", start), ("f", end)] {
                    let bp = (ph == "f").then_some("e");
                    let (pid, tid, id) = (process(unit), DOING, Some(id));
                    let cat = "branch";
                    let entry = Entry { name, cat, ph, ts, pid, tid, id, bp, ..Entry::default() };
                    self.events.push(entry);
                }
            }
        }
    }

    /// Counts what units are doing that ask models, over time.
    fn counts(&mut self, trace: &'a Trace) {
        let mut changes: BTreeMap<u64, Vec<(Activity, i64)>> = BTreeMap::new();
        let at_work = trace.units.iter().filter(|unit| unit.works());
        for doing in at_work.flat_map(|unit| &unit.doing) {
            changes.entry(self.micros(doing.from)).or_default().push((doing.activity, 1));
            if let Some(to) = doing.to {
                changes.entry(self.micros(to)).or_default().push((doing.activity, -1));
            }
        }
        let mut counts: BTreeMap<&'static str, i64> =
            Activity::ALL.into_iter().map(|activity| (activity.as_str(), 0)).collect();
        for (ts, changes) in changes {
            for (activity, by) in changes {
                *counts.entry(activity.as_str()).or_default() += by;
            }
            let counts =
                counts.iter().map(|(name, count)| (*name, (*count).max(0).cast_unsigned()));
            self.events.push(Entry {
                name: "agents",
                cat: "count",
                ph: "C",
                ts,
                pid: process(UnitId::MAIN),
                args: Args::Counts(counts.collect()),
                ..Entry::default()
            });
        }
    }

    fn tell(&mut self, name: &'static str, (pid, tid): (u64, u64), args: Args<'a>) {
        let cat = "__metadata";
        self.events.push(Entry { name, cat, ph: "M", pid, tid, args, ..Entry::default() });
    }
}

/// Chrome's tools take 0 for no process.
fn process(unit: UnitId) -> u64 {
    u64::from(unit.0) + 1
}

fn title(span: &Span) -> &str {
    match span.kind {
        SpanKind::Wait | SpanKind::Prompt | SpanKind::News | SpanKind::Question => {
            span.kind.as_str()
        }
        SpanKind::Request
        | SpanKind::Compaction
        | SpanKind::Call
        | SpanKind::Hook
        | SpanKind::Mark => match &*span.name {
            "" => span.kind.as_str(),
            name => name,
        },
    }
}
