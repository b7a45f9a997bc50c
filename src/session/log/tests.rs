//! What the log promises, against a real file system.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::*;
use crate::event::EventKind;
use crate::session::samples::{event, notice, one_of_each, opened, started};
use crate::session::{Entry, read};

fn entries(directory: &Path) -> Vec<Entry> {
    read(directory).unwrap().collect()
}

fn events(events: &[Event]) -> Vec<Entry> {
    events.iter().cloned().map(Entry::Event).collect()
}

fn write(directory: &Path, events: &[Event]) {
    let mut log = SessionLog::create(directory).unwrap();
    for event in events {
        log.append(event).unwrap();
    }
    log.sync().unwrap();
}

#[test]
fn what_was_appended_is_read_back_also_across_a_reopening() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("p/s");
    let all = one_of_each();
    write(&directory, &all[..5]);
    let mut log = SessionLog::open_for_append(&directory).unwrap();
    assert_eq!(log.repair(), Repair::Nothing);
    for event in &all[5..] {
        log.append(event).unwrap();
    }
    assert_eq!(entries(&directory), events(&all));
}

#[test]
fn files_are_for_the_user_alone() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("p/s");
    write(&directory, &one_of_each());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&root.path().join("p")), 0o700);
    assert_eq!(mode(&directory), 0o700);
    assert_eq!(mode(&directory.join("log.jsonl")), 0o600);
    assert_eq!(mode(&directory.join("lock")), 0o600);
}

#[test]
fn a_second_writer_is_refused_and_told_who_the_first_is() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("s");
    let first = SessionLog::create(&directory).unwrap();
    let refused = SessionLog::open_for_append(&directory).unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!(
            "session {} is in use by process {}\nhint: end it there, or start a new session",
            directory.display(),
            std::process::id()
        )
    );
    drop(first);
    assert_eq!(holder(&directory), None);
    SessionLog::open_for_append(&directory).unwrap();
}

#[test]
fn a_lock_that_outlives_its_holder_for_a_moment_is_waited_for() {
    let root = tempfile::tempdir().unwrap();
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let path = root.path().join("lock");
    fs::write(&path, child.id().to_string()).unwrap();
    let mut left = Flock::lock(File::open(&path).unwrap(), FlockArg::LockExclusiveNonblock).ok();
    let mut pauses = 0;
    let taken = Lock::take_pausing(root.path(), || {
        pauses += 1;
        drop(left.take());
    });
    assert!(taken.is_ok(), "{taken:?}");
    assert_eq!(pauses, 1);
}

#[test]
fn a_session_is_created_once() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), &one_of_each());
    assert!(matches!(
        SessionLog::create(root.path()),
        Err(LogError::Io { action: "create session log", path: _, source })
            if source.kind() == io::ErrorKind::AlreadyExists
    ));
    assert_eq!(entries(root.path()), events(&one_of_each()));
}

/// Every way a killed writer can leave a log: cut after each of its bytes.
#[test]
fn a_log_cut_at_any_byte_keeps_its_whole_events_and_takes_new_ones() {
    let all = [event(1, opened()), event(2, started("hi")), event(3, EventKind::UnitStarted)];
    let root = tempfile::tempdir().unwrap();
    write(&root.path().join("whole"), &all);
    let whole = fs::read(root.path().join("whole/log.jsonl")).unwrap();
    let ends: Vec<usize> =
        whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(i, _)| i + 1).collect();
    for cut in 0..=whole.len() {
        let directory = root.path().join(cut.to_string());
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("log.jsonl"), &whole[..cut]).unwrap();
        let mut log = SessionLog::open_for_append(&directory).unwrap();

        let kept = ends.iter().filter(|&&end| end <= cut + 1).count();
        let kept_bytes = kept.checked_sub(1).map_or(0, |last| ends[last]);
        let torn = cut.saturating_sub(kept_bytes);
        let repair = if cut + 1 == kept_bytes {
            Repair::Completed
        } else if torn > 0 {
            Repair::Cut { bytes: torn as u64 }
        } else {
            Repair::Nothing
        };
        assert_eq!(log.repair(), repair, "cut at {cut}");
        let torn_file = fs::read(directory.join("log.torn")).unwrap_or_default();
        let moved = torn_file.strip_suffix(b"\n").unwrap_or_default();
        assert_eq!(moved, &whole[cut - torn..cut], "cut at {cut}");

        log.append(&event(9, notice("later"))).unwrap();
        let mut expected = all[..kept].to_vec();
        expected.push(event(9, notice("later")));
        assert_eq!(entries(&directory), events(&expected), "cut at {cut}");
    }
}

#[test]
fn a_second_tear_is_added_to_the_first() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), &[event(1, opened())]);
    for torn in ["{\"seq\":2", "{\"se"] {
        let mut file = options().open(root.path().join("log.jsonl")).unwrap();
        file.write_all(torn.as_bytes()).unwrap();
        let cut = Repair::Cut { bytes: torn.len() as u64 };
        assert_eq!(SessionLog::open_for_append(root.path()).unwrap().repair(), cut);
    }
    let torn = fs::read_to_string(root.path().join("log.torn")).unwrap();
    assert_eq!(torn, "{\"seq\":2\n{\"se\n");
    assert_eq!(entries(root.path()), events(&[event(1, opened())]));
}

#[test]
fn a_bad_line_in_the_middle_is_reported_and_stays() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), &[event(1, opened())]);
    let path = root.path().join("log.jsonl");
    let mut file = options().open(&path).unwrap();
    file.write_all(b"nonsense\n").unwrap();
    let mut log = SessionLog::open_for_append(root.path()).unwrap();
    log.append(&event(2, started("hi"))).unwrap();
    let bad = Entry::Bad { line: 2, why: "expected ident at line 1 column 2".to_owned() };
    assert_eq!(
        entries(root.path()),
        [Entry::Event(event(1, opened())), bad, Entry::Event(event(2, started("hi")))]
    );
    assert_eq!(log.repair(), Repair::Nothing);
}

#[test]
fn a_log_of_a_later_version_is_left_as_it_is() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("log.jsonl");
    let text = "{\"v\":2,\"session\":\"x\"}\n{\"torn";
    fs::write(&path, text).unwrap();
    let refused = SessionLog::open_for_append(root.path()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!(
            "session log {} has format version 2\n\
             hint: it was written by a later tine; use that one",
            path.display()
        )
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn an_event_that_no_reader_takes_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let mut log = SessionLog::create(root.path()).unwrap();
    let refused = log.append(&event(1, notice(&"x".repeat(LINE_CAP)))).unwrap_err();
    assert!(matches!(refused, LogError::TooLong { path: _, bytes } if bytes > LINE_CAP));
    log.append(&event(1, opened())).unwrap();
    assert_eq!(entries(root.path()), events(&[event(1, opened())]));
}

/// A limit on the file's length makes the kernel take part of a line and
/// refuse the rest, as a full disk does. The limit holds for a whole process,
/// so the test runs itself once more in one that has it.
#[test]
fn a_write_that_falls_short_leaves_no_torn_line() {
    let limits = fs::read_to_string("/proc/self/limits").unwrap();
    let limit = limits.lines().find(|line| line.starts_with("Max file size")).unwrap();
    if limit.contains("unlimited") {
        let this_test = "session::log::tests::a_write_that_falls_short_leaves_no_torn_line";
        let output = Command::new("sh")
            .args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$0\" --exact \"$1\""])
            .arg(std::env::current_exe().unwrap())
            .arg(this_test)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }

    let root = tempfile::tempdir().unwrap();
    let mut log = SessionLog::create(root.path()).unwrap();
    let mut written = Vec::new();
    let refused = loop {
        let next = event(written.len() as u64, notice("one of many"));
        match log.append(&next) {
            Ok(()) => written.push(next),
            Err(error) => break error,
        }
    };
    assert!(matches!(
        refused,
        LogError::Io { action: "write session log", path: _, source }
            if source.raw_os_error() == Some(Errno::EFBIG as i32)
    ));
    assert!(written.len() > 10, "{}", written.len());
    let whole = fs::read(root.path().join("log.jsonl")).unwrap();
    assert_eq!(whole.last(), Some(&b'\n'));
    // The limit is no multiple of the line, so the last write was a short one.
    assert!(!whole.len().is_multiple_of(512));
    log.append(&event(0, notice("too long once more"))).unwrap_err();
    assert_eq!(entries(root.path()), events(&written));
}
