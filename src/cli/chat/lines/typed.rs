//! What is typed at a chat without a screen, and what it sets off.

use super::Lines;
use super::offer::{Answer, Offer};
use crate::cli::chat::commands::{COMMANDS, Command, What};
use crate::cli::chat::desk::Step;
use crate::cli::chat::desk::listing::Choice;
use crate::cli::chat::meaning::{Meaning, meaning, too_much};
use crate::event::{QuestionId, UnixMillis};
use crate::report::filling::Heard;
use crate::report::questions::OpenQuestion;
use crate::report::{Choices, sanitise, words};
use crate::run::{FromUser, WROTE_CAP};

/// How long an answer may have been on its way to the question before, in
/// milliseconds, where that one was taken back.
pub(super) const LATE: u64 = 1_000;

/// Columns that a question is shown in as a whole.
const COLUMNS: usize = 80;

/// How a chat without a screen goes.
const HELP: [&str; 6] = [
    "A line is a message; one that ends in a backslash goes on in the next.",
    "While a turn is under way it waits until the model can read it.",
    "Ctrl-C ends the turn, twice ends everything; Ctrl-D leaves.",
    "`!COMMAND` runs a line of the shell.",
    "A question says what answers it; `d` shows all that it is about.",
    "A list takes the number of what is chosen; `/tasks` stops agents and runs them again.",
];

impl Lines {
    /// Ctrl-C: what is not sent goes, else the turn ends; the second one ends
    /// all.
    pub(super) fn interrupt(&mut self, now: UnixMillis) -> Vec<Step> {
        self.page.broken_off();
        // The system has thrown away what was typed of a line.
        self.part.clear();
        let had_begun = !std::mem::take(&mut self.begun).is_empty();
        if self.offer.take().is_some() || had_begun {
            return Vec::new();
        }
        if let Some(leave) = self.turns.second_interrupt(now) {
            return vec![leave];
        }
        self.page.line(&self.turns.first_interrupt(now));
        if !self.is_busy() {
            return Vec::new();
        }
        let mut steps = Vec::new();
        if !self.waiting.is_empty() {
            for text in self.waiting.iter() {
                self.page.line(&format!("not sent: {}", sanitise::text(text)));
            }
            steps.push(Step::Tell(FromUser::TookBack));
        }
        steps.push(Step::Tell(FromUser::EndTurn));
        steps
    }

    /// Ctrl-D: leaves, if nothing would be lost by it or it was said twice.
    pub(super) fn end_of_input(&mut self) -> Vec<Step> {
        self.page.broken_off();
        match self.turns.leave(self.units.background().count()) {
            Ok(leave) => vec![leave],
            Err(why) => {
                self.page.line(&why);
                Vec::new()
            }
        }
    }

    /// Takes what was typed: a line, or a part of one.
    pub(super) fn typed(&mut self, text: &str, now: UnixMillis) -> Vec<Step> {
        self.turns.not_interrupted();
        self.turns.stays();
        self.is_looking = false;
        self.part.push_str(text);
        if self.begun.len() + self.part.len() > WROTE_CAP.1 {
            let why = too_much(&(std::mem::take(&mut self.begun) + &self.part), false, [].iter());
            self.part.clear();
            self.page.entered();
            why.iter().for_each(|why| self.say(why));
            return Vec::new();
        }
        if !self.part.ends_with('\n') {
            return Vec::new();
        }
        self.page.entered();
        let line = std::mem::take(&mut self.part);
        if let Some(shown) = &self.shown {
            let is_late = shown.took_place && now.since(shown.since) < LATE;
            return self.answer(line.trim(), shown.id, is_late);
        }
        let taken_back = self.taken_back.take();
        if taken_back.is_some_and(|answering| answering.is_late_answer(line.trim())) {
            self.say("the question is taken back; that is not sent");
            return Vec::new();
        }
        if let Some(offer) = self.offer.take() {
            return self.choose(offer, line.trim());
        }
        if let Some(line) = line.trim_end_matches('\n').strip_suffix('\\') {
            self.begun.push_str(line);
            self.begun.push('\n');
            return Vec::new();
        }
        let text = std::mem::take(&mut self.begun) + &line;
        self.message(text.trim())
    }

    /// Sends what the chat was started with, which nobody has typed here.
    pub(super) fn first(&mut self, text: &str) -> Vec<Step> {
        self.say(&format!("> {text}"));
        match too_much(text, false, [].iter()) {
            None => self.message(text.trim()),
            Some(why) => {
                self.say(&why);
                Vec::new()
            }
        }
    }

    fn answer(&mut self, line: &str, id: QuestionId, is_late: bool) -> Vec<Step> {
        let is_asked_whole = |open: &OpenQuestion| line == "d" && open.choices != Choices::Batch;
        let whole = self.questions.first().filter(|(_, open)| is_asked_whole(open));
        if let Some((_, open)) = whole {
            let rows = words::asked_whole(&open.name, &open.question, open.choices, COLUMNS);
            rows.iter().for_each(|row| self.page.line(&row.text));
            if let Some(shown) = &mut self.shown {
                // The rows above show the same.
                drop(shown.answering.show_whole());
            }
            return Vec::new();
        }
        let Some(shown) = &mut self.shown else { return Vec::new() };
        if is_late && shown.answering.is_answer(line) {
            self.say("the question before was taken back; this is another");
            return Vec::new();
        }
        match shown.answering.line(line) {
            Heard::Answer(verdict) => {
                (self.shown, self.answered) = (None, Some(id));
                self.page.hold(false);
                return vec![Step::Tell(FromUser::Answered { id, verdict })];
            }
            Heard::Part(asked) | Heard::NoAnswer(asked) => self.page.prompt(&asked),
        }
        Vec::new()
    }

    fn message(&mut self, text: &str) -> Vec<Step> {
        if text.is_empty() {
            return Vec::new();
        }
        if let Some(why) = too_much(text, self.is_busy(), self.waiting.iter()) {
            self.say(&why);
            return Vec::new();
        }
        match meaning(text, self.is_busy(), &self.about.skills) {
            Err(why) => self.say(&why),
            Ok(Meaning::Shell(line)) => return vec![Step::Shell(line.to_owned())],
            Ok(Meaning::Wrote) => return vec![Step::Tell(FromUser::Wrote(text.into()))],
            Ok(Meaning::Prompt) => return vec![self.turns.ask(Step::Invoke(text.to_owned()))],
            Ok(Meaning::Quit) => return vec![self.turns.leave_now()],
            Ok(Meaning::Tasks) => match Offer::of_units(&self.units, self.turns.is_at_work()) {
                Some(offer) => self.offer(offer),
                None => self.say("no agent is at work"),
            },
            Ok(Meaning::Theme(_)) => self.say("there are no colours without a screen"),
            Ok(Meaning::Command(What::Help, _)) => self.help(),
            Ok(Meaning::Command(what, arguments)) => {
                self.is_looking = true;
                return vec![Step::Command(what, arguments.to_owned())];
            }
        }
        Vec::new()
    }

    fn help(&mut self) {
        HELP.iter().for_each(|line| self.page.line(line));
        let commands = COMMANDS.iter().filter(|command| command.what != What::Theme);
        for Command { name, arguments, about, .. } in commands {
            let arguments = if arguments.is_empty() { "" } else { &format!(" {arguments}") };
            self.page.line(&format!("/{name}{arguments}: {about}"));
        }
        for (name, about) in self.about.skills.clone() {
            self.say(&format!("/{name}: {about}"));
        }
    }

    /// Takes what was chosen from a list.
    fn choose(&mut self, offer: Offer, line: &str) -> Vec<Step> {
        let answer = match offer.read(line) {
            Ok(answer) => answer,
            Err(why) => {
                self.page.prompt(&why);
                self.offer = Some(offer);
                return Vec::new();
            }
        };
        match answer {
            Answer::Unit(unit, name) => {
                self.offer(Offer::of_unit(unit, &name));
                Vec::new()
            }
            Answer::Tell(said) => vec![Step::Tell(said)],
            Answer::Nothing | Answer::Chosen(Choice::Nothing) => Vec::new(),
            Answer::Chosen(Choice::Text(text)) => {
                self.say(&format!("type `{text}` and the name behind it"));
                Vec::new()
            }
            Answer::Chosen(choice) => {
                self.is_looking = true;
                vec![Step::Chosen(choice)]
            }
        }
    }
}
