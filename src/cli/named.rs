//! The files that a command line names: nothing is written over those that are read,
//! and nothing is written twice to one place.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::args::{Arguments, Command, FlowCommand};
use super::exit::{Exit, Refusal};
use super::print;
use crate::flow::file::FILE;

/// A file, and what names it.
type Named = (&'static str, PathBuf);

/// Refuses to write over what is read, or twice to one file. It is asked before
/// anything is opened.
pub(super) fn check(arguments: &Arguments) -> Result<(), Refusal> {
    let read = read(arguments);
    let written = written(arguments);
    for (at, (flag, path)) in written.iter().enumerate() {
        // Whoever has opened it decides what two writers do there.
        if print::is_open(path) {
            continue;
        }
        let is_here = |(_, other): &&Named| is_same(other, path);
        let Some((other, _)) = read.iter().chain(&written[..at]).find(is_here) else { continue };
        let message = format!("`{flag}` and `{other}` are the same file, `{}`", path.display());
        let hint = format!("name another one as `{flag}`");
        return Err(Refusal::new(Exit::BadInput, message).hint(hint).keeping_files());
    }
    Ok(())
}

/// Returns the files that are read.
fn read(arguments: &Arguments) -> Vec<Named> {
    let run = &arguments.run;
    let mut given = vec![
        ("--json-schema", run.json_schema.as_ref()),
        ("--agents", run.agents.as_ref()),
        ("--settings", run.borrowed.settings.as_ref()),
    ];
    given.extend(run.servers.mcp_config.iter().map(|given| ("--mcp-config", Some(given))));
    let texts = [
        ("--system-prompt-file", &run.system_prompt_file),
        ("--append-system-prompt-file", &run.append_system_prompt_file),
    ];
    let texts = texts.into_iter().filter_map(|(flag, path)| Some((flag, path.clone()?)));
    let mut read: Vec<Named> = texts.collect();
    if let Some(Command::Map(map)) = &arguments.command {
        read.push(("--input", map.input.clone()));
        read.push(("--prompt", map.prompt.clone()));
        given.push(("--schema", map.schema.as_ref()));
    }
    if let Some(Command::Flow { command: FlowCommand::Run(flow) }) = &arguments.command {
        read.push(("FILE", flow.file.clone()));
        read.push(("FILE", flow.file.join(FILE)));
    }
    let scripted = run.model.as_deref().and_then(|model| model.strip_prefix("scripted:"));
    read.extend(scripted.map(|path| ("--model", path.into())));
    let files = given.into_iter().filter_map(|(flag, given)| Some((flag, given?.file()?.into())));
    read.extend(files);
    read
}

/// Returns the files that are written, in the order in which they are named in
/// the manual.
fn written(arguments: &Arguments) -> Vec<Named> {
    let run = &arguments.run;
    let mut all = Vec::new();
    if let Some(Command::Map(map)) = &arguments.command {
        all.push(("--output", map.output.clone()));
    }
    if let Some(Command::Review(review)) = &arguments.command {
        all.push(("--sarif", review.sarif.clone()));
    }
    all.extend([
        ("--json-file", run.records_file()),
        ("--output-last-message", run.output_last_message.clone()),
        ("--debug-file", run.borrowed.debug_file.clone()),
    ]);
    let all = all.into_iter().filter_map(|(flag, path)| Some((flag, path?)));
    all.filter(|(_, path)| path != Path::new("-")).collect()
}

/// Tells whether two names are those of one file that stays, which may not be there
/// yet.
fn is_same(one: &Path, other: &Path) -> bool {
    place(one).is_some_and(|one| place(other) == Some(one))
}

/// Where a file is.
#[derive(PartialEq, Eq)]
enum Place {
    /// A file that there is, by its device and its number.
    There(u64, u64),
    /// One that there is not, by its directory and its name.
    New(PathBuf, OsString),
}

fn place(path: &Path) -> Option<Place> {
    if let Ok(found) = path.metadata() {
        return found.is_file().then(|| Place::There(found.dev(), found.ino()));
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new(".")).canonicalize().ok()?;
    Some(Place::New(directory, path.file_name()?.to_owned()))
}
