//! Where agents run, `[executor]`: in this process, or by workers that hear of
//! them over NATS.

use std::fmt;
use std::num::{NonZeroU8, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::Url;
use thiserror::Error;

/// Where agents run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Executor {
    /// Which way.
    pub kind: ExecutorKind,
    /// How workers are reached.
    pub nats: Nats,
}

/// Who runs agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExecutorKind {
    /// The process that was asked.
    #[default]
    Local,
    /// Workers, each of which takes what it has room for.
    Nats,
}

impl ExecutorKind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Local, Self::Nats];

    /// Returns the name in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Nats => "nats",
        }
    }

    /// Reads the name that the configuration has.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// How workers are reached, `[executor.nats]`. Files are kept as they are
/// written: where `~` is, is only known where home is. See [`Nats::file`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nats {
    /// The servers, any of which will do; at least one.
    pub servers: Vec<NatsServer>,
    /// What the names begin with that runs and workers meet under.
    pub prefix: String,
    /// What workers must be started with to take a run's agents; `None` for any
    /// worker.
    pub label: Option<String>,
    /// A file of credentials of NATS.
    pub credentials: Option<String>,
    /// A file with the certificates of whoever vouches for the servers.
    pub ca: Option<String>,
    /// A file with our own certificate; then there is a key, too.
    pub certificate: Option<String>,
    /// A file with its key.
    pub key: Option<String>,
    /// How long a worker may be silent before its agents are taken for lost.
    pub lease: Duration,
    /// How many servers keep what runs and workers tell each other; `None` for as
    /// many as fit how many there are.
    pub replicas: Option<NonZeroU8>,
    /// How many agents of a run are with workers at once; `None` for as many as
    /// these take.
    pub max_concurrent: Option<NonZeroUsize>,
}

impl Nats {
    /// Most characters of a prefix. It stands in every name.
    pub const PREFIX_CAP: usize = 32;

    /// What stands in the place of a label where none is asked for, so that none is
    /// called so.
    pub const ANY: &str = "any";

    /// Most servers that can keep the same: that is the most there is.
    pub const REPLICAS_CAP: u32 = 5;

    /// Tells whether names may begin so: it is one part of a subject, and of the
    /// name of a stream.
    #[must_use]
    pub fn is_prefix(text: &str) -> bool {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        (1..=Self::PREFIX_CAP).contains(&text.len()) && text.chars().all(is_part)
    }

    /// Returns the file that is meant by what is written; `None` where it is at
    /// home and there is none.
    #[must_use]
    pub fn file(written: &str, home: Option<&Path>) -> Option<PathBuf> {
        match written.strip_prefix("~/") {
            Some(rest) => home.map(|home| home.join(rest)),
            None => Some(written.into()),
        }
    }
}

impl Default for Nats {
    fn default() -> Self {
        let here = NatsServer::parse("nats://127.0.0.1:4222");
        Self {
            servers: vec![here.expect("it is an address of a server")],
            prefix: "tine".to_owned(),
            label: None,
            credentials: None,
            ca: None,
            certificate: None,
            key: None,
            // Longer than a worker pauses that swaps or is moved, and short beside
            // what an agent takes that has to begin again.
            lease: Duration::from_secs(10),
            replicas: None,
            max_concurrent: None,
        }
    }
}

/// Where runs and workers meet: what is configured, ready to be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meeting {
    /// The servers, any of which will do; at least one.
    pub servers: Vec<NatsServer>,
    /// What the names begin with.
    pub prefix: String,
    /// A file of credentials of NATS.
    pub credentials: Option<PathBuf>,
    /// A file with the certificates of whoever vouches for the servers.
    pub ca: Option<PathBuf>,
    /// Files with our own certificate and with its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// How long a worker may be silent before its agents are taken for lost.
    pub lease: Duration,
    /// How many servers keep what is told; `None` for as many as fit.
    pub replicas: Option<NonZeroU8>,
}

/// Why it is not known where runs and workers meet.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MeetingError {
    /// An address is none. It is not shown, as it may hold a password.
    #[error("`--connect` names no server of NATS\nhint: {}", NatsServer::RULE)]
    Address,
    /// A file is at home, and there is none.
    #[error("`{file}` is nowhere: there is no home directory\nhint: set `HOME`")]
    NoHome {
        /// The file, as it is written.
        file: String,
    },
}

impl Meeting {
    /// Takes what is configured, with other servers if any are named.
    ///
    /// # Errors
    ///
    /// A name is no address, or a file cannot be found where it is said to be.
    pub fn new(nats: &Nats, servers: &[&str], home: Option<&Path>) -> Result<Self, MeetingError> {
        let Nats { credentials, ca, certificate, key, prefix, lease, replicas, .. } = nats;
        let named = servers.iter().map(|it| NatsServer::parse(it).ok_or(MeetingError::Address));
        let named: Vec<_> = named.collect::<Result<_, _>>()?;
        let file = |written: &String| {
            let nowhere = || MeetingError::NoHome { file: written.clone() };
            Nats::file(written, home).ok_or_else(nowhere)
        };
        let identity = certificate.as_ref().zip(key.as_ref());
        Ok(Self {
            servers: if named.is_empty() { nats.servers.clone() } else { named },
            prefix: prefix.clone(),
            credentials: credentials.as_ref().map(file).transpose()?,
            ca: ca.as_ref().map(file).transpose()?,
            identity: identity.map(|(one, two)| Ok((file(one)?, file(two)?))).transpose()?,
            lease: *lease,
            replicas: *replicas,
        })
    }
}

/// The address of a server. It may hold a password or a token, so it is shown
/// without.
#[derive(Clone, PartialEq, Eq)]
pub struct NatsServer(Url);

impl NatsServer {
    /// What is wrong with a text that [`NatsServer::parse`] refuses.
    pub const RULE: &'static str =
        "an address looks like `nats://HOST:4222`, or `tls://HOST:4222` to insist on TLS";

    /// Reads an address; `None` if it is none of a server of NATS.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let url = Url::parse(text.trim()).ok()?;
        let is_server = matches!(url.scheme(), "nats" | "tls")
            && url.host_str().is_some_and(|host| !host.is_empty())
            && matches!(url.path(), "" | "/")
            && url.query().is_none()
            && url.fragment().is_none();
        is_server.then_some(Self(url))
    }

    /// Returns the address as it is connected to. It may hold a secret: it is for
    /// the connection alone.
    #[must_use]
    pub fn with_secrets(&self) -> &str {
        self.0.as_str()
    }

    /// Returns what must not be shown: the password or, without one, the token,
    /// as it is written and as it is meant.
    #[must_use]
    pub fn secrets(&self) -> Vec<String> {
        let token = Some(self.0.username()).filter(|name| !name.is_empty());
        let Some(written) = self.0.password().or(token) else { return Vec::new() };
        let meant = decoded(written);
        if meant == written { vec![meant] } else { vec![written.to_owned(), meant] }
    }
}

impl fmt::Display for NatsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.0.host_str().unwrap_or_default();
        write!(f, "{}://{host}", self.0.scheme())?;
        self.0.port().map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl fmt::Debug for NatsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reads `%40` as what it stands for.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digit = |at: usize| char::from(*after.get(at)?).to_digit(16);
        let byte = digit(0).zip(digit(1)).filter(|_| first == b'%');
        match byte.and_then(|(high, low)| u8::try_from(high * 16 + low).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_connected_to_whole_and_shown_without_what_is_secret() {
        for (text, shown, secrets) in [
            ("nats://127.0.0.1:4222", "nats://127.0.0.1:4222", &[][..]),
            (" tls://nats.example.com/ ", "tls://nats.example.com", &[]),
            ("nats://ada:p%40ss-word@box:4222", "nats://box:4222", &["p%40ss-word", "p@ss-word"]),
            ("nats://s3cr3t-token@[::1]:4", "nats://[::1]:4", &["s3cr3t-token"]),
        ] {
            let server = NatsServer::parse(text).unwrap();
            assert_eq!((server.to_string(), format!("{server:?}")), (shown.into(), shown.into()));
            assert_eq!(server.secrets(), secrets);
            assert!(secrets.iter().take(1).all(|it| server.with_secrets().contains(it)));
        }
    }

    #[test]
    fn what_is_no_address_of_a_server_is_none() {
        for text in [
            "",
            "box",
            "box:4222",
            "http://box:4222",
            "ws://box",
            "nats://",
            "nats://box/a",
            "nats://box?a=b",
            "nats://box#a",
            "nats:box",
        ] {
            assert_eq!(NatsServer::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_prefix_is_one_part_of_a_name() {
        for text in ["tine", "a", "Team-2_x", &"x".repeat(Nats::PREFIX_CAP)] {
            assert!(Nats::is_prefix(text), "{text}");
        }
        for text in ["", "a.b", "a b", "*", ">", "é", "$JS", &"x".repeat(Nats::PREFIX_CAP + 1)] {
            assert!(!Nats::is_prefix(text), "{text}");
        }
    }

    #[test]
    fn servers_that_are_named_take_the_place_of_those_configured() {
        let nats = Nats { credentials: Some("~/a.creds".to_owned()), ..Nats::default() };
        let home = Some(Path::new("/home/ada"));
        let shown = |servers: &[&str]| {
            let meeting = Meeting::new(&nats, servers, home);
            meeting.map(|it| it.servers.iter().map(NatsServer::to_string).collect::<Vec<_>>())
        };
        assert_eq!(shown(&[]).unwrap(), ["nats://127.0.0.1:4222"]);
        assert_eq!(shown(&["tls://a", "nats://b:1"]).unwrap(), ["tls://a", "nats://b:1"]);
        assert_eq!(shown(&["nats://a", "http://ada:secret@b"]), Err(MeetingError::Address));
        assert!(!MeetingError::Address.to_string().contains("secret"));
        let file = "~/a.creds".to_owned();
        assert_eq!(Meeting::new(&nats, &[], None), Err(MeetingError::NoHome { file }));
    }

    #[test]
    fn a_file_may_be_at_home() {
        let home = Some(Path::new("/home/ada"));
        assert_eq!(Nats::file("~/a.creds", home), Some("/home/ada/a.creds".into()));
        assert_eq!(Nats::file("/a.creds", None), Some("/a.creds".into()));
        assert_eq!(Nats::file("~/a.creds", None), None);
    }
}
