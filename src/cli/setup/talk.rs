//! The questions and answers of a set-up, a line each.

use std::fmt;
use std::io::{self, BufRead, Read as _, Write};

use super::Source;
use crate::model::http::probe::AvailableModel;
use crate::report::sanitise;
use crate::slips;

/// Most bytes of a line that is typed here.
const LINE_CAP: u64 = 4_096;

/// Most models that are listed; of more, a part of the name is asked for.
const LISTED_CAP: usize = 12;

/// Most names that are proposed in place of one that there is not.
const NEAR_CAP: usize = 3;

/// Most letters of a name that is compared with others.
const NAME_CAP: usize = 64;

/// Why the next question is not reached.
#[derive(Debug)]
pub(super) enum Stop {
    /// Whoever was asked has gone.
    Gone,
    /// This cannot be had, which was said; the first question is put again.
    Again,
}

impl From<io::Error> for Stop {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

/// Somebody to talk to.
pub(super) struct Dialogue<'a> {
    pub(super) input: &'a mut dyn BufRead,
    pub(super) out: &'a mut dyn Write,
}

impl Dialogue<'_> {
    /// Says a line. It may quote what a server said.
    pub(super) fn say(&mut self, line: impl fmt::Display) -> Result<(), Stop> {
        writeln!(self.out, "{}", sanitise::line(&line.to_string()))?;
        Ok(self.out.flush()?)
    }

    /// Asks for a line; a line that is empty is the `usual` answer.
    pub(super) fn ask(&mut self, question: &str, usual: &str) -> Result<String, Stop> {
        let usual_shown = if usual.is_empty() { String::new() } else { format!(" [{usual}]") };
        write!(self.out, "{question}{}: ", sanitise::line(&usual_shown))?;
        self.out.flush()?;
        let mut line = String::new();
        if self.input.take(LINE_CAP).read_line(&mut line)? == 0 {
            return Err(Stop::Gone);
        }
        let line = line.trim();
        Ok(if line.is_empty() { usual.to_owned() } else { line.to_owned() })
    }

    /// Says why something cannot be had.
    pub(super) fn refuse(&mut self, why: impl fmt::Display) -> Stop {
        let mut say = || why.to_string().lines().try_for_each(|line| self.say(line));
        say().err().unwrap_or(Stop::Again)
    }

    /// Asks which of several things it shall be.
    pub(super) fn source<'s>(&mut self, sources: &'s [Source]) -> Result<&'s Source, Stop> {
        for (number, source) in (1..).zip(sources) {
            self.say(format_args!("  {number}  {source}"))?;
        }
        loop {
            let answer = self.ask("which one", "1")?;
            let number: Option<usize> = answer.parse().ok();
            let chosen = number.and_then(|number| sources.get(number.checked_sub(1)?));
            let named = || sources.iter().find(|source| source.name() == answer);
            match chosen.or_else(named) {
                Some(source) => return Ok(source),
                None => self
                    .say(format_args!("a number from 1 to {}, or a name, please", sources.len()))?,
            }
        }
    }

    /// Asks for one of a server's models.
    pub(super) fn model(&mut self, models: &[AvailableModel]) -> Result<AvailableModel, Stop> {
        let id = self.model_id(models)?;
        let listed = models.iter().find(|model| model.id == id).cloned();
        Ok(listed.unwrap_or(AvailableModel { id, context_window: None }))
    }

    fn model_id(&mut self, models: &[AvailableModel]) -> Result<String, Stop> {
        let models: Vec<&str> = models.iter().map(|model| model.id.as_str()).collect();
        let mut shown: Vec<&str> = Vec::new();
        match models.len() {
            0 => self.say("it does not say which models it has")?,
            1..=LISTED_CAP => shown = self.list(models.clone())?,
            count => self.say(format_args!("it has {count} models; a part of the name will do"))?,
        }
        loop {
            let usual = shown.first().copied().unwrap_or_default();
            let answer = self.ask("which model", usual)?;
            let number: Option<usize> = answer.parse().ok();
            if let Some(model) = number.and_then(|number| shown.get(number.checked_sub(1)?)) {
                return Ok((*model).to_owned());
            }
            if answer.is_empty() {
                continue;
            }
            if models.is_empty() || models.contains(&answer.as_str()) {
                return Ok(answer);
            }
            let part = answer.to_lowercase();
            let fits = |model: &&str| model.to_lowercase().contains(&part);
            let fitting: Vec<&str> = models.iter().copied().filter(fits).collect();
            match fitting.as_slice() {
                [] => self.propose(&models, &answer)?,
                [only] => return Ok((*only).to_owned()),
                some if some.len() <= LISTED_CAP => shown = self.list(fitting)?,
                many => self.say(format_args!("{} have that in their name", many.len()))?,
            }
        }
    }

    fn list<'s>(&mut self, models: Vec<&'s str>) -> Result<Vec<&'s str>, Stop> {
        for (number, model) in (1..).zip(&models) {
            self.say(format_args!("  {number}  {model}"))?;
        }
        Ok(models)
    }

    /// Names the models whose names are most like this one.
    fn propose(&mut self, models: &[&str], name: &str) -> Result<(), Stop> {
        let letters = |name: &str| -> Vec<char> { name.chars().take(NAME_CAP).collect() };
        let meant = letters(name);
        let mut near: Vec<(usize, &str)> =
            models.iter().map(|model| (slips::distance(&meant, &letters(model)), *model)).collect();
        near.sort();
        let near: Vec<&str> = near.iter().take(NEAR_CAP).map(|(_, model)| *model).collect();
        self.say(format_args!("it has no such model; the nearest: {}", near.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn available(ids: &[&str]) -> Vec<AvailableModel> {
        let model = |id: &&str| AvailableModel { id: (*id).to_owned(), context_window: None };
        ids.iter().map(model).collect()
    }

    #[track_caller]
    fn check(typed: &str, models: &[&str], chosen: Option<&str>, shown: &str) {
        let models = available(models);
        let mut out = Vec::new();
        let mut dialogue = Dialogue { input: &mut typed.as_bytes(), out: &mut out };
        assert_eq!(dialogue.model(&models).ok().map(|model| model.id).as_deref(), chosen);
        assert_eq!(String::from_utf8(out).unwrap(), shown);
    }

    #[test]
    fn a_model_is_chosen_by_number_name_or_part_of_it() {
        let both = "  1  qwen3:8b\n  2  llama3.2\nwhich model [qwen3:8b]: ";
        check("\n", &["qwen3:8b", "llama3.2"], Some("qwen3:8b"), both);
        check("2\n", &["qwen3:8b", "llama3.2"], Some("llama3.2"), both);
        check("LLAMA\n", &["qwen3:8b", "llama3.2"], Some("llama3.2"), both);
        check("", &["qwen3:8b", "llama3.2"], None, both);
        let near = "it has no such model; the nearest: llama3.2, qwen3:8b\n";
        let again = format!("{both}{near}which model [qwen3:8b]: ");
        check("lama3.3\n1\n", &["qwen3:8b", "llama3.2"], Some("qwen3:8b"), &again);
        let none = "it does not say which models it has\nwhich model: which model: ";
        check("\nany\n", &[], Some("any"), none);
    }

    #[test]
    fn of_many_models_a_part_of_the_name_is_asked_for() {
        let names: Vec<String> = (0..40).map(|number| format!("maker/model-{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let shown = "it has 40 models; a part of the name will do\nwhich model: \
                     40 have that in their name\nwhich model: \
                     \x20 1  maker/model-3\n";
        let mut out = Vec::new();
        let models = available(&names);
        let typed = "model\nmodel-3\n2\n";
        let mut dialogue = Dialogue { input: &mut typed.as_bytes(), out: &mut out };
        assert_eq!(dialogue.model(&models).unwrap().id, "maker/model-30");
        assert!(String::from_utf8(out).unwrap().starts_with(shown));
    }

    #[test]
    fn what_a_server_calls_its_models_does_nothing_to_the_terminal() {
        let shown = "  1  a\\u{1b}[2Jb\nwhich model [a\\u{1b}[2Jb]: ";
        check("1\n", &["a\u{1b}[2Jb"], Some("a\u{1b}[2Jb"), shown);
    }
}
