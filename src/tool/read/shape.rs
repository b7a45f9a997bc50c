//! Whether an image is whole, and how large it is, without decoding it.
//!
//! A provider that cannot decode an image refuses the whole conversation, now
//! and with every later turn. So the parts that an image is made of are walked
//! to its end. What is inside the compressed ones is not looked at.

use std::fmt;

use crate::message::ImageKind;

/// Width and height in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// How wide it is.
    pub width: u32,
    /// How high it is.
    pub height: u32,
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}", self.width, self.height)
    }
}

impl Size {
    /// Returns the size that holds both.
    fn max(self, other: Self) -> Self {
        Self { width: self.width.max(other.width), height: self.height.max(other.height) }
    }
}

/// Returns the size of an image; `None` if it is cut off, damaged or empty.
/// What stands behind its end does not matter.
pub(super) fn size(kind: ImageKind, bytes: &[u8]) -> Option<Size> {
    let size = match kind {
        ImageKind::Png => png(bytes),
        ImageKind::Jpeg => jpeg(bytes),
        ImageKind::Webp => webp(bytes),
        ImageKind::Gif => gif(bytes),
    };
    size.filter(|size| size.width > 0 && size.height > 0)
}

/// What is left of the bytes. Everything is `None` past their end.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Two bytes, the larger half first; `le` has it last.
    fn be16(&mut self) -> Option<u32> {
        self.array().map(|bytes| u16::from_be_bytes(bytes).into())
    }

    fn le16(&mut self) -> Option<u32> {
        self.array().map(|bytes| u16::from_le_bytes(bytes).into())
    }

    fn le24(&mut self) -> Option<u32> {
        self.array().map(|[a, b, c]| u32::from_le_bytes([a, b, c, 0]))
    }

    fn be32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn le32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// As many bytes as a length says that was read before.
    fn part(&mut self, length: u32) -> Option<&'a [u8]> {
        self.take(usize::try_from(length).ok()?)
    }
}

/// PNG: chunks of length, name, data and checksum, from `IHDR` to `IEND`.
fn png(bytes: &[u8]) -> Option<Size> {
    let mut rest = Rest(bytes.get(8..)?);
    let mut header = None;
    let mut has_data = false;
    loop {
        let length = rest.be32()?;
        let name = rest.array::<4>()?;
        let data = rest.part(length)?;
        rest.take(4)?;
        match (&name, header) {
            (b"IHDR", None) => header = Some(png_header(data)?),
            (b"IHDR", Some(_)) | (_, None) => return None,
            (b"IDAT", Some(_)) => has_data |= length > 0,
            (b"IEND", Some(size)) => return has_data.then_some(size),
            // Where a file has a hole, its chunks have no names.
            (name, Some(_)) if !name.is_ascii() || name.contains(&0) => return None,
            (_, Some(_)) => {}
        }
    }
}

fn png_header(data: &[u8]) -> Option<Size> {
    let mut rest = Rest(data);
    let size = Size { width: rest.be32()?, height: rest.be32()? };
    let [depth, colour, compression, filter, interlace] = rest.array()?;
    let is_known = match colour {
        0 => matches!(depth, 1 | 2 | 4 | 8 | 16),
        3 => matches!(depth, 1 | 2 | 4 | 8),
        2 | 4 | 6 => matches!(depth, 8 | 16),
        _ => false,
    };
    (is_known && rest.0.is_empty() && (compression, filter) == (0, 0) && interlace < 2)
        .then_some(size)
}

/// JPEG: segments behind markers, up to the marker of the end. A thumbnail has
/// an end of its own, but it lies within a segment.
fn jpeg(bytes: &[u8]) -> Option<Size> {
    let mut rest = Rest(bytes.get(2..)?);
    let mut frame = None;
    let mut has_scan = false;
    loop {
        match marker(&mut rest)? {
            0xd9 => return frame.filter(|_| has_scan),
            // The frames that every decoder knows: baseline, extended,
            // progressive.
            0xc0..=0xc2 => {
                let mut segment = segment(&mut rest)?;
                segment.byte()?;
                let (height, width) = (segment.be16()?, segment.be16()?);
                frame = Some(Size { width, height });
            }
            0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => return None,
            0xda => {
                segment(&mut rest)?;
                has_scan = frame.is_some();
                skip_scan(&mut rest)?;
            }
            // These have no segment, and none of them stands here.
            0x00 | 0x01 | 0xd0..=0xd8 => return None,
            _ => {
                segment(&mut rest)?;
            }
        }
    }
}

/// Reads a marker. Any number of fill bytes may stand in front of it.
fn marker(rest: &mut Rest<'_>) -> Option<u8> {
    if rest.byte()? != 0xff {
        return None;
    }
    loop {
        match rest.byte()? {
            0xff => {}
            marker => return Some(marker),
        }
    }
}

/// Reads a segment, whose length counts itself.
fn segment<'a>(rest: &mut Rest<'a>) -> Option<Rest<'a>> {
    let length = rest.be16()?.checked_sub(2)?;
    rest.part(length).map(Rest)
}

/// Skips compressed data, up to the next marker that does not belong to it.
fn skip_scan(rest: &mut Rest<'_>) -> Option<()> {
    loop {
        let at = rest.0.iter().position(|&byte| byte == 0xff)?;
        match rest.0.get(at + 1)? {
            0x00 | 0xd0..=0xd7 => {
                rest.take(at + 2)?;
            }
            _ => {
                rest.take(at)?;
                return Some(());
            }
        }
    }
}

/// GIF: the screen, then blocks up to the trailer. A frame may be larger than
/// the screen.
fn gif(bytes: &[u8]) -> Option<Size> {
    let mut rest = Rest(bytes.get(6..)?);
    let mut size = Size { width: rest.le16()?, height: rest.le16()? };
    let mut has_frame = false;
    let [flags, _, _] = rest.array()?;
    skip_colours(&mut rest, flags)?;
    loop {
        match rest.byte()? {
            b';' => return has_frame.then_some(size),
            b'!' => {
                rest.byte()?;
                skip_blocks(&mut rest)?;
            }
            b',' => {
                rest.take(4)?;
                size = size.max(Size { width: rest.le16()?, height: rest.le16()? });
                let flags = rest.byte()?;
                skip_colours(&mut rest, flags)?;
                // The width of the codes.
                rest.byte().filter(|width| (1..12).contains(width))?;
                has_frame |= skip_blocks(&mut rest)? > 0;
            }
            _ => return None,
        }
    }
}

fn skip_colours(rest: &mut Rest<'_>, flags: u8) -> Option<()> {
    if flags & 0b1000_0000 != 0 {
        rest.take(3 << ((flags & 0b111) + 1))?;
    }
    Some(())
}

/// Skips blocks of a length and data up to an empty one; returns how many.
fn skip_blocks(rest: &mut Rest<'_>) -> Option<usize> {
    let mut count = 0;
    loop {
        match rest.byte()? {
            0 => return Some(count),
            length => rest.take(length.into())?,
        };
        count += 1;
    }
}

/// WebP: a RIFF file whose length is in its head, of chunks of name, length and
/// data.
fn webp(bytes: &[u8]) -> Option<Size> {
    let mut head = Rest(bytes.get(4..)?);
    let length = head.le32()?;
    let mut rest = Rest(head.part(length)?);
    rest.take(4)?;
    let mut canvas = None;
    let mut picture: Option<Size> = None;
    while !rest.0.is_empty() {
        let name = rest.array::<4>()?;
        let length = rest.le32()?;
        let mut data = Rest(rest.part(length)?);
        // A byte fills up to an even length; some writers leave out the last.
        if length % 2 == 1 && !rest.0.is_empty() {
            rest.byte()?;
        }
        match &name {
            b"VP8X" => {
                data.take(4)?;
                canvas = Some(one_more(data.le24()?, data.le24()?));
            }
            b"VP8 " => picture = Some(vp8(data)?),
            b"VP8L" => picture = Some(vp8l(data)?),
            // A frame of an animation: its place, its size, its time, a picture.
            b"ANMF" => {
                data.take(6)?;
                let frame = one_more(data.le24()?, data.le24()?);
                data.take(4 + 8)?;
                picture = Some(picture.map_or(frame, |picture| picture.max(frame)));
            }
            _ => {}
        }
    }
    picture.map(|picture| canvas.map_or(picture, |canvas| picture.max(canvas)))
}

/// Sizes that are stored as one less than they are.
fn one_more(width: u32, height: u32) -> Size {
    Size { width: width + 1, height: height + 1 }
}

/// A lossy picture: a key frame whose first part is there.
fn vp8(mut data: Rest<'_>) -> Option<Size> {
    let tag = data.le24()?;
    let is_key_frame = tag & 1 == 0;
    let mark = data.array::<3>()?;
    let size = Size { width: data.le16()? & 0x3fff, height: data.le16()? & 0x3fff };
    data.part(tag >> 5)?;
    (is_key_frame && mark == [0x9d, 0x01, 0x2a]).then_some(size)
}

/// A lossless picture.
fn vp8l(mut data: Rest<'_>) -> Option<Size> {
    let mark = data.byte()?;
    let bits = data.le32()?;
    (mark == 0x2f && bits >> 29 == 0 && !data.0.is_empty())
        .then(|| one_more(bits & 0x3fff, bits >> 14 & 0x3fff))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tool::testing::pictures::{PICTURES, gif, jpeg, png, webp};

    fn of(bytes: &[u8]) -> Option<(u32, u32)> {
        let kind = ImageKind::of(bytes)?;
        size(kind, bytes).map(|Size { width, height }| (width, height))
    }

    #[test]
    fn pictures_that_programs_wrote_are_whole() {
        for (name, bytes) in PICTURES {
            assert_eq!(of(bytes), Some((5, 3)), "{name}");
        }
    }

    #[test]
    fn whatever_is_cut_off_is_not_whole() {
        for (name, bytes) in PICTURES {
            for end in 0..bytes.len() {
                assert_eq!(of(&bytes[..end]), None, "{name}, {end} bytes");
            }
        }
    }

    #[test]
    fn what_stands_behind_the_end_does_not_matter() {
        for (name, bytes) in PICTURES {
            assert_eq!(of(&[bytes, &b"\0more\xff\xd8"[..]].concat()), Some((5, 3)), "{name}");
        }
    }

    #[test]
    fn sizes_are_read_from_every_format() {
        for (width, height) in [(5, 3), (800, 600), (8_001, 3), (16_383, 16_383)] {
            let expected = Some((width.into(), height.into()));
            assert_eq!(of(&png(width.into(), height.into())), expected);
            assert_eq!(of(&jpeg(width, height)), expected);
            assert_eq!(of(&webp(width, height)), expected);
            assert_eq!(of(&gif(width.max(5), height.max(3))), expected);
        }
        assert_eq!(of(&png(u32::MAX, u32::MAX)), Some((u32::MAX, u32::MAX)));
        for bytes in [png(0, 1), jpeg(1, 0), webp(0, 1)] {
            assert_eq!(of(&bytes), None);
        }
        // A frame counts that is larger than the screen.
        assert_eq!(of(&gif(0, 9)), Some((5, 9)));
    }

    #[test]
    fn a_hole_in_a_file_is_seen() {
        for (name, bytes) in PICTURES {
            let mut holed = bytes.to_vec();
            // What a crash leaves of a file that was being written.
            holed[bytes.len() / 2..].fill(0);
            let is_inside_compressed_data = matches!(name, "lossy.webp" | "lossless.webp");
            assert_eq!(of(&holed).is_none(), !is_inside_compressed_data, "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            which in 0..PICTURES.len(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..9),
        ) {
            let mut bytes = PICTURES[which].1.to_vec();
            for (index, byte) in changes {
                let at = index.index(bytes.len());
                bytes[at] = byte;
            }
            for kind in ImageKind::ALL {
                let _ = size(kind, &bytes);
            }
        }
    }
}
