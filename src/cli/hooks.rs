//! The hooks of a run: those of the configuration, those that people have for
//! other harnesses, and those of `--settings`.

use std::path::Path;

use serde_json::Value;

use super::args::RunFlags;
use super::exit::{Exit, Refusal};
use super::project::{self, Trusted};
use super::start::{repository_root, working_directory};
use crate::config::{self, Config, Environment};
use crate::event::HookEvent;
use crate::hook::{Brought, HOOKS_CAP, Handler, Hook, Parsed, parse};
use crate::json_text;

/// The settings of Claude Code below a home directory.
pub(super) const OF_CLAUDE: &str = ".claude/settings.json";

/// Key of the hooks in settings.
const HOOKS_KEY: &str = "hooks";

/// Returns the hooks in the order in which they count: the configuration's, the
/// user's own of Claude Code, the trusted repository's, those of a flag, and last
/// those that a program which drives the run wants `called`.
pub(super) fn load(
    environment: &Environment,
    config: &Config,
    flags: &RunFlags,
    (trusted, called): (&Trusted, Vec<Hook>),
) -> Result<Vec<Hook>, Refusal> {
    let given = project::given(flags)?;
    if given.as_ref().is_some_and(|given| given.are_hooks_off) {
        return Ok(called);
    }
    let mut hooks = config.hooks.clone();
    if let Some(home) = environment.home.as_ref().filter(|_| flags.borrowed.sources().user) {
        let path = home.join(OF_CLAUDE);
        hooks.extend(of_user(&path)?);
    }
    for (path, text) in &trusted.hooks {
        let is_ours = path.starts_with(".tine");
        let brought = if is_ours { Brought::ForTine } else { Brought::Along };
        let found = of_text(text, brought, &path.display().to_string());
        let found = found.map_err(|why| refuse(&path.display().to_string(), &why))?;
        hooks.extend(found.into_iter().map(|hook| hook.brought_by(&trusted.root)));
    }
    if let Some(given) = given {
        note_unknown("--settings", &given.hooks);
        hooks.extend(given.hooks.hooks);
    }
    hooks.extend(called);
    for hook in &hooks {
        if let Some(note) = &hook.note {
            super::say(&format!("warning: {note}"));
        }
    }
    // What could only have failed is not asked; a gate stays shut.
    let is_asked =
        |hook: &Hook| hook.event.is_gate() || !matches!(hook.handler, Handler::NotDone { .. });
    hooks.retain(is_asked);
    let start = working_directory(environment)?;
    let project = repository_root(&start).unwrap_or_else(|| start.clone());
    // Now, when no agent has done anything yet.
    let hooks: Vec<Hook> = hooks.into_iter().map(|hook| hook.watched(&start, &project)).collect();
    for event in HookEvent::ALL {
        let count = hooks.iter().filter(|hook| hook.event == event).count();
        if count > HOOKS_CAP {
            let event = event.as_str();
            let message = format!("there are {count} hooks for {event}; there may be {HOOKS_CAP}");
            return Err(Refusal::new(Exit::BadConfig, message));
        }
    }
    Ok(hooks)
}

/// Reads the user's hooks for another harness. The run is refused if the file cannot be
/// read as text, or is malformed and names `hooks`: one of them may be a gate.
fn of_user(path: &Path) -> Result<Vec<Hook>, Refusal> {
    let name = path.display().to_string();
    let unreadable = |why: &str| {
        let message = format!("hooks of `{name}` cannot be used: it cannot be read: {why}");
        Refusal::new(Exit::BadConfig, message).hint(
            "make it a readable UTF-8 file, or run without your own settings: `--setting-sources \
             project`",
        )
    };
    let text = match config::read_file(path) {
        Ok(Some(text)) => text,
        // The file that a dangling link names may hold gates: a file system that is not
        // mounted yet, for one.
        Ok(None) if path.ancestors().take(2).any(|it| it.is_symlink() && !it.exists()) => {
            return Err(unreadable("it is a link that leads to no file"));
        }
        Ok(None) => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(&error.to_string())),
    };
    match of_text(&text, Brought::Along, &name) {
        Ok(hooks) => Ok(hooks),
        Err(why) if text.contains(HOOKS_KEY) => Err(refuse(&name, &why)),
        Err(why) => {
            super::say(&format!("warning: ignoring the hooks in `{name}`: {why}"));
            Ok(Vec::new())
        }
    }
}

/// Reads settings of which only the hooks count. Those of a file that turns
/// hooks off are its own.
fn of_text(text: &str, brought: Brought, name: &str) -> Result<Vec<Hook>, String> {
    let settings: Value =
        json_text::parse(text).map_err(|error| format!("it is not valid JSON: {error}"))?;
    if settings.get("disableAllHooks") == Some(&Value::Bool(true)) {
        return Ok(Vec::new());
    }
    let hooks = settings.get("hooks").filter(|hooks| !hooks.is_null());
    let Some(hooks) = hooks else { return Ok(Vec::new()) };
    let parsed = parse(hooks, brought)?;
    note_unknown(name, &parsed);
    let named = |hook: Hook| {
        let note = hook.note.map(|note| format!("`{name}`: {note}").into());
        Hook { note, ..hook }
    };
    Ok(parsed.hooks.into_iter().map(named).collect())
}

fn note_unknown(name: &str, parsed: &Parsed) {
    for moment in &parsed.unknown {
        super::say(&format!("note: `{name}`: hooks for `{moment}` are never asked by tine"));
    }
}

fn refuse(name: &str, why: &str) -> Refusal {
    Refusal::new(Exit::BadConfig, format!("hooks of `{name}` cannot be used: {why}"))
        .hint("docs/hooks.md says what hooks can be")
}
