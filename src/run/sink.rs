//! Where events go: to the log first, then to the reporters; and rules that are
//! to be kept, to the user's settings.
//!
//! Whatever cannot be written does not end the run: its work is worth more than
//! its record. Who lost what is told once, to people and to the caller.

use std::collections::VecDeque;
use std::sync::Arc;

use super::approvals::{KeepRule, Settings};
use super::audience::{Audience, Shown};
use super::disk::Disk;
use super::dispatcher::{Answer, Effect, Input, Reach};
use super::traced::trace;
use super::{Reporter, RunEnd, Signals, end_of};
use crate::event::{CancelReason, Event, InvocationEnd, Outcome};
use crate::session::{LogError, SessionLog};

/// The log and the reporters.
pub(super) struct Sink {
    /// `None` if there is none, or no longer.
    log: Option<(SessionLog, Disk)>,
    audience: Audience,
    settings: Settings,
    /// What people should know and have not been told yet. Only what cannot be
    /// kept adds to it, and a kept log is lost once.
    trouble: VecDeque<Arc<str>>,
    /// The last end of an invocation.
    end: Option<Arc<InvocationEnd>>,
}

/// How a run stands after some effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stands {
    /// Main works.
    GoesOn,
    /// Main's invocation is over.
    Rests,
    /// All of it is.
    Over,
}

impl Sink {
    pub(super) fn new(
        log: Option<SessionLog>,
        reporters: Vec<Box<dyn Reporter>>,
        keep_rule: KeepRule,
    ) -> Self {
        let (audience, settings) = (Audience::new(reporters), Settings::new(keep_rule));
        let mut sink = Self { log: None, audience, settings, trouble: VecDeque::new(), end: None };
        if let Some(log) = log {
            match Disk::of(&log) {
                Ok(disk) => sink.log = Some((log, disk)),
                Err(error) => sink.lose_log(&error),
            }
        }
        sink
    }

    /// Carries effects out in order, and says what they come to. When the run is
    /// over, everything is on disk.
    pub(super) async fn carry_out(
        &mut self,
        effects: Vec<Effect>,
        signals: &mut Signals,
    ) -> Stands {
        let mut synced = Vec::new();
        let mut must_sync = false;
        let mut stands = Stands::GoesOn;
        for effect in effects {
            match effect {
                Effect::Record(event) => self.record(event, signals).await,
                Effect::Glimpse(delta) => self.audience.show(Shown::Delta(delta), signals).await,
                Effect::Sync => must_sync = true,
                Effect::Answer(answer) => answer.give(),
                Effect::AnswerSynced(answer) => synced.push(answer),
                Effect::KeepRules(rules) => self.settings.keep(rules),
                Effect::StartDeadline => signals.restart_deadline(),
                Effect::Finish => stands = Stands::Rests,
                Effect::Over => stands = Stands::Over,
            }
        }
        // One trip to the disk serves every effect of the burst.
        if must_sync || !synced.is_empty() {
            self.sync(synced);
        }
        if stands != Stands::Over {
            return stands;
        }
        if let Some((_, disk)) = &mut self.log
            && let Err(error) = disk.finish().await
        {
            self.lose_log(&error);
        }
        self.trouble.extend(self.settings.finish().await);
        stands
    }

    /// Waits for what the dispatcher should know of log and reporters. Dropping
    /// the future loses nothing.
    pub(super) async fn next(&mut self) -> Input {
        loop {
            if let Some(trouble) = self.trouble.pop_front() {
                return Input::Trouble(trouble);
            }
            let log = async {
                match &mut self.log {
                    Some((_, disk)) => disk.synced().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.audience.gone() => {
                    return Input::Cancel(Reach::All, CancelReason::OutputGone);
                }
                synced = log => {
                    if let Err(error) = synced {
                        self.lose_log(&error);
                    }
                }
                trouble = self.settings.trouble() => return Input::Trouble(trouble),
            }
        }
    }

    /// Waits until the reporters have shown everything, and returns how it all
    /// ended.
    pub(super) async fn close(self, signals: &mut Signals) -> RunEnd {
        let nothing = || InvocationEnd {
            outcome: Outcome::Done { text: Arc::default() },
            text: Arc::default(),
            cancel: None,
            unfinished: Vec::new(),
        };
        let end = self.end.unwrap_or_else(|| Arc::new(nothing()));
        let output_error = self.audience.close(signals).await;
        RunEnd { end, output_error, signal: signals.last, trouble: self.trouble.into() }
    }

    async fn record(&mut self, event: Event, signals: &mut Signals) {
        trace(&event);
        if let Some((log, _)) = &mut self.log
            && let Err(error) = log.append(&event)
        {
            if error.ends_the_log() {
                self.lose_log(&error);
            } else {
                self.trouble.push_back(error.to_string().into());
            }
        }
        self.show(event, signals).await;
    }

    /// Returns the log, if there is one still.
    pub(super) fn log(&mut self) -> Option<&mut SessionLog> {
        self.log.as_mut().map(|(log, _)| log)
    }

    /// Shows an event that is in the log already.
    pub(super) async fn show(&mut self, event: Event, signals: &mut Signals) {
        if let Some(end) = end_of(&event) {
            self.end = Some(end);
        }
        self.audience.show(Shown::Event(Arc::new(event)), signals).await;
    }

    fn sync(&mut self, answers: Vec<Answer>) {
        match &mut self.log {
            Some((_, disk)) => disk.sync(answers),
            None => answers.into_iter().for_each(Answer::give),
        }
    }

    fn lose_log(&mut self, error: &LogError) {
        self.lose(why_lost(error));
    }

    /// Goes on without the log, and says why.
    pub(super) fn lose(&mut self, why: Arc<str>) {
        self.trouble.push_back(why);
        self.log = None;
    }
}

/// Says why the log is not written any more.
pub(super) fn why_lost(error: &LogError) -> Arc<str> {
    let cause = std::error::Error::source(error);
    let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("the session is no longer kept: {error}{cause}").into()
}
