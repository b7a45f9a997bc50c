//! What was typed before: kept in a file for its owner alone, or only until
//! the end.
//!
//! What begins with a space is not kept, as in shells, and neither is what is
//! too long to have been typed. Two chats may share the file.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use nix::fcntl::OFlag;
use reedline::{
    CommandLineSearch, FileBackedHistory, History as _, HistoryItem, HistoryItemId,
    SearchDirection, SearchFilter, SearchQuery,
};

/// Most entries that are kept.
pub const ENTRIES: usize = 1_000;

/// Most bytes of an entry. What is longer was pasted, and is found again where
/// it came from.
pub const ENTRY_CAP: usize = 10_000;

/// Most bytes of the file. As much as all entries can be, and little to read.
const FILE_CAP: u64 = (ENTRIES * ENTRY_CAP) as u64 * 2;

/// What was typed before, the newest last.
#[derive(Debug, Default)]
pub struct History {
    entries: FileBackedHistory,
}

/// An entry's place among the others. It holds until something is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryId(HistoryItemId);

impl History {
    /// Opens the history in a file, which is made if there is none.
    ///
    /// # Errors
    ///
    /// If the file cannot be made, read or written, or is no history: then
    /// [`History::default`] remembers until the end.
    pub fn open(path: &Path) -> io::Result<Self> {
        if let Some(directory) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o600);
        // A pipe must not keep us waiting for whoever is at its other end.
        let file = options.custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
        let found = file.metadata()?;
        if !found.is_file() || found.len() > FILE_CAP {
            return Err(io::Error::other("it is no history of typed lines"));
        }
        if found.permissions().mode() & 0o077 != 0 {
            fs::set_permissions(path, Permissions::from_mode(0o600))?;
        }
        let entries = FileBackedHistory::with_file(ENTRIES, path.to_owned());
        Ok(Self { entries: entries.map_err(io::Error::other)? })
    }

    /// Keeps what was sent, and writes it down.
    ///
    /// # Errors
    ///
    /// If the file cannot be written. It is remembered until the end then.
    pub fn add(&mut self, text: &str) -> io::Result<()> {
        let text = text.trim_end();
        if text.is_empty() || text.starts_with(' ') || text.len() > ENTRY_CAP {
            return Ok(());
        }
        self.entries.save(HistoryItem::from_command_line(text)).map_err(io::Error::other)?;
        self.entries.sync()
    }

    /// Returns the newest entry before `from`, or of all, that begins so.
    #[must_use]
    pub fn before(&self, from: Option<EntryId>, beginning: &str) -> Option<(EntryId, String)> {
        self.next(SearchDirection::Backward, from, beginning)
    }

    /// Returns the oldest entry behind `from` that begins so.
    #[must_use]
    pub fn after(&self, from: EntryId, beginning: &str) -> Option<(EntryId, String)> {
        self.next(SearchDirection::Forward, Some(from), beginning)
    }

    /// Returns the entries that hold these words, the newest first, none twice.
    #[must_use]
    pub fn search(&self, words: &str, most: usize) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        let query = SearchQuery::all_that_contain_rev(words.to_owned());
        for item in self.entries.search(query).unwrap_or_default() {
            if found.len() == most {
                break;
            }
            if !found.contains(&item.command_line) {
                found.push(item.command_line);
            }
        }
        found
    }

    fn next(
        &self,
        direction: SearchDirection,
        from: Option<EntryId>,
        beginning: &str,
    ) -> Option<(EntryId, String)> {
        let wanted = CommandLineSearch::Prefix(beginning.to_owned());
        let query = SearchQuery {
            direction,
            start_time: None,
            end_time: None,
            start_id: from.map(|EntryId(id)| id),
            end_id: None,
            limit: Some(1),
            filter: SearchFilter::from_text_search(wanted, None),
        };
        // A file has no query of this kind that it refuses.
        let item = self.entries.search(query).ok()?.pop()?;
        Some((EntryId(item.id?), item.command_line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(entries: &[&str]) -> History {
        let mut history = History::default();
        entries.iter().for_each(|entry| history.add(entry).unwrap());
        history
    }

    /// All entries from the newest to the oldest that begin so.
    fn walked(history: &History, beginning: &str) -> Vec<String> {
        let mut at = None;
        let walk = std::iter::from_fn(|| {
            let (id, text) = history.before(at, beginning)?;
            at = Some(id);
            Some(text)
        });
        walk.collect()
    }

    #[test]
    fn entries_are_walked_from_the_newest_and_back_again() {
        let history = history(&["fix a", "test", "fix b", "fix b"]);
        assert_eq!(walked(&history, ""), ["fix b", "test", "fix a"]);
        assert_eq!(walked(&history, "fix"), ["fix b", "fix a"]);
        assert_eq!(walked(&history, "nothing"), Vec::<String>::new());
        let (newest, _) = history.before(None, "fix").unwrap();
        let (oldest, _) = history.before(Some(newest), "fix").unwrap();
        assert_eq!(history.after(oldest, "fix"), Some((newest, "fix b".to_owned())));
        assert_eq!(history.after(newest, "fix"), None);
    }

    #[test]
    fn a_search_finds_each_text_once_the_newest_first() {
        let history = history(&["make a", "b", "make c", "make a"]);
        assert_eq!(history.search("make", 9), ["make a", "make c"]);
        assert_eq!(history.search("make", 1), ["make a"]);
        assert_eq!(history.search("", 9), ["make a", "make c", "b"]);
    }

    #[test]
    fn what_begins_with_a_space_or_is_too_long_is_not_kept() {
        let long = "x".repeat(ENTRY_CAP + 1);
        assert_eq!(walked(&history(&["a", " secret", &long, "", "  \n", "b\n"]), ""), ["b", "a"]);
    }

    #[test]
    fn a_file_is_its_owners_alone_and_shared_by_two_chats() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state/tine/history.txt");
        let mut first = History::open(&path).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        let mut second = History::open(&path).unwrap();
        first.add("one\ntwo").unwrap();
        second.add("three").unwrap();
        assert_eq!(walked(&second, ""), ["three", "one\ntwo"]);
        drop((first, second));
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert_eq!(walked(&History::open(&path).unwrap(), ""), ["three", "one\ntwo"]);
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history.txt");
        let lines: String = (0..ENTRIES + 5).map(|number| format!("{number}\n")).collect();
        fs::write(&path, lines).unwrap();
        let mut history = History::open(&path).unwrap();
        history.add("newest").unwrap();
        drop(history);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!((text.lines().count(), text.lines().next()), (ENTRIES, Some("6")));
    }

    #[test]
    fn what_is_no_history_is_refused_and_left_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history.txt");
        fs::write(&path, b"\xff\xfe\n").unwrap();
        assert!(History::open(&path).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"\xff\xfe\n");
        let pipe = directory.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(History::open(&pipe).is_err());
        assert!(History::open(directory.path()).is_err());
    }
}
