//! Images of results, in all the encodings that servers use.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;

use super::parts::text;
use crate::message::{IMAGE_CAP, Image, ImageKind, byte_size};

/// Base64 with or without padding, and with any unused bits in the last character.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// An image as a model can take it.
pub(super) enum Picture {
    Image(Image),
    /// SVG, which is text.
    Drawing(String),
}

/// Reads the image of a block. Its kind is detected from its bytes, since `mimeType` is often wrong
/// or missing.
///
/// # Errors
///
/// The block has no usable image; the reason, in words.
pub(super) fn read_image(block: &Value) -> Result<Picture, String> {
    let data = data(block).ok_or("it has no data")?;
    if data.starts_with("http://") || data.starts_with("https://") {
        return Err("it is a URL, not image data".to_owned());
    }
    let bytes = decode(data).ok_or("its data is not base64")?;
    if bytes.len() > IMAGE_CAP {
        return Err(format!("it is larger than {}", byte_size(IMAGE_CAP as u64)));
    }
    if let Some(kind) = ImageKind::of(&bytes) {
        return Ok(Picture::Image(Image::new(kind, &bytes)));
    }
    match String::from_utf8(bytes) {
        Ok(drawing) if drawing.contains("<svg") => Ok(Picture::Drawing(drawing)),
        Ok(_) | Err(_) => Err("it is neither PNG, JPEG, WebP nor GIF".to_owned()),
    }
}

/// Finds the data of a block, under the keys of MCP and of providers' APIs.
fn data(block: &Value) -> Option<&str> {
    let source = block.get("source").unwrap_or(&Value::Null);
    let address = block.get("image_url").unwrap_or(&Value::Null);
    let places = [
        text(block, "data"),
        text(block, "blob"),
        text(source, "data"),
        address.as_str().filter(|url| !url.is_empty()),
        text(address, "url"),
        text(block, "url"),
    ];
    places.into_iter().flatten().next()
}

/// Decodes base64: also with line breaks, as a `data:` URL, in the URL-safe alphabet, unpadded.
pub(super) fn decode(written: &str) -> Option<Vec<u8>> {
    let written = written.trim();
    let written = match written.get(..5).filter(|start| start.eq_ignore_ascii_case("data:")) {
        Some(_) => written.split_once(',')?.1,
        None => written,
    };
    let written = match written.contains('%') {
        true => Cow::Owned(written.replace("%2B", "+").replace("%2F", "/").replace("%3D", "=")),
        false => Cow::Borrowed(written),
    };
    // A line break that was escaped twice is a backslash and a letter.
    let written = match written.contains('\\') {
        true => Cow::Owned(written.replace("\\r", "").replace("\\n", "")),
        false => written,
    };
    let letters = written.bytes().filter(|byte| !byte.is_ascii_whitespace());
    let letters: Vec<u8> = letters
        .map(|byte| match byte {
            b'-' => b'+',
            b'_' => b'/',
            other => other,
        })
        .collect();
    LENIENT.decode(letters).ok().filter(|bytes| !bytes.is_empty())
}
