//! Faults that users of comparable harnesses reported, tried on this binary.
//!
//! A case has its input in `tests/cases/NAME` and is played by [`Case`](crate::support::play::Case).
//! Each module holds the cases of one kind and further inputs of that kind.

/// Messages to agents that have ended, and reports that imitate headings.
mod agents;
/// Errors that have to name the real cause.
mod causes;
/// Commands and what they leave running.
mod commands;
/// Ends of answers, and the proof that an answer is complete.
mod endings;
/// Tools that write: links, line ends, indentation, encodings, names.
mod files;
/// Hooks and rules that cannot be understood: the call does not run.
mod gates;
/// Piped input, and the contents of configuration files.
mod input;
/// Instructions and agent definitions that a repository brings along.
mod instructions;
/// Replies, schemas and results of MCP servers in unusual shapes.
mod mcp;
/// Conversations that outgrow the context window.
mod overflow;
/// The shared part of the requests of one change's reviewers.
mod reviews;
/// Searches that have to say what they left out.
mod searches;
/// Servers and chat templates that refuse what others accept.
mod strict_servers;
/// Slots, rows and reviews whose answers are not whole.
mod wholeness;
/// The wordings of errors that servers send.
mod wordings;
/// Agents in worktrees of their own.
mod worktrees;

#[test]
fn every_case_is_played() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let names = |directory: &str| -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(root.join(directory)).expect("the directory is there");
        entries.map(|entry| entry.expect("it can be read").path()).collect()
    };
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).expect("it is a file");
    let tests: String = names("it/cases").into_iter().map(read).collect();
    for case in names("cases") {
        let name = case.file_name().and_then(|name| name.to_str()).expect("names are UTF-8");
        assert!(tests.contains(&format!("\"{name}\"")), "no test plays `{name}`");
    }
}
