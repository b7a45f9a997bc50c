//! What a run's first record says of the sandbox: what is wanted, and what
//! there is.

use serde::Serialize;

use crate::event::SandboxHead;

/// What is wanted of sandboxes, and what there is.
#[derive(Serialize)]
pub(in crate::report) struct SandboxRecord {
    mode: &'static str,
    /// `true` if hosts can be reached that no rule names.
    network: bool,
    network_access: &'static str,
    installed: &'static str,
}

impl From<SandboxHead> for SandboxRecord {
    fn from(head: SandboxHead) -> Self {
        let SandboxHead { mode, network, installed } = head;
        Self {
            mode: mode.as_str(),
            network: network.allows_unlisted_hosts(),
            network_access: network.as_str(),
            installed: installed.as_str(),
        }
    }
}
