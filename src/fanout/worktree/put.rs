//! The one way through which a worktree's changes get into the workspace: all
//! of them, or none.
//!
//! They go through the door of the file tools, so files are locked, journalled
//! and noted like any edit, and no link leads them elsewhere. Links go through it
//! as well: one that is made, led elsewhere or removed is journalled itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::unistd::{UnlinkatFlags, unlinkat};

use super::plan::{Regular, Step, Thing};
use crate::event::Confinement;
use crate::guard::CommandBounds;
use crate::path_text;
use crate::tool::blocking::to_the_end;
use crate::tool::change::commit::Link;
use crate::tool::change::{Before, Change, Held, Planned, Relink, make_with_links};
use crate::tool::replace::{Access, Rights};
use crate::tool::roots::Roots;
use crate::tool::{Granted, ToolContext, ToolError, Workspace};

/// What the changes of a worktree are called where each belongs to a call.
const CALL: &str = "worktree";

/// Files of a working tree that no unit changes meanwhile.
pub(super) struct Hold {
    call: Granted,
    held: Vec<Held>,
}

impl Hold {
    /// Waits for all files among the paths. A link is not held.
    pub(super) async fn wait(context: &ToolContext, paths: &[PathBuf]) -> Result<Self, ToolError> {
        let is_link = |path: &&PathBuf| path.symlink_metadata().is_ok_and(|at| at.is_symlink());
        let files: Vec<PathBuf> = paths.iter().filter(|path| !is_link(path)).cloned().collect();
        let call = Granted {
            id: CALL.into(),
            confinement: Confinement::NONE,
            script: None,
            places: files.clone(),
            bounds: CommandBounds::NONE,
        };
        let held = Held::wait_all(context, &call, files).await?;
        Ok(Self { call, held })
    }

    /// Makes every step or none. `top` is where it ends which directories are
    /// removed that are left empty.
    pub(super) async fn put(
        self,
        context: &ToolContext,
        top: &Path,
        steps: Vec<Step>,
    ) -> Result<(), ToolError> {
        let Self { call, held } = self;
        let gone: Vec<PathBuf> = steps
            .iter()
            .filter(|step| step.to == Thing::Nothing)
            .map(|step| step.path.clone())
            .collect();
        let workspace = Arc::clone(&context.workspace);
        let (planned, relinked) = to_the_end(move || work_out(&workspace, held, steps)).await?;
        make_with_links(context, &call, planned, relinked).await?;
        let (workspace, top) = (Arc::clone(&context.workspace), top.to_owned());
        to_the_end(move || remove_empty(&workspace.roots, &top, &gone)).await;
        Ok(())
    }
}

/// Works out every change. Nobody but another program can have changed
/// anything since it was looked at.
fn work_out(
    workspace: &Workspace,
    mut held: Vec<Held>,
    steps: Vec<Step>,
) -> Result<(Vec<Planned>, Vec<Relink>), ToolError> {
    let (mut planned, mut relinked) = (Vec::new(), Vec::new());
    for step in steps {
        match held.iter().position(|held| held.path == step.path) {
            Some(at) => planned.push(plan(held.swap_remove(at), step)?),
            None => relinked.push(relink(workspace, step)?),
        }
    }
    Ok((planned, relinked))
}

/// Works out the change of a file, or of a name that nothing has.
fn plan(held: Held, step: Step) -> Result<Planned, ToolError> {
    let before = held.before()?;
    let was = before.as_ref().map(|before| &*before.bytes);
    let looked_at = match &step.from {
        Thing::File(Regular { bytes, .. }) => Some(bytes.as_slice()),
        Thing::Nothing | Thing::Link(_) | Thing::Other(_) => None,
    };
    if was != looked_at {
        return Err(ToolError::tell(format!("{} changed meanwhile", held.shown())));
    }
    let change = change(step.to, before.as_ref())
        .ok_or_else(|| ToolError::tell(format!("{} is no file", held.shown())))?;
    Ok(Planned { held, before, change })
}

/// Works out the change of a link.
fn relink(workspace: &Workspace, step: Step) -> Result<Relink, ToolError> {
    let Step { path, from, to } = step;
    let shown = path_text::shown(&workspace.root, &path);
    let found = workspace.roots.spot(&path).and_then(|spot| Link::at(&spot));
    match (found, from) {
        (Ok(Some(was)), Thing::Link(from)) if was.to == from => {
            let change = change(to, None);
            let change = change.ok_or_else(|| ToolError::tell(format!("{shown} is no file")))?;
            Ok(Relink { path, was, change })
        }
        (Ok(_), _) => Err(ToolError::tell(format!("{shown} changed meanwhile"))),
        (Err(error), _) => Err(ToolError::tell(format!("{shown}: {error}"))),
    }
}

fn change(to: Thing, before: Option<&Before>) -> Option<Change> {
    Some(match to {
        Thing::File(Regular { bytes, is_executable }) => {
            let access = access(before, is_executable);
            Change::Write { bytes: bytes.into(), access }
        }
        Thing::Link(to) => Change::Link(to),
        Thing::Nothing => Change::Delete,
        Thing::Other(_) => return None,
    })
}

fn access(before: Option<&Before>, is_executable: bool) -> Access {
    let Some(before) = before else {
        return if is_executable { Access::Runnable } else { Access::Usual };
    };
    let mode = with_bit(before.rights.mode, is_executable);
    if mode == before.rights.mode {
        Access::Usual
    } else {
        Access::Exactly(Rights { mode, ..before.rights })
    }
}

/// For whom it can be read, it can be run.
fn with_bit(mode: u32, is_executable: bool) -> u32 {
    match (mode & 0o100 != 0, is_executable) {
        (false, true) => mode | ((mode & 0o444) >> 2),
        (true, false) => mode & !0o111,
        (true, true) | (false, false) => mode,
    }
}

/// Removes the directories that deleted files leave empty: git has none.
fn remove_empty(roots: &Roots, top: &Path, gone: &[PathBuf]) {
    for path in gone {
        for directory in path.ancestors().skip(1).take_while(|above| *above != top) {
            let Ok(spot) = roots.spot(directory) else { break };
            // It is not empty, which is no harm.
            if unlinkat(spot.directory(), spot.name(), UnlinkatFlags::RemoveDir).is_err() {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;
    use crate::tool::testing::Place;

    fn file(text: &str, is_executable: bool) -> Thing {
        Thing::File(Regular { bytes: text.into(), is_executable })
    }

    async fn put(place: &Place, steps: Vec<Step>, then: impl FnOnce()) -> Result<(), String> {
        let paths: Vec<PathBuf> = steps.iter().map(|step| step.path.clone()).collect();
        let hold = Hold::wait(&place.context, &paths).await.unwrap();
        then();
        let put = hold.put(&place.context, place.root(), steps).await;
        put.map_err(|error| error.to_string())
    }

    fn step(place: &Place, name: &str, from: Thing, to: Thing) -> Step {
        Step { path: place.path(name), from, to }
    }

    #[tokio::test]
    async fn a_directory_that_is_swapped_for_a_link_leads_nothing_outside() {
        let link = || Thing::Link("before".into());
        for (from, to) in [
            (link(), Thing::Link("after".into())),
            (link(), file("new", true)),
            (link(), Thing::Nothing),
            (Thing::Nothing, Thing::Link("after".into())),
            (Thing::Nothing, file("new", true)),
        ] {
            let place = Place::new();
            place.put("d/other", "");
            let outside = place.root().with_file_name("outside");
            std::fs::create_dir(&outside).unwrap();
            if from == link() {
                symlink("before", place.path("d/name")).unwrap();
                symlink("before", outside.join("name")).unwrap();
            }
            let stands = || outside.join("name").read_link().ok();
            let before = stands();
            let said = format!("{from:?} {to:?}");
            let steps = vec![step(&place, "d/name", from, to)];
            let swap = || {
                std::fs::rename(place.path("d"), place.path("was")).unwrap();
                symlink(&outside, place.path("d")).unwrap();
            };
            let done = put(&place, steps, swap).await;
            assert_eq!(
                (stands(), outside.join("name").exists()),
                (before, false),
                "{said}: {done:?}"
            );
        }
    }

    #[tokio::test]
    async fn what_does_not_fit_leaves_files_their_rights_and_links_where_they_led() {
        let place = Place::new();
        let path = place.put("file", "old");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        symlink("before", place.path("link")).unwrap();
        let steps = vec![
            step(&place, "link", Thing::Link("before".into()), file("x", false)),
            step(&place, "file", file("old", false), Thing::Link("after".into())),
            step(&place, "new/link", Thing::Nothing, Thing::Link("after".into())),
            step(&place, "new/link/below", Thing::Nothing, file("x", false)),
        ];
        let refused = put(&place, steps, || ()).await.unwrap_err();
        assert!(refused.ends_with("was put back; nothing is changed."), "{refused}");
        assert_eq!(place.path("link").read_link().unwrap(), Path::new("before"));
        assert_eq!((place.bytes("file"), place.path("new").exists()), (b"old".to_vec(), false));
        assert_eq!(path.symlink_metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[tokio::test]
    async fn links_and_files_take_each_others_places_and_what_a_file_held_is_kept() {
        let place = Place::new();
        place.put("file", "old");
        place.put("d/e/gone", "x");
        symlink("before", place.path("link")).unwrap();
        let steps = vec![
            step(&place, "d/e/gone", file("x", false), Thing::Nothing),
            step(&place, "file", file("old", false), Thing::Link("after".into())),
            step(&place, "link", Thing::Link("before".into()), file("new", true)),
            step(&place, "run", Thing::Nothing, file("new", true)),
        ];
        put(&place, steps, || ()).await.unwrap();
        assert_eq!(place.path("file").read_link().unwrap(), Path::new("after"));
        let mode = |name: &str| place.path(name).symlink_metadata().unwrap().permissions().mode();
        assert_eq!((mode("link"), place.bytes("link")), (mode("run"), b"new".to_vec()));
        assert_eq!((mode("run") & 0o100, place.path("d").exists()), (0o100, false));
        // A link that becomes a file, or a file that becomes one, can be undone as well.
        let told = place.changes();
        let change = |name: &str| {
            let path = crate::path_text::to_text(&place.path(name));
            told.iter().find(|change| *change.path == *path).unwrap()
        };
        let kept = |name: &str| {
            let digest = change(name).before.unwrap().digest;
            place.workspace.before.read(digest).unwrap()
        };
        assert_eq!((told.len(), kept("file"), kept("link")), (4, b"old".into(), b"before".into()));
        let is_link = |name: &str| {
            let (before, after) = (change(name).before, change(name).after);
            [before, after].map(|state| state.unwrap().is_link())
        };
        assert_eq!((is_link("file"), is_link("link")), ([false, true], [true, false]));
    }
}
