//! A flow before it is walked: its steps, and the tokens that each of them would
//! draw. What is walked several times is shown once, as for its first item or
//! its first round; what has a condition is shown as if it held.

use super::names;
use super::step::{Each, Inner, Step, Until, When};
use super::{Flow, StepPlace};
use crate::branch::{Token, TokenSet};

/// A step as it would be walked.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown<'a> {
    /// The step.
    pub step: &'a Step,
    /// Where it stands in its own flow.
    pub at: StepPlace,
    /// The tokens of the branch that it begins on.
    pub tokens: TokenSet,
    /// The token that its branch parts with; `None` if it goes on where it
    /// stands.
    pub draws: Option<Token>,
    /// The first and the last of the tokens that are kept for all inside it;
    /// `None` if nothing parts there.
    pub reserves: Option<(Token, Token)>,
    /// The steps inside it, in declared order.
    pub inside: Vec<Shown<'a>>,
}

impl Shown<'_> {
    /// Returns the first and the last of the tokens with which branches part
    /// right in it; `None` if none does.
    #[must_use]
    pub fn parts(&self) -> Option<(Token, Token)> {
        let count = match self.step {
            Step::Parallel(steps) => u64::from(steps.count()),
            Step::Each(each) => u64::from(each.max_items().get()),
            Step::Agent(_)
            | Step::Sequence(_)
            | Step::Until(_)
            | Step::When(_)
            | Step::Inner(_)
            | Step::Computed(_) => return None,
        };
        self.reserves.map(|(first, _)| (first, Token(first.0 + count - 1)))
    }
}

impl Step {
    /// Returns what sort of step it is, in a word.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        names::kind(self)
    }
}

impl Flow {
    /// Returns its steps with the tokens that a walk of it would draw, in the
    /// first invocation of a session or any other.
    #[must_use]
    pub fn tree(&self) -> Shown<'_> {
        let mut on = TokenSet::default();
        show(self.step(), StepPlace::default(), &mut on, 1)
    }
}

/// Shows a step that begins on a branch with the tokens `on`, which afterwards
/// holds those that have joined. Its own begin with `first`.
fn show<'a>(step: &'a Step, at: StepPlace, on: &mut TokenSet, first: u64) -> Shown<'a> {
    let tokens = on.clone();
    let inside = inside(step, &at, on, first);
    let forks = step.forks();
    let reserves = (forks > 0).then(|| (Token(first), Token(first + forks - 1)));
    if let Some((first, last)) = reserves {
        *on = on.union([&range(first, last)]);
    }
    Shown { step, at, tokens, draws: None, reserves, inside }
}

fn inside<'a>(step: &'a Step, at: &StepPlace, on: &TokenSet, first: u64) -> Vec<Shown<'a>> {
    let mut on = on.clone();
    match step {
        Step::Agent(_) | Step::Computed(_) => Vec::new(),
        Step::Sequence(steps) => {
            let mut first = first;
            let shown = steps.iter().enumerate().map(|(index, step)| {
                let shown = show(step, at.inside(index), &mut on, first);
                first += step.forks();
                shown
            });
            shown.collect()
        }
        Step::Parallel(steps) => {
            let mut below = first + u64::from(steps.count());
            let shown = (first..).zip(steps.iter().enumerate()).map(|(own, (index, step))| {
                let shown = apart(step, at.inside(index), &on, (own, below));
                below += step.forks();
                shown
            });
            shown.collect()
        }
        Step::Each(Each { max_items, body, .. }) => {
            let below = first + u64::from(max_items.get());
            vec![apart(body, at.clone(), &on, (first, below))]
        }
        Step::Until(Until { body, .. }) | Step::When(When { body, .. }) => {
            vec![show(body, at.clone(), &mut on, first)]
        }
        Step::Inner(Inner { flow, .. }) => {
            vec![show(flow.step(), StepPlace::default(), &mut on, first)]
        }
    }
}

/// Shows a step on a branch of its own.
fn apart<'a>(step: &'a Step, at: StepPlace, on: &TokenSet, (own, below): (u64, u64)) -> Shown<'a> {
    let own = Token(own);
    let mut inside = on.with(own);
    Shown { draws: Some(own), ..show(step, at, &mut inside, below) }
}

fn range(first: Token, last: Token) -> TokenSet {
    let text = match first == last {
        true => first.0.to_string(),
        false => format!("{}-{}", first.0, last.0),
    };
    text.parse().expect("a flow has far fewer tokens than can be read")
}

impl StepPlace {
    /// Returns the place of a step inside this one.
    #[must_use]
    pub fn inside(&self, index: usize) -> Self {
        let mut place = self.0.clone();
        place.push(index);
        Self(place)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::flow::{AgentStep, Expression};

    fn agent(name: &str) -> Step {
        Step::Agent(AgentStep::new(name, "explore", "look"))
    }

    /// Writes down a tree, a line for each step.
    fn lines(shown: &Shown<'_>, depth: usize, out: &mut Vec<String>) {
        let name = shown.step.name().map_or_else(|| crate::flow::names::kind(shown.step), |n| &**n);
        let draws = shown.draws.map_or_else(String::new, |token| format!(" draws {}", token.0));
        let reserves = shown
            .reserves
            .map_or_else(String::new, |(first, last)| format!(" reserves {}-{}", first.0, last.0));
        out.push(format!("{}{name} {{{}}}{draws}{reserves}", "  ".repeat(depth), shown.tokens));
        shown.inside.iter().for_each(|shown| lines(shown, depth + 1, out));
    }

    #[test]
    fn a_tree_shows_the_tokens_that_a_walk_draws() {
        let pair = |a, b| Step::parallel(vec![agent(a), agent(b)]).unwrap();
        let list = Expression::parse("[]").unwrap();
        let each = Step::each("all", list, NonZeroU32::new(3).unwrap(), pair("c", "d")).unwrap();
        let step = Step::sequence(vec![pair("a", "b"), each, agent("last")]).unwrap();
        let flow = Flow::new("test", "", Vec::new(), step).unwrap();
        let mut found = Vec::new();
        lines(&flow.tree(), 0, &mut found);
        let expected = [
            "sequence {} reserves 1-11",
            "  parallel {} reserves 1-2",
            "    a {1} draws 1",
            "    b {2} draws 2",
            "  all {1-2} reserves 3-11",
            "    parallel {1-3} draws 3 reserves 6-7",
            "      c {1-3,6} draws 6",
            "      d {1-3,7} draws 7",
            "  last {1-11}",
        ];
        // A step that parts begins on a branch of its own.
        assert_eq!(found, expected);
        let parts = |shown: &Shown<'_>| shown.parts().map(|(first, last)| (first.0, last.0));
        let found: Vec<_> = flow.tree().inside.iter().map(parts).collect();
        assert_eq!(found, [Some((1, 2)), Some((3, 5)), None]);
    }
}
