//! What something that was typed is: a line for the shell, a command, or words
//! for main. Shared by the chats with and without a screen.

use std::sync::Arc;

use super::commands::{self, COMMANDS, What, When};
use crate::cli::slash;
use crate::mcp;
use crate::message::byte_size;
use crate::run::WROTE_CAP;
use crate::slips::distance;

/// Most letters of a name that are compared with others.
const NAME_CAP: usize = 40;

/// What a text that was sent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning<'a> {
    /// A line for the shell.
    Shell(&'a str),
    /// A command that is carried out beside the run, and what stands behind its
    /// name.
    Command(What, &'a str),
    /// The agents are to be listed.
    Tasks,
    /// Other colours, by their name.
    Theme(&'a str),
    /// The chat is to be left.
    Quit,
    /// Words for main, which works and reads them at its next boundary.
    Wrote,
    /// What main is asked next.
    Prompt,
}

/// Returns what a text is. `skills` are the names and descriptions of those that
/// can be typed.
///
/// # Errors
///
/// If it has to wait, or is not whole: why.
pub(super) fn meaning<'a>(
    text: &'a str,
    is_busy: bool,
    skills: &[(String, String)],
) -> Result<Meaning<'a>, String> {
    if let Some(line) = text.strip_prefix('!') {
        return match (is_busy, line.trim()) {
            (true, _) => Err("a shell line can be given once the turn is over".to_owned()),
            (false, "") => Err("the shell line follows the `!`".to_owned()),
            (false, line) => Ok(Meaning::Shell(line)),
        };
    }
    if let Some((command, arguments)) = commands::typed(text) {
        let waits = command.when == When::AtRest && is_busy;
        return match waits {
            true => Err(format!("/{} can be given once the turn is over", command.name)),
            false => Ok(commanded(command.what, arguments)),
        };
    }
    let first = text.strip_prefix('/').and_then(|line| line.split_whitespace().next());
    let skill = first.and_then(|name| skills.iter().find(|(own, _)| slash::is_called(own, name)));
    // What servers offer is known to those who have answered only.
    let is_served = |name: &str| name.to_lowercase().starts_with(mcp::name::PREFIX);
    if let (None, Some((name, _))) = (skill, slash::named(text))
        && !slash::is_place(name)
        && !is_served(name)
    {
        return Err(unknown(name, skills));
    }
    match (is_busy, skill) {
        (true, Some((name, _))) => Err(format!("/{name} can be given once the turn is over")),
        (true, None) => Ok(Meaning::Wrote),
        (false, _) => Ok(Meaning::Prompt),
    }
}

/// Says that nothing has this name, and what has nearly the same.
fn unknown(name: &str, skills: &[(String, String)]) -> String {
    let skills = skills.iter().map(|(name, _)| &**name);
    let known = COMMANDS.iter().map(|command| command.name).chain(skills);
    let typed: Vec<char> = name.to_lowercase().chars().take(NAME_CAP).collect();
    let slips = |known: &str| distance(&known.chars().collect::<Vec<char>>(), &typed);
    let nearest = known.map(|known| (slips(known), known)).min();
    match nearest.filter(|(slips, known)| *slips <= known.len().div_ceil(3)) {
        Some((_, nearest)) => format!("there is no /{name}; try /{nearest}"),
        None => format!("there is no /{name}; /help lists commands, /skills skills"),
    }
}

fn commanded(what: What, arguments: &str) -> Meaning<'_> {
    match what {
        // What they mean is said by what a prompt means.
        What::Fork | What::Compact => Meaning::Prompt,
        What::Quit => Meaning::Quit,
        What::Tasks => Meaning::Tasks,
        What::Theme => Meaning::Theme(arguments),
        What::Help
        | What::Model
        | What::Models
        | What::Agents
        | What::Usage
        | What::Context
        | What::Permissions
        | What::Diff
        | What::Undo
        | What::Rewind
        | What::Resume
        | What::Rename
        | What::Export
        | What::Skills
        | What::Mcp
        | What::Clear => Meaning::Command(what, arguments),
    }
}

/// Says why a text is not taken, if it is too much for what takes it. `waiting`
/// is what main has not read.
pub(super) fn too_much<'a>(
    text: &str,
    is_busy: bool,
    waiting: impl Iterator<Item = &'a Arc<str>>,
) -> Option<String> {
    let (most, bytes) = WROTE_CAP;
    let (count, sum) = waiting.fold((0, 0), |(count, sum), text| (count + 1, sum + text.len()));
    if text.len() > bytes {
        let bytes = byte_size(bytes as u64);
        return Some(format!("a message holds {bytes} at most; put it into a file"));
    }
    let is_much = is_busy && (count >= most || sum + text.len() > bytes);
    is_much.then(|| "too much waits already; it can be sent once the turn is over".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_has_a_bound_and_so_has_a_message() {
        let (most, bytes) = WROTE_CAP;
        let check = |length: usize, is_busy, waiting: &[Arc<str>], is_taken: bool| {
            let refused = too_much(&"x".repeat(length), is_busy, waiting.iter());
            assert_eq!(refused.is_none(), is_taken, "{length} behind {}", waiting.len());
        };
        let half: Arc<str> = "x".repeat(bytes / 2).into();
        check(bytes, false, &[], true);
        check(bytes + 1, false, &[], false);
        check(bytes - half.len(), true, std::slice::from_ref(&half), true);
        check(bytes - half.len() + 1, true, std::slice::from_ref(&half), false);
        check(bytes, false, &[half], true);
        check(1, true, &vec!["".into(); most - 1], true);
        check(1, true, &vec!["".into(); most], false);
    }

    #[track_caller]
    fn check(text: &str, is_busy: bool, expected: Result<Meaning<'_>, &str>) {
        let skills = [("review".to_owned(), "looks at a change".to_owned())];
        assert_eq!(meaning(text, is_busy, &skills), expected.map_err(str::to_owned), "{text}");
    }

    #[test]
    fn what_needs_rest_waits_for_it_and_words_go_to_main_at_any_time() {
        for is_busy in [false, true] {
            check("/help me", is_busy, Ok(Meaning::Command(What::Help, "me")));
        }
        check("look", false, Ok(Meaning::Prompt));
        check("look", true, Ok(Meaning::Wrote));
        check("/review x", false, Ok(Meaning::Prompt));
        for is_busy in [false, true] {
            let unknown = "there is no /reviewer; try /review";
            check("/reviewer now", is_busy, Err(unknown));
            let unknown = "there is no /xyz; /help lists commands, /skills skills";
            check("/xyz", is_busy, Err(unknown));
        }
        check("/tmp is full", true, Ok(Meaning::Wrote));
        check("/etc/passwd is short", false, Ok(Meaning::Prompt));
        check("! ls ", false, Ok(Meaning::Shell("ls")));
        check("/clear", false, Ok(Meaning::Command(What::Clear, "")));
        check("/clear", true, Err("/clear can be given once the turn is over"));
        check("/review x", true, Err("/review can be given once the turn is over"));
        check("!ls", true, Err("a shell line can be given once the turn is over"));
        check("! ", false, Err("the shell line follows the `!`"));
    }
}
