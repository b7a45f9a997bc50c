//! The decoder of server-sent events: however a stream is cut into pieces, the
//! same events come out of it.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use tine::model::http::sse::Decoder;

/// Returns every event as its debug text, and whether one was too long.
fn decoded(pieces: &[&[u8]]) -> (Vec<String>, bool) {
    let (mut decoder, mut events) = (Decoder::default(), Vec::new());
    let mut pieces = pieces.iter();
    loop {
        let is_over = match pieces.next() {
            Some(piece) => {
                decoder.feed(Bytes::copy_from_slice(piece));
                false
            }
            None => {
                decoder.end();
                true
            }
        };
        loop {
            match decoder.next_event() {
                Ok(Some(event)) => events.push(format!("{event:?}")),
                Ok(None) => break,
                Err(_) => return (events, true),
            }
        }
        if is_over {
            return (events, false);
        }
    }
}

fuzz_target!(|input: (u16, &[u8])| {
    let (cut, bytes) = input;
    let (first, second) = bytes.split_at(usize::from(cut).min(bytes.len()));
    assert_eq!(decoded(&[bytes]), decoded(&[first, second]));
});
