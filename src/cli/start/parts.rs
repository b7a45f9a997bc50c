//! What a run is made of that flags and files say.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::cli::args::RunFlags;
use crate::cli::exit::{Exit, Refusal};
use crate::cli::kit::Kit;
use crate::cli::project::Trusted;
use crate::cli::{rules, say};
use crate::config::{Environment, dirs};
use crate::definition::Definitions;
use crate::fanout::Limits;
use crate::model::http::exchange::{Exchanges, Pace};
use crate::model::retry;
use crate::prompt;
use crate::skill::Skills;
use crate::tool::structured::SCHEMA_CAP;
use crate::tool::{AnswerSchema, Registry, registry};

/// Returns the skills and the definitions that are found around a directory.
pub(super) fn found(
    (root, top): (&Path, Option<&Path>),
    environment: &Environment,
    trusted: &Trusted,
) -> (Skills, Definitions) {
    let (skills, mut problems) = Skills::load(
        &dirs::skill_directories(root, top, environment),
        &dirs::command_directories(root, top, environment),
    );
    let agents = dirs::agent_directories(root, top, environment);
    let (definitions, more) = Definitions::load(&agents, |path, text| trusted.covers(path, text));
    problems.extend(more);
    problems.iter().for_each(|problem| say(&format!("warning: {problem}")));
    (skills, definitions)
}

/// Returns what bounds every unit.
pub(super) fn limits(kit: &Kit) -> Limits {
    let (agents, retry) = (&kit.config.agents, &kit.config.retry);
    let (prime, base) = match kit.models.exchanges() {
        Exchanges::Live | Exchanges::Record(_) => (agents.prime, retry.base),
        // There is no cache to wait for, and nobody to be spared.
        Exchanges::Replay(player) => match player.pace() {
            Pace::Recorded => (Duration::ZERO, retry.base),
            Pace::AtOnce => (Duration::ZERO, Duration::ZERO),
        },
    };
    Limits {
        max_turns: agents.max_turns,
        timeout: agents.timeout,
        max_depth: kit.flags.max_subagent_depth.unwrap_or(agents.max_depth),
        background_wait: kit.config.background.wait,
        prime,
        confirm_above: match kit.flags.allow_large_batches {
            true => None,
            false => agents.confirm_above,
        },
        needs_price: kit.flags.max_budget_usd.is_some(),
        compact_at: kit.config.session.compact_at,
        retries: retry::Policy { most: retry.most, base },
    }
}

/// Returns the tools that there are.
pub(super) fn tools(flags: &RunFlags, definitions: &Definitions) -> Result<Registry, Refusal> {
    let offered: Vec<(&str, &str)> = definitions
        .iter()
        .map(|definition| (definition.name.as_str(), definition.description.as_str()))
        .collect();
    let all = Registry::all(offered);
    let wanted = rules::split(&flags.tools);
    if wanted.is_empty() {
        return Ok(all);
    }
    if let Some(unknown) = wanted.iter().find(|name| all.find(name).is_none()) {
        let names: Vec<&str> = all.names().collect();
        return Err(Refusal::new(Exit::Usage, format!("there is no tool `{unknown}`"))
            .hint(format!("there are: {}", names.join(", "))));
    }
    Ok(all.filtered(|name| {
        wanted.iter().any(|wanted| registry::canonical(wanted).eq_ignore_ascii_case(name))
    }))
}

/// Returns what the answer to each prompt must fit. It is JSON if it begins as
/// an object does, and else names a file, with or without an `@`.
pub(super) fn answer_schema(flags: &RunFlags) -> Result<Option<Arc<AnswerSchema>>, Refusal> {
    let Some(given) = flags.json_schema.as_deref().map(str::trim) else { return Ok(None) };
    let refused = |what: &str, why: String| {
        Refusal::new(Exit::BadInput, format!("{what} is no JSON Schema that can be used: {why}"))
    };
    let parsed = if given.starts_with('{') || matches!(given, "true" | "false") {
        AnswerSchema::parse(given).map_err(|why| refused("`--json-schema`", why))
    } else {
        let path = given.strip_prefix('@').unwrap_or(given);
        let text = read_schema(Path::new(path)).map_err(|error| {
            Refusal::new(Exit::BadInput, format!("cannot read `{path}`: {error}"))
                .hint("`--json-schema` takes a JSON object or the name of a file")
        })?;
        AnswerSchema::parse(text.trim()).map_err(|why| refused(&format!("`{path}`"), why))
    };
    parsed.map(|schema| Some(Arc::new(schema)))
}

/// Reads a file, but no more of it than is enough to say that it is too long.
fn read_schema(path: &Path) -> io::Result<String> {
    // At most four bytes make a character.
    let most = 4 * SCHEMA_CAP;
    let mut bytes = Vec::new();
    File::open(path)?.take(most as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > most {
        return Err(io::Error::other(format!("it has more than {most} bytes")));
    }
    String::from_utf8(bytes).map_err(io::Error::other)
}

pub(super) fn system_prompt(flags: &RunFlags) -> Result<String, Refusal> {
    let read = |path: &Path| {
        std::fs::read_to_string(path).map_err(|error| {
            Refusal::new(Exit::BadInput, format!("cannot read `{}`: {error}", path.display()))
        })
    };
    let mut system = match (&flags.system_prompt, &flags.system_prompt_file) {
        (Some(text), _) => text.clone(),
        (None, Some(path)) => read(path)?,
        (None, None) => prompt::main().to_owned(),
    };
    let added = match (&flags.append_system_prompt, &flags.append_system_prompt_file) {
        (Some(text), _) => Some(text.clone()),
        (None, Some(path)) => Some(read(path)?),
        (None, None) => None,
    };
    if let Some(added) = added {
        system.push_str("\n\n");
        system.push_str(&added);
    }
    Ok(system)
}
