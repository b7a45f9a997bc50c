//! A log that begins as a copy of another one.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use super::blobs::share;
use super::dirs::{LOG, create_private};
use super::line;
use super::log::{Lock, LogError, Repair, SessionLog, options};
use super::read::{Entries, Entry, read};
use crate::event::{Event, EventKind, Seq};

/// The copy until it is whole. A directory that holds no more than this is no
/// session.
const DRAFT: &str = "log.new";

impl SessionLog {
    /// Starts the log of a new session in `directory` with the event `opened`
    /// and, as they are, the lines of the session in `from` up to the event
    /// `last`. Lines that cannot be read are left behind. What files held before
    /// they were changed comes with them.
    ///
    /// # Errors
    ///
    /// Also if `directory` holds a log already. Then nothing is changed; in
    /// any case there is a whole log or none.
    pub fn copy(
        directory: &Path,
        from: &Path,
        opened: &Event,
        last: Seq,
    ) -> Result<Self, LogError> {
        let entries = read(from)?;
        create_private(directory).map_err(|error| LogError::io("create", directory, error))?;
        let lock = Lock::take(directory)?;
        let path = directory.join(LOG);
        let failed = |error| LogError::io("create session log", &path, error);
        if path.exists() {
            return Err(failed(io::ErrorKind::AlreadyExists.into()));
        }
        let draft = directory.join(DRAFT);
        let written = write(&draft, entries, opened, last).and_then(|file| {
            share(from, directory)?;
            fs::rename(&draft, &path)?;
            File::open(directory)?.sync_all()?;
            Ok((file.metadata()?.len(), file))
        });
        let (end, file) = written.map_err(|error| {
            // What is left of it would only take room.
            let _ = fs::remove_file(&draft);
            failed(error)
        })?;
        Ok(Self::open(directory, file, end, Repair::Nothing, lock))
    }
}

fn write(draft: &Path, mut entries: Entries, opened: &Event, last: Seq) -> io::Result<File> {
    match fs::remove_file(draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        // A copy that a crash cut short.
        Ok(()) | Err(_) => {}
    }
    let mut out = BufWriter::new(options().create_new(true).open(draft)?);
    let mut first = Vec::new();
    line::encode(opened, &mut first);
    out.write_all(&first)?;
    while let Some(entry) = entries.next() {
        let is_wanted = match entry {
            Entry::Event(event) => {
                event.seq <= last && !matches!(event.kind, EventKind::SessionOpened(_))
            }
            Entry::Unknown { .. } => line::peek(entries.text()).is_ok_and(|peek| peek.seq <= last),
            Entry::Bad { .. } => false,
        };
        if is_wanted {
            out.write_all(entries.text())?;
            out.write_all(b"\n")?;
        }
    }
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::samples::{event, notice, opened, started};

    fn lines(directory: &Path) -> Vec<String> {
        let log = fs::read_to_string(directory.join(LOG)).unwrap();
        log.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_copy_has_every_line_that_can_be_read_up_to_the_last_one_wanted() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("from"), root.path().join("to"));
        let mut log = SessionLog::create(&from).unwrap();
        log.append(&event(1, opened())).unwrap();
        log.append(&event(2, started("go"))).unwrap();
        drop(log);
        let unknown = lines(&from)[1].replace("invocation_started", "of_a_later_tine");
        let mut file = options().open(from.join(LOG)).unwrap();
        writeln!(file, "nonsense\n{}", unknown.replace("\"seq\":2", "\"seq\":3")).unwrap();
        let mut log = SessionLog::open_for_append(&from).unwrap();
        log.append(&event(4, notice("late"))).unwrap();
        // The last line has no line feed yet.
        let whole = fs::read(from.join(LOG)).unwrap();
        fs::write(from.join(LOG), &whole[..whole.len() - 1]).unwrap();

        let copy = SessionLog::copy(&to, &from, &event(1, opened()), Seq(4)).unwrap();
        let original = lines(&from);
        let kept = [&original[0], &original[1], &original[3], &original[4]];
        assert_eq!(lines(&to).iter().collect::<Vec<_>>(), kept);
        drop(copy);
        let mut copy = SessionLog::open_for_append(&to).unwrap();
        copy.append(&event(5, notice("more"))).unwrap();
        assert_eq!(lines(&to).len(), 5);
        let shorter = root.path().join("shorter");
        SessionLog::copy(&shorter, &from, &event(1, opened()), Seq(2)).unwrap();
        assert_eq!(lines(&shorter), original[..2]);
    }

    #[test]
    fn a_session_that_is_there_is_not_written_over() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("from"), root.path().join("to"));
        drop(SessionLog::create(&from).unwrap());
        SessionLog::create(&to).unwrap().append(&event(1, started("mine"))).unwrap();
        let before = lines(&to);
        SessionLog::copy(&to, &from, &event(1, opened()), Seq(9)).unwrap_err();
        assert_eq!(lines(&to), before);
        assert!(
            SessionLog::copy(
                &root.path().join("new"),
                &root.path().join("none"),
                &event(1, opened()),
                Seq(9)
            )
            .is_err()
        );
        assert!(!root.path().join("new").exists());
    }

    #[test]
    fn what_a_crash_left_of_a_copy_is_no_session_and_in_nobodys_way() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("from"), root.path().join("to"));
        SessionLog::create(&from).unwrap().append(&event(1, opened())).unwrap();
        create_private(&to).unwrap();
        fs::write(to.join(DRAFT), "half a").unwrap();
        SessionLog::copy(&to, &from, &event(1, opened()), Seq(9)).unwrap();
        assert_eq!(lines(&to), lines(&from));
        assert!(!to.join(DRAFT).exists());
    }
}
