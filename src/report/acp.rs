//! A run as an editor is shown it: updates of the Agent Client Protocol.
//!
//! A fold over events, for a run that goes on and for one that a log tells. It
//! knows what an editor sees and in which order; who sends it, and what comes
//! back, is known below it. What a model or a tool wrote goes out as it is: it
//! is the editor that shows it, and no terminal.

mod calls;
mod edits;
mod forms;
mod questions;
mod units;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use agent_client_protocol::v1::schema;
use schema::{
    CompactionStatus, CompactionUpdate, ContentBlock, ContentChunk, Cost, Notice, NoticeSeverity,
    SessionInfoUpdate, SessionUpdate, StopReason, UsageUpdate,
};

use super::units::Units;
use super::words;
use crate::event::{
    Compaction, Delta, Event, EventKind, FailureKind, HookRan, InvocationEnd, NoticeLevel, Outcome,
    Piece, Question, QuestionId, Replied, Seq, UnitId,
};
use crate::message::{CallId, Usage, Usd};
use calls::OpenCall;
use units::Places;

pub use edits::{Now, ReadNow, Reads};
pub use forms::{Filling, elicitation, filled};
pub use questions::{Ask, Asked, Chosen, chosen, permission};

/// Most bytes of an answer that are gathered into one piece. Editors paint every
/// piece, and this is about a screen.
const CHUNK_CAP: usize = 4_096;

/// Most characters of a session's title.
const TITLE_CAP: usize = 80;

/// What an editor says that it can show.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shows {
    /// Notices beside the conversation.
    pub notices: bool,
    /// Summaries that take the place of a conversation.
    pub compactions: bool,
}

/// What an editor is told.
#[derive(Debug)]
pub enum Told {
    /// Show this.
    Update(Box<SessionUpdate>),
    /// A person is to answer this.
    Asked(Box<Asked>),
    /// That question is closed, whoever has answered it.
    Answered(QuestionId),
    /// An invocation has begun.
    Began,
    /// What is beside main.
    Beside {
        /// So many units work there, or wait to.
        out: usize,
        /// So many have ended there without main being told.
        untold: usize,
    },
    /// An invocation has ended.
    Ended(Ended),
}

/// How a prompt was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It came to an end that the protocol has a word for.
    Stopped(StopReason),
    /// It went wrong, and how.
    Failed(String),
}

/// Shows the events of one session.
pub struct View {
    shows: Shows,
    reads: Reads,
    /// The tokens that main's conversation may have; `None` where nobody knows.
    window: Option<u64>,
    /// Whether a log tells it, so that nothing was seen while it was written.
    is_past: bool,
    units: Units,
    places: Places,
    calls: HashMap<(UnitId, CallId), OpenCall>,
    /// What was written of an answer and not yet shown.
    gathered: Option<(Voice, String)>,
    /// The event that main's present answer is named after.
    message: Seq,
    /// Whose pieces of it were shown.
    has_streamed: [bool; 2],
    /// Whether main's model had a part in what is answered.
    has_answered: bool,
    used: Usage,
    has_title: bool,
    told: Vec<Told>,
}

/// What a session has come to, as far as an editor is told it as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SoFar {
    used: Usage,
    has_title: bool,
}

/// What an editor is shown as main's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Voice {
    Answer,
    Thought,
}

impl View {
    /// A view of a session that works in `root`.
    #[must_use]
    pub fn new(shows: Shows, root: PathBuf, window: Option<u64>, reads: Reads) -> Self {
        Self {
            shows,
            reads,
            window,
            is_past: false,
            units: Units::default(),
            places: Places::new(root),
            calls: HashMap::new(),
            gathered: None,
            message: Seq::default(),
            has_streamed: [false; 2],
            has_answered: false,
            used: Usage::default(),
            has_title: false,
            told: Vec::new(),
        }
    }

    /// The same for events of a log: what the user typed is shown, too, and
    /// nobody is asked.
    #[must_use]
    pub fn past(self) -> Self {
        Self { is_past: true, ..self }
    }

    /// The same for a session that goes on.
    #[must_use]
    pub fn after(self, so_far: SoFar) -> Self {
        let SoFar { used, has_title } = so_far;
        Self { used, has_title, ..self }
    }

    /// Returns what the session has come to.
    #[must_use]
    pub fn so_far(&self) -> SoFar {
        SoFar { used: self.used, has_title: self.has_title }
    }

    /// Shows the name that the session was given: no prompt is its title then.
    pub fn name(&mut self, name: &str) {
        self.has_title = true;
        let info = SessionInfoUpdate::new().title(words::short_line(name, TITLE_CAP));
        self.update(SessionUpdate::SessionInfoUpdate(info));
    }

    /// Returns what there is to tell since it was last asked.
    pub fn told(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.told)
    }

    /// Takes note of a piece of an answer. Only main's are shown: what the
    /// others write would stand in between.
    pub fn delta(&mut self, delta: &Delta) {
        if delta.unit != UnitId::MAIN {
            return;
        }
        match &delta.piece {
            Piece::Text(text) => self.gather(Voice::Answer, text),
            Piece::Thinking(text) => self.gather(Voice::Thought, text),
        }
    }

    /// Shows what was gathered.
    pub fn flush(&mut self) {
        if let Some((voice, text)) = self.gathered.take() {
            self.chunk(voice, text);
        }
    }

    /// Takes note of an event.
    pub fn event(&mut self, event: &Event) {
        self.flush();
        let before = (self.units.beside(), self.units.untold());
        let ended = self.units.take(event);
        let (unit, is_main) = (event.unit, event.unit == UnitId::MAIN);
        match &event.kind {
            EventKind::InvocationStarted { prompt, .. } => self.began(prompt),
            EventKind::TurnStarted { turn: _ } if is_main => self.next_message(event.seq),
            EventKind::RequestFailed(failed) => {
                self.used += failed.usage;
                if is_main {
                    self.next_message(event.seq);
                }
            }
            EventKind::Replied(replied) => self.replied(unit, replied),
            EventKind::ToolStarted { call, tool, subject, confinement: _ } => {
                self.call_started(unit, call, (tool, subject));
            }
            EventKind::FileChanged(change) => self.file_changed(unit, change),
            EventKind::ToolFinished { call, tool: _, output, took_ms: _ } => {
                self.call_finished(unit, call, output);
            }
            EventKind::UnitQueued(head) => self.queued(unit, head),
            EventKind::UnitStarted => self.state(unit, "running", true),
            EventKind::Lost { worker, attempt } => self.unit_lost(unit, worker, *attempt),
            EventKind::Throttled(_) => self.state(unit, "throttled", false),
            EventKind::Admitted { waited_ms: _ } => self.state(unit, "running", false),
            EventKind::Worktree(worktree) => self.places.take(unit, worktree),
            EventKind::UnitEnded(end) => self.unit_ended(unit, ended.as_ref(), end),
            EventKind::Asked { id, question } => self.asked(unit, *id, question),
            EventKind::Answered { id, .. } => {
                self.state(unit, "running", false);
                self.told.push(Told::Answered(*id));
            }
            EventKind::Compacted(compaction) => self.compacted(event, compaction),
            EventKind::Notice { level, text } => self.notice(*level, text),
            EventKind::HookRan(ran) => self.hook_ran(ran),
            EventKind::InvocationEnded(end) => {
                self.unsaid(event.seq, end);
                self.ended(end);
            }
            EventKind::SessionOpened(_)
            | EventKind::Prompted(_)
            | EventKind::Notified { .. }
            | EventKind::UserWrote { .. }
            | EventKind::UserTookBack
            | EventKind::TurnStarted { .. }
            | EventKind::PrefixShared(_)
            | EventKind::Denied { .. }
            | EventKind::SetAside { .. }
            | EventKind::Rewound { .. }
            | EventKind::Walked(_)
            | EventKind::Joined { .. }
            | EventKind::Chosen(_)
            | EventKind::Offered(_)
            | EventKind::Left => {}
        }
        let (out, untold) = (self.units.beside(), self.units.untold());
        if (out, untold) != before {
            self.told.push(Told::Beside { out, untold });
        }
    }

    /// Ends what the log leaves open: the process that wrote it was cut off.
    pub fn cut_off(&mut self) {
        self.flush();
        self.calls_cut_off();
        self.units_cut_off();
    }

    fn hook_ran(&mut self, ran: &HookRan) {
        if let Some(text) = words::hook(ran) {
            self.notice(NoticeLevel::Info, &text);
        }
    }

    /// Says something that is no part of the conversation. What was said so
    /// before says nothing of now.
    fn notice(&mut self, level: NoticeLevel, text: &str) {
        let update = notice(self.shows, level, text).filter(|_| !self.is_past);
        if let Some(update) = update {
            self.update(update);
        }
    }

    fn update(&mut self, update: SessionUpdate) {
        self.told.push(Told::Update(Box::new(update)));
    }

    fn gather(&mut self, voice: Voice, text: &str) {
        if self.gathered.as_ref().is_some_and(|(other, _)| *other != voice) {
            self.flush();
        }
        let (_, gathered) = self.gathered.get_or_insert_with(|| (voice, String::new()));
        gathered.push_str(text);
        let is_full = gathered.len() >= CHUNK_CAP;
        self.has_streamed[voice as usize] = true;
        if is_full {
            self.flush();
        }
    }

    fn chunk(&mut self, voice: Voice, text: String) {
        if text.is_empty() {
            return;
        }
        let id = self.message.0.to_string();
        let chunk =
            ContentChunk::new(ContentBlock::from(text)).message_id(schema::MessageId::new(id));
        self.update(match voice {
            Voice::Answer => SessionUpdate::AgentMessageChunk(chunk),
            Voice::Thought => SessionUpdate::AgentThoughtChunk(chunk),
        });
    }

    fn next_message(&mut self, seq: Seq) {
        (self.message, self.has_streamed) = (seq, [false; 2]);
    }

    fn began(&mut self, prompt: &Arc<str>) {
        self.told.push(Told::Began);
        // Of news that main is told the user has typed nothing.
        if prompt.trim().is_empty() {
            return;
        }
        if !self.has_title {
            self.name(prompt.trim().lines().next().unwrap_or_default());
        }
        if self.is_past {
            let chunk = ContentChunk::new(ContentBlock::from(prompt.to_string()));
            self.update(SessionUpdate::UserMessageChunk(chunk));
        }
    }

    fn replied(&mut self, unit: UnitId, replied: &Replied) {
        self.used += replied.usage;
        let reply = &replied.reply;
        if unit == UnitId::MAIN {
            self.has_answered = true;
            let [has_text, has_thinking] = self.has_streamed;
            if !has_thinking {
                self.chunk(Voice::Thought, reply.thinking.clone());
            }
            if !has_text {
                self.chunk(Voice::Answer, reply.text.clone());
            }
        }
        for call in &reply.calls {
            self.call_made(unit, call);
        }
        if unit == UnitId::MAIN {
            self.used_up(replied.usage.total());
        }
    }

    /// Tells how full main's context window is, and what all units have cost.
    fn used_up(&mut self, tokens: u64) {
        let Some(window) = self.window else { return };
        let cost = self.used.cost;
        let cost = (cost.usd != Usd::default()).then(|| Cost::new(cost.usd.dollars(), "USD"));
        let usage = UsageUpdate::new(tokens, window).cost(cost);
        self.update(SessionUpdate::UsageUpdate(usage));
    }

    fn compacted(&mut self, event: &Event, compaction: &Compaction) {
        self.used += compaction.usage;
        if event.unit != UnitId::MAIN {
            return;
        }
        if self.shows.compactions {
            let id = schema::CompactionId::new(event.seq.0.to_string());
            let compacted = CompactionUpdate::new(id, CompactionStatus::Completed);
            self.update(SessionUpdate::CompactionUpdate(compacted));
        } else {
            self.notice(NoticeLevel::Info, &words::compaction(compaction));
        }
        self.used_up(compaction.tokens_after);
    }

    fn asked(&mut self, unit: UnitId, id: QuestionId, question: &Question) {
        self.state(unit, "awaiting_approval", false);
        if self.is_past {
            return;
        }
        let known = self.units.get(unit);
        let name = known.map(|known| words::unit_name(unit, &known.head));
        let asked = Asked {
            id,
            unit,
            name,
            question: question.clone(),
            call: self.call_asked(unit, question),
        };
        self.told.push(Told::Asked(Box::new(asked)));
    }

    /// Shows an answer that main's model had no part in, as that of a flow.
    fn unsaid(&mut self, seq: Seq, end: &InvocationEnd) {
        let has_answered = std::mem::take(&mut self.has_answered);
        if let Outcome::Done { text } = &end.outcome
            && !has_answered
        {
            self.next_message(seq);
            self.chunk(Voice::Answer, text.to_string());
        }
    }

    fn ended(&mut self, end: &InvocationEnd) {
        let ended = match (&end.outcome, end.cancel) {
            (Outcome::Done { text: _ }, _) => Ended::Stopped(StopReason::EndTurn),
            (_, Some(_)) | (Outcome::Cancelled { ran: _ } | Outcome::Interrupted, None) => {
                Ended::Stopped(StopReason::Cancelled)
            }
            (Outcome::Failed(failure), None) => match failure.kind {
                FailureKind::MaxTurns => Ended::Stopped(StopReason::MaxTurnRequests),
                FailureKind::MaxTokens | FailureKind::OutputLimit => {
                    Ended::Stopped(StopReason::MaxTokens)
                }
                FailureKind::Refusal => Ended::Stopped(StopReason::Refusal),
                FailureKind::Authentication
                | FailureKind::Request
                | FailureKind::Overflow
                | FailureKind::Provider
                | FailureKind::Budget
                | FailureKind::MaxToolCalls
                | FailureKind::Loop
                | FailureKind::Timeout
                | FailureKind::Setup
                | FailureKind::Panic
                | FailureKind::Hook
                | FailureKind::StructuredOutput
                | FailureKind::EmptyAnswer
                | FailureKind::Unmet
                | FailureKind::Unfinished => Ended::Failed(failure.message.to_string()),
            },
        };
        self.told.push(Told::Ended(ended));
    }
}

/// Returns what tells of something that is no part of the conversation; `None`
/// where an editor has no place for it and it can go untold.
#[must_use]
fn notice(shows: Shows, level: NoticeLevel, text: &str) -> Option<SessionUpdate> {
    if shows.notices {
        let severity = match level {
            NoticeLevel::Info => NoticeSeverity::Info,
            NoticeLevel::Warning => NoticeSeverity::Warning,
        };
        return Some(SessionUpdate::Notice(Notice::new(severity, text)));
    }
    let chunk = || ContentChunk::new(ContentBlock::from(format!("warning: {text}\n\n")));
    (level == NoticeLevel::Warning).then(|| SessionUpdate::AgentMessageChunk(chunk()))
}

/// Returns what tells of something that was said to people; `None` where an
/// editor has no place for it and it can go untold.
#[must_use]
pub fn noted(shows: Shows, text: &str) -> Option<SessionUpdate> {
    match text.strip_prefix("warning: ") {
        Some(warning) => notice(shows, NoticeLevel::Warning, warning),
        None => notice(shows, NoticeLevel::Info, text.strip_prefix("note: ").unwrap_or(text)),
    }
}

/// Returns what editors get beside what the protocol has a place for.
fn beside(fields: impl IntoIterator<Item = (&'static str, String)>) -> schema::Meta {
    let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value.into()));
    let ours = serde_json::Value::Object(fields.collect());
    schema::Meta::from_iter([("tine".to_owned(), ours)])
}

#[cfg(test)]
mod tests;
