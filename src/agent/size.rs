//! How many tokens a conversation has, where nobody has counted them.

use std::sync::Arc;

use super::History;
use crate::message::{Entry, Head, Message, Prefix, Reply};

/// How many bytes of text make one token. English and code have about this
/// many; what has fewer is counted by the provider after the next answer.
const BYTES_PER_TOKEN: u64 = 4;

/// How many tokens an image has. Providers scale larger ones down to about so
/// many: Anthropic's to 1,600, OpenAI's to 1,536 or fewer.
const IMAGE_TOKENS: u64 = 1_600;

/// Returns an estimate for what stands before the first message.
pub(super) fn of_head(head: &Head) -> u64 {
    let tools = head
        .tools
        .iter()
        .map(|tool| length(&tool.name) + length(&tool.description) + length(tool.parameters.get()));
    tokens(length(&head.system) + tools.sum::<u64>())
}

/// Returns an estimate for messages.
pub(super) fn of_entries(entries: &[Arc<Entry>]) -> u64 {
    entries.iter().map(|entry| of_entry(entry)).sum()
}

/// Returns an estimate for one message.
pub(super) fn of_entry(entry: &Entry) -> u64 {
    of_message(&entry.message)
}

/// Returns an estimate for a message that is not in a conversation yet.
#[must_use]
pub fn of_message(message: &Message) -> u64 {
    tokens(bytes(message)) + IMAGE_TOKENS * images(message)
}

/// Returns an estimate for an answer.
pub(super) fn of_reply(reply: &Reply) -> u64 {
    tokens(reply_bytes(reply) + length(&reply.thinking))
}

/// Returns an estimate for a text.
#[must_use]
pub fn of_text(text: &str) -> u64 {
    tokens(length(text))
}

/// Reasoning does not count: it is not sent again.
fn bytes(message: &Message) -> u64 {
    match message {
        Message::User(prompt) => length(&prompt.text),
        Message::Model(reply) => reply_bytes(reply),
        Message::Output { call: _, output } => length(&output.text),
    }
}

fn reply_bytes(reply: &Reply) -> u64 {
    let calls = reply.calls.iter().map(|call| length(&call.tool) + length(&call.arguments));
    length(&reply.text) + calls.sum::<u64>()
}

fn images(message: &Message) -> u64 {
    match message {
        Message::User(prompt) => prompt.images.len() as u64,
        Message::Model(_) => 0,
        Message::Output { call: _, output } => output.images.len() as u64,
    }
}

fn length(text: &str) -> u64 {
    text.len() as u64
}

fn tokens(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN)
}

/// Estimates the tokens of the conversation with `text` in the place of all
/// before `kept`: the provider's count, less what the estimates say is saved.
pub(super) fn after_compaction(history: &History, kept: usize, text: &str) -> u64 {
    let Prefix { head, entries } = history.prefix();
    let head = of_head(head);
    let before = head + of_entries(entries);
    let after = head + of_text(text) + of_entries(&entries[kept..]);
    let scaled = u128::from(history.tokens()) * u128::from(after) / u128::from(before.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Image, ImageKind, Output, Prompt};

    #[test]
    fn an_image_is_as_long_as_a_page_of_text_however_many_bytes_it_has() {
        let image = Image::new(ImageKind::Png, &[0; 100_000]);
        let output = Output { images: vec![image.clone(), image], ..Output::ok("a.png and b.png") };
        let message = Message::Output { call: "c".into(), output: Arc::new(output) };
        assert_eq!(of_entry(&Entry::from(message)), 4 + 2 * IMAGE_TOKENS);
        let image = Image::new(ImageKind::Png, &[0; 100_000]);
        let prompt = Prompt::joined(["what is this".into(), image.into()]);
        assert_eq!(of_message(&Message::User(prompt)), 3 + IMAGE_TOKENS);
    }
}
