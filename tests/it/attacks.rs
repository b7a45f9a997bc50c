//! Attacks: each is shown to work where nothing stands in its way, and then
//! to be stopped.

/// Text that a terminal obeys, hides or turns round.
mod terminal;
