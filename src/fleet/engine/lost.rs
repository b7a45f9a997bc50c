//! A server that is not there for long: no connection to it, or one over which
//! JetStream does not answer, since too few servers of a cluster run, or none of those
//! that have one of the streams.

use std::time::Duration;

use async_nats::jetstream::stream::{ClusterInfo, Info as StreamInfo};
use futures_util::future::join_all;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::error::Denied;
use super::{Engine, layout};

/// How often is looked whether JetStream answers, in the time in which it has to.
const LOOKS: u32 = 2;

/// The pause between two looks whether it answers again. What is left of a cluster then is
/// asked by all at once.
const BETWEEN: Duration = Duration::from_secs(1);

/// A server that is not there, or does not answer.
#[derive(Debug)]
pub struct Lost {
    /// A clause that says so, and why.
    pub why: String,
    what: What,
}

#[derive(Debug)]
enum What {
    /// The connection that was this one of this process.
    Connection(u64),
    JetStream,
}

impl Lost {
    /// Returns what is said when it is there again.
    #[must_use]
    pub fn again(&self) -> &'static str {
        match self.what {
            What::Connection(_) => "there is a connection to NATS again",
            What::JetStream => "JetStream answers again",
        }
    }
}

impl Engine {
    /// Waits until there has been no connection for so long, or no answer of JetStream's
    /// over one that stands.
    pub async fn is_lost(&self, longest: Duration) -> Lost {
        tokio::select! {
            (connection, why) = self.signs.lost(longest) => {
                let why = format!("there is no connection to NATS at {}: {why}", self.servers);
                Lost { why, what: What::Connection(connection) }
            }
            why = self.mute(longest) => {
                let why = format!("JetStream at {} does not answer: {why}", self.servers);
                Lost { why, what: What::JetStream }
            }
        }
    }

    /// Waits until what was lost is there again.
    pub async fn is_back(&self, lost: &Lost) {
        match lost.what {
            What::Connection(connection) => self.signs.connected_after(connection).await,
            What::JetStream => {
                while self.hears_of_all().await.is_err() {
                    sleep(BETWEEN).await;
                }
            }
        }
    }

    /// Waits until JetStream has not answered for so long, and more than once, and
    /// returns what came instead.
    async fn mute(&self, longest: Duration) -> String {
        let mut silent_since = None;
        loop {
            sleep(longest / LOOKS).await;
            let asked = Instant::now();
            // Where there is no connection that is what is said.
            let (heard, connected) = (self.hears_of_all().await, self.connected_since());
            let (Err(why), Some(connected)) = (heard, connected) else {
                silent_since = None;
                continue;
            };
            match silent_since {
                Some(since) if connected.max(since).elapsed() >= longest => return why,
                Some(_) => {}
                None => silent_since = Some(asked),
            }
        }
    }

    /// Asks JetStream for all streams of the pool: who needs one waits for it, whatever is
    /// with the others. The error is a clause, some moments later.
    pub(super) async fn hears_of_all(&self) -> Result<(), String> {
        let hears = self.names.all_streams().into_iter().map(async |stream| {
            let told = self.hears(&stream).await;
            told.map_err(|cause| format!("{cause} (`{stream}`)"))
        });
        join_all(hears).await.into_iter().collect()
    }

    /// Asks JetStream for a stream. The error is a clause, some moments later.
    pub(super) async fn hears(&self, stream: &str) -> Result<(), String> {
        let subject = format!("STREAM.INFO.{stream}");
        let told = self.call::<StreamInfo>(subject, &json!({})).await;
        let told = told.map(|StreamInfo { cluster, .. }| cluster);
        let Some(cause) = why_mute(told) else { return Ok(()) };
        layout::pause(&cause).await;
        Err(cause)
    }
}

/// Returns why a stream takes nothing of which this is told, if it is so.
fn why_mute(told: Result<Option<ClusterInfo>, Denied>) -> Option<String> {
    match told {
        // Whoever has a copy tells of it, and takes nothing.
        Ok(Some(ClusterInfo { leader: None, .. })) => {
            Some("too few servers of its cluster run".to_owned())
        }
        // Whatever else it says, it answers.
        Ok(_) | Err(Denied::Said(_) | Denied::Final(_)) => None,
        Err(Denied::Passing(cause)) => Some(cause),
        Err(Denied::Nobody) => Some("nobody does".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_takes_nothing_that_has_no_leader_or_no_server() {
        let led = |leader: Option<&str>| {
            let told = json!({ "name": "C1", "leader": leader });
            Ok(serde_json::from_value(told).unwrap())
        };
        assert_eq!(why_mute(Ok(None)), None);
        assert_eq!(why_mute(led(Some("n0"))), None);
        assert_eq!(why_mute(led(None)).as_deref(), Some("too few servers of its cluster run"));
        let offline = Err(Denied::Passing("stream is offline".to_owned()));
        assert_eq!(why_mute(offline).as_deref(), Some("stream is offline"));
        let error = json!({ "code": 404, "err_code": 10059, "description": "stream not found" });
        assert_eq!(why_mute(Err(Denied::Said(serde_json::from_value(error).unwrap()))), None);
        assert_eq!(why_mute(Err(Denied::Nobody)).as_deref(), Some("nobody does"));
    }
}
