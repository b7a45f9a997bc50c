//! What the repository brings along, before a run: shown, asked about, used or
//! left.
//!
//! Nothing of it takes effect unless the user said so of exactly these contents:
//! once on the terminal or with `tine trust`, or with `--trust` for one run.

mod shown;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use nix::sys::termios::{FlushArg, tcflush};

use super::args::{RunFlags, Unread};
use super::exit::{Exit, Refusal};
use super::hooks::OF_CLAUDE;
use super::start::{repository_root, working_directory};
use super::terminal::is_foreground;
use crate::config::{
    Config, Environment, ForeignSettings, Loaded, ModelEntry, ProjectSettings, Sources, dirs,
};
use crate::definition;
use crate::guard::sandbox::Insistence;
use crate::guard::trust::{Found, Kind, Places, Project, SETTINGS, SaysMore, Store, Vouched, Word};
use crate::hook;
use crate::json_text;
use crate::mcp;
use crate::message::counted;
use crate::skill;

use shown::{flatten, flatten_json, rows, shown};

/// Maximum lines that are shown of one file. What gives power comes first and is never
/// left out.
const LINES_CAP: usize = 40;

/// The settings that give power: what may run, in what, and whom requests go to.
const POWERFUL: [&str; 6] = ["hooks", "mcp", "permissions", "sandbox", "models", "model"];

/// What is said of a command whose words do not tell what it runs.
const UNKNOWN_FILES: &str =
    "! not every file that it runs is known, so trust is not of all of them";

/// Most bytes of an answer that are looked at.
const ANSWER_CAP: usize = 256;

/// Whether somebody may be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// If there is a terminal.
    MayAsk,
    /// What is not trusted is only named.
    Tell,
}

/// What of a repository takes effect.
#[derive(Debug, Default)]
pub(super) struct Trusted {
    pub(super) settings: Option<ProjectSettings>,
    /// Files of hooks below the root, and what they hold.
    pub(super) hooks: Vec<(PathBuf, String)>,
    /// The file of its servers of tools, and what it holds.
    pub(super) servers: Option<(PathBuf, String)>,
    vouched: Vouched,
    /// The repository's root, or the working directory.
    pub(super) root: PathBuf,
}

impl Trusted {
    /// Tells whether every word of an agent's definition or of a skill counts:
    /// it is the user's own, or was looked at.
    pub(super) fn covers(&self, path: &Path, text: &str) -> bool {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let is_inside = real.starts_with(&self.root) || path.starts_with(&self.root);
        !is_inside || self.vouched.covers(text)
    }
}

/// Reads the configuration and says what is odd about it.
pub(super) fn config(
    environment: &Environment,
    flags: &RunFlags,
    manner: Manner,
) -> Result<(Config, Trusted), Refusal> {
    let trusted = settle(environment, flags, manner)?;
    let given = given(flags)?;
    if let Some(keys) = given.as_ref().map(|given| &given.passed_over)
        && !keys.is_empty()
    {
        tracing::debug!("of `--settings` these mean nothing here: {}", keys.join(", "));
    }
    let loaded =
        Config::load(environment, trusted.settings.as_ref(), given.as_ref(), &flags.config);
    let Loaded { mut config, warnings } =
        loaded.map_err(|error| Refusal::new(Exit::BadConfig, error.to_string()))?;
    warnings.iter().for_each(|warning| super::say(&format!("warning: {warning}")));
    if flags.sandbox {
        config.sandbox.mode = Insistence::Required;
    }
    Ok((config, trusted))
}

/// Returns the settings of the command line.
pub(super) fn given(flags: &RunFlags) -> Result<Option<ForeignSettings>, Refusal> {
    let Some(given) = &flags.borrowed.settings else { return Ok(None) };
    let refuse = |why: String| Refusal::new(Exit::BadConfig, why);
    let unread = |Unread { file, why }: &Unread| refuse(format!("`--settings`: `{file}`: {why}"));
    let text = given.text().map_err(unread)?;
    let settings = ForeignSettings::read(given.file(), text);
    settings.map(Some).map_err(|error| refuse(error.to_string()))
}

/// Returns the environment with what settings of the command line put there.
pub(super) fn surroundings(
    environment: &Environment,
    flags: &RunFlags,
) -> Result<Environment, Refusal> {
    let given = given(flags)?.unwrap_or_default();
    Ok(environment.with(&given.variables))
}

/// Finds out what of the repository around the working directory is trusted,
/// and asks where that is possible.
pub(super) fn settle(
    environment: &Environment,
    flags: &RunFlags,
    manner: Manner,
) -> Result<Trusted, Refusal> {
    let project = look(environment)?;
    if !flags.trust {
        refuse_brought_along(environment, &project.root)?;
    }
    let untrusted = || Trusted { root: project.root.clone(), ..Trusted::default() };
    if !project.wants_trust() || !flags.borrowed.sources().project {
        return Ok(untrusted());
    }
    let is_trusted = if flags.trust {
        readable(&project)?;
        true
    } else {
        is_trusted(environment, &project, manner)
    };
    if is_trusted { Ok(trusted(project)) } else { Ok(untrusted()) }
}

/// Refuses settings that pass for the user's own, but come with the repository:
/// nobody was asked about those. A home directory, or one of settings, that is a
/// repository itself is its user's.
fn refuse_brought_along(environment: &Environment, root: &Path) -> Result<(), Refusal> {
    let Environment { tine_home, config_home, home, .. } = environment;
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let is_home = home.as_deref().is_some_and(|home| real(home) == *root);
    let mut places = [("TINE_HOME", tine_home), ("XDG_CONFIG_HOME", config_home), ("HOME", home)]
        .into_iter()
        .filter_map(|(name, place)| Some((name, real(place.as_deref()?))));
    let (Some((name, place)), Some(config)) = (places.next(), dirs::config_file(environment))
    else {
        return Ok(());
    };
    let is_inside = place.starts_with(root) && place != *root && !is_home;
    if !is_inside || !config.exists() || repository_root(&working_directory(environment)?).is_none()
    {
        return Ok(());
    }
    let message = format!(
        "`{}` is not believed: `{name}` lies in the repository that it would decide about",
        config.display()
    );
    let hint = format!("set `{name}` to a directory outside of it, or pass `--trust`");
    Err(Refusal::new(Exit::BadConfig, message).hint(hint))
}

fn trusted(project: Project) -> Trusted {
    let settings = project.settings().map(|Found { path, text, .. }| ProjectSettings {
        path: project.root.join(path),
        text: text.clone(),
    });
    let hooks = project.hooks().map(|found| (found.path.clone(), found.text.clone())).collect();
    let servers = project.servers();
    let servers = servers.map(|found| (project.root.join(&found.path), found.text.clone()));
    Trusted { settings, hooks, servers, vouched: project.vouched(), root: project.root }
}

/// Reads what the repository brings along.
pub(super) fn look(environment: &Environment) -> Result<Project, Refusal> {
    let cwd = working_directory(environment)?;
    let top = repository_root(&cwd).unwrap_or_else(|| cwd.clone());
    let root = top.canonicalize().unwrap_or(top);
    let inside = |places: Vec<PathBuf>| -> Vec<PathBuf> {
        places.into_iter().filter(|place| place.starts_with(&root)).collect()
    };
    let sources = Sources::default();
    let places = Places {
        agents: inside(dirs::agent_directories(&cwd, Some(&root), environment, sources)),
        skills: inside(dirs::skill_directories(&cwd, Some(&root), environment, sources)),
        commands: inside(dirs::command_directories(&cwd, Some(&root), environment, sources)),
    };
    let says_more = SaysMore {
        agent: |path, text| !definition::powers(text, path).is_empty(),
        skill: |path, text| !skill::powers(text, path).is_empty(),
    };
    let mut project = Project::look(&root, &places, says_more);
    // In a home directory that is a repository they may be one file.
    let own = dirs::config_file(environment).and_then(|path| path.canonicalize().ok());
    if own.is_some_and(|own| own == root.join(SETTINGS)) {
        project.without(SETTINGS);
    }
    let home = environment.home.as_deref().and_then(|home| home.canonicalize().ok());
    if home.is_some_and(|home| home == root) {
        project.without(OF_CLAUDE);
    }
    Ok(project)
}

/// Returns where trust is kept; `None` without a home directory.
pub(super) fn store(environment: &Environment) -> Option<Store> {
    dirs::trust_file(environment).ok().map(Store::new)
}

fn is_trusted(environment: &Environment, project: &Project, manner: Manner) -> bool {
    let store = store(environment);
    let word = match store.as_ref().map(|store| store.word(project)) {
        Some(Ok(word)) => word,
        Some(Err(error)) => {
            super::say(&format!("warning: {error}"));
            Word::Nothing
        }
        None => Word::Nothing,
    };
    let may_ask = manner == Manner::MayAsk && !environment.ci && project.unreadable.is_empty();
    match word {
        Word::Trusted => return true,
        Word::Nothing if may_ask && is_on_terminal() => {
            super::say(&words(environment, project));
            if let Some(line) = changed(store.as_ref(), project) {
                super::say(&line);
            }
            let answer = ask("Trust this, as it is now? [y/N] ");
            if let Some(store) = &store
                && let Err(error) = store.keep(project, answer)
            {
                super::say(&format!("warning: this holds for this run only: {error}"));
            }
            return answer;
        }
        Word::Refused | Word::Nothing => {}
    }
    let changed = changed(store.as_ref(), project).map(|what| format!(" ({what})"));
    super::say(&format!("{}{}", note(project), changed.unwrap_or_default()));
    false
}

/// Maximum files that are named as changed.
const CHANGED_CAP: usize = 5;

/// Says which files have changed since a repository was trusted.
pub(super) fn changed(store: Option<&Store>, project: &Project) -> Option<String> {
    // Why the store cannot be read has been said.
    let changed = store?.changed(project).ok().filter(|changed| !changed.is_empty())?;
    let named = changed.iter().take(CHANGED_CAP).map(|path| format!("`{}`", shown(path)));
    let named = named.collect::<Vec<_>>().join(", ");
    let more = changed.len().saturating_sub(CHANGED_CAP);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(format!("changed since it was trusted: {named}{more}"))
}

/// Says in one line that something is not used.
fn note(project: &Project) -> String {
    let unreadable = project.unreadable.iter().map(|(path, _)| path);
    let mut files = project.found.iter().map(|found| &found.path).chain(unreadable);
    let first = files.next().map(|path| path.display().to_string()).unwrap_or_default();
    // Texts for models are used all the same. They come last, so that then there
    // is nothing else.
    let text = project.found.first().filter(|it| matches!(it.kind, Kind::Agent | Kind::Skill));
    let more = match files.count() {
        0 => String::new(),
        more => format!(" and {}", counted(u32::try_from(more).unwrap_or(u32::MAX), "more file")),
    };
    let files = match (text, &*more) {
        (None, _) => format!("`{first}`{more}"),
        (Some(_), "") => format!("what `{first}` allows is"),
        (Some(_), _) => format!("what `{first}`{more} allow is"),
    };
    format!("note: {files} not used: this repository is not trusted; see `tine trust`")
}

/// Refuses what cannot be read as a whole.
pub(super) fn readable(project: &Project) -> Result<(), Refusal> {
    match project.unreadable.first() {
        None => Ok(()),
        Some((path, why)) => {
            let path = project.root.join(path);
            let message = format!("`{}` cannot be trusted: {why}", path.display());
            Err(Refusal::new(Exit::BadConfig, message))
        }
    }
}

/// Tells whether somebody sits there who can be asked.
pub(super) fn is_on_terminal() -> bool {
    let stdin = io::stdin();
    stdin.is_terminal() && io::stderr().is_terminal() && is_foreground(&stdin)
}

/// Asks on the terminal. What was typed before the question came is no answer.
pub(super) fn ask(question: &str) -> bool {
    let stdin = io::stdin();
    // The terminal is gone: then nothing is typed either.
    let _ = tcflush(&stdin, FlushArg::TCIFLUSH);
    let mut stderr = io::stderr().lock();
    // Whoever cannot read the question does not say yes.
    let _ = stderr.write_all(question.as_bytes()).and_then(|()| stderr.flush());
    let mut line = vec![0; ANSWER_CAP];
    let length = nix::unistd::read(&stdin, &mut line).unwrap_or(0);
    line.truncate(length);
    // Only a whole line says yes.
    let answer = line.strip_suffix(b"\n").unwrap_or_default().trim_ascii();
    [&b"y"[..], b"yes"].iter().any(|yes| answer.eq_ignore_ascii_case(yes))
}

/// Returns what would take effect, file by file.
pub(super) fn words(environment: &Environment, project: &Project) -> String {
    let columns = shown::columns();
    let mut text = format!("`{}` brings along:\n", project.root.display());
    for found in &project.found {
        text.push_str(&format!("  {}\n", shown(&found.path.display().to_string())));
        let (powerful, others) = lines(environment, project, found);
        let left = others.len().saturating_sub(LINES_CAP);
        let lines = powerful.iter().chain(others.iter().take(LINES_CAP));
        lines.for_each(|line| text.push_str(&rows(line, columns)));
        if left > 0 {
            text.push_str(&format!("    … and {left} more\n"));
        }
    }
    for (path, why) in &project.unreadable {
        let path = shown(&path.display().to_string());
        text.push_str(&format!("  {path}\n    cannot be trusted: {why}\n"));
    }
    shown::with_note(text.trim_end(), columns)
}

/// Returns what a file sets: what gives power, and the rest.
fn lines(
    environment: &Environment,
    project: &Project,
    found: &Found,
) -> (Vec<String>, Vec<String>) {
    let Found { path, kind, text, .. } = found;
    match kind {
        Kind::Settings => {
            let Ok(table) = text.parse::<toml::Table>() else {
                let line = "it cannot be parsed, so a run with it would fail".to_owned();
                return (vec![line], Vec::new());
            };
            let mut powerful = destinations(environment, project, &table);
            let mut others = Vec::new();
            for (name, value) in &table {
                let is_powerful = POWERFUL.contains(&name.as_str());
                flatten(name, value, if is_powerful { &mut powerful } else { &mut others });
            }
            // What was TOML is JSON, too.
            let hooks = table.get("hooks").and_then(|hooks| serde_json::to_value(hooks).ok());
            hooks.iter().for_each(|hooks| unknown_files(hooks, &mut powerful));
            let entries = found.servers();
            powerful.extend(entries.iter().filter_map(|entry| unknown_program(project, entry)));
            (powerful, others)
        }
        Kind::Hooks => match json_text::parse::<serde_json::Value>(text) {
            Ok(settings) => {
                let mut powerful = Vec::new();
                let hooks = settings.get("hooks").unwrap_or(&serde_json::Value::Null);
                flatten_json("hooks", hooks, &mut powerful);
                unknown_files(hooks, &mut powerful);
                (powerful, Vec::new())
            }
            Err(_) => {
                (vec!["it cannot be parsed, so a run with it would fail".to_owned()], Vec::new())
            }
        },
        Kind::Agent => {
            (definition::powers(text, path).iter().map(|line| shown(line)).collect(), Vec::new())
        }
        Kind::Skill => {
            (skill::powers(text, path).iter().map(|line| shown(line)).collect(), Vec::new())
        }
        Kind::Servers => (servers(project, text), Vec::new()),
        Kind::Program => (Vec::new(), vec!["a command that is allowed could run it".to_owned()]),
    }
}

/// Says of which commands the files cannot be told from their words: a change
/// of those is not noticed.
fn unknown_files(hooks: &serde_json::Value, lines: &mut Vec<String>) {
    use serde_json::Value;
    match hooks {
        Value::Object(fields) => {
            let arguments = fields.get("args").and_then(Value::as_array).into_iter().flatten();
            let mut texts = fields.get("command").into_iter().chain(arguments);
            let named = |text: &Value| text.as_str().is_none_or(hook::names_its_files);
            if !texts.all(named) {
                let command = fields.get("command").and_then(Value::as_str).unwrap_or_default();
                lines.push(shown(&format!("{UNKNOWN_FILES}: {command}")));
            }
            fields.values().for_each(|field| unknown_files(field, lines));
        }
        Value::Array(items) => items.iter().for_each(|item| unknown_files(item, lines)),
        Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => {}
    }
}

/// Says of a server whose files cannot be told from its words that they cannot.
fn unknown_program(project: &Project, entry: &mcp::Entry) -> Option<String> {
    let command = entry.program(&project.root)?;
    let is_placed = entry.directory.as_deref().is_none_or(hook::names_its_files);
    let is_known = is_placed && command.names_its_files();
    (!is_known).then(|| shown(&format!("{UNKNOWN_FILES}: {}", command.words.join(" "))))
}

/// Says what would be started, and where calls would go.
fn servers(project: &Project, text: &str) -> Vec<String> {
    let entries = match mcp::file::read(text) {
        Ok(entries) => entries,
        Err(why) => return vec![shown(&format!("it {why}, so a run with it would fail"))],
    };
    let mut lines = Vec::new();
    for (name, entry) in entries {
        let entry = match entry {
            Ok(entry) => entry,
            Err(bad) => {
                lines.push(shown(&format!("server `{name}` is not used: {bad}")));
                continue;
            }
        };
        if let Some(command) = &entry.command {
            let words: Vec<&str> = entry.arguments.iter().map(String::as_str).collect();
            lines.push(shown(&format!("! server `{name}` runs {command} {}", words.join(" "))));
            let directory = entry.directory.iter();
            lines.extend(directory.map(|directory| shown(&format!("  in {directory}"))));
            lines.extend(unknown_program(project, &entry));
        }
        if let Some(url) = &entry.url {
            lines.push(shown(&format!("! server `{name}` is at {url}")));
        }
        // Values may name what leaves this machine.
        let variables = entry.variables.iter().chain(&entry.headers);
        lines.extend(variables.map(|(key, value)| shown(&format!("  with {key} = {value}"))));
    }
    lines
}

/// Says where requests would go from now on, and with which key: what is worst
/// comes first.
fn destinations(environment: &Environment, project: &Project, table: &toml::Table) -> Vec<String> {
    let Some(settings) = trusted(project.clone()).settings else { return Vec::new() };
    let models = |settings: Option<&ProjectSettings>| -> BTreeMap<String, ModelEntry> {
        let loaded = Config::load(environment, settings, None, &[]);
        loaded.map(|loaded| loaded.config.models).unwrap_or_default()
    };
    let (before, after) = (models(None), models(Some(&settings)));
    let named = table.get("models").and_then(toml::Value::as_table);
    let changed = named.into_iter().flatten().filter_map(|(name, _)| {
        let entry = after.get(name)?;
        let place = |entry: &ModelEntry| {
            (entry.base_url.clone(), entry.preset.map(|preset| preset.name), entry.key_env.clone())
        };
        let is_known = before.get(name).is_some_and(|before| place(before) == place(entry));
        (!is_known).then_some((name, entry))
    });
    let line = |(name, entry): (&String, &ModelEntry)| {
        let preset_key = entry.preset.and_then(|preset| preset.key_env.map(str::to_owned));
        let own_place = entry.base_url.is_none();
        let key = entry.key_env.clone().or(preset_key.filter(|_| own_place));
        let place = entry.base_url.clone().or(entry.preset.map(|it| it.name.to_owned()));
        let key = key.map_or("no key".to_owned(), |key| format!("the key in `{key}`"));
        let place = place.unwrap_or_default();
        shown(&format!("! requests to `{name}` go to {place} with {key}"))
    };
    changed.map(line).collect()
}
