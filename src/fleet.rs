//! The pool beyond one machine: slots that workers run, over NATS.
//!
//! A worker runs a slot's loop with a line whose other end is with the
//! coordinator's dispatcher. So whatever numbers, adds up, asks or records
//! knows nothing of where a slot runs.

pub mod engine;
mod executor;
mod far;
mod grant;
pub mod ground;
mod lent;
mod load;
mod lookout;
mod near;
pub mod packet;
mod parcel;
pub mod permits;
mod place;
mod post;
mod shipping;
#[cfg(test)]
mod tests;
pub mod wire;
pub mod worker;

pub use executor::Fleet;
pub use load::Load;

/// Writes an error with its causes.
fn spelt(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
