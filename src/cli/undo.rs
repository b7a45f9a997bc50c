//! `/undo` and `tine session revert`: files are put back as they were.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Parser;

use super::args::{Format, RunFlags, UndoFlags};
use super::exit::{Exit, Refusal};
use super::session::{self, print_out};
use super::{print, resume, start};
use crate::config::Environment;
use crate::event::{Seq, SessionId, UnitId};
use crate::message::counted;
use crate::report::{UndoReport, UndoState};
use crate::run::undo::{Said, Undo, UndoError};
use crate::run::{self};
use crate::session::undo::{Changes, Fate, Plan, Selection};
use crate::session::{Past, SessionLog, Spill};

/// What the command is typed as.
const UNDO: &str = "/undo";

/// What is said where no file would change.
pub(super) const NOTHING: &str = "there is nothing to undo";

/// A typed `/undo` and its flags.
#[derive(Debug, Parser)]
#[command(name = "/undo", disable_help_flag = true)]
struct Typed {
    #[command(flatten)]
    flags: UndoFlags,
}

/// Returns the flags of a typed `/undo`; `None` if the prompt is none. It is
/// looked for before a session is opened, since no model is asked.
pub(super) fn asked(prompt: &str) -> Option<Result<UndoFlags, Refusal>> {
    let mut words = prompt.split_whitespace();
    if !prompt.starts_with(UNDO) || words.next() != Some(UNDO) {
        return None;
    }
    let parsed = Typed::try_parse_from(std::iter::once(UNDO).chain(words));
    Some(parsed.map(|typed| typed.flags).map_err(|error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        let message = first.strip_prefix("error: ").unwrap_or(first);
        Refusal::new(Exit::Usage, format!("{UNDO}: {message}"))
            .hint("it knows `--to SEQ`, `--slot N`, `--unit AGENT`, `--skip-changed`, `--dry-run`")
    }))
}

/// Does what a typed `/undo` says, in the session that the flags mean.
pub(super) fn of_flags(
    environment: &Environment,
    flags: &RunFlags,
    undo: &UndoFlags,
) -> Result<Exit, Refusal> {
    let wrong = |message: &str, hint: &str| Err(Refusal::new(Exit::Usage, message).hint(hint));
    if !resume::is_wanted(flags) {
        return wrong(
            "`/undo` takes back what a session did, and this is a new one",
            "add `--continue` or `--resume SESSION`; `tine sessions` lists them",
        );
    }
    if flags.fork_session || flags.no_session_persistence {
        return wrong(
            "an undo is written into the session itself",
            "leave `--fork-session` and `--no-session-persistence` out",
        );
    }
    let root = session::root(environment)?;
    let directory = resume::wanted(&root, flags, &start::working_directory(environment)?)?;
    let files = [&flags.records_file(), &flags.output_last_message]
        .map(|path| path.as_deref().map(print::create).transpose());
    let [records, message] = files;
    let (records, message) = (records?, message?);
    let session = Session::open(directory)?;
    session.take_back(undo, &mut |report| {
        let result = report.result();
        let text = text(report);
        write_to(records.as_ref(), &result)?;
        write_to(message.as_ref(), text.as_bytes())?;
        let printed = match flags.output_format() {
            Format::Text => print_out(text.as_bytes(), false),
            Format::Json | Format::StreamJson => print_out(&result, true),
        };
        printed.map(drop)
    })
}

/// Does what `tine session revert` says.
pub(super) fn of_session(
    directory: PathBuf,
    undo: &UndoFlags,
    as_json: bool,
) -> Result<Exit, Refusal> {
    Session::open(directory)?.take_back(undo, &mut |report| {
        let printed = match as_json {
            true => print_out(&report.record(), true),
            false => print_out(text(report).as_bytes(), false),
        };
        printed.map(drop)
    })
}

/// A session in which something is taken back.
struct Session {
    directory: PathBuf,
    id: SessionId,
    /// Where it worked, from where paths are shown.
    root: PathBuf,
}

impl Session {
    fn open(directory: PathBuf) -> Result<Self, Refusal> {
        let past = Past::read(&directory).map_err(|error| session::cannot_read(&error))?;
        let root = past.head().map_or_else(PathBuf::new, |head| PathBuf::from(&*head.cwd));
        let id = SessionId(session::id_of(&directory).into());
        Ok(Self { directory, id, root })
    }

    /// Takes back what the flags say. What becomes of it is printed by `show`,
    /// which is not called where nothing is there to be taken back.
    fn take_back(
        &self,
        flags: &UndoFlags,
        show: &mut dyn FnMut(&UndoReport<'_>) -> Result<(), Refusal>,
    ) -> Result<Exit, Refusal> {
        // Before anything is looked at: nobody else may change the log now.
        let mut log = match flags.dry_run {
            true => None,
            false => Some(self.open_log()?),
        };
        let (undo, plan) = plan(&self.directory, flags)?;
        warning(&undo).iter().for_each(super::say);
        let state = match (&mut log, stays(&plan) && !flags.skip_changed) {
            (None, _) => UndoState::Asked,
            (Some(_), true) => UndoState::Refused,
            (Some(_), false) => UndoState::Done,
        };
        let (session, root, before) = (&self.id, &*self.root, undo.changes().last());
        let report = UndoReport { session, root, plan: &plan, state, before };
        if let (UndoState::Done, Some((log, past))) = (state, &mut log) {
            undo.carry_out(&plan, &said(flags, &report), log, past)
                .map_err(|error| cannot_undo(&error))?;
        }
        show(&report)?;
        self.say(&report);
        match state {
            UndoState::Refused => Err(Refusal::new(
                Exit::Error,
                format!("nothing was changed: {}", report.sentence()),
            )
            .hint("`--skip-changed` leaves those that stay and puts the others back")),
            UndoState::Asked | UndoState::Done => Ok(Exit::Done),
        }
    }

    /// Takes the session over, and brings to its end what was left open.
    fn open_log(&self) -> Result<(SessionLog, Past), Refusal> {
        let opened = SessionLog::open_for_append(&self.directory);
        let mut log = opened.map_err(|error| resume::cannot_open(&error))?;
        let read = Past::read(&self.directory);
        let mut past = read.map_err(|error| session::cannot_read(&error))?;
        let spill = Spill { directory: self.directory.clone() };
        run::mend(&mut past, Some(&mut log), &spill)
            .map_err(|error| Refusal::because(Exit::Error, &error))?;
        Ok((log, past))
    }

    /// Says what people have to know besides.
    fn say(&self, report: &UndoReport<'_>) {
        if report.plan.files.is_empty() {
            super::say(&format!("note: {NOTHING}"));
        }
        if let Some(commands) = report.commands() {
            super::say(&format!("note: {commands}"));
        }
        if report.state == UndoState::Done && goes_back(report.plan) {
            super::say(&format!("note: {}", report.sentence()));
            let (id, Seq(before)) = (&self.id, report.before);
            super::say(&format!("hint: `tine session revert {id} --to {before}` undoes this"));
        }
    }
}

/// Reads the session in `directory`, and says what to do to take back what the
/// flags say.
pub(super) fn plan(directory: &Path, flags: &UndoFlags) -> Result<(Undo, Plan), Refusal> {
    let undo = Undo::read(directory).map_err(|error| session::cannot_read(&error))?;
    let plan = undo.plan(selection(flags, undo.changes())?);
    Ok((undo, plan))
}

/// Returns what is to be known of a log in which not all could be read.
pub(super) fn warning(undo: &Undo) -> Option<String> {
    let lines = counted(undo.bad_lines(), "line");
    (undo.bad_lines() > 0).then(|| {
        format!("warning: {lines} of the session's log cannot be read; changes may be missing")
    })
}

/// Tells whether a file cannot go back.
pub(super) fn stays(plan: &Plan) -> bool {
    plan.files.iter().any(|file| matches!(file.fate, Fate::Stays(_)))
}

/// Tells whether a file goes back.
pub(super) fn goes_back(plan: &Plan) -> bool {
    plan.files.iter().any(|file| file.fate == Fate::GoesBack)
}

/// Returns what stands in the log of an undo that is done.
pub(super) fn said(flags: &UndoFlags, done: &UndoReport<'_>) -> Said {
    Said { typed: typed(flags).into(), text: done.sentence().into() }
}

fn selection(flags: &UndoFlags, changes: &Changes) -> Result<Selection, Refusal> {
    let wrong = |message: String| Refusal::new(Exit::BadInput, message);
    let UndoFlags { to, slot, unit, skip_changed: _, dry_run: _ } = flags;
    if let Some(to) = *to {
        let Seq(last) = changes.last();
        return match to <= last {
            true => Ok(Selection::After(Seq(to))),
            false => Err(wrong(format!("there is no event {to}; the last one is {last}"))
                .hint("`tine session show ID` numbers the changes")),
        };
    }
    if let Some(slot) = *slot {
        let batch = changes.last_batch();
        let index = usize::try_from(slot.get() - 1).unwrap_or(usize::MAX);
        let count = u32::try_from(batch.len()).unwrap_or(u32::MAX);
        return match (batch.get(index), count) {
            (Some(&unit), _) => Ok(Selection::Slot(unit)),
            (None, 0) => Err(wrong("no batch was started in this session".to_owned())),
            (None, _) => {
                let slots = counted(count, "slot");
                Err(wrong(format!("there is no slot {slot}; the last batch has {slots}"))
                    .hint("`--unit AGENT` names any agent of the session"))
            }
        };
    }
    match unit {
        Some(unit) if changes.has_unit(*unit) => Ok(Selection::Unit(*unit)),
        Some(unit) => Err(wrong(format!("there is no `{unit}` in this session"))),
        None => Ok(Selection::LastPrompt),
    }
}

/// Returns what the user could have typed for the same.
fn typed(flags: &UndoFlags) -> String {
    let UndoFlags { to, slot, unit, skip_changed, dry_run: _ } = flags;
    let mut typed = UNDO.to_owned();
    let flags = [
        to.map(|to| format!(" --to {to}")),
        slot.map(|slot| format!(" --slot {slot}")),
        unit.map(|unit: UnitId| format!(" --unit {unit}")),
        skip_changed.then(|| " --skip-changed".to_owned()),
    ];
    typed.extend(flags.into_iter().flatten());
    typed
}

fn cannot_undo(error: &UndoError) -> Refusal {
    let refusal = Refusal::because(Exit::Error, error);
    match error {
        UndoError::File { .. } => refusal.hint("what had been put back before it was made undone"),
        UndoError::Log(_) => refusal,
    }
}

fn text(report: &UndoReport<'_>) -> String {
    report.lines().into_iter().map(|line| line + "\n").collect()
}

fn write_to(file: Option<&(PathBuf, std::fs::File)>, bytes: &[u8]) -> Result<(), Refusal> {
    let written = file.map_or(Ok(()), |(_, file)| {
        let mut file: &std::fs::File = file;
        file.write_all(bytes)
    });
    written.map_err(|error| Refusal::new(Exit::Error, format!("cannot write the output: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(prompt: &str, expected: Option<Result<&str, &str>>) {
        let found = asked(prompt)
            .map(|asked| asked.map(|flags| typed(&flags)).map_err(|refusal| refusal.message));
        let found = found.as_ref().map(|found| found.as_deref().map_err(|text| &**text));
        assert_eq!(found, expected, "{prompt}");
    }

    #[test]
    fn undo_is_asked_for_by_its_name_and_flags() {
        check("/undo", Some(Ok("/undo")));
        check("/undo \n", Some(Ok("/undo")));
        check("/undo --to 12  --skip-changed", Some(Ok("/undo --to 12 --skip-changed")));
        check("/undo --slot 2", Some(Ok("/undo --slot 2")));
        check("/undo --unit agent-3", Some(Ok("/undo --unit agent-3")));
        check("/undone", None);
        check("undo", None);
        check(" /undo", None);
        check("/undo all", Some(Err("/undo: unexpected argument 'all' found")));
        check(
            "/undo --to 1 --slot 2",
            Some(Err("/undo: the argument '--to <SEQ>' cannot be used with '--slot <N>'")),
        );
    }
}
