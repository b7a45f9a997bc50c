//! A review of a change that is large and of every sort at once: what is small is
//! given to somebody, and what is left out is named.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::review_flow::{answer, given};
use crate::support::repository::Repository;
use crate::support::server::{Reaction, Server};
use crate::support::talk::{Talk, serve};

/// How many small files the change has.
const SMALL: usize = 500;

/// How many lines its one large file has: so many that low effort has no room for
/// them, and alone more than a megabyte.
const LARGE: usize = 14_000;

/// The two angles of low effort.
const ANGLES: [&str; 2] = ["correctness", "security"];

fn small(number: usize) -> String {
    format!("src/many/f{number:03}.rs")
}

/// A repository whose last commit has small files, a large one, a renamed one, one
/// that is no text, a lock file, a generated one and a submodule.
fn repository() -> Repository {
    let repository = Repository::new();
    let submodule = |text: &str| {
        repository.write("sub/own.rs", text);
        repository.git(&["-C", "sub", "add", "own.rs"]);
        repository.git(&["-C", "sub", "commit", "--quiet", "--message", "Own"]);
    };
    repository.git(&["init", "--quiet", "sub"]);
    submodule("fn own() {}\n");
    repository.write("src/old.rs", "fn old() {}\n");
    repository.commit("Begin");
    submodule("fn own() {}\nfn more() {}\n");
    repository.git(&["mv", "src/old.rs", "src/renamed.rs"]);
    for number in 0..SMALL {
        let text = (0..4).map(|line| format!("pub const F{number:03}_{line}: u32 = {line};\n"));
        repository.write(&small(number), &text.collect::<String>());
    }
    let fill = "x".repeat(50);
    let large = (0..LARGE).map(|line| format!("const L{line:05}: &str = \"{fill}\";\n"));
    repository.write("src/large.rs", &large.collect::<String>());
    repository.write("Cargo.lock", "[[package]]\n");
    repository.write("api.pb.go", "package api\n");
    repository.place.write("logo.png", b"\x89PNG\0\0");
    repository.commit("Everything");
    repository
}

/// How many lines the reviewers of each angle were given of each file.
type Given = BTreeMap<(String, String), u64>;

/// Counts the lines that a part of a change adds, file by file.
fn count(talk: &Talk, angle: &str, counts: &mut Given) {
    let mut file = String::new();
    for line in talk.task().lines() {
        if let Some(name) = line.strip_prefix("+++ b/") {
            name.clone_into(&mut file);
        } else if line.starts_with("diff --git ") {
            file.clear();
        } else if line.starts_with('+') && !file.is_empty() {
            *counts.entry((angle.to_owned(), file.clone())).or_default() += 1;
        }
    }
}

/// A provider of reviewers who look and find nothing, and of which none looks twice
/// at what nobody had read. What they were given is counted.
fn provider(counts: &Arc<Mutex<Given>>) -> Server {
    let counts = Arc::clone(counts);
    serve(move |talk| {
        let angle = ANGLES.into_iter().find(|angle| {
            talk.task().contains(&format!("\nReview a part of a change for {angle}"))
        });
        match angle {
            Some(angle) if talk.turn() == 1 => {
                count(talk, angle, &mut counts.lock().expect("nobody panics"));
                assert!(!given(talk).is_empty());
                Reaction::call_reply(&[("Glob", json!({ "pattern": "src/*.rs" }))])
            }
            Some(_) | None => answer(&json!({ "findings": [] })),
        }
    })
}

/// How many lines of each file an angle's reviewers have read, by the report.
fn told(output: &Value) -> Given {
    let mut told = Given::new();
    for hunk in output["coverage"]["hunks"].as_array().expect("hunks") {
        let path = hunk["path"].as_str().expect("a path");
        for angle in ANGLES {
            let lines = hunk["read_lines_by"][angle].as_u64().expect("a number");
            *told.entry((angle.to_owned(), path.to_owned())).or_default() += lines;
        }
    }
    told
}

#[test]
fn of_a_large_change_of_every_sort_small_files_are_read_and_what_is_left_out_is_named() {
    let (repository, counts) = (repository(), Arc::default());
    let server = provider(&counts);
    let review = |flags: &[&str]| {
        let fixed = ["review", "-m", "m", "--config", "retry.most=0", "--effort", "low"];
        repository.place.tine(fixed.iter().chain(flags)).server(&server).run().exits(0)
    };
    let result = review(&["--commit", "HEAD", "-o", "json"]).result();
    let output = &result["structured_output"];
    let given = counts.lock().expect("nobody panics").clone();
    assert_eq!(told(output), given);
    let small: BTreeSet<String> = (0..SMALL).map(small).collect();
    for angle in ANGLES {
        let lines = |path: &str| given.get(&(angle.to_owned(), path.to_owned())).copied();
        assert!(small.iter().all(|path| lines(path) == Some(4)), "{angle}: {given:?}");
        let large = lines("src/large.rs").unwrap_or_default();
        assert!((1..LARGE as u64).contains(&large), "{angle}: {large}");
    }
    let left_out = [
        ("Cargo.lock", "lock_file"),
        ("api.pb.go", "generated"),
        ("logo.png", "binary"),
        ("src/large.rs", "too_much"),
        ("sub", "submodule"),
    ];
    let left_out = left_out.map(|(path, why)| json!({ "path": path, "why": why }));
    assert_eq!(output["left_out"], json!(left_out));
    let renamed = json!([{ "path": "src/renamed.rs", "change": "renamed", "from": "src/old.rs" }]);
    assert_eq!(output["coverage"]["without_lines"], renamed);
    let unread = output["coverage"]["unread"].as_array().expect("hunks");
    let is_of_large =
        |name: &Value| name.as_str().is_some_and(|it| it.starts_with("src/large.rs:"));
    assert!(!unread.is_empty() && unread.iter().all(is_of_large), "{unread:?}");
    assert_eq!(output["complete"], false);
    // The same for people; nobody is asked again.
    let asked = server.count();
    let report = review(&["--continue"]).stdout;
    assert_eq!(server.count(), asked);
    for path in &small {
        assert!(report.contains(&format!("| `{path}` | read | read |")), "{path}\n{report}");
    }
    let large = given[&("security".to_owned(), "src/large.rs".to_owned())];
    assert!(report.contains(&format!("| {large} of {LARGE} |")), "{report}");
    for path in ["Cargo.lock", "api.pb.go", "logo.png", "src/large.rs", "sub"] {
        assert!(report.contains(&format!("\n- `{path}`: ")), "{path}\n{report}");
    }
}
