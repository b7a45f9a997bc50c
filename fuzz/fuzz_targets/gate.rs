//! The shell gate: whatever a command is, judging it ends, and what passes is
//! written out as something that passes again. git is told more each time.
#![no_main]

use std::path::{Path, PathBuf};

use libfuzzer_sys::fuzz_target;
use tine::guard::shell::{Judged, Link, Look, World, judge};

/// A machine without a disk, on which everything is installed.
struct Empty;

impl Look for Empty {
    fn has_program(&self, name: &str) -> bool {
        !name.contains('/')
    }

    fn is_inside(&self, path: &Path) -> bool {
        path.starts_with("/work")
    }

    fn is_there(&self, _: &Path) -> bool {
        false
    }

    fn real(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }

    fn link(&self, _: &Path) -> Link {
        Link::None
    }

    fn git_filters(&self, _: &Path) -> Option<Vec<String>> {
        Some(Vec::new())
    }
}

fuzz_target!(|command: &str| {
    let world = World { directory: Path::new("/work"), look: &Empty };
    let Judged::Reads(reading) = judge(command, world) else { return };
    if reading.parts.iter().any(|part| part.words[0] == "git") {
        return;
    }
    match judge(&reading.script, world) {
        Judged::Reads(again) => assert_eq!(again.parts.len(), reading.parts.len()),
        // It is longer than what it was written from.
        Judged::Ask { reason } => assert!(reason.contains("longer than"), "{reason}"),
    }
});
