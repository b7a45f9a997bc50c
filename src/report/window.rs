//! What fills a conversation's context window, part by part.
//!
//! A fold over the history that a request would send now. How many tokens it
//! has is what compaction goes by: the provider's own count and an estimate of
//! what came since. How they are shared out follows from the lengths of the
//! texts, since no provider counts parts.

use crate::agent::{History, size};
use crate::mcp::name::PREFIX;
use crate::message::{Message, Prefix, ToolSchema, short_number};

use super::ink::Ink;
use super::row::Row;

/// Most columns of the bar.
const BAR_CAP: usize = 80;

/// Where the figures of the parts begin, and how wide they are.
const NAME_COLUMNS: usize = 18;
const TOKENS_COLUMNS: usize = 6;
const SHARE_COLUMNS: usize = 5;

/// A conversation and what is known of it beside its messages.
#[derive(Debug, Clone, Copy)]
pub struct Conversation<'a> {
    /// What a request made now would send.
    pub history: &'a History,
    /// What of its system prompt is its unit's own.
    pub own: &'a str,
    /// What of its system prompt are instructions of the user and the project.
    pub instructions: &'a str,
    /// The message that stands for what was summed up, if something was.
    pub summary: Option<&'a str>,
}

/// The bounds of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Most tokens of a request and its answer; `None` if nothing bounds them.
    pub tokens: Option<u64>,
    /// The tokens from which on the conversation is summed up; `None` for
    /// never.
    pub compacts_at: Option<u64>,
}

/// What a window is filled with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Each part and its tokens, in the order in which they are sent.
    pub parts: Vec<(Part, u64)>,
    /// Whether the provider has counted them, at least once.
    pub is_counted: bool,
    /// Its bounds.
    pub bounds: Bounds,
}

/// A part of what is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The unit's own system prompt.
    System,
    /// The user's and the project's instructions.
    Instructions,
    /// The list of skills.
    Skills,
    /// What the tools are for, and how they are called.
    Tools,
    /// The same of tools of servers.
    Served,
    /// What stands for what was summed up.
    Summary,
    /// What the user asked, and news of units beside.
    Prompts,
    /// What the model said, its calls too.
    Answers,
    /// Its reasoning, where its provider wants that back.
    Thinking,
    /// What came of the calls.
    Outputs,
}

impl Part {
    /// Every part, in the order in which they are listed.
    pub const ALL: [Self; 10] = [
        Self::System,
        Self::Instructions,
        Self::Skills,
        Self::Tools,
        Self::Served,
        Self::Summary,
        Self::Prompts,
        Self::Answers,
        Self::Thinking,
        Self::Outputs,
    ];

    /// Returns what people call it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system prompt",
            Self::Instructions => "instructions",
            Self::Skills => "skills",
            Self::Tools => "tools",
            Self::Served => "tools of servers",
            Self::Summary => "summary",
            Self::Prompts => "prompts",
            Self::Answers => "answers",
            Self::Thinking => "thinking",
            Self::Outputs => "tool outputs",
        }
    }

    fn ink(self) -> Ink {
        match self {
            Self::System | Self::Instructions | Self::Skills | Self::Tools | Self::Served => {
                Ink::Dim
            }
            Self::Summary => Ink::Caution,
            Self::Prompts => Ink::Typed,
            Self::Answers => Ink::Plain,
            Self::Thinking => Ink::Emphasis,
            Self::Outputs => Ink::Code,
        }
    }
}

impl Window {
    /// Weighs the parts of a conversation.
    #[must_use]
    pub fn of(conversation: Conversation<'_>, bounds: Bounds) -> Self {
        let history = conversation.history;
        let weights = Part::ALL.map(|part| conversation.weight(part));
        let all: u64 = weights.iter().sum();
        let tokens = history.tokens();
        // Rounded so that the parts are the whole.
        let upto = |weight: u64| {
            let share = u128::from(tokens) * u128::from(weight) / u128::from(all.max(1));
            u64::try_from(share).expect("a share is no more than the whole")
        };
        let mut before = 0;
        let parts = Part::ALL.into_iter().zip(weights).map(|(part, weight)| {
            let share = upto(before + weight) - upto(before);
            before += weight;
            (part, share)
        });
        Self { parts: parts.collect(), is_counted: history.is_counted(), bounds }
    }

    /// Returns the tokens of all parts.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.parts.iter().map(|(_, tokens)| tokens).sum()
    }

    /// Draws it: a bar, and a line for each part.
    #[must_use]
    pub fn rows(&self, model: &str, columns: u16) -> Vec<Row> {
        let tokens = self.tokens();
        let mut first = Row::new().text(Ink::Strong, model);
        let room = self.bounds.tokens;
        let whole = room.unwrap_or(tokens);
        let sum = match room {
            Some(most) => {
                let (tokens, share) = (short_number(tokens), share_of(tokens, most));
                format!("  {tokens} of {} tokens  {share}", short_number(most))
            }
            None => format!("  {} tokens", short_number(tokens)),
        };
        first.push(Ink::Plain, &sum);
        let mut rows = vec![first];
        if room.is_some() {
            rows.push(self.bar(whole, usize::from(columns)));
        }
        let filled = self.parts.iter().filter(|(_, tokens)| *tokens > 0);
        rows.extend(filled.map(|&(part, tokens)| line((part.as_str(), part.ink()), tokens, whole)));
        if let Some(most) = room {
            rows.push(line(("free", Ink::Dim), most.saturating_sub(tokens), most));
        }
        rows.extend(self.notes().iter().map(|note| Row::new().text(Ink::Dim, note)));
        rows
    }

    fn notes(&self) -> [String; 2] {
        let compacts = match (self.bounds.compacts_at, self.bounds.tokens) {
            (Some(at), Some(most)) => {
                let share = share_of(at, most);
                format!("summed up from {} on ({share}, at `|`)", short_number(at))
            }
            (None, Some(_)) => "never summed up by itself".to_owned(),
            (Some(_) | None, None) => "this model's window has no known end".to_owned(),
        };
        let counted = match self.is_counted {
            true => "counted; the parts follow their lengths",
            false => "an estimate: nobody has counted yet",
        };
        [compacts, counted.to_owned()]
    }

    /// Returns a bar as long as the window: what is filled, and where the
    /// conversation is summed up.
    fn bar(&self, most: u64, columns: usize) -> Row {
        let cells = columns.saturating_sub(2).clamp(1, BAR_CAP);
        let cell = |tokens: u64| {
            let place = u128::from(tokens) * cells as u128 / u128::from(most.max(1));
            usize::try_from(place).unwrap_or(cells).min(cells)
        };
        let compacts = self.bounds.compacts_at.map(|at| cell(at).min(cells - 1));
        let mut row = Row::new().text(Ink::Dim, "[");
        let (mut tokens, mut drawn) = (0_u64, 0);
        for &(part, share) in &self.parts {
            tokens = tokens.saturating_add(share);
            let end = cell(tokens);
            row.push(part.ink(), &"#".repeat(end - drawn));
            drawn = end;
        }
        // Something is there, however little of the window that is.
        if drawn == 0 && tokens > 0 {
            row.push(Ink::Dim, "#");
            drawn = 1;
        }
        for place in drawn..cells {
            let is_mark = compacts == Some(place);
            row.push(
                if is_mark { Ink::Caution } else { Ink::Dim },
                if is_mark { "|" } else { "." },
            );
        }
        row.text(Ink::Dim, "]")
    }
}

impl Conversation<'_> {
    /// Returns how much of what is sent is in a part, as if nobody had counted.
    fn weight(&self, part: Part) -> u64 {
        let Prefix { head, entries } = self.history.prefix();
        let (own, instructions) = (size::of_text(self.own), size::of_text(self.instructions));
        let of_tool = |tool: &ToolSchema| {
            let texts = [&*tool.name, &*tool.description, tool.parameters.get()];
            texts.into_iter().map(size::of_text).sum::<u64>()
        };
        let messages = || entries.iter().map(|entry| &entry.message);
        let is_summary = |text: &str| self.summary == Some(text);
        match part {
            Part::System => own,
            Part::Instructions => instructions,
            Part::Skills => size::of_text(&head.system).saturating_sub(own + instructions),
            Part::Tools | Part::Served => {
                let wanted = part == Part::Served;
                let tools = head.tools.iter();
                tools.filter(|it| it.name.starts_with(PREFIX) == wanted).map(of_tool).sum()
            }
            Part::Summary | Part::Prompts => {
                let wanted = part == Part::Summary;
                let of_message = |message: &Message| match message {
                    Message::User(prompt) if is_summary(&prompt.text) == wanted => {
                        size::of_message(message)
                    }
                    Message::User(_) | Message::Model(_) | Message::Output { .. } => 0,
                };
                messages().map(of_message).sum()
            }
            Part::Answers => {
                let is_answer = |message: &&Message| matches!(message, Message::Model(_));
                messages().filter(is_answer).map(size::of_message).sum()
            }
            Part::Thinking => {
                // An estimate does not know of it.
                let counts = self.history.is_counted();
                let of_message = |message: &Message| match message {
                    Message::Model(reply) if counts && reply.sealed.is_some() => {
                        size::of_text(&reply.thinking)
                    }
                    Message::User(_) | Message::Model(_) | Message::Output { .. } => 0,
                };
                messages().map(of_message).sum()
            }
            Part::Outputs => {
                let is_output = |message: &&Message| matches!(message, Message::Output { .. });
                messages().filter(is_output).map(size::of_message).sum()
            }
        }
    }
}

fn line((name, ink): (&str, Ink), tokens: u64, whole: u64) -> Row {
    let (tokens, share) = (short_number(tokens), share_of(tokens, whole));
    let figures = format!("{tokens:>TOKENS_COLUMNS$}{share:>SHARE_COLUMNS$}");
    let name = Row::new().text(Ink::Plain, "  ").text(ink, name).padded(NAME_COLUMNS);
    name.text(Ink::Plain, &figures)
}

/// Returns a share in percent, rounded down.
fn share_of(tokens: u64, whole: u64) -> String {
    match u128::from(tokens) * 100 / u128::from(whole.max(1)) {
        0 if tokens > 0 => "<1%".to_owned(),
        share => format!("{share}%"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use insta::assert_snapshot;

    use super::*;
    use crate::event::testing::{finished, prompted};
    use crate::event::{Compaction, CompactionTrigger, EventKind, Replied};
    use crate::message::{Call, Head, Output, Reply, Sealed, StopReason, Usage};

    const OWN: &str = "You help with this and that.";
    const INSTRUCTIONS: &str = "Use tabs.";

    fn text(tokens: usize) -> String {
        "x".repeat(4 * tokens)
    }

    fn replied(reply: Reply, usage: Usage) -> EventKind {
        let (reply, model) = (Arc::new(reply), "m".into());
        EventKind::Replied(Replied { reply, model, usage, stop: StopReason::ToolUse, took_ms: 1 })
    }

    /// A conversation with something of every part.
    fn events(counted: u64) -> [EventKind; 6] {
        let call = Call { id: "Read".into(), tool: "Read".into(), arguments: text(99) };
        let reply = Reply {
            text: text(1_900),
            thinking: text(500),
            calls: vec![call],
            sealed: Some(Sealed { by: "m".into(), json: "{}".into() }),
        };
        let compaction = Compaction {
            trigger: CompactionTrigger::Auto,
            text: text(3_000).into(),
            kept_prompts: 0,
            tokens_before: 0,
            tokens_after: 0,
            model: "m".into(),
            usage: Usage::default(),
            took_ms: 1,
        };
        [
            prompted("gone"),
            replied(Reply::default(), Usage::default()),
            EventKind::Compacted(Arc::new(compaction)),
            prompted(&text(1_000)),
            replied(reply, Usage { input: counted, ..Usage::default() }),
            finished("Read", Output::ok(text(4_000))),
        ]
    }

    #[track_caller]
    fn shown(counted: u64, bounds: Bounds, columns: u16) -> String {
        let system = format!("{OWN}\n\n{INSTRUCTIONS}\n\n{}", text(100));
        let parameters = serde_json::value::to_raw_value(&text(300)).unwrap();
        let tool = ToolSchema { name: "Read".into(), description: text(99), parameters };
        let head = Arc::new(Head::new(system, vec![tool]));
        let events = events(counted);
        let history = History::of(head, &events);
        let summary = text(3_000);
        let conversation = Conversation {
            history: &history,
            own: OWN,
            instructions: INSTRUCTIONS,
            summary: Some(&summary),
        };
        let window = Window::of(conversation, bounds);
        assert_eq!(window.tokens(), history.tokens());
        let rows = window.rows("fast", columns);
        assert!(rows.iter().all(|row| row.columns() <= usize::from(columns).max(40)), "{rows:?}");
        rows.iter().map(|row| row.plain() + "\n").collect()
    }

    #[test]
    fn the_window_is_drawn_with_every_part_of_it() {
        let bounds = Bounds { tokens: Some(40_000), compacts_at: Some(32_000) };
        assert_snapshot!(shown(0, bounds, 72), @"
        fast  10.5k of 40.0k tokens  26%
        [##################......................................|.............]
          system prompt        6  <1%
          instructions         3  <1%
          skills             101  <1%
          tools              401   1%
          summary           3.0k   7%
          prompts           1.0k   2%
          answers           2.0k   5%
          tool outputs      4.0k  10%
          free             29.4k  73%
        summed up from 32.0k on (80%, at `|`)
        an estimate: nobody has counted yet
        ");
    }

    #[test]
    fn the_parts_are_as_large_together_as_the_provider_says() {
        let bounds = Bounds { tokens: Some(200_000), compacts_at: None };
        assert_snapshot!(shown(50_000, bounds, 40), @"
        fast  54.0k of 200k tokens  27%
        [##########............................]
          system prompt       34  <1%
          instructions        15  <1%
          skills             495  <1%
          tools             1.9k  <1%
          summary          14.7k   7%
          prompts           4.9k   2%
          answers           9.8k   4%
          thinking          2.4k   1%
          tool outputs     19.6k   9%
          free              146k  73%
        never summed up by itself
        counted; the parts follow their lengths
        ");
    }

    #[test]
    fn a_window_without_an_end_has_no_bar() {
        assert_snapshot!(shown(0, Bounds { tokens: None, compacts_at: None }, 80), @"
        fast  10.5k tokens
          system prompt        6  <1%
          instructions         3  <1%
          skills             101  <1%
          tools              401   3%
          summary           3.0k  28%
          prompts           1.0k   9%
          answers           2.0k  19%
          tool outputs      4.0k  38%
        this model's window has no known end
        an estimate: nobody has counted yet
        ");
    }

    #[test]
    fn more_than_the_window_holds_fills_the_bar() {
        let bounds = Bounds { tokens: Some(1_000), compacts_at: Some(800) };
        assert_snapshot!(shown(0, bounds, 12), @"
        fast  10.5k of 1.0k tokens  1051%
        [##########]
          system prompt        6  <1%
          instructions         3  <1%
          skills             101  10%
          tools              401  40%
          summary           3.0k 300%
          prompts           1.0k 100%
          answers           2.0k 200%
          tool outputs      4.0k 400%
          free                 0   0%
        summed up from 800 on (80%, at `|`)
        an estimate: nobody has counted yet
        ");
    }

    #[test]
    fn of_an_empty_conversation_nothing_is_drawn() {
        let history = History::new(Arc::new(Head::new(String::new(), Vec::new())));
        let conversation =
            Conversation { history: &history, own: "", instructions: "", summary: None };
        let window = Window::of(conversation, Bounds { tokens: Some(10), compacts_at: Some(8) });
        let rows = window.rows("m", 12);
        assert_eq!(rows[1].plain(), "[........|.]");
    }
}
