//! Other sessions in real directories, and files that are written.

use insta::assert_snapshot;

use super::*;
use crate::cli::chat::commands::testing::{Place, asked, started};
use crate::event::SessionId;
use crate::session::{SessionLog, read_name};

fn id(first: &str) -> SessionId {
    SessionId(format!("{first}-0000-7000-8000-000000000000").into())
}

#[test]
fn the_other_sessions_are_listed_the_latest_first() {
    let place = Place::new();
    place.write(&place.kit.session, &asked("this one"));
    place.write(&id("0198aaa1"), &asked("the \u{1b}[2J first"));
    let named = place.write(&id("0198aaa2"), &asked("its prompt"));
    write_name(&named, &SessionName::parse("its name").unwrap()).unwrap();
    let mut cut = asked("cut off");
    cut.put(0, "", started("in the middle"));
    let cut = place.write(&id("0198aaa3"), &cut);
    let open = place.write(&id("0198aaa4"), &asked("open"));
    let _log = SessionLog::open_for_append(&open).unwrap();
    let listed = others(&place.kit).unwrap();
    let now = UnixMillis(3 * 3_600_000);
    let rows: Vec<Row> = listed.iter().map(|listed| listed.row(now)).collect();
    assert_snapshot!(place.shown(&rows), @r#"
    0198aaa3  2 h ago     interrupted  cut off
    0198aaa1  2 h ago     the \u{1b}[2J first
    0198aaa2  2 h ago     its name
    0198aaa4  2 h ago     running elsewhere  open
    "#);
    assert_eq!(listed[0].id, session::id_of(&cut));
}

#[test]
fn times_are_told_as_people_do() {
    let minute = 60_000;
    let told = [0, 59_999, minute, 59 * minute, 60 * minute, 1_439 * minute, 1_440 * minute];
    assert_eq!(
        told.map(ago),
        ["just now", "just now", "1 min ago", "59 min ago", "1 h ago", "23 h ago", "a day ago"]
    );
    assert_eq!(ago(2_880 * minute), "2 days ago");
}

#[test]
fn a_session_gets_the_name_that_is_typed() {
    let place = Place::new();
    let directory = place.write(&place.kit.session, &asked("go"));
    let rows = rename(&place.kit, " retry \n").unwrap();
    assert_eq!(place.shown(&rows), "this session is named `retry`\n");
    assert_eq!(read_name(&directory), Some(SessionName::parse("retry").unwrap()));
    assert_eq!(rename(&place.kit, " ").unwrap_err().message, "`/rename` needs a name");
    assert!(rename(&place.kit, &"x".repeat(200)).is_err());
    let unkept = rename(&Place::unkept().kit, "retry").unwrap_err();
    assert_eq!(unkept.message, "this session is not kept");
}

#[test]
fn a_session_is_written_down_where_nothing_is_yet() {
    let place = Place::new();
    place.write(&place.kit.session, &asked("where is it?"));
    let (path, rows) = export(&place.kit, None).unwrap();
    assert_eq!(path, place.kit.root.join("tine-0198aaaa.md"));
    assert_eq!(place.shown(&rows), "this session is in `HOME/work/tine-0198aaaa.md`\n");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("where is it?") && text.contains("It is there."), "{text}");
    let refused = export(&place.kit, Some("tine-0198aaaa.md")).unwrap_err();
    assert!(refused.message.ends_with("tine-0198aaaa.md` is there already"), "{refused}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    let (path, _) = export(&place.kit, Some(" ~/it.md ")).unwrap();
    assert_eq!(path, place.home.path().canonicalize().unwrap().join("it.md"));
    let unkept = export(&Place::unkept().kit, None).unwrap_err();
    assert_eq!(unkept.message, "this session is not kept");
}
