//! Reviews: `tine review`, and `/review` in a session. With a model both walk
//! one flow on the change one stands in; without one, fixed rules do what the
//! review skill says.

mod asked;
mod computed;

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::args::{Format, ReviewFlags, RunFlags};
use super::exit::{Exit, Refusal};
use super::flow::{self, Beginning, Meant};
use super::kit::Kit;
use super::model::DefaultModel;
use super::print;
use super::runner;
use super::slash::Typed;
use super::start::Start;
use super::target::{self, Links, Target};
use crate::config::Environment;
use crate::definition::Definitions;
use crate::flow::{Flow, InputValues, Supplied, file};
use crate::git;
use crate::review::{FILES, FLOW, Plan, Severity};
use crate::run::Main;
use asked::Asked;
use computed::{Divided, Fails, Form, Report, Review, computations};

/// Reviews a change, and says in the ways that are asked for what came of it.
pub(super) fn run(
    environment: &Environment,
    mut flags: RunFlags,
    review: &ReviewFlags,
) -> Result<Exit, Refusal> {
    flow::check_flags(&flags)?;
    // How hard models think is for the configuration to say.
    let effort = flags.effort.take();
    let asked = Asked::by_flags(review, effort.as_ref().map(|effort| effort.as_str()))?;
    // What a runner obeys it may find in any line.
    runner::reads(environment.github_actions || review.annotations);
    let is_text = flags.output_format() == Format::Text;
    let form = Form {
        is_json: !is_text,
        fail_on: review.fail_on.as_deref().and_then(Severity::from_name),
    };
    let walks: Arc<OnceLock<Walks>> = Arc::default();
    let (flags_of_review, walking) = (review.clone(), Arc::clone(&walks));
    let exit = print::run_main(environment, flags, DefaultModel::Offline, move |start| {
        let prompt = asked.prompt();
        if start.kit.is_offline() {
            without_a_model(&needing_a_model(&flags_of_review, &asked))?;
            let main = start.kit.meaning(&prompt, Typed::Line)?;
            return Ok((prompt, main).into());
        }
        asked.check_words(&start.kit.git, &start.kit.root)?;
        let sarif = flags_of_review.sarif.as_deref();
        let sarif = sarif.map(|path| target(path, &start.kit.git)).transpose()?;
        let review = Arc::new(Review::new(form));
        let main = main_of(start, &review, asked.inputs())?;
        // It is walked once.
        let _ = walking.set(Walks { review, sarif });
        Ok((prompt, main).into())
    })?;
    let walks = Arc::into_inner(walks).and_then(OnceLock::into_inner);
    let Some(Walks { review: walked, sarif }) = walks else { return Ok(exit) };
    let Some(report) = walked.report.get() else { return Ok(exit) };
    if let Some(target) = sarif {
        write(report, target)?;
    }
    if review.annotations {
        annotate(&report.annotations, is_text);
    }
    Ok(match &report.fails {
        Some(Fails::Incomplete(why)) if exit == Exit::Done => {
            super::say(&format!("error: {why}"));
            Exit::Error
        }
        Some(Fails::Found(found, limit)) if exit == Exit::Done => {
            let stand =
                if *found == 1 { "1 finding stands" } else { &format!("{found} findings stand") };
            super::say(&format!("error: {stand} against `--fail-on {}`", limit.as_str()));
            Exit::Error
        }
        Some(_) | None => exit,
    })
}

/// A review that is walked, and the file for what stands.
struct Walks {
    review: Arc<Review>,
    sarif: Option<Target>,
}

/// Returns what main does for somebody who has typed `/review` with these words
/// behind it.
pub(super) fn typed(kit: &Kit, words: &str) -> Result<Main, Refusal> {
    let asked = Asked::by_words(words)?;
    asked.check_words(&kit.git, &kit.root)?;
    let review = Arc::new(Review::default());
    let flow = flow(&kit.definitions, &review)?;
    let begins = Beginning::typed(kit, &flow, asked.inputs())?;
    divide(kit, &review, &begins.inputs)?;
    Ok(begins.main(Meant { flow, followed: None }).1)
}

/// Checks the words behind `/review` for whoever has no model.
pub(super) fn by_rules(kit: &Kit, words: &str) -> Result<(), Refusal> {
    let asked = Asked::by_words(words)?;
    asked.check_words(&kit.git, &kit.root)?;
    without_a_model(&needing_a_model(&ReviewFlags::default(), &asked))
}

/// Returns what main does for whoever runs the review by its name as a flow, and
/// what that is called.
pub(super) fn walked(
    start: &Start,
    given: Vec<(String, Supplied)>,
) -> Result<(String, Main), Refusal> {
    if start.kit.is_offline() {
        without_a_model(&["`tine flow run`"])?;
    }
    let review = Arc::new(Review::default());
    let main = main_of(start, &review, given)?;
    Ok(("/review".to_owned(), main))
}

/// Returns the flow, whose values without a model are made for this review.
pub(super) fn flow(definitions: &Definitions, review: &Arc<Review>) -> Result<Arc<Flow>, Refusal> {
    let known = file::Known { computations: computations(review), ..flow::known(definitions) };
    file::bundled(Path::new(FLOW), &FILES, &known).map_err(|findings| flow::refused(&findings))
}

/// Returns what main does for a review, which goes on where the session was left.
fn main_of(
    start: &Start,
    review: &Arc<Review>,
    given: Vec<(String, Supplied)>,
) -> Result<Main, Refusal> {
    let flow = flow(&start.kit.definitions, review)?;
    let begins = Beginning::going_on(start, &flow, given)?;
    divide(&start.kit, review, &begins.inputs)?;
    Ok(begins.main(Meant { flow, followed: None }).1)
}

/// Divides the change that the inputs name: so whoever names none there is hears
/// of it before anything runs.
fn divide(kit: &Kit, review: &Review, inputs: &InputValues) -> Result<(), Refusal> {
    let (what, effort) = asked::of_inputs(inputs)?;
    let change =
        git::change(&kit.git, &kit.root, &what).map_err(|error| Refusal::no_change(&error))?;
    let plan = Plan::of(&change, &kit.root, effort);
    // It is divided once.
    let (git, session) = (kit.git.clone(), kit.directory.clone());
    let _ = review.divided.set(Divided { plan, git, session });
    Ok(())
}

/// Returns what somebody asks for that the fixed rules do not do.
fn needing_a_model(review: &ReviewFlags, asked: &Asked) -> Vec<&'static str> {
    let wanted = [
        ("`--effort`", asked.effort.is_some()),
        ("`--sarif`", review.sarif.is_some()),
        ("`--annotations`", review.annotations),
        ("`--fail-on`", review.fail_on.is_some()),
    ];
    wanted.into_iter().filter(|(_, is_wanted)| *is_wanted).map(|(flag, _)| flag).collect()
}

/// Refuses what needs a model.
fn without_a_model(needing: &[&str]) -> Result<(), Refusal> {
    let [first, rest @ ..] = needing else { return Ok(()) };
    let named = rest.iter().fold((*first).to_owned(), |named, flag| format!("{named}, {flag}"));
    let verb = if rest.is_empty() { "needs" } else { "need" };
    Err(Refusal::by_rules(&format!("{named} {verb}")))
}

/// Most bytes of a file that are looked at to tell what it is.
const HEAD_CAP: u64 = 512;

/// Returns the file for what stands. An earlier report is replaced, and nothing else.
fn target(path: &Path, git: &git::Program) -> Result<Target, Refusal> {
    let is_file = path.is_file() && !print::is_open(path);
    let head = if is_file { target::head(path, HEAD_CAP).unwrap_or_default() } else { Vec::new() };
    let is_other = !head.is_empty() && !String::from_utf8_lossy(&head).contains("sarif");
    if is_other || path == Path::new("-") {
        let message = format!("`{}` is no file for a SARIF report", path.display());
        let hint = "name a file that is not there yet, or an earlier report";
        return Err(Refusal::new(Exit::BadInput, message).hint(hint));
    }
    Target::new(path, Links::OfUser(git))
}

/// Writes what stands to its file.
fn write(report: &Report, target: Target) -> Result<(), Refusal> {
    let path = target.path().to_owned();
    let text = serde_json::to_vec(&report.sarif).expect("SARIF is JSON");
    target.write(&text).map_err(|error| Refusal::cannot_write(Exit::Error, &path, &error))
}

/// Prints annotations behind a report, or where they are not in the way of records:
/// a runner reads both.
fn annotate(annotations: &str, is_text: bool) {
    // Nobody may read any more.
    let _ = match is_text {
        true => io::stdout().write_all(annotations.as_bytes()),
        false => io::stderr().write_all(annotations.as_bytes()),
    };
}
