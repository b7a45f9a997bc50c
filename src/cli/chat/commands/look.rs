//! Commands that only show something: what there is, what is in force, what was
//! used, what has changed. Each returns rows; nothing is drawn here.

use std::sync::Arc;

use super::models::{self, Item};
use super::{COMMANDS, Command};
use crate::agent::History;
use crate::cli::exit::Refusal;
use crate::cli::kit::Kit;
use crate::cli::mcp;
use crate::cli::permissions::{self, Files, Listed};
use crate::cli::{session, usage as used};
use crate::config::ListedKind;
use crate::definition::{AgentDefinition, Isolation};
use crate::event::EventKind;
use crate::git::{self, GitError, What};
use crate::mcp::Servers;
use crate::message::{Head, counted};
use crate::prompt;
use crate::report::ink::Ink;
use crate::report::prose::wrapped;
use crate::report::row::Row;
use crate::report::window::{Bounds, Conversation, Window};
use crate::session::Past;
use crate::skill::{Context, Skill, Skills};

/// Most rows of a change; the rest of them is counted.
const DIFF_CAP: usize = 400;

/// Where the second column of keys begins.
const KEYS_COLUMN: usize = 41;

/// How wide the keys themselves are.
const KEY_COLUMN: usize = 13;

/// Where what a command does begins.
const ABOUT_COLUMN: usize = 24;

/// Fewer columns than this have no room for one beside another.
const WIDE: usize = 79;

/// What the keys do.
const KEYS: [(&str, &str); 18] = [
    ("Enter", "send, also while it works"),
    ("Alt-Enter", "new line, as Ctrl-J does"),
    ("Tab", "complete /command, @file"),
    ("Up, Down", "lines, then older messages"),
    ("Ctrl-R", "find an older message"),
    ("Ctrl-G", "write it in your editor"),
    ("!COMMAND", "run a line of the shell"),
    ("Ctrl-O", "open the last call"),
    ("Ctrl-L", "an empty screen"),
    ("Ctrl-D", "leave, from an empty line"),
    ("Esc", "end the turn"),
    ("Ctrl-C", "the same; twice: end all"),
    ("Ctrl-B", "agents go on beside you"),
    ("Alt-Up", "take back what waits"),
    ("1-9, Down", "pick an agent"),
    ("  Enter", "follow it"),
    ("  x, r", "stop it, run it again"),
    ("  Esc", "back to the line"),
];

/// Returns the keys, the commands, and the skills that can be typed.
#[must_use]
pub fn help(skills: &Skills, columns: u16) -> Vec<Row> {
    let mut rows = vec![title("keys")];
    rows.extend(keys(usize::from(columns)));
    rows.push(Row::new());
    rows.push(title("commands"));
    rows.extend(COMMANDS.iter().flat_map(|command| {
        let Command { what: _, name, arguments, about, when: _ } = command;
        about_rows((name, arguments), about, columns)
    }));
    let typed: Vec<&Skill> =
        skills.iter().filter(|skill| skill.user_invocable && !is_hidden(skill)).collect();
    if !typed.is_empty() {
        rows.push(Row::new());
        rows.push(title("skills"));
        rows.extend(typed.into_iter().flat_map(|skill| {
            let named = (&*skill.name, &*skill.argument_hint);
            about_rows(named, &skill.description, columns)
        }));
    }
    rows
}

/// Returns the keys, in two columns where there is room for them.
fn keys(columns: usize) -> Vec<Row> {
    let row = |(key, about): &(&str, &str)| {
        Row::new().text(Ink::Strong, key).padded(KEY_COLUMN).text(Ink::Plain, about)
    };
    if columns < WIDE {
        return KEYS.iter().map(row).collect();
    }
    let (left, right) = KEYS.split_at(KEYS.len().div_ceil(2));
    let beside = |(number, left): (usize, &(&str, &str))| match right.get(number) {
        Some(right) => row(left).padded(KEYS_COLUMN).row(&row(right)),
        None => row(left),
    };
    left.iter().enumerate().map(beside).collect()
}

fn title(text: &str) -> Row {
    Row::new().text(Ink::Heading, text)
}

/// Returns what something does: beside its name, or below where that has no
/// room.
fn about_rows(named: (&str, &str), about: &str, columns: u16) -> Vec<Row> {
    let name = typed_as(named);
    if usize::from(columns) >= WIDE {
        let row = name.cut(ABOUT_COLUMN - 2).padded(ABOUT_COLUMN).text(Ink::Plain, about);
        return vec![row.cut(usize::from(columns))];
    }
    let beside = name.clone().text(Ink::Plain, "  ").text(Ink::Plain, about);
    if beside.columns() <= usize::from(columns) {
        return vec![beside];
    }
    let below = wrapped(Ink::Plain, about, columns.saturating_sub(2), 0);
    let below = below.iter().map(|row| Row::new().text(Ink::Plain, "  ").row(row));
    [name.cut(usize::from(columns))].into_iter().chain(below).collect()
}

fn typed_as((name, arguments): (&str, &str)) -> Row {
    let row = Row::new().text(Ink::Strong, &format!("/{name}"));
    match arguments {
        "" => row,
        arguments => row.text(Ink::Dim, &format!(" {arguments}")),
    }
}

/// Tells whether a command of its name is typed instead.
fn is_hidden(skill: &Skill) -> bool {
    COMMANDS.iter().any(|command| command.name.eq_ignore_ascii_case(&skill.name))
}

/// Returns the model that answers and those that could.
#[must_use]
pub fn models(kit: &Kit) -> Vec<Row> {
    let now = Row::new().text(Ink::Plain, "answers now: ").text(Ink::Strong, kit.model.name());
    let mut rows = vec![now];
    let items = models::items(kit);
    let sections = [
        (ListedKind::Configured, "models, as `/model NAME`"),
        (ListedKind::Preset, "presets, as `/model PRESET:MODEL`"),
    ];
    for (kind, name) in sections {
        let own: Vec<Item> = items.iter().filter(|item| item.kind == kind).cloned().collect();
        if !own.is_empty() {
            rows.push(Row::new());
            rows.push(title(name));
            rows.extend(own.into_iter().map(|item| item.row));
        }
    }
    rows
}

/// Returns the types of agents that a call can name.
#[must_use]
pub fn agents(kit: &Kit) -> Vec<Row> {
    kit.definitions.iter().flat_map(|definition| agent(definition)).collect()
}

fn agent(definition: &AgentDefinition) -> [Row; 2] {
    let AgentDefinition { name, description, tools, model, permission_mode, .. } = definition;
    let row = Row::new().text(Ink::Strong, name).text(Ink::Plain, &format!("  {description}"));
    let tools = match tools {
        Some(tools) => format!("tools: {}", tools.join(", ")),
        None => "all tools".to_owned(),
    };
    let not = &definition.disallowed_tools;
    let facts = [
        Some(tools),
        (!not.is_empty()).then(|| format!("not {}", not.join(", "))),
        model.as_ref().map(|model| format!("model {model}")),
        permission_mode.map(|mode| format!("mode {}", mode.as_str())),
        definition.max_turns.map(|most| counted(most, "turn")),
        definition.isolation.map(|isolation| match isolation {
            Isolation::Worktree => "a worktree of its own".to_owned(),
        }),
        Some(definition.source.to_string()),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    [row, Row::new().text(Ink::Dim, &format!("  {}", facts.join("; ")))]
}

/// Returns the skills, those too that only a model may use.
#[must_use]
pub fn skills(kit: &Kit) -> Vec<Row> {
    let rows = kit.skills.iter().flat_map(|skill| {
        let hidden = is_hidden(skill).then(|| "hidden by the command of its name".to_owned());
        let who = match (skill.user_invocable, skill.disable_model_invocation) {
            (true, false) => None,
            (true, true) => Some("for you alone"),
            (false, false) => Some("for models alone"),
            (false, true) => Some("for nobody"),
        };
        let agent = match &skill.context {
            Context::Inline => None,
            Context::Fork { agent, is_background: _ } => Some(format!("done by an agent: {agent}")),
        };
        let hides = skill.hides.iter().map(|hidden| Some(format!("hides {hidden}")));
        let own = [hidden, who.map(str::to_owned), agent, Some(skill.source.to_string())];
        let facts = own.into_iter().chain(hides);
        let facts: Vec<String> = facts.flatten().collect();
        let first = typed_as((&skill.name, &skill.argument_hint));
        let first = first.text(Ink::Dim, &format!("  ({})", facts.join("; ")));
        [first, Row::new().text(Ink::Plain, "  ").text(Ink::Plain, &skill.description)]
    });
    rows.collect()
}

/// Returns the servers of tools, how each stands and what it offers.
#[must_use]
pub fn mcp(servers: &Servers) -> Vec<Row> {
    if servers.is_empty() {
        return vec![Row::new().text(Ink::Plain, "no servers of tools are configured")];
    }
    let row = |(index, line): (usize, &String)| {
        let ink = if index == 0 { Ink::Strong } else { Ink::Plain };
        Row::new().text(ink, line)
    };
    let rows = servers.iter().map(mcp::lines);
    rows.flat_map(|lines| lines.iter().enumerate().map(row).collect::<Vec<_>>()).collect()
}

/// Returns the mode and the rules in force, with what was allowed for the
/// session.
///
/// # Errors
///
/// The session's log cannot be read.
pub fn permissions(kit: &Kit) -> Result<Vec<Row>, Refusal> {
    let files = Files::around(&kit.environment, &kit.root);
    let mut listed = permissions::listed(&kit.policy, &files);
    let past = kit.is_kept.then(|| past(kit)).transpose()?.unwrap_or_default();
    listed.extend(past.granted().keys().map(|rule| Listed {
        what: "allow",
        text: rule.to_string(),
        from: "session, as you answered".to_owned(),
    }));
    let mode = Row::new().text(Ink::Strong, "mode   ").text(Ink::Plain, kit.policy.mode().as_str());
    let rules = listed.into_iter().map(|Listed { what, text, from }| {
        let ink = match what {
            "deny" => Ink::Bad,
            "allow" => Ink::Good,
            _ => Ink::Caution,
        };
        let row = Row::new().text(ink, what).padded(7).text(Ink::Plain, &text);
        row.text(Ink::Dim, &format!("  ({from})"))
    });
    Ok(std::iter::once(mode).chain(rules).collect())
}

/// Returns what the session has used so far.
///
/// # Errors
///
/// The session is not kept, or its log cannot be read.
pub fn usage(kit: &Kit) -> Result<Vec<Row>, Refusal> {
    let (usage, skipped) = used::of(kit.kept()?)?;
    let lines = usage.lines();
    let rows = lines.iter().map(|line| match line.starts_with(' ') {
        true => Row::new().text(Ink::Plain, line),
        false => Row::new().text(Ink::Strong, line),
    });
    let notes = skipped.notes();
    let notes = notes.iter().map(|note| Row::new().text(Ink::Caution, note));
    Ok(rows.chain(notes).collect())
}

/// Draws what fills the context window of the main conversation.
///
/// # Errors
///
/// The session is not kept, or its log cannot be read.
pub fn context(kit: &Kit, columns: u16) -> Result<Vec<Row>, Refusal> {
    kit.kept()?;
    Ok(window(kit, &past(kit)?).rows(kit.model.name(), columns))
}

/// Returns what fills the window, of a session that has come to this.
#[must_use]
pub fn window(kit: &Kit, past: &Past) -> Window {
    let skills = kit.tools.find("Skill").is_some().then_some(&*kit.skills);
    let system = prompt::system(&kit.system, &kit.instructions, skills);
    let offered = past.offered().map(|offered| kit.tools.with_served(offered, &kit.servers));
    let tools = offered.as_ref().unwrap_or(&kit.tools);
    let head = Arc::new(Head::new(system, tools.schemas()));
    let history = History::of(head, past.conversation());
    let summary = past.conversation().iter().rev().find_map(|event| {
        let EventKind::Compacted(compaction) = event else { return None };
        Some(&*compaction.text)
    });
    let conversation = Conversation {
        history: &history,
        own: &kit.system,
        instructions: &kit.instructions,
        summary,
    };
    let window = kit.model.facts().context_window;
    let tokens = (window != u64::MAX).then_some(window);
    let share = kit.config.session.compact_at;
    let compacts_at = share.zip(tokens).map(|(share, tokens)| share.of(tokens));
    Window::of(conversation, Bounds { tokens, compacts_at })
}

fn past(kit: &Kit) -> Result<Past, Refusal> {
    Past::read(&kit.directory).map_err(|error| session::cannot_read(&error))
}

/// Returns what is not committed yet, untracked files too.
///
/// # Errors
///
/// Git is not there or did not do its work. Where there is nothing to show,
/// the rows say so.
pub fn diff(kit: &Kit) -> Result<Vec<Row>, Refusal> {
    let change = match git::change(&kit.git, &kit.root, &What::Uncommitted) {
        Ok(change) => change,
        Err(GitError::EmptyChange { .. }) => {
            return Ok(vec![
                Row::new().text(Ink::Plain, "nothing has changed since the last commit"),
            ]);
        }
        Err(
            error @ (GitError::NotARepository { .. }
            | GitError::NoWorkingTree { .. }
            | GitError::Damaged { .. }
            | GitError::NoCommits),
        ) => return Ok(vec![Row::new().text(Ink::Plain, &error.to_string())]),
        Err(
            error @ (GitError::UnknownRevision { .. }
            | GitError::NoParent { .. }
            | GitError::NothingInCommon { .. }
            | GitError::GitMissing
            | GitError::GitOfWorkspace { .. }
            | GitError::Failed { .. }),
        ) => return Err(Refusal::no_change(&error)),
    };
    let mut rows = vec![Row::new().text(Ink::Strong, &change.title)];
    let mut lines = change.diff.lines();
    let mut is_inside = false;
    rows.extend(lines.by_ref().take(DIFF_CAP).map(|line| {
        // Within a hunk every line begins with a sign, so this is a header.
        is_inside = !line.starts_with("diff --git ") && (is_inside || line.starts_with("@@"));
        Row::new().text(ink_of(line, is_inside), line)
    }));
    let rest = u32::try_from(lines.count()).unwrap_or(u32::MAX);
    if rest > 0 {
        rows.push(Row::new().text(Ink::Dim, &format!("[{} left out]", counted(rest, "row"))));
    }
    Ok(rows)
}

fn ink_of(line: &str, is_inside: bool) -> Ink {
    match line.bytes().next() {
        Some(b'+') if is_inside => Ink::Added,
        Some(b'-') if is_inside => Ink::Removed,
        Some(b' ') | None if is_inside => Ink::Plain,
        Some(_) | None => Ink::Dim,
    }
}

#[cfg(test)]
mod tests;
