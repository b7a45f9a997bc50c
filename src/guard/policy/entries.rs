//! Edits of directory entries: of a link itself as well as of what it leads to.

use std::path::Path;

use super::Policy;
use crate::guard::Effect;
use crate::guard::explained::Explained;
use crate::guard::paths;
use crate::guard::subjects::Subjects;
use crate::path_text;

impl Policy {
    /// Decides about an edit of a directory entry and says why. If it is a link, that of
    /// the file that it leads to has to be allowed as well.
    #[must_use]
    pub fn explain_entry(&self, path: &Path) -> Explained {
        self.explain_about("Edit", Effect::Edits, Subjects::of_entry(path))
    }

    /// Returns why a person has to be asked before a link goes; `None` if there is no
    /// reason.
    pub(super) fn why_entry_is_asked(&self, subjects: &Subjects) -> Option<String> {
        let is_inside = |path: &Path| paths::place(self.root(), path, &self.roots).is_some();
        subjects.entries.iter().find_map(|entry| {
            if let Some(guard) = self.ground().guards_of_entry(entry).first() {
                return Some(self.ground().reason(*guard));
            }
            let shown = || path_text::to_text(entry);
            let is_outside = !entry.parent().is_some_and(is_inside);
            is_outside.then(|| format!("the link `{}` is outside the workspace", shown()))
        })
    }
}
