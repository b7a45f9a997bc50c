//! The bounds of units, as JSON has them.

use std::num::NonZeroUsize;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::NoPacket;
use crate::config::WindowShare;
use crate::fanout::Limits;
use crate::model::retry;

/// Spans are in milliseconds.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenLimits {
    max_turns: u32,
    timeout_ms: Option<u64>,
    max_depth: u32,
    confirm_above: Option<NonZeroUsize>,
    background_wait_ms: u64,
    prime_ms: u64,
    needs_price: bool,
    /// In thousandths of the window.
    compact_at: Option<u16>,
    retries: u32,
    retry_base_ms: u64,
}

impl WrittenLimits {
    pub(super) fn of(limits: &Limits) -> Self {
        let Limits { max_turns, timeout, max_depth, confirm_above, background_wait, .. } = *limits;
        let Limits { prime, needs_price, compact_at, retries, .. } = *limits;
        let retry::Policy { most, base } = retries;
        Self {
            max_turns,
            timeout_ms: timeout.map(in_ms),
            max_depth,
            confirm_above,
            background_wait_ms: in_ms(background_wait),
            prime_ms: in_ms(prime),
            needs_price,
            compact_at: compact_at.map(WindowShare::thousandths),
            retries: most,
            retry_base_ms: in_ms(base),
        }
    }

    pub(super) fn read(self) -> Result<Limits, NoPacket> {
        let share = |thousandths: u16| {
            WindowShare::from_thousandths(thousandths).ok_or_else(|| {
                let why = format!("{thousandths} thousandths of a context window are no share");
                NoPacket::because(why)
            })
        };
        Ok(Limits {
            max_turns: self.max_turns,
            timeout: self.timeout_ms.map(Duration::from_millis),
            max_depth: self.max_depth,
            confirm_above: self.confirm_above,
            background_wait: Duration::from_millis(self.background_wait_ms),
            prime: Duration::from_millis(self.prime_ms),
            needs_price: self.needs_price,
            compact_at: self.compact_at.map(share).transpose()?,
            retries: retry::Policy {
                most: self.retries,
                base: Duration::from_millis(self.retry_base_ms),
            },
        })
    }
}

fn in_ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
