//! Claims of several reviewers as one list of findings: what several found alike
//! stands there once, with all their names.
//!
//! Alike is what is in the same file, on nearly the same line, and has nearly the
//! same title. That is a rule of thumb: two findings that are one cost a reader a
//! line, one that hides another costs a fault, so it joins less rather than more.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

use super::finding::{Claim, Severity};
use super::{Angle, Plan};

/// Most findings of a review. More are no report that anybody reads; the worst
/// are kept, and the report says how many are not.
pub const FINDINGS_CAP: usize = 500;

/// How many lines may lie between two findings that are one.
const NEAR: u32 = 3;

/// Words that say nothing of a cause.
const FILLERS: &str =
    "the and for with this that from not are can may will when where which into has have its";

/// Names a finding: the same claim of the same place has the same name in every
/// review.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FindingId(pub Arc<str>);

impl fmt::Display for FindingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is wrong, as one or several reviewers say.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Names it.
    pub id: FindingId,
    /// Says the same as long as the line it is on does, wherever that goes.
    pub fingerprint: String,
    /// What is said of it: in the words of whoever takes it for worst.
    pub claim: Claim,
    /// Who says so, in the order of angles.
    pub finders: Vec<Angle>,
    /// Whether its file is one of the change.
    pub is_in_change: bool,
}

/// Merges claims; returns the findings, the worst first, and how many claims
/// there was no room for.
pub(super) fn merge(plan: &Plan, claims: Vec<(Angle, Claim)>) -> (Vec<Finding>, usize) {
    let mut claims: Vec<_> =
        claims.into_iter().map(|(angle, claim)| (placed(plan, claim), angle)).collect();
    claims.sort_by(|((one, _), one_angle), ((other, _), other_angle)| {
        order(one).cmp(&order(other)).then(one_angle.cmp(other_angle))
    });
    let (mut groups, mut dropped) = (Vec::<Group>::new(), 0);
    for ((claim, is_in_change), angle) in claims {
        let words = words(&claim.title);
        match groups.iter().position(|group| group.is_of(&claim, &words)) {
            Some(place) => groups[place].join(claim, angle),
            None if groups.len() == FINDINGS_CAP => dropped += 1,
            None => groups.push(Group { claim, words, finders: [angle].into(), is_in_change }),
        }
    }
    let mut known = HashSet::new();
    (groups.into_iter().map(|group| group.finish(plan, &mut known)).collect(), dropped)
}

fn order(claim: &Claim) -> (Severity, &str, u32, &str) {
    (claim.severity, &claim.path, claim.line, &claim.title)
}

/// Returns a claim with the change's own name of its file, and whether it has
/// one.
fn placed(plan: &Plan, claim: Claim) -> (Claim, bool) {
    match plan.known(&claim.path).map(str::to_owned) {
        Some(path) => (Claim { path, ..claim }, true),
        None => (claim, false),
    }
}

struct Group {
    claim: Claim,
    words: BTreeSet<String>,
    finders: BTreeSet<Angle>,
    is_in_change: bool,
}

impl Group {
    fn is_of(&self, other: &Claim, words: &BTreeSet<String>) -> bool {
        let ends = |claim: &Claim| claim.end_line.unwrap_or(claim.line).saturating_add(NEAR);
        let is_near = self.claim.line <= ends(other) && other.line <= ends(&self.claim);
        if self.claim.path != other.path || !is_near {
            return false;
        }
        let both = self.words.intersection(words).count();
        let either = self.words.union(words).count();
        self.claim.title == other.title || (both > 0 && 2 * both >= either)
    }

    fn join(&mut self, other: Claim, angle: Angle) {
        self.finders.insert(angle);
        if self.claim.suggestion.is_none() {
            self.claim.suggestion = other.suggestion;
        }
    }

    fn finish(self, plan: &Plan, known: &mut HashSet<FindingId>) -> Finding {
        let Self { claim, words, finders, is_in_change } = self;
        let cause = words.into_iter().collect::<Vec<_>>().join(" ");
        let id = |number: u32| {
            let place = format!("{}\0{}\0{cause}\0{number}", claim.path, claim.line);
            FindingId(format!("f{}", hash(&place)).into())
        };
        // Two of one name differ in words that say nothing.
        let id = (0..).map(id).find(|id| known.insert(id.clone())).expect("the numbers do not end");
        let fingerprint = hash(&format!("{}\0{}\0{cause}", claim.path, line_text(plan, &claim)));
        Finding { id, fingerprint, claim, finders: finders.into_iter().collect(), is_in_change }
    }
}

/// Returns what stands on the line of a claim, if the change has it.
fn line_text<'a>(plan: &'a Plan, claim: &Claim) -> &'a str {
    let mut lines = plan.hunks_of(&claim.path).flat_map(|hunk| &hunk.changed);
    let line = lines.find(|line| line.is_new && line.number == claim.line);
    line.map_or("", |line| line.text.trim())
}

/// Returns what a title says, as a set of words.
fn words(title: &str) -> BTreeSet<String> {
    let words = title.split(|c: char| !c.is_alphanumeric() && c != '_');
    let words = words.map(str::to_lowercase).filter(|word| word.chars().count() > 2);
    let words = words.filter(|word| !FILLERS.split_whitespace().any(|filler| filler == word));
    // One and several of a thing are the same thing.
    words.map(|word| word.strip_suffix('s').map_or(word.clone(), str::to_owned)).collect()
}

fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..12].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::review::Effort;
    use crate::review::testing::{claim, plan};

    const DIFF: &str =
        "diff --git a/a.rs b/a.rs\n--- a/a.rs\n+++ b/a.rs\n@@ -1 +1,2 @@\n x\n+y.unwrap()\n";

    fn merged(claims: &[(Angle, &str)]) -> Vec<Finding> {
        let claims = claims.iter().map(|(angle, line)| (*angle, claim(line))).collect();
        merge(&plan(DIFF, Effort::Medium), claims).0
    }

    #[track_caller]
    fn check(claims: &[(Angle, &str)], expected: &[(&str, &[Angle])]) {
        let found = merged(claims);
        let found: Vec<_> = found.iter().map(|it| (&*it.claim.title, &*it.finders)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_several_found_alike_is_one_finding_with_all_names_and_the_worst_severity() {
        use Angle::{Clarity, Correctness, Tests};
        check(
            &[
                (Tests, "- [low] a.rs:2: unwrap panics without a test"),
                (Clarity, "- [medium] ./a.rs:4: dull name"),
                (Correctness, "- [high] a.rs:4: unwrap panics without value"),
            ],
            &[("unwrap panics without value", &[Correctness, Tests]), ("dull name", &[Clarity])],
        );
    }

    #[test]
    fn another_place_or_another_cause_is_another_finding() {
        use Angle::Correctness;
        for other in [
            "- [high] a.rs:7: unwrap panics",
            "- [high] b.rs:2: unwrap panics",
            "- [high] a.rs:2: lock held over a call",
        ] {
            let found =
                merged(&[(Correctness, "- [high] a.rs:2: unwrap panics"), (Correctness, other)]);
            assert_eq!(found.len(), 2, "{other}");
            assert_ne!(found[0].id, found[1].id, "{other}");
        }
    }

    #[test]
    fn names_do_not_depend_on_who_else_found_what() {
        let alone = merged(&[(Angle::Tests, "- [high] a.rs:2: unwrap panics")]);
        let among = merged(&[
            (Angle::Clarity, "- [high] a.rs:99: something else"),
            (Angle::Correctness, "- [low] b/a.rs:2: unwrap panics"),
        ]);
        let same = among.iter().find(|it| it.claim.line == 2).unwrap();
        assert_eq!((&alone[0].id, &alone[0].fingerprint), (&same.id, &same.fingerprint));
        assert!(
            alone[0].is_in_change && !merged(&[(Angle::Tests, "- [low] z:1: x")])[0].is_in_change
        );
    }

    #[test]
    fn there_is_a_most_of_findings_and_the_rest_is_counted() {
        let claims = (1..=FINDINGS_CAP as u32 + 7)
            .map(|line| (Angle::Tests, claim(&format!("- [low] a.rs:{}: no test", line * 10))));
        let (found, dropped) = merge(&plan(DIFF, Effort::Low), claims.collect());
        assert_eq!((found.len(), dropped), (FINDINGS_CAP, 7));
    }
}
