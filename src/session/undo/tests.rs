//! Random sessions and chosen ones: what goes back, and what stays.

use proptest::prelude::*;

use super::*;
use crate::branch::Branch;
use crate::event::{NetworkAccess, Origin, SlotPosition, UnixMillis};

/// A session that changes files which hold one letter each.
#[derive(Default)]
struct Session {
    events: Vec<Event>,
    invocation: u32,
    files: BTreeMap<&'static str, char>,
}

const MAIN: u32 = 0;

impl Session {
    /// A session with a first prompt.
    fn new() -> Self {
        let mut session = Self::default();
        session.prompt();
        session
    }

    fn say(&mut self, unit: u32, kind: EventKind) -> Seq {
        let seq = Seq(self.events.len() as u64 + 1);
        let invocation = Invocation(self.invocation);
        let (unit, branch, at) = (UnitId(unit), Branch::root(), UnixMillis(seq.0));
        self.events.push(Event { seq, at, invocation, unit, branch, kind });
        seq
    }

    fn prompt(&mut self) -> Seq {
        self.invocation += 1;
        let prompt = format!("prompt {}", self.invocation).into();
        self.say(MAIN, EventKind::InvocationStarted { prompt, message: None })
    }

    fn start(&mut self, unit: u32, parent: u32, slot: Option<(u32, u32)>) {
        self.start_again(unit, parent, slot, None);
    }

    fn start_again(
        &mut self,
        unit: u32,
        parent: u32,
        slot: Option<(u32, u32)>,
        again: Option<u32>,
    ) {
        let head = UnitHead {
            parent: UnitId(parent),
            call: Some("batch".into()),
            slot: slot.map(|(index, total)| SlotPosition { index, total }),
            description: "look".into(),
            agent: "general-purpose".into(),
            depth: 1,
            origin: Origin::Prompt,
            is_background: false,
            again: again.map(UnitId),
            step: None,
        };
        self.say(unit, EventKind::UnitQueued(head));
    }

    /// A unit makes a file hold a letter, or deletes it.
    fn change(&mut self, unit: u32, path: &'static str, after: impl Into<Option<char>>) -> Seq {
        let seq = self.journal(unit, path, after.into());
        self.outside(path, after_of(&self.events));
        seq
    }

    /// A change stands in the log that was never made.
    fn journal(&mut self, unit: u32, path: &'static str, after: Option<char>) -> Seq {
        let change = FileChange {
            by: ChangedBy::Call("call".into()),
            path: path.into(),
            before: self.files.get(path).copied().map(state),
            after: after.map(state),
            directories: 0,
        };
        self.say(unit, EventKind::FileChanged(Arc::new(change)))
    }

    /// Somebody else changes a file.
    fn outside(&mut self, path: &'static str, after: Option<FileState>) {
        let letter = ('a'..='z').chain('A'..='Z').find(|&c| after == Some(state(c)));
        match letter {
            Some(letter) => self.files.insert(path, letter),
            None => self.files.remove(path),
        };
    }

    fn put(&mut self, path: &'static str, letter: char) {
        self.files.insert(path, letter);
    }

    fn changes(&self) -> (Changes, BTreeMap<Arc<str>, Now>) {
        let mut changes = Changes::default();
        self.events.iter().for_each(|event| changes.take(event));
        let now = |path: &Arc<str>| match self.files.get(&**path) {
            Some(&letter) => (Arc::clone(path), Now::Holds(state(letter).digest)),
            None => (Arc::clone(path), Now::Missing),
        };
        let now = changes.paths().map(now).collect();
        (changes, now)
    }

    fn plan(&self, selection: Selection) -> Plan {
        let (changes, now) = self.changes();
        changes.plan(selection, &now)
    }

    /// What a plan comes to, in words.
    fn words(&self, selection: Selection) -> Vec<String> {
        let word = |file: PlannedFile| match &file.fate {
            Fate::AsItWas => format!("{}: as it was", file.path),
            Fate::GoesBack => format!("{}: {}", file.path, letter(file.to)),
            Fate::Stays(reason) => format!("{}: {reason}", file.path),
        };
        self.plan(selection).files.into_iter().map(word).collect()
    }

    /// Takes back what goes back, in an invocation of its own; returns the
    /// event before it.
    fn undo(&mut self, selection: Selection) -> Seq {
        let before = Seq(self.events.len() as u64);
        let files = self.plan(selection).files;
        self.prompt();
        for file in files.iter().filter(|file| file.fate == Fate::GoesBack) {
            self.journal_undo(file);
            let path = PATHS.into_iter().find(|path| **path == *file.path).unwrap();
            self.outside(path, file.to);
        }
        before
    }

    fn journal_undo(&mut self, file: &PlannedFile) {
        let change = FileChange {
            by: ChangedBy::Undo { from: file.from },
            path: Arc::clone(&file.path),
            before: self.files.get(&*file.path).copied().map(state),
            after: file.to,
            directories: 0,
        };
        self.say(MAIN, EventKind::FileChanged(Arc::new(change)));
    }
}

const PATHS: [&str; 4] = ["/w/a", "/w/b", "/w/c", "/w/d"];

fn state(letter: char) -> FileState {
    FileState { digest: Digest::of(letter.to_string().as_bytes()), mode: 0o644 }
}

fn letter(state_of: Option<FileState>) -> String {
    let letter = ('a'..='z').chain('A'..='Z').find(|&c| state_of == Some(state(c)));
    letter.map_or_else(|| "gone".to_owned(), |letter| letter.to_string())
}

fn after_of(events: &[Event]) -> Option<FileState> {
    let EventKind::FileChanged(change) = &events.last().unwrap().kind else {
        panic!("the last event is no change of a file");
    };
    change.after
}

use Selection::{After, LastPrompt, Slot, Unit};

#[test]
fn files_go_back_to_what_they_were_before_the_first_change_that_is_taken_back() {
    let mut session = Session::new();
    session.put("/w/a", 'x');
    session.put("/w/c", 'z');
    let point = session.change(MAIN, "/w/a", 'y');
    session.change(MAIN, "/w/a", 'z');
    session.change(1, "/w/b", 'n');
    session.change(1, "/w/c", None);
    assert_eq!(session.words(After(Seq(0))), ["/w/a: x", "/w/b: gone", "/w/c: z"]);
    assert_eq!(session.words(After(point)), ["/w/a: y", "/w/b: gone", "/w/c: z"]);
    assert_eq!(session.words(LastPrompt), ["/w/a: x", "/w/b: gone", "/w/c: z"]);
    assert_eq!(session.words(After(Seq(99))), [""; 0]);
}

#[test]
fn the_last_prompt_that_changed_anything_is_taken_back_and_then_the_one_before() {
    let mut session = Session::new();
    session.put("/w/a", 'x');
    session.change(MAIN, "/w/a", 'y');
    session.prompt();
    session.change(2, "/w/a", 'z');
    session.change(MAIN, "/w/b", 'n');
    session.prompt();
    assert_eq!(session.plan(LastPrompt).prompt.as_deref(), Some("prompt 2"));
    assert_eq!(session.words(LastPrompt), ["/w/a: y", "/w/b: gone"]);
    session.undo(LastPrompt);
    assert_eq!(session.words(LastPrompt), ["/w/a: x"]);
    session.undo(LastPrompt);
    assert_eq!(session.plan(LastPrompt), Plan::default());
}

#[test]
fn an_undo_is_undone_by_going_back_to_before_it_and_the_change_is_in_force_again() {
    let mut session = Session::new();
    session.put("/w/a", 'x');
    session.change(MAIN, "/w/a", 'y');
    let before = session.undo(LastPrompt);
    assert_eq!(session.files["/w/a"], 'x');
    let again = session.undo(After(before));
    assert_eq!(session.files["/w/a"], 'y');
    assert_eq!(session.plan(LastPrompt).prompt.as_deref(), Some("prompt 1"));
    session.undo(After(again));
    assert_eq!((session.files["/w/a"], session.plan(LastPrompt)), ('x', Plan::default()));
    assert_eq!(session.words(After(Seq(0))), ["/w/a: as it was"]);
}

#[test]
fn what_somebody_else_changed_meanwhile_or_since_stays() {
    let mut session = Session::new();
    for (path, letter) in [("/w/a", 'x'), ("/w/b", 'x'), ("/w/c", 'x')] {
        session.put(path, letter);
        session.change(MAIN, path, 'y');
    }
    session.put("/w/a", 'u');
    session.put("/w/b", 'u');
    session.change(MAIN, "/w/b", 'v');
    session.files.remove("/w/c");
    let since = |seq| format!("somebody else has changed it since #{seq}");
    assert_eq!(
        session.words(After(Seq(0))),
        [
            format!("/w/a: {}", since(2)),
            format!("/w/b: {}", since(3)),
            format!("/w/c: {}", since(4))
        ]
    );
    assert_eq!(session.words(After(Seq(4))), ["/w/b: u"]);
}

#[test]
fn a_unit_is_taken_back_with_all_it_started_unless_another_one_changed_the_file_later() {
    let mut session = Session::new();
    session.start(1, 0, None);
    session.start(2, 0, None);
    session.start(3, 1, None);
    for path in ["/w/a", "/w/b", "/w/c"] {
        session.put(path, 'x');
    }
    session.change(1, "/w/a", 'y');
    session.change(3, "/w/a", 'z');
    session.change(3, "/w/b", 'y');
    session.change(2, "/w/b", 'z');
    session.change(2, "/w/c", 'y');
    session.change(1, "/w/c", 'z');
    assert_eq!(
        session.words(Unit(UnitId(1))),
        ["/w/a: x", "/w/b: agent-2 changed it later, in #8", "/w/c: y"]
    );
    assert_eq!(session.words(Unit(UnitId(3)))[1..], ["/w/b: agent-2 changed it later, in #8"]);
    session.undo(Unit(UnitId(2)));
    assert_eq!(session.words(Unit(UnitId(1))), ["/w/a: x", "/w/b: x", "/w/c: y"]);
    assert_eq!(session.words(Unit(UnitId::MAIN)).len(), 3);
}

#[test]
fn a_change_or_an_undo_that_a_crash_kept_from_being_made_hides_nothing() {
    let mut session = Session::new();
    session.put("/w/a", 'x');
    session.journal(MAIN, "/w/a", Some('y'));
    assert_eq!(session.words(LastPrompt), ["/w/a: as it was"]);
    session.change(MAIN, "/w/a", 'z');
    assert_eq!(session.words(LastPrompt), ["/w/a: x"]);
    session.prompt();
    session.change(MAIN, "/w/a", 'w');
    let [file] = &session.plan(LastPrompt).files[..] else { panic!("one file was changed") };
    session.prompt();
    session.journal_undo(file);
    assert_eq!(session.words(LastPrompt), ["/w/a: z"]);
    session.change(MAIN, "/w/a", 'v');
    assert_eq!(session.words(LastPrompt), ["/w/a: w"]);
    session.undo(LastPrompt);
    assert_eq!(session.words(LastPrompt), ["/w/a: z"]);
}

#[test]
fn the_files_of_a_worktree_that_is_gone_are_forgotten() {
    let mut session = Session::new();
    let made =
        |path: &str| EventKind::Worktree(Worktree::Made { path: path.into(), base: "c".into() });
    session.say(1, made("/w"));
    session.say(2, made("/w/b"));
    session.change(1, "/w/a", 'x');
    session.say(2, EventKind::Worktree(Worktree::Dropped));
    assert_eq!(session.words(After(Seq(0))), ["/w/a: gone"]);
    session.say(1, EventKind::Worktree(Worktree::Applied { patch: "/p".into(), files: 1 }));
    assert_eq!(session.words(After(Seq(0))), [""; 0]);
}

#[test]
fn commands_that_could_write_are_counted() {
    let mut session = Session::new();
    let mut run = |unit, backend, access| {
        let confinement = Some(Confinement { backend, access, network: NetworkAccess::None });
        let (call, tool, subject) = ("c".into(), "Bash".into(), "x".into());
        session.say(unit, EventKind::ToolStarted { call, tool, subject, confinement })
    };
    run(0, Backend::Bwrap, Access::ReadOnly);
    let point = run(0, Backend::Landlock, Access::WorkspaceWrite);
    run(1, Backend::None, Access::ReadOnly);
    run(0, Backend::Bwrap, Access::Off);
    for (tool, count) in [("Bash", 1), ("Read", 0)] {
        let (call, tool, subject, confinement) = ("c".into(), tool.into(), "x".into(), None);
        session.say(2, EventKind::ToolStarted { call, tool, subject, confinement });
        assert_eq!(session.plan(Unit(UnitId(2))).commands, count.max(1));
    }
    assert_eq!(session.plan(After(Seq(0))).commands, 4);
    assert_eq!(session.plan(After(point)).commands, 3);
    assert_eq!(session.plan(Unit(UnitId(1))).commands, 1);
}

#[test]
fn the_slots_of_the_last_batch_are_found_in_order() {
    let mut session = Session::new();
    assert_eq!(session.changes().0.last_batch(), []);
    for (unit, parent, slot) in
        [(1, 0, Some((0, 2))), (2, 0, Some((1, 2))), (3, 0, Some((0, 2))), (4, 0, Some((1, 2)))]
    {
        session.start(unit, parent, slot);
    }
    session.start(5, 0, None);
    assert_eq!(session.changes().0.last_batch(), [UnitId(3), UnitId(4)]);
    assert!(session.changes().0.has_unit(UnitId(5)));
    assert!(!session.changes().0.has_unit(UnitId(6)));
}

#[test]
fn a_slot_that_ran_again_is_one_slot_whose_units_are_all_taken_back() {
    let mut session = Session::new();
    session.prompt();
    session.start(1, 0, Some((0, 2)));
    session.start(2, 0, Some((1, 2)));
    session.change(1, "a", 'a');
    session.start_again(3, 0, Some((0, 2)), Some(1));
    session.change(3, "b", 'b');
    session.start_again(4, 0, Some((0, 2)), Some(3));
    session.change(4, "c", 'c');
    session.change(2, "d", 'd');
    assert_eq!(session.changes().0.last_batch(), [UnitId(1), UnitId(2)]);
    let paths = |selection| {
        let files = session.plan(selection).files.into_iter();
        files.map(|file| file.path.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(paths(Slot(UnitId(1))), ["a", "b", "c"]);
    assert_eq!(paths(Unit(UnitId(1))), ["a"]);
}

/// What happens to files in a random session.
#[derive(Debug, Clone)]
enum Deed {
    /// A unit makes a file hold a letter, or deletes it.
    Change { unit: u32, file: usize, after: Option<char> },
    /// A unit moves a file over another one.
    Move { unit: u32, file: usize, to: usize },
    /// A unit's change is journalled and not made.
    Lost { unit: u32, file: usize, after: char },
    /// Somebody else writes a file.
    Outside { file: usize },
}

fn deed() -> impl Strategy<Value = Deed> {
    let (unit, file) = (1..4_u32, 0..PATHS.len());
    let after = prop::option::of(prop::sample::select(vec!['a', 'b', 'c']));
    prop_oneof![
        6 => (unit.clone(), file.clone(), after)
            .prop_map(|(unit, file, after)| Deed::Change { unit, file, after }),
        2 => (unit.clone(), file.clone(), file.clone())
            .prop_map(|(unit, file, to)| Deed::Move { unit, file, to }),
        1 => (unit, file.clone(), prop::sample::select(vec!['d', 'e']))
            .prop_map(|(unit, file, after)| Deed::Lost { unit, file, after }),
        1 => file.prop_map(|file| Deed::Outside { file }),
    ]
}

/// What is known of the files of a random session.
struct Told {
    session: Session,
    /// The files at each event, and who made it happen.
    history: Vec<(BTreeMap<&'static str, char>, Option<&'static str>, u32)>,
    /// When somebody else wrote which file: the number of events before it.
    outside: Vec<(usize, &'static str)>,
}

fn act_out(deeds: &[Deed]) -> Told {
    let session = Session::new();
    let history = vec![(session.files.clone(), None, 0)];
    let mut told = Told { session, history, outside: Vec::new() };
    // Letters that no unit writes, each but once.
    let mut letters = 'A'..='Z';
    for deed in deeds {
        let changes: Vec<(u32, &'static str, Option<char>, bool)> = match *deed {
            Deed::Change { unit, file, after } => vec![(unit, PATHS[file], after, true)],
            Deed::Lost { unit, file, after } => vec![(unit, PATHS[file], Some(after), false)],
            Deed::Move { unit, file, to } => match told.session.files.get(PATHS[file]).copied() {
                Some(letter) if file != to => {
                    vec![(unit, PATHS[file], None, true), (unit, PATHS[to], Some(letter), true)]
                }
                Some(_) | None => Vec::new(),
            },
            Deed::Outside { file } => {
                if let Some(letter) = letters.next() {
                    told.outside.push((told.session.events.len(), PATHS[file]));
                    told.session.put(PATHS[file], letter);
                }
                Vec::new()
            }
        };
        for (unit, path, after, is_made) in changes {
            if told.session.files.get(path).copied() == after {
                continue;
            }
            told.history.push((told.session.files.clone(), Some(path), unit));
            match is_made {
                true => told.session.change(unit, path, after),
                false => told.session.journal(unit, path, after),
            };
        }
    }
    told
}

impl Told {
    /// What has to become of each file.
    fn expected(&self, is_selected: impl Fn(usize, u32) -> bool) -> BTreeMap<String, String> {
        let mut expected = BTreeMap::new();
        for path in PATHS {
            let mine = self.history.iter().enumerate().filter(|(_, (_, of, _))| *of == Some(path));
            let mine: Vec<(usize, u32)> = mine.map(|(at, (_, _, unit))| (at, *unit)).collect();
            let Some(&(first, _)) = mine.iter().find(|&&(at, unit)| is_selected(at, unit)) else {
                continue;
            };
            let (to, now) = (self.history[first].0.get(path), self.session.files.get(path));
            let later = mine.iter().filter(|(at, _)| *at > first);
            let other = later.filter(|&&(at, unit)| !is_selected(at, unit)).min();
            let is_outside = self.outside.iter().any(|&(at, of)| of == path && at > first);
            let fate = match other {
                _ if to == now => "as it was".to_owned(),
                Some((at, unit)) => format!("agent-{unit} changed it later, in #{}", at + 1),
                None if is_outside => "somebody else".to_owned(),
                None => to.map_or_else(|| "gone".to_owned(), ToString::to_string),
            };
            expected.insert(path.to_owned(), fate);
        }
        expected
    }

    fn found(&self, selection: Selection) -> BTreeMap<String, String> {
        let words = self.session.words(selection).into_iter().map(|line| {
            let (path, fate) = line.split_once(": ").unwrap();
            let fate = if fate.starts_with("somebody else") { "somebody else" } else { fate };
            (path.to_owned(), fate.to_owned())
        });
        words.collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn every_file_goes_back_to_the_point_unless_somebody_else_changed_it_since(
        deeds in prop::collection::vec(deed(), 0..24), point in 0..24_usize,
    ) {
        let told = act_out(&deeds);
        let seq = Seq(point as u64 + 1);
        prop_assert_eq!(told.found(After(seq)), told.expected(|at, _| at > point));
    }

    #[test]
    fn a_units_files_go_back_unless_another_unit_or_somebody_else_changed_them_since(
        deeds in prop::collection::vec(deed(), 0..24), unit in 1..4_u32,
    ) {
        let told = act_out(&deeds);
        prop_assert_eq!(told.found(Unit(UnitId(unit))), told.expected(|_, of| of == unit));
    }

    #[test]
    fn prompts_are_taken_back_one_by_one_and_each_undo_can_be_undone(
        deeds in prop::collection::vec(deed(), 0..8), more in prop::collection::vec(deed(), 0..8),
    ) {
        let calm = |deeds: &[Deed]| -> Vec<Deed> {
            deeds.iter().filter(|deed| matches!(deed, Deed::Change { .. })).cloned().collect()
        };
        let mut session = act_out(&calm(&deeds)).session;
        let between = session.files.clone();
        session.prompt();
        for deed in calm(&more) {
            let Deed::Change { unit, file, after } = deed else { continue };
            if session.files.get(PATHS[file]).copied() != after {
                session.change(unit, PATHS[file], after);
            }
        }
        let (end, is_same) = (session.files.clone(), session.changes().0.last());
        let before = session.undo(LastPrompt);
        prop_assert_eq!(before, is_same);
        let undone = session.files.clone();
        prop_assert!(undone == between || undone.is_empty());
        session.undo(After(before));
        prop_assert_eq!(&session.files, &end);
    }
}
