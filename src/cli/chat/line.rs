//! The line that is typed into: text, cursor, the keys of emacs or vi, undo,
//! and the way back through what was typed before.
//!
//! reedline's grammars of keys and its editor do the work; its loop, painter
//! and menus are not used, so nothing here reads or writes a terminal. This and
//! `line::keys` are all that knows it. What a key means beyond the line is returned,
//! not done.

mod keys;
pub mod view;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crossterm::event::{Event, KeyCode, KeyEvent};
use reedline::{EditCommand, EditMode, Reedline, ReedlineEvent, ReedlineRawEvent};

use super::history::{EntryId, History};
use crate::config::Editing;
use crate::report::caught::caught;
use keys::Shadow;

pub use keys::State;

/// Most bytes that texts to go back to may hold together. A pasted text of a
/// mebibyte, changed a hundred times, would be a hundred mebibytes.
const UNDO_CAP: usize = 64 * 1024 * 1024;

/// What became of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edited {
    /// It was the line's.
    Taken,
    /// It means nothing here: a step back or forward where there is none, or
    /// no key that is known.
    Unused,
    /// The line is to be sent; [`Line::take`] has it.
    Enter,
    /// Escape, and the line had nothing to leave.
    Escape,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D on an empty line.
    End,
    /// Ctrl-R: a search through what was typed before.
    Search,
    /// Ctrl-G: an editor for the text.
    Editor,
    /// Ctrl-L: the screen is to be drawn anew.
    Redraw,
}

/// The line.
pub struct Line {
    editor: Reedline,
    /// The byte before which the cursor stands.
    cursor: usize,
    /// The state as the editor sees it.
    shadow: Arc<AtomicU8>,
    keys: Box<dyn EditMode>,
    history: History,
    walk: Option<Walk>,
    /// Whether a command of vi may be half typed.
    is_half: bool,
    /// At least as many bytes as there are to go back to.
    undoable: usize,
}

/// A way back through what was typed before.
struct Walk {
    /// What stood there when it began, and comes last.
    draft: String,
    /// What all entries on the way begin with.
    beginning: String,
    at: EntryId,
    /// The entry as it stands in the line; once that is changed it is a draft.
    shown: String,
}

impl Line {
    /// Returns an empty line.
    #[must_use]
    pub fn new(editing: Editing, history: History) -> Self {
        let keys = keys::grammar(editing);
        let shadow = Arc::new(AtomicU8::new(State::of(&keys.edit_mode()) as u8));
        let editor = editor(&shadow);
        Self { editor, cursor: 0, shadow, keys, history, walk: None, is_half: false, undoable: 0 }
    }

    /// Returns the text.
    #[must_use]
    pub fn text(&self) -> &str {
        self.editor.current_buffer_contents()
    }

    /// Returns the byte before which the cursor stands.
    #[must_use]
    pub fn cursor(&self) -> usize {
        self.cursor
    }

    /// Returns what is selected.
    #[must_use]
    pub fn selection(&self) -> Option<Range<usize>> {
        let (start, end) = self.editor.current_selection()?;
        self.text().get(start..end).map(|_| start..end)
    }

    /// Returns which keys it has now.
    #[must_use]
    pub fn state(&self) -> State {
        State::of(&self.keys.edit_mode())
    }

    /// Returns what was typed before.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent) -> Edited {
        let before = self.state();
        let is_escape = key.code == KeyCode::Esc && key.modifiers.is_empty();
        if key.code == KeyCode::Enter && key.modifiers.is_empty() && self.is_continued() {
            self.edit(&[EditCommand::Backspace, EditCommand::InsertNewline]);
            return Edited::Taken;
        }
        let was_selected = is_escape && self.selection().is_some();
        if was_selected {
            self.settle(Selecting::No);
        }
        let Ok(event) = ReedlineRawEvent::try_from(Event::Key(key)) else { return Edited::Unused };
        let event = self.keys.parse_event(event);
        let was_half = std::mem::take(&mut self.is_half);
        let now = self.state();
        // A command that is no command looks the same: then the next escape
        // only says that it is over.
        self.is_half = now != State::Insert
            && now != State::Emacs
            && event == ReedlineEvent::None
            && matches!(key.code, KeyCode::Char(_));
        self.shadow.store(now as u8, Ordering::Relaxed);
        let edited = self.perform(event);
        if now != before {
            let selecting = if now == State::Visual { Selecting::Yes } else { Selecting::No };
            self.settle(selecting);
        }
        let leaves_something = was_selected || was_half || now != before;
        let stays = matches!(edited, Edited::Taken | Edited::Unused);
        if is_escape && stays {
            return if leaves_something { Edited::Taken } else { Edited::Escape };
        }
        let has_meaning = now != before || self.is_half;
        if edited == Edited::Unused && has_meaning { Edited::Taken } else { edited }
    }

    /// Takes a text as it is: no line break in it sends anything.
    pub fn paste(&mut self, text: &str) {
        self.edit(&[EditCommand::InsertString(text.to_owned())]);
    }

    /// Puts a text in the place of all there is.
    pub fn set(&mut self, text: &str) {
        // One step of the way back, not two.
        self.edit(&[EditCommand::SelectAll, EditCommand::InsertString(text.to_owned())]);
        self.edit(&[EditCommand::MoveToEnd { select: false }]);
    }

    /// Puts a text in the place of a part, and the cursor behind it.
    pub fn replace(&mut self, range: Range<usize>, text: &str) {
        let whole = self.text();
        let (before, after) = (&whole[..range.start], &whole[range.end..]);
        let position = before.len() + text.len();
        let replaced = format!("{before}{text}{after}");
        self.edit(&[
            EditCommand::SelectAll,
            EditCommand::InsertString(replaced),
            EditCommand::MoveToPosition { position, select: false },
        ]);
    }

    /// Empties the line; what stood there can be had back with undo.
    pub fn clear(&mut self) {
        self.edit(&[EditCommand::Clear]);
    }

    /// Returns the text, remembers it, and empties the line.
    ///
    /// # Errors
    ///
    /// Beside the text, if the history could not be written.
    pub fn take(&mut self) -> (String, std::io::Result<()>) {
        let text = self.text().to_owned();
        self.clear();
        let kept = self.history.add(&text);
        (text, kept)
    }

    /// Tells whether what stands before the cursor asks for one more line.
    fn is_continued(&self) -> bool {
        let writes = match self.state() {
            State::Emacs | State::Insert => true,
            State::Normal | State::Visual => false,
        };
        writes && self.text()[..self.cursor()].ends_with('\\')
    }

    /// Runs commands. The editor panics on some of vi's that end within a
    /// letter of several bytes; then all is as it was before.
    fn run(&mut self, commands: &[EditCommand]) {
        let before = self.text().to_owned();
        let editor = &mut self.editor;
        let ran = caught(|| {
            editor.run_edit_commands(commands);
            let cursor = editor.current_insertion_point();
            // Within a letter it would panic with the next key.
            assert!(editor.current_buffer_contents().is_char_boundary(cursor));
            cursor
        });
        match ran {
            Some(cursor) => self.cursor = cursor,
            None => self.start_over(before),
        }
    }

    /// Goes on with a new editor, which knows no way back.
    fn start_over(&mut self, text: String) {
        self.undoable = text.len();
        let position = self.cursor;
        self.editor = editor(&self.shadow);
        self.run(&[
            EditCommand::InsertString(text),
            EditCommand::MoveToPosition { position, select: false },
        ]);
    }

    fn edit(&mut self, commands: &[EditCommand]) {
        self.run(commands);
        self.undoable += self.text().len();
        if self.undoable > UNDO_CAP {
            self.start_over(self.text().to_owned());
        }
        if self.walk.as_ref().is_some_and(|walk| walk.shown != self.text()) {
            self.walk = None;
        }
    }

    /// Has the cursor rest where it may under the keys that count now.
    fn settle(&mut self, selecting: Selecting) {
        let select = selecting == Selecting::Yes;
        let position = self.cursor();
        self.run(&[EditCommand::MoveToPosition { position, select }]);
    }

    fn perform(&mut self, event: ReedlineEvent) -> Edited {
        match event {
            ReedlineEvent::Edit(commands) => {
                self.edit(&commands);
                Edited::Taken
            }
            ReedlineEvent::Left => self.moved(EditCommand::MoveLeft { select: false }),
            ReedlineEvent::Right => self.moved(EditCommand::MoveRight { select: false }),
            ReedlineEvent::ToStart => self.moved(EditCommand::MoveToStart { select: false }),
            ReedlineEvent::ToEnd => self.moved(EditCommand::MoveToEnd { select: false }),
            ReedlineEvent::Up if self.text()[..self.cursor()].contains('\n') => {
                self.moved(EditCommand::MoveLineUp { select: false })
            }
            ReedlineEvent::Up | ReedlineEvent::PreviousHistory => self.step_back(),
            ReedlineEvent::Down if self.text()[self.cursor()..].contains('\n') => {
                self.moved(EditCommand::MoveLineDown { select: false })
            }
            ReedlineEvent::Down | ReedlineEvent::NextHistory => self.step_forward(),
            ReedlineEvent::CtrlD if self.text().is_empty() => Edited::End,
            ReedlineEvent::CtrlD => self.moved(EditCommand::Delete),
            ReedlineEvent::CtrlC => Edited::Interrupt,
            ReedlineEvent::Enter | ReedlineEvent::Submit | ReedlineEvent::SubmitOrNewline => {
                Edited::Enter
            }
            ReedlineEvent::SearchHistory => Edited::Search,
            ReedlineEvent::OpenEditor => Edited::Editor,
            ReedlineEvent::ClearScreen | ReedlineEvent::ClearScrollback => Edited::Redraw,
            ReedlineEvent::Multiple(events) => self.perform_all(events),
            ReedlineEvent::UntilFound(events) => {
                let mut done = events.into_iter().map(|event| self.perform(event));
                done.find(|edited| *edited != Edited::Unused).unwrap_or(Edited::Unused)
            }
            ReedlineEvent::SwitchMode(_) => {
                // A mode that does not know it leaves everything as it was.
                let _ = self.keys.handle_mode_specific_event(event);
                self.shadow.store(self.state() as u8, Ordering::Relaxed);
                self.settle(Selecting::No);
                Edited::Taken
            }
            ReedlineEvent::Repaint => Edited::Taken,
            // What was selected is none any more by now. Hints, menus and the
            // mouse are things of the loop that is not used.
            ReedlineEvent::Esc
            | ReedlineEvent::None
            | ReedlineEvent::HistoryHintComplete
            | ReedlineEvent::HistoryHintWordComplete
            | ReedlineEvent::Mouse { .. }
            | ReedlineEvent::Resize(..)
            | ReedlineEvent::Menu(_)
            | ReedlineEvent::MenuAccept
            | ReedlineEvent::MenuNext
            | ReedlineEvent::MenuPrevious
            | ReedlineEvent::MenuUp
            | ReedlineEvent::MenuDown
            | ReedlineEvent::MenuLeft
            | ReedlineEvent::MenuRight
            | ReedlineEvent::MenuPageNext
            | ReedlineEvent::MenuPagePrevious
            | ReedlineEvent::ExecuteHostCommand(_) => Edited::Unused,
        }
    }

    /// Does one after the other, up to the first that leads out of the line.
    fn perform_all(&mut self, events: Vec<ReedlineEvent>) -> Edited {
        let mut all = Edited::Unused;
        for event in events {
            let edited = self.perform(event);
            if !matches!(edited, Edited::Taken | Edited::Unused) {
                return edited;
            }
            if edited == Edited::Taken {
                all = edited;
            }
        }
        all
    }

    fn moved(&mut self, command: EditCommand) -> Edited {
        self.edit(&[command]);
        Edited::Taken
    }

    fn step_back(&mut self) -> Edited {
        let (from, beginning, draft) = match self.walk.take() {
            Some(Walk { draft, beginning, at, shown: _ }) => (Some(at), beginning, draft),
            None => {
                let text = self.text().to_owned();
                let is_at_end = self.cursor() == text.len();
                (None, if is_at_end { text.clone() } else { String::new() }, text)
            }
        };
        match self.history.before(from, &beginning) {
            // What stands there already is no step.
            Some((at, found)) if from.is_none() && found == draft => {
                match self.history.before(Some(at), &beginning) {
                    Some(further) => self.show(further, draft, beginning),
                    None => Edited::Unused,
                }
            }
            Some(found) => self.show(found, draft, beginning),
            None => {
                if let Some(at) = from {
                    let shown = self.text().to_owned();
                    self.walk = Some(Walk { draft, beginning, at, shown });
                }
                Edited::Unused
            }
        }
    }

    fn show(&mut self, (at, found): (EntryId, String), draft: String, beginning: String) -> Edited {
        self.set(&found);
        // The first of its lines, from which the next step goes on.
        self.edit(&[
            EditCommand::MoveToStart { select: false },
            EditCommand::MoveToLineEnd { select: false },
        ]);
        self.walk = Some(Walk { draft, beginning, at, shown: found });
        Edited::Taken
    }

    fn step_forward(&mut self) -> Edited {
        let Some(Walk { draft, beginning, at, shown: _ }) = self.walk.take() else {
            return Edited::Unused;
        };
        match self.history.after(at, &beginning) {
            Some((at, found)) => {
                self.set(&found);
                self.walk = Some(Walk { draft, beginning, at, shown: found });
            }
            None => self.set(&draft),
        }
        Edited::Taken
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Selecting {
    Yes,
    No,
}

fn editor(shadow: &Arc<AtomicU8>) -> Reedline {
    Reedline::create().with_edit_mode(Box::new(Shadow(Arc::clone(shadow))))
}

#[cfg(test)]
mod tests;
