//! `[executor]` of a layer: where agents run is only the user's to say, since
//! whoever runs them reads all that they are told.

use std::num::{NonZeroU8, NonZeroUsize};
use std::time::Duration;

use super::{Layer, Layers, Setting};
use crate::config::executor::{ExecutorKind, Nats, NatsServer};
use crate::config::{CONCURRENT_CAP, Problem};
use crate::guard::Source;

/// The longest lease in seconds. Nobody notices sooner that a worker is gone.
const LONGEST_LEASE_S: u32 = 600;

impl Layers {
    /// Notes what is missing of a certificate.
    pub(super) fn complete_executor(&mut self) {
        let Nats { certificate, key, .. } = &self.config.executor.nats;
        let missing = match (certificate, key) {
            (Some(_), None) => "key",
            (None, Some(_)) => "certificate",
            (Some(_), Some(_)) | (None, None) => return,
        };
        let must = "a certificate of one's own has a key: set `certificate` and `key`, or neither";
        self.problems.push(Problem::Missing { key: format!("executor.nats.{missing}"), must });
    }
}

impl Layer<'_> {
    pub(super) fn executor(&mut self, setting: &Setting<'_>) {
        if self.origin.source() == Source::Project {
            self.bad(setting, "only your own configuration may set it".to_owned());
            return;
        }
        match setting.name() {
            "kind" => {
                let names = ExecutorKind::ALL.map(ExecutorKind::as_str);
                if let Some(kind) = self.one_of(setting, ExecutorKind::from_name, &names) {
                    self.layers.config.executor.kind = kind;
                }
            }
            "nats" => self.each(setting, Self::nats),
            _ => self.unknown(setting),
        }
    }

    fn nats(&mut self, setting: &Setting<'_>) {
        let set: fn(&mut Nats, Option<String>) = match setting.name() {
            "credentials" => |nats, file| nats.credentials = file,
            "ca" => |nats, file| nats.ca = file,
            "certificate" => |nats, file| nats.certificate = file,
            "key" => |nats, file| nats.key = file,
            "servers" => {
                if let Some(servers) = self.addresses(setting) {
                    self.layers.config.executor.nats.servers = servers;
                }
                return;
            }
            "prefix" => {
                if let Some(prefix) = self.prefix(setting) {
                    self.layers.config.executor.nats.prefix = prefix;
                }
                return;
            }
            "label" => {
                let label = self.prefix(setting);
                if label.as_deref() == Some(Nats::ANY) {
                    let must = "it must not be that: every worker takes agents that ask for none";
                    self.bad(setting, must.to_owned());
                } else if let Some(label) = label {
                    self.layers.config.executor.nats.label = Some(label);
                }
                return;
            }
            "lease_s" => {
                if let Some(seconds) = self.number(setting, 1, LONGEST_LEASE_S) {
                    self.layers.config.executor.nats.lease = Duration::from_secs(seconds.into());
                }
                return;
            }
            "replicas" => {
                let replicas = self.number(setting, 1, Nats::REPLICAS_CAP);
                if let Some(replicas) = replicas.and_then(|it| u8::try_from(it).ok()) {
                    self.layers.config.executor.nats.replicas = NonZeroU8::new(replicas);
                }
                return;
            }
            "max_concurrent" => {
                let most = u32::try_from(CONCURRENT_CAP).unwrap_or(u32::MAX);
                if let Some(most) = self.number(setting, 1, most) {
                    let most = usize::try_from(most).unwrap_or(usize::MAX);
                    self.layers.config.executor.nats.max_concurrent = NonZeroUsize::new(most);
                }
                return;
            }
            _ => {
                self.unknown(setting);
                return;
            }
        };
        if let Some(file) = self.file(setting) {
            set(&mut self.layers.config.executor.nats, Some(file));
        }
    }

    /// Addresses of servers. Which one is wrong is not said: it may hold a
    /// password.
    fn addresses(&mut self, setting: &Setting<'_>) -> Option<Vec<NatsServer>> {
        let texts = self.texts(setting)?;
        let servers: Option<Vec<_>> = texts.iter().map(|it| NatsServer::parse(it)).collect();
        let servers = servers.filter(|servers| !servers.is_empty());
        if servers.is_none() {
            self.bad(setting, format!("it must be one address or several; {}", NatsServer::RULE));
        }
        servers
    }

    fn prefix(&mut self, setting: &Setting<'_>) -> Option<String> {
        let prefix = self.text(setting)?;
        let is_prefix = Nats::is_prefix(&prefix);
        if !is_prefix {
            let cap = Nats::PREFIX_CAP;
            let must = format!("it must be of letters, digits, `-` and `_`, and at most {cap}");
            self.bad(setting, must);
        }
        is_prefix.then_some(prefix)
    }

    /// A file that means the same wherever we are started.
    fn file(&mut self, setting: &Setting<'_>) -> Option<String> {
        let file = self.text(setting)?;
        let is_whole = file.starts_with('/') || file.starts_with("~/");
        if !is_whole {
            self.bad(setting, "it must begin with `/` or `~/`".to_owned());
        }
        is_whole.then_some(file)
    }
}
