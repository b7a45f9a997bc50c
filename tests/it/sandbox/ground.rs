//! Where attacks take place: a workspace, a home with a secret, and everything
//! outside that must stay as it is.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use tempfile::TempDir;

use super::attacks::{self, Targets};
use crate::support::tine::{HANG_LIMIT, lines};

/// Who attacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum User {
    /// Whoever runs the tests.
    Ours,
    /// Somebody without any rights; only root can become them.
    Nobody,
}

/// The user without rights.
const NOBODY: u32 = 65_534;

/// Carries what an attack needs to the process that makes it.
const ATTACK: &str = "TINE_TEST_ATTACK";

/// All of it. The helper processes end with it.
pub(super) struct Ground {
    directory: TempDir,
    user: User,
    tine: PathBuf,
    process: Child,
    port: u16,
    sockets: (TcpListener, UdpSocket, UnixListener, UnixListener, UnixDatagram),
}

impl Ground {
    pub(super) fn new(user: User) -> Self {
        let directory = tempfile::tempdir().expect("a ground is ours to make and look at");
        let root = directory.path().canonicalize().expect("a ground is ours to make and look at");
        for path in ["outside", "work/point", "home/.ssh", "tmp", "work/.git/hooks", "work/.agents"]
        {
            fs::create_dir_all(root.join(path)).expect("a ground is ours to make and look at");
        }
        for (name, _, _) in attacks::attempts("elsewhere") {
            fs::write(root.join("outside").join(name), "safe")
                .expect("a ground is ours to make and look at");
        }
        for path in ["home/.ssh/key", "work/.git/hooks/old", "work/.git/config", "work/file"] {
            fs::write(root.join(path), "safe").expect("a ground is ours to make and look at");
        }
        fs::write(root.join("work/.agents/agent"), "safe")
            .expect("a ground is ours to make and look at");
        symlink(root.join("outside"), root.join("work/way-out"))
            .expect("a ground is ours to make and look at");
        let (tcp, udp) = listeners();
        let port = tcp.local_addr().expect("a ground is ours to make and look at").port();
        let path = UnixListener::bind(root.join("outside/socket"))
            .expect("a ground is ours to make and look at");
        let datagrams = UnixDatagram::bind(root.join("outside/datagrams"))
            .expect("a ground is ours to make and look at");
        for socket in ["outside/socket", "outside/datagrams"] {
            fs::set_permissions(root.join(socket), fs::Permissions::from_mode(0o777))
                .expect("a ground is ours to make and look at");
        }
        let address = SocketAddr::from_abstract_name(name(port))
            .expect("a ground is ours to make and look at");
        let name = UnixListener::bind_addr(&address).expect("a ground is ours to make and look at");
        let tine = within_reach(user, Path::new(env!("CARGO_BIN_EXE_tine")), &root);
        if user == User::Nobody {
            give_away(&root);
        }
        let process = as_user(Command::new("cat"), user)
            .env("SECRET", "s3cret")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("a ground is ours to make and look at");
        Self { directory, user, tine, process, port, sockets: (tcp, udp, path, name, datagrams) }
    }

    pub(super) fn root(&self) -> PathBuf {
        self.directory.path().canonicalize().expect("a ground is ours to make and look at")
    }

    pub(super) fn work(&self) -> PathBuf {
        self.root().join("work")
    }

    /// Returns whether no datagram has reached this machine.
    pub(super) fn has_heard_nothing(&self) -> bool {
        let (_, udp, ..) = &self.sockets;
        udp.set_nonblocking(true).expect("a ground is ours to make and look at");
        udp.recv(&mut [0]).is_err()
    }

    pub(super) fn tine(&self) -> &Path {
        &self.tine
    }

    /// A command of this user, whose home and temporary directory are here.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = as_user(Command::new(program), self.user);
        let root = self.root();
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").expect("a ground is ours to make and look at"))
            .env("HOME", root.join("home"))
            .env("TMPDIR", root.join("tmp"))
            .env("SECRET", "s3cret")
            .current_dir(root.join("work"))
            .process_group(0)
            .stdin(Stdio::null());
        command
    }

    /// `tine sandbox`, without the command that it runs.
    pub(super) fn sandbox(&self, flags: &[&str]) -> Command {
        let mut command = self.command(&self.tine);
        command.arg("sandbox").args(flags).arg("--");
        command
    }

    /// Runs a shell command in a sandbox.
    pub(super) fn shell(&self, flags: &[&str], script: &str) -> Output {
        self.sandbox(flags)
            .args(["sh", "-c", script])
            .output()
            .expect("a ground is ours to make and look at")
    }

    /// Makes all attempts, and returns the report.
    pub(super) fn attack(&self, flags: &[&str], which: &str) -> (Report, String) {
        let root = self.root();
        let attack =
            format!("{ATTACK}={which}\t{}\t{}\t{}", root.display(), self.process.id(), self.port);
        // Where it is itself it may not be seen from inside.
        let tests = self.work().join("tests");
        if !tests.exists() {
            let here = std::env::current_exe().expect("a ground is ours to make and look at");
            if fs::hard_link(&here, &tests).is_err() {
                fs::copy(&here, &tests).expect("a ground is ours to make and look at");
            }
        }
        let mut command = self.sandbox(flags);
        command.arg("env").arg(attack).arg(&tests);
        command.args(["--exact", "sandbox::attacked", "--nocapture", "--test-threads=1"]);
        let output = command.output().expect("a ground is ours to make and look at");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let attempts = attacks::attempts(which);
        let lines = said.lines().filter_map(|line| line.split_once(": "));
        let lines: BTreeMap<&str, &str> =
            lines.filter(|(name, _)| attempts.iter().any(|(known, _, _)| known == name)).collect();
        assert_eq!(lines.len(), attempts.len(), "{said}\n{stderr}");
        let worked = attempts.iter().map(|(name, _, _)| *name);
        let worked = worked.filter(|name| lines[name] == "worked").collect();
        (Report { worked, said }, stderr)
    }

    /// What is outside the workspace, down to when anything about it changed.
    pub(super) fn outside(&self, but: &[&str]) -> BTreeMap<PathBuf, String> {
        let but: Vec<PathBuf> =
            but.iter().map(|name| self.root().join("outside").join(name)).collect();
        let mut seen = BTreeMap::new();
        for place in ["outside", "home"] {
            look(&self.root().join(place), &mut seen, &|found| {
                format!(
                    "{:o} {} {} {} {}.{}",
                    found.mode(),
                    found.uid(),
                    found.nlink(),
                    found.len(),
                    found.ctime(),
                    found.ctime_nsec()
                )
            });
        }
        seen.retain(|path, _| !but.contains(path) && !path.ends_with(".local"));
        seen.retain(|path, _| !path.components().any(|part| part.as_os_str() == ".local"));
        // Its own time changes with what is made in it.
        seen.remove(&self.root().join("home"));
        seen
    }

    /// What other programs obey in the workspace: what it is, not since when.
    pub(super) fn protected(&self) -> BTreeMap<PathBuf, String> {
        let mut seen = BTreeMap::new();
        for name in [
            ".git/hooks",
            ".git/config",
            ".git/config.worktree",
            ".git/commondir",
            ".git/modules",
            ".mcp.json",
            ".claude",
            ".tine",
            ".agents",
        ] {
            look(&self.work().join(name), &mut seen, &|found| format!("{:o}", found.mode()));
        }
        seen
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What came of the attempts.
pub(super) struct Report {
    /// Those that worked.
    pub(super) worked: Vec<&'static str>,
    /// All that was said, for whoever has to find out why.
    pub(super) said: String,
}

/// Makes the attempts that this process was started for, if it was.
pub(super) fn attack() {
    let Ok(attack) = std::env::var(ATTACK) else { return };
    let [which, root, process, port] = attack.split('\t').collect::<Vec<_>>()[..] else {
        panic!("{attack} is no attack")
    };
    let (root, port) =
        (Path::new(root), port.parse().expect("a ground is ours to make and look at"));
    let targets = Targets {
        outside: root.join("outside"),
        work: root.join("work"),
        process: process.parse().expect("a ground is ours to make and look at"),
        port,
        name: name(port),
    };
    let report = format!("\n{}", attacks::make(which, &targets));
    std::io::stdout().write_all(report.as_bytes()).expect("a ground is ours to make and look at");
}

/// Returns what a file looks like and holds, for it and all below it.
fn look(path: &Path, seen: &mut BTreeMap<PathBuf, String>, show: &dyn Fn(&fs::Metadata) -> String) {
    let Ok(found) = path.symlink_metadata() else { return };
    let mut shown = show(&found);
    if found.is_file() {
        shown.push_str(&format!(
            " {:?}",
            String::from_utf8_lossy(&fs::read(path).expect("a ground is ours to make and look at"))
        ));
    }
    seen.insert(path.to_owned(), shown);
    if found.is_dir() {
        for entry in fs::read_dir(path).expect("a ground is ours to make and look at") {
            look(&entry.expect("a ground is ours to make and look at").path(), seen, show);
        }
    }
}

/// A TCP and a UDP socket with the same number.
fn listeners() -> (TcpListener, UdpSocket) {
    loop {
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a ground is ours to make and look at");
        if let Ok(udp) =
            UdpSocket::bind(tcp.local_addr().expect("a ground is ours to make and look at"))
        {
            return (tcp, udp);
        }
    }
}

fn name(port: u16) -> String {
    format!("tine-test-{port}")
}

fn as_user(mut command: Command, user: User) -> Command {
    if user == User::Nobody {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

fn give_away(path: &Path) {
    if path.symlink_metadata().expect("a ground is ours to make and look at").is_symlink() {
        return;
    }
    chown(path, Some(NOBODY), Some(NOBODY)).expect("a ground is ours to make and look at");
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("a ground is ours to make and look at") {
            give_away(&entry.expect("a ground is ours to make and look at").path());
        }
    }
}

/// Returns a program where the user can run it: a copy, if it is below a
/// directory that only its owner enters.
fn within_reach(user: User, program: &Path, root: &Path) -> PathBuf {
    let is_open = |path: &Path| path.metadata().is_ok_and(|found| found.mode() & 0o5 == 0o5);
    if user == User::Ours || program.ancestors().all(is_open) {
        return program.to_owned();
    }
    let copy =
        root.join("tmp").join(program.file_name().expect("a ground is ours to make and look at"));
    fs::copy(program, &copy).expect("a ground is ours to make and look at");
    copy
}

/// A process that says lines, and is killed with this value.
pub(super) struct Talking {
    pub(super) child: Child,
    lines: Receiver<String>,
}

impl Talking {
    pub(super) fn start(mut command: Command) -> Self {
        let mut child =
            command.stdout(Stdio::piped()).spawn().expect("a ground is ours to make and look at");
        let stdout = child.stdout.take().expect("a ground is ours to make and look at");
        Self { child, lines: lines(move || stdout) }
    }

    /// The next line; empty once nobody is left who could say one.
    #[track_caller]
    pub(super) fn line(&mut self) -> String {
        match self.lines.recv_timeout(HANG_LIMIT) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => String::new(),
            Err(RecvTimeoutError::Timeout) => panic!("somebody lives and says nothing"),
        }
    }
}

impl Drop for Talking {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
