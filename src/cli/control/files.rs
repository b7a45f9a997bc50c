//! Files that a client is shown: those that main's Read tool opens unasked, and
//! no others.
//!
//! A client may show them to somebody else than the person whose rights the
//! process has, so the rules decide, and nobody is asked. The file that was
//! judged is the one that is opened.

use std::borrow::Cow;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use super::deeds::no_run;
use super::{Conversation, Done};
use crate::cli::kit::Kit;
use crate::guard::{Allowed, Decision, Effect};
use crate::path_text;
use crate::real_path::locate;
use crate::report::control::{Contents, Reply};
use crate::tool::roots::Roots;

/// Most bytes of a file that a client is told at once. Its own limit may only be
/// lower: a reply is one line, and waits in memory until it is read.
const FILE_CAP: usize = 1024 * 1024;

/// Most files that are read at the same time. One of a file system that does not
/// answer keeps its seat, and a thread, until that does.
const READERS_CAP: usize = 4;

/// How long a client waits for a file, until it is told that there is none.
const READ_LIMIT: Duration = Duration::from_secs(10);

/// A file that a client wants to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileWanted {
    /// As the Read tool takes it.
    path: String,
    /// Most bytes of it.
    most: usize,
    coding: Coding,
}

/// How the bytes of a file are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    Text,
    Base64,
}

impl FileWanted {
    /// Reads a request; the error says what is wrong with it.
    pub(super) fn read(request: &Map<String, Value>) -> Result<Self, String> {
        let path = request.get("path").and_then(Value::as_str).filter(|path| !path.is_empty());
        let path = path.ok_or("there is no `path`")?.to_owned();
        let coding = match request.get("encoding") {
            None | Some(Value::Null) => Coding::Text,
            Some(Value::String(name)) if name == "utf-8" => Coding::Text,
            Some(Value::String(name)) if name == "base64" => Coding::Base64,
            Some(_) => return Err("the `encoding` is `utf-8` or `base64`".to_owned()),
        };
        let most = request.get("max_bytes").and_then(Value::as_u64);
        let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(FILE_CAP);
        Ok(Self { path, most: most.min(FILE_CAP), coding })
    }
}

/// The seats of those who read files.
pub(super) struct Readers(Arc<Semaphore>);

impl Default for Readers {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(READERS_CAP)))
    }
}

impl Conversation {
    /// Answers what a file holds, once it is read.
    pub(super) fn show_file(&mut self, id: String, wanted: FileWanted) {
        let Some(kit) = self.kit() else { return self.reply(&id, &no_run()) };
        let seats = Arc::clone(&self.readers.0);
        self.work.push(Box::pin(async move {
            let path = path_text::to_text(&kit.root.join(&wanted.path));
            let reading = async {
                let seat = seats.acquire_owned().await.expect("the semaphore is never closed");
                let reading = tokio::task::spawn_blocking(move || {
                    let read = read(&kit, &wanted);
                    drop(seat);
                    read
                });
                reading.await.expect("reading never panics")
            };
            let read = match tokio::time::timeout(READ_LIMIT, reading).await {
                Ok(read) => read,
                Err(_) => Err(format!("it takes longer than {} s", READ_LIMIT.as_secs())),
            };
            let refused = |why: String| Reply::Refused(format!("cannot read `{path}`: {why}"));
            Done::Replied { id, reply: read.unwrap_or_else(refused) }
        }));
    }
}

/// Reads a file as far as a call of Read could without a question; the error
/// says why not.
fn read(kit: &Kit, wanted: &FileWanted) -> Result<Reply, String> {
    let FileWanted { path, most, coding } = wanted;
    let arguments = json!({ "file_path": path });
    let places = match kit.policy.decide("Read", Effect::Reads, &arguments) {
        Decision::Allow(Allowed { places, .. }) => places,
        Decision::Ask(ask) => return Err(ask.refusal()),
        Decision::Deny { reason } => return Err(reason),
    };
    let path = path_text::resolve(&kit.root, path).map_err(|error| error.to_string())?;
    let (bytes, is_cut) = beginning(kit, &path, &places, *most)?;
    let contents = match coding {
        Coding::Base64 => Contents::Base64(STANDARD.encode(&bytes)),
        Coding::Text => {
            let text = String::from_utf8_lossy(&bytes);
            let is_lossy = matches!(text, Cow::Owned(_));
            Contents::Text { text: text.into_owned(), is_lossy }
        }
    };
    Ok(Reply::File { path: path_text::to_text(&path), contents, is_cut })
}

/// Returns the first `most` bytes of a regular file that is one of `places`, and
/// whether there are more.
fn beginning(
    kit: &Kit,
    path: &Path,
    places: &[PathBuf],
    most: usize,
) -> Result<(Vec<u8>, bool), String> {
    let failed = |error: std::io::Error| error.to_string();
    let target = locate(path).map_err(failed)?;
    if !places.contains(&target) {
        return Err("it leads elsewhere than when it was looked at".to_owned());
    }
    let roots = Roots::open(kit.policy.roots().iter().map(PathBuf::as_path)).map_err(failed)?;
    // A pipe that nobody writes to would never be open.
    let is_file = roots.metadata(&target).map_err(failed)?.is_file();
    let file = is_file.then(|| roots.file(&target)).transpose().map_err(failed)?;
    let file = file.ok_or("it is no regular file")?;
    // Something else may stand there by now.
    if !file.metadata().map_err(failed)?.is_file() {
        return Err("it is no regular file".to_owned());
    }
    let mut bytes = Vec::new();
    let room = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    file.take(room).read_to_end(&mut bytes).map_err(failed)?;
    let is_cut = bytes.len() > most;
    bytes.truncate(most);
    Ok((bytes, is_cut))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(request: Value, expected: Result<(usize, Coding), &str>) {
        let Value::Object(fields) = &request else { panic!("{request}") };
        let read = FileWanted::read(fields).map(|wanted| (wanted.most, wanted.coding));
        assert_eq!(read, expected.map_err(str::to_owned), "{request}");
    }

    #[test]
    fn no_more_of_a_file_is_wanted_than_there_is_room_for() {
        check(json!({"path": "a"}), Ok((FILE_CAP, Coding::Text)));
        check(json!({"path": "a", "max_bytes": 7, "encoding": null}), Ok((7, Coding::Text)));
        let more = json!({"path": "a", "max_bytes": FILE_CAP + 1, "encoding": "base64"});
        check(more, Ok((FILE_CAP, Coding::Base64)));
        check(json!({"path": "a", "encoding": "utf-8"}), Ok((FILE_CAP, Coding::Text)));
        let neither = "the `encoding` is `utf-8` or `base64`";
        check(json!({"path": "a", "encoding": "latin1"}), Err(neither));
        check(json!({"path": ""}), Err("there is no `path`"));
        check(json!({"path": 7}), Err("there is no `path`"));
    }
}
