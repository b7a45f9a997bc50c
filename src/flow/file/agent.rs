//! The agents of a flow file.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;

use super::fields::{Field, Fields};
use super::places::{Spot, Spots};
use super::sources::Opened;
use super::{FILE, FILE_CAP, Page, TEXT_FILE_CAP, WHOLE_CAP, line_in, meant, shown};
use crate::definition::Isolation;
use crate::flow::{AgentStep, Sees, StepLimits, TextPlace, Wording};
use crate::tool::AnswerSchema;

/// What only a step that is an agent may have.
pub(super) const KEYS: [&str; 7] =
    ["type", "model", "sees", "isolation", "schema", "schema_file", "limits"];

/// What may be said in `limits`.
const LIMITS: [&str; 3] = ["max_turns", "max_tokens", "timeout"];

/// The agent that does what nobody else is named for.
const DEFAULT: &str = "general-purpose";

impl Page<'_, '_> {
    /// Reads an agent. `prompt` is what has it, in one of two forms.
    pub(super) fn agent(
        &mut self,
        name: String,
        prompt: &Field<'_>,
        fields: &mut Fields<'_>,
        spots: &mut Spots,
    ) -> AgentStep {
        let agent = fields.take("type").and_then(|field| self.agent_type(&field));
        let model = fields.take("model").and_then(|field| self.text(&field));
        let sees = fields.take("sees").and_then(|field| {
            self.one_of(&field, &[("visible", Sees::Visible), ("none", Sees::Nothing)])
        });
        let isolation = fields
            .take("isolation")
            .and_then(|field| self.one_of(&field, &[("worktree", Isolation::Worktree)]));
        let limits = fields.take("limits").map(|field| self.limits(&field));
        let schema = self.schema(fields);
        let prompt = self.prompt(prompt, spots);
        AgentStep {
            model: model.map(Into::into),
            sees: sees.unwrap_or_default(),
            isolation,
            limits: limits.unwrap_or_default(),
            is_built_in: self.sources.is_bundled(),
            schema: schema.map(Arc::new),
            ..AgentStep::new(name, agent.unwrap_or_else(|| DEFAULT.to_owned()), prompt)
        }
    }

    fn agent_type(&mut self, field: &Field<'_>) -> Option<String> {
        let name = self.text(field)?;
        let Some(agents) = &self.reading.known.agents else { return Some(name) };
        let known: Vec<&str> = agents.iter().map(String::as_str).collect();
        if !known.iter().any(|known| known.to_lowercase() == name.to_lowercase()) {
            let meant = meant(&name, &known);
            self.error(field.at, format!("there is no agent `{}`{meant}", shown(&name)));
        }
        Some(name)
    }

    fn limits(&mut self, field: &Field<'_>) -> StepLimits {
        let mut limits = StepLimits::default();
        let Some(mut fields) = self.table(field) else { return limits };
        if let Some(field) = fields.take("max_turns") {
            let turns = self.number(&field, (1, u32::MAX.into()));
            limits.max_turns = turns.and_then(|turns| u32::try_from(turns).ok());
        }
        if let Some(field) = fields.take("max_tokens") {
            limits.max_tokens = self.number(&field, (1, u64::MAX)).and_then(NonZeroU64::new);
        }
        if let Some(field) = fields.take("timeout") {
            limits.timeout = self.span(&field);
        }
        self.rest(fields, &LIMITS);
        limits
    }

    fn schema(&mut self, fields: &mut Fields<'_>) -> Option<AnswerSchema> {
        let (here, file) = (fields.take("schema"), fields.take("schema_file"));
        if let (Some(_), Some(file)) = (&here, &file) {
            self.error(file.at, "a step has `schema` or `schema_file`, not both".to_owned());
        }
        let no_schema = |key: &str, why| format!("`{key}` is not a usable JSON Schema: {why}");
        if let Some(field) = here {
            self.table(&field)?;
            let schema = AnswerSchema::of(&self.json(&field)?);
            return schema.map_err(|why| self.error(field.at, no_schema(field.key, why))).ok();
        }
        let field = file?;
        let (path, text) = self.named_text(&field)?;
        let schema = AnswerSchema::parse(text.trim());
        let said = |why| self.reading.findings.error(&path, 1, no_schema(field.key, why));
        schema.map_err(said).ok()
    }

    /// Reads a prompt. What cannot be read is empty, after that was said.
    fn prompt(&mut self, field: &Field<'_>, spots: &mut Spots) -> Wording {
        let read = match field.key {
            "prompt" => self.text(field).map(|text| (Spot::Here(field.value.span()), text.into())),
            _ => self.named_text(field).map(|(path, text)| {
                let text: Arc<str> = text.into();
                (Spot::File(path, Arc::clone(&text)), text)
            }),
        };
        let Some((spot, text)) = read else { return Wording::from("") };
        if text.trim().is_empty() {
            self.error(field.at, format!("`{}` names a prompt without a word", field.key));
        }
        self.wording(TextPlace::Prompt, field.key, (spot, text), spots)
    }

    /// Reads words that may be a template.
    pub(super) fn wording(
        &mut self,
        place: TextPlace,
        key: &str,
        (spot, text): (Spot, Arc<str>),
        spots: &mut Spots,
    ) -> Wording {
        let wording = Wording::parse(text).unwrap_or_else(|error| {
            self.text_error(key, &spot, &error);
            Wording::from("")
        });
        spots.texts.push((place, spot));
        wording
    }

    /// Reads a text that stands in a file of its own.
    fn named_text(&mut self, field: &Field<'_>) -> Option<(PathBuf, String)> {
        let (path, Opened { bytes, .. }) = self.named(field, TEXT_FILE_CAP)?;
        match String::from_utf8(bytes) {
            Ok(text) => Some((path, text)),
            Err(error) => {
                let line = line_in(error.as_bytes(), error.utf8_error().valid_up_to());
                let message = "the file is not UTF-8 text".to_owned();
                self.reading.findings.error(&path, line, message);
                None
            }
        }
    }

    /// Reads a flow file that a field names; a directory means the one in it.
    pub(super) fn named_flow(&mut self, field: &Field<'_>) -> Option<(PathBuf, Opened)> {
        let named = self.text(field)?;
        let within = format!("{named}/{FILE}");
        let found = self.sources.beside(self.path, &named);
        let is_directory = found.is_ok_and(|path| self.sources.is_directory(&path));
        self.opened(field, if is_directory { &within } else { &named }, FILE_CAP)
    }

    /// Reads a file that a field names.
    fn named(&mut self, field: &Field<'_>, cap: usize) -> Option<(PathBuf, Opened)> {
        let named = self.text(field)?;
        self.opened(field, &named, cap)
    }

    fn opened(&mut self, field: &Field<'_>, named: &str, cap: usize) -> Option<(PathBuf, Opened)> {
        let found = self.sources.beside(self.path, named);
        let opened = found.and_then(|path| Ok((self.sources.open(&path, cap)?, path)));
        match opened {
            Ok((opened, path)) => {
                self.reading.bytes += opened.bytes.len();
                if self.reading.bytes > WHOLE_CAP {
                    let message = format!(
                        "with `{}` the flow and all it names have more than {WHOLE_CAP} bytes",
                        shown(named)
                    );
                    self.error(field.at, message);
                    return None;
                }
                Some((path, opened))
            }
            Err(why) => {
                self.error(field.at, format!("`{}` is `{}`: {why}", field.key, shown(named)));
                None
            }
        }
    }
}
