//! What commands and fetches may reach, as the run's configuration has it.

use serde::{Deserialize, Serialize};

use super::NoPacket;
use crate::config::{Config, Sandbox, Web};
use crate::event::NetworkAccess;
use crate::guard::sandbox::Insistence;
use crate::web::Host;

/// What the commands and fetches of a run's units may reach at most.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bounds {
    /// What commands are kept in.
    pub sandbox: Sandbox,
    /// What of the web is fetched.
    pub web: Web,
}

impl Bounds {
    /// Returns what this configuration sets.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        Self { sandbox: config.sandbox.clone(), web: config.web.clone() }
    }

    /// Narrows a worker's own configuration to what it and the run both allow.
    ///
    /// Directories and hosts of only one of them are left out: what is called so on
    /// the other machine is something else.
    pub fn narrow(&self, own: &mut Config) {
        let Self { sandbox: theirs, web } = self;
        let sandbox = &mut own.sandbox;
        sandbox.mode = sandbox.mode.min(theirs.mode);
        let network = match sandbox.network_access() {
            // Its hosts are rules of the worker, and those of the run hold here.
            NetworkAccess::Hosts => NetworkAccess::None,
            own @ (NetworkAccess::None | NetworkAccess::Public | NetworkAccess::Shared) => {
                own.min(theirs.network_access())
            }
        };
        (sandbox.network, sandbox.lists_hosts) = (Some(network), false);
        sandbox.write.retain(|directory| theirs.write.contains(directory));
        own.web.allow_hosts = both(&own.web.allow_hosts, &web.allow_hosts);
    }
}

/// Returns the hosts that are among these and among those; one that is named with a
/// port is among those that are named without.
fn both(these: &[Host], those: &[Host]) -> Vec<Host> {
    let within = |host: &&Host, others: &[Host]| others.iter().any(|other| other.covers(host));
    let of_these = these.iter().filter(|host| within(host, those));
    let of_those = those.iter().filter(|host| within(host, these) && !these.contains(host));
    of_these.chain(of_those).cloned().collect()
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenBounds {
    sandbox: String,
    network: String,
    write: Vec<String>,
    hosts: Vec<String>,
}

impl WrittenBounds {
    pub(super) fn of(bounds: &Bounds) -> Self {
        let Bounds { sandbox, web: Web { allow_hosts } } = bounds;
        let network = sandbox.network_access();
        let Sandbox { mode, network: _, lists_hosts: _, write } = sandbox;
        Self {
            sandbox: mode.as_str().to_owned(),
            network: network.as_str().to_owned(),
            write: write.clone(),
            hosts: allow_hosts.iter().map(Host::to_string).collect(),
        }
    }

    pub(super) fn read(self) -> Result<Bounds, NoPacket> {
        let Self { sandbox, network, write, hosts } = self;
        let mode = Insistence::from_name(&sandbox);
        let mode =
            mode.ok_or_else(|| NoPacket::because(format!("`{sandbox}` insists on no sandbox")))?;
        let network = NetworkAccess::from_name(&network)
            .ok_or_else(|| NoPacket::because(format!("`{network}` is not a network access")))?;
        let host = |text: &String| {
            Host::parse(text).ok_or_else(|| NoPacket::because(format!("`{text}` is no host")))
        };
        let allow_hosts = hosts.iter().map(host).collect::<Result<_, _>>()?;
        let sandbox = Sandbox { mode, network: Some(network), lists_hosts: false, write };
        Ok(Bounds { sandbox, web: Web { allow_hosts } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(mode: Insistence, network: NetworkAccess, write: &[&str], hosts: &[&str]) -> Bounds {
        let write = write.iter().map(|&it| it.to_owned()).collect();
        let allow_hosts = hosts.iter().filter_map(|it| Host::parse(it)).collect();
        let sandbox = Sandbox { mode, network: Some(network), lists_hosts: false, write };
        Bounds { sandbox, web: Web { allow_hosts } }
    }

    /// What a worker that allows one of them is left with by a run that allows the
    /// other; it is the same the other way round.
    #[track_caller]
    fn check(one: &Bounds, other: &Bounds, left: &Bounds) {
        for (own, run) in [(one, other), (other, one)] {
            let Bounds { sandbox, web } = own.clone();
            let mut config = Config { sandbox, web, ..Config::default() };
            run.narrow(&mut config);
            config.web.allow_hosts.sort_by_key(Host::to_string);
            assert_eq!(Bounds::of(&config), *left);
        }
    }

    #[test]
    fn what_is_left_is_what_both_allow() {
        use Insistence::{Best, Off, Required};
        use NetworkAccess::{None, Public};
        let free = bounds(Off, Public, &["~/a", "/b"], &["box", "pc:81", "x:1"]);
        check(&free, &free, &free);
        let kept = bounds(Required, None, &["/b", "/c"], &["box:80", "pc", "y:1"]);
        check(&free, &kept, &bounds(Required, None, &["/b"], &["box:80", "pc:81"]));
        let best = bounds(Best, Public, &[], &[]);
        check(&free, &best, &best);
        check(&kept, &best, &bounds(Required, None, &[], &[]));
    }

    #[test]
    fn they_are_the_same_behind_the_wire() {
        let all = bounds(
            Insistence::Required,
            NetworkAccess::Public,
            &["~/a"],
            &["box", "[::1]:81", "10.0.0.1"],
        );
        for bounds in [bounds(Insistence::Best, NetworkAccess::None, &[], &[]), all] {
            assert_eq!(WrittenBounds::of(&bounds).read().unwrap(), bounds);
        }
    }
}
