//! What is configured about the servers.

use std::path::PathBuf;
use std::time::Duration;

/// Which servers, and how the pool is laid out on them.
///
/// Everything that takes part in a pool must have the same `prefix`, `lease` and
/// `replicas`.
#[derive(Clone, Debug)]
pub struct Settings {
    /// URLs, of which one is enough: the others of its cluster are found.
    pub servers: Vec<String>,
    /// The first word of every subject and name: letters, digits, `-` and `_`.
    pub prefix: String,
    /// A file with a token and its key (`.creds`); `None` for what the URL says,
    /// `nats://user:password@host`, or nobody.
    pub credentials: Option<PathBuf>,
    /// Set when the connection must be encrypted, whatever the URL says.
    pub tls: Option<Tls>,
    /// How long a ticket's holder may be silent; from one second.
    pub lease: Duration,
    /// Copies of everything that is stored. `None` is three in a cluster and one
    /// elsewhere, or as many as there are already.
    pub replicas: Option<usize>,
}

/// Whom to trust, and what to show.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// Certificates to trust (PEM); `None` trusts those of the system.
    pub ca: Option<PathBuf>,
    /// The own certificate (PEM), for servers that ask for one.
    pub certificate: Option<PathBuf>,
    /// Its key (PEM).
    pub key: Option<PathBuf>,
}
