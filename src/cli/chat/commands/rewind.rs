//! Going back: the turns that a conversation can go back behind, and what would
//! become of files. What is shown here is carried out by the run.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::tz::TimeZone;

use crate::cli::args::UndoFlags;
use crate::cli::exit::Refusal;
use crate::cli::kit::Kit;
use crate::cli::{session, undo};
use crate::event::{Event, EventKind, Invocation, Seq, UnitId, UnixMillis, Worktree};
use crate::message::counted;
use crate::report::commits::NEWS;
use crate::report::ink::Ink;
use crate::report::row::Row;
use crate::report::words;
use crate::report::{UndoReport, UndoState};
use crate::run::TakeBack;
use crate::session::undo::Fate;
use crate::session::{Past, read};

/// Most characters of a prompt in a list.
const PROMPT_CAP: usize = 200;

/// An invocation of the main conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// What the user typed, in one line.
    pub prompt: String,
    /// The same as it was typed; empty for news.
    pub typed: Arc<str>,
    /// When.
    pub at: UnixMillis,
    /// How many files were changed for it.
    pub files: u32,
    /// The event that the conversation goes back to, and files with it; `None`
    /// if what was said before the turn has been summed up.
    pub to: Option<Seq>,
}

impl Turn {
    /// Returns what a list shows of it.
    #[must_use]
    pub fn row(&self, zone: TimeZone) -> Row {
        let Self { prompt, typed: _, at, files, to } = self;
        let row = Row::new().text(Ink::Dim, &words::local_time(*at, zone)).padded(18);
        let files = match files {
            0 => String::new(),
            &files => counted(files, "file"),
        };
        let row = row.text(Ink::Plain, &files).padded(28);
        match to {
            Some(_) => row.text(Ink::Plain, prompt),
            None => row.text(Ink::Plain, "summed up: ").text(Ink::Plain, prompt).all(Ink::Dim),
        }
    }
}

/// Returns the turns of the session that are in force, the last one first.
///
/// # Errors
///
/// The session is not kept, or its log cannot be read.
pub fn turns(kit: &Kit) -> Result<Vec<Turn>, Refusal> {
    let directory = kit.kept()?;
    let past = Past::read(directory).map_err(|error| session::cannot_read(&error))?;
    let entries = read(directory).map_err(|error| session::cannot_read(&error))?;
    let mut turns = Turns::default();
    entries.events().for_each(|event| turns.take(&event));
    Ok(turns.of(&past))
}

/// A fold over a session's events.
#[derive(Default)]
struct Turns {
    begun: Vec<Begun>,
    /// What happened in the main conversation.
    own: Vec<Seq>,
    summary: Seq,
    worktrees: Vec<Arc<str>>,
}

struct Begun {
    invocation: Invocation,
    prompt: Arc<str>,
    at: UnixMillis,
    seq: Seq,
    files: BTreeSet<Arc<str>>,
}

impl Turns {
    fn take(&mut self, event: &Event) {
        if event.unit == UnitId::MAIN {
            self.take_of_main(event);
        }
        if let EventKind::FileChanged(change) = &event.kind {
            let is_inside = |worktree: &Arc<str>| {
                let rest = change.path.strip_prefix(&**worktree);
                rest.is_some_and(|rest| rest.starts_with('/'))
            };
            let mut begun = self.begun.iter_mut().rev();
            if let Some(turn) = begun.find(|turn| turn.invocation == event.invocation)
                && !self.worktrees.iter().any(is_inside)
            {
                turn.files.insert(Arc::clone(&change.path));
            }
        } else if let EventKind::Worktree(Worktree::Made { path, base: _ }) = &event.kind {
            self.worktrees.push(Arc::clone(path));
        }
    }

    fn take_of_main(&mut self, event: &Event) {
        self.own.push(event.seq);
        if let EventKind::InvocationStarted { prompt, .. } = &event.kind {
            self.begun.push(Begun {
                invocation: event.invocation,
                prompt: Arc::clone(prompt),
                at: event.at,
                seq: event.seq,
                files: BTreeSet::new(),
            });
        } else if let EventKind::Compacted(_) = &event.kind {
            self.summary = event.seq;
        } else if let EventKind::Rewound { to } = &event.kind {
            let to = self.summary.max(*to);
            self.begun.retain(|turn| turn.seq <= to);
        }
    }

    fn of(self, past: &Past) -> Vec<Turn> {
        let turn = |begun: &Begun| {
            let prompt = match begun.prompt.trim() {
                "" => NEWS,
                prompt => prompt,
            };
            Turn {
                prompt: words::short_line(prompt, PROMPT_CAP),
                typed: Arc::clone(&begun.prompt),
                at: begun.at,
                files: u32::try_from(begun.files.len()).unwrap_or(u32::MAX),
                to: self.before(begun.seq, past),
            }
        };
        self.begun.iter().rev().map(turn).collect()
    }

    /// Returns the last event before another one after which every call of main
    /// had its output; `None` if that has been summed up.
    fn before(&self, seq: Seq, past: &Past) -> Option<Seq> {
        let earlier = self.own.iter().rev().copied().skip_while(|own| *own >= seq);
        let settled = [Seq(seq.0.saturating_sub(1))].into_iter().chain(earlier);
        let mut settled = settled.take_while(|to| *to >= past.rewinds_to());
        settled.find(|to| past.was_settled_after(*to))
    }
}

/// Says what becomes of files if all is taken back that happened after an
/// event.
///
/// # Errors
///
/// The session is not kept, or its log cannot be read.
pub fn plan(kit: &Kit, to: Seq) -> Result<(Vec<Row>, Option<TakeBack>), Refusal> {
    plan_flags(kit, &UndoFlags { to: Some(to.0), ..UndoFlags::default() })
}

/// Says what becomes of files if what the flags say is taken back, and returns
/// what carries that out; `None` if no file goes back or nothing shall be done.
///
/// Files that somebody else has changed since are among the rows. Whoever goes
/// on after that leaves them.
///
/// # Errors
///
/// The session is not kept, its log cannot be read, or the flags mean nothing
/// that is in it.
pub fn plan_flags(kit: &Kit, flags: &UndoFlags) -> Result<(Vec<Row>, Option<TakeBack>), Refusal> {
    let (undo, plan) = undo::plan(kit.kept()?, flags)?;
    let caution = |text: &String| Row::new().text(Ink::Caution, text);
    let mut rows: Vec<Row> = undo::warning(&undo).iter().map(caution).collect();
    let (session, root, before) = (&kit.session, &*kit.root, undo.changes().last());
    let report = |state| UndoReport { session, root, plan: &plan, state, before };
    let asked = report(UndoState::Asked);
    if plan.files.is_empty() {
        rows.push(Row::new().text(Ink::Plain, undo::NOTHING));
    } else {
        rows.push(Row::new().text(Ink::Strong, &asked.sentence()));
    }
    let stay = plan.files.iter().filter(|file| matches!(file.fate, Fate::Stays(_))).count();
    let lines = asked.lines();
    let go = lines.len() - stay;
    let ink = |number: usize| if number < go { Ink::Plain } else { Ink::Caution };
    let files = lines
        .iter()
        .enumerate()
        .map(|(number, line)| Row::new().text(Ink::Plain, "  ").text(ink(number), line));
    rows.extend(files);
    rows.extend(asked.commands().iter().map(caution));
    if flags.dry_run || !undo::goes_back(&plan) {
        return Ok((rows, None));
    }
    // They have been shown to whoever goes on.
    let flags = UndoFlags { skip_changed: flags.skip_changed || stay > 0, ..flags.clone() };
    let said = undo::said(&flags, &report(UndoState::Done));
    Ok((rows, Some(TakeBack { undo, plan, said, is_shown: true })))
}

#[cfg(test)]
mod tests;
