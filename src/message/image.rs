//! Images that a model sees.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Most bytes of an image, before it is encoded. Providers take 5 MB of base64,
/// which is a third longer.
pub const IMAGE_CAP: usize = 3_750_000;

/// An image. A clone shares its bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    /// Its format.
    pub kind: ImageKind,
    /// Its bytes in base64, as every API takes them.
    pub base64: Arc<str>,
}

impl Image {
    /// Encodes an image, once for all the requests that will hold it.
    #[must_use]
    pub fn new(kind: ImageKind, bytes: &[u8]) -> Self {
        Self { kind, base64: STANDARD.encode(bytes).into() }
    }

    /// Returns the URL that is the image itself.
    #[must_use]
    pub fn data_url(&self) -> String {
        format!("data:{};base64,{}", self.kind.media_type(), self.base64)
    }

    /// Returns how many bytes the image has.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let digits = self.base64.trim_end_matches('=').len() as u64;
        digits * 3 / 4
    }
}

/// Shows how long an image is, not what is in it.
impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Image({}, {} characters)", self.kind.media_type(), self.base64.len())
    }
}

/// The formats that models take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageKind {
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
    /// WebP.
    Webp,
    /// GIF.
    Gif,
}

impl ImageKind {
    /// Every format.
    pub const ALL: [Self; 4] = [Self::Png, Self::Jpeg, Self::Webp, Self::Gif];

    /// Returns the name that requests, records and the log use.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Webp => "image/webp",
            Self::Gif => "image/gif",
        }
    }

    /// Finds out the format of a file from its first bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Self::Png),
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Self::Webp),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Self::Gif),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_knows_its_length_and_is_a_url() {
        for (bytes, base64) in [(&b""[..], ""), (b"i", "aQ=="), (b"im", "aW0="), (b"ima", "aW1h")] {
            let image = Image::new(ImageKind::Png, bytes);
            assert_eq!((&*image.base64, image.bytes()), (base64, bytes.len() as u64));
            assert_eq!(image.data_url(), format!("data:image/png;base64,{base64}"));
        }
    }

    #[test]
    fn the_first_bytes_tell_the_format() {
        for (bytes, kind) in [
            (&b"\x89PNG\r\n\x1a\nrest"[..], Some(ImageKind::Png)),
            (b"\xff\xd8\xff\xe0", Some(ImageKind::Jpeg)),
            (b"RIFF\0\0\0\0WEBPVP8 ", Some(ImageKind::Webp)),
            (b"GIF89a", Some(ImageKind::Gif)),
            (b"GIF87a", Some(ImageKind::Gif)),
            (b"RIFF\0\0\0\0WAVE", None),
            (b"PNG", None),
            (b"", None),
        ] {
            assert_eq!(ImageKind::of(bytes), kind, "{bytes:?}");
        }
    }
}
