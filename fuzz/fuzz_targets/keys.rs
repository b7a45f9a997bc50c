//! The decoder of keys: whatever a terminal sends and however it is cut into
//! reads, the same keys come out of it, and none is a control character.
#![no_main]

use crossterm::event::{KeyCode, KeyEvent};
use libfuzzer_sys::fuzz_target;
use tine::cli::chat::decode::{Decoder, Typed};

/// Returns all that was typed, with a silence at the end.
fn typed(pieces: &[&[u8]]) -> Vec<Typed> {
    let (mut decoder, mut typed) = (Decoder::default(), Vec::new());
    pieces.iter().for_each(|piece| decoder.feed(piece, &mut typed));
    decoder.settle(&mut typed);
    assert_eq!(decoder.wait(), None);
    typed
}

fuzz_target!(|input: (u16, &[u8])| {
    let (cut, bytes) = input;
    let (first, second) = bytes.split_at(usize::from(cut).min(bytes.len()));
    let whole = typed(&[bytes]);
    assert_eq!(typed(&[first, second]), whole);
    for one in whole {
        match one {
            Typed::Key(KeyEvent { code: KeyCode::Char(c), .. }) => assert!(!c.is_control()),
            Typed::Key(_) => {}
            Typed::Paste(pasted) => assert!(!pasted.text.contains('\r')),
        }
    }
});
