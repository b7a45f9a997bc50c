//! What a slot has changed, until somebody else has it: it is stored for its
//! coordinator, or stays here for a person to look at.

use std::sync::Arc;

use tokio::sync::SetOnce;

use super::Shop;
use crate::fleet::ground::Lane;
use crate::fleet::spelt;

/// What a slot has changed in its lane.
pub(super) enum Change {
    Nothing,
    /// It is a blob.
    Stored {
        blob: Arc<str>,
        /// The same again: nobody has heard of the blob yet.
        patch: Vec<u8>,
    },
    /// It could not be stored.
    Unsent {
        /// A sentence that says where it is.
        kept: String,
        /// Why the server has not taken it, unless it never got there.
        why: Option<String>,
    },
}

impl Change {
    /// Returns the blob that it is.
    pub(super) fn blob(&self) -> Option<Arc<str>> {
        match self {
            Self::Stored { blob, patch: _ } => Some(Arc::clone(blob)),
            Self::Nothing | Self::Unsent { .. } => None,
        }
    }

    /// Returns why its slot has failed, if it has for this.
    pub(super) fn failure(&self) -> Option<String> {
        match self {
            Self::Nothing | Self::Stored { .. } => None,
            Self::Unsent { kept, why: Some(why) } => Some(format!("{kept}: {why}")),
            Self::Unsent { kept, why: None } => Some(kept.clone()),
        }
    }
}

impl Shop {
    /// Gives a lane back, and stores what was changed there. What nobody would hear of
    /// since `broken` is set stays here.
    pub(super) async fn change(
        &self,
        (lane, is_touched): (Lane, bool),
        broken: &SetOnce<String>,
    ) -> Change {
        let patch = match lane.finish(is_touched).await {
            Ok(finished) => finished.patch(),
            // It says itself where all is.
            Err(error) => {
                let kept = format!("what it changed could not be sent back: {}", spelt(&error));
                return Change::Unsent { kept, why: None };
            }
        };
        let Some(patch) = patch else { return Change::Nothing };
        if broken.get().is_some() {
            let kept = format!("what it changed {}", self.keeps(patch).await);
            return Change::Unsent { kept, why: None };
        }
        match self.engine.put_blob(&patch).await {
            Ok(hash) => Change::Stored { blob: hash.to_string().into(), patch },
            Err(error) => {
                let kept = self.keeps(patch).await;
                let kept = format!("what it changed could not be sent back, and {kept}");
                Change::Unsent { kept, why: Some(error.to_string()) }
            }
        }
    }

    /// Returns why nobody can hear of a slot, and where its change is: nobody hears of
    /// that either.
    pub(super) async fn unheard(&self, change: Change, why: String) -> String {
        match change {
            Change::Nothing => why,
            Change::Stored { blob: _, patch } => {
                format!("what it changed {}; {why}", self.keeps(patch).await)
            }
            Change::Unsent { kept, why: _ } => format!("{kept}; {why}"),
        }
    }

    /// Keeps a patch, and says so.
    async fn keeps(&self, patch: Vec<u8>) -> String {
        match self.outfits.keep(patch).await {
            Ok(at) => format!("is kept in {} on its worker", at.display()),
            Err(error) => format!("is lost: {}", spelt(&error)),
        }
    }
}
