//! Text files in UTF-16: read as UTF-8, and written back as they were.
//!
//! Only a byte order mark tells for sure. All other bytes are left as they are: what
//! is not UTF-8 in them stays, and what looks like UTF-16 without a mark is binary, with
//! a word on how to convert it.

use std::borrow::Cow;

/// Smallest share of bytes, one in so many, that are NUL in UTF-16 of Latin scripts.
const NUL_SHARE: usize = 4;

/// Encoding of a file's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextEncoding {
    /// As bytes that are taken as they are, as UTF-8 wherever they are.
    Bytes,
    /// UTF-16, little-endian, behind a byte order mark.
    Utf16Le,
    /// UTF-16, big-endian, behind a byte order mark.
    Utf16Be,
}

impl TextEncoding {
    /// Returns the encoding that the first bytes of a file name.
    #[must_use]
    pub fn named_by(start: &[u8]) -> Self {
        match start {
            // The mark of UTF-32.
            [0xff, 0xfe, 0, 0, ..] => Self::Bytes,
            [0xff, 0xfe, ..] => Self::Utf16Le,
            [0xfe, 0xff, ..] => Self::Utf16Be,
            _ => Self::Bytes,
        }
    }

    /// Returns the text of a file without its mark, and how it is written. Bytes that
    /// are not valid UTF-16 are kept as they are.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> (Self, Cow<'_, [u8]>) {
        let encoding = Self::named_by(bytes);
        let Some(unit) = encoding.unit() else { return (Self::Bytes, Cow::Borrowed(bytes)) };
        let (pairs, rest) = bytes[2..].as_chunks::<2>();
        let text: Result<String, _> =
            char::decode_utf16(pairs.iter().map(|pair| unit(*pair))).collect();
        match text {
            Ok(text) if rest.is_empty() => (encoding, Cow::Owned(text.into_bytes())),
            Ok(_) | Err(_) => (Self::Bytes, Cow::Borrowed(bytes)),
        }
    }

    /// Encodes the text of a whole file, with the byte order mark.
    #[must_use]
    pub fn encode(self, text: Vec<u8>) -> Vec<u8> {
        let mut bytes = self.mark().to_vec();
        bytes.extend_from_slice(&self.encode_part(&text));
        bytes
    }

    /// Encodes a part of a text, without a byte order mark.
    #[must_use]
    pub fn encode_part(self, text: &[u8]) -> Cow<'_, [u8]> {
        let to_bytes: fn(u16) -> [u8; 2] = match self {
            Self::Bytes => return Cow::Borrowed(text),
            Self::Utf16Le => u16::to_le_bytes,
            Self::Utf16Be => u16::to_be_bytes,
        };
        let text = String::from_utf8_lossy(text);
        Cow::Owned(text.encode_utf16().flat_map(to_bytes).collect())
    }

    /// Returns the byte order mark.
    #[must_use]
    pub fn mark(self) -> &'static [u8] {
        match self {
            Self::Bytes => b"",
            Self::Utf16Le => b"\xff\xfe",
            Self::Utf16Be => b"\xfe\xff",
        }
    }

    /// Returns the name of the encoding; `None` for bytes.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Bytes => None,
            Self::Utf16Le => Some("UTF-16LE"),
            Self::Utf16Be => Some("UTF-16BE"),
        }
    }

    fn unit(self) -> Option<fn([u8; 2]) -> u16> {
        match self {
            Self::Bytes => None,
            Self::Utf16Le => Some(u16::from_le_bytes),
            Self::Utf16Be => Some(u16::from_be_bytes),
        }
    }
}

/// Says how to convert a file that begins with `start`, if that looks like a text in
/// another encoding; may be empty. `shown` is its path.
#[must_use]
pub fn conversion_hint(start: &[u8], shown: &str) -> String {
    let nuls =
        |offset: usize| start.iter().skip(offset).step_by(2).filter(|&&byte| byte == 0).count();
    let is_many = |count: usize| count >= 2 && count * NUL_SHARE >= start.len();
    let (looks, name) = match start {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => ("is UTF-32", "UTF-32"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            ("begins as UTF-16 but is not valid UTF-16", "UTF-16")
        }
        _ => match (nuls(0), nuls(1)) {
            (0, odd) if is_many(odd) => ("looks like UTF-16 without a byte order mark", "UTF-16LE"),
            (even, 0) if is_many(even) => {
                ("looks like UTF-16 without a byte order mark", "UTF-16BE")
            }
            _ => return String::new(),
        },
    };
    format!(
        " It {looks}. If it is text, copy it to UTF-8 with Bash (`iconv -f {name} -t UTF-8 \
         '{shown}'`) or add a byte order mark: tools read and edit UTF-16 that has one."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_in_utf_16_is_read_and_written_back_as_it_was() {
        for encoding in [TextEncoding::Utf16Le, TextEncoding::Utf16Be] {
            for text in ["", "a\r\nb\n", "größe \u{1f600}", "\u{feff}a"] {
                let bytes = encoding.encode(text.into());
                let (found, read) = TextEncoding::decode(&bytes);
                assert_eq!((found, &*read), (encoding, text.as_bytes()));
            }
        }
    }

    #[test]
    fn invalid_utf_16_is_kept_as_bytes() {
        for bytes in [
            &b"\xff\xfea"[..],
            b"\xff\xfe\x00\xd8",
            b"\xff\xfe\x00\x00a\x00\x00\x00",
            b"a\x00",
            b"\xef\xbb\xbfa",
            b"",
        ] {
            assert_eq!(TextEncoding::decode(bytes), (TextEncoding::Bytes, Cow::Borrowed(bytes)));
            assert_eq!(TextEncoding::Bytes.encode(bytes.to_vec()), bytes);
        }
    }

    #[test]
    fn texts_in_other_encodings_come_with_a_word_on_how_to_convert_them() {
        let hint = |bytes: &[u8]| conversion_hint(bytes, "a");
        assert!(hint(b"o\x00n\x00e\x00").contains("`iconv -f UTF-16LE -t UTF-8 'a'`"));
        assert!(hint(b"\x00o\x00n\x00e").contains("UTF-16BE"));
        assert!(hint(b"\xff\xfe\x00\x00a\x00\x00\x00").contains("UTF-32"));
        assert!(hint(b"\xff\xfe\x00\xd8").contains("-f UTF-16 "));
        assert_eq!((hint(b"\x7fELF\0\0"), hint(b"abc"), hint(b"")), Default::default());
    }
}
