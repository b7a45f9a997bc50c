//! Which lines of a change a text shows to whoever reads it.
//!
//! A line counts as shown where a text has it in its place: in a diff under its
//! file's header, in a page of Read or a row of Grep with its number, and each
//! time with the very same words. So a prompt that was cut shows what is left of
//! it, and a file that has changed since shows nothing.

use std::collections::{BTreeMap, HashMap};
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::Plan;
use crate::diff::{self, LineKind};
use crate::path_text;

/// How far into a row a file's name may reach.
const NAME_CAP: usize = 4_096;

/// Which changed lines of which hunks were shown, by their places in the plan.
/// Hunks of which nothing was shown are not in it.
pub(super) type Shown = BTreeMap<usize, Vec<bool>>;

/// Counts these lines of a hunk as shown, too.
pub(super) fn add(shown: &mut Shown, hunk: usize, lines: &[bool]) {
    let known = shown.entry(hunk).or_insert_with(|| vec![false; lines.len()]);
    known.iter_mut().zip(lines).for_each(|(known, line)| *known |= line);
}

/// The changed lines of a plan, by where they stand.
pub(super) struct Places<'a> {
    plan: &'a Plan,
    /// The working directory, as the session has it.
    cwd: PathBuf,
    files: HashMap<&'a str, Lines>,
    /// What tools call the files.
    names: HashMap<String, &'a str>,
}

/// Whether a line is new, its number, and the hunk and place it has.
type Lines = HashMap<(bool, u32), (usize, usize)>;

impl<'a> Places<'a> {
    pub(super) fn of(plan: &'a Plan, cwd: &str) -> Self {
        let (mut files, mut names) = (HashMap::<_, Lines>::new(), HashMap::new());
        for (place, hunk) in plan.hunks.iter().enumerate() {
            let lines = files.entry(&*hunk.path).or_default();
            for (at, line) in hunk.changed.iter().enumerate() {
                lines.insert((line.is_new, line.number), (place, at));
            }
        }
        for path in files.keys() {
            let name = match Path::new(path).strip_prefix(&plan.below) {
                Ok(below) => below.to_owned(),
                Err(_) => plan.root.join(path),
            };
            names.insert(path_text::to_text(&name), *path);
        }
        Self { plan, cwd: cwd.into(), files, names }
    }

    /// Takes in the diffs that stand in a text.
    pub(super) fn diffs(&self, text: &str, shown: &mut Shown) {
        for file in diff::parse(text) {
            let lines = file.hunks.iter().flat_map(|hunk| &hunk.lines);
            for line in lines.filter(|line| line.kind != LineKind::Context) {
                let is_new = line.kind == LineKind::Added;
                self.line(file.path(), (is_new, line.number), &line.text, shown);
            }
        }
    }

    /// Takes in a page of a file, by the arguments of the call and its output.
    pub(super) fn page(&self, arguments: &str, output: &str, shown: &mut Shown) {
        let Ok(arguments) = serde_json::from_str::<Value>(arguments) else { return };
        let path = arguments["file_path"].as_str().and_then(|name| self.meant(name));
        let Some(path) = path else { return };
        for row in output.split('\n') {
            let Some((number, text)) = row.trim_start_matches(' ').split_once('\t') else {
                continue;
            };
            if let Ok(number) = number.parse() {
                self.line(path, (true, number), text, shown);
            }
        }
    }

    /// Takes in the rows of a search: `NAME:NUMBER:TEXT`, or with `-` around a
    /// match.
    pub(super) fn rows(&self, output: &str, shown: &mut Shown) {
        for row in output.split('\n') {
            let head = &row[..row.floor_char_boundary(NAME_CAP)];
            for (at, mark) in head.match_indices([':', '-']) {
                let Some(path) = self.names.get(&row[..at]) else { continue };
                let numbered = row[at + 1..].split_once(mark);
                let numbered =
                    numbered.and_then(|(number, text)| Some((number.parse().ok()?, text)));
                if let Some((number, text)) = numbered {
                    self.line(path, (true, number), text, shown);
                    break;
                }
            }
        }
    }

    fn line(&self, path: &str, key: (bool, u32), text: &str, shown: &mut Shown) {
        let place = self.files.get(path).and_then(|lines| lines.get(&key));
        let Some(&(hunk, at)) = place else { return };
        let changed = &self.plan.hunks[hunk].changed;
        // No tool shows the byte order mark of a file or the ends of its lines.
        let bare =
            |text: &str| text.trim_end_matches('\r').trim_start_matches('\u{feff}').to_owned();
        if bare(&changed[at].text) == bare(text) {
            shown.entry(hunk).or_insert_with(|| vec![false; changed.len()])[at] = true;
        }
    }

    /// The file of the change that the argument of a call means.
    fn meant(&self, name: &str) -> Option<&'a str> {
        path_text::readings(name).into_iter().find_map(|path| {
            let below = |path: &Path| self.plan.below.join(path);
            let path = match path.is_absolute() {
                false => below(&path),
                true => match path.strip_prefix(&self.cwd) {
                    Ok(path) => below(path),
                    Err(_) => path.strip_prefix(&self.plan.root).ok()?.to_owned(),
                },
            };
            let (known, _) = self.files.get_key_value(plain(&path)?.to_str()?)?;
            Some(*known)
        })
    }
}

/// Returns a path without `.` and `..`; `None` if it leads out of the root.
pub(super) fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            Component::ParentDir => plain.pop().then_some(())?,
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(plain)
}
