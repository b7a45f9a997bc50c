//! The layers of ARCHITECTURE.md and the sizes of STYLE, held by reading the
//! source.

use std::fs;
use std::path::{Path, PathBuf};

/// The modules of each layer, lowest first. A module may name those of its own
/// layer and of lower ones.
const LAYERS: [&[&str]; 9] = [
    &[
        "branch",
        "code",
        "diff",
        "event",
        "findings",
        "invisible",
        "json_schema",
        "json_text",
        "look_alike",
        "message",
        "patch",
    ],
    &[
        "config",
        "definition",
        "front_matter",
        "git",
        "guard",
        "hook",
        "mcp",
        "model",
        "path_text",
        "prompt",
        "real_path",
        "reaper",
        "review",
        "session",
        "skill",
        "slips",
        "telemetry",
        "tool_name",
        "web",
    ],
    &["line"],
    &["tool"],
    &["agent"],
    &["fanout", "fleet", "flow"],
    &["run"],
    &["report"],
    &["cli"],
];

/// Most lines of a source file, its tests not counted.
const FILE_LIMIT: usize = 500;

fn source_files() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    let mut directories = vec![root.clone()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("the source can be listed") {
            let path = entry.expect("the source can be listed").path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("source files are UTF-8");
                let path = path.strip_prefix(&root).expect("the walk started at the root");
                files.push((path.to_owned(), text));
            }
        }
    }
    assert!(files.len() > 50, "only {} files were found", files.len());
    files
}

/// Returns a file's code without its own tests, which are its end, and without
/// the names of modules for tests.
fn without_tests(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let module = lines.peek().filter(|next| line == "#[cfg(test)]" && next.contains("mod "));
        match module {
            Some(module) if module.ends_with(';') => drop(lines.next()),
            Some(_) => break,
            None => code.extend([line, "\n"]),
        }
    }
    code.truncate(code.trim_end().len());
    code
}

fn is_test_file(path: &Path) -> bool {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    name == "tests" || name == "testing" || name == "samples" || name.ends_with("_tests")
}

fn module_of(path: &Path) -> String {
    let first = path.iter().next().unwrap_or_default().to_string_lossy();
    first.trim_end_matches(".rs").to_owned()
}

fn layer_of(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// Returns the modules that a file names as `crate::module`.
fn named_modules(text: &str) -> impl Iterator<Item = &str> {
    text.split("crate::").skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap_or(rest.len());
        &rest[..end]
    })
}

#[test]
fn every_module_stands_in_a_layer() {
    for (path, _) in source_files() {
        let module = module_of(&path);
        let is_root = module == "lib" || module == "main";
        assert!(is_root || layer_of(&module).is_some(), "{} is in no layer", path.display());
    }
}

#[test]
fn no_layer_names_one_above_it() {
    for (path, text) in source_files() {
        let Some(own) = layer_of(&module_of(&path)) else { continue };
        for named in named_modules(&without_tests(&text)) {
            if let Some(layer) = layer_of(named) {
                assert!(layer <= own, "{} names `crate::{named}`, a layer above", path.display());
            }
        }
    }
}

#[test]
fn no_file_outgrows_its_limit() {
    for (path, text) in source_files() {
        let lines = without_tests(&text).lines().count();
        assert!(
            is_test_file(&path) || lines <= FILE_LIMIT,
            "{} has {lines} lines, more than {FILE_LIMIT}",
            path.display()
        );
    }
}

#[test]
fn the_offline_model_stays_under_four_hundred_lines() {
    let lines: usize = source_files()
        .iter()
        .filter(|(path, _)| path.starts_with("model/offline") || path.ends_with("offline.rs"))
        .filter(|(path, _)| !is_test_file(path))
        .map(|(_, text)| without_tests(text).lines().count())
        .sum();
    assert!(lines > 0 && lines < 400, "{lines} lines");
}

#[test]
fn every_file_says_what_it_is_for() {
    for (path, text) in source_files() {
        assert!(text.starts_with("//! "), "{} does not open with `//!`", path.display());
    }
}

#[test]
fn only_cli_and_config_read_the_environment() {
    for (path, text) in source_files() {
        let module = module_of(&path);
        if module == "cli" || module == "config" {
            continue;
        }
        let code = without_tests(&text);
        for reading in ["env::var", "env::vars", "env::current_dir", "env::args"] {
            assert!(
                is_test_file(&path) || !code.contains(reading),
                "{} reads the environment with `{reading}`",
                path.display()
            );
        }
    }
}

/// The files that write what a terminal obeys, or read what one sends.
const SPEAK_TO_TERMINALS: [&str; 4] =
    ["report/live.rs", "report/paint.rs", "cli/chat/tty.rs", "cli/chat/decode.rs"];

#[test]
fn only_a_few_files_know_how_terminals_are_spoken_to() {
    for (path, text) in source_files() {
        let code = without_tests(&text);
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let speaks =
            lines.into_iter().any(|line| line.contains("\\u{1b}") || line.contains("\\x1b"));
        let may = is_test_file(&path) || SPEAK_TO_TERMINALS.iter().any(|file| path.ends_with(file));
        assert!(may || !speaks, "{} writes an escape", path.display());
    }
}

#[test]
fn nothing_serialises_inner_types() {
    // The wire and the log are written by hand in one place each; a derived
    // `Serialize` on a value would make its field names a promise.
    for (path, text) in source_files() {
        let module = module_of(&path);
        if ["branch", "event", "message", "line"].contains(&module.as_str()) {
            assert!(!text.contains("Serialize"), "{} derives Serialize", path.display());
        }
    }
}

#[test]
fn the_architecture_is_told_in_at_most_150_lines_and_whole() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for name in ["ARCHITECTURE.md", "README.md", "CHANGELOG.md", "CONTRIBUTING.md"] {
        let text = fs::read_to_string(root.join(name)).expect("the documents are there");
        let is_marker = |line: &str| line.starts_with("<<<<<<<") || line.starts_with(">>>>>>>");
        assert!(!text.lines().any(is_marker), "{name} holds two versions of something");
        if name == "ARCHITECTURE.md" {
            assert!(text.lines().count() <= 150);
            // A layer of one module has its name for a title.
            let forms = |module: &str| [format!("`{module}`"), format!(" {module}**")];
            let is_told = |module: &str| forms(module).iter().any(|form| text.contains(form));
            let untold: Vec<_> = LAYERS.concat().into_iter().filter(|it| !is_told(it)).collect();
            assert!(untold.is_empty(), "{name} does not name {untold:?}");
        }
    }
}
