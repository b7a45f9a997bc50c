//! `tine worktree`: the worktrees of agents that are still there.

use std::io::{self, Write as _};

use super::args::WorktreeCommand;
use super::exit::{Exit, Refusal};
use super::session::finish;
use super::{say, start};
use crate::config::{Environment, dirs};
use crate::fanout::worktree::claim::{self, About, Found, Pruned};
use crate::message::counted;
use crate::path_text::to_text;
use crate::report::sanitise;

/// Does what is asked with all worktrees there are.
pub(super) fn run(environment: &Environment, command: &WorktreeCommand) -> Result<Exit, Refusal> {
    let root = dirs::worktrees_root(environment).map_err(|_| start::no_home())?;
    let found = claim::all(&root, &start::git_here(environment));
    match command {
        WorktreeCommand::List => finish(list(&found)),
        WorktreeCommand::Prune => {
            let exit = prune(found);
            claim::tidy(&root);
            exit
        }
    }
}

/// Returns how many there are whose process is dead.
pub(super) fn left_over(environment: &Environment) -> usize {
    let Ok(root) = dirs::worktrees_root(environment) else { return 0 };
    claim::all(&root, &start::git_here(environment))
        .iter()
        .filter(|found| found.claim.is_some())
        .count()
}

fn list(found: &[Found]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for found in found {
        let state = match &found.claim {
            None => "in use".to_owned(),
            Some(_) => left(found),
        };
        let line = format!("{}  {state}  {}", whose(found), to_text(&found.place));
        writeln!(out, "{}", sanitise::line(&line))?;
    }
    Ok(())
}

/// Says what is left of a worktree whose process is dead.
fn left(found: &Found) -> String {
    match (found.changed(), &found.about) {
        (Ok(_), None) => "came to nothing".to_owned(),
        (Ok(files), Some(_)) => {
            let files = u64::try_from(files).unwrap_or(u64::MAX);
            format!("left over, {}", counted(files, "changed file"))
        }
        (Err(error), _) => format!("left over, and cannot be read: {error}"),
    }
}

fn whose(found: &Found) -> String {
    match &found.about {
        Some(About { session, unit, .. }) => format!("{session} {unit}"),
        None => "-".to_owned(),
    }
}

fn prune(found: Vec<Found>) -> Result<Exit, Refusal> {
    let mut exit = Exit::Done;
    let mut out = io::stdout().lock();
    for found in found.into_iter().filter(|found| found.claim.is_some()) {
        let place = to_text(&found.place);
        let line = match found.prune() {
            Ok(Pruned::Removed) => format!("removed {place}, which held no changes"),
            Ok(Pruned::Saved(patch)) => {
                format!("removed {place}; its changes are in {}", to_text(&patch))
            }
            Err(error) => {
                exit = Exit::Error;
                let hint = error.hint().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
                say(&format!("error: {place} is left as it is: {error}{hint}"));
                continue;
            }
        };
        finish(writeln!(out, "{}", sanitise::line(&line)))?;
    }
    Ok(exit)
}
