//! What of a command the gate knows, held against the rules about reading.
//!
//! The gate tells that a command only reads, and what. Whether that may be read
//! is up to the same rules and tables as for a call of Read. It runs unasked
//! only where there is a sandbox: if the gate was wrong, that bounds the damage.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::copies::Copies;
use super::hard_links;
use super::paths::{self, Ground};
use super::sensitive::Secrets;
use super::shell::{self, Judged, Machine, Reach, Reading, Touched, World};
use super::subjects::Subjects;
use super::{Script, Sourced};
use crate::path_text;

/// What tells commands that only read, and whether they can be held to that.
#[derive(Debug, Clone)]
pub struct Gate {
    /// Where the programs are.
    pub machine: Arc<Machine>,
    /// Whether there is a sandbox.
    pub sandbox: SandboxIsThere,
}

/// Tells whether commands can be kept in bounds here. Asked only when it
/// matters: finding out starts a process.
#[derive(Clone)]
pub struct SandboxIsThere(Arc<dyn Fn() -> bool + Send + Sync>);

impl SandboxIsThere {
    /// Finds out with `is_there`, which should remember what it found.
    pub fn new(is_there: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(is_there))
    }

    pub(super) fn holds(&self) -> bool {
        (self.0)()
    }
}

impl fmt::Debug for SandboxIsThere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SandboxIsThere")
    }
}

/// A command that only reads.
pub(super) struct OnlyReads {
    pub(super) script: Script,
    touched: Vec<Touched>,
    /// What those are copies of.
    originals: Vec<Touched>,
    /// Both with their links followed and their other names, found for the first rule.
    located: OnceLock<Vec<Located>>,
    /// The same on another machine, each with its copy.
    elsewhere: Vec<(PathBuf, Touched)>,
}

/// What a command reads, as rules are compared with it.
struct Located {
    subjects: Subjects,
    /// The path with its links followed.
    place: PathBuf,
    reach: Reach,
}

/// How sure it is that a rule is about something that a command reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Touch {
    /// It is read.
    Surely,
    /// It may be among what is read.
    Perhaps,
}

impl Gate {
    /// Judges a command that would run in `root`.
    ///
    /// # Errors
    ///
    /// Why it may do more than read, about the command as `it`.
    pub(super) fn judge(
        &self,
        command: &str,
        root: &Path,
        copies: &Copies,
    ) -> Result<OnlyReads, String> {
        let Reading { script, parts } =
            match shell::judge(command, World { directory: root, look: &*self.machine }) {
                Judged::Reads(reading) => reading,
                Judged::Ask { reason } => return Err(reason),
            };
        let touched: Vec<Touched> = parts.into_iter().flat_map(|part| part.touched).collect();
        // By each of its names: a rule may be about a link.
        let names_of = |Touched { path, reach }: &Touched| {
            let (names, reach) = (paths::names(root, path), *reach);
            let places = names.into_iter().chain([paths::resolved(root, path)]);
            places.map(move |path| Touched { path, reach }).collect::<Vec<_>>()
        };
        let named: Vec<Touched> = touched.iter().flat_map(names_of).collect();
        let of = |Touched { path, reach }: Touched| {
            copies.originals(&path).into_iter().map(move |path| Touched { path, reach })
        };
        let elsewhere = |Touched { path, reach }: Touched| {
            let originals = copies.elsewhere(&path).into_iter();
            originals.map(move |it| (it, Touched { path: path.clone(), reach })).collect::<Vec<_>>()
        };
        Ok(OnlyReads {
            script: Script { text: script.into(), machine: Arc::clone(&self.machine) },
            originals: named.iter().cloned().flat_map(of).collect(),
            elsewhere: named.into_iter().flat_map(elsewhere).collect(),
            located: OnceLock::new(),
            touched,
        })
    }
}

impl OnlyReads {
    fn located(&self, root: &Path) -> &[Located] {
        self.located.get_or_init(|| {
            let locate = |Touched { path, reach }: &Touched| Located {
                subjects: Subjects::of_path(path).located(root),
                place: paths::resolved(root, path),
                reach: *reach,
            };
            self.touched.iter().chain(&self.originals).map(locate).collect()
        })
    }

    /// Tells whether a rule about reading is about something that is read.
    pub(super) fn touches(&self, sourced: &Sourced, ground: Ground<'_>) -> Option<Touch> {
        let root = ground.root();
        let mut touch = None;
        for Located { subjects, place, reach } in self.located(root) {
            if sourced.rule.denies("Read", subjects, root) {
                return Some(Touch::Surely);
            }
            let below = *reach != Reach::Itself;
            let pattern = sourced.rule.reading_pattern().filter(|_| below);
            if pattern.is_some_and(|pattern| pattern.may_match_below(place, root)) {
                touch = Some(Touch::Perhaps);
            }
        }
        for (original, Touched { path, reach }) in &self.elsewhere {
            if sourced.rule.denies("Read", &Subjects::of_path_elsewhere(original), root) {
                return Some(Touch::Surely);
            }
            let below = *reach != Reach::Itself;
            let pattern = sourced.rule.reading_pattern().filter(|_| below);
            if pattern.is_some_and(|it| it.may_match_below_elsewhere(original, path)) {
                touch = Some(Touch::Perhaps);
            }
        }
        touch
    }

    /// Returns the first secret that is read, or may be, in words.
    pub(super) fn secret(&self, secrets: &Secrets, root: &Path) -> Option<String> {
        self.touched.iter().find_map(|Touched { path, reach }| {
            let path = paths::resolved(root, path);
            let what = match reach {
                Reach::Itself => hard_links::secret_in(secrets, root, &path),
                Reach::Below => secrets.below(&path, root),
                Reach::BelowSparing => secrets.below_sparing(&path),
            };
            Some(format!("`{}` holds {}", path_text::shown(root, &path), what?))
        })
    }
}
