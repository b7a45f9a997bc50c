//! Making a conversation that is too long short enough to be summed up.

use std::sync::Arc;

use super::size;
use crate::message::{Message, Output, Prefix};
use crate::prompt;

/// Characters that remain of a user message that is left out: enough to show what it was
/// about.
const PROMPT_START: usize = 1_000;

/// Returns the conversation without its largest parts, so that about `excess` tokens are
/// gone; `None` if nothing has to go.
///
/// The largest tool outputs go first, because they can be had again, then the largest user
/// messages. Each leaves a sentence in its place. If they are not enough, the result is
/// still too long.
pub(super) fn without_largest_parts(prefix: &Prefix, excess: u64) -> Option<Prefix> {
    if excess == 0 {
        return None;
    }
    let mut parts: Vec<(usize, u64, Message)> = (prefix.entries.iter().enumerate())
        .filter_map(|(place, entry)| {
            let short = shortened(&entry.message)?;
            let gain = size::of_entry(entry).saturating_sub(size::of_message(&short));
            Some((place, gain, short))
        })
        .collect();
    // The later one of two that are equally long goes last: it matters more.
    parts.sort_by_key(|(_, gain, short)| {
        (matches!(short, Message::User(_)), std::cmp::Reverse(*gain))
    });
    let mut left = excess;
    let mut replaced = Vec::new();
    for (place, gain, short) in parts {
        if left == 0 {
            break;
        }
        left = left.saturating_sub(gain);
        replaced.push((place, short));
    }
    let mut shorter = prefix.clone();
    shorter.replace(replaced);
    Some(shorter)
}

/// Returns what takes a message's place; `None` if it stays.
fn shortened(message: &Message) -> Option<Message> {
    match message {
        Message::Output { call, output } => {
            let text = prompt::output_left_out(output.text.len());
            let output = Output { text, is_error: output.is_error, images: Vec::new() };
            Some(Message::Output { call: call.clone(), output: Arc::new(output) })
        }
        Message::User(user) => {
            let text = user.text_with(|_| prompt::image_summed_up().to_owned());
            match text.char_indices().nth(PROMPT_START) {
                Some((start, _)) => {
                    let (kept, rest) = text.split_at(start);
                    Some(Message::User(prompt::prompt_left_out(kept, rest.len()).into()))
                }
                None if user.images.is_empty() => None,
                None => Some(Message::User(text.into())),
            }
        }
        Message::Model(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Head, Image, ImageKind, Placed, Prompt};

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
        let shorter = without_largest_parts(&prefix, excess).unwrap_or(prefix);
        let lengths = shorter.messages().filter_map(|message| match message {
            Message::Output { output, .. } if output.text.starts_with('x') => {
                Some(output.text.len())
            }
            Message::Output { .. } => Some(0),
            Message::User(_) | Message::Model(_) => None,
        });
        assert_eq!(lengths.collect::<Vec<_>>(), kept);
        let Some(Message::User(prompt)) = shorter.messages().next() else { panic!("it is first") };
        // It goes last.
        assert_eq!(prompt.text.len() == 90_000, excess < u64::MAX, "{}", prompt.text.len());
        assert!(prompt.text.starts_with(&"x".repeat(PROMPT_START)));
    }

    #[test]
    fn the_largest_outputs_go_first_and_no_more_than_must() {
        let lengths = [4_000, 40_000, 8_000, 40_000];
        check(&lengths, 0, &lengths);
        check(&lengths, 1, &[4_000, 0, 8_000, 40_000]);
        check(&lengths, 15_000, &[4_000, 0, 8_000, 0]);
        check(&lengths, u64::MAX, &[0, 0, 0, 0]);
        check(&[], u64::MAX, &[]);
    }

    #[test]
    fn a_short_prompt_loses_only_its_images() {
        let base64 = "A".repeat(400_000);
        let image = Image { kind: ImageKind::Png, base64: base64.into() };
        let placed = Placed { at: 4, image };
        let shown = Prompt { text: "look".into(), images: vec![placed].into() };
        let mut prefix = conversation(&[]);
        prefix.push(Message::User(shown));
        prefix.push(Message::User("short".into()));
        let shorter = without_largest_parts(&prefix, u64::MAX).unwrap();
        let prompts: Vec<&Prompt> = shorter
            .messages()
            .filter_map(|message| match message {
                Message::User(prompt) => Some(prompt),
                Message::Model(_) | Message::Output { .. } => None,
            })
            .collect();
        assert!(prompts.iter().all(|prompt| prompt.images.is_empty()));
        assert!(prompts[1].text.starts_with("look"), "{}", prompts[1].text);
        assert!(prompts[1].text.contains(prompt::image_summed_up()), "{}", prompts[1].text);
        assert_eq!(&*prompts[2].text, "short");
    }

    #[test]
    fn what_stands_before_is_the_same_memory_and_what_follows_is_rendered_anew() {
        let prefix = conversation(&[10, 4_000, 20]);
        let shorter = without_largest_parts(&prefix, 1).unwrap();
        let is_same = |place: usize| Arc::ptr_eq(&prefix.entries[place], &shorter.entries[place]);
        assert_eq!([0, 1, 2, 3].map(is_same), [true, true, false, false]);
    }
}
