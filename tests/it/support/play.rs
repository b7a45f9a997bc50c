//! A case: a directory below `tests/cases` whose files a server plays byte for byte.
//!
//! `N.STATUS.TYPE` (`1.200.sse`, `2.400.json`) is the answer to request N; the last one
//! answers all further requests. `work/` is copied into the working directory, where
//! `NAME.case` becomes `NAME`: a repository would obey some names here, too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::records::OutputRecord;
use super::server::{Reaction, RecordedRequest, Server};
use super::tine::{Place, Tine};

/// A case that is being played.
pub(crate) struct Case {
    pub(crate) place: Place,
    pub(crate) server: Server,
    directory: PathBuf,
}

impl Case {
    /// Opens a case whose server plays the case's own numbered files.
    pub(crate) fn open(name: &str) -> Self {
        let mut answers: Vec<(usize, String)> = list(&directory(name))
            .filter_map(|path| {
                let name = path.file_name()?.to_str()?.to_owned();
                Some((name.split('.').next()?.parse().ok()?, name))
            })
            .collect();
        answers.sort();
        let answers: Vec<&str> = answers.iter().map(|(_, name)| name.as_str()).collect();
        Self::playing(name, &answers)
    }

    /// Opens a case whose server plays these files of it. The second to last part of a
    /// file's name is its status; without one it is 200.
    pub(crate) fn playing(name: &str, answers: &[&str]) -> Self {
        let directory = directory(name);
        let read = |name: &&str| {
            let parts: Vec<&str> = name.split('.').collect();
            let status =
                parts.iter().find_map(|part| part.parse().ok().filter(|code| *code >= 200));
            let bytes = fs::read(directory.join(name)).expect("the case has this file");
            (status.unwrap_or(200), content_type(parts[parts.len() - 1]), bytes)
        };
        Self::answering(name, answers.iter().map(read).collect())
    }

    /// Opens a case whose server gives these answers: status, content type and body.
    pub(crate) fn answering(name: &str, answers: Vec<(u16, &'static str, Vec<u8>)>) -> Self {
        let place = Place::new();
        let directory = directory(name);
        if directory.join("work").is_dir() {
            copy(&directory.join("work"), &place.work());
        }
        let next = AtomicUsize::new(0);
        let server = Server::start(move |_: &RecordedRequest| {
            let index = next.fetch_add(1, Ordering::Relaxed).min(answers.len().saturating_sub(1));
            match answers.get(index) {
                Some((status, kind, bytes)) => Reaction::status(*status, kind, bytes.clone()),
                None => Reaction::status(500, "text/plain", "no answer is left"),
            }
        });
        Self { place, server, directory }
    }

    /// Makes the working directory a repository with one commit.
    #[must_use]
    pub(crate) fn in_git(self) -> Self {
        self.shell("git init -q -b main && git add -A && git commit -q --allow-empty -m one");
        self
    }

    /// Returns the path of one of the case's files.
    pub(crate) fn file(&self, name: &str) -> String {
        self.directory.join(name).to_str().expect("the checkout's path is UTF-8").to_owned()
    }

    /// Returns the name of the model that plays one of the case's scripts.
    pub(crate) fn script(&self, name: &str) -> String {
        format!("scripted:{}", self.file(name))
    }

    /// Prepares the binary with these arguments. `@CASE@` is the case's directory.
    pub(crate) fn tine(&self, arguments: &[&str]) -> Tine {
        let own = self.file("");
        let own = own.trim_end_matches('/');
        let tine = self.place.tine(arguments.iter().map(|one| one.replace("@CASE@", own)));
        let authors = AUTHORS.iter().fold(tine, |tine, (name, value)| tine.env(name, value));
        authors.env("OPENAI_BASE_URL", &self.server.base_url()).env("LANG", "C.UTF-8")
    }

    /// Prepares a run of the case's `script.json` that asks no question and writes
    /// records.
    pub(crate) fn scripted(&self, flags: &[&str]) -> Tine {
        let given = ["-m", "scripted:@CASE@/script.json", "-p", "go", "-o", "stream-json"];
        self.tine(&given.iter().chain(flags).copied().collect::<Vec<_>>())
    }

    /// Runs a line of bash in the working directory and returns what it printed.
    #[track_caller]
    pub(crate) fn shell(&self, line: &str) -> String {
        let output = Command::new("bash")
            .args(["-c", line])
            .current_dir(self.place.work())
            .env("HOME", self.place.home())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs(AUTHORS)
            .stdin(Stdio::null())
            .output()
            .expect("bash is there");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns the bodies of the requests so far.
    pub(crate) fn bodies(&self) -> Vec<Value> {
        self.server.requests().iter().map(RecordedRequest::json).collect()
    }
}

/// Makes calls as the model, one after the other, and returns their outputs. Agents that
/// they start answer `ANSWER`.
pub(crate) fn outputs_of(place: &Place, calls: &[(&str, Value)]) -> Vec<OutputRecord> {
    let call = |(name, arguments): &(&str, Value)| json!({ "name": name, "arguments": arguments });
    let turns = calls.iter().map(|one| json!({ "calls": [call(one)] }));
    let turns: Vec<Value> = turns.chain([json!({ "text": "END" })]).collect();
    let script = json!({ "units": { "main": turns, "*": [{ "text": "ANSWER" }] } });
    place.play(&script, &["--yolo", "-o", "stream-json"]).exits(0).records().outputs()
}

const AUTHORS: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "a"),
    ("GIT_AUTHOR_EMAIL", "a@example.com"),
    ("GIT_COMMITTER_NAME", "a"),
    ("GIT_COMMITTER_EMAIL", "a@example.com"),
];

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name)
}

fn content_type(extension: &str) -> &'static str {
    match extension {
        "sse" => "text/event-stream",
        "json" => "application/json",
        "html" => "text/html",
        "txt" => "text/plain",
        other => panic!("no content type for `.{other}`"),
    }
}

fn list(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(directory).expect("the case is there");
    entries.map(|entry| entry.expect("the case can be read").path())
}

/// Copies a tree, links as links, without the ending `.case`.
fn copy(from: &Path, to: &Path) {
    for path in list(from) {
        let name = path.file_name().and_then(|name| name.to_str()).expect("names are UTF-8");
        let target = to.join(name.trim_end_matches(".case"));
        let kind = path.symlink_metadata().expect("the case can be read").file_type();
        if kind.is_symlink() {
            let leads_to = fs::read_link(&path).expect("it is a link");
            std::os::unix::fs::symlink(leads_to, target).expect("the place is new");
        } else if kind.is_dir() {
            fs::create_dir(&target).expect("the place is new");
            copy(&path, &target);
        } else {
            fs::copy(&path, target).expect("the place is new");
        }
    }
}
