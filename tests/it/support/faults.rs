//! Faults that strace injects into the real binary, at a certain system call on
//! a certain file.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::tine::Tine;

/// What happens at a system call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// The process is killed just before the n-th write, counted from 1.
    KilledAtWrite(usize),
    /// The process is killed just before the n-th of these calls that one of
    /// its threads makes.
    KilledAt(&'static str, usize),
    /// The n-th call and all later ones fail.
    Fails(&'static str, &'static str, usize),
}

impl Tine {
    /// Starts it so that the fault happens to the calls on this file.
    #[track_caller]
    pub(crate) fn with_fault(self, fault: Fault, file: &Path) -> Self {
        let file = file.to_str().expect("temporary directories have plain names");
        self.injected(fault, &["-P", file])
    }

    /// Starts it so that the fault happens to the calls on whatever file.
    #[track_caller]
    pub(crate) fn with_fault_anywhere(self, fault: Fault) -> Self {
        self.injected(fault, &[])
    }

    #[track_caller]
    fn injected(self, fault: Fault, only: &[&str]) -> Self {
        check_strace();
        let (calls, inject) = match fault {
            Fault::KilledAtWrite(number) => ("write", format!("write:signal=KILL:when={number}")),
            Fault::KilledAt(calls, number) => (calls, format!("{calls}:signal=KILL:when={number}")),
            Fault::Fails(call, error, number) => {
                (call, format!("{call}:error={error}:when={number}+"))
            }
        };
        let (trace, inject) = (format!("trace={calls}"), format!("inject={inject}"));
        let all = ["-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject];
        self.by("strace", all.iter().chain(only))
    }
}

/// Panics unless strace is there and can trace.
#[track_caller]
fn check_strace() {
    static STRACE: OnceLock<Result<(), &str>> = OnceLock::new();
    let run = || {
        let mut strace = Command::new("strace");
        strace.args(["-qq", "-o", "/dev/null", "true"]).stdin(Stdio::null());
        match strace.stdout(Stdio::null()).stderr(Stdio::null()).status() {
            Err(_) => Err("this test needs strace: install the package `strace`"),
            Ok(status) if !status.success() => {
                Err("strace is there but cannot trace: this machine does not permit ptrace")
            }
            Ok(_) => Ok(()),
        }
    };
    if let Err(message) = STRACE.get_or_init(run) {
        panic!("{message}");
    }
}
