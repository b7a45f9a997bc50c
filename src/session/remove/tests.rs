//! What removing promises, against a real file system.

use std::os::unix::fs::symlink;
use std::time::SystemTime;

use super::*;
use crate::event::Event;
use crate::session::samples::{event, opened};
use crate::session::{SessionLog, SessionName, write_name};

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// The time of day of these tests: a hundred days after 1970 began.
const NOW: UnixMillis = UnixMillis(100 * DAY_MS);

const SEVEN_DAYS: Expiry = Expiry { now: NOW, max_age: Duration::from_millis(7 * DAY_MS) };

/// Makes a session with one event of the day `at` in a log last written on the
/// day `written`.
fn session(root: &Path, id: &str, at: u64, written: u64) -> PathBuf {
    let directory = root.join("project").join(id);
    let mut log = SessionLog::create(&directory).unwrap();
    log.append(&Event { at: UnixMillis(at * DAY_MS), ..event(1, opened()) }).unwrap();
    drop(log);
    set_written(&directory, written);
    directory
}

fn set_written(directory: &Path, day: u64) {
    let file = File::options().append(true).open(directory.join("log.jsonl")).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_millis(day * DAY_MS)).unwrap();
}

fn is_expired(directory: &Path) -> bool {
    let root = directory.parent().unwrap().parent().unwrap();
    expired(root, SEVEN_DAYS).unwrap().contains(&directory.to_owned())
}

#[test]
fn a_removed_session_leaves_nothing_and_takes_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let outside = root.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("kept"), "kept").unwrap();
    let (one, other) = (session(root.path(), "one", 1, 1), session(root.path(), "other", 1, 1));
    write_name(&one, &SessionName::parse("nightly").unwrap()).unwrap();
    fs::create_dir_all(one.join("deep/er")).unwrap();
    fs::write(one.join("deep/er/output.txt"), "x").unwrap();
    symlink(&outside, one.join("link")).unwrap();
    symlink(&outside, one.join("deep/link")).unwrap();
    symlink(outside.join("kept"), one.join("file-link")).unwrap();

    remove(&one).unwrap();
    assert!(!one.exists() && other.join("log.jsonl").exists());
    assert_eq!(fs::read_to_string(outside.join("kept")).unwrap(), "kept");
    remove(&other).unwrap();
    assert!(!root.path().join("project").exists());
}

#[test]
fn a_session_that_is_written_is_not_removed() {
    let root = tempfile::tempdir().unwrap();
    let directory = session(root.path(), "one", 1, 1);
    fs::write(directory.join("agent-1.txt"), "x").unwrap();
    let log = SessionLog::open_for_append(&directory).unwrap();
    set_written(&directory, 1);
    let own = std::process::id();
    for refused in [remove(&directory), remove_expired(&directory, SEVEN_DAYS).map(drop)] {
        assert!(
            matches!(refused, Err(LogError::Locked { directory: _, holder }) if holder == Some(own))
        );
    }
    assert!(!is_expired(&directory));
    assert!(directory.join("log.jsonl").exists() && directory.join("agent-1.txt").exists());
    drop(log);
    assert!(remove_expired(&directory, SEVEN_DAYS).unwrap());
}

#[test]
fn a_lock_that_is_a_link_is_not_followed() {
    let root = tempfile::tempdir().unwrap();
    let directory = session(root.path(), "one", 1, 1);
    let target = root.path().join("precious");
    fs::write(&target, "precious").unwrap();
    fs::remove_file(directory.join("lock")).unwrap();
    symlink(&target, directory.join("lock")).unwrap();
    remove(&directory).unwrap_err();
    SessionLog::open_for_append(&directory).unwrap_err();
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
}

#[test]
fn a_session_is_too_old_only_if_its_last_event_and_its_file_are() {
    let root = tempfile::tempdir().unwrap();
    let check = |id: &str, at: u64, written: u64, expected: bool| {
        let directory = session(root.path(), id, at, written);
        assert_eq!(is_expired(&directory), expected, "{id}");
    };
    check("old", 92, 92, true);
    check("on-the-day", 93, 93, false);
    check("young", 99, 99, false);
    check("the-clock-was-wrong", 1, 99, false);
    check("the-file-was-kept-by-a-copy", 99, 1, false);
    check("an-event-of-the-future", 1_000, 1, false);
    check("a-file-of-the-future", 1, 1_000, false);
}

#[test]
fn a_log_without_a_readable_event_is_as_old_as_its_file() {
    let root = tempfile::tempdir().unwrap();
    for (id, text) in [("empty", ""), ("damaged", "nonsense\n")] {
        let directory = session(root.path(), id, 99, 99);
        fs::write(directory.join("log.jsonl"), text).unwrap();
        set_written(&directory, 99);
        assert!(!is_expired(&directory), "{id}");
        set_written(&directory, 1);
        assert!(is_expired(&directory), "{id}");
    }
}

#[test]
fn a_session_with_a_name_is_kept_for_ever() {
    let root = tempfile::tempdir().unwrap();
    let directory = session(root.path(), "one", 1, 1);
    assert!(is_expired(&directory));
    write_name(&directory, &SessionName::parse("keep").unwrap()).unwrap();
    assert!(!is_expired(&directory));
    assert!(!remove_expired(&directory, SEVEN_DAYS).unwrap());
    fs::write(directory.join("name"), "\n\n").unwrap();
    assert!(!is_expired(&directory));
}

#[test]
fn a_session_that_has_been_written_since_is_kept() {
    let root = tempfile::tempdir().unwrap();
    let directory = session(root.path(), "one", 1, 1);
    assert_eq!(expired(root.path(), SEVEN_DAYS).unwrap(), [directory.as_path()]);
    let mut log = SessionLog::open_for_append(&directory).unwrap();
    log.append(&Event { at: NOW, ..event(2, opened()) }).unwrap();
    drop(log);
    set_written(&directory, 1);
    assert!(!remove_expired(&directory, SEVEN_DAYS).unwrap());
    assert!(directory.join("log.jsonl").exists());
}
