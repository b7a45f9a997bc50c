//! What a session did to files, and how to take it back.
//!
//! A fold over events: [`Changes`] knows which changes of each file are in
//! force, and says what a file has to be again and why it cannot be. It looks
//! at no file: what they hold now it is told.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::event::{
    Access, Backend, ChangedBy, Confinement, Digest, Event, EventKind, FileChange, FileState,
    Invocation, Seq, UnitHead, UnitId, Worktree,
};

/// The tool that runs commands. Logs of earlier tines don't say how one was
/// kept in bounds.
const BASH: &str = "Bash";

/// What is taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    /// What came of the last prompt that changed files and is still in force.
    LastPrompt,
    /// Whatever happened after this event.
    After(Seq),
    /// What a unit did, and those it started.
    Unit(UnitId),
    /// The same of a slot, and of those that ran again in its place.
    Slot(UnitId),
}

/// What a file holds now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Now {
    /// There is no file.
    Missing,
    /// These bytes.
    Holds(Digest),
    /// It is a symbolic link, and this names the path that it leads to.
    Link(Digest),
    /// That cannot be told: why.
    Unknown(String),
}

impl Now {
    /// Returns what a file in this state holds.
    #[must_use]
    pub fn of(state: Option<FileState>) -> Self {
        match state {
            None => Self::Missing,
            Some(state) if state.is_link() => Self::Link(state.digest),
            Some(state) => Self::Holds(state.digest),
        }
    }
}

/// What is done about files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// The prompt whose changes are taken back, if it is one prompt's.
    pub prompt: Option<Arc<str>>,
    /// The files, by path.
    pub files: Vec<PlannedFile>,
    /// How many commands that could write ran meanwhile.
    pub commands: u32,
}

/// What is done about one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFile {
    /// Its path, as the events have it.
    pub path: Arc<str>,
    /// The first change that is taken back.
    pub from: Seq,
    /// What it shall hold again; `None` if there was no file.
    pub to: Option<FileState>,
    /// How many of the directories above it were made for it.
    pub directories: u32,
    /// What becomes of it.
    pub fate: Fate,
}

/// What becomes of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It is what it was already.
    AsItWas,
    /// It goes back.
    GoesBack,
    /// It stays: going back would lose what is not to be taken back.
    Stays(Reason),
}

/// Why a file stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Somebody outside the session has changed it after this event.
    Outside(Seq),
    /// Another unit changed it later.
    Unit {
        /// The unit.
        unit: UnitId,
        /// Its change.
        seq: Seq,
    },
    /// It cannot be looked at, or what it held is lost.
    Unknown(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outside(seq) => write!(f, "somebody else has changed it since #{}", seq.0),
            Self::Unit { unit, seq } => write!(f, "{unit} changed it later, in #{}", seq.0),
            Self::Unknown(why) => f.write_str(why),
        }
    }
}

/// What a session did to files.
#[derive(Debug, Default)]
pub struct Changes {
    files: BTreeMap<Arc<str>, File>,
    commands: Vec<Author>,
    units: BTreeMap<UnitId, UnitHead>,
    worktrees: BTreeMap<UnitId, Arc<str>>,
    prompts: BTreeMap<Invocation, Arc<str>>,
    last: Seq,
}

/// Where in the session something was done, and by whom.
#[derive(Debug, Clone, Copy)]
struct Author {
    seq: Seq,
    invocation: Invocation,
    unit: UnitId,
}

#[derive(Debug, Default)]
struct File {
    /// All its changes, oldest first.
    changes: Vec<Change>,
    /// The last of those that are in force.
    top: Option<usize>,
}

#[derive(Debug)]
struct Change {
    author: Author,
    change: Arc<FileChange>,
    /// The last of those that were in force before it.
    under: Option<usize>,
}

impl Changes {
    /// Takes note of an event of the session's log, in order.
    pub fn take(&mut self, event: &Event) {
        let author = Author { seq: event.seq, invocation: event.invocation, unit: event.unit };
        self.last = event.seq;
        match &event.kind {
            EventKind::FileChanged(change) => {
                self.files.entry(Arc::clone(&change.path)).or_default().take(author, change);
            }
            EventKind::ToolStarted { call: _, tool, subject: _, confinement } => {
                if may_write(tool, *confinement) {
                    self.commands.push(author);
                }
            }
            EventKind::UnitQueued(head) => {
                self.units.insert(event.unit, head.clone());
            }
            EventKind::InvocationStarted { prompt, .. } => {
                self.prompts.insert(event.invocation, Arc::clone(prompt));
            }
            EventKind::Worktree(Worktree::Made { path, base: _ }) => {
                self.worktrees.insert(event.unit, Arc::clone(path));
            }
            EventKind::Worktree(Worktree::Dropped | Worktree::Applied { .. })
            | EventKind::Lost { .. } => {
                self.forget_worktree(event.unit);
            }
            EventKind::Worktree(Worktree::Kept { .. })
            | EventKind::HookRan(_)
            | EventKind::SessionOpened(_)
            | EventKind::Prompted(_)
            | EventKind::Notified { .. }
            | EventKind::Compacted(_)
            | EventKind::PrefixShared(_)
            | EventKind::Throttled(_)
            | EventKind::Admitted { .. }
            | EventKind::RequestFailed(_)
            | EventKind::UnitStarted
            | EventKind::TurnStarted { .. }
            | EventKind::Replied(_)
            | EventKind::ToolFinished { .. }
            | EventKind::Denied { .. }
            | EventKind::Asked { .. }
            | EventKind::Answered { .. }
            | EventKind::UnitEnded(_)
            | EventKind::UserWrote { .. }
            | EventKind::UserTookBack
            | EventKind::SetAside { .. }
            | EventKind::Rewound { .. }
            | EventKind::Walked(_)
            | EventKind::Chosen(_)
            | EventKind::Offered(_)
            | EventKind::Left
            | EventKind::Joined { .. }
            | EventKind::Notice { .. }
            | EventKind::InvocationEnded(_) => {}
        }
    }

    /// Returns the number of the last event.
    #[must_use]
    pub fn last(&self) -> Seq {
        self.last
    }

    /// Returns the paths of all files that were changed.
    pub fn paths(&self) -> impl Iterator<Item = &Arc<str>> {
        self.files.keys()
    }

    /// Tells whether there is such a unit.
    #[must_use]
    pub fn has_unit(&self, unit: UnitId) -> bool {
        unit == UnitId::MAIN || self.units.contains_key(&unit)
    }

    /// Returns the slots of the batch that was declared last, in order.
    #[must_use]
    pub fn last_batch(&self) -> Vec<UnitId> {
        // One that takes another's place in its batch is no slot of its own.
        let is_slot = |head: &UnitHead| head.slot.is_some() && head.again.is_none();
        let slots = || self.units.iter().filter(|(_, head)| is_slot(head));
        let Some((_, last)) = slots().next_back() else { return Vec::new() };
        let is_beside = |head: &UnitHead| (head.parent, &head.call) == (last.parent, &last.call);
        // A call's id may come again in a later answer.
        let mut batch: Vec<(u32, UnitId)> = slots()
            .filter(|(_, head)| is_beside(head))
            .filter_map(|(&unit, head)| Some((head.slot?.index, unit)))
            .collect();
        let start = batch.iter().rposition(|&(index, _)| index == 0).unwrap_or(0);
        batch.drain(..start);
        batch.into_iter().map(|(_, unit)| unit).collect()
    }

    /// Says what to do to take back what is selected. `now` has what each of
    /// the [`paths`](Self::paths) holds.
    #[must_use]
    pub fn plan(&self, selection: Selection, now: &BTreeMap<Arc<str>, Now>) -> Plan {
        let unknown = Now::Unknown("nobody has looked at it".to_owned());
        let files = self.files.iter().map(|(path, file)| {
            let now = now.get(path).unwrap_or(&unknown);
            (path, file.settled_by(now), now)
        });
        let files: Vec<_> = files.collect();
        let (selected, prompt) = match selection {
            Selection::After(seq) => (Selected::After(seq), None),
            Selection::Unit(unit) => (Selected::Units(self.below([unit].into())), None),
            Selection::Slot(unit) => (Selected::Units(self.below(self.in_place_of(unit))), None),
            Selection::LastPrompt => {
                let in_force = files.iter().flat_map(|(_, file, _)| file.in_force());
                let Some(last) = in_force.map(|change| change.author.invocation).max() else {
                    return Plan::default();
                };
                (Selected::Invocation(last), self.prompts.get(&last).cloned())
            }
        };
        let commands = self.commands.iter().filter(|&&command| selected.has(command)).count();
        let planned = files.iter().filter_map(|&(path, file, now)| {
            let taken_back = file.taken_back(&selected)?;
            Some(taken_back.planned(Arc::clone(path), now))
        });
        Plan {
            prompt,
            files: planned.collect(),
            commands: u32::try_from(commands).unwrap_or(u32::MAX),
        }
    }

    /// Returns a unit and all that ran again in its place.
    fn in_place_of(&self, unit: UnitId) -> BTreeSet<UnitId> {
        let mut all = BTreeSet::from([unit]);
        for (&unit, head) in &self.units {
            if head.again.is_some_and(|before| all.contains(&before)) {
                all.insert(unit);
            }
        }
        all
    }

    /// Returns units and all that they started, and they.
    fn below(&self, units: BTreeSet<UnitId>) -> BTreeSet<UnitId> {
        let mut below = units;
        // Whoever starts a unit was there before it, and has a smaller number.
        for (&unit, head) in &self.units {
            if below.contains(&head.parent) {
                below.insert(unit);
            }
        }
        below
    }

    /// A worktree that is gone took its files along.
    fn forget_worktree(&mut self, unit: UnitId) {
        let Some(worktree) = self.worktrees.remove(&unit) else { return };
        let is_inside = |path: &str| {
            path.strip_prefix(&*worktree).is_some_and(|inside| inside.starts_with('/'))
        };
        self.files.retain(|path, _| !is_inside(path));
    }
}

/// Tells whether a call may have changed files without telling.
fn may_write(tool: &str, confinement: Option<Confinement>) -> bool {
    match confinement {
        Some(Confinement { backend: Backend::None, access: _, network: _ }) => true,
        Some(Confinement { backend: _, access, network: _ }) => access != Access::ReadOnly,
        None => tool == BASH,
    }
}

/// What is selected, with nothing left to look up.
#[derive(Debug)]
enum Selected {
    After(Seq),
    Invocation(Invocation),
    Units(BTreeSet<UnitId>),
}

impl Selected {
    fn has(&self, author: Author) -> bool {
        match self {
            Self::After(seq) => author.seq > *seq,
            Self::Invocation(invocation) => author.invocation == *invocation,
            Self::Units(units) => units.contains(&author.unit),
        }
    }
}

impl File {
    fn take(&mut self, author: Author, change: &Arc<FileChange>) {
        self.top = self.settled_by(&Now::of(change.before)).top;
        let under = self.top;
        self.top = match &change.by {
            ChangedBy::Call(_) => Some(self.changes.len()),
            ChangedBy::Undo { from } => {
                let first = self.changes.iter().find(|change| change.author.seq >= *from);
                // Nothing is taken back: then it is a change like any other.
                first.map_or(Some(self.changes.len()), |first| first.under)
            }
        };
        self.changes.push(Change { author, change: Arc::clone(change), under });
    }

    /// Returns the file's changes, given what was found there now.
    ///
    /// An undo that was never made takes nothing back. One may be missing at
    /// the end, where the process died.
    fn settled_by(&self, found: &Now) -> Settled<'_> {
        if let Some((last, before)) = self.changes.split_last()
            && matches!(last.change.by, ChangedBy::Undo { .. })
            && *found == Now::of(last.change.before)
            && *found != Now::of(last.change.after)
        {
            return Settled { changes: before, top: last.under };
        }
        Settled { changes: &self.changes, top: self.top }
    }
}

/// The changes of a file that were made, or may have been.
#[derive(Debug, Clone, Copy)]
struct Settled<'a> {
    changes: &'a [Change],
    top: Option<usize>,
}

impl<'a> Settled<'a> {
    /// The changes in force, the last one first.
    fn in_force(self) -> impl Iterator<Item = &'a Change> {
        let at = move |index: usize| &self.changes[index];
        std::iter::successors(self.top.map(at), move |change| change.under.map(at))
    }

    /// Returns what of it is taken back; `None` if nothing is.
    fn taken_back(self, selected: &Selected) -> Option<TakenBack<'a>> {
        let mut changes: Vec<&Change> = match selected {
            // Also what was taken back meanwhile: that is undone as well.
            Selected::After(_) => self.changes.iter().collect(),
            Selected::Invocation(_) | Selected::Units(_) => {
                let mut in_force: Vec<&Change> = self.in_force().collect();
                in_force.reverse();
                in_force
            }
        };
        let first = changes.iter().position(|change| selected.has(change.author))?;
        let changes = changes.split_off(first);
        let other = changes.iter().find(|change| !selected.has(change.author));
        let other = other.map(|change| change.author);
        Some(TakenBack { changes, other })
    }
}

/// The changes of a file that are taken back, oldest first; at least one.
struct TakenBack<'a> {
    changes: Vec<&'a Change>,
    /// Who changed it in between and is not to be taken back.
    other: Option<Author>,
}

impl TakenBack<'_> {
    fn planned(&self, path: Arc<str>, now: &Now) -> PlannedFile {
        let first = self.changes.first().expect("at least one is taken back");
        let to = first.change.before;
        let directories = self.changes.iter().map(|change| change.change.directories).max();
        PlannedFile {
            path,
            from: first.author.seq,
            to,
            directories: directories.unwrap_or(0),
            fate: self.fate(&Now::of(to), now),
        }
    }

    fn fate(&self, to: &Now, now: &Now) -> Fate {
        if let Now::Unknown(why) = now {
            return Fate::Stays(Reason::Unknown(why.clone()));
        }
        if now == to {
            return Fate::AsItWas;
        }
        if let Some(Author { seq, unit, invocation: _ }) = self.other {
            return Fate::Stays(Reason::Unit { unit, seq });
        }
        // A change may not have been made: the process died, or the file system
        // refused. Then the file holds what it held before.
        let goes_on = |change: &FileChange, found: &Now| {
            *found == Now::of(change.after) || *found == Now::of(change.before)
        };
        let next = self.changes.iter().skip(1).map(|next| Now::of(next.change.before));
        let found = next.chain([now.clone()]);
        let broken =
            self.changes.iter().zip(found).find(|(change, found)| !goes_on(&change.change, found));
        match broken {
            Some((change, _)) => Fate::Stays(Reason::Outside(change.author.seq)),
            None => Fate::GoesBack,
        }
    }
}

#[cfg(test)]
mod tests;
