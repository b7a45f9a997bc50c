//! `tine flow show`: the steps of a flow as a tree, with their branches.

use std::io::Write as _;

use crate::cli::exit::{Exit, Refusal};
use crate::cli::{runner, session};
use crate::flow::{AgentStep, Flow, Input, OnError, Sees, Shown, Step};
use crate::message::counted;
use crate::report::{flow_record, sanitise};

/// How far a step stands behind the one that it is in.
const INDENT: &str = "  ";

/// Prints a flow as a tree, or as one JSON object.
pub(super) fn print(flow: &Flow, json: bool) -> Result<Exit, Refusal> {
    let tree = flow.tree();
    let mut out = runner::stdout(json);
    let written = match json {
        true => out.write_all(&flow_record(flow, &tree)),
        false => {
            let lines = lines(flow, &tree);
            lines.iter().try_for_each(|line| writeln!(out, "{}", sanitise::line(line)))
        }
    };
    session::finish(written.and_then(|()| out.flush()))
}

/// Returns what a flow takes, an input each.
pub(super) fn inputs(flow: &Flow) -> Vec<String> {
    let input = |input: &Input| {
        let Input { name, default, is_json, description: _ } = input;
        let json = if *is_json { ", JSON" } else { "" };
        match default {
            Some(default) => format!("`{name}` (`{default}`{json})"),
            None => format!("`{name}` (required{json})"),
        }
    };
    flow.inputs().iter().map(input).collect()
}

fn lines(flow: &Flow, shown: &Shown<'_>) -> Vec<String> {
    let steps = counted(flow.step().whole(), "step");
    let tokens = flow.step().forks();
    let branches = if tokens == 1 { "1 branch" } else { &format!("{tokens} branches") };
    let mut lines = vec![match &**flow.description() {
        "" => flow.name().to_string(),
        description => format!("{}: {description}", flow.name()),
    }];
    let inputs = inputs(flow);
    if !inputs.is_empty() {
        lines.push(format!("takes {}", inputs.join(", ")));
    }
    lines.extend(
        flow.success().map(|success| format!("succeeds if `{}`", success.condition.source())),
    );
    lines.push(format!("{steps}, at most {branches}; in brackets: the branch, what parts there"));
    lines.push(String::new());
    // The steps of the file itself stand at the margin.
    match shown.step {
        Step::Sequence(_) if shown.step.name().is_none() => {
            shown.inside.iter().for_each(|shown| tree(shown, 0, &mut lines));
        }
        Step::Agent(_)
        | Step::Sequence(_)
        | Step::Parallel(_)
        | Step::Each(_)
        | Step::Until(_)
        | Step::When(_)
        | Step::Inner(_)
        | Step::Computed(_) => tree(shown, 0, &mut lines),
    }
    lines
}

fn tree(shown: &Shown<'_>, depth: usize, lines: &mut Vec<String>) {
    let Shown { step, tokens, inside, at: _, draws: _, reserves: _ } = shown;
    let on = match tokens.to_string() {
        root if root.is_empty() => "root".to_owned(),
        tokens => tokens,
    };
    let parts = match shown.parts() {
        Some((first, last)) if first == last => format!(" +{}", first.0),
        Some((first, last)) => format!(" +{}-{}", first.0, last.0),
        None => String::new(),
    };
    let name = step.name().map_or("-", |name| &**name);
    lines.push(format!("{}{name}  {}  [{on}{parts}]", INDENT.repeat(depth), what(step)));
    // A flow is shown as its steps are: the sequence that holds them is its own.
    let inside = match (step, inside.as_slice()) {
        (Step::Inner(_), [whole]) if whole.step.name().is_none() => &whole.inside,
        _ => inside,
    };
    inside.iter().for_each(|shown| tree(shown, depth + 1, lines));
}

/// Says what a step is.
fn what(step: &Step) -> String {
    match step {
        Step::Agent(agent) => of_agent(agent),
        Step::Sequence(_) => "in order".to_owned(),
        Step::Parallel(_) => "side by side".to_owned(),
        Step::Each(each) => {
            format!("for each of `{}`, at most {}", each.items().source(), each.max_items())
        }
        Step::Until(until) => {
            let most = counted(until.max_rounds().get(), "round");
            format!("until `{}`, at most {most}", until.condition().source())
        }
        Step::When(when) => format!("when `{}`", when.condition().source()),
        Step::Inner(inner) => {
            format!("the flow `{}`{}", inner.flow().name(), stops(step.on_error()))
        }
        Step::Computed(_) => format!("computed{}", stops(step.on_error())),
    }
}

fn of_agent(agent: &AgentStep) -> String {
    let mut what = agent.agent.to_string();
    if let Some(model) = &agent.model {
        what.push_str(&format!(" on {model}"));
    }
    if agent.schema.is_some() {
        what.push_str(", answers to a schema");
    }
    if agent.isolation.is_some() {
        what.push_str(", in a worktree");
    }
    if agent.sees == Sees::Nothing {
        what.push_str(", sees nothing of others");
    }
    what.push_str(stops(agent.on_error));
    what
}

fn stops(on_error: OnError) -> &'static str {
    match on_error {
        OnError::Continue => "",
        OnError::Stop => ", stops the flow if it fails",
        OnError::StopIfRefused => ", stops the flow if the key is refused",
    }
}
