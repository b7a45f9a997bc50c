//! Runs, made of what was read at the start.

use std::sync::Arc;

use tempfile::TempDir;
use tokio::sync::mpsc;

use super::reporters::Asker;
use super::{Begun, Sitter, Sitting, Start};
use crate::cli::exit::Refusal;
use crate::cli::kit::Kit;
use crate::cli::{asking, rules};
use crate::hook::Source;
use crate::run::{Boundaries, FromUser, Main, Prompts, Reporter, Run, Signal};

impl Start {
    /// Builds the run of one prompt. The directory that comes with it must live
    /// as long.
    pub(in crate::cli) fn run(
        self,
        typed: &str,
        main: Main,
        signals: mpsc::Receiver<Signal>,
    ) -> Result<(Run, Option<TempDir>), Refusal> {
        // Whoever is not there cannot be asked.
        let has_people = !self.kit.environment.ci;
        let asker = move || match asking::on_terminal().filter(|_| has_people) {
            Some((prompter, answers)) => (Asker::Terminal(prompter), Some(answers)),
            None => (Asker::Nobody, None),
        };
        self.once(typed, main, asker, signals)
    }

    /// Builds the run of one prompt that is shown to nobody but `shown`, and in
    /// which nobody can be asked.
    pub(in crate::cli) fn run_for(
        self,
        typed: &str,
        main: Main,
        shown: Box<dyn Reporter>,
        signals: mpsc::Receiver<Signal>,
    ) -> Result<(Run, Option<TempDir>), Refusal> {
        self.once(typed, main, || (Asker::Sitter(Sitter::Chat(shown)), None), signals)
    }

    /// The terminal is spoken to only once the session is open.
    fn once(
        mut self,
        typed: &str,
        main: Main,
        asker: impl FnOnce() -> (Asker, Option<mpsc::Receiver<FromUser>>),
        signals: mpsc::Receiver<Signal>,
    ) -> Result<(Run, Option<TempDir>), Refusal> {
        let boundaries = Boundaries { begins: Some(self.begins()), ends: true };
        self.later.logs_anyway = matches!(main, Main::Flow { .. });
        let begun = self.begin()?;
        let (asker, answers) = asker();
        let reporters = self.reporters(asker)?;
        self.note.iter().for_each(crate::cli::say);
        let prompts = Prompts::One(Box::new(self.kit.invoked(typed, main)));
        self.assemble(begun, prompts, (reporters, boundaries), (signals, answers))
    }

    /// Builds a run that lives on, and what its prompts are made with.
    pub(in crate::cli) fn sit(
        mut self,
        sitting: Sitting,
    ) -> Result<(Run, Arc<Kit>, Option<TempDir>), Refusal> {
        let Sitting { signals, answers, asking, sitter, follows } = sitting;
        let begins = if follows && self.is_new() { Source::Clear } else { self.begins() };
        let boundaries = Boundaries { begins: Some(begins), ends: true };
        // Nobody knows yet what will be asked for.
        self.later.logs_anyway = true;
        let begun = self.begin()?;
        let reporters = self.reporters(Asker::Sitter(sitter))?;
        self.note.iter().for_each(crate::cli::say);
        let kit = Arc::new(self.kit.clone());
        let prompts = Prompts::Many(asking);
        let around = (reporters, boundaries);
        let (run, scratch) = self.assemble(begun, prompts, around, (signals, Some(answers)))?;
        Ok((run, kit, scratch))
    }

    fn assemble(
        mut self,
        begun: Begun,
        prompts: Prompts,
        (reporters, boundaries): (Vec<Box<dyn Reporter>>, Boundaries),
        (signals, answers): (mpsc::Receiver<Signal>, Option<mpsc::Receiver<FromUser>>),
    ) -> Result<(Run, Option<TempDir>), Refusal> {
        let Begun { head, resumed, log } = begun;
        let (max_turns, budget) = (self.kit.flags.turn_limit(), self.budget());
        let scratch = self.scratch.take();
        let keep_rule = rules::keep(&self.kit.environment);
        // Without one of its own, what an earlier process has written can still be read.
        let from = resumed.as_ref().map(|resumed| resumed.from.clone());
        let log_of_units = log.as_ref().map(|_| self.kit.directory.clone()).or(from);
        let run = Run {
            prompts,
            fanout: Arc::new(self.fanout(answers.is_some(), log_of_units)?),
            head,
            resumed,
            max_turns,
            budget,
            log,
            reporters,
            signals,
            answers,
            keep_rule,
            boundaries,
        };
        Ok((run, scratch))
    }
}
