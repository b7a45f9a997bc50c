//! Messages that are answered: what each means, and asking main.
//!
//! A message is asked with what its run was made of when its turn came, also if
//! the client has changed something since. What went along with one that is not
//! asked goes along with the next.

use std::io::Write as _;
use std::sync::Arc;

use super::talk::Query;
use super::wire::WholeLines;
use super::{Conversation, Done};
use crate::agent::Opening;
use crate::cli::exit::{Exit, Refusal};
use crate::cli::kit::Kit;
use crate::cli::slash::{self, Typed};
use crate::cli::undo;
use crate::message::Prompt;
use crate::report::{control, words};
use crate::run::{Asked, FromUser, Invoked, Main};

/// A message whose turn has come, and that is not asked yet.
pub(super) struct Begun {
    number: u64,
    kit: Arc<Kit>,
    uuid: Option<String>,
    notes: Vec<Prompt>,
}

impl Conversation {
    /// Begins to answer a message.
    pub(super) fn begin(&mut self, query: Query) {
        self.is_calm = false;
        let Query { notes, prompt, uuid } = query;
        let refusal = |why: String| Refusal::new(Exit::BadInput, why);
        let ready = prompt.map_err(refusal).and_then(|prompt| {
            if undo::asked(&prompt.text).is_some() {
                return Err(Refusal::new(Exit::Usage, "`/undo` is for the command line")
                    .hint("there is `tine session revert`, too"));
            }
            Ok((self.sit()?, prompt))
        });
        match ready {
            Ok((kit, prompt)) if slash::asks_for_usage(&prompt.text) => {
                self.talk.put_back(notes);
                self.tell_usage(&kit, uuid.as_deref());
            }
            Ok((kit, prompt)) => {
                self.messages += 1;
                let begun = Begun { number: self.messages, kit, uuid, notes };
                self.find_meaning(&begun, prompt);
                self.wanted = Some(begun);
            }
            Err(refusal) => {
                self.talk.put_back(notes);
                self.refuse(refusal, uuid.as_deref());
            }
        }
    }

    /// Finds out what a message means, which may take its time.
    fn find_meaning(&mut self, begun: &Begun, prompt: Prompt) {
        let Begun { number, kit, uuid, notes } = begun;
        let prompt = Prompt::joined(notes.iter().cloned().chain([prompt]));
        let (number, kit, uuid) = (*number, Arc::clone(kit), uuid.clone());
        self.work.push(Box::pin(async move {
            let typed = words::prompt(&prompt);
            let finding = tokio::task::spawn_blocking(move || {
                if kit.flags.replay_user_messages {
                    let replayed = control::replayed(&kit.session, uuid.as_deref(), &prompt);
                    // Nobody reads: then nobody misses it.
                    let _ = WholeLines.write_all(&replayed);
                }
                let main = kit.meaning(&prompt.text, Typed::Line)?;
                kit.showing(main, prompt.images)
            });
            let main = finding.await.expect("a skill's text is put together without panics");
            Done::Meant { number, typed, main }
        }));
    }

    /// Asks what a message means, if it is still wanted.
    pub(super) fn meant(&mut self, number: u64, typed: &str, main: Result<Main, Refusal>) {
        let Some(begun) = self.wanted.take_if(|begun| begun.number == number) else { return };
        match main {
            Ok(main) => {
                let message = begun.uuid.map(Into::into);
                self.ask(Invoked { message, ..begun.kit.invoked(typed, main) });
            }
            Err(refusal) => {
                let takes_images = begun.kit.model.facts().takes_images;
                // An image that is refused would have the next message refused.
                let kept = begun.notes.into_iter();
                let kept = kept.filter(|note| takes_images || note.images.is_empty());
                self.talk.put_back(kept.collect());
                self.refuse(refusal, begun.uuid.as_deref());
            }
        }
    }

    /// Tells main what it is still to hear of.
    pub(super) fn ask_news(&mut self) {
        if let Some(run) = &self.run {
            self.ask(run.kit.invoked("", Opening::News));
        }
    }

    /// Has main asked something.
    fn ask(&mut self, invoked: Invoked) {
        let is_last = self.has_ended && !self.talk.has_message();
        let Some(run) = &mut self.run else { return };
        let asked = match is_last {
            true => Asked::InvokeLast(Box::new(invoked)),
            false => Asked::Invoke(Box::new(invoked)),
        };
        // It rests, so it takes it; unless it has ended, and is heard of next.
        let sent = run.asking.as_ref().is_some_and(|asking| asking.try_send(asked).is_ok());
        run.asked += u64::from(sent);
    }

    /// Ends the turn. It may not have begun.
    pub(super) fn end_turn(&mut self) {
        match self.wanted.take() {
            Some(begun) => self.stop_before_it_began(begun, Exit::Done),
            None => {
                let asked = self.run.as_ref().map(|run| run.asked);
                asked.into_iter().for_each(|asked| self.tell(FromUser::EndAsked(asked)));
            }
        }
    }

    /// Does not ask a message whose turn had come.
    pub(super) fn stop_before_it_began(&mut self, begun: Begun, exit: Exit) {
        self.talk.put_back(begun.notes);
        self.refuse(Refusal::new(exit, "stopped before it began"), begun.uuid.as_deref());
    }
}
