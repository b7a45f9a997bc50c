//! The shell gate: which commands only read, so that nobody need be asked.
//!
//! A command is parsed once, and what runs is what was parsed: every word
//! written out again in quotes of ours, no expansion, no redirection but to
//! nowhere. Each part must be a program of the table with listed options
//! (`programs.toml`). Whatever is not understood is asked about. The gate only
//! decides whether to ask; the sandbox bounds the damage if it is wrong.

mod git;
mod named;
mod programs;
mod reading;
mod scripts;
mod seen;
mod syntax;
mod word;
mod world;

use std::ops::Range;
use std::path::{Path, PathBuf};

pub use super::paths::Link;
pub use world::{Look, Machine, World};
pub(crate) use world::{is_closed, is_executable};

pub(super) use named::{CommandFiles, named_files};
pub(super) use seen::{behind, forms, obscurity};

use super::launch;
use syntax::{Joint, Script, Simple, Word};
use world::Remembered;

/// Longest command that is looked at, in bytes. Nobody reads 10 kB of shell
/// before saying yes; what is longer is a script, and a script belongs in a
/// file.
pub const LENGTH_CAP: usize = 10_000;

/// Most directories that the parts of one command may run in. Each `cd` may
/// fail, so each doubles them.
const DIRECTORY_CAP: usize = 8;

/// Most programs of one command. Each is looked at in each directory that it
/// may run in; nobody strings so many together to look around.
const PARTS_CAP: usize = 100;

/// Longest script that a command is written out again as, in bytes. It is one
/// argument of a shell, and those have a limit not far above this.
const SCRIPT_CAP: usize = 100_000;

/// What the gate says of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judged {
    /// It only reads.
    Reads(Reading),
    /// It may do more, or cannot be told to do less.
    Ask {
        /// What stands in the way, about the command as `it`.
        reason: String,
    },
}

/// A command that only reads.
///
/// It may run unasked if the rules let it read what it names, in a sandbox,
/// as [`Reading::script`] and not as it was written, with nothing in its
/// environment but [`Machine::environment`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The command as it is to be run, by any POSIX shell.
    pub script: String,
    /// The programs in it, in order.
    pub parts: Vec<Part>,
}

/// One program of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The program's words, the first of which is its bare name.
    pub words: Vec<String>,
    /// What it reads by name. Revisions of git count as paths.
    pub touched: Vec<Touched>,
}

/// A path that a part names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    /// The path, from the root on; no link in it is followed yet.
    pub path: PathBuf,
    /// How far the reading goes.
    pub reach: Reach,
}

/// How far a part reads from a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The file, or the names in the directory.
    Itself,
    /// All that is below it, too; without following links.
    Below,
    /// The same, but nothing that is in files whose names tell of secrets.
    BelowSparing,
}

/// Decides whether a command only reads.
#[must_use]
pub fn judge(command: &str, world: World<'_>) -> Judged {
    let look = Remembered::new(world.look);
    let world = World { look: &look, ..world };
    let home = world.look.home();
    match plain_at(command, home).and_then(|plain| reading(&plain, world)) {
        Ok(reading) => Judged::Reads(reading),
        Err(reason) => Judged::Ask { reason },
    }
}

fn reading(plain: &Plain<'_>, world: World<'_>) -> Result<Reading, String> {
    if plain.parts.len() > PARTS_CAP {
        return Err(format!("it is made of more than {PARTS_CAP} commands"));
    }
    let mut directories = vec![world.look.real(world.directory)];
    let mut parts = Vec::with_capacity(plain.parts.len());
    let mut script = String::with_capacity(2 * LENGTH_CAP.min(plain.source.len()));
    for (index, part) in plain.parts.iter().enumerate() {
        if part.sets_variables {
            return Err("it sets a variable".to_owned());
        }
        let checked = reading::check(&part.words, world, &directories)?;
        if !checked.entered.is_empty() {
            let next = plain.parts.get(index + 1).map(|next| next.joint);
            if is_pipe(Some(part.joint)) || is_pipe(next) {
                return Err("it changes the directory inside a pipe".to_owned());
            }
            directories.extend(checked.entered);
            if directories.len() > DIRECTORY_CAP {
                return Err("it changes the directory too often".to_owned());
            }
        }
        part.write(index, &checked.words, &mut script);
        if script.len() > SCRIPT_CAP {
            return Err("it comes to too long a script".to_owned());
        }
        parts.push(Part { words: part.words.clone(), touched: checked.touched });
    }
    Ok(Reading { script, parts })
}

/// What a command is made of, for whoever wants to know what could run.
#[derive(Debug)]
pub(crate) struct Outline {
    /// The words of each of its commands, at whatever depth: what a shell reads
    /// in them and, where it makes more of one, how that is written.
    pub(crate) commands: Vec<Vec<Result<String, String>>>,
    /// The redirections to files that are written to.
    pub(crate) written: Vec<Range<usize>>,
}

/// Returns what a command is made of; `None` where something may run that is not
/// among its commands.
pub(crate) fn outline(command: &str) -> Option<Outline> {
    let is_short = command.len() <= LENGTH_CAP && word::unseen(command).is_none();
    let Script { commands, compound: _, unsure } = is_short.then(|| syntax::parse(command))?;
    if unsure.is_some() || commands.is_empty() {
        return None;
    }
    let is_written = |range: &Range<usize>| {
        let text = command[range.clone()].trim_start_matches(|c: char| c.is_ascii_digit());
        let runs_nothing = !text.contains(['`', '(']);
        runs_nothing && (text.starts_with('>') || text.starts_with("&>"))
    };
    let redirections = commands.iter().flat_map(|simple| &simple.redirections);
    let written = redirections.map(|it| it.range.clone()).filter(is_written).collect();
    let word = |word: Word| word.literal.ok_or_else(|| command[word.range].to_owned());
    let words = |simple: Simple| simple.words.into_iter().map(word).collect();
    Some(Outline { commands: commands.into_iter().map(words).collect(), written })
}

fn is_pipe(joint: Option<Joint>) -> bool {
    matches!(joint, Some(Joint::Pipe | Joint::PipeBoth))
}

/// A command that is nothing but programs with literal words, one behind the
/// other.
#[derive(Debug)]
pub(super) struct Plain<'a> {
    source: &'a str,
    parts: Vec<PlainPart<'a>>,
}

#[derive(Debug)]
struct PlainPart<'a> {
    /// As it is written, without its redirections.
    text: &'a str,
    joint: Joint,
    words: Vec<String>,
    /// How its redirections are written out again.
    redirections: Vec<String>,
    sets_variables: bool,
}

/// Reads a command as programs with literal words.
///
/// # Errors
///
/// What else there is in it, in words that speak of the command as `it`.
pub(super) fn plain(command: &str) -> Result<Plain<'_>, String> {
    plain_at(command, None)
}

/// The same where the words of a home directory are known: `~`, `$HOME` and `${HOME}`.
fn plain_at<'a>(command: &'a str, home: Option<&Path>) -> Result<Plain<'a>, String> {
    if command.len() > LENGTH_CAP {
        return Err(format!("it is longer than {LENGTH_CAP} bytes"));
    }
    if let Some(c) = word::unseen(command) {
        return Err(format!("it holds the invisible character {}", c.escape_unicode()));
    }
    let Script { commands, compound, unsure } = syntax::parse(command);
    if let Some(reason) = unsure.or(compound) {
        return Err(reason);
    }
    if commands.is_empty() {
        return Err("it is empty".to_owned());
    }
    let parts = commands.into_iter().map(|simple| plain_part(command, simple, home));
    Ok(Plain { source: command, parts: parts.collect::<Result<_, _>>()? })
}

fn plain_part<'a>(
    command: &'a str,
    simple: Simple,
    home: Option<&Path>,
) -> Result<PlainPart<'a>, String> {
    let Simple { joint, assignments, words, redirections, range: _ } = simple;
    let (Some(first), Some(last)) = (words.first(), words.last()) else {
        return Err("it names no program".to_owned());
    };
    let start = assignments.first().map_or(first.range.start, |assignment| assignment.start);
    let text = &command[start..last.range.end];
    for assignment in &assignments {
        if word::literal(&command[assignment.clone()]).is_none() {
            return Err(format!("`{}` is expanded", &command[assignment.clone()]));
        }
    }
    let mut literals = Vec::with_capacity(words.len());
    for word in words {
        let source = &command[word.range];
        let known =
            word.literal.or_else(|| word::at_home(source, home.and_then(named::plain_home)?));
        literals.push(known.ok_or_else(|| format!("`{source}` is expanded"))?);
    }
    let mut harmless = Vec::with_capacity(redirections.len());
    for redirection in redirections {
        let source = &command[redirection.range];
        harmless
            .push(redirection.harmless.ok_or_else(|| format!("`{source}` redirects to a file"))?);
    }
    Ok(PlainPart {
        text,
        joint,
        words: literals,
        redirections: harmless,
        sets_variables: !assignments.is_empty(),
    })
}

impl Plain<'_> {
    /// Returns every part as it is written, without its redirections.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().map(|part| part.text)
    }

    /// Returns every part as [`Plain::texts`] does, each with its words as a
    /// shell reads them.
    pub(super) fn commands(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.parts.iter().map(|part| (part.text, &part.words[..]))
    }

    /// Returns every part as [`Plain::texts`] does, each with whether an option
    /// in it runs another program.
    pub(super) fn judged_texts(&self) -> impl Iterator<Item = (&str, bool)> {
        self.parts.iter().map(|part| {
            let words: Vec<&str> = part.words.iter().map(String::as_str).collect();
            (part.text, launch::option_of(&words).is_some())
        })
    }

    /// Tells whether every part passes, given as it is written.
    pub(super) fn all(&self, mut passes: impl FnMut(&str) -> bool) -> bool {
        self.judged_texts().all(|(text, launches)| passes(text) && !launches)
    }
}

impl PlainPart<'_> {
    fn write(&self, index: usize, words: &[String], script: &mut String) {
        if index > 0 {
            script.push_str(match self.joint {
                Joint::Then => "; ",
                Joint::And => " && ",
                Joint::Or => " || ",
                Joint::Pipe => " | ",
                // Written in front, with the redirections.
                Joint::PipeBoth => " 2>&1 | ",
                Joint::Background => " & ",
            });
        }
        let words: Vec<String> = words.iter().map(|word| word::quoted(word)).collect();
        script.push_str(&words.join(" "));
        for redirection in &self.redirections {
            script.push(' ');
            script.push_str(redirection);
        }
    }
}

#[cfg(test)]
mod tests;
