//! Small pictures of every format, five pixels wide and three high.

/// What other programs wrote.
pub(crate) const PICTURES: [(&str, &[u8]); 9] = [
    ("colour.png", include_bytes!("../../../tests/fixtures/pictures/colour.png")),
    ("grey.jpg", include_bytes!("../../../tests/fixtures/pictures/grey.jpg")),
    ("progressive.jpg", include_bytes!("../../../tests/fixtures/pictures/progressive.jpg")),
    ("still.gif", include_bytes!("../../../tests/fixtures/pictures/still.gif")),
    ("animated.gif", include_bytes!("../../../tests/fixtures/pictures/animated.gif")),
    ("lossy.webp", include_bytes!("../../../tests/fixtures/pictures/lossy.webp")),
    ("lossless.webp", include_bytes!("../../../tests/fixtures/pictures/lossless.webp")),
    ("alpha.webp", include_bytes!("../../../tests/fixtures/pictures/alpha.webp")),
    ("animated.webp", include_bytes!("../../../tests/fixtures/pictures/animated.webp")),
];

pub(crate) fn picture(name: &str) -> &'static [u8] {
    PICTURES.iter().find(|(known, _)| *known == name).expect("there is such a picture").1
}

/// A PNG that says it is so large.
pub(crate) fn png(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = picture("colour.png").to_vec();
    put(&mut bytes, 16, &[width.to_be_bytes(), height.to_be_bytes()].concat());
    bytes
}

/// A JPEG that says it is so large.
pub(crate) fn jpeg(width: u16, height: u16) -> Vec<u8> {
    let mut bytes = picture("grey.jpg").to_vec();
    let frame = bytes.windows(2).position(|pair| pair == [0xff, 0xc0]).expect("it has a frame");
    put(&mut bytes, frame + 5, &[height.to_be_bytes(), width.to_be_bytes()].concat());
    bytes
}

/// A GIF whose screen says that it is so large.
pub(crate) fn gif(width: u16, height: u16) -> Vec<u8> {
    let mut bytes = picture("still.gif").to_vec();
    put(&mut bytes, 6, &[width.to_le_bytes(), height.to_le_bytes()].concat());
    bytes
}

/// A lossy WebP that says it is so large.
pub(crate) fn webp(width: u16, height: u16) -> Vec<u8> {
    let mut bytes = picture("lossy.webp").to_vec();
    put(&mut bytes, 26, &[width.to_le_bytes(), height.to_le_bytes()].concat());
    bytes
}

fn put(bytes: &mut [u8], at: usize, new: &[u8]) {
    bytes[at..at + new.len()].copy_from_slice(new);
}
