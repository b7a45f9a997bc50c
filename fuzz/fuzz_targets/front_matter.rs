//! Front matter: whatever a file holds, reading it ends, and what is behind
//! the front matter comes back as it was.
#![no_main]

use std::collections::BTreeMap;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Head {
    name: Option<String>,
    tools: Vec<String>,
    #[serde(flatten)]
    rest: BTreeMap<String, serde::de::IgnoredAny>,
}

fuzz_target!(|text: &str| {
    if let Ok((head, body)) = tine::front_matter::parse::<Head>(text, Path::new("fuzzed.md")) {
        assert!(text.ends_with(body));
        let Head { name, tools, rest } = head;
        drop((name, tools, rest));
    }
});
