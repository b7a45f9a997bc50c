//! Messages that are larger than the server takes: they go as a blob, and what is
//! sent names it.

use bytes::Bytes;

use super::engine::{Engine, EngineError};

/// What a message begins with that only names a blob. No JSON does.
const NAMES: &[u8] = b"blob ";

/// Room in a message for what the server needs beside what is sent.
const MARGIN: usize = 4 * 1024;

/// Makes a message of some bytes.
///
/// # Errors
///
/// If the server does not take the blob.
pub(super) async fn made(engine: &Engine, bytes: Vec<u8>) -> Result<Bytes, EngineError> {
    if bytes.len() + MARGIN <= engine.message_cap() {
        return Ok(bytes.into());
    }
    let hash = engine.put_blob(&bytes).await?;
    Ok([NAMES, hash.to_string().as_bytes()].concat().into())
}

/// Returns the bytes of which a message was made. The error is a sentence.
pub(super) async fn opened(engine: &Engine, message: Bytes) -> Result<Bytes, String> {
    let Some(name) = message.strip_prefix(NAMES) else { return Ok(message) };
    let name = std::str::from_utf8(name).map_err(|_| "a blob's name is no text".to_owned())?;
    blob(engine, name).await.map(Into::into)
}

/// Returns the bytes of the blob that is called so. The error is a sentence.
pub(super) async fn blob(engine: &Engine, name: &str) -> Result<Vec<u8>, String> {
    let hash = name.parse().map_err(|_| format!("`{name}` names no blob"))?;
    engine.get_blob(hash).await.map_err(|error| error.to_string())
}
