//! `tine acp`: an editor drives tine over the Agent Client Protocol.
//!
//! Standard input and output belong to the protocol; whatever is said to people
//! goes to standard error. The crate speaks JSON-RPC and hands over requests;
//! what they come to is decided by one [`host::Host`], and each session is a task
//! of its own with a run that lives on. All runs share the gates in front of
//! providers and one cap on how many units run.

mod asking;
mod host;
mod listing;
mod live;
mod offer;
mod opening;
mod past;
mod prompt;
mod session;
mod shown;
mod updates;
mod wire;

use std::sync::Arc;

use agent_client_protocol::v1::schema::{ClientNotification, ClientRequest, SessionId};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{self as acp, Agent, Channel, Client, Error};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::args::RunFlags;
use super::exit::{Exit, Refusal};
use super::{print, resume, signals, telemetry};
use crate::config::Environment;
use crate::telemetry::Exporter;
use host::Host;
use updates::Updates;

/// Most requests that wait for the host. It waits for nothing itself, so this
/// many are a flood.
const HEARD_CAP: usize = 1_024;

/// What an editor says.
enum Heard {
    /// It wants an answer.
    Request(Box<(ClientRequest, Responder<Value>)>),
    /// It wants none.
    Notification(Box<ClientNotification>),
}

/// Serves an editor until it leaves.
pub(super) fn run(environment: &Environment, flags: RunFlags) -> Result<Exit, Refusal> {
    if resume::is_wanted(&flags) || flags.session_id.is_some() || flags.name.is_some() {
        return Err(Refusal::new(Exit::Usage, "an editor chooses its sessions itself")
            .hint("leave `--resume`, `--continue`, `--session-id` and `--name` out"));
    }
    // They are needed with the first session, and others may wait by then.
    flags.read_given();
    let runtime = print::runtime()?;
    let served = runtime.block_on(Box::pin(serve(environment.clone(), flags)));
    let exit = served.map(|(exit, exporter)| {
        runtime.block_on(telemetry::close(exporter.as_ref(), Some(exit)));
        exit
    });
    runtime.shutdown_timeout(print::SHUTDOWN_GRACE);
    exit
}

/// Returns how the process ends, and what sends spans away.
async fn serve(
    environment: Environment,
    flags: RunFlags,
) -> Result<(Exit, Option<Exporter>), Refusal> {
    let arriving = signals::listen()
        .map_err(|error| Refusal::new(Exit::Error, format!("cannot listen to signals: {error}")))?;
    let (ours, theirs) = Channel::duplex();
    let updates = Arc::new(Updates::new());
    let gone = CancellationToken::new();
    let pumping = tokio::spawn(wire::pump(ours, Arc::clone(&updates), gone.clone()));
    let (asking, heard) = mpsc::channel(HEARD_CAP);
    let noting = asking.clone();
    let connection = Agent
        .v1()
        .name("tine")
        .on_receive_request(
            async move |request: ClientRequest,
                        responder: Responder<Value>,
                        _: ConnectionTo<Client>| {
                pass_on(&asking, Heard::Request(Box::new((request, responder))))
            },
            acp::on_receive_request!(),
        )
        .on_receive_notification(
            async move |notification: ClientNotification, _: ConnectionTo<Client>| {
                pass_on(&noting, Heard::Notification(Box::new(notification)))
            },
            acp::on_receive_notification!(),
        )
        .connect_with(theirs, async move |editor: ConnectionTo<Client>| {
            let mut host = Host::new(environment, flags, editor.clone(), updates);
            let exit = host.go(heard, arriving, (&editor, &gone)).await;
            Ok((exit, host.exporter()))
        });
    let served = connection.await;
    // What was answered last is still on its way.
    let written = pumping.await;
    match (served, written) {
        (Ok(served), _) => Ok(served),
        (Err(error), _) => Err(Refusal::new(Exit::Error, error.to_string())),
    }
}

/// Hands something to the host. The crate reads nothing else meanwhile, so this
/// never waits.
fn pass_on(host: &mpsc::Sender<Heard>, heard: Heard) -> acp::Result<()> {
    let Err(mpsc::error::TrySendError::Full(heard) | mpsc::error::TrySendError::Closed(heard)) =
        host.try_send(heard)
    else {
        return Ok(());
    };
    match heard {
        Heard::Request(asked) => asked.1.respond_with_error(
            Error::internal_error().data("too many requests wait, or tine is about to end"),
        ),
        Heard::Notification(_) => {
            super::say(&"warning: the editor says too much; something is left out");
            Ok(())
        }
    }
}

/// Returns what an editor is told of a session that it has not opened, or has
/// left.
fn no_session(id: &SessionId) -> Error {
    let message = format!("session `{id}` is not open here; load it again");
    Error::new(acp::ErrorCode::RESOURCE_NOT_FOUND, message)
}

/// Returns what an editor is told of a refusal.
fn refused(refusal: &Refusal) -> Error {
    let code = match refusal.exit {
        Exit::Usage | Exit::BadInput => acp::ErrorCode::INVALID_PARAMS,
        Exit::Done
        | Exit::Error
        | Exit::Authentication
        | Exit::BadConfig
        | Exit::Limit
        | Exit::TryLater
        | Exit::Hangup
        | Exit::Interrupted
        | Exit::Terminated
        | Exit::OutputGone
        | Exit::Command(_) => acp::ErrorCode::INTERNAL_ERROR,
    };
    let message = match &refusal.hint {
        Some(hint) => format!("{}; {hint}", refusal.message),
        None => refusal.message.clone(),
    };
    Error::new(code, message)
}
