//! What is sent from the line: a message, a command, a line for the shell.

use super::listing::{Choice, Item, Listing};
use super::{Desk, Focus, Step};
use crate::cli::chat::commands::{Command, What};
use crate::cli::chat::meaning::{Meaning, meaning, too_much};
use crate::config::Theme;
use crate::event::UnitId;
use crate::message::counted;
use crate::report::ink::Ink;
use crate::report::row::Row;
use crate::run::FromUser;

impl Desk {
    /// Sends what stands in the line.
    pub(super) fn submit(&mut self) -> Vec<Step> {
        let text = self.line.text().trim().to_owned();
        if text.is_empty() {
            return Vec::new();
        }
        if let Some(why) = too_much(&text, self.is_busy(), self.commits.waiting()) {
            self.note = Some(why);
            return Vec::new();
        }
        let step = match self.meaning(&text) {
            Ok(step) => step,
            Err(why) => {
                self.note = Some(why);
                return Vec::new();
            }
        };
        let (_, kept) = self.line.take();
        if let Err(error) = kept {
            self.note = Some(format!("the history is not kept: {error}"));
        }
        self.complete();
        step
    }

    /// Returns what a text sets off, or why it has to wait.
    fn meaning(&mut self, text: &str) -> Result<Vec<Step>, String> {
        Ok(match meaning(text, self.is_busy(), &self.about.skills)? {
            Meaning::Shell(line) => vec![Step::Shell(line.to_owned())],
            Meaning::Command(command, arguments) => {
                self.may_switch(command)?;
                self.command(command, text, arguments)
            }
            Meaning::Wrote => vec![Step::Tell(FromUser::Wrote(text.into()))],
            Meaning::Prompt => self.invoke(text),
        })
    }

    /// Says that agents would end with a session, once.
    fn may_switch(&mut self, command: &Command) -> Result<(), String> {
        let background = self.board.units().background().count();
        let leaves = matches!(command.what, What::Clear | What::Resume);
        if !leaves || background == 0 || std::mem::take(&mut self.wants_to_switch) {
            return Ok(());
        }
        self.wants_to_switch = true;
        let agents = counted(background as u64, "agent");
        Err(format!("{agents} in the background: Enter again ends it and goes on"))
    }

    fn invoke(&mut self, text: &str) -> Vec<Step> {
        self.is_pending = true;
        vec![Step::Invoke(text.to_owned())]
    }

    fn command(&mut self, command: &Command, text: &str, arguments: &str) -> Vec<Step> {
        if command.what == What::Clear || command.what == What::Resume && !arguments.is_empty() {
            self.is_switching = true;
        }
        match command.what {
            // What they mean is said by what a prompt means.
            What::Fork | What::Compact => self.invoke(text),
            What::Quit => {
                self.is_leaving = true;
                vec![Step::Leave { at_once: false }]
            }
            What::Tasks => {
                self.tasks();
                Vec::new()
            }
            What::Theme => self.theme(arguments),
            What::Help
            | What::Model
            | What::Models
            | What::Agents
            | What::Usage
            | What::Context
            | What::Permissions
            | What::Diff
            | What::Undo
            | What::Rewind
            | What::Resume
            | What::Rename
            | What::Export
            | What::Skills
            | What::Mcp
            | What::Clear => vec![Step::Command(command.what, arguments.to_owned())],
        }
    }

    fn theme(&mut self, name: &str) -> Vec<Step> {
        if let Some(theme) = Theme::from_name(name) {
            return vec![Step::Colour(theme)];
        }
        let item = |theme: Theme| Item {
            row: Row::new().text(Ink::Plain, theme.as_str()),
            choice: Choice::Theme(theme),
        };
        let list = Listing::new("theme", Theme::ALL.into_iter().map(item).collect());
        (self.list, self.focus) = (Some(list), Focus::List);
        Vec::new()
    }

    /// Lists the units that can be followed.
    fn tasks(&mut self) {
        let units = self.strands.known();
        if units.is_empty() {
            let row = Row::new().text(Ink::Dim, "no agent has worked in this session yet");
            self.commits.note(vec![row]);
            return;
        }
        let item = |(unit, name, state): (UnitId, String, &'static str)| Item {
            row: Row::new().text(Ink::Plain, &name).text(Ink::Dim, &format!("  {state}  {unit}")),
            choice: Choice::Strand(unit),
        };
        let list = Listing::new(
            "agents of this chat, and the last that ended",
            units.into_iter().map(item).collect(),
        );
        (self.list, self.focus) = (Some(list), Focus::List);
    }
}
