//! A session's log as a Markdown document: to read, to keep, to hand on.
//!
//! The main conversation stands in the order it happened. Agents work side by
//! side, so the part of each is kept back until it ends, and then stands as one
//! under a heading of its own. Outputs are there as the models read them,
//! folded, images only by name and size. What text does to the document around it is in `text`.

mod text;

use std::borrow::{Borrow, Cow};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use crate::event::{
    Compaction, Event, EventKind, InvocationEnd, Replied, SessionHead, UnitEnd, UnitHead, UnitId,
    UnixMillis,
};
use crate::message::{CallId, Output};
use crate::tool_name::may_wait_for_agents;

use super::answer::StdoutKind;
use super::result::{Ending, Tally};
use super::unfinished::{Progress, Writer, unfinished_lines};
use super::units::{Unit, Units};
use super::viewer::View;
use super::{sanitise, words};

/// Most bytes of an agent's part that are kept back. A longer one is written in
/// pieces, with what others said in between.
const PART_CAP: usize = 4 * 1024 * 1024;

/// Most characters of the title.
const TITLE_CAP: usize = 100;

/// Most lines of a message to a unit that are shown unfolded. Agents and skills
/// are given whole files.
const QUOTE_LINES: usize = 20;

/// What of a session is written, and for whom.
#[derive(Debug, Clone)]
pub struct Document<'a> {
    /// The title; `None` for the first prompt.
    pub name: Option<&'a str>,
    /// What of it is shown.
    pub view: View,
    /// Why the log ends in the middle, if it does.
    pub writer: Writer,
    /// Where it goes: a terminal gets what it would obey as escapes, a file
    /// gets the text without control characters.
    pub kind: StdoutKind,
}

/// Writes the events of a log, oldest first, as Markdown.
///
/// # Errors
///
/// Fails as soon as `out` does.
pub fn markdown(
    events: impl Iterator<Item = impl Borrow<Event>>,
    document: &Document<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut page = Page {
        document,
        out,
        head: None,
        has_title: false,
        typed: Arc::default(),
        is_open: false,
        under: UnitId::MAIN,
        parts: BTreeMap::new(),
        calls: Vec::new(),
        units: Units::default(),
        tally: Tally::default(),
    };
    let mut progress = Progress::default();
    for event in events {
        progress.take(event.borrow());
        page.take(event.borrow())?;
    }
    page.finish(&progress)
}

/// The document as far as it is written.
struct Page<'a> {
    document: &'a Document<'a>,
    out: &'a mut dyn Write,
    head: Option<(UnixMillis, SessionHead)>,
    has_title: bool,
    /// The prompt of this invocation.
    typed: Arc<str>,
    /// Whether this invocation has no end yet.
    is_open: bool,
    /// Whose heading was the last.
    under: UnitId,
    /// What is kept back of agents that have not ended.
    parts: BTreeMap<UnitId, Part>,
    /// Calls without an output, in the order they began.
    calls: Vec<Call>,
    units: Units,
    tally: Tally,
}

/// What is kept back of an agent.
struct Part {
    heading: String,
    text: String,
}

/// A call that has begun, or was refused.
struct Call {
    unit: UnitId,
    id: CallId,
    /// What it is, in a few words.
    words: String,
    was_denied: bool,
    /// Whether it waits for agents, which come before its output.
    waits: bool,
}

impl Call {
    fn of(unit: UnitId, id: &CallId) -> Self {
        Self { unit, id: id.clone(), words: String::new(), was_denied: false, waits: false }
    }
}

impl Page<'_> {
    fn opened(&mut self, at: UnixMillis, head: &SessionHead) -> io::Result<()> {
        self.head = Some((at, head.clone()));
        Ok(())
    }

    fn take(&mut self, event: &Event) -> io::Result<()> {
        let ended = self.units.take(event);
        let ending = self.tally.take(event);
        if !self.document.view.sees(event) {
            return Ok(());
        }
        let unit = event.unit;
        match &event.kind {
            EventKind::SessionOpened(head) => self.opened(event.at, head),
            EventKind::InvocationStarted { prompt, .. } => {
                self.typed = Arc::clone(prompt);
                self.invocation(event.invocation.0)
            }
            EventKind::Prompted(prompt) => self.prompted(unit, &words::prompt(prompt)),
            EventKind::Notified { children: _, text, wrote: _ } => self.quoted(unit, "news", text),
            EventKind::UserWrote { text } => self.quoted(unit, "message", text),
            EventKind::UserTookBack => self.note(unit, words::TOOK_BACK),
            EventKind::SetAside { units } => self.note(unit, &words::set_aside(units)),
            EventKind::Rewound { to } => self.note(unit, &words::rewound(*to)),
            EventKind::Lost { worker, attempt } => self.note(unit, &words::lost(worker, *attempt)),
            EventKind::Walked(head) => self.note(unit, &words::walked(head)),
            EventKind::Compacted(compaction) => self.compacted(unit, compaction),
            EventKind::UnitQueued(head) => self.queued(unit, head),
            EventKind::Replied(replied) => self.replied(unit, replied),
            EventKind::ToolStarted { call, tool, subject, confinement: _ } => {
                self.started(unit, call, tool, subject)
            }
            EventKind::ToolFinished { call, tool, output, took_ms } => {
                let call = self.close(unit, call, tool);
                let end = call_end(&call, output, *took_ms);
                self.add(unit, &format!("{} {end}", text::code(&call.words)))?;
                self.output(unit, output)
            }
            EventKind::Worktree(worktree) => self.note(unit, &words::worktree(worktree)),
            EventKind::HookRan(ran) => self.note(unit, &words::hook_ran(ran)),
            EventKind::Denied { call, tool, arguments, reason: _ } => {
                let words = words::call(tool, arguments);
                self.calls.push(Call { words, was_denied: true, ..Call::of(unit, call) });
                Ok(())
            }
            EventKind::UnitEnded(end) => self.unit_ended(unit, ended.as_ref(), end),
            EventKind::Answered { id: _, question, answer } => {
                self.note(unit, &words::answered(question, answer))
            }
            EventKind::Notice { level, text } => self.note(unit, &words::notice(*level, text)),
            EventKind::Throttled(throttled) => self.note(unit, &words::throttled(throttled)),
            EventKind::Admitted { waited_ms } => self.note(unit, &words::admitted(*waited_ms)),
            EventKind::RequestFailed(failed) => self.note(unit, &words::request_failed(failed)),
            EventKind::InvocationEnded(end) => {
                ending.map_or(Ok(()), |ending| self.ended(end, &ending))
            }
            EventKind::UnitStarted
            | EventKind::TurnStarted { .. }
            | EventKind::PrefixShared(_)
            | EventKind::FileChanged(_)
            | EventKind::Asked { .. }
            | EventKind::Chosen(_)
            | EventKind::Offered(_)
            | EventKind::Left
            | EventKind::Joined { .. } => Ok(()),
        }
    }

    fn queued(&mut self, unit: UnitId, head: &UnitHead) -> io::Result<()> {
        let part = Part { heading: heading(unit, head), text: String::new() };
        self.parts.insert(unit, part);
        Ok(())
    }

    fn finish(mut self, progress: &Progress) -> io::Result<()> {
        self.title()?;
        if self.document.writer == Writer::Gone {
            self.cut_off()?;
        }
        self.flush_all()?;
        if let Some(unfinished) = progress.unfinished() {
            writeln!(self.out, "---\n")?;
            for line in unfinished_lines(&unfinished, self.document.writer) {
                writeln!(self.out, "{}\n", text::escape(&line))?;
            }
        }
        self.out.flush()
    }

    /// Writes title and facts, once.
    fn title(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.has_title, true) {
            return Ok(());
        }
        let prompt = self.typed.trim().lines().next().filter(|line| !line.is_empty());
        let title = self.document.name.or(prompt).unwrap_or("A session");
        writeln!(self.out, "# {}\n", text::escape(&words::short_line(title, TITLE_CAP)))?;
        let Some((at, head)) = self.head.take() else { return Ok(()) };
        let SessionHead { session, version, cwd, model, mode, forked_from, sandbox: _ } = &head;
        let begun = words::utc_time(at);
        let facts = [("session", &*session.0), ("directory", cwd), ("model", model)];
        let origin = forked_from.as_ref().map(|origin| ("forked from", &*origin.0));
        let rest = [("permissions", &**mode), ("begun", &begun), ("tine", version)];
        for (name, fact) in facts.into_iter().chain(origin).chain(rest) {
            writeln!(self.out, "- {name}: {}", text::code(&sanitise::line(fact)))?;
        }
        writeln!(self.out)
    }

    fn invocation(&mut self, number: u32) -> io::Result<()> {
        self.title()?;
        // If the one before has no end, its process is gone with all it did.
        if std::mem::replace(&mut self.is_open, true) {
            self.cut_off()?;
        }
        self.flush_all()?;
        self.under = UnitId::MAIN;
        let prompt = text::quote(&self.clean(&self.typed));
        writeln!(self.out, "## Prompt {number}\n\n{prompt}\n")
    }

    fn prompted(&mut self, unit: UnitId, text: &str) -> io::Result<()> {
        // What was typed stands there already; what surrounds it is the same
        // for every prompt.
        if unit == UnitId::MAIN && !self.typed.is_empty() && text.ends_with(&*self.typed) {
            return Ok(());
        }
        self.quoted(unit, "prompt", text)
    }

    /// Quotes a message to a unit, folded if it is long. What it is called is
    /// our word.
    fn quoted(&mut self, unit: UnitId, what: &str, text: &str) -> io::Result<()> {
        let quote = text::quote(&self.clean(text));
        match quote.lines().count() {
            0..=QUOTE_LINES => self.add(unit, &quote),
            lines => self.add(unit, &text::folded(&format!("{what}, {lines} lines"), &quote)),
        }
    }

    fn compacted(&mut self, unit: UnitId, compaction: &Compaction) -> io::Result<()> {
        self.note(unit, &words::compaction(compaction))?;
        self.quoted(unit, "summary", &compaction.text)
    }

    fn unit_ended(&mut self, unit: UnitId, known: Option<&Unit>, end: &UnitEnd) -> io::Result<()> {
        if known.is_none_or(|known| known.tells(end)) {
            self.note(unit, &words::unit_end(end))?;
        }
        self.flush(unit)
    }

    fn replied(&mut self, unit: UnitId, replied: &Replied) -> io::Result<()> {
        let thinking = self.clean(replied.reply.thinking.trim()).into_owned();
        if !thinking.is_empty() {
            self.add(unit, &text::folded("thinking", &text::quote(&thinking)))?;
        }
        let answer = text::closed(&self.clean(replied.reply.text.trim_end()));
        self.add(unit, &answer)
    }

    fn started(
        &mut self,
        unit: UnitId,
        call: &CallId,
        tool: &str,
        subject: &str,
    ) -> io::Result<()> {
        let (words, waits) = (words::call(tool, subject), may_wait_for_agents(tool));
        let line = waits.then(|| text::code(&words));
        self.calls.push(Call { words, waits, ..Call::of(unit, call) });
        line.map_or(Ok(()), |line| self.add(unit, &line))
    }

    /// Forgets a call that is over, and returns what was known of it. Some are
    /// refused before they begin.
    fn close(&mut self, unit: UnitId, id: &CallId, tool: &str) -> Call {
        let is_it = |open: &Call| open.unit == unit && open.id == *id;
        match self.calls.iter().position(is_it) {
            Some(place) => self.calls.remove(place),
            None => Call { words: words::call(tool, ""), ..Call::of(unit, id) },
        }
    }

    fn output(&mut self, unit: UnitId, output: &Output) -> io::Result<()> {
        let said = self.clean(output.text.trim_end_matches('\n')).into_owned();
        match said.lines().count() {
            0 => {}
            1 => self.add(unit, &text::folded("output, 1 line", &text::block(&said)))?,
            lines => {
                let summary = format!("output, {lines} lines");
                self.add(unit, &text::folded(&summary, &text::block(&said)))?;
            }
        }
        match &output.images[..] {
            [] => Ok(()),
            images => self.add(unit, &format!("({})", words::images(images))),
        }
    }

    fn ended(&mut self, end: &InvocationEnd, ending: &Ending) -> io::Result<()> {
        self.is_open = false;
        self.flush_all()?;
        for line in words::closing_lines(end, self.units.counts(), ending) {
            self.note(UnitId::MAIN, &line)?;
        }
        Ok(())
    }

    /// Says of each call without an output that it will have none.
    fn cut_off(&mut self) -> io::Result<()> {
        let calls = std::mem::take(&mut self.calls);
        calls.iter().filter(|call| !call.waits).try_for_each(|call| {
            let line = format!("{} was cut off; what it did is unknown", text::code(&call.words));
            self.add(call.unit, &line)
        })
    }

    /// Adds a line of our own words to what a unit said.
    fn note(&mut self, unit: UnitId, line: &str) -> io::Result<()> {
        self.add(unit, &text::escape(line))
    }

    /// Adds a paragraph, or several, to what a unit said.
    fn add(&mut self, unit: UnitId, paragraph: &str) -> io::Result<()> {
        if paragraph.is_empty() {
            return Ok(());
        }
        self.title()?;
        if unit == UnitId::MAIN {
            if self.under != UnitId::MAIN {
                self.under = UnitId::MAIN;
                writeln!(self.out, "### main\n")?;
            }
            return writeln!(self.out, "{paragraph}\n");
        }
        let part = self.parts.entry(unit).or_insert_with(|| {
            // Its beginning cannot be read.
            Part { heading: unit.to_string(), text: String::new() }
        });
        part.text.push_str(paragraph);
        part.text.push_str("\n\n");
        if part.text.len() > PART_CAP { self.flush_piece(unit) } else { Ok(()) }
    }

    /// Writes what is kept back of a unit that has ended.
    fn flush(&mut self, unit: UnitId) -> io::Result<()> {
        self.flush_piece(unit)?;
        self.parts.remove(&unit);
        Ok(())
    }

    fn flush_all(&mut self) -> io::Result<()> {
        let units: Vec<UnitId> = self.parts.keys().copied().collect();
        units.into_iter().try_for_each(|unit| self.flush_piece(unit))
    }

    fn flush_piece(&mut self, unit: UnitId) -> io::Result<()> {
        let Some(part) = self.parts.get_mut(&unit).filter(|part| !part.text.is_empty()) else {
            return Ok(());
        };
        write!(self.out, "### {}\n\n{}", part.heading, part.text)?;
        part.text.clear();
        if !part.heading.ends_with(CONTINUED) {
            part.heading.push_str(CONTINUED);
        }
        self.under = unit;
        Ok(())
    }

    fn clean<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.document.kind {
            StdoutKind::Terminal => sanitise::text(text),
            StdoutKind::Other => text::plain(text),
        }
    }
}

/// Stands behind the heading of a part that has been begun before.
const CONTINUED: &str = ", continued";

fn heading(unit: UnitId, head: &UnitHead) -> String {
    let agent = words::short_line(&head.agent, TITLE_CAP);
    let name = text::escape(&format!("{} ({agent})", words::unit_name(unit, head)));
    let beside = if head.is_background { ", in the background" } else { "" };
    match head.parent {
        UnitId::MAIN => format!("{unit}: {name}{beside}"),
        parent => format!("{unit}: {name}, for {parent}{beside}"),
    }
}

fn call_end(call: &Call, output: &Output, took_ms: u64) -> String {
    let took = words::duration(took_ms);
    match (call.was_denied, output.is_error) {
        (true, _) => "was denied".to_owned(),
        (false, true) => format!("gave an error after {took}"),
        (false, false) => format!("took {took}"),
    }
}

#[cfg(test)]
mod tests;
