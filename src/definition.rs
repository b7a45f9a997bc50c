//! Agent definitions: the types of agent that a call can name.
//!
//! Three are built in; files with front matter add to them or take their
//! place. A definition says what an agent is told and which tools it may ask
//! for. It never widens what a run allows: `permissionMode`, hooks and the
//! like are left out, because such a file may come from a stranger.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::front_matter::{self, FrontMatterError, Names, Problem, Source};
use crate::tool_name;

/// One type of agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentDefinition {
    /// The name a call uses, in any case.
    pub name: String,
    /// When to use it; one line for the model that calls it.
    pub description: String,
    /// What the agent is told; empty means nothing of its own.
    pub prompt: String,
    /// The only tools it gets; `None` means all of its parent's.
    pub tools: Option<Vec<String>>,
    /// Tools it does not get.
    pub disallowed_tools: Vec<String>,
    /// The model it uses; `None` means its parent's.
    pub model: Option<String>,
    /// Most turns it takes; `None` means the run's own limit.
    pub max_turns: Option<u32>,
    /// Where it comes from.
    pub source: Source,
}

/// The definitions of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Definitions {
    definitions: Vec<Arc<AgentDefinition>>,
}

impl Definitions {
    /// Loads the built-in definitions and those of the `*.md` files in the
    /// given directories.
    ///
    /// A file takes the place of a built-in of its name, which is a problem to
    /// tell of too; where the built-in only reads, so does the file. Of two files with one
    /// name, that of the earlier directory counts and the other is a problem,
    /// as is a file that cannot be used. A directory that does not exist is
    /// none.
    #[must_use]
    pub fn load(directories: &[PathBuf]) -> (Self, Vec<Problem>) {
        let mut problems = Vec::new();
        let mut from_files: Vec<AgentDefinition> = Vec::new();
        for directory in directories {
            for path in front_matter::entries(directory, &mut problems) {
                if path.extension().is_none_or(|extension| extension != "md") {
                    continue;
                }
                match read(&path) {
                    Err(error) => problems.push(error.into()),
                    Ok(new) => match from_files.iter().find(|old| is_name(&old.name, &new.name)) {
                        None => from_files.push(new),
                        Some(old) => problems.push(collision(&path, old)),
                    },
                }
            }
        }
        for file in &mut from_files {
            if let Some(built_in) = built_in().iter().find(|other| is_name(&other.name, &file.name))
            {
                problems.push(take_place(file, built_in));
            }
        }
        (Self::in_order(from_files), problems)
    }

    /// Returns the definition that a call means by `name`, whatever its case.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<AgentDefinition>> {
        self.definitions.iter().find(|definition| is_name(&definition.name, name))
    }

    /// Returns all definitions: the built-in names first, then by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<AgentDefinition>> {
        self.definitions.iter()
    }

    /// Returns all names, in the order of [`Definitions::iter`].
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.iter().map(|definition| definition.name.clone()).collect()
    }

    /// The built-ins, each replaced by the file of its name, then the others.
    fn in_order(mut from_files: Vec<AgentDefinition>) -> Self {
        from_files.sort_by_key(|definition| definition.name.to_lowercase());
        let mut definitions = Vec::new();
        for built_in in built_in() {
            let place = from_files.iter().position(|file| is_name(&file.name, &built_in.name));
            definitions.push(place.map_or(built_in, |place| from_files.remove(place)));
        }
        definitions.extend(from_files);
        Self { definitions: definitions.into_iter().map(Arc::new).collect() }
    }
}

/// Narrows a file to the tools of the built-in whose place it takes: others
/// start a reviewer because it changes nothing.
fn take_place(file: &mut AgentDefinition, built_in: &AgentDefinition) -> Problem {
    let mut message = format!("takes the place of the built-in agent `{}`", built_in.name);
    if let Some(allowed) = &built_in.tools {
        let named = file.tools.take().unwrap_or_else(|| allowed.clone());
        let (kept, lost): (Vec<_>, Vec<_>) =
            named.into_iter().partition(|tool| allowed.contains(tool));
        if !lost.is_empty() {
            message += &format!(", which only reads: it does not get {}", lost.join(", "));
        }
        file.tools = Some(kept);
    }
    let path = match &file.source {
        Source::File(path) => path.clone(),
        Source::BuiltIn => PathBuf::new(),
    };
    Problem::new(path, message)
}

/// The front matter of a definition. What is not named here is left out.
#[derive(Debug, Default, Deserialize)]
struct Head {
    name: Option<String>,
    description: Option<String>,
    tools: Option<Names>,
    #[serde(rename = "disallowedTools", alias = "disallowed-tools")]
    disallowed_tools: Option<Names>,
    model: Option<String>,
    #[serde(rename = "maxTurns", alias = "max-turns")]
    max_turns: Option<NonZeroU32>,
    #[serde(flatten)]
    unknown: BTreeMap<String, IgnoredAny>,
}

fn built_in() -> [AgentDefinition; 3] {
    [
        ("general-purpose.md", include_str!("../prompts/agents/general-purpose.md")),
        ("explore.md", include_str!("../prompts/agents/explore.md")),
        ("reviewer.md", include_str!("../prompts/agents/reviewer.md")),
    ]
    .map(|(file, text)| {
        let definition = parse(text, Path::new(file)).expect("a test parses every built-in file");
        AgentDefinition { source: Source::BuiltIn, ..definition }
    })
}

fn read(path: &Path) -> Result<AgentDefinition, FrontMatterError> {
    parse(&front_matter::read(path)?, path)
}

fn parse(text: &str, path: &Path) -> Result<AgentDefinition, FrontMatterError> {
    let malformed =
        |message: String| FrontMatterError::Malformed { path: path.to_owned(), line: 1, message };
    let (head, body) = front_matter::parse::<Head>(text, path)?;
    for key in head.unknown.keys() {
        tracing::debug!(path = %path.display(), key, "left out a key of an agent definition");
    }
    let name = head.name.ok_or_else(|| malformed("an agent needs a `name:`".to_owned()))?;
    front_matter::check_name(&name).map_err(malformed)?;
    let description = front_matter::one_line(&head.description.unwrap_or_default());
    if description.is_empty() {
        return Err(malformed(format!("the agent `{name}` needs a `description:`")));
    }
    Ok(AgentDefinition {
        name,
        description,
        prompt: body.trim().to_owned(),
        tools: head.tools.map(tool_names).filter(|names| !names.iter().any(|name| name == "*")),
        disallowed_tools: head.disallowed_tools.map(tool_names).unwrap_or_default(),
        model: head.model.filter(|model| !model.eq_ignore_ascii_case("inherit")),
        max_turns: head.max_turns.map(NonZeroU32::get),
        source: Source::File(path.to_owned()),
    })
}

/// The tools that entries like `Bash(git *)` or `Task` mean. A specifier does
/// not narrow a definition's list: permission rules do that.
fn tool_names(entries: Names) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for entry in entries.0 {
        let name = tool_name::canonical(entry.split('(').next().unwrap_or_default());
        if !name.is_empty() && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

fn collision(path: &Path, first: &AgentDefinition) -> Problem {
    let message = format!("the agent `{}` is defined in {} already", first.name, first.source);
    Problem::new(path, message)
}

fn is_name(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Files(tempfile::TempDir);

    impl Files {
        fn new(files: &[(&str, &str)]) -> Self {
            let directory = tempfile::tempdir().unwrap();
            for (name, text) in files {
                let path = directory.path().join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            Self(directory)
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }
    }

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn the_built_in_definitions_are_always_there_and_only_read_where_they_say_so() {
        let (definitions, problems) = Definitions::load(&[PathBuf::from("/nowhere/at/all")]);
        assert_eq!(problems, []);
        assert_eq!(definitions.names(), ["general-purpose", "explore", "reviewer"]);
        let tools = |name| definitions.find(name).unwrap().tools.clone();
        assert_eq!(tools("General-Purpose"), None);
        assert_eq!(tools("EXPLORE"), Some(names(&["Read", "Glob", "Grep", "TodoWrite"])));
        assert_eq!(tools("reviewer"), Some(names(&["Read", "Glob", "Grep"])));
        assert!(definitions.iter().all(|definition| definition.source == Source::BuiltIn));
        assert!(definitions.iter().all(|definition| !definition.prompt.is_empty()));
        assert_eq!(definitions.find("none"), None);
    }

    #[test]
    fn every_key_of_a_file_is_read_and_what_it_may_not_decide_is_left_out() {
        let text = "---\nname: tester\ndescription: >\n  Runs\n  tests.\ntools: Read, Task, Bash(npm test *), Bash(x)\n\
                    disallowedTools: [Write]\nmodel: small\nmaxTurns: 7\npermissionMode: bypassPermissions\n\
                    hooks:\n  PreToolUse: [{command: rm}]\ncolor: red\n---\n\nRun them.\n";
        let files = Files::new(&[("tester.md", text), ("notes.txt", "not one")]);
        let (definitions, problems) = Definitions::load(&[files.path("")]);
        assert_eq!(problems, []);
        assert_eq!(
            **definitions.find("Tester").unwrap(),
            AgentDefinition {
                name: "tester".to_owned(),
                description: "Runs tests.".to_owned(),
                prompt: "Run them.".to_owned(),
                tools: Some(names(&["Read", "Agent", "Bash"])),
                disallowed_tools: names(&["Write"]),
                model: Some("small".to_owned()),
                max_turns: Some(7),
                source: Source::File(files.path("tester.md")),
            }
        );
    }

    #[test]
    fn inherit_and_a_star_mean_the_parents() {
        let text = "---\nname: a\ndescription: d\ntools: \"*\"\nmodel: inherit\n---\n";
        let definition = parse(text, Path::new("a.md")).unwrap();
        assert_eq!((definition.tools, definition.model), (None, None));
    }

    #[test]
    fn a_file_takes_the_place_of_a_built_in_and_the_first_directory_wins() {
        let agent = |name: &str, body| format!("---\nname: {name}\ndescription: d\n---\n{body}");
        let files = Files::new(&[
            ("one/r.md", &agent("Reviewer", "mine")),
            ("one/b.md", &agent("b", "first")),
            ("two/b.md", &agent("B", "second")),
            ("two/a.md", &agent("a", "")),
        ]);
        let (definitions, problems) = Definitions::load(&[files.path("one"), files.path("two")]);
        assert_eq!(definitions.names(), ["general-purpose", "explore", "Reviewer", "a", "b"]);
        assert_eq!(definitions.find("reviewer").unwrap().prompt, "mine");
        assert_eq!(definitions.find("b").unwrap().prompt, "first");
        let first = files.path("one/b.md");
        let message = format!("the agent `b` is defined in {} already", first.display());
        assert_eq!(
            problems,
            [
                Problem::new(files.path("two/b.md"), message),
                Problem::new(
                    files.path("one/r.md"),
                    "takes the place of the built-in agent `reviewer`"
                ),
            ]
        );
    }

    #[test]
    fn what_takes_the_place_of_a_reader_only_reads() {
        let agent = |name: &str, tools| format!("---\nname: {name}\ndescription: d\n{tools}---\n");
        let files = Files::new(&[
            ("a.md", &agent("Explore", "")),
            ("b.md", &agent("REVIEWER", "tools: Grep, Bash, Write\n")),
            ("c.md", &agent("general-purpose", "")),
        ]);
        let (definitions, problems) = Definitions::load(&[files.path("")]);
        let tools = |name| definitions.find(name).unwrap().tools.clone();
        assert_eq!(tools("explore"), Some(names(&["Read", "Glob", "Grep", "TodoWrite"])));
        assert_eq!(tools("reviewer"), Some(names(&["Grep"])));
        assert_eq!(tools("general-purpose"), None);
        let messages: Vec<_> = problems.iter().map(|problem| &*problem.message).collect();
        assert_eq!(
            messages,
            [
                "takes the place of the built-in agent `explore`",
                "takes the place of the built-in agent `reviewer`, which only reads: it does not \
                 get Bash, Write",
                "takes the place of the built-in agent `general-purpose`",
            ]
        );
    }

    #[test]
    fn a_broken_file_is_a_problem_and_the_others_load() {
        let files = Files::new(&[
            ("a.md", "---\ndescription: d\n---\n"),
            ("b.md", "---\nname: b\n---\n"),
            ("c.md", "---\nname: c\ndescription: d\nmaxTurns: 0\n---\n"),
            ("d.md", "---\nname: d\ndescription: d\n---\n"),
        ]);
        let (definitions, problems) = Definitions::load(&[files.path("")]);
        assert_eq!(definitions.names()[3..], ["d"]);
        let paths: Vec<_> = problems.iter().map(|problem| problem.path.clone()).collect();
        assert_eq!(paths, [files.path("a.md"), files.path("b.md"), files.path("c.md")]);
        assert_eq!(problems[0].message, "line 1: an agent needs a `name:`");
        assert_eq!(problems[1].message, "line 1: the agent `b` needs a `description:`");
        assert!(problems[2].message.contains("line "), "{}", problems[2].message);
    }
}
