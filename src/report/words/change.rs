//! What a call that is asked about would change, and its other arguments: as
//! its arguments say it. No file is looked at, so what stands in one now is
//! not known here.

use serde_json::Value;

use super::short_line;
use crate::event::CallQuestion;
use crate::message::counted;
use crate::patch;
use crate::report::sanitise;

/// Most other arguments that are shown.
const ARGUMENTS_CAP: usize = 3;

/// Most characters of one of them: with its name it stands on one row.
const ARGUMENT_CAP: usize = 40;

/// Returns what a call is about, whole: a subject is a line's beginning, and
/// what follows it must not be hidden.
pub(super) fn about(asked: &CallQuestion) -> String {
    let CallQuestion { tool, subject, arguments, .. } = asked;
    let Ok(Value::Object(given)) = serde_json::from_str(arguments) else {
        return arguments.to_string();
    };
    let name = match &**tool {
        "Bash" => Some("command"),
        "Read" | "Write" | "Edit" => Some("file_path"),
        // Its change says all of it.
        "ApplyPatch" => return subject.to_string(),
        _ => None,
    };
    let named = name.and_then(|name| given.get(name)?.as_str());
    let is_whole = |text: &str| given.values().any(|value| value.as_str() == Some(text));
    match named {
        Some(text) => text.to_owned(),
        None if is_whole(subject) && !subject.trim().is_empty() => subject.to_string(),
        None => arguments.to_string(),
    }
}

/// What would become of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// How much of what, in words of ours.
    pub(super) what: String,
    /// The lines, each behind its sign.
    pub(super) lines: String,
}

/// Returns what an edit would change; `None` if the call is none.
pub(super) fn change(asked: &CallQuestion) -> Option<Change> {
    let arguments: Value = serde_json::from_str(&asked.arguments).ok()?;
    let text = |name: &str| arguments[name].as_str();
    match &*asked.tool {
        "Write" => {
            let lines: Vec<String> = text("content")?.lines().map(|it| format!("+{it}")).collect();
            Some(Change {
                what: format!("the whole file, +{}:", lines.len()),
                lines: lines.join("\n"),
            })
        }
        "Edit" => Some(replaced(text("old_string")?, text("new_string")?)),
        "ApplyPatch" => {
            let is_mark = |line: &&str| ["*** Begin Patch", "*** End Patch"].contains(&line.trim());
            let lines = patch::text(&arguments)?.lines().filter(|line| !is_mark(line));
            let lines: Vec<String> = lines.map(str::to_owned).collect();
            Some(signed(&lines))
        }
        _ => None,
    }
}

/// What differs between two texts, without what they begin and end with alike.
fn replaced(old: &str, new: &str) -> Change {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same = |pair: &(&&str, &&str)| pair.0 == pair.1;
    let before = old.iter().zip(&new).take_while(same).count();
    let (old, new) = (&old[before..], &new[before..]);
    let after = old.iter().rev().zip(new.iter().rev()).take_while(same).count();
    let (old, new) = (&old[..old.len() - after], &new[..new.len() - after]);
    let lines = old.iter().map(|line| format!("-{line}"));
    signed(&lines.chain(new.iter().map(|line| format!("+{line}"))).collect::<Vec<_>>())
}

fn signed(lines: &[String]) -> Change {
    let count = |sign: char| lines.iter().filter(|line| line.starts_with(sign)).count();
    Change { what: format!("+{} -{}:", count('+'), count('-')), lines: lines.join("\n") }
}

/// Returns a row for each argument that is shown nowhere else, cut; of many only
/// how many more there are.
pub(super) fn others(asked: &CallQuestion) -> Vec<String> {
    let others = unshown(asked);
    let row = |(name, value): &(String, String)| {
        format!("with {} = {}", short_line(name, 20), short_line(value, ARGUMENT_CAP))
    };
    let mut rows: Vec<String> = others.iter().take(ARGUMENTS_CAP).map(row).collect();
    match u64::try_from(others.len().saturating_sub(ARGUMENTS_CAP)) {
        Ok(0) => {}
        more => rows.push(format!("and {}", counted(more.unwrap_or(u64::MAX), "more argument"))),
    }
    rows
}

/// Returns a row for each argument that is shown nowhere else.
pub(super) fn others_whole(asked: &CallQuestion) -> Vec<String> {
    let line = |text: &str| sanitise::line(text).into_owned();
    let row = |(name, value): &(String, String)| format!("with {} = {}", line(name), line(value));
    unshown(asked).iter().map(row).collect()
}

/// Returns the arguments that are shown nowhere else.
fn unshown(asked: &CallQuestion) -> Vec<(String, String)> {
    let Ok(Value::Object(arguments)) = serde_json::from_str(&asked.arguments) else {
        return Vec::new();
    };
    // Of some all arguments are shown.
    if about(asked) == *asked.arguments {
        return Vec::new();
    }
    let shown: &[&str] = match &*asked.tool {
        "Bash" => &["command"],
        "Write" => &["file_path", "content"],
        "Edit" => &["file_path", "old_string", "new_string"],
        "ApplyPatch" => &["input", "patch"],
        _ => &[],
    };
    let is_shown = |name: &str, value: &Value| {
        shown.contains(&name) || value.as_str().is_some_and(|value| value == &*asked.subject)
    };
    let others = arguments.into_iter().filter(|(name, value)| !is_shown(name, value));
    let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    others.map(|(name, value)| (name, text(value))).collect()
}
