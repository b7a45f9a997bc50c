//! Stopping background units, and sending them messages.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::{MESSAGE_CAP, glance, not_yours, unit};
use crate::event::UnitId;
use crate::line::Tend;
use crate::message::{Output, ToolSchema};
use crate::prompt::cut;
use crate::tool::{Effect, Granted, MessageDelivery, Tool, ToolContext, ToolError, arguments};

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
                    let next = glance(context, of).await?.continued_by;
                    let next = next.map(|next| format!(" {next} continues its conversation."));
                    let next = next.unwrap_or_default();
                    Ok(Output::ok(format!("{of} had ended already: {}.{next}", state.as_str())))
                }
                Some(_) => Ok(Output::ok(format!(
                    "{of} is being stopped; you will be told what it had done by then."
                ))),
            }
        })
    }
}

/// Says that a message goes to another unit than the one it was sent to.
fn describe_detour(sent_to: UnitId, unit: UnitId) -> String {
    match sent_to == unit {
        true => String::new(),
        false => format!("{unit} continues the conversation of {sent_to}. "),
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
            let message: Arc<str> = cut(&text, MESSAGE_CAP, None).into();
            match context.delegate.send(context, &call.id, to, message).await? {
                MessageDelivery::Unknown => Err(not_yours(context, &to.to_string()).await),
                MessageDelivery::Queued(unit) => {
                    let why = describe_detour(to, unit);
                    Ok(Output::ok(format!("{why}{unit} gets the message at its next turn.")))
                }
                MessageDelivery::Full(unit) => Err(ToolError::tell(format!(
                    "{}{unit} has not read your earlier messages yet. Wait for it, or stop it.",
                    describe_detour(to, unit)
                ))),
                MessageDelivery::Continued { ended, state, by } => Ok(Output::ok(format!(
                    "{}{ended} had ended ({}); {by} continues its conversation in the \
                     background. You will be told when it ends.",
                    describe_detour(to, ended),
                    state.as_str()
                ))),
            }
        })
    }
}
