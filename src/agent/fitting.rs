//! Making a conversation that is too long short enough to be summed up.

use std::sync::Arc;

use super::size;
use crate::message::{Entry, Message, Output, Prefix};
use crate::prompt;

/// Returns the conversation without its largest tool outputs, so that about
/// `excess` tokens are gone; `None` if nothing need go.
///
/// Each output that goes leaves a sentence, so that its call has one. Outputs
/// go first because they are the longest and can be had again. Where they are
/// not enough, the result is still too long.
pub(super) fn without_large_outputs(prefix: &Prefix, excess: u64) -> Option<Prefix> {
    if excess == 0 {
        return None;
    }
    let is_output = |entry: &Entry| matches!(entry.message, Message::Output { .. });
    let mut outputs: Vec<(usize, u64)> = (prefix.entries.iter().enumerate())
        .filter(|(_, entry)| is_output(entry))
        .map(|(place, entry)| (place, size::of_entry(entry)))
        .collect();
    // The later one of two that are equally long goes last: it matters more.
    outputs.sort_by_key(|(_, tokens)| std::cmp::Reverse(*tokens));
    let mut left = excess;
    let mut replaced = Vec::new();
    for (place, tokens) in outputs {
        if left == 0 {
            break;
        }
        let short = left_out(&prefix.entries[place].message);
        left = left.saturating_sub(tokens.saturating_sub(size::of_message(&short)));
        replaced.push((place, short));
    }
    let mut shorter = prefix.clone();
    shorter.replace(replaced);
    Some(shorter)
}

fn left_out(message: &Message) -> Message {
    match message {
        Message::Output { call, output } => {
            let text = prompt::output_left_out(output.text.len());
            let output = Output { text, is_error: output.is_error, images: Vec::new() };
            Message::Output { call: call.clone(), output: Arc::new(output) }
        }
        Message::User(_) | Message::Model(_) => message.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Head;

    fn conversation(lengths: &[usize]) -> Prefix {
        let mut prefix = Prefix::new(Arc::new(Head::new(String::new(), Vec::new())));
        prefix.push(Message::User("x".repeat(90_000).into()));
        for length in lengths {
            let output = Arc::new(Output::ok("x".repeat(*length)));
            prefix.push(Message::Output { call: "c".into(), output });
        }
        prefix
    }

    #[track_caller]
    fn check(lengths: &[usize], excess: u64, kept: &[usize]) {
        let prefix = conversation(lengths);
        let shorter = without_large_outputs(&prefix, excess).unwrap_or(prefix);
        let lengths = shorter.messages().filter_map(|message| match message {
            Message::Output { output, .. } if output.text.starts_with('x') => {
                Some(output.text.len())
            }
            Message::Output { .. } => Some(0),
            Message::User(_) | Message::Model(_) => None,
        });
        assert_eq!(lengths.collect::<Vec<_>>(), kept);
        assert!(
            matches!(shorter.messages().next(), Some(Message::User(prompt)) if prompt.text.len() == 90_000)
        );
    }

    #[test]
    fn the_largest_outputs_go_first_and_no_more_than_must() {
        let lengths = [4_000, 40_000, 8_000, 40_000];
        check(&lengths, 0, &lengths);
        check(&lengths, 1, &[4_000, 0, 8_000, 40_000]);
        check(&lengths, 15_000, &[4_000, 0, 8_000, 0]);
        check(&lengths, u64::MAX, &[0, 0, 0, 0]);
        check(&[], 5, &[]);
    }

    #[test]
    fn what_stands_before_is_the_same_memory_and_what_follows_is_rendered_anew() {
        let prefix = conversation(&[10, 4_000, 20]);
        let shorter = without_large_outputs(&prefix, 1).unwrap();
        let is_same = |place: usize| Arc::ptr_eq(&prefix.entries[place], &shorter.entries[place]);
        assert_eq!([0, 1, 2, 3].map(is_same), [true, true, false, false]);
    }
}
