//! Who is shown a run, and who is asked by it.

use std::io::{self, IsTerminal as _, Write};
use std::sync::Arc;
use std::time::Duration;

use super::{Sitter, Start};
use crate::cli::args::Format;
use crate::cli::asking::TerminalPrompter;
use crate::cli::control::WholeLines;
use crate::cli::exit::{Exit, Refusal};
use crate::cli::kit::Kit;
use crate::cli::model::find_facts;
use crate::cli::{print, runner, slash, telemetry};
use crate::config::StatesFor;
use crate::report::inert::Form;
use crate::report::{
    Asking, Facts, FindFacts, FindSandbox, HostOnly, Json, Live, LiveOptions, Plain, Stdout,
    StdoutKind, StreamJson, StreamOptions,
};
use crate::run::{self, Reporter};

/// How often running times go on in the live region.
const TICK: Duration = Duration::from_secs(1);

/// Who is asked what only a person may answer.
pub(super) enum Asker {
    /// Whoever sits there.
    Terminal(TerminalPrompter),
    /// Whoever sits at the run, and is shown it.
    Sitter(Sitter),
    Nobody,
}

impl Start {
    pub(super) fn reporters(&self, asker: Asker) -> Result<Vec<Box<dyn Reporter>>, Refusal> {
        let mut reporters = match asker {
            Asker::Terminal(prompter) => {
                vec![Box::new(Asking::new(self.on_stdout(false), Box::new(prompter))) as _]
            }
            // Whoever feeds the run hears of an end once its record is out.
            Asker::Sitter(Sitter::Client(feeding)) => vec![self.on_stdout(true), feeding],
            Asker::Sitter(Sitter::Chat(shown)) => vec![shown],
            Asker::Nobody => vec![self.on_stdout(false)],
        };
        if let Some(path) = self.kit.flags.records_file() {
            let file = print::open(&path).map_err(|error| {
                let refusal = Refusal::cannot_write(Exit::BadInput, &path, &error);
                match self.kit.flags.borrowed.json_fd {
                    None => refusal,
                    Some(fd) => refusal.hint(format!(
                        "open it where tine is started: `{fd}>FILE`; it may be a file or a pipe"
                    )),
                }
            })?;
            let options = self.stream_options();
            reporters.push(Box::new(StreamJson::new(Box::new(file), options, self.facts())));
        }
        reporters.extend(telemetry::reporter(&self.kit).map(|spans| Box::new(spans) as _));
        Ok(reporters)
    }

    fn on_stdout(&self, asks_client: bool) -> Box<dyn Reporter> {
        let stdout: Box<dyn Write + Send> = match asks_client {
            true => Box::new(WholeLines),
            false => Box::new(io::stdout()),
        };
        let is_text = self.kit.flags.output_format() == Format::Text;
        // An answer goes out byte for byte.
        let stdout = if is_text { stdout } else { runner::inert(stdout, Form::Json) };
        match self.kit.flags.output_format() {
            Format::Json => {
                Box::new(Json::new(stdout, self.kit.session.clone(), self.known_models()))
            }
            Format::StreamJson => {
                let states = self.kit.environment.session_states.filter(|_| asks_client);
                let states = states.map(|who| HostOnly(who == StatesFor::Client));
                let options = StreamOptions { asks_client, states, ..self.stream_options() };
                Box::new(StreamJson::new(stdout, options, self.facts()))
            }
            Format::Text => self.text_reporter(stdout),
        }
    }

    /// Tells whether a live region shows the run.
    pub(in crate::cli) fn is_live(&self) -> bool {
        self.kit.flags.output_format() == Format::Text
            && io::stderr().is_terminal()
            && !self.kit.environment.ci
            && self.kit.has_screen()
    }

    /// On a terminal with a screen a live region, elsewhere plain lines; both on
    /// standard error.
    fn text_reporter(&self, stdout: Box<dyn Write + Send>) -> Box<dyn Reporter> {
        let kind =
            if io::stdout().is_terminal() { StdoutKind::Terminal } else { StdoutKind::Other };
        let stdout = Stdout::new(stdout, kind);
        if self.is_live() {
            let options = LiveOptions {
                colours: !self.kit.environment.no_color,
                tick: Some(TICK),
                clock: Arc::new(run::now),
            };
            let target = indicatif::ProgressDrawTarget::stderr();
            Box::new(Live::new(stdout, Box::new(io::stderr()), target, options))
        } else {
            Box::new(Plain::new(stdout, runner::inert(Box::new(io::stderr()), Form::Text)))
        }
    }

    fn stream_options(&self) -> StreamOptions {
        StreamOptions {
            include_partial_messages: self.kit.flags.include_partial_messages,
            forward_subagent_text: self.kit.flags.forward_subagent_text,
            asks_client: false,
            states: None,
        }
    }

    fn facts(&self) -> Facts {
        Facts {
            session: self.kit.session.clone(),
            cwd: self.kit.root.to_string_lossy().into_owned(),
            tools: self
                .kit
                .tools
                .names()
                .map(str::to_owned)
                .chain(self.later.had.clone())
                .collect(),
            servers: self.kit.servers.glances(),
            agents: self.kit.definitions.names(),
            skills: self.kit.skills.iter().map(|skill| skill.name.clone()).collect(),
            slash_commands: slash::names(&self.kit.skills),
            model: Arc::clone(self.kit.model.name()),
            permission_mode: self.kit.policy.mode().as_str().to_owned(),
            api_key_source: self.kit.key_source().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            sandbox: self.find_sandbox(),
            models: self.known_models(),
        }
    }

    /// Returns what finds out what holds commands.
    fn find_sandbox(&self) -> FindSandbox {
        let sandbox = Arc::clone(&self.kit.sandbox);
        Arc::new(move || sandbox.tried_head())
    }

    /// Tells what is known of the models that are asked.
    fn known_models(&self) -> FindFacts {
        let Kit { config, environment, models, .. } = &self.kit;
        Arc::new(find_facts(config.clone(), environment.clone(), Arc::clone(models)))
    }
}
