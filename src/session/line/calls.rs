//! The bodies of calls: that they began, ended, or were refused.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Text;
use super::body::{named, text};
use super::images::ImageBody;
use crate::event::{
    Access, Backend, Confinement, EventKind, Insistence, NetworkAccess, SandboxHead,
};
use crate::message::{CallId, Output};

#[derive(Serialize, Deserialize)]
pub(super) struct ToolStarted<'a> {
    call: Text<'a>,
    tool: Text<'a>,
    subject: Text<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    confinement: Option<ConfinementBody<'a>>,
}

impl<'a> ToolStarted<'a> {
    pub(super) fn of(
        call: &'a CallId,
        words: [&'a Arc<str>; 2],
        confinement: Option<Confinement>,
    ) -> Self {
        let [tool, subject] = words.map(text);
        let confinement = confinement.map(ConfinementBody::of);
        Self { call: text(&call.0), tool, subject, confinement }
    }

    pub(super) fn into_kind(self) -> Result<EventKind, String> {
        let confinement = self.confinement.map(ConfinementBody::into_confinement);
        Ok(EventKind::ToolStarted {
            call: CallId(self.call.into()),
            tool: self.tool.into(),
            subject: self.subject.into(),
            confinement: confinement.transpose()?,
        })
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct ToolFinished<'a> {
    call: Text<'a>,
    tool: Text<'a>,
    text: Text<'a>,
    is_error: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    images: Vec<ImageBody<'a>>,
    took_ms: u64,
}

impl<'a> ToolFinished<'a> {
    pub(super) fn of(
        call: &'a CallId,
        tool: &'a Arc<str>,
        output: &'a Output,
        took_ms: u64,
    ) -> Self {
        Self {
            call: text(&call.0),
            tool: text(tool),
            text: (&*output.text).into(),
            is_error: output.is_error,
            images: output.images.iter().map(ImageBody::of).collect(),
            took_ms,
        }
    }

    pub(super) fn into_kind(self) -> Result<EventKind, String> {
        let images = self.images.into_iter().map(ImageBody::into_image);
        let output = Output {
            text: self.text.into_owned(),
            is_error: self.is_error,
            images: images.collect::<Result<_, _>>()?,
        };
        Ok(EventKind::ToolFinished {
            call: CallId(self.call.into()),
            tool: self.tool.into(),
            output: Arc::new(output),
            took_ms: self.took_ms,
        })
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Denied<'a> {
    call: Text<'a>,
    tool: Text<'a>,
    arguments: Text<'a>,
    reason: Text<'a>,
}

impl<'a> Denied<'a> {
    pub(super) fn of(call: &'a CallId, words: [&'a Arc<str>; 3]) -> Self {
        let [tool, arguments, reason] = words.map(text);
        Self { call: text(&call.0), tool, arguments, reason }
    }

    pub(super) fn into_kind(self) -> EventKind {
        EventKind::Denied {
            call: CallId(self.call.into()),
            tool: self.tool.into(),
            arguments: self.arguments.into(),
            reason: self.reason.into(),
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct SandboxBody<'a> {
    mode: Text<'a>,
    #[serde(flatten)]
    network: NetworkBody<'a>,
    installed: Text<'a>,
}

impl SandboxBody<'_> {
    pub(super) fn of(head: SandboxHead) -> Self {
        let SandboxHead { mode, network, installed } = head;
        let network = NetworkBody::of(network);
        Self { mode: mode.as_str().into(), network, installed: installed.as_str().into() }
    }

    pub(super) fn into_head(self) -> Result<SandboxHead, String> {
        Ok(SandboxHead {
            mode: named(&Insistence::ALL, Insistence::as_str, &self.mode)?,
            network: self.network.into_access()?,
            installed: named(&Backend::ALL, Backend::as_str, &self.installed)?,
        })
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct ConfinementBody<'a> {
    backend: Text<'a>,
    access: Text<'a>,
    #[serde(flatten)]
    network: NetworkBody<'a>,
}

impl ConfinementBody<'_> {
    pub(super) fn of(confinement: Confinement) -> Self {
        let Confinement { backend, access, network } = confinement;
        Self {
            backend: backend.as_str().into(),
            access: access.as_str().into(),
            network: NetworkBody::of(network),
        }
    }

    pub(super) fn into_confinement(self) -> Result<Confinement, String> {
        Ok(Confinement {
            backend: named(&Backend::ALL, Backend::as_str, &self.backend)?,
            access: named(&Access::ALL, Access::as_str, &self.access)?,
            network: self.network.into_access()?,
        })
    }
}

/// Network access of the command. Older logs have only the first field.
#[derive(Serialize, Deserialize)]
struct NetworkBody<'a> {
    network: bool,
    /// Left out if the first field says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    network_access: Option<Text<'a>>,
}

impl NetworkBody<'_> {
    fn of(access: NetworkAccess) -> Self {
        let network_access = match access {
            NetworkAccess::None | NetworkAccess::Shared => None,
            NetworkAccess::Hosts | NetworkAccess::Public => Some(access.as_str().into()),
        };
        Self { network: access.allows_unlisted_hosts(), network_access }
    }

    fn into_access(self) -> Result<NetworkAccess, String> {
        match self.network_access {
            Some(name) => named(&NetworkAccess::ALL, NetworkAccess::as_str, &name),
            None if self.network => Ok(NetworkAccess::Shared),
            None => Ok(NetworkAccess::None),
        }
    }
}
