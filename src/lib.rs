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
pub mod invisible;
pub mod json_schema;
pub mod json_text;
pub mod look_alike;
pub mod message;
pub mod patch;
// 2 world
pub mod config;
pub mod definition;
pub mod front_matter;
pub mod git;
pub mod guard;
pub mod hook;
pub mod mcp;
pub mod model;
pub mod path_text;
pub mod prompt;
pub mod real_path;
pub mod reaper;
pub mod review;
pub mod session;
pub mod skill;
pub mod slips;
pub mod telemetry;
pub mod tool_name;
pub mod web;
// 3 line
pub mod line;
// 4 tool
pub mod tool;
// 5 agent
pub mod agent;
// 6 fanout
pub mod fanout;
#[cfg(feature = "nats")]
pub mod fleet;
pub mod flow;
// 7 run
pub mod run;
// 8 report
pub mod report;
// 9 cli
pub mod cli;
