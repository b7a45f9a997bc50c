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

use super::person::{self, Said};
use super::{Effect, Granted, Registry, Tool, ToolContext, ToolError};
use crate::event::{NoticeLevel, OfferedTool};
use crate::line::Told;
use crate::mcp::form::{self, Asker};
use crate::mcp::{self, Elicited, NoAnswer, People, Server, Servers};
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
        let is_own = |name: &str| !name.starts_with(mcp::name::PREFIX);
        let told = servers.told(offered).into_iter();
        let served = told.filter_map(|tool| Served::new(tool, servers));
        let served = served.map(|tool| Arc::new(tool) as Arc<dyn Tool>);
        self.with(is_own, served, servers.other_names())
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
        call: &'a Granted,
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
            let people = Person { context, call, tool: &self.tool };
            let answer = kept.call((&self.tool.remote, arguments), &people, &context.cancel).await;
            let refusal = match &answer {
                Err(NoAnswer::NotStarted(why)) => Some(why.to_string()),
                Ok(_) | Err(_) => None,
            };
            for what in kept.take_warning().into_iter().chain(refusal) {
                let text = format!("the server `{}`: {what}", kept.name).into();
                context.line.tell(Told::Notice { level: NoticeLevel::Warning, text }).await;
            }
            match answer {
                Ok(result) => Ok(mcp::output(&result, context.takes_images)),
                Err(NoAnswer::Cancelled) => Err(ToolError::Cancelled { after: started.elapsed() }),
                Err(
                    why @ (NoAnswer::TooLong
                    | NoAnswer::Gone(_)
                    | NoAnswer::Refused(_)
                    | NoAnswer::NotStarted(_)),
                ) => Err(ToolError::tell(format!("The server `{server}` gave no result: {why}"))),
            }
        })
    }
}

/// Who is asked what a server wants to know while it is called.
struct Person<'a> {
    context: &'a ToolContext,
    call: &'a Granted,
    tool: &'a OfferedTool,
}

impl People for Person<'_> {
    fn ask<'a>(&'a self, message: &'a str, schema: &'a Value) -> BoxFuture<'a, Elicited> {
        Box::pin(async move {
            let OfferedTool { name, server, .. } = self.tool;
            let asker = Asker { call: &self.call.id, tool: name, server };
            let Some(form) = form::form(asker, message, schema) else {
                return Elicited::Declined;
            };
            let form = Arc::new(form);
            match person::ask(self.context, Arc::clone(&form)).await {
                Said::Answers(given) => match form::content(&form, schema, &given) {
                    Some(content) => Elicited::Given(content),
                    None => Elicited::Declined,
                },
                Said::Declined(_) => Elicited::Declined,
                Said::NobodyToAsk | Said::Cancelled => Elicited::Cancelled,
            }
        })
    }
}
