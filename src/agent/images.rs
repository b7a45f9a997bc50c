//! How many images a conversation holds.
//!
//! Each is sent with every request from then on, and a request that has too
//! many is refused, as is every later one: nothing takes an image out but a
//! summary. So what has no room is left out before it enters, and said to be.

use crate::message::{Image, Message, Output, Prefix, Prompt, byte_size, counted};

/// Most images. Of requests with more than 20, Anthropic's API refuses those
/// with an image of more than 2,000 pixels a side, which most screens have.
pub const IMAGES_CAP: usize = 20;

/// Most characters of base64 that the images have together. Anthropic's API
/// takes requests of 32 MB, and some places where its models run take less.
pub const IMAGES_LENGTH_CAP: usize = 20_000_000;

/// The room for images that a conversation has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room {
    images: usize,
    length: usize,
}

impl Room {
    /// What a conversation leaves.
    pub(super) fn beside(prefix: &Prefix) -> Self {
        let mut room = Self { images: IMAGES_CAP, length: IMAGES_LENGTH_CAP };
        for message in prefix.messages() {
            match message {
                Message::Output { call: _, output } => room.fill(&output.images),
                Message::User(prompt) => {
                    room.fill(prompt.images.iter().map(|placed| &placed.image));
                }
                Message::Model(_) => {}
            }
        }
        room
    }

    fn fill<'a>(&mut self, images: impl IntoIterator<Item = &'a Image>) {
        for image in images {
            self.images = self.images.saturating_sub(1);
            self.length = self.length.saturating_sub(image.base64.len());
        }
    }

    /// Tells whether all images of a prompt have room; the error says why not.
    pub(super) fn take_in(self, prompt: &Prompt) -> Result<(), String> {
        let Self { images, length } = self;
        let (more, longer) = (prompt.images.len(), prompt.images_length());
        if more <= images && longer <= length {
            return Ok(());
        }
        let [has, left, most] = [longer, length, IMAGES_LENGTH_CAP].map(|it| byte_size(it as u64));
        Err(format!(
            "the message has {} of {has} in base64, and the conversation has room for {images} of {left}: \
             it holds at most {IMAGES_CAP}, of {most} together; `/compact` makes room",
            counted(more as u64, "image")
        ))
    }

    /// Takes in the images of an output, and leaves out those that have no
    /// room. Then the output is an error that says so.
    pub(super) fn admit(&mut self, output: Output) -> Output {
        let Output { text, is_error, images } = output;
        let asked_for = images.len();
        let images: Vec<Image> = images.into_iter().filter(|image| self.takes(image)).collect();
        match asked_for - images.len() {
            0 => Output { text, is_error, images },
            left_out => {
                let text = format!("{text}\n{}", self.refusal(left_out));
                Output { text, is_error: true, images }
            }
        }
    }

    fn takes(&mut self, image: &Image) -> bool {
        let length = self.length.checked_sub(image.base64.len());
        match (self.images.checked_sub(1), length) {
            (Some(images), Some(length)) => {
                *self = Self { images, length };
                true
            }
            (None, _) | (_, None) => false,
        }
    }

    fn refusal(self, left_out: usize) -> String {
        let what = match left_out {
            1 => "The image is".to_owned(),
            _ => format!("{left_out} images are"),
        };
        let most = byte_size(IMAGES_LENGTH_CAP as u64);
        format!(
            "[{what} left out: a conversation holds at most {IMAGES_CAP} images, of {most} in base64 together, \
             and this one is full. An agent with a conversation of its own can look at more.]"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::message::{CallId, Head, ImageKind};

    fn of_length(length: usize) -> Image {
        Image { kind: ImageKind::Png, base64: "x".repeat(length).into() }
    }

    fn showing(lengths: &[usize]) -> Output {
        let images = lengths.iter().map(|&length| of_length(length)).collect();
        Output { images, ..Output::ok("a.png") }
    }

    fn room(images: usize, length: usize) -> Room {
        Room { images, length }
    }

    #[test]
    fn what_a_conversation_shows_takes_room() {
        let mut prefix = Prefix::new(Arc::new(Head::new(String::new(), Vec::new())));
        prefix.push(Message::User("go".into()));
        assert_eq!(Room::beside(&prefix), room(IMAGES_CAP, IMAGES_LENGTH_CAP));
        for lengths in [&[10, 20][..], &[], &[5]] {
            let output = Arc::new(showing(lengths));
            prefix.push(Message::Output { call: CallId::from("c"), output });
        }
        prefix.push(Message::User(Prompt::joined(["see".into(), of_length(7).into()])));
        assert_eq!(Room::beside(&prefix), room(IMAGES_CAP - 4, IMAGES_LENGTH_CAP - 42));
    }

    #[test]
    fn what_has_no_room_is_left_out_and_said_to_be() {
        let mut left = room(2, 100);
        assert_eq!(left.admit(showing(&[40])), showing(&[40]));
        let full = "[The image is left out: a conversation holds at most 20 images, of 20.0 MB in \
                    base64 together, and this one is full. An agent with a conversation of its own \
                    can look at more.]";
        assert_eq!(left.admit(showing(&[61])), Output::error(format!("a.png\n{full}")));
        assert_eq!(left.admit(showing(&[60])), showing(&[60]));
        assert_eq!(left.admit(showing(&[0])), Output::error(format!("a.png\n{full}")));
        assert_eq!(left, room(0, 0));
    }

    #[test]
    fn a_prompt_is_taken_in_whole_or_not_at_all() {
        let showing = |lengths: &[usize]| {
            Prompt::joined(lengths.iter().map(|&length| of_length(length).into()))
        };
        assert_eq!(room(2, 100).take_in(&showing(&[60, 40])), Ok(()));
        assert_eq!(room(0, 0).take_in(&"go".into()), Ok(()));
        let why = room(2, 100).take_in(&showing(&[60, 41])).unwrap_err();
        let has = "the message has 2 images of 101 bytes in base64, and the conversation has room for 2 of 100 bytes";
        assert!(why.starts_with(has), "{why}");
        assert!(room(1, 100).take_in(&showing(&[1, 1])).is_err());
    }

    #[test]
    fn an_output_without_images_is_as_it_was() {
        let mut left = room(0, 0);
        assert_eq!(left.admit(Output::error("none")), Output::error("none"));
    }
}
