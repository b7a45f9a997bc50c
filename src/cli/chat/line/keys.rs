//! Which keys the line has: reedline's grammars, with the few keys of ours that
//! are the same in each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crossterm::event::{KeyCode, KeyModifiers};
use reedline::{
    EditCommand, EditMode, Emacs, Keybindings, PromptEditMode, PromptViMode, ReedlineEvent,
    ReedlineRawEvent, Vi, default_emacs_keybindings, default_vi_insert_keybindings,
    default_vi_normal_keybindings, default_vi_visual_keybindings,
};

use crate::config::Editing;

/// Which keys the line has now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Those of emacs.
    Emacs,
    /// Those of vi that insert.
    Insert,
    /// Those of vi that are commands.
    Normal,
    /// Those of vi that select.
    Visual,
}

impl State {
    const ALL: [Self; 4] = [Self::Emacs, Self::Insert, Self::Normal, Self::Visual];

    pub(super) fn of(mode: &PromptEditMode) -> Self {
        match mode {
            PromptEditMode::Vi(PromptViMode::Insert) => Self::Insert,
            PromptEditMode::Vi(PromptViMode::Normal) => Self::Normal,
            PromptEditMode::Vi(PromptViMode::Visual) => Self::Visual,
            PromptEditMode::Default
            | PromptEditMode::Emacs
            | PromptEditMode::Helix(_)
            | PromptEditMode::Custom(_) => Self::Emacs,
        }
    }

    fn mode(self) -> PromptEditMode {
        match self {
            Self::Emacs => PromptEditMode::Emacs,
            Self::Insert => PromptEditMode::Vi(PromptViMode::Insert),
            Self::Normal => PromptEditMode::Vi(PromptViMode::Normal),
            Self::Visual => PromptEditMode::Vi(PromptViMode::Visual),
        }
    }
}

/// Tells the editor which keys count. It asks whoever parses the keys; here
/// that is not its own loop.
pub(super) struct Shadow(pub(super) Arc<AtomicU8>);

impl EditMode for Shadow {
    fn parse_event(&mut self, _: ReedlineRawEvent) -> ReedlineEvent {
        ReedlineEvent::None
    }

    fn edit_mode(&self) -> PromptEditMode {
        State::ALL[usize::from(self.0.load(Ordering::Relaxed))].mode()
    }
}

/// Returns the grammar of an editor's keys.
pub(super) fn grammar(editing: Editing) -> Box<dyn EditMode> {
    match editing {
        Editing::Emacs => Box::new(Emacs::new(emacs_bindings())),
        Editing::Vi => Box::new(Vi::new(
            with_our_keys(default_vi_insert_keybindings()),
            with_our_keys(default_vi_normal_keybindings()),
            with_our_keys(default_vi_visual_keybindings()),
        )),
    }
}

fn emacs_bindings() -> Keybindings {
    let mut keys = with_our_keys(default_emacs_keybindings());
    // Ctrl-Z stops the process, as in every program that does not edit.
    let undo = ReedlineEvent::Edit(vec![EditCommand::Undo]);
    keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('_'), undo);
    let redo = ReedlineEvent::Edit(vec![EditCommand::Redo]);
    keys.add_binding(KeyModifiers::ALT, KeyCode::Char('/'), redo);
    keys.remove_binding(KeyModifiers::CONTROL, KeyCode::Char('z'));
    keys
}

/// Puts the keys that are the same in every state over the usual ones.
fn with_our_keys(mut keys: Keybindings) -> Keybindings {
    let control = [
        ('g', ReedlineEvent::OpenEditor),
        ('j', ReedlineEvent::Edit(vec![EditCommand::InsertNewline])),
        ('p', ReedlineEvent::PreviousHistory),
        ('n', ReedlineEvent::NextHistory),
    ];
    for (letter, event) in control {
        keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char(letter), event);
    }
    // Opens what a call gave back, which is none of the line's.
    keys.remove_binding(KeyModifiers::CONTROL, KeyCode::Char('o'));
    // No shell selects with Shift, and the editor panics where commands of vi
    // meet what was selected so.
    keys.bindings.retain(|key, _| {
        !key.modifier.contains(KeyModifiers::SHIFT) || key.key_code == KeyCode::Enter
    });
    keys
}
