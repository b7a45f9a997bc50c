//! What keys say to the question that is shown.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::panels::Keys;
use super::{Desk, Focus, Step};
use crate::cli::chat::line::State;
use crate::cli::chat::meaning::too_much;
use crate::cli::chat::turns::AGAIN;
use crate::event::{QuestionId, UnixMillis, Verdict};
use crate::report::Choices;
use crate::report::filling::{Filled, Filling};
use crate::report::panel::{Asked, whole_question};
use crate::report::questions::OpenQuestion;
use crate::run::FromUser;

/// How soon a second letter makes words of an answer's letter, in milliseconds:
/// whoever begins a message with `also` allows nothing always.
const WORD_GAP: u64 = 350;

/// A letter that answers a question unless it begins a word.
#[derive(Debug)]
pub(super) struct Held {
    id: QuestionId,
    pub(super) key: KeyEvent,
    since: UnixMillis,
}

impl Held {
    /// Returns when it is an answer.
    pub(super) fn until(&self) -> UnixMillis {
        UnixMillis(self.since.0 + WORD_GAP)
    }
}

impl Desk {
    /// Tells whether something is due by now.
    pub(in crate::cli::chat) fn is_due(&self, now: UnixMillis) -> bool {
        let held = self.held.as_ref().map(Held::until);
        held.into_iter().chain(self.turns.forgets_interrupt()).any(|at| at <= now)
    }

    /// Does what is due by now. Not while a key waits to be read, which may have
    /// been typed before.
    pub(in crate::cli::chat) fn due(&mut self, now: UnixMillis) -> Vec<Step> {
        if self.turns.forgets_interrupt().is_some_and(|at| at <= now) {
            self.turns.not_interrupted();
            self.note.take_if(|note| note.starts_with(AGAIN));
        }
        match self.held.take_if(|held| held.until() <= now) {
            Some(held) => self.answer(&held).into_iter().collect(),
            None => Vec::new(),
        }
    }

    /// Takes the letter that is held for what the next key makes it: words, if
    /// that is another letter, an answer, if it is Enter or the same, and else
    /// nothing. Returns what follows if that is all there is to the key.
    pub(super) fn held_key(&mut self, key: KeyEvent) -> Option<Vec<Step>> {
        let held = self.held.take()?;
        match (key.code, key.modifiers - KeyModifiers::SHIFT) {
            // A key that is held down repeats.
            (code, KeyModifiers::NONE) if code == KeyCode::Enter || code == held.key.code => {
                Some(self.answer(&held).into_iter().collect())
            }
            (KeyCode::Backspace | KeyCode::Esc, _) => Some(Vec::new()),
            (KeyCode::Char(_), KeyModifiers::NONE) => {
                // What the first letter asks for, the second asks for again.
                self.line_takes(held.key);
                None
            }
            (_, _) => None,
        }
    }

    fn answer(&mut self, held: &Held) -> Option<Step> {
        // It is for the question that was shown when it was typed.
        let id = self.questions.first().map(|(id, _)| id).filter(|id| *id == held.id)?;
        let KeyCode::Char(letter) = held.key.code else { return None };
        let letter = letter.to_ascii_lowercase();
        if letter == 'd' {
            self.show_whole_question();
        }
        if let Some(filling) = &mut self.filling {
            let filled = filling.key(letter);
            return self.filled(id, filled);
        }
        let verdict = verdict(self.offered, letter)?;
        Some(Step::Tell(FromUser::Answered { id, verdict }))
    }

    /// Goes on with a form: its next field has to be seen as any question has,
    /// before a key answers it.
    fn filled(&mut self, id: QuestionId, filled: Filled) -> Option<Step> {
        match filled {
            Filled::NoAnswer => None,
            Filled::Ends(verdict) => Some(Step::Tell(FromUser::Answered { id, verdict })),
            Filled::GoesOn => {
                let is_ticking = self.filling.as_ref().is_some_and(Filling::is_ticking);
                self.seen_since = self.seen_since.filter(|_| is_ticking);
                None
            }
        }
    }

    pub(super) fn question_key(&mut self, key: KeyEvent, now: UnixMillis) -> Vec<Step> {
        let Some((id, open)) = self.questions.first() else { return self.line_takes(key) };
        let choices = open.choices;
        let counts = self.question_keys(now) == Keys::Answer;
        let modifiers = key.modifiers - KeyModifiers::SHIFT;
        match (key.code, modifiers) {
            (KeyCode::Tab, KeyModifiers::NONE) => {
                self.focus = Focus::Line;
                Vec::new()
            }
            (KeyCode::Esc, _) if self.is_busy() => self.end_turn(),
            (KeyCode::Esc, _) => {
                self.focus = Focus::Line;
                Vec::new()
            }
            (KeyCode::Up | KeyCode::Down, KeyModifiers::NONE) => self.pick_by_arrow(key.code),
            (KeyCode::Enter, KeyModifiers::NONE) if counts && self.filling.is_some() => {
                let filled = self.filling.as_mut().map_or(Filled::NoAnswer, Filling::enter);
                self.filled(id, filled).into_iter().collect()
            }
            (KeyCode::Char(letter @ '1'..='9'), KeyModifiers::NONE) if !self.fills(letter) => {
                self.pick_by_number(letter, "")
            }
            // Of a field that nobody has seen yet it picks nothing, and no unit either.
            (KeyCode::Char(digit @ '1'..='9'), KeyModifiers::NONE)
                if !counts && self.fills(digit) =>
            {
                Vec::new()
            }
            (KeyCode::Char(letter), KeyModifiers::NONE) if counts => {
                match letter.to_ascii_lowercase() {
                    'm' if self.takes_words(choices) => {
                        let draft = self.line.text().to_owned();
                        self.line.clear();
                        self.focus = Focus::Reason { id, draft };
                        self.begin_to_write();
                        Vec::new()
                    }
                    // Ticks can be taken back, and several come fast.
                    digit @ '1'..='9' if self.is_ticked_by(digit) => {
                        let filled = self.filling.as_mut().map(|filling| filling.key(digit));
                        filled.and_then(|it| self.filled(id, it)).into_iter().collect()
                    }
                    letter if letter == 'd' || self.is_answer(letter) => {
                        self.held = Some(Held { id, key, since: now });
                        Vec::new()
                    }
                    // Whoever types words writes to the model.
                    _ => self.line_takes(key),
                }
            }
            _ => self.line_takes(key),
        }
    }

    /// Tells whether a digit picks an option, or will in a moment.
    fn fills(&self, digit: char) -> bool {
        self.filling.as_ref().is_some_and(|filling| filling.takes(digit))
    }

    fn is_ticked_by(&self, digit: char) -> bool {
        let ticks = |filling: &Filling| filling.field().takes_several() && filling.takes(digit);
        self.filling.as_ref().is_some_and(ticks)
    }

    fn takes_words(&self, choices: Choices) -> bool {
        match choices {
            Choices::Batch => false,
            Choices::Call { .. } => true,
            Choices::Form => {
                self.filling.as_ref().is_some_and(|filling| filling.field().takes_words())
            }
        }
    }

    fn is_answer(&self, letter: char) -> bool {
        match &self.filling {
            Some(filling) => filling.takes(letter),
            None => verdict(self.offered, letter).is_some(),
        }
    }

    /// Puts all that is asked about into the scrollback.
    fn show_whole_question(&mut self) {
        if let Some((id, open)) = self.questions.first() {
            let OpenQuestion { unit: _, name, question, choices } = open;
            let asked = Asked {
                name,
                question,
                choices: *choices,
                filling: self.filling.as_ref(),
                waiting: self.questions.waiting(),
                takes_keys: true,
                was_shown_whole: true,
            };
            self.commits.note(whole_question(asked, self.columns()));
            self.shown_whole = Some(id);
        }
    }

    pub(super) fn reason_key(&mut self, key: KeyEvent, id: QuestionId, draft: &str) -> Vec<Step> {
        let is_send = key.code == KeyCode::Enter && key.modifiers.is_empty();
        if key.code == KeyCode::Esc {
            self.end_reason(draft);
            return Vec::new();
        }
        if !is_send {
            self.line.key(key);
            return Vec::new();
        }
        let words = self.line.text().trim().to_owned();
        if let Some(why) = too_much(&words, false, std::iter::empty()) {
            self.note = Some(why);
            return Vec::new();
        }
        if self.filling.is_some() {
            return self.fill_in(&words, id, draft);
        }
        let verdict = match &*words {
            "" => Verdict::No,
            words => Verdict::NoBecause(words.into()),
        };
        self.end_reason(draft);
        vec![Step::Tell(FromUser::Answered { id, verdict })]
    }

    /// Answers the field that is shown with words.
    fn fill_in(&mut self, words: &str, id: QuestionId, draft: &str) -> Vec<Step> {
        match self.filling.as_mut().map_or(Filled::NoAnswer, |filling| filling.words(words)) {
            Filled::NoAnswer => {
                self.note = Some("that is no answer to it".to_owned());
                Vec::new()
            }
            filled @ (Filled::GoesOn | Filled::Ends(_)) => {
                self.end_reason(draft);
                self.filled(id, filled).into_iter().collect()
            }
        }
    }

    /// Has letters be letters where they would be commands of vi.
    fn begin_to_write(&mut self) {
        if matches!(self.line.state(), State::Normal | State::Visual) {
            self.line.key(KeyEvent::new(KeyCode::Char('i'), KeyModifiers::NONE));
        }
    }

    /// What the words are for has gone, or is covered: they stay in the line.
    /// Returns whether there may have been some.
    pub(super) fn keep_reason(&mut self) -> bool {
        let Focus::Reason { draft, .. } = &self.focus else { return false };
        let (draft, words) = (draft.clone(), self.line.text().to_owned());
        self.line.set(&draft);
        self.put_back(&words);
        self.focus = Focus::Line;
        true
    }

    pub(super) fn end_reason(&mut self, draft: &str) {
        self.line.set(draft);
        self.focus = if self.is_asked() { Focus::Question } else { Focus::Line };
    }
}

/// Returns the verdict that a key gives; `None` if it is no answer here. Where
/// too little is to be seen of what is asked, it can only be refused.
fn verdict(offered: Option<Choices>, key: char) -> Option<Verdict> {
    match (key, offered) {
        ('n', None) => Some(Verdict::No),
        ('y' | 'b' | 's' | 'a' | 'n', Some(choices)) => choices.read(&key.to_string()),
        (_, Some(_) | None) => None,
    }
}
