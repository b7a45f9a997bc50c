//! What parts of a row mean, and which colours a terminal gives them.
//!
//! An [`Ink`] is a meaning. A [`Palette`] is a theme on a terminal that knows so
//! many colours: it turns a meaning into the numbers of a colour sequence, which
//! `paint` writes. Nothing is ever told by colour alone.

mod highlight;

pub use highlight::{Coloured, Highlighter, Pen, ReadSides};

use crate::config::Theme;

/// What a part of a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Ink {
    /// Text.
    #[default]
    Plain,
    /// What can be passed over: frames, addresses, reasoning.
    Dim,
    /// Strong text.
    Strong,
    /// Stressed text.
    Emphasis,
    /// Struck out text.
    Struck,
    /// A heading.
    Heading,
    /// Code within text.
    Code,
    /// The words of a link.
    Link,
    /// What the user typed.
    Typed,
    /// What the keys point at.
    Picked,
    /// Something at work.
    Working,
    /// Something that went well.
    Good,
    /// Something that went wrong.
    Bad,
    /// Something that waits, or should be looked at.
    Caution,
    /// A line that is new.
    Added,
    /// A line that is gone.
    Removed,
    /// Code: a comment.
    Comment,
    /// Code: a word of the language.
    Keyword,
    /// Code: a text.
    Quoted,
    /// Code: a number or another constant.
    Constant,
    /// Code: a type.
    Type,
    /// Code: a function.
    Function,
    /// Code: an attribute, a macro, a tag.
    Attribute,
}

/// How many colours a terminal knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// None, or none are wanted.
    None,
    /// The sixteen that the user chose for it.
    Basic,
    /// 256.
    Indexed,
    /// All.
    True,
}

/// The colours of a theme on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Palette {
    /// How many colours there are.
    pub level: Level,
    /// Which are taken.
    pub theme: Theme,
}

/// A colour in each of the ways to name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Colour {
    /// From 30 to 37 and from 90 to 97.
    basic: u8,
    /// One of 256.
    indexed: u8,
    /// Red, green, blue.
    exact: [u8; 3],
}

const fn colour(basic: u8, indexed: u8, exact: u32) -> Option<Colour> {
    let [_, red, green, blue] = exact.to_be_bytes();
    Some(Colour { basic, indexed, exact: [red, green, blue] })
}

impl Palette {
    /// Neither colours nor anything else.
    pub const NONE: Self = Self { level: Level::None, theme: Theme::Plain };

    /// Returns the numbers of the sequence that begins a part in this ink;
    /// `None` if it looks like any other text.
    #[must_use]
    pub fn numbers(self, ink: Ink) -> Option<String> {
        let colour = match self.theme {
            Theme::Dark => on_dark(ink),
            Theme::Light => on_light(ink),
            Theme::Plain => None,
        };
        let colour =
            colour.map(|Colour { basic, indexed, exact: [red, green, blue] }| match self.level {
                Level::None | Level::Basic => basic.to_string(),
                Level::Indexed => format!("38;5;{indexed}"),
                Level::True => format!("38;2;{red};{green};{blue}"),
            });
        match self.level {
            Level::None => None,
            Level::Basic | Level::Indexed | Level::True => {
                let parts: Vec<String> =
                    attribute(ink).map(str::to_owned).into_iter().chain(colour).collect();
                (!parts.is_empty()).then(|| parts.join(";"))
            }
        }
    }
}

/// Returns what distinguishes an ink besides its colour.
fn attribute(ink: Ink) -> Option<&'static str> {
    match ink {
        Ink::Strong | Ink::Heading | Ink::Typed => Some("1"),
        // Faint, not bright black: that one is the background of some palettes.
        Ink::Dim | Ink::Comment => Some("2"),
        Ink::Emphasis => Some("3"),
        Ink::Link => Some("4"),
        Ink::Picked => Some("7"),
        Ink::Struck => Some("9"),
        Ink::Plain
        | Ink::Code
        | Ink::Working
        | Ink::Good
        | Ink::Bad
        | Ink::Caution
        | Ink::Added
        | Ink::Removed
        | Ink::Keyword
        | Ink::Quoted
        | Ink::Constant
        | Ink::Type
        | Ink::Function
        | Ink::Attribute => None,
    }
}

fn on_dark(ink: Ink) -> Option<Colour> {
    match ink {
        Ink::Plain | Ink::Dim | Ink::Strong | Ink::Emphasis | Ink::Struck | Ink::Picked => None,
        Ink::Comment => None,
        Ink::Heading | Ink::Typed | Ink::Function => colour(36, 80, 0x5f_d7_d7),
        Ink::Code | Ink::Type => colour(33, 180, 0xd7_af_87),
        Ink::Link => colour(34, 111, 0x87_af_ff),
        Ink::Working => colour(36, 44, 0x00_d7_d7),
        Ink::Good | Ink::Added => colour(32, 114, 0x87_d7_87),
        Ink::Bad | Ink::Removed => colour(31, 210, 0xff_87_87),
        Ink::Caution => colour(33, 221, 0xff_d7_5f),
        Ink::Keyword => colour(35, 176, 0xd7_87_d7),
        Ink::Quoted => colour(32, 150, 0xaf_d7_87),
        Ink::Constant => colour(31, 216, 0xff_af_87),
        Ink::Attribute => colour(34, 110, 0x87_af_d7),
    }
}

fn on_light(ink: Ink) -> Option<Colour> {
    match ink {
        Ink::Plain | Ink::Dim | Ink::Strong | Ink::Emphasis | Ink::Struck | Ink::Picked => None,
        Ink::Comment => None,
        Ink::Heading | Ink::Typed | Ink::Function => colour(36, 24, 0x00_5f_87),
        Ink::Code | Ink::Type => colour(33, 94, 0x87_5f_00),
        Ink::Link => colour(34, 25, 0x00_5f_af),
        Ink::Working => colour(36, 30, 0x00_87_87),
        Ink::Good | Ink::Added => colour(32, 28, 0x00_87_00),
        Ink::Bad | Ink::Removed => colour(31, 124, 0xaf_00_00),
        Ink::Caution => colour(33, 130, 0xaf_5f_00),
        Ink::Keyword => colour(35, 90, 0x87_00_87),
        Ink::Quoted => colour(32, 22, 0x00_5f_00),
        Ink::Constant => colour(31, 88, 0x87_00_00),
        Ink::Attribute => colour(34, 61, 0x5f_5f_af),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colour_is_named_as_the_terminal_knows_it() {
        let numbers =
            |level, ink| Palette { level, theme: Theme::Dark }.numbers(ink).unwrap_or_default();
        assert_eq!(numbers(Level::None, Ink::Bad), "");
        assert_eq!(numbers(Level::Basic, Ink::Heading), "1;36");
        assert_eq!(numbers(Level::Indexed, Ink::Bad), "38;5;210");
        assert_eq!(numbers(Level::True, Ink::Bad), "38;2;255;135;135");
        assert_eq!(numbers(Level::True, Ink::Plain), "");
    }

    #[test]
    fn the_plain_theme_has_no_colours_and_still_tells_strong_from_faint() {
        let plain = Palette { level: Level::True, theme: Theme::Plain };
        assert_eq!(plain.numbers(Ink::Strong).as_deref(), Some("1"));
        assert_eq!(plain.numbers(Ink::Dim).as_deref(), Some("2"));
        assert_eq!(plain.numbers(Ink::Bad), None);
    }
}
