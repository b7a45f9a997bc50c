//! The chat: one conversation at a terminal, with a line that is always there
//! to type into.

pub mod commands;
pub mod complete;
pub mod decode;
pub mod history;
pub mod line;
pub mod tty;
