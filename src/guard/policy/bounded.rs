//! What a command's sandbox must hide and keep, and what is asked where none holds that.

use std::path::{Path, PathBuf};

use super::{Call, Policy};
use crate::event::Access;
use crate::guard::explained::Explained;
use crate::guard::hidden::HiddenFiles;
use crate::guard::shell::{self, CommandFiles};
use crate::guard::subjects::Subjects;
use crate::guard::{Ask, CommandBounds, Decision, Effect, paths, run_later};
use crate::path_text;

/// Bounds of one command, as far as they are known.
struct FoundBounds {
    bounds: CommandBounds,
    /// The reason why not all files are hidden that rules deny to read.
    why_not_hidden: Option<String>,
    /// The reason why not all files are kept that git runs later.
    why_not_kept: Option<String>,
}

impl Policy {
    /// Returns what commands in a sandbox must neither see nor change.
    #[must_use]
    pub fn command_bounds(&self) -> CommandBounds {
        self.find_bounds().bounds
    }

    fn find_bounds(&self) -> FoundBounds {
        let find = || HiddenFiles::find(self.denials(), &self.roots, &self.copies);
        let HiddenFiles { paths: hidden, by_directory: unmovable, why_not_all: why_not_hidden } =
            self.hidden.get_or_find(find);
        let roots: Vec<PathBuf> =
            self.roots.iter().map(|root| paths::resolved(root, Path::new("."))).collect();
        let (named, why_not_kept) = match self.named.files(&self.roots) {
            Ok(files) => (files.to_vec(), None),
            Err(listing) => {
                let why = listing.reason();
                (listing.files, Some(why))
            }
        };
        let mut kept: Vec<PathBuf> = named
            .into_iter()
            .chain(roots.iter().flat_map(|root| run_later::kept_in(root)))
            .collect();
        kept.retain(|path| roots.iter().any(|root| path.starts_with(root) && path != root));
        kept.sort();
        kept.dedup();
        let versions = self.named.versions(self.root());
        let bounds = CommandBounds { hidden, unmovable, kept, versions };
        FoundBounds { bounds, why_not_hidden, why_not_kept }
    }

    /// Begins the calls of another answer: what is hidden from commands is looked for again.
    pub fn begin_batch(&self) {
        self.hidden.clear();
    }

    /// Gives a command that a sandbox will hold its bounds. One that a rule allows is asked
    /// about if a rule that denies reading cannot be held, or what git runs later is not
    /// known.
    pub(super) fn bounded(&self, call: &Call<'_>, mut explained: Explained) -> Explained {
        let access = match &explained.decision {
            Decision::Allow(allowed) => allowed.access.filter(|_| call.tool == "Bash"),
            Decision::Ask(_) => None,
            Decision::Deny { reason: _ } => return explained,
        };
        let (Some(gate), Some(access @ (Access::ReadOnly | Access::WorkspaceWrite))) =
            (&self.gate, access)
        else {
            self.forget_hidden(call.effect);
            return explained;
        };
        let is_held = gate.sandbox.holds();
        let mut why = None;
        if is_held {
            let FoundBounds { bounds, why_not_hidden, why_not_kept } = self.find_bounds();
            if let Decision::Allow(allowed) = &mut explained.decision {
                allowed.bounds = Some(bounds);
            }
            why = why_not_hidden.or(why_not_kept);
        } else {
            self.forget_hidden(call.effect);
            if self.denies_reading() {
                why = self.why_unsure_of_reading(call);
            }
        }
        let Some(reason) = why.filter(|_| access == Access::WorkspaceWrite) else {
            return explained;
        };
        self.forget_hidden(call.effect);
        // No rule that allows answers for one that denies.
        let ask = Ask { is_sparable: false, ..self.ask(reason, Vec::new(), call, None) };
        Explained::ask(ask, None)
    }

    /// Has the next command look for hidden files again if a call without a sandbox may
    /// create some.
    fn forget_hidden(&self, effect: Effect) {
        match effect {
            Effect::Reads | Effect::Asks | Effect::Fetches => {}
            Effect::Edits | Effect::Executes | Effect::Delegates => self.hidden.clear(),
        }
    }

    fn denies_reading(&self) -> bool {
        self.denials().any(|sourced| sourced.rule.reading_pattern().is_some())
    }

    /// Returns why a command that no sandbox holds may read what a rule denies, as far as
    /// its words tell; `None` if they name nothing of that kind.
    fn why_unsure_of_reading(&self, call: &Call<'_>) -> Option<String> {
        let [command] = &call.subjects.words[..] else { return None };
        let CommandFiles { paths: _, untold } = self.named_by(command);
        let mut rules = self.denials().filter(|it| it.rule.reading_pattern().is_some());
        if let Some(word) = untold {
            let rule = rules.next()?;
            return Some(format!(
                "there is no sandbox, and `{word}` may name a file that the rule `{rule}` denies"
            ));
        }
        let directories = call.named.iter().flat_map(|subjects| &subjects.paths);
        let directories: Vec<&PathBuf> = directories.filter(|path| path.is_dir()).collect();
        rules.find_map(|sourced| {
            let pattern = sourced.rule.reading_pattern()?;
            let holds = |path: &&&PathBuf| pattern.may_match_below(path, self.root());
            let shown = path_text::shown(self.root(), directories.iter().find(holds)?);
            Some(format!(
                "there is no sandbox, and `{shown}` may contain files that the rule `{sourced}` \
                 denies"
            ))
        })
    }

    /// Returns the files that a command may name, if any rule is about reading files.
    pub(super) fn named_files(&self, tool: &str, subjects: &Subjects) -> Vec<Subjects> {
        let mut rules = self.denials().chain(&self.rules.ask);
        let [command] = &subjects.words[..] else { return Vec::new() };
        if tool != "Bash" || !rules.any(|it| it.rule.reading_pattern().is_some()) {
            return Vec::new();
        }
        let CommandFiles { paths, untold: _ } = self.named_by(command);
        let judged =
            |path: &PathBuf| Subjects::of_path(path).located(self.root()).among(&self.copies);
        paths.iter().map(judged).collect()
    }

    fn named_by(&self, command: &str) -> CommandFiles {
        let home = self.secrets.homes().first();
        shell::named_files(command, self.root(), home.map(PathBuf::as_path))
    }

    /// Returns the first file that another program runs or obeys later, and the reason to
    /// ask about it.
    pub(super) fn runs_later<'a>(&self, edited: &'a [PathBuf]) -> Option<(&'a Path, String)> {
        edited.iter().find_map(|path| {
            let place = paths::place(self.root(), path, &self.roots)?;
            let by = run_later::run_by(&place)?;
            let shown = path_text::to_text(&place);
            Some((path.as_path(), format!("`{shown}` can make programs run: {by}")))
        })
    }
}
