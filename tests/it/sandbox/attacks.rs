//! The attacks themselves: each is an attempt to do what a sandbox forbids.
//!
//! They run in a process of their own, which is this test binary again, first
//! free and then confined. Each has a file of its own to spoil, so that all run
//! in one process, one after the other.

#![expect(unsafe_code, reason = "an attack is a system call that no library would make")]

use std::ffi::CString;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::os::fd::FromRawFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};

use nix::libc::{self, c_long};

/// Where the attacks find what they need, from the command line.
pub(super) struct Targets {
    /// Outside of the workspace, with a file for each attack.
    pub(super) outside: PathBuf,
    /// The workspace, which is the working directory.
    pub(super) work: PathBuf,
    /// Another process of the same user.
    pub(super) process: i32,
    /// Where a TCP and a UDP socket listen on this machine.
    pub(super) port: u16,
    /// The abstract name of a socket that listens; one with a path is
    /// `outside/socket`, one for datagrams `outside/datagrams`.
    pub(super) name: String,
}

/// One attempt. `Ok` means that it did what it should not.
type Attempt = fn(&Targets, &Path) -> io::Result<()>;

/// Who can do it, free of any sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// Anybody.
    Nothing,
    /// Root.
    Root,
    /// Whoever this kernel lets: what it leaves out cannot be shown to work.
    Kernel,
}

/// Attempts on files outside the workspace.
const ON_FILES: &[(&str, Needs, Attempt)] = &[
    ("write", Needs::Nothing, |_, victim| fs::write(victim, "spoilt")),
    ("append", Needs::Nothing, |_, victim| {
        OpenOptions::new().append(true).open(victim)?.write_all(b"more")
    }),
    ("truncate", Needs::Nothing, |_, victim| {
        call(|| unsafe { libc::truncate(text(victim).as_ptr(), 0) }.into())
    }),
    ("create", Needs::Nothing, |to, _| fs::write(to.outside.join("made"), "")),
    ("make-directory", Needs::Nothing, |to, _| fs::create_dir(to.outside.join("directory"))),
    ("make-pipe", Needs::Nothing, |to, _| {
        call(|| unsafe { libc::mkfifo(text(&to.outside.join("pipe")).as_ptr(), 0o600) }.into())
    }),
    ("make-link", Needs::Nothing, |to, _| symlink("/", to.outside.join("link"))),
    ("delete", Needs::Nothing, |_, victim| fs::remove_file(victim)),
    ("rename-away", Needs::Nothing, |to, victim| fs::rename(victim, to.work.join("taken"))),
    ("rename-over", Needs::Nothing, |to, victim| {
        fs::write(to.work.join("new"), "spoilt")?;
        fs::rename(to.work.join("new"), victim)
    }),
    ("exchange", Needs::Nothing, |to, victim| {
        let new = to.work.join("exchanged");
        fs::write(&new, "spoilt")?;
        let (here, new, victim) = (libc::AT_FDCWD, text(&new), text(victim));
        call(|| unsafe {
            let flags = libc::RENAME_EXCHANGE;
            libc::renameat2(here, new.as_ptr(), here, victim.as_ptr(), flags).into()
        })
    }),
    ("hard-link", Needs::Nothing, |to, victim| {
        fs::hard_link(victim, to.work.join("hard"))?;
        fs::write(to.work.join("hard"), "spoilt")
    }),
    ("through-link", Needs::Nothing, |to, victim| {
        symlink(victim, to.work.join("soft"))?;
        fs::write(to.work.join("soft"), "spoilt")
    }),
    ("through-old-link", Needs::Nothing, |to, victim| {
        fs::write(
            to.work.join("way-out").join(victim.file_name().expect("a victim has a name")),
            "spoilt",
        )
    }),
    ("through-proc", Needs::Nothing, |_, victim| {
        fs::write(
            Path::new("/proc/self/root").join(victim.strip_prefix("/").expect("it is absolute")),
            "spoilt",
        )
    }),
    ("through-parent", Needs::Nothing, |to, victim| {
        let root = PathBuf::from(format!("/proc/{}/root", to.process));
        fs::write(root.join(victim.strip_prefix("/").expect("it is absolute")), "spoilt")
    }),
    ("mode", Needs::Nothing, |_, victim| {
        fs::set_permissions(victim, Permissions::from_mode(0o777))
    }),
    ("times", Needs::Nothing, |_, victim| {
        call(|| unsafe { libc::utimes(text(victim).as_ptr(), std::ptr::null()) }.into())
    }),
    ("owner", Needs::Nothing, |_, victim| std::os::unix::fs::chown(victim, None, None)),
    ("attribute", Needs::Nothing, |_, victim| {
        let (path, name) = (text(victim), c"user.spoilt");
        call(|| unsafe {
            libc::setxattr(path.as_ptr(), name.as_ptr(), name.as_ptr().cast(), 1, 0).into()
        })
    }),
    ("secret", Needs::Nothing, |to, _| {
        fs::read(to.outside.with_file_name("home").join(".ssh/key")).map(drop)
    }),
];

/// Attempts on other processes, the network, the kernel.
const ON_ALL_ELSE: &[(&str, Needs, Attempt)] = &[
    ("environment", Needs::Nothing, |to, _| {
        let mut bytes = Vec::new();
        fs::File::open(format!("/proc/{}/environ", to.process))?.read_to_end(&mut bytes)?;
        if bytes.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(()) }
    }),
    ("signal", Needs::Nothing, |to, _| {
        call(|| unsafe { libc::kill(to.process, libc::SIGCONT) }.into())
    }),
    ("trace", Needs::Kernel, |to, _| {
        let request = libc::PTRACE_SEIZE;
        call(|| unsafe { libc::ptrace(request, to.process, 0, 0) })
    }),
    ("memory", Needs::Kernel, |to, _| {
        fs::File::open(format!("/proc/{}/mem", to.process)).map(drop)
    }),
    ("descriptor", Needs::Kernel, |to, _| {
        let process = syscall(libc::SYS_pidfd_open, [to.process.into(), 0, 0, 0, 0])?;
        syscall(libc::SYS_pidfd_getfd, [process, 0, 0, 0, 0]).map(drop)
    }),
    ("tcp", Needs::Nothing, |to, _| TcpStream::connect(("127.0.0.1", to.port)).map(drop)),
    ("udp", Needs::Nothing, |to, _| {
        UdpSocket::bind("127.0.0.1:0")?.send_to(b"x", ("127.0.0.1", to.port)).map(drop)
    }),
    ("unix-path", Needs::Nothing, |to, _| UnixStream::connect(to.outside.join("socket")).map(drop)),
    ("unix-abstract", Needs::Nothing, |to, _| {
        UnixStream::connect_addr(&SocketAddr::from_abstract_name(&to.name)?).map(drop)
    }),
    ("unix-datagram", Needs::Nothing, |_, _| UnixDatagram::unbound().map(drop)),
    ("unix-pair", Needs::Nothing, |to, _| send_by_pair(to, libc::SOCK_DGRAM)),
    ("unix-pair-flags", Needs::Nothing, |to, _| {
        send_by_pair(to, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK)
    }),
    ("unix-pair-nonblocking", Needs::Nothing, |to, _| {
        send_by_pair(to, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK)
    }),
    ("unix-pair-cloexec", Needs::Nothing, |to, _| {
        send_by_pair(to, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC)
    }),
    // Another name of the same.
    ("unix-pair-raw", Needs::Nothing, |to, _| send_by_pair(to, libc::SOCK_RAW)),
    ("netlink", Needs::Kernel, |_, _| {
        call(|| unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW, 0) }.into())
    }),
    ("packet", Needs::Root, |_, _| {
        call(|| unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0) }.into())
    }),
    ("ring", Needs::Kernel, |_, _| {
        let mut parameters = [0_u8; 120];
        let parameters = parameters.as_mut_ptr() as c_long;
        syscall(libc::SYS_io_uring_setup, [1, parameters, 0, 0, 0]).map(drop)
    }),
    ("key", Needs::Kernel, |_, _| {
        // KEYCTL_GET_KEYRING_ID of the session's keyring.
        syscall(libc::SYS_keyctl, [0, -3, 1, 0, 0]).map(drop)
    }),
    ("fault", Needs::Kernel, |_, _| syscall(libc::SYS_userfaultfd, [1, 0, 0, 0, 0]).map(drop)),
    ("bpf", Needs::Kernel, |_, _| {
        // BPF_MAP_CREATE of an array.
        let attributes = [2_u32, 4, 4, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        syscall(libc::SYS_bpf, [0, attributes.as_ptr() as c_long, 80, 0, 0]).map(drop)
    }),
    ("type", Needs::Nothing, |_, _| {
        // The pipe is no terminal, but the request has come through.
        let letter = b'x';
        let typed = call(|| unsafe { libc::ioctl(0, libc::TIOCSTI, &raw const letter) }.into());
        match typed {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => Err(error),
            Err(_) | Ok(()) => Ok(()),
        }
    }),
    ("namespace", Needs::Root, |_, _| call(|| unsafe { libc::unshare(libc::CLONE_NEWUTS) }.into())),
    ("user-namespace", Needs::Kernel, |_, _| {
        let done = std::process::Command::new("unshare").args(["--user", "true"]).output()?;
        if done.status.success() { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }),
    ("enter-namespace", Needs::Root, |_, _| {
        use std::os::fd::AsRawFd as _;
        let own = fs::File::open("/proc/self/ns/uts")?;
        call(|| unsafe { libc::setns(own.as_raw_fd(), 0) }.into())
    }),
    ("mount", Needs::Root, |to, _| {
        let (target, kind) = (text(&to.work.join("point")), c"tmpfs");
        call(|| unsafe {
            let (kind, target) = (kind.as_ptr(), target.as_ptr());
            libc::mount(kind, target, kind, 0, std::ptr::null()).into()
        })?;
        call(|| unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) }.into())
    }),
    ("remount", Needs::Root, |_, _| {
        let flags = libc::MS_REMOUNT | libc::MS_BIND;
        let root = c"/".as_ptr();
        call(|| unsafe {
            libc::mount(std::ptr::null(), root, std::ptr::null(), flags, std::ptr::null()).into()
        })
    }),
    ("device", Needs::Root, |to, _| {
        let path = text(&to.work.join("disk"));
        call(|| unsafe { libc::mknod(path.as_ptr(), libc::S_IFBLK | 0o600, 0x700) }.into())
    }),
    ("change-root", Needs::Root, |_, _| call(|| unsafe { libc::chroot(c"/".as_ptr()) }.into())),
    ("machine", Needs::Root, |_, _| {
        // What it says already: it is the writing that counts.
        let path = "/proc/sys/kernel/core_pattern";
        let now = fs::read(path)?;
        OpenOptions::new().write(true).open(path)?.write_all(&now)
    }),
    ("handle", Needs::Root, |_, victim| {
        let (mut handle, mut mount) = ([0_u8; 136], 0_i32);
        handle[0] = 128;
        let path = text(victim);
        let (handle, mount) = (handle.as_mut_ptr() as c_long, &raw mut mount as c_long);
        let name = path.as_ptr() as c_long;
        syscall(libc::SYS_name_to_handle_at, [libc::AT_FDCWD.into(), name, handle, mount, 0])?;
        syscall(libc::SYS_open_by_handle_at, [libc::AT_FDCWD.into(), handle, 0, 0, 0]).map(drop)
    }),
];

/// Attempts inside the workspace on what other programs obey.
const ON_PROTECTED: &[(&str, Needs, Attempt)] = &[
    ("hook", Needs::Nothing, |to, _| fs::write(to.work.join(".git/hooks/pre-commit"), "evil")),
    ("hook-changed", Needs::Nothing, |to, _| fs::write(to.work.join(".git/hooks/old"), "evil")),
    ("configuration", Needs::Nothing, |to, _| fs::write(to.work.join(".git/config"), "evil")),
    ("other-configuration", Needs::Nothing, |to, _| {
        fs::write(to.work.join(".git/config.worktree"), "evil")
    }),
    ("module", Needs::Nothing, |to, _| {
        fs::create_dir(to.work.join(".git/modules/evil"))
            .or_else(|_| fs::create_dir_all(to.work.join(".git/modules/evil/hooks")))
    }),
    ("servers", Needs::Nothing, |to, _| fs::write(to.work.join(".mcp.json"), "evil")),
    ("skills", Needs::Nothing, |to, _| {
        fs::create_dir_all(to.work.join(".claude/skills"))?;
        fs::write(to.work.join(".claude/skills/evil"), "evil")
    }),
    ("own-settings", Needs::Nothing, |to, _| {
        fs::create_dir_all(to.work.join(".tine"))?;
        fs::write(to.work.join(".tine/evil"), "evil")
    }),
    ("agents", Needs::Nothing, |to, _| fs::remove_file(to.work.join(".agents/agent"))),
    ("agents-replaced", Needs::Nothing, |to, _| {
        fs::rename(to.work.join(".agents"), to.work.join("renamed"))?;
        fs::create_dir(to.work.join(".agents"))
    }),
    // The last one: it moves everything above.
    ("repository-replaced", Needs::Nothing, |to, _| {
        fs::rename(to.work.join(".git"), to.work.join("moved"))?;
        fs::create_dir_all(to.work.join(".git/hooks"))?;
        fs::write(to.work.join(".git/hooks/pre-commit"), "evil")
    }),
];

/// Which attempts are made.
pub(super) fn attempts(which: &str) -> Vec<(&'static str, Needs, Attempt)> {
    match which {
        "elsewhere" => [ON_FILES, ON_ALL_ELSE].concat(),
        "protected" => ON_PROTECTED.to_vec(),
        other => panic!("there are no attempts on {other}"),
    }
}

/// Makes all of them, and says of each how it went.
pub(super) fn make(which: &str, to: &Targets) -> String {
    let report = attempts(which).into_iter().map(|(name, _, attempt)| {
        match attempt(to, &to.outside.join(name)) {
            Ok(()) => format!("{name}: worked\n"),
            Err(error) => format!("{name}: refused ({error})\n"),
        }
    });
    report.collect()
}

/// Sends from one end of a pair of sockets to the datagram socket `outside/datagrams`.
fn send_by_pair(to: &Targets, kind: libc::c_int) -> io::Result<()> {
    let mut ends = [-1; 2];
    call(|| unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) }.into())?;
    // SAFETY: the call above has made both for us.
    let [near, _far] = ends.map(|end| unsafe { UnixDatagram::from_raw_fd(end) });
    near.send_to(b"x", to.outside.join("datagrams")).map(drop)
}

fn text(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("the paths of tests hold no NUL")
}

fn call(make: impl FnOnce() -> c_long) -> io::Result<()> {
    if make() < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn syscall(number: c_long, arguments: [c_long; 5]) -> io::Result<c_long> {
    let [a, b, c, d, e] = arguments;
    // SAFETY: whatever an argument points to is on the caller's stack.
    let returned = unsafe { libc::syscall(number, a, b, c, d, e) };
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}
