//! What the scripted model says.
//!
//! A [`Script`] travels to the server's process as JSON. Who asks, and for the
//! how-manyeth time, is read off the end of a body, because reading all of a
//! long one would make the server slower than what it measures.

use std::fmt::Write as _;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What the main conversation is asked.
pub(crate) const MAIN_PROMPT: &str = "bench-main";

/// What the prompt of a slot begins with; its number follows.
const SLOT_PROMPT: &str = "bench-slot-";

/// The file that slots and the loop read.
pub(crate) const FILE: &str = "measured.txt";

/// Bytes of a call's arguments in one piece of the answer.
const PIECE: usize = 512;

/// What the model does in one measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Script {
    /// The main conversation, if there are no slots; else only its pauses.
    pub(crate) main: Part,
    /// How many slots its first turn asks for.
    pub(crate) slots: usize,
    /// What each of them does.
    pub(crate) slot: Part,
}

/// What the model does in one conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// How many turns, the last of which is a text.
    pub(crate) turns: u32,
    /// How long the model takes for each.
    pub(crate) think_ms: u64,
    /// What all turns but the last do.
    pub(crate) act: Act,
}

impl Part {
    /// A part that says one text at once.
    pub(crate) const TEXT: Self = Self { turns: 1, think_ms: 0, act: Act::Todo };
}

/// What a turn does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Act {
    /// A short TodoWrite call.
    Todo,
    /// A Read call.
    Read,
    /// Even slots get no answer, odd ones a command that does not end.
    Stall,
}

/// Who makes a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Who {
    /// The main conversation.
    Main,
    /// The slot with this number.
    Slot(usize),
}

/// What the server does with one request.
pub(crate) enum Answer {
    /// Sends these events after a pause.
    Events(Duration, Vec<u8>),
    /// Keeps silent until the client goes away.
    Silence,
}

impl Script {
    /// Returns what the request of this unit and turn gets.
    pub(crate) fn answer(&self, who: Who, turn: u32) -> Answer {
        let part = match who {
            Who::Main => self.main,
            Who::Slot(_) => self.slot,
        };
        let events = match who {
            Who::Main if self.slots > 0 && turn == 1 => call(who, turn, "Agent", &self.batch()),
            Who::Main if self.slots > 0 => text(),
            Who::Main | Who::Slot(_) if turn >= part.turns => text(),
            Who::Main | Who::Slot(_) => match (part.act, who) {
                (Act::Todo, _) => call(who, turn, "TodoWrite", &todo(turn)),
                (Act::Read, _) => {
                    // The same call over and over would be ended as a loop.
                    let read = json!({ "file_path": FILE, "limit": 1_000 + turn });
                    call(who, turn, "Read", &read.to_string())
                }
                (Act::Stall, Who::Slot(number)) if number % 2 == 1 => {
                    call(who, turn, "Bash", &stall(number))
                }
                (Act::Stall, _) => return Answer::Silence,
            },
        };
        Answer::Events(Duration::from_millis(part.think_ms), events)
    }

    fn batch(&self) -> String {
        let task = |number| {
            json!({
                "description": format!("slot {number}"),
                "prompt": format!("{SLOT_PROMPT}{number}"),
                "subagent_type": "general-purpose",
            })
        };
        json!({ "tasks": (0..self.slots).map(task).collect::<Vec<_>>() }).to_string()
    }
}

/// Reads who asks off the last message: a prompt of ours, or the output of a
/// call whose id we chose.
pub(crate) fn asker(body: &[u8]) -> (Who, u32) {
    let last = rfind(body, b"{\"role\":\"").expect("a body has messages");
    let last = String::from_utf8_lossy(&body[last..]);
    if let Some((_, id)) = last.split_once("\"tool_call_id\":\"") {
        let id = id.split('"').next().expect("a split has a first part");
        let (who, turn) = id.split_once('_').expect("ids have two parts");
        let turn: u32 = turn.parse().expect("the second part is the turn");
        let who = who.parse().map_or(Who::Main, Who::Slot);
        return (who, turn + 1);
    }
    match last.rsplit_once(SLOT_PROMPT) {
        Some((_, number)) => {
            let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
            (Who::Slot(digits.parse().expect("a slot's prompt ends in its number")), 1)
        }
        None => (Who::Main, 1),
    }
}

/// Returns where `wanted` begins for the last time.
fn rfind(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).rposition(|window| window == wanted)
}

fn todo(turn: u32) -> String {
    let content = format!("Go on {turn}");
    let item = json!({ "content": content, "status": "pending", "activeForm": "Going on" });
    json!({ "todos": [item] }).to_string()
}

/// A command that says that it runs and then does not end.
fn stall(number: usize) -> String {
    json!({ "command": format!("touch stalled-{number}; sleep 600"), "timeout": 600_000 })
        .to_string()
}

fn text() -> Vec<u8> {
    events(&[json!({ "role": "assistant", "content": "" }), json!({ "content": "done" })], "stop")
}

/// The events of one call, its arguments in pieces as servers send them.
fn call(who: Who, turn: u32, tool: &str, arguments: &str) -> Vec<u8> {
    let id = match who {
        Who::Main => format!("main_{turn}"),
        Who::Slot(number) => format!("{number}_{turn}"),
    };
    let begin = json!({ "role": "assistant", "content": null, "tool_calls": [
        { "index": 0, "id": id, "type": "function", "function": { "name": tool, "arguments": "" } }
    ] });
    let piece = |bytes: &[u8]| {
        let text = std::str::from_utf8(bytes).expect("our arguments are ASCII");
        json!({ "tool_calls": [{ "index": 0, "function": { "arguments": text } }] })
    };
    let pieces = arguments.as_bytes().chunks(PIECE).map(piece);
    events(&std::iter::once(begin).chain(pieces).collect::<Vec<_>>(), "tool_calls")
}

fn events(deltas: &[Value], finish: &str) -> Vec<u8> {
    let mut text = String::new();
    let mut say = |value: &Value| {
        write!(text, "data: {value}\n\n").expect("a string takes any text");
    };
    for delta in deltas {
        say(&json!({ "id": "c", "object": "chat.completion.chunk", "model": "bench", "choices": [
            { "index": 0, "delta": delta, "finish_reason": null }
        ] }));
    }
    say(&json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": finish }] }));
    let usage = json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 });
    say(&json!({ "choices": [], "usage": usage }));
    text.push_str("data: [DONE]\n\n");
    text.into_bytes()
}
