//! What an editor is shown of a change before it is made.

use serde_json::{Value, json};

use super::{Editor, stopped};

/// Returns the call that is asked about when a model makes it in a place where
/// `old.txt` holds two lines.
fn asked_about(call: &Value) -> (Value, String) {
    let read = json!({ "name": "Read", "arguments": { "file_path": "old.txt" } });
    let script = json!({ "units": { "main": [{ "calls": [read] }, { "calls": [call] }, { "text": "ok" }] } });
    let mut editor = Editor::new(&script);
    editor.place.write("old.txt", "precious\nmore\n");
    let session = editor.new_session();
    let id = editor.begin_prompt(&session, "go");
    let asked = editor.is_asked("session/request_permission");
    editor.choose(&asked, "reject_once");
    stopped(&editor.answer_to(id).1, "end_turn");
    let work = editor.place.work().display().to_string();
    editor.leaves();
    (asked["params"]["toolCall"].clone(), work)
}

#[test]
fn what_a_write_would_replace_is_shown_before_it_is_allowed() {
    let (asked, work) = asked_about(
        &json!({ "name": "Write", "arguments": { "file_path": "old.txt", "content": "x\n" } }),
    );
    let diff = json!({ "type": "diff", "path": format!("{work}/old.txt"),
        "oldText": "precious\nmore\n", "newText": "x\n" });
    assert_eq!(asked["content"][0], diff);
    let (asked, work) = asked_about(
        &json!({ "name": "Write", "arguments": { "file_path": "new.txt", "content": "x\n" } }),
    );
    let diff = json!({ "type": "diff", "path": format!("{work}/new.txt"), "newText": "x\n" });
    assert_eq!(asked["content"][0], diff);
}

#[test]
fn what_a_patch_would_change_is_shown_file_by_file_before_it_is_allowed() {
    let patch = "*** Begin Patch\n*** Update File: old.txt\n@@\n-precious\n+worthless\n more\n\
        *** Add File: new.txt\n+one\n*** End Patch\n";
    let (asked, work) =
        asked_about(&json!({ "name": "ApplyPatch", "arguments": { "patch": patch } }));
    let (old, new) = (format!("{work}/old.txt"), format!("{work}/new.txt"));
    let diffs = json!([
        { "type": "diff", "path": old, "oldText": "precious\nmore\n", "newText": "worthless\nmore\n" },
        { "type": "diff", "path": new, "newText": "one\n" },
    ]);
    assert_eq!(asked["content"].as_array().unwrap()[..2], *diffs.as_array().unwrap());
    assert_eq!(asked["locations"], json!([{ "path": old }, { "path": new }]));
}
