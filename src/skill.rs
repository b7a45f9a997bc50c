//! Skills: instructions that are read when they are needed.
//!
//! A skill is `NAME/SKILL.md`: front matter and a body. Only its name and its
//! description stand in a system prompt; the body is a prompt of its own once
//! somebody uses it. A body is never run: it can only ask for what the guard
//! then decides on.
//!
//! A command is a file `NAME.md` in a directory of its own kind, as other
//! harnesses have them: a skill for people alone.
//!
//! With `metadata: {tine-context: change}` a skill is given a change to look
//! at, as the bundled `review` is: see [`Skill::expand`].

mod expand;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::front_matter::{self, FrontMatterError, Hint, Names, Problem, Source};

pub use expand::{STAT_FILES_CAP, SkillError};

/// One skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// The name it is called by.
    pub name: String,
    /// When to use it, in one line.
    pub description: String,
    /// What arguments it takes, for people; may be empty.
    pub argument_hint: String,
    /// Whether only people may use it, not a model.
    pub disable_model_invocation: bool,
    /// Whether people may use it; if not, only a model may.
    pub user_invocable: bool,
    /// Rules for tools it would like to use unasked. Wishes: the guard decides.
    pub allowed_tools: Vec<String>,
    /// The instructions.
    pub body: String,
    /// Where it comes from.
    pub source: Source,
    /// Whether it is given a change to look at.
    pub change: bool,
}

/// The skills of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skills {
    skills: Vec<Skill>,
}

impl Skills {
    /// Loads `NAME/SKILL.md` from each of the directories, then `NAME.md` from
    /// each of those with commands, then the bundled skills.
    ///
    /// The first of a name counts. A file that is hidden by another one or
    /// that cannot be used is a problem and no more. A directory that does not
    /// exist has no skills.
    #[must_use]
    pub fn load(directories: &[PathBuf], commands: &[PathBuf]) -> (Self, Vec<Problem>) {
        let mut problems = Vec::new();
        let mut skills: Vec<Skill> = Vec::new();
        let mut take =
            |path: &Path, parse: Parse, problems: &mut Vec<Problem>| match front_matter::read(path)
                .and_then(|text| parse(&text, path))
            {
                Err(error) => problems.push(error.into()),
                Ok(new) => match skills.iter().find(|old| is_name(&old.name, &new.name)) {
                    None => skills.push(new),
                    Some(old) => problems.push(collision(path, old)),
                },
            };
        for directory in directories {
            for entry in front_matter::entries(directory, &mut problems) {
                let path = entry.join("SKILL.md");
                if path.exists() {
                    take(&path, parse, &mut problems);
                }
            }
        }
        for directory in commands {
            for path in front_matter::entries(directory, &mut problems) {
                if path.extension().is_some_and(|extension| extension == "md") {
                    take(&path, parse_command, &mut problems);
                }
            }
        }
        for own in BUNDLED.map(bundled) {
            match skills.iter().find(|skill| is_name(&skill.name, &own.name)) {
                None => skills.push(own),
                Some(first) => problems.extend(takes_its_place(first)),
            }
        }
        (Self { skills }, problems)
    }

    /// Returns the skill of this name, whatever its case.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Skill> {
        self.iter().find(|skill| is_name(&skill.name, name))
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

/// How a file becomes a skill.
type Parse = fn(&str, &Path) -> Result<Skill, FrontMatterError>;

/// The front matter of a skill. What is not named here is left out.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Head {
    name: Option<String>,
    description: Option<String>,
    argument_hint: Option<Hint>,
    disable_model_invocation: Option<bool>,
    user_invocable: Option<bool>,
    allowed_tools: Option<Names>,
    metadata: Option<Metadata>,
    #[serde(flatten)]
    unknown: BTreeMap<String, IgnoredAny>,
}

/// Other programs keep keys of their own here.
#[derive(Debug, Default, Deserialize)]
struct Metadata {
    #[serde(rename = "tine-context")]
    context: Option<Context>,
}

/// What a skill is given besides its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Context {
    Change,
}

/// The skills that come with the program.
const BUNDLED: [&str; 2] =
    [include_str!("../skills/review/SKILL.md"), include_str!("../skills/init/SKILL.md")];

fn bundled(text: &str) -> Skill {
    let skill = parse(text, Path::new("SKILL.md")).expect("a test parses the bundled skills");
    Skill { source: Source::BuiltIn, ..skill }
}

fn parse(text: &str, path: &Path) -> Result<Skill, FrontMatterError> {
    let malformed =
        |message: String| FrontMatterError::Malformed { path: path.to_owned(), line: 1, message };
    let (head, body) = front_matter::parse::<Head>(text, path)?;
    for key in head.unknown.keys() {
        tracing::debug!(path = %path.display(), key, "left out a key of a skill");
    }
    let directory = path.parent().and_then(Path::file_name).unwrap_or_default();
    let name = head.name.unwrap_or_else(|| directory.to_string_lossy().into_owned());
    front_matter::check_name(&name).map_err(malformed)?;
    let description = front_matter::one_line(&head.description.unwrap_or_default());
    if description.is_empty() {
        return Err(malformed(format!("the skill `{name}` needs a `description:`")));
    }
    let context = head.metadata.and_then(|metadata| metadata.context);
    Ok(Skill {
        name,
        description,
        argument_hint: front_matter::one_line(
            &head.argument_hint.map_or_else(String::new, |h| h.0),
        ),
        disable_model_invocation: head.disable_model_invocation.unwrap_or(false),
        user_invocable: head.user_invocable.unwrap_or(true),
        allowed_tools: head.allowed_tools.unwrap_or_default().0,
        body: body.trim().to_owned(),
        source: Source::File(path.to_owned()),
        change: context == Some(Context::Change),
    })
}

/// Reads a command: its name is the file's, and what says nothing of itself is
/// described by its first line.
fn parse_command(text: &str, path: &Path) -> Result<Skill, FrontMatterError> {
    let malformed =
        |message: String| FrontMatterError::Malformed { path: path.to_owned(), line: 1, message };
    let (head, body) = front_matter::parse::<Head>(text, path)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    front_matter::check_name(&name).map_err(malformed)?;
    let body = body.trim().to_owned();
    if body.is_empty() {
        return Err(malformed(format!("the command `{name}` says nothing")));
    }
    let first = body.lines().next().unwrap_or_default().trim_start_matches('#');
    let description = head.description.as_deref().unwrap_or(first);
    Ok(Skill {
        name,
        description: front_matter::one_line(description),
        argument_hint: front_matter::one_line(
            &head.argument_hint.map_or_else(String::new, |hint| hint.0),
        ),
        disable_model_invocation: true,
        user_invocable: true,
        allowed_tools: head.allowed_tools.unwrap_or_default().0,
        body,
        source: Source::File(path.to_owned()),
        change: false,
    })
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
mod tests {
    use super::*;

    fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        directory
    }

    #[test]
    fn the_bundled_review_is_always_there() {
        let (skills, problems) = Skills::load(&[], &[]);
        assert_eq!(problems, []);
        let review = skills.find("Review").unwrap();
        assert!(review.change && review.user_invocable && !review.disable_model_invocation);
        let hint = "[--uncommitted | --base BRANCH | --commit SHA] [what to look for]";
        assert_eq!(review.argument_hint, hint);
        let sections: Vec<_> = review.body.lines().filter_map(|l| l.strip_prefix("### ")).collect();
        assert_eq!(sections, ["correctness", "security", "tests", "performance", "clarity"]);
    }

    #[test]
    fn the_bundled_init_is_for_people_alone() {
        let (skills, _) = Skills::load(&[], &[]);
        let init = skills.find("init").unwrap();
        assert!(init.user_invocable && init.disable_model_invocation && !init.change);
        assert_eq!(skills.for_models().map(|skill| &*skill.name).collect::<Vec<_>>(), ["review"]);
    }

    #[test]
    fn every_key_is_read() {
        let text = "---\nname: tidy\ndescription: Tidies.\nargument-hint: [file]\nuser-invocable: false\n\
                    disable-model-invocation: true\nallowed-tools: Read, Bash(git *)\nlicense: MIT\n\
                    metadata:\n  other: 1\n  tine-context: change\n---\nDo it.\n";
        let files = directory(&[("a/SKILL.md", text), ("b/README.md", ""), ("c.md", "")]);
        let (skills, problems) = Skills::load(&[files.path().to_owned()], &[]);
        assert_eq!(problems, []);
        assert_eq!(
            skills.iter().next(),
            Some(&Skill {
                name: "tidy".to_owned(),
                description: "Tidies.".to_owned(),
                argument_hint: "[file]".to_owned(),
                disable_model_invocation: true,
                user_invocable: false,
                allowed_tools: vec!["Read".to_owned(), "Bash(git *)".to_owned()],
                body: "Do it.".to_owned(),
                source: Source::File(files.path().join("a/SKILL.md")),
                change: true,
            })
        );
    }

    #[test]
    fn the_first_of_a_name_wins_and_a_file_hides_the_bundled_one() {
        let skill = |body| format!("---\ndescription: d\n---\n{body}");
        let files = directory(&[
            ("one/a/SKILL.md", &skill("first")),
            ("two/a/SKILL.md", &skill("second")),
            ("two/review/SKILL.md", &skill("mine")),
        ]);
        let path = |name: &str| files.path().join(name);
        let (skills, problems) = Skills::load(&[path("none"), path("one"), path("two")], &[]);
        let names: Vec<_> = skills.iter().map(|skill| (&*skill.name, &*skill.body)).collect();
        assert_eq!(names[..2], [("a", "first"), ("review", "mine")]);
        let message = format!("the skill `a` is in {} already", path("one/a/SKILL.md").display());
        let hidden = "the skill `review` takes the place of the bundled one".to_owned();
        let expected = [("two/a", message), ("two/review", hidden)];
        assert_eq!(
            problems,
            expected.map(|(name, message)| Problem::new(path(name).join("SKILL.md"), message))
        );
    }

    #[test]
    fn commands_are_for_people_and_give_way_to_skills() {
        let files = directory(&[
            ("skills/fix/SKILL.md", "---\ndescription: d\n---\nfrom the skill"),
            ("commands/fix.md", "from the command"),
            ("commands/deploy.md", "# Deploy to $ARGUMENTS\nNow."),
            ("commands/ask.md", "---\ndescription: Asks.\nargument-hint: [whom]\n---\nAsk."),
            ("commands/empty.md", "\n"),
            ("commands/notes.txt", "no command"),
        ]);
        let path = |name: &str| files.path().join(name);
        let (skills, problems) = Skills::load(&[path("skills")], &[path("commands")]);
        let found = |name| {
            let skill = skills.find(name).unwrap();
            (&*skill.description, &*skill.argument_hint, skill.disable_model_invocation)
        };
        assert_eq!(found("deploy"), ("Deploy to $ARGUMENTS", "", true));
        assert_eq!(found("ask"), ("Asks.", "[whom]", true));
        assert_eq!(skills.find("fix").unwrap().body, "from the skill");
        assert!(skills.find("notes").is_none());
        let problems: Vec<_> = problems.iter().map(|problem| &*problem.message).collect();
        assert_eq!(problems[0], "line 1: the command `empty` says nothing");
        assert!(problems[1].starts_with("the skill `fix` is in"), "{problems:?}");
        assert_eq!(problems.len(), 2);
    }

    #[test]
    fn a_broken_skill_is_a_problem_and_the_others_load() {
        let files = directory(&[
            ("a/SKILL.md", "no front matter"),
            ("b/SKILL.md", "---\ndescription: d\nmetadata: {tine-context: moon}\n---\n"),
            ("c/SKILL.md", "---\ndescription: d\n---\n"),
        ]);
        let (skills, problems) = Skills::load(&[files.path().to_owned()], &[]);
        assert_eq!(
            skills.iter().map(|skill| &*skill.name).collect::<Vec<_>>(),
            ["c", "review", "init"]
        );
        assert_eq!(problems[0].message, "line 1: the skill `a` needs a `description:`");
        assert!(problems[1].message.contains("moon"), "{}", problems[1].message);
        assert_eq!(problems.len(), 2);
    }
}
