//! Agents in worktrees of their own.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::support::play::Case;
use crate::support::repository::Repository;
use crate::support::server::{Reaction, Server};
use crate::support::talk::{Talk, serve};
use crate::support::tine::Finished;

const YOLO: &[&str] = &["--permission-mode", "bypassPermissions"];

fn calls(name: &str, arguments: Value) -> Value {
    json!({"calls": [{"name": name, "arguments": arguments}]})
}

fn bash(command: &str) -> Value {
    calls("Bash", json!({"command": command}))
}

/// A script in which main starts one agent in a worktree, which makes these
/// replies and then says that it is done once its request holds `seen`. Main says
/// so, too, once its own holds `told`.
fn script(replies: &[Value], seen: &[&str], told: &[&str]) -> Value {
    let task = json!({"description": "w", "prompt": "p", "subagent_type": "general-purpose",
        "isolation": "worktree"});
    let last = json!({"text": "agent done", "expect": {"contains": seen}});
    let replies: Vec<&Value> = replies.iter().chain([&last]).collect();
    let main = [
        calls("Agent", json!({"tasks": [task]})),
        json!({"text": "all done", "expect": {"contains": told}}),
    ];
    json!({"units": {"main": main, "w": replies}})
}

#[track_caller]
fn play(repository: &Repository, script: &Value, flags: &[&str]) -> Finished {
    let model = repository.place.script("script.json", script);
    let fixed = ["-p", "go", "-m", &model];
    let finished = repository.place.tine(fixed.iter().chain(flags)).run();
    assert!(finished.stdout.contains("all done"), "{}\n{}", finished.stdout, finished.stderr);
    finished
}

/// A repository with these files, committed.
fn repository(files: &[(&str, &str)]) -> Repository {
    let repository = Repository::new();
    for (name, text) in files {
        repository.write(name, text);
    }
    repository.commit("Begin");
    repository
}

fn worktrees(repository: &Repository) -> usize {
    repository.git(&["worktree", "list", "--porcelain"]).matches("worktree ").count() - 1
}

#[test]
fn a_whole_path_into_the_workspace_means_the_worktree() {
    for flags in [&["--yolo"][..], &["--permission-mode", "acceptEdits"]] {
        let case = Case::open("worktree-absolute-path").in_git();
        let text = fs::read_to_string(case.file("script.json")).expect("the case has it");
        let work = case.place.work().display().to_string();
        let script: Value = serde_json::from_str(&text.replace("@PLACE@", &work)).expect("JSON");
        let model = case.place.script("s.json", &script);
        let fixed = ["-m", &model, "-p", "go", "-o", "stream-json"];
        let arguments: Vec<&str> = fixed.iter().chain(flags).copied().collect();
        let said = case.tine(&arguments).run().exits(0).stdout;
        assert!(!said.contains("changed no file"), "{said}");
        assert!(said.contains("1 changed file of it put into the workspace"), "{said}");
        assert!(said.contains("you work in a copy"), "{said}");
        assert_eq!(case.shell("git status --short"), "?? new.txt\n");
        assert_eq!(case.place.read("new.txt").as_deref(), Some("x\n"));
    }
}

#[test]
fn every_file_tool_works_in_the_worktree_whatever_path_it_is_given() {
    let repository =
        repository(&[("a.txt", "alpha\n"), ("src/b.txt", "beta\n"), (".gitignore", "secret/\n")]);
    repository.write("secret/c.txt", "gamma\n");
    let work = repository.place.work();
    symlink(&work, repository.place.root().join("link")).unwrap();
    symlink(work.join("a.txt"), work.join("absolute")).unwrap();
    let at = |name: &str| work.join(name).display().to_string();
    let linked = repository.place.root().join("link/src/b.txt").display().to_string();
    let patch = format!(
        "*** Begin Patch\n*** Add File: {}\n+new\n*** Update File: {}\n@@\n-beta\n+beta 2\n*** End Patch",
        at("src/new.txt"),
        at("src/b.txt"),
    );
    let edit = |path: &str, old: &str, new: &str| {
        calls("Edit", json!({"file_path": path, "old_string": old, "new_string": new}))
    };
    let replies = [
        calls("Read", json!({"file_path": at("a.txt")})),
        edit(&at("a.txt"), "alpha", "alpha 2"),
        // The link is the copy's, and leads to the original.
        edit("absolute", "alpha 2", "alpha 3"),
        calls("ApplyPatch", json!({"patch": patch})),
        edit(&linked, "beta 2", "beta 3"),
        calls("Glob", json!({"pattern": "*.txt", "path": at("src")})),
        calls("Glob", json!({"pattern": format!("{}/**/n*.txt", work.display())})),
        calls("Grep", json!({"pattern": "beta", "path": at("src"), "output_mode": "content"})),
        calls("Read", json!({"file_path": at("secret/c.txt")})),
    ];
    let seen = ["new.txt", "beta 3", "gamma", "is not in your copy"];
    let told = ["3 changed files of it put into the workspace", "agent done"];
    play(&repository, &script(&replies, &seen, &told), &["--permission-mode", "acceptEdits"]);
    let read = |name: &str| repository.place.read(name);
    assert_eq!(read("a.txt").as_deref(), Some("alpha 3\n"));
    assert_eq!(read("src/b.txt").as_deref(), Some("beta 3\n"));
    assert_eq!(read("src/new.txt").as_deref(), Some("new\n"));
    assert_eq!(worktrees(&repository), 0);
}

#[test]
fn what_a_rule_denies_in_the_workspace_is_denied_by_its_whole_path() {
    let repository = repository(&[("a.txt", "alpha\n")]);
    let path = repository.place.work().join("a.txt").display().to_string();
    let replies =
        [calls("Edit", json!({"file_path": path, "old_string": "alpha", "new_string": "x"}))];
    for rule in ["Edit(a.txt)".to_owned(), format!("Edit(/{path})")] {
        let script = script(&replies, &["denied by the rule"], &["changed no file there"]);
        let flags = [&["--disallowed-tools", &rule][..], YOLO].concat();
        play(&repository, &script, &flags);
        assert_eq!(repository.place.read("a.txt").as_deref(), Some("alpha\n"));
    }
}

#[test]
fn a_command_that_changes_the_workspace_itself_is_told() {
    let repository = repository(&[("a.txt", "alpha\n")]);
    let other = repository.place.root().join("other");
    fs::create_dir(&other).unwrap();
    let work = repository.place.work();
    let replies = [
        bash(&format!("cat {}/a.txt", work.display())),
        bash(&format!("echo x > {}/made.txt", work.display())),
        calls("Write", json!({"file_path": other.join("o.txt"), "content": "x\n"})),
    ];
    let seen = ["1 file changed in the workspace itself, and not in your copy", "made.txt"];
    let outside = other.join("o.txt").display().to_string();
    let told = ["It changed 2 files outside of its worktree: ", "work/made.txt", &outside];
    let added = other.display().to_string();
    let flags = [YOLO, &["--add-dir", &added]].concat();
    play(&repository, &script(&replies, &seen, &told), &flags);
    assert_eq!(repository.place.read("made.txt").as_deref(), Some("x\n"));
}

#[test]
fn git_works_in_a_worktree_of_a_repository_below_tmp() {
    let case = Case::open("worktree-below-tmp").in_git();
    let said = case.scripted(&[]).run().exits(0).stdout;
    let log = case.shell("git log --oneline");
    assert!(said.contains(log.trim()), "{said}");
    assert!(!said.contains("not a git repository"), "{said}");
}

#[test]
fn git_works_in_the_sandbox_wherever_the_repository_keeps_its_own() {
    let repository = repository(&[("sub/a", "a\n")]);
    let root = repository.place.root();
    let directory = |name: &str| root.join(name).display().to_string();
    repository.git(&["worktree", "add", "--quiet", &directory("tree")]);
    repository.git(&["worktree", "add", "--quiet", &directory("work/inside")]);
    repository.git(&["clone", "--quiet", "--shared", ".", &directory("shared")]);
    let separate = format!("--separate-git-dir={}", directory("apart"));
    repository.git(&["clone", "--quiet", &separate, ".", &directory("split")]);
    let url = directory("shared");
    let add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &url, "module"];
    repository.git(&add);
    for place in
        ["work", "work/sub", "tree", "tree/sub", "work/inside", "shared", "split", "work/module"]
    {
        for policy in ["read-only", "workspace-write"] {
            let line = "git log --oneline | wc -l; git status --porcelain | grep -c '^ D'; true";
            let arguments = ["sandbox", "--policy", policy, "--", "sh", "-c", line];
            let tine = repository.place.tine(arguments).at(&root.join(place));
            let said = tine.run().exits(0);
            let counts: Vec<&str> = said.stdout.split_whitespace().collect();
            // Nothing looks as if it were deleted because it cannot be seen.
            let all = format!("{place} {policy}: {}{}", said.stdout, said.stderr);
            assert_eq!(counts, ["1", "0"], "{all}");
        }
    }
    // The original of a worktree is there to read only, below a directory for
    // temporary files, too.
    let lost = repository.place.tine(["sandbox", "--", "sh", "-c", "echo x > ../work/lost"]);
    let said = lost.at(&root.join("tree")).run();
    assert!(said.stderr.contains("lost"), "{}", said.stderr);
    assert_eq!(repository.place.read("lost"), None);
}

#[test]
fn a_commit_in_the_sandbox_is_of_the_person_whom_the_environment_names() {
    let repository = repository(&[("a", "a\n")]);
    let line = "echo b > b && git add b && git commit -qm two && git log -1 --format='%an %ae %cn'";
    let tine = repository.place.tine(["sandbox", "--", "sh", "-c", line]);
    let said = tine
        .env("GIT_AUTHOR_NAME", "Ada")
        .env("EMAIL", "ada@ci")
        .env("GIT_COMMITTER_NAME", "Robot")
        .env("GIT_SSH_COMMAND", "false")
        .run()
        .exits(0);
    assert_eq!(said.stdout, "Ada ada@ci Robot\n");
}

#[test]
fn hidden_changes_are_in_the_worktree_and_what_is_not_is_named() {
    let case = Case::open("worktree-hidden-changes").in_git();
    case.shell(
        "git update-index --skip-worktree a.txt; echo local >>a.txt; mkdir nested; cd nested; \
         git init -q; echo n >f",
    );
    let said = case.scripted(&["--yolo"]).run().exits(0).stdout;
    assert!(said.contains(r"committed\nlocal"), "{said}");
    assert!(said.contains("It worked without nested, which worktrees do not include"), "{said}");
}

#[test]
fn ignored_output_is_put_into_the_workspace() {
    let case = Case::open("worktree-ignored-output-lost").in_git();
    let said = case.scripted(&["--yolo"]).run().exits(0).stdout;
    assert_eq!(case.place.read("out/report.md").as_deref(), Some("the report\n"));
    assert!(said.contains("Git ignores some of these files: out/report.md"), "{said}");
    assert!(!said.contains("changed no file"), "{said}");
}

#[test]
fn ignored_files_come_back_where_nothing_is_and_the_rest_is_named() {
    let ignore = ".env\nout/\nnode_modules/\n*.log\nkept/\n";
    let repository = repository(&[(".gitignore", ignore), ("a.txt", "alpha\n")]);
    repository.write(".env", "MINE=1\n");
    repository.write("out/same", "same\n");
    let replies = [bash(
        "echo THEIRS=1 > .env; mkdir -p out/deep node_modules/x kept; echo same > out/same; \
         echo r > out/deep/r.md; ln -s r.md out/deep/latest; echo l > run.log; \
         echo js > node_modules/x/i.js; echo 'a b' > kept/k",
    )];
    let told = [
        // The last one is there already, as it is.
        "5 changed files of it put into the workspace",
        "Git ignores some of these files: kept/k, out/deep/latest, out/deep/r.md, out/same, run.log.",
        "are in the patch but not in the workspace: .env (the workspace has a different one, which is kept)",
        "Deleted with it, since tools can rebuild them: node_modules (1 file, 3 bytes)",
    ];
    play(&repository, &script(&replies, &[], &told), YOLO);
    let read = |name: &str| repository.place.read(name);
    assert_eq!(read(".env").as_deref(), Some("MINE=1\n"));
    assert_eq!(read("out/deep/r.md").as_deref(), Some("r\n"));
    assert_eq!(read("out/deep/latest").as_deref(), Some("r\n"));
    assert_eq!(
        (read("run.log").as_deref(), read("kept/k").as_deref()),
        (Some("l\n"), Some("a b\n"))
    );
    assert_eq!(read("node_modules/x/i.js"), None);
    assert_eq!(worktrees(&repository), 0);
    // A rule holds for them as for others, and keeps no other change away.
    let replies =
        [bash("echo 2 > a.txt; mkdir out; echo new > out/denied; echo new > out/allowed")];
    let told = ["2 changed files of it put", "out/denied (denied by the rule `Edit(out/denied)`)"];
    let flags = [YOLO, &["--disallowed-tools", "Edit(out/denied)"]].concat();
    play(&repository, &script(&replies, &[], &told), &flags);
    assert_eq!((read("out/denied"), read("a.txt").as_deref()), (None, Some("2\n")));
    assert_eq!(read("out/allowed").as_deref(), Some("new\n"));
}

#[test]
fn a_worktree_with_work_that_no_patch_holds_stays_until_that_is_gone() {
    let repository = repository(&[(".gitignore", "big\n"), ("a.txt", "alpha\n")]);
    let large = [bash("truncate -s 40M big"), bash("git init -q mine; echo m > mine/m")];
    let told = [
        "[It worked in a worktree of its own.]",
        "These files are only in the kept worktree ",
        "big (1 file, 40 MiB)",
    ];
    play(&repository, &script(&large[..1], &[], &told), YOLO);
    let told = ["1 changed file of it put", "mine (a repository of its own, "];
    let replies = [bash("echo 2 > a.txt"), large[1].clone()];
    play(&repository, &script(&replies, &[], &told), YOLO);
    assert_eq!(repository.place.read("a.txt").as_deref(), Some("2\n"));
    assert_eq!(worktrees(&repository), 2);
    let pruned = repository.place.tine(["worktree", "prune"]).run();
    assert!(
        pruned.stderr.contains("it has files that no patch contains: big"),
        "{}",
        pruned.stderr
    );
    assert!(pruned.stderr.contains("move what you need"), "{}", pruned.stderr);
    let listed = repository.git(&["worktree", "list", "--porcelain"]);
    for tree in listed.lines().filter_map(|line| line.strip_prefix("worktree ")).skip(1) {
        let _ = fs::remove_file(Path::new(tree).join("big"));
        let _ = fs::remove_dir_all(Path::new(tree).join("mine"));
    }
    repository.place.tine(["worktree", "prune"]).run().exits(0);
    assert_eq!(worktrees(&repository), 0);
}

/// A patch moves no link, and adds a file where a link leads: into the copy, if it leads
/// into the workspace.
#[test]
fn a_patch_treats_links_into_the_workspace_as_links_of_the_copy() {
    let repository = repository(&[("CLAUDE.md", "rules\n"), ("a.txt", "alpha\n")]);
    let work = repository.place.work();
    for (name, to) in [("AGENTS.md", "CLAUDE.md"), ("dangling", "made.txt"), ("taken", "a.txt")] {
        symlink(work.join(to), work.join(name)).unwrap();
    }
    repository.commit("Link");
    let patch = |body: &str| {
        calls("ApplyPatch", json!({"patch": format!("*** Begin Patch\n{body}\n*** End Patch")}))
    };
    let replies = [
        patch("*** Update File: AGENTS.md\n*** Move to: X"),
        patch("*** Add File: dangling\n+made"),
        calls("Read", json!({"file_path": "taken"})),
        patch("*** Add File: taken\n+alpha 2"),
        // Before it ends, the workspace has nothing of this.
        bash(&format!("cd {}; ls made.txt X; sed 's/$/!/' a.txt", work.display())),
    ];
    let seen = [
        "AGENTS.md is a symbolic link to ",
        "a patch moves files, not links",
        "cannot access 'made.txt'",
        "cannot access 'X'",
        "alpha!",
    ];
    let told = ["2 changed files of it put into the workspace"];
    play(&repository, &script(&replies, &seen, &told), YOLO);
    let read = |name: &str| repository.place.read(name);
    assert_eq!(read("CLAUDE.md").as_deref(), Some("rules\n"));
    assert_eq!(read("X"), None);
    assert_eq!(read("made.txt").as_deref(), Some("made\n"));
    assert_eq!(read("a.txt").as_deref(), Some("alpha 2\n"));
    assert!(work.join("AGENTS.md").is_symlink() && work.join("dangling").is_symlink());
}

/// A hook gives the call other arguments, so its paths are looked at twice.
#[test]
fn a_note_about_a_path_is_given_once_and_for_the_path_that_is_opened() {
    let repository = repository(&[("a.txt", "alpha\n"), (".gitignore", "secret/\n")]);
    let work = repository.place.work();
    let at = |name: &str| work.join(name).display().to_string();
    let (one, other) = (at("secret/c.txt"), at("secret/d.txt"));
    for path in [&one, &other] {
        repository.write(path, "gamma\n");
    }
    for (read, instead, noted) in [
        (&one, &one, Some(&one)),
        (&one, &other, Some(&other)),
        (&one, &"a.txt".to_owned(), None),
        (&"a.txt".to_owned(), &one, Some(&one)),
    ] {
        let changed = json!({"hookSpecificOutput": {"hookEventName": "PreToolUse",
            "updatedInput": {"file_path": instead}}});
        let command = format!("cat > /dev/null; printf %s '{changed}'");
        let hook = json!({"matcher": "Read", "hooks": [{"type": "command", "command": command}]});
        let settings = json!({"hooks": {"PreToolUse": [hook]}}).to_string();
        let path = read.clone();
        let server = serve(move |talk| match (talk.task() == "go", talk.turn()) {
            (true, 1) => Reaction::call_reply(&[(
                "Agent",
                json!({"description": "w", "prompt": "p", "subagent_type": "general-purpose",
                    "isolation": "worktree"}),
            )]),
            (false, 1) => Reaction::call_reply(&[("Read", json!({"file_path": path}))]),
            (true | false, _) => Reaction::text_reply("said"),
        });
        let flags = [&["--settings", &settings], YOLO].concat();
        repository.place.ask(&server, &flags).exits(0);
        let requests = server.finish();
        let mut talks = requests.iter().map(Talk::of).filter(|talk| talk.task() != "go");
        let talk = talks.nth(1).expect("the agent read a file");
        let output = talk.outputs()[0];
        let notes = output.matches("is not in your copy").count();
        assert_eq!(notes, usize::from(noted.is_some()), "{output}");
        if let Some(path) = noted {
            assert!(output.contains(&format!("[{path} is not in your copy")), "{output}");
        }
    }
}

#[test]
fn a_pattern_leads_into_the_worktree_though_the_workspace_has_brackets_in_its_name() {
    let repository = repository(&[("named.txt", "alpha\n")]);
    for name in ["[x]", "{a}", "a*", "x[1]/{b}"] {
        let work = repository.place.root().join(name);
        repository.git(&["clone", "--quiet", ".", &work.display().to_string()]);
        let pattern = format!("{}/*.txt", work.display());
        let replies = [calls("Glob", json!({"pattern": pattern}))];
        let script = script(&replies, &["named.txt", "you work in a copy"], &["agent done"]);
        let model = repository.place.script("script.json", &script);
        let tine = repository.place.tine(["-p", "go", "-m", &model].iter().chain(YOLO));
        let finished = tine.at(&work).run();
        assert!(finished.stdout.contains("all done"), "{name} {}", finished.stderr);
    }
}

/// A server whose main conversation makes these calls, one in each turn, and then ends. The
/// agent makes another change after each message, the later ones by paths of the worktree
/// that it had first.
fn continuations(main: Vec<(&'static str, Value)>, work: &Path) -> Server {
    let (next, work) = (AtomicUsize::new(0), work.to_owned());
    serve(move |talk| {
        if talk.task() == "go" {
            let turn = next.fetch_add(1, Ordering::Relaxed);
            let end = Reaction::text_reply("end");
            return main
                .get(turn)
                .map_or(end, |call| Reaction::call_reply(std::slice::from_ref(call)));
        }
        let outputs = talk.messages().iter().filter(|message| message["role"] == "tool");
        let first = outputs.filter_map(|message| message["content"].as_str()).next();
        let first = first.and_then(|output| output.lines().next()).unwrap_or_default().to_owned();
        let write = |name: &str, content: &str| {
            let path = format!("{first}/{name}");
            Reaction::call_reply(&[("Write", json!({"file_path": path, "content": content}))])
        };
        match talk.turn() {
            1 => Reaction::call_reply(&[
                ("Bash", json!({"command": "pwd"})),
                ("Read", json!({"file_path": "a.txt"})),
                ("Read", json!({"file_path": "b.txt"})),
            ]),
            3 => Reaction::call_reply(&[(
                "Edit",
                json!({"file_path": work.join("a.txt"), "old_string": "alpha", "new_string": "A"}),
            )]),
            5 => write("b.txt", "B\n"),
            7 => write("c.txt", "C\n"),
            _ => Reaction::text_reply("said"),
        }
    })
}

/// Its changes go to its new worktree, whether it names files of the workspace or of a
/// worktree that it had before, and also if its conversation is read from the log.
#[test]
fn an_isolated_agent_that_goes_on_works_in_its_new_worktree_and_is_merged() {
    let repository = repository(&[("a.txt", "alpha\n"), ("b.txt", "beta\n")]);
    let work = repository.place.work();
    let start = json!({"description": "w", "prompt": "p", "subagent_type": "general-purpose",
        "isolation": "worktree", "run_in_background": true});
    let send = || ("SendMessage", json!({"to": "agent-1", "message": "and now"}));
    let wait = || ("TaskWait", json!({}));
    let main = vec![("Agent", start), wait(), send(), wait(), send(), wait()];
    let server = continuations(main, &work);
    repository.place.ask(&server, YOLO).exits(0);
    let requests = server.finish();
    let last = requests.iter().map(Talk::of).next_back().expect("it was asked");
    let said = format!("{:?}", last.messages());
    let read = |name: &str| repository.place.read(name);
    assert_eq!(read("a.txt").as_deref(), Some("A\n"), "{said}");
    assert_eq!(read("b.txt").as_deref(), Some("B\n"), "{said}");
    let server = continuations(vec![send(), wait()], &work);
    let go_on = repository.place.tine(["-m", "m", "-c", "-p", "on"].iter().chain(YOLO));
    go_on.server(&server).run().exits(0);
    assert_eq!(read("c.txt").as_deref(), Some("C\n"));
    assert_eq!(worktrees(&repository), 0);
}
