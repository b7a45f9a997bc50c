//! The state of a working tree as files for another machine, and a repository made
//! of such files there.
//!
//! The files are git's own bundles: the history in one, what is not committed in a
//! second one upon it. They are made in a repository of our own that borrows the
//! user's objects, so that no name is put into the user's. How they travel and who
//! works with what comes out is decided above.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::call::Git;
use super::worktree::{STATE_MESSAGE, Snapshot, make_place};
use super::{GitError, Program, text_line};

/// What a bundle's state is called in it.
const STATE: &str = "refs/tine/state";

/// What the state is called that a bundle builds upon.
const HISTORY: &str = "refs/tine/history";

/// How the names begin of the commits whose parents a shallow clone does not have.
const SHALLOW: &str = "refs/tine/shallow/";

/// What the names of objects are as long as where they are not of SHA-1.
const SHA256: usize = 64;

/// What the settings of whoever runs a worker shall not decide: which files count,
/// and with which bytes they are written.
const SETTINGS: &str = "[core]
\texcludesFile = /dev/null
\tattributesFile = /dev/null
\tautocrlf = false
\teol = lf
\tfileMode = true
\tsymlinks = true
\tignoreCase = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
";

/// A state with a name that is the same whenever it is taken.
#[derive(Debug)]
pub struct Settled {
    /// The state.
    pub snapshot: Snapshot,
    /// The commit whose history goes along: HEAD, or the state's own where nothing
    /// was committed yet.
    pub commit: String,
}

/// What of a state is in one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The history of its commit.
    History,
    /// What is not committed, upon that.
    Change,
}

/// Why a state is not in files.
#[derive(Debug, Error)]
pub enum NotBundled {
    /// There would be more bytes than there may be.
    #[error("the history of {commit} is too large")]
    LongHistory {
        /// The commit.
        commit: String,
    },
    /// The same of what is not committed.
    #[error("what is not committed yet is too large")]
    LargeChange,
    /// Git stood in the way.
    #[error(transparent)]
    Git(#[from] GitError),
}

impl Settled {
    /// Returns what of it has to be in files, and which commit holds that.
    #[must_use]
    pub fn parts(&self) -> Vec<(Part, &str)> {
        let (commit, base) = (&*self.commit, &*self.snapshot.base);
        let change = (base != commit).then_some((Part::Change, base));
        [(Part::History, commit)].into_iter().chain(change).collect()
    }
}

/// Names a state by what is in it alone, and finds the commit that it is upon.
///
/// Whoever takes it again gets the same name; where all is committed, HEAD has it.
///
/// # Errors
///
/// Git cannot read it, or not write the commit that holds it.
pub fn settle(snapshot: Snapshot) -> Result<Settled, GitError> {
    let git = Git::of_repository(&snapshot.program, &snapshot.repository)?.patient();
    let facts = |commit: &str, format: &str| {
        let format = format!("--format={format}");
        git.run(&["log", "-1", "--no-show-signature", &format, commit, "--"])
            .map(|told| text_line(&told))
    };
    let tree = facts(&snapshot.base, "%T")?;
    let head = facts(&snapshot.base, "%P")?;
    if head.is_empty() {
        let commit = ["commit-tree", &tree, "-m", STATE_MESSAGE];
        let base = text_line(&git.clone().dated("0").run(&commit)?);
        let snapshot = Snapshot { base: base.clone(), ..snapshot };
        return Ok(Settled { snapshot, commit: base });
    }
    let base = if facts(&head, "%T")? == tree {
        head.clone()
    } else {
        let git = git.clone().dated(&facts(&head, "%ct")?);
        text_line(&git.run(&["commit-tree", &tree, "-m", STATE_MESSAGE, "-p", &head])?)
    };
    Ok(Settled { snapshot: Snapshot { base, ..snapshot }, commit: head })
}

/// Puts a part of a state into a file in `place`, of at most `cap` bytes.
///
/// # Errors
///
/// It is too large, or an object is missing, as in a partial clone.
pub fn bundle(state: &Settled, part: Part, place: &Path, cap: u64) -> Result<PathBuf, NotBundled> {
    let Settled { snapshot, commit } = state;
    let made = tempfile::tempdir_in(place).map_err(|error| failed(place, &error))?;
    let repository = made.path().join("repository");
    init(&snapshot.program, &repository, commit)?;
    borrow(&repository, &snapshot.repository)?;
    let git = Git::of_repository(&snapshot.program, &repository)?.patient();
    match part {
        Part::History => {
            let users = Git::of_repository(&snapshot.program, &snapshot.repository)?.patient();
            let mut names = format!("create {STATE} {commit}\n");
            for cut in cut_off(&users, &snapshot.repository, commit)? {
                names.push_str(&format!("create {SHALLOW}{cut} {cut}\n"));
            }
            git.feed(&["update-ref", "--stdin"], names.as_bytes())?;
            let file = place.join("history.bundle");
            let is_whole = write(&git, &["--all"], &file, cap)?;
            is_whole.then_some(file).ok_or(NotBundled::LongHistory { commit: commit.clone() })
        }
        Part::Change => {
            git.run(&["update-ref", STATE, &snapshot.base])?;
            let file = place.join("change.bundle");
            let is_whole = write(&git, &[STATE, &format!("^{commit}")], &file, cap)?;
            is_whole.then_some(file).ok_or(NotBundled::LargeChange)
        }
    }
}

/// Makes a repository without a working tree at `place`, which is not there yet, of
/// the bundle whose state is `base`. It takes from `history` what it builds upon: a
/// repository that was made like this, and the commit there.
///
/// # Errors
///
/// The bundle is no such bundle, or the repository cannot be written.
pub fn unbundle(
    program: &Program,
    place: &Path,
    (bundle, base): (&Path, &str),
    history: Option<(&Path, &str)>,
) -> Result<(), GitError> {
    init(program, place, base)?;
    if let Some((repository, _)) = history {
        borrow(place, repository)?;
    }
    let config = place.join("config");
    let settings = OpenOptions::new().append(true).open(&config);
    let settings = settings.and_then(|mut file| file.write_all(SETTINGS.as_bytes()));
    settings.map_err(|error| failed(&config, &error))?;
    let git = Git::of_repository(program, place)?.patient();
    if let Some((_, commit)) = history {
        git.run(&["update-ref", HISTORY, commit])?;
    }
    let arguments = ["bundle".as_ref(), "unbundle".as_ref(), bundle.as_os_str()];
    let names = String::from_utf8_lossy(&git.run(&arguments)?).into_owned();
    let named = || names.lines().filter_map(|line| line.split_once(' '));
    if !named().any(|(id, name)| id == base && name == STATE) {
        return Err(GitError::Failed { message: format!("the bundle does not hold {base}") });
    }
    let cut = named().filter(|(_, name)| name.starts_with(SHALLOW));
    let cut: String = cut.map(|(id, _)| format!("{id}\n")).collect();
    if !cut.is_empty() {
        let shallow = place.join("shallow");
        fs::write(&shallow, cut).map_err(|error| failed(&shallow, &error))?;
    }
    git.run(&["update-ref", STATE, base]).map(drop)
}

/// Tells whether a repository that was made like this holds a state.
#[must_use]
pub fn holds(program: &Program, repository: &Path, base: &str) -> bool {
    let git = Git::of_repository(program, repository);
    let found = git.and_then(|git| {
        // The commit alone would be there before its files are.
        git.run(&["cat-file", "-e", &format!("{base}^{{tree}}")])?;
        git.run(&["rev-parse", "--verify", "--quiet", STATE])
    });
    found.is_ok_and(|id| text_line(&id) == base)
}

/// Removes the names that others have made in a repository that was made like this:
/// branches, tags, stashes.
///
/// # Errors
///
/// Git stood in the way.
pub fn clear_names(program: &Program, repository: &Path) -> Result<(), GitError> {
    let git = Git::of_repository(program, repository)?;
    let names = git.run(&["for-each-ref", "--format=%(refname)"])?;
    let is_ours = |name: &[u8]| [STATE, HISTORY].map(str::as_bytes).contains(&name);
    let others = names.split(|byte| *byte == b'\n').filter(|name| !name.is_empty());
    let removals = others.filter(|name| !is_ours(name));
    // All in one call: they may be thousands.
    let removals: Vec<u8> =
        removals.flat_map(|name| [b"delete ".as_slice(), name, b"\0\0"].concat()).collect();
    if removals.is_empty() {
        return Ok(());
    }
    git.feed(&["update-ref", "--no-deref", "--stdin", "-z"], &removals).map(drop)
}

/// Returns the commits before `commit` at which a shallow clone ends.
fn cut_off(git: &Git, repository: &Path, commit: &str) -> Result<Vec<String>, GitError> {
    let shallow = fs::read_to_string(repository.join("shallow")).unwrap_or_default();
    if shallow.is_empty() {
        return Ok(Vec::new());
    }
    let first = git.run(&["rev-list", "--max-parents=0", commit, "--"])?;
    let first = text_line(&first);
    let is_cut = |id: &&str| shallow.lines().any(|cut| cut == *id);
    Ok(first.lines().filter(is_cut).map(str::to_owned).collect())
}

/// Makes an empty repository for objects whose names are as long as this one.
fn init(program: &Program, place: &Path, id: &str) -> Result<(), GitError> {
    make_place(place).map_err(|error| failed(place, &error))?;
    let format = if id.len() == SHA256 { "sha256" } else { "sha1" };
    let format = format!("--object-format={format}");
    let arguments = ["init", "--quiet", "--bare", "--template=", &format];
    Git::at(program, place)?.run(&arguments).map(drop)
}

/// Has a repository use the objects of another one, and end where that one ends.
fn borrow(repository: &Path, from: &Path) -> Result<(), GitError> {
    let info = repository.join("objects/info");
    let line = [from.join("objects").as_os_str().as_bytes(), b"\n"].concat();
    let written = fs::create_dir_all(&info).and_then(|()| fs::write(info.join("alternates"), line));
    written.map_err(|error| failed(&info, &error))?;
    match fs::copy(from.join("shallow"), repository.join("shallow")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(from, &error)),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Writes a bundle, and tells whether it has at most `cap` bytes.
fn write(git: &Git, of: &[&str], file: &Path, cap: u64) -> Result<bool, GitError> {
    let mut made = File::create_new(file).map_err(|error| failed(file, &error))?;
    // One thread: how several of them share the work is in the bytes.
    let create = ["-c", "pack.threads=1", "bundle", "create", "--quiet", "-"];
    git.pour(&[&create[..], of].concat(), &mut made, cap)
}

fn failed(path: &Path, error: &io::Error) -> GitError {
    GitError::Failed { message: format!("{}: {error}", path.display()) }
}
