//! A unit of another machine's run: what both that machine and this one let it
//! do.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Policy, PolicyParts};
use crate::guard::paths;
use crate::guard::subjects::Subjects;
use crate::guard::{Rules, Sourced};

impl Policy {
    /// Returns what is left of this policy, which is of a copy of their working
    /// directory on this machine, to a unit that came with theirs. It is never
    /// more than theirs.
    ///
    /// What either denies or has asked is so here; a rule of theirs that names a
    /// file by its whole path means the copy, too, and one that says `~/` both
    /// homes. What allows are their rules alone, and what a skill allows there:
    /// rules of this machine's user are about this user's own work. Theirs were
    /// written for another machine, so they allow no file outside of this
    /// workspace, wherever their patterns would reach; and what of this machine
    /// is kept secret, is. The mode is no more than both.
    #[must_use]
    pub fn governed_by(&self, theirs: &PolicyParts) -> Self {
        let PolicyParts { root, copies, reach, allow, ask, deny, denied, leave } = theirs;
        let homes = self.secrets.homes();
        let both = |theirs: &[Sourced], own: &[Sourced]| -> Vec<Sourced> {
            let all = theirs.iter().cloned().chain(at_home(theirs, homes));
            all.chain(own.iter().cloned()).collect()
        };
        let rules = Rules {
            deny: both(deny, &self.rules.deny),
            ask: both(ask, &self.rules.ask),
            allow: allow.clone(),
        };
        Self {
            mode: self.mode.bounded(*reach),
            rules: Arc::new(rules),
            denied: both(denied, &self.denied).into(),
            leave: leave.as_slice().into(),
            copies: self.copies.and_elsewhere(copies, (root, self.root())),
            is_governed: true,
            ..self.clone()
        }
    }

    /// Returns the same policy where a directory here is a copy of another
    /// machine's `original`, whose links have been followed there. What is barred
    /// by its whole path there is so in the copy.
    #[must_use]
    pub fn standing_for(&self, (original, copy): (&Path, &Path)) -> Self {
        Self { copies: self.copies.and_elsewhere(&[], (original, copy)), ..self.clone() }
    }

    /// Tells whether rules may allow what a call is about.
    pub(super) fn is_in_bounds(&self, subjects: &Subjects) -> bool {
        let is_inside = |path: &PathBuf| paths::place(self.root(), path, &self.roots).is_some();
        !self.is_governed || (subjects.entries.is_empty() && subjects.paths.iter().all(is_inside))
    }

    /// Returns the rules whose files searches show though they hold secrets.
    pub(super) fn shown(&self) -> impl Iterator<Item = &Sourced> {
        self.rules.allow.iter().filter(|_| !self.is_governed)
    }
}

/// Returns what rules that say `~/` mean at these homes.
pub(super) fn at_home<'a>(
    rules: &'a [Sourced],
    homes: &'a [PathBuf],
) -> impl Iterator<Item = Sourced> + 'a {
    let at = |rule: &'a Sourced| {
        let rules = homes.iter().filter_map(|home| rule.rule.at_home(home));
        rules.map(|it| Sourced { rule: it, source: rule.source })
    };
    rules.iter().flat_map(at)
}

#[cfg(test)]
mod tests;
