//! Beginning a run in a session, and going on with one: first what its last
//! process left open is brought to its end.

use std::path::PathBuf;
use std::sync::Arc;

use super::dispatcher::{Dispatcher, Response, Seed, repair};
use super::{Main, Run, now};
use crate::agent::History;
use crate::fanout::cut_off;
use crate::prompt::Context;
use crate::session::{Entry, LogError, Past, SessionLog, Spill, read};

/// A session that a run goes on with. Nothing in it is open any more.
pub struct Resumed {
    /// Its directory, to read more of it where more is wanted.
    pub from: PathBuf,
    /// What it has come to.
    pub past: Past,
    /// What people are told at the start, in one sentence.
    pub note: Option<Arc<str>>,
}

/// Ends what is open in a session, in its log and in `past`. `log` is `None` if
/// nothing is to be kept. Nothing is started and nothing is run again.
///
/// # Errors
///
/// The log could not be written. What is in it by then is no harm: the next
/// repair makes the rest.
pub fn mend(past: &mut Past, log: Option<&mut SessionLog>, spill: &Spill) -> Result<(), LogError> {
    let events =
        repair(past, &|call, children| cut_off::output(&call.arguments, children, spill), now());
    for event in &events {
        past.take(event);
    }
    let Some(log) = log.filter(|_| !events.is_empty()) else { return Ok(()) };
    for event in &events {
        log.append(event)?;
    }
    log.sync()
}

impl Run {
    /// Begins the invocation, and the session if it is new.
    pub(super) fn open(&self) -> (Dispatcher, Response) {
        let mut dispatcher = match &self.resumed {
            Some(resumed) => Dispatcher::after(Seed::of(&resumed.past)),
            None => Dispatcher::new(),
        };
        dispatcher.limit(self.budget);
        if self.answers.is_some() {
            dispatcher.ask_people();
        }
        if matches!(&self.main, Main::Flow { flow, .. } if flow.sees_others()) {
            dispatcher.keep_context(self.context());
        }
        let typed = Arc::clone(&self.typed);
        let Some(Resumed { note, .. }) = &self.resumed else {
            let opened = dispatcher.open(self.head.clone(), typed, now());
            return (dispatcher, opened);
        };
        let mut opened = dispatcher.go_on(typed, now());
        if let Some(note) = note {
            opened.effects.extend(dispatcher.note(Arc::clone(note), now()).effects);
        }
        (dispatcher, opened)
    }

    /// Returns the main conversation as it stands.
    pub(super) fn history(&self) -> History {
        let head = self.fanout.head(&self.system, &self.tools);
        match &self.resumed {
            Some(Resumed { past, .. }) => {
                History::of(head, past.conversation()).with_calls(past.summed_up_calls())
            }
            None => History::new(head),
        }
    }

    /// Returns what the session holds of what units can be told of each other.
    fn context(&self) -> Context {
        let mut context = Context::default();
        // A log that cannot be read any more tells nothing of others.
        let entries = self.resumed.as_ref().and_then(|resumed| read(&resumed.from).ok());
        for entry in entries.into_iter().flatten() {
            if let Entry::Event(event) = entry {
                context.take(&event);
            }
        }
        context
    }
}
