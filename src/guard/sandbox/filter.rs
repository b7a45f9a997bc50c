//! The seccomp filter: which system calls a confined command is refused.
//!
//! A program for the kernel's packet filter, written out by hand: it answers
//! with three different errors, which no one rule table does, and the whole of
//! it is a list that can be read. What is refused are the ways around a mount
//! or a ruleset, to other processes, and to the network; whatever else there is
//! stays as it is.

use nix::libc::{self, c_long, sock_filter};

/// What a filter lets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leave {
    /// Sockets of the internet's families.
    pub(super) network: bool,
    /// Changes to who owns a file, its mode, times and attributes.
    pub(super) metadata: Metadata,
}

/// Which changes of what stands beside a file's bytes are let through.
///
/// Landlock knows none of them, so where it is all there is they are refused
/// here, wherever the file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Metadata {
    /// All: mounts decide.
    Any,
    /// Modes and times, which every build sets.
    ModesAndTimes,
    /// None.
    Nothing,
}

/// `AUDIT_ARCH_*` of the processor this was built for.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;

/// Set in the number of every call of the x32 interface, which would otherwise
/// be a second name for each.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// Calls that are refused whatever their arguments.
const REFUSED: &[c_long] = &[
    // A way around every other entry: calls that the filter does not see.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Other processes: their memory, their descriptors.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    // Files by handle instead of by path.
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    // Keys of the session, which no namespace keeps apart.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Parts of the kernel that only root needs, and attackers.
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_fanotify_init,
];

/// Owners and attributes.
const OWNERS: &[c_long] = &[
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    // setxattrat and removexattrat, the same number everywhere.
    463,
    466,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
];

/// Modes and times.
const MODES: &[c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    // fchmodat2, the same number everywhere.
    452,
    libc::SYS_utimensat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
];

/// Every namespace that `clone` can make. Without the one for times, whose bit
/// means something else in that call.
const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET)
    .cast_unsigned();

/// Requests that type into a terminal as if its user had.
const TYPING: [u32; 2] = [libc::TIOCSTI as u32, libc::TIOCLINUX as u32];

/// The families that are the network. Sockets with a path or an abstract name
/// stay refused: they lead to services of this machine, some of which run
/// whatever they are told.
const INTERNET: [u32; 3] = [
    libc::AF_INET.cast_unsigned(),
    libc::AF_INET6.cast_unsigned(),
    libc::AF_NETLINK.cast_unsigned(),
];

/// The bits of a socket's type that are the type; the others are flags.
const SOCKET_TYPE: u32 = 0xF;

/// The types of pairs whose ends reach each other only. An end of any other type is
/// a datagram socket, which sends to every socket with a path that it names.
const PAIRS: [u32; 2] = [libc::SOCK_STREAM.cast_unsigned(), libc::SOCK_SEQPACKET.cast_unsigned()];

/// The resource limit that tells whose processes a command's are (see `crate::reaper`).
const TAGGED_LIMIT: u32 = libc::RLIMIT_RTTIME;

/// Where the kernel keeps what a filter looks at: `struct seccomp_data`.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const ARGUMENTS_AT: u32 = 16;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const IF_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const IF_ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const KEEP_BITS: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const ANSWER: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const LET_THROUGH: u32 = libc::SECCOMP_RET_ALLOW;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;
const NOT_PERMITTED: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
const NO_SUCH_CALL: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();

/// Returns the program.
pub(super) fn program(leave: Leave) -> Vec<sock_filter> {
    let mut program = Program(Vec::new());
    program.load(ARCHITECTURE_AT);
    // The numbers below mean other calls on another interface.
    program.unless(ARCHITECTURE, KILL);
    program.load(NUMBER_AT);
    #[cfg(target_arch = "x86_64")]
    program.when(IF_AT_LEAST, X32, NO_SUCH_CALL);
    let (owners, modes): (&[c_long], &[c_long]) = match leave.metadata {
        Metadata::Any => (&[], &[]),
        Metadata::ModesAndTimes => (OWNERS, &[]),
        Metadata::Nothing => (OWNERS, MODES),
    };
    // Its flags stand in memory, which no filter can read. Without it, C
    // libraries use `clone`, whose flags are an argument.
    program.when(IF_EQUAL, number(libc::SYS_clone3), NO_SUCH_CALL);
    program.call(libc::SYS_clone, 0, |flags| flags.when(IF_ANY_BIT, NAMESPACES, NOT_PERMITTED));
    program.call(libc::SYS_ioctl, 1, |request| {
        for typing in TYPING {
            request.when(IF_EQUAL, typing, NOT_PERMITTED);
        }
    });
    program.call(libc::SYS_socket, 0, |family| {
        if leave.network {
            for internet in INTERNET {
                family.when(IF_EQUAL, internet, LET_THROUGH);
            }
        }
        family.answer(NOT_PERMITTED);
    });
    program.call(libc::SYS_socketpair, 0, |family| {
        family.unless(libc::AF_UNIX.cast_unsigned(), NOT_PERMITTED);
    });
    program.call(libc::SYS_socketpair, 1, |kind| {
        kind.push(KEEP_BITS, SOCKET_TYPE, (0, 0));
        for pair in PAIRS {
            kind.when(IF_EQUAL, pair, LET_THROUGH);
        }
        kind.answer(NOT_PERMITTED);
    });
    program.call(libc::SYS_setrlimit, 0, |resource| {
        resource.when(IF_EQUAL, TAGGED_LIMIT, NOT_PERMITTED);
    });
    program.call(libc::SYS_prlimit64, 1, |resource| {
        resource.branch(TAGGED_LIMIT, |new| {
            // Without new values the call only reads. Both halves of their address count.
            for half in [0, 4] {
                new.load(ARGUMENTS_AT + 8 * 2 + half);
                new.unless(0, NOT_PERMITTED);
            }
        });
    });
    program.only([REFUSED, owners, modes].concat());
    program.0
}

/// Returns the program as bubblewrap reads it from a descriptor.
pub(super) fn bytes(program: &[sock_filter]) -> Vec<u8> {
    let bytes = program.iter().flat_map(|&sock_filter { code, jt, jf, k }| {
        let [code_1, code_2] = code.to_ne_bytes();
        let [k_1, k_2, k_3, k_4] = k.to_ne_bytes();
        [code_1, code_2, jt, jf, k_1, k_2, k_3, k_4]
    });
    bytes.collect()
}

/// Reads what [`bytes()`] has written; `None` for no program, or a part of one.
pub(super) fn from_bytes(bytes: &[u8]) -> Option<Vec<sock_filter>> {
    let (instructions, rest) = bytes.as_chunks::<8>();
    let read = |&[code_1, code_2, jt, jf, k_1, k_2, k_3, k_4]: &[u8; 8]| sock_filter {
        code: u16::from_ne_bytes([code_1, code_2]),
        jt,
        jf,
        k: u32::from_ne_bytes([k_1, k_2, k_3, k_4]),
    };
    let is_whole = !instructions.is_empty() && rest.is_empty();
    is_whole.then(|| instructions.iter().map(read).collect())
}

fn number(call: c_long) -> u32 {
    u32::try_from(call).expect("a call's number is small")
}

/// How many calls of a list are compared one by one.
const PART: usize = 8;

/// A program that is being written.
struct Program(Vec<sock_filter>);

impl Program {
    fn push(&mut self, code: u16, k: u32, (jt, jf): (u8, u8)) {
        self.0.push(sock_filter { code, jt, jf, k });
    }

    fn load(&mut self, at: u32) {
        self.push(LOAD, at, (0, 0));
    }

    fn answer(&mut self, answer: u32) {
        self.push(ANSWER, answer, (0, 0));
    }

    /// Answers if the test is met by what was loaded.
    fn when(&mut self, test: u16, value: u32, answer: u32) {
        self.push(test, value, (0, 1));
        self.answer(answer);
    }

    /// Answers if anything but `value` was loaded.
    fn unless(&mut self, value: u32, answer: u32) {
        self.push(IF_EQUAL, value, (1, 0));
        self.answer(answer);
    }

    /// Refuses these calls, and answers all others.
    ///
    /// When a filter is installed the kernel runs it for every call there is, so
    /// most of the list is leapt over.
    fn only(&mut self, mut calls: Vec<c_long>) {
        calls.sort_unstable();
        let mut parts = calls.chunks(PART).peekable();
        while let Some(part) = parts.next() {
            let length = u8::try_from(part.len()).expect("a part is short");
            if let Some([first, ..]) = parts.peek() {
                self.push(IF_AT_LEAST, number(*first), (length + 2, 0));
            }
            for (&call, left) in part.iter().zip((1..=length).rev()) {
                self.push(IF_EQUAL, number(call), (left, 0));
            }
            self.answer(LET_THROUGH);
            self.answer(NOT_PERMITTED);
        }
    }

    /// Looks at an argument of one call. Only its lower half: the kernel takes
    /// no more of those that are looked at, so the upper half could be anything.
    fn call(&mut self, call: c_long, argument: u32, look: impl FnOnce(&mut Self)) {
        self.branch(number(call), |inside| {
            // The lower half comes first: both processors are little-endian.
            inside.load(ARGUMENTS_AT + 8 * argument);
            look(inside);
            inside.load(NUMBER_AT);
        });
    }

    /// Runs the inner program if `value` was loaded.
    fn branch(&mut self, value: u32, build: impl FnOnce(&mut Self)) {
        let mut inside = Self(Vec::new());
        build(&mut inside);
        let length = u8::try_from(inside.0.len()).expect("a look at an argument is short");
        self.push(IF_EQUAL, value, (0, length));
        self.0.append(&mut inside.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRICT: Leave = Leave { network: false, metadata: Metadata::Nothing };
    const LOOSE: Leave = Leave { network: true, metadata: Metadata::Any };

    /// Runs a program as the kernel does.
    fn verdict(leave: Leave, architecture: u32, call: u32, arguments: &[u64]) -> u32 {
        let program = program(leave);
        let argument = |at: u32| {
            let whole = arguments.get((at / 8) as usize).copied().unwrap_or_default();
            (whole >> (8 * (at % 8))) as u32
        };
        let (mut loaded, mut at) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let is_met = match code {
                LOAD => {
                    loaded = match k {
                        NUMBER_AT => call,
                        ARCHITECTURE_AT => architecture,
                        at => argument(at - ARGUMENTS_AT),
                    };
                    continue;
                }
                KEEP_BITS => {
                    loaded &= k;
                    continue;
                }
                ANSWER => return k,
                IF_EQUAL => loaded == k,
                IF_AT_LEAST => loaded >= k,
                IF_ANY_BIT => loaded & k != 0,
                other => panic!("no such instruction: {other}"),
            };
            at += usize::from(if is_met { jt } else { jf });
        }
    }

    #[track_caller]
    fn check(leave: Leave, call: c_long, arguments: impl AsRef<[u64]>, expected: u32) {
        assert_eq!(verdict(leave, ARCHITECTURE, number(call), arguments.as_ref()), expected);
    }

    #[test]
    fn ordinary_calls_go_through() {
        for leave in [STRICT, LOOSE] {
            for call in [libc::SYS_read, libc::SYS_openat, libc::SYS_execve, libc::SYS_exit_group] {
                check(leave, call, [0, 0], LET_THROUGH);
            }
        }
    }

    #[test]
    fn what_is_listed_is_refused_with_and_without_a_network() {
        for leave in [STRICT, LOOSE] {
            for &call in REFUSED {
                check(leave, call, [0, 0], NOT_PERMITTED);
            }
        }
    }

    #[test]
    fn what_is_not_listed_goes_through() {
        let looked_at = [
            libc::SYS_clone3,
            libc::SYS_clone,
            libc::SYS_ioctl,
            libc::SYS_socket,
            libc::SYS_socketpair,
            libc::SYS_setrlimit,
            libc::SYS_prlimit64,
        ];
        let listed = [REFUSED, OWNERS, MODES, &looked_at].concat();
        for call in (0..1_000).filter(|call| !listed.contains(call)) {
            check(STRICT, call, [0, 0], LET_THROUGH);
            check(LOOSE, call, [0, 0], LET_THROUGH);
        }
    }

    #[test]
    fn another_interface_of_the_kernel_is_no_way_in() {
        for arch in [0x4000_0003, 0x4000_0028, 0] {
            assert_eq!(verdict(LOOSE, arch, number(libc::SYS_read), &[]), KILL);
        }
        #[cfg(target_arch = "x86_64")]
        {
            let unshare = X32 | number(libc::SYS_unshare);
            assert_eq!(verdict(LOOSE, ARCHITECTURE, unshare, &[]), NO_SUCH_CALL);
        }
    }

    #[test]
    fn a_process_is_cloned_but_never_into_a_namespace() {
        let threads = (libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SETTLS) as u64;
        check(STRICT, libc::SYS_clone, [threads, 0], LET_THROUGH);
        check(STRICT, libc::SYS_clone, [libc::SIGCHLD as u64, 0], LET_THROUGH);
        for bit in [libc::CLONE_NEWUSER, libc::CLONE_NEWNS, libc::CLONE_NEWNET] {
            check(LOOSE, libc::SYS_clone, [bit as u64 | threads, 0], NOT_PERMITTED);
        }
        check(LOOSE, libc::SYS_clone3, [0, 0], NO_SUCH_CALL);
    }

    #[test]
    fn nothing_is_typed_into_a_terminal_whatever_the_upper_half_says() {
        for request in [libc::TIOCSTI, libc::TIOCLINUX] {
            check(LOOSE, libc::SYS_ioctl, [0, request], NOT_PERMITTED);
            check(LOOSE, libc::SYS_ioctl, [0, request | 1 << 40], NOT_PERMITTED);
        }
        check(LOOSE, libc::SYS_ioctl, [0, libc::TIOCGWINSZ], LET_THROUGH);
    }

    #[test]
    fn sockets_are_pairs_unless_there_is_a_network() {
        let families = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
        for family in families {
            check(STRICT, libc::SYS_socket, [family as u64, 0], NOT_PERMITTED);
            check(LOOSE, libc::SYS_socket, [family as u64, 0], LET_THROUGH);
        }
        for leave in [STRICT, LOOSE] {
            for family in [libc::AF_UNIX, libc::AF_PACKET, libc::AF_VSOCK, libc::AF_ALG] {
                check(leave, libc::SYS_socket, [family as u64, 0], NOT_PERMITTED);
            }
            let stream = libc::SOCK_STREAM as u64;
            check(leave, libc::SYS_socketpair, [libc::AF_UNIX as u64, stream], LET_THROUGH);
            check(leave, libc::SYS_socketpair, [libc::AF_TIPC as u64, stream], NOT_PERMITTED);
        }
    }

    #[test]
    fn a_pair_of_sockets_is_no_way_to_a_datagram_socket_whatever_its_flags() {
        let kinds = [
            (libc::SOCK_STREAM, LET_THROUGH),
            (libc::SOCK_SEQPACKET, LET_THROUGH),
            (libc::SOCK_DGRAM, NOT_PERMITTED),
            // To the kernel this is a datagram socket.
            (libc::SOCK_RAW, NOT_PERMITTED),
            (libc::SOCK_RDM, NOT_PERMITTED),
            (0, NOT_PERMITTED),
            (0xF, NOT_PERMITTED),
        ];
        let flags = [0, libc::SOCK_NONBLOCK, libc::SOCK_CLOEXEC];
        for leave in [STRICT, LOOSE] {
            for (kind, expected) in kinds {
                for flags in flags.into_iter().chain([libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC]) {
                    for upper in [0, 1 << 32] {
                        let kind = (kind | flags) as u64 | upper;
                        let pair = [libc::AF_UNIX as u64, kind];
                        check(leave, libc::SYS_socketpair, pair, expected);
                    }
                }
            }
        }
    }

    #[test]
    fn the_limit_that_tags_processes_is_read_and_not_set() {
        let (tagged, other) = (u64::from(TAGGED_LIMIT), libc::RLIMIT_NOFILE.into());
        for leave in [STRICT, LOOSE] {
            check(leave, libc::SYS_setrlimit, [tagged, 0x1000], NOT_PERMITTED);
            check(leave, libc::SYS_setrlimit, [tagged | 1 << 32, 0x1000], NOT_PERMITTED);
            check(leave, libc::SYS_setrlimit, [other, 0x1000], LET_THROUGH);
            for new in [1, 0x1000, 1 << 32, 0x7FFF_0000_0000] {
                check(leave, libc::SYS_prlimit64, [0, tagged, new], NOT_PERMITTED);
                check(leave, libc::SYS_prlimit64, [0, other, new], LET_THROUGH);
            }
            check(leave, libc::SYS_prlimit64, [0, tagged, 0], LET_THROUGH);
        }
    }

    #[test]
    fn owners_modes_and_times_are_refused_as_far_as_mounts_do_not_decide() {
        let check_all = |metadata, owners, modes| {
            let leave = Leave { network: false, metadata };
            OWNERS.iter().for_each(|&call| check(leave, call, [0, 0], owners));
            MODES.iter().for_each(|&call| check(leave, call, [0, 0], modes));
        };
        check_all(Metadata::Any, LET_THROUGH, LET_THROUGH);
        check_all(Metadata::ModesAndTimes, NOT_PERMITTED, LET_THROUGH);
        check_all(Metadata::Nothing, NOT_PERMITTED, NOT_PERMITTED);
    }

    #[test]
    fn the_bytes_are_eight_for_each_instruction() {
        let program = program(LOOSE);
        let bytes = bytes(&program);
        assert_eq!(bytes.len(), program.len() * 8);
        assert_eq!(bytes[..8], [0x20, 0, 0, 0, 4, 0, 0, 0]);
        // bubblewrap reads it from a pipe that was filled beforehand.
        assert!(bytes.len() < 4096);
    }
}
