//! Taking back what a session did to files: `/undo` and `tine session revert`.
//!
//! All files are looked at before the first is touched, and what goes back is
//! journalled as any change is, so an undo can be undone. Which files go back
//! is said by [`crate::session::undo`]; how one is put back, by `file`.

mod file;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use tokio::sync::oneshot;

use super::dispatcher::{Dispatcher, Effect, Input, Response, Seed};
use super::now;
use crate::event::{ChangedBy, Event, FailureKind, FileChange, FileState, Outcome, UnitId};
use crate::line::{FromUnit, Told, UnitEvent};
use crate::path_text;
use crate::prompt;
use crate::session::undo::{Changes, Fate, Now, Plan, PlannedFile, Reason, Selection};
use crate::session::{Blobs, Entry, LogError, Past, SessionLog, read};
use crate::tool::roots::Roots;

use file::Step;

/// Most files that the model is told of by name.
const NAMED_CAP: usize = 50;

/// What can be taken back in a session, as its log and its files are now.
#[derive(Debug)]
pub struct Undo {
    changes: Changes,
    now: BTreeMap<Arc<str>, Now>,
    blobs: Blobs,
    roots: Roots,
    bad_lines: u64,
}

/// What stands in the log of an undo.
#[derive(Debug)]
pub struct Said {
    /// What the user typed, or could have.
    pub typed: Arc<str>,
    /// What came of it.
    pub text: Arc<str>,
}

/// Why files were not put back. They are what they were before the undo, but
/// for those that are named.
#[derive(Debug, Error)]
pub enum UndoError {
    /// The log cannot be written.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The file system refused.
    #[error("cannot put {path} back{}", lost_text(.lost))]
    File {
        /// The file.
        path: String,
        /// The files, itself among them, that could not be made what they had
        /// been, and why.
        lost: Vec<String>,
        /// Why it refused.
        #[source]
        source: io::Error,
    },
}

fn lost_text(lost: &[String]) -> String {
    match lost {
        [] => String::new(),
        lost => format!(", nor make what they had been: {}", lost.join(", ")),
    }
}

impl Undo {
    /// Reads the log of the session in `directory`, and what the files hold
    /// that it changed. Nothing is written.
    ///
    /// # Errors
    ///
    /// The log or the file system's root cannot be opened.
    pub fn read(directory: &Path) -> Result<Self, LogError> {
        let mut changes = Changes::default();
        let mut bad_lines = 0;
        for entry in read(directory)? {
            match entry {
                Entry::Event(event) => changes.take(&event),
                Entry::Bad { .. } => bad_lines += 1,
                Entry::Unknown { .. } => {}
            }
        }
        let roots = Roots::open([]).map_err(|source| LogError::Io {
            action: "open",
            path: "/".to_owned(),
            source,
        })?;
        let look = |path: &Arc<str>| (Arc::clone(path), file::look(&roots, &located(path)));
        let now = changes.paths().map(look).collect();
        Ok(Self { changes, now, blobs: Blobs::of(directory), roots, bad_lines })
    }

    /// Returns what the session did to files.
    #[must_use]
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Returns how many lines of the log could not be read; they may have held
    /// changes.
    #[must_use]
    pub fn bad_lines(&self) -> u64 {
        self.bad_lines
    }

    /// Says what to do to take back what is selected. A file whose bytes are
    /// lost stays.
    #[must_use]
    pub fn plan(&self, selection: Selection) -> Plan {
        let mut plan = self.changes.plan(selection, &self.now);
        for file in &mut plan.files {
            let (Fate::GoesBack, Some(to)) = (&file.fate, file.to) else { continue };
            let lost = self.blobs.read(to.digest).err().map(|lost| lost.to_string());
            if let Some(why) = lost.or_else(|| self.why_not_written(file)) {
                file.fate = Fate::Stays(Reason::Unknown(why));
            }
        }
        plan
    }

    /// Returns why a file cannot be written without changing another one.
    fn why_not_written(&self, file: &PlannedFile) -> Option<String> {
        let writes = file.to.is_some_and(|to| !to.is_link());
        let has_other_names = || file::has_other_names(&self.roots, &located(&file.path));
        (writes && has_other_names()).then(|| file::OTHER_NAMES.to_owned())
    }

    /// Puts back the files of the plan that go back: all of them or none. It is
    /// an invocation of its own in `log`, and `past` takes its events.
    ///
    /// # Errors
    ///
    /// A file was changed since it was looked at, or the system refused.
    pub fn carry_out(
        &self,
        plan: &Plan,
        said: &Said,
        log: &mut SessionLog,
        past: &mut Past,
    ) -> Result<(), UndoError> {
        let mut dispatcher = Dispatcher::after(Seed::of(past));
        self.carry_out_in(plan, said, &mut Book::new(&mut dispatcher, log, past))
    }

    /// The same in a run whose main rests, and rests again afterwards.
    ///
    /// # Errors
    ///
    /// As for [`Undo::carry_out`].
    pub(super) fn carry_out_at_rest(
        &self,
        plan: &Plan,
        said: &Said,
        book: &mut Book<'_>,
    ) -> Result<(), UndoError> {
        let done = self.carry_out_in(plan, said, book);
        if let Err(error) = &done
            && !book.dispatcher.rests()
        {
            // The log cannot be written, so neither can this.
            let _ = book.ends(Outcome::failed(FailureKind::Setup, error.to_string()));
        }
        done
    }

    fn carry_out_in(&self, plan: &Plan, said: &Said, book: &mut Book<'_>) -> Result<(), UndoError> {
        let going = plan.files.iter().filter(|file| file.fate == Fate::GoesBack);
        let steps = going.map(|file| self.step(file)).collect::<Result<Vec<_>, _>>()?;
        if steps.is_empty() {
            return Ok(());
        }
        book.begins(Arc::clone(&said.typed))?;
        for (file, step) in &steps {
            book.changes(Arc::new(step.change(file)))?;
        }
        let made = file::all_or_none(&self.roots, &steps);
        let outcome = match &made {
            Ok(()) => {
                let files = steps.iter().map(|(file, _)| &*file.path).collect::<Vec<_>>();
                book.tells(told(&files))?;
                Outcome::Done { text: Arc::clone(&said.text) }
            }
            Err(error) => Outcome::failed(FailureKind::Setup, error.to_string()),
        };
        book.ends(outcome)?;
        made
    }

    fn step<'a>(&self, file: &'a PlannedFile) -> Result<(&'a PlannedFile, Step), UndoError> {
        let refused =
            |source| UndoError::File { path: file.path.to_string(), lost: Vec::new(), source };
        let bytes = file.to.map(|to| self.blobs.read(to.digest)).transpose();
        let bytes = bytes.map_err(|lost| refused(io::Error::other(lost)))?;
        let (target, now) = (located(&file.path), &self.now[&file.path]);
        let step = Step::prepare(&self.roots, target, now, (file, bytes)).map_err(refused)?;
        // What cannot be kept goes all the same: it is what is not wanted.
        let _ = step.keep(&self.blobs);
        Ok((file, step))
    }
}

fn located(path: &str) -> PathBuf {
    path_text::from_text(path)
}

fn told(files: &[&str]) -> Arc<str> {
    let mut lines: Vec<String> =
        files.iter().take(NAMED_CAP).map(|path| format!("- {path}")).collect();
    if let Some(more) = files.len().checked_sub(NAMED_CAP).filter(|&more| more > 0) {
        lines.push(format!("- and {more} more"));
    }
    prompt::undone(&lines.join("\n")).into()
}

impl Step {
    fn change(&self, file: &PlannedFile) -> FileChange {
        let before = self.before();
        let mode = |to: FileState| match before {
            // A file that is there keeps its rights.
            Some(before) if !before.is_link() && !to.is_link() => before.mode,
            Some(_) | None => to.mode,
        };
        FileChange {
            by: ChangedBy::Undo { from: file.from },
            path: Arc::clone(&file.path),
            before,
            after: file.to.map(|to| FileState { mode: mode(to), ..to }),
            directories: self.missing_directories(),
        }
    }
}

/// Writes the events of an undo into the log, as the dispatcher of a run has
/// them.
pub(super) struct Book<'a> {
    dispatcher: &'a mut Dispatcher,
    log: &'a mut SessionLog,
    past: &'a mut Past,
    /// What happened, whether or not it could be written.
    events: Vec<Event>,
    /// Whether the log can be written.
    is_kept: bool,
}

impl<'a> Book<'a> {
    pub(super) fn new(
        dispatcher: &'a mut Dispatcher,
        log: &'a mut SessionLog,
        past: &'a mut Past,
    ) -> Self {
        Self { dispatcher, log, past, events: Vec::new(), is_kept: true }
    }

    /// Returns what happened, whether or not it could be written.
    pub(super) fn events(self) -> Vec<Event> {
        self.events
    }

    fn begins(&mut self, typed: Arc<str>) -> Result<(), LogError> {
        let response = match self.dispatcher.rests() {
            true => self.dispatcher.handle(Input::Begin(typed.into()), now()),
            false => self.dispatcher.go_on(typed.into(), now()),
        };
        self.write(response)
    }

    fn changes(&mut self, change: Arc<FileChange>) -> Result<(), LogError> {
        let (synced, _) = oneshot::channel();
        self.hear(UnitEvent::FileChanged { change, synced })
    }

    fn tells(&mut self, text: Arc<str>) -> Result<(), LogError> {
        self.hear(Told::Prompted(text.into()).into())
    }

    fn ends(&mut self, outcome: Outcome) -> Result<(), LogError> {
        let (reply, _) = oneshot::channel();
        self.hear(UnitEvent::Ended { outcome, output_file: None, reply })
    }

    fn hear(&mut self, event: UnitEvent) -> Result<(), LogError> {
        let input = Input::Unit(FromUnit { unit: UnitId::MAIN, event });
        let response = self.dispatcher.handle(input, now());
        self.write(response)
    }

    /// Writes all that happened, or as much of it as the log takes; the first
    /// refusal is the error.
    fn write(&mut self, response: Response) -> Result<(), LogError> {
        let mut written = Ok(());
        for effect in response.effects {
            match effect {
                Effect::Record(event) => {
                    let kept = self.keep(|log| log.append(&event));
                    written = written.and(kept);
                    self.past.take(&event);
                    self.events.push(event);
                }
                Effect::Sync => {
                    let kept = self.keep(|log| log.sync());
                    written = written.and(kept);
                }
                Effect::AnswerSynced(answer) => {
                    let kept = self.keep(|log| log.sync());
                    written = written.and(kept);
                    answer.give();
                }
                Effect::Answer(answer) => answer.give(),
                // Nobody is asked, so nobody answers with `always`.
                Effect::KeepRules(_)
                | Effect::Glimpse(_)
                | Effect::StartDeadline
                | Effect::Finish
                | Effect::Over => {}
            }
        }
        written
    }

    /// Does something with the log, as long as it can be written.
    fn keep(
        &mut self,
        write: impl FnOnce(&mut SessionLog) -> Result<(), LogError>,
    ) -> Result<(), LogError> {
        if !self.is_kept {
            return Ok(());
        }
        let kept = write(self.log);
        self.is_kept = !kept.as_ref().is_err_and(LogError::ends_the_log);
        kept
    }
}

#[cfg(test)]
mod tests;
