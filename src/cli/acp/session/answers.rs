//! Questions of a run on their way to the editor, and back.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{Done, Session};
use crate::cli::acp::asking::{self, Said};
use crate::event::{Question, QuestionId, Verdict};
use crate::report::acp::Asked;
use crate::run::FromUser;

/// Most questions that an editor shows at once. Ten thousand agents may ask at
/// the same time, and each question is a card on its screen.
const SHOWN_CAP: usize = 8;

/// Most sets of rules that are not asked about again.
const NEVER_CAP: usize = 256;

impl Session {
    /// Takes a question that a person is to answer.
    pub(super) fn put(&mut self, asked: Asked) {
        self.questions.waiting.push_back(Arc::new(asked));
        self.put_waiting();
    }

    /// Shows as many questions as an editor may show.
    fn put_waiting(&mut self) {
        while self.questions.open.len() < SHOWN_CAP
            && let Some(asked) = self.questions.waiting.pop_front()
        {
            if self.is_never(&asked) {
                self.tell(FromUser::Answered { id: asked.id, verdict: Verdict::No });
                continue;
            }
            let withdrawn = CancellationToken::new();
            self.questions.open.insert(asked.id, withdrawn.clone());
            let at = self.at.clone();
            self.work.push(Box::pin(async move {
                let said = asking::ask(at, Arc::clone(&asked), withdrawn).await;
                Done::Answered { asked, said }
            }));
        }
    }

    pub(super) fn answered(&mut self, asked: &Asked, said: Said) {
        self.questions.open.remove(&asked.id);
        let verdict = match said {
            Said::Verdict(verdict) => Some(verdict),
            Said::Never => {
                if let Some(rules) = rules(asked).filter(|_| self.questions.never.len() < NEVER_CAP)
                {
                    self.questions.never.push(rules);
                }
                Some(Verdict::No)
            }
            Said::Withdrawn => None,
        };
        if let Some(verdict) = verdict {
            // One that has been closed meanwhile takes no answer.
            self.tell(FromUser::Answered { id: asked.id, verdict });
        }
        self.put_waiting();
    }

    /// A question is closed, and the editor need not show it any more.
    pub(super) fn withdraw(&mut self, id: QuestionId) {
        self.questions.waiting.retain(|asked| asked.id != id);
        if let Some(withdrawn) = self.questions.open.remove(&id) {
            withdrawn.cancel();
        }
        self.put_waiting();
    }

    fn is_never(&self, asked: &Asked) -> bool {
        rules(asked).is_some_and(|rules| self.questions.never.contains(&rules))
    }
}

/// Returns the rules that a yes to all like it would set; `None` if there are
/// none.
fn rules(asked: &Asked) -> Option<Vec<Arc<str>>> {
    match &asked.question {
        Question::Call(asked) => (!asked.rules.is_empty()).then(|| asked.rules.clone()),
        Question::Batch { slots: _ } | Question::Form(_) => None,
    }
}
