//! The steps of a review that need no model: they fold what the session's log
//! holds by then.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::event::Event;
use crate::flow::{Compute, Given};
use crate::report::review as written;
use crate::review::{Coverage, Outcome, Plan, Severity};
use crate::session::{self, Entry};

/// A review that is about to be walked, and its report once there is one.
#[derive(Debug, Default)]
pub(in crate::cli) struct Review {
    form: Form,
    /// Nothing of one that is only shown.
    pub(super) divided: OnceLock<Divided>,
    pub(super) report: OnceLock<Report>,
}

/// How its report is wanted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Form {
    /// Whether the flow's answer is JSON.
    pub(super) is_json: bool,
    /// How bad a finding must be for the review to fail; `None` if it does not.
    pub(super) fail_on: Option<Severity>,
}

/// The change that is reviewed, and where its review is kept.
#[derive(Debug)]
pub(super) struct Divided {
    pub(super) plan: Plan,
    /// Where the session's log is.
    pub(super) session: PathBuf,
}

/// What came of a review, in every form that somebody may want.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) sarif: Value,
    pub(super) annotations: String,
    /// Whether something stands that the review is to fail on.
    pub(super) fails: bool,
}

/// What a step computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Territories,
    Unread,
    Findings,
    Report,
}

#[derive(Debug)]
struct Computed {
    what: What,
    review: Arc<Review>,
}

/// Returns what the flow of a review may name.
pub(super) fn computations(review: &Arc<Review>) -> Vec<(&'static str, Arc<dyn Compute>)> {
    let named = [
        ("review.territories", What::Territories),
        ("review.unread", What::Unread),
        ("review.findings", What::Findings),
        ("review.report", What::Report),
    ];
    let computed = |(name, what)| {
        let compute: Arc<dyn Compute> = Arc::new(Computed { what, review: Arc::clone(review) });
        (name, compute)
    };
    named.into_iter().map(computed).collect()
}

impl Compute for Computed {
    fn compute(&self, _: &Given) -> Result<Value, String> {
        let Review { form: Form { is_json, fail_on }, divided, report } = &*self.review;
        let divided = divided.get().ok_or("no change was divided into parts")?;
        let (plan, events) = (&divided.plan, || divided.events());
        Ok(match self.what {
            What::Territories => plan.inputs(),
            What::Unread => plan.unread_inputs(&Coverage::of(plan, &events()?)),
            What::Findings => Outcome::of(plan, &events()?).verify_inputs(),
            What::Report => {
                let events = events()?;
                let outcome = Outcome::of(plan, &events);
                let fails = fail_on.is_some_and(|limit| outcome.fails_on(limit));
                let (sarif, annotations) =
                    (written::sarif(&outcome), written::annotations(&outcome));
                // A flow has one report, and whoever walks it again has another flow.
                let _ = report.set(Report { sarif, annotations, fails });
                match is_json {
                    true => written::json(&outcome),
                    false => Value::from(written::markdown(&outcome)),
                }
            }
        })
    }
}

impl Review {
    pub(super) fn new(form: Form) -> Self {
        Self { form, ..Self::default() }
    }
}

impl Divided {
    /// Reads what the session's log holds.
    fn events(&self) -> Result<Vec<Event>, String> {
        let entries = session::read(&self.session).map_err(|error| error.to_string())?;
        let event = |entry| match entry {
            Entry::Event(event) => Some(event),
            Entry::Unknown { .. } | Entry::Bad { .. } => None,
        };
        Ok(entries.filter_map(event).collect())
    }
}
