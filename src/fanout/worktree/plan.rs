//! What a worktree's changes make of the workspace as it is now.
//!
//! For each file there are three: what the worktree began with, what the
//! workspace has, what the worktree has. This file reads and compares; it
//! changes nothing.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use crate::git::worktree::{
    Change, FILE_CAP, Merged, Node, NodeKind, Side, contents, link_target, merge,
};
use crate::git::{Git, GitError};
use crate::guard::{Decision, Mode, Policy};
use crate::prompt::cut;

/// Most characters of one file's conflicts that a parent reads.
const SIDES_CAP: usize = 1_200;

/// Most bytes of all files of one worktree that are changed, as they are and as
/// they will be. They are in memory at once, and so is what is made of them.
const CHANGES_CAP: usize = 128 * 1024 * 1024;

/// What stands under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Thing {
    /// Nothing.
    Nothing,
    /// A file.
    File(Regular),
    /// A symbolic link that leads there.
    Link(PathBuf),
    /// A directory, a device, a file that is too large.
    Other(&'static str),
}

/// A file's bytes, and whether it can be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Regular {
    pub(super) bytes: Vec<u8>,
    pub(super) is_executable: bool,
}

/// One name that is to stand for something else.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) path: PathBuf,
    pub(super) from: Thing,
    pub(super) to: Thing,
}

/// A file whose change does not fit the workspace.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    /// Its name below the top.
    pub(super) path: PathBuf,
    /// Why, and both sides where they can be shown.
    pub(super) text: String,
}

/// Why nothing was put into the workspace.
#[derive(Debug)]
pub(super) enum NotPut {
    /// These may not be changed at all.
    Refused(Vec<Conflict>),
    /// These do not fit.
    Conflicts(Vec<Conflict>),
    /// Something else, in words.
    Failed(String),
}

/// Where changes are to go.
pub(super) struct Target<'a> {
    /// The top of the working tree.
    pub(super) top: &'a Path,
    /// Where the unit that gets them works.
    pub(super) policy: &'a Policy,
    /// What the unit that made them is called.
    pub(super) unit: &'a str,
    /// A directory of our own.
    pub(super) scratch: &'a Path,
}

/// Says which changes may not be made at all.
pub(super) fn refused(target: &Target<'_>, changes: &[Change]) -> Vec<Conflict> {
    let refused = changes.iter().filter_map(|change| {
        let text = target.refuses(&target.top.join(&change.path))?;
        Some(Conflict { path: change.path.clone(), text })
    });
    refused.collect()
}

/// The steps that put a worktree's changes into the workspace.
#[derive(Debug, Default)]
pub(super) struct LandingPlan {
    /// One for each file.
    pub(super) steps: Vec<Step>,
    /// Ignored files that stay out, since the workspace has others in their place.
    pub(super) left_behind: Vec<Conflict>,
}

/// Works out the steps, or says what is in the way: then there are none.
pub(super) fn plan(
    git: &Git,
    target: &Target<'_>,
    changes: &[Change],
) -> Result<LandingPlan, NotPut> {
    let (mut steps, mut conflicts, mut bytes) = (Vec::new(), Vec::new(), 0);
    let mut left_behind = Vec::new();
    for change in changes {
        let step = step(git, target, change);
        match step.map_err(|error| NotPut::Failed(error.to_string()))? {
            Ok(step) if step.from == step.to => {}
            Ok(step) => {
                bytes += step.from.bytes() + step.to.bytes();
                if bytes > CHANGES_CAP {
                    let most = CHANGES_CAP / 1024 / 1024;
                    let why = format!("its files have more than {most} MiB, before and after");
                    return Err(NotPut::Failed(why));
                }
                steps.push(step);
            }
            Err(_) if change.is_ignored => {
                let text = "the workspace has a different one, which is kept".to_owned();
                left_behind.push(Conflict { path: change.path.clone(), text });
            }
            Err(text) => conflicts.push(Conflict { path: change.path.clone(), text }),
        }
    }
    // What goes makes room for what comes.
    steps.sort_by_key(|step| step.to != Thing::Nothing);
    match conflicts.is_empty() {
        true => Ok(LandingPlan { steps, left_behind }),
        false => Err(NotPut::Conflicts(conflicts)),
    }
}

impl Thing {
    fn bytes(&self) -> usize {
        match self {
            Self::File(file) => file.bytes.len(),
            Self::Nothing | Self::Link(_) | Self::Other(_) => 0,
        }
    }
}

impl Target<'_> {
    fn sides<'a>(&'a self, [ours, base, theirs]: [&'a [u8]; 3]) -> [Side<'a>; 3] {
        let side = |name, bytes| Side { name, bytes };
        [side("workspace", ours), side("before", base), side(self.unit, theirs)]
    }

    /// Says why nothing may be put there.
    fn refuses(&self, path: &Path) -> Option<String> {
        let inside = |root: &PathBuf| {
            let root = root.canonicalize().unwrap_or_else(|_| root.clone());
            path.starts_with(root)
        };
        if !self.policy.roots().iter().any(inside) {
            return Some("it is outside the workspace".to_owned());
        }
        let above = path.ancestors().skip(1).take_while(|above| *above != self.top);
        for above in above {
            if above.symlink_metadata().is_ok_and(|found| found.is_symlink()) {
                return Some("a link leads to its directory".to_owned());
            }
        }
        // What a mode would ask about was asked in the worktree. What a rule is
        // about may have come to be there in any way: by a command, for one. And
        // nothing that is planned changes a file, wherever it is done.
        let explained = self.policy.explain_entry(path);
        let is_forbidden = explained.rule.is_some() || self.policy.mode() == Mode::Plan;
        match (explained.decision, explained.rule) {
            (Decision::Deny { reason }, _) if is_forbidden => Some(reason),
            (Decision::Ask(ask), Some(_)) => {
                Some(format!("{}, which a merge does not", ask.reason))
            }
            (Decision::Deny { .. } | Decision::Allow(_) | Decision::Ask(_), _) => None,
        }
    }
}

/// Works out what becomes of one file. The inner error is a conflict.
fn step(git: &Git, target: &Target<'_>, change: &Change) -> Result<Result<Step, String>, GitError> {
    let thing = |node: &Option<Node>| thing(git, node.as_ref(), &change.path);
    let (base, theirs) = (thing(&change.before)?, thing(&change.after)?);
    let path = target.top.join(&change.path);
    let ours = look(&path)
        .map_err(|error| GitError::Failed { message: format!("{}: {error}", path.display()) })?;
    let unchanged = match (&ours, &base) {
        (Thing::File(ours), Thing::File(base)) => ours.bytes == base.bytes,
        _ => ours == base,
    };
    let to = match (&ours, &base, &theirs) {
        (Thing::Other(what), ..) | (_, Thing::Other(what), _) | (.., Thing::Other(what)) => {
            Err((*what).to_owned())
        }
        (Thing::File(ours), Thing::File(base), Thing::File(theirs)) => {
            merged(git, target, [ours, base, theirs])?
        }
        _ if unchanged => Ok(theirs),
        _ if ours == theirs => Ok(theirs),
        (Thing::File(ours), Thing::Nothing, Thing::File(theirs)) => {
            let sides = target.sides([&ours.bytes, b"", &theirs.bytes]);
            Err(match merge(git, target.scratch, sides)? {
                Merged::Conflicts(text) => format!("both made it\n\n{}", sides_of(&text)),
                Merged::Clean(_) | Merged::Binary => "both made it, with other content".to_owned(),
            })
        }
        (Thing::Nothing, ..) => Err("it is gone from the workspace".to_owned()),
        (.., Thing::Nothing) => {
            Err(format!("{} deleted it, and the workspace has changed it", target.unit))
        }
        (Thing::File(_) | Thing::Link(_), ..) => {
            Err("one of both is a link, and the workspace has changed it".to_owned())
        }
    };
    Ok(to.map(|to| Step { path, from: ours, to }))
}

/// Merges three files, their bits and their bytes.
fn merged(
    git: &Git,
    target: &Target<'_>,
    [ours, base, theirs]: [&Regular; 3],
) -> Result<Result<Thing, String>, GitError> {
    let is_executable = match theirs.is_executable == base.is_executable {
        true => ours.is_executable,
        false => theirs.is_executable,
    };
    let bytes = if ours.bytes == base.bytes {
        Merged::Clean(theirs.bytes.clone())
    } else if theirs.bytes == base.bytes || theirs.bytes == ours.bytes {
        Merged::Clean(ours.bytes.clone())
    } else {
        let sides = target.sides([&ours.bytes, &base.bytes, &theirs.bytes]);
        merge(git, target.scratch, sides)?
    };
    Ok(match bytes {
        Merged::Clean(bytes) => Ok(Thing::File(Regular { bytes, is_executable })),
        Merged::Conflicts(text) => Err(format!("both changed it\n\n{}", sides_of(&text))),
        Merged::Binary => Err("both changed it, and it is no text".to_owned()),
    })
}

/// Returns what a name stood for in a tree.
fn thing(git: &Git, node: Option<&Node>, path: &Path) -> Result<Thing, GitError> {
    let Some(Node { kind, object }) = node else { return Ok(Thing::Nothing) };
    match kind {
        NodeKind::File { is_executable } => {
            let bytes = contents(git, object, path)?;
            Ok(Thing::File(Regular { bytes, is_executable: *is_executable }))
        }
        NodeKind::Link => Ok(Thing::Link(link_target(git, object)?)),
        NodeKind::Submodule => Ok(Thing::Other("it is a repository of its own")),
    }
}

/// Returns what a name stands for now. No link is followed.
fn look(path: &Path) -> io::Result<Thing> {
    let found = match path.symlink_metadata() {
        Ok(found) => found,
        Err(error) if is_nothing(&error) => return Ok(Thing::Nothing),
        Err(error) => return Err(error),
    };
    if found.is_symlink() {
        return path.read_link().map(Thing::Link);
    }
    if !found.is_file() {
        return Ok(Thing::Other("it is no file in the workspace"));
    }
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
    let is_executable = found.permissions().mode() & 0o100 != 0;
    let mut bytes = Vec::new();
    file.take(FILE_CAP as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > FILE_CAP {
        return Ok(Thing::Other("it is too large to be merged"));
    }
    Ok(Thing::File(Regular { bytes, is_executable }))
}

fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Returns the conflicts of a merge, both sides of each, as far as they fit.
fn sides_of(merged: &[u8]) -> String {
    let text = String::from_utf8_lossy(merged);
    let (mut sides, mut is_inside) = (String::new(), false);
    for line in text.lines() {
        is_inside |= line.starts_with("<<<<<<< ");
        if is_inside {
            sides.push_str(line);
            sides.push('\n');
        }
        is_inside &= !line.starts_with(">>>>>>> ");
    }
    cut(sides.trim_end(), SIDES_CAP, None)
}
