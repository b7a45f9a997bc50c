//! Where main units enter: what each begins with, and what it has at hand.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;

use super::dispatcher::Dispatcher;
use super::mentions;
use super::offers::{self, Had};
use super::prompts::Invoked;
use super::submitted::{Submitted, Voice};
use super::{Boundaries, Main};
use crate::agent::{Bounds, History, LimitSource, Offers, Opening, TurnLimit, Unit};
use crate::event::{FailureKind, Outcome, UnitId};
use crate::fanout::{Caller, Fanout};
use crate::flow::{self, Walk};
use crate::guard::Searches;
use crate::line::{FromUnit, Line, Told};
use crate::message::Prompt;
use crate::prompt;
use crate::session::Past;
use crate::tool::files::Seen;
use crate::tool::{ForkPoint, Registry, ToolContext};

/// Where main units enter, one after another.
pub(super) struct Stage {
    pub(super) fanout: Arc<Fanout>,
    pub(super) max_turns: Option<u32>,
    pub(super) sender: mpsc::Sender<FromUnit>,
    /// What the session had come to when the last invocation ended.
    pub(super) past: Past,
    /// What main has seen of files.
    pub(super) seen: Seen,
    /// Whether main rests after an invocation.
    pub(super) lives_on: bool,
    /// What of the session's beginning and end hooks hear in this run.
    pub(super) boundaries: Boundaries,
}

impl Stage {
    /// Returns the main unit's life: its loop and the report of its end.
    pub(super) fn enter(
        &mut self,
        invoked: Invoked,
        dispatcher: &Dispatcher,
    ) -> impl Future<Output = ()> + Send + use<> {
        let line = Line::new(UnitId::MAIN, self.sender.clone());
        let caller = Caller {
            fanout: Arc::clone(&self.fanout),
            line: line.clone(),
            depth: 0,
            is_fork: false,
            tools: invoked.tools.clone(),
            policy: Arc::clone(&invoked.policy),
            model: Arc::clone(&invoked.model),
            hold: None,
            place: self.fanout.place(),
            cancel: dispatcher.main_cancel(),
        };
        let farewell = (!self.lives_on && self.boundaries.ends).then(|| self.voice(&invoked));
        let cancel = caller.cancel.clone();
        let had = Had::of(&self.past);
        let life: BoxFuture<'static, Outcome> = match invoked.main {
            Main::Flow { walk: ref flow, ref request } => {
                let (flow, request) = (Arc::clone(flow), Arc::clone(request));
                let submitted = self.submitted(&invoked, &caller);
                Box::pin(async move {
                    let (caller, _) = with_offers(caller, had).await;
                    walk(caller, &flow, request, submitted).await
                })
            }
            Main::Conversation(ref opening) => {
                let opening = opening.clone();
                Box::pin(self.conversation(invoked, (caller, had), opening))
            }
        };
        async move {
            let running = std::panic::AssertUnwindSafe(life);
            let outcome = running.catch_unwind().await.unwrap_or_else(|_| {
                Outcome::failed(FailureKind::Panic, "the main conversation panicked")
            });
            if let Some(farewell) = farewell {
                farewell.said("other", cancel.is_cancelled()).await;
            }
            line.ended(outcome, None).await;
        }
    }

    /// Returns who tells hooks what the user asks for. The first of a session
    /// tells them of its beginning, too.
    fn submitted(&mut self, invoked: &Invoked, caller: &Caller) -> Submitted {
        Submitted {
            voice: self.voice(invoked),
            cancel: caller.cancel.clone(),
            typed: Arc::clone(&invoked.typed),
            begins: self.boundaries.begins.take(),
            model: Arc::clone(invoked.model.name()),
        }
    }

    pub(super) fn voice(&self, invoked: &Invoked) -> Voice {
        Voice {
            hooks: Arc::clone(&self.fanout.hooks),
            line: Line::new(UnitId::MAIN, self.sender.clone()),
            mode: invoked.policy.mode(),
            directory: self.fanout.workspace.root.clone(),
        }
    }

    /// Runs the main conversation to its end.
    fn conversation(
        &mut self,
        invoked: Invoked,
        (caller, had): (Caller, Had),
        mut opening: Opening,
    ) -> impl Future<Output = Outcome> + Send + use<> {
        let submitted = opening.request_mut().map(|_| self.submitted(&invoked, &caller));
        let Invoked { typed: _, message: _, main: _, model, tools, policy, system } = invoked;
        let fanout = Arc::clone(&self.fanout);
        let mut history = self.history(&system, &tools);
        let (seen, bounds) = (self.seen.clone(), self.bounds());
        async move {
            let (caller, offers) = with_offers(caller, had).await;
            let opening = match filled(opening, &caller).await {
                Ok(opening) => opening,
                Err(outcome) => return outcome,
            };
            let opening = match Submitted::heard(submitted, opening).await {
                Ok(opening) => opening,
                Err(outcome) => return outcome,
            };
            let tools = caller.tools.clone();
            if offers.is_some() {
                history.set_head(fanout.head(&system, &tools));
            }
            let conversation = history.prefix().clone();
            let point = ForkPoint::new(conversation, &seen, Arc::clone(&model));
            let takes_images = model.facts().takes_images;
            let searches = Searches::by(&policy);
            let own_policy = Arc::clone(&policy);
            let mut unit = Unit {
                persistence: fanout.persistence(UnitId::MAIN, &*model),
                agent: "main".into(),
                description: Arc::default(),
                model,
                answer: tools.answer().cloned(),
                tools,
                policy,
                hooks: Arc::clone(&fanout.hooks),
                bounds,
                context: ToolContext {
                    line: caller.line.clone(),
                    cancel: caller.cancel.clone(),
                    workspace: Arc::clone(&fanout.workspace),
                    policy: own_policy,
                    searches,
                    seen,
                    takes_images,
                    skills: Arc::clone(&fanout.skills),
                    delegate: Arc::new(caller),
                    fork_point: Arc::new(point),
                },
                history,
                forked_from: None,
                compacting: fanout.compacting(&fanout.place()),
                offers,
            };
            unit.run(opening).await
        }
    }

    fn bounds(&self) -> Bounds {
        let limits = self.fanout.limits;
        // Where main rests, what it started is news for its next prompt.
        let background_wait: Option<Duration> = (!self.lives_on).then_some(limits.background_wait);
        Bounds {
            max_turns: self.max_turns.map(|most| TurnLimit { most, source: LimitSource::Flag }),
            background_wait,
            prime: limits.prime,
        }
    }

    /// Returns the main conversation as it stands.
    fn history(&self, system: &str, tools: &Registry) -> History {
        let head = self.fanout.head(system, tools);
        History::of(head, self.past.conversation()).with_calls(self.past.summed_up_calls())
    }
}

/// Puts the facts of the moment into what main begins with, and what it asks of
/// servers of tools.
async fn filled(opening: Opening, caller: &Caller) -> Result<Opening, Outcome> {
    let Fanout { servers, surroundings, .. } = &*caller.fanout;
    let environment = &surroundings.environment;
    let message = async |typed: Prompt| -> Result<Prompt, Outcome> {
        let filled = match servers.is_empty() {
            true => typed,
            false => {
                let text = mentions::fill(servers, &caller.policy, &typed.text, &caller.cancel);
                let text = text.await?;
                typed.with_text(text)
            }
        };
        Ok(filled.behind(&prompt::with_facts(environment, "")))
    };
    Ok(match opening {
        Opening::Prompt(typed) => Opening::Prompt(message(typed).await?),
        Opening::Skill { prompt, followed } => {
            Opening::Skill { prompt: message(prompt).await?, followed }
        }
        Opening::Agent { task, request } => {
            let request = prompt::with_facts(environment, &request).into();
            Opening::Agent { task, request }
        }
        Opening::Fork { task, request } => {
            let request = prompt::with_facts(environment, &request).into();
            Opening::Fork { task, request }
        }
        Opening::Batch { .. } | Opening::Compact { hint: _ } | Opening::News => opening,
    })
}

/// Gives main what servers of tools offer to it.
async fn with_offers(caller: Caller, had: Had) -> (Caller, Option<Offers>) {
    let servers = &caller.fanout.servers;
    let offers = offers::gather(servers, had, &caller.policy, &caller.line, &caller.cancel).await;
    let tools = match &offers {
        Some(Offers { servers, tools }) => caller.tools.with_served(tools, servers),
        None => caller.tools.clone(),
    };
    (Caller { tools, ..caller }, offers)
}

/// Walks a flow on main's branch. What the user asked for stands in the log as
/// main's own, for the steps that may see it.
async fn walk(main: Caller, walk: &Walk, prompt: Arc<str>, submitted: Submitted) -> Outcome {
    let prompt = match submitted.to(&prompt).await {
        Ok(prompt) => prompt,
        Err(outcome) => return outcome,
    };
    main.line.tell(Told::Prompted(prompt.into())).await;
    main.line.tell(Told::Walked(Arc::new(walk.head()))).await;
    flow::walk(&main, walk).await
}
