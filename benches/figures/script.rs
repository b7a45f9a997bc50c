//! What the scripted model says.
//!
//! A [`Script`] travels to the server's process as JSON. Who asks, and for the
//! how-manyeth time, is read off the end of a body, because reading all of a
//! long one would make the server slower than what it measures.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What the main conversation is asked.
pub(crate) const MAIN_PROMPT: &str = "bench-main";

/// What the prompt of a slot begins with; its number follows.
pub(crate) const SLOT_PROMPT: &str = "bench-slot-";

/// The file that slots and the loop read.
pub(crate) const FILE: &str = "measured.txt";

/// Bytes of a call's arguments in one piece of the answer.
const PIECE: usize = 512;

/// Bytes of a token, about.
const TOKEN: usize = 4;

/// Tokens of a request and its answer, where it does not matter.
const USAGE: (usize, usize) = (10, 5);

/// What a request for a summary says.
const COMPACTION: &str = "Write a summary of this conversation.";

/// What a summary is; the turn that is next follows.
const SUMMARY: &str = "bench-summary-";

/// What is written, over and over: a bit of all that an answer is made of.
const TEXT: &str = include_str!("written.md");

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
    /// A text, and a short TodoWrite call behind it.
    Write(Pace),
}

/// How a text comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pace {
    /// In how many pieces.
    pub(crate) pieces: usize,
    /// How many bytes each has.
    pub(crate) bytes: usize,
    /// How many come in a second; `None` for as many as are read.
    pub(crate) per_second: Option<u32>,
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
    /// Sends these events one by one, so many in a second; `None` for as many
    /// as are read.
    Pieces(Option<u32>, Vec<Vec<u8>>),
    /// Keeps silent until the client goes away.
    Silence,
}

impl Script {
    /// Returns what the request of this unit and turn gets, which is `body`.
    pub(crate) fn answer(&self, who: Who, turn: u32, body: &[u8]) -> Answer {
        if is_compaction(body) {
            let events = said(&format!("{SUMMARY}{turn}"), usage_of(body));
            return Answer::Events(Duration::ZERO, events);
        }
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
                (Act::Write(pace), _) => {
                    return Answer::Pieces(pace.per_second, written(who, turn, pace, body));
                }
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
    let number_behind = |word: &str| {
        let (_, behind) = last.rsplit_once(word)?;
        let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
        Some(digits.parse().expect("the word is ours, and a number is behind it"))
    };
    match (number_behind(SLOT_PROMPT), number_behind(SUMMARY)) {
        (Some(number), _) => (Who::Slot(number as usize), 1),
        (None, Some(turn)) => (Who::Main, turn),
        (None, None) if is_compaction(body) => (Who::Main, last_turn(body) + 1),
        (None, None) => (Who::Main, 1),
    }
}

/// Tells whether a summary is asked for.
fn is_compaction(body: &[u8]) -> bool {
    let last = rfind(body, b"{\"role\":\"").unwrap_or_default();
    String::from_utf8_lossy(&body[last..]).contains(COMPACTION)
}

/// Returns the turn of the last call of main that has its output.
fn last_turn(body: &[u8]) -> u32 {
    let last =
        rfind(body, b"\"tool_call_id\":\"main_").expect("a conversation that is long has calls");
    let digits = body[last..].split(|byte| *byte == b'_').nth(3).unwrap_or_default();
    let digits: String =
        digits.iter().map(|byte| char::from(*byte)).take_while(char::is_ascii_digit).collect();
    digits.parse().expect("the id of a call ends in its turn")
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
    said("done", USAGE)
}

fn said(text: &str, usage: (usize, usize)) -> Vec<u8> {
    let deltas = [json!({ "role": "assistant", "content": "" }), json!({ "content": text })];
    [&*deltas.iter().map(event).collect::<String>(), &*end("stop", usage)].concat().into_bytes()
}

/// The events of a text that comes in pieces, with a call behind it.
fn written(who: Who, turn: u32, pace: Pace, body: &[u8]) -> Vec<Vec<u8>> {
    let mut text = TEXT.as_bytes().iter().cycle();
    let mut pieces = vec![event(&json!({ "role": "assistant", "content": "" }))];
    pieces.extend((0..pace.pieces).map(|_| {
        let piece: String = text.by_ref().take(pace.bytes).map(|byte| char::from(*byte)).collect();
        event(&json!({ "content": piece }))
    }));
    pieces.push(deltas_of(who, turn, "TodoWrite", &todo(turn)).iter().map(event).collect());
    let (prompt, _) = usage_of(body);
    pieces.push(end("tool_calls", (prompt, pace.pieces * pace.bytes / TOKEN)));
    pieces.into_iter().map(String::into_bytes).collect()
}

/// Returns the tokens of a request, and a few for its answer.
fn usage_of(body: &[u8]) -> (usize, usize) {
    (body.len() / TOKEN, USAGE.1)
}

/// The events of one call, its arguments in pieces as servers send them.
fn call(who: Who, turn: u32, tool: &str, arguments: &str) -> Vec<u8> {
    let deltas: String = deltas_of(who, turn, tool, arguments).iter().map(event).collect();
    (deltas + &end("tool_calls", USAGE)).into_bytes()
}

fn deltas_of(who: Who, turn: u32, tool: &str, arguments: &str) -> Vec<Value> {
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
    std::iter::once(begin).chain(pieces).collect()
}

fn event(delta: &Value) -> String {
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": null });
    let chunk = json!({
        "id": "c", "object": "chat.completion.chunk", "model": "bench", "choices": [choice]
    });
    format!("data: {chunk}\n\n")
}

/// The last events of an answer.
fn end(finish: &str, (prompt, completion): (usize, usize)) -> String {
    let last = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": finish }] });
    let usage = json!({ "prompt_tokens": prompt, "completion_tokens": completion,
        "total_tokens": prompt + completion });
    let usage = json!({ "choices": [], "usage": usage });
    format!("data: {last}\n\ndata: {usage}\n\ndata: [DONE]\n\n")
}
