//! Servers whose programs an agent has written: in the same run, from one run to the next,
//! and by `PATH`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};

use super::{calling, config, folder, init, outputs, place};
use crate::support::tine::{Finished, Place, executable};

const NOTICE: &str = "! not every file that it runs is known, so trust is not of all of them";

/// A server of a repository, and a file that an agent changes.
struct Case {
    entry: Value,
    /// Below the root.
    changed: &'static str,
}

fn case(command: &str, arguments: &[&str], changed: &'static str) -> Case {
    Case { entry: json!({ "command": command, "args": arguments }), changed }
}

impl Case {
    fn within(mut self, directory: &str) -> Self {
        self.entry["cwd"] = directory.into();
        self
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.entry["env"] = json!({ name: value });
        self
    }
}

/// The files that the servers of the cases are made of.
fn prepare(place: &Place) {
    let server = fs::read_to_string(folder().join("odd.mjs")).expect("it is there");
    for name in ["tools/server.mjs", "other/server.mjs", "tools/index.js", "tools/main.js"] {
        place.write(name, &server);
    }
    place.write("tools/package.json", "{\"type\":\"module\"}");
    place.write("pre.mjs", "");
    place.write("rc.sh", "");
    executable(&place.work().join("s.sh"), "#!/bin/sh\nexec node tools/server.mjs plain\n");
    executable(&place.work().join("tools/inner"), "#!/bin/sh\nexec node server.mjs plain\n");
    place.write("work.txt", "exec node tools/server.mjs plain\n");
}

/// What an agent puts before the text of a file so that it leaves a mark.
fn evil(place: &Place, name: &str, mark: &Path) -> String {
    let text = place.read(name).unwrap_or_default();
    let mark = mark.display();
    let is_script = [".mjs", ".js"].iter().any(|suffix| name.ends_with(suffix));
    match is_script {
        true => format!("import {{ writeFileSync as w }} from 'node:fs'; w('{mark}', '');\n{text}"),
        false if text.starts_with("#!") => text.replacen('\n', &format!("\ntouch {mark}\n"), 1),
        false => format!("touch {mark}\n{text}"),
    }
}

fn run(place: &Place, calls: &[(&str, Value)], flags: &[&str]) -> Finished {
    let model = place.script("s.json", &calling(calls));
    let given = ["-p", "go", "-m", &model, "-o", "stream-json", "--permission-mode", "acceptEdits"];
    let given = given.iter().chain(&["--allowed-tools", "mcp__x"]).chain(flags);
    place.tine(given).run().exits(0)
}

#[test]
fn a_server_whose_file_an_agent_changed_is_not_started_again() {
    let later = "[ ! -f later.sh ] || . ./later.sh; exec node tools/server.mjs plain";
    for Case { entry, changed } in [
        case("node", &["tools/server.mjs", "plain"], "tools/server.mjs"),
        case("./s.sh", &[], "s.sh"),
        case("sh", &["s.sh"], "s.sh"),
        case("sh", &["-c", "./s.sh"], "s.sh"),
        case("env", &["A=1", "sh", "./s.sh"], "s.sh"),
        case("env", &["sh", "work.txt"], "work.txt"),
        case("sh", &["-c", "cd tools && ./inner"], "tools/inner"),
        case("sh", &["-c", later], "later.sh"),
        case("node", &["--import", "./pre.mjs", "tools/server.mjs", "plain"], "pre.mjs"),
        case("node", &["tools", "plain"], "tools/index.js"),
        case("node", &["tools/main", "plain"], "tools/main.js"),
        case("node", &["server.mjs", "plain"], "tools/server.mjs").within("tools"),
        case("node", &["../other/server.mjs", "plain"], "other/server.mjs").within("tools"),
        case("bash", &["-c", "exec node tools/server.mjs plain"], "rc.sh")
            .with("BASH_ENV", "rc.sh"),
    ] {
        let place = place();
        prepare(&place);
        place.write(".mcp.json", config(&json!({ "x": entry })));
        place.tine(["trust", "--yes"]).run().exits(0);
        let mark = place.root().join("mark");
        let calls = [
            ("Read", json!({ "file_path": changed })),
            ("Write", json!({ "file_path": changed, "content": evil(&place, changed, &mark) })),
            ("mcp__x__die", json!({})),
            ("mcp__x__echo", json!({})),
        ];
        let finished = run(&place, &calls, &[]);
        let outputs = outputs(&finished);
        assert!(outputs[2].1.contains("out of luck"), "{entry}: {outputs:?}");
        let why = format!("because `{changed}` has changed since the run began");
        assert!(outputs[3].1.contains(&why), "{entry}: {outputs:?}");
        let told = |line: &str| line.contains("\"informational\"") && line.contains(&why);
        assert!(finished.stdout.lines().any(told), "{entry}: {}", finished.stdout);
        // Nor is it started by the next run, before the user has looked at it.
        let next = run(&place, &[], &[]);
        assert_eq!(init(&next)["mcp_servers"], json!([]), "{entry}");
        let changed_since = format!("changed since it was trusted: `{changed}`");
        assert!(next.stderr.contains(&changed_since), "{entry}: {}", next.stderr);
        assert!(!mark.exists(), "{entry}");
        run(&place, &[], &["--trust"]);
        assert!(mark.exists(), "the attack is alive: {entry}");
    }
}

#[test]
fn a_server_is_started_again_whatever_else_has_changed() {
    for entry in [
        json!({ "command": "node", "args": ["tools/server.mjs", "plain", "store.txt"] }),
        json!({ "command": "./s.sh", "args": ["store.db"], "env": { "STORE": "store.json" } }),
    ] {
        let place = place();
        prepare(&place);
        place.write("store.json", "{}");
        place.write(".mcp.json", config(&json!({ "x": entry })));
        place.tine(["trust", "--yes"]).run().exits(0);
        let write = |name: &str| ("Write", json!({ "file_path": name, "content": "{}\n" }));
        let calls = [
            write("store.txt"),
            write("store.db"),
            ("Read", json!({ "file_path": "store.json" })),
            write("store.json"),
            write("src/new.js"),
            ("mcp__x__die", json!({})),
            ("mcp__x__echo", json!({ "c": 3 })),
        ];
        let outputs = outputs(&run(&place, &calls, &[]));
        assert_eq!(outputs[6], (false, "{\"c\":3}".to_owned()), "{entry}: {outputs:?}");
        assert_eq!(
            init(&run(&place, &[], &[]))["mcp_servers"][0]["status"],
            "connected",
            "{entry}"
        );
    }
}

#[test]
fn a_server_of_a_repository_starts_in_its_root_wherever_tine_is_started() {
    let place = place();
    fs::create_dir(place.work().join(".git")).expect("the place is ours");
    prepare(&place);
    let mark = place.root().join("mark");
    place.write("sub/tools/server.mjs", evil(&place, "tools/server.mjs", &mark));
    let entry = json!({ "command": "node", "args": ["tools/server.mjs", "plain"] });
    place.write(".mcp.json", config(&json!({ "x": entry })));
    place.tine(["trust", "--yes"]).run().exits(0);
    place.tine(["mcp", "list"]).at(&place.work().join("sub")).run().exits(0);
    assert!(!mark.exists());
}

/// Returns what the question about trust says of a server.
fn question(place: &Place, entry: &Value, file: &str) -> String {
    match file {
        ".mcp.json" => place.write(file, config(&json!({ "x": entry }))),
        _ => {
            let server: toml::Table =
                serde_json::from_value(entry.clone()).expect("an entry is a table");
            let server = toml::Table::from_iter([("x".to_owned(), server.into())]);
            let servers = toml::Table::from_iter([("servers".to_owned(), server.into())]);
            let all = toml::Table::from_iter([("mcp".to_owned(), toml::Value::from(servers))]);
            place.write(file, toml::to_string(&all).expect("a table is TOML"))
        }
    };
    place.tine(["trust", "--yes"]).run().exits(0).stderr
}

#[test]
fn the_question_says_of_which_servers_the_files_are_not_known() {
    for (entry, is_known) in [
        (json!({ "command": "node", "args": ["tools/server.mjs"] }), true),
        (json!({ "command": "./s.sh", "args": ["--glob", "*.md", "{\"a\":1}"] }), true),
        (json!({ "command": "sh", "args": ["-c", "./s.sh"] }), true),
        (json!({ "command": "node", "args": ["server.mjs"], "cwd": "tools" }), true),
        (
            json!({ "command": "/usr/bin/node", "args": ["tools/server.mjs"], "env": { "A": "b" } }),
            true,
        ),
        (json!({ "command": "make", "args": ["serve"] }), false),
        (json!({ "command": "python3", "args": ["-m", "server"] }), false),
        (json!({ "command": "npx", "args": ["-y", "@x/server"] }), false),
        (json!({ "command": "npm", "args": ["run", "serve"] }), false),
        (json!({ "command": "uvx", "args": ["server"] }), false),
        (json!({ "command": "sh", "args": ["-c", "cd tools && ./inner"] }), false),
        (json!({ "command": "sh", "args": ["-c", "exec ./*.sh"] }), false),
        (json!({ "command": "node", "args": ["-e", "require('./tools/x')"] }), false),
        (json!({ "command": "node", "args": ["tools"] }), false),
        (json!({ "command": "node", "args": ["${TOOLS:-tools}/server.mjs"] }), false),
        (json!({ "command": "node", "args": ["server.mjs"], "cwd": "../tools" }), false),
        (json!({ "command": "python3", "args": ["a.py"], "env": { "PYTHONPATH": "lib" } }), false),
    ] {
        for file in [".mcp.json", ".tine/config.toml"] {
            let place = place();
            prepare(&place);
            let asked = question(&place, &entry, file);
            assert_eq!(asked.contains(NOTICE), !is_known, "{file} {entry}: {asked}");
            let directory = entry["cwd"].as_str();
            let shown = directory.is_none_or(|directory| {
                asked.contains(&format!("in {directory}\n"))
                    || asked.contains(&format!("cwd = \"{directory}\"\n"))
            });
            assert!(shown, "{file} {entry}: {asked}");
        }
    }
}

#[test]
fn trust_of_a_server_is_of_the_programs_that_it_names() {
    for (entry, name, is_program) in [
        (json!({ "command": "node", "args": ["a.mjs"] }), "a.mjs", true),
        (json!({ "command": "node", "args": ["lib/a"] }), "lib/a.js", true),
        (json!({ "command": "python3", "args": ["pkg"] }), "pkg/__main__.py", true),
        (json!({ "command": "python3", "args": ["."] }), "__main__.py", true),
        (json!({ "command": "./env/bin/python", "args": ["pkg"] }), "pkg/__main__.py", true),
        (json!({ "command": "uv", "args": ["--directory", "d", "run", "s.py"] }), "d/s.py", true),
        (json!({ "command": "npx", "args": ["-y", "proxy", "--config=c.json"] }), "c.json", true),
        (json!({ "command": "sh", "args": ["-c", ". ./notes.md"] }), "notes.md", true),
        (json!({ "command": "node", "args": ["a.mjs"], "cwd": "d" }), "d/a.mjs", true),
        (
            json!({ "command": "node", "args": ["x"], "env": { "NODE_OPTIONS": "-r ./p.cjs" } }),
            "p.cjs",
            true,
        ),
        (
            json!({ "command": "npx", "args": ["-y", "sqlite", "--db", "store.db"] }),
            "store.db",
            false,
        ),
        (json!({ "command": "node", "args": ["a.mjs", "store.json"] }), "store.json", false),
        (json!({ "command": "npx", "args": ["m"], "env": { "FILE": "m.json" } }), "m.json", false),
        (json!({ "command": "node", "args": ["a.mjs"] }), "other.mjs", false),
        (json!({ "command": "npx", "args": ["-y", "files", "./src"] }), "src/index.js", false),
        (json!({ "command": "./served", "args": ["src"] }), "src/index.ts", false),
    ] {
        let place = place();
        let entry_text = config(&json!({ "x": entry }));
        place.write(".mcp.json", &entry_text);
        place.write(name, "1\n");
        place.tine(["trust", "--yes"]).run().exits(0);
        let is_trusted = || {
            let check = ["permissions", "check", "--json", "Read(a)"];
            !place.tine(check).run().exits(0).stderr.contains("not trusted")
        };
        assert!(is_trusted(), "{entry}");
        place.write(name, "2\n");
        assert_eq!(is_trusted(), !is_program, "{entry}");
    }
}

#[test]
fn a_virtual_environment_of_a_server_can_be_trusted() {
    let place = place();
    let entry = json!({ "command": ".venv/bin/python", "args": ["server.py"] });
    place.write(".mcp.json", config(&json!({ "x": entry })));
    place.write("server.py", "1\n");
    fs::create_dir_all(place.work().join(".venv/bin")).expect("the place is ours");
    let link = place.work().join(".venv/bin/python");
    symlink("/bin/sh", &link).expect("the place is ours");
    place.tine(["trust", "--yes"]).run().exits(0);
    let check = ["permissions", "check", "--json", "Read(a)"];
    assert_eq!(place.tine(check).run().exits(0).stderr, "");
    fs::remove_file(&link).expect("the place is ours");
    symlink("/bin/cat", &link).expect("the place is ours");
    assert!(place.tine(check).run().exits(0).stderr.contains("not trusted"));
}

#[test]
fn no_program_of_the_workspace_is_taken_for_one_that_tine_starts() {
    let hook =
        json!({ "hooks": { "Stop": [{ "hooks": [{ "type": "command", "command": "true" }] }] } });
    let hook = hook.to_string();
    for (entry, is_inside) in [
        ("work/node_modules/.bin", true),
        ("work/.venv/bin", true),
        ("work", true),
        ("work/../work/bin", true),
        ("link", true),
        ("./node_modules/.bin", true),
        (".", true),
        ("", true),
        ("programs", false),
    ] {
        let place = place();
        let mark = place.root().join("mark");
        symlink(place.work().join("bin"), place.root().join("link")).expect("the place is ours");
        let evil = |name: &str| format!("#!/bin/sh\necho {name} >> {}\n", mark.display());
        for directory in
            ["work/node_modules/.bin", "work/.venv/bin", "work/bin", "work", "programs"]
        {
            for name in ["bash", "node", "git", "env"] {
                executable(&place.root().join(directory).join(name), &evil(name));
            }
        }
        let usual = std::env::var("PATH").expect("the tests have a PATH");
        let entry = match entry {
            "" | "." | "./node_modules/.bin" => entry.to_owned(),
            _ => place.root().join(entry).display().to_string(),
        };
        let path = format!("{entry}:{usual}");
        let server = json!({ "x": super::odd(&["plain"]), "y": { "command": "env", "args": [
            "node", folder().join("odd.mjs"), "plain"], "env": { "PATH": path } } });
        let config = config(&server);
        let model = place.script("s.json", &calling(&[("Bash", json!({ "command": "echo hi" }))]));
        let given = ["-p", "go", "-m", &model, "-o", "stream-json", "--yolo"];
        let more = ["--mcp-config", &config, "--settings", &hook, "--config", "sandbox.mode='off'"];
        let tine = place.tine(given.iter().chain(&more)).env("PATH", &path);
        let finished = tine.run().exits(0);
        let marks = fs::read_to_string(&mark).unwrap_or_default();
        if is_inside {
            assert_eq!(marks, "", "{entry}");
            let servers = &init(&finished)["mcp_servers"];
            for server in [0, 1] {
                assert_eq!(servers[server]["status"], "connected", "{entry}");
            }
            assert_eq!(outputs(&finished), [(false, "hi\n".to_owned())], "{entry}");
        } else {
            for name in ["bash", "node", "env"] {
                assert!(marks.contains(name), "the attack is alive: {marks}");
            }
        }
    }
}

#[test]
fn a_program_that_only_the_workspace_has_is_named() {
    let place = place();
    let bin = place.work().join(".venv/bin");
    executable(&bin.join("served"), "#!/bin/sh\n");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("there is a PATH"));
    let config = config(&json!({ "x": { "command": "served" } }));
    let tine = place.tine(["mcp", "list", "--mcp-config", &config]).env("PATH", &path);
    let said = tine.run().exits(1).stdout;
    let bin = bin.display();
    let why = |program: &str| {
        let entry = format!("`{program}` is only in `{bin}`, an entry of `PATH` in the workspace");
        let remedy = format!("give its absolute path, `{bin}/{program}`, ");
        [entry, remedy]
    };
    assert!(why("served").iter().all(|it| said.contains(it)), "{said}");
    assert!(said.contains("as `command` in the configuration"), "{said}");
    // One that `env` has to find.
    let script = place.root().join("script");
    executable(&script, "#!/usr/bin/env served\n");
    let config = super::config(&json!({ "x": { "command": script } }));
    let tine = place.tine(["mcp", "list", "--mcp-config", &config]).env("PATH", &path);
    let said = tine.run().exits(1).stdout;
    assert!(why("served").iter().all(|it| said.contains(it)), "{said}");
}
