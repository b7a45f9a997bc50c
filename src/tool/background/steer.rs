//! Stopping background units, and sending them messages.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::{MESSAGE_CAP, not_yours, unit};
use crate::line::{Sent, Tend};
use crate::message::{Output, ToolSchema};
use crate::prompt::cut;
use crate::tool::{Effect, Granted, Tool, ToolContext, ToolError, arguments};

/// Stops a background unit.
#[derive(Debug, Clone, Copy)]
pub struct TaskStop;

const STOP_PARAMETERS: &str = r#"{"type":"object","properties":{
    "task_id":{"type":"string","description":"The agent's id, such as agent-3"}
    },"required":["task_id"]}"#;

impl Tool for TaskStop {
    fn schema(&self) -> ToolSchema {
        let description = include_str!("../../../prompts/tools/task_stop.md");
        arguments::schema("TaskStop", description, STOP_PARAMETERS)
    }

    fn effect(&self) -> Effect {
        Effect::Delegates
    }

    fn subject(&self, arguments: &Value) -> String {
        arguments::subject(arguments, "task_id")
    }

    fn run<'a>(
        &'a self,
        context: &'a ToolContext,
        _call: &'a Granted,
        arguments: Value,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let of = unit("task_id", &arguments["task_id"])?;
            let state = context.line.ask(|reply| Tend::Stop { unit: of, reply }).await.flatten();
            match state {
                None => Err(not_yours(context, &of.to_string()).await),
                Some(state) if state.has_ended() => {
                    Ok(Output::ok(format!("{of} had ended already: {}.", state.as_str())))
                }
                Some(_) => Ok(Output::ok(format!(
                    "{of} is being stopped; you will be told what it had done by then."
                ))),
            }
        })
    }
}

/// Sends a message to a background unit.
#[derive(Debug, Clone, Copy)]
pub struct SendMessage;

const SEND_PARAMETERS: &str = r#"{"type":"object","properties":{
    "to":{"type":"string","description":"The agent's id, such as agent-3"},
    "message":{"type":"string","description":"What it shall know or do"}
    },"required":["to","message"]}"#;

impl Tool for SendMessage {
    fn schema(&self) -> ToolSchema {
        let description = include_str!("../../../prompts/tools/send_message.md");
        arguments::schema("SendMessage", description, SEND_PARAMETERS)
    }

    fn effect(&self) -> Effect {
        Effect::Delegates
    }

    fn subject(&self, arguments: &Value) -> String {
        arguments::subject(arguments, "to")
    }

    fn run<'a>(
        &'a self,
        context: &'a ToolContext,
        call: &'a Granted,
        mut arguments: Value,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let to = unit("to", &arguments["to"])?;
            let text = arguments::text("message", arguments["message"].take())?;
            if text.trim().is_empty() {
                return Err(arguments::wrong("message", "a non-empty string"));
            }
            let text: Arc<str> = cut(&text, MESSAGE_CAP, None).into();
            let message = Arc::clone(&text);
            match context.line.ask(|reply| Tend::Send { to, text, reply }).await {
                None | Some(Sent::Unknown) => Err(not_yours(context, &to.to_string()).await),
                Some(Sent::Queued) => {
                    Ok(Output::ok(format!("{to} gets the message at its next turn.")))
                }
                Some(Sent::Full) => Err(ToolError::tell(format!(
                    "{to} has not read your earlier messages yet. Wait for it, or stop it."
                ))),
                Some(Sent::Ended(state)) => {
                    let unit = context.delegate.continue_unit(&call.id, to, message).await?;
                    Ok(Output::ok(format!(
                        "{to} had ended ({}); {unit} continues its conversation in the \
                         background. You will be told when it ends.",
                        state.as_str()
                    )))
                }
            }
        })
    }
}
