//! Files go back as they were: by prompt, by event, by agent, after a crash.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tine::session::SessionLog;

use crate::support::faults::Fault;
use crate::support::tine::{Finished, Place};

const SESSION: &str = "0199a000-0000-7000-8000-000000000001";
const COPY: &str = "0199a000-0000-7000-8000-000000000002";

fn write(path: &str, content: &str) -> Value {
    json!({ "name": "Write", "arguments": { "file_path": path, "content": content } })
}

fn edit(path: &str, old: &str, new: &str) -> Value {
    let arguments = json!({ "file_path": path, "old_string": old, "new_string": new });
    json!({ "name": "Edit", "arguments": arguments })
}

fn bash(command: &str) -> Value {
    json!({ "name": "Bash", "arguments": { "command": command } })
}

fn agents(names: &[&str]) -> Value {
    let task = |name: &&str| json!({ "description": name, "prompt": name, "subagent_type": "general-purpose" });
    let tasks: Vec<_> = names.iter().map(task).collect();
    json!({ "name": "Agent", "arguments": { "tasks": tasks } })
}

impl Place {
    /// Runs a prompt whose calls are played, one answer for all of main's.
    fn prompts(&self, units: &Value, flags: &[&str]) -> Finished {
        let model = self.script("script.json", &json!({ "units": units }));
        let fixed = ["-p", "go", "-m", &model, "--permission-mode", "bypassPermissions"];
        self.tine(fixed.iter().chain(flags)).run().exits(0)
    }

    fn main_calls(&self, calls: &[Value], flags: &[&str]) -> Finished {
        self.prompts(&json!({ "main": [{ "calls": calls }, { "text": "done" }] }), flags)
    }

    /// A session of two prompts: the first changes `old` and makes `new/a`,
    /// the second changes `old` again, in an agent, and deletes nothing.
    fn two_prompts(&self) {
        self.write("old", "one\n");
        let calls = [edit("old", "one", "two"), write("new/deep/a", "a\n")];
        self.main_calls(&calls, &["--session-id", SESSION]);
        let units = json!({
            "main": [{ "calls": [agents(&["north"])] }, { "text": "done" }],
            "north": [{ "calls": [edit("old", "two", "three")] }, { "text": "did" }],
        });
        self.prompts(&units, &["-c"]);
        assert_eq!(self.files(), ["new/deep/a: a\n", "old: three\n"]);
    }

    /// What is in the working directory.
    fn files(&self) -> Vec<String> {
        let mut files = Vec::new();
        let mut directories = vec![self.work()];
        while let Some(directory) = directories.pop() {
            let entries = fs::read_dir(directory).expect("the directory is there");
            let entries: Vec<_> = entries.map(|entry| entry.expect("it is there").path()).collect();
            for path in entries {
                let name = path.strip_prefix(self.work()).expect("it is inside").display();
                match path.is_dir() {
                    true => directories.push(path.clone()),
                    false => files.push(format!(
                        "{name}: {}",
                        fs::read_to_string(&path).expect("it is text")
                    )),
                }
            }
        }
        files.sort();
        files
    }

    fn revert(&self, flags: &[&str]) -> Finished {
        self.tine(["session", "revert", SESSION].iter().chain(flags)).run()
    }

    /// The numbers of the changes in the log.
    fn changes(&self) -> Vec<String> {
        let log = self.log();
        let changes = log.iter().filter(|line| line["kind"] == "file_changed");
        changes.map(|line| line["seq"].to_string()).collect()
    }
}

#[test]
fn undo_takes_back_the_last_prompt_that_changed_files_and_then_the_one_before() {
    let place = Place::new();
    place.two_prompts();
    let undone = place.tine(["-c", "-p", "/undo"]).run().exits(0);
    assert_eq!(undone.stdout, "put back old\n");
    let [first, .., last] = &place.changes()[..] else { panic!("files were changed") };
    let before = last.parse::<u64>().expect("it is a number") - 2;
    assert_eq!(
        undone.stderr,
        format!(
            "note: 1 file put back (prompt: go)\n\
             hint: `tine session revert {SESSION} --to {before}` undoes this\n"
        )
    );
    assert_eq!(place.files(), ["new/deep/a: a\n", "old: two\n"]);
    let undone = place.tine(["-r", SESSION, "-p", "/undo"]).run().exits(0);
    assert_eq!(undone.stdout, "deleted new/deep/a\nput back old\n");
    assert_eq!(place.files(), ["old: one\n"]);
    assert!(!place.work().join("new").exists());
    let nothing = place.tine(["-c", "-p", "/undo"]).run().exits(0);
    assert_eq!((&*nothing.stdout, &*nothing.stderr), ("", "note: there is nothing to undo\n"));
    // And forth again: an undo can be undone.
    place.revert(&["--to", &before.to_string()]).exits(0);
    assert_eq!(place.files(), ["new/deep/a: a\n", "old: three\n"]);
    place.revert(&["--to", first]).exits(0);
    assert_eq!(place.files(), ["old: two\n"]);
}

#[test]
fn the_model_is_told_of_an_undo_and_the_log_shows_it() {
    let place = Place::new();
    place.two_prompts();
    place.tine(["-c", "-p", "/undo"]).run().exits(0);
    let shown = place.tine(["session", "show", SESSION]).run().exits(0).stdout;
    let lines: Vec<&str> = shown.lines().map(|line| line.trim_start()).collect();
    let line = |part: &str| lines.iter().any(|line| line.contains(part));
    let old = place.work().join("old");
    let changes = place.changes();
    for part in [
        format!("main  #{} changes {}", changes[0], old.display()),
        format!("main  #{} makes {}", changes[1], place.work().join("new/deep/a").display()),
        format!("agent-1 (north)  #{} changes {}", changes[2], old.display()),
        format!("main  #{} puts back {}", changes[3], old.display()),
        "invocation 3 done".to_owned(),
        format!("- {}", old.display()),
    ] {
        assert!(line(&part), "{part}\n{shown}");
    }
    let model = place.script("more.json", &json!({ "units": { "main": [{ "text": "on" }] } }));
    assert_eq!(place.tine(["-c", "-p", "on", "-m", &model]).run().exits(0).stdout, "on\n");
}

#[test]
fn nothing_goes_back_if_one_file_was_changed_by_somebody_else_unless_it_is_left_out() {
    let place = Place::new();
    place.two_prompts();
    place.write("old", "mine\n");
    let before = place.log();
    let refused = place.revert(&["--to", "0"]).exits(1);
    let since = place.changes()[2].clone();
    let stays = format!("old stays: somebody else has changed it since #{since}\n");
    assert_eq!(refused.stdout, format!("could delete new/deep/a\n{stays}"));
    assert_eq!(
        refused.stderr,
        "error: nothing was changed: 1 file could be put back; 1 stays\n\
         hint: `--skip-changed` leaves those that stay and puts the others back\n"
    );
    assert_eq!(place.files(), ["new/deep/a: a\n", "old: mine\n"]);
    assert_eq!(place.log(), before);
    let done = place.revert(&["--to", "0", "--skip-changed"]).exits(0);
    assert_eq!(done.stdout, format!("deleted new/deep/a\n{stays}"));
    assert_eq!(place.files(), ["old: mine\n"]);
}

#[test]
fn one_slot_is_taken_back_and_the_other_stays() {
    let place = Place::new();
    place.write("shared", "x\n");
    let units = json!({
        "main": [{ "calls": [agents(&["north", "south"])] }, { "text": "done" }],
        "north": [{ "calls": [write("north", "n\n")] }, { "text": "did" }],
        "south": [{ "calls": [write("south", "s\n"), edit("shared", "x", "y")] }, { "text": "did" }],
    });
    place.prompts(&units, &["--session-id", SESSION]);
    let dry = place.revert(&["--slot", "2", "--dry-run"]).exits(0);
    assert_eq!(dry.stdout, "would put back shared\nwould delete south\n");
    assert_eq!(place.files().len(), 3);
    let done = place.revert(&["--slot", "2", "--json"]).exits(0);
    let path = |name: &str| place.work().join(name).display().to_string();
    let record = done.result();
    assert_eq!(
        (&record["state"], &record["files"], &record["commands"]),
        (
            &json!("done"),
            &json!([
                { "path": path("shared"), "to": "content", "fate": "goes_back" },
                { "path": path("south"), "to": "nothing", "fate": "goes_back" },
            ]),
            &json!(0)
        )
    );
    assert_eq!(place.files(), ["north: n\n", "shared: x\n"]);
    place.revert(&["--unit", "agent-1"]).exits(0);
    assert_eq!(place.files(), ["shared: x\n"]);
}

#[test]
fn what_commands_may_have_done_is_said() {
    let place = Place::new();
    let calls = [write("a", "a\n"), bash("echo b > b")];
    place.main_calls(&calls, &["--session-id", SESSION]);
    let undone = place.tine(["-c", "-p", "/undo", "-o", "json"]).run().exits(0);
    let result = undone.result();
    assert_eq!(
        (&result["type"], &result["is_error"], &result["result"], &result["undo"]["commands"]),
        (&json!("result"), &json!(false), &json!("deleted a"), &json!(1))
    );
    let note = "note: 1 command may have changed files as well; what it did is not undone\n";
    assert!(undone.stderr.starts_with(note), "{}", undone.stderr);
    assert_eq!(place.files(), ["b: b\n"]);
}

#[test]
fn what_cannot_be_undone_is_refused_in_words() {
    let place = Place::new();
    place.two_prompts();
    let check = |arguments: &[&str], code: i32, stderr: &str| {
        place.tine(arguments).run().refuses(code, stderr);
    };
    check(
        &["-p", "/undo"],
        2,
        "error: `/undo` takes back what a session did, and this is a new one\n\
         hint: add `--continue` or `--resume SESSION`; `tine sessions` lists them\n",
    );
    for flag in ["--fork-session", "--no-session-persistence"] {
        check(
            &["-c", "-p", "/undo", flag],
            2,
            "error: an undo is written into the session itself\n\
             hint: leave `--fork-session` and `--no-session-persistence` out\n",
        );
    }
    check(
        &["-c", "-p", "/undo everything"],
        2,
        "error: /undo: unexpected argument 'everything' found\n\
         hint: it knows `--to SEQ`, `--slot N`, `--unit AGENT`, `--skip-changed`, `--dry-run`\n",
    );
    let last = place.log().len();
    check(
        &["session", "revert", SESSION, "--to", "999"],
        42,
        &format!(
            "error: there is no event 999; the last one is {last}\n\
             hint: `tine session show ID` numbers the changes\n"
        ),
    );
    check(
        &["session", "revert", SESSION, "--slot", "2"],
        42,
        "error: there is no slot 2; the last batch has 1 slot\n\
         hint: `--unit AGENT` names any agent of the session\n",
    );
    check(
        &["session", "revert", SESSION, "--unit", "agent-9"],
        42,
        "error: there is no `agent-9` in this session\n",
    );
    let [directory] = &place.sessions()[..] else { panic!("there is one session") };
    let log = SessionLog::open_for_append(directory).expect("the session is free");
    let pid = std::process::id();
    let in_use = format!(
        "error: session {} is in use by process {pid}\n\
         hint: end it there, or start a new session\n",
        directory.display()
    );
    check(&["session", "revert", SESSION], 42, &in_use);
    drop(log);
    place.revert(&[]).exits(0);
}

#[test]
fn a_copy_of_a_session_can_be_undone_without_its_original() {
    let place = Place::new();
    place.two_prompts();
    let model = place.script("more.json", &json!({ "units": { "main": [{ "text": "on" }] } }));
    let fork = ["-c", "--fork-session", "--session-id", COPY, "-p", "on", "-m", &model];
    place.tine(fork).run().exits(0);
    place.tine(["sessions", "delete", SESSION]).run().exits(0);
    let [copy] = &place.sessions()[..] else { panic!("one session is left") };
    assert!(copy.ends_with(COPY));
    place.tine(["session", "revert", COPY, "--to", "0"]).run().exits(0);
    assert_eq!(place.files(), ["old: one\n"]);
    place.tine(["sessions", "delete", COPY]).run().exits(0);
    assert!(place.sessions().is_empty());
}

#[test]
fn a_session_that_is_not_kept_leaves_nothing_behind_and_changes_files_all_the_same() {
    let place = Place::new();
    place.write("old", "one\n");
    let temporary = place.root().join("tmp");
    fs::create_dir(&temporary).expect("the place is new");
    let calls = [edit("old", "one", "two"), write("new", "n\n")];
    let units = json!({ "main": [{ "calls": calls }, { "text": "done" }] });
    let model = place.script("script.json", &json!({ "units": units }));
    let fixed = ["-p", "go", "-m", &model, "--permission-mode", "bypassPermissions"];
    let run = place.tine(fixed.iter().chain(&["--no-session-persistence"]));
    run.env("TMPDIR", temporary.to_str().expect("its name is plain")).run().exits(0);
    assert_eq!(place.files(), ["new: n\n", "old: two\n"]);
    assert!(place.sessions().is_empty());
    assert_eq!(fs::read_dir(&temporary).expect("it is there").count(), 0);
}

/// What must hold after a run was killed: no file was changed of which the log
/// says nothing, and everything goes back.
#[track_caller]
fn check_killed(place: &Place, fault: &str) {
    let log = fs::read_to_string(place.crash_log_of(SESSION)).unwrap_or_default();
    let is_told = |name: &str| {
        let path = place.work().join(name).display().to_string();
        log.lines().any(|line| {
            let line: Value = serde_json::from_str(line).expect("a line is JSON");
            line["kind"] == "file_changed" && line["body"]["path"] == *path
        })
    };
    let changed = [
        ("old", place.read("old").as_deref() != Some("one\n")),
        ("made/new", place.read("made/new").is_some()),
    ];
    for (name, is_changed) in changed {
        assert!(!is_changed || is_told(name), "{fault}: the change of {name} is hidden\n{log}");
        let expected = if name == "old" { "two\n" } else { "n\n" };
        assert!(!is_changed || place.read(name).as_deref() == Some(expected), "{fault}: {name}");
    }
    if log.is_empty() {
        return;
    }
    place.revert(&["--to", "0"]).exits(0);
    assert_eq!(place.read("old").as_deref(), Some("one\n"), "{fault}");
    assert_eq!(place.read("made/new"), None, "{fault}");
}

impl Place {
    fn crash_log_of(&self, session: &str) -> PathBuf {
        let sessions = self.home().join(".local/state/tine/sessions");
        let id = tine::event::SessionId(session.into());
        tine::session::dirs::session_directory(&sessions, &self.work(), &id).join("log.jsonl")
    }

    /// Runs two changes of files, one after the other, until the fault happens
    /// to a call on a file, on any if it is `None`; `false` if it does not.
    fn is_killed(&self, fault: Fault, at: Option<&Path>) -> bool {
        self.write("old", "one\n");
        let units = json!({ "main": [
            { "calls": [edit("old", "one", "two")] },
            { "calls": [write("made/new", "n\n")] },
            { "text": "done" },
        ] });
        let model = self.script("script.json", &json!({ "units": units }));
        let fixed = ["-p", "go", "-m", &model, "--permission-mode", "bypassPermissions"];
        let run = self.tine(fixed.iter().chain(&["--session-id", SESSION]));
        let run = match at {
            Some(at) => run.with_fault(fault, at),
            None => run.with_fault_anywhere(fault),
        };
        let finished = run.run();
        assert!(matches!(finished.status.code(), Some(0) | None), "{}", finished.stderr);
        finished.status.code().is_none()
    }
}

#[test]
fn a_run_that_is_killed_around_a_change_hides_none_and_all_of_it_can_be_undone() {
    let count = |fault: fn(usize) -> Fault, at: fn(&Place) -> Option<PathBuf>| {
        let killed = (1..).take_while(move |&number| {
            let place = Place::new();
            let is_killed = place.is_killed(fault(number), at(&place).as_deref());
            check_killed(&place, &format!("{:?}", fault(number)));
            is_killed
        });
        killed.count()
    };
    let log = |place: &Place| Some(place.crash_log_of(SESSION));
    assert!(count(Fault::KilledAtWrite, log) > 12);
    // In between: what is kept, the only thing that is written so, and the files
    // themselves.
    assert!(count(|number| Fault::KilledAt("pwrite64", number), |_| None) > 1);
    let synced = |number| Fault::KilledAt("fsync,fdatasync", number);
    let named = |number| Fault::KilledAt("rename,renameat,linkat,unlinkat,mkdirat", number);
    assert!(count(synced, |_| None) > 4);
    assert!(count(named, |place| Some(place.work())) > 0);
    assert!(count(named, |place| Some(place.work().join("made"))) > 0);
}

#[test]
fn an_undo_that_is_killed_at_any_write_is_completed_by_the_next_one() {
    for number in 1.. {
        let place = Place::new();
        place.two_prompts();
        let log = place.crash_log_of(SESSION);
        let revert = place.tine(["session", "revert", SESSION, "--to", "0"]);
        let killed = revert.with_fault(Fault::KilledAtWrite(number), &log).run();
        place.revert(&["--to", "0"]).exits(0);
        assert_eq!(place.files(), ["old: one\n"], "{number}");
        if killed.status.code() == Some(0) {
            assert!(number > 4, "an undo of two files has more events than {number}");
            return;
        }
    }
}
