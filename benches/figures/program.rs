//! Running the measured program: a place to run in, a run, and its end.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::clock;
use crate::script::{self, Script};
use crate::server::{Seen, Server};

/// The program, as `cargo bench` has built it.
const PROGRAM: &str = env!("CARGO_BIN_EXE_tine");

/// The variable by which processes of a run are found after its end.
const MARK: &str = "TINE_FIGURES_RUN";

/// The name of every session's log.
const LOG: &str = "log.jsonl";

/// Lines of the file that is read: about as much as a source file has.
const FILE_LINES: usize = 40;

/// An empty home and a small workspace, where temporary files are. Where that is no
/// disk, `TMPDIR` has to name one: logs are synced to it, as in real use.
pub(crate) struct Place {
    directory: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        // Not below this checkout: its repository would be the workspace.
        let directory = TempDir::new().expect("a place to work");
        let place = Self { directory };
        for name in ["home", "workspace"] {
            std::fs::create_dir(place.directory.path().join(name)).expect("a new directory");
        }
        let text = "    let total = prices.iter().sum::<u64>();\n".repeat(FILE_LINES);
        std::fs::write(place.workspace().join(script::FILE), text).expect("a new file");
        place
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.directory.path().join("workspace")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    fn output(&self) -> PathBuf {
        self.directory.path().join("output")
    }

    fn mark(&self) -> &Path {
        self.directory.path()
    }
}

/// Returns the program with nothing of this process's environment but PATH.
pub(crate) fn command(place: &Place) -> Command {
    let output = |name: &str| File::create(place.directory.path().join(name)).expect("a new file");
    let mut command = by(place, PROGRAM);
    command.process_group(0).stdin(Stdio::null()).stdout(output("output")).stderr(output("errors"));
    command
}

/// Returns the program as the first of a session of its own, whose terminal is
/// its standard input. It has the id of the child.
pub(crate) fn command_on_terminal(place: &Place) -> Command {
    let mut command = by(place, "setsid");
    command.args(["--ctty", PROGRAM]).env("TERM", "xterm-256color");
    command
}

fn by(place: &Place, program: &str) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", place.home())
        .env(MARK, place.mark())
        .current_dir(place.workspace());
    command
}

/// A run that has started.
pub(crate) struct Running<'a> {
    pub(crate) server: Server,
    pub(crate) started: Duration,
    pub(crate) pid: i32,
    child: Child,
    place: &'a Place,
}

/// How a run went.
pub(crate) struct Ended {
    /// The requests, in the order in which they came.
    pub(crate) seen: Vec<Seen>,
    /// Just before the process was started.
    pub(crate) started: Duration,
    /// When the process was gone.
    pub(crate) ended: Duration,
    /// The exit code.
    pub(crate) code: Option<i32>,
    /// The records of its output.
    pub(crate) records: Vec<Value>,
    /// How many processes of the run were left.
    pub(crate) left: usize,
    /// How many bytes its session's log has.
    pub(crate) log: u64,
}

/// Runs the main prompt against a server that follows `script`.
pub(crate) fn start<'a>(place: &'a Place, script: &Script, flags: &[&str]) -> Running<'a> {
    let fixed = ["-p", script::MAIN_PROMPT, "-m", "bench", "--output-format", "stream-json"];
    start_with(place, script, &[&fixed[..], &["--allow-large-batches"], flags].concat())
}

/// Runs a command against a server that follows `script`.
pub(crate) fn start_with<'a>(place: &'a Place, script: &Script, arguments: &[&str]) -> Running<'a> {
    let mut server = Server::start(script);
    let mut command = command(place);
    command.env("OPENAI_BASE_URL", server.base_url()).args(arguments);
    let started = clock::now();
    let child = command.spawn().expect("the program can be started");
    let pid = i32::try_from(child.id()).expect("process ids are small");
    server.watch(pid);
    Running { server, started, pid, child, place }
}

impl Running<'_> {
    /// Counts the processes of the run.
    pub(crate) fn processes(&self) -> usize {
        count_marked(self.place.mark())
    }

    /// Waits for the end.
    pub(crate) fn wait(mut self) -> Ended {
        let status = self.child.wait().expect("a child can be waited for");
        let ended = clock::now();
        let left = count_marked(self.place.mark());
        let output = std::fs::read_to_string(self.place.output()).expect("the output is text");
        let records =
            output.lines().map(|line| serde_json::from_str(line).expect("records are JSON"));
        Ended {
            records: records.collect(),
            seen: self.server.finish(),
            started: self.started,
            ended,
            code: status.code(),
            left,
            log: bytes_of_logs(&self.place.home()),
        }
    }
}

/// Runs to the end; panics if the run did not succeed, because then nothing
/// was measured.
pub(crate) fn run(script: &Script, flags: &[&str]) -> Ended {
    let place = Place::new();
    let ended = start(&place, script, flags).wait();
    let last = ended.records.last().map(|record| (&record["type"], &record["subtype"]));
    let is_success = last.is_some_and(|(kind, subtype)| kind == "result" && subtype == "success");
    assert!(ended.code == Some(0) && is_success, "a run failed: {last:?}");
    ended
}

/// Adds up the session logs below a directory.
pub(crate) fn bytes_of_logs(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).expect("a home can be listed").flatten();
    let bytes = entries.map(|entry| {
        let about = entry.metadata().expect("nothing below a home goes away after its run");
        if about.is_dir() {
            bytes_of_logs(&entry.path())
        } else if entry.file_name() == LOG {
            about.len()
        } else {
            0
        }
    });
    bytes.sum()
}

/// Counts the processes that were started by a run, by their environment.
fn count_marked(mark: &Path) -> usize {
    let wanted = format!("{MARK}={}\0", mark.display()).into_bytes();
    let has_mark = |environment: &[u8]| {
        environment.windows(wanted.len()).any(|window| window == wanted.as_slice())
    };
    let processes = std::fs::read_dir("/proc").expect("Linux has /proc").flatten();
    processes
        // Others' processes cannot be looked at, and are none of ours.
        .filter_map(|process| std::fs::read(process.path().join("environ")).ok())
        .filter(|environment| has_mark(environment))
        .count()
}
