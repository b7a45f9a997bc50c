//! Which addresses are on the public web, and which hosts a user has allowed
//! wherever they are.

use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;

/// Which way a request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// To a public address, encrypted.
    Public,
    /// To a host that the user has allowed, as it is written.
    Allowed,
}

/// A host that may be reached wherever it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// As URLs have it.
    name: String,
    /// `None` for every port.
    port: Option<u16>,
}

impl Host {
    /// Reads `HOST` or `HOST:PORT`; `None` if it is neither.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_plain = !text.is_empty() && !text.contains(['/', '@', '?', '#', '*', '\\', ' ']);
        // The URL's own reading, so that all spellings of an address are one.
        let url = Url::parse(&format!("x-http://{text}/")).ok().filter(|_| is_plain)?;
        let http = Url::parse(&format!("http://{text}/")).ok()?;
        Some(Self { name: name_of(&http)?, port: url.port() })
    }

    /// Tells whether whatever the other one names is of this one.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.name == other.name && self.port.is_none_or(|port| other.port == Some(port))
    }

    pub(super) fn is_at(&self, host: &str, port: u16) -> bool {
        self.name.trim_matches(['[', ']']) == host && self.port.is_none_or(|own| own == port)
    }

    pub(super) fn is_of(&self, url: &Url) -> bool {
        name_of(url).as_ref() == Some(&self.name)
            && self.port.is_none_or(|port| url.port_or_known_default() == Some(port))
    }
}

/// As [`Host::parse`] reads it.
impl Display for Host {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)?;
        self.port.map_or(Ok(()), |port| write!(formatter, ":{port}"))
    }
}

fn name_of(url: &Url) -> Option<String> {
    url.host_str().map(|host| host.trim_end_matches('.').to_owned())
}

/// Tells whether a URL's host may be on the public web, as far as its name says it.
/// Where a name leads is looked at when it is connected to.
pub(super) fn may_be_public(host: &str) -> bool {
    // A URL writes every spelling of an address in the one usual way.
    match host.trim_matches(['[', ']']).parse() {
        Ok(address) => is_public(address) && !is_in_own_network(address, &own_networks()),
        Err(_) => !is_local_name(host),
    }
}

/// Names that never lead to the public web. A proxy would look them up in its
/// own network.
fn is_local_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let is_below = |top: &str| name.strip_suffix(top).is_some_and(|rest| rest.ends_with('.'));
    !name.contains('.')
        || ["localhost", "local", "internal", "home.arpa", "intranet", "lan", "corp", "home"]
            .into_iter()
            .any(is_below)
}

/// Tells whether an address is one of the public web. What is not known to be
/// is none.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// The networks that this machine's interfaces are in, each as an address and a mask.
pub(super) fn own_networks() -> Vec<(IpAddr, IpAddr)> {
    let Ok(interfaces) = nix::ifaddrs::getifaddrs() else { return Vec::new() };
    let networks = interfaces.filter_map(|interface| {
        let address = ip_of(interface.address.as_ref()?)?;
        Some((address, ip_of(interface.netmask.as_ref()?)?))
    });
    networks.collect()
}

fn ip_of(address: &nix::sys::socket::SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|it| IpAddr::V4(it.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|it| IpAddr::V6(it.ip())))
}

/// Returns whether an address is one of this machine, or of its own networks: such an address may be
/// public as well.
pub(super) fn is_in_own_network(address: IpAddr, networks: &[(IpAddr, IpAddr)]) -> bool {
    networks.iter().any(|network| match (address, network) {
        (IpAddr::V4(address), (IpAddr::V4(own), IpAddr::V4(mask))) => {
            let (address, own, mask) = (address.to_bits(), own.to_bits(), mask.to_bits());
            // Without a mask the network would be the whole internet.
            address == own || mask != 0 && address & mask == own & mask
        }
        (IpAddr::V6(address), (IpAddr::V6(own), IpAddr::V6(mask))) => {
            let (address, own, mask) = (address.to_bits(), own.to_bits(), mask.to_bits());
            address == own || mask != 0 && address & mask == own & mask
        }
        (IpAddr::V4(_) | IpAddr::V6(_), _) => false,
    })
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !matches!(
        (a, b, c),
        // This network, private networks, carriers' own.
        (0 | 10 | 127, _, _) | (100, 64..=127, _) | (172, 16..=31, _) | (192, 168, _)
        // Of the link, where clouds keep their metadata.
        | (169, 254, _)
        // Protocols, documents, relays, benchmarks.
        | (192, 0, 0 | 2) | (192, 88, 99) | (198, 18..=19, _) | (198, 51, 100) | (203, 0, 113)
        // Many at once, and nobody yet.
        | (224..=255, _, _)
    )
}

/// Only what is handed out to the world: what maps, translates or tunnels IPv4
/// stands outside of that, or is named here.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    let is_global = first & 0xe000 == 0x2000;
    let is_special = match first {
        // Teredo and other protocols; documents.
        0x2001 => second < 0x0200 || second == 0x0db8,
        // 6to4 holds an IPv4 address.
        0x2002 => true,
        // Documents.
        0x3fff => second < 0x1000,
        _ => false,
    };
    is_global && !is_special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_near_if_an_interface_or_its_network_has_it() {
        let networks = [
            ("203.0.113.9", "255.255.255.0"),
            ("8.8.4.4", "255.255.255.255"),
            ("198.51.100.1", "0.0.0.0"),
            ("2a00:1450::5", "ffff:ffff:ffff:ffff::"),
        ];
        let networks =
            networks.map(|(address, mask)| (address.parse().unwrap(), mask.parse().unwrap()));
        for (address, expected) in [
            ("203.0.113.200", true),
            ("203.0.114.1", false),
            ("8.8.4.4", true),
            ("8.8.4.5", false),
            ("198.51.100.1", true),
            ("198.51.100.2", false),
            ("2a00:1450::77", true),
            ("2a00:1451::5", false),
        ] {
            assert_eq!(
                is_in_own_network(address.parse().unwrap(), &networks),
                expected,
                "{address}"
            );
        }
        let own = own_networks();
        assert!(is_in_own_network("127.0.0.1".parse().unwrap(), &own), "{own:?}");
    }

    #[track_caller]
    fn check(host: &str, expected: bool) {
        let url = Url::parse(&format!("https://{host}/")).unwrap();
        assert_eq!(may_be_public(url.host_str().unwrap()), expected, "{url}");
    }

    #[test]
    fn addresses_of_this_machine_and_its_networks_are_known_in_every_spelling() {
        for host in [
            "127.0.0.1",
            "127.1",
            "2130706433",
            "0x7f000001",
            "0x7f.1",
            "0177.0.0.1",
            "017700000001",
            "127.0.0.1.",
            "%31%32%37.0.0.1",
            "①②⑦.0.0.1",
            "0",
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "169.254.169.254",
            "0xa9fea9fe",
            "2852039166",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "[::]",
            "[::1]",
            "[0:0:0:0:0:0:0:1]",
            "[::127.0.0.1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "[::ffff:8.8.8.8]",
            "[64:ff9b::7f00:1]",
            "[64:ff9b::808:808]",
            "[64:ff9b:1::1]",
            "[100::1]",
            "[2001::1]",
            "[2001:db8::1]",
            "[2002:7f00:1::]",
            "[3fff::1]",
            "[fc00::1]",
            "[fd00:ec2::254]",
            "[fe80::1]",
            "[fec0::1]",
            "[ff02::1]",
        ] {
            check(host, false);
        }
    }

    #[test]
    fn names_that_never_lead_out_are_known() {
        for host in [
            "localhost",
            "LOCALHOST.",
            "a.localhost",
            "printer.local",
            "metadata.google.internal",
            "metadata",
            "router.lan",
            "a.home.arpa",
        ] {
            check(host, false);
        }
    }

    #[test]
    fn the_public_web_is_all_else() {
        for host in [
            "example.com",
            "localhost.example.com",
            "8.8.8.8",
            "1.1.1.1",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "169.253.0.1",
            "192.0.1.1",
            "223.255.255.255",
            "[2606:4700:4700::1111]",
            "[2001:4860:4860::8888]",
            "[2a00:1450::1]",
        ] {
            check(host, true);
        }
    }

    #[test]
    fn a_host_is_allowed_in_every_spelling_at_its_port_or_at_all() {
        let is_of = |host: &str, url: &str| {
            Host::parse(host).is_some_and(|host| host.is_of(&Url::parse(url).unwrap()))
        };
        assert!(is_of("127.0.0.1:8080", "http://127.1:8080/x"));
        assert!(!is_of("127.0.0.1:8080", "http://127.0.0.1:8081/x"));
        assert!(is_of("127.0.0.1:80", "http://127.0.0.1/x"));
        assert!(
            is_of("Wiki.Corp", "https://wiki.corp/x") && is_of("wiki.corp", "http://wiki.corp:8/")
        );
        assert!(
            !is_of("wiki.corp", "https://a.wiki.corp/")
                && !is_of("wiki.corp", "https://wiki.corp.x/")
        );
        assert!(is_of("[::1]:9", "http://[0::1]:9/"));
        for text in ["", "*", "http://x", "a/b", "u@h", "a b", "a:b:c", "x:99999"] {
            assert_eq!(Host::parse(text), None, "{text}");
        }
    }
}
