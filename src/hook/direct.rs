//! A program that is started without a shell, as servers of tools are: which files of
//! the project it runs, as far as its words, variables and directory tell.

use std::path::PathBuf;

use super::files::names_its_files;
use super::inert::{self, Running};

/// Variables with which a program loads code that its words do not name.
const LOADERS: [&str; 22] = [
    "BASH_ENV",
    "CLASSPATH",
    "ENV",
    "GEM_HOME",
    "GEM_PATH",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LUA_CPATH",
    "LUA_PATH",
    "NODE_OPTIONS",
    "NODE_PATH",
    "PATH",
    "PERL5LIB",
    "PERL5OPT",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "RUBYLIB",
    "RUBYOPT",
];

/// Options whose value is code, or names a module, in the languages of `inert`.
const CODE_OPTIONS: [&str; 6] = ["--eval", "--print", "-c", "-e", "-m", "-p"];

/// A program that is started without a shell.
#[derive(Debug, Clone)]
pub struct DirectCommand<'a> {
    /// The program and its arguments.
    pub words: Vec<&'a str>,
    /// The variables that it is given.
    pub variables: Vec<(&'a str, &'a str)>,
    /// The directory that it starts in; absolute.
    pub directory: PathBuf,
}

impl DirectCommand<'_> {
    /// Returns whether each file of the project that the program runs by itself is among
    /// those that the command names. What those run in turn is another matter.
    #[must_use]
    pub fn names_its_files(&self) -> bool {
        let has_shell = self.words.iter().any(|word| inert::is_shell(inert::bare_name(word)));
        let is_known = |word: &&str| match has_shell {
            true => names_its_files(word),
            // These mean something to a shell only.
            false => names_its_files(&word.replace(['*', '?', '[', '{', '\\', '~', '`'], "")),
        };
        self.words.iter().all(is_known)
            && !self.variables.iter().any(|(name, _)| LOADERS.contains(name))
            && !self.takes_code()
            && !self.runs_directory()
    }

    /// Returns what each part of the command may run.
    pub(super) fn parts(&self) -> Vec<Running> {
        let variables = self.variables.iter().flat_map(|&(name, value)| {
            let programs = if LOADERS.contains(&name) { None } else { Some(Vec::new()) };
            let part =
                move |text: &str| Running { text: text.to_owned(), programs: programs.clone() };
            value.split(':').map(part)
        });
        inert::running_words(&self.words).into_iter().chain(variables).collect()
    }

    /// Returns whether an interpreter that is no shell is given code or a module.
    fn takes_code(&self) -> bool {
        let name = |word: &&str| word.rsplit('/').next().unwrap_or_default().to_owned();
        let is_interpreter = |name: String| inert::is_interpreter(&name) && !inert::is_shell(&name);
        let takes_code = |word: &&str| CODE_OPTIONS.iter().any(|option| word.starts_with(option));
        self.words.iter().map(name).any(is_interpreter) && self.words.iter().any(takes_code)
    }

    /// Returns whether a directory is run: what it holds says which of its files.
    fn runs_directory(&self) -> bool {
        let parts = inert::running_words(&self.words);
        let mut programs = parts.iter().filter_map(|part| part.programs.as_ref()?.first());
        programs.any(|program| self.directory.join(program).is_dir())
    }
}
