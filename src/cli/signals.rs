//! Signals of the operating system, as a stream of values.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::run::Signal;

/// Most signals that wait to be looked at. A few: more of them say nothing new.
const WAITING_CAP: usize = 8;

/// Starts to listen. Must be called inside the runtime.
///
/// # Errors
///
/// If the system refuses a handler.
pub(super) fn listen() -> std::io::Result<mpsc::Receiver<Signal>> {
    let (sender, receiver) = mpsc::channel(WAITING_CAP);
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
    Ok(receiver)
}

/// Tells whether the process was started with a signal ignored; `false` where
/// the system does not say.
fn ignores(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (kind.as_raw_value() - 1)) != 0
}
