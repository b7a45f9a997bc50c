//! Decides which hosts a sandboxed command reaches: by rules, or by asking the user.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::{BoxFuture, Either, select};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::waited::Waited;
use crate::event::{CallQuestion, NetworkAccess, Question, Verdict};
use crate::guard::sandbox::proxy::{Gatekeeper, NoConnection, Target};
use crate::guard::{Ask, Decision, Effect};
use crate::tool::{Granted, ToolContext, person};
use crate::tool_name::SANDBOX_NETWORK;

/// Maximum number of refused connections that the output lists.
const NAMED_CAP: usize = 10;

/// The decision about a host; the error is the reason for a refusal.
type Answer = Result<(), String>;

/// Decides about the connections of one command.
pub(super) struct AskingGatekeeper<'a> {
    context: &'a ToolContext,
    call: &'a Granted,
    /// Fires when the command has ended.
    ended: &'a CancellationToken,
    /// Counts the time that the command waits for the user.
    waited: &'a Waited,
    /// The decision about each host, for the whole command.
    decided: Mutex<HashMap<String, Arc<OnceCell<Answer>>>>,
    /// Sentences about connections that were not made, in order.
    refused: Mutex<Vec<String>>,
}

impl<'a> AskingGatekeeper<'a> {
    pub(super) fn new(
        (context, call): (&'a ToolContext, &'a Granted),
        ended: &'a CancellationToken,
        waited: &'a Waited,
    ) -> Self {
        let (decided, refused) = (Mutex::default(), Mutex::default());
        Self { context, call, ended, waited, decided, refused }
    }

    /// Returns sentences for the model about hosts that the command did not reach.
    pub(super) fn finish(self) -> String {
        let refused = self.refused.into_inner().unwrap_or_else(PoisonError::into_inner);
        let named: String =
            refused.iter().take(NAMED_CAP).map(|why| format!("[{why}]\n")).collect();
        match refused.len().saturating_sub(NAMED_CAP) {
            0 => named,
            more => format!("{named}[And {more} more connections.]\n"),
        }
    }

    fn note(&self, why: &str) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if !refused.iter().any(|noted| noted == why) {
            refused.push(why.to_owned());
        }
    }

    async fn open(&self, Target { host, port }: Target) -> Result<TcpStream, NoConnection> {
        let cell = {
            let mut decided = self.decided.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(decided.entry(host.clone()).or_default())
        };
        if let Err(why) = cell.get_or_init(|| self.decide(&host)).await {
            let why = format!("No connection to {host}: {why}.");
            self.note(&why);
            return Err(NoConnection::Refused(why));
        }
        let connecting = Box::pin(self.context.workspace.web.connect(&host, port));
        let connected = match select(connecting, Box::pin(self.ended.cancelled())).await {
            Either::Left((connected, _)) => connected,
            Either::Right(((), _)) => return Err(ended()),
        };
        connected.map_err(|error| {
            let why = format!("No connection: {error}.");
            self.note(&why);
            NoConnection::Failed(why)
        })
    }

    async fn decide(&self, host: &str) -> Answer {
        let arguments = json!({ "host": host });
        let policy = &self.context.policy;
        let decided = policy.explain(SANDBOX_NETWORK, Effect::Fetches, &arguments).decision;
        match (decided, self.call.confinement.network) {
            (Decision::Allow(_), _) | (Decision::Ask(_), NetworkAccess::Public) => Ok(()),
            (Decision::Deny { reason }, _) => Err(reason),
            (Decision::Ask(ask), _) => self.ask(host, &arguments.to_string(), ask).await,
        }
    }

    async fn ask(&self, host: &str, arguments: &str, ask: Ask) -> Answer {
        let refusal = ask.refusal();
        let question = Question::Call(Arc::new(CallQuestion {
            call: self.call.id.clone(),
            tool: SANDBOX_NETWORK.into(),
            subject: host.into(),
            arguments: arguments.into(),
            reason: "a command in the sandbox wants to connect to it".into(),
            rules: ask.rules,
            confinement: None,
        }));
        let _waiting = self.waited.begin();
        let verdict = person::answer(self.context, question, ask.decided, self.ended).await;
        match verdict {
            Some(
                Verdict::Yes
                | Verdict::YesWith(_)
                | Verdict::ForBatch
                | Verdict::ForSession
                | Verdict::Always
                | Verdict::Covered(_),
            ) => Ok(()),
            // Only forms are filled in.
            Some(Verdict::No | Verdict::Filled(_)) => Err("the user said no".to_owned()),
            Some(Verdict::NoBecause(why)) => Err(format!("the user said no: {why}")),
            Some(Verdict::NobodyToAsk) => Err(refusal),
            Some(Verdict::Withdrawn) | None => Err("the command has ended".to_owned()),
        }
    }
}

impl Gatekeeper for AskingGatekeeper<'_> {
    fn connect(&self, target: Target) -> BoxFuture<'_, Result<TcpStream, NoConnection>> {
        Box::pin(self.open(target))
    }
}

fn ended() -> NoConnection {
    NoConnection::Failed("The command has ended.".to_owned())
}
