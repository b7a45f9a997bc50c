//! Decides which hosts a sandboxed command reaches: by rules, or by asking the user.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::{BoxFuture, Either, select};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::{OnceCell, Semaphore};
use tokio_util::sync::CancellationToken;

use super::waited::UserWaitTime;
use crate::event::{CallQuestion, Question, Verdict};
use crate::guard::sandbox::proxy::{Gatekeeper, NoConnection, Target};
use crate::guard::{Ask, HostDecision};
use crate::tool::{Granted, ToolContext, person};
use crate::tool_name::SANDBOX_NETWORK;

/// Maximum number of refused connections that the output lists.
const NAMED_CAP: usize = 10;

/// Maximum number of hosts that a command may ask for.
const HOSTS_CAP: usize = 1_000;

/// Maximum number of questions about the hosts of one command: a command may make up names.
const QUESTIONS_CAP: u32 = 20;

/// Maximum characters of a sentence about a connection.
const SENTENCE_CAP: usize = 400;

/// The reason without an answer of the user.
const ENDED: &str = "the command has ended";

/// The decision about a host; the error is the reason for a refusal.
type HostAnswer = Result<(), String>;

/// Decides about the connections of one command.
pub(super) struct AskingGatekeeper<'a> {
    context: &'a ToolContext,
    call: &'a Granted,
    /// Fires when the command has ended.
    ended: &'a CancellationToken,
    /// Counts the time that the command waits for the user.
    waited: &'a UserWaitTime,
    /// The decision about each host, for the whole command.
    decided: Mutex<HashMap<String, Arc<OnceCell<HostAnswer>>>>,
    /// Sentences about connections that were not made, in order.
    refused: Mutex<Vec<String>>,
    /// Lets one question after the other through.
    asking: Semaphore,
    /// The number of questions so far.
    asked: AtomicU32,
}

impl<'a> AskingGatekeeper<'a> {
    pub(super) fn new(
        (context, call): (&'a ToolContext, &'a Granted),
        ended: &'a CancellationToken,
        waited: &'a UserWaitTime,
    ) -> Self {
        Self {
            context,
            call,
            ended,
            waited,
            decided: Mutex::default(),
            refused: Mutex::default(),
            asking: Semaphore::new(1),
            asked: AtomicU32::new(0),
        }
    }

    /// Returns sentences for the model about hosts that the command did not reach.
    pub(super) fn finish(self) -> String {
        let refused = self.refused.into_inner().unwrap_or_else(PoisonError::into_inner);
        let named: String =
            refused.iter().take(NAMED_CAP).map(|why| format!("[{why}]\n")).collect();
        match refused.len() > NAMED_CAP {
            false => named,
            true => format!("{named}[And more connections.]\n"),
        }
    }

    /// Keeps a sentence for the output, cut if it is long.
    pub(super) fn note(&self, why: &str) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let why = short(why);
        // One more shows that there are more.
        if refused.len() <= NAMED_CAP && !refused.contains(&why) {
            refused.push(why);
        }
    }

    async fn open(&self, Target { host, port }: Target) -> Result<TcpStream, NoConnection> {
        let cell = {
            let mut decided = self.decided.lock().unwrap_or_else(PoisonError::into_inner);
            if decided.len() >= HOSTS_CAP && !decided.contains_key(&host) {
                let why = format!("The command asks for more than {HOSTS_CAP} hosts.");
                self.note(&why);
                return Err(NoConnection::Refused(why));
            }
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

    async fn decide(&self, host: &str) -> HostAnswer {
        match self.context.policy.decide_host(host, self.call.confinement.network) {
            HostDecision::Allow => Ok(()),
            HostDecision::Deny(reason) => Err(reason),
            HostDecision::Ask(ask) => self.ask(host, *ask).await,
        }
    }

    async fn ask(&self, host: &str, ask: Ask) -> HostAnswer {
        // The one that is asked about is first in line, and the next waits for its answer.
        let _turn = self.asking.acquire().await.map_err(|error| error.to_string())?;
        if self.ended.is_cancelled() {
            return Err(ENDED.to_owned());
        }
        if self.asked.fetch_add(1, Ordering::Relaxed) >= QUESTIONS_CAP {
            return Err(format!(
                "the user was already asked about {QUESTIONS_CAP} hosts for this command"
            ));
        }
        let arguments = json!({ "host": host });
        let refusal = ask.refusal();
        let question = Question::Call(Arc::new(CallQuestion {
            call: self.call.id.clone(),
            tool: SANDBOX_NETWORK.into(),
            subject: host.into(),
            arguments: arguments.to_string().into(),
            reason: "a command in the sandbox wants to connect to it".into(),
            rules: ask.rules,
            confinement: None,
        }));
        let _waiting = self.waited.begin();
        let verdict = person::answer(self.context, question, ask.decided, self.ended).await;
        match verdict {
            Some(
                Verdict::Yes
                | Verdict::ForBatch
                | Verdict::ForSession
                | Verdict::Always
                | Verdict::Covered(_),
            ) => Ok(()),
            Some(Verdict::YesWith(terms)) => match &terms.arguments {
                Some(changed) if !names_host(changed, host) => {
                    Err("the answer was about another host".to_owned())
                }
                Some(_) | None => Ok(()),
            },
            // Only forms are filled in.
            Some(Verdict::No | Verdict::Filled(_)) => Err("the user said no".to_owned()),
            Some(Verdict::NoBecause(why)) => Err(format!("the user said no: {}", short(&why))),
            Some(Verdict::NobodyToAsk) => Err(refusal),
            Some(Verdict::Withdrawn) | None => Err(ENDED.to_owned()),
        }
    }
}

impl Gatekeeper for AskingGatekeeper<'_> {
    fn connect(&self, target: Target) -> BoxFuture<'_, Result<TcpStream, NoConnection>> {
        Box::pin(self.open(target))
    }
}

/// Returns whether changed arguments still name this host.
fn names_host(arguments: &str, host: &str) -> bool {
    let arguments: Option<Value> = serde_json::from_str(arguments).ok();
    arguments.is_some_and(|arguments| arguments["host"].as_str() == Some(host))
}

fn short(sentence: &str) -> String {
    match sentence.char_indices().nth(SENTENCE_CAP) {
        Some((end, _)) => format!("{}…", &sentence[..end]),
        None => sentence.to_owned(),
    }
}

fn ended() -> NoConnection {
    NoConnection::Failed("The command has ended.".to_owned())
}
