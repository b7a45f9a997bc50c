//! A unit's conversation, folded from what happened in it.
//!
//! The history never holds a call without its output where a request could see
//! it: outputs wait here until every call of a reply has one, and then enter in
//! the order of the calls, whatever order they finished in.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::size;
use crate::event::{AfterFailure, Compaction, EventKind, Outcome, Replied};
use crate::message::{CallId, Entry, Head, Message, Output, Prefix, Prompt, Reply, Usage};
use crate::prompt::{self, Said};

/// The conversation of one unit.
#[derive(Debug)]
pub struct History {
    prefix: Prefix,
    /// What stands before its first user message, until there is one.
    context: Option<String>,
    /// The calls of the last answer, until each has its output.
    open: Vec<(CallId, Option<Arc<Output>>)>,
    /// Where each open call without an output is, the first place last.
    places: HashMap<CallId, Vec<usize>>,
    /// How many open calls have no output.
    missing: usize,
    claimed: HashSet<CallId>,
    /// What the provider counted last; `None` until it has.
    counted: Option<Counted>,
    /// Set if the last request was given up, so that its last message has no answer.
    is_given_up: bool,
    /// Set if a request was given up since the last answer.
    follows_given_up: bool,
    /// The last message as it was before the last prompt was joined with it, and that
    /// prompt; `None` if they were not joined.
    parts: Option<(Arc<Entry>, Prompt)>,
    /// Set if the prompts before the last one are left out by the next compaction,
    /// because the server may refuse one of them.
    leaves_out: bool,
    /// Whether a flow was walked and nobody has said yet what it came to.
    is_walking: bool,
    /// Whether the first message is a summary of what was said before.
    begins_with_summary: bool,
}

/// What the provider said of the size of a conversation.
#[derive(Debug, Clone, Copy)]
struct Counted {
    tokens: u64,
    /// How many messages that was.
    entries: usize,
}

impl History {
    /// A conversation in which nothing was said yet.
    #[must_use]
    pub fn new(head: Arc<Head>) -> Self {
        Self {
            prefix: Prefix::new(head),
            context: None,
            open: Vec::new(),
            places: HashMap::new(),
            missing: 0,
            claimed: HashSet::new(),
            counted: None,
            is_given_up: false,
            follows_given_up: false,
            parts: None,
            leaves_out: false,
            is_walking: false,
            begins_with_summary: false,
        }
    }

    /// A conversation that goes on after another one's bytes.
    #[must_use]
    pub fn after(prefix: Prefix) -> Self {
        let mut history = Self::new(Arc::clone(&prefix.head));
        for message in prefix.messages() {
            if let Message::Model(reply) = message {
                history.claimed.extend(reply.calls.iter().map(|call| call.id.clone()));
            }
        }
        history.prefix = prefix;
        history
    }

    /// Tells whether every call has its output, so that another message may
    /// follow.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.missing == 0
    }

    /// A conversation in which nothing was said yet, and whose first user
    /// message begins with what the unit sees of others.
    #[must_use]
    pub fn seeing(head: Arc<Head>, said: &[Arc<Said>]) -> Self {
        Self { context: prompt::context(said), ..Self::new(head) }
    }

    /// Folds the events of one unit's conversation, oldest first.
    ///
    /// The result is the history the unit itself had after the last of them.
    /// What it has gone back behind is not to be among them.
    pub fn of<'a>(head: Arc<Head>, events: impl IntoIterator<Item = &'a EventKind>) -> Self {
        let mut history = Self::new(head);
        history.extend(events);
        history
    }

    /// Takes the ids of calls that a summary has replaced.
    #[must_use]
    pub fn with_calls(mut self, calls: &[CallId]) -> Self {
        self.claimed.extend(calls.iter().cloned());
        self
    }

    /// Has other words stand before the first message from now on, as only a
    /// conversation may that has not been sent as it is: all of it is rendered
    /// anew.
    pub fn set_head(&mut self, head: Arc<Head>) {
        self.prefix.head = head;
        self.prefix = self.prefix.unrendered();
        self.counted = None;
    }

    /// Returns what a request made now would send.
    #[must_use]
    pub fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    /// Returns how many tokens the conversation has: what the provider counted
    /// with its last answer, and an estimate of what was added since. All of it
    /// is an estimate if the provider does not count.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        let Prefix { head, entries } = &self.prefix;
        let (before, counted) = match self.counted {
            Some(Counted { tokens, entries }) => (tokens, entries),
            None => (size::of_head(head), 0),
        };
        before.saturating_add(size::of_entries(&entries[counted..]))
    }

    /// Tells whether the provider has counted any of it.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.counted.is_some()
    }

    /// Forgets the bytes of the conversation, since another client renders it
    /// from now on, and returns the same of `request`: what it shared with the
    /// conversation it shares again.
    pub(super) fn render_anew(&mut self, request: &Prefix) -> Prefix {
        let anew = self.prefix.unrendered();
        let before = std::mem::replace(&mut self.prefix, anew);
        let Prefix { head, entries } = &self.prefix;
        let render = |(place, entry): (usize, &Arc<Entry>)| match before.entries.get(place) {
            Some(own) if Arc::ptr_eq(own, entry) => Arc::clone(&entries[place]),
            Some(_) | None => Arc::new(Entry::from(entry.message.clone())),
        };
        let entries = request.entries.iter().enumerate().map(render).collect();
        Prefix { head: Arc::clone(head), entries }
    }

    /// Returns whether the first message is a summary of what was said before.
    pub(super) fn begins_with_summary(&self) -> bool {
        self.begins_with_summary
    }

    /// Takes a call's id; `false` if a call of this conversation has it.
    pub(super) fn claim(&mut self, id: &CallId) -> bool {
        self.claimed.insert(id.clone())
    }

    /// Takes note of a user message.
    pub fn prompted(&mut self, prompt: Prompt) {
        let prompt = match self.context.take() {
            Some(context) => prompt.behind(&format!("{context}\n\n")),
            None => prompt,
        };
        let is_given_up = std::mem::take(&mut self.is_given_up);
        self.follows_given_up |= is_given_up;
        let last = self.prefix.entries.last().map(|entry| &entry.message);
        // Two user messages in a row are what many servers refuse, and no cache
        // holds a request that was not answered.
        self.parts = None;
        let prompt = match last {
            Some(Message::User(before)) if is_given_up => {
                let joined = Prompt::joined([before.clone(), prompt.clone()]);
                self.parts = self.prefix.entries.pop().map(|before| (before, prompt));
                joined
            }
            Some(_) | None => prompt,
        };
        self.prefix.push(Message::User(prompt));
    }

    /// Records that a request failed, and what is done about it.
    pub(super) fn failed(&mut self, next: &AfterFailure) {
        match next {
            // The summary of an answered conversation leaves no message without an answer.
            AfterFailure::Nothing => self.is_given_up = !self.is_answered(),
            AfterFailure::LeaveOut => self.leave_out(),
            AfterFailure::Retry { .. }
            | AfterFailure::Fallback { model: _ }
            | AfterFailure::Compact
            | AfterFailure::TooLong => {}
        }
    }

    /// Returns whether the last message is an answer.
    fn is_answered(&self) -> bool {
        let last = self.prefix.entries.last();
        last.is_some_and(|entry| matches!(entry.message, Message::Model(_)))
    }

    /// Makes the last prompt a message of its own again, so that a compaction can leave
    /// out the messages before it that have no answer.
    fn leave_out(&mut self) {
        (self.is_given_up, self.leaves_out) = (true, true);
        if let Some((before, prompt)) = self.parts.take() {
            self.prefix.entries.pop();
            self.prefix.entries.push(before);
            self.prefix.push(Message::User(prompt));
        }
    }

    /// Returns whether the server may refuse one of the messages that have no answer.
    pub(super) fn leaves_out(&self) -> bool {
        self.leaves_out
    }

    /// Returns whether a request was given up since the last answer: what was
    /// refused then is still in the conversation.
    pub(super) fn follows_given_up(&self) -> bool {
        self.is_given_up || self.follows_given_up
    }

    /// Replaces what was said by a summary, but for the last few user messages
    /// and all that followed them.
    pub fn compacted(&mut self, compaction: &Compaction) {
        let kept = self.place_of_prompt(compaction.kept_prompts);
        let kept = self.prefix.entries.split_off(kept);
        // What is kept may hold what was refused.
        let follows_given_up = self.follows_given_up() && compaction.kept_prompts > 0;
        (self.is_given_up, self.leaves_out, self.parts) = (false, false, None);
        self.prefix.entries.clear();
        self.counted = None;
        self.prompted(Arc::clone(&compaction.text).into());
        self.follows_given_up = follows_given_up;
        self.begins_with_summary = true;
        self.prefix.entries.extend(kept.into_iter().map(unsent));
    }

    /// Returns where the user message stands that is the `count`-th from the
    /// last; the end for 0, the start if there are fewer.
    fn place_of_prompt(&self, count: u32) -> usize {
        let Some(before) = count.checked_sub(1) else {
            return self.prefix.entries.len();
        };
        let prompts = self.prefix.entries.iter().enumerate().rev();
        prompts
            .filter(|(_, entry)| matches!(entry.message, Message::User(_)))
            .map(|(place, _)| place)
            .nth(before as usize)
            .unwrap_or(0)
    }

    /// Takes note of what a flow came to that the user asked for. No model has
    /// said it in this conversation, but it is what the user has been answered.
    fn walked(&mut self, text: String) {
        self.is_walking = false;
        let reply = Reply { text, ..Reply::default() };
        self.prefix.push(Message::Model(Arc::new(reply)));
    }

    /// Gives a flow an answer whose end is in no line that can be read, before
    /// something else is said.
    fn end_walk(&mut self) {
        if self.is_walking {
            self.walked(prompt::walked(&Outcome::Interrupted, ""));
        }
    }

    /// Takes note of an answer; its calls are open from now on.
    pub fn replied(&mut self, replied: &Replied) {
        let Replied { reply, usage, .. } = replied;
        (self.is_given_up, self.follows_given_up, self.leaves_out) = (false, false, false);
        self.parts = None;
        self.prefix.push(Message::Model(Arc::clone(reply)));
        self.counted = self.count(*usage).or(self.counted);
        self.open = reply.calls.iter().map(|call| (call.id.clone(), None)).collect();
        self.missing = self.open.len();
        self.places.clear();
        for (place, (id, _)) in self.open.iter().enumerate().rev() {
            self.places.entry(id.clone()).or_default().push(place);
        }
    }

    /// Takes note of a call's output. A second output of a call is ignored:
    /// the first one is what the model was told.
    pub fn finished(&mut self, call: &CallId, output: Arc<Output>) {
        let Some(place) = self.places.get_mut(call).and_then(Vec::pop) else { return };
        self.open[place].1 = Some(output);
        self.missing -= 1;
        if self.missing == 0 {
            for (call, output) in std::mem::take(&mut self.open) {
                let output = output.expect("no call is missing its output");
                self.prefix.push(Message::Output { call, output });
            }
        }
    }

    /// `None` if the provider did not count what it was sent.
    fn count(&self, usage: Usage) -> Option<Counted> {
        let entries = self.prefix.entries.len();
        let sent = Usage { output: 0, ..usage }.total();
        (sent > 0).then(|| Counted { tokens: usage.total(), entries })
    }

    fn apply(&mut self, event: &EventKind) {
        match event {
            EventKind::Prompted(prompt) => {
                self.end_walk();
                self.prompted(prompt.clone());
            }
            EventKind::Notified { children: _, text, wrote: _ } => {
                self.end_walk();
                self.prompted(Arc::clone(text).into());
            }
            EventKind::Compacted(compaction) => self.compacted(compaction),
            EventKind::Replied(replied) => {
                self.claimed.extend(replied.reply.calls.iter().map(|call| call.id.clone()));
                self.replied(replied);
            }
            EventKind::ToolFinished { call, tool: _, output, took_ms: _ } => {
                self.finished(call, Arc::clone(output));
            }
            EventKind::Walked(_) => self.is_walking = true,
            EventKind::RequestFailed(failed) => self.failed(&failed.next),
            EventKind::InvocationEnded(end) => {
                if self.is_walking {
                    self.walked(prompt::walked(&end.outcome, &end.text));
                }
            }
            EventKind::SessionOpened(_)
            | EventKind::InvocationStarted { .. }
            | EventKind::UnitQueued(_)
            | EventKind::UnitStarted
            | EventKind::Lost { .. }
            | EventKind::TurnStarted { turn: _ }
            | EventKind::PrefixShared(_)
            | EventKind::Throttled(_)
            | EventKind::Admitted { waited_ms: _ }
            | EventKind::ToolStarted { .. }
            | EventKind::FileChanged(_)
            | EventKind::Worktree(_)
            | EventKind::HookRan(_)
            | EventKind::Denied { call: _, tool: _, arguments: _, reason: _ }
            | EventKind::Asked { .. }
            | EventKind::Answered { .. }
            | EventKind::UnitEnded(_)
            | EventKind::UserWrote { .. }
            | EventKind::UserTookBack
            | EventKind::SetAside { .. }
            | EventKind::Rewound { .. }
            | EventKind::Chosen(_)
            | EventKind::Offered(_)
            | EventKind::Left
            | EventKind::Joined { children: _ }
            | EventKind::Notice { level: _, text: _ } => {}
        }
    }
}

impl<'a> Extend<&'a EventKind> for History {
    /// Takes note of what happened in the unit next.
    fn extend<I: IntoIterator<Item = &'a EventKind>>(&mut self, events: I) {
        events.into_iter().for_each(|event| self.apply(event));
    }
}

/// Forgets the bytes that an answer with sealed reasoning was sent as: what
/// stands before it has changed, and its provider may refuse it for that.
fn unsent(entry: Arc<Entry>) -> Arc<Entry> {
    match &entry.message {
        Message::Model(reply) if reply.sealed.is_some() => {
            Arc::new(Entry::from(entry.message.clone()))
        }
        Message::Model(_) | Message::User(_) | Message::Output { .. } => entry,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{CompactionTrigger, FlowHead, InvocationEnd};
    use crate::message::{Call, Sealed, StopReason};

    fn history_with_calls(ids: &[&str]) -> History {
        let mut history = History::new(Arc::new(Head::new(String::new(), Vec::new())));
        let call = |id: &&str| Call {
            id: CallId::from(*id),
            tool: "Read".to_owned(),
            arguments: "{}".to_owned(),
        };
        let reply = Reply { calls: ids.iter().map(call).collect(), ..Reply::default() };
        history.replied(&replied(reply, Usage::default()));
        history
    }

    fn replied(reply: Reply, usage: Usage) -> Replied {
        let (reply, model) = (Arc::new(reply), "m".into());
        Replied { reply, model, usage, stop: StopReason::EndTurn, took_ms: 1 }
    }

    fn outputs(history: &History) -> Vec<(&str, &str)> {
        history
            .prefix()
            .messages()
            .filter_map(|message| match message {
                Message::Output { call, output } => Some((&*call.0, output.text.as_str())),
                Message::User(_) | Message::Model(_) => None,
            })
            .collect()
    }

    #[test]
    fn what_a_flow_came_to_is_the_answer_to_whoever_asked_for_it() {
        let asked = |text: &str| EventKind::Prompted(text.into());
        let walked = || {
            let (name, inputs) = ("audit".into(), "{}".into());
            EventKind::Walked(Arc::new(FlowHead { name, inputs, steps: 1, goes_on: false }))
        };
        let ended = || {
            let outcome = Outcome::Done { text: "done".into() };
            let (text, unfinished) = ("done".into(), Vec::new());
            let end = InvocationEnd { outcome, text, cancel: None, unfinished };
            EventKind::InvocationEnded(Arc::new(end))
        };
        // The end of the second walk is in no line that can be read.
        let events = [asked("one"), walked(), ended(), asked("two"), ended(), asked("three")];
        let events = events.into_iter().chain([walked(), asked("four")]).collect::<Vec<_>>();
        let history = History::of(Arc::new(Head::new(String::new(), Vec::new())), &events);
        let text = |message: &Message| match message {
            Message::User(prompt) => format!("user: {}", prompt.text),
            Message::Model(reply) => format!("model: {}", reply.text),
            Message::Output { .. } => "output".to_owned(),
        };
        let messages: Vec<String> = history.prefix().messages().map(text).collect();
        let lost = "model: [The flow did not come to its end: interrupted: the process ended]";
        let expected = ["user: one", "model: done", "user: two", "user: three", lost, "user: four"];
        assert_eq!(messages, expected);
    }

    #[test]
    fn a_prompt_behind_a_request_that_was_given_up_is_joined_with_the_one_before() {
        let mut history = History::new(Arc::new(Head::new(String::new(), Vec::new())));
        history.prompted("one".into());
        history.failed(&AfterFailure::Nothing);
        history.prompted("two".into());
        assert!(history.follows_given_up());
        history.replied(&replied(Reply::default(), Usage::default()));
        assert!(!history.follows_given_up());
        history.prompted("three".into());
        let texts: Vec<&str> = history
            .prefix()
            .messages()
            .filter_map(|message| match message {
                Message::User(prompt) => Some(&*prompt.text),
                Message::Model(_) | Message::Output { .. } => None,
            })
            .collect();
        assert_eq!(texts, ["one\n\ntwo", "three"]);
    }

    #[test]
    fn a_summary_that_fails_leaves_no_prompt_without_an_answer() {
        let mut history = History::new(Arc::new(Head::new(String::new(), Vec::new())));
        history.prompted("one".into());
        let reply = Reply { text: "1".into(), ..Reply::default() };
        history.replied(&replied(reply, Usage::default()));
        history.failed(&AfterFailure::Nothing);
        history.prompted("two".into());
        assert!(!history.follows_given_up());
    }

    #[test]
    fn a_joined_prompt_is_a_message_of_its_own_once_those_before_it_are_left_out() {
        let mut history = History::new(Arc::new(Head::new(String::new(), Vec::new())));
        let texts = |history: &History| -> Vec<String> {
            let text = |message: &Message| match message {
                Message::User(prompt) => Some(prompt.text.to_string()),
                Message::Model(_) | Message::Output { .. } => None,
            };
            history.prefix().messages().filter_map(text).collect()
        };
        for prompt in ["one", "two", "three"] {
            history.prompted(prompt.into());
            history.failed(&AfterFailure::Nothing);
        }
        assert_eq!(texts(&history), ["one\n\ntwo\n\nthree"]);
        history.failed(&AfterFailure::LeaveOut);
        assert_eq!(texts(&history), ["one\n\ntwo", "three"]);
        assert!(history.leaves_out());
        history.failed(&AfterFailure::LeaveOut);
        assert_eq!(texts(&history), ["one\n\ntwo", "three"]);
        // A history that is rebuilt after a compaction is the same.
        let compaction = Compaction {
            trigger: CompactionTrigger::Auto,
            text: "summed up".into(),
            kept_prompts: 1,
            tokens_before: 0,
            tokens_after: 0,
            model: "m".into(),
            usage: Usage::default(),
            took_ms: 1,
        };
        history.compacted(&compaction);
        assert_eq!(texts(&history), ["summed up", "three"]);
        assert!(!history.leaves_out() && history.follows_given_up());
    }

    #[test]
    fn outputs_enter_in_call_order_and_only_when_all_are_there() {
        let mut history = history_with_calls(&["a", "b"]);
        history.finished(&"b".into(), Arc::new(Output::ok("second")));
        assert_eq!(outputs(&history), []);
        history.finished(&"a".into(), Arc::new(Output::ok("first")));
        assert_eq!(outputs(&history), [("a", "first"), ("b", "second")]);
    }

    #[test]
    fn calls_that_share_an_id_get_their_outputs_in_turn() {
        let mut history = history_with_calls(&["a", "a"]);
        history.finished(&"a".into(), Arc::new(Output::ok("first")));
        assert_eq!(outputs(&history), []);
        history.finished(&"a".into(), Arc::new(Output::ok("second")));
        assert_eq!(outputs(&history), [("a", "first"), ("a", "second")]);
    }

    #[test]
    fn the_ids_of_calls_that_a_summary_replaced_stay_taken() {
        let mut history = History::new(Arc::new(Head::new(String::new(), Vec::new())));
        assert!(history.claim(&"a".into()));
        let mut history = history.with_calls(&["b".into()]);
        assert_eq!(["a", "b", "c"].map(|id| history.claim(&id.into())), [false, false, true]);
    }

    #[test]
    fn behind_a_summary_only_sealed_answers_are_sent_as_other_bytes() {
        let mut history = History::new(Arc::new(Head::new(String::new(), Vec::new())));
        for sealed in [None, Some(Sealed { by: "m".into(), json: "{}".into() })] {
            history.prompted("go".into());
            history.replied(&replied(Reply { sealed, ..Reply::default() }, Usage::default()));
        }
        let before = history.prefix().entries.clone();
        history.compacted(&Compaction {
            trigger: CompactionTrigger::Auto,
            text: "summed up".into(),
            kept_prompts: 2,
            tokens_before: 0,
            tokens_after: 0,
            model: "m".into(),
            usage: Usage::default(),
            took_ms: 1,
        });
        let after = &history.prefix().entries[1..];
        let is_same: Vec<_> = before.iter().zip(after).map(|(a, b)| Arc::ptr_eq(a, b)).collect();
        assert_eq!(is_same, [true, true, true, false]);
    }

    #[test]
    fn a_second_output_of_a_call_is_ignored() {
        let mut history = history_with_calls(&["a", "b"]);
        history.finished(&"a".into(), Arc::new(Output::ok("first")));
        history.finished(&"a".into(), Arc::new(Output::ok("again")));
        history.finished(&"b".into(), Arc::new(Output::ok("second")));
        assert_eq!(outputs(&history), [("a", "first"), ("b", "second")]);
    }

    #[test]
    fn its_size_is_what_was_counted_last_and_an_estimate_of_what_came_since() {
        let mut history = History::new(Arc::new(Head::new("x".repeat(400), Vec::new())));
        history.prompted("y".repeat(40).into());
        assert_eq!(history.tokens(), 100 + 10);
        let said = || Reply { text: "z".repeat(80), ..Reply::default() };
        // A provider that counts its answer alone has not counted.
        history.replied(&replied(said(), Usage { output: 9, ..Usage::default() }));
        assert_eq!(history.tokens(), 100 + 30);
        let usage = Usage {
            input: 200,
            output: 20,
            cache_read: 1_000,
            cache_creation: 3,
            ..Usage::default()
        };
        history.replied(&replied(said(), usage));
        assert_eq!(history.tokens(), 1_223);
        history.prompted("y".repeat(41).into());
        assert_eq!(history.tokens(), 1_223 + 11);
        // Sometimes it counts and sometimes not.
        history.replied(&replied(said(), Usage::default()));
        assert_eq!(history.tokens(), 1_223 + 31);
    }
}
