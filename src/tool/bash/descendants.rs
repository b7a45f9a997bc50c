//! The processes that a command has started and that are no longer in its group.
//!
//! A daemon, or a test runner that gives its workers a session of their own, leaves the
//! process group. So each command gets a mark in its environment, which all processes
//! that it starts inherit. The process table is searched for processes with the mark and
//! for their children. A process that clears its environment and outlives its parent is
//! not found.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

// The variable carries the mark. A command within a command has both marks.
use crate::reaper::COMMAND_VARIABLE as VARIABLE;
use crate::tool::bound::first_characters;

/// Maximum characters of a command line that are shown.
const COMMAND_CAP: usize = 60;

/// Maximum bytes that are read of a file about a process.
const FILE_CAP: u64 = 256 * 1024;

/// The mark that all processes of one command share.
#[derive(Debug, Clone)]
pub(super) struct CommandMark {
    text: String,
    /// The shell; what it starts is found without the mark, too.
    shell: Pid,
    /// When the shell was started, in the system's ticks. Nothing older belongs to it.
    since: u64,
}

/// A process that a command has started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Descendant {
    pub(super) id: i32,
    pub(super) group: i32,
    /// Tells it from a later process with the same id.
    started: u64,
}

/// A row of the table of processes.
struct ProcessRow {
    parent: i32,
    descendant: Descendant,
}

impl CommandMark {
    /// Returns a text that no other command of this machine is marked by.
    pub(super) fn text() -> String {
        static OURS: OnceLock<String> = OnceLock::new();
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let ours = OURS.get_or_init(|| {
            let id = std::process::id();
            let started = i32::try_from(id).ok().and_then(row).map(|row| row.descendant.started);
            format!("{id}-{}", started.unwrap_or_default())
        });
        format!("{ours}-{}", COUNT.fetch_add(1, Ordering::Relaxed))
    }

    /// Adds a mark to the environment of a command.
    pub(super) fn add_to(text: &str, variables: &mut Vec<(OsString, OsString)>) {
        match variables.iter_mut().find(|(name, _)| name == VARIABLE) {
            Some((_, value)) => {
                value.push(" ");
                value.push(text);
            }
            None => variables.push((VARIABLE.into(), text.into())),
        }
    }

    /// Names what a shell that was just started has been marked by.
    pub(super) fn of(text: String, shell: Pid) -> Self {
        let since = row(shell.as_raw()).map_or(0, |row| row.descendant.started);
        Self { text, shell, since }
    }

    /// Returns the processes that run now, without the shell.
    pub(super) fn descendants(&self) -> Vec<Descendant> {
        let rows = table(self.since);
        let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
        for row in rows.values() {
            children.entry(row.parent).or_default().push(row.descendant.id);
        }
        let marked = rows.keys().copied().filter(|id| self.marks(*id));
        let mut left: Vec<i32> = marked.chain([self.shell.as_raw()]).collect();
        let mut found = HashSet::new();
        while let Some(id) = left.pop() {
            if found.insert(id) {
                left.extend(children.get(&id).into_iter().flatten());
            }
        }
        found.remove(&self.shell.as_raw());
        let mut found: Vec<Descendant> =
            found.iter().filter_map(|id| Some(rows.get(id)?.descendant.clone())).collect();
        found.sort_by_key(|descendant| descendant.id);
        found
    }

    fn marks(&self, id: i32) -> bool {
        let Some(variables) = file(id, "environ") else { return false };
        variables.split(|byte| *byte == 0).any(|variable| {
            let value = variable.strip_prefix(VARIABLE.as_bytes());
            let value = value.and_then(|value| value.strip_prefix(b"="));
            let mut marks = value.into_iter().flat_map(|value| value.split(|byte| *byte == b' '));
            marks.any(|mark| mark == self.text.as_bytes())
        })
    }
}

impl Descendant {
    /// Returns whether it runs still.
    pub(super) fn is_alive(&self) -> bool {
        row(self.id).is_some_and(|row| row.descendant.started == self.started)
    }

    /// Sends it a signal, unless it is gone.
    pub(super) fn signal(&self, signal: Signal) {
        if self.is_alive() {
            // It may have just ended, or belong to another user by now.
            let _ = kill(Pid::from_raw(self.id), signal);
        }
    }

    /// Returns its id and the beginning of its command line.
    pub(super) fn shown(&self) -> String {
        let words = file(self.id, "cmdline").unwrap_or_default();
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        match first_characters(&words, COMMAND_CAP) {
            ("", _) => self.id.to_string(),
            (whole, 0) => format!("{} (`{whole}`)", self.id),
            (start, _) => format!("{} (`{start}…`)", self.id),
        }
    }
}

/// Returns the processes that are not older than this one, by their ids.
fn table(since: u64) -> HashMap<i32, ProcessRow> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return HashMap::new() };
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let rows = ids.filter_map(|id: i32| Some((id, row(id)?)));
    rows.filter(|(_, row)| row.descendant.started >= since).collect()
}

/// Returns the row of a process; `None` if it has ended.
fn row(id: i32) -> Option<ProcessRow> {
    let text = file(id, "stat")?;
    // The name of the program may hold anything; the fields begin behind its end.
    let fields = text.iter().rposition(|byte| *byte == b')').map(|at| &text[at + 1..])?;
    let fields: Vec<&str> = std::str::from_utf8(fields).ok()?.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let small = |index: usize| number(index).and_then(|number| i32::try_from(number).ok());
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    let descendant = Descendant { id, group: small(2)?, started: number(19)? };
    Some(ProcessRow { parent: small(1)?, descendant })
}

fn file(id: i32, name: &str) -> Option<Vec<u8>> {
    use std::io::Read as _;
    let file = std::fs::File::open(format!("/proc/{id}/{name}")).ok()?;
    let mut bytes = Vec::new();
    file.take(FILE_CAP).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_own_row() {
        let id = i32::try_from(std::process::id()).unwrap();
        let ours = row(id).unwrap();
        let parent = i32::try_from(std::os::unix::process::parent_id()).unwrap();
        assert_eq!((ours.parent, ours.descendant.id), (parent, id));
        assert!(ours.descendant.is_alive());
        let other = Descendant { started: ours.descendant.started + 1, ..ours.descendant };
        assert!(!other.is_alive());
    }

    #[test]
    fn marks_differ_and_a_command_within_a_command_has_both() {
        let (one, two) = (CommandMark::text(), CommandMark::text());
        assert_ne!(one, two);
        let mut variables = vec![("A".into(), "b".into())];
        CommandMark::add_to(&one, &mut variables);
        CommandMark::add_to(&two, &mut variables);
        let expected = (OsString::from(VARIABLE), OsString::from(format!("{one} {two}")));
        assert_eq!(variables[1..], [expected]);
    }
}
