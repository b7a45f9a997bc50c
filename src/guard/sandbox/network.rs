//! A network namespace of its own for a command, with tine's proxy in it.
//!
//! The namespace has no device but loopback, so the proxy is the only way out. tine's own program
//! runs there first, as the starter: it makes the proxy's listener, sends it to tine through a
//! socket, and then executes the command. bubblewrap makes the namespace before the starter runs;
//! for Landlock the starter makes it.

use std::convert::Infallible;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::libc::sock_filter;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{execve, execvp, getgid, getuid};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::child::{self, Duties};
use super::{filter, proxy};
use crate::guard::shell::is_executable;

/// The argument that makes a process a starter.
const ARGUMENT: &str = "--start-with-network";

/// The option in front of the number of the descriptor that the variables of the command are read
/// from.
pub(super) const VARIABLES_OPTION: &str = "--variables";

/// The exit code of a starter that cannot become the command, as shells have it.
pub const NOT_STARTED: u8 = 127;

/// Variables by which programs find the proxy. Node.js reads the others only if the last one is
/// set.
const PROXY_VARIABLES: [&str; 4] = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"];
const SOCKS_VARIABLES: [&str; 2] = ["ALL_PROXY", "all_proxy"];
const DIRECT_VARIABLES: [&str; 2] = ["NO_PROXY", "no_proxy"];
const NODE_VARIABLE: &str = "NODE_USE_ENV_PROXY";

/// Hosts that programs connect to without the proxy: the command's own servers.
const DIRECT: &str = "localhost,127.0.0.1,::1";

/// Tine's end of the socket through which the starter sends the listener of the proxy.
#[derive(Debug)]
pub struct Handover {
    socket: UnixStream,
}

impl Handover {
    /// Waits for the listener; `None` if the starter ended without one. Must be called within a
    /// runtime.
    ///
    /// # Errors
    ///
    /// The system would not hand it over.
    pub async fn listener(self) -> io::Result<Option<tokio::net::TcpListener>> {
        let socket = child::readable(self.socket.into())?;
        let received = loop {
            let mut ready = socket.readable().await?;
            if let Ok(received) = ready.try_io(|socket| receive(socket.get_ref())) {
                break received?;
            }
        };
        let Some(listener) = received else { return Ok(None) };
        let listener = TcpListener::from(listener);
        listener.set_nonblocking(true)?;
        tokio::net::TcpListener::from_std(listener).map(Some)
    }
}

/// A starter's command line and descriptors, and tine's end of its socket.
pub(super) struct StarterCommand {
    /// The starter's words, in front of the command's.
    pub(super) words: Vec<OsString>,
    /// Descriptors that the starter inherits.
    pub(super) handed_on: Vec<OwnedFd>,
    pub(super) handover: Handover,
}

impl StarterCommand {
    /// Returns a starter for a namespace that bubblewrap makes.
    pub(super) fn in_namespace() -> io::Result<Self> {
        let (socket, own) = UnixStream::pair()?;
        // In the sandbox its path may not exist.
        let program = File::open("/proc/self/exe")?;
        let path = format!("/proc/self/fd/{}", program.as_raw_fd());
        Self::new(path, (socket, own), vec![program.into()], &[])
    }

    /// Returns a starter that makes the namespace itself, and then confines itself by the
    /// ruleset and the filter.
    pub(super) fn with_namespace(ruleset: OwnedFd, filter: &[sock_filter]) -> io::Result<Self> {
        let (socket, own) = UnixStream::pair()?;
        let (reader, mut writer) = io::pipe()?;
        // A pipe holds all of it.
        io::Write::write_all(&mut writer, &filter::bytes(filter))?;
        let told = [ruleset.as_raw_fd(), reader.as_raw_fd()];
        let path = "/proc/self/exe".to_owned();
        Self::new(path, (socket, own), vec![ruleset, reader.into()], &told)
    }

    fn new(
        program: String,
        (socket, own): (UnixStream, UnixStream),
        mut handed_on: Vec<OwnedFd>,
        told: &[RawFd],
    ) -> io::Result<Self> {
        own.set_nonblocking(true)?;
        let told = [&[socket.as_raw_fd()], told].concat();
        let numbers: Vec<String> = told.iter().map(RawFd::to_string).collect();
        handed_on.push(socket.into());
        let words = [program, ARGUMENT.to_owned(), numbers.join(",")].map(OsString::from);
        Ok(Self { words: words.into(), handed_on, handover: Handover { socket: own } })
    }
}

/// Returns the variables by which a command finds the proxy.
pub(super) fn variables() -> impl Iterator<Item = (&'static str, String)> {
    let http = format!("http://{}:{}", Ipv4Addr::LOCALHOST, proxy::PORT);
    // The proxy looks the names up.
    let socks = format!("socks5h://{}:{}", Ipv4Addr::LOCALHOST, proxy::PORT);
    let all = |names: &'static [&'static str], value: String| {
        names.iter().map(move |name| (*name, value.clone()))
    };
    all(&PROXY_VARIABLES, http)
        .chain(all(&SOCKS_VARIABLES, socks))
        .chain(all(&DIRECT_VARIABLES, DIRECT.to_owned()))
        .chain([(NODE_VARIABLE, "1".to_owned())])
}

/// Becomes the command if this process was started as a starter. Returns the error if that
/// fails, and `None` if this process is not a starter.
#[must_use]
pub fn ran_as_starter(words: &[OsString]) -> Option<String> {
    let (variables, words) = match words.get(1..)? {
        [option, number, rest @ ..] if option == VARIABLES_OPTION => (Some(number), rest),
        rest => (None, rest),
    };
    let [argument, numbers, command @ ..] = words else { return None };
    if argument != ARGUMENT {
        return None;
    }
    match start(variables, numbers, command) {
        Ok(never) => match never {},
        Err(error) => {
            let name = command.first().map(|name| name.display().to_string());
            Some(format!("cannot run `{}`: {error}", name.unwrap_or_default()))
        }
    }
}

fn start(
    variables: Option<&OsString>,
    numbers: &OsStr,
    command: &[OsString],
) -> io::Result<Infallible> {
    let variables = variables.map(|number| read_variables(number)).transpose()?;
    let mut duties = Duties::default();
    let socket = match inherited(numbers)?.as_mut_slice() {
        [socket] => socket.try_clone()?,
        [socket, ruleset, filter] => {
            unshare_network().map_err(|error| {
                io::Error::other(format!("it gets no network namespace of its own ({error})"))
            })?;
            duties.ruleset = Some(ruleset.try_clone()?);
            let mut bytes = Vec::new();
            File::from(filter.try_clone()?).read_to_end(&mut bytes)?;
            duties.filter = filter::from_bytes(&bytes).ok_or(io::ErrorKind::InvalidData)?;
            socket.try_clone()?
        }
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, proxy::PORT))?;
    send(&socket, &listener)?;
    drop((socket, listener));
    let name = command.first().ok_or(io::ErrorKind::InvalidInput)?;
    let words = command.iter().map(|word| CString::new(word.as_bytes()));
    let words = words.collect::<Result<Vec<_>, _>>()?;
    let Some(variables) = variables else {
        child::confine_self(&duties)?;
        return Ok(execvp(&words[0], &words)?);
    };
    let path = variables.iter().find_map(|variable| variable.as_bytes().strip_prefix(b"PATH="));
    let program = find(name, OsStr::from_bytes(path.unwrap_or_default()))?;
    child::confine_self(&duties)?;
    Ok(execve(&CString::new(program.as_os_str().as_bytes())?, &words, &variables)?)
}

/// Takes over the descriptors with these numbers, which commas separate.
fn inherited(numbers: &OsStr) -> io::Result<Vec<OwnedFd>> {
    let numbers = numbers.to_str().map(|text| text.split(',').map(str::parse).collect());
    let Some(Ok(numbers)) = numbers else { return Err(io::ErrorKind::InvalidInput.into()) };
    let numbers: Vec<RawFd> = numbers;
    child::inherited(&numbers)
}

fn read_variables(number: &OsStr) -> io::Result<Vec<CString>> {
    let file = inherited(number)?.into_iter().next().ok_or(io::ErrorKind::InvalidInput)?;
    let mut bytes = Vec::new();
    File::from(file).read_to_end(&mut bytes)?;
    let variables = bytes.split(|byte| *byte == 0).filter(|variable| !variable.is_empty());
    Ok(variables.map(CString::new).collect::<Result<_, _>>()?)
}

/// Finds a program as a shell would.
fn find(name: &OsStr, path: &OsStr) -> io::Result<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Ok(name.into());
    }
    let mut files = std::env::split_paths(path).map(|directory| directory.join(name));
    files.find(|file| is_executable(file)).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Moves this process to a network namespace of its own, with a loopback device that works.
fn unshare_network() -> io::Result<()> {
    let (user, group) = (getuid(), getgid());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET)?;
    // Without privileges, the kernel takes a map of groups only after this.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    child::raise_loopback()
}

fn send(socket: &OwnedFd, listener: &TcpListener) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    let descriptors = [listener.as_fd()];
    message.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(socket, &[io::IoSlice::new(b"l")], &mut message, SendFlags::empty())?;
    Ok(())
}

/// Receives one descriptor; `None` at the end.
fn receive(socket: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let buffers = &mut [io::IoSliceMut::new(&mut byte)];
    let received = recvmsg(socket, buffers, &mut message, RecvFlags::CMSG_CLOEXEC)?;
    for message in message.drain() {
        if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
            return Ok(descriptors.next());
        }
    }
    // Without room for a descriptor only the byte arrives.
    if received.bytes > 0 { Err(Errno::EMFILE.into()) } else { Ok(None) }
}
