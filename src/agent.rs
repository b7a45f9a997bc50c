//! The agent loop: what a unit does from its prompt to its end.
//!
//! A [`Unit`] asks its model, runs the calls of the answer, and goes on until
//! an answer has no calls and no unit that it started in the background is
//! still out. It owns its history and nothing else; whatever it does it tells
//! its line, and what it becomes is an [`Outcome`], never an error.

mod answering;
mod asking;
mod attached;
mod calls;
mod compact;
mod fitting;
mod following;
mod guarded;
mod history;
mod hooked;
mod images;
mod loops;
mod offers;
mod redirected;
mod repetition;
pub mod size;
mod turn;
mod view;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::event::{FailureKind, NoticeLevel, Outcome, UnitId};
use crate::guard::Policy;
use crate::hook::Hooks;
use crate::line::{News, RequestLeave, Told, UnitEvent, Wait};
use crate::message::{Call, CallId, Prompt, StopReason, counted};
use crate::model::Model;
use crate::prompt;
use crate::skill::Followed;
use crate::tool::{AgentCall, AnswerSchema, ForkPoint, Registry, Task, ToolContext};
use crate::tool_name::{AGENT, canonical};

use answering::{Answering, FinalAnswer, Judged, ReminderKind, Shortfall, Turned, WantedAnswer};
use following::begun;
use images::Room;
use loops::Loops;

pub use answering::TRIES_CAP;
pub use asking::Persistence;
pub use attached::with_files;
pub use calls::CALLS_CAP;
pub use compact::{Compacting, REQUEST_CAP, SUMMARY_CAP};
pub use history::History;
pub use hooked::{HELD_CAP, Hooked, SESSION_END_LIMIT};
pub use images::{IMAGES_CAP, IMAGES_LENGTH_CAP};
pub use offers::Offers;
pub use view::render;

/// Everything that runs an agent loop: the main conversation, a slot or a fork.
pub struct Unit {
    /// The agent definition's name; `main` for the main conversation.
    pub agent: Arc<str>,
    /// What the unit is for; empty for the main conversation.
    pub description: Arc<str>,
    /// Who answers it.
    pub model: Arc<dyn Model>,
    /// What it can call.
    pub tools: Registry,
    /// What its answer must fit, if not every text will do.
    pub answer: Option<Arc<AnswerSchema>>,
    /// What it may do.
    pub policy: Arc<Policy>,
    /// What is asked at certain moments.
    pub hooks: Arc<Hooks>,
    /// What it is bound by.
    pub bounds: Bounds,
    /// What its calls may use. Its line and its cancel token are the unit's.
    pub context: ToolContext,
    /// Its conversation so far.
    pub history: History,
    /// Where it was forked from, if it is a fork.
    pub forked_from: Option<Forked>,
    /// When its conversation is replaced by a summary.
    pub compacting: Compacting,
    /// What it does about requests that fail.
    pub persistence: Persistence,
    /// What it has of servers of tools; `None` where that stays what it is.
    pub offers: Option<Offers>,
}

/// What a unit is bound by.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Most turns of its own; `None` means no limit. Those of the units that
    /// it starts are theirs.
    pub max_turns: Option<TurnLimit>,
    /// How long it waits for units in the background when it has nothing else
    /// to do; `None` means that it leaves them to whoever prompts it next.
    pub background_wait: Option<Duration>,
    /// How long a fork waits for another one to have the shared bytes read; 0
    /// means that none waits.
    pub prime: Duration,
}

/// Most turns of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnLimit {
    /// How many.
    pub most: u32,
    /// Who says so.
    pub source: LimitSource,
}

/// Who sets a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitSource {
    /// The command line.
    Flag,
    /// The task.
    Task,
    /// The agent definition.
    Definition,
    /// The configuration, for all that name none themselves.
    Config,
}

impl LimitSource {
    /// Returns what a limit on turns is called there.
    fn of_turns(self) -> &'static str {
        match self {
            Self::Flag => "--max-turns",
            Self::Task => "max_turns",
            Self::Definition => "maxTurns",
            Self::Config => "agents.max_turns",
        }
    }
}

/// What a fork knows of where it comes from.
#[derive(Debug, Clone)]
pub struct Forked {
    /// The unit it is a fork of.
    pub parent: UnitId,
    /// Where its parent's conversation stood.
    pub point: Arc<ForkPoint>,
}

/// What a unit begins with.
#[derive(Debug, Clone, PartialEq)]
pub enum Opening {
    /// A user message.
    Prompt(Prompt),
    /// A user message that a skill has made.
    Skill {
        /// The message.
        prompt: Prompt,
        /// What holds while it is followed.
        followed: Arc<Followed>,
    },
    /// No turn of its own: an agent does what a skill says. Unless that is in
    /// the background, its report is the answer.
    Agent {
        /// What the agent shall do.
        task: Task,
        /// The user message that asked for it.
        request: Arc<str>,
    },
    /// No turn of its own: a fork of its conversation, in the background.
    Fork {
        /// What the fork shall do.
        task: Task,
        /// The user message that asked for it.
        request: Arc<str>,
    },
    /// No turn of its own: these tasks as one batch, whose text is its answer.
    Batch {
        /// What the slots shall do.
        tasks: Vec<Task>,
        /// The user message that asked for them.
        request: Arc<str>,
    },
    /// No turn of its own: its conversation is replaced by a summary, and what
    /// was done is its answer.
    Compact {
        /// What the user wants the summary to heed.
        hint: Option<Arc<str>>,
    },
    /// What it has not been told yet: ends of units in the background, and
    /// messages. With none it takes no turn.
    News,
}

impl Opening {
    /// Returns what the user has asked for in it, if they have.
    pub fn request_mut(&mut self) -> Option<&mut Arc<str>> {
        match self {
            Self::Prompt(prompt) | Self::Skill { prompt, followed: _ } => Some(&mut prompt.text),
            Self::Agent { task: _, request }
            | Self::Fork { task: _, request }
            | Self::Batch { tasks: _, request } => Some(request),
            Self::Compact { hint: _ } | Self::News => None,
        }
    }
}

/// What a unit does next.
enum Next {
    /// It sends a request.
    Turn,
    /// It has nothing to do but to hear of units in the background.
    Settle,
}

impl Unit {
    /// Runs the loop to its end. Afterwards the unit still has its history.
    pub async fn run(&mut self, opening: Opening) -> Outcome {
        match self.go(opening).await {
            Ok(answer) => Outcome::Done { text: answer },
            Err(outcome) => outcome,
        }
    }

    async fn go(&mut self, opening: Opening) -> Result<Arc<str>, Outcome> {
        // A notification may need no answer.
        let may_be_silent = matches!(opening, Opening::News);
        let said = self.converse(opening).await?;
        match said.shortfall {
            Some(Shortfall::Empty) if may_be_silent => Ok(said.text),
            Some(shortfall) => Err(shortfall.into_outcome()),
            None => Ok(said.text),
        }
    }

    /// Takes turns until there is nothing left to do, and returns the last word.
    async fn converse(&mut self, opening: Opening) -> Result<FinalAnswer, Outcome> {
        let is_told_news = matches!(opening, Opening::News);
        let (mut next, answer) = self.open(opening).await?;
        let mut answer = FinalAnswer::from(answer);
        let (mut turn, mut held) = (0, 0);
        let mut loops = Loops::default();
        let mut answering = Answering::new(self.answer.is_some());
        loop {
            match next {
                Next::Turn => {
                    turn += 1;
                    let wanted = WantedAnswer {
                        may_be_silent: is_told_news
                            || !answer.text.is_empty()
                            || self.answer.is_some(),
                        text_schema: self
                            .answer
                            .as_ref()
                            .filter(|_| answering.wants_text())
                            .map(|schema| Arc::clone(schema.parameters())),
                    };
                    match answering.judge(self.turn(turn, &wanted, &mut loops).await?)? {
                        Judged::GoesOn => {}
                        Judged::Reminded(of) => self.remind(of).await,
                        Judged::Answered(said) => {
                            next = Next::Settle;
                            answer = answer.superseded_by(said);
                        }
                    }
                }
                Next::Settle => match self.settle().await? {
                    Some(text) => {
                        self.warn_of_shortfall(answer.shortfall).await;
                        self.history.prompted(text.into());
                        next = Next::Turn;
                    }
                    // One that took no turn has done nothing that could be judged.
                    None if turn == 0 => return Ok(answer),
                    None => match self.is_held(&answer.text, &mut held).await? {
                        Some(text) => {
                            self.warn_of_shortfall(answer.shortfall).await;
                            loops.forget();
                            self.prompted(text.into()).await;
                            next = Next::Turn;
                        }
                        None => return Ok(answer),
                    },
                },
            }
        }
    }

    async fn open(&mut self, opening: Opening) -> Result<(Next, Arc<str>), Outcome> {
        match opening {
            Opening::Prompt(prompt) => {
                self.has_room_for(&prompt)?;
                let text = self.begins(Arc::clone(&prompt.text)).await?;
                self.begin_with(prompt.with_text(text)).await;
                Ok((Next::Turn, Arc::default()))
            }
            Opening::News => match self.context.line.news(Wait::No).await {
                News::Message(text) => {
                    let news = Prompt::from(text);
                    self.compacting.begins_with(&news);
                    self.history.prompted(news);
                    Ok((Next::Turn, Arc::default()))
                }
                News::NotYet | News::Nothing => Ok((Next::Settle, Arc::default())),
            },
            Opening::Skill { prompt, followed } => {
                self.has_room_for(&prompt)?;
                self.follow(&followed).await;
                let text = self.with_files(&prompt.text).await;
                self.begin_with(prompt.with_text(text.into())).await;
                Ok((Next::Turn, Arc::default()))
            }
            Opening::Agent { task, request } => {
                self.have_done(task, request).await.map(|answer| (Next::Settle, answer))
            }
            Opening::Compact { hint } => {
                self.compact_now(hint.as_deref()).await.map(|answer| (Next::Settle, answer))
            }
            Opening::Fork { task, request } => {
                let output = self.start(AgentCall::One(task), request).await?;
                Ok((Next::Settle, begun(&output)))
            }
            Opening::Batch { tasks, request } => {
                let output = self.start(AgentCall::Batch(tasks), request).await?;
                Ok((Next::Settle, output.text.into()))
            }
        }
    }

    /// Begins with a user message.
    async fn begin_with(&mut self, prompt: Prompt) {
        self.compacting.begins_with(&prompt);
        self.prompted(prompt).await;
    }

    /// Takes a user message into the conversation, and tells of it.
    async fn prompted(&mut self, prompt: Prompt) {
        self.context.line.tell(Told::Prompted(prompt.clone())).await;
        self.history.prompted(prompt);
    }

    /// A message with images that the conversation has no room for does not
    /// enter it: nobody would know which of them are left out.
    fn has_room_for(&self, prompt: &Prompt) -> Result<(), Outcome> {
        let room = Room::beside(self.history.prefix());
        room.take_in(prompt).map_err(|why| Outcome::failed(FailureKind::Setup, why))
    }

    /// Says to the model that its answer is still missing.
    async fn remind(&mut self, of: ReminderKind) {
        let text: Arc<str> = match of {
            ReminderKind::Call => prompt::structured_reminder(),
            ReminderKind::Text => prompt::structured_text(),
        }
        .into();
        self.context.line.tell(Told::Reminded { text: Arc::clone(&text) }).await;
        self.history.prompted(text.into());
    }

    /// Takes one turn.
    async fn turn(
        &mut self,
        turn: u32,
        wanted: &WantedAnswer,
        loops: &mut Loops,
    ) -> Result<Turned, Outcome> {
        if let Some(TurnLimit { most, source }) = self.bounds.max_turns
            && turn > most
        {
            let (turns, name) = (counted(most, "turn"), source.of_turns());
            let message = format!("reached its limit of {turns} (`{name}`)");
            return Err(Outcome::failed(FailureKind::MaxTurns, message));
        }
        if let News::Message(text) = self.context.line.news(Wait::No).await {
            loops.forget();
            self.history.prompted(text.into());
        }
        self.compact_if_due().await?;
        let leave = self.may_request(Some(turn)).await?;
        let replied = self.answer(turn, wanted).await?;
        self.history.replied(&replied);
        let (reply, stop) = (Arc::clone(&replied.reply), replied.stop);
        self.context.line.tell(UnitEvent::Replied(replied)).await;
        if reply.calls.is_empty() {
            return Ok(Turned::Said(FinalAnswer::new(reply.text.as_str().into(), stop)));
        }
        if stop == StopReason::Refusal {
            // The rest may have taken them back.
            self.refuse(&reply.calls, "the provider withheld a part of the answer").await;
            return Ok(Turned::Said(FinalAnswer::new(reply.text.as_str().into(), stop)));
        }
        self.mark_fork_point(&reply.calls);
        loops.begin(turn);
        self.run_calls(&reply.calls, stop, leave, loops).await.map(Turned::Called)
    }

    /// Asks whether a request may be sent, which may begin the turn with this
    /// number.
    ///
    /// # Errors
    ///
    /// The outcome of the unit: a limit is reached, or it was cancelled.
    async fn may_request(&self, turn: Option<u32>) -> Result<RequestLeave, Outcome> {
        match self.context.line.may_request(turn).await {
            Some(leave) => leave.map_err(Outcome::Failed),
            None => Err(Outcome::Cancelled { ran: true }),
        }
    }

    /// All forks of one answer begin in the same bytes, and know what was known
    /// before any of its calls ran.
    fn mark_fork_point(&mut self, calls: &[Call]) {
        let forks = |call: &Call| {
            self.tools.called(&call.tool).is_some_and(|(name, _)| canonical(name) == AGENT)
        };
        if calls.iter().any(forks) {
            self.context.fork_point = Arc::new(self.fork_point());
        }
    }

    fn fork_point(&self) -> ForkPoint {
        let conversation = self.history.prefix().clone();
        ForkPoint::new(conversation, &self.context.seen, Arc::clone(&self.model))
    }

    /// Waits for news of units in the background, as long as any is out;
    /// `None` once none can come, or if they are left to the next prompt.
    async fn settle(&mut self) -> Result<Option<Arc<str>>, Outcome> {
        // Asked first without giving the permit back: most units have started
        // nothing, and another one must not start before this one has ended.
        match self.context.line.news(Wait::No).await {
            News::Message(text) => return Ok(Some(text)),
            News::Nothing => return Ok(None),
            News::NotYet => {}
        }
        let Some(wait) = self.bounds.background_wait else { return Ok(None) };
        let (line, cancel) = (self.context.line.clone(), self.context.cancel.clone());
        let mut news = None;
        let waiting = async {
            news = tokio::time::timeout(wait, line.news(Wait::UntilThereAre)).await.ok();
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(Outcome::Cancelled { ran: true }),
            () = self.context.delegate.lend(Box::pin(waiting)) => {}
        }
        match news {
            Some(News::Message(text)) => return Ok(Some(text)),
            Some(News::Nothing | News::NotYet) => return Ok(None),
            None => {}
        }
        let message = format!(
            "agents in the background had not ended after {} s (`background.wait_s`)",
            wait.as_secs_f64()
        );
        Err(Outcome::failed(FailureKind::Unfinished, message))
    }

    /// Warns that an answer is incomplete. The unit continues from it, so its outcome does not
    /// say so.
    async fn warn_of_shortfall(&self, shortfall: Option<Shortfall>) {
        let shortfall = match shortfall {
            Some(shortfall @ (Shortfall::OutputLimit | Shortfall::Withheld)) => shortfall,
            // It has no text that a reader could mistake for a complete answer.
            Some(Shortfall::Empty) | None => return,
        };
        let text = shortfall.message().into();
        self.context.line.tell(Told::Notice { level: NoticeLevel::Warning, text }).await;
    }

    /// Gives calls ids that are unique within the unit: some servers number
    /// them anew in every answer.
    fn name_calls(&mut self, calls: &mut [Call]) {
        // How often each id came: an answer may hold many calls of one id.
        let mut copies: HashMap<CallId, u32> = HashMap::new();
        for call in calls {
            let mut id = call.id.clone();
            let copy = copies.entry(id.clone()).or_insert(1);
            while !self.history.claim(&id) {
                *copy += 1;
                id = CallId(format!("{}_{copy}", call.id).into());
            }
            call.id = id;
        }
    }
}
