//! The table of programs that only read, as types.
//!
//! `programs.toml` says what each one may be told and what it reads; a command
//! that says anything else is asked about. The table is compiled in, so it is
//! whole and well formed or a test fails.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use serde::Deserialize;

/// What a word of a command stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// A text that names nothing.
    Word,
    /// A file that is read, or a directory whose names are.
    File,
    /// A file: no directory, nor `@` and the name of a file with more words.
    Regular,
    /// A file or directory that is read with all that is below it.
    Tree,
    /// A commit, a path, or a path in a commit.
    Rev,
    /// A directory that the commands behind it work in.
    Directory,
    /// How a date is shown: it begins with `+`. Anything else sets the clock.
    Date,
    /// The first operand of `printf`.
    Printf,
    /// A script of `sed`.
    Sed,
    /// A filter of `jq`.
    Jq,
    /// Columns of `ps`.
    Columns,
    /// A format of git, which may ask for a signature to be checked.
    Format,
}

/// The value that an option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    Nothing,
    /// In the same word or in the next one.
    Value(Kind),
    /// In the same word, or left out.
    Attached(Kind),
}

/// How a program reads its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Style {
    /// Letters may stand together; options may stand behind operands.
    #[default]
    Gnu,
    /// As `Gnu`, but nothing behind the first operand is an option.
    Posix,
    /// Every option is a word of its own, however many dashes it has.
    Exact,
    /// There are no options.
    Plain,
    /// `Exact` and `Posix`; a value may stand behind a letter.
    Front,
    /// The conditions of `test`.
    Test,
}

/// One program, or one subcommand.
#[derive(Debug, Clone)]
pub(super) struct Program {
    pub(super) options: HashMap<String, Takes>,
    /// Operands by their place.
    pub(super) operands: Vec<Kind>,
    /// What any further operands are.
    pub(super) rest: Option<Kind>,
    pub(super) style: Style,
    pub(super) is_builtin: bool,
    pub(super) has_numbers: bool,
    /// Whether no operand may be left out.
    pub(super) takes_all: bool,
    pub(super) only: Vec<String>,
    pub(super) skipped: Vec<String>,
    pub(super) needs: Vec<String>,
    pub(super) operands_with: Vec<String>,
    pub(super) first_unless: Vec<String>,
    pub(super) tree_with: Vec<String>,
    pub(super) never_deep: Vec<String>,
    pub(super) reads_here: Option<Kind>,
    pub(super) reads_all: bool,
    pub(super) inserted: Vec<String>,
    pub(super) appended_to_tree: Vec<String>,
    pub(super) spares_secrets: bool,
    pub(super) absent: Vec<String>,
    pub(super) subcommands: HashMap<String, Program>,
}

/// The entry of a program as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
struct Entry {
    flags: String,
    values: BTreeMap<Kind, String>,
    operands: String,
    style: Style,
    builtin: bool,
    numbers: bool,
    takes_all: bool,
    only: String,
    skipped: String,
    needs: String,
    operands_with: String,
    first_unless: String,
    tree_with: String,
    never_deep: String,
    reads_here: Option<Kind>,
    reads_all: bool,
    share: String,
    insert: String,
    append_to_tree: String,
    spares_secrets: bool,
    absent: String,
    sub: BTreeMap<String, Entry>,
}

/// Returns the entry of a program.
pub(super) fn find(name: &str) -> Option<&'static Program> {
    PROGRAMS.get(name)
}

static PROGRAMS: LazyLock<HashMap<String, Program>> = LazyLock::new(|| {
    let table: Table = toml::from_str(include_str!("programs.toml"))
        .expect("the table of programs is well formed");
    programs(&table.program, &table.set, false)
});

/// The file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    program: BTreeMap<String, Entry>,
    set: BTreeMap<String, Entry>,
}

/// Reads the entries, of which one may speak of several programs.
fn programs(
    entries: &BTreeMap<String, Entry>,
    sets: &BTreeMap<String, Entry>,
    are_subcommands: bool,
) -> HashMap<String, Program> {
    let mut programs = HashMap::new();
    for (names, entry) in entries {
        let mut program = Program::of(entry, sets);
        if !are_subcommands {
            for name in ["--help", "--version"] {
                program.options.entry(name.to_owned()).or_insert(Takes::Nothing);
            }
        }
        programs.extend(names.split(", ").map(|name| (name.to_owned(), program.clone())));
    }
    programs
}

impl Program {
    fn of(entry: &Entry, sets: &BTreeMap<String, Entry>) -> Self {
        let words =
            |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
        let shared = entry.share.split_whitespace().map(|name| &sets[name]);
        let mut options = HashMap::new();
        let mut has_numbers = false;
        let mut tree_with: Vec<String> = Vec::new();
        for entry in shared.chain([entry]) {
            has_numbers |= entry.numbers;
            tree_with.extend(words(&entry.tree_with));
            options.extend(
                entry.flags.split_whitespace().map(|flag| (flag.to_owned(), Takes::Nothing)),
            );
            for (&kind, names) in &entry.values {
                options.extend(names.split_whitespace().map(|name| match name.strip_suffix('?') {
                    Some(name) => (name.to_owned(), Takes::Attached(kind)),
                    None => (name.to_owned(), Takes::Value(kind)),
                }));
            }
        }
        let kinds = entry.operands.split_whitespace();
        let (rest, operands): (Vec<&str>, Vec<&str>) = kinds.partition(|kind| kind.ends_with('*'));
        Self {
            options,
            operands: operands.into_iter().map(Kind::named).collect(),
            rest: rest.first().map(|kind| Kind::named(kind.trim_end_matches('*'))),
            style: entry.style,
            is_builtin: entry.builtin,
            has_numbers,
            takes_all: entry.takes_all,
            only: words(&entry.only),
            skipped: words(&entry.skipped),
            needs: words(&entry.needs),
            operands_with: words(&entry.operands_with),
            first_unless: words(&entry.first_unless),
            tree_with,
            never_deep: words(&entry.never_deep),
            reads_here: entry.reads_here,
            reads_all: entry.reads_all,
            inserted: words(&entry.insert),
            appended_to_tree: words(&entry.append_to_tree),
            spares_secrets: entry.spares_secrets,
            absent: words(&entry.absent),
            subcommands: programs(&entry.sub, sets, true),
        }
    }
}

impl Kind {
    fn named(name: &str) -> Self {
        let deserializer = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(name);
        Self::deserialize(deserializer).expect("the table of programs names known kinds")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_option_is_listed_in_two_ways() {
        let table: Table = toml::from_str(include_str!("programs.toml")).unwrap();
        let entries = table.program.values().flat_map(|entry| entry.sub.values().chain([entry]));
        for entry in entries {
            let shared = entry.share.split_whitespace().map(|name| &table.set[name]);
            let (mut flags, mut values) = (Vec::new(), Vec::new());
            for entry in shared.chain([entry]) {
                flags.extend(entry.flags.split_whitespace());
                values.extend(entry.values.values().flat_map(|names| names.split_whitespace()));
            }
            for flag in flags {
                let clash = values.iter().find(|value| value.trim_end_matches('?') == flag);
                assert_eq!(clash, None, "{entry:?}");
                assert!(flag.starts_with('-') && !flag.ends_with('?'), "{flag}");
            }
        }
    }

    #[test]
    fn git_converts_no_text_where_it_may_show_a_patch() {
        let table: Table = toml::from_str(include_str!("programs.toml")).unwrap();
        for (name, entry) in &table.program["git"].sub {
            let shows = entry.share.split_whitespace().any(|set| set != "cargo");
            let insert: Vec<&str> = entry.insert.split_whitespace().collect();
            let converts_nothing =
                insert.contains(&"--no-ext-diff") && insert.contains(&"--no-textconv");
            assert_eq!(shows, converts_nothing, "git {name}");
        }
    }

    #[test]
    fn everything_that_an_entry_names_is_an_option_of_it() {
        for program in
            PROGRAMS.values().flat_map(|program| program.subcommands.values().chain([program]))
        {
            let named = [&program.needs, &program.operands_with, &program.first_unless];
            let of_trees = [&program.tree_with, &program.never_deep];
            for name in named.into_iter().chain(of_trees).flatten() {
                assert!(program.options.contains_key(name), "{name} of {program:?}");
            }
        }
    }
}
