//! Running the calls of an answer: guarded, paired with outputs, in order.
//!
//! What a call gives is counted and bounded here, in the order in which calls
//! end, before anybody is told.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use tokio::time::Instant;

use super::Unit;
use super::answering::Given;
use super::guarded::Stopped;
use super::hooked::Said;
use super::images::Room;
use super::loops::{Key, Loops, Repeat};
use super::turn::millis;
use crate::event::{Confinement, Failure, FailureKind, Outcome};
use crate::guard::Effect;
use crate::hook::CallFacts;
use crate::line::{CallLeave, RequestLeave, Tend, UnitEvent};
use crate::message::{Call, CallId, Output, StopReason};
use crate::prompt;
use crate::skill::Followed;
use crate::tool::bound::{bounded_by, short_name};
use crate::tool::coerce::{coerce, read_arguments};
use crate::tool::{AGENT_OUTPUT_CAP, Granted, OUTPUT_CAP, Tool, ToolError};
use crate::tool_name::{STRUCTURED_OUTPUT, looks_at_agents};

/// How long a cancelled tool may take to end by itself and say what it had
/// done. A command gets 200 ms before it is killed; this is a little more.
const CANCEL_GRACE: Duration = Duration::from_millis(400);

/// Most calls of one answer that run. Far above what a model asks for on
/// purpose; an answer of nothing but calls could hold half a million.
pub const CALLS_CAP: usize = 256;

/// Why a call does not run whose arguments are missing.
const CUT_CALL: &str = "the answer reached the output limit before the arguments of this call. \
     Call again, and write less before the call.";

/// A call that is ready to run.
pub(super) struct Ready<'a> {
    pub(super) call: &'a Call,
    pub(super) tool: Arc<str>,
    pub(super) runner: Arc<dyn Tool>,
    pub(super) arguments: Value,
    /// The arguments as they were written anew, if they were changed.
    pub(super) rewritten: Option<Arc<str>>,
    pub(super) said: Said,
    /// Sentences about its paths, for below its output.
    pub(super) notes: Vec<String>,
    /// What holds from now on, once it has opened a skill.
    pub(super) followed: Option<Arc<Followed>>,
}

impl Ready<'_> {
    /// Returns the call as hooks are told of it.
    pub(super) fn facts(&self) -> CallFacts<'_> {
        CallFacts { id: &self.call.id, tool: &self.tool, arguments: &self.arguments }
    }

    /// Gives the call other arguments.
    pub(super) fn change(&mut self, arguments: Value) {
        self.rewritten = Some(arguments.to_string().into());
        self.arguments = arguments;
    }

    /// Returns the arguments in force, as text.
    pub(super) fn written(&self) -> Arc<str> {
        self.rewritten.clone().unwrap_or_else(|| self.call.arguments.as_str().into())
    }
}

/// A call that has run, or could not.
struct Finished<'a> {
    call: &'a Call,
    tool: Arc<str>,
    /// What the tool gave.
    output: Output,
    /// The answer of the unit, if the call is to give it.
    given: Option<Given>,
    /// What hooks say about it.
    said: Said,
    took_ms: u64,
    /// What holds from now on, if it has opened a skill.
    followed: Option<Arc<Followed>>,
}

/// What the calls of an answer came to.
#[derive(Default)]
struct Ran {
    /// The outcome of a unit that is caught in a loop, or that a hook ends.
    ends: Option<Outcome>,
    /// The last of the unit's own answers.
    given: Option<Given>,
}

/// What is said of a call that came too often in a row.
enum Verdict {
    /// Nothing.
    Fine,
    /// This, below its output.
    Told(String),
    /// The unit ends.
    Ends(Outcome),
}

impl Unit {
    /// Runs calls until each has its output, or the unit is cancelled.
    ///
    /// Neighbours that are safe side by side run side by side; any other call
    /// runs alone, after all before it and before all behind it.
    ///
    /// Calls past [`CALLS_CAP`], or past a limit of the run, do not run: their
    /// output says so. A call that gives the unit's answer runs like any other,
    /// and keeps none beside it from running; of several the last one counts.
    ///
    /// # Errors
    ///
    /// The outcome of the unit: it was cancelled, or it is caught in a loop.
    /// Then every call has its output all the same.
    pub(super) async fn run_calls(
        &mut self,
        calls: &[Call],
        stop: StopReason,
        leave: RequestLeave,
        loops: &mut Loops,
    ) -> Result<Option<Given>, Outcome> {
        let (calls, cut) = split_cut_call(calls, stop);
        let Some((count, refusal)) = self.may_call(calls, leave).await else {
            return Err(Outcome::Cancelled { ran: true });
        };
        let (calls, refused) = calls.split_at(count);
        let Ran { mut ends, given } = self.run_groups(calls, loops).await;
        if self.context.cancel.is_cancelled() {
            // The dispatcher closes what was not begun.
            return Err(Outcome::Cancelled { ran: true });
        }
        self.refuse(refused, &refusal).await;
        for call in cut {
            ends = ends.or(self.refuse_cut(call, loops).await);
        }
        ends.map_or(Ok(given), Err)
    }

    /// Gives a call whose arguments were cut off its output. Returns the outcome of a
    /// unit that makes no other calls.
    async fn refuse_cut(&mut self, call: &Call, loops: &mut Loops) -> Option<Outcome> {
        let tool: Arc<str> = short_name(&call.tool).into();
        let output = Output::error(format!("Not run: {CUT_CALL}"));
        let repeat = loops.note(Key::new(&tool, &call.arguments, &output));
        let verdict = verdict(&tool, repeat);
        let text = output.text + &below(&Said::default(), &verdict);
        let output = Arc::new(Output::error(text));
        self.tell_finished(call, tool, Arc::clone(&output), 0).await;
        self.history.finished(&call.id, output);
        match verdict {
            Verdict::Ends(outcome) => Some(outcome),
            Verdict::Fine | Verdict::Told(_) => None,
        }
    }

    /// Gives calls that must not run their outputs.
    pub(super) async fn refuse(&mut self, calls: &[Call], refusal: &str) {
        let output = Arc::new(Output::error(format!("Not run: {refusal}.")));
        for call in calls {
            let tool = short_name(&call.tool).into();
            self.tell_finished(call, tool, Arc::clone(&output), 0).await;
            self.history.finished(&call.id, Arc::clone(&output));
        }
    }

    /// Returns how many calls of an answer run, and why no more do; `None` once
    /// a cancel has begun.
    async fn may_call(&self, calls: &[Call], leave: RequestLeave) -> Option<(usize, Arc<str>)> {
        let most = calls.len().min(CALLS_CAP);
        if leave.calls_are_limited {
            // Whoever has used up its calls, or may make none, may still answer.
            let works = |(index, call)| (!self.is_answer(call)).then_some(index);
            let works: Vec<usize> = calls[..most].iter().enumerate().filter_map(works).collect();
            let CallLeave { count, refused } = self.context.line.may_call(works.len()).await?;
            if let Some(Failure { kind: _, message }) = refused {
                return Some((works.get(count).copied().unwrap_or(most), message));
            }
        }
        let too_many = format!(
            "at most {CALLS_CAP} calls of one answer run. Call again if it is still needed"
        );
        Some((most, too_many.into()))
    }

    /// Runs group by group.
    async fn run_groups(&mut self, calls: &[Call], loops: &mut Loops) -> Ran {
        self.policy.begin_batch();
        let mut ran = Ran::default();
        let mut room = Room::beside(self.history.prefix());
        let mut left = calls;
        for group in groups(calls, |call| self.is_parallel_safe(call)) {
            left = &left[group.len()..];
            let mut stopped = None;
            let mut running: FuturesUnordered<_> =
                group.iter().map(|call| self.run_call(call)).collect();
            let mut outputs = Vec::with_capacity(group.len());
            let mut opened = Vec::new();
            while let Some(finished) = running.next().await {
                let verdict = self.judge(&finished, loops).await;
                let Finished { call, tool, output, given, said, took_ms, followed } = finished;
                opened.extend(followed);
                let output = room.admit(output);
                ran.given = match (ran.given, given) {
                    // What fits is the answer, whatever was tried after it.
                    (Some(kept @ Given::Answer(_)), Some(Given::Misfit(_))) => Some(kept),
                    (kept, given) => given.or(kept),
                };
                stopped = stopped.or(said.end());
                let below = below(&said, &verdict);
                let output = Arc::new(self.bounded(&tool, &call.id, output, &below));
                self.tell_finished(call, tool, Arc::clone(&output), took_ms).await;
                outputs.push((&call.id, output));
                if let Verdict::Ends(outcome) = verdict {
                    ran.ends.get_or_insert(outcome);
                }
            }
            drop(running);
            for (call, output) in outputs {
                self.history.finished(call, output);
            }
            for followed in opened {
                self.follow(&followed).await;
            }
            if self.context.cancel.is_cancelled() {
                break;
            }
            if stopped.is_some() {
                self.refuse(left, "a hook has ended the work").await;
                return Ran { ends: stopped, ..ran };
            }
        }
        ran
    }

    /// Counts a call, unless it is waiting: a look at agents that are out shows
    /// the same until one of them has got on. Tries to answer are counted
    /// elsewhere.
    async fn judge(&self, finished: &Finished<'_>, loops: &mut Loops) -> Verdict {
        let Finished { call, tool, output, given, said: _, took_ms: _, followed: _ } = finished;
        if given.is_some() {
            return Verdict::Fine;
        }
        if looks_at_agents(tool) && self.has_agents_out().await {
            return Verdict::Fine;
        }
        verdict(tool, loops.note(Key::new(tool, &call.arguments, output)))
    }

    async fn has_agents_out(&self) -> bool {
        let glances = self.context.line.ask(|reply| Tend::Look { unit: None, reply }).await;
        glances.unwrap_or_default().iter().any(|glance| !glance.state.has_ended())
    }

    /// Tells whether a call gives the unit's answer.
    fn is_answer(&self, call: &Call) -> bool {
        let found = self.tools.called(&call.tool).filter(|_| self.answer.is_some());
        found.is_some_and(|(name, _)| &**name == STRUCTURED_OUTPUT)
    }

    fn is_parallel_safe(&self, call: &Call) -> bool {
        let found = self.tools.called(&call.tool);
        // An answer comes after what stands before it, and the last one counts.
        found.is_none_or(|(name, tool)| {
            &**name != STRUCTURED_OUTPUT && tool.effect().is_parallel_safe()
        })
    }

    async fn run_call<'a>(&self, call: &'a Call) -> Finished<'a> {
        let started = Instant::now();
        let (tool, output, answer, said, followed) = match self.prepare(call) {
            Ok(mut ready) => {
                let (output, answer) = self.run_guarded(&mut ready).await;
                for note in &ready.notes {
                    ready.said.below.push_str(&format!("\n\n[{note}]"));
                }
                (ready.tool, output, answer, ready.said, ready.followed)
            }
            Err(output) => (short_name(&call.tool).into(), output, None, Said::default(), None),
        };
        let is_answer = self.answer.is_some() && tool.eq_ignore_ascii_case(STRUCTURED_OUTPUT);
        let given = is_answer.then(|| match answer {
            Some(answer) => Given::Answer(answer),
            None => Given::Misfit(prompt::structured_problems(&output.text)),
        });
        Finished { call, tool, output, given, said, took_ms: millis(started), followed }
    }

    async fn tell_finished(&self, call: &Call, tool: Arc<str>, output: Arc<Output>, took_ms: u64) {
        let call = call.id.clone();
        let finished = UnitEvent::ToolFinished { call, tool, output, took_ms };
        self.context.line.tell(finished).await;
    }

    /// Whatever a call gives, an error too, enters the context bounded, with
    /// what is said about it.
    fn bounded(&self, tool: &str, call: &CallId, output: Output, below: &str) -> Output {
        let cap = match tool {
            "Agent" | "Skill" => AGENT_OUTPUT_CAP,
            _ => OUTPUT_CAP,
        };
        let room = cap - below.chars().count();
        let spill = &self.context.workspace.spill;
        let text = bounded_by(room, output.text, spill, &format!("{tool}-{call}"));
        Output { text: text + below, ..output }
    }

    /// Finds the tool and parses the arguments. The error is the output.
    fn prepare<'a>(&self, call: &'a Call) -> Result<Ready<'a>, Output> {
        let Some((name, tool)) = self.tools.called(&call.tool) else {
            let available: Vec<&str> = self.tools.names().collect();
            return Err(Output::error(format!(
                "Tool \"{}\" not found. Available tools: {}",
                short_name(&call.tool),
                available.join(", ")
            )));
        };
        if &**name == STRUCTURED_OUTPUT && self.answer.is_none() {
            return Err(Output::error(prompt::structured_fork()));
        }
        let mut arguments = read_arguments(&call.arguments).map_err(Output::error)?;
        let (tool, runner) = (Arc::clone(name), Arc::clone(tool));
        // Before the guard judges them: it and the tool must read the same.
        let is_changed = coerce(&mut arguments, runner.schema().parameters.get());
        Ok(Ready {
            call,
            tool,
            runner,
            rewritten: is_changed.then(|| arguments.to_string().into()),
            arguments,
            said: Said::default(),
            notes: Vec::new(),
            followed: None,
        })
    }

    /// Returns the output, and the unit's answer if the call has given one.
    async fn run_guarded(&self, ready: &mut Ready<'_>) -> (Output, Option<Value>) {
        let granted = match self.grant(ready).await {
            Ok(granted) => granted,
            Err(Stopped::Denied(text)) => return (Output::error(text), None),
            Err(Stopped::Cancelled) => return (cancelled(Duration::ZERO), None),
        };
        if !self.tell_started(ready, granted.confinement).await {
            return (cancelled(Duration::ZERO), None);
        }
        let schema = self.answer.as_ref().filter(|_| &*ready.tool == STRUCTURED_OUTPUT);
        let given = schema.and_then(|schema| schema.answer(ready.arguments.clone()));
        let opens = self.opens(ready).cloned();
        match self.run_to_end(ready, &granted).await {
            Ok(output) => {
                let output = self.with_skill(ready, opens, output).await;
                let mut said = std::mem::take(&mut ready.said);
                let output = self.after_call(ready.facts(), output, &mut said).await;
                ready.said = said;
                (output, given)
            }
            Err(ToolError::TellModel { message }) => (Output::error(message), None),
            Err(ToolError::Cancelled { after }) => (cancelled(after), None),
        }
    }

    /// Tells the dispatcher; `false` if the run is over. A call that may
    /// change something waits until the log holds its start on disk, so that a
    /// crash never hides that it ran.
    async fn tell_started(&self, ready: &Ready<'_>, confinement: Confinement) -> bool {
        let (call, tool) = (ready.call.id.clone(), Arc::clone(&ready.tool));
        let subject = ready.runner.subject(&ready.arguments).into();
        let line = &self.context.line;
        let effect = ready.runner.effect();
        let confinement = match effect {
            Effect::Executes => Some(confinement),
            Effect::Reads | Effect::Asks | Effect::Fetches | Effect::Delegates | Effect::Edits => {
                None
            }
        };
        let started = |synced| UnitEvent::ToolStarted { call, tool, subject, confinement, synced };
        match effect {
            Effect::Reads | Effect::Asks | Effect::Fetches | Effect::Delegates => {
                line.tell(started(None)).await;
                true
            }
            Effect::Edits | Effect::Executes => {
                line.ask(|reply| started(Some(reply))).await.is_some()
            }
        }
    }

    async fn run_to_end(&self, ready: &Ready<'_>, granted: &Granted) -> Result<Output, ToolError> {
        let started = Instant::now();
        let effect = ready.runner.effect();
        let cancel = &self.context.cancel;
        let running = ready.runner.run(&self.context, granted, ready.arguments.clone());
        let result = match effect {
            // Its units are cancelled with this one and report their own ends.
            Effect::Delegates => running.await,
            Effect::Reads | Effect::Asks | Effect::Fetches | Effect::Edits | Effect::Executes => {
                tokio::select! {
                    biased;
                    result = running => result,
                    () = async {
                        cancel.cancelled().await;
                        tokio::time::sleep(CANCEL_GRACE).await;
                    } => Err(ToolError::Cancelled { after: started.elapsed() }),
                }
            }
        };
        if effect == Effect::Executes {
            // Nobody knows what it did. Edits are noted as they are made.
            self.context.workspace.files.note_touch();
        }
        result
    }
}

/// Returns what is done about a call that came so often.
fn verdict(tool: &str, repeat: Repeat) -> Verdict {
    match repeat {
        Repeat::Unremarkable => Verdict::Fine,
        Repeat::Told(repetition) => Verdict::Told(repetition.notice(tool)),
        Repeat::Ends(repetition) => {
            Verdict::Ends(Outcome::failed(FailureKind::Loop, repetition.message(tool)))
        }
    }
}

/// Splits off the last call of an answer that reached the output limit before any
/// argument of the call. `{}` is what an API makes of no arguments at all.
fn split_cut_call(calls: &[Call], stop: StopReason) -> (&[Call], &[Call]) {
    let is_bare = |call: &Call| matches!(call.arguments.trim(), "" | "{}");
    let is_cut = match stop {
        StopReason::MaxTokens => calls.last().is_some_and(is_bare),
        StopReason::EndTurn | StopReason::ToolUse | StopReason::Refusal => false,
    };
    calls.split_at(calls.len() - usize::from(is_cut))
}

/// Returns what stands below an output: what hooks say, then what its being
/// repeated comes to.
fn below(said: &Said, verdict: &Verdict) -> String {
    match verdict {
        Verdict::Told(notice) => format!("{}\n\n{notice}", said.below),
        Verdict::Fine | Verdict::Ends(_) => said.below.clone(),
    }
}

fn cancelled(after: Duration) -> Output {
    Output::error(ToolError::Cancelled { after }.to_string())
}

/// Splits calls into runs of neighbours that are safe side by side; any other
/// call is a group of its own.
fn groups(calls: &[Call], is_safe: impl Fn(&Call) -> bool) -> Vec<&[Call]> {
    calls.chunk_by(|a, b| is_safe(a) && is_safe(b)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_neighbours_that_are_safe_run_side_by_side() {
        let calls: Vec<Call> = ["Read", "Grep", "Edit", "Edit", "Read", "Bash"]
            .iter()
            .map(|tool| Call {
                id: CallId::from(*tool),
                tool: (*tool).to_owned(),
                arguments: String::new(),
            })
            .collect();
        let is_safe = |call: &Call| matches!(call.tool.as_str(), "Read" | "Grep");
        let names: Vec<Vec<&str>> = groups(&calls, is_safe)
            .iter()
            .map(|group| group.iter().map(|call| call.tool.as_str()).collect())
            .collect();
        assert_eq!(
            names,
            [vec!["Read", "Grep"], vec!["Edit"], vec!["Edit"], vec!["Read"], vec!["Bash"]]
        );
    }

    #[test]
    fn only_a_call_that_the_output_limit_left_without_arguments_is_cut() {
        use StopReason::{EndTurn, MaxTokens, Refusal, ToolUse};
        let call = |arguments: &str| Call {
            id: CallId::from("c"),
            tool: "t".to_owned(),
            arguments: arguments.to_owned(),
        };
        for (last, stop, cut) in [
            ("", MaxTokens, 1),
            (" {} ", MaxTokens, 1),
            ("{\"a\":1}", MaxTokens, 0),
            ("{\"a", MaxTokens, 0),
            ("", ToolUse, 0),
            ("{}", EndTurn, 0),
            ("", Refusal, 0),
        ] {
            let calls = [call(""), call(last)];
            assert_eq!(split_cut_call(&calls, stop).1.len(), cut, "{last} {stop:?}");
        }
        assert!(split_cut_call(&[], MaxTokens).1.is_empty());
    }
}
