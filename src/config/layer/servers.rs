//! `[mcp]` of a layer, and the servers in it.
//!
//! Here a server is only read: whether it can be reached as it is written is
//! that server's own affair, and found out when it is wanted.

use std::time::Duration;

use super::{Layer, Origin, Setting};
use crate::guard::Source;
use crate::mcp::Entry;

impl Layer<'_> {
    pub(super) fn mcp(&mut self, setting: &Setting<'_>) {
        match setting.name() {
            "startup_ms" => {
                if let Some(most) = self.number(setting, 0, u32::MAX) {
                    self.layers.config.mcp.startup = Duration::from_millis(most.into());
                }
            }
            "call_ms" => {
                if let Some(most) = self.number(setting, 1, u32::MAX) {
                    self.layers.config.mcp.call = Duration::from_millis(most.into());
                }
            }
            "servers" => self.each(setting, |layer, server| {
                let mcp = &mut layer.layers.config.mcp;
                let name = server.name().to_owned();
                let entry = mcp.servers.entry(name.clone()).or_default();
                // A file's server takes the place of an earlier one; a flag sets
                // one key of it, and it stays whose it is.
                if let Origin::File { source, .. } = layer.origin {
                    *entry = Entry::default();
                    match source == Source::Project {
                        true => mcp.of_project.insert(name),
                        false => mcp.of_project.remove(&name),
                    };
                }
                layer.each(server, Self::server_key);
            }),
            _ => self.unknown(setting),
        }
    }

    fn server_key(&mut self, setting: &Setting<'_>) {
        let set: fn(&mut Entry, String) = match setting.name() {
            "type" => |entry, kind| entry.kind = Some(kind),
            "command" => |entry, command| entry.command = Some(command),
            "cwd" => |entry, directory| entry.directory = Some(directory),
            "url" => |entry, url| entry.url = Some(url),
            "args" => {
                let arguments = self.texts(setting);
                self.set_server(setting, arguments, |entry, all| entry.arguments = all);
                return;
            }
            "enabled" => {
                let enabled = self.truth(setting);
                self.set_server(setting, enabled, |entry, enabled| entry.is_disabled = !enabled);
                return;
            }
            "env" => {
                self.each(setting, |layer, variable| {
                    // An empty value is one, too.
                    let value = variable.value.as_str().map(str::to_owned);
                    let value = value.or_else(|| layer.text(variable));
                    let name = variable.name().to_owned();
                    layer.set_server(variable, value, |entry, value| {
                        entry.variables.insert(name, value);
                    });
                });
                return;
            }
            "headers" => {
                self.each(setting, |layer, header| {
                    let value = layer.header(header);
                    let name = header.name().to_owned();
                    layer.set_server(header, value, |entry, value| {
                        entry.headers.insert(name, value);
                    });
                });
                return;
            }
            _ => {
                self.unknown(setting);
                return;
            }
        };
        let text = self.text(setting);
        self.set_server(setting, text, set);
    }

    /// Sets something of the server that `setting` is a part of, if there is a
    /// value.
    fn set_server<T>(
        &mut self,
        setting: &Setting<'_>,
        value: Option<T>,
        set: impl FnOnce(&mut Entry, T),
    ) {
        if let (Some(value), Some(&name)) = (value, setting.key.get(2)) {
            set(self.layers.config.mcp.servers.entry(name.to_owned()).or_default(), value);
        }
    }
}
