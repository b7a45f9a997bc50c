//! A form that a person fills in, one field after the other.
//!
//! It knows what keys and lines say to the field that is shown, and nothing of
//! where they come from. What was said leaves it when all fields have it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::asking::Choices;
use super::words;
use crate::event::{Entry, Field, Form, Question, Verdict};

/// A form, as far as it is filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filling {
    form: Arc<Form>,
    /// What was said to the fields before the one that is shown.
    given: Vec<Entry>,
    /// Which of its options are picked so far, where several may be.
    ticked: BTreeSet<u32>,
}

/// What something that was typed comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filled {
    /// The form is to be shown anew: another field, or another tick.
    GoesOn,
    /// That is all of it.
    Ends(Verdict),
    /// It is no answer.
    NoAnswer,
}

impl Filling {
    /// Begins to fill in what a question asks for; `None` if it is no form.
    #[must_use]
    pub fn of(question: &Question) -> Option<Self> {
        let Question::Form(form) = question else { return None };
        let form = Arc::clone(form);
        (!form.fields.is_empty()).then(|| Self { form, given: Vec::new(), ticked: BTreeSet::new() })
    }

    /// Returns the whole form.
    #[must_use]
    pub fn form(&self) -> &Form {
        &self.form
    }

    /// Returns the field that is shown.
    #[must_use]
    pub fn field(&self) -> &Field {
        &self.form.fields[self.given.len()]
    }

    /// Returns the number of the field that is shown, from 1, and how many
    /// there are.
    #[must_use]
    pub fn position(&self) -> (usize, usize) {
        (self.given.len() + 1, self.form.fields.len())
    }

    /// Tells whether an option is picked so far.
    #[must_use]
    pub fn is_ticked(&self, option: usize) -> bool {
        u32::try_from(option).is_ok_and(|option| self.ticked.contains(&option))
    }

    /// Tells whether options of the field that is shown are being ticked.
    #[must_use]
    pub fn is_ticking(&self) -> bool {
        !self.ticked.is_empty()
    }

    /// Takes a key: the number of an option, or a letter that it offers.
    pub fn key(&mut self, key: char) -> Filled {
        match key.to_digit(10) {
            Some(digit) => self.digit(digit),
            None if key == 'n' => Filled::Ends(Verdict::No),
            None => Filled::NoAnswer,
        }
    }

    /// Tells whether a key says something to the field that is shown.
    #[must_use]
    pub fn takes(&self, key: char) -> bool {
        self.clone().key(key) != Filled::NoAnswer
    }

    /// Takes what is ticked, or passes over the field if it may be empty.
    pub fn enter(&mut self) -> Filled {
        match (self.ticked.is_empty(), self.field().may_be_empty) {
            (false, _) => {
                let ticked = std::mem::take(&mut self.ticked);
                self.give(Entry::Picked(ticked.into_iter().collect()))
            }
            (true, true) => self.give(Entry::Nothing),
            (true, false) => Filled::NoAnswer,
        }
    }

    /// Takes words: a label, numbers of options, or what else it takes.
    pub fn words(&mut self, words: &str) -> Filled {
        let given = self.named(words).or_else(|| match is_numbers(words) {
            // A slip of the finger, and not what somebody has to say.
            true if !self.field().options().is_empty() => None,
            true | false => self.field().words(words),
        });
        given.map_or(Filled::NoAnswer, |given| self.give(given))
    }

    /// Takes a whole line.
    pub fn line(&mut self, line: &str) -> Filled {
        match is_no(line) && self.named(line).is_none() {
            true => Filled::Ends(Verdict::No),
            false => self.words(line),
        }
    }

    fn digit(&mut self, digit: u32) -> Filled {
        let Some(option) = digit.checked_sub(1).filter(|option| self.has(*option)) else {
            return Filled::NoAnswer;
        };
        if !self.field().takes_several() {
            return self.give(Entry::Picked(vec![option]));
        }
        if !self.ticked.remove(&option) {
            self.ticked.insert(option);
        }
        Filled::GoesOn
    }

    fn has(&self, option: u32) -> bool {
        usize::try_from(option).is_ok_and(|option| option < self.field().options().len())
    }

    /// Returns the options that a text names, by their labels or numbers.
    fn named(&self, text: &str) -> Option<Entry> {
        let (field, text) = (self.field(), text.trim());
        let label = field
            .options()
            .iter()
            .position(|option| option.label.trim().eq_ignore_ascii_case(text));
        if let Some(option) = label.and_then(|label| u32::try_from(label).ok()) {
            return Some(Entry::Picked(vec![option]));
        }
        let number = |number: &str| {
            number.parse().ok().and_then(|it: u32| it.checked_sub(1)).filter(|it| self.has(*it))
        };
        let picked: Vec<u32> = numbers(text).map(number).collect::<Option<_>>()?;
        let fits = picked.len() == 1 || (picked.len() > 1 && field.takes_several());
        fits.then_some(Entry::Picked(picked))
    }

    fn give(&mut self, given: Entry) -> Filled {
        self.ticked.clear();
        self.given.push(given);
        if self.given.len() < self.form.fields.len() {
            return Filled::GoesOn;
        }
        let given = std::mem::take(&mut self.given);
        Filled::Ends(Verdict::Filled(self.form.fitted(&given)))
    }
}

fn is_no(line: &str) -> bool {
    matches!(&*line.trim().to_ascii_lowercase(), "n" | "no")
}

fn numbers(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', ' ']).filter(|part| !part.is_empty())
}

fn is_numbers(text: &str) -> bool {
    let is_number = |part: &str| part.chars().all(|c| c.is_ascii_digit());
    numbers(text.trim()).all(is_number) && !text.trim().is_empty()
}

/// A question that lines answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answering {
    /// With one of these.
    Choices(Choices),
    /// With one of these that hold for this once, until all that is asked about is shown.
    Cut {
        /// The answers that it takes then.
        choices: Choices,
        /// All that is asked about, in lines.
        whole: String,
    },
    /// Field by field.
    Form(Filling),
}

/// What a line comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// The answer.
    Answer(Verdict),
    /// A part of it. This asks for the next one.
    Part(String),
    /// No answer. This asks for one.
    NoAnswer(String),
}

impl Answering {
    /// What answers a question that takes these.
    #[must_use]
    pub fn of(question: &Question, choices: Choices) -> Self {
        Filling::of(question).map_or(Self::Choices(choices), Self::Form)
    }

    /// Takes a line, without its end.
    pub fn line(&mut self, line: &str) -> Heard {
        let answer = match self {
            Self::Choices(choices) => choices.read(line),
            Self::Cut { .. } if line.trim() == "d" => {
                let whole = self.show_whole().unwrap_or_default();
                return Heard::Part(format!("{whole}{}: ", self.offered()));
            }
            Self::Cut { choices, whole: _ } => choices.once().read(line),
            Self::Form(filling) => match filling.line(line) {
                Filled::GoesOn => return Heard::Part(words::next_field(filling)),
                Filled::Ends(verdict) => Some(verdict),
                Filled::NoAnswer => None,
            },
        };
        let offered = || format!("that is no answer; type {}: ", self.offered());
        answer.map_or_else(|| Heard::NoAnswer(offered()), Heard::Answer)
    }

    /// Takes every answer from now on, because all that is asked about is shown. Returns
    /// it, if it was not shown before.
    pub fn show_whole(&mut self) -> Option<String> {
        let Self::Cut { choices, whole } = self else { return None };
        let whole = std::mem::take(whole);
        *self = Self::Choices(*choices);
        Some(whole)
    }

    /// Tells whether a line would be an answer.
    #[must_use]
    pub fn is_answer(&self, line: &str) -> bool {
        !matches!(self.clone().line(line), Heard::NoAnswer(_))
    }

    /// Tells whether a line can be meant for nothing but this, although it is
    /// not asked any more. Own words may be a message.
    #[must_use]
    pub fn is_late_answer(&self, line: &str) -> bool {
        match self {
            Self::Choices(choices) | Self::Cut { choices, whole: _ } => {
                choices.read(line).is_some()
            }
            Self::Form(filling) => is_no(line) || filling.named(line).is_some(),
        }
    }

    /// Returns the answers that it takes, in one row.
    #[must_use]
    pub fn offered(&self) -> String {
        match self {
            Self::Choices(choices) => choices.offered(),
            Self::Cut { choices, whole: _ } => {
                format!("{}, d all of it", choices.once().offered())
            }
            Self::Form(filling) => words::field_offers(filling),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Takes;
    use crate::event::testing::{field, form};

    fn filling(fields: Vec<Field>) -> Filling {
        let form = Form { fields, ..form(&[]) };
        Filling::of(&Question::Form(Arc::new(form))).unwrap()
    }

    fn filled(given: &[Entry]) -> Filled {
        Filled::Ends(Verdict::Filled(given.into()))
    }

    fn one() -> Field {
        field("Which database?", &["Postgres", "No", "SQLite"], false)
    }

    fn several() -> Field {
        field("Which parts?", &["Lexer", "Parser", "Printer"], true)
    }

    #[test]
    fn a_key_picks_one_option_and_the_next_field_is_shown() {
        let mut filling = filling(vec![one(), one()]);
        assert_eq!(filling.key('4'), Filled::NoAnswer);
        assert_eq!(filling.key('0'), Filled::NoAnswer);
        assert_eq!(filling.key('x'), Filled::NoAnswer);
        assert_eq!(filling.enter(), Filled::NoAnswer);
        assert_eq!((filling.key('3'), filling.position()), (Filled::GoesOn, (2, 2)));
        assert_eq!(filling.key('1'), filled(&[Entry::Picked(vec![2]), Entry::Picked(vec![0])]));
    }

    #[test]
    fn where_several_may_be_picked_keys_tick_them_and_enter_takes_what_is_ticked() {
        let mut filling = filling(vec![several()]);
        for (key, ticked) in [('3', [2].as_slice()), ('1', &[0, 2]), ('3', &[0]), ('2', &[0, 1])] {
            assert_eq!(filling.key(key), Filled::GoesOn);
            assert!((0..3).all(|it| filling.is_ticked(it) == ticked.contains(&it)), "{filling:?}");
        }
        assert_eq!(filling.enter(), filled(&[Entry::Picked(vec![0, 1])]));
    }

    #[test]
    fn an_n_answers_nothing_of_the_whole_form() {
        let mut filling = filling(vec![one(), one()]);
        assert_eq!(filling.key('1'), Filled::GoesOn);
        assert_eq!(filling.key('n'), Filled::Ends(Verdict::No));
    }

    #[track_caller]
    fn check(field: Field, line: &str, expected: Option<Entry>) {
        let expected = expected.map_or(Filled::NoAnswer, |given| filled(&[given]));
        assert_eq!(filling(vec![field]).line(line), expected, "{line:?}");
    }

    #[test]
    fn a_line_is_numbers_of_options_a_label_or_own_words() {
        check(one(), " 3 ", Some(Entry::Picked(vec![2])));
        check(one(), "sqlite", Some(Entry::Picked(vec![2])));
        // Whoever is offered a no says it.
        check(one(), "no", Some(Entry::Picked(vec![1])));
        check(one(), "MySQL", Some(Entry::Words("MySQL".into())));
        check(one(), "2 of them", Some(Entry::Words("2 of them".into())));
        for line in ["", "7", "0", "1,2", "1 2"] {
            check(one(), line, None);
        }
        check(several(), "1,3", Some(Entry::Picked(vec![0, 2])));
        check(several(), "3 1", Some(Entry::Picked(vec![0, 2])));
        check(several(), "1, 4", None);
        let number = Field { takes: Takes::Number { is_whole: true }, ..one() };
        check(number.clone(), "42", Some(Entry::Words("42".into())));
        check(number.clone(), "4.2", None);
        check(number.clone(), "", None);
        check(Field { may_be_empty: true, ..number }, "", Some(Entry::Nothing));
        assert_eq!(filling(vec![several()]).line("N"), Filled::Ends(Verdict::No));
    }

    #[test]
    fn lines_are_asked_for_field_by_field() {
        let form = Form { fields: vec![one(), several()], ..form(&[]) };
        let mut answering = Answering::of(&Question::Form(Arc::new(form)), Choices::Form);
        assert_eq!(
            answering.line("9"),
            Heard::NoAnswer(
                "that is no answer; type 1-3 or your own words, n no answer: ".to_owned()
            )
        );
        assert_eq!(
            answering.line("1"),
            Heard::Part(
                "(2 of 2)\n  | Which parts?\n  | 1 Lexer: what Lexer means\n  | 2 Parser: what \
                 Parser means\n  | 3 Printer: what Printer means\n1-3 (several as 1,3) or your own \
                 words, n no answer: "
                    .to_owned()
            )
        );
        let verdict = Verdict::Filled([Entry::Picked(vec![0]), Entry::Picked(vec![1])].into());
        assert_eq!(answering.line("parser"), Heard::Answer(verdict));
    }
}
