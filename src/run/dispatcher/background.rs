//! Units that run beside their parents: what parents hear of them, and how
//! they tend them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::oneshot;

use super::super::ledger::{Awaited, Ledger};
use super::{Answer, Dispatcher, Effect, Out};
use crate::branch::{Branch, TokenSet};
use crate::event::{Event, EventKind, Invocation, NoticeLevel, Seq, UnitEnd, UnitId};
use crate::fanout::news::{self, Letter, Writer};
use crate::line::{Glance, News, Sent, Tend, Until, Wait};

/// Most messages that wait for one unit's next turn. Whoever sends more than
/// this should wait for an answer.
const INBOX_CAP: usize = 32;

/// Most messages of the user that wait for main, and their most bytes together:
/// more than anybody types while a turn goes on.
pub const WROTE_CAP: (usize, usize) = (100, 256_000);

impl Dispatcher {
    pub(super) fn tend(&mut self, out: &mut Out, unit: UnitId, tend: Tend) {
        match tend {
            Tend::News { wait, reply } => self.news(out, unit, wait, reply),
            Tend::Look { unit: of, reply } => {
                let glances = self.glances(unit, of);
                out.effects.push(Effect::Answer(Answer::Glances(reply, glances)));
            }
            Tend::Await { units, until, reply } => {
                let awaited = Awaited { out: BTreeSet::new(), until, reply };
                self.wait_for(out, unit, &units.into_iter().collect(), awaited);
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
                let sent = self.send(out, unit, to, text);
                out.effects.push(Effect::Answer(Answer::Sent(reply, sent)));
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
        aside.out -= 1;
        aside.untold.push(unit);
        // Whoever has stopped waiting costs nothing any more.
        aside.awaited.retain(|awaited| !awaited.reply.is_closed());
        let met = aside.awaited.extract_if(.., |awaited| awaited.is_met_by(unit));
        let answers = met.map(|met| Effect::Answer(Answer::GoOn(met.reply)));
        out.effects.extend(answers);
        self.ledger(unit).final_end = Some(Arc::clone(end));
        self.wake(out, parent);
    }

    fn wait_for(
        &mut self,
        out: &mut Out,
        unit: UnitId,
        units: &BTreeSet<UnitId>,
        awaited: Awaited,
    ) {
        let is_out = |&of: &UnitId| self.own(unit, of).is_some_and(|own| !own.has_ended());
        let still_out: BTreeSet<UnitId> = units.iter().copied().filter(is_out).collect();
        let is_met = match awaited.until {
            Until::Any => still_out.len() < units.len(),
            Until::All => still_out.is_empty(),
        };
        if is_met {
            out.effects.push(Effect::Answer(Answer::GoOn(awaited.reply)));
        } else {
            self.ledger(unit).aside().awaited.push(Awaited { out: still_out, ..awaited });
        }
    }

    fn news(&mut self, out: &mut Out, unit: UnitId, wait: Wait, reply: oneshot::Sender<News>) {
        // Nobody would read what is delivered.
        if reply.is_closed() {
            return;
        }
        let Some(aside) = self.ledger(unit).has_aside() else {
            out.effects.push(Effect::Answer(Answer::News(reply, News::Nothing)));
            return;
        };
        if aside.has_news() {
            let text = self.deliver(out, unit);
            out.effects.push(Effect::Answer(Answer::News(reply, News::Message(text))));
        } else if aside.out == 0 {
            out.effects.push(Effect::Answer(Answer::News(reply, News::Nothing)));
        } else {
            match wait {
                Wait::No => out.effects.push(Effect::Answer(Answer::News(reply, News::NotYet))),
                Wait::UntilThereAre => aside.listening = Some(reply),
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

    /// Puts the news of a unit into its conversation and returns them.
    /// Messages that do not fit are left for the next boundary.
    fn deliver(&mut self, out: &mut Out, unit: UnitId) -> Arc<str> {
        let aside = self.ledger(unit).aside();
        let still_out = aside.out;
        let children = std::mem::take(&mut aside.untold);
        let fitting = news::fitting(&aside.inbox);
        let messages: Vec<Letter> = aside.inbox.drain(..fitting).collect();
        let of_user = messages.iter().filter(|letter| letter.by == Writer::User).count();
        let wrote = u32::try_from(of_user).unwrap_or(u32::MAX);
        let ended: Vec<Glance> =
            children.iter().filter_map(|&child| self.glance(unit, child)).collect();
        let text: Arc<str> = news::text(&ended, still_out, &messages).into();
        self.join_told(out, unit, children.clone());
        self.record(out, unit, EventKind::Notified { children, text: Arc::clone(&text), wrote });
        out.effects.push(Effect::Sync);
        text
    }

    /// Takes note that a parent knows the whole end of some children.
    fn take_in(&mut self, out: &mut Out, parent: UnitId, units: Vec<UnitId>) {
        let Some(aside) = self.ledger(parent).has_aside() else { return };
        let taken: BTreeSet<UnitId> = units.into_iter().collect();
        let children = aside.untold.extract_if(.., |unit| taken.contains(unit)).collect();
        self.join_told(out, parent, children);
    }

    /// Takes the branches of children that were told of into their parent's.
    /// Their ledgers stay, so that they can still be looked at.
    fn join_told(&mut self, out: &mut Out, parent: UnitId, children: Vec<UnitId>) {
        let mut of: BTreeMap<Invocation, (Vec<UnitId>, Vec<TokenSet>)> = BTreeMap::new();
        for child in children {
            let Some(ledger) = self.units.get(&child) else { continue };
            let (units, tokens) = of.entry(ledger.invocation).or_default();
            units.push(child);
            tokens.push(ledger.branch.tokens.clone());
        }
        for (invocation, (children, tokens)) in of {
            let ledger = self.ledger(parent);
            if ledger.invocation == invocation {
                ledger.branch = ledger.branch.join(&tokens);
                self.record(out, parent, EventKind::Joined { children });
            } else {
                self.join_earlier(out, invocation, &tokens, children);
            }
        }
    }

    /// Takes the branches of units of an earlier invocation into what main had
    /// joined there: tokens of two invocations never stand in one set.
    fn join_earlier(
        &mut self,
        out: &mut Out,
        invocation: Invocation,
        tokens: &[TokenSet],
        children: Vec<UnitId>,
    ) {
        let joined = self.joins.joined_in(invocation).union(tokens);
        let branch = Branch { tokens: joined, ..Branch::root() };
        let (unit, kind) = (UnitId::MAIN, EventKind::Joined { children });
        let event = Event { seq: Seq(0), at: out.now, invocation, unit, branch, kind };
        self.number(out, event);
    }

    fn send(&mut self, out: &mut Out, from: UnitId, to: UnitId, text: Arc<str>) -> Sent {
        let Some(state) = self.own(from, to).map(Ledger::state) else { return Sent::Unknown };
        if state.has_ended() {
            return Sent::Ended(state);
        }
        let inbox = &mut self.ledger(to).aside().inbox;
        if inbox.len() >= INBOX_CAP {
            return Sent::Full;
        }
        inbox.push(Letter { by: Writer::Parent, text });
        if let Some(first_news) = self.ledger(to).first_news.take() {
            out.effects.push(Effect::Answer(Answer::GoOn(first_news)));
        }
        self.wake(out, to);
        Sent::Queued
    }

    /// Takes a message of the user, which main reads at its next turn's
    /// boundary; at rest, when it is told the news.
    pub(super) fn wrote(&mut self, out: &mut Out, text: Arc<str>) {
        let inbox = &mut self.main_ledger().aside().inbox;
        let waiting = inbox.iter().filter(|letter| letter.by == Writer::User);
        let (count, bytes) =
            waiting.fold((1, text.len()), |(n, sum), letter| (n + 1, sum + letter.text.len()));
        let (most, most_bytes) = WROTE_CAP;
        if count > most || bytes > most_bytes {
            let text = "what you wrote is not kept: too much waits to be read already".into();
            let notice = EventKind::Notice { level: NoticeLevel::Warning, text };
            return self.record(out, UnitId::MAIN, notice);
        }
        inbox.push(Letter { by: Writer::User, text: Arc::clone(&text) });
        self.record(out, UnitId::MAIN, EventKind::UserWrote { text });
        out.effects.push(Effect::Sync);
        self.wake(out, UnitId::MAIN);
    }

    /// Takes back what the user wrote and main has not read.
    pub(super) fn take_back(&mut self, out: &mut Out) {
        let Some(aside) = self.main_ledger().has_aside() else { return };
        let before = aside.inbox.len();
        aside.inbox.retain(|letter| letter.by != Writer::User);
        if aside.inbox.len() < before {
            self.record(out, UnitId::MAIN, EventKind::UserTookBack);
        }
    }

    /// Returns a background child of a unit; `None` if it is none.
    fn own(&self, parent: UnitId, unit: UnitId) -> Option<&Ledger> {
        self.units.get(&unit).filter(|_| self.units[&parent].started_in_background(unit))
    }

    fn glances(&self, parent: UnitId, of: Option<UnitId>) -> Vec<Glance> {
        match of {
            Some(child) => self.glance(parent, child).into_iter().collect(),
            None => {
                let children = self.units[&parent].background_children();
                children.filter_map(|child| self.glance(parent, child)).collect()
            }
        }
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
            continued_by: ledger.continued_by,
        })
    }
}
