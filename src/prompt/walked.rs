//! What main's conversation holds of a flow that the user asked for: its end, as
//! the answer to them.
//!
//! It stands where an answer of main's model would, so that the next message of
//! the user follows on one, as every provider wants it.

use super::context::bad_end;
use super::{cut, fill};
use crate::event::{Failure, FailureKind, Outcome};

/// Most characters of what a flow came to that its conversation holds, as of a
/// file that is put into a prompt: the report of a large review has ten thousand
/// lines. Whoever asked for it has seen all of it.
const WALKED_CAP: usize = 60_000;

/// Returns the answer to somebody who asked for a flow that came to this.
/// `written` is what there is of it if it ended badly.
#[must_use]
pub fn walked(outcome: &Outcome, written: &str) -> String {
    if let Some(why) = bad_end(outcome) {
        let ended = match outcome {
            Outcome::Failed(Failure { kind: FailureKind::Unmet, message }) => {
                fill(include_str!("../../prompts/walked_unmet.md"), &[("why", message)])
            }
            Outcome::Done { .. }
            | Outcome::Failed(_)
            | Outcome::Cancelled { .. }
            | Outcome::Interrupted => {
                fill(include_str!("../../prompts/walked_badly.md"), &[("why", &why)])
            }
        };
        let written = cut(written.trim(), WALKED_CAP, None);
        return format!("{}\n\n{}", ended.trim_end(), written).trim_end().to_owned();
    }
    match outcome {
        Outcome::Done { text } if !text.trim().is_empty() => cut(text, WALKED_CAP, None),
        Outcome::Done { text: _ }
        | Outcome::Failed(_)
        | Outcome::Cancelled { ran: _ }
        | Outcome::Interrupted => {
            // A message needs a word.
            include_str!("../../prompts/walked_without_a_word.md").trim_end().to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(outcome: Outcome, written: &str, expected: &str) {
        assert_eq!(walked(&outcome, written), expected);
    }

    #[test]
    fn every_end_of_a_flow_is_an_answer_with_words() {
        check(Outcome::Done { text: "All is well.\n".into() }, "", "All is well.\n");
        let nothing = "[The flow came to its end, and its last step said nothing.]";
        check(Outcome::Done { text: " ".into() }, "", nothing);
        let failed = Outcome::failed(FailureKind::Setup, "`a` failed: {why}");
        let ended = "[The flow did not come to its end: failed: `a` failed: {why}]";
        check(failed.clone(), "", ended);
        check(failed, "so far\n", &format!("{ended}\n\nso far"));
        let ended = "[The flow did not come to its end: cancelled while it ran]";
        check(Outcome::Cancelled { ran: true }, "", ended);
        let ended = "[The flow came to its end, and has not succeeded: it is as before]";
        let unmet = Outcome::failed(FailureKind::Unmet, "it is as before");
        check(unmet, "The report.", &format!("{ended}\n\nThe report."));
    }

    #[test]
    fn a_long_answer_is_cut_and_says_how_much_is_left_out() {
        let long = "x".repeat(WALKED_CAP + 7);
        let kept = &long[..WALKED_CAP];
        let cut = format!("{kept}\n[7 more bytes are left out]");
        check(Outcome::Done { text: long.as_str().into() }, "", &cut);
        let ended = "[The flow did not come to its end: cancelled while it ran]";
        check(Outcome::Cancelled { ran: true }, &long, &format!("{ended}\n\n{cut}"));
    }
}
