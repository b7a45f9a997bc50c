//! What the slots of a run are given, beside their tasks: packed anew when the
//! workspace may have changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::engine::Engine;
use super::ground::{Packed, PackedFile, PackedNames, Stored, pack};
use super::packet::{Bundles, Packet};
use super::parcel;
use super::shipping::Shipping;
use super::wire::Shipped;
use crate::fanout::{Begins, Caller, Changes};
use crate::git::worktree::Snapshot;
use crate::message::{Head, Prefix};
use crate::model::Model;
use crate::path_text;

/// How long a packed workspace is taken for the present one, as long as no unit has
/// changed it: whoever else does tells nobody. To pack it takes tens of milliseconds;
/// most batches start at once.
const FRESH: Duration = Duration::from_secs(2);

/// How often a workspace is packed again that has changed meanwhile: where slots come
/// back all the time, none would start.
const ROUNDS: u32 = 3;

/// How long what was sent is taken to be there: blobs are kept for a week.
const SENT_AGAIN: Duration = Duration::from_secs(24 * 60 * 60);

/// What the slots of a run are given.
pub struct Load {
    packet: Packet,
    /// Where files of bundles are put.
    scratch: PathBuf,
    /// Whoever packs has others wait for the same.
    sent: Mutex<Sent>,
    shipping: Shipping,
    /// How the main model was asked when the run began; see [`asked`].
    asked: Vec<u8>,
}

/// What was put where workers find it.
#[derive(Default)]
struct Sent {
    /// What slots are given that start now.
    current: Option<Current>,
    stored: Stored,
}

struct Current {
    root: PathBuf,
    names: PackedNames,
    snapshot: Option<Arc<Snapshot>>,
    blob: Arc<str>,
    /// How often units may have changed files when it was looked at.
    touches: u64,
    sent_at: Instant,
    until: Instant,
}

/// What one slot is given.
#[derive(Clone)]
pub(super) struct Given {
    /// The blob of the packet.
    pub(super) packet: Arc<str>,
    /// The state of the workspace that it begins with; `None` if it begins with none.
    pub(super) snapshot: Option<Arc<Snapshot>>,
    /// The conversation that it goes on from, if it goes on from one.
    pub(super) from: Option<Shipped>,
}

impl Load {
    /// The load of a run with this main model; the packet's workspace is put into it
    /// here.
    #[must_use]
    pub fn new(packet: Packet, model: &dyn Model, scratch: &Path) -> Self {
        Self {
            packet,
            scratch: scratch.to_owned(),
            sent: Mutex::default(),
            shipping: Shipping::default(),
            asked: asked(model),
        }
    }

    /// Tells whether workers ask this model as it is asked here: they know the one that
    /// the run began with, and how hard that was to think.
    pub(super) fn is_asked_alike(&self, model: &dyn Model) -> bool {
        self.asked == asked(model)
    }

    /// Returns the session of the run.
    pub(super) fn session(&self) -> &Arc<str> {
        &self.packet.session.0
    }

    /// Packs what a slot that starts now is given. The error is a sentence for whoever
    /// reads of its end.
    pub(super) async fn given(
        &self,
        engine: &Engine,
        caller: &Caller,
        begins: &Begins,
    ) -> Result<Given, String> {
        let from = match begins {
            Begins::Anew | Begins::Ended => None,
            Begins::Forked(point) => Some(self.shipping.of(engine, point).await?),
            Begins::EndedElsewhere(left) => Some(left.from.clone()),
        };
        // Last: to send it may take its time, and so may this, while others come back.
        let files = &caller.place.workspace.files;
        let mut rounds = 1..=ROUNDS;
        loop {
            let touches = files.touches();
            let given = self.packed(engine, caller).await?;
            if rounds.next().is_none() || files.touches() == touches {
                return Ok(Given { from, ..given });
            }
        }
    }

    /// Packs the workspace, with what all slots share.
    async fn packed(&self, engine: &Engine, caller: &Caller) -> Result<Given, String> {
        let workspace = &caller.place.workspace;
        let Sent { current, stored } = &mut *self.sent.lock().await;
        // Before it is looked at: what changes meanwhile may not be in it.
        let touches = workspace.files.touches();
        let is_fresh = |it: &&Current| {
            it.root == workspace.root && it.touches == touches && Instant::now() < it.until
        };
        if let Some(current) = current.as_ref().filter(is_fresh) {
            return Ok(current.given());
        }
        stored.forget(SENT_AGAIN);
        let packed = pack(&workspace.git, &workspace.root, &self.scratch, stored).await;
        let packed = packed.map_err(|error| super::spelt(&error))?;
        let names = packed.names();
        let is_there = |it: &&mut Current| {
            it.root == workspace.root
                && it.names == names
                && it.sent_at.elapsed() < SENT_AGAIN
                && packed.files().is_empty()
        };
        if let Some(known) = current.as_mut().filter(is_there) {
            (known.touches, known.until) = (touches, Instant::now() + FRESH);
            return Ok(known.given());
        }
        for PackedFile { content, hash, path } in packed.files() {
            send_file(engine, path).await?;
            stored.note(content.clone(), *hash);
        }
        let blob = self.send_packet(engine, &workspace.root, &packed).await?;
        let snapshot = match &packed {
            Packed::Nothing => None,
            Packed::State(state) => Some(Arc::clone(&state.snapshot)),
        };
        let (root, sent_at) = (workspace.root.clone(), Instant::now());
        let until = sent_at + FRESH;
        let made = Current { root, names, snapshot, blob, touches, sent_at, until };
        Ok(current.insert(made).given())
    }

    /// Puts the packet, with this workspace, where workers find it.
    async fn send_packet(
        &self,
        engine: &Engine,
        root: &Path,
        packed: &Packed,
    ) -> Result<Arc<str>, String> {
        let workspace = match packed {
            Packed::Nothing => None,
            Packed::State(state) => {
                let names = &state.names;
                Some(Bundles {
                    commit: names.commit.clone(),
                    base: names.base.clone(),
                    name: names.name.clone(),
                    below: names.below.clone(),
                    bundles: names.bundles.iter().map(|hash| hash.to_hex().to_string()).collect(),
                })
            }
        };
        let root = root.to_owned();
        let bytes = Packet { workspace, root, ..self.packet.clone() }.encode();
        let hash = engine.put_blob(&bytes).await.map_err(|error| error.to_string())?;
        Ok(hash.to_string().into())
    }
}

impl Given {
    /// Returns what a slot changed that was given this; `patch` is the blob of it.
    pub(super) async fn changes(
        &self,
        engine: &Engine,
        patch: Option<Arc<str>>,
    ) -> Result<Option<Changes>, String> {
        let Some(snapshot) = self.snapshot.clone() else { return Ok(None) };
        let patch = match patch {
            Some(blob) => Some(parcel::blob(engine, &blob).await?),
            None => None,
        };
        Ok(Some(Changes { snapshot, patch }))
    }
}

impl Current {
    fn given(&self) -> Given {
        let (packet, snapshot) = (Arc::clone(&self.blob), self.snapshot.clone());
        Given { packet, snapshot, from: None }
    }
}

/// Puts a file of a workspace where workers find it.
async fn send_file(engine: &Engine, file: &Path) -> Result<(), String> {
    let bytes = tokio::fs::read(file).await;
    let bytes =
        bytes.map_err(|error| format!("cannot read {}: {error}", path_text::to_text(file)))?;
    engine.put_blob(&bytes).await.map(drop).map_err(|error| error.to_string())
}

/// Returns what every request to a model says, whatever is asked.
fn asked(model: &dyn Model) -> Vec<u8> {
    model.body(&Prefix::new(Arc::new(Head::new(String::new(), Vec::new()))))
}
