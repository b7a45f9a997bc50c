//! What is said to people on standard error while something is done, for whoever
//! passes it on: an editor may show nobody what stands there.

use std::cell::RefCell;

/// Most that is kept of what is said meanwhile. What a project has more to
/// complain of is still on standard error.
const SAID_CAP: usize = 32;

thread_local! {
    // Whoever starts a run does so on one thread, and what it says is said by a
    // dozen modules that need not know who listens.
    static HEARD: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Does something, and returns beside its result what was said on this thread
/// meanwhile.
pub(super) fn meanwhile<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
    HEARD.set(Some(Vec::new()));
    let result = work();
    (result, HEARD.take().unwrap_or_default())
}

/// Takes note of what is said, if somebody listens.
pub(super) fn note(text: &str) {
    HEARD.with_borrow_mut(|heard| {
        if let Some(heard) = heard
            && heard.len() < SAID_CAP
        {
            heard.push(text.to_owned());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_meanwhile_is_heard_and_nothing_else() {
        note("before");
        let (result, said) = meanwhile(|| {
            (0..100).for_each(|number| note(&number.to_string()));
            7
        });
        assert_eq!((result, said.len(), &*said[0]), (7, SAID_CAP, "0"));
        note("after");
        assert_eq!(meanwhile(|| ()).1, Vec::<String>::new());
    }
}
