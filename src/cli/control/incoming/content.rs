//! What a message holds: texts, and images between them.
//!
//! A message with something that cannot be taken is refused as a whole, and
//! nothing is left out of it: a model that does not see what it is asked about
//! answers all the same.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::short;
use crate::message::{IMAGE_CAP, Image, ImageKind, Prompt, byte_size};
use crate::tool::read::{SIDE_CAP, Unfit, fits};

/// Returns what a message says; the error is why it cannot be taken.
pub(super) fn prompt(fields: &Map<String, Value>) -> Result<Prompt, String> {
    let content = fields.get("message").and_then(|message| message.get("content"));
    let prompt = match content {
        Some(Value::String(text)) => text.as_str().into(),
        Some(Value::Array(blocks)) => {
            Prompt::joined(blocks.iter().map(block).collect::<Result<Vec<_>, _>>()?)
        }
        Some(_) | None => return Err("the message has no `content`".to_owned()),
    };
    match prompt.is_blank() {
        true => Err("the message is empty".to_owned()),
        false => Ok(prompt),
    }
}

fn block(block: &Value) -> Result<Prompt, String> {
    match (word(block, "type"), word(block, "text")) {
        (Some("text"), Some(text)) => Ok(text.into()),
        (Some("image"), _) => image(&block["source"]).map(Prompt::from),
        (kind, _) => {
            let kind = short(kind.unwrap_or("unknown"));
            Err(format!("a message may hold text and images, and this one holds a block `{kind}`"))
        }
    }
}

/// Reads an image. Its bytes say which format it has, and the name only that it
/// is one: clients name them by their files' names.
fn image(source: &Value) -> Result<Image, String> {
    match word(source, "type") {
        Some("base64") => {}
        Some("url") => {
            return Err("an image is given by a `url`, and none is fetched: send it as `base64`, \
                        with its `media_type` and `data`"
                .to_owned());
        }
        other => {
            let other = short(other.unwrap_or("unknown"));
            return Err(format!("an image comes as `base64`, and this one's source is `{other}`"));
        }
    }
    let name = word(source, "media_type").unwrap_or_default();
    if !ImageKind::ALL.iter().any(|kind| kind.media_type() == name) {
        return Err(format!(
            "PNG, JPEG, WebP and GIF are taken, and an image is `{}`",
            short(name)
        ));
    }
    let data = word(source, "data").unwrap_or_default().trim();
    let bytes = STANDARD.decode(data).map_err(|_| "the `data` of an image is no base64")?;
    if bytes.len() > IMAGE_CAP {
        let [has, most] = [bytes.len(), IMAGE_CAP].map(|bytes| byte_size(bytes as u64));
        return Err(format!("an image is too large: it has {has}, and at most {most} are taken"));
    }
    let kind = ImageKind::of(&bytes)
        .ok_or_else(|| format!("the `data` of an image is no {name}, nor another image"))?;
    match fits(kind, &bytes) {
        Ok(_) => Ok(Image::new(kind, &bytes)),
        Err(Unfit::Damaged) => Err("an image is cut off or damaged".to_owned()),
        Err(Unfit::TooWide(size)) => Err(format!(
            "an image is too large: it has {size} pixels, and at most {SIDE_CAP} a side are taken"
        )),
    }
}

fn word<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::Piece;
    use crate::tool::testing::pictures::{jpeg, png};

    fn read(content: &Value) -> Result<Prompt, String> {
        let fields = json!({"message": {"role": "user", "content": content}});
        prompt(fields.as_object().unwrap())
    }

    fn block_of(media_type: &str, bytes: &[u8]) -> Value {
        let data = STANDARD.encode(bytes);
        let source = json!({"type": "base64", "media_type": media_type, "data": data});
        json!({"type": "image", "source": source})
    }

    #[track_caller]
    fn refused(source: &Value, why: &str) {
        let content = json!([{"type": "text", "text": "see"}, {"type": "image", "source": source}]);
        assert_eq!(read(&content), Err(why.to_owned()), "{source}");
    }

    #[test]
    fn texts_and_images_are_taken_in_their_order() {
        let (first, second) = (png(5, 3), jpeg(4, 2));
        let text = |text: &str| json!({"type": "text", "text": text});
        let content = json!([
            block_of("image/png", &first),
            text("one"),
            block_of("image/jpeg", &second),
            text("two"),
        ]);
        let images = [(ImageKind::Png, &first), (ImageKind::Jpeg, &second)];
        let [png, jpeg] = images.map(|(kind, bytes)| Image::new(kind, bytes));
        let expected =
            [Piece::Image(&png), Piece::Text("one"), Piece::Image(&jpeg), Piece::Text("two")];
        assert_eq!(read(&content).unwrap().pieces().collect::<Vec<_>>(), expected);
        assert_eq!(read(&json!([block_of("image/png", &first)])), Ok(png.clone().into()));
        // Its bytes say what it is.
        assert_eq!(read(&json!([block_of("image/webp", &first)])), Ok(png.into()));
    }

    #[test]
    fn what_no_model_could_be_shown_is_refused_with_what_is_wrong() {
        let of = |media_type: &str, bytes: &[u8]| block_of(media_type, bytes)["source"].clone();
        refused(
            &json!({"type": "url", "url": "https://example.com/a.png"}),
            "an image is given by a `url`, and none is fetched: send it as `base64`, with its \
             `media_type` and `data`",
        );
        refused(
            &json!({"type": "file", "file_id": "f-1"}),
            "an image comes as `base64`, and this one's source is `file`",
        );
        refused(&Value::Null, "an image comes as `base64`, and this one's source is `unknown`");
        refused(
            &of("image/tiff", b"II*\0"),
            "PNG, JPEG, WebP and GIF are taken, and an image is `image/tiff`",
        );
        refused(
            &json!({"type": "base64", "media_type": "image/png", "data": "%%"}),
            "the `data` of an image is no base64",
        );
        refused(
            &json!({"type": "base64", "media_type": "image/png"}),
            "the `data` of an image is no image/png, nor another image",
        );
        refused(
            &of("image/png", &vec![0; IMAGE_CAP + 1]),
            "an image is too large: it has 3.7 MB, and at most 3.7 MB are taken",
        );
        let whole = png(5, 3);
        refused(&of("image/png", &whole[..whole.len() - 1]), "an image is cut off or damaged");
        refused(
            &of("image/png", &png(8_001, 3)),
            "an image is too large: it has 8001 x 3 pixels, and at most 8000 a side are taken",
        );
    }
}
