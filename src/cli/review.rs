//! `tine review`: a review as a flow, on the change one stands in. Without a
//! model it is the review skill, by fixed rules.

mod computed;

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::args::{Format, ReviewFlags, RunFlags};
use super::exit::{Exit, Refusal};
use super::model::DefaultModel;
use super::print::Begin;
use super::slash::Typed;
use super::start::Start;
use super::{flow, print};
use crate::config::{Environment, ModelChoice};
use crate::flow::Supplied;
use crate::flow::file;
use crate::front_matter::Finding;
use crate::git::{self, What};
use crate::review::{Effort, FILES, FLOW, Plan, Severity};
use crate::run::Main;
use computed::{Report, Review, computations};

/// Reviews a change, and says in the ways that are asked for what came of it.
pub(super) fn run(
    environment: &Environment,
    mut flags: RunFlags,
    review: &ReviewFlags,
) -> Result<Exit, Refusal> {
    for name in [&review.base, &review.commit].into_iter().flatten() {
        if name.is_empty() || name.contains(char::is_whitespace) {
            let message = format!("no branch or commit is named `{name}`");
            return Err(Refusal::new(Exit::BadInput, message));
        }
    }
    // How hard models think is for the configuration to say.
    let effort = effort(flags.effort.take().as_ref().map(|effort| effort.as_str()))?;
    let is_json = flags.output_format() != Format::Text;
    let sarif = review.sarif.as_deref().map(print::create).transpose()?;
    let walked: Arc<OnceLock<Arc<Review>>> = Arc::default();
    let (asked, made) = (review.clone(), Arc::clone(&walked));
    let exit = print::run_main(environment, flags, DefaultModel::Offline, move |start| {
        if matches!(start.kit.choice, ModelChoice::Offline) {
            let prompt = prompt(&asked);
            let opening = start.kit.meaning(&prompt, Typed::Line)?;
            return Ok(Begin { typed: prompt, main: opening.into(), shown: None });
        }
        start.keep_log();
        let review = Arc::new(planned(start, &asked, effort, is_json)?);
        let main = main_of(start, &review, &asked)?;
        // It is made once.
        let _ = made.set(review);
        Ok(Begin { typed: prompt(&asked), main, shown: None })
    })?;
    let Some(report) = walked.get().and_then(|review| review.report.get()) else {
        return match sarif {
            Some(_) if exit == Exit::Done => Err(Refusal::new(
                Exit::BadInput,
                "the fixed rules write no SARIF: choose a model with `-m MODEL`",
            )),
            Some(_) | None => Ok(exit),
        };
    };
    tell(report, review.annotations, sarif)?;
    Ok(if report.fails && exit == Exit::Done { Exit::Error } else { exit })
}

/// Writes a report down in the other forms that are asked for.
fn tell(
    report: &Report,
    has_annotations: bool,
    sarif: Option<(PathBuf, File)>,
) -> Result<(), Refusal> {
    if let Some((path, mut file)) = sarif {
        let text = serde_json::to_vec(&report.sarif).expect("SARIF is JSON");
        file.write_all(&text).map_err(|error| {
            Refusal::new(Exit::Error, format!("cannot write `{}`: {error}", path.display()))
        })?;
    }
    if has_annotations {
        // Nobody may read any more.
        let _ = io::stdout().write_all(report.annotations.as_bytes());
    }
    Ok(())
}

fn effort(name: Option<&str>) -> Result<Effort, Refusal> {
    let Some(name) = name else { return Ok(Effort::default()) };
    Effort::from_name(name).ok_or_else(|| {
        Refusal::new(Exit::Usage, format!("a review has no effort `{name}`"))
            .hint("it is `low`, `medium` or `high`")
    })
}

/// Divides the change.
fn planned(
    start: &Start,
    review: &ReviewFlags,
    effort: Effort,
    is_json: bool,
) -> Result<Review, Refusal> {
    let what = match (&review.base, &review.commit) {
        (Some(base), _) => What::Base(base.clone()),
        (None, Some(commit)) => What::Commit(commit.clone()),
        (None, None) if review.uncommitted => What::Uncommitted,
        (None, None) => What::Auto,
    };
    let change = git::change(&start.kit.git, &start.kit.root, &what)
        .map_err(|error| Refusal::new(Exit::BadInput, error.to_string()))?;
    let plan = Plan::of(&change, &start.kit.root, effort);
    let session = start.kit.directory.clone();
    let fail_on = review.fail_on.as_deref().and_then(Severity::from_name);
    Ok(Review { plan, session, is_json, fail_on, report: OnceLock::new() })
}

/// Returns the flow of a review.
fn main_of(start: &Start, review: &Arc<Review>, asked: &ReviewFlags) -> Result<Main, Refusal> {
    let known =
        file::Known { computations: computations(review), ..flow::known(&start.kit.definitions) };
    let read = file::bundled(Path::new(FLOW), &FILES, &known).map_err(|findings| {
        let lines = findings.iter().map(|it: &Finding| it.message.clone()).collect::<Vec<_>>();
        Refusal::new(Exit::Error, format!("the bundled review is broken: {}", lines.join("; ")))
    })?;
    let focus = Supplied::Words(asked.words.join(" "));
    flow::main_of(start, &read, vec![("focus".to_owned(), focus)]).map(|begin| begin.main)
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
