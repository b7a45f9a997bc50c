//! What servers of tools offer to main as a prompt begins.
//!
//! The first prompt of a process waits for them, for a limited time. A
//! conversation in which nothing was answered yet gets what they offer then.
//! One that goes on keeps what it had, so that its requests begin with the same
//! bytes: what came too late joins at the next summary.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::agent::Offers;
use crate::event::{NoticeLevel, Offered, OfferedTool, ServerStatus};
use crate::line::{Line, Told};
use crate::mcp::{Servers, State};
use crate::session::Past;

/// What a conversation has of servers.
pub(super) struct Had {
    tools: Option<Arc<[OfferedTool]>>,
    /// Whether it is to stay.
    stays: bool,
}

impl Had {
    pub(super) fn of(past: &Past) -> Self {
        Self { tools: past.offered().cloned(), stays: past.has_answered() }
    }
}

/// Waits for the servers if nobody has yet, and returns what main has of them,
/// which is told; `None` where there is nothing to have.
pub(super) async fn gather(
    servers: &Arc<Servers>,
    had: Had,
    line: &Line,
    cancel: &CancellationToken,
) -> Option<Offers> {
    let Had { tools: before, stays } = had;
    if servers.is_empty() && before.as_ref().is_none_or(|tools| tools.is_empty()) {
        return None;
    }
    let is_first = tokio::select! {
        biased;
        () = cancel.cancelled() => false,
        is_first = servers.settled_once() => is_first,
    };
    let now: Arc<[OfferedTool]> = match stays {
        // What is configured no more is gone: that was somebody's wish.
        true => {
            let kept = before.iter().flat_map(|tools| tools.iter());
            kept.filter(|tool| servers.find(&tool.server).is_some()).cloned().collect()
        }
        false => servers.tools().into(),
    };
    let is_new = before.as_ref() != Some(&now);
    let tools = is_new.then(|| Arc::clone(&now));
    let offered = Offered { servers: servers.glances(), tools };
    line.tell(Told::Offered(Arc::new(offered))).await;
    if is_first {
        for text in remarks(servers, &now) {
            line.tell(Told::Notice { level: NoticeLevel::Warning, text: text.into() }).await;
        }
    }
    Some(Offers { servers: Arc::clone(servers), tools: now })
}

/// Says what is not as whoever configured the servers may think.
fn remarks(servers: &Servers, now: &[OfferedTool]) -> Vec<String> {
    let mut remarks = Vec::new();
    for server in servers.iter() {
        let (name, origin) = (&server.name, &server.origin);
        match server.state() {
            State::Pending => remarks.push(format!(
                "the server `{name}` has not answered within {} ms (`mcp.startup_ms`); its tools join \
                 at the next compaction, or in a new session",
                servers.startup().as_millis()
            )),
            state @ (State::Ended(..) | State::Failed(_) | State::NeedsAuth(_)) => {
                let why = state.why().cloned().unwrap_or_default();
                let what = match state.status() {
                    ServerStatus::NeedsAuth => "wants a login, which tine does not do",
                    ServerStatus::Failed
                    | ServerStatus::Pending
                    | ServerStatus::Connected
                    | ServerStatus::Disabled => "is not there",
                };
                remarks.push(format!("the server `{name}` ({origin}) {what}: {why}"));
            }
            State::Connected(listing) => {
                let out = listing.left_out.iter();
                remarks.extend(out.map(|what| format!("the server `{name}`: {what}")));
                let joins_later = |tool: &&OfferedTool| !now.iter().any(|it| it.name == tool.name);
                if listing.tools.iter().find(joins_later).is_some() {
                    remarks.push(format!(
                        "the server `{name}` has tools that this conversation does not know; they join \
                         at the next compaction, or in a new session"
                    ));
                }
            }
            State::Disabled(_) => {}
        }
    }
    remarks
}
