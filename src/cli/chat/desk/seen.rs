//! What the desk is told, and what follows from it.

use std::sync::Arc;

use super::listing::{Choice, Listing};
use crate::cli::chat::commands::What;
use crate::cli::chat::complete::Paths;
use crate::cli::chat::decode::Typed;
use crate::cli::exit::Refusal;
use crate::config::{Editing, Theme};
use crate::event::{Delta, Event};
use crate::report::ink::{Coloured, Highlighter};
use crate::report::row::Row;
use crate::run::FromUser;

/// What a session is, as far as its chat shows it.
#[derive(Debug, Clone, Default)]
pub(in crate::cli::chat) struct About {
    /// The model that answers.
    pub(in crate::cli::chat) model: Arc<str>,
    /// How many tokens its context window has; `None` if nothing bounds it.
    pub(in crate::cli::chat) window: Option<u64>,
    /// How much runs without a rule.
    pub(in crate::cli::chat) mode: &'static str,
    /// The directory, in a few letters.
    pub(in crate::cli::chat) place: String,
    /// The skills that can be typed, and what each does.
    pub(in crate::cli::chat) skills: Vec<(String, String)>,
}

/// What a chat is like, by the user's choice.
#[derive(Debug, Clone, Copy)]
pub(in crate::cli::chat) struct Manners {
    pub(in crate::cli::chat) editing: Editing,
    /// A turn that took less ends without a bell, in milliseconds.
    pub(in crate::cli::chat) bell_after_ms: u64,
}

/// Something that the desk takes note of.
pub(in crate::cli::chat) enum Seen {
    /// A session begins here.
    Began {
        about: About,
        highlighter: Option<Highlighter>,
        /// What is told first.
        rows: Vec<Row>,
        /// How many tokens main's conversation has; `None` if that is not known.
        context: Option<u64>,
    },
    /// What was said of the session has changed.
    Changed(About),
    Event(Box<Event>),
    Delta(Delta),
    Typed(Typed),
    Coloured(Coloured),
    /// The paths that can be completed.
    Paths(Paths),
    /// What a command has to show.
    Shown(Vec<Row>),
    /// Something is to be chosen.
    Choose(Listing),
    /// What was given is not carried out; the text goes back into the line.
    Refused {
        /// What was given.
        given: Given,
        text: String,
        refusal: Refusal,
    },
    /// The text as it came back from an editor.
    Edited(String),
    /// The conversation went back before this was sent, which can be changed and
    /// sent again.
    Rewound(String),
    /// What the chat was started with: it is sent as if it was typed.
    First(String),
}

/// What somebody gave that is not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli::chat) enum Given {
    /// A prompt, which main waits for.
    Prompt,
    /// Anything else.
    Command,
}

/// What somebody else has to do.
#[derive(Debug, PartialEq)]
pub(in crate::cli::chat) enum Step {
    /// To be told to the run.
    Tell(FromUser),
    /// To be asked of main.
    Invoke(String),
    /// Main is to be told what ended in the background, and what was written.
    News,
    /// A command, and what stands behind its name.
    Command(What, String),
    /// What was chosen from a list.
    Chosen(Choice),
    /// The text of the line is to be edited elsewhere.
    Edit(String),
    /// A line for the shell.
    Shell(String),
    /// The process is to be stopped.
    Suspend,
    /// Whoever sits there is to be called, and why.
    Call(String),
    /// Paths are to be gathered.
    Gather,
    /// Other colours.
    Colour(Theme),
    /// The screen is to be drawn anew.
    Redraw,
    /// Nobody sits there any more.
    Gone,
    /// The chat is over. `at_once` ends what is under way.
    Leave { at_once: bool },
}
