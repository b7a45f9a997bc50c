//! Compaction: a summary takes the place of a conversation, but for its last
//! turns, when it comes near the end of its model's context window.
//!
//! The summary is asked for with the conversation's own bytes and one message
//! more, so the provider reads them from its cache. When that is due and what
//! stays is decided here; the replacing is the history's, live and from the
//! log alike.

use std::sync::Arc;

use super::asking::{Answered, Audience, IfTooLong, Unanswered};
use super::fitting::without_large_outputs;
use super::{History, Unit, size};
use crate::config::WindowShare;
use crate::event::{
    Compaction, CompactionTrigger, FailureKind, NoticeLevel, Outcome, snap_to_turn_start,
};
use crate::line::Told;
use crate::message::{Entry, Message, Prefix, Prompt, StopReason, short_number};
use crate::model::{Answer, Asker, ModelError, ModelErrorKind, Purpose, Request};
use crate::prompt;
use crate::tool::bound::bounded_by;

/// Most characters of a summary that enter the conversation. About 6,000
/// tokens: more than a thorough one has, and little in a usual window.
pub const SUMMARY_CAP: usize = 24_000;

/// Most characters of the request in hand that stay word for word. About 4,000
/// tokens: a task with all its conditions, but not a file that came with it.
pub const REQUEST_CAP: usize = 16_000;

/// What part of the window the turns may have that are kept as they were: one
/// in this many. Enough for the exchange that the user is in the middle of.
const KEPT_PART: u64 = 5;

/// What part of the window is left free for the answer of a request that sums
/// up a conversation which has outgrown it: one in this many.
const SUMMARY_PART: u64 = 10;

/// What part of a conversation goes that the provider calls too long where it
/// should fit: one in this many. Nobody knows then how long it may be.
const UNKNOWN_EXCESS_PART: u64 = 2;

/// After a compaction that gained too little or failed, the next one waits
/// until the conversation has grown by one in this many of the window.
const GROWTH_PART: u64 = 10;

/// When a unit's conversation is compacted, and what was done about it so far.
#[derive(Debug)]
pub struct Compacting {
    /// `None` for never.
    at: Option<WindowShare>,
    /// The facts of the moment, which the summary must not have to repeat.
    environment: Arc<str>,
    /// What the unit was asked; `None` if it was given nothing to answer.
    request: Option<Arc<str>>,
    pause: Pause,
    /// How many summaries were asked for.
    asked: u32,
    /// Whether a turn's request has been sent that the next one begins with.
    has_sent: bool,
}

/// What the next compaction waits for beside the threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pause {
    Nothing,
    /// The size of the conversation after a compaction: known, and not only
    /// guessed, once the next answer is there.
    Answer,
    /// So many tokens.
    Size(u64),
}

impl Compacting {
    /// Compacts at a share of the context window, or never. `environment` are
    /// the facts that stand in a conversation's first message.
    #[must_use]
    pub fn new(at: Option<WindowShare>, environment: Arc<str>) -> Self {
        let pause = Pause::Nothing;
        Self { at, environment, request: None, pause, asked: 0, has_sent: false }
    }

    /// Takes note of what the unit is asked. What failed before may be tried
    /// again. A summary takes its images with it, and the request says so.
    pub(super) fn begins_with(&mut self, request: &Prompt) {
        self.request = Some(request.text_with(|_| prompt::image_summed_up().to_owned()).into());
        self.pause = Pause::Nothing;
    }

    /// Takes note that a turn's request is sent; `true` if it begins with no
    /// earlier one.
    pub(super) fn sends_afresh(&mut self) -> bool {
        !std::mem::replace(&mut self.has_sent, true)
    }

    /// Tells whether a conversation of so many tokens is to be compacted.
    fn is_due(&mut self, tokens: u64, window: u64) -> bool {
        let Some(threshold) = self.at.map(|share| share.of(window)) else { return false };
        if self.pause == Pause::Answer {
            self.pause = Pause::Nothing;
            if tokens >= threshold {
                self.wait_for_growth(tokens, window);
            }
        }
        tokens >= threshold
            && match self.pause {
                Pause::Nothing => true,
                Pause::Answer => false,
                Pause::Size(least) => tokens >= least,
            }
    }

    fn wait_for_growth(&mut self, tokens: u64, window: u64) {
        self.pause = Pause::Size(tokens.saturating_add((window / GROWTH_PART).max(1)));
    }
}

/// What became of one compaction.
enum Attempt {
    Done(Arc<Compaction>),
    /// No answer of the model would have been summed up.
    Nothing,
    /// A hook is against it, for this reason.
    Blocked(Arc<str>),
    Failed(ModelError),
    /// The unit ends: it was cancelled, or a limit leaves no room for one more
    /// request.
    Ends(Outcome),
}

impl Unit {
    /// Compacts the conversation if it is time. One that fails is told and
    /// changes nothing.
    ///
    /// # Errors
    ///
    /// The outcome of the unit: it was cancelled meanwhile.
    pub(super) async fn compact_if_due(&mut self) -> Result<(), Outcome> {
        let (tokens, window) = (self.history.tokens(), self.model.facts().context_window);
        // A fork's first request goes on from its parent's bytes, always.
        let is_forks_first = self.forked_from.is_some() && !self.compacting.has_sent;
        if is_forks_first || !self.compacting.is_due(tokens, window) {
            return Ok(());
        }
        // Never more than half of what was said: where the window is small, the
        // system prompt long or the estimate too low, all of it might fit.
        let said = size::of_entries(&self.history.prefix().entries);
        let room = (window / KEPT_PART).min(said / 2);
        match self.compact(CompactionTrigger::Auto, room, None, IfTooLong::Compact).await {
            Attempt::Done(_) | Attempt::Nothing => {}
            Attempt::Blocked(_) => self.compacting.wait_for_growth(tokens, window),
            Attempt::Failed(error) => {
                self.compacting.wait_for_growth(tokens, window);
                let text = format!("the conversation could not be compacted and goes on: {error}");
                let notice = Told::Notice { level: NoticeLevel::Warning, text: text.into() };
                self.context.line.tell(notice).await;
            }
            Attempt::Ends(outcome) => return Err(outcome),
        }
        Ok(())
    }

    /// Compacts the conversation because the user asked for it, and returns
    /// what is said about it.
    ///
    /// # Errors
    ///
    /// The outcome of the unit: there is no summary, or it was cancelled.
    pub(super) async fn compact_now(&mut self, hint: Option<&str>) -> Result<Arc<str>, Outcome> {
        match self.compact(CompactionTrigger::Manual, 0, hint, IfTooLong::Compact).await {
            Attempt::Done(compaction) => {
                let Compaction { tokens_before, tokens_after, .. } = &*compaction;
                let (before, after) = (short_number(*tokens_before), short_number(*tokens_after));
                Ok(format!("Compacted: {before} tokens to about {after}.").into())
            }
            Attempt::Nothing => {
                Ok("There is nothing to compact: nothing has been answered yet.".into())
            }
            Attempt::Blocked(reason) => Err(Outcome::failed(FailureKind::Hook, blocked(&reason))),
            Attempt::Failed(error) => {
                let message = format!("the conversation could not be compacted: {error}");
                Err(Outcome::failed(error.kind.failure(), message))
            }
            Attempt::Ends(outcome) => Err(outcome),
        }
    }

    /// Compacts all of a conversation that its provider calls too long.
    ///
    /// # Errors
    ///
    /// The outcome of the unit: it stays too long, or it was cancelled.
    pub(super) async fn compact_too_long(&mut self, error: &ModelError) -> Result<(), Outcome> {
        let why = match self.compact(CompactionTrigger::Auto, 0, None, IfTooLong::Fail).await {
            Attempt::Done(_) => return Ok(()),
            Attempt::Ends(outcome) => return Err(outcome),
            Attempt::Nothing => "nothing in it has been answered yet".to_owned(),
            Attempt::Failed(error) => error.to_string(),
            Attempt::Blocked(reason) => blocked(&reason),
        };
        let message = format!("{error}; the conversation could not be compacted: {why}");
        Err(Outcome::failed(FailureKind::Overflow, message))
    }

    /// Returns how many tokens a conversation has too many that its provider
    /// calls too long, for a request that sums it up.
    fn excess(&self) -> u64 {
        let (tokens, window) = (self.history.tokens(), self.model.facts().context_window);
        match tokens.saturating_sub(window - window / SUMMARY_PART) {
            0 => tokens / UNKNOWN_EXCESS_PART,
            excess => excess,
        }
    }

    /// Puts a summary in the place of the conversation, but for its last turns
    /// as far as they fit `room` tokens. Where that request is too long, too,
    /// or is known to be, it is made without the largest outputs.
    async fn compact(
        &mut self,
        trigger: CompactionTrigger,
        room: u64,
        hint: Option<&str>,
        if_too_long: IfTooLong,
    ) -> Attempt {
        let entries = &self.history.prefix().entries;
        let kept = kept_from(entries, room);
        let is_answer = |entry: &Arc<Entry>| matches!(entry.message, Message::Model(_));
        if !self.history.is_settled() || !entries[..kept].iter().any(is_answer) {
            return Attempt::Nothing;
        }
        let hint = match self.before_compaction(trigger, hint).await {
            Ok(Ok(hint)) => hint,
            Ok(Err(reason)) => return Attempt::Blocked(reason),
            Err(outcome) => return Attempt::Ends(outcome),
        };
        if let Err(outcome) = self.may_request(None).await {
            return Attempt::Ends(outcome);
        }
        let cancel = self.context.cancel.clone();
        let answered = tokio::select! {
            biased;
            () = cancel.cancelled() => return Attempt::Ends(Outcome::Cancelled { ran: true }),
            answered = self.summary(hint.as_deref(), if_too_long) => answered,
        };
        let Answered { answer: Answer { reply, usage, stop: _ }, took_ms, .. } = match answered {
            Ok(answered) => answered,
            Err(Unanswered::Failed(error)) => return Attempt::Failed(error),
            Err(Unanswered::Ends(outcome)) => return Attempt::Ends(outcome),
        };
        let kept_prompts = prompts(&self.history.prefix().entries[kept..]);
        let text = self.compacted_text(reply.text, kept_prompts);
        let compaction = Arc::new(Compaction {
            trigger,
            kept_prompts,
            tokens_before: self.history.tokens(),
            tokens_after: size_after(&self.history, kept, &text),
            text: text.into(),
            model: Arc::clone(self.model.name()),
            usage,
            took_ms,
        });
        self.context.line.tell(Told::Compacted(Arc::clone(&compaction))).await;
        self.history.compacted(&compaction);
        self.compacting.pause = Pause::Answer;
        self.compacting.has_sent = false;
        self.take_offers().await;
        self.after_compaction().await;
        Attempt::Done(compaction)
    }

    /// Asks with the whole conversation if it may still fit, and else with what
    /// does.
    async fn summary(
        &mut self,
        hint: Option<&str>,
        if_too_long: IfTooLong,
    ) -> Result<Answered, Unanswered> {
        if if_too_long == IfTooLong::Compact {
            match self.ask_for_summary(hint, 0, if_too_long).await {
                Err(Unanswered::Failed(error)) if error.kind == ModelErrorKind::Overflow => {}
                answered => return answered,
            }
            self.may_request(None).await.map_err(Unanswered::Ends)?;
        }
        let excess = self.excess();
        self.ask_for_summary(hint, excess, IfTooLong::Fail).await
    }

    /// Asks with the conversation, less so many tokens, and one message more.
    /// Nobody is shown the answer as it grows: it is no answer to the user.
    async fn ask_for_summary(
        &mut self,
        hint: Option<&str>,
        excess: u64,
        if_too_long: IfTooLong,
    ) -> Result<Answered, Unanswered> {
        self.compacting.asked += 1;
        let shorter = without_large_outputs(self.history.prefix(), excess);
        let is_afresh = shorter.is_some() || !self.compacting.has_sent;
        let mut prefix = shorter.unwrap_or_else(|| self.history.prefix().clone());
        prefix.push(Message::User(prompt::compact(hint).into()));
        let asker = Asker {
            unit: self.context.line.unit(),
            agent: Arc::clone(&self.agent),
            description: Arc::clone(&self.description),
            purpose: Purpose::Summary,
            turn: self.compacting.asked,
            attempt: 1,
            is_afresh,
            forked_from: None,
        };
        let request = Request { prefix, asker };
        let answered = self.ask(request, Audience::Nobody, if_too_long).await?;
        if let Err(error) = check(&answered.answer) {
            self.tell_unusable(&error, &answered).await;
            return Err(Unanswered::Failed(error));
        }
        Ok(answered)
    }

    /// Returns the message that stands for the conversation: the summary, and
    /// the request in hand if its turn is cut away.
    fn compacted_text(&self, summary: String, kept_prompts: u32) -> String {
        let Compacting { environment, request, asked, .. } = &self.compacting;
        let (unit, spill) = (self.context.line.unit(), &self.context.workspace.spill);
        let summary = bounded_by(SUMMARY_CAP, summary, spill, &format!("summary-{unit}-{asked}"));
        let request = request.as_deref().filter(|_| kept_prompts == 0).map(|request| {
            let request = prompt::without_facts(environment, request).trim();
            bounded_by(REQUEST_CAP, request.to_owned(), spill, &format!("request-{unit}-{asked}"))
        });
        prompt::compacted(environment, &summary, request.as_deref())
    }
}

/// Says that a hook is against a compaction.
fn blocked(reason: &str) -> String {
    format!("a hook blocks the compaction: {reason}")
}

/// An answer without text, or with only a part of what the model had to say,
/// cannot stand for a conversation. Calls in it are not looked at.
fn check(answer: &Answer) -> Result<(), ModelError> {
    match answer.stop {
        StopReason::Refusal => {
            let message = "the provider withheld the summary";
            Err(ModelError::new(ModelErrorKind::Request, message))
        }
        StopReason::EndTurn | StopReason::ToolUse | StopReason::MaxTokens
            if answer.reply.text.trim().is_empty() =>
        {
            Err(ModelError::new(ModelErrorKind::Cut, "the summary is empty"))
        }
        StopReason::EndTurn | StopReason::ToolUse | StopReason::MaxTokens => Ok(()),
    }
}

/// Returns where the part begins that is kept: the last turns that fit `room`
/// tokens together, and prompts without an answer in any case.
fn kept_from(entries: &[Arc<Entry>], room: u64) -> usize {
    let mut left = Some(room);
    let fits = |entry: &&Arc<Entry>| {
        left = left.and_then(|left| left.checked_sub(size::of_entry(entry)));
        left.is_some()
    };
    let fitting = entries.iter().rev().take_while(fits).count();
    let unanswered = entries.iter().rev().take_while(|entry| is_turn_start(entry)).count();
    snap_to_turn_start(entries, entries.len() - fitting, is_turn_start)
        .min(entries.len() - unanswered)
}

fn is_turn_start(entry: &Arc<Entry>) -> bool {
    matches!(entry.message, Message::User(_))
}

fn prompts(entries: &[Arc<Entry>]) -> u32 {
    let count = entries.iter().filter(|entry| is_turn_start(entry)).count();
    u32::try_from(count).expect("a conversation has fewer than four billion messages")
}

/// Estimates the tokens of the conversation with `text` in the place of all
/// before `kept`: the provider's count, less what the estimates say is saved.
fn size_after(history: &History, kept: usize, text: &str) -> u64 {
    let Prefix { head, entries } = history.prefix();
    let head = size::of_head(head);
    let before = head + size::of_entries(entries);
    let after = head + size::of_text(text) + size::of_entries(&entries[kept..]);
    let scaled = u128::from(history.tokens()) * u128::from(after) / u128::from(before.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Call, CallId, Output, Reply, Usage};

    const WINDOW: u64 = 1_000;

    fn compacting() -> Compacting {
        Compacting::new(Some(WindowShare::default()), Arc::default())
    }

    /// Makes a conversation of words: `u` (a user message), `a` (an answer), `t`
    /// (an output), each of four bytes times the number behind it.
    fn conversation(words: &str) -> Vec<Arc<Entry>> {
        let message = |word: &str| {
            let (kind, tokens) = word.split_at(1);
            let text = "text".repeat(tokens.parse().unwrap_or(1));
            match kind {
                "u" => Message::User(text.into()),
                "a" => Message::Model(Arc::new(Reply { text, ..Reply::default() })),
                "t" => {
                    Message::Output { call: CallId::from("c"), output: Arc::new(Output::ok(text)) }
                }
                other => panic!("`{other}` is no message"),
            }
        };
        words.split_whitespace().map(|word| Arc::new(Entry::from(message(word)))).collect()
    }

    #[track_caller]
    fn check_kept(words: &str, room: u64, kept: &str) {
        let entries = conversation(words);
        let from = kept_from(&entries, room);
        let words: Vec<&str> = words.split_whitespace().collect();
        assert_eq!(words[from..].join(" "), kept);
    }

    #[test]
    fn the_last_turns_that_fit_are_kept_whole() {
        check_kept("u a u a u a", 100, "u a u a u a");
        check_kept("u a u a u a", 4, "u a u a");
        check_kept("u a u a u a", 3, "u a");
        check_kept("u a u a t a", 3, "");
        check_kept("u a u a t a", 4, "u a t a");
        check_kept("u a t a t a", 5, "");
        check_kept("u a u9 a", 9, "");
        check_kept("", 9, "");
    }

    #[test]
    fn a_prompt_without_an_answer_is_kept_however_long_it_is() {
        check_kept("u a u", 0, "u");
        check_kept("u a u900", 9, "u900");
        check_kept("u a u900 u", 9, "u900 u");
        check_kept("u a t", 0, "");
        check_kept("u900", 0, "u900");
    }

    #[test]
    fn what_is_counted_as_kept_is_what_the_history_keeps() {
        let entries = conversation("u a u a t a u");
        let counts = (0..=7).map(|room| prompts(&entries[kept_from(&entries, room)..]));
        assert_eq!(counts.collect::<Vec<_>>(), [1, 1, 1, 1, 1, 2, 2, 3]);
    }

    #[test]
    fn it_is_due_from_the_share_of_the_window_on() {
        assert!(!compacting().is_due(799, WINDOW));
        assert!(compacting().is_due(800, WINDOW));
        assert!(compacting().is_due(5_000, WINDOW));
        assert!(!compacting().is_due(u64::MAX / 2, u64::MAX));
        let mut never = Compacting::new(None, Arc::default());
        assert!(!never.is_due(5_000, WINDOW));
    }

    #[test]
    fn a_conversation_that_stays_too_long_is_left_alone_until_it_has_grown() {
        let mut compacting = compacting();
        compacting.pause = Pause::Answer;
        // The first answer shows that the compaction gained nothing.
        assert!(!compacting.is_due(900, WINDOW));
        assert!(!compacting.is_due(999, WINDOW));
        assert!(compacting.is_due(1_000, WINDOW));
    }

    #[test]
    fn after_a_compaction_that_helped_the_share_counts_again() {
        let mut compacting = compacting();
        compacting.pause = Pause::Answer;
        assert!(!compacting.is_due(100, WINDOW));
        assert!(!compacting.is_due(799, WINDOW));
        assert!(compacting.is_due(800, WINDOW));
    }

    #[test]
    fn a_new_request_need_not_wait_for_growth() {
        let mut compacting = compacting();
        compacting.wait_for_growth(900, WINDOW);
        assert!(!compacting.is_due(950, WINDOW));
        compacting.begins_with(&"next".into());
        assert!(compacting.is_due(950, WINDOW));
    }

    #[test]
    fn growth_never_runs_over() {
        let mut compacting = compacting();
        compacting.wait_for_growth(u64::MAX, WINDOW);
        assert!(compacting.is_due(u64::MAX, WINDOW));
        compacting.wait_for_growth(1, 1);
        assert_eq!(compacting.pause, Pause::Size(2));
    }

    #[test]
    fn an_answer_stands_for_a_conversation_only_if_it_has_text_and_all_of_it() {
        let call = Call { id: "c".into(), tool: "Read".into(), arguments: "{}".into() };
        let answer = |text: &str, stop| {
            let (text, calls) = (text.to_owned(), vec![call.clone()]);
            let reply = Reply { text, calls, ..Reply::default() };
            let answer = Answer { reply, usage: Usage::default(), stop };
            check(&answer).map(|()| answer.reply.text)
        };
        assert_eq!(answer("all", StopReason::ToolUse).as_deref(), Ok("all"));
        assert_eq!(answer("al", StopReason::MaxTokens).as_deref(), Ok("al"));
        let failed = |text, stop| answer(text, stop).unwrap_err().to_string();
        assert_eq!(failed(" \n", StopReason::ToolUse), "the summary is empty");
        assert_eq!(failed("", StopReason::MaxTokens), "the summary is empty");
        assert_eq!(failed("al", StopReason::Refusal), "the provider withheld the summary");
    }
}
