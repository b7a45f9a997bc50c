//! Patches: whatever a text is, reading it as a patch ends.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = tine::patch::Patch::parse(text);
});
