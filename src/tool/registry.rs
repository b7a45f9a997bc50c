//! The tools of a run, in their fixed order.
//!
//! The order is part of every request's prefix: it never depends on a map, on
//! timing or on what a unit may use. A unit with fewer tools gets the same
//! order with gaps.

use std::sync::Arc;

use super::Tool;
use super::agent::Agent;
use super::ask_user::AskUserQuestion;
use super::background::{SendMessage, TaskList, TaskOutput, TaskStop, TaskWait};
use super::bash::Bash;
use super::edit::Edit;
use super::glob::Glob;
use super::grep::Grep;
use super::patch::ApplyPatch;
use super::read::Read;
use super::skill::Skill;
use super::todo::TodoWrite;
use super::web_fetch::WebFetch;
use super::write::Write;
use crate::message::ToolSchema;

pub use crate::tool_name::canonical;

/// Some of the tools of a run. A clone shares them.
#[derive(Clone, Default)]
pub struct Registry {
    tools: Vec<Registered>,
}

#[derive(Clone)]
struct Registered {
    name: Arc<str>,
    tool: Arc<dyn Tool>,
}

impl Registry {
    /// Every tool there is, with an Agent tool that offers `agents` (name and
    /// purpose each).
    pub fn all<'a>(agents: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let tools: [Arc<dyn Tool>; 17] = [
            Arc::new(Read),
            Arc::new(Write),
            Arc::new(Edit),
            Arc::new(ApplyPatch),
            Arc::new(Bash),
            Arc::new(Glob),
            Arc::new(Grep),
            Arc::new(TodoWrite),
            Arc::new(Agent::new(agents)),
            Arc::new(Skill),
            Arc::new(TaskList),
            Arc::new(TaskOutput),
            Arc::new(TaskWait),
            Arc::new(TaskStop),
            Arc::new(SendMessage),
            Arc::new(AskUserQuestion),
            Arc::new(WebFetch),
        ];
        let register = |tool: Arc<dyn Tool>| Registered { name: tool.schema().name.into(), tool };
        Self { tools: tools.into_iter().map(register).collect() }
    }

    /// Returns the tools for which `keep` holds, in the same order.
    #[must_use]
    pub fn filtered(&self, keep: impl Fn(&str) -> bool) -> Self {
        let tools = self.tools.iter().filter(|tool| keep(&tool.name)).cloned().collect();
        Self { tools }
    }

    /// Returns the same tools and more behind them. One whose name is taken is
    /// left out: it could not be called.
    #[must_use]
    pub(super) fn and(&self, more: impl Iterator<Item = Arc<dyn Tool>>) -> Self {
        let mut all = self.clone();
        for tool in more {
            let name: Arc<str> = tool.schema().name.into();
            if all.find(&name).is_none() {
                all.tools.push(Registered { name, tool });
            }
        }
        all
    }

    /// Finds a tool by the name a model used: its own name in any case, or
    /// `Task` for `Agent`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<(&Arc<str>, &Arc<dyn Tool>)> {
        let name = canonical(name);
        self.tools
            .iter()
            .find(|tool| tool.name.eq_ignore_ascii_case(name))
            .map(|tool| (&tool.name, &tool.tool))
    }

    /// Returns the names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| &*tool.name)
    }

    /// Returns what a model is told of the tools, in order.
    #[must_use]
    pub fn schemas(&self) -> Vec<ToolSchema> {
        self.tools.iter().map(|tool| tool.tool.schema()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_a_known_name() {
        assert!(Registry::all([]).names().eq(crate::tool_name::KNOWN));
    }
}
