//! Screens as one picture: SVG, which a page can show without any program.
//!
//! The screens follow each other in time where the picture is let to move, and
//! where it is not, one of them stands.

use std::collections::BTreeMap;

use unicode_width::UnicodeWidthStr as _;

use crate::terminal::SIZE;
use crate::terminal::screen::{Colour, Look, Screen};

/// How large a character is, and where the first one stands.
const WIDTH: f64 = 8.4;
const HEIGHT: f64 = 18.0;
const LEFT: f64 = 14.0;
const TOP: f64 = 40.0;

/// How long each screen stands, in seconds.
const STANDS: usize = 4;

/// The colours of text and ground where none is asked for.
const INK: &str = "#d4d7dd";
const GROUND: &str = "#16181d";

/// The first sixteen colours of a terminal.
const BASIC: [u32; 16] = [
    0x2e_34_40, 0xe0_6c_75, 0x98_c3_79, 0xe5_c0_7b, 0x61_af_ef, 0xc6_78_dd, 0x56_b6_c2, 0xab_b2_bf,
    0x5c_63_70, 0xff_87_87, 0xb5_e8_90, 0xff_d7_5f, 0x87_af_ff, 0xd7_87_d7, 0x5f_d7_d7, 0xff_ff_ff,
];

/// A screen as it was at one moment.
pub(crate) struct Still {
    /// What is to be seen there.
    title: &'static str,
    rows: Vec<Vec<(String, Look)>>,
    cursor: Option<(usize, usize)>,
}

impl Still {
    pub(crate) fn of(screen: &Screen, title: &'static str) -> Self {
        Self { title, rows: screen.parts(), cursor: screen.cursor() }
    }
}

/// Draws screens one after another; `standing` is the one that is there alone
/// where nothing moves.
pub(crate) fn draw(stills: &[Still], standing: usize, about: &str) -> String {
    let mut looks = Looks::default();
    let screens: Vec<String> = stills.iter().map(|still| one(still, &mut looks)).collect();
    let width = f64::from(SIZE.columns) * WIDTH + 2.0 * LEFT;
    let height = f64::from(SIZE.rows) * HEIGHT + TOP + 8.0;
    let (count, about) = (stills.len(), escaped(about));
    let (all, share) = (count * STANDS, 100.0 / f64::from(u32::try_from(count).unwrap_or(1)));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{about}\">\n<style>\n\
         text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;\
         white-space:pre;fill:{INK}}}\n\
         .title{{fill:#8b919c;font-size:13px}}\n\
         .s{{visibility:hidden;animation:s {all}s infinite step-end}}\n\
         .here{{visibility:visible}}\n\
         @keyframes s{{0%{{visibility:visible}}{share}%{{visibility:hidden}}}}\n\
         @media(prefers-reduced-motion:reduce){{.s{{animation:none}}}}\n{}</style>\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"{GROUND}\"/>\n",
        looks.rules(),
    );
    for (number, screen) in screens.iter().enumerate() {
        // As if they had all begun a round ago: then none is there too early.
        let begun = (count - number) % count * STANDS;
        let here = if number == standing { " here" } else { "" };
        let style = format!("animation-delay:-{begun}s");
        svg.push_str(&format!("<g class=\"s{here}\" style=\"{style}\">\n{screen}</g>\n"));
    }
    svg.push_str("</svg>\n");
    svg
}

/// Draws what is on one screen.
fn one(still: &Still, looks: &mut Looks) -> String {
    let title = escaped(still.title);
    let mut svg = format!("<text class=\"title\" x=\"{LEFT}\" y=\"24\">{title}</text>\n");
    if let Some((row, column)) = still.cursor {
        let (x, y) = (x(column), TOP + f64::from(small(row)) * HEIGHT);
        let size = format!("width=\"{WIDTH}\" height=\"{HEIGHT}\"");
        svg.push_str(&format!("<rect x=\"{x:.1}\" y=\"{y:.1}\" {size} fill=\"#7d8590\"/>\n"));
    }
    for (number, row) in still.rows.iter().enumerate() {
        let y = TOP + f64::from(small(number)) * HEIGHT + HEIGHT - 5.0;
        let mut column = 0;
        let mut parts = String::new();
        for (text, look) in row {
            for word in words(text) {
                let class = looks.class(*look);
                let class = if class.is_empty() { class } else { format!(" class=\"{class}\"") };
                let at = x(column + word.column);
                // Whatever the font, columns stay columns.
                let long = f64::from(small(word.columns)) * WIDTH;
                let text = escaped(word.text);
                parts.push_str(&format!(
                    "<tspan x=\"{at:.1}\" textLength=\"{long:.1}\"{class}>{text}</tspan>"
                ));
            }
            column += text.width();
        }
        if !parts.is_empty() {
            svg.push_str(&format!("<text y=\"{y:.1}\">{parts}</text>\n"));
        }
    }
    svg
}

/// A part of a row without wide gaps in it.
struct Word<'a> {
    text: &'a str,
    column: usize,
    columns: usize,
}

/// Splits a text where two blanks or more stand together.
fn words(text: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut column = 0;
    for piece in text.split("  ") {
        let behind = piece.trim_start();
        let before = piece.width() - behind.width();
        let text = behind.trim_end();
        if !text.is_empty() {
            words.push(Word { text, column: column + before, columns: text.width() });
        }
        column += piece.width() + 2;
    }
    words
}

/// The looks that are there, and what each is called.
#[derive(Default)]
struct Looks(BTreeMap<String, String>);

impl Looks {
    /// Returns the class of a look; empty for that of any text.
    fn class(&mut self, look: Look) -> String {
        let Look { ink, ground: _, bold, dim, italic, underlined, reversed } = look;
        let mut rule = ink.map(|ink| format!("fill:{};", hex(ink))).unwrap_or_default();
        let attributes = [
            (bold, "font-weight:700;"),
            (dim, "fill-opacity:.62;"),
            (italic, "font-style:italic;"),
            (underlined, "text-decoration:underline;"),
            // There is no ground behind text; what is picked has a mark besides.
            (reversed, "fill:#fff;font-weight:700;text-decoration:underline;"),
        ];
        rule.extend(attributes.iter().filter(|(is_so, _)| *is_so).map(|(_, rule)| *rule));
        if rule.is_empty() {
            return rule;
        }
        let next = format!("c{}", self.0.len());
        self.0.entry(rule).or_insert(next).clone()
    }

    fn rules(&self) -> String {
        self.0.iter().map(|(rule, class)| format!(".{class}{{{rule}}}\n")).collect()
    }
}

fn hex(colour: Colour) -> String {
    match colour {
        Colour::Rgb(red, green, blue) => format!("#{red:02x}{green:02x}{blue:02x}"),
        Colour::Indexed(index) => match BASIC.get(usize::from(index)) {
            Some(colour) => format!("#{colour:06x}"),
            None => INK.to_owned(),
        },
    }
}

fn x(column: usize) -> f64 {
    LEFT + f64::from(small(column)) * WIDTH
}

fn small(number: usize) -> u16 {
    u16::try_from(number).expect("a screen is small")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
