//! What a unit can be told before it asks.

use tokio::sync::oneshot;

/// What is known ahead of what a unit would ask: where each answer has to come
/// from another machine, what is always the same is not asked.
#[derive(Debug)]
pub struct Ahead {
    /// Whether nothing limits what it uses: then each of its requests has leave, as
    /// long as no cancel has begun.
    pub is_unlimited: bool,
    /// Comes once somebody has sent it a message. Until then it has no news but those
    /// of units that it started itself.
    pub news: oneshot::Receiver<()>,
}
