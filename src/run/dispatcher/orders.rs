//! What a person has done about units that their callers wait for.

use tokio::sync::mpsc::OwnedPermit;
use tokio_util::sync::CancellationToken;

use super::super::Moved;
use super::super::ledger::WaitsFor;
use super::{Answer, Dispatcher, Effect, Out};
use crate::event::{EventKind, NoticeLevel, UnitId};
use crate::line::Order;
use crate::message::CallId;

impl Dispatcher {
    /// The units that main waits for go on beside it, or those of one call.
    /// Without any nothing happens.
    pub(super) fn set_aside(&mut self, out: &mut Out, of: Option<(Option<CallId>, Moved)>) {
        let (only, moved) = of.map_or((None, None), |(only, moved)| (only, Some(moved)));
        let is_any = self.move_aside(out, only.as_ref());
        let answer = moved.map(|moved| Effect::Answer(Answer::Moved(moved, is_any)));
        out.effects.extend(answer);
    }

    /// Tells whether there was any.
    fn move_aside(&mut self, out: &mut Out, only: Option<&CallId>) -> bool {
        if self.rests() || self.main_cancel().is_cancelled() {
            return false;
        }
        let mut all = Vec::new();
        let mut orders = Vec::new();
        let is_meant = |waits: &&WaitsFor| only.is_none_or(|it| waits.call.as_ref() == Some(it));
        for call in self.units[&UnitId::MAIN].waits.iter().filter(is_meant) {
            let units: Vec<UnitId> = self.waited_for(call.first).collect();
            let permit = call.orders.clone().try_reserve_owned();
            let (Ok(permit), false) = (permit, units.is_empty()) else { continue };
            call.aside.cancel();
            all.extend(units.iter().copied());
            orders.push(Effect::Answer(Answer::Order(permit, Order::Aside(units))));
        }
        if all.is_empty() {
            return false;
        }
        let aside = self.main_ledger().aside();
        aside.children.extend(all.iter().copied());
        aside.out += all.len();
        self.record(out, UnitId::MAIN, EventKind::SetAside { units: all });
        out.effects.push(Effect::Sync);
        out.effects.extend(orders);
        true
    }

    /// The task of a unit is run again in its place, as long as its caller
    /// waits for that. One that runs is stopped first.
    pub(super) fn again(&mut self, out: &mut Out, unit: UnitId) {
        let Some(permit) = self.orders_about(unit) else {
            let text = format!("{unit} is not run again: nobody waits for it any more").into();
            let notice = EventKind::Notice { level: NoticeLevel::Info, text };
            return self.record(out, UnitId::MAIN, notice);
        };
        let ledger = self.ledger(unit);
        ledger.is_replaced = true;
        ledger.cancel.cancel();
        out.effects.push(Effect::Answer(Answer::Order(permit, Order::Again(unit))));
    }

    /// Returns the way to whoever waits for a unit, if anybody does who could
    /// run its task again.
    fn orders_about(&self, unit: UnitId) -> Option<OwnedPermit<Order>> {
        let ledger = self.units.get(&unit).filter(|ledger| !ledger.is_replaced)?;
        let parent = self.units.get(&ledger.parent?)?;
        if parent.started_in_background(unit) || parent.cancel.is_cancelled() {
            return None;
        }
        let call = parent.waits.iter().find(|call| call.first == ledger.call)?;
        if call.aside.is_cancelled() {
            return None;
        }
        call.orders.clone().try_reserve_owned().ok()
    }

    /// Returns the open units of a call of main that it waits for.
    fn waited_for(&self, call: UnitId) -> impl Iterator<Item = UnitId> {
        let main = &self.units[&UnitId::MAIN];
        self.open_children_of(UnitId::MAIN).filter(move |&unit| {
            let ledger = &self.units[&unit];
            ledger.call == call && !ledger.is_replaced && !main.started_in_background(unit)
        })
    }

    /// Forgets the calls that nobody waits for any more.
    pub(super) fn forget_calls(&mut self, parent: UnitId) {
        self.ledger(parent).waits.retain(|call| !call.orders.is_closed());
    }

    /// Returns what fires when the units of a call are set aside.
    pub(super) fn aside_of(&self, parent: UnitId, call: UnitId) -> CancellationToken {
        let waits = self.units[&parent].waits.iter().find(|waits| waits.first == call);
        waits.map(|waits| waits.aside.clone()).unwrap_or_default()
    }
}
