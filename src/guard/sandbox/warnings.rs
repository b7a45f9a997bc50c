//! Warnings before commands run, each once in a session.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Insistence, Sandbox};
use crate::event::{Access, Backend};

/// The warnings that were given.
#[derive(Debug, Default)]
pub(super) struct WarningsGiven {
    /// That commands run without a sandbox.
    absence: AtomicBool,
    /// That commands reach no hosts.
    lack_of_hosts: AtomicBool,
}

impl Sandbox {
    /// Returns a warning if a command with this access is not confined as the user configured it:
    /// there is no sandbox, or the command reaches no hosts.
    ///
    /// `None` if it is, and after the first warning of a kind.
    #[must_use]
    pub fn warning(&self, access: Access) -> Option<String> {
        self.absence(access).or_else(|| self.lack_of_hosts(access))
    }

    fn absence(&self, access: Access) -> Option<String> {
        let is_wanted = match (self.settings.insistence, access) {
            (Insistence::Off | Insistence::Required, _) | (Insistence::Best, Access::Off) => false,
            (Insistence::Best, Access::ReadOnly | Access::WorkspaceWrite) => true,
        };
        if !is_wanted || self.backend() != Backend::None {
            return None;
        }
        let (Err(bwrap), Err(landlock)) = (self.bwrap(), self.landlock()) else { return None };
        is_first(&self.told.absence).then(|| {
            format!(
                "no sandbox confines commands that rules allow: {bwrap}; {landlock}. They run \
                 with all your rights. Install `bubblewrap`, or refuse them with `--sandbox`; \
                 `tine doctor` says more"
            )
        })
    }

    fn lack_of_hosts(&self, access: Access) -> Option<String> {
        let is_wanted = access == Access::WorkspaceWrite && self.settings.network.is_proxied();
        if !is_wanted || self.backend() == Backend::None {
            return None;
        }
        let Err(why) = self.own_network() else { return None };
        is_first(&self.told.lack_of_hosts).then(|| {
            format!(
                "commands reach no hosts, although `sandbox.hosts` or `sandbox.network` allows \
                 some: they cannot have a network namespace of their own ({why})"
            )
        })
    }
}

fn is_first(told: &AtomicBool) -> bool {
    !told.swap(true, Ordering::Relaxed)
}
