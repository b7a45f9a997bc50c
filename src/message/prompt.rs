//! What a model is asked: a text, and images between its words.

use std::sync::Arc;

use super::Image;
use crate::invisible::without_invisible;

/// What stands between two texts that become one.
const BETWEEN: &str = "\n\n";

/// A prompt. A clone shares all of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prompt {
    /// All of its text.
    pub text: Arc<str>,
    /// Its images, in their order. Nearly every prompt has none.
    pub images: Arc<[Placed]>,
}

/// An image and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// How many bytes of the text stand before it.
    pub at: usize,
    /// The image.
    pub image: Image,
}

/// A part of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Text that is not blank.
    Text(&'a str),
    /// An image.
    Image(&'a Image),
}

impl<T: Into<Arc<str>>> From<T> for Prompt {
    fn from(text: T) -> Self {
        Self { text: text.into(), images: Arc::default() }
    }
}

impl From<Image> for Prompt {
    fn from(image: Image) -> Self {
        Self { text: Arc::default(), images: Arc::new([Placed { at: 0, image }]) }
    }
}

impl Prompt {
    /// Returns prompts as one, in their order.
    #[must_use]
    pub fn joined(prompts: impl IntoIterator<Item = Self>) -> Self {
        let (mut text, mut images) = (String::new(), Vec::new());
        for Self { text: more, images: further } in prompts {
            if !text.is_empty() && !more.is_empty() {
                text.push_str(BETWEEN);
            }
            images.extend(further.iter().map(|placed| placed.behind(text.len())));
            text.push_str(&more);
        }
        Self { text: text.into(), images: images.into() }
    }

    /// Tells whether nothing is in it but white space.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.text.trim().is_empty() && self.images.is_empty()
    }

    /// Returns the prompt behind some more text.
    #[must_use]
    pub fn behind(self, before: &str) -> Self {
        let Self { text, images } = self;
        let moved = images.iter().map(|placed| placed.behind(before.len()));
        Self { text: format!("{before}{text}").into(), images: moved.collect() }
    }

    /// Returns the prompt with another text. Where that goes on from its own the
    /// images stay where they are, else they stand behind it.
    #[must_use]
    pub fn with_text(self, text: Arc<str>) -> Self {
        let images = match text.starts_with(&*self.text) {
            true => self.images,
            false => {
                let at = text.len();
                self.images.iter().map(|Placed { at: _, image }| image.placed(at)).collect()
            }
        };
        Self { text, images }
    }

    /// Returns the prompt without invisible characters; if there were any, a notice at
    /// its end says so.
    pub(super) fn into_visible(self) -> Self {
        let (visible, removed) = without_invisible(&self.text);
        let Some(notice) = removed.notice() else { return self };
        let moved = |placed: &Placed| placed.image.placed(removed.moved(placed.at));
        let images = self.images.iter().map(moved).collect();
        Self { text: format!("{visible}\n\n{notice}").into(), images }
    }

    /// Returns its text, with some words in the place of each image.
    #[must_use]
    pub fn text_with(&self, words: impl Fn(&Image) -> String) -> String {
        let mut all = String::new();
        for (text, image) in self.runs() {
            // An image that is the last one has nothing behind it.
            if !all.is_empty() && !text.is_empty() && !text.starts_with('\n') {
                all.push_str(BETWEEN);
            }
            all.push_str(text);
            let Some(image) = image else { break };
            if !all.is_empty() && !all.ends_with('\n') {
                all.push_str(BETWEEN);
            }
            all.push_str(&words(image));
        }
        all
    }

    /// Returns its parts in their order. The line breaks between a text and an
    /// image belong to neither.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        let has_images = !self.images.is_empty();
        self.runs().flat_map(move |(text, image)| {
            let text = if has_images { text.trim_matches('\n') } else { text };
            let text = (!text.trim().is_empty()).then_some(Piece::Text(text));
            text.into_iter().chain(image.map(Piece::Image))
        })
    }

    /// Returns how many bytes it has.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.text.len() + self.images_length()
    }

    /// Returns how many characters of base64 its images have.
    #[must_use]
    pub fn images_length(&self) -> usize {
        self.images.iter().map(|placed| placed.image.base64.len()).sum()
    }

    /// Returns each image behind the text before it, and the text behind the
    /// last one.
    fn runs(&self) -> impl Iterator<Item = (&str, Option<&Image>)> {
        let mut start = 0;
        let places = self.images.iter().map(|Placed { at, image }| (*at, Some(image)));
        places.chain([(usize::MAX, None)]).map(move |(at, image)| {
            // A log may say anything of where an image stands.
            let end = self.text.floor_char_boundary(at).max(start);
            let text = &self.text[start..end];
            start = end;
            (text, image)
        })
    }
}

impl Placed {
    fn behind(&self, bytes: usize) -> Self {
        Self { at: self.at + bytes, image: self.image.clone() }
    }
}

impl Image {
    fn placed(&self, at: usize) -> Placed {
        Placed { at, image: self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ImageKind;

    fn image(bytes: &[u8]) -> Image {
        Image::new(ImageKind::Png, bytes)
    }

    /// `a`, an image, `b`, another image.
    fn both() -> Prompt {
        Prompt::joined(["a".into(), image(b"1").into(), "b".into(), image(b"2").into()])
    }

    #[track_caller]
    fn check(prompt: &Prompt, expected: &[Piece<'_>]) {
        assert_eq!(prompt.pieces().collect::<Vec<_>>(), expected, "{prompt:?}");
    }

    #[test]
    fn texts_and_images_keep_their_order() {
        let (one, two) = (image(b"1"), image(b"2"));
        assert_eq!(&*both().text, "a\n\nb");
        let order = [Piece::Text("a"), Piece::Image(&one), Piece::Text("b"), Piece::Image(&two)];
        check(&both(), &order);
        check(
            &Prompt::joined([one.clone().into(), two.clone().into(), "c".into()]),
            &[Piece::Image(&one), Piece::Image(&two), Piece::Text("c")],
        );
        check(&Prompt::joined(["a".into(), "b".into()]), &[Piece::Text("a\n\nb")]);
        check(&one.clone().into(), &[Piece::Image(&one)]);
        check(&Prompt::default(), &[]);
    }

    #[test]
    fn images_stay_where_they_are_when_text_is_added() {
        let (one, two) = (image(b"1"), image(b"2"));
        let order = [Piece::Text("a"), Piece::Image(&one), Piece::Text("b"), Piece::Image(&two)];
        let longer = both().behind("facts é\n\n");
        check(&longer, &[&[Piece::Text("facts é\n\na")][..], &order[1..]].concat());
        let end = [Piece::Text("more")];
        check(&both().with_text("a\n\nb\n\nmore".into()), &[&order[..], &end].concat());
        let others = [Piece::Text("others"), Piece::Image(&one), Piece::Image(&two)];
        check(&both().with_text("others".into()), &others);
    }

    #[test]
    fn words_take_the_place_of_images() {
        let text = |prompt: Prompt| prompt.text_with(|image| format!("({})", image.bytes()));
        assert_eq!(text(both()), "a\n\n(1)\n\nb\n\n(1)");
        assert_eq!(text(both().behind("facts\n\n")), "facts\n\na\n\n(1)\n\nb\n\n(1)");
        let images = [image(b"1").into(), image(b"12").into(), Prompt::from("c")];
        assert_eq!(text(Prompt::joined(images)), "(1)\n\n(2)\n\nc");
        assert_eq!(text(Prompt::from("a\n")), "a\n");
    }

    #[test]
    fn a_place_that_is_none_is_the_next_one_before_it() {
        let one = image(b"1");
        let placed = |at| Prompt { images: Arc::new([one.placed(at)]), ..Prompt::from("é b") };
        check(&placed(1), &[Piece::Image(&one), Piece::Text("é b")]);
        check(&placed(usize::MAX), &[Piece::Text("é b"), Piece::Image(&one)]);
    }

    #[test]
    fn a_prompt_is_blank_without_words_and_images() {
        assert!(Prompt::from(" \n").is_blank() && Prompt::default().is_blank());
        assert!(!Prompt::from(image(b"1")).is_blank() && !both().is_blank());
    }
}
