//! What a pattern of a rule that denies matches: every reading of it.

use std::path::{Path, PathBuf};

use globset::GlobMatcher;

use super::{
    Case, PathPattern, PatternError, accept_both_readings, build_matchers, build_matchers_in,
    class_end, fold_path, fold_text,
};

/// A pattern of a rule that denies, bound to a working directory.
#[derive(Debug)]
pub(in crate::guard) struct PathDenial<'a> {
    pub(super) pattern: &'a PathPattern,
    /// The resolved working directory.
    pub(super) root: PathBuf,
    /// Where the links lead that the pattern names, and what it says behind them.
    pub(super) behind_links: Vec<(PathBuf, DenialMatchers)>,
}

impl PathDenial<'_> {
    /// Returns whether the pattern denies a resolved path.
    pub(in crate::guard) fn covers(&self, path: &Path) -> bool {
        let Self { pattern, root, behind_links } = self;
        let denied = &pattern.denied;
        let relative = pattern.below_start(path, root);
        (pattern.ups == 0 && denied.match_path(path))
            || relative.is_some_and(|relative| denied.match_path(relative))
            || (pattern.has_one_slash
                && relative
                    .is_some_and(|relative| denied.match_path(&Path::new("/").join(relative))))
            || behind_links.iter().any(|(start, rest)| {
                path.strip_prefix(start).is_ok_and(|below| rest.match_path(below))
            })
    }
}

/// Matchers for a rule that denies: each is of the path itself, or of paths below it.
#[derive(Debug, Clone)]
pub(super) struct DenialMatchers {
    /// Matchers of the pattern as it is written, for paths as they are written: `[!A-Z]*`
    /// matches `notes`.
    written: [GlobMatcher; 2],
    /// Matchers of the folded pattern, for folded paths; `None` if it cannot be folded.
    folded: Option<[GlobMatcher; 2]>,
}

impl DenialMatchers {
    pub(super) fn build(pattern: &str) -> Result<Self, PatternError> {
        let both = accept_both_readings(pattern)?;
        let written = build_matchers(&both)?;
        Ok(Self { written, folded: build_matchers_in(&fold_pattern(&both), Case::Ignored).ok() })
    }

    pub(super) fn match_path(&self, path: &Path) -> bool {
        let matches = |matchers: &[GlobMatcher; 2], path: &Path| {
            matchers.iter().any(|matcher| matcher.is_match(path))
        };
        let in_folded =
            self.folded.as_ref().is_some_and(|it| matches(it, Path::new(&*fold_path(path))));
        in_folded || matches(&self.written, path)
    }
}

/// Folds a pattern whose every class, group and escape is glob syntax. A class keeps its
/// ASCII letters: `[Z-a]` would end before it begins, and `[!A-Z]` exclude other letters.
fn fold_pattern(pattern: &str) -> String {
    let chars: Vec<char> = pattern.chars().collect();
    let (mut folded, mut run, mut at) = (String::new(), String::new(), 0);
    while let Some(&c) = chars.get(at) {
        let end = match c {
            '\\' => (at + 1).min(chars.len() - 1),
            '[' => class_end(&chars, at).unwrap_or(at),
            _ => at,
        };
        let written = &chars[at..=end];
        if c == '[' {
            folded.push_str(&fold_text(&std::mem::take(&mut run)));
            let lower =
                |c: &char| if c.is_ascii() { *c } else { c.to_lowercase().next().unwrap_or(*c) };
            folded.extend(written.iter().map(lower));
        } else {
            run.extend(written);
        }
        at = end + 1;
    }
    folded.push_str(&fold_text(&run));
    folded
}
