//! Words of a command line: what one means, and how it is written.
//!
//! A word is literal if no shell would make anything else of it than the text
//! between its quotes. Everything that a shell might expand is left alone.

/// Returns the text that a word stands for; `None` if it is more than literal.
pub(super) fn literal(source: &str) -> Option<String> {
    // Alone it is the name of a command.
    if source == "[" {
        return Some("[".to_owned());
    }
    let mut text = String::with_capacity(source.len());
    let mut rest = source.chars();
    let mut braced = false;
    while let Some(c) = rest.next() {
        match c {
            '\'' => text.push_str(&single_quoted(&mut rest)?),
            '"' => double_quoted(&mut rest, &mut text)?,
            // A line goes on: two readers may not agree on where the word ends.
            '\\' => text.push(rest.next().filter(|&c| c != '\n')?),
            '$' | '`' | '*' | '?' | '[' | '(' | ')' | '<' | '>' | '|' | '&' | ';' => return None,
            // As an assignment would, an argument expands it there too.
            '~' if text.is_empty() || text.ends_with(['=', ':']) => return None,
            '#' if text.is_empty() => return None,
            c if c.is_whitespace() => return None,
            c => {
                braced |= matches!(c, '{' | '}');
                text.push(c);
            }
        }
    }
    // `HEAD@{1}` and `{}` stay as they are.
    let expands = braced && (source.contains(',') || source.contains(".."));
    (!expands).then_some(text)
}

fn single_quoted(rest: &mut std::str::Chars<'_>) -> Option<String> {
    let (text, behind) = rest.as_str().split_once('\'')?;
    let text = text.to_owned();
    *rest = behind.chars();
    Some(text)
}

fn double_quoted(rest: &mut std::str::Chars<'_>, text: &mut String) -> Option<()> {
    loop {
        match rest.next()? {
            '"' => return Some(()),
            '$' | '`' => return None,
            '\\' => match rest.next()? {
                '\n' => return None,
                c @ ('$' | '`' | '"' | '\\') => text.push(c),
                c => text.extend(['\\', c]),
            },
            c => text.push(c),
        }
    }
}

/// Returns the text of a word that begins with the home directory and is literal
/// otherwise. No shell makes more of the directory's name than what it is.
pub(super) fn at_home(source: &str, home: &str) -> Option<String> {
    let (quote, rest) = match source.strip_prefix('"') {
        Some(rest) => ("\"", rest),
        None => ("", source),
    };
    let tilde = rest.strip_prefix('~').filter(|_| quote.is_empty());
    let variables = ["$HOME", "${HOME}"].into_iter().map(|name| rest.strip_prefix(name));
    let below = tilde.into_iter().chain(variables.flatten()).next()?;
    let is_whole = below.is_empty()
        || below.starts_with('/')
        // A shell expands no tilde before a quote.
        || tilde.is_none() && below.starts_with('"');
    is_whole.then(|| literal(&format!("{quote}{home}{below}"))).flatten()
}

/// Returns a word that every shell reads as this text.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Returns a character that a reader cannot see, or that a terminal obeys.
pub(super) fn unseen(text: &str) -> Option<char> {
    text.chars().find(|&c| match c {
        '\n' | '\t' | ' ' => false,
        c if c.is_ascii() => c.is_ascii_control(),
        c => c.is_control() || c.is_whitespace() || is_invisible(c),
    })
}

/// Characters without a shape, those that turn the direction of text, tags,
/// variation selectors, and those that mean nothing in Unicode.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}'
        | '\u{8e2}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}'
        | '\u{3164}' | '\u{e000}'..='\u{f8ff}' | '\u{fdd0}'..='\u{fdef}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{ffff}' | '\u{110bd}' | '\u{110cd}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{10ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, expected: Option<&str>) {
        assert_eq!(literal(source).as_deref(), expected, "{source}");
    }

    #[test]
    fn quotes_and_backslashes_are_taken_off() {
        check("a", Some("a"));
        check(r#"a'b c'"d\"e\n"\f"#, Some(r#"ab cd"e\nf"#));
        check("''", Some(""));
        check(r"'\'", Some(r"\"));
        check("HEAD~1", Some("HEAD~1"));
        check("stash@{0}", Some("stash@{0}"));
        check("'$x'", Some("$x"));
        check(r"\$x", Some("$x"));
        check(r#""\$x""#, Some("$x"));
        check("a!b", Some("a!b"));
        check("a#b", Some("a#b"));
        check("[", Some("["));
    }

    #[test]
    fn what_a_shell_expands_is_not_literal() {
        for source in [
            "$x",
            "\"$x\"",
            "`x`",
            "\"`x`\"",
            "$'x'",
            "$\"x\"",
            "*",
            "a?",
            "[a]",
            "{a,b}",
            "{1..3}",
            "a{,}b",
            "~",
            "~root",
            "a=~",
            "a:~/x",
            "<(x)",
            "a\\\nb",
            "\"a\\\nb\"",
            "'a",
            "\"a",
            "a\\",
            "#a",
            "a b",
            "a;b",
            "@(a)",
            "a=(b)",
        ] {
            check(source, None);
        }
    }

    #[test]
    fn a_word_that_begins_at_home_is_known() {
        for (source, expected) in [
            ("~", Some("/h")),
            ("~/a", Some("/h/a")),
            ("$HOME/a", Some("/h/a")),
            ("${HOME}", Some("/h")),
            ("\"$HOME\"/a", Some("/h/a")),
            ("\"$HOME/a b\"", Some("/h/a b")),
            ("~/'a'\\b", Some("/h/ab")),
            ("$HOME\"a\"", Some("/ha")),
            ("~\"a\"", None),
            ("~ada/a", None),
            ("$HOMER/a", None),
            ("\"~/a\"", None),
            ("~/*", None),
            ("$HOME/$x", None),
            ("a$HOME", None),
            ("'$HOME'", None),
        ] {
            assert_eq!(at_home(source, "/h").as_deref(), expected, "{source}");
        }
    }

    #[test]
    fn a_written_word_is_read_as_it_was() {
        for text in ["", "a", "it's", "''", "$x `y` \\", "a\nb", "-x", "~"] {
            check(&quoted(text), Some(text));
        }
    }

    #[test]
    fn what_cannot_be_seen_is_found() {
        for c in [
            '\0',
            '\r',
            '\u{1b}',
            '\u{7f}',
            '\u{85}',
            '\u{9b}',
            '\u{a0}',
            '\u{200b}',
            '\u{202e}',
            '\u{2066}',
            '\u{3000}',
            '\u{feff}',
            '\u{e0041}',
            '\u{2800}',
            '\u{fe0f}',
            '\u{e000}',
        ] {
            assert_eq!(unseen(&format!("ls {c}x")), Some(c));
        }
        assert_eq!(unseen("ls\t-la\nwc ä 日本 → ✓ é"), None);
    }
}
