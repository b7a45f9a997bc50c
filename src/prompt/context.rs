//! What a unit is told of others: who asked, said and found what before it was
//! prompted, each part from the one it names.
//!
//! [`Context`] folds the parts from the events of a session and gives those
//! that a viewer may see; [`context`] writes them down. The dispatcher keeps a
//! fold for units that run, and the log gives the same one again, so the two
//! texts cannot differ. A part is cut when it is taken, and goes when a summary
//! takes its place: what nobody will be told is not held.

mod apart;
mod excerpt;
mod speaker;
mod views;
mod written;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use excerpt::{Excerpt, one_line};
use speaker::Speaker;
use views::Views;

use crate::branch::{RootJoins, Sight, TokenSet};
use crate::event::{
    Compaction, Event, EventKind, FlowHead, Invocation, Origin, Outcome, Seq, UnitEnd, UnitHead,
    UnitId,
};
use crate::message::{Call, CallId, Output, Prompt, Reply};

pub use apart::SaidApart;
pub use written::context;

/// Most characters of all parts together. As much as an Agent call's output:
/// both stand for the work of many turns of others.
pub const CONTEXT_CAP: usize = 64_000;

/// Most characters of what the user asked for.
const REQUEST_CAP: usize = 32_000;

/// Most characters of an answer, a summary or an error.
const ANSWER_CAP: usize = 8_000;

/// Most characters of an error; what a unit had written by then comes behind.
const ERROR_CAP: usize = ANSWER_CAP / 2;

/// Most characters of a call's output. It tells what was looked at; what came
/// of it is in the answer.
const EXCERPT_CAP: usize = 1_000;

/// Most characters of a call's arguments.
const CALL_CAP: usize = 200;

/// Most characters of a name.
const NAME_CAP: usize = 80;

/// Characters that every part keeps, however many there are. With less a text
/// says nothing, so the oldest parts are left out instead.
const SHARE_FLOOR: usize = 200;

/// How many strands are told apart from what those before them see; what lies
/// deeper is looked for among all parts.
const DEEPEST: usize = 8;

/// One part of what a unit is told of others.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    seq: Seq,
    unit: UnitId,
    invocation: Invocation,
    tokens: TokenSet,
    from: Arc<str>,
    part: Part,
    text: Excerpt,
}

/// The sorts of part.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// The user's request.
    Asked,
    /// An answer, or how a unit ended badly.
    Said,
    /// A call, in one line, and its output.
    Called(Box<str>),
    /// A summary of what the same unit did before that event.
    SummedUp {
        /// The event.
        before: Seq,
    },
}

/// All that units of a session could be told of each other: a fold over its
/// events.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// In the order of the events; an event gives at most one part.
    said: BTreeMap<Seq, Arc<Said>>,
    /// Which of them are requests of the user, or main's summaries in the place
    /// of some: few, so that the last one is found however much was said since.
    requests: BTreeSet<Seq>,
    /// The flows that were walked, by the invocation that each was.
    walks: BTreeMap<Invocation, Arc<str>>,
    joins: Arc<RootJoins>,
    speakers: HashMap<UnitId, Speaker>,
    views: Views,
}

impl Context {
    /// Takes note of an event.
    pub fn take(&mut self, event: &Event) {
        match &event.kind {
            EventKind::UnitQueued(head) => self.queued(event.unit, head),
            EventKind::Prompted(prompt) => self.prompted(event, prompt),
            EventKind::Notified { .. } => {
                // Each of those units speaks for itself.
                self.speaker(event.unit).prompts.push(event.seq);
            }
            EventKind::Replied(replied) => self.replied(event, &replied.reply),
            EventKind::ToolFinished { call, tool, output, took_ms: _ } => {
                self.finished(event, call, tool, output);
            }
            EventKind::Compacted(compaction) => self.compacted(event, compaction),
            EventKind::UnitEnded(end) => self.ended(event, end),
            EventKind::Lost { worker: _, attempt: _ } => self.lost(event.unit),
            EventKind::Rewound { to } => self.rewound(*to),
            EventKind::Walked(head) => self.walked(event, head),
            EventKind::Joined { children: _ } => self.joined(event),
            EventKind::SessionOpened(_)
            | EventKind::InvocationStarted { .. }
            | EventKind::UnitStarted
            | EventKind::TurnStarted { turn: _ }
            | EventKind::PrefixShared(_)
            | EventKind::Throttled(_)
            | EventKind::Admitted { waited_ms: _ }
            | EventKind::RequestFailed(_)
            | EventKind::ToolStarted { .. }
            | EventKind::FileChanged(_)
            | EventKind::Worktree(_)
            | EventKind::HookRan(_)
            | EventKind::Denied { call: _, tool: _, arguments: _, reason: _ }
            | EventKind::Asked { .. }
            | EventKind::Answered { .. }
            | EventKind::UserWrote { .. }
            | EventKind::UserTookBack
            | EventKind::SetAside { .. }
            | EventKind::Chosen(_)
            | EventKind::Offered(_)
            | EventKind::Left
            | EventKind::Notice { level: _, text: _ }
            | EventKind::InvocationEnded(_) => {}
        }
    }

    /// Returns what `viewer` sees of other units, oldest first, if it works in
    /// `invocation` and has `tokens` there.
    ///
    /// Not all of it, if that is more than [`context`] has room for: the newest
    /// parts, more than fit by one, and the user's last request. A flow of many
    /// steps would else go through all that was ever said at each of them.
    #[must_use]
    pub fn seen_by(
        &mut self,
        viewer: UnitId,
        invocation: Invocation,
        tokens: &TokenSet,
    ) -> Vec<Arc<Said>> {
        let look = Look::new(Some(viewer), self.sight(invocation, tokens));
        let mut seen = match self.near(invocation, tokens, DEEPEST) {
            // What it has said itself has taken room there.
            Some(near) if near.iter().all(|said| said.unit != viewer) => {
                self.told(look, near.iter())
            }
            Some(_) | None => self.looked_for(look),
        };
        seen.reverse();
        seen
    }

    fn sight(&self, invocation: Invocation, tokens: &TokenSet) -> Sight {
        Sight::new(invocation, tokens.clone(), Arc::clone(&self.joins))
    }

    /// Returns what tokens let see, from the newest back.
    fn view(
        &mut self,
        invocation: Invocation,
        tokens: &TokenSet,
        depth: usize,
    ) -> Arc<[Arc<Said>]> {
        if let Some(seen) = self.views.find(invocation, tokens) {
            return seen;
        }
        let sight = self.sight(invocation, tokens);
        let look = Look::new(None, sight.clone());
        let seen: Arc<[Arc<Said>]> = match self.near(invocation, tokens, depth) {
            Some(near) => self.told(look, near.iter()),
            None => self.looked_for(look),
        }
        .into();
        self.views.keep(sight, Arc::clone(&seen));
        seen
    }

    /// Looks through all parts for what somebody is told.
    fn looked_for(&self, look: Look) -> Vec<Arc<Said>> {
        self.told(look, self.said.values().rev())
    }

    /// Returns what was said on the strand of the last of the tokens and what the
    /// others let see, from the newest back: all that can be told to whoever has
    /// them, as far as there is room. `None` if that has to be looked for among all
    /// parts.
    fn near(
        &mut self,
        invocation: Invocation,
        tokens: &TokenSet,
        depth: usize,
    ) -> Option<Vec<Arc<Said>>> {
        let depth = depth.checked_sub(1)?;
        let (last, others) = tokens.split_last()?;
        let base = self.view(invocation, &others, depth);
        let mut look = Look::new(None, self.sight(invocation, tokens));
        let own = fitting(&mut look, self.views.on(invocation, last).map(|seq| &self.said[&seq]));
        views::merged(own, &base)
    }

    /// Returns what somebody is told of parts that come from the newest back, as far
    /// as there is room, and of the user's last request.
    fn told<'a>(
        &self,
        mut look: Look,
        parts: impl Iterator<Item = &'a Arc<Said>>,
    ) -> Vec<Arc<Said>> {
        let mut seen = fitting(&mut look, parts);
        let is_request = |said: &Arc<Said>| said.part == Part::Asked;
        if let Some(oldest) =
            seen.last().map(|said| said.seq).filter(|_| !seen.iter().any(is_request))
        {
            let older = self.requests.range(..oldest).rev().map(|seq| &self.said[seq]);
            seen.extend(
                older.filter(|said| look.finds(said)).find(|said| is_request(said)).cloned(),
            );
        }
        seen
    }

    fn queued(&mut self, unit: UnitId, head: &UnitHead) {
        // It says nothing: those whose branch it holds speak for themselves.
        let is_silent = head.origin == Origin::Steps;
        let is_reused = matches!(head.origin, Origin::Reused(_));
        let name = one_line(&head.description, NAME_CAP).into();
        let parent = Some(head.parent);
        let speaker = Speaker { name, is_silent, is_reused, parent, ..Speaker::default() };
        self.speakers.insert(unit, speaker);
    }

    /// What other agents were asked is between them and their parents; what
    /// the user asked is what all of them work on.
    fn prompted(&mut self, event: &Event, prompt: &Prompt) {
        self.speaker(event.unit).prompts.push(event.seq);
        if event.unit == UnitId::MAIN {
            let text = prompt.text_with(|_| super::unseen_image().to_owned());
            self.add(event, Part::Asked, &text);
        }
    }

    fn replied(&mut self, event: &Event, reply: &Arc<Reply>) {
        let line = |call: &Call| {
            let arguments = one_line(&call.arguments, CALL_CAP);
            (call.id.clone(), format!("{} {arguments}", one_line(&call.tool, NAME_CAP)).into())
        };
        let speaker = self.speaker(event.unit);
        speaker.open_calls = reply.calls.iter().map(line).collect();
        speaker.answer = Some(Arc::clone(reply));
        if !reply.text.trim().is_empty() {
            self.add(event, Part::Said, &reply.text);
        }
    }

    fn finished(&mut self, event: &Event, call: &CallId, tool: &str, output: &Output) {
        let open = self.speaker(event.unit).open_calls.remove(call);
        let mut line = open.unwrap_or_else(|| tool.into()).into_string();
        if output.is_error {
            line.push_str(" (failed)");
        }
        self.add(event, Part::Called(line.into()), &output.text);
    }

    fn compacted(&mut self, event: &Event, compaction: &Compaction) {
        let Speaker { prompts, parts, .. } = self.speaker(event.unit);
        let kept = compaction.kept_prompts as usize;
        let before = match prompts.len().checked_sub(kept) {
            Some(place) => prompts.get(place).copied().unwrap_or(event.seq),
            None => Seq(0),
        };
        let parts = std::mem::take(parts);
        // Who sees the summary sees these, and the other way round. What the
        // unit did before it joined others may be seen without its summary.
        let is_replaced = |said: &Said| {
            said.seq < before
                && said.invocation == event.invocation
                && said.tokens == event.branch.tokens
        };
        let (replaced, held) = parts.into_iter().partition(|seq| is_replaced(&self.said[seq]));
        self.speaker(event.unit).parts = held;
        self.forget(replaced);
        self.add(event, Part::SummedUp { before }, &compaction.text);
    }

    /// Nobody is told what main has gone back behind. Its last summary stays:
    /// nothing goes back behind that.
    fn rewound(&mut self, to: Seq) {
        let Speaker { prompts, parts, .. } = self.speaker(UnitId::MAIN);
        prompts.retain(|seq| *seq <= to);
        let parts = std::mem::take(parts);
        let is_summary = |said: &Said| matches!(said.part, Part::SummedUp { before: _ });
        let last = parts.iter().rev().find(|seq| is_summary(&self.said[seq])).copied();
        let to = to.max(last.unwrap_or(to));
        let (held, dropped) = parts.into_iter().partition(|seq| *seq <= to);
        self.speaker(UnitId::MAIN).parts = held;
        self.forget(dropped);
    }

    /// Of a flow that goes on nobody is told what earlier walks of it came to:
    /// what still counts of that is said again, in its place.
    fn walked(&mut self, event: &Event, head: &FlowHead) {
        self.walks.insert(event.invocation, Arc::clone(&head.name));
        if !head.goes_on {
            return;
        }
        let is_before = |said: &Said| {
            said.invocation < event.invocation
                && self.walks.get(&said.invocation) == Some(&head.name)
        };
        let parts = self.said.iter().filter(|(_, said)| is_before(said)).map(|(seq, _)| *seq);
        let parts: BTreeSet<Seq> = parts.collect();
        for speaker in self.speakers.values_mut() {
            speaker.parts.retain(|seq| !parts.contains(seq));
        }
        self.forget(parts);
    }

    fn joined(&mut self, event: &Event) {
        if event.unit == UnitId::MAIN {
            // First: they hold the joins, which would be copied.
            self.views.joined();
            Arc::make_mut(&mut self.joins).take(event);
        }
    }

    fn forget(&mut self, parts: impl IntoIterator<Item = Seq>) {
        for seq in parts {
            self.requests.remove(&seq);
            if let Some(said) = self.said.remove(&seq) {
                self.views.dropped(&said);
            }
        }
    }

    fn ended(&mut self, event: &Event, end: &UnitEnd) {
        let speaker = self.speaker(event.unit);
        let (is_silent, is_reused) = (speaker.is_silent, speaker.is_reused);
        let was_said = speaker.answer.as_ref().is_some_and(|answer| *answer.text == *end.text);
        if let Some(reason) = bad_end(&end.outcome).filter(|_| !is_silent) {
            let mut text = format!("[{}]", Excerpt::of(&reason, ERROR_CAP).text(usize::MAX));
            if !was_said && !end.text.trim().is_empty() {
                text.push_str("\n\nPartial result:\n\n");
                text.push_str(&end.text);
            }
            self.add(event, Part::Said, &text);
        } else if is_reused && !end.text.trim().is_empty() {
            self.add(event, Part::Said, &end.text);
        }
        let Some(Speaker { parent, parts, below, .. }) = self.speakers.remove(&event.unit) else {
            return;
        };
        let parent = parent.filter(|parent| *parent != UnitId::MAIN);
        if let Some(parent) = parent.and_then(|parent| self.speakers.get_mut(&parent)) {
            parent.below.extend(parts.into_iter().chain(below));
        }
    }

    /// Nobody is told what a unit did, and what it had started, when it was lost
    /// with its worker: it begins anew.
    fn lost(&mut self, unit: UnitId) {
        let Some(speaker) = self.speakers.get_mut(&unit) else { return };
        let said = speaker.begins_anew();
        self.forget(said);
    }

    fn add(&mut self, event: &Event, part: Part, text: &str) {
        let speaker = self.speaker(event.unit);
        speaker.parts.push(event.seq);
        let name = Arc::clone(&speaker.name);
        let (from, cap, is_request) = match &part {
            Part::Asked => ("user".into(), REQUEST_CAP, true),
            Part::SummedUp { before: _ } => (name, ANSWER_CAP, event.unit == UnitId::MAIN),
            Part::Said => (name, ANSWER_CAP, false),
            Part::Called(_) => (name, EXCERPT_CAP, false),
        };
        if is_request {
            self.requests.insert(event.seq);
        }
        let said = Said {
            seq: event.seq,
            unit: event.unit,
            invocation: event.invocation,
            tokens: event.branch.tokens.clone(),
            from,
            part,
            text: Excerpt::of(text, cap),
        };
        self.views.said(&said);
        self.said.insert(event.seq, Arc::new(said));
    }

    fn speaker(&mut self, unit: UnitId) -> &mut Speaker {
        let unnamed = || Speaker { name: unit.to_string().into(), ..Speaker::default() };
        self.speakers.entry(unit).or_insert_with(unnamed)
    }
}

impl<'a> FromIterator<&'a Event> for Context {
    fn from_iter<I: IntoIterator<Item = &'a Event>>(events: I) -> Self {
        let mut context = Self::default();
        events.into_iter().for_each(|event| context.take(event));
        context
    }
}

/// Returns the parts that a look finds, from the newest back: more than there is
/// room for by one.
fn fitting<'a>(look: &mut Look, parts: impl Iterator<Item = &'a Arc<Said>>) -> Vec<Arc<Said>> {
    let mut seen = Vec::new();
    let mut room = CONTEXT_CAP;
    for said in parts.filter(|said| look.finds(said)) {
        seen.push(Arc::clone(said));
        match room.checked_sub(said.least()) {
            Some(rest) => room = rest,
            None => break,
        }
    }
    seen
}

/// One viewer's way through the parts, from the newest back.
struct Look {
    /// Who is not told its own words; `None` if it is for several.
    viewer: Option<UnitId>,
    sight: Sight,
    /// What each unit did before that event stands in a summary found already.
    summed_up: HashMap<UnitId, Seq>,
}

impl Look {
    fn new(viewer: Option<UnitId>, sight: Sight) -> Self {
        Self { viewer, sight, summed_up: HashMap::new() }
    }

    /// Tells whether the viewer is told a part that is older than all those
    /// that were asked about before.
    fn finds(&mut self, said: &Said) -> bool {
        let Said { seq, unit, .. } = said;
        if Some(*unit) == self.viewer
            || self.summed_up.get(unit).is_some_and(|before| seq < before)
            || !self.sight.sees(said.invocation, &said.tokens)
        {
            return false;
        }
        if let Part::SummedUp { before } = said.part {
            let known = self.summed_up.entry(*unit).or_insert(before);
            *known = before.max(*known);
        }
        true
    }
}

/// Says how a unit ended; `None` if well: then its answer says the rest.
pub(super) fn bad_end(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Done { text: _ } => None,
        Outcome::Failed(failure) => Some(format!("failed: {}", failure.message)),
        Outcome::Cancelled { ran: true } => Some("cancelled while it ran".to_owned()),
        Outcome::Cancelled { ran: false } => Some("cancelled before it started".to_owned()),
        Outcome::Interrupted => Some("interrupted: the process ended".to_owned()),
    }
}

#[cfg(test)]
mod tests;
