//! What requests of a client have done: what the run is made of, or its next
//! prompts.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::refusals::plain;
use super::settings::InForce;
use super::talk::Deed;
use super::wishes::Wishes;
use super::{Conversation, Done, requests};
use crate::cli::chat::commands::sessions;
use crate::cli::exit::{Exit, Refusal};
use crate::cli::kit::Kit;
use crate::cli::say;
use crate::cli::start::Brought;
use crate::event::UnitId;
use crate::hook::{self, Parsed};
use crate::message::{CallId, Cost};
use crate::report::control::{Introduction, Reply};
use crate::run::{FromUser, Moved};

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
                self.change(|kit| kit.set_effort(Some(effort))).map(|_| Reply::EffortIs(level))
            }
            Deed::Settings(settings) => self.apply(settings),
            Deed::Stop(unit) => self.stop(unit),
            Deed::ServerSays { server, message } => match self.carried.hear(&server, &message) {
                true => Ok(Reply::Done),
                false => {
                    Err(Refusal::new(Exit::BadInput, format!("there is no server `{server}`")))
                }
            },
            Deed::SetAside(call) => return self.set_aside(id, call),
            Deed::Rename(name) => {
                self.change(|kit| sessions::rename(kit, &name).map(drop)).map(|_| Reply::Done)
            }
            Deed::ReadFile(wanted) => return self.show_file(id, wanted),
            Deed::Rewind(wanted) => return self.rewind_later(id, wanted),
            Deed::Look(what) => {
                let Some(kit) = self.kit() else { return self.reply(&id, &no_run()) };
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
        self.reply(&id, &reply);
    }

    fn stop(&self, unit: UnitId) -> Result<Reply, Refusal> {
        let declared = self.progress.as_ref().map(|progress| progress.borrow().declared);
        if declared.is_none_or(|last| unit > last) {
            return Err(Refusal::new(Exit::BadInput, format!("there is no task `{unit}`")));
        }
        self.tell(FromUser::Stop(unit));
        Ok(Reply::Done)
    }

    /// Has the run move what it waits for into the background, and answers once
    /// it has.
    fn set_aside(&mut self, id: String, call: Option<CallId>) {
        let (moved, mut told) = mpsc::channel(1);
        self.tell(FromUser::SetAsideOf { call, moved: Moved(moved) });
        self.work.push(Box::pin(async move {
            // A run that is not there, or ends before it looks, moves nothing.
            let is_any = told.recv().await.unwrap_or(false);
            Done::Replied { id, reply: Reply::SetAside(is_any) }
        }));
    }

    /// Makes ready what the client wants, and introduces it.
    fn initialize(&mut self, wishes: &Wishes) -> Result<Reply, Refusal> {
        let absent = wishes.left_out.iter();
        absent.for_each(|name| say(&format!("note: `{name}` does nothing here")));
        let is_applied = self.run.is_none() || wishes.is_empty();
        if self.run.is_none() && (!wishes.is_empty() || self.lacks_agent) {
            (self.ready, self.refusal, self.lacks_agent) = (None, None, false);
            let flags = wishes.apply(&self.flags);
            let start = self.take_along(wishes).and_then(|()| self.start_again(&flags));
            match start {
                Ok(mut start) => {
                    if wishes.names_permissions() {
                        self.settings = InForce::of(&flags);
                    }
                    start.kit.policy = self.settings.over(&start.kit.policy);
                    (self.ready, self.flags) = (Some(start), flags);
                }
                Err(refusal) => {
                    self.refusal = Some(refusal.clone());
                    return Err(refusal);
                }
            }
        }
        let kit = self.kit().ok_or_else(nothing_to_change)?;
        let introduction = Introduction { is_applied, ..requests::introduction(&kit) };
        Ok(Reply::Initialized(Box::new(introduction)))
    }

    /// Takes what the client brings along.
    fn take_along(&mut self, wishes: &Wishes) -> Result<(), Refusal> {
        let client = self.calls.client();
        let servers = self.carried.take(&wishes.carried, &client);
        let client: Arc<dyn hook::Client> = Arc::new(client);
        let hooks = wishes.hooks.as_ref().map(|hooks| hook::parse_callbacks(hooks, &client));
        let refused = |why: String| Refusal::new(Exit::BadInput, format!("`hooks`: {why}"));
        let Parsed { hooks, unknown } = hooks.transpose().map_err(refused)?.unwrap_or_default();
        for moment in unknown {
            say(&format!("note: hooks for `{moment}` are never asked by tine"));
        }
        self.brought = Brought { hooks, servers, aliases: wishes.aliases.clone() };
        Ok(())
    }

    /// Returns what prompts are made with.
    pub(super) fn kit(&self) -> Option<Arc<Kit>> {
        let ready = || self.ready.as_ref().map(|start| Arc::new(start.kit.clone()));
        self.run.as_ref().map(|run| Arc::clone(&run.kit)).or_else(ready)
    }

    /// Changes what the next prompts are made with.
    pub(super) fn change(
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

pub(super) fn no_run() -> Reply {
    Reply::Refused(nothing_to_change().message)
}
