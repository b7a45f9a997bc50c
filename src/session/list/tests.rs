//! What listing and finding promise, over logs written by the real writer.

use super::*;
use crate::event::InvocationEnd;
use crate::session::samples::{ended, event, notice, opened, started};
use crate::session::{SessionLog, write_name};

/// Writes `root/project/id` and returns the still open log.
fn session(root: &Path, id: &str, kinds: Vec<EventKind>) -> SessionLog {
    let mut log = SessionLog::create(&root.join("project").join(id)).unwrap();
    for (seq, kind) in (1..).zip(kinds) {
        log.append(&event(seq, kind)).unwrap();
    }
    log
}

fn states(root: &Path) -> Vec<(String, SessionState)> {
    list(root).unwrap().into_iter().map(|summary| (summary.id, summary.state)).collect()
}

#[test]
fn a_summary_says_what_the_log_says() {
    let root = tempfile::tempdir().unwrap();
    let prompt = format!("\n{}\nsecond line", "é".repeat(300));
    let kinds = vec![opened(), started(&prompt), notice("x"), ended(), started("again"), ended()];
    drop(session(root.path(), "0198-a", kinds));
    let directory = root.path().join("project/0198-a");
    let size = fs::metadata(directory.join("log.jsonl")).unwrap().len();
    let expected = SessionSummary {
        id: "0198-a".to_owned(),
        directory,
        name: None,
        cwd: "/home/ada/work/api".to_owned(),
        model: "offline".to_owned(),
        first_prompt: "é".repeat(PROMPT_CAP),
        started: UnixMillis(100),
        last_activity: UnixMillis(600),
        size,
        state: SessionState::Ended,
    };
    assert_eq!(list(root.path()).unwrap(), [expected]);
}

#[test]
fn the_latest_session_comes_first_and_its_state_is_told() {
    let root = tempfile::tempdir().unwrap();
    drop(session(root.path(), "opened", vec![opened()]));
    drop(session(root.path(), "cut-short", vec![opened(), started("hi")]));
    drop(session(root.path(), "ended", vec![opened(), started("hi"), ended()]));
    let running =
        session(root.path(), "running", vec![opened(), started("hi"), ended(), started("more")]);
    let expected = [
        ("running", SessionState::Running),
        ("ended", SessionState::Ended),
        ("cut-short", SessionState::Interrupted),
        ("opened", SessionState::Ended),
    ];
    assert_eq!(states(root.path()), expected.map(|(id, state)| (id.to_owned(), state)));
    drop(running);
    assert_eq!(states(root.path())[0], ("running".to_owned(), SessionState::Interrupted));
}

#[test]
fn a_run_that_was_found_to_be_cut_off_stays_so() {
    let root = tempfile::tempdir().unwrap();
    let EventKind::InvocationEnded(end) = ended() else { panic!() };
    let cut_off = InvocationEnd { outcome: Outcome::Interrupted, ..(*end).clone() };
    let kinds = vec![opened(), started("hi"), EventKind::InvocationEnded(cut_off.into())];
    drop(session(root.path(), "cut-off", kinds));
    assert_eq!(states(root.path()), [("cut-off".to_owned(), SessionState::Interrupted)]);
}

#[test]
fn a_killed_writer_leaves_an_interrupted_session() {
    let root = tempfile::tempdir().unwrap();
    drop(session(root.path(), "killed", vec![opened(), started("hi")]));
    // The largest process id of Linux is 2^22, so nobody has this one.
    fs::write(root.path().join("project/killed/lock"), "4194305").unwrap();
    assert_eq!(states(root.path()), [("killed".to_owned(), SessionState::Interrupted)]);
}

#[test]
fn a_session_is_not_running_because_some_other_process_has_its_writers_id() {
    let root = tempfile::tempdir().unwrap();
    drop(session(root.path(), "crashed", vec![opened(), started("hi")]));
    let lock = root.path().join("project/crashed/lock");
    fs::write(&lock, std::process::id().to_string()).unwrap();
    assert_eq!(states(root.path()), [("crashed".to_owned(), SessionState::Interrupted)]);
}

#[test]
fn damage_at_either_end_hides_no_session() {
    let root = tempfile::tempdir().unwrap();
    drop(session(root.path(), "torn", vec![opened(), started("hi"), ended()]));
    let path = root.path().join("project/torn/log.jsonl");
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("???\n{whole}{{\"seq\":4")).unwrap();
    let summary = list(root.path()).unwrap().remove(0);
    assert_eq!((&*summary.first_prompt, summary.state), ("hi", SessionState::Ended));
    assert_eq!(summary.last_activity, UnixMillis(300));

    fs::write(&path, "").unwrap();
    let summary = list(root.path()).unwrap().remove(0);
    assert_eq!((&*summary.cwd, summary.state), ("", SessionState::Interrupted));
}

#[test]
fn a_root_without_sessions_lists_none() {
    let root = tempfile::tempdir().unwrap();
    assert_eq!(list(&root.path().join("missing")).unwrap(), []);
    fs::create_dir_all(root.path().join("project/no-log")).unwrap();
    fs::write(root.path().join("stray"), "").unwrap();
    assert_eq!(list(root.path()).unwrap(), []);
}

#[test]
fn a_session_is_found_by_its_id_or_by_a_prefix_of_it_alone() {
    let root = tempfile::tempdir().unwrap();
    for id in ["0198-a", "0198-ab", "0199-c"] {
        drop(session(root.path(), id, vec![opened()]));
    }
    let found = |wanted| {
        find(root.path(), wanted)
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .map_err(|error| error.to_string())
    };
    assert_eq!(found("0198-ab"), Ok("0198-ab".to_owned()));
    assert_eq!(found("0198-a"), Ok("0198-a".to_owned()));
    assert_eq!(found("0199"), Ok("0199-c".to_owned()));
    assert_eq!(found("0199-C"), Ok("0199-c".to_owned()));
    assert_eq!(
        found("0198"),
        Err("`0198` could be any of 2 sessions\n  0198-a\n  0198-ab\nhint: give more of the id"
            .to_owned())
    );
    for none in ["7", "", " ", "../project", "98-a"] {
        let expected = format!("no session `{none}`\nhint: `tine sessions` lists all of them");
        assert_eq!(found(none), Err(expected));
    }
}

#[test]
fn a_session_is_found_by_its_whole_name_where_no_id_fits() {
    let root = tempfile::tempdir().unwrap();
    let directory = |id: &str| root.path().join("project").join(id);
    for (id, name) in [
        ("0198-a", "Große Prüfung"),
        ("0198-b", "twice"),
        ("0199-c", "Twice"),
        ("0199-d", "0198-a"),
    ] {
        drop(session(root.path(), id, vec![opened()]));
        write_name(&directory(id), &SessionName::parse(name).unwrap()).unwrap();
    }
    let found = |wanted| find(root.path(), wanted).map_err(|error| error.to_string());
    assert_eq!(found("große prüfung"), Ok(directory("0198-a")));
    assert_eq!(found("0198-a"), Ok(directory("0198-a")));
    assert_eq!(
        found("TWICE"),
        Err("`TWICE` is the name of 2 sessions\n  0198-b\n  0199-c\n\
             hint: give the id, or the beginning of it"
            .to_owned())
    );
    assert!(found("große").is_err());
    let named: Vec<_> = list(root.path()).unwrap().into_iter().map(|found| found.name).collect();
    assert_eq!(named[0].as_ref().map(SessionName::as_str), Some("Große Prüfung"));
}

#[test]
fn the_sessions_of_a_working_directory_are_listed_alone() {
    let root = tempfile::tempdir().unwrap();
    let cwd = Path::new("/home/ada/work/api");
    assert_eq!(list_project(root.path(), cwd).unwrap(), []);
    drop(session(root.path(), "elsewhere", vec![opened()]));
    let here = root.path().join(dirs::project_name(cwd)).join("here");
    SessionLog::create(&here).unwrap().append(&event(1, opened())).unwrap();
    let ids: Vec<_> =
        list_project(root.path(), cwd).unwrap().into_iter().map(|found| found.id).collect();
    assert_eq!(ids, ["here"]);
}
