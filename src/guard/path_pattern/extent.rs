//! The directories in which a pattern of a rule that denies may match, for a caller that
//! looks for all matches.

use std::path::{Path, PathBuf};

use super::{PathPattern, WILDCARDS, fold_text};

/// Directories and depth of a search for all matches of a pattern.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::guard) struct PatternExtent {
    /// Paths at which the search begins. They need not exist, and may contain links.
    pub(in crate::guard) starts: Vec<PathBuf>,
    /// Number of levels below a start at which matches are; `None` for any depth.
    pub(in crate::guard) depth: Option<usize>,
    /// True if the pattern matches everything in the directories at that depth, but not
    /// the directories themselves.
    pub(in crate::guard) is_of_contents: bool,
    /// Number of names at the end of a directory's path that decide whether an entry of the
    /// directory matches; `None` if all of them do.
    pub(in crate::guard) tail: Option<usize>,
    /// True if only the name of a match decides, in whatever directory of the workspace.
    pub(in crate::guard) is_by_name: bool,
}

impl PathPattern {
    /// Returns the extent of a search if `root` is the working directory.
    ///
    /// Matches of a pattern such as `**/x` outside of the workspace directories are left
    /// out: they may be anywhere on the disk.
    pub(in crate::guard) fn extent(&self, root: &Path, roots: &[PathBuf]) -> PatternExtent {
        let mut parts: Vec<&str> = self.parts().skip(self.ups).collect();
        parts.retain(|part| !part.is_empty());
        let count = parts.len();
        while parts.last() == Some(&"**") {
            parts.pop();
        }
        let is_of_contents = parts.len() < count;
        let names = parts.iter().take_while(|part| !part.contains(WILDCARDS)).count();
        let (literal, rest) = parts.split_at(names);
        let is_deep = rest.iter().any(|part| is_deep_part(part));
        let depth = (!is_deep).then_some(rest.len());
        let is_absolute = self.text.starts_with('/');
        let mut starts = Vec::new();
        if is_absolute {
            starts.extend(spellings(Path::new("/"), literal));
        }
        if !is_absolute || self.has_one_slash {
            starts.extend(self.beginning(root).into_iter().flat_map(|it| spellings(it, literal)));
        }
        let is_anywhere = is_deep && literal.is_empty() && self.ups == 0;
        if is_anywhere {
            starts.retain(|start| start != Path::new("/"));
            starts.extend(roots.iter().cloned());
        }
        let tail = match rest {
            ["**", names @ ..] if !names.iter().any(|part| is_deep_part(part)) => {
                Some(names.len().saturating_sub(1))
            }
            _ => None,
        };
        let is_by_name = is_anywhere && tail == Some(0);
        PatternExtent { starts, depth, is_of_contents, tail, is_by_name }
    }
}

/// Returns whether a part of a pattern may match several names of a path.
fn is_deep_part(part: &str) -> bool {
    part.contains("**") || part.matches('{').count() != part.matches('}').count()
}

/// Returns the paths of these names below a directory: as they are written, and each
/// entry whose name differs only in case or in its Unicode normal form.
fn spellings(base: &Path, names: &[&str]) -> Vec<PathBuf> {
    let mut found = vec![base.to_owned()];
    for name in names {
        let folded = fold_text(name);
        let spelt = |directory: PathBuf| {
            let entries = directory.read_dir().into_iter().flatten().flatten();
            let names = entries.map(|entry| entry.file_name());
            let others = names.filter(|other| {
                other != *name && other.to_str().is_some_and(|other| fold_text(other) == folded)
            });
            let others: Vec<PathBuf> = others.map(|other| directory.join(other)).collect();
            std::iter::once(directory.join(name)).chain(others)
        };
        found = found.into_iter().flat_map(spelt).collect();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extent_of_a_pattern_is_where_its_wildcards_begin() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("Keys")).unwrap();
        let roots = [root.clone(), "/more".into()];
        let check = |pattern: &str, starts: &[&str], depth: Option<usize>, is_of_contents: bool| {
            let pattern_of = PathPattern::parse(pattern, Some(&root)).unwrap();
            let starts = starts.iter().map(|it| root.join(it)).collect();
            let found = pattern_of.extent(&root, &roots);
            let (tail, is_by_name) = (found.tail, matches!(pattern, "**/*.pem"));
            let expected = PatternExtent { starts, depth, is_of_contents, tail, is_by_name };
            assert_eq!(found, expected, "{pattern}");
        };
        check("a/b", &["a/b"], Some(0), false);
        check("a/b/**", &["a/b"], Some(0), true);
        check("keys/x", &["keys/x", "Keys/x"], Some(0), false);
        check(".env.*", &[""], Some(1), false);
        check("a/*/b/*.key", &["a"], Some(3), false);
        check("a/**/b", &["a"], None, false);
        check("**/*.pem", &["", "", "/more"], None, false);
        check("~/Desktop/**", &["Desktop"], Some(0), true);
        let above = root.parent().unwrap().join("x");
        check("../x", &[above.to_str().unwrap()], Some(0), false);
        check("//etc/x", &["/etc/x"], Some(0), false);
        check("/etc/x", &["/etc/x", "etc/x"], Some(0), false);
        let check_tail = |pattern: &str, tail: Option<usize>| {
            let pattern_of = PathPattern::parse(pattern, Some(&root)).unwrap();
            assert_eq!(pattern_of.extent(&root, &roots).tail, tail, "{pattern}");
        };
        check_tail("**/.env", Some(0));
        check_tail("a/**/b/*.pem", Some(1));
        check_tail("**/b/**", Some(0));
        for pattern in ["a/b", "*/**/b", "a/**/b/**/c", "**/{b/c,d}"] {
            check_tail(pattern, None);
        }
    }
}
