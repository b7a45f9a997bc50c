//! What slots are run with, made once for each run and checkout.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use blake3::Hash;
use tokio::sync::OnceCell;

use super::{Outfit, Outfitted};
use crate::fanout::Pool;
use crate::fleet::engine::Engine;
use crate::fleet::ground::{Ground, GroundError, Grounds, Lane};
use crate::fleet::packet::Packet;
use crate::fleet::parcel;
use crate::fleet::spelt;

/// Most packets that are kept unpacked. A run has one for each state of its workspace
/// in which slots started.
const PACKETS_CAP: usize = 8;

/// How often is looked for what runs have left long ago.
const TIDYING: Duration = Duration::from_secs(60);

/// What slots are run with.
pub(super) struct Outfits {
    grounds: Arc<Grounds>,
    outfit: Arc<dyn Outfit>,
    pool: Pool,
    // A mutex, because slots start on tasks of their own.
    unpacked: Mutex<HashMap<Arc<str>, Cell>>,
}

/// What slots are run with in a lane. It goes when this does, whatever that is for,
/// unless the lane is lent again.
pub(super) struct Lending<'a> {
    outfits: &'a Outfits,
    packet: &'a str,
    root: PathBuf,
    is_kept: bool,
}

impl Lending<'_> {
    /// Has it stay for the next slot there.
    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Lending<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.outfits.forget(self.packet, &self.root);
        }
    }
}

/// Why a slot cannot begin.
pub(super) struct Unready {
    /// A sentence for whoever reads of its end.
    pub(super) why: String,
    /// Whether it is for want of room on the disk.
    pub(super) wants_room: bool,
}

impl From<GroundError> for Unready {
    fn from(error: GroundError) -> Self {
        let wants_room = matches!(error, GroundError::NoRoom { directory: _, source: _ });
        Self { why: spelt(&error), wants_room }
    }
}

impl From<String> for Unready {
    fn from(why: String) -> Self {
        Self { why, wants_room: false }
    }
}

/// Where a packet is unpacked, by one of those that want it.
type Cell = Arc<OnceCell<Arc<Unpacked>>>;

/// What one packet comes to.
struct Unpacked {
    packet: Packet,
    ground: Arc<Ground>,
    /// By the root of the lane.
    outfitted: Mutex<HashMap<PathBuf, Arc<Outfitted>>>,
}

impl Outfits {
    pub(super) fn new(grounds: Arc<Grounds>, outfit: Arc<dyn Outfit>, pool: Pool) -> Self {
        Self { grounds, outfit, pool, unpacked: Mutex::default() }
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Returns a lane of the packet that is called so, and what slots are run with
    /// there.
    pub(super) async fn ready(
        &self,
        engine: &Engine,
        packet: &Arc<str>,
    ) -> Result<(Lane, Arc<Outfitted>), Unready> {
        let cell = {
            let mut unpacked = self.unpacked.lock().unwrap_or_else(PoisonError::into_inner);
            if unpacked.len() >= PACKETS_CAP && !unpacked.contains_key(packet) {
                // What is at work holds its own.
                unpacked.clear();
            }
            Arc::clone(unpacked.entry(Arc::clone(packet)).or_default())
        };
        let unpacked = cell.get_or_try_init(|| self.unpack(engine, packet)).await?;
        let run = self.grounds.hold_run(&unpacked.packet.session);
        let lane = unpacked.ground.lane().await?.of_run(run);
        let outfitted = self.outfitted(unpacked, lane.root().to_owned()).await?;
        Ok((lane, outfitted))
    }

    /// Removes the copies that no slot works in, and what runs have left that have no
    /// slot here: there is no room.
    pub(super) async fn shed(&self) {
        self.unpacked.lock().unwrap_or_else(PoisonError::into_inner).clear();
        // What is left takes room, and whoever needs that is told.
        let _ = self.grounds.shed().await;
    }

    /// Removes what runs have left long ago, again and again.
    pub(super) async fn tidies(&self) {
        loop {
            tokio::time::sleep(TIDYING).await;
            // What is left takes room, and whoever needs that is told.
            let _ = self.grounds.tidy().await;
        }
    }

    /// Keeps a patch that nobody else has, and returns where.
    pub(super) async fn keep(&self, patch: Vec<u8>) -> Result<PathBuf, GroundError> {
        self.grounds.keep(patch).await
    }

    /// Has what slots are run with in a lane go with it.
    pub(super) fn lend<'a>(&'a self, packet: &'a str, lane: &Lane) -> Lending<'a> {
        Lending { outfits: self, packet, root: lane.root().to_owned(), is_kept: false }
    }

    fn forget(&self, packet: &str, root: &Path) {
        let unpacked = self.unpacked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(unpacked) = unpacked.get(packet).and_then(|cell| cell.get()) {
            unpacked.outfitted.lock().unwrap_or_else(PoisonError::into_inner).remove(root);
        }
    }

    async fn unpack(&self, engine: &Engine, packet: &str) -> Result<Arc<Unpacked>, Unready> {
        let bytes = parcel::blob(engine, packet).await?;
        let packet = Packet::decode(&bytes)
            .map_err(|error| format!("what the run shares cannot be read: {error}"))?;
        let scratch = self.grounds.scratch()?;
        let fetch = |hash: Hash| fetched(engine, scratch.path(), hash);
        let ground = self.grounds.open(&packet.names()?, fetch).await?;
        Ok(Arc::new(Unpacked { packet, ground, outfitted: Mutex::default() }))
    }

    async fn outfitted(
        &self,
        unpacked: &Arc<Unpacked>,
        root: PathBuf,
    ) -> Result<Arc<Outfitted>, String> {
        let known = |unpacked: &Unpacked| {
            let all = unpacked.outfitted.lock().unwrap_or_else(PoisonError::into_inner);
            all.get(&root).cloned()
        };
        if let Some(outfitted) = known(unpacked) {
            return Ok(outfitted);
        }
        let (outfit, pool) = (Arc::clone(&self.outfit), self.pool.clone());
        let (from, at) = (Arc::clone(unpacked), root.clone());
        let making = move || outfit.outfit(&from.packet, &at, &pool);
        let made = tokio::task::spawn_blocking(making).await;
        let made = Arc::new(made.map_err(|_| "what it is run with could not be made".to_owned())??);
        let mut all = unpacked.outfitted.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(all.entry(root).or_insert(made)))
    }
}

/// Fetches a file of a workspace.
async fn fetched(engine: &Engine, scratch: &Path, hash: Hash) -> Result<PathBuf, String> {
    let bytes = parcel::blob(engine, &hash.to_hex()).await?;
    let file = scratch.join(&*hash.to_hex());
    let written = tokio::fs::write(&file, bytes).await;
    written.map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::num::NonZeroUsize;

    use tokio::time::sleep;

    use super::*;
    use crate::event::SessionId;
    use crate::fleet::ground::RUNS;
    use crate::git::tests::program;

    struct Nothing;

    impl Outfit for Nothing {
        fn outfit(&self, _: &Packet, _: &Path, _: &Pool) -> Result<Outfitted, String> {
            Err("nothing is run here".to_owned())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_run_has_left_goes_although_no_other_slot_comes() {
        let place = tempfile::tempdir().unwrap();
        let grounds = Arc::new(Grounds::new(&program(), place.path()).unwrap());
        let left = place.path().join(RUNS).join("session");
        fs::create_dir(&left).unwrap();
        drop(grounds.hold_run(&SessionId("session".into())));
        let outfits = Outfits::new(grounds, Arc::new(Nothing), Pool::new(NonZeroUsize::MIN));
        let gone = async {
            while left.exists() {
                sleep(TIDYING).await;
            }
        };
        let day = Duration::from_secs(24 * 60 * 60);
        tokio::select! {
            () = outfits.tidies() => {}
            () = gone => {}
            () = sleep(day) => panic!("it is still there"),
        }
    }
}
