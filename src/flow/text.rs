//! The texts of a flow: prompts, which may be templates, and expressions.
//!
//! Both are minijinja: strict about what is undefined, with nothing to include,
//! and bounded in steps and in what they come to. Their grammar and the names they
//! use are known as soon as there is a value of these types.

use std::sync::Arc;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value,
    escape_formatter,
};

use super::error::TextError;
use super::{bounds, called};

/// Most bytes of a template or an expression: no prompt that a person wrote is
/// as long.
pub(super) const TEXT_CAP: usize = 1024 * 1024;

/// Most steps of one rendering, or of one expression; some tenths of a second. A
/// loop over the results of ten thousand items takes a fifth of them.
const FUEL: u64 = 1_000_000;

/// What a text may name beside the results and inputs of its flow.
pub const GLOBALS: [&str; 2] = ["dict", "range"];

/// What marks a text as a template.
const MARKS: [&str; 3] = ["{{", "{%", "{#"];

/// What an agent is to do, or what an input holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wording {
    /// These words, byte for byte.
    Verbatim(Arc<str>),
    /// Words with places that are filled in.
    Template(Template),
}

/// Words with places that are filled in. Its grammar is right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    source: Arc<str>,
    names: Arc<[Box<str>]>,
}

/// Something that gives a value. Its grammar is right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression {
    source: Arc<str>,
    names: Arc<[Box<str>]>,
}

impl Wording {
    /// Reads words that may have places to be filled in. Without any they are
    /// taken byte for byte.
    ///
    /// # Errors
    ///
    /// They are a template that does not follow the grammar, or too long.
    pub fn parse(text: impl Into<Arc<str>>) -> Result<Self, TextError> {
        let text = text.into();
        match MARKS.iter().any(|mark| text.contains(mark)) {
            true => Template::parse(text).map(Self::Template),
            false => Ok(Self::Verbatim(text)),
        }
    }

    /// Returns it as it was written.
    #[must_use]
    pub fn source(&self) -> &Arc<str> {
        match self {
            Self::Verbatim(text) => text,
            Self::Template(template) => &template.source,
        }
    }

    /// Returns what it names that it does not set itself, such as `inputs.base`.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let names: &[Box<str>] = match self {
            Self::Verbatim(_) => &[],
            Self::Template(template) => &template.names,
        };
        names.iter().map(|name| &**name)
    }
}

impl<T: Into<Arc<str>>> From<T> for Wording {
    fn from(text: T) -> Self {
        Self::Verbatim(text.into())
    }
}

impl Template {
    fn parse(source: Arc<str>) -> Result<Self, TextError> {
        check_length(&source)?;
        bounds::check_template(&source)?;
        let environment = environment();
        let template = environment.template_from_str(&source).map_err(syntax)?;
        called::check_template(&source)?;
        let names = sorted(template.undeclared_variables(true));
        Ok(Self { source, names })
    }
}

impl Expression {
    /// Reads an expression.
    ///
    /// # Errors
    ///
    /// It does not follow the grammar, or is too long.
    pub fn parse(source: impl Into<Arc<str>>) -> Result<Self, TextError> {
        let source = source.into();
        bounds::check_expression(&source)?;
        let environment = environment();
        let expression = environment.compile_expression(&source).map_err(syntax)?;
        called::check_expression(&source)?;
        let names = sorted(expression.undeclared_variables(true));
        Ok(Self { source, names })
    }

    /// Returns it as it was written.
    #[must_use]
    pub fn source(&self) -> &Arc<str> {
        &self.source
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }
}

/// Returns what texts are read and filled in with.
pub(super) fn environment<'a>() -> Environment<'a> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_syntax(syntax_of_texts());
    environment.set_fuel(Some(FUEL));
    environment.set_formatter(as_json);
    // With it one turn of a loop would hand the next one text that grows: forty turns
    // that double it are more than any memory.
    environment.remove_global("namespace");
    // So that what is undefined is named.
    environment.set_debug(true);
    environment
}

/// Writes a value: text as it is, and what has parts as the JSON that agents know,
/// where the engine would write as Python does.
fn as_json(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    let is_written = matches!(
        value.kind(),
        ValueKind::None | ValueKind::Bool | ValueKind::Seq | ValueKind::Iterable | ValueKind::Map
    );
    if !is_written {
        return escape_formatter(out, state, value);
    }
    let text = serde_json::to_string(value)
        .map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))?;
    out.write_str(&text).map_err(Error::from)
}

/// Returns the usual syntax, but for a last line's end: it is kept as it is.
fn syntax_of_texts() -> SyntaxConfig {
    let syntax = SyntaxConfig::builder().keep_trailing_newline(true).build();
    syntax.expect("the marks are the usual ones")
}

fn check_length(source: &str) -> Result<(), TextError> {
    match source.len() {
        length if length > TEXT_CAP => Err(TextError::TooLong { length }),
        _ => Ok(()),
    }
}

fn syntax(error: minijinja::Error) -> TextError {
    let line = error.line().and_then(|line| u32::try_from(line).ok()).unwrap_or(1);
    TextError::Syntax { line, message: said(&error) }
}

/// Says what an error is, without where it is.
pub(super) fn said(error: &minijinja::Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

fn sorted(names: impl IntoIterator<Item = String>) -> Arc<[Box<str>]> {
    let mut names: Vec<Box<str>> = names.into_iter().map(String::into_boxed_str).collect();
    names.sort_unstable();
    names.into()
}
