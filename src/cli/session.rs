//! `tine session`: what happened in one session, printed or written to a file.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, BufWriter, IsTerminal as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::args::{Output, SessionCommand, ShowFormat};
use super::exit::{Exit, Refusal};
use super::{runner, start, undo, usage};
use crate::config::{Environment, dirs};
use crate::event::Event;
use crate::message::counted;
use crate::report::{Document, StdoutKind, View, Viewer, Writer, markdown, sanitise, transcript};
use crate::session::dirs::LOG;
use crate::session::{self, Entry, FindError, LogError, SessionName};

/// Most lines of a log that cannot be read that are named; the rest is counted.
const BAD_CAP: usize = 10;

/// Does what is asked with one session.
pub(super) fn run(environment: &Environment, command: SessionCommand) -> Result<Exit, Refusal> {
    let find = |id: &str| session::find(&root(environment)?, id).map_err(|error| not_found(&error));
    match command {
        SessionCommand::Show { id, branch, format } => {
            let viewer = branch.map_or(Ok(Viewer::Anyone), |branch| Viewer::parse(&branch));
            let viewer = viewer.map_err(|error| {
                Refusal::new(Exit::BadInput, error.to_string())
                    .hint("a branch is a set of tokens, or a path such as `main.review`")
            })?;
            show(&Page { directory: find(&id)?, viewer, format })
        }
        SessionCommand::Usage { id, json } => usage::of_session(&find(&id)?, json),
        SessionCommand::Revert { id, undo, json } => undo::of_session(find(&id)?, &undo, json),
        SessionCommand::Export { id, output, format } => {
            let page = Page { directory: find(&id)?, viewer: Viewer::Anyone, format };
            match output {
                Some(Output::File(path)) if path.as_os_str() != "-" => export(&page, &path),
                Some(Output::File(_) | Output::Format(_)) | None => show(&page),
            }
        }
    }
}

/// A session, and what of it is printed in which form.
struct Page {
    directory: PathBuf,
    viewer: Viewer,
    format: ShowFormat,
}

fn show(page: &Page) -> Result<Exit, Refusal> {
    let kind = match io::stdout().is_terminal() {
        true => StdoutKind::Terminal,
        false => StdoutKind::Other,
    };
    let mut skipped = Skipped::default();
    let mut stdout = runner::stdout(page.format == ShowFormat::Jsonl);
    let written = page.write(kind, &mut skipped, &mut stdout)?;
    skipped.say();
    finish(written)
}

fn export(page: &Page, path: &Path) -> Result<Exit, Refusal> {
    write_new(page, path)?.say();
    super::say(&format!("session {} is in `{}`", id_of(&page.directory), path.display()));
    Ok(Exit::Done)
}

/// Writes all of a session as Markdown to a new file, and returns what of it
/// could not be read.
pub(super) fn export_markdown(directory: &Path, path: &Path) -> Result<Skipped, Refusal> {
    let (directory, format) = (directory.to_owned(), ShowFormat::Md);
    write_new(&Page { directory, viewer: Viewer::Anyone, format }, path)
}

/// Writes to a new file; what could not be written whole does not stay.
fn write_new(page: &Page, path: &Path) -> Result<Skipped, Refusal> {
    let cannot_write = |exit, error: &io::Error| Refusal::cannot_write(exit, path, error);
    let mut options = OpenOptions::new();
    let file = match options.write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let message = format!("`{}` is there already", path.display());
            return Err(Refusal::new(Exit::BadInput, message)
                .hint("name another file, or remove that one first"));
        }
        opened => opened.map_err(|error| cannot_write(Exit::BadInput, &error))?,
    };
    let mut skipped = Skipped::default();
    let written = page.write(StdoutKind::Other, &mut skipped, &mut BufWriter::new(file));
    let written =
        written.and_then(|written| written.map_err(|error| cannot_write(Exit::Error, &error)));
    if written.is_err() {
        // The refusal says why; a piece of a document helps nobody.
        let _ = std::fs::remove_file(path);
    }
    written.map(|()| skipped)
}

impl Page {
    /// Writes it, and takes note of the lines of the log that cannot be read.
    /// The inner error is that of `out`.
    fn write(
        &self,
        kind: StdoutKind,
        skipped: &mut Skipped,
        out: &mut dyn Write,
    ) -> Result<io::Result<()>, Refusal> {
        let view = self.view()?;
        let written = match self.format {
            ShowFormat::Text => {
                let events = skipped.events(self.entries()?);
                transcript(events, &view, self.writer(), out)
            }
            ShowFormat::Md => {
                let name = session::read_name(&self.directory);
                let name = name.as_ref().map(SessionName::as_str);
                let document = Document { name, view, writer: self.writer(), kind };
                markdown(skipped.events(self.entries()?), &document, out)
            }
            ShowFormat::Jsonl if view == View::Everything => self.copy_log(kind, out)?,
            ShowFormat::Jsonl => self.lines(&view, kind, skipped, out)?,
        };
        Ok(written.and_then(|()| out.flush()))
    }

    fn entries(&self) -> Result<session::Entries, Refusal> {
        session::read(&self.directory).map_err(|error| cannot_read(&error))
    }

    fn writer(&self) -> Writer {
        if session::is_running(&self.directory) { Writer::AtWork } else { Writer::Gone }
    }

    /// Returns what is shown, which the whole log says.
    fn view(&self) -> Result<View, Refusal> {
        self.viewer.clone().view(self.entries()?.events()).map_err(|absent| {
            let others: Vec<String> = absent
                .others
                .iter()
                .map(|path| format!("`{}`", sanitise::line(path.as_str())))
                .collect();
            let refusal = Refusal::new(Exit::BadInput, absent.to_string());
            if others.is_empty() {
                return refusal;
            }
            refusal.hint(format!("there are: {}", others.join(", ")))
        })
    }

    /// The log as it is, also what of it cannot be read.
    fn copy_log(&self, kind: StdoutKind, out: &mut dyn Write) -> Result<io::Result<()>, Refusal> {
        let path = self.directory.join(LOG);
        let mut log = File::open(&path).map_err(|error| {
            Refusal::new(Exit::Error, format!("cannot read `{}`: {error}", path.display()))
        })?;
        Ok(match kind {
            StdoutKind::Other => io::copy(&mut log, out).map(drop),
            StdoutKind::Terminal => {
                BufReader::new(log).split(b'\n').try_for_each(|line| write_line(&line?, kind, out))
            }
        })
    }

    /// The log's own lines of the events that are shown.
    fn lines(
        &self,
        view: &View,
        kind: StdoutKind,
        skipped: &mut Skipped,
        out: &mut dyn Write,
    ) -> Result<io::Result<()>, Refusal> {
        let mut entries = self.entries()?;
        while let Some(entry) = entries.next() {
            if let Some(event) = skipped.event(entry)
                && view.sees(&event)
                && let Err(error) = write_line(entries.text(), kind, out)
            {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }
}

fn write_line(line: &[u8], kind: StdoutKind, out: &mut dyn Write) -> io::Result<()> {
    match kind {
        StdoutKind::Other => out.write_all(line)?,
        StdoutKind::Terminal => {
            out.write_all(sanitise::json(&String::from_utf8_lossy(line)).as_bytes())?;
        }
    }
    out.write_all(b"\n")
}

/// Lines of a log that are no events, or none that this tine knows.
#[derive(Default)]
pub(super) struct Skipped {
    bad: Vec<String>,
    more_bad: u64,
    unknown: u64,
}

impl Skipped {
    pub(super) fn events(&mut self, entries: session::Entries) -> impl Iterator<Item = Event> {
        entries.filter_map(|entry| self.event(entry))
    }

    fn event(&mut self, entry: Entry) -> Option<Event> {
        match entry {
            Entry::Event(event) => return Some(event),
            Entry::Unknown { line: _, kind: _ } => self.unknown += 1,
            Entry::Bad { line, why } if self.bad.len() < BAD_CAP => {
                self.bad.push(format!("warning: line {line} of the log cannot be read: {why}"));
            }
            Entry::Bad { line: _, why: _ } => self.more_bad += 1,
        }
        None
    }

    pub(super) fn bad_lines(&self) -> u64 {
        self.bad.len() as u64 + self.more_bad
    }

    pub(super) fn unknown_events(&self) -> u64 {
        self.unknown
    }

    pub(super) fn say(&self) {
        self.notes().iter().for_each(super::say);
    }

    /// Returns what people have to know of them, in lines.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = self.bad.clone();
        if self.more_bad > 0 {
            notes.push(format!("warning: {} more lines cannot be read", self.more_bad));
        }
        if self.unknown > 0 {
            let events = counted(self.unknown, "event");
            notes
                .push(format!("note: {events} of a later tine left out; `--format jsonl` has all"));
        }
        notes
    }
}

/// Prints what there is on standard output: text, or JSON.
pub(super) fn print_out(bytes: &[u8], is_json: bool) -> Result<Exit, Refusal> {
    let mut out = runner::stdout(is_json);
    finish(out.write_all(bytes).and_then(|()| out.flush()))
}

/// A reader that has seen enough is no error.
pub(super) fn finish(written: io::Result<()>) -> Result<Exit, Refusal> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Refusal::new(Exit::Error, format!("cannot write the output: {error}")))
        }
        Ok(()) | Err(_) => Ok(Exit::Done),
    }
}

/// Returns the id of the session in `directory`.
pub(super) fn id_of(directory: &Path) -> String {
    directory.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

pub(super) fn root(environment: &Environment) -> Result<PathBuf, Refusal> {
    dirs::sessions_root(environment).map_err(|_| start::no_home())
}

pub(super) fn not_found(error: &FindError) -> Refusal {
    match error {
        FindError::None { .. } | FindError::Ambiguous { .. } | FindError::SameName { .. } => {
            Refusal::new(Exit::BadInput, error.to_string())
        }
        FindError::Unreadable(error) => cannot_read(error),
    }
}

pub(super) fn cannot_read(error: &LogError) -> Refusal {
    Refusal::because(Exit::Error, error)
}
