//! The body of what servers of tools offer.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Text;
use super::body::{named, text};
use crate::event::{EventKind, Offered, OfferedTool, ServerGlance, ServerStatus};

#[derive(Serialize, Deserialize)]
pub(super) struct OfferedBody<'a> {
    servers: Vec<ServerBody<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<ToolBody<'a>>>,
}

#[derive(Serialize, Deserialize)]
struct ServerBody<'a> {
    name: Text<'a>,
    status: Text<'a>,
}

#[derive(Serialize, Deserialize)]
struct ToolBody<'a> {
    name: Text<'a>,
    server: Text<'a>,
    remote: Text<'a>,
    description: Text<'a>,
    parameters: Text<'a>,
}

impl<'a> OfferedBody<'a> {
    pub(super) fn of(offered: &'a Offered) -> Self {
        let server = |server: &'a ServerGlance| ServerBody {
            name: text(&server.name),
            status: server.status.as_str().into(),
        };
        let tool = |tool: &'a OfferedTool| ToolBody {
            name: text(&tool.name),
            server: text(&tool.server),
            remote: text(&tool.remote),
            description: text(&tool.description),
            parameters: text(&tool.parameters),
        };
        Self {
            servers: offered.servers.iter().map(server).collect(),
            tools: offered.tools.as_ref().map(|tools| tools.iter().map(tool).collect()),
        }
    }

    pub(super) fn into_kind(self) -> Result<EventKind, String> {
        let server = |server: ServerBody<'_>| {
            let status = named(&ServerStatus::ALL, ServerStatus::as_str, &server.status)?;
            Ok::<_, String>(ServerGlance { name: server.name.into(), status })
        };
        let tool = |tool: ToolBody<'_>| OfferedTool {
            name: tool.name.into(),
            server: tool.server.into(),
            remote: tool.remote.into(),
            description: tool.description.into(),
            parameters: tool.parameters.into(),
        };
        Ok(EventKind::Offered(Arc::new(Offered {
            servers: self.servers.into_iter().map(server).collect::<Result<_, _>>()?,
            tools: self.tools.map(|tools| tools.into_iter().map(tool).collect()),
        })))
    }
}
