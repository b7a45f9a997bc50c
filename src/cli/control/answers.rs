//! What a client is sent beside the records of its run.

use std::io::Write as _;

use super::Conversation;
use super::refusals::refused;
use super::sat::Done;
use super::wire::WholeLines;
use crate::cli::exit::{Exit, Refusal};
use crate::cli::kit::Kit;
use crate::cli::{say, usage};
use crate::report::control::Reply;

impl Conversation {
    /// Has a result say that a message is not answered.
    ///
    /// `uuid` is what the client calls it.
    pub(super) fn refuse(&mut self, refusal: Refusal, uuid: Option<&str>) {
        say(&refusal);
        self.exit = refusal.exit;
        self.write(refused(&refusal, self.session.parse().ok(), uuid));
    }

    /// Has a result tell what the session has used.
    pub(super) fn tell_usage(&mut self, kit: &Kit, uuid: Option<&str>) {
        // What is not kept, or not begun, has no log.
        let usage = usage::of(&kit.directory).map(|(usage, _)| usage).unwrap_or_default();
        self.exit = Exit::Done;
        self.write(usage.result(uuid));
    }

    /// Writes a result that no run has.
    fn write(&mut self, result: Vec<u8>) {
        self.is_writing = true;
        let is_told = self.is_told.clone();
        self.work.push(Box::pin(async move {
            // Before the next message is begun, whose records come after.
            let written = tokio::task::spawn_blocking(move || WholeLines.write_all(&result));
            tokio::select! {
                // Nobody reads: the refusal is on standard error, too.
                _ = written => {}
                () = is_told.cancelled() => {}
            }
            Done::Written
        }));
    }

    /// Answers a request, and tells people if the client has begun to miss
    /// replies.
    pub(super) fn reply(&mut self, id: &str, reply: &Reply) {
        let is_unread = !self.replies.send(reply.line(id));
        if is_unread {
            // There may be room for a few words. If not, it was told before.
            let refused = Reply::Refused("the client leaves too much unread".to_owned());
            self.replies.send(refused.line(id));
        }
        if is_unread && !self.is_unread {
            say(&"warning: the client reads no replies; some are left out");
        }
        self.is_unread = is_unread;
    }
}
