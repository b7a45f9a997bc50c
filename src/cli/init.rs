//! `tine init`: the skill that writes a first `AGENTS.md`.

use super::args::RunFlags;
use super::exit::{Exit, Refusal};
use super::model::DefaultModel;
use super::print;
use crate::config::Environment;

/// Whoever calls this wants this file written, and no other.
const ALLOWED: &str = "Edit(./AGENTS.md)";

/// Runs the skill, with what the user says besides.
pub(super) fn run(
    environment: &Environment,
    mut flags: RunFlags,
    words: &[String],
) -> Result<Exit, Refusal> {
    flags.allowed_tools.push(ALLOWED.to_owned());
    let prompt = format!("/init {}", words.join(" "));
    print::run_prompt(environment, flags, prompt.trim_end().to_owned(), DefaultModel::None)
}
