//! `tine map`: one agent for each row of a table, and a line for what each said.
//!
//! It is a flow of two steps, so all that holds for flows holds here: rows that
//! have ended are known by the session's log, and are not run again where it is
//! gone on with.

mod progress;
mod prompt;
mod table;
mod words;

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Read, Write};
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::sync::watch;

use super::args::{Format, GivenJson, MapFlags, RunFlags, Unread};
use super::exit::{Exit, Refusal};
use super::flow;
use super::model::DefaultModel;
use super::print::{self, Begin};
use super::resume;
use super::runner;
use super::start::Start;
use super::target;
use crate::config::{CONCURRENT_CAP, Environment};
use crate::event::EventKind;
use crate::flow::{
    AgentStep, Compute, Expression, Fault, Finished, Flow, GiveUpRule, Given, InputValues, OnError,
    Sees, Step, StepLimits, Walk, Wording,
};
use crate::prompt as prompts;
use crate::report::{self, MapCounts, Mapped, ROWS};
use crate::run::Main;
use crate::session;
use crate::tool::AnswerSchema;

use progress::{Progress, Told};
use table::{Kind, TABLE_CAP, Table};

/// What the flow is called, by which its session knows what has finished.
const NAME: &str = "map";

/// The step that gives the rows.
const TABLE: &str = "table";

/// The agent that is asked where nobody else is named.
const AGENT: &str = "general-purpose";

/// After how many rows that all failed in the same way no more are asked: a wrong schema
/// or model fails all ten thousand, and each of them costs requests.
const HOPELESS: NonZeroU32 = NonZeroU32::new(10).expect("ten is not zero");

/// Most bytes of the file with the prompt: what a template may have.
const PROMPT_CAP: u64 = 1024 * 1024;

/// Most bytes of the output that are looked at before it is written over. The
/// first line has told by then what it is.
const HEAD_CAP: u64 = 4096;

/// Asks an agent for each row.
pub(super) fn run(
    environment: &Environment,
    mut flags: RunFlags,
    map: MapFlags,
) -> Result<Exit, Refusal> {
    check(&flags, &map)?;
    let work = Work::read(&mut flags, &map)?;
    if let Some(most) = map.max_concurrent {
        flags.config.push(format!("agents.max_concurrent={most}"));
        // A number that is not possible is warned of with the other key.
        let most = usize::try_from(most).unwrap_or(0).clamp(1, CONCURRENT_CAP);
        flags.config.push(format!("executor.nats.max_concurrent={most}"));
    }
    let total = work.total();
    let (tell, told) = watch::channel(Told::default());
    let exit = print::run_main(environment, flags, DefaultModel::None, move |start| {
        work.begin(start, &map, tell)
    })?;
    let Told { counts, lost } = told.borrow().clone();
    lost.iter().for_each(super::say);
    Ok(exit_of(exit, counts, total))
}

/// Returns how the process ends: rows that have no answer are an error, whatever
/// kept them from having one but a signal and a key that is refused.
fn exit_of(exit: Exit, counts: MapCounts, total: u32) -> Exit {
    let is_whole = exit == Exit::Done && counts.completed == total;
    let is_told = exit.is_by_signal() || exit == Exit::Authentication;
    if is_told || is_whole { exit } else { Exit::Error }
}

/// Checks flags against each other.
fn check(flags: &RunFlags, map: &MapFlags) -> Result<(), Refusal> {
    resume::check(flags)?;
    flow::check_flags(flags)?;
    if flags.output_format() != Format::Text {
        return Err(Refusal::new(Exit::Usage, "a map's output is a line for each row")
            .hint("`--json-file FILE` takes the records of its run besides"));
    }
    if [&map.input, &map.prompt].iter().all(|path| **path == Path::new("-")) {
        return Err(Refusal::new(
            Exit::Usage,
            "the rows and the prompt cannot both be standard input",
        )
        .hint("write one of them to a file"));
    }
    if map.retry_failed && !resume::is_wanted(flags) {
        return Err(Refusal::new(Exit::Usage, "`--retry-failed` needs a session to go on with")
            .hint("add `--resume SESSION` or `--continue`"));
    }
    let Some(path) = output(map) else { return Ok(()) };
    refuse_written(path, resume::is_wanted(flags))
}

/// Returns the file that the lines go to; `None` for standard output.
fn output(map: &MapFlags) -> Option<&Path> {
    map.output.as_deref().filter(|path| *path != Path::new("-"))
}

/// Refuses to write over what somebody may still want. Where a map goes on,
/// lines of one are there for that.
fn refuse_written(path: &Path, goes_on: bool) -> Result<(), Refusal> {
    // What cannot be looked at cannot be written either, and that is said.
    let Ok(found) = path.metadata() else { return Ok(()) };
    if !found.is_file() || print::is_open(path) || found.len() == 0 || (goes_on && has_lines(path))
    {
        return Ok(());
    }
    let refusal =
        Refusal::new(Exit::BadInput, format!("there is something in `{}`", path.display()));
    Err(match goes_on {
        true => refusal.hint("these are not the lines of a map: name another file"),
        false => refusal.hint("name another file, or go on with its session: `--resume SESSION`"),
    })
}

/// Tells whether a file begins as the lines of a map do.
fn has_lines(path: &Path) -> bool {
    target::head(path, HEAD_CAP).is_ok_and(|head| report::begins_as_map(&head))
}

/// What is asked, and of whom.
struct Work {
    table: Table,
    prompt: Wording,
    /// As it was written.
    template: String,
    schema: Option<Arc<AnswerSchema>>,
    agent: String,
    limits: StepLimits,
}

impl Work {
    /// Reads everything that can be wrong. The agent that is named is that of
    /// the rows, and not main.
    fn read(flags: &mut RunFlags, map: &MapFlags) -> Result<Self, Refusal> {
        let wrong = |path: &Path, why: &str| {
            Refusal::new(Exit::BadInput, format!("`{}`: {why}", path.display()))
        };
        let template = read(&map.prompt, PROMPT_CAP)?;
        let template = String::from_utf8(template)
            .map_err(|_| wrong(&map.prompt, "the file is not UTF-8 text"))?;
        let bytes = read(&map.input, TABLE_CAP)?;
        let kind = Kind::of(&map.input.to_string_lossy(), &bytes);
        let table = Table::read(kind, &bytes).map_err(|why| wrong(&map.input, &why))?;
        drop(bytes);
        let prompt = prompt::of(&template, &table).map_err(|why| wrong(&map.prompt, &why))?;
        let schema = map.schema.as_ref().map(schema).transpose()?.map(Arc::new);
        let agent = flags.agent.take().unwrap_or_else(|| AGENT.to_owned());
        let (max_turns, timeout) = (flags.turn_limit(), map.timeout);
        let limits = StepLimits { max_turns, timeout, ..StepLimits::default() };
        Ok(Self { table, prompt, template, schema, agent, limits })
    }

    fn total(&self) -> u32 {
        u32::try_from(self.table.rows.len()).expect("a table has no more rows than a flow steps")
    }

    /// Returns what the run begins with. Only now anything is written.
    fn begin(
        self,
        start: &Start,
        map: &MapFlags,
        tell: watch::Sender<Told>,
    ) -> Result<Begin, Refusal> {
        let kit = &start.kit;
        if kit.is_offline() {
            return Err(Refusal::by_rules("a map needs"));
        }
        if kit.definitions.find(&self.agent).is_none() {
            let message = format!("there is no agent `{}`", self.agent);
            let names = kit.definitions.names().join(", ");
            return Err(Refusal::new(Exit::Usage, message).hint(format!("there are: {names}")));
        }
        let request = request(map, &self.template);
        let (total, is_structured) = (self.total(), self.schema.is_some());
        let (names, flow) = self.flow(map.keep_going)?;
        let (lines, cut) = opened(map)?;
        let mut mapped = Mapped::new(lines, names, is_structured);
        let mut finished = Finished::default();
        if let Some(from) = start.goes_on_from() {
            finished = before(from, &mut mapped)?;
        }
        if !map.retry_failed {
            finished = finished.with_failures();
        }
        let told = (tell, kit.is_kept.then(|| kit.session.clone()));
        let shares_screen = output(map).is_none() && io::stdout().is_terminal();
        let screen = (total, start.is_live(), shares_screen);
        let progress = Progress::new(mapped, cut, screen, told);
        let walk = Walk { finished, ..Walk::new(Arc::new(flow), InputValues::default()) };
        let main = Main::Flow { walk: Arc::new(walk), request: request.as_str().into() };
        Ok(Begin { typed: request, main, shown: Some(Box::new(progress)) })
    }

    /// Returns what the rows are called, and the flow that goes through them.
    fn flow(self, keeps_going: bool) -> Result<(Names, Flow), Refusal> {
        let total = NonZeroU32::new(self.total()).expect("a table has a row");
        let agent = AgentStep {
            sees: Sees::Nothing,
            schema: self.schema,
            limits: self.limits,
            on_error: OnError::StopIfRefused,
            ..AgentStep::new(ROWS, self.agent, self.prompt)
        };
        let (names, rows): (Vec<_>, Vec<_>) =
            self.table.rows.into_iter().map(|row| (row.id, Value::Object(row.fields))).unzip();
        let table = Step::computed(TABLE, Arc::new(Rows(Mutex::new(rows))), OnError::Stop);
        let items = Expression::parse(format!("steps.{TABLE}.value"));
        let items = items.expect("the expression follows the grammar");
        let gives_up =
            || GiveUpRule { after: HOPELESS, hint: "`--keep-going` asks all rows".into() };
        let step = Step::each(ROWS, items, total, agent.into())
            .map(|rows| if keeps_going { rows } else { rows.giving_up(gives_up()) })
            .and_then(|rows| Step::sequence(vec![table, rows]))
            .map_err(|error| vec![error])
            .and_then(|step| Flow::new(NAME, "", Vec::new(), step));
        // What a prompt may name was checked, so this is a second opinion.
        let flow = step.map_err(|errors| {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            Refusal::new(Exit::BadInput, errors.join("\nerror: "))
        })?;
        Ok((names.into(), flow))
    }
}

/// What rows are called, in their order.
type Names = Arc<[Arc<str>]>;

/// Gives the rows to the flow. They are no input of it: those stand in the log.
///
/// It gives them away, and nobody reads them as one text, so that a large table is
/// not held twice. The step is walked once.
#[derive(Debug)]
struct Rows(Mutex<Vec<Value>>);

impl Compute for Rows {
    fn is_text(&self) -> bool {
        false
    }

    fn compute(&self, _: &Given) -> Result<Value, Fault> {
        let rows = self.0.lock().map(|mut rows| std::mem::take(&mut *rows));
        Ok(Value::Array(rows.expect("nobody panics with the rows")))
    }
}

/// Returns what the session stands for, in words.
fn request(map: &MapFlags, template: &str) -> String {
    let input = ("input", map.input.display().to_string());
    prompts::flow_request(NAME, "", &[input, ("prompt", template.to_owned())])
}

/// Returns what has finished in a session that goes on.
fn before(from: &Path, mapped: &mut Mapped) -> Result<Finished, Refusal> {
    let mut finished = Finished::default();
    // A map that was killed before it had walked any step has left a prompt only.
    let mut is_other = false;
    let entries = session::read(from).map_err(|error| resume::cannot_open(&error))?;
    for event in entries.events() {
        finished.take(&event);
        mapped.recall(&event);
        is_other |= matches!(event.kind, EventKind::Replied(_) | EventKind::UnitQueued(_));
    }
    if is_other && !finished.has_walked(NAME) {
        let id = from.file_name().unwrap_or_default().to_string_lossy();
        return Err(Refusal::new(Exit::BadInput, format!("session `{id}` is no map"))
            .hint("`tine sessions` lists all sessions; without `--resume` a new one begins"));
    }
    Ok(finished)
}

/// What lines are written to, and the file that it is.
type Opened = (Box<dyn Write + Send>, Option<File>);

/// Opens what the lines go to. A file comes twice: what is in it goes only once
/// the session is this process's own, which another one may still write for.
fn opened(map: &MapFlags) -> Result<Opened, Refusal> {
    let Some(path) = output(map) else {
        return Ok((runner::stdout(true), None));
    };
    let opened = || {
        // As for every file that is written, a number is whoever has opened it.
        let file = match path.is_file() && !print::is_open(path) {
            true => File::options().write(true).open(path)?,
            false => print::open(path)?,
        };
        let is_cut = file.metadata()?.len() > 0;
        Ok((is_cut.then(|| file.try_clone()).transpose()?, file))
    };
    let cannot = |error: io::Error| Refusal::cannot_write(Exit::BadInput, path, &error);
    let (cut, file) = opened().map_err(cannot)?;
    Ok((Box::new(BufWriter::new(file)), cut))
}

/// Reads a file, or standard input, of at most so many bytes.
fn read(path: &Path, most: u64) -> Result<Vec<u8>, Refusal> {
    let refused = |why: String| {
        Refusal::new(Exit::BadInput, format!("cannot read `{}`: {why}", path.display()))
    };
    let source: Box<dyn Read> = match path == Path::new("-") {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(path).map_err(|error| refused(error.to_string()))?),
    };
    let mut bytes = Vec::new();
    let reading = source.take(most + 1).read_to_end(&mut bytes);
    reading.map_err(|error| refused(error.to_string()))?;
    match bytes.len() as u64 > most {
        true => Err(refused(format!("it is longer than {} MiB", most >> 20))),
        false => Ok(bytes),
    }
}

fn schema(given: &GivenJson) -> Result<AnswerSchema, Refusal> {
    let text = given.text().map_err(|Unread { file, why }| {
        Refusal::new(Exit::BadInput, format!("cannot read `{file}`: {why}"))
            .hint("`--schema` takes a JSON object or the name of a file")
    })?;
    AnswerSchema::parse(text.trim()).map_err(|why| {
        let what = given.file().unwrap_or("--schema");
        let message = format!("`{what}` is not a usable JSON Schema: {why}");
        Refusal::new(Exit::BadInput, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_without_an_answer_is_an_error_and_a_signal_stays_one() {
        let all = MapCounts { completed: 3, ..MapCounts::default() };
        let some = MapCounts { completed: 2, failed: 1, ..MapCounts::default() };
        for (exit, counts, expected) in [
            (Exit::Done, all, Exit::Done),
            (Exit::Done, some, Exit::Error),
            (Exit::TryLater, some, Exit::Error),
            (Exit::Error, all, Exit::Error),
            (Exit::Interrupted, some, Exit::Interrupted),
            (Exit::Terminated, some, Exit::Terminated),
            (Exit::Done, MapCounts::default(), Exit::Error),
        ] {
            assert_eq!(exit_of(exit, counts, 3), expected);
        }
    }
}
