//! `tine`: a coding-agent harness for the terminal that runs many agents at
//! once.
//!
//! The modules are layers; each names only those above it. ARCHITECTURE.md
//! has the bird's eye view.

// 1 values
pub mod branch;
pub mod code;
pub mod diff;
pub mod event;
pub mod findings;
pub mod message;
