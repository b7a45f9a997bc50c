//! Pages that were fetched lately: agents that work side by side ask for the
//! same ones.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::Url;
use tokio::time::Instant;

use super::Page;

/// How long a page is taken for what it was.
const AGE: Duration = Duration::from_secs(15 * 60);

/// Most bytes of all pages together: some dozens of usual ones, or the largest
/// few.
const BYTES_CAP: usize = 16 * 1024 * 1024;

/// Pages, oldest first.
// A mutex, because calls of several units run side by side, and none of them
// waits while it holds it.
#[derive(Default)]
pub(super) struct Cache(Mutex<VecDeque<Entry>>);

struct Entry {
    url: Url,
    page: Arc<Page>,
    since: Instant,
}

impl Cache {
    pub(super) fn get(&self, url: &Url) -> Option<Arc<Page>> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while entries.front().is_some_and(|entry| entry.since.elapsed() >= AGE) {
            entries.pop_front();
        }
        let entry = entries.iter().find(|entry| entry.url == *url)?;
        Some(Arc::clone(&entry.page))
    }

    pub(super) fn put(&self, url: Url, page: Arc<Page>) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|entry| entry.url != url);
        entries.push_back(Entry { url, page, since: Instant::now() });
        let mut bytes: usize = entries.iter().map(|entry| entry.page.text.len()).sum();
        while bytes > BYTES_CAP {
            let Some(oldest) = entries.pop_front() else { return };
            bytes -= oldest.page.text.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(name: &str) -> Url {
        format!("https://example.com/{name}").parse().unwrap()
    }

    fn put(cache: &Cache, name: &str, bytes: usize) {
        let page = Page { url: url(name), text: "x".repeat(bytes), ..Page::default() };
        cache.put(url(name), Arc::new(page));
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_is_kept_for_a_quarter_of_an_hour() {
        let cache = Cache::default();
        put(&cache, "a", 1);
        tokio::time::advance(AGE - Duration::from_secs(1)).await;
        assert!(cache.get(&url("a")).is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(cache.get(&url("a")).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_go_when_there_are_too_many() {
        let cache = Cache::default();
        for name in ["a", "b", "c"] {
            put(&cache, name, BYTES_CAP / 2);
        }
        let is_there = |name| cache.get(&url(name)).is_some();
        assert_eq!((is_there("a"), is_there("b"), is_there("c")), (false, true, true));
        put(&cache, "d", BYTES_CAP + 1);
        assert!(!is_there("b") && !is_there("c") && !is_there("d"));
    }
}
