//! What a command does to itself between its start and its program.
//!
//! The one file with unsafe code: the calls that no library offers in a form
//! that may run in the child of a process with threads, where nothing may take
//! memory or a lock. All they need is made before. The child borrows our memory
//! until its program starts, as `vfork` has it: copying the tables of a large
//! process costs more than all the rest.

#![expect(unsafe_code, reason = "a child confines itself by system calls alone")]

use std::ffi::{CString, c_char, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd as _, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use nix::libc::{self, c_int, c_long, c_ulong, sock_filter, sock_fprog};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// All that a child is told.
pub(super) struct Order {
    /// The path of its program.
    pub(super) program: CString,
    /// Its words, with the first.
    pub(super) arguments: Vec<CString>,
    /// `NAME=VALUE` each.
    pub(super) variables: Vec<CString>,
    pub(super) directory: CString,
    /// What becomes its standard input, output and error.
    pub(super) streams: [RawFd; 3],
    /// `true` for a session of its own, without a terminal.
    pub(super) leads_session: bool,
    /// Its limit of time under real-time scheduling; `None` for ours.
    pub(super) limit: Option<libc::rlimit>,
    pub(super) duties: Duties,
}

/// What the child does to itself.
#[derive(Debug, Default)]
pub(super) struct Duties {
    /// Descriptors that its program gets besides the first three.
    pub(super) handed_on: Vec<OwnedFd>,
    /// The Landlock ruleset to enter.
    pub(super) ruleset: Option<OwnedFd>,
    /// The filter of system calls to install; empty for none.
    pub(super) filter: Vec<sock_filter>,
}

/// The first descriptor that is not standard input, output or error.
const FIRST_OTHER: RawFd = 3;

/// More descriptors than these are closed only where the kernel can close all
/// at once.
const MOST_OTHERS: RawFd = 65_536;

/// `LANDLOCK_CREATE_RULESET_VERSION`: ask for the version, make nothing.
const ASK_VERSION: u32 = 1;

/// `IFF_UP` as `struct ifreq` holds it.
const UP: libc::c_short = libc::IFF_UP as libc::c_short;

/// No set of capabilities has as many.
const MOST_CAPABILITIES: c_ulong = 64;

/// Bytes of the stack that a child has until its program starts. It needs some
/// hundreds.
const STACK: usize = 64 * 1024;

/// The status of a child that has told why its program did not start.
const NOT_STARTED: c_int = 127;

/// What a child reads, in our memory.
struct Shared<'a> {
    order: &'a Order,
    arguments: &'a [*const c_char],
    variables: &'a [*const c_char],
    /// Why its program did not start; 0 if it did.
    failure: AtomicI32,
}

/// Starts a child, and returns it with its descriptor once its program runs.
/// Until then the calling thread stands still.
pub(super) fn start(order: &Order) -> io::Result<(i32, OwnedFd)> {
    let arguments = pointers(&order.arguments);
    let variables = pointers(&order.variables);
    let shared =
        Shared { order, arguments: &arguments, variables: &variables, failure: AtomicI32::new(0) };
    let mut stack: Vec<MaybeUninit<u128>> = Vec::with_capacity(STACK / size_of::<u128>());
    let mut descriptor: RawFd = -1;
    let mut masked = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the child has a stack of its own, which is as large as said and
    // aligned; what it reads outlives it, since this thread goes on only when
    // the child has given our memory back. No handler of ours runs in it: all
    // signals are blocked until it has no handlers left.
    let (child, error) = unsafe {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), masked.as_mut_ptr());
        let child = libc::clone(
            run,
            stack.as_mut_ptr().add(stack.capacity()).cast(),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD,
            (&raw const shared).cast_mut().cast(),
            &raw mut descriptor,
        );
        let error = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, masked.as_ptr(), ptr::null_mut());
        (child, error)
    };
    if child < 0 {
        return Err(error);
    }
    // SAFETY: the kernel made it for us, and nobody else knows of it.
    let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
    match shared.failure.load(Ordering::Acquire) {
        0 => Ok((child, descriptor)),
        failure => {
            // SAFETY: the call takes numbers only; the child is ours and gone.
            unsafe { libc::waitpid(child, ptr::null_mut(), 0) };
            Err(io::Error::from_raw_os_error(failure))
        }
    }
}

/// What the kernel takes for a list of texts: their addresses, and none.
fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

/// The child's life until its program starts.
extern "C" fn run(shared: *mut c_void) -> c_int {
    // SAFETY: `start` has passed a pointer to this, and waits.
    let shared = unsafe { &*shared.cast::<Shared<'_>>() };
    let error = become_program(shared);
    let failure = error.raw_os_error().unwrap_or(libc::EINVAL);
    shared.failure.store(failure, Ordering::Release);
    // SAFETY: ends this process and runs nothing of ours.
    unsafe { libc::_exit(NOT_STARTED) }
}

/// Returns only if the program does not start.
fn become_program(shared: &Shared<'_>) -> io::Error {
    let Order { program, directory, streams, leads_session, limit, duties, .. } = shared.order;
    let ready = || {
        take_streams(*streams)?;
        // SAFETY: a text that ends with its zero; numbers.
        unsafe {
            checked(libc::chdir(directory.as_ptr()))?;
            if *leads_session {
                checked(libc::setsid())?;
            }
            if let Some(limit) = limit {
                checked(libc::setrlimit(libc::RLIMIT_RTTIME, limit))?;
            }
            // The reaper ends what this process starts; this ends the process itself, also if
            // the reaper was killed, too.
            checked(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        }
        let_signals_through()?;
        fulfil(duties)
    };
    if let Err(error) = ready() {
        return error;
    }
    // SAFETY: texts that end with their zeros, in lists that end with null, and
    // all of it outlives the call.
    unsafe {
        libc::execve(program.as_ptr(), shared.arguments.as_ptr(), shared.variables.as_ptr());
    }
    io::Error::last_os_error()
}

/// Makes these standard input, output and error.
fn take_streams(streams: [RawFd; 3]) -> io::Result<()> {
    let mut moved = streams;
    // SAFETY: the calls take numbers only.
    unsafe {
        for stream in &mut moved {
            // Out of the way of the three, of which each may be another's.
            *stream = checked(libc::fcntl(*stream, libc::F_DUPFD_CLOEXEC, FIRST_OTHER))?;
        }
        for (stream, standard) in moved.into_iter().zip(0..) {
            checked(libc::dup2(stream, standard))?;
        }
    }
    Ok(())
}

/// Takes our handlers from all signals, and then lets them come. What is
/// ignored stays so, as it does under `nohup`, but for the one that Rust's own
/// start ignores.
fn let_signals_through() -> io::Result<()> {
    // SAFETY: the structures live until the calls return, and all zero is what
    // they are without a handler.
    unsafe {
        let usual: libc::sigaction = std::mem::zeroed();
        let mut now: libc::sigaction = std::mem::zeroed();
        for signal in 1..=libc::SIGRTMAX() {
            let is_known = libc::sigaction(signal, ptr::null(), &raw mut now) == 0;
            let is_plain = matches!(now.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN);
            if signal == libc::SIGPIPE || is_known && !is_plain {
                checked(libc::sigaction(signal, &raw const usual, ptr::null_mut()))?;
            }
        }
        let mut none = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        match libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut()) {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// Has the runtime say when a descriptor becomes readable.
pub(super) fn readable(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is open, stays so as long as it is owned, and is
    // the same every time it is asked for.
    let registered = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
    Ok(registered?)
}

/// Returns the version of Landlock that the kernel speaks.
pub(super) fn landlock_version() -> io::Result<c_long> {
    // SAFETY: with no attributes and this flag the call only returns a number.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0_usize,
            ASK_VERSION,
        )
    };
    if version < 0 { Err(io::Error::last_os_error()) } else { Ok(version) }
}

/// Returns a descriptor that becomes readable when the process ends. The
/// process must be one that nobody but its parent waits for.
pub(super) fn process_descriptor(process: i32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes two numbers; what it returns is a new descriptor
    // that nobody else owns.
    unsafe {
        let descriptor = libc::syscall(libc::SYS_pidfd_open, process, 0);
        let descriptor = RawFd::try_from(descriptor).unwrap_or(-1);
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(descriptor))
    }
}

/// Confines this process, which executes a command afterwards.
pub(super) fn confine_self(duties: &Duties) -> io::Result<()> {
    let_signals_through()?;
    fulfil(duties)
}

/// Takes ownership of inherited descriptors, by their numbers.
pub(super) fn inherited(numbers: &[RawFd]) -> io::Result<Vec<OwnedFd>> {
    let take = |number: &RawFd| {
        if *number < FIRST_OTHER {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: the call takes numbers only.
        checked(unsafe { libc::fcntl(*number, libc::F_SETFD, libc::FD_CLOEXEC) })?;
        // SAFETY: the descriptor is open, and nothing else in this process owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(*number) })
    };
    numbers.iter().map(take).collect()
}

/// Brings up the loopback device of this network namespace.
pub(super) fn raise_loopback() -> io::Result<()> {
    // SAFETY: the structure lives until the call returns and has the layout that the call reads;
    // its other fields may be zero. Nothing else owns the new descriptor.
    unsafe {
        let socket =
            checked(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0))?;
        let socket = OwnedFd::from_raw_fd(socket);
        let mut request: libc::ifreq = std::mem::zeroed();
        for (at, byte) in request.ifr_name.iter_mut().zip(b"lo") {
            *at = byte.cast_signed();
        }
        request.ifr_ifru.ifru_flags = UP;
        checked(libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request))?;
    }
    Ok(())
}

fn fulfil(duties: &Duties) -> io::Result<()> {
    keep_back_descriptors()?;
    for descriptor in &duties.handed_on {
        // SAFETY: the descriptor is open; the call takes numbers only.
        checked(unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_SETFD, 0) })?;
    }
    if let Some(ruleset) = &duties.ruleset {
        give_up_privileges()?;
        // SAFETY: the descriptor is open; the call takes numbers only.
        let entered =
            unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0_u32) };
        if entered < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    if !duties.filter.is_empty() {
        install(&duties.filter)?;
    }
    Ok(())
}

/// Has every descriptor but the first three closed when the program starts:
/// whoever started us may have left some open.
fn keep_back_descriptors() -> io::Result<()> {
    // SAFETY: the calls take numbers only.
    unsafe {
        let flags = libc::CLOSE_RANGE_CLOEXEC;
        if libc::syscall(libc::SYS_close_range, FIRST_OTHER, u32::MAX, flags) == 0 {
            return Ok(());
        }
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        checked(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit))?;
        let end = RawFd::try_from(limit.rlim_cur).unwrap_or(MOST_OTHERS).min(MOST_OTHERS);
        for descriptor in FIRST_OTHER..end {
            // Most are not open.
            libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
    Ok(())
}

/// Gives up every capability for good. Root without them is still the owner of
/// much, but no longer above all rules.
fn give_up_privileges() -> io::Result<()> {
    /// `struct __user_cap_header_struct` and two `__user_cap_data_struct`.
    #[repr(C)]
    struct Header {
        version: u32,
        process: c_int,
    }
    const VERSION_3: u32 = 0x2008_0522;
    let header = Header { version: VERSION_3, process: 0 };
    let none = [0_u32; 6];
    // SAFETY: the header and the six words live until the call returns, and
    // have the layout that this version of the call reads.
    unsafe {
        checked(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        for capability in 0..MOST_CAPABILITIES {
            // Refused without privileges, and from the first one that does not
            // exist.
            if libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) < 0 {
                break;
            }
        }
        if libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

fn install(filter: &[sock_filter]) -> io::Result<()> {
    let program = sock_fprog {
        len: u16::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: the program lives until the call returns; the kernel copies it
    // and writes nothing.
    unsafe {
        checked(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        let mode = libc::SECCOMP_SET_MODE_FILTER;
        if libc::syscall(libc::SYS_seccomp, mode, 0_u32, &raw const program) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

fn checked(returned: c_int) -> io::Result<c_int> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}
