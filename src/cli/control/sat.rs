//! A run that a client sits at, and what is worked on beside it.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::progress::Progress;
use super::rewinding::RewindPlanned;
use crate::cli::exit::Refusal;
use crate::cli::kit::Kit;
use crate::report::control::Reply;
use crate::run::{Asked, FromUser, Main, RunEnd, Signal};

/// A run that a client sits at.
pub(super) struct Sat {
    pub(super) kit: Arc<Kit>,
    /// Where it is asked; `None` once it is to end.
    pub(super) asking: Option<mpsc::Sender<Asked>>,
    /// Where it hears the client; `None` once nobody answers any more.
    pub(super) said: Option<mpsc::Sender<FromUser>>,
    pub(super) signals: mpsc::Sender<Signal>,
    /// How far it was when that was last looked at.
    pub(super) known: Progress,
    /// How many invocations it was asked for.
    pub(super) asked: u64,
}

/// Something that was worked on beside everything else.
pub(super) enum Done {
    /// What a message means, by its number, and what stands for it in the log.
    Meant { number: u64, typed: String, main: Result<Main, Refusal> },
    /// What becomes of files if they go back is known.
    Planned(Box<RewindPlanned>),
    /// Files are back, or not: the reply to the request, by its id.
    Rewound { id: String, reply: Reply },
    /// A request has its answer, by its id.
    Replied { id: String, reply: Reply },
    /// A result is written.
    Written,
}

/// Waits for the end of the run; forever if there is none. Dropping the future
/// loses nothing.
pub(super) async fn ended(running: &mut Option<JoinHandle<RunEnd>>) -> RunEnd {
    match running {
        Some(running) => running.await.expect("a run never panics"),
        None => std::future::pending().await,
    }
}

/// Waits until the run has got on; forever if there is none, or if it is over.
pub(super) async fn got_on(progress: &mut Option<watch::Receiver<Progress>>) {
    if let Some(progress) = progress
        && progress.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}
