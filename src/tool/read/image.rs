//! Images among the files: shown to a model that takes them.
//!
//! What an image is, is told by its bytes and not by its name. Nothing is shown
//! that a provider might refuse, since the conversation would be refused with
//! it ever after.

use std::io;

use crate::message::{IMAGE_CAP, Image, ImageKind, Output, byte_size};
use crate::tool::ToolError;

use super::lines::Lines;
use super::shape::{Size, size};

/// Most pixels of a side. Anthropic's API refuses more.
pub const SIDE_CAP: u32 = 8_000;

/// Why an image is shown to no model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfit {
    /// It is cut off, damaged or empty.
    Damaged,
    /// A side has more pixels than [`SIDE_CAP`].
    TooWide(Size),
}

/// Returns the size of an image that a provider takes.
///
/// # Errors
///
/// Why none does.
pub fn fits(kind: ImageKind, bytes: &[u8]) -> Result<Size, Unfit> {
    let size = size(kind, bytes).ok_or(Unfit::Damaged)?;
    if size.width.max(size.height) > SIDE_CAP {
        return Err(Unfit::TooWide(size));
    }
    Ok(size)
}

/// What is known of a file before it is read.
pub(super) struct Found<'a> {
    /// The path as it is shown.
    pub(super) shown: &'a str,
    pub(super) kind: ImageKind,
    /// The length of the file.
    pub(super) bytes: u64,
}

/// Reads the image that a file is.
///
/// # Errors
///
/// The outer one is the file system's; the inner one says to the model why it
/// cannot be shown the image.
pub(super) fn image(
    found: &Found<'_>,
    takes_images: bool,
    lines: Lines<'_>,
) -> io::Result<Result<Output, ToolError>> {
    let Found { shown, kind, bytes } = *found;
    let (name, length) = (kind.media_type(), byte_size(bytes));
    if !takes_images {
        return Ok(Err(ToolError::tell(format!(
            "{shown} is an image ({name}, {length}), and your model takes no images. Go on without seeing it, and say so."
        ))));
    }
    let content = lines.all(IMAGE_CAP)?;
    if content.len() > IMAGE_CAP {
        let most = byte_size(IMAGE_CAP as u64);
        return Ok(Err(too_large(&format!(
            "{shown} is an image of {length}; at most {most} can be shown."
        ))));
    }
    let size = match fits(kind, &content) {
        Ok(size) => size,
        Err(Unfit::Damaged) => {
            return Ok(Err(ToolError::tell(format!(
                "{shown} begins as {name} does, but is cut off or damaged; it cannot be shown."
            ))));
        }
        Err(Unfit::TooWide(size)) => {
            return Ok(Err(too_large(&format!(
                "{shown} is an image of {size} pixels; at most {SIDE_CAP} a side can be shown."
            ))));
        }
    };
    let text = format!("{shown}: {name}, {size} pixels, {length}");
    Ok(Ok(Output { images: vec![Image::new(kind, &content)], ..Output::ok(text) }))
}

fn too_large(what: &str) -> ToolError {
    ToolError::tell(format!(
        "{what} Make a smaller copy and read that, for example with ImageMagick: \
         magick FILE -resize 1500x1500 COPY.jpg"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tool::Tool as _;
    use crate::tool::files::Known;
    use crate::tool::read::Read;
    use crate::tool::testing::pictures::{PICTURES, jpeg, picture, png};
    use crate::tool::testing::{Place, call, granted};

    /// Reads a file that holds these bytes; a refusal is its text.
    async fn read(bytes: &[u8], name: &str) -> Result<Output, String> {
        let place = Place::new();
        place.put(name, bytes);
        let arguments = json!({"file_path": name, "limit": 1});
        let granted = granted(&Read, &place.context, &arguments);
        let output = Read.run(&place.context, &granted, arguments).await;
        output.map_err(|error| error.to_string())
    }

    async fn check_refused(bytes: &[u8], expected: &str) {
        assert_eq!(read(bytes, "a").await, Err(expected.to_owned()));
    }

    const SHRINK: &str = "Make a smaller copy and read that, for example with ImageMagick: magick FILE \
                          -resize 1500x1500 COPY.jpg";

    #[tokio::test]
    async fn an_image_is_shown_whatever_its_name_says() {
        for (name, bytes) in PICTURES {
            let kind = ImageKind::of(bytes).unwrap();
            let (format, length) = (kind.media_type(), bytes.len());
            let text = format!("a.txt: {format}, 5 x 3 pixels, {length} bytes");
            let expected = Output { images: vec![Image::new(kind, bytes)], ..Output::ok(text) };
            assert_eq!(read(bytes, "a.txt").await, Ok(expected), "{name}");
        }
    }

    #[tokio::test]
    async fn a_model_that_takes_no_images_is_told_what_it_is() {
        let mut place = Place::new();
        place.context.takes_images = false;
        place.put("a.png", picture("colour.png"));
        let refused = place.call(&Read, json!({"file_path": "a.png"})).await;
        assert_eq!(
            refused.unwrap_err(),
            "a.png is an image (image/png, 87 bytes), and your model takes no images. Go on without \
             seeing it, and say so."
        );
    }

    #[tokio::test]
    async fn what_a_provider_would_refuse_is_not_shown() {
        let begun = &picture("grey.jpg")[..100];
        let damaged = "a begins as image/jpeg does, but is cut off or damaged; it cannot be shown.";
        check_refused(begun, damaged).await;
        let wide = "a is an image of 8001 x 3 pixels; at most 8000 a side can be shown.";
        check_refused(&jpeg(8_001, 3), &format!("{wide} {SHRINK}")).await;
        let high = "a is an image of 1 x 4294967295 pixels; at most 8000 a side can be shown.";
        check_refused(&png(1, u32::MAX), &format!("{high} {SHRINK}")).await;
        assert!(read(&png(8_000, 8_000), "a").await.is_ok());
    }

    #[tokio::test]
    async fn an_image_has_at_most_so_many_bytes() {
        let padded = |length: usize| {
            let mut bytes = picture("colour.png").to_vec();
            bytes.resize(length, 0);
            bytes
        };
        let shown = read(&padded(IMAGE_CAP), "a").await.unwrap();
        assert_eq!(shown.images[0].base64.len(), 5_000_000);
        let large = "a is an image of 3.7 MB; at most 3.7 MB can be shown.";
        check_refused(&padded(IMAGE_CAP + 1), &format!("{large} {SHRINK}")).await;
        let huge = "a is an image of 12.0 MB; at most 3.7 MB can be shown.";
        check_refused(&padded(12_000_000), &format!("{huge} {SHRINK}")).await;
    }

    #[tokio::test]
    async fn a_text_that_begins_as_an_image_does_is_a_text() {
        let shown = read(b"GIF89a is a format.\n", "a").await;
        assert_eq!(shown, Ok(Output::ok("     1\tGIF89a is a format.\n")));
    }

    #[tokio::test]
    async fn having_seen_an_image_allows_nobody_to_overwrite_it() {
        let place = Place::new();
        let path = place.put("a.png", picture("colour.png"));
        call(&Read, &place.context, json!({"file_path": "a.png"})).await.unwrap();
        assert_eq!(place.context.seen.of(&path), Known::default());
    }
}
