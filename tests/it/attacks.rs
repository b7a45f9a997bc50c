//! Attacks: each is shown to work where nothing stands in its way, and then
//! to be stopped.

/// Text that a terminal obeys, in every place where a chat shows text.
mod chat;
/// Commands that would read what a rule denies to read.
mod denied;
/// Our own calls of git: which git is run, and what it is given.
mod git;
/// Hooks, and who would have them run or say more than they may.
mod hooks;
/// Files that run later: what git's configuration names, and what other programs obey.
mod later;
/// Paths, links, swaps and patches.
mod paths;
/// Text that a terminal obeys, hides or turns round.
mod payloads;
/// Keys, wherever one could be left.
mod secrets;
/// Commands that must not run unasked, and those that may.
mod shell;
/// Commands made at random, in the gate and in bash.
mod shell_fuzz;
/// The same, on every way that leads to a terminal.
mod terminal;
/// Repositories that would decide over a run.
mod trust;
/// Instructions in invisible characters.
mod unseen;
