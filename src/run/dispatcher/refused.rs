//! A message of main that its provider refuses because of its images.
//!
//! Each later request would hold them, too, and be refused like this one: a
//! summary, which could take them out, is a request itself. So main's
//! conversation goes back behind the message, unless something came of it.

use crate::event::{Event, EventKind, FailureKind, NoticeLevel, Outcome, Seq, UnitEnd, UnitId};

use super::{Dispatcher, Out};

const TAKEN_BACK: &str = "the provider refused the request with the images of this message, so the message is not part \
     of the conversation; send it again without them, or with others";

/// What main was before its last message, if that has images and nothing has
/// come of it yet.
#[derive(Debug, Default)]
pub(super) struct Unanswered(Option<Seq>);

impl Unanswered {
    /// Takes note of an event.
    pub(super) fn take(&mut self, event: &Event) {
        if event.unit != UnitId::MAIN {
            return;
        }
        let goes_on = matches!(
            event.kind,
            EventKind::Prompted(_)
                | EventKind::Notified { .. }
                | EventKind::Replied(_)
                | EventKind::Compacted(_)
                | EventKind::Rewound { to: _ }
                | EventKind::InvocationEnded(_)
        );
        if goes_on {
            self.0 = None;
        }
        if let EventKind::Prompted(prompt) = &event.kind
            && !prompt.images.is_empty()
        {
            self.0 = Some(Seq(event.seq.0 - 1));
        }
    }
}

impl Dispatcher {
    /// Takes main's message back if its images were refused.
    pub(super) fn take_back_if_refused(&mut self, out: &mut Out, main: &UnitEnd) {
        let Outcome::Failed(failure) = &main.outcome else { return };
        if failure.kind != FailureKind::Request {
            return;
        }
        if let Some(to) = self.unanswered.0.take() {
            let notice = EventKind::Notice { level: NoticeLevel::Warning, text: TAKEN_BACK.into() };
            self.record(out, UnitId::MAIN, EventKind::Rewound { to });
            self.record(out, UnitId::MAIN, notice);
        }
    }
}
