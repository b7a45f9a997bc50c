//! Front matter that is no YAML, though everybody sees what it says: values with
//! `: ` in them, or with more behind a list, and no quotes around them.
//!
//! Claude Code takes such heads and writes them itself, so that repositories are
//! full of them.

/// Returns the same YAML with quotes around the values that lack them, and the
/// lines that these are on, from 1; `None` if no value is one of those.
///
/// Only values of one line and of the outermost keys: what else is wrong with a
/// head is a mistake of whoever wrote it.
pub(super) fn quoted(yaml: &str) -> Option<(String, Vec<usize>)> {
    let mut lines = Vec::new();
    let mut text = String::with_capacity(yaml.len());
    for (index, line) in yaml.lines().enumerate() {
        match lacks_quotes(line) {
            Some((key, value)) => {
                lines.push(index + 1);
                text.push_str(&format!("{key}: '{}'\n", value.replace('\'', "''")));
            }
            None => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    (!lines.is_empty()).then_some((text, lines))
}

/// Returns the key and the value of a line that is meant to be one word after
/// another and that YAML takes for something else.
fn lacks_quotes(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(": ")?;
    let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let value = value.trim();
    let means_more = match value.chars().next()? {
        '[' => value.find(']').is_some_and(|end| {
            let rest = value[end + 1..].trim_start();
            !rest.is_empty() && !rest.starts_with('#')
        }),
        '"' | '\'' | '|' | '>' | '{' | '&' | '*' | '!' | '#' => false,
        '@' | '`' | '%' => true,
        _ => value.contains(": ") || value.ends_with(':'),
    };
    (means_more && !key.is_empty() && key.chars().all(is_key)).then_some((key, value))
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
            "name: x",
        ] {
            check(yaml, None);
        }
    }
}
