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
use crate::guard::{Policy, Rules, Sourced};
use crate::line::{Line, Told};
use crate::mcp::{Servers, State};
use crate::session::Past;

/// Most rules that mean no tool which are named; more would hide the rest.
const UNMET_CAP: usize = 5;

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
    policy: &Policy,
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
        let unmet = unmet(servers, policy.rules());
        for text in remarks(servers, &now).into_iter().chain(unmet) {
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
        remarks.extend(server.take_warning().map(|what| format!("the server `{name}`: {what}")));
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

/// Says which rules are about a server that answers, but about none of its tools:
/// most likely they are spelled otherwise than whoever wrote them thinks.
fn unmet(servers: &Servers, rules: &Rules) -> Vec<String> {
    let Rules { deny, ask, allow } = rules;
    let others = servers.other_names();
    let offered = servers.tools();
    let offered = servers.told(&offered);
    let is_unmet = |(sourced, must_be_sure): &(&Sourced, bool)| {
        let written = sourced.rule.tool();
        let mut of = servers.named_in(written).peekable();
        // What one that does not answer would offer nobody knows.
        of.peek().is_some()
            && of.all(|server| server.state().listing().is_some())
            && !offered.iter().any(|tool| match must_be_sure {
                true => *tool.name == *written || others.surely(written, &tool.name),
                false => {
                    tool.name.eq_ignore_ascii_case(written) || others.perhaps(written, &tool.name)
                }
            })
    };
    let narrowing = deny.iter().chain(ask).map(|rule| (rule, false));
    let all = narrowing.chain(allow.iter().map(|rule| (rule, true)));
    let unmet: Vec<_> = all.filter(is_unmet).collect();
    let mut remarks: Vec<String> = unmet
        .iter()
        .take(UNMET_CAP)
        .map(|(sourced, _)| {
            let rule = &sourced.rule;
            format!(
                "the rule `{rule}` means none of the tools that its server offers; \
                 `tine mcp list` says what they are called"
            )
        })
        .collect();
    if let Some(more) = unmet.len().checked_sub(UNMET_CAP).filter(|more| *more > 0) {
        remarks.push(format!("so it is with {more} more rules"));
    }
    remarks
}
