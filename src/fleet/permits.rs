//! Permits: a request of a worker passes the gate of its run's coordinator, too.
//!
//! So all that a key is used for in a run counts together, and what the provider
//! tells one machine holds for all. The coordinator's side is the `office`: far
//! requests stand in the queue of its own gate, between those of its own units. The
//! workers' side is [`Permits`]. While the coordinator does not answer, a worker
//! goes by its share of what is configured.

mod asking;
mod office;
#[cfg(test)]
mod tests;
mod words;

pub use asking::Permits;

use tokio::sync::{mpsc, oneshot};

use super::engine::{Asked, Engine};
pub(super) use office::Office;
use office::Question;

/// Most questions that wait to be heard.
const QUESTIONS_CAP: usize = 256;

/// Has an office answer what is asked over the wire.
pub(super) async fn serve(engine: Engine, mut asked: Asked, office: Office) {
    let (sender, questions) = mpsc::channel(QUESTIONS_CAP);
    let hears = async move {
        while let Some(request) = asked.next().await {
            let (reply, answer) = oneshot::channel();
            let payload = request.payload.clone();
            if sender.send(Question { payload, reply }).await.is_err() {
                return;
            }
            let engine = engine.clone();
            tokio::spawn(async move {
                // What cannot be answered is as if it had not come: the worker asks
                // again, or goes by its share.
                if let Ok(answer) = answer.await {
                    let _ = engine.answer(&request, answer.into()).await;
                }
            });
        }
    };
    tokio::join!(hears, office.work(questions));
}
