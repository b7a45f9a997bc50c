//! Compaction: a summary takes the place of a conversation, but for its last
//! turns, when it comes near the end of its model's context window.
//!
//! The summary is asked for with the conversation's own bytes and one message
//! more, so the provider reads them from its cache. When that is due and what
//! stays is decided here; the replacing is the history's, live and from the
//! log alike.

use std::sync::Arc;

use super::asking::{Answered, Audience, IfTooLong, Unanswered};
use super::fitting::without_largest_parts;
use super::{Unit, size};
use crate::config::WindowShare;
use crate::event::{
    Compaction, CompactionTrigger, FailureKind, NoticeLevel, Outcome, snap_to_turn_start,
};
use crate::line::Told;
use crate::message::{Entry, Message, Prompt, StopReason, Usage, short_number};
use crate::model::{Answer, Asker, ModelError, ModelErrorKind, Purpose, Request};
use crate::prompt;
use crate::tool::bound::bounded_by;

/// Most characters of a summary that enter the conversation. About 6,000
/// tokens: more than a thorough one has, and little in a usual window.
pub const SUMMARY_CAP: usize = 24_000;

/// Most characters of the request in hand that stay word for word. About 4,000
/// tokens: a task with all its conditions, but not a file that came with it.
pub const REQUEST_CAP: usize = 16_000;

/// Maximum characters of all prompts together that had no answer and are set aside.
/// The full text of each is in a file.
const SET_ASIDE_CAP: usize = 8_000;

/// What part of the window the turns may have that are kept as they were: one
/// in this many. Enough for the exchange that the user is in the middle of.
const KEPT_PART: u64 = 5;

/// The part of the window that several prompts without an answer may fill together: one
/// in this many. Beyond it only the last one stays whole.
const UNANSWERED_PART: u64 = 2;

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

/// The tokens that parts of a conversation may keep when it is compacted.
#[derive(Debug, Clone, Copy)]
struct Rooms {
    /// For the last turns.
    turns: u64,
    /// For the prompts at the end that have no answer.
    unanswered: u64,
}

/// The places where a compaction cuts a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cut {
    /// The place after the last answer. Everything before it is summarized.
    answered: usize,
    /// The place from which everything is kept. Prompts between `answered` and
    /// here are set aside.
    kept: usize,
}

/// A summary, and what it cost. The default is that of a conversation without an answer,
/// for which no model is asked.
#[derive(Debug, Default)]
struct SummaryResult {
    text: Option<String>,
    usage: Usage,
    took_ms: u64,
}

/// Advice to the user about a prompt that is too long by itself.
pub(super) const PROMPT_TOO_LONG: &str = "the prompt is too long for this model: shorten it, or put it \
     into a file and name the file; the next prompt leaves it out";

const NOT_COMPACTED: &str = "the conversation could not be compacted";

/// What became of one compaction.
enum Attempt {
    Done(Arc<Compaction>),
    /// No answer of the model would have been summed up.
    Nothing,
    /// A hook blocks it, as the message says.
    Blocked(String),
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
        let rooms = Rooms { turns: room, unanswered: window / UNANSWERED_PART };
        match self.compact(CompactionTrigger::Auto, rooms, None, IfTooLong::Compact).await {
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
        let window = self.model.facts().context_window;
        let rooms = Rooms { turns: 0, unanswered: window / UNANSWERED_PART };
        match self.compact(CompactionTrigger::Manual, rooms, hint, IfTooLong::Compact).await {
            Attempt::Done(compaction) => {
                let Compaction { tokens_before, tokens_after, .. } = &*compaction;
                let (before, after) = (short_number(*tokens_before), short_number(*tokens_after));
                Ok(format!("Compacted: {before} tokens to about {after}.").into())
            }
            Attempt::Nothing => {
                Ok("There is nothing to compact: nothing has been answered yet.".into())
            }
            Attempt::Blocked(why) => Err(Outcome::failed(FailureKind::Hook, why)),
            Attempt::Failed(error) => {
                let message = format!("{NOT_COMPACTED}: {error}");
                Err(Outcome::failed(error.kind.failure(), message))
            }
            Attempt::Ends(outcome) => Err(outcome),
        }
    }

    /// Compacts all of a conversation that its server calls too long, or refuses for what
    /// is in it.
    ///
    /// # Errors
    ///
    /// The outcome of the unit: nothing can be left out, or it was cancelled.
    pub(super) async fn compact_refused(&mut self, error: &ModelError) -> Result<(), Outcome> {
        // Only the prompt in hand stays whole: an earlier one without an answer may be
        // the very message that is refused, and would end every later turn, too.
        let rooms = Rooms { turns: 0, unanswered: 0 };
        let is_too_long = error.kind == ModelErrorKind::Overflow;
        let if_too_long = if is_too_long { IfTooLong::Fail } else { IfTooLong::Compact };
        let message = match self.compact(CompactionTrigger::Auto, rooms, None, if_too_long).await {
            Attempt::Done(_) => return Ok(()),
            Attempt::Ends(outcome) => return Err(outcome),
            Attempt::Nothing if is_too_long => format!("{error}; {PROMPT_TOO_LONG}"),
            Attempt::Nothing => error.to_string(),
            Attempt::Failed(why) => format!("{error}; {NOT_COMPACTED}: {why}"),
            Attempt::Blocked(why) => format!("{error}; {NOT_COMPACTED}: {why}"),
        };
        Err(Outcome::failed(error.kind.failure(), message))
    }

    /// Returns by how many tokens a request that sums up the first `answered` entries is
    /// too long.
    fn excess(&self, answered: usize) -> u64 {
        let unanswered = size::of_entries(&self.history.prefix().entries[answered..]);
        let tokens = self.history.tokens().saturating_sub(unanswered);
        let window = self.model.facts().context_window;
        match tokens.saturating_sub(window - window / SUMMARY_PART) {
            0 => tokens / UNKNOWN_EXCESS_PART,
            excess => excess,
        }
    }

    /// Replaces the conversation by a summary, except the last turns that fit `rooms`. If
    /// that request is too long, too, or is known to be, it is made without the largest
    /// parts.
    async fn compact(
        &mut self,
        trigger: CompactionTrigger,
        rooms: Rooms,
        hint: Option<&str>,
        if_too_long: IfTooLong,
    ) -> Attempt {
        let entries = &self.history.prefix().entries;
        let summed_up = usize::from(self.history.begins_with_summary());
        let cut = Cut::of(entries, rooms, summed_up);
        if !self.history.is_settled() || !cut.gains_anything(entries, summed_up) {
            return Attempt::Nothing;
        }
        let hint = match self.before_compaction(trigger, hint).await {
            Ok(Ok(hint)) => hint,
            Ok(Err(reason)) => {
                return Attempt::Blocked(format!("a hook blocks the compaction: {reason}"));
            }
            Err(outcome) => return Attempt::Ends(outcome),
        };
        let summed = match self.sum_up(cut.answered, hint.as_deref(), if_too_long).await {
            Ok(summed) => summed,
            Err(attempt) => return attempt,
        };
        let kept_prompts = prompts(&self.history.prefix().entries[cut.kept..]);
        let text = self.compacted_text(summed.text, &cut, kept_prompts);
        let compaction = Arc::new(Compaction {
            trigger,
            kept_prompts,
            tokens_before: self.history.tokens(),
            tokens_after: size::after_compaction(&self.history, cut.kept, &text),
            text: text.into(),
            model: Arc::clone(self.model.name()),
            usage: summed.usage,
            took_ms: summed.took_ms,
        });
        self.context.line.tell(Told::Compacted(Arc::clone(&compaction))).await;
        self.history.compacted(&compaction);
        self.compacting.pause = Pause::Answer;
        self.compacting.has_sent = false;
        self.take_offers().await;
        self.after_compaction().await;
        Attempt::Done(compaction)
    }

    /// Asks the model for a summary of the first `answered` entries. If there are none, no
    /// request is made.
    async fn sum_up(
        &mut self,
        answered: usize,
        hint: Option<&str>,
        if_too_long: IfTooLong,
    ) -> Result<SummaryResult, Attempt> {
        if answered == 0 {
            return Ok(SummaryResult::default());
        }
        self.may_request(None).await.map_err(Attempt::Ends)?;
        let cancel = self.context.cancel.clone();
        let summary = tokio::select! {
            biased;
            () = cancel.cancelled() => {
                return Err(Attempt::Ends(Outcome::Cancelled { ran: true }));
            }
            summary = self.summary(answered, hint, if_too_long) => summary,
        };
        match summary {
            Ok(Answered { answer: Answer { reply, usage, stop }, took_ms, .. }) => {
                Ok(SummaryResult {
                    text: Some(prompt::mark_summary(reply.text, stop)),
                    usage,
                    took_ms,
                })
            }
            Err(Unanswered::Failed(error) | Unanswered::Refused(error)) => {
                Err(Attempt::Failed(error))
            }
            Err(Unanswered::Ends(outcome)) => Err(Attempt::Ends(outcome)),
        }
    }

    /// Asks with the whole answered conversation if it may still fit, then with what fits
    /// by the known window, and at last without all large parts.
    async fn summary(
        &mut self,
        answered: usize,
        hint: Option<&str>,
        if_too_long: IfTooLong,
    ) -> Result<Answered, Unanswered> {
        let excess = self.excess(answered);
        let tries = match if_too_long {
            IfTooLong::Compact => [Some(0), Some(excess), Some(u64::MAX)],
            IfTooLong::Fail => [None, Some(excess), Some(u64::MAX)],
        };
        let mut tries = tries.into_iter().flatten().peekable();
        loop {
            let excess = tries.next().expect("the last one returns");
            let if_too_long =
                if tries.peek().is_some() { IfTooLong::Compact } else { IfTooLong::Fail };
            match self.ask_for_summary(answered, hint, excess, if_too_long).await {
                Err(Unanswered::Failed(error))
                    if error.kind == ModelErrorKind::Overflow && tries.peek().is_some() => {}
                Err(Unanswered::Refused(_)) if tries.peek().is_some() => {}
                done => return done,
            }
            self.may_request(None).await.map_err(Unanswered::Ends)?;
        }
    }

    /// Asks with the answered conversation, less so many tokens, and one message more.
    /// The answer is not shown as it grows: it is not an answer to the user.
    async fn ask_for_summary(
        &mut self,
        answered: usize,
        hint: Option<&str>,
        excess: u64,
        if_too_long: IfTooLong,
    ) -> Result<Answered, Unanswered> {
        self.compacting.asked += 1;
        let mut whole = self.history.prefix().clone();
        whole.entries.truncate(answered);
        let shorter = without_largest_parts(&whole, excess);
        let is_afresh = shorter.is_some() || !self.compacting.has_sent;
        let mut prefix = shorter.unwrap_or(whole);
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
        let request = Request { prefix, asker, text_schema: None };
        let answered = self.ask(request, Audience::Nobody, if_too_long).await?;
        if let Err(error) = check(&answered.answer) {
            self.tell_unusable(&error, &answered).await;
            return Err(Unanswered::Failed(error));
        }
        Ok(answered)
    }

    /// Returns the message that replaces the conversation: the summary, the prompts that
    /// are set aside, and the request in hand if its turn is cut away.
    fn compacted_text(&self, summary: Option<String>, cut: &Cut, kept_prompts: u32) -> String {
        let Compacting { environment, request, asked, .. } = &self.compacting;
        let (unit, spill) = (self.context.line.unit(), &self.context.workspace.spill);
        let summary = summary.unwrap_or_else(|| prompt::nothing_answered().to_owned());
        let mut summary =
            bounded_by(SUMMARY_CAP, summary, spill, &format!("summary-{unit}-{asked}"));
        let set_aside = &self.history.prefix().entries[cut.answered.min(cut.kept)..cut.kept];
        for (place, entry) in set_aside.iter().enumerate() {
            let Message::User(prompt) = &entry.message else { continue };
            let text = prompt.text_with(|_| prompt::image_summed_up().to_owned());
            let text = prompt::without_facts(environment, &text).trim().to_owned();
            let name = format!("prompt-{unit}-{}-{place}", cut.answered);
            summary.push_str("\n\n");
            // Leave out the whole text: the server would refuse any part of it, too.
            if self.history.leaves_out() {
                let file = spill.keep(&name, &text).ok();
                summary.push_str(&prompt::set_aside_as_refused(file.as_deref()));
                continue;
            }
            let text = bounded_by(SET_ASIDE_CAP / set_aside.len(), text, spill, &name);
            summary.push_str(&prompt::set_aside_as_too_long(&text));
        }
        let request = request.as_deref().filter(|_| kept_prompts == 0).map(|request| {
            let request = prompt::without_facts(environment, request).trim();
            bounded_by(REQUEST_CAP, request.to_owned(), spill, &format!("request-{unit}-{asked}"))
        });
        prompt::compacted(environment, &summary, request.as_deref())
    }
}

/// Rejects a summary without text, or one that the provider withheld a part of. A summary
/// that stops at the output limit is accepted, with a note.
fn check(answer: &Answer) -> Result<(), ModelError> {
    match answer.stop {
        StopReason::Refusal => {
            let message = "the provider withheld the summary";
            Err(ModelError::new(ModelErrorKind::Request, message))
        }
        StopReason::EndTurn | StopReason::ToolUse | StopReason::MaxTokens => {
            let is_empty = answer.reply.text.trim().is_empty();
            let error = || ModelError::new(ModelErrorKind::Cut, "the summary is empty");
            if is_empty { Err(error()) } else { Ok(()) }
        }
    }
}

impl Cut {
    /// Decides what stays as it is: the last turns that fit their room together, and the
    /// prompts at the end that have no answer. If those do not fit theirs, only the last
    /// of them stays. The first `summed_up` entries are a summary, so not a prompt.
    fn of(entries: &[Arc<Entry>], rooms: Rooms, summed_up: usize) -> Self {
        let mut left = Some(rooms.turns);
        let fits = |entry: &&Arc<Entry>| {
            left = left.and_then(|left| left.checked_sub(size::of_entry(entry)));
            left.is_some()
        };
        let fitting = entries.iter().rev().take_while(fits).count();
        let said = &entries[summed_up.min(entries.len())..];
        let unanswered = said.iter().rev().take_while(|entry| is_turn_start(entry)).count();
        let answered = entries.len() - unanswered;
        let is_too_much = size::of_entries(&entries[answered..]) > rooms.unanswered;
        let staying = if is_too_much { unanswered.min(1) } else { unanswered };
        let kept = snap_to_turn_start(entries, entries.len() - fitting, is_turn_start)
            .min(entries.len() - staying);
        Self { answered, kept }
    }

    /// Returns whether the conversation gets shorter: an answer, an earlier summary with
    /// something behind it, or a prompt is cut away.
    fn gains_anything(&self, entries: &[Arc<Entry>], summed_up: usize) -> bool {
        let is_answer = |entry: &Arc<Entry>| matches!(entry.message, Message::Model(_));
        entries[..self.kept].iter().any(is_answer) || self.kept > self.answered.max(summed_up)
    }
}

fn is_turn_start(entry: &Arc<Entry>) -> bool {
    matches!(entry.message, Message::User(_))
}

fn prompts(entries: &[Arc<Entry>]) -> u32 {
    let count = entries.iter().filter(|entry| is_turn_start(entry)).count();
    u32::try_from(count).expect("a conversation has fewer than four billion messages")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Call, CallId, Output, Reply};

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
        let from = Cut::of(&entries, Rooms { turns: room, unanswered: u64::MAX }, 0).kept;
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
    fn only_the_last_unanswered_prompt_stays_if_they_do_not_all_fit() {
        for (words, unanswered, summed_up, expected) in [
            ("u a u5 u", 6, 0, Some((2, 2))),
            ("u a u5 u", 5, 0, Some((2, 3))),
            ("u a u9 u u", 0, 0, Some((2, 4))),
            ("u a u9", 0, 0, Some((2, 2))),
            ("u9 u", 0, 0, Some((0, 1))),
            ("u9", 0, 0, None),
            // The first message is a summary.
            ("u9 u9 u", 0, 1, Some((1, 2))),
            ("u9 u", 0, 1, None),
        ] {
            let entries = conversation(words);
            let cut = Cut::of(&entries, Rooms { turns: 0, unanswered }, summed_up);
            let found = cut.gains_anything(&entries, summed_up).then_some((cut.answered, cut.kept));
            assert_eq!(found, expected, "{words}");
        }
    }

    #[test]
    fn what_is_counted_as_kept_is_what_the_history_keeps() {
        let entries = conversation("u a u a t a u");
        let rooms = |turns| Rooms { turns, unanswered: u64::MAX };
        let kept = |turns| Cut::of(&entries, rooms(turns), 0).kept;
        let counts = (0..=7).map(|turns| prompts(&entries[kept(turns)..]));
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
