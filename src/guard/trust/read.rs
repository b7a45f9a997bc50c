//! Reading a repository that may be hostile: no links but to programs, and these
//! not out of it, no pipes, no more than so much.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use blake3::Hash;
use memchr::memmem;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::Mode;
use serde_json::Value;

use crate::front_matter::is_passed_over;
use crate::hook::{self, Footing};
use crate::json_text;
use crate::mcp::Entry;

use super::{DEPTH_CAP, FILE_CAP, FILES_CAP, Found, Kind, PROGRAMS_CAP, Project, SERVERS, SKILL};

/// A look at a repository.
pub(super) struct Looking {
    pub(super) project: Project,
    entries: usize,
    /// What may still be read of programs.
    left: u64,
}

impl Looking {
    pub(super) fn at(root: &Path) -> Self {
        let project = Project { root: root.to_owned(), found: Vec::new(), unreadable: Vec::new() };
        Self { project, entries: 0, left: PROGRAMS_CAP }
    }

    /// Takes a file, if there is one.
    pub(super) fn file(&mut self, path: &Path, kind: Kind) {
        match self.read(path) {
            Ok(Some(bytes)) => self.take(path, kind, &bytes),
            Ok(None) => {}
            Err(error) => self.refuse(path, &error),
        }
    }

    /// Takes a file of settings if it has hooks, or if nobody can tell.
    pub(super) fn hooks(&mut self, path: &Path) {
        match self.read(path) {
            Ok(Some(bytes)) => {
                let hooks = json_text::parse(&String::from_utf8_lossy(&bytes))
                    .map(|all: Value| all.get("hooks").cloned());
                let has_some = match hooks {
                    Ok(None) => false,
                    Ok(Some(hooks)) => hooks.as_object().is_none_or(|hooks| !hooks.is_empty()),
                    // One that would have some is not used without a word.
                    Err(_) => memmem::find(&bytes, b"\"hooks\"").is_some(),
                };
                if has_some {
                    self.take(path, Kind::Hooks, &bytes);
                }
            }
            Ok(None) => {}
            Err(error) => self.refuse(path, &error),
        }
    }

    /// Takes the files that the commands of hooks name: what would run, as far as
    /// their words tell. `hook::names_its_files` knows of which they do not.
    pub(super) fn what_hooks_run(&mut self) {
        let mut commands = Vec::new();
        for found in &self.project.found {
            // What cannot be parsed does not run.
            let settings: Option<Value> = match found.kind {
                Kind::Settings => toml::from_str(&found.text).ok(),
                Kind::Hooks => json_text::parse(&found.text).ok(),
                Kind::Agent | Kind::Skill | Kind::Servers | Kind::Program => None,
            };
            if let Some(hooks) = settings.as_ref().and_then(|settings| settings.get("hooks")) {
                collect_texts(hooks, &mut commands);
            }
        }
        let root = self.project.root.clone();
        for path in commands.iter().flat_map(|command| hook::files_named(command, &root)) {
            let is_known = self.project.found.iter().any(|found| found.path == path);
            let is_file = root.join(&path).symlink_metadata().is_ok_and(|file| !file.is_dir());
            if is_file && !is_known {
                self.program(&path);
            }
        }
    }

    /// Takes the files that the commands of servers run, as far as they tell.
    pub(super) fn what_servers_run(&mut self) {
        let root = self.project.root.clone();
        let entries: Vec<Entry> = self.project.found.iter().flat_map(Found::servers).collect();
        for command in entries.iter().filter_map(|entry| entry.program(&root)) {
            for file in Footing::of_program(&command, &root).files() {
                self.file_of_server(&file);
            }
        }
    }

    /// Takes a file that a server runs. A link may lead out of the repository, as the
    /// interpreter of a virtual environment does: then it is known by where it leads.
    fn file_of_server(&mut self, file: &Path) {
        let root = self.project.root.clone();
        let (Ok(path), Ok(real)) = (file.strip_prefix(&root), file.canonicalize()) else { return };
        if self.project.found.iter().any(|found| found.path == path) {
            return;
        }
        match real.strip_prefix(&root) {
            Ok(below) => self.program_at(path, below),
            Err(_) => {
                let hash = blake3::hash(real.as_os_str().as_encoded_bytes());
                self.take_program(path, hash);
            }
        }
    }

    /// Takes the `*.md` files in and below a directory that say more than what a
    /// model is told.
    pub(super) fn texts(
        &mut self,
        directory: &Path,
        kind: Kind,
        says_more: impl Fn(&Path, &str) -> bool,
    ) {
        let mut left = vec![(directory.to_owned(), 0)];
        while let Some((directory, depth)) = left.pop() {
            for path in self.entries(&directory) {
                if path.extension().is_some_and(|extension| extension == "md") {
                    self.text(&path, kind, &says_more);
                } else if depth < DEPTH_CAP && self.is_directory(&path) {
                    left.push((path, depth + 1));
                }
            }
        }
    }

    /// Takes the skills in and below a directory that allow something.
    pub(super) fn skills(&mut self, directory: &Path, says_more: impl Fn(&Path, &str) -> bool) {
        let mut left = vec![(directory.to_owned(), 0)];
        while let Some((directory, depth)) = left.pop() {
            for path in self.entries(&directory) {
                let file = path.join(SKILL);
                if self.project.root.join(&file).symlink_metadata().is_ok() {
                    self.text(&file, Kind::Skill, &says_more);
                } else if depth < DEPTH_CAP && self.is_directory(&path) {
                    left.push((path, depth + 1));
                }
            }
        }
    }

    /// Takes a file that is text for a model, if it says more than that.
    fn text(&mut self, path: &Path, kind: Kind, says_more: impl Fn(&Path, &str) -> bool) {
        // One that cannot be read is none, and says so where it is loaded.
        let Ok(Some(bytes)) = self.read(path) else { return };
        if says_more(path, &String::from_utf8_lossy(&bytes)) {
            self.take(path, kind, &bytes);
        }
    }

    /// Returns whether a path below the root is a directory in which definitions are
    /// looked for, and no link to one.
    fn is_directory(&self, path: &Path) -> bool {
        !is_passed_over(path)
            && self
                .project
                .root
                .join(path)
                .symlink_metadata()
                .is_ok_and(|metadata| metadata.is_dir())
    }

    /// Takes all files below a directory that may be programs.
    pub(super) fn programs(&mut self, directory: &Path, is_one: impl Fn(&Path) -> bool) {
        let mut left = vec![(directory.to_owned(), 0)];
        while let Some((directory, depth)) = left.pop() {
            for path in self.entries(&directory) {
                let Ok(metadata) = self.project.root.join(&path).symlink_metadata() else {
                    continue;
                };
                if metadata.is_dir() && depth < DEPTH_CAP {
                    left.push((path, depth + 1));
                } else if metadata.is_dir() {
                    self.refuse(&path, &io::Error::other("it is nested too deeply"));
                } else if is_one(&path) {
                    self.program(&path);
                }
            }
        }
    }

    /// Takes a program, or whatever else lies beside some.
    fn program(&mut self, path: &Path) {
        self.program_at(path, path);
    }

    /// Takes a program whose contents are those of another file.
    fn program_at(&mut self, path: &Path, contents: &Path) {
        match self.hash(contents) {
            Ok(Some(hash)) => self.take_program(path, hash),
            Ok(None) => {}
            Err(error) => self.refuse(path, &error),
        }
    }

    fn take_program(&mut self, path: &Path, hash: Hash) {
        let (path, text) = (path.to_owned(), String::new());
        self.project.found.push(Found { path, kind: Kind::Program, text, hash });
    }

    /// Returns the hash of what runs if a path does; `None` if there is nothing.
    fn hash(&mut self, path: &Path) -> io::Result<Option<Hash>> {
        let root = &self.project.root;
        let file = match std::fs::read_link(root.join(path)) {
            // Not a link.
            Err(_) => self.open(path)?,
            Ok(target) => {
                let of_link = blake3::hash(target.as_os_str().as_encoded_bytes());
                let Ok(real) = root.join(path).canonicalize() else { return Ok(Some(of_link)) };
                let Ok(below) = real.strip_prefix(root) else {
                    return Err(io::Error::other("it is a link that leads out of the project"));
                };
                if real.is_dir() {
                    return Err(io::Error::other("it is a link to a directory"));
                }
                self.open(below)?
            }
        };
        let Some(file) = file else { return Ok(None) };
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(file.take(self.left + 1))?;
        let is_too_much = hasher.count() > self.left;
        self.left = self.left.saturating_sub(hasher.count());
        if is_too_much {
            let most = PROGRAMS_CAP / (1024 * 1024);
            let why = format!("with it the programs are longer than {most} MiB");
            return Err(io::Error::other(why));
        }
        Ok(Some(hasher.finalize()))
    }

    /// Returns what is in a directory, below the root and in order. What is in
    /// no such place is none of the repository's.
    fn entries(&mut self, directory: &Path) -> Vec<PathBuf> {
        let root = self.project.root.clone();
        let below = directory.strip_prefix(&root).unwrap_or(directory).to_owned();
        let Ok(entries) = std::fs::read_dir(root.join(&below)) else { return Vec::new() };
        let mut paths: Vec<PathBuf> = entries
            .take(FILES_CAP + 1)
            .filter_map(|entry| Some(below.join(entry.ok()?.file_name())))
            .collect();
        self.entries += paths.len();
        if self.entries > FILES_CAP {
            self.refuse(&below, &io::Error::other("there are too many files to look at"));
            return Vec::new();
        }
        paths.sort();
        paths
    }

    /// `None` if there is no such file.
    fn open(&self, path: &Path) -> io::Result<Option<File>> {
        let file = match open_below(&self.project.root, path) {
            Ok(file) => File::from(file),
            Err(Errno::ENOENT | Errno::ENOTDIR) if !self.has_link(path) => return Ok(None),
            Err(Errno::ELOOP | Errno::ENOTDIR) => {
                return Err(io::Error::other("there is a link on the way to it"));
            }
            Err(error) => return Err(error.into()),
        };
        match file.metadata()?.is_file() {
            true => Ok(Some(file)),
            // The stub of another process's sandbox, in place of a file that is absent.
            false if path == Path::new(SERVERS) && self.is_empty_directory(path) => Ok(None),
            false => Err(io::Error::other("it is not a regular file")),
        }
    }

    fn is_empty_directory(&self, path: &Path) -> bool {
        let entries = std::fs::read_dir(self.project.root.join(path));
        entries.is_ok_and(|mut entries| entries.next().is_none())
    }

    /// `None` if there is no such file.
    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = self.open(path)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(FILE_CAP + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > FILE_CAP {
            return Err(io::Error::other(format!("it is longer than {FILE_CAP} bytes")));
        }
        Ok(Some(bytes))
    }

    /// Tells whether some part of a path below the root is a link.
    fn has_link(&self, path: &Path) -> bool {
        let parts = path.ancestors().map(|part| self.project.root.join(part));
        parts.filter(|part| *part != self.project.root).any(|part| part.is_symlink())
    }

    fn take(&mut self, path: &Path, kind: Kind, bytes: &[u8]) {
        let Ok(text) = std::str::from_utf8(bytes) else {
            self.refuse(path, &io::Error::other("it is not UTF-8"));
            return;
        };
        let (path, text, hash) = (path.to_owned(), text.to_owned(), blake3::hash(bytes));
        self.project.found.push(Found { path, kind, text, hash });
    }

    fn refuse(&mut self, path: &Path, error: &io::Error) {
        self.project.unreadable.push((path.to_owned(), error.to_string()));
    }
}

/// Collects all texts of a value.
fn collect_texts(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| collect_texts(item, texts)),
        Value::Object(fields) => fields.values().for_each(|field| collect_texts(field, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Opens a file below a directory, name by name, so that no link is followed.
fn open_below(root: &Path, path: &Path) -> nix::Result<OwnedFd> {
    let directory = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut held = open(root, directory, Mode::empty())?;
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else { return Err(Errno::EINVAL) };
        let flags = match parts.peek() {
            Some(_) => directory,
            // A pipe must not keep us waiting.
            None => OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC,
        };
        held = openat(&held, name, flags | OFlag::O_NOFOLLOW, Mode::empty())?;
    }
    Ok(held)
}
