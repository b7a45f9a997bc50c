//! `tine skills`, `tine agents` and `tine flow check`: what is found, where each
//! comes from, and what is wrong with their files.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::args::{CheckCommand, ListedFlags, RunFlags};
use super::exit::{Exit, Refusal};
use super::flow::{Beside, file_beside};
use super::project::{self, Manner};
use super::start::parts::{Discovered, discover};
use super::start::{repository_root, working_directory};
use super::{runner, session, slash};
use crate::config::{Environment, dirs};
use crate::definition::{self, AgentDefinition, Definitions, Isolation};
use crate::flow;
use crate::front_matter::{self, Finding, Severity};
use crate::message::counted;
use crate::report::{agent_record, finding_record, sanitise, skill_record};
use crate::skill::{self, Context, Skill, Skills};

/// Where the second column begins.
const COLUMN: usize = 20;

/// Where things are looked for.
struct Around {
    root: PathBuf,
    top: Option<PathBuf>,
    home: Option<PathBuf>,
}

impl Around {
    fn here(environment: &Environment) -> Result<Self, Refusal> {
        let root = working_directory(environment)?;
        Ok(Self { top: repository_root(&root), root, home: environment.home.clone() })
    }

    /// Returns a path as people would write it.
    fn shown(&self, path: &Path) -> String {
        let at_home =
            || Some(format!("~/{}", path.strip_prefix(self.home.as_ref()?).ok()?.display()));
        let here = path.strip_prefix(&self.root).ok().map(|path| path.display().to_string());
        let shown = here.or_else(at_home).unwrap_or_else(|| path.display().to_string());
        sanitise::line(&shown).into_owned()
    }

    fn source(&self, source: &front_matter::Source) -> String {
        source.file().map_or_else(|| source.to_string(), |path| self.shown(path))
    }
}

/// Lists skills and commands, or checks them.
pub(super) fn skills(
    environment: &Environment,
    flags: &RunFlags,
    listed: &ListedFlags,
) -> Result<Exit, Refusal> {
    let (around, found) = found(environment, flags)?;
    let Some(CheckCommand::Check { paths }) = &listed.command else {
        let flow = |skill| flow_of(skill, |path| path.display().to_string());
        let records = found.skills.iter().map(|it| skill_record(it, flow(it).as_deref()));
        let text = || found.skills.iter().map(|skill| skill_text(skill, &around)).collect();
        say_problems(&found);
        return print(listed.json, records, text);
    };
    let sources = flags.borrowed.sources();
    let (root, top) = (&around.root, around.top.as_deref());
    let files = match paths.is_empty() {
        false => paths.iter().flat_map(|path| skill_files(path)).collect::<Vec<_>>(),
        true => {
            let skills = dirs::skill_directories(root, top, environment, sources);
            let commands = dirs::command_directories(root, top, environment, sources);
            skills
                .iter()
                .flat_map(|at| in_order(at))
                .map(|it| it.join(skill::FILE))
                .filter(|file| file.exists())
                .chain(commands.iter().flat_map(|at| documents(at)))
                .collect()
        }
    };
    let names = found.definitions.names();
    let home = environment.home.as_deref();
    let known = skill::Known { agents: &names, home, root: Some(top.unwrap_or(root)) };
    let flows = super::flow::known(&found.definitions);
    let check = |path: &PathBuf| {
        let mut findings = skill::check(path, known);
        let beside = file_beside(path).and_then(|flow| flow::file::read(&flow, &flows).err());
        findings.extend(beside.into_iter().flatten());
        findings
    };
    tell(("skill", listed.json), &files, check, (&found, paths.is_empty()), &around)
}

/// Lists the types of agents, or checks them.
pub(super) fn agents(
    environment: &Environment,
    flags: &RunFlags,
    listed: &ListedFlags,
) -> Result<Exit, Refusal> {
    let (around, found) = found(environment, flags)?;
    let Some(CheckCommand::Check { paths }) = &listed.command else {
        let records = found.definitions.iter().map(|definition| agent_record(definition));
        let text = || found.definitions.iter().map(|it| agent_text(it, &around)).collect();
        say_problems(&found);
        return print(listed.json, records, text);
    };
    let sources = flags.borrowed.sources();
    let (root, top) = (&around.root, around.top.as_deref());
    let files: Vec<PathBuf> = match paths.is_empty() {
        false => paths.iter().flat_map(|path| agent_files(path)).collect(),
        true => {
            let places = dirs::agent_directories(root, top, environment, sources);
            places.iter().filter(|place| place.is_dir()).flat_map(|at| agent_files(at)).collect()
        }
    };
    let check = |path: &PathBuf| definition::check(path, &found.skills);
    tell(("agent", listed.json), &files, check, (&found, paths.is_empty()), &around)
}

/// Checks flow files.
pub(super) fn flows(
    environment: &Environment,
    flags: &RunFlags,
    (files, json): (&[PathBuf], bool),
) -> Result<Exit, Refusal> {
    let (around, found) = found(environment, flags)?;
    let known = super::flow::known(&found.definitions);
    let check = |path: &PathBuf| {
        let file = match super::flow::meant_by(path, &found.skills) {
            Some(Beside::File(file)) => file,
            // A part of this program, which its tests read.
            Some(Beside::Bundled(_) | Beside::Review) => return Vec::new(),
            None => path.clone(),
        };
        flow::file::read(&file, &known).err().unwrap_or_default()
    };
    tell(("flow", json), files, check, (&found, false), &around)
}

/// Returns the definitions of agents and the skills that are found.
pub(super) fn around(
    environment: &Environment,
    flags: &RunFlags,
) -> Result<(Definitions, Skills), Refusal> {
    found(environment, flags).map(|(_, found)| (found.definitions, found.skills))
}

fn found(environment: &Environment, flags: &RunFlags) -> Result<(Around, Discovered), Refusal> {
    let around = Around::here(environment)?;
    let trusted = project::settle(environment, flags, Manner::Tell)?;
    let at = (&*around.root, around.top.as_deref());
    let found = discover(at, environment, flags, &trusted);
    Ok((around, found))
}

fn say_problems(found: &Discovered) {
    found.problems.iter().for_each(|problem| super::say(&format!("warning: {problem}")));
}

/// Returns the entries of a directory. What is wrong with it is said where it is
/// loaded.
fn in_order(directory: &Path) -> Vec<PathBuf> {
    front_matter::entries(directory, &mut Vec::new())
}

fn documents(directory: &Path) -> Vec<PathBuf> {
    let documents = front_matter::documents(directory, &mut Vec::new());
    documents.into_iter().map(|(_, path)| path).collect()
}

/// Returns the files that somebody means by a path: a file, a skill, a directory
/// of skills, or one of commands.
fn skill_files(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    let own = path.join(skill::FILE);
    if own.exists() {
        return vec![own];
    }
    let holders = front_matter::holders(path, skill::FILE, &mut Vec::new());
    let below: Vec<PathBuf> = holders.iter().map(|holder| holder.join(skill::FILE)).collect();
    if below.is_empty() { documents(path) } else { below }
}

fn agent_files(path: &Path) -> Vec<PathBuf> {
    match path.is_dir() {
        true => {
            let below = |(above, file): &(Vec<String>, PathBuf)| {
                above.is_empty()
                    || front_matter::read(file).is_ok_and(|it| front_matter::has_head(&it))
            };
            let files = front_matter::documents(path, &mut Vec::new());
            files.into_iter().filter(below).map(|(_, file)| file).collect()
        }
        false => vec![path.to_owned()],
    }
}

/// Prints a list.
fn print(
    json: bool,
    mut records: impl Iterator<Item = Vec<u8>>,
    text: impl FnOnce() -> String,
) -> Result<Exit, Refusal> {
    let mut out = runner::stdout(json);
    let written = match json {
        true => records.try_for_each(|record| out.write_all(&record)),
        false => out.write_all(text().as_bytes()),
    };
    session::finish(written.and_then(|()| out.flush()))
}

/// Checks files and prints what is found, each with its file and line.
fn tell(
    (what, json): (&str, bool),
    files: &[PathBuf],
    check: impl Fn(&PathBuf) -> Vec<Finding>,
    (discovered, is_all): (&Discovered, bool),
    around: &Around,
) -> Result<Exit, Refusal> {
    let mut findings: Vec<Finding> = files.iter().flat_map(check).collect();
    // Of all that there are it is told, too, which of them hide others.
    for problem in discovered.problems.iter().filter(|_| is_all) {
        let is_told = |it: &Finding| it.path == problem.path && it.severity == Severity::Error;
        if files.contains(&problem.path) && !findings.iter().any(is_told) {
            findings.push(problem.clone().into());
        }
    }
    findings.sort_by(|one, other| (&one.path, one.line).cmp(&(&other.path, other.line)));
    let text = || {
        let lines = findings.iter().map(|finding| {
            let Finding { path, line, severity, message } = finding;
            let message = sanitise::line(message);
            format!("{}:{line}: {}: {message}\n", around.shown(path), severity.as_str())
        });
        lines.collect()
    };
    print(json, findings.iter().map(finding_record), text)?;
    let of = |severity| findings.iter().filter(|it| it.severity == severity).count();
    let (errors, warnings) = (of(Severity::Error), of(Severity::Warning));
    let number =
        |number: usize, what: &str| counted(u32::try_from(number).unwrap_or(u32::MAX), what);
    super::say(&format!(
        "{}: {}, {}",
        number(files.len(), what),
        number(errors, "error"),
        number(warnings, "warning")
    ));
    Ok(if errors == 0 { Exit::Done } else { Exit::Error })
}

/// A name, beside it what is most asked for, and below that the rest.
fn entry(name: &str, first: &str, rest: &[String]) -> String {
    let name = sanitise::line(name);
    let mut text = match name.chars().count() < COLUMN - 1 {
        true => format!("{name:COLUMN$}{first}\n"),
        false => format!("{name}\n{:COLUMN$}{first}\n", ""),
    };
    for line in rest {
        let line = sanitise::line(line);
        writeln!(text, "{:COLUMN$}{line}", "").expect("a string takes every text");
    }
    text
}

fn skill_text(skill: &Skill, around: &Around) -> String {
    let who = match (skill.user_invocable, !skill.disable_model_invocation) {
        (true, true) => "people, models",
        (true, false) => "people",
        (false, true) => "models",
        (false, false) => "nobody",
    };
    let mut rest = Vec::new();
    if slash::is_command(&skill.name) {
        rest.push("cannot be typed: a built-in command has its name".to_owned());
    }
    rest.extend(skill.hides.iter().map(|hidden| format!("hides {}", around.source(hidden))));
    if !skill.allowed_tools.is_empty() {
        let allowed: Vec<String> = skill.followed.leave.iter().map(ToString::to_string).collect();
        rest.push(match allowed.is_empty() {
            false => format!("allows {}", allowed.join(", ")),
            true => format!("would allow {}, once trusted", skill.allowed_tools.join(", ")),
        });
    }
    if let Context::Fork { agent, is_background } = &skill.context {
        let how = if *is_background { ", in the background" } else { "" };
        rest.push(format!("done by an agent: {agent}{how}"));
    }
    let flow = flow_of(skill, |path| around.shown(path));
    rest.extend(flow.map(|flow| format!("walks a flow when typed: {flow}")));
    rest.extend(skill.followed.model.as_ref().map(|model| format!("model {model}")));
    entry(&skill.name, &format!("{who:16}{}", around.source(&skill.source)), &rest)
}

/// Returns where the flow of a skill comes from, if it has one.
fn flow_of(skill: &Skill, shown: impl Fn(&Path) -> String) -> Option<String> {
    Beside::of(skill).map(|beside| match beside {
        Beside::File(path) => shown(&path),
        Beside::Bundled(_) | Beside::Review => skill.source.to_string(),
    })
}

fn agent_text(definition: &AgentDefinition, around: &Around) -> String {
    let AgentDefinition { tools, disallowed_tools, permission_mode, model, max_turns, .. } =
        definition;
    let not = disallowed_tools.iter().cloned();
    let not = not.chain(definition.denied.iter().map(ToString::to_string)).collect::<Vec<_>>();
    let facts = [
        tools.as_ref().map(|tools| format!("tools {}", tools.join(", "))),
        (!not.is_empty()).then(|| format!("not {}", not.join(", "))),
        model.as_ref().map(|model| format!("model {model}")),
        permission_mode.map(|mode| format!("mode {}", mode.as_str())),
        max_turns.map(|most| counted(most, "turn")),
        (!definition.skills.is_empty())
            .then(|| format!("has read {}", definition.skills.join(", "))),
        definition.is_background.then(|| "in the background".to_owned()),
        definition.isolation.map(|isolation| match isolation {
            Isolation::Worktree => "a worktree of its own".to_owned(),
        }),
        definition.color.map(|color| color.as_str().to_owned()),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    let rest: Vec<String> = (!facts.is_empty()).then(|| facts.join("; ")).into_iter().collect();
    entry(&definition.name, &around.source(&definition.source), &rest)
}
