//! YAML front matter: the head of a skill or of an agent definition.
//!
//! Whatever is parsed here may come from a repository nobody trusts, so every
//! size is bounded and an error names the file and the line. This file owns
//! how such a file is read and cut in two; what its keys mean is decided by
//! [`crate::skill`] and [`crate::definition`].

mod finding;
mod outside;
mod tolerant;

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer};
use thiserror::Error;

pub(crate) use finding::Findings;
pub use finding::{Finding, Severity};
pub use outside::leads_out;

/// Most bytes of YAML before a body. Real heads have a few hundred; more is a
/// mistake or an attack on the parser.
pub const FRONT_MATTER_CAP: usize = 16 * 1024;

/// Most bytes of a whole file. Its body becomes a prompt, and about 16,000
/// tokens are already too long for one.
pub const FILE_CAP: usize = 64 * 1024;

/// Most entries of one directory that are looked at: their names and
/// descriptions end up in every system prompt.
pub const ENTRIES_CAP: usize = 500;

/// Most characters of a description: all of them stand in the system prompt.
pub const DESCRIPTION_CAP: usize = 1_024;

/// Most characters of a name.
pub const NAME_CAP: usize = 64;

/// Where a skill or a definition comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// It is part of the program.
    BuiltIn,
    /// It was given with the run.
    Given,
    /// It was read from this file.
    File(PathBuf),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built in"),
            Self::Given => f.write_str("given with the run"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Something about a file that its owner should know. Never the end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file or directory.
    pub path: PathBuf,
    /// What is wrong and what was done about it.
    pub message: String,
}

impl Problem {
    /// A problem of `path`.
    pub fn new(path: impl Into<PathBuf>, message: impl fmt::Display) -> Self {
        Self { path: path.into(), message: message.to_string() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.message)
    }
}

impl From<FrontMatterError> for Problem {
    fn from(error: FrontMatterError) -> Self {
        match error {
            FrontMatterError::Unreadable { path, source } => {
                Self::new(path, format!("cannot be read: {source}"))
            }
            FrontMatterError::Malformed { path, line, message } => {
                Self::new(path, format!("line {line}: {message}"))
            }
        }
    }
}

/// Why a file with front matter could not be used.
#[derive(Debug, Error)]
pub enum FrontMatterError {
    /// The file could not be read.
    #[error("cannot read {path}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file has another form than expected.
    #[error("{path}:{line}: {message}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
}

impl FrontMatterError {
    fn malformed(path: &Path, line: usize, message: impl Into<String>) -> Self {
        Self::Malformed { path: path.to_owned(), line, message: message.into() }
    }
}

/// Reads a file as text, with its size bounded by [`FILE_CAP`].
///
/// # Errors
///
/// Only a regular file of UTF-8 text can be read: opening a pipe would wait
/// for ever.
pub fn read(path: &Path) -> Result<String, FrontMatterError> {
    let unreadable = |source| FrontMatterError::Unreadable { path: path.to_owned(), source };
    if !path.metadata().map_err(unreadable)?.is_file() {
        return Err(FrontMatterError::malformed(path, 1, "this is not a regular file"));
    }
    let mut bytes = Vec::new();
    let limit = FILE_CAP as u64 + 1;
    File::open(path)
        .and_then(|file| file.take(limit).read_to_end(&mut bytes))
        .map_err(unreadable)?;
    if bytes.len() > FILE_CAP {
        let message = format!("the file is larger than {FILE_CAP} bytes");
        return Err(FrontMatterError::malformed(path, 1, message));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|&&byte| byte == b'\n').count();
        FrontMatterError::malformed(path, line, "the file is not UTF-8 text")
    })
}

/// Parses the front matter of `text` and returns it with the body.
///
/// A text without front matter gives `T::default()` and itself; a byte order
/// mark and CRLF are fine, and so are values that lack quotes, if YAML takes
/// them with some. `path` is only for errors.
///
/// # Errors
///
/// The front matter is not closed, too large, not YAML or not a `T`.
pub fn parse<'a, T: DeserializeOwned + Default>(
    text: &'a str,
    path: &Path,
) -> Result<(T, &'a str), FrontMatterError> {
    let Parsed { head, body, lacking: _ } = parsed(text, path)?;
    Ok((head, body))
}

/// What a text holds.
struct Parsed<'a, T> {
    head: T,
    body: &'a str,
    /// The lines whose values lack quotes, from 1.
    lacking: Vec<usize>,
}

fn parsed<'a, T: DeserializeOwned + Default>(
    text: &'a str,
    path: &Path,
) -> Result<Parsed<'a, T>, FrontMatterError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let plain = |head, body| Parsed { head, body, lacking: Vec::new() };
    let Some((yaml, body)) = split(text, path)? else {
        return Ok(plain(T::default(), text));
    };
    if yaml.len() > FRONT_MATTER_CAP {
        let message = format!("the front matter is larger than {FRONT_MATTER_CAP} bytes");
        return Err(FrontMatterError::malformed(path, 1, message));
    }
    if yaml.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(plain(T::default(), body));
    }
    let read = |yaml: &str| serde_saphyr::from_str_with_options(yaml, options());
    let error = match read(yaml) {
        Ok(head) => return Ok(plain(head, body)),
        Err(error) => error,
    };
    if let Some((quoted, lines)) = tolerant::quoted(yaml)
        && let Ok(head) = read(&quoted)
    {
        // One line for the opening `---`.
        let lacking = lines.into_iter().map(|line| line + 1).collect();
        return Ok(Parsed { head, body, lacking });
    }
    let line = error.location().map_or(0, |location| location.line());
    // The same; a line of 0 means "unknown".
    let line = usize::try_from(line).unwrap_or(0) + 1;
    let text = error.without_snippet().to_string();
    let message = text.lines().next().unwrap_or("this is not YAML");
    // It counts from the head's first line.
    let message = message.split(" at line ").next().unwrap_or(message);
    Err(FrontMatterError::malformed(path, line, message))
}

/// Looks at a file that somebody has written: `look` gets its head, its body and
/// the whole of it.
pub(crate) fn checked<T: DeserializeOwned + Default>(
    path: &Path,
    look: impl FnOnce(T, &str, &str, &mut Findings<'_>),
) -> Vec<Finding> {
    let text = match read(path) {
        Ok(text) => text,
        Err(error) => return vec![error.into()],
    };
    let mut findings = Findings::of(path, &text);
    match parsed(&text, path) {
        Err(error) => findings.failed(error),
        Ok(Parsed { head, body, lacking }) => {
            for line in lacking {
                let message = "without quotes this value is no YAML, and other programs may not \
                               take it";
                findings.warning(line, message.to_owned());
            }
            look(head, body, &text, &mut findings);
        }
    }
    findings.done()
}

/// Returns the entries of a directory, sorted by name; at most
/// [`ENTRIES_CAP`]. A directory that does not exist has none.
pub fn entries(directory: &Path, problems: &mut Vec<Problem>) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(directory)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, _>>());
    let mut paths = match listed {
        Ok(paths) => paths,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            problems.push(Problem::new(directory, format!("cannot be read: {error}")));
            return Vec::new();
        }
    };
    paths.sort();
    if paths.len() > ENTRIES_CAP {
        let message = format!("has more than {ENTRIES_CAP} entries; the rest is left out");
        problems.push(Problem::new(directory, message));
        paths.truncate(ENTRIES_CAP);
    }
    paths
}

/// Maximum number of directories between one with definitions and a file in it:
/// a name of more parts is nothing that people type.
pub const NAMESPACE_CAP: usize = 4;

/// Returns the `*.md` files below a directory, each with the names of the
/// directories that lead to it, in the order of their paths.
///
/// Directories that are nested too deeply and links to directories are problems: a
/// link could lead out of the directory, or back into itself.
pub fn documents(directory: &Path, problems: &mut Vec<Problem>) -> Vec<(Vec<String>, PathBuf)> {
    let mut found = Vec::new();
    let mut left = vec![(Vec::new(), directory.to_owned())];
    while let Some((above, directory)) = left.pop() {
        for path in entries(&directory, problems) {
            match path.is_dir() {
                true => descend(&above, path, &mut left, problems),
                false if is_document(&path) && found.len() < ENTRIES_CAP => {
                    found.push((above.clone(), path));
                }
                false => {}
            }
        }
    }
    found.sort_by(|(_, one), (_, other)| one.cmp(other));
    found
}

/// Returns the directories below one that hold a file of this name, in the order
/// of their paths. Below such a directory nothing is looked for. A link may lead to such a
/// directory; one to any other directory is a problem, as in [`documents`].
pub fn holders(directory: &Path, file: &str, problems: &mut Vec<Problem>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![(Vec::new(), directory.to_owned())];
    while let Some((above, directory)) = left.pop() {
        for path in entries(&directory, problems) {
            if path.join(file).exists() {
                if found.len() < ENTRIES_CAP {
                    found.push(path);
                }
            } else if path.is_dir() {
                descend(&above, path, &mut left, problems);
            }
        }
    }
    found.sort();
    found
}

/// Returns whether no definitions are looked for below a directory: it belongs to
/// version control or holds dependencies.
#[must_use]
pub fn is_passed_over(directory: &Path) -> bool {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with('.') || name == "node_modules"
}

/// Goes on in a directory, unless it is nested too deeply or a link leads to it.
fn descend(
    above: &[String],
    path: PathBuf,
    left: &mut Vec<(Vec<String>, PathBuf)>,
    problems: &mut Vec<Problem>,
) {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if is_passed_over(&path) {
        return;
    }
    if path.is_symlink() {
        let message = "is a link to a directory, which is not followed; move its files here";
        problems.push(Problem::new(path, message));
    } else if above.len() < NAMESPACE_CAP {
        left.push(([above, &[name]].concat(), path));
    } else {
        let message = format!(
            "is nested more than {NAMESPACE_CAP} directories deep and is not looked at; move its \
             files up"
        );
        problems.push(Problem::new(path, message));
    }
}

/// Returns whether a text begins with front matter.
#[must_use]
pub fn has_head(text: &str) -> bool {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.lines().next().is_some_and(|line| line.trim_end() == "---")
}

/// Tells whether a path is called as a file with front matter is.
#[must_use]
pub fn is_document(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

/// Returns the line of a file on which its front matter sets a key, from 1; the
/// first line if that cannot be told.
#[must_use]
pub fn line_of(text: &str, key: &str) -> usize {
    let sets = |line: &str| {
        let line = line.trim_start_matches(['"', '\'']);
        let rest = line.strip_prefix(key).map(|rest| rest.trim_start_matches(['"', '\'']));
        rest.is_some_and(|rest| rest.trim_start().starts_with(':'))
    };
    let head = text.lines().enumerate().skip(1).take_while(|(_, line)| line.trim_end() != "---");
    head.into_iter().find(|(_, line)| sets(line)).map_or(1, |(index, _)| index + 1)
}

/// Checks a name that people and models call something by.
///
/// # Errors
///
/// The message says what a name may look like.
pub fn check_name(name: &str) -> Result<(), String> {
    let fits = !name.trim().is_empty()
        && name.trim() == name
        && name.chars().count() <= NAME_CAP
        && !name.chars().any(|c| c.is_control() || matches!(c, '/' | '\\' | '`' | '"'));
    if fits {
        return Ok(());
    }
    Err(format!(
        "`{}` is not a name: use 1 to {NAME_CAP} characters without slashes or quotes",
        name.escape_debug()
    ))
}

/// Makes a description one line of at most [`DESCRIPTION_CAP`] characters.
#[must_use]
pub fn one_line(description: &str) -> String {
    let words = description.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(DESCRIPTION_CAP) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}

/// Names in a list: a YAML list, or one string with commas or spaces between
/// them. What stands in parentheses stays together: `Bash(git log *)`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names(pub Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names = match OneOrMany::deserialize(deserializer)? {
            OneOrMany::Many(names) => names.iter().map(|name| name.trim().to_owned()).collect(),
            OneOrMany::One(text) => split_names(&text),
        };
        Ok(Self(names.into_iter().filter(|name: &String| !name.is_empty()).collect()))
    }
}

/// A hint at arguments. `[file]` without quotes is a list in YAML, and people
/// write it; it is turned back into what they meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint(pub String);

impl<'de> Deserialize<'de> for Hint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match OneOrMany::deserialize(deserializer)? {
            OneOrMany::One(text) => text,
            OneOrMany::Many(parts) => format!("[{}]", parts.join(", ")),
        }))
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// Cuts a text at its front matter: the YAML between the two `---` lines, and
/// what follows. `None` if there is none.
fn split<'a>(text: &'a str, path: &Path) -> Result<Option<(&'a str, &'a str)>, FrontMatterError> {
    let mut lines = text.split_inclusive('\n');
    let Some(first) = lines.next().filter(|line| line.trim_end() == "---") else {
        return Ok(None);
    };
    let mut end = first.len();
    for line in lines {
        if line.trim_end() == "---" {
            return Ok(Some((&text[first.len()..end], &text[end + line.len()..])));
        }
        end += line.len();
    }
    Err(FrontMatterError::malformed(path, 1, "the front matter has no closing `---` line"))
}

fn options() -> serde_saphyr::Options {
    // Small next to the parser's own limits: no head that people write comes
    // near, and an alias bomb ends at once.
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 4_000,
            max_nodes: 2_000,
            max_depth: 16,
            max_aliases: 32,
            max_anchors: 32,
            max_documents: 1,
            max_merge_keys: 16,
            max_total_scalar_bytes: 2 * FRONT_MATTER_CAP,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 2_000,
            max_replay_stack_depth: 8,
        },
        with_snippet: false,
    }
}

fn split_names(text: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut depth = 0_usize;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && (c == ',' || c.is_whitespace()) {
            names.push(String::new());
        } else if let Some(name) = names.last_mut() {
            name.push(c);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    struct Head {
        name: Option<String>,
        tools: Option<Names>,
        #[serde(rename = "argument-hint")]
        hint: Option<Hint>,
    }

    fn named(name: &str) -> Head {
        Head { name: Some(name.to_owned()), ..Head::default() }
    }

    #[track_caller]
    fn check(text: &str, expected: Result<(Head, &str), &str>) {
        let parsed = parse::<Head>(text, Path::new("x.md")).map_err(|error| error.to_string());
        assert_eq!(parsed, expected.map_err(str::to_owned));
    }

    #[test]
    fn the_head_is_parsed_and_the_body_is_untouched() {
        check("---\nname: a\n---\nbody\n---\nmore", Ok((named("a"), "body\n---\nmore")));
        check("---\r\nname: a\r\n---\r\nbody\r\n", Ok((named("a"), "body\r\n")));
        check("\u{feff}---\nname: a\n---\nbody", Ok((named("a"), "body")));
        check("---\nname: a\n---", Ok((named("a"), "")));
    }

    #[test]
    fn a_missing_or_empty_head_gives_the_default() {
        check("body", Ok((Head::default(), "body")));
        check("", Ok((Head::default(), "")));
        check("---\n---\nbody", Ok((Head::default(), "body")));
        check("---\n# nothing yet\n\n---\nbody", Ok((Head::default(), "body")));
    }

    #[test]
    fn lists_and_hints_may_be_strings_or_lists() {
        let names = |text: &str| Names(text.split('+').map(str::to_owned).collect());
        let with = |tools| Head { tools: Some(tools), ..Head::default() };
        check("---\ntools: Read, Bash(git log, *) Grep\n---\n", {
            Ok((with(names("Read+Bash(git log, *)+Grep")), ""))
        });
        check(
            "---\ntools:\n  - Read\n  - Bash(a b)\n---\n",
            Ok((with(names("Read+Bash(a b)")), "")),
        );
        for hint in ["[file]", "[file] [line]"] {
            let head = Head { hint: Some(Hint(hint.to_owned())), ..Head::default() };
            check(&format!("---\nargument-hint: {hint}\n---\n"), Ok((head, "")));
        }
    }

    #[test]
    fn a_value_that_lacks_quotes_is_read_as_it_was_meant() {
        check("---\nname: Use it: now\n---\nbody", Ok((named("Use it: now"), "body")));
        let both = parse::<Head>("---\nname: a: b\ntools: {\n---\n", Path::new("x.md"));
        assert!(both.unwrap_err().to_string().starts_with("x.md:2: "));
    }

    #[test]
    fn an_error_names_the_file_and_the_line() {
        check("---\nname: a\n", Err("x.md:1: the front matter has no closing `---` line"));
        let error = parse::<Head>("---\nname: a\ntools: {\n---\n", Path::new("x.md")).unwrap_err();
        assert!(error.to_string().starts_with("x.md:"), "{error}");
        let error = parse::<Head>("---\nname: a\nname: b\n---\n", Path::new("x.md")).unwrap_err();
        assert!(error.to_string().starts_with("x.md:3: "), "{error}");
        assert!(!error.to_string().contains("line"), "{error}");
    }

    #[test]
    fn an_alias_bomb_is_an_error() {
        let mut yaml = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for (name, of) in ('b'..='i').zip('a'..) {
            let aliases = vec![format!("*{of}"); 9].join(", ");
            yaml.push_str(&format!("{name}: &{name} [{aliases}]\n"));
        }
        let text = format!("---\n{yaml}name: *i\n---\n");
        assert!(parse::<Head>(&text, Path::new("x.md")).is_err());
    }

    #[test]
    fn a_head_over_its_cap_is_an_error() {
        let text = format!("---\nname: {}\n---\n", "a".repeat(FRONT_MATTER_CAP));
        check(&text, Err("x.md:1: the front matter is larger than 16384 bytes"));
    }

    #[test]
    fn a_file_over_its_cap_or_of_bytes_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.md");
        std::fs::write(&path, vec![b'a'; FILE_CAP + 1]).unwrap();
        assert!(read(&path).unwrap_err().to_string().ends_with("larger than 65536 bytes"));
        std::fs::write(&path, b"one\ntwo \xff").unwrap();
        assert!(
            read(&path).unwrap_err().to_string().ends_with("a.md:2: the file is not UTF-8 text")
        );
        assert!(read(directory.path()).unwrap_err().to_string().ends_with("not a regular file"));
    }

    #[test]
    fn a_key_is_found_on_its_line_and_not_in_the_body() {
        let text = "---\nname: a\n\"tools\": x\nnamed: y\n---\ncolor: red\n";
        let line = |key| line_of(text, key);
        assert_eq!((line("name"), line("tools"), line("named")), (2, 3, 4));
        assert_eq!(line("color"), 1);
    }

    #[test]
    fn documents_are_found_below_and_no_link_is_followed() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        for name in ["top.md", "a/b/deep.md", "a/notes.txt"] {
            std::fs::write(root.join(name), "x").unwrap();
        }
        std::os::unix::fs::symlink(root, root.join("a/again")).unwrap();
        let mut problems = Vec::new();
        let found = documents(root, &mut problems);
        let names: Vec<_> = found.iter().map(|(above, _)| above.join(":")).collect();
        assert_eq!(names, ["a:b", ""]);
        let [link] = &problems[..] else { panic!("{problems:?}") };
        assert!(link.to_string().contains("a/again: is a link to a directory"), "{link}");
        std::fs::create_dir_all(root.join("1/2/3/4/5")).unwrap();
        std::fs::write(root.join("1/2/3/4/5/deep.md"), "x").unwrap();
        problems.clear();
        assert_eq!(documents(root, &mut problems).len(), 2);
        let told = problems.iter().map(Problem::to_string).collect::<String>();
        assert!(told.contains("5: is nested more than 4 directories deep"), "{told}");
    }

    #[test]
    fn a_link_to_a_directory_of_holders_is_a_problem_and_one_to_a_holder_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let (root, other) = (directory.path().join("skills"), directory.path().join("other"));
        for holder in [root.join("own"), root.join("group/inner"), other.join("linked")] {
            std::fs::create_dir_all(&holder).unwrap();
            std::fs::write(holder.join("SKILL.md"), "x").unwrap();
        }
        for (target, link) in [
            ("../other", "team"),
            ("../../other", "group/team"),
            ("../other/linked", "one"),
            ("../other", ".hidden"),
            ("../other", "node_modules"),
            ("..", "above"),
            ("nowhere", "dangling"),
            ("../other/linked/SKILL.md", "file.md"),
        ] {
            std::os::unix::fs::symlink(target, root.join(link)).unwrap();
        }
        let mut problems = Vec::new();
        let found = holders(&root, "SKILL.md", &mut problems);
        assert_eq!(found, ["group/inner", "one", "own"].map(|name| root.join(name)));
        let mut told: Vec<String> = problems.iter().map(Problem::to_string).collect();
        told.sort_unstable();
        let expected = ["above", "group/team", "team"];
        assert_eq!(told.len(), expected.len(), "{told:?}");
        for (told, link) in told.iter().zip(expected) {
            assert!(told.contains(&format!("{link}: is a link to a directory")), "{told}");
        }
    }

    #[test]
    fn names_and_descriptions_are_kept_in_bounds() {
        assert_eq!(check_name("code-reviewer"), Ok(()));
        for bad in ["", " ", "a/b", "a\nb", "a`", &"n".repeat(65)] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
        assert_eq!(one_line(" a\n  b\t"), "a b");
        assert_eq!(one_line(&"é".repeat(2_000)).chars().count(), DESCRIPTION_CAP + 1);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(---\n)?[ -~\n:&*\\[\\]{}é]{0,200}(\n---\n)?.{0,20}") {
            let _ = parse::<Head>(&text, Path::new("x.md"));
        }
    }
}
