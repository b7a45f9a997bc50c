//! Which rule allows a call, and which one cannot be compared with it.

use super::Call;
use crate::guard::Sourced;
use crate::guard::paths::Ground;
use crate::guard::rules::Rule;
use crate::guard::shell;
use crate::guard::subjects::Subjects;

/// Returns a rule that allows a call. Of a command made of several, and of a
/// patch of several files, each may be allowed by another rule; then it is that
/// of the first.
pub(super) fn allowing<'a, R: AsRef<Rule>>(
    rules: impl Iterator<Item = &'a R> + Clone,
    tool: &str,
    subjects: &Subjects,
    ground: Ground<'_>,
) -> Option<&'a R> {
    let find = |subjects: &Subjects| {
        rules.clone().find(|rule| (*rule).as_ref().allows(tool, subjects, ground))
    };
    let parts = || -> Option<Vec<Subjects>> {
        match (tool, &subjects.words[..]) {
            ("Bash", [command]) => {
                let plain = shell::plain(command).ok()?;
                Some(plain.texts().map(Subjects::of_command).collect())
            }
            ("ApplyPatch", _) if subjects.entries.is_empty() => {
                Some(subjects.paths.iter().map(|it| Subjects::of_path(it)).collect())
            }
            _ => None,
        }
    };
    find(subjects).or_else(|| {
        let found: Vec<&R> = parts()?.iter().map(find).collect::<Option<_>>()?;
        found.first().copied()
    })
}

/// Returns the rule about commands that cannot be sure of this one, and why.
pub(super) fn why_unsure<'a>(
    mut rules: impl Iterator<Item = &'a Sourced>,
    call: &Call<'_>,
) -> Option<(&'a Sourced, String)> {
    if !call.effect.runs_commands() {
        return None;
    }
    let obscure = call.subjects.words.iter().find_map(|command| shell::obscurity(command))?;
    let rule = rules.find(|sourced| sourced.rule.reads_commands())?;
    let why = format!(
        "{obscure}, so the rule `{rule}` cannot be compared with the command; write plain \
         commands, one program each, without quotes around its name"
    );
    Some((rule, why))
}
