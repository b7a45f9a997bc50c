//! What a path and a line tell of a source file, without reading the rest.
//!
//! This is by rule of thumb and by name alone: good enough to decide what is
//! worth a look, never to decide what a program does.

/// Parts of the paths of files that nobody writes by hand.
const GENERATED: &str =
    "/vendor/ /node_modules/ /dist/ .min. .snap .svg -lock.yaml -lock.json .lock /go.sum";

/// Parts of the paths of tests, and of examples, which may be as careless.
const TESTS: &str = "/test/ /tests/ /__tests__/ /spec/ /testdata/ /fixtures/ /benches/ /examples/ \
    /test_ /tests. /conftest. _test. _tests. _spec. .test. .spec. Test.";

/// Endings and the language each belongs to; anything else is prose.
const LANGUAGES: [(&str, &str); 7] = [
    ("rs", "rs"),
    ("py", "py"),
    ("js jsx mjs cjs ts tsx vue svelte", "js"),
    ("go", "go"),
    ("java kt c h cc cpp hpp cs swift php", "c"),
    ("sh bash rb", "sh"),
    ("toml yaml yml json ini env properties", "config"),
];

/// Returns the language of a path; `None` for what nobody writes by hand.
#[must_use]
pub fn language(path: &str) -> Option<&'static str> {
    let ending = path.rsplit('.').next().unwrap_or_default();
    let known = LANGUAGES.iter().find(|(endings, _)| endings.split(' ').any(|end| end == ending));
    (!has_part(path, GENERATED)).then(|| known.map_or("prose", |(_, language)| *language))
}

/// Tells whether a language is a programming language.
#[must_use]
pub fn is_code(language: &str) -> bool {
    language != "config" && language != "prose"
}

/// Tells whether a path is a test's or an example's.
#[must_use]
pub fn is_test(path: &str) -> bool {
    has_part(path, TESTS)
}

fn has_part(path: &str, parts: &str) -> bool {
    parts.split(' ').any(|part| format!("/{path}").contains(part))
}

/// Returns how many bytes of white space a line begins with.
#[must_use]
pub fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Returns the file's name up to its first dot.
#[must_use]
pub fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.split('.').next().unwrap_or(name)
}

/// Splits a line: its code with emptied strings, its code with strings, and
/// its comment.
#[must_use]
pub fn parts(line: &str, language: &str) -> [String; 3] {
    let sign = if matches!(language, "py" | "sh" | "config") { "#" } else { "//" };
    let start = line.trim_start();
    if sign == "//" && (start == "*" || start.starts_with("* ") || start.starts_with("/*")) {
        return [String::new(), String::new(), line.to_owned()];
    }
    let (mut code, mut text, mut quote) = (String::new(), String::new(), None);
    let mut chars = line.char_indices();
    while let Some((at, c)) = chars.next() {
        let closed = line[at + c.len_utf8()..].chars().take(3).any(|next| next == '\'');
        match quote {
            None if line[at..].starts_with(sign) => return [code, text, line[at..].to_owned()],
            // In Rust a single one begins a lifetime.
            None if c == '\'' && language == "rs" && !closed => {}
            None if matches!(c, '"' | '\'' | '`') => quote = Some(c),
            Some(open) if c == open => quote = None,
            Some(_) | None => {}
        }
        text.push(c);
        // Within a string only its quotes count as code.
        code.extend((quote.is_none() || quote == Some(c)).then_some(c));
        text.extend((quote.is_some() && c == '\\').then(|| chars.next()).flatten().map(|(_, c)| c));
    }
    [code, text, String::new()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split_into_code_text_and_comment() {
        let parts = |line| parts(line, "rs").map(|part| part.trim_end().to_owned());
        assert_eq!(parts("f(\"a // b\"); // c"), ["f(\"\");", "f(\"a // b\");", "// c"]);
        assert_eq!(
            parts("fn f<'a>(x: &'a str)"),
            ["fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)", ""]
        );
        assert_eq!(parts(" * prose"), ["", "", " * prose"]);
    }

    #[test]
    fn paths_tell_languages_tests_and_what_nobody_writes() {
        assert_eq!(language("src/a.rs"), Some("rs"));
        assert_eq!(language("Cargo.lock"), None);
        assert_eq!(language("README.md"), Some("prose"));
        assert!(is_test("tests/it/main.rs") && is_test("a/b_test.go") && !is_test("src/latest.rs"));
        assert_eq!(stem("src/a.min.js"), "a");
    }
}
