//! Invisible characters that shape the letters next to them.
//!
//! Persian, Hindi and emoji cannot be written without joiners, nor Hebrew next to Latin
//! without marks of direction. Where one of these has its ordinary place it is shown as
//! it is; anywhere else it would only hide something.

/// The neighbour of a character in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Neighbour {
    /// This character.
    Is(char),
    /// The text begins or ends there.
    Nothing,
    /// A character that was removed.
    Removed,
    /// The text continues there with characters that the caller does not know.
    Unknown,
}

impl Neighbour {
    fn fits(self, fits: impl FnOnce(char) -> bool) -> bool {
        match self {
            Self::Is(character) => fits(character),
            Self::Nothing | Self::Removed => false,
            Self::Unknown => true,
        }
    }
}

/// Returns whether the character after it decides if this character is ordinary.
#[must_use]
pub fn is_undecided(character: char) -> bool {
    is_joiner(character) || is_mark(character)
}

/// Returns whether a hidden character has its ordinary place between these two.
#[must_use]
pub fn shapes(before: Neighbour, character: char, after: Neighbour) -> bool {
    match character {
        _ if is_joiner(character) => {
            let in_letters = before.fits(joins) && after.fits(joins);
            // Behind a virama it chooses the form of the letter, also at a word's end.
            let in_syllable = before.fits(is_virama) && !after_is_undecided(after);
            let in_emoji =
                character == ZWJ && before.fits(ends_pictograph) && after.fits(is_pictograph);
            in_letters || in_syllable || in_emoji
        }
        _ if is_mark(character) => {
            let is_beside_text = |it: Neighbour| match it {
                Neighbour::Is(beside) => !is_hidden(beside),
                Neighbour::Nothing | Neighbour::Removed => false,
                Neighbour::Unknown => true,
            };
            let is_lone = |it: Neighbour| it == Neighbour::Nothing || is_beside_text(it);
            // A selector behind a mark selects nothing, and does not stay.
            let has_selector = matches!(after, Neighbour::Is(after) if is_form_selector(after));
            let is_beside = is_beside_text(before) || is_beside_text(after);
            is_beside && is_lone(before) && is_lone(after) && !has_selector
        }
        // Forms of ideographs, of which names are written; fonts know a few for each.
        '\u{fe00}'..='\u{fe02}' | '\u{e0100}'..='\u{e010f}' => before.fits(is_ideograph),
        // Forms of Mongolian letters.
        '\u{180b}'..='\u{180d}' | '\u{180f}' => before.fits(is_mongolian),
        _ => false,
    }
}

/// Returns whether a character selects between text and emoji.
pub(super) const fn is_form_selector(character: char) -> bool {
    matches!(character, '\u{fe0e}' | '\u{fe0f}')
}

/// Returns whether a neighbour has no shape, so that a mark beside it hides something.
fn is_hidden(character: char) -> bool {
    super::is_invisible(character) || (character.is_control() && !"\n\t".contains(character))
}

fn after_is_undecided(after: Neighbour) -> bool {
    matches!(after, Neighbour::Is(character) if is_undecided(character))
}

const ZWJ: char = '\u{200d}';

fn is_joiner(character: char) -> bool {
    matches!(character, '\u{200c}' | ZWJ)
}

/// Direction marks that affect a single position and do not reorder text.
fn is_mark(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{61c}')
}

/// Returns whether a character belongs to a script whose letters change their form
/// next to each other.
fn joins(character: char) -> bool {
    !is_hidden(character)
        && matches!(character,
            // Arabic, Syriac, Thaana, N'Ko, Mandaic, and the forms of Arabic.
            '\u{620}'..='\u{669}' | '\u{66e}'..='\u{6d3}' | '\u{6d5}'..='\u{6ff}'
            | '\u{710}'..='\u{7ff}' | '\u{840}'..='\u{85f}' | '\u{860}'..='\u{8ff}'
            | '\u{fb50}'..='\u{fdff}' | '\u{fe70}'..='\u{fefe}'
            // Devanagari to Sinhala, Tibetan, Myanmar, Khmer, Mongolian.
            | '\u{900}'..='\u{963}' | '\u{966}'..='\u{dff}' | '\u{f00}'..='\u{109f}'
            | '\u{1780}'..='\u{17d3}' | '\u{1807}' | '\u{1810}'..='\u{18af}'
            // Tai Tham, Balinese to Lepcha, Javanese and others, and those of plane 1.
            | '\u{1a20}'..='\u{1c4f}' | '\u{a800}'..='\u{a82f}' | '\u{a840}'..='\u{abff}'
            | '\u{10a00}'..='\u{10bff}' | '\u{11000}'..='\u{11fff}')
}

/// Returns whether a character takes the vowel from the letter before it.
fn is_virama(character: char) -> bool {
    matches!(
        character,
        '\u{94d}'
            | '\u{9cd}'
            | '\u{a4d}'
            | '\u{acd}'
            | '\u{b4d}'
            | '\u{bcd}'
            | '\u{c4d}'
            | '\u{ccd}'
            | '\u{d3b}'
            | '\u{d3c}'
            | '\u{d4d}'
            | '\u{dca}'
            | '\u{f84}'
            | '\u{1039}'
            | '\u{103a}'
            | '\u{17d2}'
            | '\u{1a60}'
            | '\u{1b44}'
            | '\u{1baa}'
            | '\u{1bab}'
            | '\u{a806}'
            | '\u{a8c4}'
            | '\u{a953}'
            | '\u{a9c0}'
            | '\u{aaf6}'
            | '\u{abed}'
            | '\u{10a3f}'
            | '\u{11046}'
            | '\u{1107f}'
            | '\u{110b9}'
            | '\u{11133}'
            | '\u{11134}'
            | '\u{111c0}'
            | '\u{11235}'
            | '\u{112ea}'
            | '\u{1134d}'
            | '\u{11442}'
            | '\u{114c2}'
            | '\u{115bf}'
            | '\u{1163f}'
            | '\u{116b6}'
            | '\u{1172b}'
            | '\u{11839}'
    )
}

fn is_mongolian(character: char) -> bool {
    matches!(character, '\u{1820}'..='\u{18aa}')
}

fn is_pictograph(character: char) -> bool {
    matches!(character,
        '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}'
        | '\u{2194}'..='\u{21aa}' | '\u{2300}'..='\u{23ff}' | '\u{25aa}'..='\u{27bf}'
        | '\u{2934}' | '\u{2935}' | '\u{2b05}'..='\u{2b55}' | '\u{3030}' | '\u{303d}'
        | '\u{3297}' | '\u{3299}' | '\u{1f000}'..='\u{1faff}')
}

/// Returns whether an emoji may end with a character: an emoji, a variation selector for
/// color, or a skin tone.
fn ends_pictograph(character: char) -> bool {
    character == '\u{fe0f}' || is_pictograph(character)
}

fn is_ideograph(character: char) -> bool {
    matches!(character,
        '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}')
}
