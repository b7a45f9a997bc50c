//! Sessions as records: what `tine sessions --json` prints, one object a line.
//!
//! As for every record, names and order of the fields are a promise.

use serde::Serialize;

use crate::session::{SessionName, SessionSummary};

use super::lines;

/// Returns the record of a session as a line with its line feed. What a
/// terminal would obey or hide is escaped. `excerpt` is what a search found.
#[must_use]
pub fn session_record(session: &SessionSummary, excerpt: Option<&str>) -> Vec<u8> {
    let record = SessionRecord {
        id: &session.id,
        name: session.name.as_ref().map(SessionName::as_str),
        cwd: &session.cwd,
        model: &session.model,
        first_prompt: &session.first_prompt,
        started_ms: session.started.0,
        last_activity_ms: session.last_activity.0,
        bytes: session.size,
        state: session.state.as_str(),
        excerpt,
    };
    let mut line = Vec::new();
    lines::write(&record, &mut line)
        .expect("text and numbers are always JSON, and a buffer takes every write");
    line
}

#[derive(Serialize)]
struct SessionRecord<'a> {
    id: &'a str,
    name: Option<&'a str>,
    cwd: &'a str,
    model: &'a str,
    first_prompt: &'a str,
    started_ms: u64,
    last_activity_ms: u64,
    bytes: u64,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    excerpt: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::UnixMillis;
    use crate::session::SessionState;

    #[test]
    fn a_session_is_one_line_with_every_field() {
        let mut session = SessionSummary {
            id: "0198-a".to_owned(),
            directory: "/state/0198-a".into(),
            name: None,
            cwd: "/repo".to_owned(),
            model: "m".to_owned(),
            first_prompt: "say \"hi\"\u{9b}".to_owned(),
            started: UnixMillis(100),
            last_activity: UnixMillis(200),
            size: 7,
            state: SessionState::Ended,
        };
        let record = |session: &SessionSummary, excerpt| {
            String::from_utf8(session_record(session, excerpt)).unwrap()
        };
        assert_eq!(
            record(&session, None),
            "{\"id\":\"0198-a\",\"name\":null,\"cwd\":\"/repo\",\"model\":\"m\",\
             \"first_prompt\":\"say \\\"hi\\\"\\u009b\",\"started_ms\":100,\
             \"last_activity_ms\":200,\"bytes\":7,\"state\":\"ended\"}\n"
        );
        session.name = Some(SessionName::parse("nightly").unwrap());
        session.state = SessionState::Interrupted;
        let found = record(&session, Some("…hi…"));
        assert!(found.contains("\"name\":\"nightly\"") && found.contains("\"interrupted\""));
        assert!(found.ends_with(",\"excerpt\":\"…hi…\"}\n"), "{found}");
    }
}
