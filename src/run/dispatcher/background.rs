//! Units that run beside their parents: what parents hear of them, and how
//! they tend them.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::super::ledger::{Awaited, Ledger};
use super::{Answer, Dispatcher, Effect, Out};
use crate::event::{EventKind, UnitEnd, UnitId, UnitState};
use crate::fanout::news;
use crate::line::{Glance, News, Tend, Until, Wait};

impl Dispatcher {
    pub(super) fn tend(&mut self, out: &mut Out, unit: UnitId, tend: Tend) {
        match tend {
            Tend::News { wait, reply } => self.news(out, unit, wait, reply),
            Tend::Look { unit: of, reply } => {
                let glances = self.glances(unit, of);
                out.effects.push(Effect::Answer(Answer::Glances(reply, glances)));
            }
            Tend::Await { units, until, reply } => {
                self.ledger(unit).aside().awaited.push(Awaited { units, until, reply });
                self.answer_awaited(out, unit);
            }
            Tend::Taken { units, reply } => {
                self.take_in(out, unit, units);
                out.effects.push(Effect::Answer(Answer::GoOn(reply)));
            }
            Tend::Stop { unit: of, reply } => {
                let child = self.own(unit, of);
                let state = child.map(|child| child.state());
                if let Some(child) = child {
                    child.cancel.cancel();
                }
                out.effects.push(Effect::Answer(Answer::State(reply, state)));
            }
            Tend::Send { to, text, reply } => {
                let state = self.send(out, unit, to, text);
                out.effects.push(Effect::Answer(Answer::State(reply, state)));
            }
        }
    }

    /// Takes note of the end of a child that its parent may want to hear of.
    pub(super) fn background_ended(
        &mut self,
        out: &mut Out,
        parent: UnitId,
        unit: UnitId,
        end: &Arc<UnitEnd>,
    ) {
        let Some(aside) = self.ledger(parent).has_aside() else { return };
        if !aside.children.contains(&unit) {
            return;
        }
        aside.untold.push(unit);
        self.ledger(unit).final_end = Some(Arc::clone(end));
        self.answer_awaited(out, parent);
        self.wake(out, parent);
    }

    fn news(&mut self, out: &mut Out, unit: UnitId, wait: Wait, reply: oneshot::Sender<News>) {
        let Some(aside) = self.ledger(unit).has_aside() else {
            out.effects.push(Effect::Answer(Answer::News(reply, News::Nothing)));
            return;
        };
        if aside.has_news() {
            let text = self.deliver(out, unit);
            out.effects.push(Effect::Answer(Answer::News(reply, News::Message(text))));
        } else if self.out(unit) == 0 {
            out.effects.push(Effect::Answer(Answer::News(reply, News::Nothing)));
        } else {
            match wait {
                Wait::No => out.effects.push(Effect::Answer(Answer::News(reply, News::NotYet))),
                Wait::UntilThereAre => self.ledger(unit).aside().listening = Some(reply),
            }
        }
    }

    /// Gives news to a unit that waits for them.
    fn wake(&mut self, out: &mut Out, unit: UnitId) {
        let Some(aside) = self.ledger(unit).has_aside() else { return };
        if !aside.has_news() {
            return;
        }
        // A reply that nobody holds any more takes no news with it.
        if let Some(reply) = aside.listening.take().filter(|reply| !reply.is_closed()) {
            let text = self.deliver(out, unit);
            out.effects.push(Effect::Answer(Answer::News(reply, News::Message(text))));
        }
    }

    /// Puts all news of a unit into its conversation and returns them.
    fn deliver(&mut self, out: &mut Out, unit: UnitId) -> Arc<str> {
        let aside = self.ledger(unit).aside();
        let children = std::mem::take(&mut aside.untold);
        let messages = std::mem::take(&mut aside.inbox);
        let ended: Vec<Glance> =
            children.iter().filter_map(|&child| self.glance(unit, child)).collect();
        let text: Arc<str> = news::text(&ended, self.out(unit), &messages).into();
        let told = EventKind::Notified { children: children.clone(), text: Arc::clone(&text) };
        self.record(out, unit, told);
        out.effects.push(Effect::Sync);
        self.join_told(out, unit, children);
        text
    }

    /// Takes note that a parent knows the whole end of some children.
    fn take_in(&mut self, out: &mut Out, parent: UnitId, mut units: Vec<UnitId>) {
        let Some(aside) = self.ledger(parent).has_aside() else { return };
        units.retain(|unit| aside.untold.contains(unit));
        aside.untold.retain(|unit| !units.contains(unit));
        self.join_told(out, parent, units);
    }

    /// Takes the branches of children that were told of into their parent's.
    /// Their ledgers stay, so that they can still be looked at.
    fn join_told(&mut self, out: &mut Out, parent: UnitId, children: Vec<UnitId>) {
        if children.is_empty() {
            return;
        }
        let tokens: Vec<_> = children
            .iter()
            .filter_map(|child| self.units.get(child))
            .map(|ledger| ledger.branch.tokens.clone())
            .collect();
        let ledger = self.ledger(parent);
        ledger.branch = ledger.branch.join(&tokens);
        self.record(out, parent, EventKind::Joined { children });
    }

    fn send(
        &mut self,
        out: &mut Out,
        from: UnitId,
        to: UnitId,
        text: Arc<str>,
    ) -> Option<UnitState> {
        let state = self.own(from, to)?.state();
        if matches!(state, UnitState::Queued | UnitState::Running) {
            self.ledger(to).aside().inbox.push(text);
            self.wake(out, to);
        }
        Some(state)
    }

    fn answer_awaited(&mut self, out: &mut Out, unit: UnitId) {
        let Some(aside) = self.ledger(unit).has_aside() else { return };
        let awaited = std::mem::take(&mut aside.awaited);
        let (met, unmet): (Vec<_>, Vec<_>) =
            awaited.into_iter().partition(|awaited| self.is_met(unit, awaited));
        self.ledger(unit).aside().awaited = unmet;
        let answers = met.into_iter().map(|met| Effect::Answer(Answer::GoOn(met.reply)));
        out.effects.extend(answers);
    }

    fn is_met(&self, parent: UnitId, awaited: &Awaited) -> bool {
        let mut ended =
            awaited.units.iter().map(|&unit| self.own(parent, unit).is_none_or(Ledger::has_ended));
        match awaited.until {
            Until::Any => ended.any(|ended| ended),
            Until::All => ended.all(|ended| ended),
        }
    }

    /// Returns how many of a unit's background children have not ended.
    fn out(&self, unit: UnitId) -> usize {
        let children = self.units[&unit].background_children();
        children.filter(|child| !self.units[child].has_ended()).count()
    }

    /// Returns a background child of a unit; `None` if it is none.
    fn own(&self, parent: UnitId, unit: UnitId) -> Option<&Ledger> {
        self.units[&parent].background_children().find(|&child| child == unit)?;
        self.units.get(&unit)
    }

    fn glances(&self, parent: UnitId, of: Option<UnitId>) -> Vec<Glance> {
        let children = self.units[&parent].background_children();
        children
            .filter(|&child| of.is_none_or(|wanted| wanted == child))
            .filter_map(|child| self.glance(parent, child))
            .collect()
    }

    fn glance(&self, parent: UnitId, unit: UnitId) -> Option<Glance> {
        let ledger = self.own(parent, unit)?;
        Some(Glance {
            unit,
            description: Arc::clone(&ledger.description),
            agent: Arc::clone(&ledger.agent),
            state: ledger.state(),
            text: ledger.text_so_far(),
            turns: ledger.turns,
            tool_uses: ledger.tool_uses,
            end: ledger.final_end.clone(),
            unread: ledger.unread(),
        })
    }
}
