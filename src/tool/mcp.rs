//! The tools of servers, as any other tool.
//!
//! A tool is what the log says was offered: its name and schema stay the same
//! for as long as a conversation holds them, whatever becomes of the server. A
//! call goes to the server as it is now; what it claims of itself (that it only
//! reads, say) decides nothing.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::{Effect, Granted, Registry, Tool, ToolContext, ToolError};
use crate::event::OfferedTool;
use crate::mcp::{self, NoAnswer, Server, Servers};
use crate::message::{Output, ToolSchema};

/// Most characters of what a call is about.
const SUBJECT_CAP: usize = 200;

/// A tool of a server.
pub struct Served {
    tool: OfferedTool,
    parameters: Box<RawValue>,
    /// `None` if it is configured no more.
    server: Option<Arc<Server>>,
}

impl Served {
    /// `None` if its schema cannot be read, which is so in a damaged log only.
    fn new(tool: &OfferedTool, servers: &Servers) -> Option<Self> {
        let parameters = RawValue::from_string(tool.parameters.to_string()).ok()?;
        let server = servers.find(&tool.server).cloned();
        Some(Self { tool: tool.clone(), parameters, server })
    }
}

impl Registry {
    /// Returns the tools without those of servers, and behind them what servers
    /// offer, in that order.
    #[must_use]
    pub fn with_served(&self, offered: &[OfferedTool], servers: &Servers) -> Self {
        let own = self.filtered(|name| !name.starts_with(mcp::name::PREFIX));
        let own = own.answering(self.answer());
        let served = offered.iter().filter_map(|tool| Served::new(tool, servers));
        own.and(served.map(|tool| Arc::new(tool) as Arc<dyn Tool>))
    }
}

impl Tool for Served {
    fn schema(&self) -> ToolSchema {
        ToolSchema {
            name: self.tool.name.to_string(),
            description: self.tool.description.to_string(),
            parameters: self.parameters.clone(),
        }
    }

    fn effect(&self) -> Effect {
        Effect::Executes
    }

    fn subject(&self, arguments: &Value) -> String {
        match arguments.as_object() {
            Some(fields) if fields.is_empty() => String::new(),
            _ => arguments.to_string().chars().take(SUBJECT_CAP).collect(),
        }
    }

    fn run<'a>(
        &'a self,
        context: &'a ToolContext,
        _: &'a Granted,
        arguments: Value,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let server = &self.tool.server;
            let Some(kept) = &self.server else {
                let message = format!("The server `{server}` is not configured any more.");
                return Err(ToolError::tell(message));
            };
            let Value::Object(arguments) = arguments else {
                return Err(ToolError::tell("The arguments must be a JSON object."));
            };
            let started = Instant::now();
            match kept.call(&self.tool.remote, arguments, &context.cancel).await {
                Ok(result) => Ok(mcp::output(&result, context.takes_images)),
                Err(NoAnswer::Cancelled) => Err(ToolError::Cancelled { after: started.elapsed() }),
                Err(why @ (NoAnswer::TooLong | NoAnswer::Gone(_) | NoAnswer::Refused(_))) => {
                    Err(ToolError::tell(format!("The server `{server}` gave no result: {why}")))
                }
            }
        })
    }
}
