//! `tine flow`: checks, shows and runs flow files.

mod beginning;
mod beside;
mod show;

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::args::{FlowCommand, FlowRunFlags, RunFlags};
use super::exit::{Exit, Refusal};
use super::kit::Kit;
use super::model::DefaultModel;
use super::print::Begin;
use super::start::repository_root;
use super::{catalogue, print, review};
use crate::config::Environment;
use crate::definition::Definitions;
use crate::flow::file::{self, Known};
use crate::flow::{Flow, InputError, Supplied};
use crate::front_matter::Finding;
use crate::skill::{Followed, Skills};

pub(super) use beginning::Beginning;
pub(super) use beside::{Beside, file_beside, main_of, meant_by};

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
            check_flags(&flags)?;
            let given = inputs.iter().map(|pair| parse(pair)).collect::<Result<Vec<_>, _>>()?;
            print::run_main(environment, flags, DefaultModel::None, move |start| {
                if beside::is_review(&file, &start.kit.skills) {
                    return review::walked(start, given).map(Begin::from);
                }
                let meant = Meant::by(&file, &start.kit.definitions, &start.kit.skills)?;
                let begins = Beginning::going_on(start, &meant.flow, given)?;
                check_place(&start.kit, &meant.flow)?;
                Ok(begins.main(meant).into())
            })
        }
    }
}

/// Refuses what bounds or chooses main, where main is a flow that has several agents.
pub(super) fn check_bounds(flags: &RunFlags) -> Result<(), Refusal> {
    let (flag, hint) = if flags.max_turns.is_some() {
        ("--max-turns", "`--max-tool-calls` and `--max-budget-usd` bound all of them together")
    } else if flags.agent.is_some() {
        ("--agent", "its steps say which agents they are")
    } else {
        return Ok(());
    };
    let message = format!("`{flag}` is for main, and a flow has agents of its own");
    Err(Refusal::new(Exit::Usage, message).hint(hint))
}

/// Refuses what says something to main, where main is a flow.
pub(super) fn check_flags(flags: &RunFlags) -> Result<(), Refusal> {
    let given = [
        ("--system-prompt", flags.system_prompt.is_some()),
        ("--system-prompt-file", flags.system_prompt_file.is_some()),
        ("--append-system-prompt", flags.append_system_prompt.is_some()),
        ("--append-system-prompt-file", flags.append_system_prompt_file.is_some()),
    ];
    let Some((flag, _)) = given.iter().find(|(_, is_given)| *is_given) else { return Ok(()) };
    Err(Refusal::new(
        Exit::Usage,
        format!("`{flag}` has nobody to tell it to: no model is main here"),
    )
    .hint("what agents are told is in their prompts and in the definitions of their types"))
}

/// Refuses to walk a flow that no model would answer, or that needs a repository
/// where there is none: what its first steps cost would be lost.
pub(super) fn check_place(kit: &Kit, flow: &Flow) -> Result<(), Refusal> {
    if kit.is_offline() {
        return Err(Refusal::by_rules("a flow needs"));
    }
    match flow.step().isolated() {
        Some(step) if repository_root(&kit.root).is_none() => {
            let message = format!(
                "the step `{step}` works in a git worktree, and `{}` is in no git repository",
                kit.root.display()
            );
            let hint = "`git init` makes one; commit what is there";
            Err(Refusal::new(Exit::BadInput, message).hint(hint))
        }
        Some(_) | None => Ok(()),
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
        if is_gone(path) {
            return Err(beside::nobodys(path, skills));
        }
        if path.is_dir() && is_gone(&path.join(file::FILE)) {
            let message = format!("there is no `{}` in `{}`", file::FILE, path.display());
            return Err(Refusal::new(Exit::BadInput, message));
        }
        let flow = file::read(path, &known(definitions)).map_err(|findings| refused(&findings))?;
        Ok(Self { flow, followed: None })
    }
}

/// Tells whether there is nothing of that name. What nobody may look at may be there.
fn is_gone(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Says what is wrong with flow files.
pub(super) fn refused(findings: &[Finding]) -> Refusal {
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

/// Says what of the inputs a flow does not take, and what it would.
fn not_taken(flow: &Flow, errors: &[InputError]) -> Refusal {
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let refusal = Refusal::new(Exit::BadInput, errors.join("\nerror: "));
    match show::inputs(flow).as_slice() {
        [] => refusal,
        inputs => refusal.hint(format!("`{}` takes {}", flow.name(), inputs.join(", "))),
    }
}
