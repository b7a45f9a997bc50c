//! What something that was typed is: a line for the shell, a command, or words
//! for main. Shared by the chats with and without a screen.

use super::commands::{self, Command, When};

/// What a text that was sent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning<'a> {
    /// A line for the shell.
    Shell(&'a str),
    /// A command, and what stands behind its name.
    Command(&'static Command, &'a str),
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
            false => Ok(Meaning::Command(command, arguments)),
        };
    }
    let first = text.strip_prefix('/').and_then(|line| line.split_whitespace().next());
    let skill = first.and_then(|name| skills.iter().find(|(own, _)| own == name));
    match (is_busy, skill) {
        (true, Some((name, _))) => Err(format!("/{name} can be given once the turn is over")),
        (true, None) => Ok(Meaning::Wrote),
        (false, _) => Ok(Meaning::Prompt),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, is_busy: bool, expected: Result<Meaning<'_>, &str>) {
        let skills = [("review".to_owned(), "looks at a change".to_owned())];
        assert_eq!(meaning(text, is_busy, &skills), expected.map_err(str::to_owned), "{text}");
    }

    #[test]
    fn what_needs_rest_waits_for_it_and_words_go_to_main_at_any_time() {
        let [help, clear] = ["help", "clear"].map(|name| commands::find(name).unwrap());
        for is_busy in [false, true] {
            check("/help me", is_busy, Ok(Meaning::Command(help, "me")));
        }
        check("look", false, Ok(Meaning::Prompt));
        check("look", true, Ok(Meaning::Wrote));
        check("/review x", false, Ok(Meaning::Prompt));
        check("/reviewer", true, Ok(Meaning::Wrote));
        check("! ls ", false, Ok(Meaning::Shell("ls")));
        check("/clear", false, Ok(Meaning::Command(clear, "")));
        check("/clear", true, Err("/clear can be given once the turn is over"));
        check("/review x", true, Err("/review can be given once the turn is over"));
        check("!ls", true, Err("a shell line can be given once the turn is over"));
        check("! ", false, Err("the shell line follows the `!`"));
    }
}
