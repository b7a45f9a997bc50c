//! Sessions beside the one that is open, and what is done to that one besides
//! talking: it gets a name, it is written down.

use std::path::{Path, PathBuf};

use crate::cli::exit::{Exit, Refusal};
use crate::cli::kit::Kit;
use crate::cli::session;
use crate::cli::sessions::parse_name;
use crate::event::UnixMillis;
use crate::report::ink::Ink;
use crate::report::row::Row;
use crate::session::{SessionName, SessionState, SessionSummary, list_project, write_name};

/// How much of a session's id is in the name of a file.
const ID_IN_FILE: usize = 8;

/// Another session of the same directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its id, by which it is resumed.
    pub id: String,
    /// Its name, else its first prompt; may be anything.
    pub title: String,
    /// When something last happened in it.
    pub last_activity: UnixMillis,
    /// How it stands.
    pub state: SessionState,
}

impl Listed {
    fn of(summary: SessionSummary) -> Self {
        let SessionSummary { id, name, first_prompt, last_activity, state, .. } = summary;
        let title = name.map_or(first_prompt, |name: SessionName| name.as_str().to_owned());
        Self { id, title, last_activity, state }
    }

    /// Returns what a list shows of it.
    #[must_use]
    pub fn row(&self, now: UnixMillis) -> Row {
        let Self { id, title, last_activity, state } = self;
        let short: String = id.chars().take(ID_IN_FILE).collect();
        let row = Row::new().text(Ink::Dim, &short).padded(10);
        let row = row.text(Ink::Dim, &ago(now.since(*last_activity))).padded(22);
        let row = match state {
            SessionState::Running => row.text(Ink::Caution, "running elsewhere  "),
            SessionState::Interrupted => row.text(Ink::Caution, "interrupted  "),
            SessionState::Ended => row,
        };
        match &**title {
            "" => row.text(Ink::Dim, "(no prompt)"),
            title => row.text(Ink::Plain, title),
        }
    }
}

/// Returns how long ago something was, in words.
fn ago(milliseconds: u64) -> String {
    let minutes = milliseconds / 60_000;
    match minutes {
        0 => "just now".to_owned(),
        1..60 => format!("{minutes} min ago"),
        60..1_440 => format!("{} h ago", minutes / 60),
        1_440..2_880 => "a day ago".to_owned(),
        2_880.. => format!("{} days ago", minutes / 1_440),
    }
}

/// Returns the other sessions of this directory, the latest first.
///
/// # Errors
///
/// There is no place for sessions, or it cannot be read.
pub fn others(kit: &Kit) -> Result<Vec<Listed>, Refusal> {
    let root = session::root(&kit.environment)?;
    let listed = list_project(&root, &kit.root).map_err(|error| session::cannot_read(&error))?;
    let others = listed.into_iter().filter(|summary| *summary.id != *kit.session.0);
    Ok(others.map(Listed::of).collect())
}

/// Names the session.
///
/// # Errors
///
/// The session is not kept, or that is no name.
pub fn rename(kit: &Kit, name: &str) -> Result<Vec<Row>, Refusal> {
    let directory = kit.kept()?;
    if name.trim().is_empty() {
        return Err(Refusal::new(Exit::Usage, "`/rename` needs a name")
            .hint("for example: `/rename retry logic`"));
    }
    let name = parse_name(name)?;
    write_name(directory, &name).map_err(|error| Refusal::because(Exit::Error, &error))?;
    Ok(vec![Row::new().text(Ink::Plain, &format!("this session is named `{name}`"))])
}

/// Writes the session down as Markdown, to a new file. Without a name the file
/// gets one, in the working directory.
///
/// # Errors
///
/// The session is not kept, the file is there already or cannot be written.
pub fn export(kit: &Kit, file: Option<&str>) -> Result<(PathBuf, Vec<Row>), Refusal> {
    let directory = kit.kept()?;
    let path = match file.map(str::trim).filter(|file| !file.is_empty()) {
        Some(file) => named(kit, file),
        None => {
            let id: String = kit.session.0.chars().take(ID_IN_FILE).collect();
            kit.root.join(format!("tine-{id}.md"))
        }
    };
    let skipped = session::export_markdown(directory, &path)?;
    let told = format!("this session is in `{}`", path.display());
    let notes = skipped.notes();
    let notes = notes.iter().map(|note| Row::new().text(Ink::Caution, note));
    let rows = std::iter::once(Row::new().text(Ink::Plain, &told)).chain(notes).collect();
    Ok((path, rows))
}

/// Returns the file that somebody means who typed this.
fn named(kit: &Kit, file: &str) -> PathBuf {
    match (file.strip_prefix("~/"), &kit.environment.home) {
        (Some(rest), Some(home)) => home.join(rest),
        (Some(_) | None, _) => kit.root.join(Path::new(file)),
    }
}

#[cfg(test)]
mod tests;
