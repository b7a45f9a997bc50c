//! Patterns of paths in rules.
//!
//! A pattern of a rule that denies or asks applies in every reading: `[id]` and `{a,b}`
//! as glob syntax and as literal names, in any case and any Unicode normal form, and
//! through symbolic links. A pattern of a rule that allows applies in one reading: a
//! literal name that exists wins over glob syntax.

mod denial;

use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use icu_normalizer::ComposingNormalizerBorrowed;

use self::denial::DenialMatchers;
pub(super) use self::denial::PathDenial;
use super::paths;

mod extent;

pub(super) use extent::PatternExtent;

/// Characters of glob syntax.
const WILDCARDS: &[char] = &['*', '?', '[', '{', '\\'];

/// Prefixes of patterns for the home directory.
const HOMES: [&str; 3] = ["~", "$HOME", "${HOME}"];

/// The reason why a pattern cannot be used; a message puts the rule before it.
pub(super) type PatternError = String;

/// A parsed pattern of paths.
#[derive(Debug, Clone)]
pub(super) struct PathPattern {
    /// The normalized pattern: absolute, or relative to the working directory, perhaps
    /// with leading `../`.
    text: String,
    /// Number of leading `../`.
    ups: usize,
    /// True if it was written with one leading slash, by which other harnesses mean the
    /// project's root.
    has_one_slash: bool,
    /// Matchers for a rule that allows: of the path itself, and of paths below it.
    allowed: [GlobMatcher; 2],
    /// The same for a rule that denies.
    denied: DenialMatchers,
}

/// The literal beginning of a pattern.
struct PatternStart {
    /// The names before the first one with glob syntax.
    literal: String,
    /// True if the pattern has no glob syntax.
    is_whole: bool,
}

impl PathPattern {
    /// Parses a pattern in which `~` means `home`.
    pub(super) fn parse(written: &str, home: Option<&Path>) -> Result<Self, PatternError> {
        let rest_of_home = rest_of_home(written);
        if written.starts_with('~') && rest_of_home.is_none() {
            let name = written.split('/').next().unwrap_or_default();
            return Err(format!(
                "begins with `{name}`, which is not expanded; write the absolute path from `//` \
                 on, or `./{name}` for a file of that name"
            ));
        }
        let (absolute, has_one_slash) = match (rest_of_home, home, written.strip_prefix("//")) {
            (Some(rest), Some(home), _) => {
                let home = escape_path(home).ok_or("home directory is not UTF-8")?;
                (Some(format!("{home}/{rest}")), false)
            }
            (_, _, Some(rest)) => (Some(format!("/{rest}")), false),
            (_, _, None) if written.starts_with('/') => (Some(written.to_owned()), true),
            (_, _, None) => (None, false),
        };
        let is_absolute = absolute.is_some();
        let (parts, ups) = split_parts(absolute.as_deref().unwrap_or(written), is_absolute)?;
        let rest = parts.join("/");
        let rest = if is_absolute { format!("/{rest}") } else { rest };
        // Of the two errors, this one's says more.
        let denied = DenialMatchers::build(&rest)?;
        Ok(Self {
            text: format!("{}{rest}", "../".repeat(ups)),
            ups,
            has_one_slash,
            allowed: build_matchers(&rest)?,
            denied,
        })
    }

    /// Returns the normalized pattern if it means the same on every machine.
    pub(super) fn whole(&self) -> Option<&str> {
        (self.text.starts_with('/') && !self.has_one_slash).then_some(&self.text)
    }

    /// Returns the components of the normalized pattern.
    pub(super) fn parts(&self) -> impl Iterator<Item = &str> {
        self.text.split('/')
    }

    /// Returns the components before the first one with glob syntax.
    pub(super) fn literal(&self) -> String {
        let literal = self.parts().take_while(|part| !part.contains(WILDCARDS));
        literal.collect::<Vec<_>>().join("/")
    }

    /// Returns whether the pattern has no glob syntax.
    pub(super) fn is_literal(&self) -> bool {
        !self.text.contains(WILDCARDS)
    }

    /// Returns whether the pattern allows a resolved path.
    pub(super) fn allows(&self, path: &Path, root: &Path) -> bool {
        let root = paths::resolved(root, Path::new("."));
        let literal = self.escape_existing_names(&root);
        let literal = literal.and_then(|text| build_matchers(&text).ok());
        let [itself, _] = literal.as_ref().unwrap_or(&self.allowed);
        itself.is_match(path) && self.ups == 0
            || self.below_start(path, &root).is_some_and(|path| itself.is_match(path))
    }

    /// Returns the same without file system access.
    pub(super) fn allows_decided(&self, path: &Path, relative: Option<&Path>) -> bool {
        let [itself, _] = &self.allowed;
        self.ups == 0 && (itself.is_match(path) || relative.is_some_and(|it| itself.is_match(it)))
    }

    /// Returns whether searches show a path. `root` must be resolved.
    pub(super) fn shows(&self, path: &Path, root: &Path) -> bool {
        let relative = self.below_start(path, root);
        self.allowed.iter().any(|matcher| {
            self.ups == 0 && matcher.is_match(path)
                || relative.is_some_and(|path| matcher.is_match(path))
        })
    }

    /// Returns whether the pattern denies a path of another machine.
    pub(super) fn denies_elsewhere(&self, path: &Path) -> bool {
        self.ups == 0 && self.denied.match_path(path)
    }

    /// Binds the pattern to a working directory. Resolves the symbolic links that the
    /// pattern names now.
    pub(super) fn denial(&self, root: &Path) -> PathDenial<'_> {
        let root = paths::resolved(root, Path::new("."));
        let starts = [
            self.text.starts_with('/').then_some(Path::new("/")),
            (!self.text.starts_with('/') || self.has_one_slash).then_some(&*root),
        ];
        let starts = starts.into_iter().flatten();
        let behind_links = starts.filter_map(|start| self.resolve_link(start, &root)).collect();
        PathDenial { pattern: self, root, behind_links }
    }

    /// Returns the target of the symbolic link that the pattern names from a directory on,
    /// and matchers for the rest of the pattern.
    fn resolve_link(&self, start: &Path, root: &Path) -> Option<(PathBuf, DenialMatchers)> {
        let mut start = start.to_owned();
        let mut rest: Vec<&str> = self.parts().filter(|part| !part.is_empty()).collect();
        while let Some(part) = rest.first() {
            let next = start.join(part);
            let is_name = !part.contains(WILDCARDS)
                || !part.contains(['*', '?']) && next.symlink_metadata().is_ok();
            if !is_name {
                break;
            }
            start = next;
            rest.remove(0);
        }
        let real = paths::opened(root, &start)?;
        // Without a link the pattern matches as it is written.
        if real == paths::spelt_out(&start) {
            return None;
        }
        let rest = if rest.is_empty() { "**".to_owned() } else { rest.join("/") };
        Some((real, DenialMatchers::build(&rest).ok()?))
    }

    /// Returns whether a path below a directory may match, without a walk through the
    /// directory. A pattern without glob syntax may match only if its file exists.
    pub(super) fn may_match_below(&self, directory: &Path, root: &Path) -> bool {
        let PatternStart { literal, is_whole } = self.start();
        let directory_folded = fold_path(directory);
        let other = Path::new(&*directory_folded);
        let may_match_from = |literal: &str| {
            let start = match literal {
                "/" => PathBuf::from("/"),
                literal => paths::resolved(root, Path::new(literal)),
            };
            let start_folded = fold_path(&start);
            let one = Path::new(&*start_folded);
            match is_whole {
                true => one.starts_with(other) && is_there_in_any_case(&start),
                false => one.starts_with(other) || other.starts_with(one),
            }
        };
        // A pattern without a root may match from the working directory on.
        may_match_from(&literal)
            || self.has_one_slash && may_match_from(literal.trim_start_matches('/'))
    }

    /// The same for a directory on another machine whose copy is `here`.
    pub(super) fn may_match_below_elsewhere(&self, directory: &Path, here: &Path) -> bool {
        let PatternStart { literal, is_whole } = self.start();
        let (literal, directory) = (fold_text(&literal), fold_path(directory));
        let (start, directory) = (Path::new(&literal), Path::new(&*directory));
        if is_whole {
            let below = start.strip_prefix(directory);
            return below.is_ok_and(|below| is_there_in_any_case(&here.join(below)));
        }
        start.is_absolute() && (start.starts_with(directory) || directory.starts_with(start))
    }

    fn start(&self) -> PatternStart {
        let parts: Vec<&str> = self.parts().collect();
        let literal = parts.iter().take_while(|part| !part.contains(WILDCARDS));
        let literal: Vec<&str> = literal.copied().collect();
        let is_whole = literal.len() == parts.len();
        let literal = match &literal[..] {
            [""] if self.text.starts_with('/') => "/".to_owned(),
            literal => literal.join("/"),
        };
        PatternStart { literal, is_whole }
    }

    /// Returns the pattern with those components escaped that exist as literal names;
    /// `None` if there are none.
    fn escape_existing_names(&self, root: &Path) -> Option<String> {
        if !self.text.contains(['[', '{', '\\']) {
            return None;
        }
        let is_absolute = self.text.starts_with('/');
        let mut at =
            if is_absolute { PathBuf::from("/") } else { self.beginning(root)?.to_owned() };
        let mut is_changed = false;
        let parts = self.parts().skip(self.ups).map(|part| {
            at.push(part);
            let is_name = part.contains(['[', '{', '\\']) && at.symlink_metadata().is_ok();
            is_changed |= is_name;
            if is_name { Cow::Owned(escape_text(part)) } else { Cow::Borrowed(part) }
        });
        let text = parts.collect::<Vec<_>>().join("/");
        is_changed.then_some(text)
    }

    /// Returns the directory that a relative pattern starts in.
    fn beginning<'a>(&self, root: &'a Path) -> Option<&'a Path> {
        root.ancestors().nth(self.ups)
    }

    /// Returns a path relative to that directory.
    fn below_start<'a>(&self, path: &'a Path, root: &Path) -> Option<&'a Path> {
        path.strip_prefix(self.beginning(root)?).ok()
    }
}

/// Returns the pattern behind `~` or `$HOME`; `None` if there is neither.
pub(super) fn rest_of_home(written: &str) -> Option<&str> {
    let mut rests = HOMES.iter().filter_map(|name| written.strip_prefix(name));
    rests.find(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Splits a pattern into components, and counts its leading `..`.
fn split_parts(text: &str, is_absolute: bool) -> Result<(Vec<&str>, usize), PatternError> {
    let (mut parts, mut ups): (Vec<&str>, _) = (Vec::new(), 0);
    for part in text.split('/') {
        match (part, parts.last()) {
            ("" | ".", _) => {}
            ("..", Some(before)) if before.contains(WILDCARDS) => {
                return Err(format!("has `..` after `{before}`, which may match any directory"));
            }
            ("..", Some(_)) => drop(parts.pop()),
            ("..", None) => ups += usize::from(!is_absolute),
            (part, _) => parts.push(part),
        }
    }
    Ok((parts, ups))
}

/// Whether matchers distinguish ASCII letters by their case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    Kept,
    Ignored,
}

/// Builds the matchers of a pattern and of all paths below it.
fn build_matchers(pattern: &str) -> Result<[GlobMatcher; 2], PatternError> {
    build_matchers_in(pattern, Case::Kept)
}

fn build_matchers_in(pattern: &str, case: Case) -> Result<[GlobMatcher; 2], PatternError> {
    let build = |pattern: &str| {
        let glob = GlobBuilder::new(pattern)
            .literal_separator(true)
            .case_insensitive(case == Case::Ignored)
            .build();
        glob.map(|glob| glob.compile_matcher())
            .map_err(|error| unreadable_pattern(&error.to_string()))
    };
    let directory = pattern.trim_end_matches('/');
    // The working directory includes everything in it.
    let below = if pattern.is_empty() { "**".to_owned() } else { format!("{directory}/**") };
    let itself = if directory.is_empty() { pattern } else { directory };
    Ok([build(if itself.is_empty() { "." } else { itself })?, build(&below)?])
}

fn unreadable_pattern(cause: &str) -> PatternError {
    format!(
        "has a path pattern that cannot be read: {cause}; in a name write `[[]` for `[`, `[]]` for \
         `]`, `[{{]` for `{{` and `[}}]` for `}}`"
    )
}

/// Returns a pattern that matches both readings of each class, group and escape: as glob
/// syntax, and as literal characters.
fn accept_both_readings(pattern: &str) -> Result<String, PatternError> {
    let chars: Vec<char> = pattern.chars().collect();
    let (mut text, mut at) = (String::new(), 0);
    while let Some(&c) = chars.get(at) {
        let end = match c {
            '\\' => (at + 1).min(chars.len() - 1),
            '[' => class_end(&chars, at).ok_or_else(|| unreadable_pattern("`[` is not closed"))?,
            '{' => group_end(&chars, at)?.ok_or_else(|| unreadable_pattern("`{` is not closed"))?,
            '}' => return Err(unreadable_pattern("`}` has no matching `{`")),
            _ => at,
        };
        let written: String = chars[at..=end].iter().collect();
        match c {
            '\\' if end == at || chars[end] == '/' => text.push_str("\\\\"),
            '\\' => {
                let literal = escape_text(&written[1..]);
                text.push_str(&format!("{{{literal},\\\\{literal}}}"));
            }
            // An escaped character, not a name.
            '[' if end == at + 2 && "*?[]{},!".contains(chars[at + 1]) => text.push_str(&written),
            '[' => text.push_str(&format!("{{{written},{}}}", escape_text(&written))),
            '{' => {
                let inner = alternatives(&chars[at + 1..end])?;
                text.push_str(&format!("{{{},{}}}", inner.join(","), escape_text(&written)));
            }
            ']' => text.push_str("[]]"),
            other => text.push(other),
        }
        // A slash after a backslash is still a separator.
        at = if c == '\\' && chars[end] == '/' { end } else { end + 1 };
    }
    Ok(text)
}

fn class_end(chars: &[char], start: usize) -> Option<usize> {
    let mut at = start + 1;
    at += usize::from(matches!(chars.get(at), Some('!' | '^')));
    // A leading `]` is a member of the class.
    at += usize::from(chars.get(at) == Some(&']'));
    chars.iter().skip(at).position(|c| *c == ']').map(|offset| at + offset)
}

fn group_end(chars: &[char], start: usize) -> Result<Option<usize>, PatternError> {
    let (mut depth, mut at) = (0_u32, start);
    while let Some(&c) = chars.get(at) {
        match c {
            '\\' => at += 1,
            '[' => {
                at = class_end(chars, at).ok_or_else(|| unreadable_pattern("`[` is not closed"))?;
            }
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Ok(Some(at));
        }
        at += 1;
    }
    Ok(None)
}

fn alternatives(chars: &[char]) -> Result<Vec<String>, PatternError> {
    let (mut alternatives, mut written, mut at) = (Vec::new(), String::new(), 0);
    while let Some(&c) = chars.get(at) {
        let end = match c {
            '\\' => (at + 1).min(chars.len() - 1),
            '[' => class_end(chars, at).unwrap_or(at),
            '{' => group_end(chars, at)?.unwrap_or(at),
            _ => at,
        };
        match c {
            ',' => alternatives.push(accept_both_readings(&std::mem::take(&mut written))?),
            _ => written.extend(&chars[at..=end]),
        }
        at = end + 1;
    }
    alternatives.push(accept_both_readings(&written)?);
    Ok(alternatives)
}

/// Escapes a path for use in a rule; `None` if it is not UTF-8.
pub(super) fn escape_path(path: &Path) -> Option<String> {
    path.to_str().map(escape_text)
}

fn escape_text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '?' | '*' | '[' | ']' | '{' | '}' | ',' => escaped.extend(['[', c, ']']),
            '\\' => escaped.push_str("\\\\"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Folds case and Unicode normal form. File systems differ in whether they distinguish
/// these, and a workspace may be on any of them.
fn fold_path(path: &Path) -> Cow<'_, str> {
    let text = path.to_string_lossy();
    let is_folded = |c: char| c.is_ascii() && !c.is_ascii_uppercase();
    if text.chars().all(is_folded) { text } else { fold_text(&text).into() }
}

fn fold_text(text: &str) -> String {
    match text.is_ascii() {
        true => text.to_ascii_lowercase(),
        false => {
            let normal = ComposingNormalizerBorrowed::new_nfc();
            normal.normalize(&text.to_lowercase()).into_owned()
        }
    }
}

/// Returns whether a path exists in any case and normal form.
fn is_there_in_any_case(path: &Path) -> bool {
    let mut at = PathBuf::new();
    path.components().all(|component| {
        let next = at.join(component);
        let found = match component {
            Component::Normal(name) if next.symlink_metadata().is_err() => {
                let name = fold_path(Path::new(name)).into_owned();
                let entries = at.read_dir().into_iter().flatten().flatten();
                let mut entries = entries.map(|entry| entry.path());
                entries
                    .find(|it| it.file_name().is_some_and(|it| *fold_path(Path::new(it)) == *name))
            }
            Component::Prefix(_)
            | Component::RootDir
            | Component::CurDir
            | Component::ParentDir
            | Component::Normal(_) => Some(next),
        };
        let is_there = found.is_some();
        at = found.unwrap_or_default();
        is_there
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A place with some odd names in it, and a link to one.
    fn place() -> (tempfile::TempDir, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap().join("work");
        for name in ["app/[id]", "app/i", "{a,b}", "real", "back\\slash"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
            std::fs::write(root.join(name).join("key"), "").unwrap();
        }
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        (place, root)
    }

    #[test]
    fn what_denies_holds_in_every_reading() {
        let (_place, root) = place();
        let home = root.join("home");
        for (pattern, path) in [
            ("app/[id]/key", "app/[id]/key"),
            ("app/[id]/key", "app/i/key"),
            ("app/[id]", "app/[id]/deep/key"),
            ("app/[id]/**", "app/[id]/key"),
            ("app/[[]id[]]/**", "app/[id]/key"),
            ("app/\\[id\\]/key", "app/[id]/key"),
            ("app/[...slug]/x", "app/[...slug]/x"),
            ("app/[[...slug]]/x", "app/[[...slug]]/x"),
            ("app/[x]/key", "app/[x]/key"),
            ("{a,b}/key", "{a,b}/key"),
            ("{a,b}/key", "b/key"),
            ("{a,b}", "{a,b}/deep"),
            ("app/[id]/*.{ts,tsx}", "app/[id]/page.tsx"),
            ("x/{[id],y}/z", "x/[id]/z"),
            ("x/{[id],y}/z", "x/{[id],y}/z"),
            ("back\\slash/key", "back\\slash/key"),
            ("real/", "real/key"),
            ("real//key", "real/key"),
            ("./real/./key", "real/key"),
            (".//real/key", "real/key"),
            ("app/../real/key", "real/key"),
            ("../work/real/key", "real/key"),
            ("../*/real/key", "real/key"),
            ("../other/x", "../other/x"),
            ("/real/key", "real/key"),
            ("/link/key", "link/key"),
            ("/link/**", "link/deep/key"),
            ("/LINK/../link", "link/key"),
            ("REAL/Key", "real/key"),
            ("real/key", "Real/KEY"),
            ("Straße/Ä", "straße/a\u{308}"),
            ("caf\u{e9}.txt", "cafe\u{301}.txt"),
            ("cafe\u{301}.txt", "caf\u{e9}.txt"),
            ("link/key", "link/key"),
            ("link", "link/key"),
            ("link/*", "link/key"),
            ("~/x", "home/x"),
            ("~", "home/x"),
            ("$HOME/x", "home/x"),
            ("${HOME}/.ssh/**", "home/.ssh/key"),
            (".", "any/file"),
            ("./", "any/file"),
        ] {
            let pattern_read = PathPattern::parse(pattern, Some(&home)).unwrap();
            let path = paths::resolved(&root, Path::new(path));
            assert!(pattern_read.denial(&root).covers(&path), "{pattern} {}", path.display());
        }
    }

    #[test]
    fn a_class_that_denies_holds_as_it_is_written_and_in_any_case() {
        let (_place, root) = place();
        for (pattern, path) in [
            ("real/[!A-Z]*", "real/notes.txt"),
            ("real/[^A-M]*", "real/dir/key"),
            ("real/[!A-Z][!A-Z]y", "real/key"),
            ("real/[!K]ey", "real/key"),
            ("real/{[!A-Z]*,x}/key", "real/deep/key"),
            ("link/[!A-Z]*", "link/key"),
            ("[Z-a]lpha", "alpha"),
            ("REAL/[Z-a]*", "real/zeta"),
            ("[A-Z]*", "notes.txt"),
            ("[a-z]*.TXT", "NOTES.txt"),
            ("[[]Z-a]", "[Z-A]"),
            ("Ä[Z-a]", "a\u{308}z"),
        ] {
            let pattern_read = PathPattern::parse(pattern, None).unwrap();
            let path = paths::resolved(&root, Path::new(path));
            assert!(pattern_read.denial(&root).covers(&path), "{pattern} {}", path.display());
        }
    }

    #[test]
    fn a_denying_pattern_does_not_deny_other_paths() {
        let (_place, root) = place();
        for (pattern, path) in [
            ("app/[id]/key", "app/x/key"),
            ("{a,b}/key", "c/key"),
            ("real", "real2/key"),
            ("//real/key", "real/key"),
            ("../other/x", "other/x"),
            ("../x", "x"),
            ("./~/x", "x"),
            ("//link/key", "link/key"),
            ("real/[!A-Z]*", "real/Notes.txt"),
            ("real/[!a-z]*", "real/notes.txt"),
            ("[Z-a]lpha", "beta"),
        ] {
            let pattern_read = PathPattern::parse(pattern, None).unwrap();
            let path = paths::resolved(&root, Path::new(path));
            assert!(!pattern_read.denial(&root).covers(&path), "{pattern} {}", path.display());
        }
    }

    #[test]
    fn an_allowing_pattern_prefers_a_literal_name_that_exists() {
        let (_place, root) = place();
        for (pattern, path, expected) in [
            ("app/[id]/*", "app/[id]/key", true),
            ("app/[id]/*", "app/i/key", false),
            ("app/[ix]/*", "app/i/key", true),
            ("{a,b}/key", "{a,b}/key", true),
            ("{a,b}/key", "a/key", false),
            ("{c,d}/key", "c/key", true),
            ("app/[[]id[]]/*", "app/[id]/key", true),
            ("../work/app/[id]/*", "app/[id]/key", true),
            ("REAL/key", "real/key", false),
            ("/real/key", "real/key", false),
        ] {
            let pattern_read = PathPattern::parse(pattern, None).unwrap();
            let path = root.join(path);
            assert_eq!(pattern_read.allows(&path, &root), expected, "{pattern} {path:?}");
        }
    }

    #[test]
    fn an_escaped_path_is_matched_by_its_pattern_alone() {
        for name in ["[id]", "{a,b}", "a*b?", "back\\slash", "[[...x]]", "a,b", "!x", "plain"] {
            let path = Path::new("/w").join(name);
            let pattern = PathPattern::parse(&format!("/{}", escape_path(&path).unwrap()), None);
            let pattern = pattern.unwrap();
            assert!(pattern.allows(&path, Path::new("/none")), "{name}: {pattern:?}");
            assert!(!pattern.allows(Path::new("/w/i"), Path::new("/none")), "{name}");
        }
    }

    #[test]
    fn what_can_match_nothing_is_refused() {
        for (pattern, expected) in [
            ("app/[id", "`[` is not closed"),
            ("{a,b", "`{` is not closed"),
            ("a}", "`}` has no matching `{`"),
            ("{[a,b}", "`[` is not closed"),
            ("a/*/../b", "`..` after `*`"),
            ("[z-a]", "invalid range"),
            ("~root/x", "begins with `~root`"),
        ] {
            let error = PathPattern::parse(pattern, None).unwrap_err();
            assert!(error.contains(expected), "{pattern}: {error}");
        }
    }

    #[test]
    fn a_search_below_a_directory_is_about_a_file_in_another_case() {
        let (_place, root) = place();
        let real = root.join("real");
        for (pattern, expected) in [
            ("REAL/KEY", true),
            ("real/none", false),
            ("real/*.x", true),
            ("app/x", false),
            ("/real/key", true),
            ("/REAL/Key", true),
            ("/real/none", false),
            ("/real/**", true),
            ("/real/[k]ey", true),
            ("/*/key", true),
            ("/**/*.key", true),
            ("/link/*.x", true),
            ("/app/**", false),
            ("//real/**", false),
        ] {
            let read = PathPattern::parse(pattern, None).unwrap();
            assert_eq!(read.may_match_below(&real, &root), expected, "{pattern}");
        }
    }

    #[test]
    fn a_search_of_a_copy_is_about_a_file_of_the_original_in_another_case() {
        let (_place, root) = place();
        let real = root.join("real");
        for (pattern, expected) in [
            ("//far/w/real/key", true),
            ("//far/W/REAL/KEY", true),
            ("//FAR/w/real/*.x", true),
            ("//far/W/**", true),
            ("//far/W/real/none", false),
            ("//far/w/app/**", false),
        ] {
            let read = PathPattern::parse(pattern, None).unwrap();
            let far = Path::new("/far/w/Real");
            assert_eq!(read.may_match_below_elsewhere(far, &real), expected, "{pattern}");
        }
    }
}
