//! Files that run later: what git's configuration names, and what other programs obey.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::repository::Repository;
use crate::support::tine::Place;

/// Names and values of git's configuration.
type GitSettings = &'static [(&'static str, &'static str)];

/// Settings that name a file, which, and what is there before.
const NAMED: [(GitSettings, &str, &str); 12] = [
    (&[("core.hooksPath", "hooks")], "hooks/pre-commit", "hooks/other"),
    (&[("core.hooksPath", "hooks")], "hooks/other", "hooks/other"),
    (&[("include.path", "../more.inc")], "more.inc", "more.inc"),
    (&[("includeIf.onbranch:main.path", "../if.inc")], "if.inc", "if.inc"),
    (&[("core.fsmonitor", "./tools/fsm.sh")], "tools/fsm.sh", "tools/fsm.sh"),
    (&[("filter.x.clean", "sh tools/flt.sh %f")], "tools/flt.sh", "tools/flt.sh"),
    (&[("filter.x.process", "python3 'tools/flt.py'")], "tools/flt.py", "tools/flt.py"),
    (&[("diff.x.textconv", "./conv")], "conv", "conv"),
    (&[("core.attributesFile", "attrs")], "attrs", "attrs"),
    (&[("merge.x.driver", "tools/merge %O %A")], "tools/merge", "tools/merge"),
    (&[("alias.st", "!./tools/st")], "tools/st", "tools/st"),
    (&[("credential.helper", "!./tools/cred")], "tools/cred", "tools/cred"),
];

/// A repository with these settings and this file.
fn repository(settings: &[(&str, &str)], file: &str) -> Repository {
    let repository = Repository::new();
    repository.write("src/a", "a\n");
    repository.write(file, "safe\n");
    for (name, value) in settings {
        repository.git(&["config", name, value]);
    }
    repository
}

/// Asks an agent to write files, and returns the outputs of its calls.
fn write(place: &Place, paths: &[&str], flags: &[&str]) -> Vec<String> {
    let call = |path: &&str| json!({ "name": "Write", "arguments": { "file_path": path, "content": "evil\n" } });
    let calls: Vec<Value> = paths.iter().map(call).collect();
    let script = json!({ "units": { "main": [{ "calls": calls }, { "text": "END" }] } });
    let flags: Vec<&str> = ["-o", "stream-json"].iter().chain(flags).copied().collect();
    let finished = place.play(&script, &flags).exits(0);
    finished.records().outputs().into_iter().map(|output| output.text).collect()
}

const ACCEPT: [&str; 2] = ["--permission-mode", "acceptEdits"];

#[test]
fn what_gits_configuration_names_is_asked_about_in_accept_edits() {
    for (settings, path, before) in NAMED {
        let repository = repository(settings, before);
        let outputs = write(&repository.place, &[path, "src/b"], &ACCEPT);
        assert!(outputs[0].contains("can make programs run"), "{path}: {}", outputs[0]);
        assert!(repository.place.read(path).is_none_or(|text| text == "safe\n"), "{path}");
        assert_eq!(repository.place.read("src/b").as_deref(), Some("evil\n"), "{}", outputs[1]);
        // A wildcard does not cover it; its name does.
        let outputs = write(&repository.place, &[path], &["--allowed-tools", "Edit(**)"]);
        assert!(outputs[0].contains("can make programs run"), "{path}: {}", outputs[0]);
        let named = format!("Edit({path})");
        let outputs = write(&repository.place, &[path], &["--allowed-tools", &named]);
        assert!(!outputs[0].contains("can make programs run"), "{path}: {}", outputs[0]);
    }
}

/// Runs calls of an agent with a `PATH`, and returns their outputs.
fn calls(place: &Place, calls: &Value, flags: &[&str], path: Option<&str>) -> Vec<String> {
    let script = json!({ "units": { "main": [{ "calls": calls }, { "text": "END" }] } });
    let script = place.script("script", &script);
    let arguments = ["-p", "go", "-m", &script, "-o", "stream-json"];
    let tine = place.tine(arguments.iter().chain(flags));
    let finished = path.into_iter().fold(tine, |tine, path| tine.env("PATH", path)).run().exits(0);
    finished.records().outputs().into_iter().map(|output| output.text).collect()
}

/// Returns a `PATH` that leads to a shell and to no git.
fn without_git(place: &Place) -> String {
    let programs = place.root().join("programs");
    std::fs::create_dir(&programs).expect("it is new");
    for name in ["bash", "sh", "mkdir", "cat"] {
        let target = Path::new("/bin").join(name);
        std::os::unix::fs::symlink(target, programs.join(name)).expect("it is new");
    }
    programs.display().to_string()
}

#[test]
fn where_git_cannot_list_its_configuration_every_file_may_be_one_that_it_runs() {
    let many: String = (0..300).map(|at| format!("\ta{at} = !./tools/{at}\n")).collect();
    let many = format!("[alias]\n{many}");
    let hooks = "[core]\n\thooksPath = hooks\n";
    let broken = format!("{hooks}[broken\n");
    let including = format!("{hooks}[include]\n\tpath = ../tools/x\n");
    let write = |path: &str| json!({ "name": "Write", "arguments": { "file_path": path, "content": "evil\n" } });
    let bash = |command: &str| json!({ "name": "Bash", "arguments": { "command": command } });
    for (config, path) in [(&*broken, None), (&including, None), (&many, None), (hooks, Some(()))] {
        let repository = repository(&[], "tools/x");
        let place = &repository.place;
        let path = path.map(|()| without_git(place));
        let path = path.as_deref();
        place.write(".git/config", config);
        place.write("tools/x", "[broken\n");
        let asked = json!([
            write("hooks/pre-commit"),
            write("src/b"),
            bash("mkdir -p hooks; echo evil > hooks/post-commit; echo ran")
        ]);
        let flags = [&ACCEPT[..], &["--allowed-tools", "Bash,Edit(**)"]].concat();
        let outputs = calls(place, &asked, &flags, path);
        for output in &outputs {
            assert!(output.contains("git cannot list all files that its"), "{config}: {output}");
        }
        for name in ["hooks/pre-commit", "hooks/post-commit", "src/b"] {
            assert_eq!(place.read(name), None, "{config}: {name}");
        }
        // A file's name in a rule answers for it.
        let flags = [&ACCEPT[..], &["--allowed-tools", "Edit(src/b)"]].concat();
        let outputs = calls(place, &json!([write("src/b")]), &flags, path);
        assert_eq!(place.read("src/b").as_deref(), Some("evil\n"), "{config}: {outputs:?}");
    }
}

#[test]
fn where_git_names_nothing_or_is_asked_about_another_owner_work_goes_on() {
    let write = |path: &str| json!({ "name": "Write", "arguments": { "file_path": path, "content": "new\n" } });
    let bash = json!({ "name": "Bash", "arguments": { "command": "echo made > src/c" } });
    let flags = [&ACCEPT[..], &["--allowed-tools", "Bash"]].concat();
    // What `git clone` writes names no file; without a repository there is nothing to list.
    let cloned = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n[remote \"origin\"]\n\turl = \
                  https://localhost/x.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \
                  \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n";
    let repository = repository(&[], "src/a");
    repository.place.write(".git/config", cloned);
    let bare = Place::new();
    bare.write("src/a", "a\n");
    for place in [&repository.place, &bare] {
        let path = without_git(place);
        let outputs = calls(place, &json!([write("src/b"), bash]), &flags, Some(&path));
        assert_eq!(place.read("src/b").as_deref(), Some("new\n"), "{outputs:?}");
        assert_eq!(place.read("src/c").as_deref(), Some("made\n"), "{outputs:?}");
    }
}

#[test]
fn the_configuration_of_a_repository_of_another_user_counts() {
    // Only root can give a file to another user.
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let repository = repository(&[("core.hooksPath", "hooks")], "hooks/other");
    let place = &repository.place;
    let of_somebody = Some(nix::unistd::Uid::from_raw(12345));
    for path in [place.work(), place.work().join(".git")] {
        nix::unistd::chown(&path, of_somebody, None).expect("this is root");
    }
    let outputs = write(place, &["hooks/pre-commit"], &ACCEPT);
    assert!(outputs[0].contains("can make programs run"), "{}", outputs[0]);
}

/// Runs a command in a sandbox; `false` without that backend.
fn sandboxed(place: &Place, backend: &str, command: &str) -> bool {
    let run = |script: &str| {
        place.tine(["sandbox", "--backend", backend, "--", "sh", "-c", script]).run()
    };
    let is_there = run("exit 0").status.success();
    let required = std::env::var("REQUIRE_SANDBOX").is_ok_and(|value| value == "1");
    assert!(is_there || !required, "no {backend}");
    if is_there {
        run(command);
    }
    is_there
}

/// Ways to change a file, by its path, and its directory.
fn changes(path: &str) -> Vec<String> {
    let directory = path.rsplit_once('/').map_or(".", |(directory, _)| directory);
    let mut changes = vec![
        format!("echo evil > {path}"),
        format!("rm -f {path}; echo evil > {path}"),
        format!("echo evil > new; mv new {path}"),
        format!("ln -sf src/a {path}"),
    ];
    if directory != "." {
        let make = format!("mkdir -p {directory}; echo evil > {path}");
        changes.push(format!("mv {directory} gone; {make}"));
        changes.push(format!("rm -rf {directory}; {make}"));
    }
    changes
}

#[test]
fn what_gits_configuration_names_is_as_it_was_after_a_sandboxed_command() {
    for (settings, path, before) in NAMED {
        for backend in ["bwrap", "landlock"] {
            for change in changes(path) {
                let repository = repository(settings, before);
                let was = repository.place.read(path);
                let command = format!("{change}; echo new > src/b");
                if !sandboxed(&repository.place, backend, &command) {
                    continue;
                }
                assert_eq!(repository.place.read(path), was, "{backend}, {path}: {change}");
                let link = repository.place.work().join(path);
                assert!(!link.is_symlink(), "{backend}, {path}: {change}");
                assert_eq!(repository.place.read("src/b").as_deref(), Some("new\n"));
            }
        }
    }
}

/// Files that programs of the user obey.
const OBEYED: [&str; 21] = [
    ".vscode/tasks.json",
    ".vscode/settings.json",
    "sub/.vscode/launch.json",
    ".idea/workspace.xml",
    ".envrc",
    ".npmrc",
    ".yarnrc.yml",
    ".cargo/config.toml",
    ".devcontainer/devcontainer.json",
    ".zed/tasks.json",
    ".cursor/mcp.json",
    ".codex/config.toml",
    ".gemini/settings.json",
    ".pre-commit-config.yaml",
    ".github/workflows/ci.yml",
    ".gitlab-ci.yml",
    ".bashrc",
    ".gitmodules",
    ".gitconfig",
    ".husky/pre-commit",
    ".BASHRC",
];

#[test]
fn what_other_programs_obey_is_asked_about_in_accept_edits() {
    let place = Place::new();
    for (path, output) in OBEYED.iter().zip(write(&place, &OBEYED, &ACCEPT)) {
        assert!(output.contains("can make programs run: "), "{path}: {output}");
        assert_eq!(place.read(path), None, "{path}");
    }
    let harmless = ["src/main.rs", "Makefile", ".gitignore", ".github/CODEOWNERS", "a/envrc"];
    for (path, output) in harmless.iter().zip(write(&place, &harmless, &ACCEPT)) {
        assert_eq!(place.read(path).as_deref(), Some("evil\n"), "{path}: {output}");
    }
    // Rules allow them like any other file.
    let rules = ["--allowed-tools", "Edit(.vscode/**)"];
    let flags: Vec<&str> = ACCEPT.iter().chain(&rules).copied().collect();
    write(&place, &[".vscode/tasks.json"], &flags);
    assert_eq!(place.read(".vscode/tasks.json").as_deref(), Some("evil\n"));
}

#[test]
fn what_other_programs_obey_here_and_is_there_no_sandboxed_command_changes() {
    let kept = [
        ".vscode/tasks.json",
        ".idea/workspace.xml",
        ".envrc",
        ".npmrc",
        ".cargo/config.toml",
        ".zed/tasks.json",
        ".cursor/mcp.json",
        ".gitmodules",
        ".gitconfig",
        ".husky/pre-commit",
        ".pre-commit-config.yaml",
    ];
    for path in kept {
        for backend in ["bwrap", "landlock"] {
            let repository = repository(&[], path);
            let command = format!("echo evil > {path}; rm -rf {path}; echo evil > {path}");
            if sandboxed(&repository.place, backend, &command) {
                assert_eq!(
                    repository.place.read(path).as_deref(),
                    Some("safe\n"),
                    "{backend}: {path}"
                );
            }
        }
    }
}

/// Runs a command in a sandbox and returns what tine says of it.
fn said(place: &Place, backend: &str, command: &str) -> String {
    assert!(sandboxed(place, backend, "exit 0"));
    place.tine(["sandbox", "--backend", backend, "--", "sh", "-c", command]).run().stderr
}

#[test]
fn what_other_programs_obey_no_sandboxed_command_creates() {
    let commands = [
        (".vscode", "mkdir .vscode; echo evil > .vscode/tasks.json"),
        (".VSCode", "mkdir .VSCode; echo evil > .VSCode/tasks.json"),
        (".envrc", "echo evil > .envrc"),
        (".envrc", "echo evil > src/new; mv src/new .envrc"),
        (".envrc", "ln src/a .envrc"),
        (".npmrc", "ln -s src/a .npmrc"),
        (".idea", "mkdir src/new; ln -s src/new .idea"),
        ("x.code-workspace", "echo evil > x.code-workspace"),
        (".config/fish", "mkdir -p .config/fish; echo evil > .config/fish/config.fish"),
        ("gradle/wrapper", "mkdir -p gradle/wrapper; echo evil > gradle/wrapper/x.properties"),
        // What the link leads to is the user's own.
        (".config", "ln -s $HOME/.config .config"),
    ];
    for (path, command) in commands {
        for backend in ["bwrap", "landlock"] {
            let repository = repository(&[], "src/x");
            let place = &repository.place;
            let own = place.home().join(".config/fish/config.fish");
            std::fs::create_dir_all(own.parent().expect("it has one")).expect("the place is ours");
            std::fs::write(&own, "own").expect("the place is ours");
            let said = said(place, backend, &format!("{command}; echo new > src/b"));
            let created = place.work().join(path);
            assert!(created.symlink_metadata().is_err(), "{backend}: {command}");
            assert!(
                said.contains("was made while the command ran"),
                "{backend}: {command}: {said}"
            );
            assert!(own.exists(), "{backend}: {command}");
            assert_eq!(place.read("src/b").as_deref(), Some("new\n"), "{backend}: {command}");
        }
    }
}

#[test]
fn what_is_not_obeyed_here_a_sandboxed_command_creates() {
    let command = "mkdir -p .github/workflows sub/.vscode node_modules/x .config/other gradle; \
                   echo a | tee .github/workflows/ci.yml sub/.vscode/a .config/other/a .gitignore \
                   package.json node_modules/x/.npmrc gradle/libs.toml > /dev/null";
    for backend in ["bwrap", "landlock"] {
        let repository = repository(&[], "src/x");
        assert_eq!(said(&repository.place, backend, command), "", "{backend}");
        for path in [".github/workflows/ci.yml", "sub/.vscode/a", "node_modules/x/.npmrc"] {
            assert_eq!(repository.place.read(path).as_deref(), Some("a\n"), "{backend}: {path}");
        }
    }
}

#[test]
fn git_brings_back_what_a_branch_had_and_nothing_that_a_command_has_committed() {
    let plant = "printf evil > planted; b=$(git hash-object -w planted); rm planted; \
                 git update-index --add --cacheinfo 100644,$b,.vscode/tasks.json; \
                 git -c user.name=a -c user.email=a@localhost commit -qm x; \
                 git checkout -q HEAD -- .";
    for backend in ["bwrap", "landlock"] {
        let repository = repository(&[], "src/x");
        let place = &repository.place;
        repository.commit("Begin");
        repository.git(&["switch", "--quiet", "--create", "other"]);
        repository.write(".vscode/settings.json", "{}\n");
        repository.write(".husky/pre-commit", "true\n");
        repository.git(&["add", "--chmod=+x", ".husky/pre-commit"]);
        repository.commit("Add settings");
        repository.git(&["switch", "--quiet", "main"]);
        let told = said(place, backend, "git switch -q other");
        assert_eq!(told, "", "{backend}");
        assert_eq!(place.read(".vscode/settings.json").as_deref(), Some("{}\n"), "{backend}");
        assert_eq!(repository.git(&["status", "--porcelain"]), "", "{backend}");
        repository.git(&["switch", "--quiet", "main"]);
        let told = said(place, backend, "git switch -q other; echo evil > .vscode/settings.json");
        assert!(told.contains("`") && told.contains(".vscode"), "{backend}: {told}");
        assert_eq!(place.read(".vscode/settings.json"), None, "{backend}");
        repository.git(&["reset", "--quiet", "--hard", "main"]);
        repository.git(&["switch", "--quiet", "--force", "main"]);
        let told = said(place, backend, plant);
        assert!(told.contains(".vscode"), "{backend}: {told}");
        assert_eq!(place.read(".vscode/tasks.json"), None, "{backend}");
    }
}
