//! What the dispatcher knows of one unit.

use std::collections::{BTreeSet, HashMap};
use std::ops::AddAssign;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::branch::{Branch, BranchPath, TokenSet};
use crate::event::{
    AfterFailure, Compaction, ForkShare, Invocation, Outcome, Piece, QuestionId, Replied,
    RequestFailed, UnitEnd, UnitHead, UnitId, UnitState, UnixMillis,
};
use crate::fanout::news::Letter;
use crate::line::{Budget, News, Orders, Until};
use crate::message::{Call, CallId, Usage};
use crate::session::PastUnit;

/// Most bytes kept of an answer that is still being written. It is what a unit
/// that is cut off leaves behind; more than this is in no share of a parent's
/// text.
const WRITING_CAP: usize = 64_000;

/// Where a unit is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Queued,
    Running,
    /// In this state.
    Ended(UnitState),
}

/// What a unit and all it started have used.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spent {
    pub(super) usage: Usage,
    /// Calls that were asked for; counted where calls are limited.
    pub(super) calls: u64,
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.usage += other.usage;
        self.calls = self.calls.saturating_add(other.calls);
    }
}

/// What the dispatcher knows of one unit.
#[derive(Debug)]
pub(super) struct Ledger {
    /// The invocation whose tokens its branch is made of.
    pub(super) invocation: Invocation,
    /// `None` for the main conversation.
    pub(super) parent: Option<UnitId>,
    pub(super) description: Arc<str>,
    pub(super) agent: Arc<str>,
    /// Whether it does more than to hold the branch of steps.
    pub(super) is_agent: bool,
    pub(super) depth: u32,
    pub(super) branch: Branch,
    pub(super) cancel: CancellationToken,
    pub(super) standing: Standing,
    pub(super) started: Option<UnixMillis>,
    /// Whether it was lost with a worker, be it that it runs again by now.
    was_lost: bool,
    /// The tokens of its branch when it started, where it begins again if it is
    /// lost.
    tokens_at_start: TokenSet,
    pub(super) turns: u32,
    /// Calls without an output, with their place in the reply and their tools.
    open_calls: HashMap<CallId, (usize, Arc<str>)>,
    /// Children that have not ended.
    pub(super) open_children: u32,
    pub(super) tool_uses: u32,
    usage: Usage,
    /// Most that it and all it starts may use.
    pub(super) budget: Budget,
    pub(super) spent: Spent,
    /// Its questions that have no answer, oldest first.
    pub(super) questions: Vec<QuestionId>,
    /// The batch that it is a slot of, by the batch's first slot.
    pub(super) batch: Option<UnitId>,
    /// The call that it was declared by, by the first unit of that.
    pub(super) call: UnitId,
    /// Whether another one has taken its place, or is about to.
    pub(super) is_replaced: bool,
    /// The calls whose units it waits for, and takes orders about.
    pub(super) waits: Vec<WaitsFor>,
    /// Whether its request has to wait.
    pub(super) is_throttled: bool,
    /// The text of the last whole answer.
    text: Arc<str>,
    /// The text of the answer that is being written.
    writing: String,
    /// What was written of this turn's answer before its request was made
    /// again.
    broken_off: String,
    /// The path segments that children have, each with how often it was asked
    /// for.
    segments: HashMap<String, u32>,
    /// How much of its first request its parent had sent.
    pub(super) share: Option<ForkShare>,
    /// Its end, if it ran in the background: its parent may still ask for it.
    pub(super) final_end: Option<Arc<UnitEnd>>,
    /// `None` for most: ten thousand slots wait without any of it.
    aside: Option<Box<Aside>>,
    /// Who wants to know of the first message to it.
    pub(super) first_news: Option<oneshot::Sender<()>>,
    /// The unit that continues its conversation, since it has ended.
    pub(super) continued_by: Option<UnitId>,
}

/// What a unit has to do with units that run beside their parents.
#[derive(Debug, Default)]
pub(super) struct Aside {
    /// The units it started in the background.
    pub(super) children: BTreeSet<UnitId>,
    /// How many of them have not ended.
    pub(super) out: usize,
    /// Those whose end it has not been told, in the order in which they ended.
    pub(super) untold: Vec<UnitId>,
    /// Messages that it has not been given.
    pub(super) inbox: Vec<Letter>,
    /// Where news go that it waits for.
    pub(super) listening: Option<oneshot::Sender<News>>,
    /// What else it waits for.
    pub(super) awaited: Vec<Awaited>,
}

impl Aside {
    /// Takes note of a unit of an earlier process, whose end is news.
    pub(super) fn heard_of(&mut self, unit: UnitId) {
        self.children.insert(unit);
        self.untold.push(unit);
    }

    /// Records a unit of an earlier process whose end the parent knows.
    pub(super) fn remember(&mut self, unit: UnitId) {
        self.children.insert(unit);
    }

    pub(super) fn has_news(&self) -> bool {
        !self.untold.is_empty() || !self.inbox.is_empty()
    }
}

/// A call whose units a parent waits for.
#[derive(Debug)]
pub(super) struct WaitsFor {
    /// What the model calls it; `None` if it made no call.
    pub(super) call: Option<CallId>,
    /// The first of them.
    pub(super) first: UnitId,
    /// Where orders about them go.
    pub(super) orders: Orders,
    /// Fires when they are set aside.
    pub(super) aside: CancellationToken,
}

/// Some units that their parent waits for.
#[derive(Debug)]
pub(super) struct Awaited {
    /// Those that have not ended.
    pub(super) out: BTreeSet<UnitId>,
    pub(super) until: Until,
    pub(super) reply: oneshot::Sender<()>,
}

impl Awaited {
    /// Takes note of an end; tells whether it is what the parent waits for.
    pub(super) fn is_met_by(&mut self, ended: UnitId) -> bool {
        let is_one_of_them = self.out.remove(&ended);
        match self.until {
            Until::Any => is_one_of_them,
            Until::All => self.out.is_empty(),
        }
    }
}

impl Ledger {
    pub(super) fn main(invocation: Invocation, cancel: CancellationToken) -> Self {
        Self {
            agent: "main".into(),
            standing: Standing::Running,
            ..Self::new(invocation, Branch::root(), cancel)
        }
    }

    /// Takes over what outlives an invocation of main.
    pub(super) fn takes_over(&mut self, before: Self) {
        let Self { open_children, budget, spent, segments, aside, .. } = before;
        (self.open_children, self.budget, self.spent) = (open_children, budget, spent);
        (self.segments, self.aside) = (segments, aside);
        if let Some(aside) = self.has_aside() {
            // Whoever waited for them has ended.
            (aside.listening, aside.awaited) = (None, Vec::new());
        }
    }

    pub(super) fn queued(
        head: &UnitHead,
        invocation: Invocation,
        branch: Branch,
        cancel: CancellationToken,
    ) -> Self {
        Self {
            parent: Some(head.parent),
            description: Arc::clone(&head.description),
            agent: Arc::clone(&head.agent),
            is_agent: head.is_agent(),
            depth: head.depth,
            ..Self::new(invocation, branch, cancel)
        }
    }

    /// A unit that ended in an earlier process.
    pub(super) fn gone(unit: PastUnit) -> Self {
        let PastUnit { head, invocation, branch, end, .. } = unit;
        let mut ledger = Self::queued(&head, invocation, branch, CancellationToken::new());
        let state = end.as_ref().map_or(UnitState::Interrupted, |end| end.outcome.state());
        ledger.standing = Standing::Ended(state);
        if let Some(end) = &end {
            ledger.turns = end.turns;
            ledger.tool_uses = end.tool_uses;
            ledger.text = Arc::clone(&end.text);
        }
        ledger.final_end = end;
        ledger
    }

    fn new(invocation: Invocation, branch: Branch, cancel: CancellationToken) -> Self {
        Self {
            invocation,
            parent: None,
            description: Arc::default(),
            agent: Arc::default(),
            is_agent: true,
            depth: 0,
            branch,
            cancel,
            standing: Standing::Queued,
            started: None,
            was_lost: false,
            tokens_at_start: TokenSet::default(),
            turns: 0,
            open_calls: HashMap::new(),
            open_children: 0,
            tool_uses: 0,
            usage: Usage::default(),
            budget: Budget::default(),
            spent: Spent::default(),
            questions: Vec::new(),
            batch: None,
            call: UnitId::MAIN,
            is_replaced: false,
            waits: Vec::new(),
            is_throttled: false,
            text: Arc::default(),
            writing: String::new(),
            broken_off: String::new(),
            segments: HashMap::new(),
            share: None,
            final_end: None,
            aside: None,
            first_news: None,
            continued_by: None,
        }
    }

    /// Returns what it has to do with background units, if anything.
    pub(super) fn has_aside(&mut self) -> Option<&mut Aside> {
        self.aside.as_deref_mut()
    }

    /// Returns what it has to do with background units.
    pub(super) fn aside(&mut self) -> &mut Aside {
        self.aside.get_or_insert_default()
    }

    /// Returns the units it started in the background, in declared order.
    pub(super) fn background_children(&self) -> impl Iterator<Item = UnitId> {
        self.aside.iter().flat_map(|aside| aside.children.iter().copied())
    }

    /// Tells whether it started a unit in the background.
    pub(super) fn started_in_background(&self, unit: UnitId) -> bool {
        self.aside.as_ref().is_some_and(|aside| aside.children.contains(&unit))
    }

    /// Returns how many messages it has not been given.
    pub(super) fn unread(&self) -> usize {
        self.aside.as_ref().map_or(0, |aside| aside.inbox.len())
    }

    /// Returns the state it is in.
    pub(super) fn state(&self) -> UnitState {
        match self.standing {
            Standing::Queued => UnitState::Queued,
            Standing::Running if !self.questions.is_empty() => UnitState::AwaitingApproval,
            Standing::Running if self.is_throttled => UnitState::Throttled,
            Standing::Running => UnitState::Running,
            Standing::Ended(state) => state,
        }
    }

    /// Returns the last text its model wrote, whole or not.
    pub(super) fn text_so_far(&self) -> Arc<str> {
        let unfinished = [&self.writing, &self.broken_off];
        match unfinished.into_iter().find(|text| !text.trim().is_empty()) {
            Some(text) => text.as_str().into(),
            None => Arc::clone(&self.text),
        }
    }

    /// Takes note of what a summary cost.
    pub(super) fn compacted(&mut self, compaction: &Compaction) {
        self.usage += compaction.usage;
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.standing, Standing::Ended(_))
    }

    pub(super) fn starts(&mut self, now: UnixMillis) {
        self.standing = Standing::Running;
        self.started = Some(now);
        self.tokens_at_start = self.branch.tokens.clone();
    }

    /// Takes note that its attempt is lost. What it used was used, what it was
    /// sent and has not read is still to be read, and no later child has the
    /// name of an earlier one; all else is as before it started.
    pub(super) fn lost(&mut self) {
        self.standing = Standing::Queued;
        self.was_lost = true;
        self.branch.tokens = std::mem::take(&mut self.tokens_at_start);
        (self.started, self.turns, self.share) = (None, 0, None);
        (self.text, self.writing, self.broken_off) = Default::default();
        (self.waits, self.is_throttled) = (Vec::new(), false);
    }

    /// Forgets the units that run beside it, and whoever waits for them.
    pub(super) fn forgets_beside(&mut self) {
        if let Some(aside) = self.aside.take()
            && !aside.inbox.is_empty()
        {
            self.aside().inbox = aside.inbox;
        }
    }

    /// Tells whether it ever started.
    pub(super) fn has_run(&self) -> bool {
        self.was_lost || self.standing != Standing::Queued
    }

    /// Tells whether it was lost and has not started again.
    pub(super) fn waits_again(&self) -> bool {
        self.was_lost && self.standing == Standing::Queued
    }

    /// Returns a path segment for a child that no sibling has.
    pub(super) fn segment(&mut self, description: &str) -> String {
        let wanted = BranchPath::segment(description);
        loop {
            let count = self.segments.entry(wanted.clone()).or_insert(0);
            *count += 1;
            if *count == 1 {
                return wanted;
            }
            let numbered = format!("{wanted}-{count}");
            if !self.segments.contains_key(&numbered) {
                self.segments.insert(numbered.clone(), 1);
                return numbered;
            }
        }
    }

    pub(super) fn writes(&mut self, piece: &Piece) {
        match piece {
            Piece::Text(text) if self.writing.len() < WRITING_CAP => self.writing.push_str(text),
            Piece::Text(_) | Piece::Thinking(_) => {}
        }
    }

    /// Takes the text that it leaves if it comes to no answer, in place of all that
    /// its model wrote.
    pub(super) fn leaves(&mut self, text: Arc<str>) {
        (self.writing, self.broken_off) = Default::default();
        self.text = text;
    }

    pub(super) fn replied(&mut self, replied: &Replied) {
        self.writing = String::new();
        self.broken_off = String::new();
        if let Some(share) = self.share.as_mut().filter(|_| self.turns == 1) {
            share.cached_tokens = replied.usage.cache_read;
        }
        self.usage += replied.usage;
        if !replied.reply.text.trim().is_empty() {
            self.text = replied.reply.text.as_str().into();
        }
        let calls = &replied.reply.calls;
        self.tool_uses += u32::try_from(calls.len()).unwrap_or(u32::MAX);
        let place =
            |(index, call): (usize, &Call)| (call.id.clone(), (index, call.tool.as_str().into()));
        self.open_calls = calls.iter().enumerate().map(place).collect();
    }

    /// Takes note of a request that got no answer. If it is made again, the
    /// next answer is written from its start; what was written is still what the
    /// unit leaves behind if nothing more comes.
    pub(super) fn failed(&mut self, failed: &RequestFailed) {
        self.usage += failed.usage;
        self.is_throttled = matches!(failed.next, AfterFailure::Retry { .. });
        match failed.next {
            AfterFailure::Retry { .. }
            | AfterFailure::Fallback { .. }
            | AfterFailure::Compact
            | AfterFailure::LeaveOut => {
                let writing = std::mem::take(&mut self.writing);
                if !writing.trim().is_empty() {
                    self.broken_off = writing;
                }
            }
            AfterFailure::TooLong | AfterFailure::Nothing => {}
        }
    }

    pub(super) fn closed(&mut self, call: &CallId) {
        self.open_calls.remove(call);
    }

    /// Takes the calls that have no output, in the order of the reply.
    pub(super) fn take_open_calls(&mut self) -> Vec<(CallId, Arc<str>)> {
        let mut open: Vec<_> = self.open_calls.drain().collect();
        open.sort_unstable_by_key(|(_, (index, _))| *index);
        open.into_iter().map(|(call, (_, tool))| (call, tool)).collect()
    }

    /// Marks the end and returns what the unit had done by then. One that was
    /// lost did run, whatever became of it later.
    pub(super) fn end(
        &mut self,
        outcome: Outcome,
        output_file: Option<Arc<str>>,
        now: UnixMillis,
    ) -> UnitEnd {
        let outcome = match outcome {
            Outcome::Cancelled { ran } => Outcome::Cancelled { ran: ran || self.was_lost },
            Outcome::Done { .. } | Outcome::Failed(_) | Outcome::Interrupted => outcome,
        };
        self.standing = Standing::Ended(outcome.state());
        let written = self.text_so_far();
        (self.writing, self.broken_off, self.text) = Default::default();
        let text = match &outcome {
            Outcome::Done { text } => Arc::clone(text),
            Outcome::Failed(_) | Outcome::Cancelled { ran: _ } | Outcome::Interrupted => written,
        };
        UnitEnd {
            outcome,
            text,
            usage: self.usage,
            turns: self.turns,
            tool_uses: self.tool_uses,
            duration_ms: self.started.map_or(0, |started| now.since(started)),
            output_file,
            share: self.share,
        }
    }
}
