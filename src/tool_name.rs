//! What tools are called here and elsewhere.
//!
//! Rules, agent definitions, flags and models name tools; all of them go
//! through here, so that a name means the same everywhere.

pub mod others;

pub use others::{OtherName, OtherNames};

/// Every tool there is, in the order models are told of them.
pub const KNOWN: [&str; 17] = [
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
    "AskUserQuestion",
    "WebFetch",
];

/// Tools of other harnesses that rules, definitions and flags may speak of,
/// though they are not here: people bring those along.
const ELSEWHERE: [&str; 55] = [
    "WebSearch",
    "NotebookEdit",
    "NotebookRead",
    "LS",
    "LSP",
    "Artifact",
    "ClaudeDesign",
    "CronCreate",
    "CronDelete",
    "CronList",
    "EndConversation",
    "EnterPlanMode",
    "EnterWorktree",
    "ExitPlanMode",
    "ExitWorktree",
    "ListMcpResourcesTool",
    "ListMcpResources",
    "ReadMcpResourceTool",
    "ReadMcpResource",
    "ReadMcpResourceDirTool",
    "ReadMcpResourceDir",
    "Monitor",
    "OfferChromeSetup",
    "PowerShell",
    "Projects",
    "propose_skills",
    "ProposeGoal",
    "PushNotification",
    "ReadNotifications",
    "RemoteTrigger",
    "ReportFindings",
    "ScheduleWakeup",
    "SendFeedback",
    "SendUserFile",
    "SendUserMessage",
    "Brief",
    "SetGoal",
    "ShareOnboardingGuide",
    "ShowOnboardingRolePicker",
    "SlashCommand",
    "SubagentHandback",
    "TaskCreate",
    "TaskGet",
    "TaskUpdate",
    "ToolSearch",
    "WaitForMcpServers",
    "Workflow",
    "list_directory",
    "read_many_files",
    "web_search",
    "save_memory",
    "exit_plan_mode",
    "notebook_edit",
    "tool_search",
    "lsp",
];

/// What other harnesses call tools that are here.
const ALIASES: [(&str, &str); 27] = [
    ("Task", "Agent"),
    ("apply_patch", "ApplyPatch"),
    ("run_shell_command", "Bash"),
    ("ShellTool", "Bash"),
    ("read_file", "Read"),
    ("ReadFileTool", "Read"),
    ("write_file", "Write"),
    ("WriteFileTool", "Write"),
    ("EditTool", "Edit"),
    ("MultiEdit", "Edit"),
    ("replace", "Edit"),
    ("GlobTool", "Glob"),
    ("GrepTool", "Grep"),
    ("grep_search", "Grep"),
    ("search_file_content", "Grep"),
    ("todo_write", "TodoWrite"),
    ("ListAgents", "TaskList"),
    ("ListPeers", "TaskList"),
    ("list_agents", "TaskList"),
    ("BashOutput", "TaskOutput"),
    ("KillShell", "TaskStop"),
    ("KillBash", "TaskStop"),
    ("task_stop", "TaskStop"),
    ("send_message", "SendMessage"),
    ("web_fetch", "WebFetch"),
    ("ask_user_question", "AskUserQuestion"),
    ("TodoWriteTool", "TodoWrite"),
];

/// Names of the shell in rules of qwen-code, where a command stands for all that
/// begin with it.
const PREFIXED: [&str; 2] = ["ShellTool", "run_shell_command"];

/// What the names of servers' tools begin with.
const OF_SERVERS: &str = "mcp__";

/// The tool that starts agents.
pub const AGENT: &str = "Agent";

/// The tool that opens skills.
pub const SKILL: &str = "Skill";

/// The tool by whose call a unit gives an answer that must fit a schema. Only
/// such a unit has it, behind all others; no rule speaks of it.
pub const STRUCTURED_OUTPUT: &str = "StructuredOutput";

/// What rules and questions call a connection of a sandboxed command, as Claude Code does. No model
/// can call it.
pub const SANDBOX_NETWORK: &str = "SandboxNetworkAccess";

/// What a fork is called where other agents have their definition's name.
pub const FORK: &str = "fork";

/// The tools that start agents or tend them.
const FOR_AGENTS: [&str; 6] =
    ["Agent", "TaskList", "TaskOutput", "TaskWait", "TaskStop", "SendMessage"];

/// Tells whether rules for a tool that is called so mean whatever begins with
/// what they say.
#[must_use]
pub fn is_prefixed(name: &str) -> bool {
    PREFIXED.contains(&name)
}

/// Tells whether a call of a tool may wait for other agents. While it does,
/// they work in the place of the one that made it.
#[must_use]
pub fn may_wait_for_agents(name: &str) -> bool {
    matches!(name, AGENT | SKILL | "TaskOutput" | "TaskWait")
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
        let listed = server(listed).unwrap_or(listed);
        listed.eq_ignore_ascii_case(name)
            || is_of_server(listed, name)
            || (name == "ApplyPatch" && matches!(listed, "Write" | "Edit"))
    };
    listed.iter().any(|listed| covers(canonical(listed)))
}

/// Returns the server in `mcp__server__*`, which is written for all its tools.
#[must_use]
pub fn server(name: &str) -> Option<&str> {
    name.strip_suffix("__*").filter(|server| server.starts_with(OF_SERVERS))
}

/// Tells whether `listed` is a server, `mcp__server`, and `name` one of its
/// tools.
#[must_use]
pub fn is_of_server(listed: &str, name: &str) -> bool {
    let server = listed.strip_prefix(OF_SERVERS).filter(|server| !server.contains("__"));
    // A tool's name is not what its server is called in another case.
    let rest = name.get(..listed.len()).filter(|start| start.eq_ignore_ascii_case(listed));
    server.is_some() && rest.is_some() && name[listed.len()..].starts_with("__")
}

/// Tells whether a list of tools holds a tool: by its name in any case, or by
/// its server's.
#[must_use]
pub fn lists(list: &[String], name: &str) -> bool {
    list.iter().any(|listed| {
        let listed = canonical(listed);
        let listed = server(listed).unwrap_or(listed);
        listed.eq_ignore_ascii_case(name) || is_of_server(listed, name)
    })
}

/// Tells whether a rule may speak of a tool: of one that is here, or of a
/// server's.
#[must_use]
pub fn is_ruled(name: &str) -> bool {
    KNOWN.contains(&name)
        || name == SANDBOX_NETWORK
        || is_elsewhere(name)
        || name.starts_with("mcp__")
}

/// Returns every tool that a rule may name, but those of servers.
pub(crate) fn ruled() -> impl Iterator<Item = &'static str> {
    KNOWN.into_iter().chain(ELSEWHERE)
}

/// Tells whether a name is that of a tool which other harnesses have, and which
/// is not here.
#[must_use]
pub fn is_elsewhere(name: &str) -> bool {
    ELSEWHERE.contains(&canonical(name))
}

/// Returns the name a tool has here: rules, skills and models written for
/// other harnesses say `Task` for the Agent tool and `apply_patch` for
/// ApplyPatch. Case is left as it is where the tool is not known.
#[must_use]
pub fn canonical(name: &str) -> &str {
    let name = name.trim();
    let alias = ALIASES.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(name));
    let name = alias.map_or(name, |(_, name)| name);
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
    fn a_server_stands_for_its_tools_and_for_no_others() {
        for (listed, name, expected) in [
            ("mcp__a", "mcp__a__b", true),
            ("mcp__a__*", "mcp__a__b", true),
            ("mcp__A", "mcp__a__b", true),
            ("mcp__a__b", "mcp__a__b", true),
            ("mcp__a__b", "mcp__a__b__c", false),
            ("mcp__a", "mcp__ab__c", false),
            ("mcp__a", "mcp__a", true),
            ("mcp__", "mcp__a__b", false),
            ("Read", "Read__b", false),
        ] {
            assert_eq!(lists(&[listed.to_owned()], name), expected, "{listed} {name}");
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
