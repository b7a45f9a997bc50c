//! Undoing in real files and a real log.

use std::os::unix::fs::{PermissionsExt, symlink};

use tempfile::TempDir;

use super::*;
use crate::branch::Branch;
use crate::event::{
    Digest, Event, EventKind, FileState, Invocation, InvocationEnd, Seq, SessionHead, SessionId,
};

/// A session whose main unit changed files.
struct Place {
    directory: TempDir,
    log: SessionLog,
    seq: u64,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("work")).unwrap();
        let log = SessionLog::create(&directory.path().join("session")).unwrap();
        let mut place = Self { directory, log, seq: 0 };
        place.say(EventKind::SessionOpened(SessionHead {
            session: SessionId("s".into()),
            version: "1".into(),
            cwd: "/w".into(),
            model: "m".into(),
            mode: "default".into(),
            forked_from: None,
            sandbox: None,
        }));
        place.say(EventKind::InvocationStarted { prompt: "go".into(), message: None });
        place
    }

    fn say(&mut self, kind: EventKind) {
        self.seq += 1;
        let (seq, branch) = (Seq(self.seq), Branch::root());
        let (invocation, unit) = (Invocation(1), UnitId::MAIN);
        self.log.append(&Event { seq, at: now(), invocation, unit, branch, kind }).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("work").join(name)
    }

    /// Changes a file as a tool does.
    fn change(&mut self, name: &str, before: Option<&str>, after: Option<&str>) {
        let path = self.path(name);
        let state = |text: &str| FileState { digest: Digest::of(text.as_bytes()), mode: 0o640 };
        let blobs = Blobs::of(&self.directory.path().join("session"));
        if let Some(before) = before {
            blobs.keep(Digest::of(before.as_bytes()), before.as_bytes()).unwrap();
        }
        self.say(EventKind::FileChanged(Arc::new(FileChange {
            by: ChangedBy::Call("call".into()),
            path: path_text::to_text(&path).into(),
            before: before.map(state),
            after: after.map(state),
            directories: crate::tool::missing_directories(&path),
        })));
        match after {
            Some(after) => {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, after).unwrap();
            }
            None => std::fs::remove_file(path).unwrap(),
        }
    }

    fn undo(&mut self) -> Result<Plan, UndoError> {
        let (undo, plan) = self.look();
        self.carry_out(&undo, &plan).map(|()| plan)
    }

    fn look(&mut self) -> (Undo, Plan) {
        let undo = Undo::read(&self.directory.path().join("session")).unwrap();
        let plan = undo.plan(Selection::After(Seq(0)));
        (undo, plan)
    }

    fn carry_out(&mut self, undo: &Undo, plan: &Plan) -> Result<(), UndoError> {
        let mut past = Past::read(&self.directory.path().join("session")).unwrap();
        let said = Said { typed: "/undo".into(), text: "done".into() };
        undo.carry_out(plan, &said, &mut self.log, &mut past)
    }

    fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.path(name)).ok()
    }

    /// The events of the undo.
    fn events(&self) -> Vec<EventKind> {
        let entries = read(&self.directory.path().join("session")).unwrap();
        let events = entries.skip(usize::try_from(self.seq).unwrap()).map(|entry| match entry {
            Entry::Event(event) => event.kind,
            Entry::Bad { .. } | Entry::Unknown { .. } => panic!("{entry:?}"),
        });
        events.collect()
    }
}

fn fates(plan: &Plan) -> Vec<&Fate> {
    plan.files.iter().map(|file| &file.fate).collect()
}

#[test]
fn a_deleted_file_comes_back_with_its_mode_and_a_made_one_goes_with_its_directories() {
    let mut place = Place::new();
    place.change("kept", None, Some("k"));
    place.change("gone", Some("old"), Some("old"));
    place.change("gone", Some("old"), None);
    place.change("a/b/c/new", None, Some("n"));
    place.change("a/b/c/other", None, Some("o"));
    place.change("a/mine/new", None, Some("m"));
    std::fs::write(place.path("a/mine/notes"), "mine").unwrap();
    place.undo().unwrap();
    assert_eq!(place.read("gone").as_deref(), Some("old"));
    let mode = place.path("gone").metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o640);
    assert!(!place.path("a/b").exists());
    assert_eq!(place.read("a/mine/notes").as_deref(), Some("mine"));
    assert_eq!(place.read("kept"), None);
}

#[test]
fn an_undo_is_an_invocation_that_journals_each_file_before_it_goes_back() {
    let mut place = Place::new();
    place.change("a", Some("old"), Some("new"));
    let changed = Seq(place.seq);
    place.undo().unwrap();
    let path: Arc<str> = path_text::to_text(&place.path("a")).into();
    let state = |text: &str, mode| Some(FileState { digest: Digest::of(text.as_bytes()), mode });
    let mode = place.path("a").metadata().unwrap().permissions().mode() & 0o7777;
    let end = InvocationEnd {
        outcome: Outcome::Done { text: "done".into() },
        text: "done".into(),
        cancel: None,
        unfinished: Vec::new(),
    };
    let change = FileChange {
        by: ChangedBy::Undo { from: changed },
        path: Arc::clone(&path),
        before: state("new", mode),
        after: state("old", mode),
        directories: 0,
    };
    let text = format!(
        "The user has taken back changes of files. These are again what they were before; read a \
         file before you change it:\n- {path}"
    );
    assert_eq!(
        place.events(),
        [
            EventKind::InvocationStarted { prompt: "/undo".into(), message: None },
            EventKind::FileChanged(Arc::new(change)),
            EventKind::Prompted(text.into()),
            EventKind::InvocationEnded(Arc::new(end)),
        ]
    );
}

#[test]
fn a_file_that_cannot_go_back_leaves_all_others_as_they_are() {
    let mut place = Place::new();
    for name in ["a", "b", "c"] {
        place.change(name, Some("old"), Some("new"));
    }
    let (undo, plan) = place.look();
    std::fs::write(place.path("c"), "mine").unwrap();
    let refused = place.carry_out(&undo, &plan).unwrap_err();
    let path = path_text::to_text(&place.path("c"));
    assert_eq!(refused.to_string(), format!("cannot put {path} back"));
    assert_eq!(place.events(), []);
    // Here it is only seen on the way: a directory has come to stand there.
    std::fs::write(place.path("c"), "new").unwrap();
    let roots = Roots::open([]).unwrap();
    let steps = plan.files.iter().map(|file| undo.step(file)).collect::<Result<Vec<_>, _>>();
    let steps = steps.unwrap();
    std::fs::remove_file(place.path("c")).unwrap();
    std::fs::create_dir(place.path("c")).unwrap();
    assert!(file::all_or_none(&roots, &steps).is_err());
    let left = ["a", "b"].map(|name| place.read(name));
    assert_eq!(left, [Some("new".to_owned()), Some("new".to_owned())]);
}

#[test]
fn an_undo_that_fails_gives_back_rights_and_owners_and_leaves_a_newcomers_file() {
    let mut place = Place::new();
    place.change("a", None, Some("made"));
    place.change("b", Some("old"), Some("new"));
    let rights = |place: &Place| {
        let metadata = place.path("a").metadata().unwrap();
        crate::tool::replace::Rights::of(&metadata)
    };
    std::fs::set_permissions(place.path("a"), std::fs::Permissions::from_mode(0o604)).unwrap();
    if nix::unistd::Uid::effective().is_root() {
        std::os::unix::fs::chown(place.path("a"), Some(12345), Some(54321)).unwrap();
    }
    let before = rights(&place);
    let (undo, plan) = place.look();
    let steps = plan.files.iter().map(|file| undo.step(file)).collect::<Result<Vec<_>, _>>();
    let steps = steps.unwrap();
    std::fs::write(place.path("b"), "the user's own").unwrap();
    let refused = file::all_or_none(&Roots::open([]).unwrap(), &steps).unwrap_err();
    let path = path_text::to_text(&place.path("b"));
    assert_eq!(refused.to_string(), format!("cannot put {path} back"));
    assert_eq!((place.read("a").as_deref(), rights(&place)), (Some("made"), before));
    assert_eq!(place.read("b").as_deref(), Some("the user's own"));
}

#[test]
fn what_is_no_longer_a_file_or_whose_bytes_are_lost_stays() {
    let mut place = Place::new();
    for name in ["a", "b", "c/d"] {
        place.change(name, Some(name), Some("new"));
    }
    std::fs::remove_file(place.path("a")).unwrap();
    symlink("b", place.path("a")).unwrap();
    for pack in std::fs::read_dir(place.directory.path().join("session/before")).unwrap() {
        let pack = pack.unwrap().path();
        if std::fs::read(&pack).unwrap().ends_with(b"\nb") {
            std::fs::remove_file(pack).unwrap();
        }
    }
    std::fs::rename(place.path("c"), place.path("e")).unwrap();
    symlink("e", place.path("c")).unwrap();
    let (_, plan) = place.look();
    let unknown = |why: &str| Fate::Stays(Reason::Unknown(why.to_owned()));
    let above = unknown("a link has come to stand on its path");
    let lost = unknown("what it held before was not kept");
    assert_eq!(fates(&plan), [&Fate::Stays(Reason::Outside(Seq(3))), &lost, &above]);
}

#[test]
fn a_file_with_other_hard_links_stays_unless_only_its_name_goes() {
    let mut place = Place::new();
    place.change("a", Some("evil"), Some("same"));
    place.change("new", None, Some("same"));
    for name in ["a", "new"] {
        // As a command can do it between the change and the undo.
        std::fs::remove_file(place.path(name)).unwrap();
        std::fs::write(place.path("envrc"), "same").unwrap();
        std::fs::hard_link(place.path("envrc"), place.path(name)).unwrap();
    }
    let (_, plan) = place.look();
    let stays = Fate::Stays(Reason::Unknown(file::OTHER_NAMES.to_owned()));
    assert_eq!(fates(&plan), [&stays, &Fate::GoesBack]);
    assert_eq!(place.read("envrc").as_deref(), Some("same"));
}

#[test]
fn a_hard_link_that_appears_after_the_plan_stops_the_undo() {
    let mut place = Place::new();
    place.change("a", Some("evil"), Some("same"));
    let (undo, plan) = place.look();
    std::fs::hard_link(place.path("a"), place.path("envrc")).unwrap();
    assert!(place.carry_out(&undo, &plan).is_err());
    assert_eq!(place.read("envrc").as_deref(), Some("same"));
}

#[test]
fn links_go_back_as_links_and_files_as_files() {
    let mut place = Place::new();
    let blobs = Blobs::of(&place.directory.path().join("session"));
    let link = |to: &str| Some(FileState::of_link(to.as_bytes()));
    let file = |text: &str| Some(FileState { digest: Digest::of(text.as_bytes()), mode: 0o640 });
    // Whether the bytes are alike does not matter: a link is no file.
    let changes = [
        ("deleted", link("to"), None),
        ("made", None, link("to")),
        ("led", link("to"), link("there")),
        ("filed", link("to"), file("to")),
        ("linked", file("to"), link("to")),
    ];
    blobs.keep(Digest::of(b"to"), b"to").unwrap();
    for (name, before, after) in changes {
        place.say(EventKind::FileChanged(Arc::new(FileChange {
            by: ChangedBy::Call("call".into()),
            path: path_text::to_text(&place.path(name)).into(),
            before,
            after,
            directories: 0,
        })));
        match after {
            Some(state) if state.is_link() => {
                symlink(if name == "led" { "there" } else { "to" }, place.path(name)).unwrap();
            }
            Some(_) => std::fs::write(place.path(name), "to").unwrap(),
            None => {}
        }
    }
    let stand = |place: &Place| {
        changes.map(|(name, ..)| match place.path(name).read_link() {
            Ok(to) => format!("-> {}", to.display()),
            Err(_) => std::fs::read_to_string(place.path(name)).unwrap_or_default(),
        })
    };
    let after = stand(&place);
    assert_eq!(after, ["", "-> to", "-> there", "to", "-> to"]);
    place.undo().unwrap();
    assert_eq!(stand(&place), ["-> to", "", "-> to", "-> to", "to"]);
    let mode = place.path("linked").symlink_metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o640);
    // One that leads elsewhere by now stays.
    let mut place = Place::new();
    place.say(EventKind::FileChanged(Arc::new(FileChange {
        by: ChangedBy::Call("call".into()),
        path: path_text::to_text(&place.path("led")).into(),
        before: link("to"),
        after: link("there"),
        directories: 0,
    })));
    symlink("elsewhere", place.path("led")).unwrap();
    let (_, plan) = place.look();
    assert_eq!(fates(&plan), [&Fate::Stays(Reason::Outside(Seq(3)))]);
}

#[test]
fn an_undo_at_rest_has_its_end_for_everybody_even_if_the_log_refuses_it() {
    let mut place = Place::new();
    place.change("a", Some("old"), Some("new"));
    let end = InvocationEnd {
        outcome: Outcome::Done { text: "x".into() },
        text: "x".into(),
        cancel: None,
        unfinished: Vec::new(),
    };
    place.say(EventKind::InvocationEnded(Arc::new(end)));
    let (undo, plan) = place.look();
    let mut past = Past::read(&place.directory.path().join("session")).unwrap();
    let mut dispatcher = Dispatcher::after(Seed::of(&past));
    assert!(dispatcher.live_on(None, now()).effects.is_empty());
    // No log takes a line of this length.
    let text = "x".repeat(33 * 1024 * 1024).into();
    let said = Said { typed: "/undo".into(), text };
    let mut book = Book::new(&mut dispatcher, &mut place.log, &mut past);
    let refused = undo.carry_out_at_rest(&plan, &said, &mut book).unwrap_err();
    assert!(matches!(refused, UndoError::Log(LogError::TooLong { .. })), "{refused}");
    let events = book.events();
    let is_end = |event: &Event| matches!(event.kind, EventKind::InvocationEnded(_));
    assert!(events.iter().filter(|event| is_end(event)).count() == 1 && is_end(&events[3]));
    assert!(dispatcher.rests());
    assert!(past.invocations().values().all(|invocation| !invocation.is_open));
}
