//! The offline model: reviews a change by fixed rules, without any model.
//!
//! It plays its parts through the same calls a real model makes: as `main` it
//! starts a batch of reviewers and merges what they say, as a reviewer it reads
//! files and applies the rules of its angle. Asked for anything else, it says
//! what it is. The rules are in `offline/rules.txt` and `offline/rules.rs`.

mod rules;
mod source;

use std::sync::Arc;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use serde_json::{Value, json};

use self::source::Source;
use super::{Answer, Asker, Chunk, Model, ModelError, ModelErrorKind, Purpose, Request};
use crate::code;
use crate::diff::{self, FileChange};
use crate::event::UnitId;
use crate::message::{Call, CallId, Message, Output, Prefix, Reply, StopReason, Usage};
use crate::prompt;

/// Most files one reviewer reads. The rules look at the diff; the files only
/// show what stands around it.
const READS_CAP: usize = 12;

/// Lines around the hunks of a long file that are read.
const WINDOW: u32 = 100;

/// What a review skill has before its reviewers, each below a heading.
pub const REVIEWERS: &str = "\n## Reviewers\n";

/// What it says when it is asked for something else than a review.
const WHAT_IT_IS: &str = "This is the offline model: fixed rules, no language model. It can only \
    review a change: try `/review`. For anything else add a model under `[models]` in \
    `config.toml`, as `config.example.toml` shows.";

/// Answers by rules.
#[derive(Debug, Clone)]
pub struct Offline(Arc<str>);

impl Offline {
    /// The one there is; its name is `offline`.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "no model is anybody's default")]
    pub fn new() -> Self {
        Self("offline".into())
    }
}

impl Model for Offline {
    fn name(&self) -> &Arc<str> {
        &self.0
    }

    fn respond(&self, request: Request) -> BoxStream<'static, Result<Chunk, ModelError>> {
        let reply = match answer(&request) {
            Ok(reply) => reply,
            Err(error) => return stream::iter([Err(error)]).boxed(),
        };
        let text = (!reply.text.is_empty()).then(|| Ok(Chunk::Text(reply.text.as_str().into())));
        let stop = if reply.calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
        let answer = Answer { reply, usage: Usage::default(), stop };
        stream::iter(text.into_iter().chain([Ok(Chunk::Finished(Box::new(answer)))])).boxed()
    }
}

fn answer(request: &Request) -> Result<Reply, ModelError> {
    let Asker { unit, agent, description, purpose, .. } = &request.asker;
    if *purpose == Purpose::Summary {
        return Err(ModelError::new(ModelErrorKind::Request, WHAT_IT_IS));
    }
    let talk = Talk::of(&request.prefix, *unit);
    if *unit == UnitId::MAIN {
        return Ok(match (reviewers(talk.prompt), talk.outputs.first()) {
            (None, _) => said(WHAT_IT_IS),
            (Some(tasks), None) => talk.ask(vec![("Agent", json!({ "tasks": tasks }))]),
            (Some(_), Some((_, output))) => said(&crate::findings::report(&output.text)),
        });
    }
    if !agent.eq_ignore_ascii_case("reviewer") || !rules::ANGLES.contains(&&**description) {
        return Ok(said(WHAT_IT_IS));
    }
    review(description, &talk)
}

/// The last prompt of a conversation and what was called since.
struct Talk<'a> {
    prompt: &'a str,
    outputs: Vec<(&'a Call, &'a Output)>,
    /// Begins the ids of new calls. A conversation only grows, so none comes
    /// twice in a session.
    id: String,
}

impl<'a> Talk<'a> {
    fn of(prefix: &'a Prefix, unit: UnitId) -> Self {
        let id = format!("offline-{unit}-{}", prefix.entries.len());
        let (mut prompt, mut outputs, mut calls) = ("", Vec::new(), Vec::new());
        for message in prefix.messages() {
            match message {
                Message::User(asked) => (prompt, outputs) = (asked.text.as_ref(), Vec::new()),
                Message::Model(reply) => calls.extend(&reply.calls),
                Message::Output { call, output } => {
                    let asked = calls.iter().rev().find(|asked: &&&Call| asked.id == *call);
                    outputs.extend(asked.map(|asked| (*asked, output.as_ref())));
                }
            }
        }
        Self { prompt, outputs, id }
    }

    fn ask(&self, calls: Vec<(&'static str, Value)>) -> Reply {
        let calls = calls.into_iter().enumerate().map(|(index, (tool, arguments))| Call {
            id: CallId::from(format!("{}-{index}", self.id).as_str()),
            tool: tool.to_owned(),
            arguments: arguments.to_string(),
        });
        Reply { calls: calls.collect(), ..Reply::default() }
    }
}

fn said(text: &str) -> Reply {
    Reply { text: text.to_owned(), ..Reply::default() }
}

/// The tasks of a review skill: one for each `### name` below `## Reviewers`,
/// each with the line that attaches the diff. `None` if it is no such skill.
fn reviewers(prompt: &str) -> Option<Vec<Value>> {
    let (head, sections) = prompt.split_once(REVIEWERS)?;
    let (path, _) = head.split_once("`@")?.1.split_once('`')?;
    let tasks = sections.split("\n### ").skip(1).filter_map(|section| {
        let (name, text) = section.split_once('\n')?;
        let prompt = format!("{}\n\n@{path}", text.trim());
        Some(json!({ "description": name, "prompt": prompt, "subagent_type": "reviewer" }))
    });
    Some(tasks.collect())
}

fn review(angle: &str, talk: &Talk<'_>) -> Result<Reply, ModelError> {
    let (text, whole) = prompt::attached(talk.prompt).ok_or_else(|| {
        ModelError::new(ModelErrorKind::Request, "the diff could not be attached to the task")
    })?;
    let files = diff::parse(text);
    let calls = calls_for(angle, text, &files);
    if talk.outputs.is_empty() && !calls.is_empty() {
        return Ok(talk.ask(calls));
    }
    let sources = files.iter().filter_map(|file| Source::new(file, &talk.outputs));
    let found = rules::apply(angle, &sources.collect::<Vec<_>>(), &talk.outputs);
    let body = if found.is_empty() { "No findings.".to_owned() } else { found.join("\n") };
    let head = "Note: only the head of the diff was checked\n\n";
    let mut notes = if whole { String::new() } else { head.to_owned() };
    let code = changed_code(&files).count();
    if code > READS_CAP {
        notes += &format!("Note: of {code} changed files only {READS_CAP} were read\n\n");
    }
    Ok(said(&format!("Checked for {angle} by fixed rules, without a model.\n\n{notes}{body}")))
}

/// What a reviewer looks at first: the changed code, and for tests what is named like it.
fn calls_for(angle: &str, text: &str, files: &[FileChange]) -> Vec<(&'static str, Value)> {
    let marker = "# File names are relative to ";
    let root = text.lines().take(2).find_map(|line| line.strip_prefix(marker));
    let mut calls = Vec::new();
    for file in changed_code(files).take(READS_CAP) {
        let path = root.map_or(file.path().to_owned(), |root| format!("{root}/{}", file.path()));
        let lines = || file.hunks.iter().flat_map(|hunk| &hunk.lines).map(|line| line.number);
        let (first, last) = (lines().min().unwrap_or(1), lines().max().unwrap_or(1));
        let mut page = json!({ "file_path": path });
        if last > 3 * WINDOW {
            let offset = first.saturating_sub(WINDOW).max(1);
            page["offset"] = offset.into();
            page["limit"] = last.saturating_sub(offset).saturating_add(WINDOW).into();
        }
        calls.push(("Read", page));
        if angle == "tests" {
            let like = format!("**/*{}*", code::stem(file.path()));
            calls.push(("Glob", json!({ "pattern": like })));
            // Rust's tests stand in the file itself, often far below the change.
            let own = json!({ "pattern": r"cfg\(test\)", "path": path, "output_mode": "content" });
            calls.extend(path.ends_with(".rs").then_some(("Grep", own)));
        }
    }
    calls
}

fn changed_code(files: &[FileChange]) -> impl Iterator<Item = &FileChange> {
    files.iter().filter(|file| {
        let path = file.new_path.as_deref();
        !file.hunks.is_empty() && path.and_then(code::language).is_some_and(code::is_code)
    })
}

#[cfg(test)]
mod tests;
