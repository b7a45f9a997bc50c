//! What requests of a client have done: what the run is made of, or its next
//! prompts.

use std::sync::Arc;

use super::refusals::plain;
use super::talk::Deed;
use super::wishes::Wishes;
use super::{Conversation, Done, requests};
use crate::cli::chat::commands::sessions;
use crate::cli::exit::{Exit, Refusal};
use crate::cli::kit::Kit;
use crate::cli::say;
use crate::event::UnitId;
use crate::message::Cost;
use crate::report::control::Reply;
use crate::run::FromUser;

impl Conversation {
    /// Does what a request asks for, and answers it.
    pub(super) fn carry_out(&mut self, id: String, deed: Deed) {
        let done = match deed {
            Deed::Initialize(wishes) => self.initialize(&wishes),
            Deed::SetModel(name) => {
                let name = name.or_else(|| self.first_model.clone());
                self.change(|kit| kit.set_model(name.as_deref()))
                    .inspect(|kit| kit.price_warning().iter().for_each(say))
                    .map(|kit| Reply::ModelIs(kit.model.name().to_string()))
            }
            Deed::SetEffort(effort) => {
                let level = effort.as_str().to_owned();
                self.change(|kit| kit.set_effort(effort)).map(|_| Reply::EffortIs(level))
            }
            Deed::Stop(unit) => self.stop(unit),
            Deed::Rename(name) => {
                self.change(|kit| sessions::rename(kit, &name).map(drop)).map(|_| Reply::Done)
            }
            Deed::Look(what) => {
                let Some(kit) = self.kit() else { return self.send(no_run().line(&id)) };
                let progress = self.progress.as_ref();
                let cost = progress.map_or_else(Cost::default, |it| it.borrow().cost);
                self.work.push(Box::pin(async move {
                    let looking = move || requests::look(&kit, what, cost);
                    let reply = tokio::task::spawn_blocking(looking).await;
                    Done::Replied { id, reply: reply.expect("looking never panics") }
                }));
                return;
            }
        };
        let reply = done.unwrap_or_else(|refusal| Reply::Refused(plain(&refusal)));
        self.send(reply.line(&id));
    }

    fn stop(&self, unit: UnitId) -> Result<Reply, Refusal> {
        let declared = self.progress.as_ref().map(|progress| progress.borrow().declared);
        if declared.is_none_or(|last| unit > last) {
            return Err(Refusal::new(Exit::BadInput, format!("there is no task `{unit}`")));
        }
        self.tell(FromUser::Stop(unit));
        Ok(Reply::Done)
    }

    /// Makes ready what the client wants, and introduces it.
    fn initialize(&mut self, wishes: &Wishes) -> Result<Reply, Refusal> {
        let absent = wishes.left_out.iter();
        absent.for_each(|name| say(&format!("note: `{name}` does nothing here")));
        if self.run.is_none() && (!wishes.is_empty() || self.lacks_agent) {
            (self.ready, self.refusal, self.lacks_agent) = (None, None, false);
            let flags = wishes.apply(&self.flags);
            match self.start_again(&flags) {
                Ok(start) => (self.ready, self.flags) = (Some(start), flags),
                Err(refusal) => {
                    self.refusal = Some(refusal.clone());
                    return Err(refusal);
                }
            }
        }
        let kit = self.kit().ok_or_else(nothing_to_change)?;
        Ok(Reply::Initialized(Box::new(requests::introduction(&kit))))
    }

    /// Returns what prompts are made with.
    fn kit(&self) -> Option<Arc<Kit>> {
        let ready = || self.ready.as_ref().map(|start| Arc::new(start.kit.clone()));
        self.run.as_ref().map(|run| Arc::clone(&run.kit)).or_else(ready)
    }

    /// Changes what the next prompts are made with.
    fn change(
        &mut self,
        change: impl FnOnce(&mut Kit) -> Result<(), Refusal>,
    ) -> Result<&Kit, Refusal> {
        let kit = match (&mut self.run, &mut self.ready) {
            (Some(run), _) => Arc::make_mut(&mut run.kit),
            (None, Some(start)) => &mut start.kit,
            (None, None) => return Err(nothing_to_change()),
        };
        change(kit)?;
        (self.flags.model, self.flags.effort) = (kit.flags.model.clone(), kit.flags.effort.clone());
        Ok(kit)
    }
}

fn nothing_to_change() -> Refusal {
    Refusal::new(Exit::BadInput, "there is no run, and nothing that one could be made of")
}

fn no_run() -> Reply {
    Reply::Refused(nothing_to_change().message)
}
