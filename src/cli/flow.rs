//! `tine flow`: checks, shows and runs flow files.

mod show;

use std::path::Path;
use std::sync::Arc;

use super::args::{FlowCommand, FlowRunFlags, RunFlags};
use super::exit::{Exit, Refusal};
use super::model::DefaultModel;
use super::print::Begin;
use super::start::Start;
use super::{catalogue, print, resume};
use crate::config::Environment;
use crate::definition::Definitions;
use crate::flow::file::{self, Known};
use crate::flow::{Finished, Flow, InputError, InputValues, Supplied, Walk};
use crate::front_matter::Finding;
use crate::prompt;
use crate::run::Main;

/// Does what is asked with a flow.
pub(super) fn run(
    environment: &Environment,
    flags: RunFlags,
    command: FlowCommand,
) -> Result<Exit, Refusal> {
    match command {
        FlowCommand::Check { files, json } => catalogue::flows(environment, &flags, (&files, json)),
        FlowCommand::Show { file, json } => {
            let definitions = catalogue::definitions(environment, &flags)?;
            show::print(&*read(&file, &definitions)?, json)
        }
        FlowCommand::Run(FlowRunFlags { file, inputs }) => {
            let given = inputs.iter().map(|pair| parse(pair)).collect::<Result<Vec<_>, _>>()?;
            print::run_main(environment, flags, DefaultModel::None, move |start| {
                let flow = read(&file, &start.kit.definitions)?;
                main_of(start, &flow, given)
            })
        }
    }
}

/// Returns what flow files may name.
pub(super) fn known(definitions: &Definitions) -> Known {
    Known { agents: Some(definitions.names()), computations: Vec::new() }
}

/// Reads a flow file that can be walked.
fn read(path: &Path, definitions: &Definitions) -> Result<Arc<Flow>, Refusal> {
    file::read(path, &known(definitions)).map_err(|findings| {
        let line = |finding: &Finding| {
            let Finding { path, line, severity: _, message } = finding;
            format!("{}:{line}: {message}", path.display())
        };
        let lines: Vec<String> = findings.iter().map(line).collect();
        Refusal::new(Exit::BadInput, lines.join("\nerror: "))
    })
}

/// Reads an input as it is typed.
fn parse(pair: &str) -> Result<(String, Supplied), Refusal> {
    let (name, value) = pair.split_once('=').ok_or_else(|| {
        Refusal::new(Exit::Usage, format!("`--input {pair}` is no `NAME=VALUE`"))
            .hint("write a name and its value, as in `--input base=main`")
    })?;
    Ok((name.to_owned(), Supplied::Words(value.to_owned())))
}

/// Returns what main does for a flow, and what the user has typed for it. In a
/// session that goes on, the inputs of its last walk hold unless they are given
/// again, and what has finished in any of them is not run again.
pub(super) fn main_of(
    start: &Start,
    flow: &Arc<Flow>,
    given: Vec<(String, Supplied)>,
) -> Result<Begin, Refusal> {
    let finished = match start.goes_on_from() {
        Some(session) => Finished::read(session).map_err(|error| resume::cannot_open(&error))?,
        None => Finished::default(),
    };
    let before = finished.last_walk().filter(|walk| walk.name == *flow.name());
    let inputs = match before {
        Some(walk) => flow.given_again(&walk.inputs, given),
        None => flow.given(given),
    };
    let inputs = inputs.map_err(|errors| not_taken(flow, &errors))?;
    let request = request(flow, &inputs);
    let walk = Walk { finished, ..Walk::new(Arc::clone(flow), inputs) };
    let main = Main::Flow { walk: Arc::new(walk), request: request.as_str().into() };
    Ok(Begin { typed: request, main, shown: None })
}

/// Says what of the inputs a flow does not take, and what it would.
fn not_taken(flow: &Flow, errors: &[InputError]) -> Refusal {
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let refusal = Refusal::new(Exit::BadInput, errors.join("\nerror: "));
    match show::inputs(flow).as_slice() {
        [] => refusal,
        inputs => refusal.hint(format!("`{}` takes {}", flow.name(), inputs.join(", "))),
    }
}

/// Returns what a flow is walked for.
fn request(flow: &Flow, inputs: &InputValues) -> String {
    let inputs: Vec<(&str, String)> = inputs
        .values()
        .iter()
        .map(|(name, value)| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            (name.as_str(), text)
        })
        .collect();
    prompt::flow_request(flow.name(), flow.description(), &inputs)
}
