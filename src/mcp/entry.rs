//! How a server is reached, as it was configured.
//!
//! An [`Entry`] is what somebody wrote, in TOML or in JSON; [`Launch`] is what
//! that comes to, and can only be one of the two ways there are. What is wrong
//! with an entry is that server's own error.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::failure::without_secrets;
use crate::hook::{DirectCommand, Footing};

/// A server as it was written. `${NAME}` stands for variables still.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Entry {
    /// `type`: what the server speaks.
    pub kind: Option<String>,
    /// A program to start.
    pub command: Option<String>,
    /// What the program is given.
    pub arguments: Vec<String>,
    /// More variables for the program; may hold keys.
    pub variables: BTreeMap<String, String>,
    /// Where the program starts.
    pub directory: Option<String>,
    /// Where a server listens.
    pub url: Option<String>,
    /// What goes with every request to it; may hold keys.
    pub headers: BTreeMap<String, String>,
    /// Whether it is not to be used.
    pub is_disabled: bool,
}

/// Shows no value of a variable or a header, and of a URL what is no secret.
impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("kind", &self.kind)
            .field("command", &self.command)
            .field("arguments", &self.arguments.len())
            .field("variables", &self.variables.keys())
            .field("directory", &self.directory)
            .field("url", &self.url.as_deref().map(without_secrets))
            .field("headers", &self.headers.keys())
            .field("is_disabled", &self.is_disabled)
            .finish()
    }
}

/// How a server is reached.
#[derive(Clone, PartialEq, Eq)]
pub enum Launch {
    /// It is started, and spoken to on its standard input and output.
    Program {
        /// What is started.
        program: String,
        /// What it is given.
        arguments: Vec<String>,
        /// More variables for it.
        variables: BTreeMap<String, String>,
        /// Where it starts; `None` for the working directory.
        directory: Option<PathBuf>,
        /// The files that it names, as they must be when it is started.
        footing: Footing,
    },
    /// It listens somewhere, and is spoken to by streamable HTTP.
    Http {
        /// Where.
        url: String,
        /// What goes with every request.
        headers: BTreeMap<String, String>,
    },
}

/// Shows no value of a variable or a header, and of a URL what is no secret.
impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program { program, arguments, variables, directory, footing: _ } => f
                .debug_struct("Program")
                .field("program", program)
                .field("arguments", &arguments.len())
                .field("variables", &variables.keys())
                .field("directory", directory)
                .finish(),
            Self::Http { url, headers } => f
                .debug_struct("Http")
                .field("url", &without_secrets(url))
                .field("headers", &headers.keys())
                .finish(),
        }
    }
}

/// What is wrong with an entry.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{key}` {why}")]
pub struct BadEntry {
    /// The key below the server's own.
    pub key: String,
    /// What is wrong, after the key: `is no text`.
    pub why: String,
}

impl BadEntry {
    pub(super) fn new(key: impl Into<String>, why: impl Into<String>) -> Self {
        Self { key: key.into(), why: why.into() }
    }
}

impl Launch {
    /// Returns the same server, started in `directory` or a place relative to it, and held
    /// to what the files of the project that it names hold now.
    #[must_use]
    pub fn watched(self, directory: &Path, project: &Path) -> Self {
        match self {
            Self::Program { program, arguments, variables, directory: own, footing: _ } => {
                let directory = own.map_or(directory.to_owned(), |own| directory.join(own));
                let command = DirectCommand {
                    words: words(&program, &arguments),
                    variables: pairs(&variables),
                    directory: directory.clone(),
                };
                let footing = Footing::of_program(&command, project);
                let directory = Some(directory);
                Self::Program { program, arguments, variables, directory, footing }
            }
            Self::Http { .. } => self,
        }
    }
}

fn words<'a>(program: &'a str, arguments: &'a [String]) -> Vec<&'a str> {
    std::iter::once(program).chain(arguments.iter().map(String::as_str)).collect()
}

fn pairs(variables: &BTreeMap<String, String>) -> Vec<(&str, &str)> {
    variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

impl Entry {
    /// Returns the program that is started for the server, in `root` or a place relative to
    /// it, with all words as they are written; `None` if it listens somewhere.
    #[must_use]
    pub fn program(&self, root: &Path) -> Option<DirectCommand<'_>> {
        let directory = self.directory.as_ref();
        Some(DirectCommand {
            words: words(self.command.as_ref()?, &self.arguments),
            variables: pairs(&self.variables),
            directory: directory.map_or(root.to_owned(), |directory| root.join(directory)),
        })
    }

    /// Returns how the server is reached. `lookup` knows the variables of this
    /// process.
    ///
    /// # Errors
    ///
    /// If it is none of the ways there are, or names a variable that is not set.
    pub fn launch(&self, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Launch, BadEntry> {
        let text =
            |key: &str, text: &str| expand(text, lookup).map_err(|why| BadEntry::new(key, why));
        let all = |key: &str, texts: &BTreeMap<String, String>| {
            let expanded = texts
                .iter()
                .map(|(name, value)| Ok((name.clone(), text(&format!("{key}.{name}"), value)?)));
            expanded.collect::<Result<BTreeMap<_, _>, BadEntry>>()
        };
        self.check_kind()?;
        match (&self.command, &self.url) {
            (Some(command), None) => {
                let arguments = self.arguments.iter().enumerate();
                let arguments =
                    arguments.map(|(index, argument)| text(&format!("args[{index}]"), argument));
                Ok(Launch::Program {
                    program: text("command", command)?,
                    arguments: arguments.collect::<Result<_, _>>()?,
                    variables: all("env", &self.variables)?,
                    directory: match &self.directory {
                        Some(directory) => Some(text("cwd", directory)?.into()),
                        None => None,
                    },
                    footing: Footing::default(),
                })
            }
            (None, Some(url)) => {
                let url = text("url", url)?;
                if !(url.starts_with("http://") || url.starts_with("https://")) {
                    return Err(BadEntry::new("url", "is no `http` or `https` URL"));
                }
                Ok(Launch::Http { url, headers: all("headers", &self.headers)? })
            }
            (Some(_), Some(_)) => {
                Err(BadEntry::new("url", "stands beside `command`: one is enough"))
            }
            (None, None) => Err(BadEntry::new("command", "is missing, and so is `url`")),
        }
    }

    fn check_kind(&self) -> Result<(), BadEntry> {
        let wrong = |why: &str| Err(BadEntry::new("type", why));
        let has = match self.kind.as_deref() {
            None => return Ok(()),
            Some("stdio") => &self.command,
            Some("http" | "streamable-http" | "streamableHttp") => &self.url,
            Some("sse") => {
                return wrong(
                    "is `sse`, a transport that MCP has given up: most such servers speak `http` too, \
                     at another URL",
                );
            }
            Some("sdk") => {
                return wrong("is `sdk`: only a client that serves it itself can name it");
            }
            Some(other) => {
                let other: String = other.chars().take(40).collect();
                return wrong(&format!("is `{other}`; it can be `stdio` or `http`"));
            }
        };
        match (has, self.kind.as_deref()) {
            (Some(_), _) => Ok(()),
            (None, Some("stdio")) => Err(BadEntry::new("command", "is missing")),
            (None, _) => Err(BadEntry::new("url", "is missing")),
        }
    }
}

/// Puts the values of variables in the place of `${NAME}` and
/// `${NAME:-default}`. The error says what is wrong, after the key.
fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (inside, behind) = after.split_once('}').ok_or("has a `${` without its `}`")?;
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(is_name) {
            return Err("has a `${}` that names no variable".to_owned());
        }
        let value = lookup(name).or_else(|| default.map(str::to_owned));
        let value =
            value.ok_or_else(|| format!("needs the variable `{name}`, which is not set"))?;
        expanded.extend([before, &value]);
        rest = behind;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<String> {
        (name == "TOKEN").then(|| "secret".to_owned())
    }

    #[track_caller]
    fn check_expanded(text: &str, expected: Result<&str, &str>) {
        let expanded = expand(text, &lookup);
        assert_eq!(expanded.as_deref().map_err(String::as_str), expected);
    }

    #[test]
    fn variables_and_their_defaults_are_put_in() {
        check_expanded("plain $TOKEN {x}", Ok("plain $TOKEN {x}"));
        check_expanded("Bearer ${TOKEN}!", Ok("Bearer secret!"));
        check_expanded("${TOKEN:-other}${NO:-a:-b}${NO:-}", Ok("secreta:-b"));
        check_expanded("${NO}", Err("needs the variable `NO`, which is not set"));
        check_expanded("${NO", Err("has a `${` without its `}`"));
        check_expanded("${}", Err("has a `${}` that names no variable"));
        check_expanded("${a b}", Err("has a `${}` that names no variable"));
    }

    #[track_caller]
    fn check(entry: &Entry, expected: &str) {
        let launch = entry.launch(&lookup);
        let said = launch.map_or_else(|bad| bad.to_string(), |launch| format!("{launch:?}"));
        assert_eq!(said, expected);
    }

    #[test]
    fn an_entry_is_one_of_two_ways_and_says_what_is_wrong_else() {
        let program = Entry { command: Some("node".into()), ..Entry::default() };
        let http = Entry { url: Some("https://box/mcp".into()), ..Entry::default() };
        let of = |kind: &str, entry: &Entry| Entry { kind: Some(kind.into()), ..entry.clone() };
        let started = "Program { program: \"node\", arguments: 0, variables: [], directory: None }";
        check(&program, started);
        check(&of("stdio", &program), started);
        check(&http, "Http { url: \"https://box/mcp\", headers: [] }");
        check(&of("http", &program), "`url` is missing");
        check(&of("stdio", &http), "`command` is missing");
        check(&Entry::default(), "`command` is missing, and so is `url`");
        check(&of("ws", &http), "`type` is `ws`; it can be `stdio` or `http`");
        assert!(of("sse", &http).launch(&lookup).unwrap_err().why.contains("given up"));
        let both = Entry { command: Some("node".into()), ..http };
        check(&both, "`url` stands beside `command`: one is enough");
        let file = Entry { url: Some("file:///etc".into()), ..Entry::default() };
        check(&file, "`url` is no `http` or `https` URL");
    }

    #[test]
    fn a_missing_variable_is_told_with_its_key_and_no_value_is_shown() {
        let variables = BTreeMap::from([("KEY".to_owned(), "${TOKEN}".to_owned())]);
        let entry = Entry { command: Some("node".into()), variables, ..Entry::default() };
        let launch = entry.launch(&lookup).unwrap();
        assert!(!format!("{launch:?}{entry:?}").contains("secret"));
        let headers = BTreeMap::from([("X-Key".to_owned(), "${NO}".to_owned())]);
        let entry = Entry { url: Some("http://box".into()), headers, ..Entry::default() };
        check(&entry, "`headers.X-Key` needs the variable `NO`, which is not set");
        assert!(!format!("{entry:?}").contains("${NO}"));
    }
}
