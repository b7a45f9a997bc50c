//! An undo in words and as a record: which files go back and which cannot.

use std::path::Path;

use serde::Serialize;

use crate::event::{Seq, SessionId};
use crate::message::counted;
use crate::path_text;
use crate::session::undo::{Fate, Plan, PlannedFile};

use super::lines::{self, Origin};
use super::record::ResultRecord;
use super::result::{Ending, FindFacts};
use super::{sanitise, words};

/// Most characters of a prompt that is quoted.
const PROMPT_CAP: usize = 60;

/// What became of an undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndoState {
    /// Nothing is done: somebody only asked what would be.
    Asked,
    /// Nothing was done, because a file cannot go back.
    Refused,
    /// Done.
    Done,
}

/// An undo and what became of it.
#[derive(Debug, Clone, Copy)]
pub struct UndoReport<'a> {
    /// The session.
    pub session: &'a SessionId,
    /// Where paths are shown from.
    pub root: &'a Path,
    /// What was to be done.
    pub plan: &'a Plan,
    /// What became of it.
    pub state: UndoState,
    /// The last event before it.
    pub before: Seq,
}

impl UndoReport<'_> {
    /// Returns a line for each file, first those that go back.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let files = &self.plan.files;
        let stays = |file: &&PlannedFile| matches!(file.fate, Fate::Stays(_));
        let (stay, go): (Vec<_>, Vec<_>) = files.iter().partition(stays);
        go.into_iter().chain(stay).map(|file| self.line(file)).collect()
    }

    /// Returns how many files go back, and of which prompt, in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let count = |is: fn(&Fate) -> bool| {
            let count = self.plan.files.iter().filter(|file| is(&file.fate)).count();
            u32::try_from(count).unwrap_or(u32::MAX)
        };
        let back = counted(count(|fate| *fate == Fate::GoesBack), "file");
        let of_prompt = match &self.plan.prompt {
            Some(prompt) => format!(" (prompt: {})", words::short_line(prompt, PROMPT_CAP)),
            None => String::new(),
        };
        let stay = match count(|fate| matches!(fate, Fate::Stays(_))) {
            0 => String::new(),
            1 => "; 1 stays".to_owned(),
            more => format!("; {more} stay"),
        };
        match self.state {
            UndoState::Asked => format!("{back} would be put back{stay}{of_prompt}"),
            UndoState::Refused => format!("{back} could be put back{stay}{of_prompt}"),
            UndoState::Done => format!("{back} put back{stay}{of_prompt}"),
        }
    }

    /// Returns what people have to know of commands; `None` if there were none.
    #[must_use]
    pub fn commands(&self) -> Option<String> {
        let commands = self.plan.commands;
        let whose = if commands == 1 { "what it did is" } else { "what they did is" };
        (commands > 0).then(|| {
            let commands = counted(commands, "command");
            format!("{commands} may have changed files as well; {whose} not undone")
        })
    }

    fn line(&self, file: &PlannedFile) -> String {
        let path = path_text::shown(self.root, &path_text::from_text(&file.path));
        let path = sanitise::line(&path);
        match (&file.fate, self.state, file.to) {
            (Fate::AsItWas, _, _) => format!("{path} is as it was"),
            (Fate::GoesBack, UndoState::Done, Some(_)) => format!("put back {path}"),
            (Fate::GoesBack, UndoState::Done, None) => format!("deleted {path}"),
            (Fate::GoesBack, UndoState::Asked, Some(_)) => format!("would put back {path}"),
            (Fate::GoesBack, UndoState::Asked, None) => format!("would delete {path}"),
            (Fate::GoesBack, UndoState::Refused, Some(_)) => format!("could put back {path}"),
            (Fate::GoesBack, UndoState::Refused, None) => format!("could delete {path}"),
            (Fate::Stays(reason), _, _) => {
                format!("{path} stays: {}", sanitise::line(&reason.to_string()))
            }
        }
    }

    /// Returns the record, as a line with its line feed.
    #[must_use]
    pub fn record(&self) -> Vec<u8> {
        written(&self.undo_record())
    }

    /// Returns the result of a `/undo`, as a line with its line feed.
    #[must_use]
    pub fn result(&self) -> Vec<u8> {
        let ending = Ending::of_text(&self.lines().join("\n"));
        let find_facts: FindFacts = std::sync::Arc::new(|_| None);
        written(&UndoResult {
            kind: "result",
            result: ResultRecord::new(&ending, &find_facts),
            undo: self.undo_record(),
            uuid: Origin::Look(self.before).uuid(self.session),
            session_id: &self.session.0,
        })
    }

    fn undo_record(&self) -> UndoRecord<'_> {
        UndoRecord {
            session_id: &self.session.0,
            state: match self.state {
                UndoState::Asked => "asked",
                UndoState::Refused => "refused",
                UndoState::Done => "done",
            },
            prompt: self.plan.prompt.as_deref(),
            files: self.plan.files.iter().map(FileRecord::from).collect(),
            commands: self.plan.commands,
            before: self.before.0,
        }
    }
}

fn written(record: &impl Serialize) -> Vec<u8> {
    let mut line = Vec::new();
    lines::write(record, &mut line)
        .expect("text and numbers are always JSON, and a buffer takes every write");
    line
}

#[derive(Serialize)]
struct UndoResult<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    result: ResultRecord<'a>,
    undo: UndoRecord<'a>,
    uuid: String,
    session_id: &'a str,
}

#[derive(Serialize)]
struct UndoRecord<'a> {
    session_id: &'a str,
    state: &'static str,
    prompt: Option<&'a str>,
    files: Vec<FileRecord<'a>>,
    commands: u32,
    before: u64,
}

#[derive(Serialize)]
struct FileRecord<'a> {
    path: &'a str,
    /// What it goes back to.
    to: &'static str,
    fate: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl<'a> From<&'a PlannedFile> for FileRecord<'a> {
    fn from(file: &'a PlannedFile) -> Self {
        let (fate, reason) = match &file.fate {
            Fate::AsItWas => ("as_it_was", None),
            Fate::GoesBack => ("goes_back", None),
            Fate::Stays(reason) => ("stays", Some(reason.to_string())),
        };
        let to = if file.to.is_some() { "content" } else { "nothing" };
        Self { path: &file.path, to, fate, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Digest, FileState};
    use crate::session::undo::Reason;

    fn plan() -> Plan {
        let to = Some(FileState { digest: Digest::of(b"old"), mode: 0o644 });
        let file = |path: &str, to, fate| PlannedFile {
            path: path.into(),
            from: Seq(3),
            to,
            directories: 0,
            fate,
        };
        let outside = Fate::Stays(Reason::Outside(Seq(12)));
        Plan {
            prompt: Some("make\nit blue".into()),
            files: vec![
                file("/w/blue.css", to, outside),
                file("/w/new\u{1b}[2J.css", None, Fate::GoesBack),
                file("/elsewhere/red.css", to, Fate::GoesBack),
                file("/w/same.css", to, Fate::AsItWas),
            ],
            commands: 2,
        }
    }

    fn shown(state: UndoState) -> String {
        let plan = plan();
        let session = SessionId("s".into());
        let root = Path::new("/w");
        let report = UndoReport { session: &session, root, plan: &plan, state, before: Seq(20) };
        let lines = report.lines().into_iter().chain([report.sentence()]).chain(report.commands());
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn every_file_has_its_line_and_those_that_stay_come_last() {
        insta::assert_snapshot!(shown(UndoState::Done), @r#"
        deleted new\x1b[2J.css
        put back /elsewhere/red.css
        same.css is as it was
        blue.css stays: somebody else has changed it since #12
        2 files put back; 1 stays (prompt: make\nit blue)
        2 commands may have changed files as well; what they did is not undone
        "#);
        insta::assert_snapshot!(shown(UndoState::Asked), @r#"
        would delete new\x1b[2J.css
        would put back /elsewhere/red.css
        same.css is as it was
        blue.css stays: somebody else has changed it since #12
        2 files would be put back; 1 stays (prompt: make\nit blue)
        2 commands may have changed files as well; what they did is not undone
        "#);
        insta::assert_snapshot!(shown(UndoState::Refused), @r#"
        could delete new\x1b[2J.css
        could put back /elsewhere/red.css
        same.css is as it was
        blue.css stays: somebody else has changed it since #12
        2 files could be put back; 1 stays (prompt: make\nit blue)
        2 commands may have changed files as well; what they did is not undone
        "#);
    }

    #[test]
    fn the_record_of_an_undo_has_every_file() {
        let (plan, session) = (plan(), SessionId("s".into()));
        let report = UndoReport {
            session: &session,
            root: Path::new("/w"),
            plan: &plan,
            state: UndoState::Refused,
            before: Seq(20),
        };
        insta::assert_snapshot!(String::from_utf8(report.record()).unwrap(), @r#"{"session_id":"s","state":"refused","prompt":"make\nit blue","files":[{"path":"/w/blue.css","to":"content","fate":"stays","reason":"somebody else has changed it since #12"},{"path":"/w/new\u001b[2J.css","to":"nothing","fate":"goes_back"},{"path":"/elsewhere/red.css","to":"content","fate":"goes_back"},{"path":"/w/same.css","to":"content","fate":"as_it_was"}],"commands":2,"before":20}"#);
    }
}
