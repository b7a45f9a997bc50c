//! Patterns of paths in which a name may hold the characters of patterns.
//!
//! Frameworks route by names such as `[id]` and `{{slug}}`, and a model writes them as
//! they are. So a bracket or a brace is read in both ways: as a pattern and as itself.

use std::path::Path;

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use super::ToolError;

/// Maximum number of path components whose brackets are read in both ways separately.
/// Each doubles the number of patterns; beyond it all are read in the same way.
const BRACKETS_CAP: usize = 4;

/// The characters that make a pattern of a name.
const SPECIAL: [char; 7] = ['*', '?', '[', ']', '{', '}', '\\'];

/// A pattern of paths in which `*` stays within one directory.
#[derive(Debug, Clone)]
pub struct SearchPattern {
    set: GlobSet,
    /// Why it is not a valid pattern, if it can only be a literal name.
    problem: Option<String>,
}

impl SearchPattern {
    /// Compiles the pattern that the parameter `name` holds.
    ///
    /// # Errors
    ///
    /// A sentence for the model that says what is wrong.
    pub fn compile(name: &str, pattern: &str) -> Result<Self, ToolError> {
        let refuse = |problem: &dyn std::fmt::Display| {
            ToolError::tell(format!("Parameter \"{name}\" is not a valid pattern: {problem}."))
        };
        let mut set = GlobSetBuilder::new();
        let problem = match glob(pattern) {
            Ok(glob) => {
                set.add(glob);
                None
            }
            Err(error) => Some(error.to_string()),
        };
        for reading in literal_readings(pattern) {
            if let Ok(glob) = glob(&reading) {
                set.add(glob);
            }
        }
        let set = set.build().map_err(|error| refuse(&error))?;
        match problem {
            Some(problem) if set.is_empty() => Err(refuse(&problem)),
            problem => Ok(Self { set, problem }),
        }
    }

    /// Returns whether a path matches.
    #[must_use]
    pub fn is_match(&self, path: &Path) -> bool {
        self.set.is_match(path)
    }

    /// Refuses a text that is not a valid pattern. For a caller who has found no file of that
    /// name.
    ///
    /// # Errors
    ///
    /// A sentence for the model that says what is wrong.
    pub fn refuse_malformed(&self, name: &str) -> Result<(), ToolError> {
        match &self.problem {
            None => Ok(()),
            Some(problem) => Err(ToolError::tell(format!(
                "Parameter \"{name}\" is not a valid pattern: {problem}. No file has that name \
                 either."
            ))),
        }
    }
}

/// Returns the first components of a pattern that are plain names, without the last
/// component.
pub fn plain_directories(pattern: &str) -> impl Iterator<Item = &str> {
    let directories = pattern.rsplit_once('/').map_or("", |(directories, _)| directories);
    let names = directories.split('/').filter(|name| !matches!(*name, "" | "."));
    names.take_while(|name| !name.contains(SPECIAL) && may_be_entered(name))
}

/// Returns whether a pattern can be the path of one file below the place of a search: it
/// has no wildcards and leads nowhere else.
#[must_use]
pub fn may_be_name(pattern: &str) -> bool {
    let leads_down = !pattern.starts_with('/') && pattern.split('/').all(may_be_entered);
    !pattern.is_empty() && leads_down && !pattern.contains(['*', '?'])
}

fn may_be_entered(name: &str) -> bool {
    !matches!(name, ".." | ".git")
}

fn glob(pattern: &str) -> Result<Glob, globset::Error> {
    GlobBuilder::new(pattern).literal_separator(true).build()
}

/// Returns the readings of a pattern in which some of its brackets, or its braces too,
/// stand for themselves.
fn literal_readings(pattern: &str) -> Vec<String> {
    let components: Vec<&str> = pattern.split('/').collect();
    let with_brackets: Vec<usize> =
        (0..components.len()).filter(|&index| components[index].contains('[')).collect();
    let (bits, is_each) = match with_brackets.len() {
        count @ 0..=BRACKETS_CAP => (count, true),
        _ => (1, false),
    };
    let mut readings = Vec::new();
    for mask in 0_usize..1 << bits {
        let is_literal = |index: usize| {
            let bit = with_brackets
                .iter()
                .position(|&it| it == index)
                .map(|bit| if is_each { bit } else { 0 });
            bit.is_some_and(|bit| mask >> bit & 1 == 1)
        };
        let escaped: Vec<String> = (0..components.len())
            .map(|index| match is_literal(index) {
                true => escape(components[index], &['[', ']']),
                false => components[index].to_owned(),
            })
            .collect();
        let reading = escaped.join("/");
        if pattern.contains('{') {
            readings.push(escape(&reading, &['{', '}']));
        }
        if mask > 0 {
            readings.push(reading);
        }
    }
    readings
}

fn escape(text: &str, literal: &[char]) -> String {
    let mut escaped = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if literal.contains(&character) {
            escaped.extend(['[', character, ']']);
        } else {
            escaped.push(character);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, matching: &[&str], others: &[&str]) {
        let compiled = SearchPattern::compile("pattern", pattern).unwrap();
        for path in matching {
            assert!(compiled.is_match(Path::new(path)), "{pattern} matches {path}");
        }
        for path in others {
            assert!(!compiled.is_match(Path::new(path)), "{pattern} does not match {path}");
        }
    }

    #[test]
    fn brackets_and_braces_stand_for_themselves_as_well() {
        check("app/[id]/*.tsx", &["app/[id]/page.tsx", "app/i/page.tsx"], &["app/x/page.tsx"]);
        check("app/[[...sign-in]]/page.tsx", &["app/[[...sign-in]]/page.tsx"], &["app/page.tsx"]);
        check("**/[...slug].js", &["a/b/[...slug].js", "a/s.js"], &["a/x.js"]);
        check("[lang]/[a-c]*.md", &["[lang]/b.md", "l/c.md", "[lang]/[a-c]x.md"], &["[lang]/x.md"]);
        check("{{slug}}/*.py", &["{{slug}}/x.py"], &["x/x.py"]);
        check("{{slug}}/[id].py", &["{{slug}}/[id].py", "{{slug}}/i.py"], &[]);
        check("{a,b}/x[1].c", &["a/x1.c", "b/x[1].c", "{a,b}/x1.c"], &["a/x2.c"]);
        check("a[/x", &["a[/x"], &["a/x"]);
        check("x]", &["x]"], &["x"]);
        check("(group)/@slot/$id.tsx", &["(group)/@slot/$id.tsx"], &[]);
        let many = "[a]/[a]/[a]/[a]/[a]/[a]";
        check(many, &[many, "a/a/a/a/a/a"], &["b/a/a/a/a/a"]);
    }

    #[test]
    fn a_malformed_pattern_is_refused_if_no_file_has_that_name() {
        let malformed = SearchPattern::compile("pattern", "{a").unwrap();
        assert!(malformed.is_match(Path::new("{a")));
        let refused = malformed.refuse_malformed("pattern").unwrap_err().to_string();
        assert!(refused.starts_with("Parameter \"pattern\" is not a valid pattern: "), "{refused}");
        assert!(refused.ends_with("No file has that name either."), "{refused}");
        assert!(
            SearchPattern::compile("pattern", "a*").unwrap().refuse_malformed("pattern").is_ok()
        );
    }

    #[test]
    fn a_pattern_begins_with_the_directories_that_it_spells_out() {
        let names = |pattern| plain_directories(pattern).collect::<Vec<_>>();
        assert_eq!(names("dist/js/*.js"), ["dist", "js"]);
        assert_eq!(names("./dist/app.js"), ["dist"]);
        assert_eq!(names("a/[id]/b/c"), ["a"]);
        for pattern in ["app.js", "**/dist/x", "*/x", "{a,b}/x", ".git/config", "../x/y", ""] {
            assert!(names(pattern).is_empty(), "{pattern}");
        }
        assert!(may_be_name("app/[id]/x.js") && may_be_name("..a/b.."));
        for pattern in ["*.js", "", "../x", "a/../../x", "/x", "a/.git/x"] {
            assert!(!may_be_name(pattern), "{pattern}");
        }
    }
}
