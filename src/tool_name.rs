//! What tools are called here and elsewhere.
//!
//! Rules, agent definitions, flags and models name tools; all of them go
//! through here, so that a name means the same everywhere.

/// Every tool there is, in the order models are told of them.
pub const KNOWN: [&str; 14] = [
    "Read",
    "Write",
    "Edit",
    "Bash",
    "Glob",
    "Grep",
    "TodoWrite",
    "Agent",
    "Skill",
    "TaskList",
    "TaskOutput",
    "TaskWait",
    "TaskStop",
    "SendMessage",
];

/// The tool that starts agents.
pub const AGENT: &str = "Agent";

/// What a fork is called where other agents have their definition's name.
pub const FORK: &str = "fork";

/// The tools that start agents or tend them.
const FOR_AGENTS: [&str; 6] =
    ["Agent", "TaskList", "TaskOutput", "TaskWait", "TaskStop", "SendMessage"];

/// Tells whether a call of a tool may wait for other agents. While it does,
/// they work in the place of the one that made it.
#[must_use]
pub fn may_wait_for_agents(name: &str) -> bool {
    matches!(name, "Agent" | "TaskOutput" | "TaskWait")
}

/// Tells whether a tool looks at agents and does nothing else. What it gives
/// stays the same for as long as they do not get on.
#[must_use]
pub fn looks_at_agents(name: &str) -> bool {
    matches!(name, "TaskList" | "TaskOutput" | "TaskWait")
}

/// Tells whether a tool starts agents or tends them.
#[must_use]
pub fn is_for_agents(name: &str) -> bool {
    FOR_AGENTS.contains(&name)
}

/// Returns the name a tool has here: rules, skills and models written for
/// other harnesses say `Task` for the Agent tool. Case is left as it is where
/// the tool is not known.
#[must_use]
pub fn canonical(name: &str) -> &str {
    let name = name.trim();
    let name = if name.eq_ignore_ascii_case("Task") { "Agent" } else { name };
    KNOWN.into_iter().find(|known| known.eq_ignore_ascii_case(name)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_known_in_any_case_and_task_is_agent() {
        for (name, expected) in [
            ("bash", "Bash"),
            (" TODOWRITE ", "TodoWrite"),
            ("task", "Agent"),
            ("Task", "Agent"),
            ("mcp__a__B", "mcp__a__B"),
        ] {
            assert_eq!(canonical(name), expected);
        }
    }
}
