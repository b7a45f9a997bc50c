//! Options with which well-known programs run others.
//!
//! An allow pattern such as `Bash(git *)` trusts the program it names: what
//! that program does by itself, with its configuration or with a script, the
//! pattern allows too. These options are the exception, because they make a
//! harmless-looking program run any other in one step. The list is no wall:
//! an interpreter's script, `awk`'s and `sed`'s program text, or an alias in
//! a configuration file still run what they like. An exact rule allows what
//! is refused here.

/// A family of programs and their options.
struct Launcher {
    programs: &'static [&'static str],
    /// Long options; shorter spellings of them count too.
    long: &'static [&'static str],
    /// One-letter options, alone or among others.
    letters: &'static str,
    /// Whether the letters count only in front of the first operand: behind
    /// a subcommand they mean something else.
    in_front: bool,
}

const LAUNCHERS: [Launcher; 10] = [
    Launcher {
        programs: &["git"],
        // An alias, a pager or a transport may be any program.
        long: &[
            "--config-env",
            "--exec-path",
            "--exec",
            "--extcmd",
            "--upload-pack",
            "--receive-pack",
            "--open-files-in-pager",
        ],
        letters: "c",
        in_front: true,
    },
    Launcher {
        programs: &["find"],
        long: &["-exec", "-execdir", "-ok", "-okdir"],
        letters: "",
        in_front: false,
    },
    Launcher {
        programs: &["tar"],
        long: &[
            "--to-command",
            "--checkpoint-action",
            "--use-compress-program",
            "--rsh-command",
            "--info-script",
            "--new-volume-script",
        ],
        letters: "IF",
        in_front: false,
    },
    Launcher {
        programs: &["rsync"],
        long: &["--rsh", "--rsync-path"],
        letters: "e",
        in_front: false,
    },
    // `ProxyCommand` and `LocalCommand` run here, not there.
    Launcher { programs: &["ssh", "scp", "sftp"], long: &[], letters: "oSF", in_front: false },
    Launcher {
        programs: &["make"],
        long: &["--eval", "--file", "--makefile"],
        letters: "fE",
        in_front: false,
    },
    // A runner or a compiler wrapper may be any program.
    Launcher { programs: &["cargo"], long: &["--config"], letters: "", in_front: false },
    Launcher {
        programs: &["npm", "npx"],
        long: &["--script-shell", "--call", "--node-options"],
        letters: "c",
        in_front: false,
    },
    Launcher { programs: &["env"], long: &["--split-string"], letters: "S", in_front: false },
    // The program is in the option.
    Launcher {
        programs: &["sh", "bash", "dash", "zsh", "python", "python3", "node", "perl", "ruby"],
        long: &["--eval", "--print", "--command"],
        letters: "ceEp",
        in_front: false,
    },
];

/// Options of git that stand in front of the subcommand and take a word.
const GIT_OPTIONS_WITH_WORD: [&str; 4] = ["-C", "--git-dir", "--work-tree", "--namespace"];

/// Returns the option with which a command would run another program.
///
/// `words` are those of one command, without their quotes.
pub(super) fn option_of(words: &[&str]) -> Option<String> {
    let (program, words) = words.split_first()?;
    let program = program.rsplit('/').next()?;
    let launcher = LAUNCHERS.iter().find(|launcher| launcher.programs.contains(&program))?;
    let mut in_front = true;
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        if launcher.is_long(word) || (in_front || !launcher.in_front) && launcher.has_letter(word) {
            return Some(word.to_owned());
        }
        if launcher.in_front && GIT_OPTIONS_WITH_WORD.contains(&word) {
            words.next();
        } else {
            in_front &= word.starts_with('-');
        }
    }
    None
}

impl Launcher {
    fn is_long(&self, word: &str) -> bool {
        let name = word.split('=').next().unwrap_or(word);
        self.long.iter().any(|long| {
            *long == name || name.len() > 3 && name.starts_with("--") && long.starts_with(name)
        })
    }

    fn has_letter(&self, word: &str) -> bool {
        // Letters may stand together, `-xc`, or in front of their value.
        !word.starts_with("--")
            && word
                .strip_prefix('-')
                .is_some_and(|word| word.contains(|c| self.letters.contains(c)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &str, option: Option<&str>) {
        let bare = command.replace(['"', '\''], "");
        let words: Vec<&str> = bare.split_whitespace().collect();
        assert_eq!(option_of(&words).as_deref(), option, "{command}");
    }

    #[test]
    fn an_option_that_runs_another_program_is_found() {
        check("git -c alias.x='!touch /x' x", Some("-c"));
        check("git -C sub \"-c\" a=b x", Some("-c"));
        check("/usr/bin/git --config-env=a=B x", Some("--config-env=a=B"));
        check("git rebase --exec x", Some("--exec"));
        check("find . -name x -execdir sh", Some("-execdir"));
        check("tar -xf a --to-comm=sh", Some("--to-comm=sh"));
        check("rsync -ae sh a b", Some("-ae"));
        check("bash -xc ls", Some("-xc"));
        check("cargo test --config a", Some("--config"));
    }

    #[test]
    fn everyday_commands_are_left_alone() {
        check("git switch -c new", None);
        check("git log --oneline -p", None);
        check("find . -name -x -type f", None);
        check("tar -xzf a.tar.gz", None);
        check("cargo test --all-targets", None);
        check("ls -c", None);
    }
}
