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
use tokio::runtime::Handle;
use uuid::Uuid;

use super::Engine;
use super::blobs::Hash;
use super::publish::Unpublished;
use super::tries::Failed;

/// The size of the pieces that a blob is stored in; what NATS takes by default is
/// eight times that.
const PIECE: usize = 128 * 1024;

/// A blob that is to be there.
pub(super) struct Blob<'a> {
    name: String,
    bytes: &'a [u8],
    /// What NATS says of an object with these bytes.
    digest: String,
}

impl<'a> Blob<'a> {
    pub(super) fn new(hash: Hash, bytes: &'a [u8]) -> Self {
        let digest = format!("SHA-256={}", URL_SAFE.encode(digest(&SHA256, bytes)));
        Self { name: hash.to_string(), bytes, digest }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Tells whether an object is said to be this one.
    pub(super) fn is(&self, info: &ObjectInfo) -> bool {
        let is_same = info.digest.as_ref() == Some(&self.digest);
        !info.deleted && info.size == self.bytes.len() && is_same
    }
}

/// Pieces of a blob that are taken back unless something may say where they are.
struct Pieces<'a> {
    engine: &'a Engine,
    nuid: String,
    are_in_vain: bool,
}

impl Drop for Pieces<'_> {
    fn drop(&mut self) {
        // Without a runtime they go with their age.
        let (true, Ok(runtime)) = (self.are_in_vain, Handle::try_current()) else { return };
        let (engine, tasks) = (self.engine.clone(), self.engine.tasks.clone());
        let nuid = std::mem::take(&mut self.nuid);
        let taking_back = async move {
            let take_back = || engine.take_back(&nuid);
            if let Err(error) = engine.tried("taking back a blob", take_back).await {
                tracing::warn!("pieces of a blob stay on the server for a week: {error}");
            }
        };
        tasks.spawn_on(taking_back, &runtime);
    }
}

impl Engine {
    /// Writes a blob under its name, in the place of what is there, unless `is_there`
    /// says at the end that somebody else has written it meanwhile. If it is not done or
    /// dropped, its pieces are taken back.
    pub(super) async fn write_blob(
        &self,
        blob: &Blob<'_>,
        is_there: impl AsyncFnOnce() -> bool,
    ) -> Result<(), Failed> {
        let Blob { name, bytes, digest } = blob;
        let nuid = Uuid::new_v4().simple().to_string();
        let subject = self.pieces_subject(&nuid);
        let mut pieces = Pieces { engine: self, nuid: nuid.clone(), are_in_vain: true };
        let size = PIECE.min(self.message_cap() / 2);
        let mut count = 0;
        for piece in bytes.chunks(size) {
            let message = PublishMessage::build().payload(Bytes::copy_from_slice(piece));
            self.stored(&subject, message).await?;
            count += 1;
        }
        if is_there().await {
            return Ok(());
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
            digest: Some(digest.clone()),
            deleted: false,
        };
        let info = serde_json::to_vec(&info).expect("it has strings and numbers alone");
        let message = PublishMessage::build().header(NATS_ROLLUP, "sub").payload(info.into());
        // Once that is sent it may be there, whether it is heard or not: a server that is
        // behind would not know. Then pieces in vain stay for as long as blobs do.
        pieces.are_in_vain = false;
        let said = self.stored(&says, message).await;
        pieces.are_in_vain = matches!(said, Err(Failed::Final(_)));
        said
    }

    /// Waits until all that was written in vain is taken back.
    pub async fn tidied(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Removes the pieces with this number, one that is on its way among them.
    async fn take_back(&self, nuid: &str) -> Result<(), Failed> {
        // A server stores messages in their order, but purges beside that: a piece that
        // nobody waited for may come after its purge. Once the server says anything of
        // a later message, none is behind that.
        let last = PublishMessage::build().payload(Bytes::new());
        match self.stored(&self.pieces_subject(nuid), last).await {
            Err(Failed::Passing(cause)) => Err(Failed::Passing(cause)),
            Ok(()) | Err(Failed::Final(_)) => self.purge_pieces(nuid).await,
        }
    }

    /// Removes the pieces with this number that are stored.
    pub(super) async fn purge_pieces(&self, nuid: &str) -> Result<(), Failed> {
        let stream = self.names.blobs_stream();
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
        let stored = self.publish_once(subject, &message).await;
        stored.map(drop).map_err(|why| match why {
            Unpublished::Final(error) => Failed::Final(error),
            Unpublished::Passing(_)
            | Unpublished::NoStream
            | Unpublished::NotFirst
            | Unpublished::Crowded => Failed::Passing(why.into_error().to_string()),
        })
    }
}
