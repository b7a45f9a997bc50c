//! Files that run later: what git's configuration names, and what other programs obey.

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
