//! The hooks of a run: those of the configuration, those that people have for
//! other harnesses, and those of `--settings`.

use std::path::Path;

use serde_json::Value;

use super::args::RunFlags;
use super::exit::{Exit, Refusal};
use super::project::Trusted;
use crate::config::{self, Config, Environment};
use crate::event::HookEvent;
use crate::hook::{Brought, HOOKS_CAP, Hook, Parsed, parse};

/// The settings of Claude Code below a home directory.
pub(super) const OF_CLAUDE: &str = ".claude/settings.json";

/// Returns the hooks in the order in which they count: the configuration's, the
/// user's own of Claude Code, the trusted repository's, those of a flag.
pub(super) fn load(
    environment: &Environment,
    config: &Config,
    flags: &RunFlags,
    trusted: &Trusted,
) -> Result<Vec<Hook>, Refusal> {
    let mut hooks = config.hooks.clone();
    if let Some(home) = &environment.home {
        let path = home.join(OF_CLAUDE);
        // They are another program's, which goes on without us.
        match of_user(&path) {
            Ok(found) => hooks.extend(found),
            Err(why) => {
                super::say(&format!("warning: hooks of `{}` not used: {why}", path.display()));
            }
        }
    }
    for (path, text) in &trusted.hooks {
        let is_ours = path.starts_with(".tine");
        let brought = if is_ours { Brought::ForTine } else { Brought::Along };
        let found = of_text(text, brought, &path.display().to_string());
        hooks.extend(found.map_err(|why| refuse(&path.display().to_string(), &why))?.hooks);
    }
    if let Some(given) = &flags.settings {
        let settings = of_flag(given).map_err(|why| refuse("--settings", &why))?;
        if settings.are_off {
            return Ok(Vec::new());
        }
        hooks.extend(settings.hooks);
    }
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

fn of_user(path: &Path) -> Result<Vec<Hook>, String> {
    let Some(text) = config::read_file(path).map_err(|error| error.to_string())? else {
        return Ok(Vec::new());
    };
    of_text(&text, Brought::Along, &path.display().to_string()).map(|settings| settings.hooks)
}

fn of_flag(given: &str) -> Result<Settings, String> {
    let text = match given.trim_start().starts_with('{') {
        true => given.to_owned(),
        false => std::fs::read_to_string(given).map_err(|error| format!("{given}: {error}"))?,
    };
    of_text(&text, Brought::ForTine, "--settings")
}

/// What settings say of hooks.
#[derive(Default)]
struct Settings {
    hooks: Vec<Hook>,
    /// Whether they turn hooks off.
    are_off: bool,
}

/// Reads settings of which only the hooks count.
fn of_text(text: &str, brought: Brought, name: &str) -> Result<Settings, String> {
    let settings: Value =
        serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))?;
    if settings.get("disableAllHooks") == Some(&Value::Bool(true)) {
        return Ok(Settings { are_off: true, ..Settings::default() });
    }
    let Some(hooks) = settings.get("hooks") else { return Ok(Settings::default()) };
    let Parsed { hooks, unknown } = parse(hooks, brought)?;
    for moment in unknown {
        super::say(&format!("note: `{name}`: hooks for `{moment}` are never asked by tine"));
    }
    Ok(Settings { hooks, are_off: false })
}

fn refuse(name: &str, why: &str) -> Refusal {
    Refusal::new(Exit::BadConfig, format!("hooks of `{name}` cannot be used: {why}"))
        .hint("docs/hooks.md says what hooks can be")
}
