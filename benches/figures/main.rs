//! The figures of speed: what was promised, and what is.
//!
//! Runs the optimised program against a scripted server in a process of its
//! own and prints each figure beside its limit; the exit code is 1 if one is
//! missed. `cargo bench -- NAME` measures one group: `start`, `turn`,
//! `schedule`, `many`, `map`, `fleet`, `interrupt`, `resume`, `typing`, `branches`,
//! `gate`, `decode`, `edits`, `sandbox` or `judge`. `cargo bench -- cast`
//! measures nothing: it records the chat that the README shows.

mod allocations;
mod branches;
mod cast;
mod clock;
mod decode;
mod edits;
mod fleet;
mod gate;
mod judge;
mod map;
mod measure;
mod program;
mod resume;
mod sandbox;
mod script;
mod server;
mod svg;
mod table;
mod terminal;
mod typing;

use std::process::ExitCode;

use table::Figure;

#[global_allocator]
static ALLOCATOR: allocations::Counting = allocations::Counting;

/// A group of figures that are measured together.
type Measure = fn() -> Vec<Figure>;

const GROUPS: [(&str, Measure); 15] = [
    ("start", measure::start),
    ("turn", measure::turn),
    ("schedule", measure::schedule),
    ("many", measure::many),
    ("map", map::map),
    ("fleet", fleet::fleet),
    ("interrupt", measure::interrupt),
    ("resume", resume::resume),
    ("typing", typing::typing),
    ("branches", branches::branches),
    ("gate", gate::gate),
    ("decode", decode::decode),
    ("edits", edits::edits),
    ("sandbox", sandbox::sandbox),
    ("judge", judge::judgement),
];

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [argument, script] = arguments.as_slice()
        && argument == server::ARGUMENT
    {
        server::serve(script);
        return ExitCode::SUCCESS;
    }
    // Cargo adds a flag of its own.
    let wanted: Vec<&String> = arguments.iter().filter(|name| !name.starts_with('-')).collect();
    if wanted.iter().any(|wanted| *wanted == cast::ARGUMENT) {
        cast::record();
        return ExitCode::SUCCESS;
    }
    println!("{}\n{}\n\n{}", table::machine(), measure::method(), table::head());
    let mut is_met = true;
    for (name, measure) in GROUPS {
        if wanted.is_empty() || wanted.iter().any(|wanted| *wanted == name) {
            for figure in measure() {
                println!("{figure}");
                is_met &= figure.is_met();
            }
        }
    }
    if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
