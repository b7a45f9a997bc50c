//! What bytes mean, whole, in pieces, and when they are nonsense.

use super::*;
use proptest::prelude::*;

const ALT: KeyModifiers = KeyModifiers::ALT;
const CONTROL: KeyModifiers = KeyModifiers::CONTROL;
const SHIFT: KeyModifiers = KeyModifiers::SHIFT;

fn pressed(code: KeyCode, modifiers: KeyModifiers) -> Typed {
    Typed::Key(KeyEvent::new(code, modifiers))
}

fn letter(c: char) -> Typed {
    pressed(KeyCode::Char(c), NONE)
}

fn pasted(text: &str) -> Typed {
    Typed::Paste(Pasted { text: text.to_owned(), left_out: 0 })
}

/// Decodes pieces with no silence between them, and one at the end.
fn decoded<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Typed> {
    let (mut decoder, mut typed) = (Decoder::default(), Vec::new());
    pieces.into_iter().for_each(|piece| decoder.feed(piece, &mut typed));
    decoder.settle(&mut typed);
    assert_eq!(decoder.wait(), None, "nothing is begun after a silence");
    typed
}

/// Checks that bytes mean this, however they come.
#[track_caller]
fn check(bytes: &str, expected: &[Typed]) {
    let bytes = bytes.as_bytes();
    assert_eq!(decoded([bytes]), expected, "{:?}", String::from_utf8_lossy(bytes));
    assert_eq!(decoded(bytes.chunks(1)), expected, "byte by byte");
}

#[test]
fn text_is_its_characters() {
    check("aÄ\u{4e00}", &[letter('a'), pressed(KeyCode::Char('Ä'), SHIFT), letter('\u{4e00}')]);
    check("\u{1f980}", &[letter('\u{1f980}')]);
    check("A1$", &[pressed(KeyCode::Char('A'), SHIFT), letter('1'), letter('$')]);
    // Control characters in 8 bits are no text.
    check("a\u{9b}\u{85}b", &[letter('a'), letter('b')]);
}

#[test]
fn control_characters_are_the_keys_that_send_them() {
    let control = |c| pressed(KeyCode::Char(c), CONTROL);
    check("\u{1}\u{3}\u{1a}", &[control('a'), control('c'), control('z')]);
    check("\0\u{1c}\u{1f}", &[control(' '), control('\\'), control('_')]);
    check("\r\n", &[pressed(KeyCode::Enter, NONE), control('j')]);
    check("\t\u{7f}", &[pressed(KeyCode::Tab, NONE), pressed(KeyCode::Backspace, NONE)]);
    check("\u{8}", &[control('h')]);
}

#[test]
fn an_escape_alone_is_a_key_and_before_another_one_it_is_alt() {
    let escape = pressed(KeyCode::Esc, NONE);
    check("\u{1b}", std::slice::from_ref(&escape));
    check("\u{1b}\u{1b}", &[escape.clone(), escape.clone()]);
    check("\u{1b}x", &[pressed(KeyCode::Char('x'), ALT)]);
    check("\u{1b}X", &[pressed(KeyCode::Char('X'), ALT | SHIFT)]);
    check("\u{1b}ä", &[pressed(KeyCode::Char('ä'), ALT)]);
    check("\u{1b}\r", &[pressed(KeyCode::Enter, ALT)]);
    check("\u{1b}\u{7f}", &[pressed(KeyCode::Backspace, ALT)]);
    check("\u{1b}\u{2}", &[pressed(KeyCode::Char('b'), CONTROL | ALT)]);
    for c in ['[', ']', '_'] {
        check(&format!("\u{1b}{c}"), &[pressed(KeyCode::Char(c), ALT)]);
    }
    check("\u{1b}O", &[pressed(KeyCode::Char('O'), ALT | SHIFT)]);
    check("\u{1b}Px", &[pressed(KeyCode::Char('P'), ALT | SHIFT), letter('x')]);
    check("\u{1b}\u{1b}[A", &[pressed(KeyCode::Up, ALT)]);
    check("\u{1b}\u{1b}[", &[escape.clone(), pressed(KeyCode::Char('['), ALT)]);
    check("\u{1b}\u{1b}x", &[escape, pressed(KeyCode::Char('x'), ALT)]);
}

#[test]
fn an_escape_is_a_key_once_nothing_follows_it() {
    let (mut decoder, mut typed) = (Decoder::default(), Vec::new());
    decoder.feed(b"\x1b", &mut typed);
    assert_eq!((typed.len(), decoder.wait()), (0, Some(ESC_WAIT)));
    decoder.settle(&mut typed);
    decoder.feed(b"[A", &mut typed);
    assert_eq!(
        typed,
        [pressed(KeyCode::Esc, NONE), letter('['), pressed(KeyCode::Char('A'), SHIFT)]
    );
}

#[test]
fn keys_without_a_character_come_in_all_the_ways_that_terminals_send_them() {
    for up in ["\u{1b}[A", "\u{1b}OA", "\u{1b}[1;1A", "\u{1b}[1;1:2A"] {
        check(up, &[pressed(KeyCode::Up, NONE)]);
    }
    for home in ["\u{1b}[H", "\u{1b}OH", "\u{1b}[1~", "\u{1b}[7~"] {
        check(home, &[pressed(KeyCode::Home, NONE)]);
    }
    for (one, function) in
        [("\u{1b}OP", 1), ("\u{1b}[11~", 1), ("\u{1b}[[A", 1), ("\u{1b}[1;1P", 1)]
            .into_iter()
            .chain([("\u{1b}[15~", 5), ("\u{1b}[17~", 6), ("\u{1b}[24~", 12)])
    {
        check(one, &[pressed(KeyCode::F(function), NONE)]);
    }
    check("\u{1b}[3~", &[pressed(KeyCode::Delete, NONE)]);
    check(
        "\u{1b}[5~\u{1b}[6~",
        &[pressed(KeyCode::PageUp, NONE), pressed(KeyCode::PageDown, NONE)],
    );
    check("\u{1b}[Z", &[pressed(KeyCode::BackTab, SHIFT)]);
    check("\u{1b}[1;3A", &[pressed(KeyCode::Up, ALT)]);
    check(
        "\u{1b}[1;5D\u{1b}Od",
        &[pressed(KeyCode::Left, CONTROL), pressed(KeyCode::Left, CONTROL)],
    );
    check("\u{1b}[3;6~", &[pressed(KeyCode::Delete, CONTROL | SHIFT)]);
    check("\u{1b}Op\u{1b}Ok\u{1b}OM", &[letter('0'), letter('+'), pressed(KeyCode::Enter, NONE)]);
}

#[test]
fn keys_that_are_told_by_their_code_are_the_same_keys() {
    check("\u{1b}[13;2u", &[pressed(KeyCode::Enter, SHIFT)]);
    check("\u{1b}[27;2;13~", &[pressed(KeyCode::Enter, SHIFT)]);
    check("\u{1b}[27u", &[pressed(KeyCode::Esc, NONE)]);
    check("\u{1b}[9;2u", &[pressed(KeyCode::BackTab, SHIFT)]);
    check("\u{1b}[99;5u", &[pressed(KeyCode::Char('c'), CONTROL)]);
    check("\u{1b}[49:33;2u", &[pressed(KeyCode::Char('!'), SHIFT)]);
    check("\u{1b}[97;2u", &[pressed(KeyCode::Char('A'), SHIFT)]);
    // Let go, a key without a character, no character at all.
    check("\u{1b}[97;1:3u\u{1b}[57441u\u{1b}[1114112u\u{1b}[0u", &[]);
}

#[test]
fn what_is_no_key_types_nothing() {
    for nothing in [
        // Focus, clicks, answers about cursor, device, colours, name, settings, pictures.
        "\u{1b}[I\u{1b}[O",
        "\u{1b}[<0;10;5M\u{1b}[<0;10;5m\u{1b}[M !!",
        "\u{1b}[24;80R\u{1b}[?62;4c\u{1b}[?2026;2$y",
        "\u{1b}]11;rgb:0000/0000/0000\u{1b}\\",
        "\u{1b}]10;rgb:ffff/ffff/ffff\u{7}",
        "\u{1b}P>|xterm(370)\u{1b}\\\u{1b}P1$r0m\u{1b}\\",
        "\u{1b}_Gi=1;OK\u{1b}\\",
        "\u{1b}[99~\u{1b}[5n\u{1b}[201~",
    ] {
        check(nothing, &[]);
        check(&format!("{nothing}x"), &[letter('x')]);
    }
}

#[test]
fn what_is_cut_off_is_dropped_and_what_cuts_it_off_is_not() {
    check("\u{1b}[1;", &[]);
    check("\u{1b}[1;\u{1b}[A", &[pressed(KeyCode::Up, NONE)]);
    check("\u{1b}[1;\rx", &[pressed(KeyCode::Enter, NONE), letter('x')]);
    check("\u{1b}]11;rgb\u{1b}[A", &[pressed(KeyCode::Up, NONE)]);
    let long = format!("\u{1b}[{}", "1;".repeat(1_000));
    check(&format!("{long}Ax"), &[letter('x')]);
    check(&format!("{long}\u{1b}[B"), &[pressed(KeyCode::Down, NONE)]);
    check(&format!("{long}\r"), &[pressed(KeyCode::Enter, NONE)]);
    let answer = format!("\u{1b}]1{}", "1".repeat(ANSWER_CAP));
    check(&format!("{answer}x"), &[letter('x')]);
    let invalid = decoded([&b"\xffa\xe4\xb8\xf0\x28\xed\xa0\x80b\xe4"[..]]);
    assert_eq!(invalid, [letter('a'), letter('('), letter('b')]);
}

#[test]
fn a_paste_is_one_text_whatever_is_in_it() {
    let paste = |text: &str| format!("\u{1b}[200~{text}\u{1b}[201~");
    check(&paste("ls\r\nrm -rf /\r"), &[pasted("ls\nrm -rf /\n")]);
    check(&paste(""), &[pasted("")]);
    check(
        &paste("\u{1b}[A\u{3}\u{1b}[20\u{1b}\u{1b}[201"),
        &[pasted("\u{1b}[A\u{3}\u{1b}[20\u{1b}\u{1b}[201")],
    );
    check(&format!("a{}b", paste("x")), &[letter('a'), pasted("x"), letter('b')]);
    check(&format!("\u{1b}{}", paste("x")), &[pressed(KeyCode::Esc, NONE), pasted("x")]);
}

#[test]
fn a_paste_without_an_end_is_what_came_of_it() {
    let (mut decoder, mut typed) = (Decoder::default(), Vec::new());
    decoder.feed(b"\x1b[200~half", &mut typed);
    assert_eq!((typed.len(), decoder.wait()), (0, Some(PASTE_WAIT)));
    decoder.settle(&mut typed);
    assert_eq!(typed, [pasted("half")]);
}

#[test]
fn a_paste_beyond_its_cap_is_cut_at_a_character_and_counted() {
    let (mut decoder, mut typed) = (Decoder::default(), Vec::new());
    decoder.feed(b"\x1b[200~x", &mut typed);
    let half = "ä".repeat(PASTE_CAP / 4);
    for _ in 0..3 {
        decoder.feed(half.as_bytes(), &mut typed);
    }
    decoder.feed(b"\x1b[201~", &mut typed);
    let [Typed::Paste(Pasted { text, left_out })] = &typed[..] else { panic!("one paste") };
    assert_eq!(text.len() + left_out, 1 + 3 * half.len());
    assert_eq!(text.len(), PASTE_CAP - 1);
    assert!(text.ends_with('ä'));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_bytes_mean_the_same_however_they_are_cut(
        bytes in prop::collection::vec(
            prop_oneof![Just(ESC), any::<u8>(), prop::sample::select(b"[O]P_;:~u0123AMR\\\x07".to_vec())],
            0..60,
        ),
        cut in 0_usize..60,
    ) {
        let (first, second) = bytes.split_at(cut.min(bytes.len()));
        let whole = decoded([&bytes[..]]);
        prop_assert_eq!(&decoded([first, second]), &whole);
        prop_assert_eq!(&decoded(bytes.chunks(1)), &whole);
    }

    #[test]
    fn a_paste_comes_out_as_it_went_in(text in "[^\r\u{1b}]{0,200}") {
        let bytes = format!("\u{1b}[200~{text}\u{1b}[201~");
        prop_assert_eq!(decoded([bytes.as_bytes()]), [pasted(&text)]);
    }
}
