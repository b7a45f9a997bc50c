//! Texts in the words of programs that run other programs: scripts of `sed` and `awk`,
//! commands of editors and the like.
//!
//! A text that is not understood counts as one that runs something: it then needs an
//! exact rule, no more.

/// Returns the word in which a program is told to run another one.
pub(super) fn launching<'a>(program: &str, words: &[&'a str]) -> Option<&'a str> {
    let mut words_of = words.iter().copied();
    let mut find = |runs: &dyn Fn(&str) -> bool| words_of.find(|word| runs(word));
    match program {
        "sed" | "gsed" => in_scripts(words, &SED, sed_runs),
        "awk" | "gawk" | "mawk" | "nawk" | "original-awk" => in_scripts(words, &AWK, awk_runs),
        // They take commands from their input, `!` among them.
        "ed" | "ex" => Some(words.first().copied().unwrap_or_default()),
        "vim" | "vi" | "nvim" | "view" | "gvim" | "rvim" | "vimdiff" | "less" | "more" => {
            find(&|word| word.starts_with('+') && word.len() > 1)
        }
        "zip" => find(&|word| {
            word.strip_prefix('-').is_some_and(|it| !it.starts_with('-') && it.contains("TT"))
        }),
        // The letters of its first word need no dash.
        "tar" => words
            .first()
            .copied()
            .filter(|word| !word.starts_with('-') && word.contains(['I', 'F'])),
        "make" | "gmake" => find(&|word| {
            let is_shell = ["SHELL=", ".SHELLFLAGS=", "MAKEFLAGS=", "MAKEFILES="];
            word.contains("$(")
                || word.contains('`')
                || is_shell.iter().any(|it| word.starts_with(it))
        }),
        "cmake" => {
            let tool = words.iter().position(|word| *word == "-E").map(|at| at + 1);
            let tool = tool.and_then(|at| words.get(at).copied());
            tool.filter(|tool| ["env", "time", "chdir"].contains(tool))
        }
        "gpg" | "gpg2" => find(&|word| word.starts_with("--") && word.contains("-program")),
        "rustc" => find(&|word| word.contains("linker=")),
        "sqlite3" => find(&|word| {
            word.lines().any(|line| {
                let line = line.trim_start();
                let runs = [".sh", ".sy", ".load", ".excel", ".www"];
                let is_run = runs.iter().any(|it| line.starts_with(it)) && line != ".show";
                is_run || line.starts_with('.') && line.contains('|')
            }) || ["edit(", "load_extension("].iter().any(|it| word.contains(it))
        }),
        "psql" | "mysql" | "mariadb" => {
            find(&|word| word.contains("\\!") || word.contains("system "))
        }
        "dc" => find(&|word| word.contains('!')),
        "convert" | "magick" | "identify" | "mogrify" => find(&|word| word.starts_with('|')),
        "socat" => find(&|word| {
            let word = word.to_ascii_lowercase();
            ["exec:", "system:", "shell:"].iter().any(|it| word.starts_with(it))
        }),
        _ => None,
    }
}

/// Options of a program that takes scripts.
struct ScriptOptions {
    /// Letters of options whose value is a script.
    scripts: &'static str,
    /// Letters of options whose value is a file with a script, or code to load.
    files: &'static str,
    /// Letters of options with another value.
    values: &'static str,
    /// Letters whose value, if there is one, is in the same word.
    attached: &'static str,
    /// Long options whose value is a script.
    long_scripts: &'static [&'static str],
    /// Long options whose value is a file with a script, or code to load.
    long_files: &'static [&'static str],
    /// Long options that forbid to run anything.
    safe: &'static [&'static str],
}

const SED: ScriptOptions = ScriptOptions {
    scripts: "e",
    files: "f",
    values: "l",
    attached: "i",
    long_scripts: &["--expression"],
    long_files: &["--file"],
    safe: &["--sandbox"],
};

const AWK: ScriptOptions = ScriptOptions {
    scripts: "e",
    files: "fEilW",
    values: "Fv",
    attached: "",
    long_scripts: &["--source"],
    long_files: &["--file", "--exec", "--include", "--load", "--debug"],
    safe: &["--sandbox"],
};

/// Returns the word that holds a script which runs something, or names a file with one.
fn in_scripts<'a>(
    words: &[&'a str],
    options: &ScriptOptions,
    runs: fn(&str) -> bool,
) -> Option<&'a str> {
    if words.iter().any(|word| options.safe.contains(word)) {
        return None;
    }
    let (mut has_script, mut operand) = (false, None);
    let mut rest = words.iter().copied();
    while let Some(word) = rest.next() {
        if word == "--" {
            operand = operand.or_else(|| rest.next());
            break;
        }
        if let Some((name, value)) = long(word) {
            let means = |known: &[&str]| known.iter().any(|it| it.starts_with(name));
            if means(options.long_files) {
                return Some(word);
            }
            if means(options.long_scripts) {
                has_script = true;
                let script = value.or_else(|| rest.next()).unwrap_or_default();
                if runs(script) {
                    return Some(word);
                }
            }
            continue;
        }
        let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            operand = operand.or(Some(word));
            continue;
        };
        for (at, letter) in letters.char_indices() {
            let behind = &letters[at + letter.len_utf8()..];
            let mut value = || if behind.is_empty() { rest.next() } else { Some(behind) };
            if options.files.contains(letter) {
                return Some(word);
            }
            if options.scripts.contains(letter) {
                has_script = true;
                if value().is_none_or(runs) {
                    return Some(word);
                }
                break;
            }
            if options.values.contains(letter) {
                value();
                break;
            }
            if options.attached.contains(letter) {
                break;
            }
        }
    }
    operand.filter(|script| !has_script && runs(script))
}

/// Returns the name of a long option and its value in the same word.
fn long(word: &str) -> Option<(&str, Option<&str>)> {
    let is_long = word.starts_with("--") && word.len() > 2;
    is_long.then(|| word.split_once('=').map_or((word, None), |(name, it)| (name, Some(it))))
}

/// Tells whether a script of `sed` may run a command.
fn sed_runs(script: &str) -> bool {
    // Whether a backslash hides something between brackets, programs differ.
    [true, false].into_iter().any(|escapes| sed_runs_as(script, escapes))
}

fn sed_runs_as(script: &str, escapes: bool) -> bool {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || "{};".contains(c));
        if rest.is_empty() {
            return false;
        }
        match behind_sed_command(rest, escapes) {
            Some(behind) => rest = behind,
            None => return true,
        }
    }
}

/// Returns what stands behind the first command of a script; `None` if it may run
/// something, or is not understood.
fn behind_sed_command(script: &str, escapes: bool) -> Option<&str> {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches(|c: char| {
            c.is_ascii_digit() || c.is_whitespace() || "$,+~!".contains(c)
        });
        rest = match rest.chars().next() {
            Some('/') => behind_pattern(&rest[1..], '/', escapes)?,
            Some('\\') => {
                let delimiter = rest[1..].chars().next()?;
                behind_pattern(&rest[1 + delimiter.len_utf8()..], delimiter, escapes)?
            }
            Some(_) | None => break,
        };
        // Flags of an address.
        rest = rest.trim_start_matches(['I', 'M']);
    }
    let command = rest.chars().next()?;
    let behind = &rest[command.len_utf8()..];
    let line = |from: &'static str| move |text: &str| text.find(|c| from.contains(c));
    match command {
        '{' | '}' | '=' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'F'
        | 'z' | 'l' | 'q' | 'Q' | 'L' => {
            Some(behind.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' '))
        }
        // A label ends at a semicolon for some, and at the end of the line for others.
        ':' | 'b' | 't' | 'T' | 'v' => Some(line(";\n}")(behind).map_or("", |end| &behind[end..])),
        '#' | 'r' | 'R' | 'w' | 'W' => Some(line("\n")(behind).map_or("", |end| &behind[end..])),
        'a' | 'i' | 'c' => Some(behind_text(behind)),
        's' | 'y' => {
            let delimiter = behind.chars().next().filter(|c| *c != '\n' && *c != '\\')?;
            let pattern = &behind[delimiter.len_utf8()..];
            let replacement = match command {
                's' => behind_pattern(pattern, delimiter, escapes)?,
                _ => behind_delimited(pattern, delimiter)?,
            };
            let flags = behind_delimited(replacement, delimiter)?;
            let behind =
                flags.trim_start_matches(|c: char| c.is_ascii_digit() || "gpiIMm".contains(c));
            match behind.chars().next() {
                None | Some(';' | '\n' | '}' | ' ' | '#') => Some(behind),
                Some('w') => Some(line("\n")(behind).map_or("", |end| &behind[end..])),
                Some(_) => None,
            }
        }
        _ => None,
    }
}

/// Returns what stands behind the next delimiter that no backslash hides.
fn behind_delimited(text: &str, delimiter: char) -> Option<&str> {
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if c == delimiter => return Some(&text[at + c.len_utf8()..]),
            _ => {}
        }
    }
    None
}

/// The same for a regular expression, where brackets hide it, too.
fn behind_pattern(text: &str, delimiter: char, escapes: bool) -> Option<&str> {
    let mut rest = text;
    loop {
        let c = rest.chars().next()?;
        let behind = &rest[c.len_utf8()..];
        rest = match c {
            '\\' => &behind[behind.chars().next()?.len_utf8()..],
            '[' => behind_class(behind, escapes)?,
            _ if c == delimiter => return Some(behind),
            _ => behind,
        };
    }
}

/// Returns what stands behind a bracket expression, whose `[` is in front of the text.
fn behind_class(text: &str, escapes: bool) -> Option<&str> {
    let mut rest = text.strip_prefix('^').unwrap_or(text);
    // There a bracket is one of the characters.
    rest = rest.strip_prefix(']').unwrap_or(rest);
    loop {
        let named = [(":", ":]"), (".", ".]"), ("=", "=]")].into_iter().find_map(|(from, to)| {
            let behind = rest.strip_prefix('[')?.strip_prefix(from)?;
            behind.split_once(to).map(|(_, behind)| behind)
        });
        let c = rest.chars().next()?;
        let behind = &rest[c.len_utf8()..];
        rest = match (named, c) {
            (Some(behind), _) => behind,
            (None, ']') => return Some(behind),
            (None, '\\') if escapes => &behind[behind.chars().next()?.len_utf8()..],
            (None, _) => behind,
        };
    }
}

/// Returns what stands behind a text of `a`, `i` or `c`: it goes on where a line ends in
/// a backslash.
fn behind_text(text: &str) -> &str {
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '\n' => return &text[at..],
            _ => {}
        }
    }
    ""
}

/// Tells whether a program of `awk` may run a command: by `system`, a pipe, or code from
/// elsewhere.
fn awk_runs(program: &str) -> bool {
    // Whether brackets hide a slash, and a backslash something between them, programs
    // differ.
    [None, Some(true), Some(false)].into_iter().any(|class| {
        let Some(bare) = without_literals(program, class) else { return true };
        let bare = bare.replace("||", " ");
        bare.contains(['|', '@']) || bare.contains("system")
    })
}

/// Returns a program of `awk` without its texts, expressions and comments; `None` if
/// one of them does not end. `class` says whether brackets hide anything in an
/// expression, and whether a backslash does between them.
fn without_literals(program: &str, class: Option<bool>) -> Option<String> {
    let mut bare = String::new();
    let mut rest = program;
    while let Some(c) = rest.chars().next() {
        let before = bare.trim_end_matches([' ', '\t']).chars().next_back();
        let behind = &rest[c.len_utf8()..];
        let (stands, behind) = match c {
            '"' => ('0', behind_delimited(behind, '"')?),
            // Anywhere else it divides.
            '/' if before.is_none_or(|c| "(,{};~!&|=?:\n".contains(c)) => match class {
                Some(escapes) => ('0', behind_pattern(behind, '/', escapes)?),
                None => ('0', behind_delimited(behind, '/')?),
            },
            '#' => ('\n', behind.find('\n').map_or("", |end| &behind[end..])),
            c => (c, behind),
        };
        bare.push(stands);
        rest = behind;
    }
    Some(bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_of_sed_that_runs_nothing_is_told_from_one_that_does() {
        for script in [
            "s/a/b/",
            "s/a/b/g;s|c/d|e|2p",
            "1,5p",
            "/x/d",
            "$!N;P;D",
            ":a;N;$!ba;s/\n/ /g",
            "/a/,/b/{s/x/y/;p}",
            "/x/a\\\nexit here",
            "2i some e text",
            "s/[/]/e/",
            "s/^[ \t]*//;s/[ \t]*$//",
            "y/abc/def/",
            "\\,x,d",
            "/x/w out",
            "1!G;h;$!d",
            "s/e/E/I # e",
            "0~3d",
            "5q",
        ] {
            assert!(!sed_runs(script), "{script}");
        }
        for script in [
            "1e x",
            "e",
            "$e x",
            "/a/e",
            "s/a/b/e",
            "s/a/b/ge",
            "s,a,b,e",
            "p;e x",
            "{p;e x\n}",
            "/a/!{1e x\n}",
            ":a;e x",
            "b;e x",
            "a text\ne x",
            "# note\ne x",
            "s/[/]/x/;e y\n#/",
            "w out\n1e x",
            "\\,a,e x",
            "s/a/b",
            "K",
        ] {
            assert!(sed_runs(script), "{script}");
        }
    }

    #[test]
    fn a_program_of_awk_that_runs_nothing_is_told_from_one_that_does() {
        for program in [
            "{print $1}",
            "/foo|bar/ {print}",
            "$1 == \"a|b\" || $2 ~ /c|d/ {n++} END {print n/2}",
            "BEGIN {x = 6 / 2; print x}",
            "{gsub(/a|b/, \"\"); print} # | system",
            "!seen[$0]++",
            "{print > \"out\"}",
        ] {
            assert!(!awk_runs(program), "{program}");
        }
        for program in [
            "BEGIN{system(\"x\")}",
            "{print | \"sh\"}",
            "BEGIN{\"x\" | getline y}",
            "{print |& \"x\"}",
            "@load \"x\"",
            "BEGIN{f=\"system\"; @f(\"x\")}",
            "{print 1 / 2 | \"sh\" / 3}",
            "BEGIN{print \"\\\"\" | \"sh\"}",
            "/a",
        ] {
            assert!(awk_runs(program), "{program}");
        }
    }

    #[test]
    fn scripts_are_found_wherever_options_put_them() {
        for words in [
            &["1e x"][..],
            &["-n", "1e x"],
            &["-ne", "1e x"],
            &["-e", "p", "-e", "1e x"],
            &["-e1ex"],
            &["--expression=1e x"],
            &["--expr", "1e x"],
            &["-i.bak", "1e x", "file"],
            &["--", "1e x"],
            &["file", "-f", "x"],
            &["--file=x"],
        ] {
            assert!(launching("sed", words).is_some(), "{words:?}");
        }
        for words in [
            &["-i", "s/a/b/", "e"][..],
            &["-e", "s/a/b/", "1ex"],
            &["-n", "1,5p", "e"],
            &["--sandbox", "1e x"],
            &["-E", "s/a/b/", "x"],
            &["-l", "5", "p"],
        ] {
            assert_eq!(launching("sed", words), None, "{words:?}");
        }
        assert!(launching("awk", &["-F:", "-v", "a=b", "{system($1)}"]).is_some());
        assert_eq!(launching("awk", &["-F", "|", "{print $1}", "system"]), None);
        assert_eq!(launching("awk", &["-F|", "{print $1}"]), None);
    }
}
