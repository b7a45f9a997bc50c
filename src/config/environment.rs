//! The one place that reads the process environment.
//!
//! [`Environment`] is a plain value: whoever needs to know something of the
//! environment gets one, and tests make their own.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret as _, SecretString};

use crate::guard::sandbox::Variables;

/// What the environment says. A variable that is empty counts as unset.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// Where work is done, if that is not the working directory of the process:
    /// sessions of one process may each have a directory of their own.
    pub cwd: Option<PathBuf>,
    /// `HOME`.
    pub home: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`.
    pub config_home: Option<PathBuf>,
    /// `XDG_STATE_HOME`.
    pub state_home: Option<PathBuf>,
    /// `TINE_HOME`: takes the place of both XDG directories.
    pub tine_home: Option<PathBuf>,
    /// `OPENAI_API_KEY`.
    pub openai_api_key: Option<SecretString>,
    /// `OPENAI_BASE_URL`.
    pub openai_base_url: Option<String>,
    /// `ANTHROPIC_API_KEY`.
    pub anthropic_api_key: Option<SecretString>,
    /// `ANTHROPIC_BASE_URL`.
    pub anthropic_base_url: Option<String>,
    /// `OLLAMA_HOST`.
    pub ollama_host: Option<String>,
    /// Whether `NO_COLOR` is set.
    pub no_color: bool,
    /// Whether `CI` is set.
    pub ci: bool,
    /// Whether `GITHUB_ACTIONS` is `true`: a runner reads what is printed, and obeys
    /// some lines.
    pub github_actions: bool,
    /// Who is told how a session stands, by `CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS`
    /// and `CLAUDE_CODE_SDK_READS_SESSION_STATE`.
    pub session_states: Option<StatesFor>,
    /// Whether `TERM` names a terminal that cannot move its cursor.
    pub is_dumb_terminal: bool,
    /// `TERM`.
    pub term: Option<String>,
    /// `COLORTERM`.
    pub color_term: Option<String>,
    /// `VISUAL`, else `EDITOR`: a command line.
    pub editor: Option<String>,
    /// `SHELL`.
    pub shell: Option<PathBuf>,
    /// Whether the terminal is known to break its rows anew when it gets
    /// narrower. `false` for one that we do not know.
    pub reflows: bool,
    /// `HTTPS_PROXY`, else `ALL_PROXY`, in small letters too.
    pub proxy: Option<String>,
    /// `NO_PROXY`, in small letters too.
    pub no_proxy: Option<String>,
    /// `TMPDIR`.
    pub temporary: Option<PathBuf>,
    /// What commands inherit, keys among it.
    pub inherited: Variables,
    /// All variables, for those that a configuration names as keys.
    variables: BTreeMap<String, SecretString>,
}

/// Who is told how a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatesFor {
    /// The program that drives it, and not who uses that.
    Client,
    /// Both.
    Everybody,
}

impl Environment {
    /// Reads the environment of this process.
    #[must_use]
    pub fn from_process() -> Self {
        let mut environment = Self::from_variables(std::env::vars_os());
        // Relative to where the process started, also after a change of the
        // working directory. Without a working directory it stays as it is.
        environment.tine_home =
            environment.tine_home.map(|home| std::path::absolute(&home).unwrap_or(home));
        environment
    }

    /// Takes the variables as given.
    pub fn from_variables<K, V>(variables: impl IntoIterator<Item = (K, V)>) -> Self
    where
        K: Into<OsString>,
        V: Into<OsString>,
    {
        let mut environment = Self::default();
        let mut inherited = Vec::new();
        for (name, value) in variables {
            // No variable we look for has a name that is not UTF-8.
            let Ok(name) = name.into().into_string() else { continue };
            let value = value.into();
            if !value.is_empty() {
                inherited.push((name.clone().into(), value.clone()));
                environment.set(name, value);
            }
        }
        environment.inherited = Variables::new(inherited);
        environment.reflows = environment.is_on_one_that_reflows();
        environment
    }

    /// Returns the same environment with what settings set: commands inherit it,
    /// and keys and addresses of providers in it hold. Where files are stays as it
    /// is.
    #[must_use]
    pub fn with(&self, variables: &Variables) -> Self {
        let mut environment = self.clone();
        for (name, value) in variables.all() {
            let Some(name) = name.to_str().filter(|_| !value.is_empty()) else { continue };
            if OF_PROVIDERS.contains(&name) {
                environment.set(name.to_owned(), value.to_owned());
            } else if let Some(value) = value.to_str() {
                environment.variables.insert(name.to_owned(), value.into());
            }
        }
        environment.inherited = environment.inherited.with(variables);
        environment
    }

    /// Returns the same environment with what the command line says in the place
    /// of variables. No command inherits it.
    #[must_use]
    pub fn with_openai(&self, key: Option<&SecretString>, url: Option<&str>) -> Self {
        let mut environment = self.clone();
        if let Some(key) = key {
            environment.openai_api_key = Some(key.clone());
            environment.variables.insert("OPENAI_API_KEY".to_owned(), key.clone());
        }
        environment.openai_base_url = url.map(str::to_owned).or(environment.openai_base_url);
        environment
    }

    /// Returns the value of a variable that holds a key.
    #[must_use]
    pub fn key(&self, variable: &str) -> Option<&SecretString> {
        self.variables.get(variable)
    }

    /// Returns the value of a variable that a configuration names.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).map(|value| value.expose_secret().to_owned())
    }

    fn set(&mut self, name: String, value: OsString) {
        match &*name {
            "HOME" => self.home = absolute(&value),
            "XDG_CONFIG_HOME" => self.config_home = absolute(&value),
            "XDG_STATE_HOME" => self.state_home = absolute(&value),
            "TMPDIR" => self.temporary = absolute(&value),
            "TINE_HOME" => self.tine_home = Some(PathBuf::from(&value)),
            "NO_COLOR" => self.no_color = true,
            "CI" => self.ci = true,
            "GITHUB_ACTIONS" => self.github_actions = value == "true",
            "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS" if value != "0" => {
                self.session_states = Some(StatesFor::Everybody);
            }
            "CLAUDE_CODE_SDK_READS_SESSION_STATE" if value != "0" => {
                self.session_states.get_or_insert(StatesFor::Client);
            }
            "TERM" => self.is_dumb_terminal = value == "dumb",
            "SHELL" => self.shell = absolute(&value),
            _ => {}
        }
        let Ok(value) = value.into_string() else { return };
        match &*name {
            "OPENAI_API_KEY" => self.openai_api_key = Some(value.as_str().into()),
            "OPENAI_BASE_URL" => self.openai_base_url = Some(value.clone()),
            "ANTHROPIC_API_KEY" => self.anthropic_api_key = Some(value.as_str().into()),
            "ANTHROPIC_BASE_URL" => self.anthropic_base_url = Some(value.clone()),
            "OLLAMA_HOST" => self.ollama_host = Some(value.clone()),
            "TERM" => self.term = Some(value.clone()),
            "COLORTERM" => self.color_term = Some(value.clone()),
            "VISUAL" => self.editor = Some(value.clone()),
            // `VISUAL` may have come before it.
            "EDITOR" => self.editor = self.editor.take().or_else(|| Some(value.clone())),
            "NO_PROXY" | "no_proxy" => self.no_proxy = Some(value.clone()),
            "HTTPS_PROXY" | "https_proxy" => self.proxy = Some(value.clone()),
            // The other may have come before it.
            "ALL_PROXY" | "all_proxy" => {
                self.proxy = self.proxy.take().or_else(|| Some(value.clone()));
            }
            _ => {}
        }
        self.variables.insert(name, value.into());
    }

    /// Tells it by the variables that terminals set for what runs in them. One
    /// in another leaves its own behind, so the innermost is asked first.
    fn is_on_one_that_reflows(&self) -> bool {
        let is_set = |name: &&str| self.variables.contains_key(*name);
        if is_set(&"TMUX") || is_set(&"STY") {
            return is_set(&"TMUX");
        }
        REFLOWING_VARIABLES.iter().any(is_set)
            || self
                .term
                .as_deref()
                .is_some_and(|term| REFLOWING_TERMS.iter().any(|name| term.contains(name)))
    }
}

/// Variables that say where a provider is and how one is paid.
const OF_PROVIDERS: [&str; 5] =
    ["OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OLLAMA_HOST"];

/// Variables of terminals that break their rows anew: VTE (GNOME and its kin),
/// kitty, Alacritty, WezTerm, iTerm, Windows Terminal.
const REFLOWING_VARIABLES: [&str; 6] = [
    "VTE_VERSION",
    "KITTY_WINDOW_ID",
    "ALACRITTY_WINDOW_ID",
    "WEZTERM_PANE",
    "ITERM_SESSION_ID",
    "WT_SESSION",
];

/// Names of such terminals in `TERM`, which also a remote shell is told.
const REFLOWING_TERMS: [&str; 6] = ["kitty", "alacritty", "wezterm", "foot", "ghostty", "tmux"];

/// The XDG base directory specification tells programs to ignore relative
/// paths.
fn absolute(value: &OsString) -> Option<PathBuf> {
    Some(PathBuf::from(value)).filter(|path: &PathBuf| Path::is_absolute(path))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;
    use secrecy::ExposeSecret;

    #[test]
    fn an_empty_variable_counts_as_unset() {
        let names =
            ["HOME", "TINE_HOME", "OPENAI_API_KEY", "OLLAMA_HOST", "NO_COLOR", "CI", "TMUX"];
        let environment = Environment::from_variables(names.map(|name| (name, "")));
        assert_eq!(format!("{environment:?}"), format!("{:?}", Environment::default()));
    }

    #[test]
    fn variables_are_taken_and_keys_are_not_shown() {
        let environment = Environment::from_variables([
            ("HOME", "/home/ada"),
            ("XDG_CONFIG_HOME", "relative"),
            ("TINE_HOME", "here"),
            ("OPENAI_API_KEY", "sk-secret"),
            ("MY_KEY", "sk-other-secret"),
            ("CI", "1"),
        ]);
        assert_eq!(environment.home, Some("/home/ada".into()));
        assert_eq!(environment.config_home, None);
        assert_eq!(environment.tine_home, Some("here".into()));
        assert_eq!((environment.ci, environment.no_color), (true, false));
        assert_eq!(environment.key("MY_KEY").unwrap().expose_secret(), "sk-other-secret");
        assert!(environment.key("YOUR_KEY").is_none());
        let shown = format!("{environment:?}");
        assert!(shown.contains("MY_KEY") && !shown.contains("secret"), "{shown}");
    }

    #[test]
    fn what_settings_set_is_inherited_and_moves_no_files() {
        let environment = Environment::from_variables([("HOME", "/home/ada"), ("A", "old")]);
        let set = [("HOME", "/elsewhere"), ("A", "new"), ("OPENAI_BASE_URL", "http://u")];
        let set = set.map(|(name, value)| (name.into(), value.into()));
        let environment = environment.with(&Variables::chosen(set));
        assert_eq!(environment.home, Some("/home/ada".into()));
        assert_eq!(environment.openai_base_url.as_deref(), Some("http://u"));
        let inherited: Vec<_> = environment.inherited.all().collect();
        let expected = [("HOME", "/elsewhere"), ("A", "new"), ("OPENAI_BASE_URL", "http://u")];
        assert_eq!(inherited, expected.map(|(name, value)| (OsStr::new(name), OsStr::new(value))));
    }

    #[test]
    fn a_key_of_the_command_line_comes_before_the_variable_and_is_not_inherited() {
        let key = SecretString::from("sk-typed");
        let shown = |environment: &Environment| {
            let typed = environment.with_openai(Some(&key), Some("http://typed"));
            assert!(typed.inherited.all().all(|(_, value)| value != "sk-typed"));
            let key = typed.key("OPENAI_API_KEY").unwrap().expose_secret().to_owned();
            (key, typed.openai_base_url.unwrap())
        };
        let typed = ("sk-typed".to_owned(), "http://typed".to_owned());
        assert_eq!(shown(&Environment::default()), typed);
        let set = [("OPENAI_API_KEY", "sk-set"), ("OPENAI_BASE_URL", "http://set")];
        assert_eq!(shown(&Environment::from_variables(set)), typed);
    }

    #[test]
    fn what_edits_is_visual_and_else_editor_in_any_order() {
        let editor = |variables: &[(&str, &str)]| {
            Environment::from_variables(variables.iter().copied()).editor
        };
        let (visual, plain) = (("VISUAL", "code -w"), ("EDITOR", "ed"));
        assert_eq!(editor(&[visual, plain]).as_deref(), Some("code -w"));
        assert_eq!(editor(&[plain, visual]).as_deref(), Some("code -w"));
        assert_eq!(editor(&[plain]).as_deref(), Some("ed"));
        assert_eq!(editor(&[("VISUAL", "")]), None);
    }

    #[test]
    fn the_innermost_terminal_says_whether_rows_are_broken_anew() {
        let reflows = |variables: &[(&str, &str)]| {
            Environment::from_variables(variables.iter().copied()).reflows
        };
        let (kitty, tmux, screen) = (("KITTY_WINDOW_ID", "1"), ("TMUX", "/t"), ("STY", "1.a"));
        assert!(reflows(&[kitty]) && reflows(&[("TERM", "xterm-kitty")]));
        assert!(reflows(&[tmux, ("TERM", "screen-256color")]));
        assert!(!reflows(&[screen, kitty]), "screen in kitty keeps its rows");
        assert!(!reflows(&[]) && !reflows(&[("TERM", "xterm-256color")]));
    }
}
