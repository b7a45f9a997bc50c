//! What can be wrong with a configuration, in words that say what to do.
//!
//! The words are complete: each problem is one line and, where there is
//! something to do about it, a `hint:` line. Nothing here shows a value, which
//! may be a key.

use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why there is no configuration: every problem that was found.
#[derive(Debug, Error)]
pub struct ConfigError {
    /// At least one, in the order of the layers and then of the lines.
    pub problems: Vec<Problem>,
}

/// Shows all problems; the second and later ones begin with `error:` as the
/// command line puts it before the first.
impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\nerror: " };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

/// Where a value stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In a file.
    File {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
    },
    /// On the command line.
    Flag,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "{}, line {line}", path.display()),
            Self::Flag => f.write_str("`--config`"),
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Error)]
pub enum Problem {
    /// There is no such key.
    #[error("unknown key `{key}` in {place}{}", hint_nearest(.nearest.as_deref()))]
    UnknownKey {
        /// The whole dotted key.
        key: String,
        /// Where it stands.
        place: Place,
        /// The known key that looks most like it, if any does.
        nearest: Option<String>,
    },
    /// The value is of another type.
    #[error("`{key}` is {found} in {place}\nhint: it must be {expected}")]
    WrongType {
        /// The whole dotted key.
        key: String,
        /// Where it stands.
        place: Place,
        /// What is there.
        found: &'static str,
        /// What should be.
        expected: &'static str,
    },
    /// The value is of the right type, but there is no such setting.
    #[error("`{key}` cannot be used in {place}\nhint: {must}")]
    BadValue {
        /// The whole dotted key.
        key: String,
        /// Where it stands.
        place: Place,
        /// What would be right.
        must: String,
    },
    /// A value that is needed is in no layer.
    #[error("`{key}` is missing\nhint: {must}")]
    Missing {
        /// The whole dotted key.
        key: String,
        /// What to do.
        must: &'static str,
    },
    /// It is not TOML.
    #[error("failed to parse {place}: {why}")]
    Syntax {
        /// Where it stops being TOML.
        place: Place,
        /// What the parser says.
        why: String,
    },
    /// The flag is no pair.
    #[error(
        "`--config {key}` is no `KEY=VALUE`\nhint: write a key and its value, as in \
         `--config agents.max_concurrent=4`"
    )]
    BadFlag {
        /// What stands before the `=`, or all of it if there is none.
        key: String,
    },
    /// The file is there, but cannot be read.
    #[error("failed to read {}: {cause}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why. In the message, because the problems are shown as one text.
        cause: io::Error,
    },
}

fn hint_nearest(nearest: Option<&str>) -> String {
    match nearest {
        Some(key) => format!("\nhint: did you mean `{key}`?"),
        None => "\nhint: `config.example.toml` shows every key".to_owned(),
    }
}
