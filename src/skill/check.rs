//! What is wrong with the file of a skill or of a command, for whoever wrote it.

use std::path::Path;

use super::head::{self, DIRECTORY, FILE, Head, KEYS, Place};
use crate::front_matter::{self, DESCRIPTION_CAP, Finding, Findings};
use crate::guard::RuleError;
use crate::tool_name;

/// What a skill may name.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// The definitions of agents.
    pub agents: &'a [String],
    /// What `~` means in a rule.
    pub home: Option<&'a Path>,
}

/// Looks at the file of a skill, or of a command if it is not called `SKILL.md`.
#[must_use]
pub fn check(path: &Path, known: Known<'_>) -> Vec<Finding> {
    let text = match front_matter::read(path) {
        Ok(text) => text,
        Err(error) => return vec![error.into()],
    };
    let mut findings = Findings::of(path, &text);
    match front_matter::parse::<Head>(&text, path) {
        Err(error) => findings.failed(error),
        Ok((head, body)) => {
            let is_skill = path.file_name().is_some_and(|name| name == FILE);
            if is_skill {
                check_names(&head, path, &mut findings);
            }
            let parsed = match is_skill {
                true => head::skill(&text, path, known.home, false).map(drop),
                false => head::command(&text, (&[], path), known.home, false).map(drop),
            };
            if let Err(error) = parsed {
                findings.failed(error);
            }
            check_head(&head, (path, known), &mut findings);
            let above = text.lines().count().saturating_sub(body.lines().count());
            check_body(body, above, path, &mut findings);
        }
    }
    findings.done()
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
    let length = head.description.as_deref().map_or(0, |text| text.chars().count());
    if length > DESCRIPTION_CAP {
        let line = findings.line("description");
        let message = format!(
            "the description has {length} characters; models read the first {DESCRIPTION_CAP}"
        );
        findings.warning(line, message);
    }
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
fn check_body(body: &str, above: usize, path: &Path, findings: &mut Findings<'_>) {
    let directory = path.parent().unwrap_or(Path::new("."));
    for (index, line) in body.lines().enumerate() {
        for file in links(line).chain(below(line)) {
            if !directory.join(file).exists() {
                let message = format!("there is no `{file}` beside it");
                findings.error(above + index + 1, message);
            }
        }
    }
}

/// Returns the relative paths that a line links to.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ', '#']).next());
    targets.filter(|target| {
        let is_elsewhere = target.starts_with('/') || target.contains(':');
        !target.is_empty() && !is_elsewhere && is_plain(target)
    })
}

/// Returns the paths of a line that begin with the skill's directory.
fn below(line: &str) -> impl Iterator<Item = &str> {
    let paths = DIRECTORY.into_iter().flat_map(|directory| line.split(directory).skip(1));
    let ends = |c: char| c.is_whitespace() || "`'\",;()<>|".contains(c);
    paths
        .filter_map(move |rest| rest.strip_prefix('/')?.split(ends).next())
        .map(|path| path.trim_end_matches(['.', ':']))
        .filter(|path| !path.is_empty() && is_plain(path))
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
        let found = check(&path, Known { agents: &agents, home: None });
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
                    [web](https://x.org/a) [top](#top) [dir]($1/x)\n";
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
                "11 error there is no `gone.md` beside it",
                "12 error there is no `scripts/x.sh` beside it",
            ],
        );
    }

    #[test]
    fn a_file_that_cannot_be_used_is_an_error() {
        check_skill("a", "---\nname: a\n---\nx", &["1 error the skill `a` needs a `description:`"]);
        check_skill(
            "a",
            "---\ndescription: d\n",
            &["1 error the front matter has no closing `---` line"],
        );
        let found = check(Path::new("/no/such/SKILL.md"), Known { agents: &[], home: None });
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
            let found = check(&path, Known { agents: &[], home: None });
            assert_eq!((found.len(), found[0].severity), (1, Severity::Error), "{text}");
            assert_eq!(found[0].line, line, "{text}: {}", found[0].message);
        }
    }
}
