//! Signals of the operating system, as a stream of values, and a reader of standard output
//! that goes away.

use nix::sys::stat::{SFlag, fstat};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::run::Signal;

use super::control::{reader_gone, watch_reader};

/// Most signals that wait to be looked at. A few: more of them say nothing new.
const WAITING_CAP: usize = 8;

/// Starts to listen. Must be called inside the runtime.
///
/// # Errors
///
/// If the system refuses a handler.
pub(super) fn listen() -> std::io::Result<mpsc::Receiver<Signal>> {
    let (sender, receiver) = mpsc::channel(WAITING_CAP);
    listen_for(&sender)?;
    Ok(receiver)
}

/// Does the same as [`listen`], and also reports when the reader of standard output has gone.
///
/// # Errors
///
/// As for [`listen`].
pub(super) fn listen_while_read() -> std::io::Result<mpsc::Receiver<Signal>> {
    let (sender, receiver) = mpsc::channel(WAITING_CAP);
    listen_for(&sender)?;
    // A terminal that goes sends a signal, and a file does not go.
    if has_reader() {
        tokio::spawn(async move {
            reader_gone(&mut Some(watch_reader())).await;
            // The run may be over.
            let _ = sender.send(Signal::OutputGone).await;
        });
    }
    Ok(receiver)
}

/// Returns whether standard output is a pipe or a socket.
fn has_reader() -> bool {
    let kind = fstat(std::io::stdout()).map(|found| SFlag::from_bits_truncate(found.st_mode));
    kind.is_ok_and(|kind| matches!(kind & SFlag::S_IFMT, SFlag::S_IFIFO | SFlag::S_IFSOCK))
}

/// Has a write past the limit on file sizes (`ulimit -f`) fail instead of ending the
/// process. Must be called inside the runtime.
pub(super) fn survive_file_limit() {
    // It is caught and not ignored: what is ignored stays ignored in commands. The handler
    // stays when this value goes. Without it the process ends as before.
    drop(signal(SignalKind::from_raw(nix::libc::SIGXFSZ)));
}

fn listen_for(sender: &mpsc::Sender<Signal>) -> std::io::Result<()> {
    let kinds = [
        (SignalKind::interrupt(), Signal::Interrupt),
        (SignalKind::terminate(), Signal::Terminate),
        (SignalKind::hangup(), Signal::Hangup),
    ];
    for (kind, meaning) in kinds {
        // `nohup` asks for this one not to matter.
        if meaning == Signal::Hangup && ignores(kind) {
            continue;
        }
        let mut arriving = signal(kind)?;
        let sender = sender.clone();
        tokio::spawn(async move {
            while arriving.recv().await.is_some() {
                if sender.send(meaning).await.is_err() {
                    return;
                }
            }
        });
    }
    Ok(())
}

/// Tells whether the process was started with a signal ignored; `false` where
/// the system does not say.
fn ignores(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (kind.as_raw_value() - 1)) != 0
}
