//! Skills: instructions that are read when they are needed.
//!
//! A skill is `NAME/SKILL.md`: front matter and a body. Only its name and its
//! description stand in a system prompt; the body is a prompt of its own once
//! somebody uses it. A body is never run: it can only ask for what the guard
//! then decides on. What its front matter allows holds while it is used, and
//! only where the user trusts the file.
//!
//! A command is a file `NAME.md` in a directory of its own kind, as other
//! harnesses have them: a skill for people alone. In a directory below that it
//! is `DIRECTORY:NAME`.
//!
//! Where a flow stands beside `SKILL.md`, it is what somebody means who types the
//! name of the skill; a model that opens the skill reads its instructions.
//!
//! With `metadata: {tine-context: change}` a skill is given a change to look
//! at, as the bundled `review` is: see [`Skill::expand`].

mod bundled;
mod change;
mod check;
mod expand;
mod head;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::front_matter::{self, FrontMatterError, Problem, Source};
use crate::guard::Sourced;

pub use bundled::Files;
pub use change::{Options, STAT_FILES_CAP, options};
pub use check::{Known, check};
pub use expand::{Given, SkillError};
pub use head::{FILE, powers};

/// The agent that does what a skill says where the skill names none.
pub const AGENT: &str = "general-purpose";

/// One skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// The name it is called by.
    pub name: String,
    /// When to use it, in one line.
    pub description: String,
    /// What arguments it takes, for people; may be empty.
    pub argument_hint: String,
    /// The names of its arguments, in order.
    pub arguments: Vec<String>,
    /// Whether only people may use it, not a model.
    pub disable_model_invocation: bool,
    /// Whether people may use it; if not, only a model may.
    pub user_invocable: bool,
    /// What it would like to use unasked, as it is written.
    pub allowed_tools: Vec<String>,
    /// What of it holds while it is used.
    pub followed: Arc<Followed>,
    /// Who does what it says.
    pub context: Context,
    /// The instructions.
    pub body: String,
    /// Where it comes from.
    pub source: Source,
    /// The files beside it, if it comes with the program.
    pub files: Files,
    /// Whether it is given a change to look at.
    pub change: bool,
    /// What else has its name and so is not used.
    pub hides: Vec<Source>,
}

/// What holds while a skill is used, besides its instructions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Followed {
    /// The skill.
    pub skill: String,
    /// What runs unasked; nothing if the user does not trust the file.
    pub leave: Arc<[Sourced]>,
    /// The model that follows it; `None` means the one that is there.
    pub model: Option<Arc<str>>,
}

/// Who does what a skill says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Context {
    /// Whoever uses it.
    Inline,
    /// An agent of its own.
    Fork {
        /// The definition that it follows.
        agent: String,
        /// Whether whoever uses it goes on meanwhile.
        is_background: bool,
    },
}

/// Where skills and commands are looked for, the first to win first.
#[derive(Debug, Clone, Copy, Default)]
pub struct Places<'a> {
    /// The directories of skills.
    pub skills: &'a [PathBuf],
    /// The directories of commands.
    pub commands: &'a [PathBuf],
    /// What `~` means in a rule.
    pub home: Option<&'a Path>,
    /// The root of the repository, which no link in it may lead out of.
    pub bounds: Option<&'a Path>,
}

/// The skills of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skills {
    skills: Vec<Skill>,
}

impl Skills {
    /// The skills of a run, in the order in which they are found.
    #[must_use]
    pub fn of(skills: Vec<Skill>) -> Self {
        Self { skills }
    }

    /// Loads `NAME/SKILL.md` from in and below each of the directories, then
    /// `NAME.md` from each of those with commands, then the bundled skills.
    ///
    /// The first of a name counts. A file that is hidden by another one or
    /// that cannot be used is a problem and no more; one that is found by two
    /// paths is one. A directory that does not exist has no skills.
    /// `is_trusted` tells of a file and its text whether what it allows counts.
    #[must_use]
    pub fn load(
        places: &Places<'_>,
        is_trusted: impl Fn(&Path, &str) -> bool,
    ) -> (Self, Vec<Problem>) {
        let mut loading = Loading { bounds: places.bounds, ..Loading::default() };
        let (skills, commands) = (loading.bounded(places.skills), loading.bounded(places.commands));
        for directory in skills {
            for entry in front_matter::holders(directory, head::FILE, &mut loading.problems) {
                let path = entry.join(head::FILE);
                loading.take(&path, |text| {
                    head::skill(text, &path, places.home, is_trusted(&path, text))
                });
            }
        }
        for directory in commands {
            for (above, path) in front_matter::documents(directory, &mut loading.problems) {
                loading.take(&path, |text| {
                    head::command(text, (&above, &path), places.home, is_trusted(&path, text))
                });
            }
        }
        for own in bundled::BUNDLED.map(head::bundled) {
            match loading.skills.iter_mut().find(|skill| is_name(&skill.name, &own.name)) {
                None => loading.skills.push(own),
                Some(first) => {
                    loading.problems.extend(takes_its_place(first));
                    first.hides.push(own.source);
                }
            }
        }
        (Self { skills: loading.skills }, loading.problems)
    }

    /// Returns the skill of this name, whatever its case. Of a command in a
    /// directory its own name will do, if nothing else is called so.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Skill> {
        let is_last = |skill: &&Skill| {
            skill.name.rsplit_once(':').is_some_and(|(_, last)| is_name(last, name))
        };
        self.iter()
            .find(|skill| is_name(&skill.name, name))
            .or_else(|| self.iter().find(is_last).filter(|_| !name.is_empty()))
    }

    /// Returns the skills that a model may open, in the order they were found.
    pub fn for_models(&self) -> impl Iterator<Item = &Skill> {
        self.iter().filter(|skill| !skill.disable_model_invocation)
    }

    /// Returns all skills in the order they were found.
    pub fn iter(&self) -> impl Iterator<Item = &Skill> {
        self.skills.iter()
    }
}

/// The bundled skill whose flow reviews a change.
pub const REVIEW: &str = "review";

/// What was found so far.
#[derive(Default)]
struct Loading<'a> {
    bounds: Option<&'a Path>,
    skills: Vec<Skill>,
    problems: Vec<Problem>,
    /// The files that were taken, every link followed.
    files: Vec<PathBuf>,
}

impl Loading<'_> {
    /// Returns the directories that do not lead out of the repository.
    fn bounded<'b>(&mut self, directories: &'b [PathBuf]) -> Vec<&'b PathBuf> {
        let leads_out = |directory: &&PathBuf| front_matter::leads_out(directory, self.bounds);
        let (out, kept): (Vec<_>, Vec<_>) = directories.iter().partition(leads_out);
        self.problems.extend(out.into_iter().map(|directory| Problem::of_link_outside(directory)));
        kept
    }

    fn take(&mut self, path: &Path, parse: impl FnOnce(&str) -> Result<Skill, FrontMatterError>) {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        // People link the directories of one program to those of another.
        if self.files.contains(&real) {
            return;
        }
        if front_matter::leads_out(path, self.bounds) {
            self.problems.push(Problem::of_link_outside(path));
            return;
        }
        self.files.push(real);
        match front_matter::read(path).and_then(|text| parse(&text)) {
            Err(error) => self.problems.push(error.into()),
            Ok(new) => match self.skills.iter_mut().find(|old| is_name(&old.name, &new.name)) {
                None => self.skills.push(new),
                Some(old) => {
                    self.problems.push(collision(path, old));
                    old.hides.push(new.source);
                }
            },
        }
    }
}

fn collision(path: &Path, first: &Skill) -> Problem {
    let message = format!("the skill `{}` is in {} already", first.name, first.source);
    Problem::new(path, message)
}

/// Says that a file hides the bundled skill of its name: whoever types that
/// name should know that a project decides what it does.
fn takes_its_place(first: &Skill) -> Option<Problem> {
    let Source::File(path) = &first.source else { return None };
    let message = format!("the skill `{}` takes the place of the bundled one", first.name);
    Some(Problem::new(path, message))
}

fn is_name(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

#[cfg(test)]
mod tests;
