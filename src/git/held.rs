//! What a commit holds under a name.

use super::call::Git;
use super::{GitError, text_line};

/// What a commit holds under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// No file: nothing, or a directory.
    Nothing,
    /// Another repository, of which a commit is named.
    Repository,
    /// A file, or the target of a link.
    File {
        /// Its first bytes.
        head: Vec<u8>,
        /// Whether it has more of them.
        is_cut: bool,
    },
}

impl Git {
    /// Looks up what a commit holds under a name, which begins at the repository's
    /// top. Of a file at most `cap` bytes are read.
    ///
    /// # Errors
    ///
    /// As for [`Git::run`]: the commit or the file is not here, say.
    pub fn held(&self, commit: &str, name: &str, cap: usize) -> Result<Held, GitError> {
        // As it is: no sign in it means anything.
        let name = format!(":(top,literal){name}");
        let listed =
            text_line(&self.run(&["ls-tree", "-z", "--full-tree", commit, "--", name.as_str()])?);
        let mut fields = listed.split(['\t', ' ']);
        Ok(match (fields.next(), fields.next(), fields.next()) {
            (Some(_), Some("blob"), Some(id)) => {
                let (head, is_cut) = self.head(&["cat-file", "blob", id], cap)?;
                Held::File { head, is_cut }
            }
            (Some(_), Some("commit"), Some(_)) => Held::Repository,
            (_, _, _) => Held::Nothing,
        })
    }
}
