//! The Agent tool: the call that fans out.
//!
//! This file parses a call into a value that is always runnable; whoever
//! implements [`Delegate`](super::Delegate) runs it. What is wrong with a call
//! is an error text for the model, in the words of `fixtures.json`.

use std::fmt::Write as _;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use super::bound::short_name;
use super::structured::AnswerSchema;
use super::{Effect, Granted, Tool, ToolContext, ToolError, arguments};
use crate::message::{Output, ToolSchema};
use crate::skill::Followed;

const BOTH_SHAPES: &str = "Provide either tasks[] (batch form) or \
    description+prompt+subagent_type (single-task form), not both.";
const NEITHER_SHAPE: &str = "Parameters missing: provide tasks[] (batch form) or \
    description+prompt+subagent_type (single-task form).";

/// Most slots of one batch: past this a call is more likely a mistake of the
/// model than a plan, and its arguments alone are many megabytes.
pub const BATCH_CAP: usize = 100_000;

/// The parameters of a task, in the order in which the model is told of them.
const TASK_PARAMETERS: [&str; 11] = [
    "description",
    "prompt",
    "subagent_type",
    "model",
    "max_turns",
    "max_tokens",
    "timeout_s",
    "tools",
    "isolation",
    "run_in_background",
    "schema",
];

/// JSON Schema of the parameters of a call.
pub const PARAMETERS: &str = include_str!("../../prompts/tools/agent.json");

/// What a fork has from its parent: with another one its request would begin
/// with other bytes.
const PARENTS_PARAMETERS: [&str; 3] = ["model", "effort", "tools"];

pub use crate::definition::Isolation;
pub use crate::tool_name::FORK;

/// A parsed Agent call. A value of this type is always runnable.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentCall {
    /// One agent; a fork if no type was named.
    One(Task),
    /// At least one slot.
    Batch(Vec<Task>),
}

/// What one agent is asked to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// What it is for, in a few words.
    pub description: Arc<str>,
    /// The whole task.
    pub prompt: Arc<str>,
    /// What does it.
    pub kind: TaskKind,
    /// Most turns, instead of the definition's or the configured number.
    pub max_turns: Option<u32>,
    /// Most tokens of it and all it starts, together.
    pub max_tokens: Option<NonZeroU64>,
    /// Most time from its start, instead of the configured one.
    pub timeout: Option<Duration>,
    /// What keeps its changes from others, instead of the definition's.
    pub isolation: Option<Isolation>,
    /// Whether the caller goes on while it runs.
    pub is_background: bool,
    /// What its answer must fit; none of a fork.
    pub schema: Option<Arc<AnswerSchema>>,
}

/// What does a task.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskKind {
    /// A fork: it continues the caller's conversation from the same bytes.
    Fork,
    /// An agent with a conversation of its own.
    Typed(Arc<Typed>),
}

/// An agent with a conversation of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Typed {
    /// The agent definition it follows, by its own name.
    pub agent: Arc<str>,
    /// Whether that is the built-in one, whatever has taken its place.
    pub is_built_in: bool,
    /// The model to use instead of the definition's.
    pub model: Option<Arc<str>>,
    /// The only tools it gets, of those its definition allows.
    pub tools: Option<Vec<String>>,
    /// What holds because it follows a skill.
    pub followed: Option<Arc<Followed>>,
}

impl Task {
    /// A fork that runs while its caller goes on.
    #[must_use]
    pub fn background_fork(description: &str, directive: &str) -> Self {
        Self {
            description: description.into(),
            prompt: directive.into(),
            kind: TaskKind::Fork,
            max_turns: None,
            max_tokens: None,
            timeout: None,
            isolation: None,
            is_background: true,
            schema: None,
        }
    }

    /// Returns what does it, by name.
    #[must_use]
    pub fn agent(&self) -> Arc<str> {
        match &self.kind {
            TaskKind::Fork => FORK.into(),
            TaskKind::Typed(typed) => Arc::clone(&typed.agent),
        }
    }
}

/// What a call may name.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// The agent definitions, in order.
    pub agents: Vec<String>,
    /// The tools, in order.
    pub tools: Vec<String>,
}

impl Known {
    /// Returns the agent definition of a name, whatever its case.
    #[must_use]
    pub fn agent(&self, name: &str) -> Option<&String> {
        self.agents.iter().find(|known| known.eq_ignore_ascii_case(name))
    }

    fn tool(&self, name: &str) -> Option<&String> {
        self.tools.iter().find(|known| known.eq_ignore_ascii_case(name))
    }
}

impl AgentCall {
    /// Parses the arguments of a call.
    ///
    /// # Errors
    ///
    /// The error is the text the model gets.
    pub fn parse(arguments: &Value, known: &Known) -> Result<Self, String> {
        let Value::Object(fields) = arguments else {
            return Err(NEITHER_SHAPE.to_owned());
        };
        let single =
            ["description", "prompt", "subagent_type"].iter().any(|name| is_given(fields, name));
        match fields.get("tasks").filter(|_| is_given(fields, "tasks")) {
            Some(_) if single => Err(BOTH_SHAPES.to_owned()),
            Some(Value::Array(tasks)) => parse_batch(fields, tasks, known),
            Some(_) => Err("Parameter \"tasks\" must be an array of task objects.".to_owned()),
            None if single => parse_single(fields, known),
            None => Err(NEITHER_SHAPE.to_owned()),
        }
    }
}

fn parse_batch(
    fields: &Map<String, Value>,
    tasks: &[Value],
    known: &Known,
) -> Result<AgentCall, String> {
    if tasks.len() > BATCH_CAP {
        return Err(format!(
            "Parameter \"tasks\" has {} entries; at most {BATCH_CAP} run in one call.",
            tasks.len()
        ));
    }
    refuse_unknown(fields, &["tasks"], "")?;
    // Most tasks of a batch have the same schema, which is held once.
    let mut before = None;
    tasks
        .iter()
        .enumerate()
        .map(|(index, task)| {
            let place = format!(" in tasks[{index}]");
            let Value::Object(fields) = task else {
                return Err(format!("Entry tasks[{index}] must be a task object."));
            };
            let (description, prompt) = parse_words(fields, &place)?;
            let agent = optional_text(fields, "subagent_type", &place)?.ok_or_else(|| {
                format!("Parameter \"subagent_type\"{place} is required in batch mode.")
            })?;
            let mut task =
                parse_task(fields, TaskWords { description, prompt, agent }, &place, known)?;
            task.schema = parse_schema(fields, &task.kind, &place, before.as_ref())?;
            before = task.schema.clone().or(before.take());
            Ok(task)
        })
        .collect::<Result<_, _>>()
        .map(AgentCall::Batch)
}

fn parse_single(fields: &Map<String, Value>, known: &Known) -> Result<AgentCall, String> {
    let (description, prompt) = parse_words(fields, "")?;
    let agent = optional_text(fields, "subagent_type", "")?.unwrap_or(FORK);
    let mut task = parse_task(fields, TaskWords { description, prompt, agent }, "", known)?;
    task.schema = parse_schema(fields, &task.kind, "", None)?;
    // Nobody who waits for one fork needs it to be one.
    task.is_background |= task.kind == TaskKind::Fork;
    Ok(AgentCall::One(task))
}

/// The required parameters of a task.
struct TaskWords<'a> {
    description: &'a str,
    prompt: &'a str,
    agent: &'a str,
}

fn parse_words<'a>(
    fields: &'a Map<String, Value>,
    place: &str,
) -> Result<(&'a str, &'a str), String> {
    Ok((required_text(fields, "description", place)?, required_text(fields, "prompt", place)?))
}

fn parse_task(
    fields: &Map<String, Value>,
    words: TaskWords<'_>,
    place: &str,
    known: &Known,
) -> Result<Task, String> {
    let kind = parse_kind(fields, words.agent, place, known)?;
    let max_turns = positive(fields, "max_turns", place)?.map(|turns| turns.ceil() as u32);
    let max_tokens = positive(fields, "max_tokens", place)?
        .and_then(|tokens| NonZeroU64::new(tokens.ceil() as u64));
    let timeout = match positive(fields, "timeout_s", place)? {
        Some(seconds) => Some(Duration::try_from_secs_f64(seconds).map_err(|_| {
            format!("Parameter \"timeout_s\"{place} is more seconds than there are.")
        })?),
        None => None,
    };
    let isolation = parse_isolation(fields, place)?;
    let is_background = flag(fields, "run_in_background", place)?;
    refuse_unknown(fields, &TASK_PARAMETERS, place)?;
    Ok(Task {
        description: words.description.into(),
        prompt: words.prompt.into(),
        kind,
        max_turns,
        max_tokens,
        timeout,
        isolation,
        is_background,
        schema: None,
    })
}

/// Reads what an answer must fit. `before` is what another one must.
fn parse_schema(
    fields: &Map<String, Value>,
    kind: &TaskKind,
    place: &str,
    before: Option<&Arc<AnswerSchema>>,
) -> Result<Option<Arc<AnswerSchema>>, String> {
    // An empty text asks for nothing, as everywhere.
    let Some(schema) = fields.get("schema").filter(|_| is_given(fields, "schema")) else {
        return Ok(None);
    };
    if *kind == TaskKind::Fork {
        return Err(format!(
            "Parameter \"schema\"{place} cannot be set for a fork: an answer to a schema is given \
             with a tool of its own, and a fork has this conversation's tools. Name another \
             subagent_type, or say in the prompt what the answer shall look like."
        ));
    }
    if let Some(before) = before.filter(|before| before.is_of(schema)) {
        return Ok(Some(Arc::clone(before)));
    }
    // Some models quote every value.
    let parsed = match schema.as_str() {
        Some(text) => AnswerSchema::parse(text),
        None => AnswerSchema::of(schema),
    };
    parsed
        .map(|schema| Some(Arc::new(schema)))
        .map_err(|why| format!("Parameter \"schema\"{place} is not a usable JSON Schema: {why}."))
}

fn parse_isolation(fields: &Map<String, Value>, place: &str) -> Result<Option<Isolation>, String> {
    if !is_given(fields, "isolation") {
        return Ok(None);
    }
    let found = fields.get("isolation").and_then(Value::as_str).and_then(Isolation::from_name);
    found
        .map(Some)
        .ok_or_else(|| format!("Parameter \"isolation\"{place} must be \"worktree\", or left out."))
}

fn parse_kind(
    fields: &Map<String, Value>,
    agent: &str,
    place: &str,
    known: &Known,
) -> Result<TaskKind, String> {
    if agent.eq_ignore_ascii_case(FORK) {
        return match PARENTS_PARAMETERS.iter().find(|name| is_given(fields, name)) {
            Some(name) => Err(format!(
                "Parameter \"{name}\"{place} cannot be set for a fork: it continues this \
                 conversation from the same bytes, with the same model, effort and tools. Name \
                 another subagent_type to choose them."
            )),
            None => Ok(TaskKind::Fork),
        };
    }
    let name = known.agent(agent).ok_or_else(|| {
        let available = known.agents.join(", ");
        let name = short_name(agent);
        format!("Subagent \"{name}\"{place} not found. Available subagents: {available}")
    })?;
    let model = optional_text(fields, "model", place)?.map(Into::into);
    let tools = parse_tools(fields, place, known)?;
    Ok(TaskKind::Typed(Arc::new(Typed {
        agent: name.as_str().into(),
        is_built_in: false,
        model,
        tools,
        followed: None,
    })))
}

fn parse_tools(
    fields: &Map<String, Value>,
    place: &str,
    known: &Known,
) -> Result<Option<Vec<String>>, String> {
    let malformed = || format!("Parameter \"tools\"{place} must be an array of tool names.");
    let names = match fields.get("tools").filter(|_| is_given(fields, "tools")) {
        None => return Ok(None),
        Some(Value::Array(names)) => names,
        Some(_) => return Err(malformed()),
    };
    names
        .iter()
        .map(|name| {
            let name = name.as_str().ok_or_else(malformed)?;
            known.tool(name).cloned().ok_or_else(|| {
                let name = short_name(name);
                let available = known.tools.join(", ");
                format!("Tool \"{name}\"{place} not found. Available tools: {available}")
            })
        })
        .collect::<Result<_, _>>()
        .map(Some)
}

fn required_text<'a>(
    fields: &'a Map<String, Value>,
    name: &str,
    place: &str,
) -> Result<&'a str, String> {
    match fields.get(name) {
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(text),
        Some(_) | None => Err(format!("Parameter \"{name}\"{place} must be a non-empty string.")),
    }
}

fn optional_text<'a>(
    fields: &'a Map<String, Value>,
    name: &str,
    place: &str,
) -> Result<Option<&'a str>, String> {
    match is_given(fields, name) {
        false => Ok(None),
        true => required_text(fields, name, place).map(|text| Some(text.trim())),
    }
}

fn positive(fields: &Map<String, Value>, name: &str, place: &str) -> Result<Option<f64>, String> {
    let number = match fields.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::String(text)) if text.trim().is_empty() => return Ok(None),
        // Some models quote every scalar.
        Some(Value::String(text)) => text.trim().parse().ok(),
        Some(Value::Bool(_) | Value::Array(_) | Value::Object(_)) => None,
    };
    match number.filter(|number| *number > 0.0 && number.is_finite()) {
        Some(number) => Ok(Some(number)),
        None => Err(format!("Parameter \"{name}\"{place} must be a number above 0.")),
    }
}

/// Refuses parameters that would change what the task means and that nothing
/// here acts on. An empty value asks for nothing, so it passes.
fn refuse_unknown(fields: &Map<String, Value>, known: &[&str], place: &str) -> Result<(), String> {
    for name in fields.keys() {
        if is_given(fields, name) && !known.contains(&name.as_str()) {
            let known = known.join(", ");
            return Err(format!(
                "Parameter \"{name}\"{place} is not known. Known parameters: {known}."
            ));
        }
    }
    Ok(())
}

/// Returns whether a parameter asks for something. Some models fill in every
/// parameter, and leave those empty that they do not need.
fn is_given(fields: &Map<String, Value>, name: &str) -> bool {
    match fields.get(name) {
        None | Some(Value::Null) => false,
        Some(Value::Bool(on)) => *on,
        Some(Value::String(text)) => !text.trim().is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(fields)) => !fields.is_empty(),
        Some(Value::Number(_)) => true,
    }
}

fn flag(fields: &Map<String, Value>, name: &str, place: &str) -> Result<bool, String> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(on)) => Ok(*on),
        // Some models quote every scalar.
        Some(Value::String(text)) if text.eq_ignore_ascii_case("true") => Ok(true),
        Some(Value::String(text)) if text.is_empty() || text.eq_ignore_ascii_case("false") => {
            Ok(false)
        }
        Some(Value::String(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Err(format!("Parameter \"{name}\"{place} must be true or false."))
        }
    }
}

/// The tool itself; it knows the definitions only to describe them.
pub struct Agent {
    description: String,
}

impl Agent {
    /// The tool that offers `agents`, each with its name and what it is for.
    pub fn new<'a>(agents: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut description = include_str!("../../prompts/tools/agent.md").trim_end().to_owned();
        for (name, purpose) in agents {
            write!(description, "\n- `{name}`: {purpose}").expect("a string takes any text");
        }
        Self { description }
    }
}

impl Tool for Agent {
    fn schema(&self) -> ToolSchema {
        arguments::schema("Agent", &self.description, PARAMETERS)
    }

    fn effect(&self) -> Effect {
        Effect::Delegates
    }

    fn subject(&self, arguments: &Value) -> String {
        match arguments["tasks"].as_array() {
            Some(tasks) if tasks.len() == 1 => "1 task".to_owned(),
            Some(tasks) => format!("{} tasks", tasks.len()),
            None => arguments::subject(arguments, "description"),
        }
    }

    fn run<'a>(
        &'a self,
        context: &'a ToolContext,
        call: &'a Granted,
        arguments: Value,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let known = context.delegate.known();
            let parsed = AgentCall::parse(&arguments, &known).map_err(ToolError::tell)?;
            // The arguments of ten thousand tasks are megabytes.
            drop(arguments);
            context.delegate.delegate(context, Some(&call.id), parsed).await
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn known() -> Known {
        Known {
            agents: vec!["file-search".to_owned(), "code-review".to_owned()],
            tools: vec!["Read".to_owned(), "Grep".to_owned()],
        }
    }

    #[track_caller]
    fn check(arguments: &Value, expected: &str) {
        assert_eq!(AgentCall::parse(arguments, &known()), Err(expected.to_owned()));
    }

    #[test]
    fn every_row_of_the_fixture_gives_its_message() {
        let fixtures: Value =
            serde_json::from_str(include_str!("../../tests/fixtures/fixtures.json")).unwrap();
        let rows = fixtures["batch_validation"].as_array().unwrap();
        assert_eq!(rows.len(), 9);
        for row in rows {
            let error = AgentCall::parse(&row["params"], &known()).err();
            assert_eq!(error.as_deref(), row["error"].as_str(), "{}", row["params"]);
        }
    }

    #[test]
    fn wrong_types_are_told_and_never_crash() {
        check(&json!("oops"), NEITHER_SHAPE);
        check(&json!({"tasks": "oops"}), "Parameter \"tasks\" must be an array of task objects.");
        check(&json!({"tasks": ["oops"]}), "Entry tasks[0] must be a task object.");
        check(
            &json!({"description": 3, "prompt": "p", "subagent_type": "code-review"}),
            "Parameter \"description\" must be a non-empty string.",
        );
        check(
            &json!({"tasks": [{"description": "d", "prompt": "p", "subagent_type": 7}]}),
            "Parameter \"subagent_type\" in tasks[0] must be a non-empty string.",
        );
    }

    #[test]
    fn options_are_checked_by_name_and_place() {
        let task = |extra: Value| {
            let mut task =
                json!({"description": "d", "prompt": "p", "subagent_type": "code-review"});
            task.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            json!({"tasks": [task]})
        };
        check(
            &task(json!({"max_turns": 0})),
            "Parameter \"max_turns\" in tasks[0] must be a number above 0.",
        );
        check(
            &task(json!({"max_tokens": -5})),
            "Parameter \"max_tokens\" in tasks[0] must be a number above 0.",
        );
        check(
            &task(json!({"timeout_s": "soon"})),
            "Parameter \"timeout_s\" in tasks[0] must be a number above 0.",
        );
        check(
            &task(json!({"tools": ["Fly"]})),
            "Tool \"Fly\" in tasks[0] not found. Available tools: Read, Grep",
        );
        check(
            &task(json!({"isolation": "container"})),
            "Parameter \"isolation\" in tasks[0] must be \"worktree\", or left out.",
        );
        check(
            &task(json!({"effort": "high"})),
            "Parameter \"effort\" in tasks[0] is not known. Known parameters: description, \
             prompt, subagent_type, model, max_turns, max_tokens, timeout_s, tools, isolation, \
             run_in_background, schema.",
        );
        check(
            &task(json!({"run_in_background": "perhaps"})),
            "Parameter \"run_in_background\" in tasks[0] must be true or false.",
        );
    }

    #[test]
    fn a_whole_task_is_parsed_with_the_definitions_own_names() {
        let arguments = json!({
            "description": "d", "prompt": "p", "subagent_type": "CODE-Review", "model": "m",
            "max_turns": "3", "max_tokens": 1e5, "timeout_s": 1.5, "tools": ["read"], "run_in_background": "true",
            "isolation": "Worktree", "schema": "{\"type\": \"array\"}",
        });
        let task = Task {
            description: "d".into(),
            prompt: "p".into(),
            kind: TaskKind::Typed(Arc::new(Typed {
                agent: "code-review".into(),
                is_built_in: false,
                model: Some("m".into()),
                tools: Some(vec!["Read".to_owned()]),
                followed: None,
            })),
            max_turns: Some(3),
            max_tokens: NonZeroU64::new(100_000),
            timeout: Some(Duration::from_millis(1_500)),
            isolation: Some(Isolation::Worktree),
            is_background: true,
            schema: Some(Arc::new(AnswerSchema::parse("{\"type\":\"array\"}").unwrap())),
        };
        assert_eq!(AgentCall::parse(&arguments, &known()), Ok(AgentCall::One(task)));
    }

    #[test]
    fn what_is_empty_counts_as_left_out() {
        let empty = json!({
            "tasks": [], "model": "", "max_turns": "", "max_tokens": null, "timeout_s": " ",
            "tools": [], "isolation": "", "run_in_background": "", "schema": {}, "effort": [],
        });
        let with = |more: Value| {
            let mut arguments = empty.clone();
            arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            AgentCall::parse(&arguments, &known())
        };
        let single = json!({"description": "d", "prompt": "p", "subagent_type": "code-review"});
        assert_eq!(with(single.clone()), AgentCall::parse(&single, &known()));
        let fork = json!({"description": "d", "prompt": "p", "subagent_type": ""});
        let expected = AgentCall::One(Task::background_fork("d", "p"));
        assert_eq!(with(fork), Ok(expected));
        let batch =
            json!({"tasks": [single], "description": "", "prompt": "", "subagent_type": ""});
        assert!(matches!(AgentCall::parse(&batch, &known()), Ok(AgentCall::Batch(_))));
        assert_eq!(with(json!({})), Err(NEITHER_SHAPE.to_owned()));
    }

    #[test]
    fn tasks_with_the_same_schema_share_it() {
        let task = |schema: Value| json!({"description": "d", "prompt": "p", "subagent_type": "code-review", "schema": schema});
        let (list, none) = (json!({"type": "array"}), Value::Null);
        let tasks = [list.clone(), none, list, json!(true)].map(task);
        let Ok(AgentCall::Batch(tasks)) = AgentCall::parse(&json!({"tasks": tasks}), &known())
        else {
            panic!("the call can be run")
        };
        let schemas: Vec<_> = tasks.iter().map(|task| task.schema.as_ref()).collect();
        let [Some(first), None, Some(same), Some(other)] = schemas[..] else {
            panic!("{schemas:?}")
        };
        assert!(Arc::ptr_eq(first, same) && first != other);
    }

    #[test]
    fn a_call_without_a_type_is_a_fork_beside_its_caller_and_a_slot_may_be_a_fork() {
        let fork = Task::background_fork("d", "p");
        for arguments in [
            json!({"description": "d", "prompt": "p"}),
            json!({"description": "d", "prompt": "p", "subagent_type": "Fork"}),
            json!({"description": "d", "prompt": "p", "model": "", "run_in_background": false, "isolation": ""}),
        ] {
            assert_eq!(AgentCall::parse(&arguments, &known()), Ok(AgentCall::One(fork.clone())));
        }
        let bounded = json!({"description": "d", "prompt": "p", "max_tokens": "0.5"});
        let at_one = Task { max_tokens: NonZeroU64::new(1), ..fork.clone() };
        let isolated = json!({"description": "d", "prompt": "p", "isolation": "worktree"});
        let apart = Task { isolation: Some(Isolation::Worktree), ..fork.clone() };
        assert_eq!(AgentCall::parse(&isolated, &known()), Ok(AgentCall::One(apart)));
        assert_eq!(AgentCall::parse(&bounded, &known()), Ok(AgentCall::One(at_one)));
        let slot = json!({"tasks": [{"description": "d", "prompt": "p", "subagent_type": "fork"}]});
        let waited_for = Task { is_background: false, ..fork };
        assert_eq!(AgentCall::parse(&slot, &known()), Ok(AgentCall::Batch(vec![waited_for])));
    }

    #[test]
    fn what_a_fork_has_from_its_parent_cannot_be_chosen() {
        for (name, value) in
            [("model", json!("m")), ("effort", json!("high")), ("tools", json!(["Read"]))]
        {
            let mut arguments = json!({"description": "d", "prompt": "p"});
            arguments[name] = value;
            check(
                &arguments,
                &format!(
                    "Parameter \"{name}\" cannot be set for a fork: it continues this \
                     conversation from the same bytes, with the same model, effort and tools. \
                     Name another subagent_type to choose them."
                ),
            );
        }
    }
}
