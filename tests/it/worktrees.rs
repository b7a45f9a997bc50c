//! Agents in worktrees of their own: what they begin with, what comes back of
//! their work, and what is left of them after a crash.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use serde_json::{Value, json};

use crate::support::repository::Repository;
use crate::support::tine::{Finished, HANG_LIMIT, Tine, git_that, lines as lines_of};

/// A repository whose one file has a numbered line for each slot, with a line
/// in between.
fn lines(count: usize) -> (Repository, String) {
    let repository = Repository::new();
    let text: String = (0..count).map(|number| format!("line {number}\n--\n")).collect();
    repository.write("lines.txt", &text);
    repository.commit("Begin");
    (repository, text)
}

fn bash(command: &str) -> Value {
    json!({"calls": [{"name": "Bash", "arguments": {"command": command}}]})
}

fn edit(old: &str, new: &str) -> Value {
    let arguments = json!({"file_path": "lines.txt", "old_string": old, "new_string": new});
    json!({"calls": [{"name": "Edit", "arguments": arguments}]})
}

/// A script in which main starts these slots, each in a worktree, and then
/// says all is done once its request holds `texts`.
fn batch(slots: &[(String, Vec<Value>)], texts: &[&str]) -> Value {
    let tasks: Vec<Value> = slots
        .iter()
        .map(|(name, _)| {
            json!({"description": name, "prompt": "Do it.", "subagent_type": "general-purpose",
                "isolation": "worktree"})
        })
        .collect();
    let mut units = serde_json::Map::new();
    for (name, replies) in slots {
        let mut replies = replies.clone();
        replies.push(json!({"text": format!("answer of {name}")}));
        units.insert(name.clone(), replies.into());
    }
    let call = json!({"name": "Agent", "arguments": {"tasks": tasks}});
    let last = json!({"text": "all done", "expect": {"contains": texts}});
    units.insert("main".to_owned(), json!([{"calls": [call]}, last]));
    json!({"units": units})
}

fn playing(repository: &Repository, script: &Value, flags: &[&str]) -> Tine {
    let model = repository.place.script("script.json", script);
    let fixed = ["-p", "go", "-m", &model, "--permission-mode", "bypassPermissions"];
    repository.place.tine(fixed.iter().chain(flags))
}

#[track_caller]
fn play(repository: &Repository, script: &Value, flags: &[&str]) -> Finished {
    let finished = playing(repository, script, flags).run();
    assert!(finished.stdout.contains("all done"), "{}\n{}", finished.stdout, finished.stderr);
    finished
}

fn worktrees_root(repository: &Repository) -> PathBuf {
    repository.place.home().join(".local/state/tine/worktrees")
}

/// Everything of git's that is the user's.
fn users(repository: &Repository) -> (Vec<u8>, [String; 4]) {
    let index = fs::read(repository.place.work().join(".git/index")).unwrap_or_default();
    let asked = [
        &["symbolic-ref", "HEAD"][..],
        &["for-each-ref"],
        &["stash", "list"],
        &["worktree", "list", "--porcelain"],
    ];
    (index, asked.map(|arguments| repository.git(arguments)))
}

/// Nothing is left of any worktree.
#[track_caller]
fn check_gone(repository: &Repository) {
    let listed = repository.git(&["worktree", "list", "--porcelain"]);
    assert_eq!(listed.matches("worktree ").count(), 1, "{listed}");
    assert_eq!(repository.git(&["for-each-ref", "refs/tine"]), "");
    let left: Vec<_> = fs::read_dir(worktrees_root(repository))
        .into_iter()
        .flatten()
        .map(|entry| entry.expect("the directory can be read").path())
        .collect();
    assert_eq!(left, [] as [PathBuf; 0]);
}

/// The events of one kind, oldest first.
fn news(repository: &Repository, kind: &str) -> Vec<Value> {
    let log = repository.place.log();
    let lines = log.into_iter().filter(|line| line["kind"] == "worktree");
    lines.filter_map(|mut line| line["body"].as_object_mut()?.remove(kind)).collect()
}

#[test]
fn eight_slots_that_change_one_file_at_different_places_are_all_merged() {
    let (repository, text) = lines(8);
    let slots: Vec<_> = (0..8)
        .map(|number| {
            let replies = vec![edit(&format!("line {number}\n"), &format!("slot {number}\n"))];
            (format!("slot {number}"), replies)
        })
        .collect();
    let before = users(&repository);
    let expected = ["1 changed file of it put into the workspace", "answer of slot 7"];
    play(&repository, &batch(&slots, &expected), &[]);
    assert_eq!(repository.place.read("lines.txt"), Some(text.replace("line", "slot")));
    assert_eq!(users(&repository), before);
    assert_eq!(news(&repository, "applied").len(), 8);
    check_gone(&repository);
    // It is a change like any other, so it can be taken back.
    let session = repository.place.sessions()[0].file_name().expect("it has one").to_owned();
    let revert = ["session".into(), "revert".into(), session];
    repository.place.tine(revert).run().exits(0);
    assert_eq!(repository.place.read("lines.txt"), Some(text));
}

#[test]
fn of_two_that_change_one_place_the_later_is_kept_and_both_sides_are_told() {
    let (repository, text) = lines(3);
    repository.write("other.txt", "other\n");
    repository.commit("More");
    let late = vec![
        edit("line 1\n", "theirs\n"),
        // Until the other one has been applied.
        bash(&format!(
            "echo changed > other.txt; while ! grep -q mine {}; do :; done",
            repository.place.work().join("lines.txt").display()
        )),
    ];
    let slots = [("early".to_owned(), vec![edit("line 1\n", "mine\n")]), ("late".to_owned(), late)];
    let told = [
        "None of it is in the workspace, because the workspace has other changes at the same \
         places of 1 file.",
        "lines.txt: both changed it\n\n<<<<<<< workspace\nmine\n=======\ntheirs\n>>>>>>> agent-2",
        "answer of late",
    ];
    play(&repository, &batch(&slots, &told), &[]);
    assert_eq!(repository.place.read("lines.txt"), Some(text.replace("line 1", "mine")));
    assert_eq!(repository.place.read("other.txt").as_deref(), Some("other\n"));
    let [kept] = &news(&repository, "kept")[..] else { panic!("one is kept") };
    assert_eq!(kept["conflicts"], json!(["lines.txt"]));
    let patch = fs::read_to_string(kept["patch"].as_str().unwrap()).unwrap();
    assert!(patch.contains("+theirs\n") && patch.contains("+changed\n"), "{patch}");
    let tree = Path::new(kept["path"].as_str().unwrap());
    assert_eq!(fs::read_to_string(tree.join("other.txt")).unwrap(), "changed\n");

    let listed = repository.place.tine(["worktree", "list"]).run().exits(0);
    assert!(listed.stdout.contains("agent-2  left over, 2 changed files"), "{}", listed.stdout);
    let doctor = repository.place.tine(["doctor"]).run();
    assert!(doctor.stdout.contains("1 worktree of earlier runs is still"), "{}", doctor.stdout);
    let pruned = repository.place.tine(["worktree", "prune"]).run().exits(0);
    assert!(pruned.stdout.contains("; its changes are in "), "{}", pruned.stdout);
    let saved = pruned.stdout.trim_end().rsplit_once("changes are in ").unwrap().1;
    assert_eq!(fs::read_to_string(saved).unwrap(), patch);
    check_gone(&repository);
}

#[test]
fn a_slot_sees_what_is_not_committed_and_its_changes_come_back_into_that() {
    let repository = Repository::new();
    for name in ["tracked", "gone", "run", "deep/er/file"] {
        repository.write(name, &format!("{name}\n"));
    }
    repository.write(".gitignore", "ignored\n");
    repository.commit("Begin");
    repository.write("stashed", "stashed\n");
    repository.git(&["stash", "--include-untracked", "--quiet"]);
    repository.write("tracked", "tracked\r\nnot staged\r\n");
    repository.write("staged", "staged\n");
    repository.git(&["add", "staged"]);
    repository.write("untracked", "untracked\n");
    repository.write("ignored", "ignored\n");
    fs::remove_file(repository.place.work().join("gone")).unwrap();
    let status = ["--no-optional-locks", "status", "--porcelain"];
    let before = (users(&repository), repository.git(&status));
    let look =
        bash("ls -A | tr '\\n' ' '; cat tracked staged untracked; git status --short | wc -l");
    let seen = ".git .gitignore deep run staged tracked untracked tracked\r\nnot staged\r\nstaged\nuntracked\n0\n";
    let looking = json!({"text": "seen", "expect": {"contains": [seen]}});
    let call = json!({"name": "Agent", "arguments": {"description": "look", "prompt": "Look.",
        "subagent_type": "general-purpose", "isolation": "worktree"}});
    let told = "[It worked in a worktree of its own and changed no file there.]\n\nseen";
    let last = json!({"text": "all done", "expect": {"contains": [told]}});
    let units = json!({"main": [{"calls": [call]}, last], "look": [look, looking]});
    play(&repository, &json!({"units": units}), &[]);
    assert_eq!((users(&repository), repository.git(&status)), before);
    assert_eq!(news(&repository, "dropped").len(), 1);

    let work = "printf 'more\\r\\n' >> tracked; mv untracked moved; chmod +x run; ln -s run link; \
                rm deep/er/file staged; printf '\\0\\377' > binary; echo x > ignored";
    let slots = [("work".to_owned(), vec![bash(work)])];
    play(
        &repository,
        &batch(&slots, &["8 changed files of it put"]),
        &["--no-session-persistence"],
    );
    let read = |name: &str| fs::read(repository.place.work().join(name)).ok();
    assert_eq!(read("tracked").unwrap(), b"tracked\r\nnot staged\r\nmore\r\n");
    assert_eq!((read("untracked"), read("staged"), read("gone")), (None, None, None));
    assert_eq!(read("moved").unwrap(), b"untracked\n");
    assert_eq!(read("binary").unwrap(), [0, 255]);
    assert_eq!(read("ignored").unwrap(), b"ignored\n");
    assert_eq!(repository.place.work().join("link").read_link().unwrap(), Path::new("run"));
    let mode = repository.place.work().join("run").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111);
    assert!(!repository.place.work().join("deep").exists());
    assert_eq!(users(&repository), before.0);
    check_gone(&repository);
}

#[test]
fn a_slot_that_ends_badly_is_never_applied_and_is_kept_if_it_changed_anything() {
    let (repository, text) = lines(1);
    let failing = |name: &str, replies: Vec<Value>| {
        let mut replies = replies;
        replies.push(json!({"fault": {"error": {"status": 400, "message": "no more"}}}));
        (name.to_owned(), replies)
    };
    let slots = [failing("busy", vec![edit("line 0", "changed")]), failing("idle", vec![])];
    let told = [
        "because it did not come to its end",
        "[It worked in a worktree of its own and changed no file there.]",
    ];
    play(&repository, &batch(&slots, &told), &[]);
    assert_eq!(repository.place.read("lines.txt"), Some(text));
    assert_eq!((news(&repository, "kept").len(), news(&repository, "dropped").len()), (1, 1));
}

#[test]
fn where_it_is_to_be_kept_the_workspace_is_left_alone() {
    let (repository, text) = lines(1);
    let slots = [("a".to_owned(), vec![edit("line 0", "changed")])];
    let told = ["1 changed file, none of it in the workspace. Patch: "];
    play(&repository, &batch(&slots, &told), &["--config", "agents.worktree=keep"]);
    assert_eq!(repository.place.read("lines.txt"), Some(text));
    assert_eq!(news(&repository, "kept").len(), 1);
}

#[test]
fn a_definition_asks_for_a_worktree_and_what_it_starts_works_in_the_same_one() {
    let (repository, text) = lines(2);
    let definition = "---\nname: apart\ndescription: d\nisolation: worktree\n---\nBe apart.\n";
    repository.write(".claude/agents/apart.md", definition);
    let agent = |kind: &str, name: &str| {
        json!({"calls": [{"name": "Agent", "arguments": {"description": name, "prompt": "Do it.",
            "subagent_type": kind}}]})
    };
    let work = repository.place.work().join("lines.txt");
    // What the child changes is there for its parent, and not in the workspace.
    let look = bash(&format!("cat lines.txt {}", work.display()));
    let both = format!("{}{text}", text.replace("line 1", "inner"));
    let script = json!({"units": {
        "main": [agent("apart", "outer"), {"text": "all done"}],
        "outer": [agent("general-purpose", "inner"), look,
            {"text": "ok", "expect": {"contains": [both, "You work in "]}}],
        "inner": [edit("line 1", "inner"), {"text": "ok"}],
    }});
    play(&repository, &script, &[]);
    assert_eq!(repository.place.read("lines.txt"), Some(text.replace("line 1", "inner")));
    assert_eq!(news(&repository, "made").len(), 1);
    check_gone(&repository);
}

#[test]
fn a_fork_and_a_nested_worktree_go_back_to_where_they_came_from() {
    let (repository, text) = lines(3);
    let agent = |kind: &str, name: &str| {
        json!({"calls": [{"name": "Agent", "arguments": {"tasks": [{"description": name,
            "prompt": "Do it.", "subagent_type": kind, "isolation": "worktree"}]}}]})
    };
    let script = json!({"units": {
        "main": [agent("general-purpose", "outer"), agent("fork", "forked"), {"text": "all done"}],
        "outer": [edit("line 0", "outer"), agent("general-purpose", "inner"),
            bash("cat lines.txt"),
            {"text": "ok", "expect": {"contains": ["outer\n--\ninner\n--\nline 2\n"]}}],
        "inner": [edit("line 1", "inner"), {"text": "ok"}],
        "forked": [edit("line 2", "forked"),
            {"text": "ok", "expect": {"contains": ["You work in "]}}],
    }});
    play(&repository, &script, &[]);
    let expected = text.replace("line 0", "outer").replace("line 1", "inner");
    assert_eq!(repository.place.read("lines.txt"), Some(expected.replace("line 2", "forked")));
    check_gone(&repository);
}

#[test]
fn the_worktree_is_inside_the_workspace_also_where_it_is_beside_the_configuration() {
    let (repository, text) = lines(2);
    let whole = repository.place.work().join("lines.txt").display().to_string();
    let write = |path: &str, line: &str| {
        let arguments = json!({"file_path": path, "old_string": line, "new_string": "changed"});
        json!({"calls": [{"name": "Edit", "arguments": arguments}]})
    };
    let call = json!({"name": "Agent", "arguments": {"description": "a", "prompt": "Do it.",
        "subagent_type": "general-purpose", "isolation": "worktree"}});
    let units = json!({"main": [{"calls": [call]}, {"text": "all done"}],
        "a": [write(&whole, "line 0"), write("lines.txt", "line 1"), {"text": "ok"}]});
    let model = repository.place.script("script.json", &json!({"units": units}));
    let flags = ["-p", "go", "-m", &model, "--permission-mode", "acceptEdits"];
    // One home for all, so that the worktrees are beside the configuration.
    let home = repository.place.home().join("all");
    let tine = repository.place.tine(flags).env("TINE_HOME", &home.display().to_string());
    let finished = tine.run().exits(0);
    assert!(finished.stdout.contains("all done"), "{}", finished.stderr);
    let expected = text.replace("line 0", "changed").replace("line 1", "changed");
    assert_eq!(repository.place.read("lines.txt"), Some(expected));
}

#[test]
fn what_a_rule_denies_by_its_whole_path_is_not_put_there_either() {
    let (repository, text) = lines(1);
    let rule = format!("Edit(/{})", repository.place.work().join("lines.txt").display());
    let denied = json!({"text": "answer of a", "expect": {"contains": ["denied by the rule"]}});
    let edited = [("a".to_owned(), vec![edit("line 0", "changed"), denied])];
    let told = "worked in a worktree of its own and changed no file there";
    play(&repository, &batch(&edited, &[told]), &["--disallowed-tools", &rule]);
    let written = [("a".to_owned(), vec![bash("echo changed > lines.txt")])];
    let told =
        ["because 1 file may not be changed there like this.", "lines.txt: denied by the rule"];
    play(&repository, &batch(&written, &told), &["--disallowed-tools", &rule]);
    assert_eq!(repository.place.read("lines.txt"), Some(text));
}

#[test]
fn the_rule_that_would_have_allowed_an_edit_allows_it_the_next_time() {
    let (repository, text) = lines(1);
    let slots = [("a".to_owned(), vec![edit("line 0", "changed")])];
    let model = repository.place.script("script.json", &batch(&slots, &[]));
    let fixed = ["-p", "go", "-m", &model];
    let denied = repository.place.tine(fixed).run().exits(0);
    let hint = "hint: `--allowed-tools 'Edit(lines.txt)'` allows such calls\n";
    assert!(denied.stderr.contains(hint), "{}", denied.stderr);
    assert_eq!(repository.place.read("lines.txt").as_deref(), Some(&*text));
    let allowed = ["--allowed-tools", "Edit(lines.txt)"];
    repository.place.tine(fixed.iter().chain(&allowed)).run().exits(0);
    assert_eq!(repository.place.read("lines.txt"), Some(text.replace("line 0", "changed")));
}

#[test]
fn what_a_rule_has_asked_about_is_not_put_there_unasked() {
    let (repository, text) = lines(1);
    let whole = repository.place.work().join("lines.txt");
    for rule in ["Edit(lines.txt)", &format!("Edit(/{})", whole.display())] {
        repository.place.configure(&format!("[permissions]\nask = [\"{rule}\"]\n"));
        let asked = json!({"text": "answer of a", "expect": {"contains": ["has it asked"]}});
        let edited = [("a".to_owned(), vec![edit("line 0", "changed"), asked])];
        let told = "worked in a worktree of its own and changed no file there";
        play(&repository, &batch(&edited, &[told]), &[]);
        let written = [("a".to_owned(), vec![bash("echo changed > lines.txt")])];
        let told = format!("lines.txt: the rule `{rule}` has it asked, which a merge does not");
        play(&repository, &batch(&written, &[&told, "Patch: "]), &[]);
        assert_eq!(repository.place.read("lines.txt").as_deref(), Some(&*text));
    }
    let kept: Vec<Value> = repository
        .place
        .sessions()
        .iter()
        .flat_map(|session| {
            let log = fs::read_to_string(session.join("log.jsonl")).unwrap();
            let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            lines.filter(|line| line["body"]["kept"].is_object()).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(kept.len(), 2);
}

#[test]
fn more_than_can_be_held_in_memory_is_kept_and_its_reason_told() {
    let (repository, _) = lines(1);
    let slots = [("a".to_owned(), vec![bash("truncate -s 30M one two three four five")])];
    let told =
        [", none of it in the workspace: its files have more than 128 MiB, before and after"];
    play(&repository, &batch(&slots, &told), &[]);
    assert_eq!(repository.place.read("one"), None);
    assert_eq!(news(&repository, "kept").len(), 1);
}

#[test]
fn a_subdirectory_is_worked_in_as_a_subdirectory_and_nothing_outside_of_it_comes_back() {
    let repository = Repository::new();
    repository.write("sub/a", "a\n");
    repository.write("top", "top\n");
    repository.commit("Begin");
    let link = repository.place.root().join("link");
    symlink(repository.place.work().join("sub"), &link).unwrap();
    let inside = [("in".to_owned(), vec![bash("echo b > a; basename $(pwd) > name")])];
    playing(&repository, &batch(&inside, &["2 changed files of it put"]), &[]).at(&link).run();
    assert_eq!(repository.place.read("sub/a").as_deref(), Some("b\n"));
    assert_eq!(repository.place.read("sub/name").as_deref(), Some("sub\n"));
    let out = [("out".to_owned(), vec![bash("echo c > a; echo c > ../top")])];
    let told = ["top: it is outside the workspace"];
    let finished = playing(&repository, &batch(&out, &told), &[]).at(&link).run().exits(0);
    assert!(finished.stdout.contains("all done"), "{}", finished.stderr);
    assert_eq!(repository.place.read("sub/a").as_deref(), Some("b\n"));
    assert_eq!(repository.place.read("top").as_deref(), Some("top\n"));
}

#[test]
fn where_there_can_be_no_worktree_the_slot_fails_in_words() {
    let repository = Repository::new();
    fs::remove_dir_all(repository.place.work().join(".git")).unwrap();
    let slots = [("a".to_owned(), vec![])];
    let told = format!(
        "[failed: cannot make a worktree: {} is not in a git repository]",
        repository.place.work().display()
    );
    play(&repository, &batch(&slots, &[&told]), &[]);
    repository.git(&["init", "--quiet", "--bare"]);
    let told = "is in no working tree of its git repository; run it in a checkout: ";
    play(&repository, &batch(&slots, &[told]), &["--no-session-persistence"]);
}

#[test]
fn sixteen_are_made_at_once_while_somebody_else_uses_the_index() {
    let (repository, text) = lines(16);
    let slots: Vec<_> = (0..16)
        .map(|number| {
            let replies = vec![edit(&format!("line {number}\n"), &format!("slot {number}\n"))];
            (format!("slot {number}"), replies)
        })
        .collect();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let using = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                repository.git(&["status"]);
                // Not all of them: what a write is made ready in comes and goes.
                repository.git(&["add", "lines.txt"]);
            }
        });
        let script = batch(&slots, &["put into the workspace"]);
        play(&repository, &script, &["--config", "agents.max_concurrent=16"]);
        over.store(true, Ordering::Relaxed);
        using.join().unwrap();
    });
    assert_eq!(repository.place.read("lines.txt"), Some(text.replace("line", "slot")));
    check_gone(&repository);
}

/// A named pipe through which commands say how far they have come.
struct Come {
    path: PathBuf,
    lines: Receiver<String>,
}

impl Come {
    fn new(repository: &Repository) -> Self {
        let path = repository.place.root().join("come");
        nix::unistd::mkfifo(&path, Mode::S_IRWXU).expect("the place is new");
        let pipe = path.clone();
        // Opened for writing, too: it does not end with the first who writes.
        let open = move || File::options().read(true).write(true).open(pipe).expect("it is there");
        Self { path, lines: lines_of(open) }
    }

    /// Waits until all these have come, in any order.
    #[track_caller]
    fn wait_for(&self, names: &[&str]) {
        let mut missing: Vec<&str> = names.to_vec();
        while !missing.is_empty() {
            let line = self.lines.recv_timeout(HANG_LIMIT);
            let line = line.unwrap_or_else(|_| panic!("{missing:?} did not come"));
            missing.retain(|name| *name != line.trim_end());
        }
    }
}

#[test]
fn after_a_kill_prune_saves_what_was_changed_and_leaves_nothing() {
    let (repository, text) = lines(1);
    let before = users(&repository);
    // Each says that it has come as far, and then waits for ever.
    let come = Come::new(&repository);
    let hang = |name: &str, command: &str| {
        let come = come.path.display();
        let command = format!("{command}; echo {name} > '{come}'; tail --pid=$PPID -f /dev/null");
        (name.to_owned(), vec![bash(&command)])
    };
    let slots = [hang("busy", "echo changed > lines.txt; echo new > new"), hang("idle", ":")];
    let running = playing(&repository, &batch(&slots, &[]), &[]).start();
    come.wait_for(&["busy", "idle"]);
    let listed = repository.place.tine(["worktree", "list"]).run().exits(0);
    assert_eq!(listed.stdout.matches("in use").count(), 2, "{}", listed.stdout);
    let pruned = repository.place.tine(["worktree", "prune"]).run().exits(0);
    assert_eq!(pruned.stdout, "");
    running.signal(Signal::SIGKILL);
    drop(running.wait());
    let pruned = repository.place.tine(["worktree", "prune"]).run().exits(0);
    let lines: Vec<&str> = pruned.stdout.lines().collect();
    let [busy, idle] = lines[..] else { panic!("{}", pruned.stdout) };
    assert!(idle.ends_with("agent-2, which held no changes"), "{idle}");
    let patch = busy.rsplit_once("; its changes are in ").unwrap().1;
    assert!(Path::new(patch).starts_with(&repository.place.sessions()[0]), "{patch}");
    assert_eq!(repository.place.read("lines.txt"), Some(text));
    check_gone(&repository);
    assert_eq!(users(&repository), before);
    repository.git(&["apply", patch]);
    assert_eq!(repository.place.read("lines.txt").as_deref(), Some("changed\n"));
    assert_eq!(repository.place.read("new").as_deref(), Some("new\n"));
    let again = repository.place.tine(["worktree", "prune"]).run().exits(0);
    assert_eq!(again.stdout, "");
}

#[test]
fn after_a_kill_in_the_middle_of_a_merge_prune_loses_nothing() {
    let (repository, text) = lines(2);
    let come = Come::new(&repository);
    // Git, which says that it merges and comes to no end of that.
    let hangs =
        format!("echo merging > '{}'; exec tail --pid=$PPID -f /dev/null", come.path.display());
    let path = git_that(&repository.place, "merge-file", &hangs);
    // The first to end is put there; the other one has to be merged with it.
    let slots = [0, 1].map(|number| {
        let command = format!("sed -i 's/line {number}/slot {number}/' lines.txt");
        (format!("slot {number}"), vec![bash(&command)])
    });
    let running = playing(&repository, &batch(&slots, &[]), &[]).env("PATH", &path).start();
    come.wait_for(&["merging"]);
    running.signal(Signal::SIGKILL);
    drop(running.wait());
    let put = repository.place.read("lines.txt").unwrap();
    let number = if put.contains("slot 0") { 1 } else { 0 };
    let other = 1 - number;
    assert_eq!(put, text.replace(&format!("line {other}"), &format!("slot {other}")));
    let patch = prune(&repository, |tine| tine);
    assert!(patch.contains(&format!("+slot {number}\n")), "{patch}");
    check_gone(&repository);
    assert_eq!(repository.place.read("lines.txt").unwrap(), put);
}

/// Leaves a worktree over in which a line of `lines.txt` was changed.
fn leave(repository: &Repository, edit_as: impl FnOnce(Tine) -> Tine) {
    let slots = [("a".to_owned(), vec![edit("line 0", "changed")])];
    let script = batch(&slots, &["none of it in the workspace"]);
    let tine = playing(repository, &script, &["--config", "agents.worktree=keep"]);
    let finished = edit_as(tine).run();
    assert!(finished.stdout.contains("all done"), "{}\n{}", finished.stdout, finished.stderr);
}

/// The one place there is.
#[track_caller]
fn place(repository: &Repository) -> PathBuf {
    let list = |directory: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(directory).expect("it is there");
        entries.map(|entry| entry.expect("it can be read").path()).collect()
    };
    let projects = list(&worktrees_root(repository));
    let places: Vec<_> = projects.iter().flat_map(|project| list(project)).collect();
    let [place] = &places[..] else { panic!("{places:?}") };
    place.clone()
}

/// Prunes, and returns the patch that the changes are in.
#[track_caller]
fn prune(repository: &Repository, run_as: impl FnOnce(Tine) -> Tine) -> String {
    let pruned = run_as(repository.place.tine(["worktree", "prune"])).run().exits(0);
    let patch = pruned.stdout.trim_end().rsplit_once("; its changes are in ");
    let (_, patch) = patch.unwrap_or_else(|| panic!("{}", pruned.stdout));
    fs::read_to_string(patch).expect("the patch is there")
}

#[test]
fn a_link_in_the_way_to_the_worktrees_hides_no_changes_from_prune() {
    let (repository, _) = lines(1);
    let link = repository.place.root().join("state");
    symlink(repository.place.home().join(".local/state"), &link).unwrap();
    fs::create_dir_all(repository.place.home().join(".local/state")).unwrap();
    let through = |tine: Tine| tine.env("XDG_STATE_HOME", &link.display().to_string());
    leave(&repository, through);
    let listed = through(repository.place.tine(["worktree", "list"])).run().exits(0);
    assert!(listed.stdout.contains("left over, 1 changed file"), "{}", listed.stdout);
    assert!(prune(&repository, through).contains("+changed\n"));
    check_gone(&repository);
}

#[test]
fn what_a_merge_left_in_the_place_is_not_taken_for_the_tree() {
    let (repository, _) = lines(1);
    leave(&repository, |tine| tine);
    for name in [".tmpAAAA", "zzz"] {
        let scratch = place(&repository).join(name);
        fs::create_dir(&scratch).unwrap();
        fs::write(scratch.join("ours"), "ours\n").unwrap();
    }
    assert!(prune(&repository, |tine| tine).contains("+changed\n"));
    check_gone(&repository);
}

#[test]
fn prune_leaves_what_belongs_to_no_repository_and_says_what_to_do() {
    let (repository, _) = lines(1);
    leave(&repository, |tine| tine);
    let place = place(&repository);
    let tree = place.join("work");
    let (record, away) = (place.join("about.json"), repository.place.root().join("away"));
    let check_stays = |why: &str| {
        let at = |tine: Tine| tine.at(&repository.place.root());
        let pruned = at(repository.place.tine(["worktree", "prune"])).run().exits(1);
        assert_eq!(pruned.stdout, "");
        let left = format!("error: {} is left as it is: {why}\nhint: ", place.display());
        assert!(pruned.stderr.starts_with(&left), "{}", pruned.stderr);
        assert_eq!(fs::read_to_string(tree.join("lines.txt")).unwrap(), "changed\n--\n");
        let listed = at(repository.place.tine(["worktree", "list"])).run().exits(0);
        assert!(listed.stdout.contains("cannot be read"), "{}", listed.stdout);
    };
    let git = repository.place.work().join(".git");
    fs::rename(repository.place.work(), &away).unwrap();
    check_stays(&format!("`{}` knows of no worktree `{}`", git.display(), tree.display()));
    fs::rename(&away, repository.place.work()).unwrap();
    let written = fs::read(&record).unwrap();
    fs::write(&record, &written[..written.len() / 2]).unwrap();
    check_stays(&format!("its record `{}` cannot be read", record.display()));
    fs::remove_file(&record).unwrap();
    check_stays(&format!("its record `{}` cannot be read", record.display()));
    fs::write(&record, written).unwrap();
    assert!(prune(&repository, |tine| tine).contains("+changed\n"));
    check_gone(&repository);
}

#[test]
fn what_was_removed_half_way_is_removed_and_its_patch_stays() {
    let (repository, _) = lines(1);
    leave(&repository, |tine| tine);
    fs::remove_dir_all(place(&repository).join("work")).unwrap();
    let pruned = repository.place.tine(["worktree", "prune"]).run().exits(0);
    assert!(pruned.stdout.ends_with(", which held no changes\n"), "{}", pruned.stdout);
    check_gone(&repository);
    let [kept] = &news(&repository, "kept")[..] else { panic!("one is kept") };
    assert!(fs::read_to_string(kept["patch"].as_str().unwrap()).unwrap().contains("+changed\n"));
}

#[test]
fn a_place_that_is_about_to_be_made_is_left_alone_by_all_who_only_look() {
    let (repository, _) = lines(1);
    let place = worktrees_root(&repository).join("project/session-agent-2");
    fs::create_dir_all(&place).unwrap();
    let listed = repository.place.tine(["worktree", "list"]).run().exits(0);
    assert_eq!(listed.stdout, "");
    repository.place.tine(["doctor"]).run();
    assert!(place.is_dir());
    repository.place.tine(["worktree", "prune"]).run().exits(0);
    check_gone(&repository);
}
