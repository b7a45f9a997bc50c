//! Writing a blob: its pieces, and then what says that they are there.
//!
//! Both are stored as the object stores of NATS have it, so that its tools read them
//! (ADR-20 of NATS). Unlike in a client's own call what is written in vain is taken
//! back: it would fill the server for as long as blobs are kept.

use async_nats::header::NATS_ROLLUP;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::object_store::{ObjectInfo, ObjectOptions};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use bytes::Bytes;
use ring::digest::{SHA256, digest};
use uuid::Uuid;

use super::publish::Unpublished;
use super::tries::Failed;
use super::{Engine, EngineError};

/// The size of the pieces that a blob is stored in; what NATS takes by default is
/// eight times that.
const PIECE: usize = 128 * 1024;

/// Returns what NATS says of an object with these bytes.
pub(super) fn digest_of(bytes: &[u8]) -> String {
    format!("SHA-256={}", URL_SAFE.encode(digest(&SHA256, bytes)))
}

/// Pieces that are written in vain unless somebody says where they are.
struct Pieces<'a> {
    engine: &'a Engine,
    nuid: String,
    are_needed: bool,
}

impl Drop for Pieces<'_> {
    fn drop(&mut self) {
        if !self.are_needed {
            let (engine, nuid) = (self.engine.clone(), std::mem::take(&mut self.nuid));
            tokio::spawn(async move {
                if let Err(error) = engine.take_back(&nuid).await {
                    tracing::warn!("pieces of a blob stay on the server for a week: {error}");
                }
            });
        }
    }
}

impl Engine {
    /// Writes a blob under this name, in the place of what is there. If it is not done
    /// or dropped, its pieces are taken back.
    pub(super) async fn write_blob(&self, name: &str, bytes: &[u8]) -> Result<(), Failed> {
        let nuid = Uuid::new_v4().simple().to_string();
        let subject = self.pieces_subject(&nuid);
        let mut pieces = Pieces { engine: self, nuid: nuid.clone(), are_needed: false };
        let size = PIECE.min(self.message_cap() / 2);
        let mut count = 0;
        for piece in bytes.chunks(size) {
            let message = PublishMessage::build().payload(Bytes::copy_from_slice(piece));
            self.stored(&subject, message).await?;
            count += 1;
        }
        let bucket = self.names.blobs_bucket();
        let says = format!("$O.{bucket}.M.{}", URL_SAFE.encode(name));
        let info = ObjectInfo {
            name: name.to_owned(),
            description: None,
            metadata: [].into(),
            headers: None,
            options: Some(ObjectOptions { link: None, max_chunk_size: Some(size) }),
            bucket,
            nuid,
            size: bytes.len(),
            chunks: count,
            modified: Some(async_nats::datetime::now()),
            digest: Some(digest_of(bytes)),
            deleted: false,
        };
        let info = serde_json::to_vec(&info).expect("it has strings and numbers alone");
        let message = PublishMessage::build().header(NATS_ROLLUP, "sub").payload(info.into());
        // From here on it may be there, whether that is heard or not.
        pieces.are_needed = true;
        let said = self.stored(&says, message).await;
        if let Err(Failed::Final(_)) = &said {
            pieces.are_needed = false;
        }
        said
    }

    /// Takes pieces back that nothing names.
    async fn take_back(&self, nuid: &str) -> Result<(), EngineError> {
        self.signs.tried("taking back a blob", || self.purge_pieces(nuid)).await
    }

    /// Removes the pieces with this number, once.
    pub(super) async fn purge_pieces(&self, nuid: &str) -> Result<(), Failed> {
        let stream = format!("OBJ_{}", self.names.blobs_bucket());
        let stream = self.jetstream.get_stream_no_info(stream).await;
        let stream = stream.map_err(|error| Failed::Passing(error.to_string()))?;
        let purged = stream.purge().filter(self.pieces_subject(nuid)).await;
        purged.map(drop).map_err(|error| Failed::Passing(error.to_string()))
    }

    fn pieces_subject(&self, nuid: &str) -> String {
        format!("$O.{}.C.{nuid}", self.names.blobs_bucket())
    }

    /// Stores a message, or does not.
    async fn stored(&self, subject: &str, message: PublishMessage) -> Result<(), Failed> {
        let stored = async {
            let acknowledged = self.send(subject, &message).await?;
            acknowledged.await.map(drop).map_err(|error| self.unpublished(&error))
        };
        let refused = self.signs.refused(subject);
        let stored = tokio::select! {
            stored = stored => stored,
            cause = refused => {
                Err(Unpublished::Final(EngineError::NotPermitted { cause }))
            }
        };
        stored.map_err(|why| match why {
            Unpublished::Final(error) => Failed::Final(error),
            Unpublished::Passing(_)
            | Unpublished::NoStream
            | Unpublished::NotFirst
            | Unpublished::Crowded => Failed::Passing(why.into_error().to_string()),
        })
    }
}
