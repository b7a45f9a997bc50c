//! What somebody else does to files while a call is at work.

use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc;

use serde_json::{Value, json};

use crate::event::UnitId;
use crate::line::{LINE_CAP, Line, UnitEvent};
use crate::tool::edit::Edit;
use crate::tool::patch::ApplyPatch;
use crate::tool::testing::Place;
use crate::tool::write::Write;

/// Has `act` done once the first change of a file is told of, before it may be
/// made.
fn meanwhile(place: &mut Place, act: impl FnOnce() + Send + 'static) -> mpsc::Receiver<()> {
    let (sender, mut receiver) = tokio::sync::mpsc::channel(LINE_CAP);
    let (done, is_done) = mpsc::channel();
    place.context.line = Line::new(UnitId::MAIN, sender);
    std::thread::spawn(move || {
        let mut act = Some(act);
        while let Some(said) = receiver.blocking_recv() {
            if let UnitEvent::FileChanged { change: _, synced } = said.event {
                if let Some(act) = act.take() {
                    act();
                    done.send(()).unwrap();
                }
                synced.send(()).unwrap();
            }
        }
    });
    is_done
}

fn patch(body: &str) -> Value {
    json!({"patch": format!("*** Begin Patch\n{body}\n*** End Patch\n")})
}

#[tokio::test]
async fn what_a_user_saves_while_an_edit_is_journalled_stays() {
    let mut place = Place::new();
    let path = place.put("a", "old\n");
    let saved = meanwhile(&mut place, move || std::fs::write(path, "the user's own\n").unwrap());
    let edit = json!({"file_path": "a", "old_string": "old", "new_string": "new"});
    let refused = place.call(&Edit, edit).await.unwrap_err();
    saved.recv().unwrap();
    assert_eq!(refused, "Cannot write a: somebody else changed it meanwhile.");
    assert_eq!(place.bytes("a"), b"the user's own\n");
}

#[tokio::test]
async fn a_file_that_a_user_makes_while_a_call_would_make_it_stays() {
    let mut place = Place::new();
    let path = place.path("a");
    let saved = meanwhile(&mut place, move || std::fs::write(path, "the user's own\n").unwrap());
    let write = json!({"file_path": "a", "content": "new"});
    let refused = place.call(&Write, write).await.unwrap_err();
    saved.recv().unwrap();
    assert_eq!(refused, "Cannot write a: somebody else changed it meanwhile.");
    assert_eq!(place.bytes("a"), b"the user's own\n");
    // Also where the directory was still to be made.
    let directory = place.path("d");
    let saved = meanwhile(&mut place, move || {
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("b"), "the user's own\n").unwrap();
    });
    let write = json!({"file_path": "d/b", "content": "new"});
    let refused = place.call(&Write, write).await.unwrap_err();
    saved.recv().unwrap();
    assert_eq!(refused, "Cannot write d/b: somebody else changed it meanwhile.");
    assert_eq!(place.bytes("d/b"), b"the user's own\n");
}

#[tokio::test]
async fn the_one_file_that_a_user_changed_stays_and_the_others_are_put_back() {
    let mut place = Place::new();
    place.put("a", "old\n");
    std::fs::set_permissions(place.path("a"), std::fs::Permissions::from_mode(0o640)).unwrap();
    let path = place.put("b", "old\n");
    let saved = meanwhile(&mut place, move || std::fs::write(path, "the user's own\n").unwrap());
    let body =
        "*** Update File: a\n-old\n+new\n*** Add File: c/d\n+x\n*** Update File: b\n-old\n+new";
    let refused = place.call(&ApplyPatch, patch(body)).await.unwrap_err();
    saved.recv().unwrap();
    let expected = "Cannot write b: somebody else changed it meanwhile. What had been \
                    changed was put back; nothing is changed.";
    assert_eq!(refused, expected);
    assert_eq!(
        (place.bytes("a"), place.bytes("b")),
        (b"old\n".to_vec(), b"the user's own\n".to_vec())
    );
    assert!(!place.path("c").exists());
    assert_eq!(place.path("a").metadata().unwrap().permissions().mode() & 0o777, 0o640);
}
