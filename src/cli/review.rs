//! `tine review`: the review skill, run on the change one stands in.

use super::args::{ReviewFlags, RunFlags};
use super::exit::{Exit, Refusal};
use super::model::DefaultModel;
use super::print;
use crate::config::Environment;

/// Runs the skill with the flags as its arguments.
pub(super) fn run(
    environment: &Environment,
    flags: RunFlags,
    review: &ReviewFlags,
) -> Result<Exit, Refusal> {
    for name in [&review.base, &review.commit].into_iter().flatten() {
        if name.is_empty() || name.contains(char::is_whitespace) {
            let message = format!("no branch or commit is named `{name}`");
            return Err(Refusal::new(Exit::BadInput, message));
        }
    }
    print::run_prompt(environment, flags, prompt(review), DefaultModel::Offline)
}

/// Returns what a user would type for the same review.
fn prompt(review: &ReviewFlags) -> String {
    let mut prompt = "/review".to_owned();
    if review.uncommitted {
        prompt.push_str(" --uncommitted");
    }
    for (flag, value) in [("--base", &review.base), ("--commit", &review.commit)] {
        if let Some(value) = value {
            prompt.push_str(&format!(" {flag} {value}"));
        }
    }
    // What follows is no option, however it begins.
    if !review.words.is_empty() {
        prompt.push_str(" --");
    }
    for word in &review.words {
        prompt.push(' ');
        prompt.push_str(word);
    }
    prompt
}
