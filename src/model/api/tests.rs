//! What holds for an answer in every API: how much of one is kept in memory.

use serde_json::{Value, json};

use super::{Api, Kind, Options, PARTS_CAP};
use crate::model::http::ANSWER_CAP;
use crate::model::http::sse::Event;

const KINDS: [Kind; 3] = [Kind::Chat, Kind::Responses, Kind::Anthropic];

/// A call as the API has it in a whole answer.
fn call(kind: Kind, index: usize, id: &str, name: &str) -> Value {
    match kind {
        Kind::Chat => json!({ "index": index, "id": id, "function": { "name": name } }),
        Kind::Responses => json!({ "type": "function_call", "call_id": id, "name": name }),
        Kind::Anthropic => json!({ "type": "tool_use", "id": id, "name": name, "input": {} }),
    }
}

/// An event that begins a call.
fn begun(kind: Kind, index: usize, call: &Value) -> String {
    let event = match kind {
        Kind::Chat => json!({ "choices": [{ "delta": { "tool_calls": [call] } }] }),
        Kind::Responses => {
            json!({ "type": "response.output_item.added", "output_index": index, "item": call })
        }
        Kind::Anthropic => {
            json!({ "type": "content_block_start", "index": index, "content_block": call })
        }
    };
    event.to_string()
}

fn whole(kind: Kind, calls: &[Value]) -> String {
    let answer = match kind {
        Kind::Chat => json!({ "choices": [{ "message": { "tool_calls": calls } }] }),
        Kind::Responses => json!({ "status": "completed", "output": calls }),
        Kind::Anthropic => json!({ "type": "message", "content": calls }),
    };
    answer.to_string()
}

/// Begins so many calls in one stream; tells how many were taken, and why not
/// more.
fn flooded(kind: Kind, most: usize, call: impl Fn(usize) -> Value) -> Option<(usize, String)> {
    let mut assembly = Api::new(kind, Options::new("m")).unwrap().assembly();
    (0..most).find_map(|index| {
        let data = begun(kind, index, &call(index));
        let taken = assembly.take(Event { name: "", data: &data }, &mut |_| {});
        Some((index, taken.err()?.message))
    })
}

#[test]
fn an_answer_has_no_more_calls_than_the_cap_streamed_or_whole() {
    let expected = format!("the answer has more than {PARTS_CAP} calls or items");
    for kind in KINDS {
        let call = |index: usize| call(kind, index, &format!("c{index}"), "Read");
        let streamed = flooded(kind, PARTS_CAP + 1, call);
        assert_eq!(streamed, Some((PARTS_CAP, expected.clone())), "{kind:?}");
        let taken = |count: usize| {
            let mut assembly = Api::new(kind, Options::new("m")).unwrap().assembly();
            let bytes = whole(kind, &(0..count).map(call).collect::<Vec<_>>());
            assembly.take_whole(bytes.as_bytes(), &mut |_| {}).map_err(|error| error.message)
        };
        assert_eq!(taken(PARTS_CAP), Ok(()), "{kind:?}");
        assert_eq!(taken(PARTS_CAP + 1), Err(expected.clone()), "{kind:?}");
    }
}

#[test]
fn ids_and_names_count_as_much_as_texts() {
    const MIB: usize = 1 << 20;
    let long = |index: usize| format!("{index}{}", "x".repeat(MIB));
    let fitting = ANSWER_CAP / MIB - 1;
    let expected = Some((fitting, "the answer is longer than 16 MiB".to_owned()));
    for kind in KINDS {
        let by_id = flooded(kind, 32, |index| call(kind, index, &long(index), "Read"));
        assert_eq!(by_id, expected, "{kind:?}");
        let by_name =
            flooded(kind, 32, |index| call(kind, index, &format!("c{index}"), &long(index)));
        assert_eq!(by_name, expected, "{kind:?}");
    }
    let item = |index: usize| json!({ "type": "message", "phase": long(index), "id": format!("m{index}") });
    assert_eq!(flooded(Kind::Responses, 32, item), expected);
}
