//! The chat: one conversation at a terminal, with a line that is always there
//! to type into.

pub mod decode;
