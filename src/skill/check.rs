//! What is wrong with the file of a skill or of a command, for whoever wrote it.

use std::collections::BTreeSet;
use std::path::Path;

use pulldown_cmark::{Event, Parser, Tag};

use super::head::{self, DIRECTORY, FILE, Head, KEYS, Place};
use crate::front_matter::{self, Finding, Findings};
use crate::guard::RuleError;
use crate::tool_name;

/// The directories in which skills bring files along, by convention.
const BUNDLED: [&str; 3] = ["scripts", "references", "assets"];

/// What a skill may name.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// The definitions of agents.
    pub agents: &'a [String],
    /// What `~` means in a rule.
    pub home: Option<&'a Path>,
    /// The project, whose files commands and skills speak of.
    pub root: Option<&'a Path>,
}

/// Looks at the file of a skill, or of a command if it is not called `SKILL.md`.
#[must_use]
pub fn check(path: &Path, known: Known<'_>) -> Vec<Finding> {
    front_matter::checked(path, |head: Head, body, text, findings| {
        let is_skill = path.file_name().is_some_and(|name| name == FILE);
        if is_skill {
            check_names(&head, path, findings);
        }
        check_head(&head, (path, known), findings);
        let above = text.lines().count().saturating_sub(body.lines().count());
        check_body(body, above, (path, known), findings);
        let made = match is_skill {
            true => head::skill(text, path, known.home, false).map(drop),
            false => head::command(text, (&[], path), known.home, false).map(drop),
        };
        if let Err(error) = made {
            findings.failed(error);
        }
    })
}

fn check_names(head: &Head, path: &Path, findings: &mut Findings<'_>) {
    let directory = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let line = findings.line("name");
    match &head.name {
        Some(name) if **name != *directory => findings.warning(
            line,
            format!("`name: {name}` is not the name of its directory, `{directory}`"),
        ),
        Some(_) | None => {}
    }
    let name = head.name.as_deref().unwrap_or(&directory);
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.chars().all(is_plain) {
        let message = format!("other programs take lower case, digits and `-` only, not `{name}`");
        findings.warning(line, message);
    }
}

fn check_head(head: &Head, (path, known): (&Path, Known<'_>), findings: &mut Findings<'_>) {
    findings.unknown(head.unknown.keys(), &KEYS);
    findings.description(head.description.as_deref());
    for rule in head.allowed_tools.iter().flat_map(|names| &names.0) {
        let name = rule.split('(').next().unwrap_or_default();
        match head::parsed(rule, path, known.home) {
            Ok(_) if !tool_name::is_elsewhere(name) => {}
            Ok(_) | Err(RuleError::Tool { .. }) => findings.tool("allowed-tools", rule),
            Err(error) => findings.error(findings.line("allowed-tools"), error.to_string()),
        }
    }
    if head.disable_model_invocation == Some(true) && head.user_invocable == Some(false) {
        let line = findings.line("user-invocable");
        findings.warning(line, "neither people nor models may use it".to_owned());
    }
    check_context(head, known, findings);
}

fn check_context(head: &Head, known: Known<'_>, findings: &mut Findings<'_>) {
    let is_fork = head.context == Some(Place::Fork);
    let without = |key: &str| format!("`{key}` means nothing without `context: fork`");
    if let Some(agent) = &head.agent {
        let line = findings.line("agent");
        if !is_fork {
            findings.warning(line, without("agent"));
        } else if !known.agents.iter().any(|name| name.eq_ignore_ascii_case(agent)) {
            let message =
                format!("there is no agent `{agent}`; there are {}", known.agents.join(", "));
            findings.error(line, message);
        }
    }
    if head.background == Some(true) && !is_fork {
        findings.warning(findings.line("background"), without("background"));
    }
}

/// Looks for the files that a body names: by Markdown links, and below the
/// directory of the skill.
fn check_body(
    body: &str,
    above: usize,
    (path, known): (&Path, Known<'_>),
    findings: &mut Findings<'_>,
) {
    let directory = path.parent().unwrap_or(Path::new("."));
    let is_there = |file: &str| {
        directory.join(file).exists() || known.root.is_some_and(|root| root.join(file).exists())
    };
    let mut missing = BTreeSet::new();
    for (file, offset) in links(body) {
        if !is_there(&file) {
            let line = above + body[..offset].matches('\n').count() + 1;
            findings.warning(line, format!("there is no `{file}` beside it"));
            missing.insert(file);
        }
    }
    for (index, line) in body.lines().enumerate() {
        for file in below(line).filter(|file| !directory.join(file).exists()) {
            findings.error(above + index + 1, format!("there is no `{file}` beside it"));
        }
        // A command has no files of its own.
        let is_skill = path.file_name().is_some_and(|name| name == FILE);
        for file in bundled(line).filter(|file| is_skill && !is_there(file)) {
            if missing.insert(file.to_owned()) {
                findings.warning(above + index + 1, format!("there is no `{file}` beside it"));
            }
        }
    }
}

/// Returns the relative paths that a text links to, and where. What stands in
/// code is no link.
fn links(body: &str) -> impl Iterator<Item = (String, usize)> {
    let links = Parser::new(body).into_offset_iter().filter_map(|(event, range)| {
        let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event else {
            return None;
        };
        Some((dest_url, range.start))
    });
    links.filter_map(|(target, offset)| {
        let target = target.split('#').next().unwrap_or_default();
        let is_elsewhere = target.starts_with('/') || target.contains(':');
        let is_file = !target.is_empty() && !is_elsewhere && is_plain(target);
        is_file.then(|| (target.to_owned(), offset))
    })
}

/// Returns the paths of a line that begin with the skill's directory.
fn below(line: &str) -> impl Iterator<Item = &str> {
    let paths = DIRECTORY.into_iter().flat_map(|directory| line.split(directory).skip(1));
    paths
        .filter_map(|rest| rest.strip_prefix('/')?.split(ends_path).next())
        .map(|path| path.trim_end_matches(['.', ':']))
        .filter(|path| !path.is_empty() && is_plain(path))
}

/// Returns the paths of a line that begin with a directory in which skills
/// bring files along.
fn bundled(line: &str) -> impl Iterator<Item = &str> {
    line.split(ends_path).filter_map(|word| {
        let path = word.strip_prefix("./").unwrap_or(word).trim_end_matches(['.', ':', '!', '/']);
        let name = BUNDLED.iter().find_map(|directory| path.strip_prefix(directory))?;
        (name.starts_with('/') && is_plain(path)).then_some(path)
    })
}

fn ends_path(c: char) -> bool {
    c.is_whitespace() || "`'\",;()[]<>|".contains(c)
}

/// Tells whether a path is one, and no pattern or place for something else.
fn is_plain(path: &str) -> bool {
    !path.contains(['$', '*', '{', '<', '?'])
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::front_matter::Severity;

    /// Checks what is found in `NAME/SKILL.md`, as `LINE severity message`.
    #[track_caller]
    fn check_skill(name: &str, text: &str, expected: &[&str]) {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join(name);
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("there.md"), "").unwrap();
        let path = directory.join(FILE);
        fs::write(&path, text).unwrap();
        let agents = ["explore".to_owned()];
        let found = check(&path, Known { agents: &agents, home: None, root: None });
        assert!(found.iter().all(|finding| finding.path == path));
        let lines: Vec<String> = found
            .iter()
            .map(|it| format!("{} {} {}", it.line, it.severity.as_str(), it.message))
            .collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_skill_with_every_known_key_is_fine() {
        let text = "---\nname: tidy\ndescription: d\nlicense: MIT\ncompatibility: any\nmetadata: {a: 1}\n\
                    allowed-tools: Read, Bash(git *), mcp__x__y\nargument-hint: [file]\narguments: file\n\
                    disable-model-invocation: false\nuser-invocable: true\nmodel: inherit\ncontext: fork\n\
                    agent: Explore\nbackground: true\n---\nSee [this](there.md) and ${TINE_SKILL_DIR}/there.md.\n\
                    [web](https://x.org/a) [top](#top) [dir]($1/x) `[code](gone)`\n\n```\nx[0](y)\n```\n";
        check_skill("tidy", text, &[]);
    }

    #[test]
    fn each_thing_that_is_wrong_is_told_with_its_line() {
        let text = "---\nname: Other\ndescripton: d\ndescription: d\nallowed-tools: [Raed, LS, \"Read(\"]\n\
                    context: fork\nagent: nobody\nuser-invocable: false\ndisable-model-invocation: true\n---\n\
                    See [this](gone.md)\nand `${CLAUDE_SKILL_DIR}/scripts/x.sh`.\n";
        check_skill(
            "tidy",
            text,
            &[
                "2 warning `name: Other` is not the name of its directory, `tidy`",
                "2 warning other programs take lower case, digits and `-` only, not `Other`",
                "3 warning `descripton` is not read here; is it `description`?",
                "5 error `allowed-tools`: there is no tool `Raed`; is it `Read`?",
                "5 warning `allowed-tools`: there is no tool `LS` here",
                "5 error `Read(` is not a rule such as `Bash(git *)`, `Edit(src/**)` or `Read`",
                "7 error there is no agent `nobody`; there are explore",
                "8 warning neither people nor models may use it",
                "11 warning there is no `gone.md` beside it",
                "12 error there is no `scripts/x.sh` beside it",
            ],
        );
    }

    #[test]
    fn a_file_that_a_skill_names_in_the_usual_way_and_does_not_bring_is_told_once() {
        let text = "---\nname: a\ndescription: d\n---\nRun scripts/go.sh with $1, then `python3 ./scripts/go.py x`.\n\
                    See references/api.md. Again: scripts/go.sh; [all](references/all.md), assets/logo.png\n\
                    Not scripts/$1.sh, scripts/, my/scripts/x, https://x.org/assets/y or scripts/*.sh.\n";
        check_skill(
            "a",
            text,
            &[
                "5 warning there is no `scripts/go.sh` beside it",
                "5 warning there is no `scripts/go.py` beside it",
                "6 warning there is no `references/all.md` beside it",
                "6 warning there is no `references/api.md` beside it",
                "6 warning there is no `assets/logo.png` beside it",
            ],
        );
    }

    #[test]
    fn a_value_without_quotes_is_read_and_told() {
        let warning = "3 warning without quotes this value is no YAML, and other programs may not \
                       take it";
        check_skill("a", "---\nname: a\ndescription: When: now\n---\nx", &[warning]);
    }

    #[test]
    fn a_command_may_link_to_files_of_the_project() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        fs::write(root.join("README.md"), "").unwrap();
        let path = root.join("commands/look.md");
        fs::create_dir(root.join("commands")).unwrap();
        fs::write(&path, "See [this](README.md) and\n[that](gone.md).\n").unwrap();
        let found = check(&path, Known { agents: &[], home: None, root: Some(root) });
        let found: Vec<_> = found.iter().map(|it| (it.line, &*it.message)).collect();
        assert_eq!(found, [(2, "there is no `gone.md` beside it")]);
    }

    #[test]
    fn a_file_that_cannot_be_used_is_an_error() {
        check_skill("a", "---\nname: a\n---\nx", &["1 error the skill `a` needs a `description:`"]);
        check_skill(
            "a",
            "---\ndescription: d\n",
            &["1 error the front matter has no closing `---` line"],
        );
        let found =
            check(Path::new("/no/such/SKILL.md"), Known { agents: &[], home: None, root: None });
        assert_eq!(found[0].severity, Severity::Error);
    }

    #[test]
    fn a_wrong_type_and_an_unknown_word_name_their_line() {
        for (line, text) in [
            (4, "user-invocable: perhaps"),
            (4, "context: elsewhere"),
            (4, "allowed-tools: {a: b}"),
        ] {
            let place = tempfile::tempdir().unwrap();
            let path = place.path().join(FILE);
            fs::write(&path, format!("---\nname: a\ndescription: d\n{text}\n---\nx")).unwrap();
            let found = check(&path, Known { agents: &[], home: None, root: None });
            assert_eq!((found.len(), found[0].severity), (1, Severity::Error), "{text}");
            assert_eq!(found[0].line, line, "{text}: {}", found[0].message);
        }
    }
}
