//! The environment that a command gets.
//!
//! A confined one gets what this table names, so a key that somebody keeps in a
//! variable of any name stays out; any other gets all but keys and what makes
//! a shell run code before the command.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use crate::guard::SearchPath;

/// The variables that a confined command may see: where programs and their
/// files are, how to speak to people, how to build.
const PASSED: &[&str] = &[
    // Who, where, in which language.
    "HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "SHELL",
    "TERM",
    "TZ",
    "USER",
    // How to print.
    "CLICOLOR",
    "COLORTERM",
    "COLUMNS",
    "FORCE_COLOR",
    "LINES",
    "LS_COLORS",
    "NO_COLOR",
    "PAGER",
    // Where programs and what they read are.
    "LD_LIBRARY_PATH",
    "LIBRARY_PATH",
    "MANPATH",
    "NIX_PATH",
    "NIX_PROFILES",
    "PATH",
    "PKG_CONFIG_PATH",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_DIRS",
    "XDG_CONFIG_HOME",
    "XDG_DATA_DIRS",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    // Languages and their tools.
    "ANDROID_HOME",
    "BUNDLE_PATH",
    "CARGO_HOME",
    "CARGO_TARGET_DIR",
    "CONDA_DEFAULT_ENV",
    "CONDA_PREFIX",
    "DENO_DIR",
    "DOTNET_ROOT",
    "GEM_HOME",
    "GEM_PATH",
    "GOBIN",
    "GOCACHE",
    "GOFLAGS",
    "GOMODCACHE",
    "GOPATH",
    "GOROOT",
    "GOTOOLCHAIN",
    "GRADLE_USER_HOME",
    "JAVA_HOME",
    "M2_HOME",
    "NODE_ENV",
    "NODE_PATH",
    "NVM_DIR",
    "PIPENV_VENV_IN_PROJECT",
    "PNPM_HOME",
    "POETRY_HOME",
    "PYENV_ROOT",
    "PYENV_VERSION",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONPATH",
    "PYTHONUNBUFFERED",
    "RBENV_ROOT",
    "RUSTC_WRAPPER",
    "RUSTFLAGS",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "UV_CACHE_DIR",
    "VIRTUAL_ENV",
    "ZDOTDIR",
    // How to build.
    "AR",
    "CC",
    "CFLAGS",
    "CI",
    "CMAKE_PREFIX_PATH",
    "CPATH",
    "CPPFLAGS",
    "CXX",
    "CXXFLAGS",
    "LD",
    "LDFLAGS",
    "MAKEFLAGS",
    "SDKROOT",
    "SOURCE_DATE_EPOCH",
    // Whom to trust: files, no secrets.
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    // git's own configuration, as its user set it up.
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_SYSTEM",
    // Who commits, and when: in CI there is no configuration that says so. What
    // git runs or where it looks (`GIT_SSH_COMMAND`, `GIT_DIR`) stays out.
    "EMAIL",
    "GIT_AUTHOR_DATE",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_NAME",
    "GIT_COMMITTER_DATE",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_NAME",
];

/// Passed as well if their names begin so.
const PASSED_PREFIXES: &[&str] = &["LC_"];

/// Passed where there is a network, unless a password stands in them.
const PROXIES: &[&str] = &[
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// What makes a shell run or find something other than the command says.
const OF_SHELLS: &[&str] = &[
    "BASHOPTS",
    "BASH_ENV",
    "CDPATH",
    "ENV",
    "GLOBIGNORE",
    "POSIXLY_CORRECT",
    "PROMPT_COMMAND",
    "PS0",
    "PS1",
    "PS2",
    "PS4",
    "SHELLOPTS",
];

/// bash takes variables with such names for functions.
const FUNCTIONS: &str = "BASH_FUNC_";

/// The variables that commands inherit. Debug output shows no value.
#[derive(Clone, Default)]
pub struct Variables {
    all: Vec<(OsString, OsString)>,
    /// The names of those that somebody wants commands to have.
    chosen: Vec<OsString>,
}

impl Variables {
    /// Takes all variables but those by which a shell runs something else.
    pub fn new(all: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let is_of_shells = |name: &OsStr| {
            OF_SHELLS.iter().any(|known| name == OsStr::new(known))
                || name.as_bytes().starts_with(FUNCTIONS.as_bytes())
        };
        let all = all.into_iter().filter(|(name, _)| !is_of_shells(name)).collect();
        Self { all, chosen: Vec::new() }
    }

    /// The same of variables that are meant for commands: a confined one gets
    /// them, too.
    pub fn chosen(all: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let variables = Self::new(all);
        let chosen = variables.all.iter().map(|(name, _)| name.clone()).collect();
        Self { chosen, ..variables }
    }

    /// Puts others over these.
    #[must_use]
    pub fn with(&self, others: &Self) -> Self {
        let is_there = |name: &OsStr| others.all().any(|(other, _)| other == name);
        let kept = self.all.iter().filter(|(name, _)| !is_there(name));
        Self {
            all: kept.chain(&others.all).cloned().collect(),
            chosen: self.chosen.iter().chain(&others.chosen).cloned().collect(),
        }
    }

    /// Leaves out those that hold keys.
    #[must_use]
    pub fn without(&self, secret: &[String]) -> Self {
        let is_secret = |name: &OsStr| secret.iter().any(|secret| name == OsStr::new(secret));
        let all = self.all.iter().filter(|(name, _)| !is_secret(name));
        Self { all: all.cloned().collect(), chosen: self.chosen.clone() }
    }

    /// Has programs looked for elsewhere.
    #[must_use]
    pub fn with_path(&self, path: &OsStr) -> Self {
        let others = self.all.iter().filter(|(name, _)| name != OsStr::new("PATH")).cloned();
        let all = others.chain([("PATH".into(), path.to_owned())]).collect();
        Self { all, chosen: self.chosen.clone() }
    }

    /// Returns the same variables, with a `PATH` that has no directory of the workspace.
    #[must_use]
    pub fn without_workspace(&self, workspace: &[PathBuf]) -> Self {
        match self.path() {
            Some(path) => self.with_path(&SearchPath::split(path, workspace).without_workspace()),
            None => self.clone(),
        }
    }

    /// Where programs are looked for.
    #[must_use]
    pub fn path(&self) -> Option<&OsStr> {
        self.all().find(|(name, _)| *name == OsStr::new("PATH")).map(|(_, path)| path)
    }

    /// What an unconfined command gets.
    pub fn all(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.all.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// What a server of tools gets, besides what its own entry says: nobody
    /// knows what it does with a key.
    pub fn of_servers(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.passed(true)
    }

    /// What a confined command gets.
    pub fn passed(&self, network: bool) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.all().filter(move |(name, value)| {
            let is = |known: &str| *name == OsStr::new(known);
            let begins = |prefix: &str| name.as_bytes().starts_with(prefix.as_bytes());
            let has_password = || value.as_bytes().contains(&b'@');
            PASSED.iter().any(|known| is(known))
                || self.chosen.iter().any(|chosen| chosen == name)
                || PASSED_PREFIXES.iter().any(|prefix| begins(prefix))
                || network && PROXIES.iter().any(|known| is(known)) && !has_password()
        })
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.all.iter().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables() -> Variables {
        let all = [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("MY_TOKEN", "secret"),
            ("MODEL_KEY", "secret"),
            ("SSH_AUTH_SOCK", "/run/agent"),
            ("LD_PRELOAD", "/evil.so"),
            ("BASH_ENV", "/evil"),
            ("BASH_FUNC_ls%%", "() { evil; }"),
            ("SHELLOPTS", "xtrace"),
            ("http_proxy", "http://proxy:3128"),
            ("https_proxy", "http://ada:secret@proxy:3128"),
        ];
        let all = all.map(|(name, value)| (name.into(), value.into()));
        Variables::new(all).without(&["MODEL_KEY".to_owned()])
    }

    #[track_caller]
    fn check<'a>(got: impl Iterator<Item = (&'a OsStr, &'a OsStr)>, expected: &[&str]) {
        assert_eq!(got.map(|(name, _)| name).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_confined_command_gets_what_is_listed_and_nothing_else() {
        check(variables().passed(false), &["PATH", "LC_ALL"]);
        check(variables().passed(true), &["PATH", "LC_ALL", "http_proxy"]);
    }

    #[test]
    fn a_confined_command_knows_who_commits_and_not_what_git_shall_run() {
        let all = [
            "EMAIL",
            "GIT_AUTHOR_DATE",
            "GIT_AUTHOR_EMAIL",
            "GIT_AUTHOR_NAME",
            "GIT_COMMITTER_DATE",
            "GIT_COMMITTER_EMAIL",
            "GIT_COMMITTER_NAME",
            "GIT_ASKPASS",
            "GIT_CONFIG_COUNT",
            "GIT_CONFIG_PARAMETERS",
            "GIT_DIR",
            "GIT_EDITOR",
            "GIT_EXEC_PATH",
            "GIT_EXTERNAL_DIFF",
            "GIT_INDEX_FILE",
            "GIT_PROXY_COMMAND",
            "GIT_SSH",
            "GIT_SSH_COMMAND",
            "GIT_TOKEN",
            "GIT_WORK_TREE",
        ];
        let variables = Variables::new(all.map(|name| (name.into(), "x".into())));
        check(variables.passed(true), &all[..7]);
    }

    #[test]
    fn no_command_gets_keys_or_what_a_shell_would_run() {
        let expected = [
            "PATH",
            "LC_ALL",
            "MY_TOKEN",
            "SSH_AUTH_SOCK",
            "LD_PRELOAD",
            "http_proxy",
            "https_proxy",
        ];
        check(variables().all(), &expected);
    }

    #[test]
    fn a_confined_command_gets_what_was_chosen_for_it_and_is_no_key() {
        let chosen = [("MY_TOKEN", "1"), ("MODEL_KEY", "2"), ("BASH_ENV", "3"), ("LC_ALL", "4")];
        let chosen = chosen.map(|(name, value)| (name.into(), value.into()));
        let all = variables().with(&Variables::chosen(chosen));
        let all = all.without(&["MODEL_KEY".to_owned()]);
        let got: Vec<_> = all.passed(false).collect();
        let expected = [("PATH", "/bin"), ("MY_TOKEN", "1"), ("LC_ALL", "4")];
        assert_eq!(got, expected.map(|(name, value)| (OsStr::new(name), OsStr::new(value))));
    }

    #[test]
    fn debug_output_shows_names_only() {
        let shown = format!("{:?}", variables());
        assert!(shown.contains("MY_TOKEN") && !shown.contains("secret"), "{shown}");
    }
}
