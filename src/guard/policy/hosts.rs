//! Decisions about hosts that a sandboxed command connects to.

use serde_json::json;

use super::Policy;
use crate::event::NetworkAccess;
use crate::guard::{Ask, Decision, Effect};
use crate::tool_name::SANDBOX_NETWORK;

/// A decision about a host.
#[derive(Debug, Clone)]
pub enum HostDecision {
    /// The command may connect to it.
    Allow,
    /// The user is asked.
    Ask(Box<Ask>),
    /// The command may not, for this reason.
    Deny(String),
}

impl Policy {
    /// Decides about a host, which is written as URLs have it.
    #[must_use]
    pub fn decide_host(&self, host: &str, network: NetworkAccess) -> HostDecision {
        let arguments = json!({ "host": host });
        let explained = self.explain(SANDBOX_NETWORK, Effect::Fetches, &arguments);
        match explained.decision {
            Decision::Allow(_) => HostDecision::Allow,
            // No rule is about it.
            Decision::Ask(_) | Decision::Deny { .. }
                if network.allows_unlisted_hosts() && explained.rule.is_none() =>
            {
                HostDecision::Allow
            }
            Decision::Ask(ask) => HostDecision::Ask(Box::new(ask)),
            Decision::Deny { reason } => HostDecision::Deny(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::{Mode, Rules, Source, Sourced};

    fn rules(texts: &[&str]) -> Vec<Sourced> {
        let rule = |text: &&str| Sourced { rule: text.parse().unwrap(), source: Source::Flag };
        texts.iter().map(rule).collect()
    }

    fn decision(policy: &Policy, host: &str, network: NetworkAccess) -> &'static str {
        match policy.decide_host(host, network) {
            HostDecision::Allow => "allow",
            HostDecision::Ask(_) => "ask",
            HostDecision::Deny(_) => "deny",
        }
    }

    #[test]
    fn rules_decide_and_an_open_network_lifts_only_what_no_rule_is_about() {
        let allow =
            rules(&["SandboxNetworkAccess(crates.io)", "SandboxNetworkAccess(*.npmjs.org)"]);
        let ask = rules(&["SandboxNetworkAccess(ask.example)"]);
        let deny = rules(&["SandboxNetworkAccess(evil.example)", "SandboxNetworkAccess([::1])"]);
        let rules = Rules { allow, ask, deny };
        let (hosts, public) = (NetworkAccess::Hosts, NetworkAccess::Public);
        for (host, [by_hosts, by_public, without_questions, public_without]) in [
            ("crates.io", ["allow"; 4]),
            ("static.crates.io", ["ask", "allow", "deny", "allow"]),
            ("registry.npmjs.org", ["allow"; 4]),
            ("npmjs.org", ["ask", "allow", "deny", "allow"]),
            ("other.example", ["ask", "allow", "deny", "allow"]),
            ("ask.example", ["ask", "ask", "deny", "deny"]),
            ("evil.example", ["deny"; 4]),
            ("www.evil.example", ["deny"; 4]),
            ("::1", ["deny"; 4]),
        ] {
            let policy = |mode| Policy::new(mode, ["/w".into()]).with_rules(rules.clone());
            let asking = policy(Mode::Default);
            assert_eq!(decision(&asking, host, hosts), by_hosts, "{host}");
            assert_eq!(decision(&asking, host, public), by_public, "{host}");
            let silent = policy(Mode::DontAsk);
            assert_eq!(decision(&silent, host, hosts), without_questions, "{host}");
            assert_eq!(decision(&silent, host, public), public_without, "{host}");
        }
    }

    #[test]
    fn a_rule_means_the_host_in_every_spelling() {
        for rule in ["[::1]", "::1", "0:0:0:0:0:0:0:1", "[0::1]"] {
            let rule = format!("SandboxNetworkAccess({rule})");
            let rules = Rules { deny: rules(&[&rule]), ..Rules::default() };
            let policy = Policy::new(Mode::Default, ["/w".into()]).with_rules(rules);
            assert_eq!(decision(&policy, "::1", NetworkAccess::Public), "deny", "{rule}");
        }
        for wrong in [".localhost", "[::1]:80", "a:1", "a*b", "*.*", "http://a", "*.", "a b"] {
            let rule = format!("SandboxNetworkAccess({wrong})").parse::<crate::guard::Rule>();
            assert!(rule.is_err(), "{wrong}");
        }
    }
}
