//! Leave for a batch that is larger than usual.
//!
//! A model that asks for hundreds of agents may be right, or it may have
//! misread its task; what that costs is the user's to decide.

use std::num::NonZeroUsize;

use tokio::time::Instant;

use super::Caller;
use crate::event::{Question, Verdict};
use crate::guard::Decided;
use crate::tool::ToolError;

/// Has the user confirm a batch of so many slots, if those are more than may
/// start unasked.
///
/// # Errors
///
/// The batch must not start: the error is for the model that wants it.
pub(super) async fn confirm(caller: &Caller, slots: usize) -> Result<(), ToolError> {
    let most = caller.fanout.limits.confirm_above.map(NonZeroUsize::get);
    let Some(most) = most.filter(|most| slots > *most) else { return Ok(()) };
    let question = Question::Batch { slots: u32::try_from(slots).unwrap_or(u32::MAX) };
    let asked = Instant::now();
    let asking = async {
        tokio::select! {
            biased;
            () = caller.cancel.cancelled() => None,
            verdict = caller.line.ask_user(question, Decided::default()) => verdict,
        }
    };
    // A question keeps nobody else out of the pool, and takes no time.
    let verdict = caller.lend_while(asking).await;
    let refusal = match verdict {
        Some(
            Verdict::Yes
            | Verdict::YesWith(_)
            | Verdict::ForBatch
            | Verdict::ForSession
            | Verdict::Always
            | Verdict::Covered(_),
        ) => return Ok(()),
        Some(Verdict::No | Verdict::NoBecause(_) | Verdict::Filled(_)) => {
            include_str!("../../prompts/batch_refused.md")
        }
        Some(Verdict::NobodyToAsk) => include_str!("../../prompts/batch_unasked.md"),
        Some(Verdict::Withdrawn) | None => {
            return Err(ToolError::Cancelled { after: asked.elapsed() });
        }
    };
    let refusal = refusal.trim_end().replace("{slots}", &slots.to_string());
    Err(ToolError::tell(refusal.replace("{most}", &most.to_string())))
}
