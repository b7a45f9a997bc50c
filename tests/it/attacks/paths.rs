//! Paths, links, swaps and patches that lead to files which nobody has
//! allowed anybody to touch: each with plain file operations first, which do
//! the harm, and then through the guard and the tools, which do not.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use serde_json::{Value, json};
use tine::patch::{FilePatch, Patch};
use tine::path_text;

use crate::support::desk::Desk;

/// What an attack leaves in the file that it is after.
const CANARY: &str = "CANARY";

/// What is in files that are there before, and what edits replace.
const OLD: &str = "old\n";

/// Something that is there before the call, or comes between the guard's
/// decision and the tool. `{top}` is the directory of the test; paths start
/// there.
#[derive(Clone, Copy)]
enum Step {
    Dir(&'static str),
    File(&'static str),
    Link(&'static str, &'static str),
    Rename(&'static str, &'static str),
}

use Step::{Dir, File, Link, Rename};

/// What is called.
#[derive(Clone, Copy)]
enum Call {
    Write(&'static str),
    Edit(&'static str),
    /// The body of a patch.
    Patch(&'static str),
}

use Call::{Edit, Patch as Apply, Write};

struct Attack {
    before: &'static [Step],
    call: Call,
    /// What comes after the decision.
    then: &'static [Step],
    /// The file that must not change, from the top.
    victim: &'static str,
}

/// An attack that is a call on a place as it is.
const fn on(before: &'static [Step], call: Call, victim: &'static str) -> Attack {
    Attack { before, call, then: &[], victim }
}

/// An attack that needs something swapped after the decision.
const fn swapped(
    before: &'static [Step],
    call: Call,
    then: &'static [Step],
    victim: &'static str,
) -> Attack {
    Attack { before, call, then, victim }
}

const NEW: &str = "outside/new";
const HOOK: &str = "work/.git/hooks/pre-commit";
const OUT: &[Step] = &[File("outside/file")];

const DOTS: &[Attack] = &[
    on(&[], Write("../outside/new"), NEW),
    on(&[], Write("./../outside/new"), NEW),
    on(&[Dir("work/src")], Write("src/../../outside/new"), NEW),
    on(&[Dir("work/src")], Write("src/./.././../outside/new"), NEW),
    on(&[Dir("work/src")], Write("src/..//..//outside/new"), NEW),
    on(&[], Write("{top}/outside/new"), NEW),
    on(&[], Write("//{top}/./outside//new"), NEW),
    on(&[], Write("{top}/work/../outside/new"), NEW),
    on(&[], Write("../added/../outside/new"), NEW),
    on(&[], Write("{top}/added/../outside/new"), NEW),
    on(&[], Write("../outside/a/b/c"), "outside/a/b/c"),
    // A name that only begins as the workspace's.
    on(&[Dir("workshop")], Write("{top}/workshop/new"), "workshop/new"),
    on(OUT, Edit("../outside/file"), "outside/file"),
    on(OUT, Edit("{top}/outside/file"), "outside/file"),
    on(&[], Write("src\n/../../outside/new"), NEW),
];

const LINKS: &[Attack] = &[
    on(&[Link("work/l", "../outside")], Write("l/new"), NEW),
    on(&[Link("work/l", "{top}/outside")], Write("l/new"), NEW),
    on(&[Link("work/l", "../outside")], Write("l/deep/er/new"), "outside/deep/er/new"),
    on(&[Link("work/l", "../outside/new")], Write("l"), NEW),
    on(&[Link("work/l", "{top}/outside/new")], Write("l"), NEW),
    on(&[Link("work/a", "b"), Link("work/b", "../outside")], Write("a/new"), NEW),
    on(&[Link("work/a", "b"), Link("work/b", "../outside/new")], Write("a"), NEW),
    on(&[Link("work/a", "../added/b"), Link("added/b", "../outside")], Write("a/new"), NEW),
    on(&[Link("added/l", "../outside")], Write("{top}/added/l/new"), NEW),
    // The dots stand behind where the link leads.
    on(&[Dir("outside/deep"), Link("work/l", "../outside/deep")], Write("l/../new"), NEW),
    on(&[Link("work/up", "..")], Write("up/outside/new"), NEW),
    on(&[Link("work/root", "/")], Write("root{top}/outside/new"), NEW),
    on(&[File("outside/file"), Link("work/l", "../outside/file")], Edit("l"), "outside/file"),
    on(&[Dir("work/.git/hooks"), Link("work/n", ".git/hooks")], Write("n/pre-commit"), HOOK),
    on(&[Dir("work/.git/hooks"), Link("work/n", ".git/hooks/pre-commit")], Write("n"), HOOK),
    on(&[File("work/.git/config"), Link("work/n", ".git/config")], Edit("n"), "work/.git/config"),
    on(&[Link("work/c", "../config/tine")], Write("c/config.toml"), "config/tine/config.toml"),
];

const MAGIC: &[Attack] = &[
    on(&[], Write("/proc/self/root{top}/outside/new"), NEW),
    on(&[], Write("/proc/thread-self/root{top}/outside/new"), NEW),
    on(&[], Write("/proc/{pid}/root{top}/outside/new"), NEW),
    on(&[], Write("/proc/self/fd/{fd}/new"), NEW),
    on(&[], Write("/dev/fd/{fd}/new"), NEW),
    on(&[Link("work/m", "/proc/self/root")], Write("m{top}/outside/new"), NEW),
    on(&[Link("work/m", "/proc/self/fd")], Write("m/{fd}/new"), NEW),
];

const OBEYED: &[Attack] = &[
    on(&[Dir("work/.git/hooks")], Write(".git/hooks/pre-commit"), HOOK),
    on(&[], Write("{top}/work/.git/hooks/pre-commit"), HOOK),
    on(&[], Write("./.git//hooks/./pre-commit"), HOOK),
    on(&[Dir("work/src")], Write("src/../.git/hooks/pre-commit"), HOOK),
    on(&[File("work/.git/config")], Edit(".git/config"), "work/.git/config"),
    on(&[], Write("sub/.git/config"), "work/sub/.git/config"),
    on(&[], Write(".git/modules/m/hooks/post-checkout"), "work/.git/modules/m/hooks/post-checkout"),
    // The file of a linked worktree says where its repository is.
    on(&[File("work/.git")], Edit(".git"), "work/.git"),
    on(&[Dir("work/sub")], Write("sub/.git"), "work/sub/.git"),
    on(&[], Write("{top}/added/.git/hooks/pre-commit"), "added/.git/hooks/pre-commit"),
    on(&[], Write(".GIT/hooks/pre-commit"), "work/.GIT/hooks/pre-commit"),
    on(&[], Write(".Git/config"), "work/.Git/config"),
    // What other file systems take for `.git`.
    on(&[], Write(".git./config"), "work/.git./config"),
    on(&[], Write(".git /config"), "work/.git /config"),
    on(&[], Write("git~1/config"), "work/git~1/config"),
    on(&[], Write(".g\u{200c}it/config"), "work/.g\u{200c}it/config"),
    on(&[], Write("\u{feff}.git/config"), "work/\u{feff}.git/config"),
    on(&[], Write(".git::$INDEX_ALLOCATION/config"), "work/.git::$INDEX_ALLOCATION/config"),
    on(&[], Write(".mcp.json."), "work/.mcp.json."),
    on(&[], Write(".tine/config.toml"), "work/.tine/config.toml"),
    on(&[], Write(".TINE/config.toml"), "work/.TINE/config.toml"),
    on(&[], Write(".mcp.json"), "work/.mcp.json"),
    on(&[], Write("sub/.mcp.json"), "work/sub/.mcp.json"),
    on(
        &[File("work/.claude/settings.json")],
        Edit(".claude/settings.json"),
        "work/.claude/settings.json",
    ),
    on(&[], Write(".claude/agents/a.md"), "work/.claude/agents/a.md"),
    on(&[], Write(".agents/skills/s/SKILL.md"), "work/.agents/skills/s/SKILL.md"),
    on(&[], Write("../config/tine/config.toml"), "config/tine/config.toml"),
];

const ESCAPES: &[Attack] = &[
    on(&[], Write(r"\x2e\x2e/outside/new"), NEW),
    on(&[], Write(r"..\x2foutside\x2fnew"), NEW),
    on(&[], Write(r"\x2f{top}/outside/new"), NEW),
    on(&[], Write(r"\x2egit/hooks/pre-commit"), HOOK),
    on(&[File("work/.git/config")], Edit(r".g\x69t/config"), "work/.git/config"),
    on(&[Link("work/a\nb", "../outside")], Write(r"a\x0ab/new"), NEW),
];

const PATCHES: &[Attack] = &[
    on(&[], Apply("*** Add File: {top}/outside/new\n+CANARY"), NEW),
    on(&[], Apply("*** Add File: ../outside/new\n+CANARY"), NEW),
    on(&[], Apply("*** Add File: fine\n+x\n*** Add File: ../outside/new\n+CANARY"), NEW),
    on(&[Link("work/l", "../outside")], Apply("*** Add File: l/new\n+CANARY"), NEW),
    on(&[], Apply("*** Add File: \\x2e\\x2e/outside/new\n+CANARY"), NEW),
    on(&[], Apply("*** Add File: .git/hooks/pre-commit\n+CANARY"), HOOK),
    on(OUT, Apply("*** Update File: ../outside/file\n-old\n+CANARY"), "outside/file"),
    on(OUT, Apply("*** Delete File: ../outside/file"), "outside/file"),
    on(
        &[File("work/a")],
        Apply("*** Update File: a\n*** Move to: ../outside/new\n-old\n+CANARY"),
        NEW,
    ),
    on(
        &[File("work/a")],
        Apply("*** Update File: a\n*** Move to: {top}/outside/new\n-old\n+CANARY"),
        NEW,
    ),
    on(
        &[File("work/a")],
        Apply("*** Update File: a\n*** Move to: .git/hooks/pre-commit\n-old\n+CANARY"),
        HOOK,
    ),
    on(
        &[File("work/a"), Link("work/l", "../outside/new")],
        Apply("*** Update File: a\n*** Move to: l\n-old\n+CANARY"),
        NEW,
    ),
    // Into the workspace, away from where it was.
    on(OUT, Apply("*** Update File: ../outside/file\n*** Move to: stolen"), "outside/file"),
];

/// A directory or a file takes another's place after the guard has looked.
const SWAPS: &[Attack] = &[
    swapped(
        &[Dir("work/d")],
        Write("d/new"),
        &[Rename("work/d", "work/was"), Link("work/d", "../outside")],
        NEW,
    ),
    swapped(
        &[],
        Write("d/e/new"),
        &[Dir("outside/e"), Link("work/d", "../outside")],
        "outside/e/new",
    ),
    swapped(&[], Write("new"), &[Link("work/new", "../outside/new")], NEW),
    swapped(
        &[File("work/d/file"), File("outside/file")],
        Edit("d/file"),
        &[Rename("work/d", "work/was"), Link("work/d", "../outside")],
        "outside/file",
    ),
    swapped(
        &[File("work/f"), File("outside/file")],
        Edit("f"),
        &[Rename("work/f", "work/was"), Link("work/f", "../outside/file")],
        "outside/file",
    ),
    swapped(
        &[Dir("work/d"), Dir("work/.git/hooks")],
        Write("d/pre-commit"),
        &[Rename("work/d", "work/was"), Link("work/d", ".git/hooks")],
        HOOK,
    ),
    swapped(
        &[Dir("work/inside"), Link("work/l", "inside")],
        Write("l/new"),
        &[Rename("work/l", "work/was"), Link("work/l", "../outside")],
        NEW,
    ),
    swapped(&[], Write("new"), &[Rename("work", "was"), Link("work", "outside")], NEW),
    swapped(
        &[],
        Write("{top}/added/new"),
        &[Rename("added", "was"), Link("added", "outside")],
        NEW,
    ),
    swapped(
        &[Dir("work/d"), File("work/a")],
        Apply("*** Update File: a\n*** Move to: d/new\n-old\n+CANARY"),
        &[Rename("work/d", "work/was"), Link("work/d", "../outside")],
        NEW,
    ),
    swapped(
        &[File("work/d/file"), File("outside/file")],
        Apply("*** Update File: d/file\n-old\n+CANARY"),
        &[Rename("work/d", "work/was"), Link("work/d", "../outside")],
        "outside/file",
    ),
];

/// A place that attacks are made on.
struct Place {
    desk: Desk,
    /// Open on `outside`, as a process may have it by accident.
    leaked: fs::File,
}

impl Place {
    fn new(before: &[Step]) -> Self {
        let desk = Desk::new();
        let leaked = fs::File::open(desk.top.join("outside")).expect("the place is made ready");
        let place = Self { desk, leaked };
        place.take(before);
        place
    }

    fn take(&self, steps: &[Step]) {
        let at = |path: &str| self.desk.top.join(path);
        for step in steps {
            match *step {
                Dir(path) => fs::create_dir_all(at(path)).expect("the place is made ready"),
                File(path) => {
                    fs::create_dir_all(at(path).parent().expect("the place is made ready"))
                        .expect("the place is made ready");
                    fs::write(at(path), OLD).expect("the place is made ready");
                }
                Link(path, target) => {
                    symlink(self.fill(target), at(path)).expect("the place is made ready");
                }
                Rename(from, to) => fs::rename(at(from), at(to)).expect("the place is made ready"),
            }
        }
    }

    fn fill(&self, text: &str) -> String {
        let top = self.desk.top.to_str().expect("the place is made ready");
        let fd = self.leaked.as_raw_fd().to_string();
        // After a slash that is written as an escape there must not be another.
        text.replace(r"\x2f{top}", &format!(r"\x2f{}", &top[1..]))
            .replace("{top}", top)
            .replace("{fd}", &fd)
            .replace("{pid}", &std::process::id().to_string())
    }

    fn victim(&self, attack: &Attack) -> Option<String> {
        fs::read_to_string(self.desk.top.join(attack.victim)).ok()
    }

    /// What a program does that does not ask.
    fn do_plainly(&self, call: Call) {
        let resolve =
            |path: &str| path_text::resolve(self.desk.root(), path).expect("nothing expands it");
        match call {
            Write(path) => write(&resolve(&self.fill(path))),
            Edit(path) => write(&resolve(&self.fill(path))),
            Apply(body) => {
                let patch =
                    Patch::parse(&wrapped(&self.fill(body))).expect("nothing stands in its way");
                for file in patch.files() {
                    match file {
                        FilePatch::Add { path, .. } => write(&resolve(path)),
                        FilePatch::Delete { path } => {
                            fs::remove_file(resolve(path)).expect("nothing stands in its way");
                        }
                        FilePatch::Update { path, to: None, .. } => write(&resolve(path)),
                        FilePatch::Update { path, to: Some(to), .. } => {
                            fs::remove_file(resolve(path)).expect("nothing stands in its way");
                            write(&resolve(to));
                        }
                    }
                }
            }
        }
    }

    fn arguments(&self, call: Call) -> (&'static str, Value) {
        match call {
            Write(path) => ("Write", json!({"file_path": self.fill(path), "content": CANARY})),
            Edit(path) => {
                let path = self.fill(path);
                ("Edit", json!({"file_path": path, "old_string": "old", "new_string": CANARY}))
            }
            Apply(body) => ("ApplyPatch", json!({"patch": wrapped(&self.fill(body))})),
        }
    }
}

fn write(path: &Path) {
    fs::create_dir_all(path.parent().expect("nothing stands in its way"))
        .expect("nothing stands in its way");
    fs::write(path, CANARY).expect("nothing stands in its way");
}

fn wrapped(body: &str) -> String {
    format!("*** Begin Patch\n{body}\n*** End Patch")
}

/// Makes each attack twice: as if nothing stood in its way, and as a unit that
/// may edit the workspace.
async fn check(attacks: &[Attack]) {
    for attack in attacks {
        let place = Place::new(attack.before);
        let before = place.victim(attack);
        place.take(attack.then);
        place.do_plainly(attack.call);
        let (tool, arguments) = place.arguments(attack.call);
        assert_ne!(place.victim(attack), before, "not alive: {tool} {arguments}");

        let place = Place::new(attack.before);
        let (tool, arguments) = place.arguments(attack.call);
        let unit = place.desk.unit(1);
        let judged = place.desk.judge(tool, &arguments);
        let before = place.victim(attack);
        place.take(attack.then);
        let said = match judged {
            Ok(allowed) => place.desk.run(&unit, tool, arguments.clone(), allowed).await,
            Err(reason) => Err(reason),
        };
        assert_eq!(place.victim(attack), before, "not stopped: {tool} {arguments}: {said:?}");
        assert!(said.is_err(), "{tool} {arguments}: {said:?}");
        assert!(!place.desk.root().join("fine").exists(), "a part of it was done");
    }
}

#[test]
fn there_are_enough_of_them() {
    let all = [DOTS, LINKS, MAGIC, OBEYED, ESCAPES, PATCHES, SWAPS];
    assert!(all.iter().map(|attacks| attacks.len()).sum::<usize>() >= 90);
}

#[tokio::test]
async fn no_path_leads_out_of_the_workspace() {
    check(DOTS).await;
    check(MAGIC).await;
    check(ESCAPES).await;
}

#[tokio::test]
async fn no_link_leads_where_its_path_may_not() {
    check(LINKS).await;
}

#[tokio::test]
async fn what_other_programs_obey_is_not_edited_unasked() {
    check(OBEYED).await;
}

#[tokio::test]
async fn a_patch_is_judged_by_every_path_it_names() {
    check(PATCHES).await;
}

#[tokio::test]
async fn what_was_judged_is_what_is_written_whatever_is_swapped_in_between() {
    check(SWAPS).await;
}

#[tokio::test]
async fn what_is_no_path_or_no_file_is_refused_in_words() {
    let place = Place::new(&[File("work/file"), Link("work/round", "round"), Dir("work/dir")]);
    let (desk, root) = (&place.desk, place.desk.root());
    nix::unistd::mkfifo(&root.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    let huge = fs::File::create(root.join("huge")).unwrap();
    huge.set_len(1 << 40).unwrap();
    let unit = desk.unit(1);
    for path in [
        "a\0b", "../a\0", "round", "round/x", "file/x", "pipe", "socket", "dir", "huge", "dir/",
        ".",
    ] {
        let write = json!({"file_path": path, "content": CANARY});
        assert!(desk.call(&unit, "Write", write).await.is_err(), "{path:?}");
        let edit = json!({"file_path": path, "old_string": "old", "new_string": CANARY});
        assert!(desk.call(&unit, "Edit", edit).await.is_err(), "{path:?}");
        let patch = wrapped(&format!("*** Add File: {path}\n+CANARY"));
        assert!(desk.call(&unit, "ApplyPatch", json!({"patch": patch})).await.is_err(), "{path:?}");
    }
}

#[tokio::test]
async fn links_that_stay_inside_go_on_to_work() {
    let place = Place::new(&[
        File("work/real/file"),
        Link("work/dir", "real"),
        Link("work/absolute", "{top}/work/real/file"),
        Link("work/other", "../added"),
        Link("work/new", "real/new"),
    ]);
    let (desk, unit) = (&place.desk, place.desk.unit(1));
    for (call, file) in [
        (Edit("dir/file"), "work/real/file"),
        (Write("other/new"), "added/new"),
        (Write("new"), "work/real/new"),
        (Apply("*** Update File: absolute\n-CANARY\n+CANARY too"), "work/real/file"),
        (Write("{top}/added/deep/er"), "added/deep/er"),
    ] {
        let (tool, arguments) = place.arguments(call);
        desk.call(&unit, tool, arguments).await.unwrap();
        let text = fs::read_to_string(desk.top.join(file)).unwrap();
        assert!(text.starts_with(CANARY), "{file}: {text}");
    }
    assert!(desk.root().join("new").is_symlink() && desk.root().join("absolute").is_symlink());
}

#[tokio::test]
async fn what_a_rule_allows_outside_is_written_there_and_nowhere_else() {
    let mut place = Place::new(&[Link("work/l", "../outside/new")]);
    let rule = format!("Edit(/{}/outside/**)", place.desk.top.display());
    place.desk.rule(|rules| &mut rules.allow, &rule);
    let unit = place.desk.unit(1);
    for path in ["l", "{top}/outside/deep/er"] {
        let (tool, arguments) =
            ("Write", json!({"file_path": place.fill(path), "content": CANARY}));
        place.desk.call(&unit, tool, arguments).await.unwrap();
    }
    assert!(place.desk.top.join(NEW).exists() && place.desk.top.join("outside/deep/er").exists());
    // Elsewhere by the time it runs: the rule does not follow.
    let write = json!({"file_path": place.fill("{top}/outside/d/x"), "content": CANARY});
    let allowed = place.desk.judge("Write", &write).unwrap();
    place.take(&[Dir("elsewhere"), Link("outside/d", "../elsewhere")]);
    assert!(place.desk.run(&unit, "Write", write, allowed).await.is_err());
    assert!(!place.desk.top.join("elsewhere/x").exists());
}

#[tokio::test]
async fn what_may_not_be_read_is_not_shown_however_it_is_named() {
    let read = |path: &str| json!({"file_path": path});
    let steps = &[
        File("work/secret/key"),
        Link("work/l", "secret"),
        Link("work/k", "secret/key"),
        File("work/d/key"),
    ];
    for path in ["secret/key", "l/key", "k", r"\x73ecret/key", "./d/../secret/key", "{top}/work/k"]
    {
        let mut place = Place::new(steps);
        let path = place.fill(path);
        assert_eq!(
            fs::read_to_string(path_text::resolve(place.desk.root(), &path).unwrap()).unwrap(),
            OLD
        );
        place.desk.rule(|rules| &mut rules.deny, "Read(secret/**)");
        let unit = place.desk.unit(1);
        assert!(place.desk.call(&unit, "Read", read(&path)).await.is_err(), "{path}");
        let edit = json!({"file_path": path, "old_string": "old", "new_string": CANARY});
        assert!(place.desk.call(&unit, "Edit", edit).await.is_err(), "{path}");
    }
    // Swapped after the guard has looked.
    let mut place = Place::new(steps);
    place.desk.rule(|rules| &mut rules.deny, "Read(secret/**)");
    let allowed = place.desk.judge("Read", &read("d/key")).unwrap();
    place.take(&[Rename("work/d", "work/was"), Link("work/d", "secret")]);
    assert_eq!(fs::read_to_string(place.desk.root().join("d/key")).unwrap(), OLD);
    let said = place.desk.run(&place.desk.unit(1), "Read", read("d/key"), allowed).await;
    assert!(said.unwrap_err().starts_with("d/key now leads to "));
}

/// Swaps a directory for a link to `outside` and back, until it is told to end.
/// In one step, so that the name is always there: a tool makes what is missing.
fn swap_until(ended: &AtomicBool, root: &Path) {
    let (directory, link) = (root.join("d"), root.join("link"));
    while !ended.load(Ordering::Relaxed) {
        renameat2(AT_FDCWD, &directory, AT_FDCWD, &link, RenameFlags::RENAME_EXCHANGE)
            .expect("both are always there");
    }
}

/// Ends a swapper when it is dropped, so that a panic leaves none behind.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Most rounds that are made until something was done and something refused:
/// whether a swap comes in between is up to the system.
const ROUNDS_CAP: usize = 20_000;

fn files_below(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut files: Vec<_> = fs::read_dir(directory)
        .expect("the files are text")
        .map(|entry| entry.expect("the files are text").path())
        .map(|path| (path.clone(), fs::read_to_string(path).expect("the files are text")))
        .collect();
    files.sort();
    files
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn in_two_hundred_rounds_of_a_directory_swapped_mid_write_nothing_is_written_outside() {
    let place =
        Place::new(&[File("work/d/file"), File("outside/file"), Link("work/link", "../outside")]);
    let (desk, outside) = (&place.desk, place.desk.top.join("outside"));
    let before = files_below(&outside);
    let (ended, root) = (AtomicBool::new(false), desk.root().to_owned());
    let (mut done, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        let ends = Ends(&ended);
        scope.spawn(|| swap_until(&ended, &root));
        let runtime = tokio::runtime::Handle::current();
        let rounds = async {
            let unit = desk.unit(1);
            let mut held = OLD.trim_end().to_owned();
            for round in 0..ROUNDS_CAP {
                if round >= 200 && done > 0 && refused > 0 {
                    break;
                }
                let write = json!({"file_path": format!("d/new-{round}"), "content": CANARY});
                let new = round.to_string();
                let edit = json!({"file_path": "d/file", "old_string": held, "new_string": new});
                let said = [
                    desk.call(&unit, "Write", write).await.is_ok(),
                    desk.call(&unit, "Edit", edit).await.is_ok(),
                ];
                if said[1] {
                    held = new;
                }
                done += said.iter().filter(|is_done| **is_done).count();
                refused += said.iter().filter(|is_done| !**is_done).count();
            }
        };
        tokio::task::block_in_place(|| runtime.block_on(rounds));
        drop(ends);
    });
    assert_eq!(files_below(&outside), before, "{done} done, {refused} refused");
    assert!(done > 0 && refused > 0, "{done} done, {refused} refused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_five_hundred_rounds_of_two_slots_editing_one_file_no_edit_is_lost() {
    let place = Place::new(&[]);
    let desk = &place.desk;
    fs::write(desk.root().join("f"), "a 0\nb 0\n").unwrap();
    let slots = [("a", desk.unit(1)), ("b", desk.unit(2))];
    for round in 0..500 {
        let edits = slots.iter().map(|(name, unit)| {
            let (old, new) = (format!("{name} {round}\n"), format!("{name} {}\n", round + 1));
            let patch = wrapped(&format!("*** Update File: f\n-{old}+{}", new.trim_end()));
            match (round + usize::from(*name == "a")) % 2 {
                0 => desk.call(unit, "ApplyPatch", json!({"patch": patch})),
                _ => desk.call(
                    unit,
                    "Edit",
                    json!({"file_path": "f", "old_string": old, "new_string": new}),
                ),
            }
        });
        for said in futures_util::future::join_all(edits).await {
            said.unwrap();
        }
    }
    assert_eq!(fs::read_to_string(desk.root().join("f")).unwrap(), "a 500\nb 500\n");
}
