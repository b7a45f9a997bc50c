//! The steps of a review that need no model: they fold what the session's log
//! holds by then.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::cli::runner;
use crate::event::{Event, FailureKind};
use crate::flow::{Compute, Fault, Given};
use crate::git::Program;
use crate::report::review as written;
use crate::review::{Coverage, Ground, Missing, Outcome, Plan, Severity};
use crate::session;

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
    /// What looks up whether there is the place of a finding.
    pub(super) git: Program,
    /// Where the session's log is.
    pub(super) session: PathBuf,
}

/// What came of a review, in every form that somebody may want.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) sarif: Value,
    pub(super) annotations: String,
    /// Whether the review is to fail on what stands or was not seen to.
    pub(super) fails: Option<Fails>,
}

/// Why a review fails that did all it could.
#[derive(Debug)]
pub(super) enum Fails {
    /// So much stands that is at least that bad; the report says what.
    Found(usize, Severity),
    /// Not all of the change was seen to, in these words.
    Incomplete(String),
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
    fn is_text(&self) -> bool {
        self.what == What::Report
    }

    fn compute(&self, _: &Given) -> Result<Value, Fault> {
        let Review { form: Form { is_json, fail_on }, divided, report } = &*self.review;
        let divided = divided.get().ok_or("no change was divided into parts")?;
        let plan = &divided.plan;
        Ok(match self.what {
            What::Territories => plan.inputs(),
            What::Unread => plan.unread_inputs(&Coverage::of(plan, divided.events()?)),
            What::Findings => divided.outcome()?.verify_inputs(),
            What::Report => {
                let outcome = divided.outcome()?;
                let fails = fail_on.and_then(|limit| fails(&outcome, limit));
                let (sarif, annotations) =
                    (written::sarif(&outcome), written::annotations(&outcome));
                // A flow has one report, and whoever walks it again has another flow.
                let _ = report.set(Report { sarif, annotations, fails });
                let value = match is_json {
                    true => written::json(&outcome),
                    false => written::markdown(&outcome, runner::is_reading()).into(),
                };
                match failed(&outcome, &value) {
                    Some(fault) => return Err(fault),
                    None => value,
                }
            }
        })
    }
}

/// Returns why a review fails that is to fail on findings as bad as this.
fn fails(outcome: &Outcome<'_>, limit: Severity) -> Option<Fails> {
    let found = outcome.at_least(limit).count();
    if found > 0 {
        return Some(Fails::Found(found, limit));
    }
    let gaps = written::gaps(outcome)?;
    Some(Fails::Incomplete(format!(
        "the review is not complete, so it cannot pass `--fail-on`: {gaps}"
    )))
}

/// Returns how a review failed of which no reviewer counts. It leaves its report.
fn failed(outcome: &Outcome<'_>, report: &Value) -> Option<Fault> {
    let message = written::failure(outcome)?;
    let kind = match outcome.coverage.failed() {
        Some((_, Missing::Failed(failure))) => failure.kind,
        Some((_, _)) | None => FailureKind::Setup,
    };
    let text = report.as_str().map_or_else(|| report.to_string(), str::to_owned);
    Some(Fault { kind, message, text: Some(text.into()) })
}

impl Review {
    pub(super) fn new(form: Form) -> Self {
        Self { form, ..Self::default() }
    }
}

impl Divided {
    /// Folds what the session's log holds. This waits for the disk and for git.
    fn outcome(&self) -> Result<Outcome<'_>, String> {
        let mut ground = Ground::of(&self.plan, &self.git);
        let find = &mut |path: &str, line: u32| ground.find(path, line);
        Ok(Outcome::found(&self.plan, self.events()?, find))
    }

    /// Reads what the session's log holds, one event at a time.
    fn events(&self) -> Result<impl Iterator<Item = Event>, String> {
        let entries = session::read(&self.session).map_err(|error| error.to_string())?;
        Ok(entries.events())
    }
}
