//! The small languages in the arguments of programs that read.
//!
//! Each is read strictly: what is not understood is not believed to be
//! harmless.

/// Checks a script of `sed`: it may print, delete, replace and stop, and has
/// no command that runs or writes anything.
pub(super) fn sed(script: &str) -> Result<(), String> {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ';', '\n']);
        if rest.is_empty() {
            return Ok(());
        }
        rest = sed_command(rest)
            .ok_or_else(|| format!("`{script}` does more than print, delete and replace lines"))?;
        if !rest.is_empty() && !rest.starts_with([';', '\n', ' ']) {
            return Err(format!("`{script}` cannot be read"));
        }
    }
}

/// Returns what follows the first command.
fn sed_command(script: &str) -> Option<&str> {
    let mut rest = sed_address(script)?;
    if let Some(behind) = rest.strip_prefix(',') {
        let behind = behind.strip_prefix(['+', '~']).unwrap_or(behind);
        let second = sed_address(behind)?;
        if second.len() == behind.len() {
            return None;
        }
        rest = second;
    }
    let rest = rest.trim_start_matches([' ', '!']);
    let mut rest = rest.chars();
    match rest.next()? {
        'p' | 'd' | '=' | 'n' | 'N' | 'P' | 'D' | 'h' | 'H' | 'g' | 'G' | 'x' => {
            Some(rest.as_str())
        }
        'q' | 'Q' => Some(rest.as_str().trim_start_matches(|c: char| c.is_ascii_digit())),
        's' => {
            let (_, text) = delimited(rest.as_str(), None)?;
            let (delimiter, pattern_and_rest) = (rest.next()?, text);
            let (_, flags) = delimited(pattern_and_rest, Some(delimiter))?;
            Some(flags.trim_start_matches(|c: char| c.is_ascii_digit() || "gpiI".contains(c)))
        }
        _ => None,
    }
}

/// Returns what follows an address, or all if there is none.
fn sed_address(script: &str) -> Option<&str> {
    let behind_digits = script.trim_start_matches(|c: char| c.is_ascii_digit());
    if behind_digits.len() < script.len() {
        let step = behind_digits.strip_prefix('~');
        return Some(
            step.map_or(behind_digits, |step| {
                step.trim_start_matches(|c: char| c.is_ascii_digit())
            }),
        );
    }
    match script.chars().next()? {
        '$' => Some(&script[1..]),
        '/' => delimited(script, None).map(|(_, rest)| rest.strip_prefix('I').unwrap_or(rest)),
        _ => Some(script),
    }
}

/// Splits a text behind its first unescaped delimiter, which is its first
/// character unless one is given. A bracket may hide one from some seds.
fn delimited(text: &str, delimiter: Option<char>) -> Option<(&str, &str)> {
    let mut characters = text.char_indices();
    let delimiter = match delimiter {
        Some(delimiter) => delimiter,
        None => characters.next()?.1,
    };
    if !delimiter.is_ascii_punctuation() || delimiter == '\\' {
        return None;
    }
    let start = characters.as_str();
    let offset = text.len() - start.len();
    let mut escaped = false;
    for (at, c) in start.char_indices() {
        match c {
            '\n' => return None,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == delimiter => {
                let inside = &start[..at];
                let is_plain = !inside.contains('[') || inside.rfind('[') < inside.rfind(']');
                return is_plain.then_some((inside, &text[offset + at + c.len_utf8()..]));
            }
            _ => {}
        }
    }
    None
}

/// Checks the first operand of `printf`: no option, and no `%n`, with which
/// bash sets a variable, `PATH` for instance.
pub(super) fn printf(format: &str) -> Result<(), String> {
    if format.starts_with('-') {
        return Err(format!("`printf {format}` may set a variable"));
    }
    let mut pieces = format.split('%');
    pieces.next();
    let mut is_escaped = false;
    for piece in pieces {
        if std::mem::take(&mut is_escaped) {
            continue;
        }
        let conversion =
            piece.trim_start_matches(|c: char| c.is_ascii_digit() || "-+ #'.*hlLjzt".contains(c));
        match conversion.chars().next() {
            None => is_escaped = piece.is_empty(),
            Some(
                'b' | 'c' | 'd' | 'i' | 'o' | 'u' | 'x' | 'X' | 'e' | 'E' | 'f' | 'F' | 'g' | 'G'
                | 'a' | 'A' | 's' | 'q',
            ) => {}
            Some(other) => {
                return Err(format!("`%{other}` in `{format}` is not known to be harmless"));
            }
        }
    }
    Ok(())
}

/// Checks a filter of `jq`: it may not read files that the command does not
/// name.
pub(super) fn jq(filter: &str) -> Result<(), String> {
    for word in ["import", "include", "modulemeta", "input_filename", "get_search_list"] {
        if filter.contains(word) {
            return Err(format!("`{word}` in the filter may read other files"));
        }
    }
    Ok(())
}

/// Checks the columns that `ps` is to show: one is the environment.
pub(super) fn columns(columns: &str) -> Result<(), String> {
    if columns.to_ascii_lowercase().contains("env") {
        return Err(format!("`{columns}` shows the environment of processes"));
    }
    Ok(())
}

/// Checks the operand of `date`: without a `+` it sets the clock.
pub(super) fn date(format: &str) -> Result<(), String> {
    if format.starts_with('+') { Ok(()) } else { Err(format!("`date {format}` may set the clock")) }
}

/// Checks a format of git: signatures are checked by a program that the
/// configuration names.
pub(super) fn git_format(format: &str) -> Result<(), String> {
    if format.contains("%G") || format.contains("signature") {
        return Err(format!("`{format}` has signatures checked"));
    }
    Ok(())
}

/// What `test` may ask of a file.
const TESTS_OF_FILES: [&str; 13] =
    ["-b", "-c", "-d", "-e", "-f", "-h", "-L", "-p", "-r", "-s", "-S", "-w", "-x"];

/// What else it may ask. `-v` and `-R` evaluate the name they are given.
const TESTS: [&str; 16] = [
    "-n", "-z", "-t", "-a", "-o", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef",
    "-O", "-G",
];

/// Checks the words of `test` and returns the files among them.
pub(super) fn test(name: &str, words: &[String]) -> Result<Vec<String>, String> {
    let words = match (name, words.split_last()) {
        ("[", Some((last, words))) if last == "]" => words,
        ("[", _) => return Err("`[` has no `]`".to_owned()),
        (_, _) => words,
    };
    let mut files = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let is_number = word.strip_prefix('-').is_some_and(|digits| digits.parse::<u32>().is_ok());
        if TESTS_OF_FILES.contains(&word.as_str()) {
            files.extend(words.get(index + 1).cloned());
        } else if word.starts_with('-') && !is_number && !TESTS.contains(&word.as_str()) {
            return Err(format!("`{word}` is no condition that only looks"));
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_of_sed_may_print_and_replace() {
        for script in [
            "1,5p",
            "10q",
            "$p",
            "$=",
            "/x/p",
            "/a/,/b/p",
            "/a/,+3p",
            "2~3d",
            "s/a/b/",
            "s|a/b|c|gI",
            "1p;3p",
            "/x/!d",
            "s/a\\/b/c/2p",
            "",
            "5q5",
            "/[a-z]/d",
            "1,5p\n7p",
            "/x/{",
        ] {
            assert_eq!(sed(script).is_ok(), script != "/x/{", "{script}");
        }
    }

    #[test]
    fn a_script_of_sed_may_neither_run_nor_write() {
        for script in [
            "e",
            "1e touch x",
            "w x",
            "1w x",
            "s/a/b/e",
            "s/a/b/w x",
            "s/a/b/gew x",
            "r x",
            "R x",
            "W x",
            "1,5p;w x",
            "/a/w x",
            "s/[/]/x/w y",
            "1!w x",
            "a text",
            "i\\",
            "p w x",
            "s/a/b/ w x",
            "sxaxbxe",
            "F",
            "s/a/\n/e",
            "{w x\n}",
            ":a",
            "ba",
            "/[/]/w x",
            "y/a/b/",
            "s\\a\\b\\e",
            "1,w x",
            "\\,x,w y",
            "M",
            "v",
            "z",
            "l",
            "p}w x",
        ] {
            assert!(sed(script).is_err(), "{script}");
        }
    }

    #[test]
    fn a_format_of_printf_sets_nothing() {
        for format in ["%s\\n", "a", "%%n", "%-10s|%5.2f", "100%%", "%%", "%d%%%s"] {
            assert_eq!(printf(format), Ok(()), "{format}");
        }
        for format in ["%n", "12%n", "%ln", "%5n", "-v", "--", "%%%n", "%(%F)T", "%Q", "%.*n"] {
            assert!(printf(format).is_err(), "{format}");
        }
    }

    #[test]
    fn a_condition_only_looks() {
        let check = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            test("[", &words)
        };
        assert_eq!(check(&["-f", "x", "]"]), Ok(vec!["x".to_owned()]));
        assert_eq!(check(&["a", "=", "-1", "]"]), Ok(Vec::new()));
        assert!(check(&["-v", "a[$(x)]", "]"]).is_err());
        assert!(check(&["-R", "x", "]"]).is_err());
        assert!(check(&["-f", "x"]).is_err());
    }
}
