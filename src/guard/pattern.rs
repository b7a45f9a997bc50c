//! Patterns of commands and names, in which `*` stands for anything.

/// What a rule says between its parentheses.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    /// What it allows: texts, in which `*` stands for anything.
    allowed: Vec<String>,
    /// What it denies: the same in lower case, and a little more.
    denied: Vec<String>,
    /// What it denies behind other words, which may be what runs it.
    denied_behind: Vec<String>,
}

/// Words, in lower case, and where in them a command may begin that the words
/// in front run.
#[derive(Debug, Default)]
pub(super) struct Behind {
    pub(super) text: String,
    pub(super) starts: Vec<usize>,
}

impl Pattern {
    /// A pattern of commands. A star at the end stands for nothing or for
    /// whole words: `git *` is not `gitk`.
    pub(super) fn command(pattern: &str) -> Self {
        let pattern = single_spaces(pattern);
        let Some(start) = pattern.strip_suffix(":*").or(pattern.strip_suffix('*')) else {
            return Self::of(vec![pattern], Vec::new());
        };
        let words = start.trim_end();
        let allowed = vec![words.to_owned(), format!("{words} *")];
        // Whoever denies `rm*` may well mean `rmdir` too.
        let glued = if words == start && !pattern.ends_with(":*") {
            vec![format!("{words}*")]
        } else {
            Vec::new()
        };
        Self::of(allowed, glued)
    }

    /// A pattern of names.
    pub(super) fn name(pattern: &str) -> Self {
        Self::of(vec![pattern.to_owned()], Vec::new())
    }

    /// A pattern of sites, as URLs have them. Whoever denies one denies those
    /// below it, too; to allow them they have to be named: `*.example.com`.
    pub(super) fn site(pattern: &str) -> Self {
        let url = reqwest::Url::parse(&format!("http://{pattern}/"));
        let site = url.ok().and_then(|url| url.host_str().map(str::to_owned));
        let site = site.unwrap_or_else(|| pattern.to_lowercase());
        let site = site.trim_end_matches('.').to_owned();
        let below = format!("*.{site}");
        Self::of(vec![site], vec![below])
    }

    /// The pattern of a host that is spelled as calls spell it.
    pub(super) fn host(host: &str) -> Self {
        Self::of(vec![host.to_owned()], vec![format!("*.{host}")])
    }

    fn of(allowed: Vec<String>, more_denied: Vec<String>) -> Self {
        let in_all_ways = |texts: &[String]| -> Vec<String> {
            let lower: Vec<String> = texts.iter().map(|text| text.to_lowercase()).collect();
            let short = lower.iter().map(|text| without_directory(text));
            short.chain(lower.iter().cloned()).collect()
        };
        let mut denied_behind = in_all_ways(&allowed);
        let mut denied = in_all_ways(&more_denied);
        denied.extend(denied_behind.iter().cloned());
        // The whole text has been compared with what begins with a star.
        denied_behind.retain(|pattern| !pattern.starts_with('*'));
        Self { allowed, denied, denied_behind }
    }

    /// Tells whether the pattern is one text and nothing else.
    pub(super) fn is_exact(&self) -> bool {
        !self.allowed.iter().any(|text| text.contains('*'))
    }

    /// Tells whether a text is what the pattern says.
    pub(super) fn allows(&self, text: &str) -> bool {
        if self.is_exact() {
            return self.allowed.iter().any(|allowed| allowed == text);
        }
        let text = single_spaces(text);
        self.allowed.iter().any(|pattern| matches(pattern, &text))
    }

    /// Tells whether something that begins behind other words is what the
    /// pattern says, in any case.
    pub(super) fn denies_behind(&self, behind: &Behind) -> bool {
        let Behind { text, starts } = behind;
        let is_denied = |text: &str| self.denied_behind.iter().any(|it| matches(it, text));
        starts.iter().any(|&start| is_denied(&text[start..]))
    }

    /// Tells whether a text is what the pattern says, in any case.
    pub(super) fn denies(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        self.denied.iter().any(|pattern| matches(pattern, &text))
    }
}

/// Returns the words of a text with one space between each two.
pub(super) fn single_spaces(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns a command with its program named without its directory.
pub(super) fn without_directory(command: &str) -> String {
    let (program, rest) = command.split_at(command.find(' ').unwrap_or(command.len()));
    format!("{}{rest}", program.rsplit('/').next().unwrap_or(program))
}

/// Tells whether a text is `pattern`, in which each `*` stands for anything.
fn matches(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(last) = pieces.next_back() else { return pattern == text };
    let rest = text.strip_prefix(first).and_then(|rest| rest.strip_suffix(last));
    let Some(mut rest) = rest else { return false };
    // The first place of each piece leaves the most for those behind it.
    pieces.all(|piece| match rest.split_once(piece) {
        Some((_, behind)) => {
            rest = behind;
            true
        }
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, text: &str, expected: bool) {
        assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
    }

    #[test]
    fn a_star_stands_for_anything_wherever_it_is() {
        check("a", "a", true);
        check("a", "ab", false);
        check("a*c", "abbc", true);
        check("a*c", "ac", true);
        check("a*a", "a", false);
        check("*b*d", "abcd", true);
        check("a*b*c", "a c b", false);
        check("*", "", true);
    }

    #[test]
    fn a_star_at_the_end_of_a_command_stands_for_whole_words() {
        for pattern in ["git *", "git*", "git:*"] {
            let pattern = Pattern::command(pattern);
            assert!(pattern.allows("git") && pattern.allows("git  status"));
            assert!(!pattern.allows("gitk"));
        }
        assert!(Pattern::command("rm*").denies("rmdir x"));
        assert!(!Pattern::command("rm *").denies("rmdir x"));
        assert!(Pattern::command("/bin/rm *").denies("rm x"));
    }

    #[test]
    fn a_site_is_denied_with_what_is_below_it_and_allowed_alone() {
        let site = Pattern::site("Bücher.example");
        for (host, allows, denies) in [
            ("xn--bcher-kva.example", true, true),
            ("www.xn--bcher-kva.example", false, true),
            ("www.xn--bcher-kva.example.net", false, false),
            ("exn--bcher-kva.example", false, false),
        ] {
            assert_eq!((site.allows(host), site.denies(host)), (allows, denies), "{host}");
        }
        let below = Pattern::site("*.example.com");
        assert!(below.allows("a.b.example.com") && !below.allows("example.com"));
        assert!(!below.allows("a.example.com.net") && !below.allows("aexample.com"));
        assert!(Pattern::site("127.1").allows("127.0.0.1"));
    }

    #[test]
    fn behind_other_words_a_star_stands_for_whole_words() {
        let behind = |pattern: &str, text: &str| {
            Pattern::command(pattern)
                .denies_behind(&Behind { text: text.to_owned(), starts: vec![2] })
        };
        for pattern in ["rm *", "rm*", "RM:*", "/bin/rm *"] {
            assert!(behind(pattern, "a rm x") && behind(pattern, "a rm"), "{pattern}");
            assert!(!behind(pattern, "a rmdir x") && !behind(pattern, "a b rm x"), "{pattern}");
        }
    }
}
