//! Questions of units, in the order in which they were asked.
//!
//! All units have one queue. An answer names its question, so one that comes
//! late answers nothing else; a unit that ends takes its questions with it.

use tokio::sync::oneshot;

use super::{Answer, Dispatcher, Effect, Out};
use crate::event::{EventKind, Question, QuestionId, Seq, UnitId, Verdict};

/// A question that has no answer yet.
#[derive(Debug)]
pub(super) struct Open {
    unit: UnitId,
    question: Question,
    reply: oneshot::Sender<Verdict>,
}

impl Dispatcher {
    /// From now on somebody answers questions.
    pub fn ask_people(&mut self) {
        self.is_answered = true;
    }

    /// Takes note of a question. Where nobody answers it has its answer at once
    /// and is not asked; after a cancel has begun it is dropped.
    pub(super) fn ask(
        &mut self,
        out: &mut Out,
        unit: UnitId,
        question: Question,
        reply: oneshot::Sender<Verdict>,
    ) {
        if self.ledger(unit).cancel.is_cancelled() {
            return;
        }
        let id = QuestionId(Seq(self.seq + 1));
        let open = Open { unit, question, reply };
        if !self.is_answered {
            self.close(out, id, open, Verdict::NobodyToAsk);
            return;
        }
        let question = open.question.clone();
        self.record(out, unit, EventKind::Asked { id, question });
        self.ledger(unit).questions += 1;
        self.questions.insert(id, open);
    }

    /// Answers a question, if it is still open.
    pub(super) fn answer(&mut self, out: &mut Out, id: QuestionId, answer: Verdict) {
        let Some(open) = self.questions.remove(&id) else { return };
        self.ledger(open.unit).questions -= 1;
        self.close(out, id, open, answer);
    }

    fn close(&mut self, out: &mut Out, id: QuestionId, open: Open, answer: Verdict) {
        let Open { unit, question, reply } = open;
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

    /// Takes the questions of a unit back.
    pub(super) fn withdraw(&mut self, out: &mut Out, unit: UnitId) {
        if self.ledger(unit).questions == 0 {
            return;
        }
        let own = self.questions.iter().filter(|(_, open)| open.unit == unit).map(|(&id, _)| id);
        let own: Vec<QuestionId> = own.collect();
        own.into_iter().for_each(|id| self.answer(out, id, Verdict::Withdrawn));
    }
}
