//! What a word can become: the name of a command behind `/`, a path behind `@`.
//!
//! Paths are gathered on a thread of their own, as git sees the project: what it
//! ignores is not offered. Nothing is read of a file but its name.

use std::io;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::time::{Duration, Instant};

use ignore::WalkBuilder;

/// Most paths that are offered. A larger repository is searched by naming a
/// directory of it, and more would not be looked through between two keys.
pub const PATHS_CAP: usize = 20_000;

/// How long paths are gathered. What was found by then is offered.
const GATHER_LIMIT: Duration = Duration::from_secs(5);

/// Most choices that are offered at once.
pub const CHOICES_CAP: usize = 50;

/// Characters that a path may follow in a sentence.
const BEFORE_PATHS: [char; 6] = ['(', '[', '"', '\'', '`', ','];

/// A word that can be completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// What it is the beginning of.
    pub kind: Kind,
    /// Where it stands in the text, its first sign among it.
    pub range: Range<usize>,
    /// What is typed of it, without that sign.
    pub typed: String,
}

/// What a word is the beginning of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A command: the first word of the text, after `/`.
    Command,
    /// A path, after `@`.
    Path,
}

/// Something that a word can become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// What is put in the word's place.
    pub text: String,
    /// What is said beside it; empty for a path.
    pub about: String,
}

/// Returns the word before the cursor, if it can become something.
#[must_use]
pub fn word(text: &str, cursor: usize) -> Option<Word> {
    let before = text.get(..cursor)?;
    let rest = before.strip_prefix('/');
    if let Some(typed) = rest.filter(|typed| !typed.contains([' ', '\t', '\n', '/'])) {
        let typed = typed.to_owned();
        return Some(Word { kind: Kind::Command, range: 0..cursor, typed });
    }
    let start = before
        .rfind(char::is_whitespace)
        .map_or(0, |space| space + before[space..].chars().next().map_or(0, char::len_utf8));
    // An address has one, too, in its middle.
    let at = before[start..].find('@')? + start;
    let is_first = before[start..at].chars().all(|c| BEFORE_PATHS.contains(&c));
    let typed = before[at + 1..].to_owned();
    is_first.then_some(Word { kind: Kind::Path, range: at..cursor, typed })
}

/// Returns the commands that a word can become, those that begin like it first.
/// `commands` are their names, without `/`, and a sentence about each.
#[must_use]
pub fn commands(typed: &str, commands: &[(&str, &str)]) -> Vec<Choice> {
    let typed = typed.to_lowercase();
    let ranked = commands.iter().filter_map(|&(name, about)| {
        let rank = rank(&name.to_lowercase(), 0, &typed)?;
        Some((rank, name, about))
    });
    let mut ranked: Vec<_> = ranked.collect();
    ranked.sort();
    let choice = |(_, name, about): (Rank, &str, &str)| {
        // A space, since most of them take something.
        Choice { text: format!("/{name} "), about: about.to_owned() }
    };
    ranked.into_iter().take(CHOICES_CAP).map(choice).collect()
}

/// The paths of a project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Paths {
    paths: Vec<Listed>,
    /// Whether there are more than were gathered.
    pub is_cut: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Listed {
    /// Relative to the root; a directory ends in `/`.
    path: String,
    /// In small letters, by which it is looked for.
    small: String,
    /// Where its last segment begins in that.
    name: usize,
}

impl Paths {
    /// Gathers the paths below a directory on a thread, and tells them.
    ///
    /// # Errors
    ///
    /// If there is no thread to be had.
    pub fn gather(root: &Path, tell: impl FnOnce(Self) + Send + 'static) -> io::Result<()> {
        let root = root.to_owned();
        let gathering = move || tell(Self::below(&root));
        std::thread::Builder::new().name("paths".to_owned()).spawn(gathering)?;
        Ok(())
    }

    fn below(root: &Path) -> Self {
        let walk = WalkBuilder::new(root)
            .hidden(false)
            .require_git(false)
            .filter_entry(|entry| entry.file_name() != ".git")
            .sort_by_file_name(std::ffi::OsStr::cmp)
            .build();
        let began = Instant::now();
        let mut paths = Self::default();
        // What cannot be listed is not offered; nobody asked for it by name.
        for entry in walk.filter_map(Result::ok).filter(|entry| entry.depth() > 0) {
            if paths.paths.len() == PATHS_CAP || began.elapsed() > GATHER_LIMIT {
                paths.is_cut = true;
                break;
            }
            let relative = entry.path().strip_prefix(root).ok().and_then(Path::to_str);
            // A name that is no text cannot be typed either.
            let Some(path) = relative.filter(|path| !path.contains(char::is_control)) else {
                continue;
            };
            let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
            paths.add(format!("{path}{}", if is_directory { "/" } else { "" }));
        }
        paths
    }

    fn add(&mut self, path: String) {
        let small = path.to_lowercase();
        let name = small.trim_end_matches('/').rfind('/').map_or(0, |slash| slash + 1);
        self.paths.push(Listed { path, small, name });
    }

    /// Returns what a word can become: first what begins like it, then what has
    /// it, then what has its letters in their order.
    #[must_use]
    pub fn choices(&self, typed: &str) -> Vec<Choice> {
        let typed = typed.to_lowercase();
        let ranked = self.paths.iter().filter_map(|listed| {
            let rank = rank(&listed.small, listed.name, &typed)?;
            Some((rank, listed.path.len(), &*listed.path))
        });
        let mut ranked: Vec<_> = ranked.collect();
        // Only the first are put in order.
        if ranked.len() > CHOICES_CAP {
            ranked.select_nth_unstable(CHOICES_CAP);
            ranked.truncate(CHOICES_CAP);
        }
        ranked.sort_unstable();
        let choice = |(_, _, path): (Rank, usize, &str)| {
            // A directory is gone on with, a file is done.
            let end = if path.ends_with('/') { "" } else { " " };
            Choice { text: format!("@{path}{end}"), about: String::new() }
        };
        ranked.into_iter().map(choice).collect()
    }
}

/// How well a name fits what is typed, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// It begins like it.
    Begins,
    /// Its last segment does.
    NameBegins,
    /// Its last segment has it.
    NameHolds,
    /// It has it.
    Holds,
    /// It has its letters, in their order.
    Letters,
}

/// `None` if it does not fit. Both are in small letters.
fn rank(small: &str, name: usize, typed: &str) -> Option<Rank> {
    let last = &small[name..];
    if small.starts_with(typed) {
        Some(Rank::Begins)
    } else if last.starts_with(typed) {
        Some(Rank::NameBegins)
    } else if last.contains(typed) {
        Some(Rank::NameHolds)
    } else if small.contains(typed) {
        Some(Rank::Holds)
    } else {
        has_letters(small, typed).then_some(Rank::Letters)
    }
}

fn has_letters(small: &str, typed: &str) -> bool {
    let mut letters = small.chars();
    typed.chars().all(|wanted| letters.any(|letter| letter == wanted))
}

/// Returns what all choices begin with, for a first Tab that cannot decide.
#[must_use]
pub fn in_common(choices: &[Choice]) -> &str {
    let Some((first, others)) = choices.split_first() else { return "" };
    let shared = others.iter().try_fold(first.text.len(), |length, other| {
        let same = first.text[..length].char_indices().zip(other.text.chars());
        match same.into_iter().find(|((_, one), another)| one != another) {
            Some(((0, _), _)) => ControlFlow::Break(0),
            Some(((at, _), _)) => ControlFlow::Continue(at),
            None => ControlFlow::Continue(length.min(other.text.len())),
        }
    });
    match shared {
        ControlFlow::Continue(length) | ControlFlow::Break(length) => &first.text[..length],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::sync::mpsc;

    #[track_caller]
    fn check_word(text: &str, expected: Option<(Kind, Range<usize>, &str)>) {
        let cursor = text.find('|').expect("the cursor is somewhere");
        let found = word(&text.replacen('|', "", 1), cursor);
        let expected = expected.map(|(kind, range, typed)| {
            let typed = typed.to_owned();
            Word { kind, range, typed }
        });
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn a_command_is_the_first_word_and_a_path_any_word_that_begins_with_its_sign() {
        check_word("/re| x", Some((Kind::Command, 0..3, "re")));
        check_word("/|", Some((Kind::Command, 0..1, "")));
        for none in ["|/re", "x /re|", "/re x|", "/usr/bin|", "", "a@b.c|", "see |@x"] {
            check_word(&format!("{none}{}", if none.contains('|') { "" } else { "|" }), None);
        }
        check_word("see @src/ma|in", Some((Kind::Path, 4..11, "src/ma")));
        check_word("@|", Some((Kind::Path, 0..1, "")));
        check_word("a\n(@ä|)", Some((Kind::Path, 3..6, "ä")));
        check_word("/review @x|", Some((Kind::Path, 8..10, "x")));
        check_word("a\u{2003}@x|", Some((Kind::Path, 4..6, "x")));
    }

    #[test]
    fn commands_that_begin_like_it_come_first() {
        let known = [("resume", "goes on"), ("review", "looks"), ("tree", ""), ("compact", "")];
        let names = |typed| {
            let choices = commands(typed, &known);
            choices.into_iter().map(|choice| choice.text).collect::<Vec<_>>()
        };
        assert_eq!(names("re"), ["/resume ", "/review ", "/tree "]);
        assert_eq!(names("RV"), ["/review "]);
        assert_eq!(names("x"), Vec::<String>::new());
        assert_eq!(commands("res", &known)[0].about, "goes on");
    }

    fn paths(names: &[&str]) -> Paths {
        let mut paths = Paths::default();
        names.iter().for_each(|&name| paths.add(name.to_owned()));
        paths
    }

    #[track_caller]
    fn check(paths: &Paths, typed: &str, expected: &[&str]) {
        let choices = paths.choices(typed);
        let texts: Vec<_> = choices.iter().map(|choice| &*choice.text).collect();
        assert_eq!(texts, expected, "{typed:?}");
    }

    #[test]
    fn paths_are_offered_by_how_well_they_fit_and_short_ones_first() {
        let paths = paths(&[
            "src/",
            "src/cli.rs",
            "src/cli/",
            "src/cli/line.rs",
            "docs/cli.md",
            "README.md",
        ]);
        check(&paths, "src/c", &["@src/cli/", "@src/cli.rs ", "@src/cli/line.rs "]);
        check(&paths, "cli", &["@src/cli/", "@src/cli.rs ", "@docs/cli.md ", "@src/cli/line.rs "]);
        check(&paths, "readme", &["@README.md "]);
        check(&paths, "slr", &["@src/cli.rs ", "@src/cli/line.rs "]);
        check(&paths, "nothing", &[]);
        assert_eq!(paths.choices("").len(), 6);
    }

    #[test]
    fn what_all_choices_begin_with_is_known() {
        let common = |typed| {
            in_common(&paths(&["src/cli.rs", "src/chat.rs", "x"]).choices(typed)).to_owned()
        };
        assert_eq!(
            (common("src"), common("x"), common("none")),
            ("@src/c".into(), "@x ".into(), String::new())
        );
        assert_eq!(common("r"), "@src/c");
        assert_eq!(common(""), "@");
    }

    #[test]
    fn paths_are_those_that_git_sees() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for path in ["src/main.rs", ".github/ci.yml", "target/debug/x", ".git/config", "a b.txt"] {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), "").unwrap();
        }
        fs::write(root.join(".gitignore"), "/target\n").unwrap();
        std::os::unix::fs::symlink("/etc", root.join("link")).unwrap();
        let (sender, receiver) = mpsc::channel();
        Paths::gather(root, move |paths| sender.send(paths).unwrap()).unwrap();
        let paths = receiver.recv().unwrap();
        let all: Vec<_> = paths.paths.iter().map(|listed| &*listed.path).collect();
        let expected =
            [".github/", ".github/ci.yml", ".gitignore", "a b.txt", "link", "src/", "src/main.rs"];
        assert_eq!((all, paths.is_cut), (expected.to_vec(), false));
    }

    #[test]
    fn no_more_paths_are_gathered_than_are_offered() {
        let directory = tempfile::tempdir().unwrap();
        for number in 0..=PATHS_CAP {
            fs::write(directory.path().join(number.to_string()), "").unwrap();
        }
        let paths = Paths::below(directory.path());
        assert!(paths.is_cut && paths.paths.len() <= PATHS_CAP);
        assert_eq!(paths.choices("").len(), CHOICES_CAP);
    }
}
