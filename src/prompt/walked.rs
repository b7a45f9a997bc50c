//! What main's conversation holds of a flow that the user asked for: its end, as
//! the answer to them.
//!
//! It stands where an answer of main's model would, so that the next message of
//! the user follows on one, as every provider wants it.

use super::context::bad_end;
use super::fill;
use crate::event::Outcome;

/// Returns the answer to somebody who asked for a flow that came to this.
/// `written` is what there is of it if it ended badly.
#[must_use]
pub fn walked(outcome: &Outcome, written: &str) -> String {
    if let Some(why) = bad_end(outcome) {
        let ended = fill(include_str!("../../prompts/walked_badly.md"), &[("why", &why)]);
        return format!("{}\n\n{}", ended.trim_end(), written.trim()).trim_end().to_owned();
    }
    match outcome {
        Outcome::Done { text } if !text.trim().is_empty() => text.to_string(),
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
    use crate::event::FailureKind;

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
    }
}
