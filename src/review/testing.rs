//! Plans and sessions for the tests of reviews.

use std::collections::BTreeSet;
use std::path::Path;

use super::finding::{Claim, claims};
use super::{Angle, Effort, Plan};
use crate::diff;
use crate::event::testing::{Log, called, ended, finished, prompted, queued, replied};
use crate::event::{
    EventKind, FlowHead, Origin, Outcome, SessionHead, SessionId, SlotPosition, StepDigest,
    StepMark,
};
use crate::git::Change;
use crate::message::Output;

/// Where the repository of the tests is, and its working directory.
pub(crate) const ROOT: &str = "/w";

/// A plan of a diff whose reviewers work at the top.
pub(crate) fn plan(text: &str, effort: Effort) -> Plan {
    Plan::of(&change(text), Path::new(ROOT), effort)
}

/// A change with this diff.
pub(crate) fn change(text: &str) -> Change {
    Change {
        title: "a change".to_owned(),
        root: ROOT.into(),
        commit: None,
        diff: text.to_owned(),
        files: diff::parse(text),
        too_large: BTreeSet::new(),
        apart: Vec::new(),
    }
}

/// The claim of one line of the skill's format.
pub(crate) fn claim(line: &str) -> Claim {
    claims(line).and_then(|claims| claims.found.into_iter().next()).expect("the line is a finding")
}

/// A diff of one file whose only hunk adds these lines at its top.
pub(crate) fn adds(path: &str, lines: &[&str]) -> String {
    let body: String = lines.iter().map(|line| format!("+{line}\n")).collect();
    format!(
        "diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n\
         @@ -0,0 +1,{} @@\n{body}",
        lines.len()
    )
}

/// A session of a review.
pub(crate) struct Session {
    pub(crate) log: Log,
    next: u32,
    /// Whether what is declared is a step of a flow.
    pub(crate) are_steps: bool,
}

impl Session {
    pub(crate) fn new() -> Self {
        let mut log = Log { invocation: 1, ..Log::default() };
        let head = SessionHead {
            session: SessionId("s".into()),
            version: "1".into(),
            cwd: ROOT.into(),
            model: "m".into(),
            mode: "default".into(),
            forked_from: None,
            sandbox: None,
        };
        log.put(0, "", EventKind::SessionOpened(head));
        Self { log, next: 0, are_steps: false }
    }

    /// Has a flow be walked from here on, as the next thing that was asked for.
    pub(crate) fn walk(&mut self) {
        self.log.invocation += 1;
        let (name, inputs) = ("review".into(), "{}".into());
        let head = FlowHead { name, inputs, steps: 1, goes_on: false };
        self.log.put(0, "", EventKind::Walked(head.into()));
        self.are_steps = true;
    }

    /// Declares a unit of a step.
    pub(crate) fn declare(&mut self, step: &str, index: u32) -> u32 {
        self.next += 1;
        let EventKind::UnitQueued(mut head) = queued(step, 0, Origin::Prompt, None) else {
            unreachable!("it is what is queued")
        };
        head.slot = Some(SlotPosition { index, total: 9 });
        let key = format!("look/{step}[{index}]").into();
        head.step = self.are_steps.then_some(StepMark { key, digest: StepDigest(0) });
        self.log.put(self.next, "", EventKind::UnitQueued(head));
        self.next
    }

    /// Declares a unit that begins with this prompt.
    pub(crate) fn unit(&mut self, step: &str, index: u32, prompt: &str) -> u32 {
        let unit = self.declare(step, index);
        self.log.put(unit, "", prompted(prompt));
        unit
    }

    /// Has a unit make one call, and read what it gives.
    pub(crate) fn call(&mut self, unit: u32, (tool, arguments): (&str, &str), output: &str) {
        self.log.put(unit, "", called("", &[(tool, arguments)]));
        self.log.put(unit, "", finished(tool, Output::ok(output)));
    }

    /// Has a unit say its last word.
    pub(crate) fn answer(&mut self, unit: u32, text: &str) {
        self.log.put(unit, "", replied(text));
        self.end(unit, Outcome::Done { text: text.into() });
    }

    pub(crate) fn end(&mut self, unit: u32, outcome: Outcome) {
        self.log.put(unit, "", ended(outcome, "half"));
    }

    /// Has every planned reviewer read its territory, look around once and find
    /// nothing.
    pub(crate) fn all_read(&mut self, plan: &Plan) {
        for angle in plan.effort.angles() {
            self.angle_reads(plan, *angle);
        }
    }

    pub(crate) fn angle_reads(&mut self, plan: &Plan, angle: Angle) {
        for (index, territory) in (0..).zip(&plan.territories) {
            let unit = self.unit(angle.as_str(), index, &territory.diff);
            self.call(unit, ("Glob", "{}"), "a");
            self.answer(unit, r#"{"findings":[]}"#);
        }
    }
}
