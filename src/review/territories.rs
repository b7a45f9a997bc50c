//! Territories: parts of a change that one reviewer can hold.
//!
//! The split goes by size alone, so the same change always gives the same
//! territories. Files stay whole where they fit and stand beside their
//! neighbours; what is larger than a territory is parted between its hunks.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::Effort;
use super::change::{File, Hunk, HunkId};
use crate::{path_text, prompt};

/// Most bytes of one territory, whatever the size of the change: about 40,000
/// tokens. More leaves most models no room to look around.
pub const TERRITORY_CAP: usize = 160_000;

/// Returns how many bytes a territory has where the change has as many
/// territories as it may, or fewer. A reviewer finds more in less.
pub(super) fn size(effort: Effort) -> usize {
    match effort {
        Effort::Low => 60_000,
        Effort::Medium => 40_000,
        Effort::High => 20_000,
    }
}

/// Returns most territories of a change. Each is a reviewer for every angle, and
/// each of those costs what its territory has and what it reads besides.
pub(super) fn most(effort: Effort) -> usize {
    match effort {
        Effort::Low => 8,
        Effort::Medium => 24,
        Effort::High => 64,
    }
}

/// What a reviewer is given of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Territory {
    /// Names it within the review.
    pub id: String,
    /// What it is, in a few words.
    pub title: String,
    /// Its files.
    pub files: Vec<Arc<str>>,
    /// The hunks that are in it.
    pub hunks: Vec<HunkId>,
    /// Where those are among the hunks of the plan.
    pub places: Vec<usize>,
    /// Its part of the diff, below what it is of.
    pub diff: String,
    /// A tag that the diff does not close.
    pub tag: String,
    /// Whether there is code in it that one can look around in.
    pub is_code: bool,
}

impl Territory {
    /// Returns it as an item of a flow's `for_each`.
    #[must_use]
    pub fn value(&self) -> Value {
        json!({
            "id": self.id,
            "title": self.title,
            "files": self.files.iter().map(|file| &**file).collect::<Vec<_>>(),
            "hunks": self.hunks.iter().map(|hunk| &*hunk.0).collect::<Vec<_>>(),
            "diff": self.diff,
            "tag": self.tag,
        })
    }
}

/// What stands above the diff of each territory.
pub(super) struct Frame<'a> {
    pub(super) title: &'a str,
    /// Where its names begin, if not in the working directory.
    pub(super) root: Option<&'a Path>,
}

/// Some files and hunks that stand together.
#[derive(Debug, Default)]
pub(super) struct Bin {
    bytes: usize,
    files: Vec<(usize, Vec<usize>)>,
}

/// Which part of a change goes where.
#[derive(Debug, Default)]
pub(super) struct Packed {
    pub(super) territories: Vec<Bin>,
    /// What has no place, file by file.
    pub(super) rest: Vec<(usize, Vec<usize>)>,
}

/// Packs hunks into as many territories as the effort allows.
///
/// A change that needs more gets larger ones, up to [`TERRITORY_CAP`]; what does
/// not fit then is the rest, and that is of its largest files.
pub(super) fn pack<H: IntoIterator<Item = usize>>(
    of: (&[File], &[Hunk]),
    wanted: impl IntoIterator<Item = (usize, H)>,
    effort: Effort,
) -> Packed {
    let mut wanted: Vec<(usize, Vec<usize>)> =
        wanted.into_iter().map(|(file, hunks)| (file, hunks.into_iter().collect())).collect();
    let mut size = size(effort);
    let mut bins = bins(of, &wanted, size);
    while bins.len() > most(effort) && size < TERRITORY_CAP {
        size = (size + size / 4).min(TERRITORY_CAP);
        bins = self::bins(of, &wanted, size);
    }
    if bins.len() > most(effort) {
        wanted = largest_last(of, wanted, (most(effort), size));
        bins = self::bins(of, &wanted, size);
    }
    let kept = bins.len().min(most(effort));
    let mut rest: Vec<(usize, Vec<usize>)> = Vec::new();
    for (file, hunks) in bins.drain(kept..).flat_map(|bin| bin.files) {
        match rest.last_mut().filter(|(last, _)| *last == file) {
            Some((_, known)) => known.extend(hunks),
            None => rest.push((file, hunks)),
        }
    }
    Packed { territories: bins, rest }
}

/// Leaves the files in their order that fit into so many bins of so many bytes, as
/// many of the smallest as can be, and puts the others behind them: one file of a
/// megabyte is to keep no five hundred small ones out.
fn largest_last(
    of: (&[File], &[Hunk]),
    mut wanted: Vec<(usize, Vec<usize>)>,
    (most, size): (usize, usize),
) -> Vec<(usize, Vec<usize>)> {
    let sizes = wanted.iter().map(|(file, places)| bytes(of, *file, places));
    let mut by_size: Vec<(usize, usize)> = sizes.zip(0..).collect();
    by_size.sort_unstable();
    let by_size: Vec<usize> = by_size.into_iter().map(|(_, at)| at).collect();
    let in_order = |count: usize| {
        let mut smallest = by_size[..count].to_vec();
        smallest.sort_unstable();
        smallest
    };
    // Bins have room that nothing fits into, so no sum of bytes tells how many
    // files they hold: they are asked themselves.
    let fit = |count: usize| {
        let smallest = in_order(count);
        bins(of, smallest.iter().map(|at| &wanted[*at]), size).len() <= most
    };
    let (mut low, mut high) = (0, by_size.len());
    while low < high {
        let middle = (low + high).div_ceil(2);
        match fit(middle) {
            true => low = middle,
            false => high = middle - 1,
        }
    }
    let order = in_order(low).into_iter().chain(by_size[low..].iter().copied());
    order.map(|at| std::mem::take(&mut wanted[at])).collect()
}

/// Returns how many bytes a file takes with these of its hunks.
fn bytes((files, hunks): (&[File], &[Hunk]), file: usize, places: &[usize]) -> usize {
    files[file].head.len() + places.iter().map(|place| hunks[*place].text.len()).sum::<usize>()
}

/// Puts files and hunks in their order into bins of at most so many bytes.
fn bins<'a>(
    (files, hunks): (&[File], &[Hunk]),
    wanted: impl IntoIterator<Item = &'a (usize, Vec<usize>)>,
    size: usize,
) -> Vec<Bin> {
    let (mut full, mut open) = (Vec::new(), Bin::default());
    for (file, places) in wanted {
        let whole = bytes((files, hunks), *file, places);
        if open.bytes + whole > size && !open.files.is_empty() {
            full.push(std::mem::take(&mut open));
        }
        if whole <= size || places.is_empty() {
            open.bytes += whole;
            open.files.push((*file, places.clone()));
            continue;
        }
        for place in places {
            let more = hunks[*place].text.len();
            let is_begun = open.files.last().is_some_and(|(last, _)| last == file);
            if is_begun && open.bytes + more > size {
                full.push(std::mem::take(&mut open));
            }
            if open.files.is_empty() {
                open.bytes = files[*file].head.len();
                open.files.push((*file, Vec::new()));
            }
            open.bytes += more;
            let (_, part) = open.files.last_mut().expect("the file was begun above");
            part.push(*place);
        }
    }
    full.extend((!open.files.is_empty()).then_some(open));
    full
}

/// Makes territories of what was packed; their names begin with `letter`.
pub(super) fn of(
    bins: &[Bin],
    of: (&[File], &[Hunk]),
    frame: &Frame<'_>,
    letter: char,
) -> Vec<Territory> {
    let numbered = bins.iter().zip(1..);
    numbered.map(|(bin, number)| territory(bin, of, frame, format!("{letter}{number}"))).collect()
}

fn territory(
    bin: &Bin,
    (files, hunks): (&[File], &[Hunk]),
    frame: &Frame<'_>,
    id: String,
) -> Territory {
    let mut diff = format!("# {}\n", frame.title);
    if let Some(root) = frame.root {
        diff.push_str(&format!("# File names are relative to {}\n", root.display()));
    }
    let places: Vec<usize> = bin.files.iter().flat_map(|(_, places)| places).copied().collect();
    for (file, places) in &bin.files {
        diff.push_str(&files[*file].head);
        diff.extend(places.iter().map(|place| &*hunks[*place].text));
    }
    let tag = prompt::unused_tag("file", &[&diff]);
    Territory {
        id,
        title: title(bin, files),
        files: bin.files.iter().map(|(file, _)| Arc::clone(&files[*file].path)).collect(),
        hunks: places.iter().map(|place| hunks[*place].id.clone()).collect(),
        is_code: bin.files.iter().any(|(file, _)| files[*file].is_code),
        places,
        diff,
        tag,
    }
}

/// Says what a territory is: its file, or where its files stand.
fn title(bin: &Bin, files: &[File]) -> String {
    if let [(file, places)] = &bin.files[..] {
        let part = if places.len() < files[*file].hunks().len() { ", in part" } else { "" };
        return format!("{}{part}", shown(&files[*file].path));
    }
    let paths: Vec<&str> = bin.files.iter().map(|(file, _)| &*files[*file].path).collect();
    // What the first and the last share all share.
    let both = paths.iter().min().zip(paths.iter().max());
    let shared = both.map_or(0, |(first, last)| {
        let same = first.bytes().zip(last.bytes()).take_while(|(one, other)| one == other).count();
        first.as_bytes()[..same].iter().rposition(|byte| *byte == b'/').unwrap_or(0)
    });
    let place = paths.first().and_then(|path| path.get(..shared)).unwrap_or_default();
    let place = if place.is_empty() { String::new() } else { format!(" in {}", shown(place)) };
    format!("{} files{place}", paths.len())
}

/// A path on one line, whatever it holds: a prompt says it.
fn shown(path: &str) -> String {
    path_text::to_text(Path::new(path))
}

#[cfg(test)]
mod tests;
