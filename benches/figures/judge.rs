//! What the shell gate costs a command: library code, timed in this process.

use std::env;
use std::ffi::OsStr;
use std::hint::black_box;
use std::path::{Path, PathBuf};

use tine::git::Program;
use tine::guard::shell::{Judged, Link, Look, Machine, World, judge};

use crate::clock;
use crate::measure::median_of;
use crate::table::{Figure, Unit};

/// Two hundred bytes, as an agent would write them.
const COMMAND: &str = "ls -la src/guard src/tool && sort -n docs/sizes.txt 2>/dev/null | tail -n 5; \
                       cat src/lib.rs \"src/main.rs\" | head -n 4000 && grep -rn 'fn judge' src tests && wc -l src/lib.rs src/main.rs | cut -c 10-80";

/// How many judgements are made in a round.
const JUDGEMENTS: u32 = 2_000;

/// How often the figure is measured.
const ROUNDS: usize = 11;

/// A machine on which nothing need be looked for.
struct Equipped(Machine);

impl Look for Equipped {
    fn has_program(&self, _: &str) -> bool {
        true
    }

    fn is_inside(&self, path: &Path) -> bool {
        self.0.is_inside(path)
    }

    fn is_there(&self, path: &Path) -> bool {
        self.0.is_there(path)
    }

    fn real(&self, path: &Path) -> PathBuf {
        self.0.real(path)
    }

    fn link(&self, path: &Path) -> Link {
        self.0.link(path)
    }

    fn git_filters(&self, directory: &Path) -> Option<Vec<String>> {
        self.0.git_filters(directory)
    }
}

/// One judgement, with and without looking for the programs on the disk.
pub(crate) fn judgement() -> Vec<Figure> {
    assert_eq!(COMMAND.len(), 200);
    let machine = machine();
    let equipped = Equipped(machine.clone());
    vec![
        Figure::new("a command of 200 bytes judged", time_of(&equipped), 50.0, Unit::Micros),
        Figure::new("the same, its programs looked for", time_of(&machine), 100.0, Unit::Micros),
    ]
}

fn machine() -> Machine {
    let path = env::var_os("PATH").unwrap_or_default();
    let git = Program::find([(OsStr::new("PATH"), &*path)], &[]);
    Machine::new(&path, None, &[PathBuf::from("/nowhere")], git)
}

/// Returns the microseconds of one judgement.
fn time_of(look: &dyn Look) -> f64 {
    let world = World { directory: Path::new("/nowhere"), look };
    median_of(ROUNDS, |_| {
        let started = clock::now();
        for _ in 0..JUDGEMENTS {
            let judged = judge(black_box(COMMAND), world);
            assert!(matches!(judged, Judged::Reads(_)), "{judged:?}");
        }
        let took = clock::now() - started;
        took.as_secs_f64() * 1e6 / f64::from(JUDGEMENTS)
    })
}
