//! Attacks: each is shown to work where nothing stands in its way, and then
//! to be stopped.

/// Paths, links, swaps and patches.
mod paths;
/// Keys, wherever one could be left.
mod secrets;
/// Text that a terminal obeys, hides or turns round.
mod terminal;
