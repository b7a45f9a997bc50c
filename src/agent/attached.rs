//! The files that a prompt names, put into it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::guard::{Allowed, Decision, Effect, PathMeaning, PathUse, Policy};
use crate::path_text;
use crate::prompt;
use crate::tool::{Workspace, regular};

/// Most bytes of a file that are read for a prompt. Less is put in, and what
/// is left out is counted.
const READ_CAP: u64 = 16 * 1024 * 1024;

/// Returns a prompt with the files put in that it names, as far as a unit under
/// this policy may read them. They are read on a thread that may block.
pub async fn with_files(workspace: &Arc<Workspace>, policy: &Arc<Policy>, text: &str) -> String {
    let (workspace, policy) = (Arc::clone(workspace), Arc::clone(policy));
    let text = text.to_owned();
    let attaching = tokio::task::spawn_blocking(move || {
        prompt::attach(&text, |path| attached(&workspace, &policy, path))
    });
    attaching.await.expect("a prompt is put together without panics")
}

/// Reads a file that a prompt names, as far as this unit may read it.
fn attached(workspace: &Workspace, policy: &Policy, path: &Path) -> io::Result<Vec<u8>> {
    // In a copy of the workspace the copy's file is meant, as in calls of tools.
    let meant = match policy.path_meaning(&path_text::to_text(path), PathUse::Source) {
        Some(PathMeaning::Copy(copy)) => Some(copy),
        Some(PathMeaning::Original) | None => None,
    };
    let path = meant.as_deref().unwrap_or(path);
    let place = workspace.root.join(path);
    place.symlink_metadata()?;
    let arguments = serde_json::json!({"file_path": path.to_string_lossy()});
    let refused = |reason: String| io::Error::new(io::ErrorKind::PermissionDenied, reason);
    match policy.decide("Read", Effect::Reads, &arguments) {
        Decision::Allow(Allowed { places, .. }) => {
            regular::read(workspace, &place, &places, READ_CAP).map_err(io::Error::other)
        }
        // A prompt is put together before its unit can ask anybody.
        Decision::Ask(ask) => Err(refused(ask.refusal())),
        Decision::Deny { reason } => Err(refused(reason)),
    }
}
