//! Options with which well-known programs run others.
//!
//! An allow pattern such as `Bash(git *)` trusts the program it names: what
//! that program does by itself, with its configuration or with a script, the
//! pattern allows too. These options are the exception, because they make a
//! harmless-looking program run any other in one step, as do program texts of `sed`,
//! `awk` and editors. The list is no wall: an interpreter's script, or an alias in
//! a configuration file, still runs what it likes. An exact rule allows what
//! is refused here.

mod texts;

/// A family of programs and their options.
struct Launcher {
    programs: &'static [&'static str],
    /// Subcommands behind which the options count; anywhere if there are none.
    behind: &'static [&'static str],
    /// Long options, and words that are whole; shorter spellings of those with two
    /// dashes count too.
    long: &'static [&'static str],
    /// One-letter options, alone or among others.
    letters: &'static str,
    /// Whether the letters count only in front of the first operand: behind
    /// a subcommand they mean something else.
    in_front: bool,
}

const fn anywhere(
    programs: &'static [&'static str],
    long: &'static [&'static str],
    letters: &'static str,
) -> Launcher {
    Launcher { programs, behind: &[], long, letters, in_front: false }
}

/// Options of a subcommand of git.
const fn git(
    behind: &'static [&'static str],
    long: &'static [&'static str],
    letters: &'static str,
) -> Launcher {
    Launcher { programs: &["git"], behind, long, letters, in_front: false }
}

/// A setting that names the program of a transport or an alias, for one call.
const GIT_CONFIG: &[&str] = &["--config", "--template"];

/// Some text of a program's own language may run another one: see [`texts`].
const LAUNCHERS: &[Launcher] = &[
    Launcher {
        programs: &["git"],
        behind: &[],
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
    git(&["grep"], &[], "O"),
    git(&["clone"], GIT_CONFIG, "uc"),
    git(&["init"], GIT_CONFIG, ""),
    git(&["rebase", "difftool"], &[], "x"),
    git(&["bisect"], &["run"], ""),
    git(&["submodule"], &["foreach"], ""),
    git(&["hook"], &["run"], ""),
    git(&["instaweb"], &["--httpd"], "d"),
    git(&["help", "web--browse"], &["--browser", "--tool"], "bt"),
    git(&["send-email"], &["--sendmail-cmd", "--smtp-server", "--to-cmd", "--cc-cmd"], ""),
    anywhere(&["find"], &["-exec", "-execdir", "-ok", "-okdir"], ""),
    anywhere(&["fd", "fdfind"], &["--exec", "--exec-batch"], "xX"),
    anywhere(&["rg"], &["--pre", "--hostname-bin"], ""),
    anywhere(&["ag", "ack", "bat", "batcat", "delta"], &["--pager"], ""),
    anywhere(&["sort"], &["--compress-program"], ""),
    anywhere(&["split"], &["--filter"], ""),
    anywhere(&["man"], &["--pager", "--html"], "PH"),
    anywhere(&["less"], &["--lesskey-file", "--lesskey-src"], "k"),
    anywhere(
        &["tar"],
        &[
            "--to-command",
            "--checkpoint-action",
            "--use-compress-program",
            "--rsh-command",
            "--rmt-command",
            "--info-script",
            "--new-volume-script",
        ],
        "IF",
    ),
    anywhere(&["cpio"], &["--rsh-command"], ""),
    anywhere(&["zip"], &["--unzip-command"], ""),
    anywhere(&["rsync"], &["--rsh", "--rsync-path"], "e"),
    // `ProxyCommand` and `LocalCommand` run here, not there.
    anywhere(&["ssh", "scp", "sftp"], &[], "oSF"),
    anywhere(&["wget"], &["--execute", "--use-askpass"], "e"),
    anywhere(&["tcpdump"], &[], "z"),
    anywhere(&["nc", "ncat", "netcat"], &["--exec", "--sh-exec", "--lua-exec"], "ec"),
    // Their commands begin with `!`, or run programs themselves.
    anywhere(
        &["vim", "vi", "nvim", "view", "gvim", "rvim", "vimdiff"],
        &["--cmd", "--remote-expr", "--remote-send"],
        "cSsuUeE",
    ),
    anywhere(
        &["emacs", "emacsclient"],
        &["--eval", "--execute", "--load", "--script", "--funcall", "-eval", "-load", "-script"],
        "flex",
    ),
    anywhere(
        &["gdb"],
        &["-ex", "-iex", "-x", "-ix", "--command", "--eval-command", "--init-command"],
        "",
    ),
    anywhere(&["lldb"], &["--one-line", "--one-line-before-file", "--source"], "oOsS"),
    anywhere(&["sqlite3"], &["-cmd", "-init", "--cmd", "--init"], ""),
    // Builds. A runner or a compiler wrapper may be any program.
    anywhere(&["make", "gmake"], &["--eval", "--file", "--makefile"], "fE"),
    anywhere(&["cmake"], &["-P"], ""),
    anywhere(&["cargo"], &["--config"], ""),
    anywhere(&["rustdoc"], &["--runtool", "--test-runtool", "--test-builder"], ""),
    anywhere(&["go"], &["-exec", "-toolexec", "-vettool", "--exec", "--toolexec"], ""),
    anywhere(&["gcc", "g++", "cc", "c++", "clang", "clang++"], &["-wrapper", "-fplugin"], ""),
    anywhere(&["gradle"], &["--init-script"], "I"),
    anywhere(&["npm", "npx"], &["--script-shell", "--call", "--node-options"], "c"),
    anywhere(&["pnpm", "yarn"], &["--script-shell", "--shell-mode"], "c"),
    anywhere(&["pip", "pip3"], &["--python"], ""),
    anywhere(&["apt", "apt-get", "apt-cache"], &["--option", "--config-file"], "oc"),
    anywhere(&["rpm"], &["--eval", "--pipe"], "E"),
    anywhere(&["pandoc"], &["--filter", "--lua-filter", "--pdf-engine"], "FL"),
    anywhere(
        &["pdflatex", "xelatex", "lualatex", "latex"],
        &["-shell-escape", "--shell-escape"],
        "",
    ),
    anywhere(&["openssl"], &["-engine", "-provider-path"], ""),
    anywhere(&["hg"], &["--config", "--debugger"], ""),
    anywhere(&["svn"], &["--diff-cmd", "--diff3-cmd", "--editor-cmd", "--config-option"], ""),
    anywhere(&["env"], &["--split-string"], "S"),
    // The program is in the option.
    anywhere(
        &["sh", "bash", "dash", "zsh", "python", "python3", "node", "perl", "ruby"],
        &["--eval", "--print", "--command"],
        "ceEp",
    ),
    anywhere(&["node", "bun", "deno"], &["--require", "--import", "--loader"], "re"),
    anywhere(&["php"], &["--run", "--process-code", "--process-begin"], "rBRE"),
    anywhere(&["lua", "Rscript", "julia"], &["--eval", "--load"], "eElL"),
];

/// Options of git that stand in front of the subcommand and take a word.
const GIT_OPTIONS_WITH_WORD: [&str; 4] = ["-C", "--git-dir", "--work-tree", "--namespace"];

/// Returns the option, or the text, with which a command would run another program.
///
/// `words` are those of one command, without their quotes.
pub(super) fn option_of(words: &[&str]) -> Option<String> {
    let (program, words) = words.split_first()?;
    let program = program.rsplit('/').next()?;
    let launchers = LAUNCHERS.iter().filter(|launcher| launcher.programs.contains(&program));
    let mut options = launchers.filter_map(|launcher| launcher.option_among(words));
    options.next().or_else(|| texts::launching(program, words)).map(str::to_owned)
}

impl Launcher {
    /// Returns the option among the words behind the program's name.
    fn option_among<'a>(&self, words: &[&'a str]) -> Option<&'a str> {
        let mut in_front = true;
        let mut subcommand = None;
        let mut words = words.iter().copied();
        while let Some(word) = words.next() {
            let counts = self.behind.is_empty()
                || subcommand.is_some_and(|subcommand| self.behind.contains(&subcommand));
            let has_letter = || (in_front || !self.in_front) && self.has_letter(word);
            if counts && (self.is_long(word) || has_letter()) {
                return Some(word);
            }
            if self.programs == ["git"] && in_front && GIT_OPTIONS_WITH_WORD.contains(&word) {
                words.next();
            } else if in_front && !word.starts_with('-') {
                in_front = false;
                subcommand = Some(word);
            }
        }
        None
    }

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
    fn no_harmless_program_runs_another_one_by_a_word() {
        for (command, word) in [
            ("git grep -Ox y", "-Ox"),
            ("git grep -nO y", "-nO"),
            ("git -C sub grep --open-files-in-pager=x y", "--open-files-in-pager=x"),
            ("git clone -u x a b", "-u"),
            ("git clone -c core.sshCommand=x a", "-c"),
            ("git clone --config core.sshCommand=x a", "--config"),
            ("git clone --upload-pack=x a b", "--upload-pack=x"),
            ("git rebase -x x main", "-x"),
            ("git difftool -yx x", "-yx"),
            ("git bisect run x", "run"),
            ("git submodule foreach x", "foreach"),
            ("fd -x x", "-x"),
            ("rg --pre x y", "--pre"),
            ("sort --compress-prog=x a", "--compress-prog=x"),
            ("split --filter=x a", "--filter=x"),
            ("man -P x ls", "-P"),
            ("vim -c !x", "-c"),
            ("vim +!x", "+!x"),
            ("vim -es", "-es"),
            ("view --cmd !x a", "--cmd"),
            ("ex a", "a"),
            ("less +!x a", "+!x"),
            ("zip -TT x a b", "-TT"),
            ("zip -rTT x a b", "-rTT"),
            ("zip -T --unzip-command x a b", "--unzip-command"),
            ("tar cIf x a b", "cIf"),
            ("tar -Ix -cf a b", "-Ix"),
            ("go test -exec x ./...", "-exec"),
            ("make SHELL=x", "SHELL=x"),
            ("make X=$(shell_x)", "X=$(shell_x)"),
            ("cmake -E env x", "env"),
            ("gpg --photo-viewer-program=x a", "--photo-viewer-program=x"),
            ("sqlite3 a .shell_x", ".shell_x"),
            ("convert |x a.png", "|x"),
            ("node -r ./x.js a", "-r"),
            ("sed -f x a", "-f"),
            ("sed -n 1ex", "1ex"),
            ("awk -f x a", "-f"),
        ] {
            check(command, Some(word));
        }
    }

    #[test]
    fn everyday_commands_are_left_alone() {
        check("git switch -c new", None);
        check("git log --oneline -p", None);
        check("find . -name -x -type f", None);
        check("tar -xzf a.tar.gz", None);
        check("cargo test --all-targets", None);
        check("ls -c", None);
        for command in [
            "git clone --depth 1 https://example.com/a.git",
            "git grep -n --or x",
            "git rebase -i main",
            "git commit -m run",
            "git bisect start",
            "git submodule update --init",
            "git log --grep=x -S foreach",
            "fd -e rs",
            "rg -n x src",
            "sort -u a",
            "vim a.txt",
            "less a",
            "zip -r a.zip b",
            "tar tzf a.tar.gz",
            "go test ./... -run X",
            "make -j4 all",
            "cmake -S . -B build -DCMAKE_BUILD_TYPE=Release",
            "cmake --build build",
            "node a.js",
            "pip install -r requirements.txt",
            "curl -sS https://example.com",
        ] {
            check(command, None);
        }
    }
}
