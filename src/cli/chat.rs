//! The chat: one conversation at a terminal, with a line that is always there
//! to type into.

mod clock;
pub mod commands;
pub mod complete;
pub mod decode;
mod desk;
mod driver;
pub mod history;
pub mod line;
mod lines;
mod meaning;
mod opening;
mod seat;
mod session;
mod terminal;
pub mod tty;
mod turns;

pub(super) use driver::run;
