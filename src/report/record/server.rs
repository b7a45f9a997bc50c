//! A server of tools, as records name it.

use serde::Serialize;

use crate::event::ServerGlance;

/// A server of tools, and how it stands.
#[derive(Serialize, Clone)]
pub(in crate::report) struct ServerRecord<'a> {
    pub(in crate::report) name: &'a str,
    pub(in crate::report) status: &'static str,
}

impl<'a> From<&'a ServerGlance> for ServerRecord<'a> {
    fn from(server: &'a ServerGlance) -> Self {
        Self { name: &server.name, status: server.status.as_str() }
    }
}
