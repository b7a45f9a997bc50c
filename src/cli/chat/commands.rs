//! The commands of a chat: what is typed as `/name` beside the skills.
//!
//! One table says what there is; completion and `/help` read it, too. What a
//! command does stands where it is carried out: what only looks or writes beside
//! the run, in the modules below.

pub mod look;
pub mod models;
pub mod rewind;
pub mod sessions;
#[cfg(test)]
mod testing;

/// Something that can be typed as `/name`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    /// What it does.
    pub what: What,
    /// Its name, without `/`.
    pub name: &'static str,
    /// What may stand behind it; empty for nothing.
    pub arguments: &'static str,
    /// What it does, in a few words.
    pub about: &'static str,
    /// When it may be given.
    pub when: When,
}

/// When a command may be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// At any time.
    Always,
    /// While main rests.
    AtRest,
}

/// The commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// Lists keys and commands.
    Help,
    /// Has another model answer.
    Model,
    /// Lists the models.
    Models,
    /// Lists the types of agents.
    Agents,
    /// Lists what is at work and what has ended.
    Tasks,
    /// Goes on from here in the background.
    Fork,
    /// Sums the conversation up.
    Compact,
    /// Tells what was used.
    Usage,
    /// Draws what fills the window.
    Context,
    /// Lists the rules, or changes the mode.
    Permissions,
    /// Shows what has changed in the repository.
    Diff,
    /// Puts files back.
    Undo,
    /// Goes back to an earlier turn.
    Rewind,
    /// Goes on with another session.
    Resume,
    /// Names the session.
    Rename,
    /// Writes the session down.
    Export,
    /// Lists the skills.
    Skills,
    /// Lists the servers of tools.
    Mcp,
    /// Begins a new session.
    Clear,
    /// Chooses the colours.
    Theme,
    /// Leaves.
    Quit,
}

const fn command(
    what: What,
    (name, arguments): (&'static str, &'static str),
    when: When,
    about: &'static str,
) -> Command {
    Command { what, name, arguments, about, when }
}

/// Every command, in the order in which they are listed.
pub const COMMANDS: [Command; 21] = [
    command(What::Help, ("help", ""), When::Always, "keys and commands"),
    command(
        What::Model,
        ("model", "[NAME]"),
        When::Always,
        "another model from the next message on",
    ),
    command(What::Models, ("models", ""), When::Always, "models that can be chosen"),
    command(What::Agents, ("agents", ""), When::Always, "types of agents"),
    command(What::Tasks, ("tasks", ""), When::Always, "what is at work and what has ended"),
    command(What::Fork, ("fork", "DIRECTIVE"), When::AtRest, "go on from here in the background"),
    command(What::Compact, ("compact", "[HINT]"), When::AtRest, "sum the conversation up"),
    command(What::Usage, ("usage", ""), When::Always, "what was used"),
    command(What::Context, ("context", ""), When::Always, "what fills the context window"),
    command(
        What::Permissions,
        ("permissions", "[MODE]"),
        When::Always,
        "rules in force, or another mode",
    ),
    command(What::Diff, ("diff", ""), When::Always, "what has changed in the repository"),
    command(What::Undo, ("undo", "[FLAGS]"), When::AtRest, "put files back as they were"),
    command(What::Rewind, ("rewind", ""), When::AtRest, "go back to an earlier turn"),
    command(What::Resume, ("resume", "[SESSION]"), When::AtRest, "go on with another session"),
    command(What::Rename, ("rename", "NAME"), When::Always, "name this session"),
    command(What::Export, ("export", "[FILE]"), When::Always, "write the session down as Markdown"),
    command(What::Skills, ("skills", ""), When::Always, "skills, which are typed as `/name`"),
    command(What::Mcp, ("mcp", ""), When::Always, "servers of tools"),
    command(What::Clear, ("clear", ""), When::AtRest, "begin a new session"),
    command(What::Theme, ("theme", "[NAME]"), When::Always, "colours"),
    command(What::Quit, ("quit", ""), When::Always, "leave"),
];

/// Returns the command with a name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name)
}

/// Returns the command that a text is, and what stands behind its name; `None`
/// if it is none.
#[must_use]
pub fn typed(text: &str) -> Option<(&'static Command, &str)> {
    let line = text.strip_prefix('/')?;
    let (name, arguments) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    // What half of all others call it.
    let name = if name == "exit" { "quit" } else { name };
    Some((find(name)?, arguments.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_the_first_word_of_a_text() {
        let found = |text| typed(text).map(|(command, rest)| (command.what, rest));
        assert_eq!(found("/help"), Some((What::Help, "")));
        assert_eq!(found("/exit"), Some((What::Quit, "")));
        assert_eq!(found("/model  fast \n"), Some((What::Model, "fast")));
        for none in ["help", " /help", "/helper", "/", "/review x"] {
            assert_eq!(found(none), None, "{none}");
        }
    }

    #[test]
    fn every_command_is_there_once_and_found_by_its_name() {
        for command in COMMANDS {
            assert_eq!(find(command.name), Some(&command));
            let same = COMMANDS.iter().filter(|other| other.what == command.what);
            assert_eq!(same.count(), 1, "{command:?}");
        }
    }
}
