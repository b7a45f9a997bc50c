//! What a command does to itself between the fork and its program.
//!
//! The one file with unsafe code: the calls that no library offers in a form
//! that may run in the child of a process with threads, where nothing may take
//! memory or a lock. All they need is made before the fork.

#![expect(unsafe_code, reason = "a child confines itself by system calls alone")]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use nix::libc::{self, c_int, c_long, c_ulong, sock_filter, sock_fprog};

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

/// No set of capabilities has as many.
const MOST_CAPABILITIES: c_ulong = 64;

/// Has the child do all this before its program starts.
pub(super) fn before_exec(command: &mut Command, duties: Duties) {
    // SAFETY: between fork and exec the closure only makes system calls, on
    // memory and descriptors that `duties` has held since before the fork.
    unsafe {
        command.pre_exec(move || fulfil(&duties));
    }
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
    use std::os::fd::FromRawFd as _;
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
/// whoever started us may have left some open. Not now, since one of them tells
/// the parent of a failure.
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
            // Refused without privileges, and for those that do not exist:
            // either way it is not ours afterwards.
            libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
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

fn checked(returned: c_int) -> io::Result<()> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
