//! What steps are made of that hold others, for whoever shows them.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::{Each, GiveUpRule, Inner, Passed, Step, Until, When};
use crate::flow::Flow;
use crate::flow::text::Expression;
use crate::tool::Isolation;

impl Step {
    /// Returns the name of the first agent in it that says it works in a worktree of
    /// its own, unless its flow's inputs may leave that out.
    #[must_use]
    pub fn isolated(&self) -> Option<&Arc<str>> {
        match self {
            Self::Agent(step) => step.isolation.map(|Isolation::Worktree| &step.name),
            Self::Sequence(steps) | Self::Parallel(steps) => steps.iter().find_map(Self::isolated),
            // What only inputs decide may be decided against.
            Self::Each(Each { items: decides, body, .. })
            | Self::When(When { condition: decides, body }) => {
                body.isolated().filter(|_| decides.names().any(|name| !name.starts_with("inputs")))
            }
            Self::Until(Until { body, .. }) => body.isolated(),
            Self::Inner(inner) => inner.flow.step().isolated(),
            Self::Computed(_) => None,
        }
    }
}

impl Step {
    /// Returns the same step, which gives up its items where they all fail alike.
    #[must_use]
    pub fn giving_up(self, gives_up: GiveUpRule) -> Self {
        let Self::Each(each) = self else { return self };
        Self::Each(Each { gives_up: Some(gives_up), ..each })
    }
}

impl Each {
    /// Returns what gives its items.
    #[must_use]
    pub fn items(&self) -> &Expression {
        &self.items
    }

    /// Returns most items it is walked for.
    #[must_use]
    pub fn max_items(&self) -> NonZeroU32 {
        self.max_items
    }

    /// Returns what is walked for each.
    #[must_use]
    pub fn body(&self) -> &Step {
        &self.body
    }
}

impl Until {
    /// Returns what must hold in the end.
    #[must_use]
    pub fn condition(&self) -> &Expression {
        &self.condition
    }

    /// Returns how often it is walked at most.
    #[must_use]
    pub fn max_rounds(&self) -> NonZeroU32 {
        self.max_rounds
    }

    /// Returns what is walked.
    #[must_use]
    pub fn body(&self) -> &Step {
        &self.body
    }
}

impl When {
    /// Returns what must hold before.
    #[must_use]
    pub fn condition(&self) -> &Expression {
        &self.condition
    }

    /// Returns what is walked then.
    #[must_use]
    pub fn body(&self) -> &Step {
        &self.body
    }
}

impl Inner {
    /// Returns the flow.
    #[must_use]
    pub fn flow(&self) -> &Flow {
        &self.flow
    }

    /// Returns what it is given.
    #[must_use]
    pub fn inputs(&self) -> &[(Arc<str>, Passed)] {
        &self.inputs
    }
}
