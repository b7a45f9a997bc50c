//! Agent definitions: the types of agent that a call can name.
//!
//! Three are built in; files with front matter add to them or take their
//! place. A definition says what an agent is told and which tools it may ask
//! for. It never widens what a run allows: its mode and what it denies only
//! narrow that, and the mode counts only in a file that the user trusts, as it
//! may come from a stranger. Hooks and the like are left out.

mod check;
mod given;
mod preloaded;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::front_matter::{self, FrontMatterError, Names, Problem, Source};
use crate::guard::{Mode, Rule, Sourced};
use crate::tool_name::{self, OtherNames};

pub use check::check;
pub use given::given;
pub use preloaded::PRELOADED_CAP;

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
    /// Calls of tools it gets that it may not make.
    pub denied: Vec<Sourced>,
    /// The mode it works in, where that is narrower than its parent's.
    pub permission_mode: Option<Mode>,
    /// The model it uses; `None` means its parent's.
    pub model: Option<String>,
    /// Most turns it takes; `None` means the run's own limit.
    pub max_turns: Option<u32>,
    /// What its agents work in; `None` means where their parent works.
    pub isolation: Option<Isolation>,
    /// The skills that it has read before it begins.
    pub skills: Vec<String>,
    /// Whether whoever starts it goes on meanwhile.
    pub is_background: bool,
    /// The colour it is shown in.
    pub color: Option<Color>,
    /// Where it comes from.
    pub source: Source,
}

impl AgentDefinition {
    /// Tells whether such an agent gets a tool that its parent has.
    #[must_use]
    pub fn has(&self, name: &str, others: &OtherNames) -> bool {
        self.tools.as_deref().is_none_or(|tools| others.lists(tools, name))
            && !others.is_kept_from(&self.disallowed_tools, name)
    }
}

/// What keeps an agent's changes from others while it works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// A linked git worktree of its own.
    Worktree,
}

impl Isolation {
    /// Reads what a task or a definition calls it.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        name.eq_ignore_ascii_case("worktree").then_some(Self::Worktree)
    }
}

/// A colour of an agent. It is told to whoever lists agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Color {
    /// `blue`
    Blue,
    /// `cyan`
    Cyan,
    /// `green`
    Green,
    /// `orange`
    Orange,
    /// `pink`
    Pink,
    /// `purple`
    Purple,
    /// `red`
    Red,
    /// `yellow`
    Yellow,
}

impl Color {
    /// Every colour.
    pub const ALL: [Self; 8] = [
        Self::Blue,
        Self::Cyan,
        Self::Green,
        Self::Orange,
        Self::Pink,
        Self::Purple,
        Self::Red,
        Self::Yellow,
    ];

    /// Returns what definitions call it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Blue => "blue",
            Self::Cyan => "cyan",
            Self::Green => "green",
            Self::Orange => "orange",
            Self::Pink => "pink",
            Self::Purple => "purple",
            Self::Red => "red",
            Self::Yellow => "yellow",
        }
    }

    /// Reads what a definition calls it.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|color| color.as_str().eq_ignore_ascii_case(name))
    }
}

/// The definitions of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Definitions {
    definitions: Vec<Arc<AgentDefinition>>,
}

impl Definitions {
    /// Loads the built-in definitions and those of the `*.md` files in and below
    /// the given directories.
    ///
    /// A file takes the place of a built-in of its name, which is a problem to
    /// tell of too; where the built-in only reads, so does the file. Of two files with one
    /// name, that of the earlier directory counts and the other is a problem,
    /// as is a file that cannot be used. A directory that does not exist is
    /// none. `is_trusted` tells of a file and its text whether every word of it
    /// counts. No link in `bounds`, the root of a repository, may lead out of it.
    #[must_use]
    pub fn load(
        directories: &[PathBuf],
        bounds: Option<&Path>,
        is_trusted: impl Fn(&Path, &str) -> bool,
    ) -> (Self, Vec<Problem>) {
        let mut problems = Vec::new();
        let mut from_files: Vec<AgentDefinition> = Vec::new();
        for directory in directories {
            if front_matter::leads_out(directory, bounds) {
                problems.push(Problem::of_link_outside(directory));
                continue;
            }
            let mut files = front_matter::documents(directory, &mut problems);
            // Of two with one name the file that is easier to find counts.
            files.sort_by_key(|(above, _)| above.len());
            for (above, path) in files {
                if front_matter::leads_out(&path, bounds) {
                    problems.push(Problem::of_link_outside(&path));
                    continue;
                }
                match read(&path, !above.is_empty(), &is_trusted) {
                    Err(error) => problems.push(error.into()),
                    Ok(None) => {}
                    Ok(Some(new)) => {
                        match from_files.iter().find(|old| is_name(&old.name, &new.name)) {
                            None => from_files.push(new),
                            Some(old) => problems.push(collision(&path, old)),
                        }
                    }
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

    /// Returns these definitions and others, which take the place of those of
    /// their names.
    #[must_use]
    pub fn with(self, others: Vec<AgentDefinition>) -> Self {
        let is_kept = |old: &Arc<AgentDefinition>| {
            let takes_place = |new: &AgentDefinition| is_name(&new.name, &old.name);
            old.source != Source::BuiltIn && !others.iter().any(takes_place)
        };
        let kept = self.definitions.into_iter().filter(is_kept).map(Arc::unwrap_or_clone);
        Self::in_order(kept.chain(others.iter().cloned()).collect())
    }

    /// Returns the definition that a call means by `name`, whatever its case.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<AgentDefinition>> {
        self.definitions.iter().find(|definition| is_name(&definition.name, name))
    }

    /// Returns the built-in definition of a name, whatever its case and whatever has
    /// taken its place.
    #[must_use]
    pub fn built_in(name: &str) -> Option<&'static Arc<AgentDefinition>> {
        static ALL: LazyLock<[Arc<AgentDefinition>; 3]> =
            LazyLock::new(|| built_in().map(Arc::new));
        ALL.iter().find(|definition| is_name(&definition.name, name))
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
        Source::BuiltIn | Source::Given => PathBuf::new(),
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
    #[serde(rename = "permissionMode", alias = "permission-mode")]
    permission_mode: Option<String>,
    hooks: Option<IgnoredAny>,
    #[serde(rename = "maxTurns", alias = "max-turns")]
    max_turns: Option<NonZeroU32>,
    isolation: Option<String>,
    skills: Option<Names>,
    background: Option<bool>,
    color: Option<String>,
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
        let definition =
            parse(text, Path::new(file), true).expect("a test parses every built-in file");
        AgentDefinition { source: Source::BuiltIn, ..definition }
    })
}

/// Tells what a definition says besides what an agent is told and asks for:
/// what counts only if the user trusts it. One that cannot be used says nothing.
#[must_use]
pub fn powers(text: &str, path: &Path) -> Vec<String> {
    let Ok((head, _)) = front_matter::parse::<Head>(text, path) else { return Vec::new() };
    let mode = head.permission_mode.map(|mode| format!("permissionMode: {mode}"));
    let hooks = head.hooks.map(|_| "hooks (tine runs none)".to_owned());
    mode.into_iter().chain(hooks).collect()
}

/// Reads a file of a definition. Further down, where notes are kept as well, a
/// file without front matter is none.
fn read(
    path: &Path,
    is_below: bool,
    is_trusted: impl Fn(&Path, &str) -> bool,
) -> Result<Option<AgentDefinition>, FrontMatterError> {
    let text = front_matter::read(path)?;
    if is_below && !front_matter::has_head(&text) {
        return Ok(None);
    }
    parse(&text, path, is_trusted(path, &text)).map(Some)
}

fn parse(text: &str, path: &Path, is_trusted: bool) -> Result<AgentDefinition, FrontMatterError> {
    let (head, body) = front_matter::parse::<Head>(text, path)?;
    define(head, body, path, is_trusted)
}

/// Makes a definition of what is said of it.
fn define(
    head: Head,
    body: &str,
    path: &Path,
    is_trusted: bool,
) -> Result<AgentDefinition, FrontMatterError> {
    let malformed =
        |message: String| FrontMatterError::Malformed { path: path.to_owned(), line: 1, message };
    for key in head.unknown.keys() {
        tracing::debug!(path = %path.display(), key, "left out a key of an agent definition");
    }
    let name = head.name.ok_or_else(|| malformed("an agent needs a `name:`".to_owned()))?;
    front_matter::check_name(&name).map_err(malformed)?;
    let description = front_matter::one_line(&head.description.unwrap_or_default());
    if description.is_empty() {
        return Err(malformed(format!("the agent `{name}` needs a `description:`")));
    }
    let permission_mode = match head.permission_mode.filter(|_| is_trusted) {
        None => None,
        Some(mode) => Some(Mode::from_name(&mode).ok_or_else(|| {
            let known = Mode::ALL.map(Mode::as_str).join(", ");
            malformed(format!("`permissionMode: {mode}` is none of {known}"))
        })?),
    };
    let (denied, disallowed) = denied(head.disallowed_tools);
    let isolation = head.isolation.as_deref().map(|isolation| {
        let message =
            format!("`isolation: {isolation}` is not known; it is `worktree` or left out");
        Isolation::from_name(isolation).ok_or_else(|| malformed(message))
    });
    Ok(AgentDefinition {
        name,
        description,
        prompt: body.trim().to_owned(),
        tools: head.tools.map(tool_names).filter(|names| !names.iter().any(|name| name == "*")),
        disallowed_tools: tool_names(disallowed),
        denied,
        permission_mode,
        model: head.model.filter(|model| !model.eq_ignore_ascii_case("inherit")),
        max_turns: head.max_turns.map(NonZeroU32::get),
        isolation: isolation.transpose()?,
        skills: head.skills.unwrap_or_default().0,
        is_background: head.background.unwrap_or(false),
        // Nothing depends on it, so one that is not known is no reason to go
        // without the agent.
        color: head.color.as_deref().and_then(Color::from_name),
        source: Source::File(path.to_owned()),
    })
}

/// Takes entries apart: those with a specifier, which deny some calls, and
/// those that take a whole tool away. An entry that is no rule does that, too.
fn denied(entries: Option<Names>) -> (Vec<Sourced>, Names) {
    let mut rules = Vec::new();
    let mut tools = Vec::new();
    for entry in entries.map(|names| names.0).unwrap_or_default() {
        match entry.parse::<Rule>().ok().filter(|_| entry.contains('(')) {
            Some(rule) => rules.push(Sourced { rule, source: crate::guard::Source::Agent }),
            None => tools.push(entry),
        }
    }
    (rules, Names(tools))
}

/// The tools that entries like `Bash(git *)` or `Task` mean. In a list of what
/// an agent gets, a specifier narrows nothing: permission rules do that.
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
        let (definitions, problems) =
            Definitions::load(&[PathBuf::from("/nowhere/at/all")], None, |_, _| true);
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
                    disallowedTools: [Write]\nmodel: small\nmaxTurns: 7\nisolation: worktree\npermissionMode: bypassPermissions\n\
                    hooks:\n  PreToolUse: [{command: rm}]\ncolor: red\nskills: [style, tests]\n\
                    background: true\neffort: high\n---\n\nRun them.\n";
        let files = Files::new(&[("tester.md", text), ("notes.txt", "not one")]);
        let (definitions, problems) = Definitions::load(&[files.path("")], None, |_, _| false);
        assert_eq!(problems, []);
        assert_eq!(
            **definitions.find("Tester").unwrap(),
            AgentDefinition {
                name: "tester".to_owned(),
                description: "Runs tests.".to_owned(),
                prompt: "Run them.".to_owned(),
                tools: Some(names(&["Read", "Agent", "Bash"])),
                disallowed_tools: names(&["Write"]),
                denied: Vec::new(),
                permission_mode: None,
                model: Some("small".to_owned()),
                max_turns: Some(7),
                isolation: Some(Isolation::Worktree),
                skills: names(&["style", "tests"]),
                is_background: true,
                color: Some(Color::Red),
                source: Source::File(files.path("tester.md")),
            }
        );
    }

    #[test]
    fn inherit_and_a_star_mean_the_parents() {
        let text = "---\nname: a\ndescription: d\ntools: \"*\"\nmodel: inherit\n---\n";
        let definition = parse(text, Path::new("a.md"), false).unwrap();
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
        let (definitions, problems) =
            Definitions::load(&[files.path("one"), files.path("two")], None, |_, _| false);
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
        let (definitions, problems) = Definitions::load(&[files.path("")], None, |_, _| false);
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
            ("e.md", "---\nname: e\ndescription: d\nisolation: moat\n---\n"),
        ]);
        let (definitions, problems) = Definitions::load(&[files.path("")], None, |_, _| false);
        assert_eq!(definitions.names()[3..], ["d"]);
        let paths: Vec<_> = problems.iter().map(|problem| problem.path.clone()).collect();
        assert_eq!(paths, ["a.md", "b.md", "c.md", "e.md"].map(|name| files.path(name)));
        assert_eq!(problems[0].message, "line 1: an agent needs a `name:`");
        assert_eq!(problems[1].message, "line 1: the agent `b` needs a `description:`");
        assert!(problems[2].message.contains("line "), "{}", problems[2].message);
        let message = "line 1: `isolation: moat` is not known; it is `worktree` or left out";
        assert_eq!(problems[3].message, message);
    }

    #[test]
    fn a_mode_counts_only_in_a_trusted_file_and_what_is_denied_in_any() {
        let text = "---\nname: a\ndescription: d\npermissionMode: plan\n\
                    disallowedTools: Write, Bash(git push *), Bash(\n---\n";
        let of = |is_trusted| parse(text, Path::new("a.md"), is_trusted).unwrap();
        assert_eq!((of(true).permission_mode, of(false).permission_mode), (Some(Mode::Plan), None));
        let rule = "Bash(git push *)".parse().unwrap();
        let source = crate::guard::Source::Agent;
        assert_eq!(of(false).denied, [Sourced { rule, source }]);
        assert_eq!(of(false).disallowed_tools, names(&["Write", "Bash"]));
        let unknown = text.replace("plan", "everything");
        assert!(parse(&unknown, Path::new("a.md"), false).is_ok());
        let error = parse(&unknown, Path::new("a.md"), true).unwrap_err().to_string();
        assert!(error.contains("`permissionMode: everything` is none of plan, "), "{error}");
    }

    #[test]
    fn what_a_definition_says_besides_its_text_is_told() {
        let text = "---\nname: a\npermissionMode: yolo\nhooks:\n  Stop: []\n---\n";
        let told = powers(text, Path::new("a.md"));
        assert_eq!(told, ["permissionMode: yolo", "hooks (tine runs none)"]);
        assert!(powers("---\nname: a\n---\n", Path::new("a.md")).is_empty());
        assert!(powers("no head", Path::new("a.md")).is_empty());
    }

    #[test]
    fn no_link_of_a_repository_leads_out_of_it() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        let agents = root.join("repo/.claude/agents");
        std::fs::create_dir_all(agents.join("deep")).unwrap();
        std::fs::create_dir_all(root.join("outside")).unwrap();
        for name in ["a.md", "outside/b.md", "repo/c.md"] {
            let text = format!("---\nname: {}\ndescription: d\n---\n", name.replace('/', "-"));
            std::fs::write(root.join(name), text).unwrap();
        }
        let link = |target: &str, name: &Path| std::os::unix::fs::symlink(target, name).unwrap();
        link("../../../a.md", &agents.join("a.md"));
        link("../../../../outside/b.md", &agents.join("deep/b.md"));
        link("../../c.md", &agents.join("c.md"));
        std::fs::create_dir_all(root.join("repo/.tine")).unwrap();
        link("../../outside", &root.join("repo/.tine/agents"));
        let directories = [root.join("repo/.tine/agents"), agents];
        let names = |bounds| {
            let (definitions, problems) = Definitions::load(&directories, bounds, |_, _| false);
            let names = definitions.names().into_iter().skip(built_in().len());
            (names.collect::<Vec<_>>(), problems.len())
        };
        let repository = root.join("repo");
        assert_eq!(names(Some(&*repository)), (vec!["repo-c.md".to_owned()], 3));
        assert_eq!(names(None).0.len(), 3, "the attack is alive");
    }
}
