//! What goes in and out of a run, as flags say it.

use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::{EnumValueParser, PathBufValueParser, TypedValueParser};

/// What clap calls the value of `-o`.
pub(super) const OUTPUT: &str = "output";

/// The value of `-o`: the format of a run, the file of an export.
///
/// clap knows a global flag by its id and takes one with the same id for the
/// same flag. So both are one value of one type, and each place reads what it
/// expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// How to print.
    Format(Format),
    /// Where to write.
    File(PathBuf),
}

impl Default for Output {
    fn default() -> Self {
        Self::Format(Format::default())
    }
}

impl Output {
    pub(super) fn formats() -> impl TypedValueParser<Value = Self> {
        EnumValueParser::<Format>::new().map(Self::Format)
    }

    pub(super) fn files() -> impl TypedValueParser<Value = Self> {
        PathBufValueParser::new().map(Self::File)
    }
}

/// What standard input holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Default)]
pub enum InputFormat {
    /// A prompt, or more of one.
    #[default]
    Text,
    /// Messages of a program and its answers, one JSON record a line.
    StreamJson,
}

/// How a run is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Default)]
pub enum Format {
    /// The answer on standard output, what happens on standard error.
    #[default]
    Text,
    /// One JSON object: the result.
    Json,
    /// One JSON record a line, as things happen.
    StreamJson,
}
