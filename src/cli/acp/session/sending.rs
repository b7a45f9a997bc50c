//! What a session sends: to the editor, and to its run.

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{
    PromptResponse, SessionNotification, SessionUpdate, StopReason,
};
use tokio::sync::mpsc;

use super::{Prompt, Session, Stage, sent};
use crate::cli::say;
use crate::report::acp::noted;
use crate::run::FromUser;

impl Session {
    /// Answers the prompt, if there is one.
    pub(super) fn answer(&mut self, result: Result<StopReason, Error>) {
        let Some(Prompt { responder, .. }) = self.prompt.take() else { return };
        sent(match result {
            Ok(reason) => responder.respond(PromptResponse::new(reason)),
            Err(error) => responder.respond_with_error(error),
        });
    }

    /// Tells the run something, if there is one.
    pub(super) fn tell(&self, said: FromUser) {
        let Stage::Sat(sat) = &self.stage else { return };
        if let Err(mpsc::error::TrySendError::Full(_)) = sat.said.try_send(said) {
            say(&"warning: the editor says too much; an answer is left out");
        }
    }

    /// Passes on what was said to people: an editor may show nobody what stands on
    /// standard error.
    pub(super) fn note(&self, notes: &[String]) {
        notes.iter().filter_map(|text| noted(self.shows, text)).for_each(|it| self.send(it));
    }

    pub(super) fn send_unsent(&mut self) {
        let Some(update) = self.unsent.take() else { return };
        // Given back once it is written.
        if self.updates.try_take() {
            self.send_now(*update);
        } else if !self.updates.is_closed() && self.signal.is_none() {
            self.unsent = Some(update);
        }
    }

    /// Sends one of a few updates that nobody needs to wait for.
    pub(super) fn send(&self, update: SessionUpdate) {
        self.updates.take_or_go_without();
        self.send_now(update);
    }

    fn send_now(&self, update: SessionUpdate) {
        let notification = SessionNotification::new(self.at.session.clone(), update);
        sent(self.at.editor.send_notification(notification));
    }
}
