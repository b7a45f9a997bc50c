//! The real binary, run in a place of its own.
//!
//! A [`Place`] is a temporary directory with a home and a working directory. A
//! [`Tine`] started there sees nothing of the surroundings of the tests but
//! `PATH`. Whatever is still running when a test ends is killed.

use std::fs;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use super::records::Records;
use super::server::Server;

/// How long a process may be silent before a test gives it up. Nothing is
/// measured by it: it turns a hang into a failure.
pub(crate) const HANG_LIMIT: Duration = Duration::from_secs(60);

/// The key that goes to a scripted server.
pub(crate) const KEY: &str = "sk-for-tests-only";

/// A temporary directory with a home and a working directory.
pub(crate) struct Place {
    directory: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("the system has room for a directory");
        let place = Self { directory };
        for path in [place.home(), place.work()] {
            fs::create_dir(path).expect("the place is new");
        }
        place
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.root().join("home")
    }

    /// The working directory, without links in its path.
    pub(crate) fn work(&self) -> PathBuf {
        self.root().join("work")
    }

    /// What holds home and working directory.
    pub(crate) fn root(&self) -> PathBuf {
        self.directory.path().canonicalize().expect("the directory is there")
    }

    /// Writes a file of the working directory, and the directories above it.
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        put(&self.work().join(name), bytes.as_ref())
    }

    /// Reads a file of the working directory; `None` if there is none.
    pub(crate) fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.work().join(name)).ok()
    }

    /// Writes the user's configuration.
    pub(crate) fn configure(&self, text: &str) -> PathBuf {
        put(&self.home().join(".config/tine/config.toml"), text.as_bytes())
    }

    /// Writes a script and returns the name of the model that plays it.
    pub(crate) fn script(&self, name: &str, script: &Value) -> String {
        let path = put(&self.root().join(name), script.to_string().as_bytes());
        format!("scripted:{}", path.display())
    }

    /// The directories of the sessions that were kept, in the order of their
    /// beginnings.
    pub(crate) fn sessions(&self) -> Vec<PathBuf> {
        let root = self.home().join(".local/state/tine/sessions");
        let mut sessions: Vec<_> = list(&root).iter().flat_map(|project| list(project)).collect();
        sessions.sort_by_key(|path| (begun(path), path.clone()));
        sessions
    }

    /// The lines of the one session that was kept.
    pub(crate) fn log(&self) -> Vec<Value> {
        let sessions = self.sessions();
        let [session] = &sessions[..] else { panic!("one session was kept: {sessions:?}") };
        let log = fs::read(session.join("log.jsonl")).expect("a session has a log");
        // Of a process that runs, the last line may be half a one, down to its letters.
        let lines = log.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
        lines.map(|line| serde_json::from_slice(line).expect("a line is JSON")).collect()
    }

    /// The binary with these arguments, in the working directory.
    pub(crate) fn tine<I>(&self, arguments: I) -> Tine
    where
        I: IntoIterator<Item: AsRef<std::ffi::OsStr>>,
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tine"));
        let home = self.home();
        command
            .args(arguments)
            .current_dir(self.work())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").expect("the tests have a PATH"))
            .env("XDG_CONFIG_HOME", home.join(".config"))
            .env("XDG_STATE_HOME", home.join(".local/state"))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("HOME", home)
            .env("TERM", "xterm-256color")
            // A Ctrl-C at the tests is not one at the binary.
            .process_group(0);
        Tine { command, input: Input::Empty }
    }

    /// Runs one prompt against a server.
    pub(crate) fn ask(&self, server: &Server, flags: &[&str]) -> Finished {
        self.asking(server, flags).run()
    }

    /// One prompt against a server, not yet run. What fails is not asked again
    /// unless `flags` say so: waiting would cost real time.
    pub(crate) fn asking(&self, server: &Server, flags: &[&str]) -> Tine {
        let asking = ["-p", "go", "-m", "m", "--config", "retry.most=0"];
        self.tine(asking.iter().chain(flags)).server(server)
    }

    /// Runs one prompt against a script.
    pub(crate) fn play(&self, script: &Value, flags: &[&str]) -> Finished {
        let model = self.script("script.json", script);
        self.tine(["-p", "go", "-m", &model].iter().chain(flags)).run()
    }
}

/// When a session began, by the first line of its log that says so.
fn begun(session: &Path) -> Option<u64> {
    let log = fs::read(session.join("log.jsonl")).ok()?;
    let lines = log.split(|byte| *byte == b'\n');
    let line = |line: &[u8]| serde_json::from_slice::<Value>(line).ok()?["at"].as_u64();
    lines.filter_map(line).next()
}

fn list(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.map(|entry| entry.expect("the directory can be read").path()).collect()
}

fn put(path: &Path, bytes: &[u8]) -> PathBuf {
    let parent = path.parent().expect("a file has a directory");
    fs::create_dir_all(parent).expect("the place can be written");
    fs::write(path, bytes).expect("the place can be written");
    path.to_owned()
}

/// Makes a file that can be run at once.
///
/// A shell writes it: were it open in this process, a test beside this one could
/// fork meanwhile, and what is open for writing anywhere is not run.
pub(crate) fn executable(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a file has a directory")).expect("the place is ours");
    let writes = r#"printf %s "$1" > "$0" && chmod 755 "$0""#;
    let status = Command::new("sh").args(["-c", writes]).arg(path).arg(text).status();
    assert!(status.expect("there is a shell").success(), "{}", path.display());
}

/// Makes a git that does something first when its arguments have this in them, and
/// returns a `PATH` that leads to it.
pub(crate) fn git_that(place: &Place, arguments: &str, action: &str) -> String {
    let programs = place.root().join("programs");
    let program = format!(
        "#!/bin/sh\ncase \" $* \" in *' {arguments} '*) {action};; esac\nexec '{}' \"$@\"\n",
        which("git").display()
    );
    executable(&programs.join("git"), &program);
    format!("{}:{}", programs.display(), std::env::var("PATH").expect("the tests have a PATH"))
}

/// Returns where a program is.
fn which(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").expect("the tests have a PATH");
    let mut programs = std::env::split_paths(&path).map(|directory| directory.join(name));
    programs.find(|program| program.is_file()).expect("it is there")
}

/// A command line, ready to be run. Standard input is empty unless given.
pub(crate) struct Tine {
    command: Command,
    input: Input,
}

enum Input {
    Empty,
    Bytes(Vec<u8>),
    /// A pipe that is open and says nothing.
    Silent,
}

impl Tine {
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn at(mut self, directory: &Path) -> Self {
        self.command.current_dir(directory);
        self
    }

    pub(crate) fn server(self, server: &Server) -> Self {
        self.env("OPENAI_BASE_URL", &server.base_url()).env("OPENAI_API_KEY", KEY)
    }

    /// Starts it with SIGHUP as a terminal gives it, or as `nohup` does: what
    /// the tests themselves were started with is passed on otherwise.
    pub(crate) fn hangups(self, heard: bool) -> Self {
        self.by("env", [if heard { "--default-signal=HUP" } else { "--ignore-signal=HUP" }])
    }

    /// Has it started by another program, as that one's last arguments.
    pub(crate) fn by<I>(self, program: &str, arguments: I) -> Self
    where
        I: IntoIterator<Item: AsRef<std::ffi::OsStr>>,
    {
        let Self { command: tine, input } = self;
        let mut command = Command::new(program);
        command.args(arguments).arg(tine.get_program()).args(tine.get_args()).env_clear();
        command.envs(tine.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.current_dir(tine.get_current_dir().expect("a place is where it runs"));
        command.process_group(0);
        Self { command, input }
    }

    /// Pipes these bytes in.
    pub(crate) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Input::Bytes(bytes.into());
        self
    }

    /// Pipes nothing in, and keeps the pipe open.
    pub(crate) fn silent_stdin(mut self) -> Self {
        self.input = Input::Silent;
        self
    }

    /// The command alone, for a test that connects it itself.
    pub(crate) fn into_command(self) -> Command {
        self.command
    }

    /// Runs to the end.
    #[track_caller]
    pub(crate) fn run(self) -> Finished {
        self.start().wait()
    }

    /// Starts it.
    pub(crate) fn start(self) -> Running {
        let Self { mut command, input } = self;
        let stdin = match &input {
            Input::Empty => Stdio::null(),
            Input::Bytes(_) | Input::Silent => Stdio::piped(),
        };
        let mut child = command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("cargo has built the binary");
        if let Input::Bytes(bytes) = input {
            let mut pipe = child.stdin.take().expect("it was piped");
            // A process that does not read all of it is no failure here.
            std::thread::spawn(move || drop(pipe.write_all(&bytes)));
        }
        let stdout = child.stdout.take().expect("it was piped");
        let lines = lines(move || stdout);
        let stderr = whole(child.stderr.take().expect("it was piped"));
        Running { child, lines, stdout: String::new(), stderr }
    }
}

/// A process that runs. It is killed when this value goes.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    stdout: String,
    stderr: Receiver<String>,
}

impl Running {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).expect("a process id fits its own type");
        kill(Pid::from_raw(id), signal).expect("the process was not waited for");
    }

    /// Reads stream-json records up to and including the first that fits, and
    /// returns that.
    #[track_caller]
    pub(crate) fn read_until(&mut self, mut fits: impl FnMut(&Value) -> bool) -> Value {
        loop {
            let line = self.line().unwrap_or_else(|| panic!("no such record:\n{}", self.stdout));
            let record = serde_json::from_str(&line).expect("a record is JSON");
            if fits(&record) {
                return record;
            }
        }
    }

    /// Reads the next line of standard output.
    #[track_caller]
    pub(crate) fn read_line(&mut self) -> String {
        self.line().expect("there is a line")
    }

    /// Writes a line to a silent standard input.
    pub(crate) fn say(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().expect("it is piped and open");
        stdin.write_all(format!("{line}\n").as_bytes()).expect("the process reads it");
    }

    /// Ends a silent standard input.
    pub(crate) fn hang_up(&mut self) {
        self.child.stdin = None;
    }

    /// Waits for the end.
    #[track_caller]
    pub(crate) fn wait(mut self) -> Finished {
        while self.line().is_some() {}
        let stderr = self.stderr.recv_timeout(HANG_LIMIT).expect("the process closes its output");
        // Not `wait`, which would first close a pipe that should stay silent.
        let stdin = self.child.stdin.take();
        let status = self.child.wait().expect("a child can be waited for");
        drop(stdin);
        Finished { status, stdout: std::mem::take(&mut self.stdout), stderr }
    }

    #[track_caller]
    fn line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(HANG_LIMIT) {
            Ok(line) => {
                self.stdout.push_str(&line);
                Some(line)
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs after:\n{}", self.stdout),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Opens something and sends each line of it with its line break; hangs up at
/// the end.
pub(crate) fn lines<R: Read>(open: impl FnOnce() -> R + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(open());
        loop {
            let mut line = Vec::new();
            match reader.read_until(b'\n', &mut line) {
                Ok(1..) => {}
                Ok(0) | Err(_) => return,
            }
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Sends everything at the end.
fn whole(mut output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What there is by then is as good as it gets.
        let _ = output.read_to_end(&mut bytes);
        // A test that no longer waits has failed.
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

/// A process that ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    /// Checks the exit code.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        let Self { status, stdout, stderr } = &self;
        assert_eq!(status.code(), Some(code), "{status}\n{stdout}\n{stderr}");
        self
    }

    /// Checks the exit code and that nothing but these lines was said.
    #[track_caller]
    pub(crate) fn refuses(self, code: i32, stderr: &str) {
        let Self { status, stdout, stderr: said } = self;
        assert_eq!((status.code(), stdout.as_str(), said.as_str()), (Some(code), "", stderr));
    }

    /// Reads the output as stream-json.
    #[track_caller]
    pub(crate) fn records(&self) -> Records {
        Records::parse(&self.stdout)
    }

    /// Reads the output as the one object of `--output-format json`.
    #[track_caller]
    pub(crate) fn result(&self) -> Value {
        assert_eq!(self.stdout.lines().count(), 1, "{}", self.stdout);
        serde_json::from_str(&self.stdout).expect("the one line is JSON")
    }
}
