//! `--debug`: what happens inside, for whoever looks for a fault.
//!
//! Lines go to standard error or a file. What a line quotes may come from
//! anywhere, so it is made safe for a terminal, and the values of variables
//! that hold keys are left out of it.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, PoisonError, RwLock};

use reqwest::Url;
use secrecy::ExposeSecret as _;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::time::uptime;

use super::args::RunFlags;
use super::exit::{Exit, Refusal};
use super::print;
use crate::config::{Config, Environment, NatsServer};
use crate::mcp::Launch;
use crate::report::sanitise;

/// What is shown where neither `--debug` nor `RUST_LOG` names anything.
const DEFAULT: &str = "tine=debug";

/// Parts of the names of variables that hold keys.
const SECRET_NAMES: [&str; 9] =
    ["KEY", "TOKEN", "SECRET", "PASS", "CRED", "AUTH", "COOKIE", "DSN", "OTLP"];

/// Fewest bytes of a key. What is shorter stands in lines by chance.
const SHORTEST_KEY: usize = 8;

/// What no line may hold, the longest first: one may begin with another.
///
/// There is one for the process, as there is one place that lines go to, and it
/// grows with what is configured: a key is known before its first use, but not
/// before there are lines.
static KEYS: RwLock<Vec<String>> = RwLock::new(Vec::new());

/// Has what happens inside written down, if that is wanted.
pub(super) fn set_up(flags: &RunFlags) -> Result<(), Refusal> {
    let file = flags.borrowed.debug_file.as_deref().map(print::create_private).transpose()?;
    let Some(named) = flags.debug.as_deref().or(file.is_some().then_some("")) else {
        return Ok(());
    };
    let environment = Environment::from_process();
    let filter = filter(named, environment.variable("RUST_LOG").as_deref())?;
    hide_environment(&environment);
    if let Some(key) = &flags.borrowed.openai_api_key {
        hide([key.expose_secret()]);
    }
    let output = Output { to: file.map(|(_, file)| Arc::new(file)) };
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_timer(uptime());
    subscriber.with_ansi(false).with_writer(output).init();
    Ok(())
}

/// Reads what `--debug` names, else what the variable does.
fn filter(named: &str, variable: Option<&str>) -> Result<EnvFilter, Refusal> {
    let (filter, says) = match (named, variable) {
        ("", Some(variable)) => (variable, format!("`RUST_LOG` is `{variable}`, which")),
        ("", None) => (DEFAULT, "the default".to_owned()),
        (named, _) => (named, format!("`--debug={named}`")),
    };
    EnvFilter::try_new(filter).map_err(|error| {
        Refusal::new(Exit::Usage, format!("{says} is no filter: {error}"))
            .hint("it looks like `tine=debug` or `tine::event=info,tine::model=trace`")
    })
}

/// Leaves out of all lines from now on what variables hold that are keys by
/// their names.
pub(super) fn hide_environment(environment: &Environment) {
    let all = environment.inherited.all();
    let all = all.filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
    all.for_each(|(name, value)| hide_variable(name, value));
}

/// The same for what else is configured: variables that hold keys because that
/// is said of them, and what goes along with each request.
pub(super) fn hide_configured(config: &Config, environment: &Environment) {
    let variables = config.secret_variables();
    hide(variables.iter().filter_map(|name| Some(environment.key(name)?.expose_secret())));
    for model in config.models.values() {
        hide_headers(model.headers.0.values());
        model.base_url.iter().for_each(|url| hide_in_url(url));
    }
    hide_servers(&config.executor.nats.servers);
}

/// The same for what a server of tools is started with, or reached by.
pub(super) fn hide_launch(launch: &Launch) {
    match launch {
        Launch::Program { program: _, arguments, variables, directory: _, footing: _ } => {
            // `--api-key=…`
            hide(arguments.iter().filter_map(|argument| Some(argument.split_once('=')?.1)));
            variables.iter().for_each(|(name, value)| hide_variable(name, value));
        }
        Launch::Http { url, headers } => {
            hide_in_url(url);
            hide_headers(headers.values());
        }
    }
}

/// The same for servers of NATS.
pub(super) fn hide_servers(servers: &[NatsServer]) {
    for secrets in servers.iter().map(NatsServer::secrets) {
        hide(secrets.iter().map(String::as_str));
    }
}

fn hide_variable(name: &str, value: &str) {
    hide_in_url(value);
    let name = name.to_ascii_uppercase();
    let is_url = value.starts_with("http");
    if !is_url && !name.contains("AUTHOR") && SECRET_NAMES.iter().any(|part| name.contains(part)) {
        hide([value]);
        // A list of headers is one of names and values.
        hide(value.split([',', '=']).skip(1));
    }
}

/// Hides values with what stands behind the name of a scheme.
fn hide_headers<'a>(values: impl IntoIterator<Item = &'a String>) {
    for value in values {
        hide([value.as_str()]);
        hide(value.split_whitespace().skip(1));
    }
}

/// Hides a password and what a query says.
fn hide_in_url(text: &str) {
    let Ok(url) = Url::parse(text) else { return };
    hide(url.password());
    let query = url.query().unwrap_or_default().split('&');
    hide(query.filter_map(|pair| Some(pair.split_once('=')?.1)));
    let decoded: Vec<Cow<'_, str>> = url.query_pairs().map(|(_, value)| value).collect();
    hide(decoded.iter().map(|value| &**value));
}

fn hide<'a>(values: impl IntoIterator<Item = &'a str>) {
    // As it is written where a line quotes it, too, and line by line.
    let forms = |value: &str| {
        let lines = value.lines().map(str::to_owned);
        [value.to_owned(), value.escape_debug().to_string()]
            .into_iter()
            .chain(lines)
            .collect::<Vec<_>>()
    };
    let forms: Vec<String> = values.into_iter().flat_map(forms).collect();
    let mut keys = KEYS.write().unwrap_or_else(PoisonError::into_inner);
    for form in forms {
        if form.len() >= SHORTEST_KEY && !keys.contains(&form) {
            keys.push(form);
        }
    }
    keys.sort_by_key(|key| std::cmp::Reverse(key.len()));
}

/// Where lines go.
struct Output {
    /// `None` for standard error.
    to: Option<Arc<File>>,
}

/// Writes one line. The subscriber hands each over whole.
struct Line<'a>(&'a Output);

impl<'a> MakeWriter<'a> for Output {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(self)
    }
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let keys = KEYS.read().unwrap_or_else(PoisonError::into_inner);
        let text = clean(&String::from_utf8_lossy(bytes), &keys);
        drop(keys);
        match &self.0.to {
            Some(file) => (&**file).write_all(text.as_bytes())?,
            None => io::stderr().lock().write_all(text.as_bytes())?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn clean(text: &str, secrets: &[String]) -> String {
    let text = secrets.iter().fold(text.to_owned(), |text, secret| {
        if text.contains(secret) { text.replace(secret, "[key]") } else { text }
    });
    sanitise::text(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_holds_no_key_and_nothing_that_a_terminal_obeys() {
        let secrets = ["sk-long-key-2".to_owned(), "sk-long-key".to_owned()];
        let line = "a sk-long-key-2 b sk-long-key \u{1b}[2Jc\n";
        assert_eq!(clean(line, &secrets), "a [key] b [key] \\u{1b}[2Jc\n");
    }
}
