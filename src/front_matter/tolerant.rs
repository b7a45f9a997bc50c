//! Front matter that is not YAML, though every reader sees what it says: values
//! with `: ` or quotes in them, values that begin with a mark of YAML (`*`, `@`,
//! a backtick), lists with more behind them, tabs as indentation.
//!
//! Claude Code takes such heads and writes them itself, so that repositories are
//! full of them.

/// Marks that begin no plain value in YAML, although people begin one with them.
const RESERVED: [char; 4] = ['*', '@', '`', '%'];

/// Returns the same YAML with quotes around the values that lack them and spaces
/// in the place of tabs, and the lines that this changes, from 1; `None` if it
/// changes none.
///
/// Only values of one line and of the outermost keys, and items of their lists:
/// what else is wrong with a head is a mistake of the person who wrote it.
pub(super) fn quoted(yaml: &str) -> Option<(String, Vec<usize>)> {
    let mut lines = Vec::new();
    let mut text = String::with_capacity(yaml.len());
    for (index, line) in yaml.lines().enumerate() {
        let spaced = without_tabs(line);
        let mended = mended(spaced.as_deref().unwrap_or(line)).or(spaced);
        if mended.is_some() {
            lines.push(index + 1);
        }
        text.push_str(mended.as_deref().unwrap_or(line));
        text.push('\n');
    }
    (!lines.is_empty()).then_some((text, lines))
}

/// Returns a line that is indented with tabs, indented with spaces instead.
fn without_tabs(line: &str) -> Option<String> {
    let rest = line.trim_start_matches([' ', '\t']);
    let indentation = &line[..line.len() - rest.len()];
    let is_text = !rest.is_empty() && indentation.contains('\t');
    is_text.then(|| format!("{}{rest}", indentation.replace('\t', "  ")))
}

/// Returns a line whose value lacks quotes, with them.
fn mended(line: &str) -> Option<String> {
    let rest = line.trim_start_matches(' ');
    if let Some(item) = rest.strip_prefix("- ") {
        let item = item.trim();
        let indentation = &line[..line.len() - rest.len()];
        return item.starts_with(RESERVED).then(|| format!("{indentation}- {}", in_quotes(item)));
    }
    let spaced = line.split_once(": ");
    let (key, value) = match spaced {
        Some(parts) => parts,
        None => line.split_once(':').filter(|(_, value)| lacks_space(value))?,
    };
    let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if key.is_empty() || !key.chars().all(is_key) {
        return None;
    }
    let value = value.trim();
    let written = quote_if_needed(value).or_else(|| spaced.is_none().then(|| value.to_owned()))?;
    Some(format!("{key}: {written}"))
}

/// Returns whether what follows a colon is a value that lacks the space before it.
fn lacks_space(value: &str) -> bool {
    !value.is_empty() && !value.starts_with(|c: char| c.is_whitespace() || c == '/')
}

/// Returns how a value has to be written to mean what it says; `None` where it
/// does so already, or means something else than one text or one list.
fn quote_if_needed(value: &str) -> Option<String> {
    let first = value.chars().next()?;
    let is_whole = match first {
        '[' if value.ends_with(']') => return list(value),
        '[' => has_more_behind(value, ']'),
        '{' => has_more_behind(value, '}'),
        '"' | '\'' => return in_its_quotes(value, first),
        '|' | '>' | '&' | '!' | '#' => false,
        '-' | '?' => value[1..].starts_with(' '),
        _ if RESERVED.contains(&first) => true,
        _ => value.contains(": ") || value.ends_with(':'),
    };
    is_whole.then(|| in_quotes(value))
}

fn has_more_behind(value: &str, closing: char) -> bool {
    value.find(closing).is_some_and(|end| {
        let rest = value[end + 1..].trim_start();
        !rest.is_empty() && !rest.starts_with('#')
    })
}

/// Returns a list in brackets with quotes around the items that lack them.
fn list(value: &str) -> Option<String> {
    let inside = &value[1..value.len() - 1];
    if inside.contains(['[', ']', '"', '\'', '{']) {
        // `[a] [b]` is a hint at two arguments.
        return has_more_behind(value, ']').then(|| in_quotes(value));
    }
    let items: Vec<&str> = inside.split(',').map(str::trim).collect();
    let lacks = |item: &&str| item.starts_with(RESERVED) || item.contains(": ");
    if !items.iter().any(lacks) {
        return None;
    }
    let written: Vec<String> = items
        .iter()
        .map(|item| if lacks(item) { in_quotes(item) } else { (*item).to_owned() })
        .collect();
    Some(format!("[{}]", written.join(", ")))
}

/// Returns a value that begins with a quote and goes on behind the quote that
/// ends it, or that holds a backslash which begins no escape.
fn in_its_quotes(value: &str, quote: char) -> Option<String> {
    let inside = &value[1..];
    let end = closing_quote(inside, quote)?;
    let (text, rest) = (&inside[..end], inside[end + 1..].trim_start());
    if rest.is_empty() || rest.starts_with('#') {
        let is_path = quote == '"' && has_bad_escape(text);
        return is_path.then(|| in_quotes(&text.replace("\\\"", "\"")));
    }
    // `'it's late'`: the quotes around it are meant, the one inside is a letter.
    match inside.strip_suffix(quote) {
        Some(text) if rest.matches(quote).count() == 1 => Some(in_quotes(text)),
        Some(_) | None => Some(in_quotes(value)),
    }
}

/// Returns where a quoted text ends, by the rules of YAML.
fn closing_quote(text: &str, quote: char) -> Option<usize> {
    let mut characters = text.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        if quote == '"' && c == '\\' {
            characters.next();
        } else if c == quote {
            let is_doubled = quote == '\'' && characters.peek().is_some_and(|(_, c)| *c == quote);
            if !is_doubled {
                return Some(at);
            }
            characters.next();
        }
    }
    None
}

/// Returns whether a text has a backslash that begins no escape of YAML.
fn has_bad_escape(text: &str) -> bool {
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        if c == '\\' && !characters.next().is_some_and(|c| "0abtnvfre \"/\\N_LPxuU\t".contains(c)) {
            return true;
        }
    }
    false
}

fn in_quotes(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(yaml: &str, expected: Option<(&str, &[usize])>) {
        let expected = expected.map(|(text, lines)| (text.to_owned(), lines.to_vec()));
        assert_eq!(quoted(yaml), expected);
    }

    #[test]
    fn values_that_everybody_understands_get_the_quotes_they_lack() {
        check(
            "name: a\ndescription: Use it when: it's late\nargument-hint: [a] [b]",
            Some((
                "name: a\ndescription: 'Use it when: it''s late'\nargument-hint: '[a] [b]'\n",
                &[2, 3],
            )),
        );
        check("description: what is left:", Some(("description: 'what is left:'\n", &[1])));
        check("description: @you", Some(("description: '@you'\n", &[1])));
        for (written, meant) in [
            ("tools: *", "tools: '*'"),
            ("tools: *, Read", "tools: '*, Read'"),
            ("tools: [*]", "tools: ['*']"),
            ("tools: [Read, *]", "tools: [Read, '*']"),
            ("  - *", "  - '*'"),
            ("- `x`", "- '`x`'"),
            ("\t- Read", "  - Read"),
            ("\t- *", "  - '*'"),
            ("description: *now*", "description: '*now*'"),
            ("description: `x` is run", "description: '`x` is run'"),
            ("description: 100%: all", "description: '100%: all'"),
            ("description: - a dash", "description: '- a dash'"),
            ("description: {a} and b", "description: '{a} and b'"),
            ("description: 'it's late'", "description: 'it''s late'"),
            ("description: \"Use\" it", "description: '\"Use\" it'"),
            ("description: \"a\" or \"b\"", "description: '\"a\" or \"b\"'"),
            ("description: \"C:\\dir\"", "description: 'C:\\dir'"),
            ("name:a", "name: a"),
        ] {
            check(written, Some((&format!("{meant}\n"), &[1])));
        }
    }

    #[test]
    fn what_is_yaml_or_no_value_of_one_line_is_left_alone() {
        for yaml in [
            "tools: [a, b]",
            "disallowedTools: [a, b]  # c: d",
            "description: \"a: b\"",
            "description: |\n  a: b",
            "metadata: {a: b}",
            "metadata:\n  a: b: c",
            "a b: c: d",
            "description: 'it''s late'",
            "description: \"a: b\"  # \"c\"",
            "description: \"\\\"a\\\" b\\n\"",
            "- Read",
            "http://a",
            "name:",
            "",
            "\t",
            "name: x",
        ] {
            check(yaml, None);
        }
    }
}
