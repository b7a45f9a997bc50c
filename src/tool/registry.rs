//! The tools of a run, in their fixed order.
//!
//! The order is part of every request's prefix: it never depends on a map, on
//! timing or on what a unit may use. A unit with fewer tools gets the same
//! order with gaps.

use std::collections::BTreeMap;
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
use super::structured::{AnswerSchema, StructuredOutput};
use super::todo::TodoWrite;
use super::web_fetch::WebFetch;
use super::write::Write;
use crate::message::ToolSchema;
use crate::tool_name::{KNOWN, OtherNames, STRUCTURED_OUTPUT};

pub use crate::tool_name::canonical;

/// Some of the tools of a run. A clone shares them.
#[derive(Clone, Default)]
pub struct Registry {
    tools: Vec<Registered>,
    /// What an answer must fit; then the last tool is the one that gives it.
    answer: Option<Arc<AnswerSchema>>,
    /// Which of what servers offer is taken.
    of_servers: Arc<OfServers>,
    /// What runs in place of tools that a model calls.
    aliases: Arc<Aliases>,
}

/// Names of tools, each with that of the tool that runs in its place.
pub type Aliases = BTreeMap<String, String>;

/// Which tools of servers a conversation takes.
#[derive(Debug, Default)]
pub struct OfServers {
    /// The only ones, or their servers; `None` if it is all.
    pub listed: Option<Vec<String>>,
    /// Those that are not taken, or their servers.
    pub denied: Vec<String>,
}

impl OfServers {
    fn takes(&self, name: &str, others: &OtherNames) -> bool {
        self.listed.as_deref().is_none_or(|listed| others.lists(listed, name))
            && !others.is_kept_from(&self.denied, name)
    }
}

#[derive(Clone)]
struct Registered {
    name: Arc<str>,
    tool: Arc<dyn Tool>,
}

impl From<Arc<dyn Tool>> for Registered {
    fn from(tool: Arc<dyn Tool>) -> Self {
        Self { name: tool.schema().name.into(), tool }
    }
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
        Self {
            tools: tools.into_iter().map(Registered::from).collect(),
            answer: None,
            of_servers: Arc::default(),
            aliases: Arc::default(),
        }
    }

    /// Returns the tools for which `keep` holds, in the same order. How an
    /// answer is given is no unit's business but its own, and never kept.
    #[must_use]
    pub fn filtered(&self, keep: impl Fn(&str) -> bool) -> Self {
        let keep = |tool: &&Registered| &*tool.name != STRUCTURED_OUTPUT && keep(&tool.name);
        Self {
            tools: self.tools.iter().filter(keep).cloned().collect(),
            answer: None,
            of_servers: Arc::clone(&self.of_servers),
            aliases: Arc::clone(&self.aliases),
        }
    }

    /// Returns the same tools, and the one that gives an answer which must fit
    /// a schema, if there is one.
    #[must_use]
    pub fn answering(&self, schema: Option<&Arc<AnswerSchema>>) -> Self {
        let mut answering = self.filtered(|_| true);
        if let Some(schema) = schema {
            let tool: Arc<dyn Tool> = Arc::new(StructuredOutput(Arc::clone(schema)));
            answering.tools.push(tool.into());
            answering.answer = Some(Arc::clone(schema));
        }
        answering
    }

    /// Returns what the answer of a unit with these tools must fit, unless it is
    /// a fork, which has them from its parent.
    #[must_use]
    pub fn answer(&self) -> Option<&Arc<AnswerSchema>> {
        self.answer.as_ref()
    }

    /// Returns the same tools, to which these will be added of what servers
    /// offer.
    #[must_use]
    pub fn taking(self, of_servers: OfServers) -> Self {
        Self { of_servers: Arc::new(of_servers), ..self }
    }

    /// Returns the same tools, of which some run in place of others.
    #[must_use]
    pub fn standing_in(self, aliases: Aliases) -> Self {
        Self { aliases: Arc::new(aliases), ..self }
    }

    /// Returns the tools for which `keep` holds and more behind them, but for the
    /// one that gives an answer, which stays the last. One whose name is taken is
    /// left out: it could not be called.
    #[must_use]
    pub(super) fn with(
        &self,
        keep: impl Fn(&str) -> bool,
        more: impl Iterator<Item = Arc<dyn Tool>>,
        others: &OtherNames,
    ) -> Self {
        let mut all = self.filtered(keep);
        for tool in more.map(Registered::from) {
            if all.find(&tool.name).is_none() && all.of_servers.takes(&tool.name, others) {
                all.tools.push(tool);
            }
        }
        all.answering(self.answer.as_ref())
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

    /// Finds the tool that runs when a model calls one by this name: another one
    /// may stand in for it, whose own name goes for all that is decided about
    /// the call. Nothing stands in for that one in turn.
    #[must_use]
    pub fn called(&self, name: &str) -> Option<(&Arc<str>, &Arc<dyn Tool>)> {
        let is_meant = |alias: &str| canonical(alias).eq_ignore_ascii_case(canonical(name));
        let meant = self.aliases.iter().find(|(alias, _)| is_meant(alias));
        self.find(meant.map_or(name, |(_, meant)| meant))
    }

    /// Tells whether any tine has these tools: none is a server's, and none stands in
    /// for another.
    #[must_use]
    pub fn is_everywhere(&self) -> bool {
        let is_known = |name: &str| KNOWN.contains(&name) || name == STRUCTURED_OUTPUT;
        self.aliases.is_empty() && self.names().all(is_known)
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

    #[test]
    fn a_tool_stands_in_for_another_and_none_for_that_one() {
        let pairs = [("Bash", "Read"), ("read_file", "Glob"), ("Grep", "Nowhere")];
        let aliases = pairs.map(|(name, meant)| (name.to_owned(), meant.to_owned())).into();
        let tools = Registry::all([]).standing_in(aliases).filtered(|_| true);
        let called = |name: &str| tools.called(name).map(|(name, _)| name.to_string());
        assert_eq!(called("run_shell_command").as_deref(), Some("Read"));
        assert_eq!(called("read").as_deref(), Some("Glob"));
        assert_eq!((called("Grep"), called("Edit").as_deref()), (None, Some("Edit")));
        assert!(tools.find("Bash").is_some_and(|(name, _)| &**name == "Bash"));
    }

    #[test]
    fn what_gives_an_answer_is_last_and_no_childs() {
        let schema = Arc::new(AnswerSchema::parse("true").unwrap());
        let answering = Registry::all([]).answering(Some(&schema));
        assert_eq!(answering.names().last(), Some(STRUCTURED_OUTPUT));
        assert!(answering.answer().is_some() && answering.find("structuredoutput").is_some());
        let child = answering.filtered(|_| true);
        assert!(child.names().eq(crate::tool_name::KNOWN) && child.answer().is_none());
        assert!(answering.answering(None).names().eq(crate::tool_name::KNOWN));
    }
}
