//! What is sent from the line: a message, a command, a line for the shell.

use super::listing::{Choice, Item, Listing};
use super::{Desk, Focus, Step};
use crate::cli::chat::commands::What;
use crate::cli::chat::meaning::{Meaning, meaning, too_much};
use crate::cli::chat::turns::in_background;
use crate::config::Theme;
use crate::event::UnitId;
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
            Meaning::Wrote => vec![Step::Tell(FromUser::Wrote(text.into()))],
            Meaning::Prompt => vec![self.turns.ask(Step::Invoke(text.to_owned()))],
            Meaning::Quit => vec![self.turns.leave_now()],
            Meaning::Tasks => {
                self.tasks();
                Vec::new()
            }
            Meaning::Theme(name) => self.theme(name),
            Meaning::Command(what, arguments) => {
                self.may_switch(what)?;
                self.is_switching |=
                    what == What::Clear || what == What::Resume && !arguments.is_empty();
                vec![Step::Command(what, arguments.to_owned())]
            }
        })
    }

    /// Says that agents would end with a session, once.
    fn may_switch(&mut self, what: What) -> Result<(), String> {
        let background = self.board.units().background().count();
        let leaves = matches!(what, What::Clear | What::Resume);
        if !leaves || background == 0 || std::mem::take(&mut self.wants_to_switch) {
            return Ok(());
        }
        self.wants_to_switch = true;
        Err(format!("{}: Enter again ends it and goes on", in_background(background)))
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
