//! The sessions that an editor may load, newest first and page by page.

use std::path::PathBuf;

use agent_client_protocol::v1::schema::{
    ListSessionsRequest, ListSessionsResponse, SessionId, SessionInfo,
};

use crate::cli::exit::{Exit, Refusal};
use crate::cli::session::{cannot_read, root};
use crate::config::Environment;
use crate::event::UnixMillis;
use crate::report::words;
use crate::session::{SessionSummary, list, list_project};

/// Most sessions of a page. An editor shows them in a list.
const PAGE: usize = 100;

/// Most characters of a title.
const TITLE_CAP: usize = 120;

/// Returns a page of sessions.
pub(super) fn sessions(
    environment: &Environment,
    request: &ListSessionsRequest,
) -> Result<ListSessionsResponse, Refusal> {
    let root = root(environment)?;
    let listed = match &request.cwd {
        Some(cwd) => list_project(&root, &cwd.canonicalize().unwrap_or_else(|_| cwd.clone())),
        None => list(&root),
    };
    let mut all = listed.map_err(|error| cannot_read(&error))?;
    // A head that cannot be read names no directory to go on in.
    all.retain(|session| PathBuf::from(&session.cwd).is_absolute());
    all.sort_by_key(|session| std::cmp::Reverse((session.last_activity, session.id.clone())));
    let first = match request.cursor.as_deref() {
        None => 0,
        Some(cursor) => after(&all, cursor)?,
    };
    let page: Vec<_> = all.iter().skip(first).take(PAGE).collect();
    let is_last = first + page.len() >= all.len();
    let next = page.last().filter(|_| !is_last).map(|last| cursor(last));
    let infos = page.into_iter().map(info).collect();
    Ok(ListSessionsResponse::new(infos).next_cursor(next))
}

/// Returns what names the place behind a session, also after others have come
/// or gone.
fn cursor(session: &SessionSummary) -> String {
    format!("{}-{}", session.last_activity.0, session.id)
}

fn after(all: &[SessionSummary], cursor: &str) -> Result<usize, Refusal> {
    let unknown = || Refusal::new(Exit::BadInput, format!("`{cursor}` is no cursor"));
    let (at, id) = cursor.split_once('-').ok_or_else(unknown)?;
    let at = UnixMillis(at.parse().map_err(|_| unknown())?);
    let is_shown = |session: &&SessionSummary| (session.last_activity, &*session.id) >= (at, id);
    Ok(all.iter().take_while(is_shown).count())
}

fn info(session: &SessionSummary) -> SessionInfo {
    let title = session.name.as_ref().map_or(&*session.first_prompt, |name| name.as_str());
    let title = Some(words::short_line(title, TITLE_CAP)).filter(|title| !title.is_empty());
    SessionInfo::new(SessionId::new(session.id.as_str()), session.cwd.clone())
        .title(title)
        .updated_at(Some(words::iso_time(session.last_activity)).filter(|time| !time.is_empty()))
}
