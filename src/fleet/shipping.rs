//! Conversations on their way: what forks go on from on workers.
//!
//! One goes as a blob, once for all that go on from it, with the hash of the bytes
//! that its model is sent it as. A worker makes the conversation of it again and has
//! its own model render it. If those bytes are others nothing is sent: a provider
//! would not know them, and the unit would not be the one that was asked for.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::OnceCell;

use super::engine::{Engine, Hash};
use super::parcel;
use super::wire::{Conversation, Shipped};
use crate::message::Prefix;
use crate::model::Model;
use crate::tool::ForkPoint;

/// Most conversations that a worker keeps. A batch of forks has one, and each may be
/// a whole context window with its images.
const OPENED_CAP: usize = 8;

/// The fork points that a coordinator has shipped: as long as anybody may begin there.
#[derive(Default)]
pub(super) struct Shipping {
    // A mutex, because slots start on tasks of their own.
    points: Mutex<Vec<(Weak<ForkPoint>, ShippedCell)>>,
}

/// Where a fork point is shipped, by one of those that want it.
type ShippedCell = Arc<OnceCell<Shipped>>;

impl Shipping {
    /// Puts what forks begin with there where workers find it, unless it has been put
    /// there. The error is a sentence for whoever reads of the slot's end.
    pub(super) async fn of(
        &self,
        engine: &Engine,
        point: &Arc<ForkPoint>,
    ) -> Result<Shipped, String> {
        let cell = self.cell(point);
        let shipping = || async {
            let point = Arc::clone(point);
            shipped(engine, move || (point.base().clone(), Arc::clone(point.model()))).await
        };
        cell.get_or_try_init(shipping).await.cloned()
    }

    fn cell(&self, point: &Arc<ForkPoint>) -> ShippedCell {
        let mut points = self.points.lock().unwrap_or_else(PoisonError::into_inner);
        points.retain(|(known, _)| known.strong_count() > 0);
        let known = points.iter().find(|(known, _)| known.as_ptr() == Arc::as_ptr(point));
        match known {
            Some((_, cell)) => Arc::clone(cell),
            None => {
                let cell = ShippedCell::default();
                points.push((Arc::downgrade(point), Arc::clone(&cell)));
                cell
            }
        }
    }
}

/// Puts a conversation of a unit with this model where others find it. The error is a
/// sentence.
pub(super) async fn shipped(
    engine: &Engine,
    conversation: impl FnOnce() -> (Prefix, Arc<dyn Model>) + Send + 'static,
) -> Result<Shipped, String> {
    // It may have megabytes.
    let writing = move || {
        let (prefix, model) = conversation();
        let body = rendered(&*model, &prefix);
        (Conversation(prefix).encode(), body)
    };
    let written = tokio::task::spawn_blocking(writing).await;
    let (bytes, body) = written.map_err(|_| "what it goes on from cannot be written".to_owned())?;
    let blob = engine.put_blob(&bytes).await.map_err(|error| {
        format!("what it goes on from cannot be sent to workers: {}", super::spelt(&error))
    })?;
    Ok(Shipped { blob: blob.to_string().into(), body })
}

/// Returns the hash of what a model is sent a conversation as.
pub(super) fn rendered(model: &dyn Model, prefix: &Prefix) -> Arc<str> {
    Hash::of(&model.body(prefix)).to_string().into()
}

/// The conversations that a worker has opened.
#[derive(Default)]
pub(super) struct Opened {
    // A mutex, because slots start on tasks of their own. The one that was opened last
    // is the last.
    points: Mutex<VecDeque<(Key, PointCell)>>,
}

/// Where a conversation is opened, by one of those that want it.
type PointCell = Arc<OnceCell<Arc<ForkPoint>>>;

/// What decides the bytes of a conversation: what was said, and how the model is
/// asked. That may be another one with each packet.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    packet: Arc<str>,
    model: Arc<str>,
    shipped: Shipped,
}

impl Opened {
    /// Returns where units begin that go on from this, with this model: all of them
    /// share the same bytes. The error is a sentence for whoever reads of the slot's
    /// end.
    pub(super) async fn point(
        &self,
        engine: &Engine,
        (packet, shipped): (&Arc<str>, &Shipped),
        model: Arc<dyn Model>,
    ) -> Result<Arc<ForkPoint>, String> {
        let (packet, name) = (Arc::clone(packet), Arc::clone(model.name()));
        let cell = self.cell(Key { packet, model: name, shipped: shipped.clone() });
        cell.get_or_try_init(|| opened(engine, shipped, model)).await.cloned()
    }

    fn cell(&self, key: Key) -> PointCell {
        let mut points = self.points.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, cell)) = points.iter().find(|(known, _)| *known == key) {
            return Arc::clone(cell);
        }
        if points.len() >= OPENED_CAP {
            // Whoever is at work there holds its own.
            points.pop_front();
        }
        let cell = PointCell::default();
        points.push_back((key, Arc::clone(&cell)));
        cell
    }
}

async fn opened(
    engine: &Engine,
    shipped: &Shipped,
    model: Arc<dyn Model>,
) -> Result<Arc<ForkPoint>, String> {
    let bytes = parcel::blob(engine, &shipped.blob).await?;
    let body = Arc::clone(&shipped.body);
    let reading = tokio::task::spawn_blocking(move || read(&bytes, &body, model));
    reading.await.map_err(|_| "what it goes on from cannot be read".to_owned())?
}

/// Makes a conversation of its bytes, and checks that the model would be sent the same
/// as before.
fn read(bytes: &[u8], body: &str, model: Arc<dyn Model>) -> Result<Arc<ForkPoint>, String> {
    let Conversation(prefix) = Conversation::decode(bytes)
        .map_err(|error| format!("what it goes on from cannot be read: {error}"))?;
    if *rendered(&*model, &prefix) != *body {
        let name = model.name();
        return Err(format!(
            "this worker would send `{name}` other bytes than the conversation has been sent as \
             that it goes on from, so nothing was sent; set up `{name}` in its `config.toml` as \
             where the run is, and install the same tine on both"
        ));
    }
    Ok(Arc::new(ForkPoint::with_base(prefix, model)))
}

#[cfg(test)]
mod tests;
