//! What units say that sets nothing off: it becomes an event, and a line in
//! the unit's ledger.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{Answer, Dispatcher, Effect, Out, Response};
use crate::branch::Branch;
use crate::event::{Compaction, EventKind, ForkShare, NoticeLevel, UnitId, UnixMillis};
use crate::line::Told;

impl Dispatcher {
    /// Tells people something about the whole run.
    pub fn note(&mut self, text: Arc<str>, now: UnixMillis) -> Response {
        let mut out = Out::new(now);
        let notice = EventKind::Notice { level: NoticeLevel::Info, text };
        self.record(&mut out, UnitId::MAIN, notice);
        out.done()
    }

    /// Takes note of what needs no answer and sets nothing off.
    pub(super) fn told(&mut self, out: &mut Out, unit: UnitId, told: Told) {
        match &told {
            Told::Compacted(compaction) => {
                return self.compacted(out, unit, Arc::clone(compaction));
            }
            Told::PrefixShared(share) => {
                self.ledger(unit).share = Some(ForkShare { prefix: *share, cached_tokens: 0 });
            }
            Told::Throttled(_) => self.ledger(unit).is_throttled = true,
            Told::Admitted { waited_ms: _ } => self.ledger(unit).is_throttled = false,
            Told::RequestFailed(failed) => {
                self.ledger(unit).failed(failed);
                self.spend(unit, failed.usage);
            }
            Told::Prompted(_)
            | Told::Reminded { text: _ }
            | Told::Walked(_)
            | Told::Offered(_)
            | Told::Worktree(_)
            | Told::HookRan(_)
            | Told::Denied { .. }
            | Told::Notice { .. } => {}
        }
        self.record(out, unit, told.into());
    }

    /// Lets the unit go on once the event is on disk, if it waits for that.
    pub(super) fn record_synced(
        &mut self,
        out: &mut Out,
        unit: UnitId,
        kind: EventKind,
        synced: Option<oneshot::Sender<()>>,
    ) {
        self.record(out, unit, kind);
        out.effects.extend(synced.map(|reply| Effect::AnswerSynced(Answer::GoOn(reply))));
    }

    /// A summary of the main conversation stands for what every strand could
    /// see or had before it; so it is on the root branch, whatever main has
    /// joined by now. Any other unit's concerns that unit alone.
    fn compacted(&mut self, out: &mut Out, unit: UnitId, compaction: Arc<Compaction>) {
        self.spend(unit, compaction.usage);
        let ledger = self.ledger(unit);
        ledger.compacted(&compaction);
        let branch = if unit == UnitId::MAIN { Branch::root() } else { ledger.branch.clone() };
        self.record_on(out, unit, branch, EventKind::Compacted(compaction));
    }
}
