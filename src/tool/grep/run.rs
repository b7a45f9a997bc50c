//! A search that is under way: entries are examined by several threads, and their results
//! are taken in the order of the paths.
//!
//! The walk is one thread's work, for its order decides the text of the result. While
//! threads examine a batch of entries, it gathers the next one. So the same call gives the
//! same text, however many threads there are, and stops soon once enough is said.

use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::guard::LeftOut;
use crate::message::Output;
use crate::path_text;
use crate::tool::blocking::{StoppableFile, cancelled};
use crate::tool::walk::{CountedWalk, Missing, OmissionCause, WalkItem, is_file, leads_out};
use crate::tool::{ToolError, Workspace};

use super::hits::{FileHits, FileSearcher, UnsearchedPart};
use super::{Listing, Wanted};

/// Maximum threads of one search. Several agents may search at once.
const THREADS_CAP: usize = 4;

/// Entries of the first batch. It has no further thread: most searches end with it.
const FIRST_BATCH: usize = 32;

/// Entries of each further batch. Some milliseconds of work.
const BATCH: usize = 512;

/// What a search goes by.
#[derive(Clone, Copy)]
pub(super) struct GrepTask<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) left_out: &'a LeftOut<'a>,
    pub(super) wanted: &'a Wanted,
    pub(super) token: &'a CancellationToken,
}

/// What an entry of the walk comes to.
enum Examined {
    /// It is not searched, and nothing is said about it.
    Nothing,
    Denied,
    LeftOut(OmissionCause),
    MoreLeftOut,
    Unread(String),
    /// A link that leads out.
    Link(String),
    /// A file that was searched.
    File(String, io::Result<FileHits>),
}

/// The result of a search so far.
pub(super) struct GrepRun<'a> {
    task: GrepTask<'a>,
    listing: Listing,
    missing: Missing,
    /// Number of files that were looked at.
    searched: u64,
    threads: usize,
}

impl<'a> GrepRun<'a> {
    pub(super) fn new(task: GrepTask<'a>, listing: Listing) -> Self {
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let threads = threads.min(THREADS_CAP);
        Self { task, listing, missing: Missing::default(), searched: 0, threads }
    }

    /// Returns the same with another number of threads.
    #[cfg(test)]
    pub(super) fn with_threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Searches what the walk reaches, up to its end or until enough is said.
    ///
    /// # Errors
    ///
    /// The call was cancelled.
    pub(super) fn search(&mut self, mut walk: CountedWalk) -> Result<(), ToolError> {
        let mut gather = |most: usize| walk.by_ref().take(most).collect::<Vec<WalkItem>>();
        let mut batch = gather(FIRST_BATCH);
        while !batch.is_empty() && !self.listing.more {
            // What is gathered after a cancel is not used.
            if self.task.token.is_cancelled() {
                return Err(cancelled(Duration::ZERO));
            }
            if batch.len() <= FIRST_BATCH || self.threads < 2 {
                let mut searcher = FileSearcher::new(self.task.wanted);
                for item in &batch {
                    let examined = self.task.examine(item, &mut searcher, &self.listing);
                    self.take(examined);
                    if self.listing.more {
                        return Ok(());
                    }
                }
                batch = gather(BATCH);
                continue;
            }
            let next_item = AtomicUsize::new(0);
            let (mut results, next) = thread::scope(|scope| {
                let (task, listing) = (self.task, &self.listing);
                let (items, next_item) = (&batch, &next_item);
                let work = move || task.examine_some(items, next_item, listing);
                let threads: Vec<_> = (0..self.threads).map(|_| scope.spawn(work)).collect();
                let next = gather(BATCH);
                let results = threads.into_iter().flat_map(|thread| match thread.join() {
                    Ok(results) => results,
                    Err(panic) => std::panic::resume_unwind(panic),
                });
                (results.collect::<Vec<_>>(), next)
            });
            results.sort_unstable_by_key(|(place, _)| *place);
            for (_, examined) in results {
                if self.listing.more {
                    break;
                }
                self.take(examined);
            }
            batch = next;
        }
        match self.task.token.is_cancelled() {
            true => Err(cancelled(Duration::ZERO)),
            false => Ok(()),
        }
    }

    fn take(&mut self, examined: Examined) {
        let (shown, hits) = match examined {
            Examined::Nothing => return,
            Examined::Denied => return self.missing.denied += 1,
            Examined::LeftOut(cause) => return self.missing.push_left_out(cause),
            Examined::MoreLeftOut => return self.missing.push_more(),
            Examined::Unread(shown) => return self.missing.unread.push(&shown),
            Examined::Link(shown) => return self.missing.links.push(&shown),
            Examined::File(shown, hits) => (shown, hits),
        };
        self.searched += 1;
        let Ok(FileHits { rows, gap }) = hits else {
            self.missing.unread.push(&shown);
            return;
        };
        match gap {
            None => {}
            Some(UnsearchedPart::Binary) => self.missing.binary.push(&shown),
            Some(UnsearchedPart::TooLarge) => self.missing.too_large.push(&shown),
            Some(UnsearchedPart::From(byte)) => {
                self.missing.push_cut(&shown, byte, !rows.is_empty());
            }
        }
        rows.into_iter().for_each(|row| self.listing.push(&row));
    }

    /// Returns the output of the call.
    ///
    /// # Errors
    ///
    /// No file was searched, because the pattern of files is malformed.
    pub(super) fn output(self) -> Result<Output, ToolError> {
        let Self { task, listing, missing, searched, threads: _ } = self;
        let wanted = task.wanted;
        let shown = path_text::shown(&task.workspace.root, &wanted.base);
        let mut note = missing.note();
        if searched == 0 && note.is_empty() {
            if let Some(filter) = &wanted.files {
                filter.pattern.refuse_malformed("glob")?;
            }
            let why = match (&wanted.files, &wanted.types) {
                (None, None) => format!("{shown} has no files"),
                (Some(_), None) => "no file matches \"glob\"".to_owned(),
                (None, Some(_)) => "no file has that \"type\"".to_owned(),
                (Some(_), Some(_)) => "no file matches \"glob\" and \"type\"".to_owned(),
            };
            note = format!("[No file was searched: {why}.]\n");
        }
        Ok(Output::ok(listing.text(wanted, &shown) + &note))
    }
}

impl GrepTask<'_> {
    /// Examines the entries that no other thread has taken, and returns each result with
    /// the place of its entry.
    fn examine_some(
        self,
        items: &[WalkItem],
        next: &AtomicUsize,
        listing: &Listing,
    ) -> Vec<(usize, Examined)> {
        let mut searcher = FileSearcher::new(self.wanted);
        let mut results = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(place) else { return results };
            results.push((place, self.examine(item, &mut searcher, listing)));
        }
    }

    fn examine(
        self,
        item: &WalkItem,
        searcher: &mut FileSearcher<'_>,
        listing: &Listing,
    ) -> Examined {
        let root = &self.workspace.root;
        match item {
            WalkItem::Entry(entry) if is_file(entry) => {
                self.search_file(entry.path(), searcher, listing)
            }
            WalkItem::Entry(entry) => {
                let base = self.left_out.place(&self.wanted.base);
                let leads_out = leads_out(entry, &base).is_some_and(|(target, is_directory)| {
                    is_directory || target.is_file() && self.lets_in(entry.path())
                });
                match leads_out {
                    true => Examined::Link(path_text::shown(root, entry.path())),
                    false => Examined::Nothing,
                }
            }
            WalkItem::LeftOut(entry, cause) if is_file(entry) && self.lets_in(entry.path()) => {
                Examined::LeftOut(*cause)
            }
            WalkItem::LeftOut(..) => Examined::Nothing,
            WalkItem::MoreLeftOut => Examined::MoreLeftOut,
            WalkItem::Unread(path) => Examined::Unread(path_text::shown(root, path)),
        }
    }

    fn lets_in(self, path: &Path) -> bool {
        let filter = self.wanted.files.as_ref();
        filter.is_none_or(|filter| filter.lets_in(&self.wanted.base, path))
    }

    fn search_file(
        self,
        path: &Path,
        searcher: &mut FileSearcher<'_>,
        listing: &Listing,
    ) -> Examined {
        if !self.lets_in(path) {
            return Examined::Nothing;
        }
        if self.left_out.covers(path) {
            return Examined::Denied;
        }
        let shown = path_text::shown(&self.workspace.root, path);
        // What was judged is what is read, whatever has come in its place.
        let file = self.workspace.roots.file(&self.left_out.place(path));
        let hits = file.and_then(|file| {
            searcher.search(StoppableFile { file, token: self.token }, &shown, listing)
        });
        Examined::File(shown, hits)
    }
}
