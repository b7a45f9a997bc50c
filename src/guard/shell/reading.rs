//! One command against the table of programs.

use std::path::{Component, Path, PathBuf};

use super::programs::{self, Kind, Program, Style, Takes};
use super::world::World;
use super::{Reach, Touched, git, scripts};
use crate::guard::paths;

/// What a command turned out to be.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// The words to run: its own, and those that keep it harmless.
    pub(super) words: Vec<String>,
    pub(super) touched: Vec<Touched>,
    /// Where the commands behind it may run besides, if it is `cd`.
    pub(super) entered: Vec<PathBuf>,
}

/// The words of a command, told apart.
#[derive(Debug, Default)]
struct Given<'a> {
    /// As the table spells them.
    options: Vec<&'static str>,
    values: Vec<(Kind, &'a str)>,
    operands: Vec<&'a str>,
}

/// Checks that a command reads and does nothing else, wherever of the
/// directories it runs.
pub(super) fn check(
    words: &[String],
    world: World<'_>,
    directories: &[PathBuf],
) -> Result<Checked, String> {
    let (name, arguments) = words.split_first().ok_or("it names no program")?;
    let program = programs::find(name).ok_or_else(|| format!("`{name}` may do more than read"))?;
    if !program.is_builtin && !world.look.has_program(name) {
        return Err(format!("`{name}` is not found where programs are installed"));
    }
    let mut checked = Checked { words: vec![name.clone()], ..Checked::default() };
    refuse_files(program, Site { world, directories })
        .map_err(|file| format!("`{file}` may say what `{name}` runs"))?;
    if program.subcommands.is_empty() {
        let given = told(name, program, program.style, arguments)?;
        checked.words.extend(program.inserted.iter().cloned());
        let options = arguments.iter().position(|word| word == "--").unwrap_or(arguments.len());
        checked.words.extend(arguments[..options].iter().cloned());
        if given.has_any(&program.tree_with) {
            checked.words.extend(program.appended_to_tree.iter().cloned());
        }
        checked.words.extend(arguments[options..].iter().cloned());
        settle(name, program, &given, Site { world, directories }, &mut checked)?;
        return Ok(checked);
    }
    subcommand(name, program, arguments, Site { world, directories }, &mut checked)?;
    Ok(checked)
}

/// Where a command may run.
#[derive(Clone, Copy)]
struct Site<'a> {
    world: World<'a>,
    directories: &'a [PathBuf],
}

fn subcommand(
    name: &str,
    program: &'static Program,
    arguments: &[String],
    site: Site<'_>,
    checked: &mut Checked,
) -> Result<(), String> {
    let given = told(name, program, Style::Posix, arguments)?;
    let [first, rest @ ..] = given.operands.as_slice() else {
        checked.words.extend(arguments.iter().cloned());
        return needs(name, program, &given);
    };
    if given.options.contains(&"--help") {
        return Err(format!("`{name} --help {first}` may show a manual page"));
    }
    let second = rest.first().map(|second| format!("{first} {second}"));
    let (title, sub, rest) = match second.and_then(|both| program.subcommands.get_key_value(&both))
    {
        Some((both, sub)) => (both, sub, &rest[1..]),
        None => match program.subcommands.get_key_value(*first) {
            Some((first, sub)) => (first, sub, rest),
            None => return Err(format!("`{name} {first}` may do more than read")),
        },
    };
    let mut directories = site.directories.to_vec();
    for (_, value) in given.values.iter().filter(|(kind, _)| *kind == Kind::Directory) {
        for directory in &mut directories {
            *directory = enter(site.world, directory, value)?;
        }
    }
    if name == "git" {
        // Where it may run in two places, both must be safe in it.
        let mut settings = Vec::new();
        for directory in &directories {
            for word in git::hardening(site.world, directory)?.chunks(2) {
                if !settings.contains(&word.to_vec()) {
                    settings.push(word.to_vec());
                }
            }
        }
        checked.words.extend(settings.concat());
        if title == "blame" {
            touch_files_of_blame(&directories, site.world, checked)?;
        }
    }
    let sub_words: Vec<String> = rest.iter().map(|word| (*word).to_owned()).collect();
    let globals = arguments.len() - given.operands.len();
    checked.words.extend(arguments[..globals].iter().cloned());
    checked.words.extend(title.split(' ').map(str::to_owned));
    checked.words.extend(sub.inserted.iter().cloned());
    checked.words.extend(sub_words.iter().cloned());
    let title = format!("{name} {title}");
    let given = told(&title, sub, sub.style, &sub_words)?;
    settle(&title, sub, &given, Site { directories: &directories, ..site }, checked)
}

/// Does what is left to do when the options are known: operands, values, paths.
fn settle(
    name: &str,
    program: &Program,
    given: &Given<'_>,
    site: Site<'_>,
    checked: &mut Checked,
) -> Result<(), String> {
    let before = checked.touched.len();
    settle_words(name, program, given, site, checked)?;
    if program.spares_secrets {
        for Touched { reach, .. } in &mut checked.touched[before..] {
            if *reach == Reach::Below {
                *reach = Reach::BelowSparing;
            }
        }
    }
    Ok(())
}

/// The same, whatever it spares.
fn settle_words(
    name: &str,
    program: &Program,
    given: &Given<'_>,
    site: Site<'_>,
    checked: &mut Checked,
) -> Result<(), String> {
    needs(name, program, given)?;
    if program.style == Style::Test {
        let words: Vec<String> = given.operands.iter().map(|word| (*word).to_owned()).collect();
        let files = scripts::test(name, &words)?;
        return files.iter().try_for_each(|file| touch(Kind::File, file, site, checked));
    }
    let is_operand = |word: &&&str| !program.skipped.iter().any(|skipped| skipped == **word);
    let operands: Vec<&str> = given.operands.iter().filter(is_operand).copied().collect();
    if !operands.is_empty()
        && !program.operands_with.is_empty()
        && !given.has_any(&program.operands_with)
    {
        return Err(format!("`{name} {}` may write", operands[0]));
    }
    if let Some(other) = operands
        .iter()
        .find(|word| !program.only.is_empty() && !program.only.iter().any(|only| only == *word))
    {
        return Err(format!("`{name} {other}` may do more than read"));
    }
    if program.takes_all && operands.len() < program.operands.len() {
        return Err(format!("`{name}` does not say where"));
    }
    let from = usize::from(given.has_any(&program.first_unless)).min(program.operands.len());
    let mut kinds = program.operands[from..].iter().copied();
    let is_deep = given.has_any(&program.tree_with);
    if is_deep && given.has_any(&program.never_deep) {
        return Err(format!("`{name}` may follow links wherever they lead"));
    }
    let mut has_path = false;
    for operand in operands {
        let kind = kinds.next().or(program.rest);
        let kind =
            kind.ok_or_else(|| format!("`{operand}` is one operand too many for `{name}`"))?;
        has_path |= matches!(kind, Kind::File | Kind::Regular | Kind::Tree);
        let kind = if is_deep && kind == Kind::File { Kind::Tree } else { kind };
        if kind == Kind::Rev && (program.reads_all || is_deep) {
            refuse_outside(operand, site)?;
        }
        touch(kind, operand, site, checked)?;
    }
    for &(kind, value) in &given.values {
        touch(kind, value, site, checked)?;
    }
    if program.reads_all || is_deep && !has_path {
        return touch(Kind::Tree, ".", site, checked)
            .map(|()| touch_repository(name, site, checked));
    }
    match program.reads_here {
        Some(kind) if !has_path => {
            touch(if is_deep { Kind::Tree } else { kind }, ".", site, checked)
        }
        Some(_) | None => Ok(()),
    }
}

fn needs(name: &str, program: &Program, given: &Given<'_>) -> Result<(), String> {
    let is_there =
        given.options.iter().any(|option| program.needs.iter().any(|needed| needed == option));
    if program.needs.is_empty() || is_there || given.options.contains(&"--help") {
        return Ok(());
    }
    Err(format!("`{name}` may do more than read"))
}

/// Notes what a word names, in every directory it may be meant from.
fn touch(kind: Kind, word: &str, site: Site<'_>, checked: &mut Checked) -> Result<(), String> {
    let reach = match kind {
        Kind::Word => return Ok(()),
        Kind::Date => return scripts::date(word),
        Kind::Format => return scripts::git_format(word),
        Kind::Jq => return scripts::jq(word),
        Kind::Printf => return scripts::printf(word),
        Kind::Columns => return scripts::columns(word),
        Kind::Sed => return scripts::sed(word),
        Kind::Directory => {
            for directory in site.directories {
                checked.entered.push(enter(site.world, directory, word)?);
            }
            return Ok(());
        }
        Kind::Tree => Reach::Below,
        Kind::File | Kind::Regular | Kind::Rev => Reach::Itself,
    };
    if kind == Kind::Regular && word.starts_with('@') {
        return Err(format!("`{word}` may hold more options"));
    }
    let in_commit = if kind == Kind::Rev { in_commit(word) } else { Vec::new() };
    for &named in [word].iter().chain(&in_commit) {
        for directory in site.directories {
            // Not every program takes `-` for its input if there is such a file.
            let is_input = || named == "-" && !site.world.look.is_there(&directory.join("-"));
            if named.is_empty() || is_input() {
                continue;
            }
            // In a commit, paths begin at the top.
            let tops = (named != word).then(|| tops(directory, site)).into_iter().flatten();
            let others = tops.filter(|top| *top != directory);
            for directory in [directory.as_path()].into_iter().chain(others) {
                let path = directory.join(named);
                if kind == Kind::Regular && site.world.look.is_there(&path.join(".")) {
                    return Err(format!("`{named}` is a directory"));
                }
                if is_elusive(site.world, directory, named) {
                    return Err(format!("where `{named}` leads is another place for each process"));
                }
                checked.touched.push(Touched { path, reach });
            }
        }
    }
    Ok(())
}

/// Tells whether a path, from a directory without links, may lead elsewhere for
/// a command than for us.
fn is_elusive(world: World<'_>, directory: &Path, path: &str) -> bool {
    paths::is_elusive(directory, Path::new(path), |path| world.look.link(path))
}

/// Returns the paths that a word of git may hold: in a commit, in the index,
/// behind the lines of a file or some magic. A colon may stand anywhere in the
/// name of a commit, so each is taken for the last one of it.
fn in_commit(word: &str) -> Vec<&str> {
    let behind = word.match_indices(':').map(|(at, _)| &word[at + 1..]);
    let bare = behind.map(|path| match path.strip_prefix('(').and_then(|it| it.split_once(')')) {
        Some((_, path)) => path,
        None => path.trim_start_matches(['/', '!', '^']),
    });
    bare.collect()
}

/// Refuses a path that is not in the repository: git compares such two with
/// each other, and all that is below them.
fn refuse_outside(word: &str, site: Site<'_>) -> Result<(), String> {
    let look = site.world.look;
    let is_outside = |directory: &PathBuf| {
        let path = directory.join(word);
        let holds = |top: &Path| look.real(&path).starts_with(look.real(top));
        look.is_there(&path) && !tops(directory, site).next().is_some_and(holds)
    };
    if site.directories.iter().any(is_outside) {
        return Err(format!("`{word}` is outside the repository"));
    }
    Ok(())
}

/// Returns what may be the top of the repository that holds a directory, the
/// innermost first. git passes over a `.git` that is empty or broken.
fn tops<'a>(directory: &'a Path, site: Site<'a>) -> impl Iterator<Item = &'a Path> {
    directory.ancestors().filter(move |part| site.world.look.is_there(&part.join(".git")))
}

/// Notes the repository that holds the directories: git shows all of it from
/// any of its directories.
fn touch_repository(name: &str, site: Site<'_>, checked: &mut Checked) {
    if !name.starts_with("git ") {
        return;
    }
    for directory in site.directories {
        for top in tops(directory, site).filter(|top| top != directory) {
            checked.touched.push(Touched { path: top.to_owned(), reach: Reach::Below });
        }
    }
}

/// Notes the files that git's configuration has `git blame` read, and may show a line of.
fn touch_files_of_blame(
    directories: &[PathBuf],
    world: World<'_>,
    checked: &mut Checked,
) -> Result<(), String> {
    for directory in directories {
        let files = world.look.files_of_blame(directory);
        let files = files.ok_or("git's configuration there cannot be listed")?;
        let touched = files.into_iter().map(|path| Touched { path, reach: Reach::Itself });
        checked.touched.extend(touched);
    }
    Ok(())
}

/// Returns the directory that a change to `path` leads to, which is where
/// programs look for what is above them. It stays inside the workspace, and it
/// never goes up: a shell and the kernel may not agree on what is above a link.
fn enter(world: World<'_>, directory: &Path, path: &str) -> Result<PathBuf, String> {
    let goes_up = Path::new(path).components().any(|part| part == Component::ParentDir);
    let entered = directory.join(path);
    if goes_up || path.is_empty() || path.starts_with('-') || !world.look.is_inside(&entered) {
        return Err(format!("`{path}` may lead out of the workspace"));
    }
    if is_elusive(world, directory, path) {
        return Err(format!("where `{path}` leads is another place for each process"));
    }
    Ok(world.look.real(&entered))
}

/// Refuses to go on where a file is that says what a program runs.
fn refuse_files(program: &Program, site: Site<'_>) -> Result<(), String> {
    if program.absent.is_empty() {
        return Ok(());
    }
    for part in site.directories.iter().flat_map(|directory| directory.ancestors()) {
        if let Some(file) =
            program.absent.iter().find(|file| site.world.look.is_there(&part.join(file)))
        {
            return Err(part.join(file).display().to_string());
        }
    }
    Ok(())
}

/// Tells options from operands; an error for an option that is not listed.
fn told<'a>(
    name: &str,
    program: &'static Program,
    style: Style,
    arguments: &'a [String],
) -> Result<Given<'a>, String> {
    let mut given = Given::default();
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        let is_option = word.len() > 1 && word.starts_with('-');
        if matches!(style, Style::Plain | Style::Test) || !is_option {
            given.operands.push(word);
            if matches!(style, Style::Posix | Style::Front) {
                break;
            }
        } else if word == "--" {
            break;
        } else {
            given
                .read(program, style, word, &mut rest)
                .map_err(|what| format!("`{name} {what}` may do more than read"))?;
        }
    }
    given.operands.extend(rest);
    Ok(given)
}

impl<'a> Given<'a> {
    /// Tells whether one of these options is among them.
    fn has_any(&self, options: &[String]) -> bool {
        self.options.iter().any(|option| options.iter().any(|name| name == option))
    }

    /// Reads one word of options. An error names what is not known.
    fn read(
        &mut self,
        program: &'static Program,
        style: Style,
        word: &'a str,
        rest: &mut impl Iterator<Item = &'a str>,
    ) -> Result<(), &'a str> {
        if program.has_numbers && word[1..].bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(());
        }
        let (name, value) = match word.split_once('=') {
            Some((name, value)) if word.starts_with("--") => (name, Some(value)),
            Some(_) | None => (word, None),
        };
        let Some((listed, takes)) = program.options.get_key_value(name) else {
            return match style {
                Style::Gnu | Style::Posix if !word.starts_with("--") => {
                    self.letters(program, word, rest)
                }
                Style::Front => self.attached(program, word),
                Style::Gnu | Style::Posix | Style::Exact | Style::Plain | Style::Test => Err(word),
            };
        };
        self.options.push(listed);
        match (*takes, value) {
            (Takes::Nothing | Takes::Attached(_), None) => {}
            (Takes::Attached(kind) | Takes::Value(kind), Some(value)) => {
                self.values.push((kind, value));
            }
            (Takes::Value(kind), None) => self.values.push((kind, next_value(rest).ok_or(word)?)),
            (Takes::Nothing, Some(_)) => return Err(word),
        }
        Ok(())
    }

    /// Letters behind one dash, the last of which may have a value.
    fn letters(
        &mut self,
        program: &'static Program,
        word: &'a str,
        rest: &mut impl Iterator<Item = &'a str>,
    ) -> Result<(), &'a str> {
        for (at, letter) in word.char_indices().skip(1) {
            let behind = &word[at + letter.len_utf8()..];
            let (listed, takes) =
                program.options.get_key_value(&format!("-{letter}")).ok_or(word)?;
            self.options.push(listed);
            match *takes {
                Takes::Nothing => continue,
                Takes::Value(kind) if behind.is_empty() => {
                    self.values.push((kind, next_value(rest).ok_or(word)?));
                }
                Takes::Value(kind) | Takes::Attached(kind) => self.values.push((kind, behind)),
            }
            return Ok(());
        }
        Ok(())
    }

    /// A letter and its value in one word.
    fn attached(&mut self, program: &'static Program, word: &'a str) -> Result<(), &'a str> {
        let (name, value) = word.split_at_checked(2).ok_or(word)?;
        match program.options.get_key_value(name) {
            Some((listed, &Takes::Value(kind))) => {
                self.options.push(listed);
                self.values.push((kind, value));
                Ok(())
            }
            Some((_, Takes::Nothing | Takes::Attached(_))) | None => Err(word),
        }
    }
}

/// The next word, unless it looks like an option: not every program would take
/// that for a value.
fn next_value<'a>(rest: &mut impl Iterator<Item = &'a str>) -> Option<&'a str> {
    rest.next().filter(|value| !value.starts_with('-') || *value == "-")
}
