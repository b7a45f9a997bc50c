//! What an invocation came to: a fold over events.
//!
//! `usage` is main's own; the figures for each model count every unit. The
//! fold keeps sums and refused calls, nothing else, and gives its [`Ending`]
//! once, at the last event.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::event::{
    AfterFailure, CancelReason, Compaction, Event, EventKind, FailureKind, InvocationEnd, Outcome,
    Question, Replied, RequestFailed, UnitId, UnixMillis, Verdict,
};
use crate::message::{CallId, Cost, StopReason, Usage};
use crate::model::Facts;
use crate::tool_name::STRUCTURED_OUTPUT;

use super::words;

/// Most refused calls that are listed. Ten thousand slots may each be refused
/// a few; past this a list helps nobody, and the rest is counted.
const DENIALS_CAP: usize = 1_000;

/// Most rules that are suggested at the end. More is no suggestion.
const SUGGESTED_CAP: usize = 10;

/// The figures of an invocation that is not over.
#[derive(Debug, Default)]
pub struct Tally {
    started: Option<UnixMillis>,
    message: Option<Arc<str>>,
    api_ms: u64,
    turns: u32,
    /// Whether main has given an answer that fits its schema.
    is_structured: bool,
    /// Whether a flow is walked: what that comes to may be JSON.
    is_walked: bool,
    stop: Option<StopReason>,
    usage: Usage,
    models: BTreeMap<Arc<str>, Usage>,
    retries: u64,
    waited_ms: u64,
    /// The units whose requests have to wait, and since when.
    held: BTreeMap<UnitId, UnixMillis>,
    denials: Vec<Denial>,
    denials_left_out: u64,
    suggested: Vec<Arc<str>>,
}

/// The figures of an invocation that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Ending {
    /// What sort of end it is.
    pub subtype: Subtype,
    /// From the prompt to the end, in milliseconds.
    pub duration_ms: u64,
    /// The time of all requests of all units together, in milliseconds.
    pub api_ms: u64,
    /// The turns of main.
    pub turns: u32,
    /// The answer, or as much of it as there is.
    pub text: Arc<str>,
    /// Whether the answer is JSON that fits the schema which was asked for.
    pub is_structured: bool,
    /// Why main's last reply stopped; `None` if it never replied.
    pub stop: Option<StopReason>,
    /// The tokens of main alone.
    pub usage: Usage,
    /// The tokens of every unit, by model.
    pub models: BTreeMap<Arc<str>, Usage>,
    /// How often a request of any unit was made again.
    pub retries: u64,
    /// How long requests of all units together waited: in the gate, or to be
    /// made again.
    pub waited_ms: u64,
    /// The first refused calls, in the order of refusal.
    pub denials: Vec<Denial>,
    /// How many more were refused.
    pub denials_left_out: u64,
    /// Rules that would allow what nobody could be asked about, in the order
    /// of the questions; not more than help anybody.
    pub suggested: Vec<Arc<str>>,
    /// The harshest cancel that was asked for.
    pub cancel: Option<CancelReason>,
    /// Units that had not ended by themselves.
    pub unfinished: Vec<UnitId>,
    /// What went wrong; `None` on success.
    pub error: Option<String>,
    /// What a client calls the message that this answers.
    pub message: Option<Arc<str>>,
}

impl Ending {
    /// The ending of a command that asked no model and gives this text.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        Self {
            subtype: Subtype::Success,
            duration_ms: 0,
            api_ms: 0,
            turns: 0,
            text: text.into(),
            is_structured: false,
            stop: None,
            usage: Usage::default(),
            models: BTreeMap::new(),
            retries: 0,
            waited_ms: 0,
            denials: Vec::new(),
            denials_left_out: 0,
            suggested: Vec::new(),
            cancel: None,
            unfinished: Vec::new(),
            error: None,
            message: None,
        }
    }

    /// Returns the tokens of every unit together, and what they cost.
    #[must_use]
    pub fn total(&self) -> Usage {
        let mut sum = Usage::default();
        self.models.values().for_each(|usage| sum += *usage);
        sum
    }
}

/// Tells what is known of a model, by the name that it has in events; `None` of
/// one that it does not know.
pub type FindFacts = Arc<dyn Fn(&str) -> Option<Facts> + Send + Sync>;

/// A call that the guard refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// Whose call it was.
    pub unit: UnitId,
    /// The call.
    pub call: CallId,
    /// The tool's own name.
    pub tool: Arc<str>,
    /// The arguments, as the model wrote them.
    pub arguments: Arc<str>,
}

/// The sorts of end that programs tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subtype {
    /// There is an answer.
    Success,
    /// The run failed or was cancelled.
    ErrorDuringExecution,
    /// Main reached its turn limit.
    ErrorMaxTurns,
    /// It reached its limit on money.
    ErrorMaxBudgetUsd,
    /// None of main's answers fits the schema.
    ErrorMaxStructuredOutputRetries,
}

/// Tells whether a text is one JSON object.
fn is_object(text: &str) -> bool {
    text.starts_with('{') && serde_json::from_str::<Map<String, Value>>(text).is_ok()
}

impl Subtype {
    /// Returns the name used in records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::ErrorDuringExecution => "error_during_execution",
            Self::ErrorMaxTurns => "error_max_turns",
            Self::ErrorMaxBudgetUsd => "error_max_budget_usd",
            Self::ErrorMaxStructuredOutputRetries => "error_max_structured_output_retries",
        }
    }
}

impl From<&Outcome> for Subtype {
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Done { text: _ } => Self::Success,
            Outcome::Cancelled { ran: _ } | Outcome::Interrupted => Self::ErrorDuringExecution,
            Outcome::Failed(failure) => match failure.kind {
                FailureKind::MaxTurns => Self::ErrorMaxTurns,
                FailureKind::Budget => Self::ErrorMaxBudgetUsd,
                FailureKind::StructuredOutput => Self::ErrorMaxStructuredOutputRetries,
                FailureKind::Authentication
                | FailureKind::Request
                | FailureKind::Overflow
                | FailureKind::MaxTokens
                | FailureKind::MaxToolCalls
                | FailureKind::Loop
                | FailureKind::Provider
                | FailureKind::Timeout
                | FailureKind::Setup
                | FailureKind::Panic
                | FailureKind::Unfinished
                | FailureKind::Hook
                | FailureKind::OutputLimit
                | FailureKind::Refusal
                | FailureKind::EmptyAnswer
                | FailureKind::Unmet => Self::ErrorDuringExecution,
            },
        }
    }
}

impl Tally {
    /// Takes note of an event. The end of an invocation returns what it came to;
    /// what units beside main do after it is part of the next one.
    pub fn take(&mut self, event: &Event) -> Option<Ending> {
        match &event.kind {
            // What units beside main did since the last end counts here.
            EventKind::InvocationStarted { prompt: _, message } => {
                (self.started, self.message) = (Some(event.at), message.clone());
            }
            EventKind::TurnStarted { turn: _ } if event.unit == UnitId::MAIN => self.turns += 1,
            EventKind::Replied(replied) => self.replied(event.unit, replied),
            EventKind::Compacted(compaction) => {
                let Compaction { model, usage, took_ms, .. } = &**compaction;
                self.asked(event.unit, model, *usage, *took_ms);
            }
            EventKind::RequestFailed(failed) => self.request_failed(event, failed),
            EventKind::Throttled(_) => {
                self.held.entry(event.unit).or_insert(event.at);
            }
            EventKind::Admitted { waited_ms } => {
                self.held.remove(&event.unit);
                self.waited_ms = self.waited_ms.saturating_add(*waited_ms);
            }
            EventKind::UnitEnded(_) | EventKind::Lost { .. } => {
                if let Some(since) = self.held.remove(&event.unit) {
                    self.waited_ms += event.at.since(since);
                }
            }
            EventKind::Denied { call, tool, arguments, reason: _ } => {
                let (unit, call) = (event.unit, call.clone());
                let (tool, arguments) = (Arc::clone(tool), Arc::clone(arguments));
                self.denied(Denial { unit, call, tool, arguments });
            }
            EventKind::Answered { id: _, question, answer } => self.answered(question, answer),
            EventKind::ToolFinished { call: _, tool, output, took_ms: _ } => {
                self.is_structured |= !output.is_error && is_answer(event.unit, tool);
            }
            EventKind::Walked(_) => self.is_walked = true,
            EventKind::InvocationEnded(end) => return Some(self.end(event.at, end)),
            EventKind::SessionOpened(_)
            | EventKind::Prompted(_)
            | EventKind::Notified { .. }
            | EventKind::PrefixShared(_)
            | EventKind::UnitQueued(_)
            | EventKind::UnitStarted
            | EventKind::TurnStarted { .. }
            | EventKind::ToolStarted { .. }
            | EventKind::FileChanged(_)
            | EventKind::Worktree(_)
            | EventKind::HookRan(_)
            | EventKind::Asked { .. }
            | EventKind::UserWrote { .. }
            | EventKind::UserTookBack
            | EventKind::SetAside { .. }
            | EventKind::Rewound { .. }
            | EventKind::Chosen(_)
            | EventKind::Offered(_)
            | EventKind::Left
            | EventKind::Joined { .. }
            | EventKind::Notice { .. } => {}
        }
        None
    }

    fn request_failed(&mut self, event: &Event, failed: &RequestFailed) {
        let RequestFailed { model, usage, took_ms, next, .. } = failed;
        self.asked(event.unit, model, *usage, *took_ms);
        if let AfterFailure::Retry { .. } = next {
            self.retries += 1;
            self.held.insert(event.unit, event.at);
        }
    }

    /// Returns the tokens of every unit so far.
    #[must_use]
    pub fn total_tokens(&self) -> u64 {
        self.models.values().fold(0, |sum, usage| sum.saturating_add(usage.total()))
    }

    /// Returns what the requests of every unit cost so far.
    #[must_use]
    pub fn total_cost(&self) -> Cost {
        let mut sum = Usage::default();
        self.models.values().for_each(|usage| sum += *usage);
        sum.cost
    }

    fn replied(&mut self, unit: UnitId, replied: &Replied) {
        self.asked(unit, &replied.model, replied.usage, replied.took_ms);
        if unit == UnitId::MAIN {
            self.stop = Some(replied.stop);
        }
    }

    /// Takes note of what one request cost.
    fn asked(&mut self, unit: UnitId, model: &Arc<str>, usage: Usage, took_ms: u64) {
        self.api_ms += took_ms;
        // Whatever it had to wait for, its answer is there.
        self.held.remove(&unit);
        *self.models.entry(Arc::clone(model)).or_default() += usage;
        if unit == UnitId::MAIN {
            self.usage += usage;
        }
    }

    fn denied(&mut self, denial: Denial) {
        if self.denials.len() < DENIALS_CAP {
            self.denials.push(denial);
        } else {
            self.denials_left_out += 1;
        }
    }

    /// Takes note of what would have been allowed, had there been anybody.
    fn answered(&mut self, question: &Question, answer: &Verdict) {
        let Question::Call(asked) = question else { return };
        if *answer != Verdict::NobodyToAsk {
            return;
        }
        for rule in &asked.rules {
            if self.suggested.len() < SUGGESTED_CAP && !self.suggested.contains(rule) {
                self.suggested.push(Arc::clone(rule));
            }
        }
    }

    fn end(&mut self, at: UnixMillis, end: &InvocationEnd) -> Ending {
        let mut tally = mem::take(self);
        let waiting = tally.held.remove(&UnitId::MAIN).map_or(0, |since| at.since(since));
        // What still waits beside main is counted once that is over.
        self.held = tally.held;
        Ending {
            subtype: Subtype::from(&end.outcome),
            duration_ms: tally.started.map_or(0, |started| at.since(started)),
            api_ms: tally.api_ms,
            turns: tally.turns,
            text: end.text.clone(),
            is_structured: match &end.outcome {
                Outcome::Done { text } => {
                    tally.is_structured || (tally.is_walked && is_object(text))
                }
                // What it leaves all the same, as a review without a reviewer.
                Outcome::Failed(_) => tally.is_walked && is_object(&end.text),
                Outcome::Cancelled { ran: _ } | Outcome::Interrupted => false,
            },
            stop: tally.stop,
            usage: tally.usage,
            models: tally.models,
            retries: tally.retries,
            waited_ms: tally.waited_ms.saturating_add(waiting),
            denials: tally.denials,
            denials_left_out: tally.denials_left_out,
            suggested: tally.suggested,
            cancel: end.cancel,
            unfinished: end.unfinished.clone(),
            error: words::invocation_error(end).map(std::borrow::Cow::into_owned),
            message: tally.message,
        }
    }
}

/// Tells whether a call gives the answer of main.
fn is_answer(unit: UnitId, tool: &str) -> bool {
    unit == UnitId::MAIN && tool == STRUCTURED_OUTPUT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{CompactionTrigger, ThrottleCause};
    use crate::message::Reply;
    use crate::report::story::{Story, cancelled, done, failed, paid, usage};

    fn ending(story: &Story) -> Ending {
        let mut tally = Tally::default();
        let mut endings: Vec<Ending> =
            story.events().iter().filter_map(|event| tally.take(event)).collect();
        assert_eq!(endings.len(), 1);
        endings.remove(0)
    }

    #[test]
    fn usage_is_mains_own_and_the_models_count_every_unit() {
        let mut story = Story::new();
        story.invocation("go").turn(0, 1).reply(0, "x", 100, 10);
        story.batch("c", &["a", "b"]).start(1).start(2);
        story.turn(1, 1).reply(1, "x", 1_000, 1).turn(2, 1);
        story.replied_by(2, "other", Reply::default(), usage(7, 5));
        story.turn(1, 2).reply(1, "x", 2_000, 2).turn(0, 2).reply(0, "y", 200, 20);
        story.over(done("y"), "y");

        let ending = ending(&story);
        assert_eq!(ending.usage, usage(300, 30));
        let models = [("m", usage(3_300, 33)), ("other", usage(7, 5))];
        assert_eq!(ending.models, models.map(|(name, usage)| (name.into(), usage)).into());
        assert_eq!((ending.turns, ending.api_ms), (2, 250));
        assert_eq!(ending.duration_ms, 100 * (story.events().len() as u64 - 1));
    }

    #[test]
    fn what_is_paid_adds_up_over_every_unit_compaction_and_failed_request() {
        let mut story = Story::new();
        let model = |name: &str| Reply { text: name.to_owned(), ..Reply::default() };
        story.invocation("go").turn(0, 1).replied(0, model("m"), paid(100, 10, 1));
        story.batch("c", &["a", "b"]).start(1).turn(1, 1).start(2).turn(2, 1);
        story.replied(1, model("m"), paid(200, 20, 2)).retried(2, 1, Some(529));
        story.replied_by(2, "other", model("other"), paid(300, 30, 4));
        story.push(1, EventKind::Compacted(compaction("small", paid(400, 40, 8))));
        story.push(0, EventKind::Compacted(compaction("small", paid(500, 50, 16))));
        story.end(1, done("x")).end(2, done("x")).over(done("x"), "x");

        let ending = ending(&story);
        let models = [
            ("m", Usage { input: 305, ..paid(0, 30, 3) }),
            ("other", paid(300, 30, 4)),
            ("small", paid(900, 90, 24)),
        ];
        assert_eq!(ending.models, models.map(|(name, usage)| (name.into(), usage)).into());
        assert_eq!(ending.total(), paid(1_505, 150, 31));
        assert_eq!(ending.usage, paid(600, 60, 17));
    }

    fn compaction(model: &str, usage: Usage) -> Arc<Compaction> {
        Arc::new(Compaction {
            trigger: CompactionTrigger::Auto,
            text: "so far".into(),
            kept_prompts: 1,
            tokens_before: 900,
            tokens_after: 90,
            model: model.into(),
            usage,
            took_ms: 30,
        })
    }

    #[test]
    fn retries_and_waits_of_every_unit_are_summed_and_a_wait_that_was_cut_short_too() {
        let mut story = Story::new();
        story.invocation("go").throttled(0, ThrottleCause::Provider, Some(900)).admitted(0, 900);
        story.batch("c", &["a", "b"]).start(1).start(2);
        story.retried(1, 1, Some(503)).admitted(1, 3_000).retried(1, 2, None);
        story.admitted(1, 3_000).request_failed(1, 3, None, AfterFailure::Nothing);
        // Waits from the 13th event to the 15th.
        story.throttled(2, ThrottleCause::InFlight, None).end(1, failed("x")).end(2, cancelled());
        // And main up to the end, for one event.
        story.throttled(0, ThrottleCause::InFlight, None).over(cancelled(), "x");
        let ending = ending(&story);
        assert_eq!((ending.retries, ending.waited_ms), (2, 900 + 3_000 + 3_000 + 200 + 100));
    }

    #[test]
    fn what_units_beside_main_do_between_invocations_counts_in_the_next_one() {
        let mut story = Story::new();
        story.invocation("go").turn(0, 1).reply(0, "x", 100, 10).batch("c", &["a", "b"]);
        story.start(1).start(2).throttled(1, ThrottleCause::Provider, None);
        story.throttled(2, ThrottleCause::Provider, None).over(done("x"), "x");
        story.admitted(1, 900).reply(1, "y", 1_000, 1).end(1, done("y"));
        // The other one waits from the 9th event to the 17th.
        story.invocation("").turn(0, 1).reply(0, "z", 200, 20).end(2, cancelled());
        story.over(done("z"), "z");

        let mut tally = Tally::default();
        let endings = story.events().iter().filter_map(|event| tally.take(event));
        let figures = endings.map(|ending| {
            let Usage { input, output, .. } = ending.models["m"];
            (ending.usage, input, output, ending.waited_ms)
        });
        assert_eq!(
            figures.collect::<Vec<_>>(),
            [(usage(100, 10), 100, 10, 0), (usage(200, 20), 1_200, 21, 900 + 800)]
        );
    }

    #[test]
    fn each_outcome_has_its_subtype_and_its_error() {
        let max_turns = Outcome::failed(FailureKind::MaxTurns, "12 turns were not enough");
        for (outcome, subtype, error) in [
            (done("x"), Subtype::Success, None),
            (max_turns, Subtype::ErrorMaxTurns, Some("12 turns were not enough")),
            (cancelled(), Subtype::ErrorDuringExecution, Some("interrupted")),
        ] {
            let mut story = Story::new();
            let cancel = Some(CancelReason::Interrupt).filter(|_| outcome == cancelled());
            story.invocation("go").over_after(outcome, "x", cancel, &[]);
            let ending = ending(&story);
            assert_eq!((ending.subtype, ending.error.as_deref()), (subtype, error));
        }
    }

    #[test]
    fn refused_calls_of_every_unit_are_listed_up_to_a_bound() {
        let mut story = Story::new();
        story.invocation("go").batch("c", &["a"]).start(1);
        for _ in 0..=DENIALS_CAP {
            story.denied(1, "call-2", "Bash", "no");
        }
        story.over(done("x"), "x");
        let ending = ending(&story);
        assert_eq!((ending.denials.len(), ending.denials_left_out), (DENIALS_CAP, 1));
        let denial = Denial {
            unit: UnitId(1),
            call: "call-2".into(),
            tool: "Bash".into(),
            arguments: r#"{"command":"rm -rf /"}"#.into(),
        };
        assert_eq!(ending.denials[0], denial);
    }

    #[test]
    fn a_second_invocation_starts_from_nothing() {
        let mut story = Story::new();
        story.invocation("go").turn(0, 1).reply(0, "x", 100, 10).over(done("x"), "x");
        story.invocation("on").turn(0, 1).reply(0, "y", 1, 2).over(done("y"), "y");
        let mut tally = Tally::default();
        let last = story.events().iter().filter_map(|event| tally.take(event)).last().unwrap();
        assert_eq!((last.usage, last.turns, last.duration_ms), (usage(1, 2), 1, 300));
    }
}
