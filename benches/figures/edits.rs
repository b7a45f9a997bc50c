//! What an edit costs, from the guard's decision to the bytes on disk: library
//! code, timed in this process.

use serde_json::json;

use crate::clock;
use crate::measure::median_of;
use crate::table::{Figure, Unit};

#[expect(dead_code, reason = "the tests use more of it")]
#[path = "../../tests/it/support/desk.rs"]
mod desk;

/// How many edits are made of one file, one after the other.
const EDITS: usize = 1_000;

/// How many lines the file has; with [`LINE`] about 100 kB.
const LINES: usize = 2_000;

/// The rest of each line.
const LINE: &str = "of some fifty bytes, as in an ordinary source";

/// How often it is measured.
const ROUNDS: usize = 3;

/// A thousand edits of a file of 100 kB, each on disk before the next begins.
pub(crate) fn edits() -> Vec<Figure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    let millis = median_of(ROUNDS, |_| runtime.block_on(thousand()));
    vec![Figure::new("1,000 edits of a file of 100 kB", millis, 2_000.0, Unit::Millis)]
}

/// Returns the milliseconds of all edits.
async fn thousand() -> f64 {
    let desk = desk::Desk::new();
    let text: String = (0..LINES).map(|line| format!("{line:>5} {LINE}\n")).collect();
    std::fs::write(desk.root().join("file"), text).expect("the file can be written");
    let unit = desk.unit(1);
    let started = clock::now();
    for edit in 0..EDITS {
        let line = edit * 7 % LINES;
        let arguments = json!({
            "file_path": "file",
            "old_string": format!("\n{line:>5} of"),
            "new_string": format!("\n{line:>5} OF"),
        });
        let arguments = if line == 0 {
            json!({"file_path": "file", "old_string": "    0 of", "new_string": "    0 OF"})
        } else {
            arguments
        };
        desk.call(&unit, "Edit", arguments).await.expect("the line is there");
    }
    (clock::now() - started).as_secs_f64() * 1e3
}
