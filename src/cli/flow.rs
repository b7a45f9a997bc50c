//! `tine flow`: checks, shows and runs flow files.

mod beside;
mod show;

use std::path::Path;
use std::sync::Arc;

use super::args::{FlowCommand, FlowRunFlags, RunFlags};
use super::exit::{Exit, Refusal};
use super::model::DefaultModel;
use super::start::Start;
use super::{catalogue, print, resume};
use crate::config::Environment;
use crate::definition::Definitions;
use crate::flow::file::{self, Known};
use crate::flow::{Finished, Flow, InputError, InputValues, Supplied, Walk};
use crate::front_matter::Finding;
use crate::prompt;
use crate::run::Main;
use crate::skill::{Followed, Skills};

pub(super) use beside::{Beside, file_beside, main_of};

/// Does what is asked with a flow.
pub(super) fn run(
    environment: &Environment,
    flags: RunFlags,
    command: FlowCommand,
) -> Result<Exit, Refusal> {
    match command {
        FlowCommand::Check { files, json } => catalogue::flows(environment, &flags, (&files, json)),
        FlowCommand::Show { file, json } => {
            let (definitions, skills) = catalogue::around(environment, &flags)?;
            show::print(&Meant::by(&file, &definitions, &skills)?.flow, json)
        }
        FlowCommand::Run(FlowRunFlags { file, inputs }) => {
            let given = inputs.iter().map(|pair| parse(pair)).collect::<Result<Vec<_>, _>>()?;
            print::run_main(environment, flags, DefaultModel::None, move |start| {
                let meant = Meant::by(&file, &start.kit.definitions, &start.kit.skills)?;
                main_with(start, meant, given)
            })
        }
    }
}

/// Returns what flow files may name.
pub(super) fn known(definitions: &Definitions) -> Known {
    Known { agents: Some(definitions.names()), computations: Vec::new() }
}

/// A flow that somebody means, and what of a skill holds for its agents.
pub(super) struct Meant {
    pub(super) flow: Arc<Flow>,
    pub(super) followed: Option<Arc<Followed>>,
}

impl Meant {
    /// Reads the flow that is meant by a path: that of a file, or of the skill
    /// that is called so if there is no such file.
    fn by(path: &Path, definitions: &Definitions, skills: &Skills) -> Result<Self, Refusal> {
        if let Some((skill, beside)) = beside::named(path, skills) {
            let followed = Some(Arc::clone(&skill.followed));
            return Ok(Self { flow: beside.read(definitions)?, followed });
        }
        let flow = file::read(path, &known(definitions)).map_err(|findings| refused(&findings))?;
        Ok(Self { flow, followed: None })
    }
}

/// Says what is wrong with flow files.
fn refused(findings: &[Finding]) -> Refusal {
    let line = |finding: &Finding| {
        let Finding { path, line, severity: _, message } = finding;
        format!("{}:{line}: {message}", path.display())
    };
    let lines: Vec<String> = findings.iter().map(line).collect();
    Refusal::new(Exit::BadInput, lines.join("\nerror: "))
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
pub(super) fn main_with(
    start: &Start,
    Meant { flow, followed }: Meant,
    given: Vec<(String, Supplied)>,
) -> Result<(String, Main), Refusal> {
    let finished = match start.goes_on_from() {
        Some(session) => Finished::read(session).map_err(|error| resume::cannot_open(&error))?,
        None => Finished::default(),
    };
    let before = finished.last_walk().filter(|walk| walk.name == *flow.name());
    let inputs = match before {
        Some(walk) => flow.given_again(&walk.inputs, given),
        None => flow.given(given),
    };
    let inputs = inputs.map_err(|errors| not_taken(&flow, &errors))?;
    let request = request(&flow, &inputs);
    let walk = Walk { finished, followed, ..Walk::new(flow, inputs) };
    let main = Main::Flow { walk: Arc::new(walk), request: request.as_str().into() };
    Ok((request, main))
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
