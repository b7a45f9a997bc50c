//! `--debug`: what happens inside, for whoever looks for a fault.
//!
//! Lines go to standard error or a file. What a line quotes may come from
//! anywhere, so it is made safe for a terminal, and the values of variables
//! that hold keys are left out of it.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;

use secrecy::ExposeSecret as _;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::time::uptime;

use super::args::RunFlags;
use super::exit::{Exit, Refusal};
use super::print;
use crate::config::Environment;
use crate::report::sanitise;

/// What `--debug` shows where it names nothing and `RUST_LOG` does not either.
const DEFAULT: &str = "tine=debug";

/// Parts of the names of variables that hold keys.
const SECRET_NAMES: [&str; 5] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "OTLP"];

/// Fewest bytes of a key. What is shorter stands in lines by chance.
const SHORTEST_KEY: usize = 8;

/// Has what happens inside written down, if that is wanted.
pub(super) fn set_up(flags: &RunFlags) -> Result<(), Refusal> {
    let file = flags.borrowed.debug_file.as_deref().map(print::create).transpose()?;
    let Some(filter) = flags.debug.as_deref().or(file.is_some().then_some(DEFAULT)) else {
        return Ok(());
    };
    let environment = Environment::from_process();
    let set = environment.variable("RUST_LOG").filter(|_| filter == DEFAULT);
    let filter = set.as_deref().unwrap_or(filter);
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        Refusal::new(Exit::Usage, format!("`--debug={filter}` is no filter: {error}"))
            .hint("it looks like `tine=debug` or `tine::event=info,tine::model=trace`")
    })?;
    let output = Output {
        to: file.map(|(_, file)| Arc::new(file)),
        secrets: secrets(&environment, flags).into(),
    };
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_timer(uptime());
    subscriber.with_ansi(false).with_writer(output).init();
    Ok(())
}

/// Returns what no line may hold, the longest first: one may begin with
/// another.
fn secrets(environment: &Environment, flags: &RunFlags) -> Vec<String> {
    let typed = flags.borrowed.openai_api_key.as_ref();
    let typed = typed.map(|key| key.expose_secret().to_owned());
    let set = environment.inherited.all().filter_map(|(name, value)| {
        let name = name.to_str()?.to_ascii_uppercase();
        let is_secret = SECRET_NAMES.iter().any(|part| name.contains(part));
        value.to_str().filter(|_| is_secret).map(str::to_owned)
    });
    // A list of headers is one of names and values.
    let parts = |value: String| {
        let parts: Vec<_> = value.split([',', '=']).skip(1).map(str::to_owned).collect();
        parts.into_iter().chain([value])
    };
    let mut all: Vec<String> = set.chain(typed).flat_map(parts).collect();
    all.retain(|value| value.len() >= SHORTEST_KEY && !value.starts_with("http"));
    all.sort_by_key(|value| std::cmp::Reverse(value.len()));
    all
}

/// Where lines go.
struct Output {
    /// `None` for standard error.
    to: Option<Arc<File>>,
    secrets: Arc<[String]>,
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
        let text = clean(&String::from_utf8_lossy(bytes), &self.0.secrets);
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
