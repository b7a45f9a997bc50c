//! The files that git's configuration names: hooks, included configuration, and
//! the scripts that git runs as filters, monitors, drivers and the like.
//!
//! A change of one of these decides what the user's next git command runs, just as a
//! file in `.git/hooks` does. The configuration is listed by our
//! own hardened git; this module only reads the listing.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::call::{self, ListedSettings};
use super::{GitError, Program};
use crate::real_path::locate;

/// Maximum number of files that are returned. Each costs a mount for every command.
const FILES_CAP: usize = 200;

/// Settings whose value is one path: a section, and a variable in it.
const PATHS: [(&str, &str); 11] = [
    ("core", "hookspath"),
    ("core", "attributesfile"),
    ("include", "path"),
    ("includeif", "path"),
    ("init", "templatedir"),
    ("browser", "path"),
    ("difftool", "path"),
    ("man", "path"),
    ("mergetool", "path"),
    // Decides which signatures count.
    ("gpg", "allowedsignersfile"),
    ("gpg", "revocationfile"),
];

/// Variables whose value is a command, in whatever section they are.
const COMMANDS: [&str; 27] = [
    "alternaterefscommand",
    "askpass",
    "clean",
    "cmd",
    "command",
    "cccmd",
    "defaultkeycommand",
    "difffilter",
    "driver",
    "editor",
    "external",
    "fsmonitor",
    "gitproxy",
    "helper",
    "httpd",
    "packobjectshook",
    "pager",
    "process",
    "program",
    "receivepack",
    "sendmailcmd",
    "smudge",
    "sshcommand",
    "textconv",
    "tocmd",
    "tunnel",
    "uploadpack",
];

/// The hooks that git runs. Where hooks are looked for in the working directory
/// itself, these names are what counts.
const HOOKS: [&str; 28] = [
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "p4-changelist",
    "p4-post-changelist",
    "p4-pre-submit",
    "p4-prepare-changelist",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-receive",
    "post-rewrite",
    "post-update",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "pre-receive",
    "prepare-commit-msg",
    "proc-receive",
    "push-to-checkout",
    "reference-transaction",
    "sendemail-validate",
    "update",
];

/// One setting of a listing.
struct ListedSetting<'a> {
    /// The file that it is in.
    file: &'a Path,
    name: &'a str,
    value: &'a OsStr,
}

/// The files that a configuration names, as far as git lists them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NamedFiles {
    /// The files and directories, each with its links followed. Not each of them exists.
    pub(crate) files: Vec<PathBuf>,
    /// The reason why there may be more.
    pub(crate) why_not_all: Option<String>,
}

/// Directories that relative paths in a configuration start from.
struct PathBases<'a> {
    /// The directory that was asked about, and the top of its working tree, where git
    /// reads its configuration.
    directories: [&'a Path; 2],
    home: Option<PathBuf>,
}

/// Returns the files and directories that the configuration in `root` names as
/// something that git runs or takes more configuration from. None holds `root`.
///
/// The list is incomplete if git cannot read the configuration within `limit`, and if it
/// names more files than are kept.
pub(crate) fn named_files(program: &Program, root: &Path, limit: Duration) -> NamedFiles {
    let bases = PathBases::of(program, root);
    let (listed, error) = match call::listed_with_files(program, root, limit) {
        Ok(ListedSettings { bytes, why_not_all }) => (bytes, why_not_all),
        Err(error) => (Vec::new(), Some(error)),
    };
    let error = error.filter(|error| !bases.names_nothing(error));
    let mut files = listed_files(&listed, &bases);
    let mut why_not_all = error.map(|error| error.to_string());
    if files.len() > FILES_CAP {
        files.truncate(FILES_CAP);
        why_not_all.get_or_insert_with(|| format!("there are more than {FILES_CAP}"));
    }
    NamedFiles { files, why_not_all }
}

fn listed_files(listed: &[u8], bases: &PathBases<'_>) -> Vec<PathBuf> {
    let root = bases.directories[0];
    let mut named = Vec::new();
    for listed in settings(listed) {
        // Every file of configuration that git reads, included ones too.
        named.push(bases.directories[1].join(listed.file));
        named.extend(of_setting(&listed, bases));
    }
    let real_root = locate(root).unwrap_or_else(|_| root.to_owned());
    let mut files: Vec<PathBuf> = Vec::new();
    for path in named.iter().filter_map(|path| locate(path).ok()) {
        if real_root.starts_with(&path) {
            // Only files with these names are hooks there.
            files.extend(HOOKS.iter().map(|hook| path.join(hook)));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files.dedup();
    files
}

/// Returns the files that the configuration in `root` has `git blame` read. It ends with
/// the first line of one that names no commit, and no other setting takes them back.
///
/// # Errors
///
/// As for [`super::git`], and if it takes longer than `limit`.
pub(crate) fn files_of_blame(
    program: &Program,
    root: &Path,
    limit: Duration,
) -> Result<Vec<PathBuf>, GitError> {
    let listed = call::listed_with_files(program, root, limit)?.bytes;
    let bases = PathBases::of(program, root);
    let files = settings(&listed).filter(|it| it.name == "blame.ignorerevsfile");
    let files = files.map(|it| bases.at_home(Path::new(it.value)));
    let files = files.filter(|path| !path.as_os_str().is_empty());
    Ok(files.map(|path| bases.directories[1].join(path)).collect())
}

/// Reads what `git config --list --show-origin -z` prints. What was set by a
/// variable or on a command line is in no file, and left out.
fn settings(listed: &[u8]) -> impl Iterator<Item = ListedSetting<'_>> {
    let mut fields = listed.split(|&byte| byte == 0);
    let pairs = std::iter::from_fn(move || Some((fields.next()?, fields.next()?)));
    pairs.filter_map(|(origin, setting)| {
        let file = origin.strip_prefix(b"file:")?;
        let end = setting.iter().position(|&byte| byte == b'\n').unwrap_or(setting.len());
        let name = std::str::from_utf8(&setting[..end]).ok()?;
        let value = setting.get(end + 1..).unwrap_or_default();
        let file = Path::new(OsStr::from_bytes(file));
        Some(ListedSetting { file, name, value: OsStr::from_bytes(value) })
    })
}

/// Returns the paths that a setting names.
fn of_setting(listed: &ListedSetting<'_>, bases: &PathBases<'_>) -> Vec<PathBuf> {
    let ListedSetting { file, name, value } = listed;
    let section = name.split('.').next().unwrap_or_default();
    let variable = name.rsplit('.').next().unwrap_or_default();
    if PATHS.contains(&(section, variable)) {
        let value = value.as_bytes();
        let value = value.strip_prefix(b":(optional)").unwrap_or(value);
        let path = bases.at_home(Path::new(OsStr::from_bytes(value)));
        // An empty value takes back what others name.
        if path.as_os_str().is_empty() {
            return Vec::new();
        }
        let included = section.starts_with("include").then(|| file.parent()).flatten();
        let [root, top] = bases.directories;
        return match included {
            Some(directory) => vec![top.join(directory).join(path)],
            None if root == top => vec![root.join(path)],
            None => vec![root.join(&path), top.join(path)],
        };
    }
    let command = value.to_string_lossy();
    let is_command = match section {
        // The others are options of git.
        "alias" | "submodule" => command.starts_with('!'),
        "pager" => true,
        _ => COMMANDS.contains(&variable) || name == &"web.browser",
    };
    if is_command { bases.in_command(&command) } else { Vec::new() }
}

impl<'a> PathBases<'a> {
    fn of(program: &Program, root: &'a Path) -> Self {
        let top = root.ancestors().find(|part| part.join(".git").symlink_metadata().is_ok());
        let home = program.variable("HOME").map(PathBuf::from);
        Self { directories: [root, top.unwrap_or(root)], home }
    }

    /// Returns whether the configuration certainly names no file, judged without running git:
    /// there is no repository, or its configuration contains none of the words that can name a
    /// file.
    fn names_nothing(&self, error: &GitError) -> bool {
        let [root, top] = self.directories;
        let git = top.join(".git");
        if git.symlink_metadata().is_err() {
            // What a bare repository consists of.
            return !["HEAD", "objects", "refs"].iter().all(|name| root.join(name).exists());
        }
        let is_without_git =
            matches!(error, GitError::GitMissing | GitError::GitOfWorkspace { path: _ });
        // A linked worktree has its configuration elsewhere, and that has a further file.
        let is_plain = |text: String| {
            !text.contains('!') && !text.split(|c: char| !c.is_alphanumeric()).any(names_files)
        };
        is_without_git
            && !git.join("config.worktree").exists()
            && std::fs::read_to_string(git.join("config")).is_ok_and(is_plain)
    }

    fn at_home(&self, path: &Path) -> PathBuf {
        match (path.strip_prefix("~"), &self.home) {
            (Ok(below), Some(home)) => home.join(below),
            (Ok(_) | Err(_), _) => path.to_owned(),
        }
    }

    /// Returns the files that the words of a command may mean: its program if it is
    /// named by a path, and every word that is the name of a file or would be one
    /// in a directory that exists.
    fn in_command(&self, command: &str) -> Vec<PathBuf> {
        let ends = |c: char| c.is_whitespace() || "\"'`;|&<>()=!$".contains(c);
        let words = command.split(ends).filter(|word| !word.is_empty() && !word.contains('%'));
        let mut found = Vec::new();
        for word in words {
            let word = self.at_home(Path::new(word));
            let is_path = word.as_os_str().as_bytes().contains(&b'/');
            for base in self.directories {
                let path = base.join(&word);
                let would_be = || is_path && path.parent().is_some_and(Path::is_dir);
                if !path.is_dir() && (path.symlink_metadata().is_ok() || would_be()) {
                    found.push(path);
                }
            }
        }
        found
    }
}

/// Returns whether a word is part of a setting that may name a file, in any case.
fn names_files(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    let word = word.as_str();
    let is_path = PATHS.iter().any(|(section, variable)| {
        word == *variable || section.starts_with("include") && word == *section
    });
    is_path || COMMANDS.contains(&word) || matches!(word, "alias" | "browser" | "pager")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::tests::program;

    /// A new repository with this configuration.
    fn repository(config: &str) -> (tempfile::TempDir, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        for directory in [".git/objects", ".git/refs", "tools", "lint"] {
            std::fs::create_dir_all(root.join(directory)).unwrap();
        }
        for (file, text) in [("fsm.sh", ""), ("tools/run.py", ""), ("more", ""), ("broken", "[no")]
        {
            std::fs::write(root.join(file), text).unwrap();
        }
        std::fs::write(root.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        std::fs::write(root.join(".git/config"), config).unwrap();
        (place, root)
    }

    /// Lists what a configuration names, below the top of its repository.
    #[track_caller]
    fn check(config: &str, expected: &[&str]) {
        let (_place, root) = repository(config);
        let named = named_files(&program(), &root, Duration::from_secs(60)).files;
        let below = |path: &PathBuf| path.strip_prefix(&root).ok().map(Path::to_owned);
        let mut below: Vec<PathBuf> = named.iter().filter_map(below).collect();
        below.retain(|path| path != Path::new(".git/config"));
        let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
        assert_eq!(below, expected, "{config}");
    }

    #[test]
    fn what_a_configuration_names_as_run_or_obeyed_is_found() {
        for (config, expected) in [
            ("[core]\nhooksPath = .husky", &[".husky"][..]),
            ("[core]\nhooksPath = ./tools/../lint/", &["lint"]),
            ("[core]\nfsmonitor = ./fsm.sh", &["fsm.sh"]),
            ("[core]\nfsmonitor = true", &[]),
            ("[core]\nfsmonitor = tools/not-yet.sh", &["tools/not-yet.sh"]),
            ("[core]\nattributesFile = attrs", &["attrs"]),
            ("[core]\nsshCommand = ssh -F tools/ssh", &["tools/ssh"]),
            ("[include]\npath = ../more", &["more"]),
            ("[includeIf \"onbranch:x\"]\npath = ../later", &["later"]),
            ("[include]\npath = ../broken\n[core]\nfsmonitor = ./fsm.sh", &["broken", "fsm.sh"]),
            ("[filter \"x\"]\nclean = sh -c 'python3 tools/run.py %f'", &["tools/run.py"]),
            ("[filter \"x.y\"]\nprocess = sh fsm.sh", &["fsm.sh"]),
            (
                "[diff \"x\"]\ntextconv = ./fsm.sh\n[diff]\nexternal = tools/d",
                &["fsm.sh", "tools/d"],
            ),
            ("[merge \"x\"]\ndriver = tools/run.py %O %A %B", &["tools/run.py"]),
            ("[alias]\nx = !tools/run.py\ny = status", &["tools/run.py"]),
            ("[pager]\nlog = ./fsm.sh", &["fsm.sh"]),
            ("[gpg]\nprogram = tools/gpg", &["tools/gpg"]),
            ("[credential \"https://x\"]\nhelper = !./fsm.sh", &["fsm.sh"]),
            ("[hook \"x\"]\ncommand = ./fsm.sh", &["fsm.sh"]),
            ("[sequence]\neditor = tools/e", &["tools/e"]),
            ("[user]\nname = tools/run.py\n[core]\nhooksPath =", &[]),
            ("[filter \"x\"]\nclean = sed s/a/b/", &[]),
        ] {
            check(config, expected);
        }
    }

    #[test]
    fn a_listing_that_may_lack_files_says_why() {
        let many: String = (0..300).map(|at| format!("a{at} = !tools/{at}\n")).collect();
        let minute = Duration::from_secs(60);
        for (config, limit, why) in [
            ("[core]\nhooksPath = .husky", minute, None),
            ("[broken", minute, Some("bad config line")),
            ("[include]\npath = ../broken", minute, Some("bad config line")),
            ("[include]\npath = pipe", Duration::from_millis(50), Some("did not end within")),
            (&format!("[alias]\n{many}"), minute, Some("more than 200")),
        ] {
            let (_place, root) = repository(config);
            let mode = nix::sys::stat::Mode::from_bits_truncate(0o600);
            nix::unistd::mkfifo(&root.join(".git/pipe"), mode).unwrap();
            let said = named_files(&program(), &root, limit).why_not_all;
            let is_said =
                said.as_deref().is_some_and(|said| why.is_some_and(|why| said.contains(why)));
            assert_eq!(is_said, why.is_some(), "{config}: {said:?}");
            assert_eq!(said.is_some(), why.is_some(), "{config}: {said:?}");
        }
    }

    #[test]
    fn without_git_a_configuration_is_complete_only_if_no_word_of_it_names_a_file() {
        for (config, is_complete) in [
            ("[core]\nbare = false\n[remote \"origin\"]\nurl = x\n[user]\nname = Ada", true),
            ("[core]hooksPath = x", false),
            ("[CORE]\nHooksPath=x", false),
            ("[includeIf \"gitdir:x\"]\npath = x", false),
            ("[alias]\nst = status", false),
            ("[submodule \"x\"]\nupdate = !x", false),
            ("[filter \"x\"]\nclean = y", false),
        ] {
            let (_place, root) = repository(config);
            let without_git = Program::find([], &[]);
            let named = named_files(&without_git, &root, Duration::from_secs(60));
            assert_eq!(named.why_not_all.is_none(), is_complete, "{config}: {named:?}");
        }
    }

    #[test]
    fn hooks_in_the_working_directory_itself_are_named_one_by_one() {
        let mut names = HOOKS.to_vec();
        names.sort_unstable();
        check("[core]\nhooksPath = .", &names);
    }
}
