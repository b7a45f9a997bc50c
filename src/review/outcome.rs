//! What a review came to: a fold over its plan and the events of its session.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::path::Path;

use serde_json::{Value, json};

use super::coverage::{Coverage, Missing, Seat, Seats};
use super::finding::{self, Claims, Severity, Verdict};
use super::merge::{self, Finding};
use super::{Aside, File, Plan, Role, Why};
use crate::event::{self, Event, UnitId};
use crate::{path_text, prompt};

/// Most findings that get a verifier, the worst first: each is an agent that
/// reads around. What is left is in the report as it is.
pub const VERIFIERS_CAP: usize = 200;

/// Most bytes of a hunk that a verifier is given. It can read the rest.
const EVIDENCE_CAP: usize = 12_000;

/// What stands before the finding's name in a verifier's prompt.
const NAMED: &str = "Finding: ";

/// What a review came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome<'a> {
    /// What was planned.
    pub plan: &'a Plan,
    /// Who was shown what.
    pub coverage: Coverage,
    /// What was found, the worst first; what was refuted stays in its place.
    pub findings: Vec<Judged>,
    /// How many findings there was no room for, each as often as a reviewer told of
    /// it.
    pub dropped: usize,
}

/// Finds the place that a path and a line name: see [`Outcome::found`].
pub(super) type Find<'f> = &'f mut dyn FnMut(&str, u32) -> Option<String>;

/// A finding and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// What was found, with what its verifier has corrected.
    pub finding: Finding,
    /// What its verifier says.
    pub verified: Verified,
}

/// What a verifier says of a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verified {
    /// It holds, for this reason.
    Confirmed(String),
    /// It does not.
    Refuted(String),
    /// Nobody can tell.
    Unsure(String),
    /// None was asked.
    NotAsked,
    /// None was asked, because there is no such place.
    Nowhere,
    /// The one who was asked gave no answer, for this reason.
    Unanswered(Missing),
}

impl Verified {
    /// Returns the name in reports.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Confirmed(_) => "confirmed",
            Self::Refuted(_) => "refuted",
            Self::Unsure(_) => "unsure",
            Self::NotAsked => "not_asked",
            Self::Nowhere => "no_such_place",
            Self::Unanswered(_) => "unanswered",
        }
    }
}

impl<'a> Outcome<'a> {
    /// Folds the events of a session. `find` is asked for the place of each finding,
    /// by its path and its line: it returns the path that the file has in the
    /// repository, or `None` if there is no such place.
    ///
    /// At any moment it is what is known by then: a flow asks it for the findings
    /// before anybody has verified one.
    #[must_use]
    pub fn found(
        plan: &'a Plan,
        events: impl IntoIterator<Item: Borrow<Event>>,
        find: Find<'_>,
    ) -> Self {
        let seats = Seats::of(plan, events);
        let coverage = Coverage::from_seats(plan, &seats);
        let (mut claimed, mut too_many) = (Vec::new(), 0);
        for reviewer in &coverage.reviewers {
            let Some(unit) = reviewer.unit else { continue };
            let answer = seats.conversation(unit).next().map(answer).unwrap_or_default();
            let Claims { found, dropped } = finding::claims(answer).unwrap_or_default();
            too_many += dropped;
            claimed.extend(found.into_iter().map(|mut claim| {
                // Before they are merged: a file has several names.
                claim.path = find(&claim.path, claim.line).unwrap_or(claim.path);
                (reviewer.angle, claim)
            }));
        }
        let (found, dropped) = merge::merge(plan, claimed);
        let mut findings: Vec<_> =
            found.into_iter().map(|finding| placed(plan, finding, find)).collect();
        judge(plan, &seats, &mut findings, find);
        // A verifier may have said that one is worse, or less bad.
        findings.sort_by_key(|judged| judged.finding.claim.severity);
        Self { plan, coverage, findings, dropped: dropped + too_many }
    }

    /// Does the same, and takes every place for one that there is.
    #[must_use]
    pub fn of(plan: &'a Plan, events: impl IntoIterator<Item: Borrow<Event>>) -> Self {
        Self::found(plan, events, &mut |path: &str, _: u32| Some(path.to_owned()))
    }

    /// Returns the findings that hold, as far as anybody knows.
    pub fn standing(&self) -> impl Iterator<Item = &Judged> {
        self.findings.iter().filter(|judged| !judged.is_refuted())
    }

    /// Returns the findings that do not hold.
    pub fn refuted(&self) -> impl Iterator<Item = &Judged> {
        self.findings.iter().filter(|judged| judged.is_refuted())
    }

    /// Returns the findings that stand and are at least as bad.
    pub fn at_least(&self, severity: Severity) -> impl Iterator<Item = &Judged> {
        self.standing().filter(move |judged| judged.finding.claim.severity <= severity)
    }

    /// Tells whether every hunk was read, every reviewer counts, and nothing is left
    /// out that somebody could have hidden something in: only then is a review
    /// without findings one that has found nothing.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let has_gaps = self.left_out().any(|aside| aside.why.is_gap());
        !has_gaps && self.coverage.unread().is_empty() && self.coverage.missing().next().is_none()
    }

    /// Returns what nobody was given, and why. Of a file that had no room at first
    /// all may have been sent out and read since.
    pub fn left_out(&self) -> impl Iterator<Item = &'a Aside> {
        let (plan, unread) = (self.plan, self.coverage.unread());
        let is_read = move |path: &str| {
            let mut hunks = plan.files_of(path).iter().flat_map(File::hunks).peekable();
            hunks.peek().is_some() && !hunks.any(|hunk| unread.contains(&hunk))
        };
        plan.aside.iter().filter(move |aside| aside.why != Why::TooMuch || !is_read(&aside.path))
    }

    /// Returns the findings that get a verifier.
    pub fn to_verify(&self) -> impl Iterator<Item = &Finding> {
        to_verify(self.plan, &self.findings).map(|place| &self.findings[place].finding)
    }

    /// Returns what the flow's step for findings comes to: for its `for_each`,
    /// those that get a verifier.
    #[must_use]
    pub fn verify_inputs(&self) -> Value {
        let findings = self.to_verify().map(|finding| {
            let hunk = evidence(self.plan, finding);
            json!({
                "id": &*finding.id.0,
                "path": path_text::to_text(Path::new(&finding.claim.path)),
                "line": finding.claim.line,
                "end_line": finding.claim.end_line,
                "severity": finding.claim.severity.as_str(),
                "title": finding.claim.title,
                "reason": finding.claim.reason,
                "suggestion": finding.claim.suggestion,
                "finders": finding.finders.iter().map(|angle| angle.as_str()).collect::<Vec<_>>(),
                "tag": prompt::unused_tag("finding", &[&finding.claim.reason, &finding.claim.title]),
                "hunk": hunk,
                "hunk_tag": prompt::unused_tag("hunk", &[&hunk]),
            })
        });
        json!({ "to_verify": findings.collect::<Vec<_>>() })
    }
}

impl Judged {
    /// Tells whether it does not hold: its verifier has refuted it, or there is no
    /// such place.
    #[must_use]
    pub fn is_refuted(&self) -> bool {
        match self.verified {
            Verified::Refuted(_) | Verified::Nowhere => true,
            Verified::Confirmed(_)
            | Verified::Unsure(_)
            | Verified::NotAsked
            | Verified::Unanswered(_) => false,
        }
    }
}

/// What a unit has said: its answer, or the last words before it ended badly.
fn answer(seat: &Seat) -> &str {
    match &seat.outcome {
        Some(event::Outcome::Done { text }) => text,
        Some(
            event::Outcome::Failed(_)
            | event::Outcome::Cancelled { .. }
            | event::Outcome::Interrupted,
        )
        | None => &seat.partial,
    }
}

/// Gives a finding the path that its file has in the repository. One at no place does
/// not hold, and nobody has to be asked.
fn placed(plan: &Plan, mut finding: Finding, find: Find<'_>) -> Judged {
    let Some(path) = find(&finding.claim.path, finding.claim.line) else {
        return Judged { finding, verified: Verified::Nowhere };
    };
    finding.is_in_change = plan.known(&path).is_some();
    finding.claim.path = path;
    Judged { finding, verified: Verified::NotAsked }
}

/// The places of the findings that get a verifier.
fn to_verify(plan: &Plan, findings: &[Judged]) -> impl Iterator<Item = usize> {
    let most = if plan.has_verifiers { VERIFIERS_CAP } else { 0 };
    let verified = |place: &usize| {
        let Judged { finding, verified } = &findings[*place];
        *verified != Verified::Nowhere && plan.effort.verifies(finding.claim.severity)
    };
    (0..findings.len()).filter(verified).take(most)
}

/// Gives each finding what its verifier says of it.
fn judge(plan: &Plan, seats: &Seats, findings: &mut [Judged], find: Find<'_>) {
    let places: Vec<usize> = to_verify(plan, findings).collect();
    let names = findings.iter().map(|it| it.finding.id.0.to_string());
    let names: HashMap<String, usize> = names.zip(0..).collect();
    let mut chosen: HashMap<usize, (UnitId, &Seat)> = HashMap::new();
    for (unit, seat) in seats.iter() {
        let Role::Verifier { index } = seat.role else { continue };
        // What it was asked says which it is; one that never ran has its place.
        let prompts = seats.conversation(unit).map(|seat| &*seat.prompt);
        let prompt = prompts.into_iter().find(|prompt| !prompt.is_empty());
        let named = prompt.map(|prompt| named(prompt).and_then(|name| names.get(name)).copied());
        let place = named.unwrap_or_else(|| places.get(index as usize).copied());
        let Some(place) = place else { continue };
        // One that was run again counts, unless it did not get that far.
        if seat.is_done() || !chosen.get(&place).is_some_and(|(_, before)| before.is_done()) {
            chosen.insert(place, (unit, seat));
        }
    }
    // What is nowhere stays so, also if an earlier walk had somebody look for it.
    chosen.retain(|place, _| findings[*place].verified != Verified::Nowhere);
    for (place, (unit, seat)) in chosen {
        rule(&mut findings[place], seat, seats.looks(unit), find);
    }
}

/// Returns the finding that a verifier's prompt names, behind all that others wrote:
/// what siblings share comes first in a prompt.
fn named(prompt: &str) -> Option<&str> {
    let mut lines = prompt.lines().rev();
    lines.find_map(|line| line.strip_prefix(NAMED)).map(str::trim)
}

/// Whoever has looked at nothing cannot tell, and what a finding's own words say
/// of the code is not known to be true.
fn rule(judged: &mut Judged, seat: &Seat, looks: u32, find: Find<'_>) {
    let verified = match &seat.outcome {
        Some(event::Outcome::Done { text }) => match finding::ruling(text) {
            None => Verified::Unanswered(Missing::Unreadable),
            Some(_) if looks == 0 => Verified::Unanswered(Missing::NoLook),
            Some(ruling) => {
                let claim = &mut judged.finding.claim;
                let severity = ruling.severity.unwrap_or(claim.severity);
                match ruling.verdict {
                    Verdict::Confirmed => claim.severity = severity,
                    // Who cannot tell has not shown that it is harmless.
                    Verdict::Unsure => claim.severity = severity.min(claim.severity),
                    Verdict::Refuted => {}
                }
                // A verifier may name a line that is nowhere, too.
                let mut is_other = |line: &u32| {
                    *line != claim.line && find(&claim.path, *line).as_ref() == Some(&claim.path)
                };
                if ruling.verdict != Verdict::Refuted
                    && let Some(line) = ruling.line.filter(|line| is_other(line))
                {
                    (claim.line, claim.end_line) = (line, None);
                }
                match ruling.verdict {
                    Verdict::Confirmed => Verified::Confirmed(ruling.reason),
                    Verdict::Refuted => Verified::Refuted(ruling.reason),
                    Verdict::Unsure => Verified::Unsure(ruling.reason),
                }
            }
        },
        Some(event::Outcome::Failed(failure)) => {
            Verified::Unanswered(Missing::Failed(failure.clone()))
        }
        Some(event::Outcome::Cancelled { ran: true }) => Verified::Unanswered(Missing::Cancelled),
        Some(event::Outcome::Cancelled { ran: false }) => Verified::Unanswered(Missing::NotStarted),
        Some(event::Outcome::Interrupted) => Verified::Unanswered(Missing::Interrupted),
        None => return,
    };
    judged.verified = verified;
}

/// The part of the change that a finding is about, as far as there is room.
fn evidence(plan: &Plan, finding: &Finding) -> String {
    let here = plan.hunks_of(&finding.claim.path);
    let distance = |line: u32, (first, last): (u32, u32)| {
        if line < first { first - line } else { line.saturating_sub(last) }
    };
    let nearest = here.min_by_key(|hunk| distance(finding.claim.line, hunk.lines));
    let text = nearest.map_or("", |hunk| &*hunk.text);
    if text.len() <= EVIDENCE_CAP {
        return text.to_owned();
    }
    let end = text[..text.floor_char_boundary(EVIDENCE_CAP)].rfind('\n').map_or(0, |at| at + 1);
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Failure, FailureKind, Outcome as Ended};
    use crate::review::testing::{Session, adds, plan};
    use crate::review::{Angle, Effort};

    /// A review whose reviewers for correctness find what these lines say.
    fn found(plan: &Plan, lines: &str) -> Session {
        let mut session = Session::new();
        for angle in plan.effort.angles() {
            let unit = session.unit(angle.as_str(), 0, &plan.territories[0].diff);
            session.call(unit, ("Glob", "{}"), "a");
            let answer = if *angle == Angle::Correctness { lines } else { "No findings." };
            session.answer(unit, answer);
        }
        session
    }

    /// Has a verifier say this of the finding on a line.
    fn verify(session: &mut Session, outcome: &Outcome<'_>, line: u32, says: &str) {
        let mut numbered = (0..).zip(outcome.to_verify());
        let (index, finding) = numbered.find(|(_, it)| it.claim.line == line).unwrap();
        let prompt = format!("the facts\n\nFinding: f0\n\nFinding: {}\n", finding.id);
        let unit = session.unit("verify", index, &prompt);
        session.call(unit, ("Glob", "{}"), "a");
        session.answer(unit, says);
    }

    const THREE: &str =
        "- [high] a.rs:1: it panics\n- [medium] a.rs:20: it is slow\n- [low] a.rs:40: it is dull";

    #[test]
    fn each_finding_has_what_its_own_verifier_says_of_it() {
        let plan = plan(&adds("a.rs", &["x"; 50]), Effort::Medium);
        let mut session = found(&plan, THREE);
        let before = Outcome::of(&plan, &session.log.events);
        assert_eq!(before.to_verify().count(), 3);
        // In another order than that of the findings.
        verify(
            &mut session,
            &before,
            40,
            r#"{"verdict":"unsure","reason":"who knows","line":41,"severity":"medium"}"#,
        );
        verify(
            &mut session,
            &before,
            1,
            r#"{"verdict":"refuted","reason":"line 9 asks","line":7}"#,
        );
        verify(&mut session, &before, 20, "maybe");
        let outcome = Outcome::of(&plan, &session.log.events);
        let rows: Vec<_> = outcome
            .findings
            .iter()
            .map(|it| (it.finding.claim.line, it.finding.claim.severity, it.verified.as_str()))
            .collect();
        assert_eq!(
            rows,
            [
                (1, Severity::High, "refuted"),
                (20, Severity::Medium, "unanswered"),
                (41, Severity::Medium, "unsure"),
            ]
        );
        assert_eq!(outcome.refuted().count(), 1);
        assert!(
            outcome.at_least(Severity::High).next().is_none()
                && outcome.at_least(Severity::Medium).next().is_some()
        );
        // What turns out worse goes to the front.
        verify(
            &mut session,
            &before,
            40,
            r#"{"verdict":"confirmed","reason":"r","severity":"high"}"#,
        );
        let outcome = Outcome::of(&plan, &session.log.events);
        let lines: Vec<_> = outcome.findings.iter().map(|it| it.finding.claim.line).collect();
        assert_eq!(lines, [1, 40, 20]);
    }

    #[test]
    fn a_verifier_that_looked_at_nothing_decides_nothing() {
        let plan = plan(&adds("a.rs", &["x"; 50]), Effort::Medium);
        for verdict in ["confirmed", "refuted", "unsure"] {
            let mut session = found(&plan, THREE);
            let says = json!({ "verdict": verdict, "reason": "r", "severity": "low", "line": 9 });
            let name = Outcome::of(&plan, &session.log.events).findings[0].finding.id.to_string();
            let unit = session.unit("verify", 0, &format!("Finding: {name}\n"));
            session.answer(unit, &says.to_string());
            let outcome = Outcome::of(&plan, &session.log.events);
            let first = &outcome.findings[0];
            assert_eq!(first.verified, Verified::Unanswered(Missing::NoLook), "{verdict}");
            assert_eq!((first.finding.claim.line, outcome.standing().count()), (1, 3));
            assert!(outcome.at_least(Severity::High).next().is_some(), "{verdict}");
        }
    }

    #[test]
    fn what_is_nowhere_does_not_hold_and_nobody_is_asked() {
        let plan = plan(&adds("a.rs", &["x"; 50]), Effort::Medium);
        let mut session = found(&plan, THREE);
        let find = &mut |path: &str, line: u32| (line != 20).then(|| path.to_owned());
        let before = Outcome::found(&plan, &session.log.events, find);
        let asked: Vec<_> = before.to_verify().map(|finding| finding.claim.line).collect();
        assert_eq!(asked, [1, 40]);
        // A verifier that never ran has the place of its finding among these.
        let cancelled = session.declare("verify", 1);
        session.end(cancelled, Ended::Cancelled { ran: false });
        let says = r#"{"verdict":"confirmed","reason":"r","line":20}"#;
        verify(&mut session, &before, 1, says);
        // Somebody was asked of it while it was there.
        let name = before.findings[1].finding.id.to_string();
        let unit = session.unit("verify", 2, &format!("Finding: {name}\n"));
        session.call(unit, ("Glob", "{}"), "a");
        session.answer(unit, says);
        let outcome = Outcome::found(&plan, &session.log.events, find);
        let rows = outcome.findings.iter().map(|it| (it.finding.claim.line, it.verified.as_str()));
        let expected = [(1, "confirmed"), (20, "no_such_place"), (40, "unanswered")];
        assert_eq!(rows.collect::<Vec<_>>(), expected);
        assert_eq!((outcome.standing().count(), outcome.refuted().count()), (2, 1));
    }

    #[test]
    fn a_finding_has_the_path_that_its_file_has_in_the_repository() {
        let plan = plan(&adds("sub/a.rs", &["x"]), Effort::Low);
        let session = found(&plan, "- [high] ../sub/./a.rs:1: bad\n- [low] b.rs:1: bad");
        let find = &mut |path: &str, _: u32| Some(format!("sub/{}", path.rsplit('/').next()?));
        let outcome = Outcome::found(&plan, &session.log.events, find);
        let rows = outcome.findings.iter().map(|it| &it.finding);
        let rows: Vec<_> = rows.map(|it| (&*it.claim.path, it.is_in_change)).collect();
        assert_eq!(rows, [("sub/a.rs", true), ("sub/b.rs", false)]);
    }

    #[test]
    fn low_effort_verifies_the_worst_alone() {
        let plan = plan(&adds("a.rs", &["x"; 50]), Effort::Low);
        let session = found(&plan, THREE);
        let outcome = Outcome::of(&plan, &session.log.events);
        let lines: Vec<_> = outcome.to_verify().map(|finding| finding.claim.line).collect();
        assert_eq!(lines, [1]);
        let without = Plan { has_verifiers: false, ..plan.clone() };
        assert_eq!(Outcome::of(&without, &session.log.events).to_verify().count(), 0);
        assert!(
            outcome.at_least(Severity::Low).next().is_some()
                && outcome.at_least(Severity::High).next().is_some()
        );
    }

    #[test]
    fn a_verifier_that_failed_or_never_ran_leaves_its_finding_standing() {
        let plan = plan(&adds("a.rs", &["x"; 50]), Effort::Medium);
        let mut session = found(&plan, THREE);
        let failed = session.declare("verify", 0);
        session.end(failed, Ended::failed(FailureKind::Provider, "overloaded"));
        let cancelled = session.declare("verify", 1);
        session.end(cancelled, Ended::Cancelled { ran: false });
        let outcome = Outcome::of(&plan, &session.log.events);
        let verified: Vec<_> = outcome.findings.iter().map(|it| it.verified.clone()).collect();
        let failed =
            |kind, message: &str| Missing::Failed(Failure { kind, message: message.into() });
        let failed = failed(FailureKind::Provider, "overloaded");
        let expected = [failed, Missing::NotStarted].map(Verified::Unanswered);
        let expected = [&expected[..], &[Verified::NotAsked]].concat();
        assert_eq!(verified, expected);
        assert_eq!(outcome.standing().count(), 3);
    }

    #[test]
    fn what_a_reviewer_had_found_before_it_failed_is_kept_and_the_review_is_incomplete() {
        let plan = plan(&adds("a.rs", &["x"]), Effort::Low);
        let mut session = Session::new();
        session.angle_reads(&plan, Angle::Security);
        assert!(!Outcome::of(&plan, &session.log.events).is_complete());
        let unit = session.unit("correctness", 0, &plan.territories[0].diff);
        session.call(unit, ("Glob", "{}"), "a");
        session.end(unit, Ended::failed(FailureKind::Timeout, "out of time"));
        let outcome = Outcome::of(&plan, &session.log.events);
        let missing: Vec<_> = outcome.coverage.missing().map(|(_, why)| why.clone()).collect();
        let message = "out of time".into();
        assert_eq!(missing, [Missing::Failed(Failure { kind: FailureKind::Timeout, message })]);
        let again = session.unit("correctness", 0, &plan.territories[0].diff);
        session.call(again, ("Glob", "{}"), "a");
        session.answer(again, "- [low] a.rs:1: dull");
        let outcome = Outcome::of(&plan, &session.log.events);
        assert!(outcome.is_complete() && outcome.findings.len() == 1);
    }

    #[test]
    fn what_had_no_room_at_first_and_was_read_since_is_not_left_out() {
        let line = "x".repeat(99);
        let files = (0..16).map(|at| adds(&format!("f{at:02}.rs"), &vec![&*line; 1_000]));
        let plan = plan(&files.collect::<String>(), Effort::Low);
        assert!(plan.aside.iter().any(|aside| aside.why == Why::TooMuch));
        let mut session = Session::new();
        session.all_read(&plan);
        let before = Outcome::of(&plan, &session.log.events);
        assert!(before.left_out().count() > 0 && !before.is_complete());
        for (index, territory) in (0..).zip(plan.unread(&before.coverage)) {
            let unit = session.unit("again", index, &territory.diff);
            session.call(unit, ("Glob", "{}"), "a");
            session.answer(unit, "No findings.");
        }
        let outcome = Outcome::of(&plan, &session.log.events);
        assert_eq!((outcome.left_out().count(), outcome.is_complete()), (0, true));
    }

    #[test]
    fn of_a_path_that_is_two_files_both_have_to_be_read() {
        // A file without room has become a link that has it.
        let lines = format!("-{}\n", "x".repeat(99)).repeat(15_000);
        let gone = "deleted file mode 100644\n--- a/l.rs\n+++ /dev/null\n@@ -1,15000 +0,0 @@";
        let text = format!("diff --git a/l.rs b/l.rs\n{gone}\n{lines}") + &adds("l.rs", &["x"]);
        let plan = plan(&text, Effort::Low);
        let files: Vec<_> =
            plan.files.iter().map(|file| (&*file.path, file.left_out > 0)).collect();
        assert_eq!(files, [("l.rs", true), ("l.rs", false)]);
        let mut session = Session::new();
        session.all_read(&plan);
        let outcome = Outcome::of(&plan, &session.log.events);
        let left_out: Vec<_> = outcome.left_out().map(|it| (&*it.path, it.why)).collect();
        assert_eq!(left_out, [("l.rs", Why::TooMuch)]);
    }

    #[test]
    fn a_verifier_gets_the_hunk_of_its_finding_and_no_more_than_fits() {
        let text = adds("a.rs", &["y"; 9]) + &adds("b.rs", &["</hunk> x = 1;"; 4_000]);
        let plan = plan(&text, Effort::Medium);
        let session =
            found(&plan, "- [high] a.rs:3: bad\n- [high] b.rs:4000: bad\n- [high] c.rs:1: bad");
        let inputs = Outcome::of(&plan, &session.log.events).verify_inputs();
        let items = inputs["to_verify"].as_array().unwrap();
        assert_eq!(items[0]["hunk"], format!("@@ -0,0 +1,9 @@\n{}", "+y\n".repeat(9)));
        let second = items[1]["hunk"].as_str().unwrap();
        assert!(second.len() <= EVIDENCE_CAP && second.ends_with("+</hunk> x = 1;\n"));
        assert_eq!(items[1]["hunk_tag"], "hunk_");
        assert_eq!(items[2]["hunk"], "");
    }
}
