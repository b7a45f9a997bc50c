//! `tine models`: what can be chosen with `-m`, and what each still lacks.

use std::fmt::{self, Write as _};
use std::io::{self, BufWriter, Write as _};

use unicode_width::UnicodeWidthStr as _;

use super::args::RunFlags;
use super::exit::{Exit, Refusal};
use super::project::{self, Manner};
use super::session;
use crate::config::{
    Config, Environment, Found, ListedKind, ListedModel, ModelChoiceError, ServerModel, list_models,
};
use crate::message::Price;
use crate::report::{model_record, sanitise};

/// Where the lines below a name begin.
const INDENT: usize = 18;

/// Most columns of a line that can be two.
const WIDTH: usize = 80;

/// Lists the configured models and the presets.
pub(super) fn run(
    environment: &Environment,
    flags: &RunFlags,
    json: bool,
) -> Result<Exit, Refusal> {
    let (config, _) = project::config(environment, flags, Manner::Tell)?;
    let listed = list_models(&config, environment);
    let mut out = BufWriter::new(io::stdout().lock());
    let written = if json {
        listed.iter().try_for_each(|listed| out.write_all(&model_record(listed)))
    } else {
        out.write_all(text(&listed).as_bytes())
    };
    let exit = session::finish(written.and_then(|()| out.flush()))?;
    if !json {
        super::say(&format!("hint: {}", next_step(&config, &listed)));
    }
    Ok(exit)
}

/// The list for people, in lines of at most 80 columns where names and
/// addresses are not longer themselves.
fn text(listed: &[ListedModel]) -> String {
    let sections = [
        (ListedKind::Configured, "models, as `-m NAME` (* where no `-m` is given)"),
        (ListedKind::Preset, "presets, as `-m PRESET:MODEL`"),
    ];
    let mut text = String::new();
    for (kind, title) in sections {
        let mut rows = listed.iter().filter(|listed| listed.kind == kind).peekable();
        if rows.peek().is_none() {
            continue;
        }
        let gap = if text.is_empty() { "" } else { "\n" };
        let rows = rows.map(|listed| Row(listed).to_string()).collect::<String>();
        write!(text, "{gap}{title}\n{rows}").expect("a string takes every text");
    }
    text
}

/// A model in two to four lines.
struct Row<'a>(&'a ListedModel);

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ListedModel { name, alias, is_default, takes_other_names, found, kind: _ } = self.0;
        let mark = if *is_default { '*' } else { ' ' };
        let name = sanitise::line(name);
        let name = alias.map_or(name.to_string(), |alias| format!("{name}, {alias}"));
        let Found { server, key_env, is_key_set, is_ready: _ } = match found {
            Ok(found) => found,
            Err(error) => return write_problem(f, mark, &name, error),
        };
        let key = match key_env {
            Some(variable) if *is_key_set => format!("{variable} is set"),
            Some(variable) => format!("{variable} is not set"),
            None => "no key".to_owned(),
        };
        // A long name has a line of its own.
        let first = format!("{mark} {name}");
        let gap = INDENT.saturating_sub(first.width());
        let gap = if gap == 0 { format!("\n{:INDENT$}", "") } else { " ".repeat(gap) };
        writeln!(f, "{first}{gap}{:<10} {}", server.api.as_str(), sanitise::line(&key))?;
        write_server(f, server)?;
        if *takes_other_names {
            writeln!(f, "{:INDENT$}takes every other name, as `-m MODEL`", "")?;
        }
        Ok(())
    }
}

fn write_server(f: &mut fmt::Formatter<'_>, server: &ServerModel) -> fmt::Result {
    let ServerModel { model, base_url, context_window, price, .. } = server;
    let url = sanitise::line(base_url);
    let model = sanitise::line(model);
    let both = format!("{:INDENT$}{model} at {url}", "");
    match (model.is_empty(), both.width() > WIDTH) {
        (true, _) => writeln!(f, "{:INDENT$}{url}", "")?,
        (false, false) => writeln!(f, "{both}")?,
        (false, true) => writeln!(f, "{:INDENT$}{model}\n{:INDENT$}at {url}", "", "")?,
    }
    if let Some(window) = context_window {
        writeln!(f, "{:INDENT$}window {window} tokens", "")?;
    }
    if let Some(Price { input, output, cache_read, cache_write }) = price {
        writeln!(f, "{:INDENT$}a million tokens: {input} in, {output} out,", "")?;
        writeln!(f, "{:INDENT$}{cache_read} from the cache, {cache_write} to the cache", "")?;
    }
    Ok(())
}

fn write_problem(
    f: &mut fmt::Formatter<'_>,
    mark: char,
    name: &str,
    error: &ModelChoiceError,
) -> fmt::Result {
    writeln!(f, "{mark} {name}")?;
    let error = error.to_string();
    let mut lines = error.lines().map(sanitise::line);
    lines.try_for_each(|line| writeln!(f, "{:INDENT$}{line}", ""))
}

/// The command that comes next: the nearest to one that works.
fn next_step(config: &Config, listed: &[ListedModel]) -> String {
    let ready = |listed: &&ListedModel| listed.found.as_ref().is_ok_and(|found| found.is_ready);
    let with_key = |listed: &&ListedModel| {
        listed.found.as_ref().is_ok_and(|found| found.is_key_set && found.is_ready)
    };
    if let Some(default) = listed.iter().find(|listed| listed.is_default) {
        return match &default.found {
            Ok(Found { is_ready: false, key_env: Some(variable), .. }) => {
                format!("`export {variable}=…`, then `tine -p \"…\"` asks `{}`", default.name)
            }
            Ok(_) => format!("`tine -p \"…\"` asks `{}`", default.name),
            Err(_) => "mend `config.toml`, then `tine doctor` asks the server".to_owned(),
        };
    }
    if let Some(name) = &config.model {
        return format!("`tine -p \"…\"` asks `{name}`");
    }
    let configured = |listed: &&ListedModel| listed.kind == ListedKind::Configured;
    if let Some(model) = listed.iter().filter(configured).find(ready) {
        return format!("`tine -m {} -p \"…\"`", typed(&model.name));
    }
    if listed.iter().filter(|listed| listed.takes_other_names).any(|listed| ready(&listed)) {
        return "`tine -m MODEL -p \"…\"`".to_owned();
    }
    if let Some(preset) = listed.iter().find(with_key) {
        return format!("`tine -m {}:MODEL -p \"…\"`", preset.name);
    }
    "`export OPENROUTER_API_KEY=…`, then `tine -m openrouter:MODEL -p \"…\"`; or with Ollama \
     `tine -m ollama:MODEL -p \"…\"`"
        .to_owned()
}

/// A name as one types it in a shell.
fn typed(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '/' | '@');
    match name.chars().all(is_plain) {
        true => name.to_owned(),
        false => format!("'{}'", name.replace('\'', "'\\''")),
    }
}
