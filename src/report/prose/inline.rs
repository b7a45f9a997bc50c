//! Markdown as rows: what is in a block, and blocks within blocks.
//!
//! A [`Drawing`] walks the events of one piece of Markdown. Which pieces there
//! are, and when they are drawn, `prose` decides.

use pulldown_cmark::{Alignment, Event, LinkType, Options, Parser, Tag, TagEnd};

use super::table::Layout;
use super::wrap::Flow;
use crate::report::ink::Ink;
use crate::report::row::Row;

/// What is read besides plain Markdown.
pub(super) const OPTIONS: Options =
    Options::ENABLE_TABLES.union(Options::ENABLE_STRIKETHROUGH).union(Options::ENABLE_TASKLISTS);

/// Most blocks within one another that are indented; what is deeper is not
/// indented further.
const DEEPEST: usize = 8;

/// Most characters of a link's address.
const ADDRESS_CAP: usize = 200;

/// Returns a piece of Markdown as rows.
pub(super) fn rows(text: &str, columns: usize) -> Vec<Row> {
    Drawing::new(text).blocks(columns, 0, false)
}

/// Returns an item of a list as rows. `number` is its number, if it has one,
/// whatever its writer gave it.
pub(super) fn item(text: &str, columns: usize, number: Option<u64>) -> Vec<Row> {
    let mut drawing = Drawing::new(text);
    match drawing.events.first() {
        Some(Event::Start(Tag::List(_))) => {
            drawing.at = 1;
            drawing.list(columns, 0, number)
        }
        _ => drawing.blocks(columns, 0, true),
    }
}

/// Returns the text of a piece of a paragraph that may begin in its middle.
pub(super) fn words(text: &str) -> Flow {
    // Behind a word nothing begins a block that would not do so in the
    // paragraph itself.
    let guarded = format!("x {text}");
    let mut drawing = Drawing::new(&guarded);
    if let Some(Event::Text(first)) =
        drawing.events.iter_mut().find(|e| matches!(e, Event::Text(_)))
    {
        let rest = first.strip_prefix('x').unwrap_or(first).trim_start().to_owned();
        *first = rest.into();
    }
    let mut flow = Flow::default();
    while drawing.at < drawing.events.len() {
        drawing.inline(&mut flow);
        drawing.at += 1;
    }
    flow
}

/// Returns the alignments, the header and the rows of a table; `None` if the
/// text begins with something else.
pub(super) fn table(text: &str) -> Option<(Vec<Alignment>, Vec<Vec<Flow>>)> {
    let mut drawing = Drawing::new(text);
    let Some(Event::Start(Tag::Table(alignments))) = drawing.events.first() else { return None };
    let alignments = alignments.clone();
    drawing.at = 1;
    Some((alignments, drawing.cells()))
}

/// The events of a piece of Markdown, and how far they are drawn.
struct Drawing<'a> {
    events: Vec<Event<'a>>,
    at: usize,
    /// The inks that what comes next is in; the last one counts.
    inks: Vec<Ink>,
    /// The links that what comes next is in: where to, and the text so far.
    links: Vec<(String, String)>,
}

impl<'a> Drawing<'a> {
    fn new(text: &'a str) -> Self {
        let events = Parser::new_ext(text, OPTIONS).collect();
        Self { events, at: 0, inks: Vec::new(), links: Vec::new() }
    }

    fn next(&mut self) -> Option<Event<'a>> {
        let event = self.events.get(self.at).cloned();
        self.at += 1;
        event
    }

    /// Draws blocks up to the end of what they are in, blank rows between them
    /// unless they stand close.
    fn blocks(&mut self, columns: usize, depth: usize, is_tight: bool) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        // How many blocks are open that are too deep to be indented.
        let mut flat = 0_usize;
        let mut was_paragraph = false;
        while let Some(event) = self.next() {
            let is_paragraph = matches!(event, Event::Start(Tag::Paragraph));
            let block = match event {
                Event::End(_) if flat > 0 => {
                    flat -= 1;
                    continue;
                }
                Event::End(_) => break,
                Event::Start(Tag::BlockQuote(_) | Tag::List(_) | Tag::Item) if depth >= DEEPEST => {
                    flat += 1;
                    continue;
                }
                Event::Start(tag) if is_block(&tag) => self.block(tag, columns, depth),
                Event::Rule => vec![Row::new().text(Ink::Dim, "---").cut(columns)],
                _ => {
                    self.at -= 1;
                    self.text().wrapped(columns)
                }
            };
            if block.is_empty() {
                continue;
            }
            if !rows.is_empty() && (!is_tight || (was_paragraph && is_paragraph)) {
                rows.push(Row::new());
            }
            was_paragraph = is_paragraph;
            rows.extend(block);
        }
        rows
    }

    fn block(&mut self, tag: Tag<'a>, columns: usize, depth: usize) -> Vec<Row> {
        match tag {
            Tag::Heading { level, .. } => {
                let mut flow = Flow::new(Ink::Heading, &"#".repeat(level as usize));
                flow.push(Ink::Heading, " ");
                self.inks.push(Ink::Heading);
                self.until_end(&mut flow);
                self.inks.pop();
                flow.wrapped(columns)
            }
            Tag::BlockQuote(_) => {
                let bar = Row::new().text(Ink::Dim, "| ");
                let rows = self.blocks(columns.saturating_sub(2), depth + 1, false);
                rows.iter().map(|row| bar.clone().row(row)).collect()
            }
            Tag::List(first) => self.list(columns, depth, first),
            Tag::CodeBlock(_) => {
                let code = self.raw();
                let code = code.strip_suffix('\n').unwrap_or(&code);
                code.split('\n').map(|line| Row::new().text(Ink::Plain, line)).collect()
            }
            Tag::HtmlBlock => {
                let html = self.raw();
                let lines = html.trim_end().split('\n');
                lines.flat_map(|line| Flow::new(Ink::Plain, line).wrapped(columns)).collect()
            }
            Tag::Table(alignments) => {
                let mut rows = self.cells();
                let header = if rows.is_empty() { Vec::new() } else { rows.remove(0) };
                let layout = Layout::new(&alignments, &header, &rows, columns);
                let body = rows.iter().flat_map(|cells| layout.row(cells));
                layout.head().into_iter().chain(body).collect()
            }
            _ => {
                let mut flow = Flow::default();
                self.until_end(&mut flow);
                flow.wrapped(columns)
            }
        }
    }

    /// Draws the items of a list, up to its end.
    fn list(&mut self, columns: usize, depth: usize, first: Option<u64>) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut number = first;
        while let Some(Event::Start(_)) = self.next() {
            let mark = match number {
                Some(number) => format!("{number}. "),
                None => "- ".to_owned(),
            };
            number = number.map(|number| number.saturating_add(1));
            let mark = Row::new().text(Ink::Plain, &mark);
            let indent = Row::new().padded(mark.columns());
            let item = self.blocks(columns.saturating_sub(mark.columns()), depth + 1, true);
            if item.is_empty() {
                rows.push(mark);
                continue;
            }
            let marks = std::iter::once(&mark).chain(std::iter::repeat(&indent));
            rows.extend(item.iter().zip(marks).map(|(row, mark)| mark.clone().row(row)));
        }
        rows
    }

    /// Reads the rows of a table up to its end, the header first.
    fn cells(&mut self) -> Vec<Vec<Flow>> {
        let mut rows = Vec::new();
        while let Some(event) = self.next() {
            match event {
                Event::Start(Tag::TableHead | Tag::TableRow) => rows.push(Vec::new()),
                Event::Start(Tag::TableCell) => {
                    let mut cell = Flow::default();
                    self.until_end(&mut cell);
                    if let Some(row) = rows.last_mut() {
                        row.push(cell);
                    }
                }
                Event::End(TagEnd::Table) => break,
                _ => {}
            }
        }
        rows
    }

    /// Reads text up to the end of the block that it is in.
    fn raw(&mut self) -> String {
        let mut text = String::new();
        while let Some(event) = self.next() {
            match event {
                Event::End(_) => break,
                Event::Text(piece) | Event::Html(piece) => text.push_str(&piece),
                _ => {}
            }
        }
        text
    }

    /// Reads text that stands in an item without a paragraph.
    fn text(&mut self) -> Flow {
        let mut flow = Flow::default();
        let mut open = 0_usize;
        while let Some(event) = self.events.get(self.at) {
            match event {
                Event::Start(tag) if is_block(tag) => break,
                Event::Rule => break,
                Event::Start(_) => open += 1,
                Event::End(_) if open == 0 => break,
                Event::End(_) => open -= 1,
                _ => {}
            }
            self.inline(&mut flow);
            self.at += 1;
        }
        flow
    }

    /// Reads text up to the end of the block that it is in.
    fn until_end(&mut self, flow: &mut Flow) {
        let mut open = 1_usize;
        while let Some(event) = self.events.get(self.at) {
            match event {
                Event::Start(_) => open += 1,
                Event::End(_) => open -= 1,
                _ => {}
            }
            if open > 0 {
                self.inline(flow);
            }
            self.at += 1;
            if open == 0 {
                break;
            }
        }
    }

    /// Draws the event that is next, which stays it.
    fn inline(&mut self, flow: &mut Flow) {
        let Some(event) = self.events.get(self.at).cloned() else { return };
        let ink = self.inks.last().copied().unwrap_or_default();
        match event {
            Event::Text(text) | Event::InlineHtml(text) | Event::Html(text) => {
                if let Some((_, so_far)) = self.links.last_mut() {
                    so_far.push_str(&text);
                }
                flow.push(ink, &text);
            }
            Event::Code(code) => {
                let ink = if ink == Ink::Plain { Ink::Code } else { ink };
                flow.push(ink, &format!("`{code}`"));
            }
            Event::SoftBreak => flow.push(ink, " "),
            Event::HardBreak => flow.line_break(),
            Event::TaskListMarker(is_done) => {
                flow.push(ink, if is_done { "[x] " } else { "[ ] " });
            }
            Event::Start(tag) => self.begin(tag, ink),
            Event::End(tag) => self.end(tag, flow),
            Event::InlineMath(_)
            | Event::DisplayMath(_)
            | Event::FootnoteReference(_)
            | Event::Rule => {}
        }
    }

    fn begin(&mut self, tag: Tag<'a>, ink: Ink) {
        let within = |own: Ink| if ink == Ink::Heading { ink } else { own };
        match tag {
            Tag::Emphasis => self.inks.push(within(Ink::Emphasis)),
            Tag::Strong => self.inks.push(within(Ink::Strong)),
            Tag::Strikethrough => self.inks.push(within(Ink::Struck)),
            Tag::Link { link_type, dest_url, .. } | Tag::Image { link_type, dest_url, .. } => {
                self.inks.push(within(Ink::Link));
                let is_bare = matches!(link_type, LinkType::Autolink | LinkType::Email);
                let address = if is_bare { String::new() } else { dest_url.into_string() };
                self.links.push((address, String::new()));
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd, flow: &mut Flow) {
        if matches!(tag, TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough) {
            self.inks.pop();
        }
        if matches!(tag, TagEnd::Link | TagEnd::Image) {
            self.inks.pop();
            if let Some((address, text)) = self.links.pop()
                && !address.is_empty()
                && address != text
            {
                let address: String = address.chars().take(ADDRESS_CAP).collect();
                flow.push(Ink::Dim, &format!(" ({address})"));
            }
        }
    }
}

fn is_block(tag: &Tag<'_>) -> bool {
    matches!(
        tag,
        Tag::Paragraph
            | Tag::Heading { .. }
            | Tag::BlockQuote(_)
            | Tag::CodeBlock(_)
            | Tag::HtmlBlock
            | Tag::List(_)
            | Tag::Item
            | Tag::Table(_)
            | Tag::FootnoteDefinition(_)
            | Tag::DefinitionList
            | Tag::MetadataBlock(_)
    )
}
