//! What a client hears of what cannot be done.

use std::io::Write as _;
use std::time::Duration;

use uuid::Uuid;

use super::incoming::{Incoming, Wanted};
use super::wire::{self, Heard, WholeLines};
use crate::cli::exit::Refusal;
use crate::cli::print;
use crate::report::control::Reply;

/// How long a run that cannot begin waits for a client to introduce itself.
const FIRST_LINE_GRACE: Duration = Duration::from_secs(1);

/// Answers a client that introduces itself to a run that cannot begin: it waits
/// for that. Whatever else it says has its answer in the result.
pub(super) async fn decline(refusal: &Refusal) {
    let mut heard = wire::listen();
    let Ok(Some(Heard::Line(line))) = tokio::time::timeout(FIRST_LINE_GRACE, heard.recv()).await
    else {
        return;
    };
    if let Ok(Incoming::Request { id, wanted: Wanted::Initialize(_) }) = Incoming::read(&line) {
        let reply = Reply::Refused(plain(refusal)).line(&id);
        // Nobody reads: the refusal is on standard error, too.
        let _ = WholeLines.write_all(&reply);
    }
}

/// Returns the result of a message that was not answered, and that the client
/// calls `uuid`.
pub(super) fn refused(refusal: &Refusal, session: Option<Uuid>, uuid: Option<&str>) -> Vec<u8> {
    wire::written_by(|output| print::show_refusal(refusal, session, uuid, vec![output]))
}

/// Returns what a client is told of a refusal.
pub(super) fn plain(refusal: &Refusal) -> String {
    match &refusal.hint {
        Some(hint) => format!("{}; {hint}", refusal.message),
        None => refusal.message.clone(),
    }
}
