//! What is wrong with the definition of an agent, for whoever wrote it.

use std::path::Path;

use super::{Color, Head, define};
use crate::front_matter::{self, Finding, Findings};
use crate::skill::Skills;

/// Every key that is known, for whoever looks for what another one was meant
/// to be.
const KEYS: [&str; 11] = [
    "name",
    "description",
    "tools",
    "disallowedTools",
    "model",
    "permissionMode",
    "maxTurns",
    "skills",
    "background",
    "isolation",
    "color",
];

/// Looks at the definition of an agent, among these skills.
#[must_use]
pub fn check(path: &Path, skills: &Skills) -> Vec<Finding> {
    front_matter::checked(path, |head: Head, body, _, findings| {
        check_head(&head, skills, findings);
        if let Err(error) = define(head, body, path, true) {
            findings.failed(error);
        }
    })
}

fn check_head(head: &Head, skills: &Skills, findings: &mut Findings<'_>) {
    findings.unknown(head.unknown.keys(), &KEYS);
    findings.description(head.description.as_deref());
    for (key, names) in [("tools", &head.tools), ("disallowedTools", &head.disallowed_tools)] {
        names.iter().flat_map(|names| &names.0).for_each(|entry| findings.tool(key, entry));
    }
    for name in head.skills.iter().flat_map(|names| &names.0) {
        let line = findings.line("skills");
        match skills.find(name) {
            None => findings.error(line, format!("`skills`: there is no skill `{name}`")),
            Some(skill) if skill.disable_model_invocation => {
                let message = format!("`skills`: `{name}` is for people alone, and is not read");
                findings.error(line, message);
            }
            Some(_) => {}
        }
    }
    if let Some(color) = head.color.as_deref().filter(|it| Color::from_name(it).is_none()) {
        let known = Color::ALL.map(Color::as_str).join(", ");
        findings.warning(findings.line("color"), format!("`color: {color}` is none of {known}"));
    }
    if head.hooks.is_some() {
        findings.warning(findings.line("hooks"), "hooks of an agent are not run".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skill::Places;

    #[track_caller]
    fn check_agent(text: &str, expected: &[&str]) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.md");
        std::fs::write(&path, text).unwrap();
        let (skills, _) = Skills::load(&Places::default(), |_, _| false);
        let lines: Vec<String> = check(&path, &skills)
            .iter()
            .map(|it| format!("{} {} {}", it.line, it.severity.as_str(), it.message))
            .collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn an_agent_with_every_known_key_is_fine() {
        check_agent(
            "---\nname: a\ndescription: d\ntools: \"*\"\ndisallowedTools: Bash(git push *)\nmodel: inherit\n\
             permissionMode: plan\nmaxTurns: 3\nskills: review\nbackground: true\nisolation: worktree\n\
             color: red\n---\nx\n",
            &[],
        );
    }

    #[test]
    fn each_thing_that_is_wrong_with_an_agent_is_told_with_its_line() {
        check_agent(
            "---\nname: a\ndescription: d\ntools: Raed, LS\nskills: [gone, init]\ncolor: mud\nmax_turns: 3\n\
             hooks: {}\npermissionMode: free\n---\nx\n",
            &[
                "1 error `permissionMode: free` is none of plan, default, dontAsk, acceptEdits, \
                 bypassPermissions",
                "4 error `tools`: there is no tool `Raed`; is it `Read`?",
                "4 warning `tools`: there is no tool `LS` here",
                "5 error `skills`: there is no skill `gone`",
                "5 error `skills`: `init` is for people alone, and is not read",
                "6 warning `color: mud` is none of blue, cyan, green, orange, pink, purple, red, \
                 yellow",
                "7 warning `max_turns` is not read here; is it `maxTurns`?",
                "8 warning hooks of an agent are not run",
            ],
        );
        check_agent("---\ndescription: d\n---\n", &["1 error an agent needs a `name:`"]);
    }
}
