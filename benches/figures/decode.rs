//! What an answer costs to read: library code, timed in this process, and what
//! it allocates.

use std::hint::black_box;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tine::model::Chunk;
use tine::model::api::{Api, Kind, Options};
use tine::model::http::sse::Decoder;

use crate::measure::median_of;
use crate::table::{Figure, Unit};
use crate::{allocations, clock};

/// How many deltas an answer has: as many as a model writes in half an hour.
const DELTAS: usize = 100_000;

/// How many bytes come at once: what a connection is read by.
const PIECE: usize = 16 * 1024;

/// How often each figure is measured.
const ROUNDS: usize = 11;

/// What the deltas say, in turn: words, and what has to be rewritten.
const WORDS: [&str; 6] = [" the", " prefix", "\n", " \"is\"", " übrig", "."];

/// The longest time that a megabyte may take: 200 MB/s.
const LIMIT_MILLIS: f64 = 5.0;

/// How fast the events of each API become pieces of text, and how often that
/// allocates.
pub(crate) fn decode() -> Vec<Figure> {
    [Kind::Chat, Kind::Responses, Kind::Anthropic].into_iter().flat_map(figures).collect()
}

fn figures(kind: Kind) -> [Figure; 2] {
    let answer = answer(kind);
    let pieces: Vec<Bytes> = (0..answer.len())
        .step_by(PIECE)
        .map(|start| answer.slice(start..answer.len().min(start + PIECE)))
        .collect();
    let megabytes = answer.len() as f64 / 1e6;
    let millis = median_of(ROUNDS, |_| {
        let started = clock::now();
        read(kind, &pieces);
        millis(clock::now() - started) / megabytes
    });
    let before = allocations::count();
    read(kind, &pieces);
    let counted = allocations::count() - before;
    let name = format!("1 MB of deltas, {} ({:.0} MB/s)", kind.as_str(), 1e3 / millis);
    let allocated = format!("allocations for each delta, {}; 1 is its text", kind.as_str());
    // What grows, grows by doubling: a few dozen times in a whole answer.
    let each = counted as f64 / DELTAS as f64;
    [
        Figure::new(name, millis, LIMIT_MILLIS, Unit::Millis),
        Figure::new(allocated, each, 1.001, Unit::Times),
    ]
}

/// Reads an answer as a request does, but for the sockets and the clocks.
fn read(kind: Kind, pieces: &[Bytes]) {
    let api = Api::new(kind, Options::new("m")).expect("nothing extra is configured");
    let mut assembly = api.assembly();
    let mut decoder = Decoder::default();
    let mut said = 0;
    for piece in pieces {
        decoder.feed(piece.clone());
        while let Some(event) = decoder.next_event().expect("no event is too long") {
            let mut say = |chunk: Chunk| {
                said += usize::from(matches!(chunk, Chunk::Text(_)));
                black_box(chunk);
            };
            assembly.take(event, &mut say).expect("every event can be read");
        }
    }
    assert_eq!(said, DELTAS, "every delta is said");
}

/// The deltas of an answer, as their provider sends them.
fn answer(kind: Kind) -> Bytes {
    let mut bytes = Vec::new();
    match kind {
        Kind::Chat => {}
        Kind::Responses => push(
            &mut bytes,
            &json!({ "type": "response.output_item.added", "output_index": 0,
                "item": { "type": "message", "id": "msg_0", "role": "assistant", "content": [] } }),
        ),
        Kind::Anthropic => {
            push(
                &mut bytes,
                &json!({ "type": "message_start",
                "message": { "role": "assistant", "usage": { "input_tokens": 10 } } }),
            );
            push(
                &mut bytes,
                &json!({ "type": "content_block_start", "index": 0,
                "content_block": { "type": "text", "text": "" } }),
            );
        }
    }
    for (number, word) in WORDS.into_iter().cycle().take(DELTAS).enumerate() {
        push(&mut bytes, &delta(kind, number, word));
    }
    bytes.into()
}

fn delta(kind: Kind, number: usize, word: &str) -> Value {
    match kind {
        Kind::Chat => json!({ "id": "chatcmpl-Bj7q0pXQ2Yd3yH1mJkTn8vLr5sWaE",
            "object": "chat.completion.chunk", "created": 1_750_000_000, "model": "gpt-5.5",
            "service_tier": "default", "system_fingerprint": "fp_07871e2ad8",
            "choices": [{ "index": 0, "delta": { "content": word }, "logprobs": null,
                "finish_reason": null }], "usage": null }),
        Kind::Responses => json!({ "type": "response.output_text.delta",
            "sequence_number": number, "item_id": "msg_0", "output_index": 0,
            "content_index": 0, "delta": word, "logprobs": [], "obfuscation": "Xk3mP9qLw2" }),
        Kind::Anthropic => json!({ "type": "content_block_delta", "index": 0,
            "delta": { "type": "text_delta", "text": word } }),
    }
}

/// Adds an event. Those of Chat Completions have no names.
fn push(bytes: &mut Vec<u8>, event: &Value) {
    if let Some(name) = event["type"].as_str() {
        bytes.extend_from_slice(format!("event: {name}\n").as_bytes());
    }
    bytes.extend_from_slice(format!("data: {event}\n\n").as_bytes());
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
