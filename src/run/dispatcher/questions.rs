//! Questions of units, in the order in which they were asked.
//!
//! All units have one queue. An answer names its question, so one that comes
//! late answers nothing else; a unit that ends takes its questions with it. What
//! an answer allows beyond its own question is kept in `grants`: it answers
//! what is open and what comes later without asking again. The guard has decided
//! before anything arrives here, so no answer lifts what it denies.

mod grants;

use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::sync::oneshot;

use super::{Answer, Dispatcher, Effect, Out, Reach};
use crate::event::{
    CallQuestion, CancelReason, EventKind, Form, Lasting, Question, QuestionId, Seq, Terms, UnitId,
    Verdict,
};
use crate::guard::Decided;

pub(super) use grants::Grants;
#[cfg(test)]
pub(super) use grants::RULES_CAP;

/// A question that has no answer yet.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) unit: UnitId,
    pub(super) question: Question,
    /// The call, as the unit decided about it.
    pub(super) decided: Decided,
    pub(super) reply: oneshot::Sender<Verdict>,
}

impl Dispatcher {
    /// From now on somebody answers questions.
    pub fn ask_people(&mut self) {
        self.is_answered = true;
    }

    /// Takes note of a question. Where it has its answer already, or nobody
    /// gives one, it is not asked; after a cancel has begun it is dropped.
    pub(super) fn ask(&mut self, out: &mut Out, open: Open) {
        let unit = open.unit;
        if self.ledger(unit).cancel.is_cancelled() {
            return;
        }
        let id = QuestionId(Seq(self.seq + 1));
        if let Some(earlier) = self.covering(&open) {
            self.close(out, id, open, Verdict::Covered(earlier));
            return;
        }
        if !self.is_answered {
            self.close(out, id, open, Verdict::NobodyToAsk);
            return;
        }
        let question = open.question.clone();
        self.record(out, unit, EventKind::Asked { id, question });
        self.ledger(unit).questions.push(id);
        self.questions.insert(id, open);
    }

    /// Answers a question, if it is still open, and what else that answers.
    pub(super) fn answer(&mut self, out: &mut Out, id: QuestionId, answer: Verdict) {
        let Some(open) = self.take_question(id) else { return };
        let in_batch = self.batches_of(open.unit).next().is_some();
        let answer = settled(answer, &open.question, in_batch);
        let granted = match &open.question {
            Question::Call(asked) => answer.grant(asked),
            Question::Batch { slots: _ } | Question::Form(_) => None,
        };
        let granted = granted.map(|(lasting, rules)| (lasting, rules.to_vec()));
        let unit = open.unit;
        self.close(out, id, open, answer);
        if let Some((lasting, rules)) = granted {
            self.grant(out, (id, unit), lasting, rules);
        }
    }

    /// Answers a question and stops the turn. The unit hears the answer before
    /// it is stopped, and whatever it wants then is handled after both.
    pub(super) fn answer_last(&mut self, out: &mut Out, id: QuestionId, answer: Verdict) {
        let mut answered = Out::new(out.now);
        self.answer(&mut answered, id, answer);
        for effect in answered.effects {
            if let Effect::Answer(answer) = effect {
                answer.give();
            } else {
                out.effects.push(effect);
            }
        }
        self.cancel(out, Reach::Turn, CancelReason::Interrupt);
    }

    /// Keeps what an answer allows, and gives it to whoever waits for that.
    fn grant(
        &mut self,
        out: &mut Out,
        (id, unit): (QuestionId, UnitId),
        lasting: Lasting,
        rules: Vec<Arc<str>>,
    ) {
        let batch = self.batches_of(unit).next();
        let is_new = match lasting {
            Lasting::Once => false,
            Lasting::Batch => {
                batch.is_some_and(|batch| self.grants.hold_for_batch(batch, &rules, id))
            }
            Lasting::Session => self.grants.hold_for_session(&rules, id),
            Lasting::Always => {
                let is_new = self.grants.hold_for_session(&rules, id);
                out.effects.push(Effect::KeepRules(rules));
                is_new
            }
        };
        if !is_new {
            return;
        }
        let covered = self.questions.iter().filter_map(|(&id, open)| {
            self.covering(open).map(|earlier| (id, Verdict::Covered(earlier)))
        });
        let covered: Vec<_> = covered.collect();
        for (id, answer) in covered {
            if let Some(open) = self.take_question(id) {
                self.close(out, id, open, answer);
            }
        }
    }

    /// Returns the question whose answer holds for this one, too.
    fn covering(&self, open: &Open) -> Option<QuestionId> {
        match &open.question {
            Question::Call(asked) => {
                self.grants.covering((asked, &open.decided), self.batches_of(open.unit))
            }
            Question::Batch { slots: _ } | Question::Form(_) => None,
        }
    }

    /// Returns the batches that a unit works for, the innermost first. Each is
    /// called after its first slot.
    fn batches_of(&self, unit: UnitId) -> impl Iterator<Item = UnitId> + Clone + '_ {
        let parent = |unit: UnitId| self.units.get(&unit)?.parent;
        let upwards = std::iter::successors(Some(unit), move |&unit| parent(unit));
        upwards.filter_map(|unit| self.units.get(&unit)?.batch)
    }

    fn take_question(&mut self, id: QuestionId) -> Option<Open> {
        let open = self.questions.remove(&id)?;
        self.ledger(open.unit).questions.retain(|own| *own != id);
        Some(open)
    }

    fn close(&mut self, out: &mut Out, id: QuestionId, open: Open, answer: Verdict) {
        let Open { unit, question, decided: _, reply } = open;
        let answered = EventKind::Answered { id, question, answer: answer.clone() };
        self.record(out, unit, answered);
        out.effects.push(Effect::Answer(Answer::Verdict(reply, answer)));
    }

    /// From now on nobody answers any more.
    pub(super) fn nobody_answers(&mut self, out: &mut Out) {
        self.is_answered = false;
        let open: Vec<QuestionId> = self.questions.keys().copied().collect();
        open.into_iter().for_each(|id| self.answer(out, id, Verdict::NobodyToAsk));
    }

    /// Takes those questions of a unit back whose answer nobody waits for.
    pub(super) fn withdraw_unheard(&mut self, out: &mut Out, unit: UnitId) {
        let is_left =
            |id: &QuestionId| self.questions.get(id).is_some_and(|open| open.reply.is_closed());
        let left: Vec<QuestionId> =
            self.units[&unit].questions.iter().copied().filter(is_left).collect();
        left.into_iter().for_each(|id| self.answer(out, id, Verdict::Withdrawn));
    }

    /// Takes the questions of a unit back.
    pub(super) fn withdraw(&mut self, out: &mut Out, unit: UnitId) {
        for id in std::mem::take(&mut self.ledger(unit).questions) {
            self.answer(out, id, Verdict::Withdrawn);
        }
    }
}

/// Returns what an answer comes to. Nobody fills in what is no form.
fn settled(answer: Verdict, question: &Question, in_batch: bool) -> Verdict {
    match (question, answer) {
        (Question::Form(form), answer) => filled(answer, form),
        (Question::Batch { slots: _ } | Question::Call(_), Verdict::Filled(_)) => Verdict::No,
        (Question::Batch { slots: _ }, answer) if answer.is_yes() => Verdict::Yes,
        (Question::Batch { slots: _ }, answer) => answer,
        (Question::Call(asked), answer) => settled_call(answer, asked, in_batch),
    }
}

/// Returns what was said to a form. Whoever says yes to it and nothing more has
/// passed over all of it.
fn filled(answer: Verdict, form: &Form) -> Verdict {
    match answer {
        Verdict::Filled(given) => Verdict::Filled(form.fitted(&given)),
        Verdict::YesWith(terms) => Verdict::Filled(form.read(terms.arguments.as_deref())),
        Verdict::Yes
        | Verdict::ForBatch
        | Verdict::ForSession
        | Verdict::Always
        | Verdict::Covered(_) => Verdict::Filled(form.fitted(&[])),
        Verdict::No | Verdict::NoBecause(_) | Verdict::NobodyToAsk | Verdict::Withdrawn => answer,
    }
}

/// Returns what an answer about a call comes to: terms that are those of the
/// question are no terms of their own, and without rules, or for a batch that
/// there is not, a yes holds for the one call.
fn settled_call(answer: Verdict, asked: &CallQuestion, in_batch: bool) -> Verdict {
    match answer {
        Verdict::YesWith(terms) => settled_terms(&terms, asked),
        Verdict::ForBatch | Verdict::ForSession | Verdict::Always if asked.rules.is_empty() => {
            Verdict::Yes
        }
        Verdict::ForBatch if !in_batch => Verdict::Yes,
        Verdict::Yes
        | Verdict::ForBatch
        | Verdict::ForSession
        | Verdict::Always
        | Verdict::Covered(_)
        | Verdict::Filled(_)
        | Verdict::No
        | Verdict::NoBecause(_)
        | Verdict::NobodyToAsk
        | Verdict::Withdrawn => answer,
    }
}

fn settled_terms(terms: &Terms, asked: &CallQuestion) -> Verdict {
    let own = parsed(&asked.arguments);
    let changed = terms.arguments.clone().filter(|arguments| parsed(arguments) != own);
    let lasting = if terms.rules.is_empty() { Lasting::Once } else { terms.lasting };
    let rules = if lasting == Lasting::Once { Vec::new() } else { terms.rules.clone() };
    if changed.is_none() && (lasting == Lasting::Once || rules == asked.rules) {
        return match lasting {
            Lasting::Once => Verdict::Yes,
            Lasting::Batch => Verdict::ForBatch,
            Lasting::Session => Verdict::ForSession,
            Lasting::Always => Verdict::Always,
        };
    }
    Verdict::YesWith(Arc::new(Terms { arguments: changed, lasting, rules }))
}

/// Returns arguments as they mean the same however they are written; no text
/// at all means no arguments.
fn parsed(arguments: &str) -> Option<Value> {
    if arguments.trim().is_empty() {
        return Some(Value::Object(Map::new()));
    }
    serde_json::from_str(arguments).ok()
}
