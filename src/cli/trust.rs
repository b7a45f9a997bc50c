//! `tine trust`: what the repository brings along, and whether it may take
//! effect.

use super::args::TrustFlags;
use super::exit::{Exit, Refusal};
use super::project;
use crate::config::Environment;

/// Shows what there is, and keeps what the user says of it.
pub(super) fn run(environment: &Environment, flags: &TrustFlags) -> Result<Exit, Refusal> {
    let project = project::look(environment)?;
    let store = project::store(environment).ok_or_else(|| {
        Refusal::new(Exit::BadConfig, "there is no place to keep what is trusted")
            .hint("set HOME, XDG_STATE_HOME or TINE_HOME")
    })?;
    let refuse = |error: &dyn std::error::Error| Refusal::because(Exit::Error, error);
    let root = project.root.display();
    if flags.revoke {
        store.forget(&project.root).map_err(|error| refuse(&error))?;
        super::say(&format!("`{root}` is not trusted any more"));
        return Ok(Exit::Done);
    }
    if !project.wants_trust() {
        super::say(&format!("`{root}` brings nothing along that would need trust"));
        return Ok(Exit::Done);
    }
    super::say(&project::words(environment, &project));
    if let Some(line) = project::changed(Some(&store), &project) {
        super::say(&line);
    }
    project::readable(&project)?;
    let answer = match flags.yes {
        true => true,
        false if project::is_on_terminal() => project::ask("Trust this, as it is now? [y/N] "),
        false => {
            return Err(Refusal::new(Exit::Usage, "nobody can be asked here")
                .hint("pass `--yes` to `tine trust`, or `--trust` to a run"));
        }
    };
    store.keep(&project, answer).map_err(|error| refuse(&error))?;
    let is = if answer { "is trusted, as it is now" } else { "is not trusted" };
    super::say(&format!("`{root}` {is}"));
    Ok(Exit::Done)
}
