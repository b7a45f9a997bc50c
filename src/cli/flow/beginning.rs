//! What a walk begins with: its inputs, and what earlier walks of the session
//! came to.

use std::sync::Arc;

use super::{Meant, not_taken};
use crate::cli::exit::Refusal;
use crate::cli::kit::Kit;
use crate::cli::resume;
use crate::cli::start::Start;
use crate::flow::{Finished, Flow, InputValues, Supplied, Walk};
use crate::prompt;
use crate::run::Main;

/// What a walk begins with.
pub(in crate::cli) struct Beginning {
    pub(in crate::cli) inputs: InputValues,
    finished: Finished,
}

impl Beginning {
    /// For whoever runs a flow as a command. In a session that goes on, the inputs
    /// of the last walk of that flow hold unless they are given again, and what has
    /// finished in any of them is not run again.
    pub(in crate::cli) fn going_on(
        start: &Start,
        flow: &Flow,
        given: Vec<(String, Supplied)>,
    ) -> Result<Self, Refusal> {
        let finished = match start.goes_on_from() {
            Some(session) => {
                Finished::read(session).map_err(|error| resume::cannot_open(&error))?
            }
            None => Finished::default(),
        };
        let inputs = match finished.last_walk(flow.name()) {
            Some(walk) => flow.given_again(&walk.inputs, given),
            None => flow.given(given),
        };
        let inputs = inputs.map_err(|errors| not_taken(flow, &errors))?;
        Ok(Self { inputs, finished })
    }

    /// For whoever types the name of a skill within a session: its words say all
    /// that it is given, and only what a walk that was cut off has finished is not
    /// run again.
    pub(in crate::cli) fn typed(
        kit: &Kit,
        flow: &Flow,
        given: impl IntoIterator<Item = (String, Supplied)>,
    ) -> Result<Self, Refusal> {
        let inputs = flow.given(given).map_err(|errors| not_taken(flow, &errors))?;
        // Where there is nothing yet that can be read, nothing was cut off.
        let finished = Finished::read_cut_off(&kit.directory).unwrap_or_default();
        Ok(Self { inputs, finished })
    }

    /// Returns what main does for it, and what the user has typed for that.
    pub(in crate::cli) fn main(self, Meant { flow, followed }: Meant) -> (String, Main) {
        let Self { inputs, finished } = self;
        let request = request(&flow, &inputs);
        let walk = Walk { finished, followed, ..Walk::new(flow, inputs) };
        let main = Main::Flow { walk: Arc::new(walk), request: request.as_str().into() };
        (request, main)
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
        // What nobody has given, and is nothing, is nobody's request.
        .filter(|(_, text)| !text.is_empty())
        .collect();
    prompt::flow_request(flow.name(), flow.description(), &inputs)
}
