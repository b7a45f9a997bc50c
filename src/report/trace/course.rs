//! What a prompt took: its critical path, and how near it came to the least
//! time it could have taken.
//!
//! The critical path is found from the end backwards: whatever ended last is
//! what the rest had waited for, so the path goes on from where that began.
//! Where a unit waited for those it had started, the path goes through the one
//! of them that ended last. Its legs follow on each other without a gap, so
//! they add up to the time of the prompt.

use crate::event::{Invocation, UnitId, UnixMillis};

use super::{Activity, Span, SpanKind, Trace, TraceFacts, UnitTrace};

/// How deep the path goes down from parents to children. Far deeper than units
/// may start units, so only a log that was made up reaches it.
const DEPTH_CAP: u32 = 64;

/// What a prompt took.
#[derive(Debug, Clone, PartialEq)]
pub struct Course {
    /// Which prompt.
    pub invocation: Invocation,
    /// When it began.
    pub from: UnixMillis,
    /// When it was over, or how far it has come.
    pub to: UnixMillis,
    /// The time of all units that ran meanwhile, added up, in milliseconds. What
    /// holds steps, or was answered before, is at no work.
    pub work_ms: u64,
    /// The most of those that ran at once.
    pub most_at_once: u64,
    /// What determined its end, first leg first.
    pub path: Vec<Leg>,
}

/// A piece of the critical path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leg {
    /// What took the time.
    pub kind: LegKind,
    /// Where.
    pub unit: UnitId,
    /// In which span; `None` between spans.
    pub span: Option<usize>,
    /// Since when.
    pub from: UnixMillis,
    /// Until when.
    pub to: UnixMillis,
}

/// What a leg of the critical path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LegKind {
    /// A model answered.
    Request,
    /// A tool ran.
    Call,
    /// tine itself was at work between requests and calls.
    Own,
    /// A unit waited for a permit.
    Queued,
    /// A request waited before it went out.
    Throttled,
    /// A person was asked.
    Asking,
}

impl LegKind {
    /// Every kind.
    pub const ALL: [Self; 6] =
        [Self::Request, Self::Call, Self::Own, Self::Queued, Self::Throttled, Self::Asking];

    /// Returns the name used in the trace's forms.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Call => "call",
            Self::Own => "own",
            Self::Queued => "queued",
            Self::Throttled => "throttled",
            Self::Asking => "asking",
        }
    }

    /// Tells whether something is done meanwhile.
    #[must_use]
    pub fn is_work(self) -> bool {
        match self {
            Self::Request | Self::Call | Self::Own => true,
            Self::Queued | Self::Throttled | Self::Asking => false,
        }
    }
}

impl Course {
    /// Returns how long the prompt took, in milliseconds.
    #[must_use]
    pub fn took_ms(&self) -> u64 {
        self.to.since(self.from)
    }

    /// Returns how long the path was in legs of a kind, in milliseconds.
    #[must_use]
    pub fn path_ms(&self, kind: LegKind) -> u64 {
        let legs = self.path.iter().filter(|leg| leg.kind == kind);
        legs.map(|leg| leg.to.since(leg.from)).sum()
    }

    /// Returns the least time it could have taken, in milliseconds: with all the
    /// work spread evenly over as many units as ran at once at the most, but no
    /// less than what had to be done one after the other on the critical path.
    #[must_use]
    pub fn ideal_ms(&self) -> u64 {
        let spread = self.work_ms.div_ceil(self.most_at_once.max(1));
        let path = LegKind::ALL.into_iter().filter(|kind| kind.is_work());
        spread.max(path.map(|kind| self.path_ms(kind)).sum())
    }

    /// Returns how many times as fast it was as one unit after the other would
    /// have been.
    #[must_use]
    pub fn speed_up(&self) -> f64 {
        ratio(self.work_ms, self.took_ms())
    }

    /// Returns the share of the speed-up that was reached of the one in the
    /// least time.
    #[must_use]
    pub fn share_of_ideal(&self) -> f64 {
        ratio(self.ideal_ms(), self.took_ms())
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}

impl Trace {
    /// Returns what each prompt took, in their order.
    #[must_use]
    pub fn courses(&self, facts: &TraceFacts) -> Vec<Course> {
        let end = self.end(facts);
        let mut finder = Finder::new(self, end);
        let next = self.prompts.iter().skip(1).map(|next| next.from).chain([UnixMillis(u64::MAX)]);
        let mut courses = Vec::new();
        for (prompt, next) in self.prompts.iter().zip(next) {
            let to = prompt.to.unwrap_or(end).min(next).max(prompt.from);
            let path = finder.path(prompt.from, to);
            let invocation = prompt.invocation;
            let from = prompt.from;
            courses.push(Course { invocation, from, to, work_ms: 0, most_at_once: 0, path });
        }
        self.add_work(&mut courses, end);
        courses
    }

    /// Adds up what ran during each prompt, in one pass over time.
    fn add_work(&self, courses: &mut [Course], end: UnixMillis) {
        let mut changes: Vec<(UnixMillis, i64)> = Vec::new();
        let at_work = self.units.iter().filter(|unit| unit.works());
        for doing in at_work.flat_map(|unit| &unit.doing) {
            if doing.activity == Activity::Running {
                changes.push((doing.from, 1));
                changes.push((doing.to.unwrap_or(end).max(doing.from), -1));
            }
        }
        // At one time those that end come first: they do not run together with
        // those that begin.
        changes.sort_unstable();
        let mut changes = changes.into_iter().peekable();
        let mut running: i64 = 0;
        for course in courses {
            let mut at = course.from;
            while let Some((_, by)) = changes.next_if(|(time, _)| *time < course.from) {
                running += by;
            }
            loop {
                let change = changes.next_if(|(time, _)| *time < course.to);
                let until = change.map_or(course.to, |(time, _)| time);
                if until > at {
                    let count = u64::try_from(running).unwrap_or(0);
                    course.work_ms += count * until.since(at);
                    course.most_at_once = course.most_at_once.max(count);
                }
                at = until;
                let Some((_, by)) = change else { break };
                running += by;
            }
        }
    }
}

/// Finds critical paths.
struct Finder<'a> {
    trace: &'a Trace,
    end: UnixMillis,
    /// For each unit that was looked at: what it did, and its children, each in
    /// the order of their ends.
    sorted: Vec<Option<Sorted>>,
    /// The last leg first.
    legs: Vec<Leg>,
}

#[derive(Default)]
struct Sorted {
    spans: Vec<usize>,
    children: Vec<usize>,
}

/// A time in a unit.
#[derive(Clone, Copy)]
struct Window {
    unit: usize,
    from: UnixMillis,
    to: UnixMillis,
    depth: u32,
}

impl<'a> Finder<'a> {
    fn new(trace: &'a Trace, end: UnixMillis) -> Self {
        let sorted = trace.units.iter().map(|_| None).collect();
        Self { trace, end, sorted, legs: Vec::new() }
    }

    fn path(&mut self, from: UnixMillis, to: UnixMillis) -> Vec<Leg> {
        if let Some(&unit) = self.trace.places.get(&UnitId::MAIN) {
            self.unit(Window { unit, from, to, depth: 0 });
        }
        let mut legs = std::mem::take(&mut self.legs);
        legs.reverse();
        legs
    }

    /// Goes back through what a unit did.
    fn unit(&mut self, window: Window) {
        let Window { unit, from, to, depth: _ } = window;
        let spans = std::mem::take(&mut self.sort(unit).spans);
        let mut at = to;
        let mut left = spans.partition_point(|&span| self.ended(&self.trace.spans[span]) <= to);
        while at > from {
            let Some(&place) = left.checked_sub(1).and_then(|last| spans.get(last)) else { break };
            left -= 1;
            let span = &self.trace.spans[place];
            let ended = self.ended(span);
            if ended <= from {
                break;
            }
            // What was still going on when the path's own span began is none
            // that it had waited for.
            if ended > at {
                continue;
            }
            self.between(Window { from: ended, to: at, ..window }, None);
            let began = span.from.max(from).min(ended);
            self.span(Window { from: began, to: ended, ..window }, span);
            at = began;
        }
        self.between(Window { from, to: at, ..window }, None);
        self.sort(unit).spans = spans;
    }

    fn span(&mut self, window: Window, span: &Span) {
        let kind = match span.kind {
            SpanKind::Request | SpanKind::Compaction => LegKind::Request,
            SpanKind::Wait => LegKind::Throttled,
            SpanKind::Question => LegKind::Asking,
            SpanKind::Hook => LegKind::Own,
            SpanKind::Call if !crate::tool_name::may_wait_for_agents(&span.name) => LegKind::Call,
            SpanKind::Call | SpanKind::Prompt | SpanKind::News | SpanKind::Mark => {
                return self.between(window, Some(span.id));
            }
        };
        self.leg(kind, window, Some(span.id));
    }

    /// Goes back through a time in which a unit did nothing of its own, or
    /// waited for those that it had started.
    fn between(&mut self, window: Window, span: Option<usize>) {
        let Window { unit, from, to, depth } = window;
        if to <= from {
            return;
        }
        let trace = self.trace;
        let waits = trace.units[unit].waits(from, to);
        let children = std::mem::take(&mut self.sort(unit).children);
        let mut at = to;
        let mut left = children.partition_point(|&child| self.over(child) <= to);
        while at > from && depth < DEPTH_CAP {
            let Some(&place) = left.checked_sub(1).and_then(|last| children.get(last)) else {
                break;
            };
            left -= 1;
            let (child, over) = (&trace.units[place], self.over(place));
            if over <= from {
                break;
            }
            if over > at || (child.is_beside() && !waits) {
                continue;
            }
            self.leg(LegKind::Own, Window { from: over, to: at, ..window }, span);
            at = self.child(Window { unit: place, from, to: over, depth: depth + 1 });
        }
        self.leg(LegKind::Own, Window { from, to: at, ..window }, span);
        self.sort(unit).children = children;
    }

    /// Goes back through a child, and returns when it was declared.
    fn child(&mut self, window: Window) -> UnixMillis {
        let Window { unit, from, to, depth: _ } = window;
        let child = &self.trace.units[unit];
        let started = child.started.unwrap_or(to).clamp(from, to);
        let queued = child.queued.clamp(from, started);
        self.unit(Window { from: started, ..window });
        self.leg(LegKind::Queued, Window { from: queued, to: started, ..window }, None);
        queued
    }

    fn leg(&mut self, kind: LegKind, window: Window, span: Option<usize>) {
        let Window { unit, from, to, depth: _ } = window;
        if to > from {
            let unit = self.trace.units[unit].id;
            self.legs.push(Leg { kind, unit, span, from, to });
        }
    }

    fn sort(&mut self, unit: usize) -> &mut Sorted {
        let (trace, end) = (self.trace, self.end);
        self.sorted[unit].get_or_insert_with(|| {
            let UnitTrace { spans, children, .. } = &trace.units[unit];
            let takes_time = |span: &&usize| {
                let Span { from, to, .. } = &trace.spans[**span];
                to.unwrap_or(end) > *from
            };
            let mut spans: Vec<usize> = spans.iter().filter(takes_time).copied().collect();
            // Of those that end together, the one that began last comes last.
            spans.sort_by_key(|&span| {
                let Span { from, to, .. } = &trace.spans[span];
                (to.unwrap_or(end), *from)
            });
            let mut children = children.clone();
            children.sort_by_key(|&child| trace.units[child].ended.unwrap_or(end));
            Sorted { spans, children }
        })
    }

    fn ended(&self, span: &Span) -> UnixMillis {
        span.to.unwrap_or(self.end)
    }

    fn over(&self, unit: usize) -> UnixMillis {
        self.trace.units[unit].ended.unwrap_or(self.end)
    }
}

impl UnitTrace {
    /// Tells whether it waited for units that it had started, at some time
    /// between these.
    fn waits(&self, from: UnixMillis, to: UnixMillis) -> bool {
        let is_before = |doing: &super::Doing| doing.to.is_some_and(|end| end <= from);
        let first = self.doing.partition_point(is_before);
        let mut doing = self.doing[first..].iter().take_while(|doing| doing.from < to);
        doing.any(|doing| doing.activity == Activity::Waiting)
    }
}
