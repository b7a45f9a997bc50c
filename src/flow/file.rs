//! Flow files: flows as people write them down.
//!
//! A file is TOML, walked by hand as the configuration is: so everything that is
//! wrong with it is found in one pass, each with its line. What comes out is a
//! [`Flow`], which can be walked. Files come from repositories that nobody need
//! trust, so a flow is text and nothing else: it names agents, models and other
//! texts, none outside its own directory, and it loosens nothing.
//!
//! `docs/flows.md` has the whole format.

mod agent;
mod fields;
mod findings;
mod inputs;
mod places;
mod sources;
mod steps;
mod value;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use super::names::meant;
use super::{Compute, Flow, Step, Success, TextPlace};
use crate::front_matter::{Finding, one_line};

pub use value::span;

use fields::{Field, Fields};
use findings::Findings;
use places::{Places, Spots};
use sources::{Opened, Sources};

/// What a flow file is called that stands in a directory of its own, as beside
/// a skill.
pub const FILE: &str = "flow.toml";

/// Most bytes of one flow file. A step takes a hundred, a long prompt some
/// thousand, and those can stand in files of their own.
pub const FILE_CAP: usize = 256 * 1024;

/// Most bytes of a prompt or a schema in a file of its own, as of any text of a
/// flow.
pub const TEXT_FILE_CAP: usize = 1024 * 1024;

/// Most bytes of a flow file and all that it names, each as often as it is
/// named: so much is held while it is walked.
pub const WHOLE_CAP: usize = 16 * 1024 * 1024;

/// Most things that are told to be wrong with a flow. Who has more to mend
/// begins with these.
pub const FINDINGS_CAP: usize = 100;

/// What flow files may name besides what is in them.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// The types of agents; `None` if they are not to be checked.
    pub agents: Option<Vec<String>>,
    /// What the program computes, by name.
    pub computations: Vec<(&'static str, Arc<dyn Compute>)>,
}

/// Reads a flow file, and all that it names. A directory means the
/// [`FILE`] in it.
///
/// # Errors
///
/// Everything that is wrong, in the order of files and lines.
pub fn read(path: &Path, known: &Known) -> Result<Arc<Flow>, Vec<Finding>> {
    let path = if path.is_dir() { path.join(FILE) } else { path.to_owned() };
    Reading::new(known).whole(Sources::Disk, &path)
}

/// Reads a flow file that is part of the program, with the files that it names:
/// each by its path beside it, and its text.
///
/// # Errors
///
/// As for [`read`].
pub fn bundled(
    path: &Path,
    files: &'static [(&'static str, &'static str)],
    known: &Known,
) -> Result<Arc<Flow>, Vec<Finding>> {
    Reading::new(known).whole(Sources::Bundled(files), path)
}

/// A flow file on its way to a flow, with those it names.
struct Reading<'k> {
    known: &'k Known,
    findings: Findings,
    /// How many bytes were read.
    bytes: usize,
    /// The flow files that name each other, from the outermost to the one that
    /// is read.
    chain: Vec<(sources::Identity, String)>,
    /// What became of those that were read to their end; `None` if one cannot
    /// be used.
    done: BTreeMap<sources::Identity, Option<Arc<Flow>>>,
}

/// One flow file and what is around it.
struct Page<'r, 'k> {
    reading: &'r mut Reading<'k>,
    path: &'r Path,
    text: &'r str,
    /// Where each line but the first begins.
    breaks: Vec<usize>,
    sources: Sources,
    places: Places,
    /// Whether something that texts may name is left out, since it cannot be
    /// read: then nobody is told that it is not there.
    lacks: bool,
}

impl<'k> Reading<'k> {
    fn new(known: &'k Known) -> Self {
        let (findings, chain, done) = (Findings::default(), Vec::new(), BTreeMap::new());
        Self { known, findings, bytes: 0, chain, done }
    }

    fn whole(mut self, sources: Sources, path: &Path) -> Result<Arc<Flow>, Vec<Finding>> {
        let flow = match sources.open(path, FILE_CAP) {
            Ok(opened) => {
                self.bytes = opened.bytes.len();
                self.file(sources, path, opened)
            }
            Err(why) => {
                self.findings.error(path, 1, why);
                None
            }
        };
        match flow.filter(|_| self.findings.is_empty()) {
            Some(flow) => Ok(flow),
            None => Err(self.findings.done()),
        }
    }

    /// Reads one flow file. What is wrong with it has been noted if there is no
    /// flow.
    fn file(&mut self, sources: Sources, path: &Path, opened: Opened) -> Option<Arc<Flow>> {
        let Opened { identity, bytes } = opened;
        if let Some(done) = self.done.get(&identity) {
            return done.clone();
        }
        let text = match text_of(&bytes) {
            Ok(text) => text,
            Err(line) => {
                self.findings.error(path, line, "the file is not UTF-8 text".to_owned());
                return None;
            }
        };
        self.chain.push((identity.clone(), path.display().to_string()));
        let breaks = text.match_indices('\n').map(|(at, _)| at + 1).collect();
        let places = Places::default();
        let lacks = false;
        let page = Page { reading: self, path, text, breaks, sources, places, lacks };
        let flow = page.flow().map(Arc::new);
        self.chain.pop();
        self.done.insert(identity, flow.clone());
        flow
    }
}

impl Page<'_, '_> {
    fn flow(mut self) -> Option<Flow> {
        let table = match DeTable::parse(self.text) {
            Ok(table) => table,
            Err(error) => {
                let line = self.line(error.span().map_or(0, |span| span.start));
                let why = error.message().lines().collect::<Vec<_>>().join("; ");
                self.error_on(line, format!("this is not TOML: {why}"));
                return None;
            }
        };
        let mut fields = Fields::new(table.get_ref(), 0);
        let name = fields.take("name").and_then(|field| self.name(&field));
        let description = fields.take("description").and_then(|field| self.text(&field));
        let inputs = fields.take("inputs").map(|field| self.inputs(&field));
        let success = fields.take("succeeds_if").and_then(|field| self.success(&field));
        let steps = match fields.take("step") {
            Some(field) => self.steps(&field, &mut Vec::new()),
            None => {
                self.error_on(1, "a flow has at least one `[[step]]`".to_owned());
                None
            }
        };
        self.rest(fields, &["name", "description", "inputs", "succeeds_if", "step"]);
        let steps = steps.filter(|_| !self.lacks)?;
        let step = Step::sequence(steps).map_err(|error| self.error_on(1, error.to_string()));
        let name = name.unwrap_or_else(|| default_name(self.path));
        let description = one_line(&description.unwrap_or_default());
        let named = (name.into(), description.into());
        let flow = Flow::succeeding_if(success, named, inputs.unwrap_or_default(), step.ok()?);
        flow.map_err(|errors| errors.iter().for_each(|error| self.misnamed(error))).ok()
    }

    /// Reads what must hold in the end: a condition, or that with what is said if it
    /// does not hold.
    fn success(&mut self, field: &Field<'_>) -> Option<Success> {
        let mut spots = Spots { name: field.at, ..Spots::default() };
        let success = match field.value.get_ref() {
            DeValue::Table(table) => {
                let mut fields = Fields::new(table, field.at);
                let holds = fields.take("holds");
                let otherwise = fields.take("else").and_then(|field| self.text(&field));
                self.rest(fields, &["else", "holds"]);
                if holds.is_none() {
                    let message = "`succeeds_if` needs `holds`, an expression".to_owned();
                    self.error(field.at, message);
                }
                let holds =
                    holds.map(|field| self.expression(&field, TextPlace::Success, &mut spots));
                holds.flatten().map(|condition| {
                    let otherwise = otherwise.map(|text| one_line(&text).into());
                    Success { condition, otherwise }
                })
            }
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_) => self
                .expression(field, TextPlace::Success, &mut spots)
                .map(|condition| Success { condition, otherwise: None }),
        };
        self.places.put(&[], spots);
        self.lacks |= success.is_none();
        success
    }

    fn name(&mut self, field: &Field<'_>) -> Option<String> {
        let name = self.text(field)?;
        match crate::front_matter::check_name(&name) {
            Ok(()) => Some(name),
            Err(why) => {
                self.error(field.at, why);
                None
            }
        }
    }

    /// Says of each field that is left over that nobody knows it.
    fn rest(&mut self, fields: Fields<'_>, known: &[&str]) {
        for Field { key, at, .. } in fields.left() {
            let meant = if self.reading.findings.is_full() { "" } else { &meant(key, known) };
            self.error(at, format!("there is no key `{}` here{meant}", shown(key)));
        }
    }

    fn error(&mut self, offset: usize, message: String) {
        self.error_on(self.line(offset), message);
    }

    fn error_on(&mut self, line: usize, message: String) {
        self.reading.findings.error(self.path, line, message);
    }

    /// Returns the line of an offset, from 1.
    fn line(&self, offset: usize) -> usize {
        1 + self.breaks.partition_point(|begin| *begin <= offset)
    }
}

/// Returns the line of an offset, from 1.
fn line_in(text: &[u8], offset: usize) -> usize {
    let before = &text[..offset.min(text.len())];
    1 + before.iter().filter(|&&byte| byte == b'\n').count()
}

/// Reads bytes as text, or says on which line they are none.
fn text_of(bytes: &[u8]) -> Result<&str, usize> {
    let text = std::str::from_utf8(bytes);
    let text = text.map_err(|error| line_in(bytes, error.valid_up_to()))?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Returns what a flow is called that does not say so: as its file is, or as its
/// directory if all such files are called the same.
fn default_name(path: &Path) -> String {
    let whole = path.canonicalize();
    let path = whole.as_deref().unwrap_or(path);
    let named = match path.file_name().is_some_and(|name| name == FILE) {
        true => path.parent().and_then(Path::file_name),
        false => path.file_stem(),
    };
    let name = named.unwrap_or_default().to_string_lossy().into_owned();
    if crate::front_matter::check_name(&name).is_ok() { name } else { "flow".to_owned() }
}

/// Returns a word of a file as it can stand in a line.
fn shown(word: &str) -> String {
    /// Most characters of it. More is nobody's slip of the fingers.
    const SHOWN_CAP: usize = 80;
    let mut shown: String = word.chars().take(SHOWN_CAP).collect();
    if shown.len() < word.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests;
