//! What tools are called here and elsewhere.
//!
//! Rules, agent definitions, flags and models name tools; all of them go
//! through here, so that a name means the same everywhere.

/// Every tool there is, in the order models are told of them.
pub const KNOWN: [&str; 15] = [
    "Read",
    "Write",
    "Edit",
    "ApplyPatch",
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

/// Tools of other harnesses that rules may speak of, though they are not here:
/// people bring their rules along.
const ELSEWHERE: [&str; 1] = ["WebFetch"];

/// The tool that starts agents.
pub const AGENT: &str = "Agent";

/// The tool by whose call a unit gives an answer that must fit a schema. Only
/// such a unit has it, behind all others; no rule speaks of it.
pub const STRUCTURED_OUTPUT: &str = "StructuredOutput";

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

/// Tells whether a list of tools that must not be used holds a tool. A patch
/// does whatever Write and Edit do.
#[must_use]
pub fn is_kept_from(listed: &[String], name: &str) -> bool {
    let covers = |listed: &str| {
        listed.eq_ignore_ascii_case(name)
            || (name == "ApplyPatch" && matches!(listed, "Write" | "Edit"))
    };
    listed.iter().any(|listed| covers(canonical(listed)))
}

/// Tells whether a rule may speak of a tool: of one that is here, of a server's,
/// or of one that people know from elsewhere.
#[must_use]
pub fn is_ruled(name: &str) -> bool {
    KNOWN.contains(&name) || ELSEWHERE.contains(&name) || name.starts_with("mcp__")
}

/// Returns the name a tool has here: rules, skills and models written for
/// other harnesses say `Task` for the Agent tool and `apply_patch` for
/// ApplyPatch. Case is left as it is where the tool is not known.
#[must_use]
pub fn canonical(name: &str) -> &str {
    let name = name.trim();
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    let name = match name {
        _ if is("Task") => "Agent",
        _ if is("apply_patch") => "ApplyPatch",
        other => other,
    };
    let mut known = KNOWN.into_iter().chain(ELSEWHERE);
    known.find(|known| known.eq_ignore_ascii_case(name)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_write_may_not_patch_either() {
        for (listed, name, expected) in [
            ("edit", "ApplyPatch", true),
            ("Write", "ApplyPatch", true),
            ("Write", "Edit", false),
            ("apply_patch", "ApplyPatch", true),
            ("ApplyPatch", "Write", false),
        ] {
            assert_eq!(is_kept_from(&[listed.to_owned()], name), expected, "{listed}");
        }
    }

    #[test]
    fn a_name_is_known_in_any_case_and_task_is_agent() {
        for (name, expected) in [
            ("bash", "Bash"),
            (" TODOWRITE ", "TodoWrite"),
            ("task", "Agent"),
            ("Task", "Agent"),
            ("apply_patch", "ApplyPatch"),
            ("applypatch", "ApplyPatch"),
            ("mcp__a__B", "mcp__a__B"),
        ] {
            assert_eq!(canonical(name), expected);
        }
    }
}
