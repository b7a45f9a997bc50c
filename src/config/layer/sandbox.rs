//! `[sandbox]`.

use super::{Layer, Setting};
use crate::config::WrittenRule;
use crate::event::NetworkAccess;
use crate::guard::Rule;
use crate::guard::sandbox::Insistence;
use crate::tool_name::SANDBOX_NETWORK;

impl Layer<'_> {
    pub(super) fn sandbox(&mut self, setting: &Setting<'_>) {
        match setting.name() {
            "mode" => {
                let names = Insistence::ALL.map(Insistence::as_str);
                if let Some(mode) = self.one_of(setting, Insistence::from_name, &names) {
                    self.layers.config.sandbox.mode = mode;
                }
            }
            "network" => {
                if let Some(network) = self.network(setting) {
                    self.layers.config.sandbox.network = network;
                }
            }
            "hosts" => self.hosts(setting),
            "write" => {
                if let Some(directories) = self.directories(setting) {
                    self.layers.config.sandbox.write = directories;
                }
            }
            _ => self.unknown(setting),
        }
    }

    /// The inner `None` is `false`, which leaves listed hosts as they are.
    fn network(&mut self, setting: &Setting<'_>) -> Option<Option<NetworkAccess>> {
        match setting.value.as_bool() {
            Some(true) => Some(Some(NetworkAccess::Public)),
            Some(false) => Some(None),
            None => {
                let names = NetworkAccess::ALL.map(NetworkAccess::as_str);
                self.one_of(setting, NetworkAccess::from_name, &names).map(Some)
            }
        }
    }

    /// Hosts that commands reach without a question. Each becomes an allow rule, and so does not
    /// replace those of earlier layers.
    fn hosts(&mut self, setting: &Setting<'_>) {
        let hosts = self.texts(setting).unwrap_or_default();
        let rule = |host: &String| format!("{SANDBOX_NETWORK}({host})");
        let mut texts = Vec::new();
        for host in &hosts {
            match Rule::parse(&rule(host), None) {
                Ok(_) => texts.push(rule(host)),
                Err(_) => {
                    let wanted = "is not a host such as `crates.io` or `*.npmjs.org`";
                    self.bad(setting, format!("`{host}` {wanted}"));
                }
            }
        }
        let source = self.origin.source();
        let rules = texts.into_iter().map(|text| WrittenRule { text, source });
        self.layers.config.permissions.allow.extend(rules);
        self.layers.config.sandbox.lists_hosts |= !hosts.is_empty();
    }
}
