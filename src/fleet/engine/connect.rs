//! The way to the servers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{ConnectError, ConnectErrorKind, ConnectOptions, ServerAddr};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::names::{Names, unescape};
use super::settings::{Settings, Tls};
use super::signs::signs;
use super::{Engine, EngineError};

/// Longest wait for a first connection. A server that is there answers in
/// milliseconds; later ones are waited for without an end.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Longest wait for streams and buckets to be in place: in a cluster each of them
/// first chooses a leader, and one that was just started its own.
const LAYOUT_LIMIT: Duration = Duration::from_secs(30);

/// Longest wait for an answer of JetStream and for the acknowledgement of a message.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Longest pause between two attempts to connect again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(500);

/// The shortest lease; acknowledgements and heartbeats come a few times in one.
const LEASE_FLOOR: Duration = Duration::from_secs(1);

impl Engine {
    /// Connects, and sees to it that everything is in place that the pool needs.
    ///
    /// `name` is what the server's lists call this connection.
    ///
    /// # Errors
    ///
    /// No server within five seconds, one that refuses, is too old or has no
    /// JetStream, one that is not ready within half a minute, and streams of these names
    /// that are laid out otherwise.
    pub async fn connect(settings: &Settings, name: &str) -> Result<Self, EngineError> {
        let names = Names::new(&settings.prefix).ok_or_else(|| EngineError::Setting {
            setting: "prefix",
            cause: format!("`{}` has other signs than letters, digits, `-`, `_`", settings.prefix),
        })?;
        if settings.lease < LEASE_FLOOR {
            let cause = format!("{:?} is shorter than {LEASE_FLOOR:?}", settings.lease);
            return Err(EngineError::Setting { setting: "lease_s", cause });
        }
        let servers = addresses(&settings.servers)?;
        let (signals, signs) = signs();
        let signals = Arc::new(signals);
        let options = options(settings, &servers, name).await?.event_callback(move |event| {
            signals.note(&event);
            std::future::ready(())
        });
        let shown = shown(&servers);
        let no_server =
            |cause: &str| EngineError::NoServer { servers: shown.clone(), cause: cause.to_owned() };
        let connected = timeout(CONNECT_LIMIT, options.connect(servers)).await;
        let client = connected
            .map_err(|_| no_server("no answer in time"))?
            .map_err(|error| no_connection(&error, &shown))?;
        // Whoever waits for the next connection must not be told of this one.
        timeout(CONNECT_LIMIT, signs.connected_after(0))
            .await
            .map_err(|_| no_server("the connection was lost at once"))?;
        if !client.is_server_compatible(2, 10, 0) {
            let version = client.server_info().version;
            return Err(EngineError::TooOld { servers: shown, version });
        }
        let mut jetstream = async_nats::jetstream::new(client.clone());
        jetstream.set_timeout(ANSWER_LIMIT);
        let names = Arc::new(names);
        let engine = Self {
            client,
            jetstream,
            names,
            signs,
            servers: shown.into(),
            lease: settings.lease,
            tasks: TaskTracker::new(),
        };
        match timeout(LAYOUT_LIMIT, engine.lay_out(settings.replicas)).await {
            Ok(laid_out) => laid_out.map(|()| engine),
            Err(_) => Err(EngineError::NotReady { cause: engine.why_unready().await }),
        }
    }
}

fn addresses(servers: &[String]) -> Result<Vec<ServerAddr>, EngineError> {
    let setting = |cause| EngineError::Setting { setting: "servers", cause };
    if servers.is_empty() {
        return Err(setting("there is none".to_owned()));
    }
    // The URL itself may hold a password and is not shown.
    let address = |url: &String| url.parse().map_err(|error: std::io::Error| error.to_string());
    servers.iter().map(address).collect::<Result<_, _>>().map_err(setting)
}

/// Returns the servers as they may be shown: without users and passwords.
fn shown(servers: &[ServerAddr]) -> String {
    let each = servers.iter().map(|server| format!("{}:{}", server.host(), server.port()));
    each.collect::<Vec<_>>().join(", ")
}

async fn options(
    settings: &Settings,
    servers: &[ServerAddr],
    name: &str,
) -> Result<ConnectOptions, EngineError> {
    let unusable = |path: &Path, error: std::io::Error| EngineError::File {
        path: path.to_owned(),
        cause: error.to_string(),
    };
    let mut options = ConnectOptions::new()
        .name(name)
        .ping_interval(settings.lease / 4)
        .connection_timeout(CONNECT_LIMIT)
        .reconnect_delay_callback(pause);
    options = match &settings.credentials {
        None => as_url_says(options, servers),
        Some(path) => {
            options.credentials_file(path).await.map_err(|error| unusable(path, error))?
        }
    };
    let Some(tls) = &settings.tls else { return Ok(options) };
    // Another part of the program may have been first; every provider is ring.
    let _ = rustls::crypto::ring::default_provider().install_default();
    options = options.require_tls(true);
    let Tls { ca, certificate, key } = tls;
    for path in [ca, certificate, key].into_iter().flatten() {
        tokio::fs::metadata(path).await.map_err(|error| unusable(path, error))?;
    }
    if let Some(ca) = ca {
        options = options.add_root_certificates(ca.clone());
    }
    match (certificate, key) {
        (None, None) => Ok(options),
        (Some(certificate), Some(key)) => {
            Ok(options.add_client_certificate(certificate.clone(), key.clone()))
        }
        (Some(_), None) | (None, Some(_)) => Err(EngineError::Setting {
            setting: "tls",
            cause: "`certificate` and `key` go together".to_owned(),
        }),
    }
}

/// Takes user and password, or a token, from the first URL that has any: the client
/// of NATS leaves them there.
fn as_url_says(options: ConnectOptions, servers: &[ServerAddr]) -> ConnectOptions {
    let user = servers.iter().find_map(|server| Some((server.username()?, server.password())));
    let read = |text: &str| unescape(text, b'%');
    match user {
        Some((name, Some(password))) => options.user_and_password(read(name), read(password)),
        Some((token, None)) => options.token(read(token)),
        None => options,
    }
}

/// Returns the pause before an attempt to connect: none at first, then longer.
fn pause(attempts: usize) -> Duration {
    let doublings = u32::try_from(attempts.saturating_sub(1)).unwrap_or(u32::MAX);
    let pause = Duration::from_millis(2_u64.saturating_pow(doublings));
    if attempts <= 1 { Duration::ZERO } else { pause.min(RECONNECT_PAUSE) }
}

/// Says why there is no connection.
fn no_connection(error: &ConnectError, servers: &str) -> EngineError {
    let servers = servers.to_owned();
    let source = std::error::Error::source(error);
    let cause = source.map_or_else(|| error.to_string(), ToString::to_string);
    match error.kind() {
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
            EngineError::Credentials { servers }
        }
        ConnectErrorKind::Tls => EngineError::Tls { servers, cause },
        ConnectErrorKind::TimedOut => {
            EngineError::NoServer { servers, cause: "no answer in time".to_owned() }
        }
        ConnectErrorKind::ServerParse | ConnectErrorKind::Dns | ConnectErrorKind::MaxReconnects => {
            EngineError::NoServer { servers, cause }
        }
        ConnectErrorKind::Io => {
            let broken = source.and_then(|source| source.downcast_ref::<std::io::Error>());
            not_talked(broken, servers, cause)
        }
    }
}

/// Says why there was no talk where something may have answered.
fn not_talked(broken: Option<&std::io::Error>, servers: String, cause: String) -> EngineError {
    // The client of NATS hands on what goes wrong with TLS as an error of reading.
    let tls = broken.and_then(|error| error.get_ref()?.downcast_ref::<rustls::Error>());
    match tls {
        Some(rustls::Error::InvalidCertificate(_)) => {
            return EngineError::Untrusted { servers, cause };
        }
        Some(_) => return EngineError::Tls { servers, cause },
        None => {}
    }
    let is_reached = broken.is_none_or(|error| {
        let odd = [std::io::ErrorKind::InvalidInput, std::io::ErrorKind::InvalidData];
        odd.contains(&error.kind())
    });
    match is_reached {
        true => EngineError::NotNats { servers, cause },
        false => EngineError::NoServer { servers, cause },
    }
}
