//! Images within the bodies of lines.

use serde::{Deserialize, Serialize};

use super::Text;
use super::body::{named, text};
use crate::event::EventKind;
use crate::message::{Image, ImageKind, Placed, Prompt};

#[derive(Serialize, Deserialize)]
pub(super) struct ImageBody<'a> {
    media_type: Text<'a>,
    base64: Text<'a>,
}

impl<'a> ImageBody<'a> {
    pub(super) fn of(image: &'a Image) -> Self {
        Self { media_type: image.kind.media_type().into(), base64: text(&image.base64) }
    }

    pub(super) fn into_image(self) -> Result<Image, String> {
        let kind = named(&ImageKind::ALL, ImageKind::media_type, &self.media_type)?;
        Ok(Image { kind, base64: self.base64.into() })
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Prompted<'a> {
    text: Text<'a>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    images: Vec<PlacedBody<'a>>,
}

/// An image, and how many bytes of the text stand before it.
#[derive(Serialize, Deserialize)]
struct PlacedBody<'a> {
    at: usize,
    media_type: Text<'a>,
    base64: Text<'a>,
}

impl<'a> Prompted<'a> {
    pub(super) fn of(prompt: &'a Prompt) -> Self {
        let placed = |Placed { at, image }: &'a Placed| {
            let ImageBody { media_type, base64 } = ImageBody::of(image);
            PlacedBody { at: *at, media_type, base64 }
        };
        Self { text: text(&prompt.text), images: prompt.images.iter().map(placed).collect() }
    }

    pub(super) fn into_kind(self) -> Result<EventKind, String> {
        let placed = |PlacedBody { at, media_type, base64 }| -> Result<Placed, String> {
            Ok(Placed { at, image: ImageBody { media_type, base64 }.into_image()? })
        };
        let images = self.images.into_iter().map(placed).collect::<Result<_, _>>()?;
        Ok(EventKind::Prompted(Prompt { text: self.text.into(), images }))
    }
}
