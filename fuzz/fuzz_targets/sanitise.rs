//! The terminal's sanitiser: nothing that a terminal obeys or hides is left,
//! and JSON keeps its meaning.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tine::report::sanitise;

fuzz_target!(|text: &str| {
    let line = sanitise::line(text);
    assert!(!line.chars().any(|c| sanitise::is_hidden(c) || matches!(c, '\n' | '\t' | '\r')));
    assert!(!sanitise::text(text).chars().any(|c| sanitise::is_hidden(c) || c == '\r'));
    let json = serde_json::to_string(text).expect("every text is JSON");
    let safe = sanitise::json(&json);
    assert!(!safe.chars().any(sanitise::is_hidden));
    assert_eq!(serde_json::from_str::<String>(&safe).expect("it is still JSON"), text);
});
