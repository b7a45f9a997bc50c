//! What main is asked next, and what is found out before.

use std::sync::Arc;

use agent_client_protocol::v1::schema::{ContentBlock, ContentChunk, SessionUpdate, StopReason};
use tokio::sync::mpsc;

use super::{AtWork, Done, Sat, Session, Stage, view};
use crate::agent::Opening;
use crate::cli::acp::refused;
use crate::cli::acp::shown::Shown;
use crate::cli::exit::{Exit, Refusal};
use crate::cli::kit::Kit;
use crate::cli::slash::{self, Typed};
use crate::cli::start::{Sitter, Sitting};
use crate::cli::{said, undo, usage};
use crate::run::{self, FromUser, Main};

/// Most of what is said to a run before it has heard it.
const SAID_CAP: usize = 1_024;

/// Most signals that wait for a run.
const SIGNALS_CAP: usize = 8;

/// Most that a run is asked before it has taken it: one thing, since it does one
/// at a time.
const ASKED_CAP: usize = 1;

impl Session {
    /// Begins what is next, if main rests.
    pub(super) fn feed(&mut self) {
        if self.at_work != AtWork::Nothing || self.is_leaving() {
            return;
        }
        if let Some(text) = self.prompt.as_mut().and_then(|prompt| prompt.text.take()) {
            self.is_calm = false;
            return self.begin(text);
        }
        if self.untold > 0 && !self.is_calm && matches!(self.stage, Stage::Sat(_)) {
            self.is_calm = true;
            self.ask("", Opening::News);
        }
    }

    fn begin(&mut self, text: String) {
        let refuse = |message: &str, hint: &str| Refusal::new(Exit::Usage, message).hint(hint);
        let refusal = undo::asked(&text).map(|_| {
            refuse("`/undo` is for the command line", "there is `tine session revert`, too")
        });
        let sat = match refusal {
            Some(refusal) => Err(refusal),
            None => self.sit(),
        };
        let kit = match sat {
            Ok(kit) => kit,
            Err(refusal) => return self.answer(Err(refused(&refusal))),
        };
        self.meanings += 1;
        let number = self.meanings;
        self.at_work = AtWork::FindsOut(number);
        self.work.push(Box::pin(async move {
            if slash::asks_for_usage(&text) {
                let using =
                    move || usage::of(&kit.directory).map(|(used, _)| used.lines().join("\n"));
                let used = tokio::task::spawn_blocking(using).await;
                let used = used.expect("a log is read without panics");
                return Done::Used { number, used };
            }
            let typed = text.clone();
            let finding = tokio::task::spawn_blocking(move || kit.meaning(&typed, Typed::Line));
            let main = finding.await.expect("a skill's text is put together without panics");
            Done::Meant { number, text, main }
        }));
    }

    /// Returns what prompts are made with. The run begins now if there is none.
    fn sit(&mut self) -> Result<Arc<Kit>, Refusal> {
        let start = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Ready(start) => start,
            Stage::Sat(sat) => {
                let kit = Arc::clone(&sat.kit);
                self.stage = Stage::Sat(sat);
                return Ok(kit);
            }
            other @ (Stage::Loading(_) | Stage::Over) => {
                self.stage = other;
                return Err(Refusal::new(Exit::Error, "this session cannot go on; load it again"));
            }
        };
        let (signals, arriving) = mpsc::channel(SIGNALS_CAP);
        let (said, answers) = mpsc::channel(SAID_CAP);
        let (asking, asked) = mpsc::channel(ASKED_CAP);
        let (shown, told) = Shown::new(view(&start, self.shows).after(self.so_far));
        let sitter = Sitter::Chat(Box::new(shown));
        let sitting = Sitting { signals: arriving, answers, asking: asked, sitter, follows: false };
        let (begun, notes) = said::meanwhile(|| start.sit(sitting));
        let (run, kit, scratch) = begun?;
        self.note(&notes);
        self.told = Some(told);
        let running = tokio::spawn(run.go());
        let sat = Sat {
            kit: Arc::clone(&kit),
            asking: Some(asking),
            said,
            signals,
            running,
            scratch,
            asked: 0,
        };
        self.stage = Stage::Sat(sat);
        Ok(kit)
    }

    /// Has main asked something.
    fn ask(&mut self, text: &str, main: impl Into<Main>) {
        let Stage::Sat(sat) = &mut self.stage else { return };
        let invoked = Box::new(sat.kit.invoked(text, main));
        // It rests, so it takes it; unless it has ended, and is heard of next.
        let asking = sat.asking.as_ref();
        if asking.is_some_and(|asking| asking.try_send(run::Asked::Invoke(invoked)).is_ok()) {
            sat.asked += 1;
            self.at_work = AtWork::Answers;
        }
    }

    /// Ends what the run was asked last, whether it has begun with it or not.
    pub(super) fn end_turn(&self) {
        if let Stage::Sat(sat) = &self.stage {
            self.tell(FromUser::EndAsked(sat.asked));
        }
    }

    pub(super) fn done(&mut self, done: Done) {
        match done {
            Done::Meant { number, text, main } => {
                if self.at_work != AtWork::FindsOut(number) {
                    return;
                }
                self.at_work = AtWork::Nothing;
                match main {
                    Ok(main) => self.ask(&text, main),
                    Err(refusal) => self.answer(Err(refused(&refusal))),
                }
            }
            Done::Used { number, used } => {
                // It was cancelled, and something else may be at work.
                if self.at_work != AtWork::FindsOut(number) {
                    return;
                }
                self.at_work = AtWork::Nothing;
                match used {
                    Ok(text) => {
                        let chunk = ContentChunk::new(ContentBlock::from(text));
                        self.send(SessionUpdate::AgentMessageChunk(chunk));
                        self.answer(Ok(StopReason::EndTurn));
                    }
                    Err(refusal) => self.answer(Err(refused(&refusal))),
                }
            }
            Done::Answered { asked, said } => self.answered(&asked, said),
        }
    }
}
