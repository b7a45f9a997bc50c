//! Turns of logs, and what would become of real files.

use insta::assert_snapshot;

use super::*;
use crate::cli::chat::commands::testing::{Place, asked, opened, over, started};
use crate::event::testing::{Log, called, finished, prompted, replied};
use crate::event::{ChangedBy, Compaction, CompactionTrigger, Digest, FileChange, FileState};
use crate::message::{Output, Usage};
use crate::path_text::to_text;
use crate::session::Blobs;

fn turn(log: &mut Log, prompt: &str) {
    log.invocation += 1;
    log.put(0, "", started(prompt)).put(0, "", prompted(prompt));
    log.put(0, "", replied("Yes.")).put(0, "", over());
}

fn change(path: &str, before: Option<&str>, after: Option<&str>) -> EventKind {
    let state = |text: &str| FileState { digest: Digest::of(text.as_bytes()), mode: 0o644 };
    EventKind::FileChanged(Arc::new(FileChange {
        by: ChangedBy::Call("c".into()),
        path: path.into(),
        before: before.map(state),
        after: after.map(state),
        directories: 0,
    }))
}

fn compacted() -> EventKind {
    EventKind::Compacted(Arc::new(Compaction {
        trigger: CompactionTrigger::Manual,
        text: "in short".into(),
        kept_prompts: 0,
        tokens_before: 9,
        tokens_after: 3,
        model: "m".into(),
        usage: Usage::default(),
        took_ms: 1,
    }))
}

/// Returns a line for each turn: where it goes back to and what is listed.
#[track_caller]
fn listed(log: &Log) -> String {
    let place = Place::new();
    place.write(&place.kit.session, log);
    let line = |turn: &Turn| {
        let to = turn.to.map_or("-".to_owned(), |to| format!("#{}", to.0));
        format!("{to:<4}{}\n", turn.row(TimeZone::UTC).plain())
    };
    turns(&place.kit).unwrap().iter().map(line).collect()
}

#[test]
fn every_turn_is_listed_with_its_files_the_last_one_first() {
    let mut log = Log::default();
    log.put(0, "", opened());
    turn(&mut log, "make it\nblue \u{1b}[2J");
    log.invocation = 1;
    log.put(0, "", change("/w/a", None, Some("x"))).put(1, "1", change("/w/b", None, Some("x")));
    log.put(0, "", change("/w/a", Some("x"), Some("y")));
    turn(&mut log, "");
    turn(&mut log, "/undo");
    assert_snapshot!(listed(&log), @r#"
    #12 1970-01-01 00:13            /undo
    #8  1970-01-01 00:09            (news of agents in the background)
    #1  1970-01-01 00:02  2 files   make it\nblue \u{1b}[2J
    "#);
}

#[test]
fn what_was_summed_up_cannot_be_gone_back_behind() {
    let mut log = Log::default();
    log.put(0, "", opened());
    turn(&mut log, "first");
    log.invocation += 1;
    log.put(0, "", started("/compact")).put(0, "", compacted()).put(0, "", over());
    turn(&mut log, "after");
    assert_snapshot!(listed(&log), @"
    #8  1970-01-01 00:09            after
    -   1970-01-01 00:06            summed up: /compact
    -   1970-01-01 00:02            summed up: first
    ");
}

#[test]
fn turns_that_were_gone_back_behind_are_gone() {
    let mut log = Log::default();
    log.put(0, "", opened());
    turn(&mut log, "first");
    turn(&mut log, "wrong");
    log.put(0, "", EventKind::Rewound { to: Seq(5) });
    turn(&mut log, "right");
    assert_snapshot!(listed(&log), @"
    #10 1970-01-01 00:11            right
    #1  1970-01-01 00:02            first
    ");
}

#[test]
fn behind_calls_that_lost_their_outputs_it_goes_back_to_before_them() {
    let mut log = Log { invocation: 1, ..Log::default() };
    log.put(0, "", opened()).put(0, "", started("first")).put(0, "", prompted("first"));
    log.put(0, "", called("", &[("Read", "{}")])).put(0, "", finished("Read", Output::ok("x")));
    log.put(0, "", called("", &[("Bash", "{}")]));
    turn(&mut log, "second");
    assert_snapshot!(listed(&log), @"
    #5  1970-01-01 00:07            second
    #1  1970-01-01 00:02            first
    ");
}

#[test]
fn files_of_a_worktree_are_not_counted() {
    let mut log = asked("go");
    let made = Worktree::Made { path: "/t/1".into(), base: "abc".into() };
    log.put(1, "1", EventKind::Worktree(made));
    log.put(1, "1", change("/t/1/a", None, Some("x")));
    log.put(1, "1", change("/t/10/a", None, Some("x")));
    assert_snapshot!(listed(&log), @"#1  1970-01-01 00:02  1 file    go");
}

/// A session that made `old.txt` into another one and wrote `new.txt`, which
/// somebody else has changed since, if `is_changed`.
fn with_files(is_changed: bool) -> Place {
    let place = Place::new();
    let path = |name: &str| place.kit.root.join(name);
    let text = |name: &str| to_text(&path(name));
    let mut log = asked("make it blue");
    log.put(0, "", change(&text("old.txt"), Some("red"), Some("blue")));
    log.put(0, "", change(&text("new.txt"), None, Some("new")));
    let directory = place.write(&place.kit.session, &log);
    Blobs::of(&directory).keep(Digest::of(b"red"), b"red").unwrap();
    std::fs::write(path("old.txt"), "blue").unwrap();
    std::fs::write(path("new.txt"), if is_changed { "newer" } else { "new" }).unwrap();
    place
}

fn shown(place: &Place, flags: &UndoFlags) -> String {
    let (rows, take_back) = plan_flags(&place.kit, flags).unwrap();
    let said = take_back.map_or("nothing is done".to_owned(), |take_back| {
        format!("{}: {}", take_back.said.typed, take_back.said.text)
    });
    place.shown(&rows) + &said
}

#[test]
fn the_plan_of_an_undo_is_shown_and_can_be_carried_out() {
    let place = with_files(false);
    assert_snapshot!(shown(&place, &UndoFlags::default()), @"
    2 files would be put back (prompt: make it blue)
      would delete new.txt
      would put back old.txt
    /undo: 2 files put back (prompt: make it blue)
    ");
    let (rows, take_back) = plan(&place.kit, Seq(5)).unwrap();
    assert_eq!(rows[0].plain(), "2 files would be put back");
    assert_eq!(&*take_back.unwrap().said.typed, "/undo --to 5");
}

#[test]
fn whoever_goes_on_leaves_the_files_that_others_have_changed() {
    let place = with_files(true);
    assert_snapshot!(shown(&place, &UndoFlags::default()), @"
    1 file would be put back; 1 stays (prompt: make it blue)
      would put back old.txt
      new.txt stays: somebody else has changed it since #7
    /undo --skip-changed: 1 file put back; 1 stays (prompt: make it blue)
    ");
}

#[test]
fn where_nothing_goes_back_nothing_is_done() {
    let place = with_files(false);
    let dry_run = UndoFlags { dry_run: true, ..UndoFlags::default() };
    assert!(shown(&place, &dry_run).ends_with("nothing is done"));
    let later = UndoFlags { to: Some(7), ..UndoFlags::default() };
    assert_eq!(shown(&place, &later), "there is nothing to undo\nnothing is done");
    let refused = plan(&place.kit, Seq(99)).unwrap_err();
    assert_eq!(refused.message, "there is no event 99; the last one is 7");
    assert_eq!(plan(&Place::unkept().kit, Seq(1)).unwrap_err().message, "this session is not kept");
}
