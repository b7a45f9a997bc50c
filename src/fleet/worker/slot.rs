//! One slot on a worker, from its ticket to its result.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{SetOnce, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::change::Change;
use super::held::{Held, Name};
use super::outfits::Unready;
use super::room::LOOK;
use super::{Outfitted, SOON, Shop};
use crate::agent::Forked;
use crate::event::{FailureKind, Outcome, UnitId};
use crate::fanout::{self, Caller, Elsewhere, Here, Hold, Job, Parked, Permit, Ticket as Turn};
use crate::fleet::engine::{ClaimError, Said, Ticket};
use crate::fleet::far::{Far, Heard, Rest, Ties, Touches};
use crate::fleet::parcel;
use crate::fleet::shipping::shipped;
use crate::fleet::wire::{Beat, Beaten, Claim, Claimed, FarEnd, Frame, Grant, ToSlot, Work};
use crate::guard::PolicyParts;
use crate::line::{LINE_CAP, Line, Seat};
use crate::prompt;
use crate::tool::files::Seen;
use crate::tool::{Delegate as _, TaskKind};

/// Most that is said to a slot and waits for it.
const TOLD_CAP: usize = 64;

/// How long a slot that nobody waits for has to end its commands.
const GRACE: Duration = Duration::from_secs(1);

/// How long one has to stop of which nobody can hear; then what it has changed is kept.
const UNHEARD: Duration = Duration::from_secs(5);

/// Which slot's frames are sent, and why that failed, if it has.
#[derive(Clone, Copy)]
struct Carrying<'a> {
    name: &'a Name,
    broken: &'a SetOnce<String>,
    /// Has the slot stop.
    cancel: &'a CancellationToken,
}

/// A slot that was granted.
struct Begun {
    grant: Grant,
    seat: Seat,
    drawn: Drawn,
}

/// A permit, and the place in the queue with which it was had.
pub(super) struct Drawn {
    pub(super) turn: Turn,
    pub(super) permit: Permit,
}

impl Shop {
    /// Asks for the slot of a ticket, and runs it.
    pub(super) async fn draws(&self, ticket: Ticket, drawn: Drawn) {
        let name = Name { run: Arc::clone(&ticket.job.run), unit: UnitId(ticket.job.unit) };
        // The server gave it again while it runs here.
        if self.slots.has(&name) {
            return;
        }
        if self.gone.has(&name.run) {
            return self.drops(&ticket).await;
        }
        if self.room.is_too_small_for(&name.run) {
            ticket.give_back(SOON).await;
            // So that others are first, and this is asked again and again by nobody.
            tokio::time::sleep(LOOK).await;
            return;
        }
        let lease = self.engine.lease();
        let claimed = self.claim(&name).await;
        if claimed.is_ok() {
            self.gone.note_answer(&name.run);
        }
        match claimed {
            Ok(Claimed::Granted(grant)) => {
                Box::pin(self.runs(name, *grant, Arc::new(ticket), drawn)).await;
            }
            Ok(Claimed::Over) => self.drops(&ticket).await,
            Ok(Claimed::Held) => ticket.give_back(SOON).await,
            Ok(Claimed::Refused(why)) => {
                self.refusals.tell(&name.run, why);
                ticket.give_back(lease).await;
            }
            Err(ClaimError::NoCoordinator) => match self.gone.pause(&name.run) {
                Some(pause) => ticket.give_back(pause).await,
                None => self.drops(&ticket).await,
            },
            // It may be there again.
            Err(_) => ticket.give_back(lease).await,
        }
    }

    /// Has a ticket go round no more.
    async fn drops(&self, ticket: &Ticket) {
        if let Err(error) = ticket.drop_it().await {
            // It comes again, then.
            (self.say)(&format!("a ticket cannot be dropped: {error}"));
        }
    }

    async fn claim(&self, name: &Name) -> Result<Claimed, ClaimError> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let ended = self.slots.ended(&name.run, self.engine.lease() * 2);
        let (worker, had) = (Arc::clone(&self.name), self.slots.had(name));
        let claim = Claim { version, worker, unit: name.unit, ended, had };
        let answer = self.engine.claim(&name.run, claim.encode().into()).await?;
        let answer = parcel::opened(&self.engine, answer).await;
        let claimed = answer.and_then(|bytes| {
            Claimed::decode(&bytes).map_err(|error| {
                format!(
                    "what its coordinator answers cannot be read: {error}; install the same \
                     tine on both"
                )
            })
        });
        Ok(claimed.unwrap_or_else(Claimed::Refused))
    }

    async fn runs(&self, name: Name, grant: Grant, ticket: Arc<Ticket>, drawn: Drawn) {
        let (to, told) = mpsc::channel(TOLD_CAP);
        let (cancel, dropped) = (CancellationToken::new(), CancellationToken::new());
        let heard = Arc::new(Heard::new(self.slots.missing()));
        let held = Held {
            attempt: grant.attempt,
            ticket: Arc::clone(&ticket),
            to,
            heard: Arc::clone(&heard),
            cancel: cancel.clone(),
            dropped: dropped.clone(),
        };
        let Some(keeping) = self.slots.take(name.clone(), held) else { return };
        if self.gone.has(&name.run) {
            // That was said before there was anything to stop here.
            self.slots.drop_one(&name);
        }
        let seat = Seat {
            unit: grant.unit,
            branch: grant.branch.clone(),
            origin: grant.origin,
            cancel: cancel.clone(),
            aside: CancellationToken::new(),
        };
        let (attempt, broken) = (grant.attempt, SetOnce::new());
        let carrying = Carrying { name: &name, broken: &broken, cancel: &cancel };
        let lives = self.lives(carrying, Begun { grant, seat, drawn }, (told, heard));
        let lasted = tokio::select! {
            biased;
            lasted = lives => Some(lasted),
            // Nobody wants to know what it comes to.
            () = gone(&dropped) => None,
        };
        let (change, end) = match lasted {
            Some(Lasted { end, change, hold }) => (change, end.map(|end| (end, hold))),
            None => (Change::Nothing, None),
        };
        // What was dropped was told to stop: that is no outcome of its own.
        if let Some((end, hold)) = end.filter(|_| !dropped.is_cancelled()) {
            if let Err(why) = self.ends(&name, (&ticket, hold), end).await {
                let _ = broken.set(why);
            }
        } else if broken.get().is_none() {
            // Whoever claims it next is told whether it is still wanted.
            ticket.give_back(SOON).await;
        }
        if let Some(why) = broken.into_inner() {
            let why = self.unheard(change, why).await;
            self.breaks(&name, (attempt, why.into()), &ticket).await;
        }
        drop(keeping);
    }

    /// Has the coordinator end a slot of which nobody can hear: another worker would
    /// run it, and fail as this one has.
    async fn breaks(&self, name: &Name, (attempt, why): (u32, Arc<str>), ticket: &Ticket) {
        (self.say)(&format!("{} of {} cannot be heard: {why}", name.unit, name.run));
        let broken = vec![(name.unit, attempt, why)];
        let beat = Beat { worker: Arc::clone(&self.name), slots: Vec::new(), broken };
        let beat = beat.encode();
        let until = Instant::now() + self.engine.lease() * 2;
        let beaten = loop {
            if let Ok(answer) = self.engine.beat(&name.run, beat.clone().into()).await {
                break Beaten::decode(&answer).ok();
            }
            if Instant::now() > until {
                break None;
            }
            tokio::time::sleep(SOON).await;
        };
        match beaten {
            Some(Beaten { gone }) if gone.is_empty() => self.drops(ticket).await,
            // Whoever claims it next is told whether it is still wanted.
            Some(_) | None => ticket.give_back(SOON).await,
        }
    }

    /// Runs the slot, with its far end beside it.
    async fn lives(
        &self,
        carrying: Carrying<'_>,
        begun: Begun,
        (told, heard): (mpsc::Receiver<ToSlot>, Arc<Heard>),
    ) -> Lasted {
        let (attempt, seat) = (begun.grant.attempt, &begun.seat);
        let (sender, said) = mpsc::channel(LINE_CAP);
        let (over, is_over) = oneshot::channel();
        let (frames, going) = mpsc::channel(1);
        let far = Far::new(seat, (attempt, begun.grant.is_unlimited), heard);
        let touches = far.touches();
        let line = Line::new(seat.unit, sender);
        let relay = far.relay(Ties { said, told, frames, over: is_over });
        let lived = async {
            let lived = self.lived(carrying, begun, (line, &touches)).await;
            // The far end is there until it hears of this.
            let _ = over.send(());
            lived
        };
        let carries = self.carries(carrying, going);
        let (lived, rest, are_carried) = tokio::join!(lived, relay, carries);
        let (Lived { outcome, change, left, hold }, Rest { after, words }) = (lived, rest);
        let changes = change.blob();
        // What did not arrive would be missing in front of the end.
        let end = are_carried.then_some(FarEnd { attempt, after, words, outcome, changes, left });
        Lasted { end, change, hold }
    }

    /// Sends frames, each when the one before is safe. Tells whether all are; after
    /// the first that is not, the slot stops.
    async fn carries(&self, carrying: Carrying<'_>, mut going: mpsc::Receiver<Frame>) -> bool {
        let Carrying { name, broken, cancel } = carrying;
        while let Some(frame) = going.recv().await {
            let (attempt, seq) = (frame.attempt, frame.seq);
            let said = async {
                let parcel = parcel::made(&self.engine, frame.encode()).await?;
                let said = Said { run: &name.run, unit: name.unit.0, attempt, seq };
                self.engine.say(said, parcel).await
            };
            if let Err(error) = said.await {
                // It is the first: after it nothing is said.
                let _ = broken.set(format!("what it does cannot be sent: {error}"));
                cancel.cancel();
                return false;
            }
        }
        true
    }

    /// Runs the slot in a lane of its own.
    async fn lived(
        &self,
        carrying: Carrying<'_>,
        begun: Begun,
        (line, touches): (Line, &Touches),
    ) -> Lived {
        let Carrying { name: Name { run, unit: _ }, broken, cancel: _ } = carrying;
        let Begun { grant, seat, drawn: Drawn { turn, permit } } = begun;
        let hold = Arc::new(Hold::new(self.outfits.pool().clone(), turn, permit, None));
        let ready = async {
            let (lane, outfitted) = self.outfits.ready(&self.engine, &grant.packet).await?;
            let lending = self.outfits.lend(&grant.packet, &lane);
            let called = async {
                let caller = called(&outfitted, &grant, (&seat, line))?;
                let job = self.job(&caller, &grant).await?;
                Ok::<_, String>((caller, job))
            };
            match called.await {
                Ok((caller, job)) => Ok::<_, Unready>(((lane, lending), caller, job)),
                Err(why) => {
                    // Nobody was there: the next one has it as it is.
                    let _ = lane.finish(false).await;
                    lending.keep();
                    Err(why.into())
                }
            }
        };
        let beginning = self.room.begins(run);
        let ((lane, lending), caller, job) = match ready.await {
            Ok(ready) => ready,
            Err(unready) => {
                let outcome = self.not_begun(run, unready);
                return Lived { outcome, change: Change::Nothing, left: None, hold };
            }
        };
        drop(beginning);
        let notice = match &grant.work {
            Work::Typed { .. } => None,
            Work::Fork { .. } | Work::Continued { .. } => {
                Some(prompt::elsewhere(lane.root(), lane.is_copy()))
            }
        };
        let held = Arc::clone(&hold);
        let lived = fanout::lived(&caller, job, seat, held, notice.as_deref());
        let (outcome, parked) = tokio::select! {
            biased;
            lived = lived => lived,
            () = overdue(broken) => (Outcome::Cancelled { ran: true }, None),
        };
        // Only what the slot started is there.
        caller.fanout.parking.clear();
        let is_touched = touches.is_touched();
        let change = self.change((lane, is_touched), broken).await;
        if !is_touched {
            lending.keep();
        }
        let left = match parked.and_then(Parked::here) {
            Some(here) => self.ships(&grant, here).await,
            None => None,
        };
        let outcome = change.failure().map_or(outcome, failed);
        Lived { outcome, change, left, hold }
    }

    /// Returns what comes of a slot that cannot begin.
    fn not_begun(&self, run: &Arc<str>, Unready { why, wants_room }: Unready) -> Outcome {
        if wants_room {
            self.room.was_too_small_for(run);
        }
        failed(format!("on worker {}: {why}", self.name))
    }

    /// Puts what is left of a slot where others find it, whoever goes on from it.
    async fn ships(&self, grant: &Grant, here: Here) -> Option<Elsewhere> {
        let Here { model, tools, seen: _, conversation, max_turns } = here;
        let left = (Arc::clone(model.name()), tools.names().map(str::to_owned).collect());
        match shipped(&self.engine, move || (conversation, model)).await {
            Ok(from) => {
                let ((model, tools), schema) = (left, tools.answer().cloned());
                Some(Elsewhere { from, model, tools, schema, max_turns })
            }
            Err(why) => {
                (self.say)(&format!("{} cannot be continued: {why}", grant.unit));
                None
            }
        }
    }

    /// Returns what the slot is started for. The error is a sentence for whoever reads
    /// of its end.
    async fn job(&self, caller: &Caller, grant: &Grant) -> Result<Arc<Job>, String> {
        Ok(Arc::new(match &grant.work {
            Work::Typed { task, is_verbatim } => {
                let TaskKind::Typed(typed) = &task.kind else {
                    return Err("its task is one for no type of agent".to_owned());
                };
                let (task, typed) = (task.clone(), Arc::clone(typed));
                Job::Typed { task, typed, is_verbatim: *is_verbatim }
            }
            Work::Fork { task, parent, from, schema: _ } => {
                let model = caller.find_model(&grant.model)?;
                let point = self.opened.point(&self.engine, (&grant.packet, from), model).await?;
                Job::Fork { task: task.clone(), from: Forked { parent: *parent, point } }
            }
            Work::Continued { task, ended, from, max_turns } => {
                let model = caller.find_model(&grant.model)?;
                let shipped = (&grant.packet, from);
                let point = self.opened.point(&self.engine, shipped, Arc::clone(&model)).await?;
                let here = Here {
                    model,
                    tools: caller.tools.clone(),
                    seen: Seen::default(),
                    conversation: point.base().clone(),
                    max_turns: *max_turns,
                };
                let parked = Parked::sent(task, Arc::clone(&caller.policy), here);
                let (parked, message) = (Box::new(parked), Arc::clone(&task.prompt));
                Job::Continue { ended: *ended, parked, message }
            }
        }))
    }

    /// Says what the slot came to. The error says why nobody can hear of it.
    async fn ends(
        &self,
        name: &Name,
        (ticket, hold): (&Ticket, Arc<Hold>),
        end: FarEnd,
    ) -> Result<(), String> {
        let said = async {
            let parcel = parcel::made(&self.engine, end.encode()).await?;
            // If another one was first, that is its outcome.
            self.engine.result(&name.run, name.unit.0, parcel).await
        };
        said.await.map_err(|error| format!("what it came to cannot be sent: {error}"))?;
        self.slots.note_end(name.clone());
        // Only now: whoever is claimed for this permit waits until the coordinator has
        // heard that this one ended.
        drop(hold);
        if let Err(error) = ticket.done().await {
            // It comes again, and is over then.
            (self.say)(&format!("a ticket cannot be dropped: {error}"));
        }
        Ok(())
    }
}

/// What became of a slot, with the permit that it has until that is known.
struct Lived {
    outcome: Outcome,
    change: Change,
    /// What a message can continue.
    left: Option<Elsewhere>,
    hold: Arc<Hold>,
}

/// The same, with all that was said sent.
struct Lasted {
    /// `None` if some of it could not be.
    end: Option<FarEnd>,
    change: Change,
    hold: Arc<Hold>,
}

fn failed(why: String) -> Outcome {
    Outcome::failed(FailureKind::Setup, why)
}

/// Returns who starts the slot here, as its caller would have.
fn called(
    outfitted: &Outfitted,
    grant: &Grant,
    (seat, line): (&Seat, Line),
) -> Result<Caller, String> {
    let theirs = PolicyParts::decode(&grant.policy)
        .map_err(|error| format!("the coordinator's rules cannot be read: {error}"))?;
    let Outfitted { fanout, tools, policy } = outfitted;
    let has = |name: &str| grant.tools.iter().any(|tool| tool == name);
    let schema = match &grant.work {
        Work::Typed { .. } => None,
        Work::Fork { schema, .. } => schema.as_ref(),
        Work::Continued { task, .. } => task.schema.as_ref(),
    };
    Ok(Caller {
        model: (fanout.find_model)(&grant.model)?,
        fanout: Arc::clone(fanout),
        line,
        depth: grant.depth,
        is_fork: false,
        tools: tools.filtered(has).answering(schema),
        policy: Arc::new(policy.governed_by(&theirs)),
        hold: None,
        place: fanout.place(),
        cancel: seat.cancel.clone(),
    })
}

/// Waits until a slot is dropped, and has had the time to end its commands.
async fn gone(dropped: &CancellationToken) {
    dropped.cancelled().await;
    tokio::time::sleep(GRACE).await;
}

/// Waits until a slot has had the time to stop of which nobody can hear.
async fn overdue(broken: &SetOnce<String>) {
    broken.wait().await;
    tokio::time::sleep(UNHEARD).await;
}
