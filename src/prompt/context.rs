//! What a unit is told of others: who asked, said and found what before it was
//! prompted, each part from the one it names.
//!
//! [`Context`] folds the parts from the events of a session and gives those
//! that a viewer may see; [`context`] writes them down. The dispatcher keeps a
//! fold for units that run, and the log gives the same one again, so the two
//! texts cannot differ. A part is cut when it is taken: what nobody will be
//! told is not held.

use std::collections::HashMap;
use std::sync::Arc;

use crate::branch::{RootJoins, Sight, TokenSet};
use crate::event::{
    Compaction, Event, EventKind, Invocation, Origin, Outcome, Seq, UnitEnd, UnitHead, UnitId,
};
use crate::message::{Call, CallId, Output, Reply};

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
enum Part {
    /// The user's request.
    Asked,
    /// An answer, or how a unit ended badly.
    Said,
    /// A call and its output.
    Called(Box<str>),
    /// A summary of what the same unit did before that event.
    SummedUp { before: Seq },
}

/// The head of a text.
#[derive(Debug, Clone, PartialEq)]
struct Excerpt {
    head: Box<str>,
    /// How many characters that is.
    length: usize,
    /// How many bytes are missing behind it.
    missing: usize,
}

/// All that units of a session could be told of each other: a fold over its
/// events.
#[derive(Debug, Clone, Default)]
pub struct Context {
    said: Vec<Arc<Said>>,
    joins: Arc<RootJoins>,
    speakers: HashMap<UnitId, Speaker>,
}

/// What is known of a unit that has not ended.
#[derive(Debug, Clone, Default)]
struct Speaker {
    name: Arc<str>,
    is_silent: bool,
    /// Its user messages: what a summary keeps is counted in them.
    prompts: Vec<Seq>,
    open_calls: HashMap<CallId, Box<str>>,
    /// Its last answer.
    answer: Option<Arc<Reply>>,
}

impl Context {
    /// Takes note of an event.
    pub fn take(&mut self, event: &Event) {
        match &event.kind {
            EventKind::UnitQueued(head) => self.queued(event.unit, head),
            EventKind::Prompted { text } => self.prompted(event, text),
            EventKind::Notified { children: _, text: _ } => {
                // Each of those units speaks for itself.
                self.speaker(event.unit).prompts.push(event.seq);
            }
            EventKind::Replied(replied) => self.replied(event, &replied.reply),
            EventKind::ToolFinished { call, tool, output, took_ms: _ } => {
                self.finished(event, call, tool, output);
            }
            EventKind::Compacted(compaction) => self.compacted(event, compaction),
            EventKind::UnitEnded(end) => self.ended(event, end),
            EventKind::Joined { children: _ } => Arc::make_mut(&mut self.joins).take(event),
            EventKind::SessionOpened(_)
            | EventKind::InvocationStarted { prompt: _ }
            | EventKind::UnitStarted
            | EventKind::TurnStarted { turn: _ }
            | EventKind::PrefixShared(_)
            | EventKind::ToolStarted { call: _, tool: _, subject: _ }
            | EventKind::Denied { call: _, tool: _, arguments: _, reason: _ }
            | EventKind::Notice { level: _, text: _ }
            | EventKind::InvocationEnded(_) => {}
        }
    }

    /// Returns what `viewer` sees of other units, oldest first, if it works in
    /// `invocation` and has `tokens` there.
    #[must_use]
    pub fn seen_by(
        &self,
        viewer: UnitId,
        invocation: Invocation,
        tokens: &TokenSet,
    ) -> Vec<Arc<Said>> {
        let sight = Sight::new(invocation, tokens.clone(), Arc::clone(&self.joins));
        let mut seen = Vec::new();
        for said in &self.said {
            if said.unit == viewer || !sight.sees(said.invocation, &said.tokens) {
                continue;
            }
            if let Part::SummedUp { before } = said.part {
                seen.retain(|old: &Arc<Said>| old.unit != said.unit || old.seq >= before);
            }
            seen.push(Arc::clone(said));
        }
        seen
    }

    fn queued(&mut self, unit: UnitId, head: &UnitHead) {
        // It says nothing: those whose branch it holds speak for themselves.
        let is_silent = head.origin == Origin::Steps;
        let name = one_line(&head.description, NAME_CAP).into();
        self.speakers.insert(unit, Speaker { name, is_silent, ..Speaker::default() });
    }

    /// What other agents were asked is between them and their parents; what
    /// the user asked is what all of them work on.
    fn prompted(&mut self, event: &Event, text: &str) {
        self.speaker(event.unit).prompts.push(event.seq);
        if event.unit == UnitId::MAIN {
            self.add(event, Part::Asked, text);
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
        let prompts = &self.speaker(event.unit).prompts;
        let kept = compaction.kept_prompts as usize;
        let before = match prompts.len().checked_sub(kept) {
            Some(place) => prompts.get(place).copied().unwrap_or(event.seq),
            None => Seq(0),
        };
        self.add(event, Part::SummedUp { before }, &compaction.text);
    }

    fn ended(&mut self, event: &Event, end: &UnitEnd) {
        let speaker = self.speaker(event.unit);
        let is_silent = speaker.is_silent;
        let was_said = speaker.answer.as_ref().is_some_and(|answer| *answer.text == *end.text);
        if let Some(reason) = bad_end(&end.outcome).filter(|_| !is_silent) {
            let mut text = format!("[{}]", Excerpt::of(&reason, ERROR_CAP).text(usize::MAX));
            if !was_said && !end.text.trim().is_empty() {
                text.push_str("\n\nPartial result:\n\n");
                text.push_str(&end.text);
            }
            self.add(event, Part::Said, &text);
        }
        self.speakers.remove(&event.unit);
    }

    fn add(&mut self, event: &Event, part: Part, text: &str) {
        let (from, cap) = match &part {
            Part::Asked => ("user".into(), REQUEST_CAP),
            Part::Said | Part::SummedUp { before: _ } => {
                (Arc::clone(&self.speaker(event.unit).name), ANSWER_CAP)
            }
            Part::Called(_) => (Arc::clone(&self.speaker(event.unit).name), EXCERPT_CAP),
        };
        self.said.push(Arc::new(Said {
            seq: event.seq,
            unit: event.unit,
            invocation: event.invocation,
            tokens: event.branch.tokens.clone(),
            from,
            part,
            text: Excerpt::of(text, cap),
        }));
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

/// Writes down what a unit sees of others; `None` if that is nothing.
///
/// The whole is bounded by [`CONTEXT_CAP`]: the longest parts are cut to the
/// same length, and if there are too many for that the oldest are left out,
/// but never the user's last request. What is missing is counted.
#[must_use]
pub fn context(said: &[Arc<Said>]) -> Option<String> {
    if said.is_empty() {
        return None;
    }
    let (kept, left_out) = fitting(said);
    let share = share(&kept);
    let mark = unused_mark(&kept);
    let mut parts: Vec<String> = kept.iter().map(|said| said.framed(&mark, share)).collect();
    if left_out > 0 {
        parts.insert(0, format!("[{left_out} older parts are left out]"));
    }
    let parts = parts.join("\n\n");
    Some(include_str!("../../prompts/context.md").trim_end().replace("{parts}", &parts))
}

/// Returns the parts that have room for [`SHARE_FLOOR`] characters each, and
/// how many others there are.
fn fitting(said: &[Arc<Said>]) -> (Vec<&Said>, usize) {
    let request = said.iter().rposition(|said| said.part == Part::Asked);
    let least = |said: &Said| said.frame() + said.text.length.min(SHARE_FLOOR);
    let mut room = CONTEXT_CAP.saturating_sub(request.map_or(0, |place| least(&said[place])));
    let mut kept: Vec<&Said> = Vec::new();
    for (place, said) in said.iter().enumerate().rev() {
        if Some(place) != request {
            match room.checked_sub(least(said)) {
                Some(rest) => room = rest,
                // Nothing that is older is let in behind a gap.
                None => {
                    room = 0;
                    continue;
                }
            }
        }
        kept.push(said);
    }
    kept.reverse();
    let left_out = said.len() - kept.len();
    (kept, left_out)
}

/// Returns the most characters of each part with which all of them fit.
fn share(kept: &[&Said]) -> usize {
    let frames: usize = kept.iter().map(|said| said.frame()).sum();
    let mut room = CONTEXT_CAP.saturating_sub(frames);
    let mut lengths: Vec<usize> = kept.iter().map(|said| said.text.length).collect();
    lengths.sort_unstable();
    for (shorter, length) in lengths.iter().enumerate() {
        let share = room / (lengths.len() - shorter);
        if *length > share {
            return share;
        }
        room -= length;
    }
    usize::MAX
}

/// Returns what makes a closing tag that none of the parts holds.
fn unused_mark(kept: &[&Said]) -> String {
    let mut mark = String::new();
    let holds = |mark: &str| {
        let tags = [format!("</said{mark}>"), format!("</output{mark}>")];
        let held = |text: &str| tags.iter().any(|tag| text.contains(tag));
        kept.iter().any(|said| held(&said.from) || held(said.call()) || held(&said.text.head))
    };
    while holds(&mark) {
        mark.push('_');
    }
    mark
}

impl Said {
    /// The characters around its text.
    fn frame(&self) -> usize {
        /// Tags, line breaks and the note of what is missing.
        const AROUND: usize = 100;
        AROUND + self.from.chars().count() + self.call().chars().count()
    }

    /// The call it is about; empty if it is about none.
    fn call(&self) -> &str {
        match &self.part {
            Part::Called(line) => line,
            Part::Asked | Part::Said | Part::SummedUp { before: _ } => "",
        }
    }

    fn framed(&self, mark: &str, share: usize) -> String {
        let Self { from, part, .. } = self;
        let from = from.replace('"', "'");
        let text = self.text.text(share);
        match part {
            Part::Asked | Part::Said | Part::SummedUp { before: _ } => {
                format!("<said{mark} from=\"{from}\">\n{text}\n</said{mark}>")
            }
            Part::Called(line) => {
                format!("<output{mark} from=\"{from}\">\n{line}\n\n{text}\n</output{mark}>")
            }
        }
    }
}

/// Says how a unit ended; `None` if well: then its answer says the rest.
fn bad_end(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Done { text: _ } => None,
        Outcome::Failed(failure) => Some(format!("failed: {}", failure.message)),
        Outcome::Cancelled { ran: true } => Some("cancelled while it ran".to_owned()),
        Outcome::Cancelled { ran: false } => Some("cancelled before it started".to_owned()),
        Outcome::Interrupted => Some("interrupted: the process ended".to_owned()),
    }
}

impl Excerpt {
    fn of(text: &str, cap: usize) -> Self {
        let text = text.trim();
        let (head, length) = match text.char_indices().nth(cap) {
            Some((end, _)) => (&text[..end], cap),
            None => (text, text.chars().count()),
        };
        Self { head: head.into(), length, missing: text.len() - head.len() }
    }

    /// Returns the first `share` characters and says what is missing.
    fn text(&self, share: usize) -> String {
        let end = self.head.char_indices().nth(share).map_or(self.head.len(), |(end, _)| end);
        match self.missing + self.head.len() - end {
            0 => self.head.to_string(),
            missing => format!("{}\n[{missing} more bytes are left out]", &self.head[..end]),
        }
    }
}

/// Returns the head of a text with its line breaks as blanks.
fn one_line(text: &str, cap: usize) -> String {
    let mut characters = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut line: String = characters.by_ref().take(cap).collect();
    if characters.next().is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests;
