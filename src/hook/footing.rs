//! Where a hook's command runs, and whether the files that it names still hold
//! what they held when the run began.
//!
//! Hooks run outside of the sandbox, and agents may edit the files of a
//! project: what an agent has written must not run that way. What a file loads
//! that no command names is not seen here, nor is what is changed between the
//! look and the run.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::OFlag;

use super::direct::DirectCommand;
use super::files::{files_above, files_named, names_project};
use super::inert::{self, Running};
use super::{Command, Handler, Hook};

/// Most bytes of a file whose contents are compared. A program that is longer
/// is known by the file that it is: reading it for each call would take longer
/// than most hooks do.
const CONTENTS_CAP: u64 = 64 * 1024 * 1024;

/// Where a command runs, and what it is held to. The default runs where its
/// unit works, and is held to nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Footing {
    directory: Option<Arc<Path>>,
    files: Arc<[Watched]>,
}

/// A file that a command names.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Watched {
    /// Below what it is; `None` for where the command runs.
    base: Option<Arc<Path>>,
    path: PathBuf,
    /// Whether it surely runs. Else it does only if it looks like a program.
    runs: bool,
    held: Held,
}

/// What is in a place.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Held {
    /// Nothing that could run.
    Nothing,
    /// These contents.
    Contents([u8; 32]),
    /// A file too long to be compared, as it is.
    Long { inode: u64, length: u64, changed: (i64, i64) },
    /// A pipe, a device, or what cannot be read.
    Other,
}

impl Hook {
    /// Returns the same hook as one that a repository has brought along: it runs
    /// in the repository's root, which is what its files were trusted in.
    #[must_use]
    pub fn brought_by(self, root: &Path) -> Self {
        let footing = Footing { directory: Some(root.into()), ..self.footing };
        Self { footing, ..self }
    }

    /// Returns the same hook, held to what the files that it names hold now.
    /// `start` is where main works, and `project` what the variables name.
    #[must_use]
    pub fn watched(self, start: &Path, project: &Path) -> Self {
        let Handler::Command(command) = &self.handler else { return self };
        let directory = self.footing.directory.clone();
        let base = directory.as_deref().unwrap_or(start);
        let files = watched(parts(command), base, project).into();
        Self { footing: Footing { directory, files }, ..self }
    }
}

/// Returns the files that the parts of a command may run, and what they hold now. `base`
/// is where the command runs.
fn watched(parts: Vec<Running>, base: &Path, project: &Path) -> Vec<Watched> {
    let named: Vec<Vec<PathBuf>> = parts.iter().map(|part| files_named(&part.text, base)).collect();
    // Where some of its words may mean a file: `cd tools && ./a`, `--directory tools a.py`.
    let is_directory = |path: &&PathBuf| base.join(path).is_dir();
    let within: Vec<&PathBuf> =
        named.iter().flatten().filter(is_directory).take(DIRECTORIES_CAP).collect();
    let mut files: Vec<Watched> = Vec::new();
    for (part, paths) in parts.iter().zip(&named) {
        let mut watch = |below: Option<&Path>, path: PathBuf, runs: bool| {
            let at = below.unwrap_or(base);
            let is_script = path.as_os_str().is_empty() || part.is_first(&path);
            for path in if is_script { loaded(path, at) } else { vec![path] } {
                let held = held(&at.join(&path), runs);
                files.push(Watched { base: below.map(Into::into), path, runs, held });
            }
        };
        for path in paths {
            let runs = part.may_run(path);
            let inner = within.iter().map(|directory| directory.join(path));
            inner.filter(|it| base.join(it).is_file()).for_each(|it| watch(None, it, runs));
            watch(None, path.clone(), runs);
        }
        if part.is_first(Path::new(".")) {
            watch(None, PathBuf::new(), true);
        }
        if base != project && names_project(&part.text, project) {
            for path in files_named(&part.text, project) {
                let runs = part.may_run(&path);
                watch(Some(project), path, runs);
            }
        }
        let runs = part.programs.as_ref();
        let runs = runs.is_none_or(|programs| programs.iter().any(|it| it.contains("..")));
        let above = files_above(&part.text, base, project);
        above.into_iter().for_each(|path| watch(Some(project), path, runs));
    }
    files
}

/// Maximum directories of a command in which its other words are looked for.
const DIRECTORIES_CAP: usize = 4;

/// What Node and Bun add to the name of a program, and the files that they and Python
/// run of a directory.
const SUFFIXES: [&str; 4] = [".js", ".cjs", ".mjs", ".ts"];
const ENTRIES: [&str; 4] = ["__main__.py", "index.js", "index.ts", "package.json"];

/// Returns the files that an interpreter may load for the script that it is given: that
/// file, or others in its place.
fn loaded(script: PathBuf, at: &Path) -> Vec<PathBuf> {
    if at.join(&script).is_file() {
        return vec![script];
    }
    let with_suffix = SUFFIXES.iter().map(|suffix| {
        let mut name = script.clone().into_os_string();
        name.push(suffix);
        PathBuf::from(name)
    });
    let entries = ENTRIES.iter().map(|entry| script.join(entry));
    with_suffix.chain(entries).chain([script.clone()]).collect()
}

impl Footing {
    /// Returns what a program that is started without a shell is held to: the files that
    /// it names, as they are now. `project` is the root of the repository.
    #[must_use]
    pub fn of_program(command: &DirectCommand<'_>, project: &Path) -> Self {
        let directory = &*command.directory;
        let files = watched(command.parts(), directory, project).into();
        Self { directory: Some(directory.into()), files }
    }

    /// Returns the files that were there and may run.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        let files = self.files.iter().filter(|file| file.held != Held::Nothing);
        files.filter_map(|file| {
            Some(file.base.as_deref().or(self.directory.as_deref())?.join(&file.path))
        })
    }

    /// Returns where a command runs for a unit that works in `cwd`.
    pub(super) fn directory<'a>(&'a self, cwd: &'a Path) -> &'a Path {
        self.directory.as_deref().unwrap_or(cwd)
    }

    /// Returns the first file that has changed or come since the run began, as the command
    /// names it. One that is gone runs nothing, which matters where a hook `must_run`.
    pub(super) async fn changed(&self, cwd: &Path, must_run: bool) -> Option<PathBuf> {
        self.first_changed(cwd, must_run).await.map(|watched| watched.path)
    }

    /// Returns where the first file is that has changed or come since a program was held to
    /// it.
    pub async fn changed_file(&self) -> Option<PathBuf> {
        let directory = self.directory.as_deref()?;
        let Watched { base, path, runs: _, held: _ } = self.first_changed(directory, false).await?;
        Some(base.as_deref().unwrap_or(directory).join(path))
    }

    /// Returns where the first such file is, and what the program is held to with that file as
    /// it is now.
    pub async fn with_change(&self) -> Option<(PathBuf, Self)> {
        let file = self.changed_file().await?;
        let footing = self.clone();
        let looking = tokio::task::spawn_blocking(move || {
            let directory = footing.directory.as_deref();
            let renewed = footing.files.iter().cloned().map(|mut watched| {
                let base = watched.base.as_deref().or(directory);
                if base.is_some_and(|base| base.join(&watched.path) == file) {
                    watched.held = held(&file, watched.runs);
                }
                watched
            });
            let files = renewed.collect();
            (file, Self { files, ..footing })
        });
        Some(looking.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())))
    }

    async fn first_changed(&self, cwd: &Path, must_run: bool) -> Option<Watched> {
        if self.files.is_empty() {
            return None;
        }
        let (files, directory) = (Arc::clone(&self.files), self.directory(cwd).to_owned());
        let looking = tokio::task::spawn_blocking(move || {
            let changed = files.iter().find(|Watched { base, path, runs, held: before }| {
                let now = held(&base.as_deref().unwrap_or(&directory).join(path), *runs);
                now != *before && (must_run || now != Held::Nothing)
            });
            changed.cloned()
        });
        looking.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }
}

/// Returns what each part of a command may run. Words that no shell reads are
/// what they are.
fn parts(command: &Command) -> Vec<Running> {
    match &command.arguments {
        None => vec![inert::running(&command.text)],
        // A program that a hook is may be one that runs others.
        Some(arguments) => {
            let words = std::iter::once(&*command.text).chain(arguments.iter().map(|it| &**it));
            inert::running_words(&words.collect::<Vec<_>>())
        }
    }
}

/// What a file is called that some interpreter runs.
const SCRIPTS: [&str; 17] = [
    "awk", "bash", "cjs", "fish", "js", "lua", "mjs", "mts", "php", "pl", "ps1", "py", "rb", "sed",
    "sh", "ts", "zsh",
];

/// Looks at a place. What does not look like a program is nothing, unless it
/// surely `runs`.
fn held(path: &Path, runs: bool) -> Held {
    // Whoever waits at the other end of a pipe would take us for the one it
    // waits for.
    if std::fs::metadata(path).is_ok_and(|it| !it.is_file() && !it.is_dir()) {
        return if runs { Held::Other } else { Held::Nothing };
    }
    // Nor must one that has come since keep us waiting.
    let flags = OFlag::O_NONBLOCK.bits();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) => return unopened(&error),
    };
    match runs || looks_like_program(path, &file) {
        true => contents(file).unwrap_or(Held::Other),
        false => Held::Nothing,
    }
}

fn looks_like_program(path: &Path, file: &File) -> bool {
    let suffix = path.extension().and_then(|suffix| suffix.to_str());
    let is_executable = || file.metadata().is_ok_and(|it| it.is_file() && it.mode() & 0o111 != 0);
    let mut start = [0; 2];
    suffix.is_some_and(|suffix| SCRIPTS.contains(&suffix))
        || is_executable()
        || (file.read_at(&mut start, 0).is_ok_and(|length| length == 2) && start == *b"#!")
}

fn unopened(error: &io::Error) -> Held {
    let is_no_file = matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            // A word of a command that can be no name.
            | io::ErrorKind::InvalidFilename
            | io::ErrorKind::InvalidInput
    );
    if is_no_file { Held::Nothing } else { Held::Other }
}

fn contents(file: File) -> io::Result<Held> {
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Ok(Held::Nothing);
    }
    if !metadata.is_file() {
        return Ok(Held::Other);
    }
    if metadata.len() > CONTENTS_CAP {
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        return Ok(Held::Long { inode: metadata.ino(), length: metadata.len(), changed });
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file)?;
    Ok(Held::Contents(*hasher.finalize().as_bytes()))
}
