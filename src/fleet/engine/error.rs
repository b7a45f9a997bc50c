//! What goes wrong with the servers, in words for people.

use std::path::PathBuf;

use async_nats::jetstream;
use thiserror::Error;

/// Why something could not be done. Its second line is a hint.
#[derive(Debug, Error)]
pub enum EngineError {
    /// Nothing answers there.
    #[error(
        "no NATS server answers at {servers}: {cause}\n\
         hint: is it running? `servers` under `[executor.nats]` says where it is looked for"
    )]
    NoServer {
        /// Where it was looked for, without users and passwords.
        servers: String,
        /// What was said of it.
        cause: String,
    },
    /// Something answers that is no NATS server.
    #[error(
        "what answers at {servers} does not speak NATS: {cause}\n\
         hint: give the port for clients, 4222 if not set otherwise"
    )]
    NotNats {
        /// Where it was looked for, without users and passwords.
        servers: String,
        /// What was said of it.
        cause: String,
    },
    /// The server does not know who this is.
    #[error(
        "the NATS server at {servers} refused these credentials\n\
         hint: check the user, token or credentials file under `[executor.nats]`"
    )]
    Credentials {
        /// Where it was looked for, without users and passwords.
        servers: String,
    },
    /// No encrypted connection came about.
    #[error(
        "no TLS connection to {servers}: {cause}\n\
         hint: check `ca`, `certificate` and `key` under `[executor.nats]`"
    )]
    Tls {
        /// Where it was looked for, without users and passwords.
        servers: String,
        /// What was said of it.
        cause: String,
    },
    /// The server shows a certificate that does not count.
    #[error(
        "the certificate of the NATS server at {servers} is not trusted: {cause}\n\
         hint: set `ca` under `[executor.nats]` to a file with the certificate that vouches for \
         it, and name the server as its own certificate does"
    )]
    Untrusted {
        /// Where it was looked for, without users and passwords.
        servers: String,
        /// What was said of it.
        cause: String,
    },
    /// A file of the settings cannot be used.
    #[error(
        "cannot use {}: {cause}\n\
         hint: check the paths under `[executor.nats]`", .path.display()
    )]
    File {
        /// The file.
        path: PathBuf,
        /// What was said of it.
        cause: String,
    },
    /// A setting cannot be used.
    #[error(
        "`{setting}` cannot be used: {cause}\n\
         hint: change it under `[executor.nats]`"
    )]
    Setting {
        /// Its name.
        setting: &'static str,
        /// What was said of it.
        cause: String,
    },
    /// The server is older than 2.10.
    #[error(
        "the NATS server at {servers} is version {version}\n\
         hint: 2.10 or later is needed"
    )]
    TooOld {
        /// Where it was looked for, without users and passwords.
        servers: String,
        /// What it says it is.
        version: String,
    },
    /// The server stores nothing.
    #[error(
        "JetStream does not answer: {cause}\n\
         hint: start the server with `-js` or a `jetstream` block, and give the account \
         JetStream"
    )]
    NoJetStream {
        /// What was said of it.
        cause: String,
    },
    /// It does not come to store anything.
    #[error(
        "JetStream is not ready: {cause}\n\
         hint: start the other servers of the cluster, or see the server's log"
    )]
    NotReady {
        /// What was said of it.
        cause: String,
    },
    /// The servers are too few for as many copies as there are to be.
    #[error(
        "there are too few NATS servers for {copies} copies of what is stored: {cause}\n\
         hint: start the other servers of the cluster (once more, if one runs and is left \
         out), or set `replicas = 1` under `[executor.nats]` wherever tine meets there"
    )]
    TooFew {
        /// How many copies there were to be.
        copies: usize,
        /// What was said of it.
        cause: String,
    },
    /// Something of the name is there and is not as it would have been made.
    #[error(
        "{kind} `{name}` is there with another `{setting}`: {theirs}, not {ours}\n\
         hint: choose another `prefix` under `[executor.nats]`, use the same settings \
         everywhere, or remove it if no run needs it"
    )]
    Differs {
        /// What sort of thing.
        kind: Kind,
        /// Its name.
        name: String,
        /// Its name.
        setting: &'static str,
        /// What it is there.
        theirs: String,
        /// What it would have been.
        ours: String,
    },
    /// The stream is gone while it was in use.
    #[error(
        "nothing takes messages for {subject} any more\n\
         hint: somebody removed its stream, or the server's storage failed; see the server's \
         log"
    )]
    NoStream {
        /// What the messages are about.
        subject: String,
    },
    /// A message is larger than the server takes.
    #[error(
        "a message is larger than the {cap} bytes that the server takes: {cause}\n\
         hint: raise `max_payload` in the server's configuration"
    )]
    TooLarge {
        /// What was said of it.
        cause: String,
        /// The most there may be, in bytes.
        cap: usize,
    },
    /// The server or the account has no room.
    #[error(
        "the NATS server has no room left: {cause}\n\
         hint: free storage on the server, or raise the limits of `jetstream` or of the \
         account"
    )]
    StorageFull {
        /// What was said of it.
        cause: String,
    },
    /// The user may not do that.
    #[error(
        "the NATS server does not permit it: {cause}\n\
         hint: give this user the subjects of the pool and `$JS.API.>`"
    )]
    NotPermitted {
        /// What was said of it.
        cause: String,
    },
    /// There is no blob of that name.
    #[error(
        "blob {name} is not on the server\n\
         hint: blobs are kept for 7 days; start the run again"
    )]
    NoBlob {
        /// Its name.
        name: String,
    },
    /// A blob's bytes are not those it was named after.
    #[error(
        "blob {name} is not what its name says\n\
         hint: somebody else wrote to the bucket of blobs: see who may; the next run sends it again"
    )]
    FalseBlob {
        /// Its name.
        name: String,
    },
    /// A blob is larger than any may be.
    #[error(
        "a blob of {size} bytes is larger than {cap} bytes\n\
         hint: leave large files out of the repository's history"
    )]
    LargeBlob {
        /// Its size in bytes.
        size: usize,
        /// The most there may be, in bytes.
        cap: usize,
    },
    /// The server refused for a reason of its own.
    #[error(
        "{doing} failed: {cause}\n\
         hint: see the server's log"
    )]
    Failed {
        /// What was being done.
        doing: &'static str,
        /// What was said of it.
        cause: String,
    },
}

/// What sort of thing has other settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A stream.
    Stream,
    /// A key-value bucket.
    Bucket,
    /// An object store.
    ObjectStore,
    /// A consumer.
    Consumer,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Stream => "stream",
            Self::Bucket => "bucket",
            Self::ObjectStore => "object store",
            Self::Consumer => "consumer",
        })
    }
}

/// Why a request to a coordinator has no answer.
#[derive(Debug, Error)]
pub enum ClaimError {
    /// Nobody listens: the coordinator is gone, or away for now.
    #[error("nobody answers for this run")]
    NoCoordinator,
    /// Somebody listens and did not answer in time.
    #[error("no answer in time")]
    TimedOut,
    /// The request could not be made.
    #[error(transparent)]
    Other(#[from] EngineError),
}

/// What became of a request to JetStream.
#[derive(Debug)]
pub(super) enum Denied {
    /// It may be answered in a moment: nobody leads, or nothing was heard.
    Passing(String),
    /// Nobody listens: there is no JetStream, or none yet.
    Nobody,
    /// The server said no.
    Said(jetstream::Error),
    /// Something else, for good.
    Final(EngineError),
}

impl Denied {
    pub(super) fn into_error(self, doing: &'static str) -> EngineError {
        match self {
            Self::Passing(cause) => EngineError::Failed { doing, cause },
            Self::Nobody => EngineError::NoJetStream { cause: "nobody listens".to_owned() },
            Self::Said(error) => said(&error, doing),
            Self::Final(error) => error,
        }
    }
}

/// Codes of NATS for what has no room.
const FULL: [jetstream::ErrorCode; 5] = [
    jetstream::ErrorCode::ACCOUNT_RESOURCES_EXCEEDED,
    jetstream::ErrorCode::INSUFFICIENT_RESOURCES,
    jetstream::ErrorCode::MEMORY_RESOURCES_EXCEEDED,
    jetstream::ErrorCode::STORAGE_RESOURCES_EXCEEDED,
    jetstream::ErrorCode::STREAM_STORE_FAILED,
];

/// Codes of NATS for a server or an account without storage.
const DISABLED: [jetstream::ErrorCode; 2] = [
    jetstream::ErrorCode::JETSTREAM_NOT_ENABLED,
    jetstream::ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT,
];

/// Codes of NATS for what is there, and all of whose servers are down. They are said as
/// if something were broken.
const OFFLINE: [jetstream::ErrorCode; 2] =
    [jetstream::ErrorCode::STREAM_OFFLINE, jetstream::ErrorCode::CONSUMER_OFFLINE];

/// Tells whether the same request may be answered otherwise in a moment.
pub(super) fn is_passing(error: &jetstream::Error) -> bool {
    let code = error.error_code();
    let is_unavailable = error.code() == 503 || OFFLINE.contains(&code);
    is_unavailable && !is_full(error) && !DISABLED.contains(&code)
}

/// Tells whether whoever leads a cluster has no server for a consumer, since it takes those
/// of the stream for down. It says then that it lacks resources; a consumer needs none.
pub(super) fn has_no_server(error: &jetstream::Error) -> bool {
    error.error_code() == jetstream::ErrorCode::INSUFFICIENT_RESOURCES
}

/// Tells whether a server has refused something because it has no room.
pub(super) fn is_full(error: &jetstream::Error) -> bool {
    FULL.contains(&error.error_code())
}

/// Says what a server said.
pub(super) fn said(error: &jetstream::Error, doing: &'static str) -> EngineError {
    let (code, cause) = (error.error_code(), error.to_string());
    if DISABLED.contains(&code) {
        EngineError::NoJetStream { cause }
    } else if is_full(error) {
        EngineError::StorageFull { cause }
    } else {
        EngineError::Failed { doing, cause }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn error(code: u64, err_code: u64) -> jetstream::Error {
        let error = json!({ "code": code, "err_code": err_code, "description": "" });
        serde_json::from_value(error).unwrap()
    }

    #[test]
    fn a_consumer_without_a_server_is_told_from_a_stream_without_room() {
        assert!(has_no_server(&error(503, 10023)));
        assert!(!has_no_server(&error(503, 10047)));
        assert!(is_full(&error(503, 10023)), "where it is about a stream");
    }

    #[test]
    fn what_has_no_server_for_now_is_passing_and_what_is_wrong_is_not() {
        for (code, err_code) in [(503, 10008), (500, 10118), (500, 10119)] {
            assert!(is_passing(&error(code, err_code)), "{err_code}");
        }
        // Not found, no room, and no JetStream.
        for (code, err_code) in [(404, 10059), (503, 10077), (503, 10076)] {
            assert!(!is_passing(&error(code, err_code)), "{err_code}");
        }
    }
}
