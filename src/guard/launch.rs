//! Options with which well-known programs run others.
//!
//! An allow pattern such as `Bash(git *)` trusts the program it names: what
//! that program does by itself, with its configuration or with a script, the
//! pattern allows too. These options are the exception, because they make a
//! harmless-looking program run any other in one step, as do program texts of `sed`,
//! `awk` and editors. The list is no wall: an interpreter's script, or an alias in
//! a configuration file, still runs what it likes. An exact rule allows what
//! is refused here.

mod settings;
mod table;
mod texts;

use table::LAUNCHERS;

/// A family of programs and their options.
#[derive(Clone, Copy)]
struct Launcher {
    programs: &'static [&'static str],
    /// Subcommands behind which the options count; anywhere if there are none.
    behind: &'static [&'static str],
    /// Long options, and words that are whole; shorter spellings of those with two
    /// dashes count too.
    long: &'static [&'static str],
    /// One-letter options, alone or among others.
    letters: &'static str,
    /// Letters of options whose value is the rest of the word, or the next word.
    values: &'static str,
    /// Letters of options whose value, if there is one, is the rest of the word.
    attached: &'static str,
    /// Letters of options that take the next word, and not the rest of theirs.
    next: &'static str,
    /// Letters of options that end the program's own options.
    ends: &'static str,
    /// The option whose value decides whether another program runs.
    setting: Option<Setting>,
    /// How far the options reach.
    reach: Reach,
    /// Whether one of the first operands may be a program that runs, with its own options.
    runs_operand: bool,
}

/// An option with many settings, some of which run another program.
#[derive(Clone, Copy)]
struct Setting {
    letters: &'static str,
    long: &'static str,
    runs: fn(&str) -> bool,
}

/// How far the options of a program reach. What follows belongs to a subcommand, a script or
/// another program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Anywhere,
    /// Up to a word `--`.
    Dashes,
    /// Letters up to the first operand, long options anywhere.
    LettersInFront,
    /// Up to this number of operands, or a word `--`.
    Operands(usize),
}

/// Number of operands among which a runner of programs has its subcommand, a workspace and the
/// program.
const RUNNER_OPERANDS: usize = 3;

/// Options of git that stand in front of the subcommand and take a word.
const GIT_OPTIONS_WITH_WORD: [&str; 4] = ["-C", "--git-dir", "--work-tree", "--namespace"];

/// Long options of runners and interpreters that take no value. The word behind any other
/// one may be its value, so the options reach beyond it.
const FLAGS: [&str; 14] = [
    "--inspect",
    "--no",
    "--no-install",
    "--no-warnings",
    "--offline",
    "--quiet",
    "--recursive",
    "--silent",
    "--test",
    "--trace-warnings",
    "--verbose",
    "--watch",
    "--workspace-root",
    "--yes",
];

/// Returns the option, or the text, with which a command would run another program.
///
/// `words` are those of one command, without their quotes.
pub(super) fn option_of(words: &[&str]) -> Option<String> {
    option_among(words).map(str::to_owned)
}

fn option_among<'a>(words: &[&'a str]) -> Option<&'a str> {
    let (program, words) = words.split_first()?;
    let program = program.rsplit('/').next()?;
    // A version may stand behind the name: `php8.3`.
    let plain = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let is_named = |launcher: &&Launcher| {
        launcher.programs.contains(&program) || launcher.programs.contains(&plain)
    };
    let mut options =
        LAUNCHERS.iter().filter(is_named).filter_map(|launcher| launcher.option_among(words));
    options.next().or_else(|| texts::launching(program, words))
}

impl Launcher {
    /// Returns the option among the words behind the program's name.
    fn option_among<'a>(&self, words: &[&'a str]) -> Option<&'a str> {
        let (mut operands, mut is_ended) = (0, false);
        let mut subcommand = None;
        let mut at = 0;
        while let Some(&word) = words.get(at) {
            let next = words.get(at + 1).copied();
            let group = self.read(word, next);
            let counts = self.behind.is_empty()
                || subcommand.is_some_and(|subcommand| self.behind.contains(&subcommand));
            let (long, letters) = self.reaches(operands, is_ended);
            if counts && (long && self.is_long(word, next) || letters && group.runs) {
                return Some(word);
            }
            is_ended |= word == "--" || group.ends;
            if !word.starts_with('-') {
                let tail = &words[at..];
                if self.runs_operand
                    && operands < RUNNER_OPERANDS
                    && let Some(option) = option_among(tail)
                {
                    return Some(option);
                }
                operands += 1;
                subcommand = subcommand.or(Some(word));
            }
            // A next word that begins with a dash is looked at in any case.
            let takes_next = self.is_in_front(operands)
                && self.may_take_next(word, group.takes_next)
                && next.is_some_and(|next| self.programs == ["git"] || !next.starts_with('-'));
            at += if takes_next { 2 } else { 1 };
        }
        None
    }

    /// Returns whether long options count, and whether letters do.
    fn reaches(&self, operands: usize, is_ended: bool) -> (bool, bool) {
        match self.reach {
            Reach::Anywhere => (true, true),
            Reach::Dashes => (!is_ended, !is_ended),
            Reach::LettersInFront => (true, operands == 0),
            Reach::Operands(most) => {
                let is_in_front = operands < most && !is_ended;
                (is_in_front, is_in_front)
            }
        }
    }

    /// Returns whether words are its own options, and not those of what follows the operands.
    fn is_in_front(&self, operands: usize) -> bool {
        match self.reach {
            Reach::Operands(most) => operands < most,
            Reach::Anywhere | Reach::Dashes | Reach::LettersInFront => operands == 0,
        }
    }

    /// Returns whether the next word may be the value of an option.
    fn may_take_next(&self, word: &str, by_letter: bool) -> bool {
        if self.programs == ["git"] {
            return GIT_OPTIONS_WITH_WORD.contains(&word);
        }
        let is_long = word.starts_with("--") && word.len() > 2;
        by_letter || is_long && !word.contains('=') && !FLAGS.contains(&word)
    }

    fn is_long(&self, word: &str, next: Option<&str>) -> bool {
        let (name, value) =
            word.split_once('=').map_or((word, None), |(name, it)| (name, Some(it)));
        let is_short_for = |long: &str| {
            long == name || name.len() > 3 && name.starts_with("--") && long.starts_with(name)
        };
        let is_setting = |setting: &Setting| {
            is_short_for(setting.long) && value.or(next).is_none_or(setting.runs)
        };
        self.long.iter().any(|long| is_short_for(long))
            || self.setting.as_ref().is_some_and(is_setting)
    }

    /// Reads the one-letter options of a word: they may stand together, `-xc`, or in front of
    /// a value.
    fn read(&self, word: &str, next: Option<&str>) -> Group {
        let mut group = Group::default();
        let Some(letters) = word.strip_prefix('-').filter(|it| !it.starts_with('-')) else {
            return group;
        };
        for (at, letter) in letters.char_indices() {
            let rest = &letters[at + letter.len_utf8()..];
            let value = if rest.is_empty() { next } else { Some(rest) };
            group.runs |= self.letters.contains(letter);
            group.ends |= self.ends.contains(letter);
            if let Some(setting) = self.setting.filter(|it| it.letters.contains(letter)) {
                group.runs |= value.is_none_or(setting.runs);
                group.takes_next |= rest.is_empty();
                break;
            }
            group.takes_next |= self.next.contains(letter);
            if self.values.contains(letter) {
                group.takes_next |= rest.is_empty();
                break;
            }
            if self.attached.contains(letter) || self.ends.contains(letter) {
                break;
            }
        }
        group
    }
}

/// The one-letter options of a word.
#[derive(Default)]
struct Group {
    /// Whether one of them runs another program.
    runs: bool,
    takes_next: bool,
    /// Whether they are the program's last ones.
    ends: bool,
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

    #[test]
    fn a_wildcard_rule_covers_everyday_commands() {
        for command in [
            "yarn eslint -c x.js",
            "yarn run eslint -c x.js --fix",
            "yarn --silent jest -c jest.config.js",
            "yarn workspace app tsc -p tsconfig.json",
            "yarn add -D @types/node -E",
            "pnpm eslint -c x.js",
            "pnpm exec eslint -c x.js",
            "pnpm --filter app eslint -c x.js",
            "pnpm -r test",
            "npx eslint -c x.js",
            "npx --yes prettier -c src",
            "npx -p typescript tsc -p .",
            "npm run lint -- -c x.js",
            "npm test -c x.js",
            "npm ci --no-audit",
            "php -d memory_limit=1G script.php",
            "php -dmemory_limit=1G script.php",
            "php -d xdebug.mode=coverage -d zend.assertions=1 vendor/bin/phpunit -r x",
            "php8.3 -d date.timezone=UTC artisan migrate -R",
            "php -l src/index.php",
            "php -S localhost:8000 -t public",
            "fd -tx",
            "fd -t x bin",
            "fd -HItf -ex xml",
            "fd -Exx -S+1k",
            "rg -epre src",
            "tar -czfFI.tgz -CFI .",
            "tar -xf a.tar -XIgnored",
            "rsync -av -f'-_e' a b",
            "ssh -p 22 host ls -So",
            "ssh -o StrictHostKeyChecking=no -oConnectTimeout=5 host uptime",
            "scp -o BatchMode=yes -i key a host:b",
            "wget -qPdest https://example.com/a",
            "cargo run -- --config a.toml",
            "cargo run --release -- --config=a",
            "python -m pytest -c pyproject.toml -p no:x",
            "python3 manage.py test -c x",
            "bash -euo pipefail run.sh -c x",
            "sh -ex ci.sh",
            "node server.js -p 80 -e prod",
            "node --test -C dev a.js",
            "perl -Ilibexec -MList::Util script.pl -e",
            "perl -c script.pl",
            "ruby -Ilibe test.rb -e x",
            "gradle -DskipIT -PIT build",
            "make -CIFf all",
            "git clone -bfix/cursor https://example.com/a.git",
            "git grep -eOx",
            "pandoc -fLaTeX -tFB2 a",
            "deno run -r a.ts -e",
            "bun run dev -e",
        ] {
            check(command, None);
        }
    }

    #[test]
    fn a_wildcard_rule_covers_no_attack() {
        for (command, word) in [
            ("yarn exec sh -c x", "-c"),
            ("yarn bash -xc x", "-xc"),
            ("yarn node -e x", "-e"),
            ("yarn --cwd a node -e x", "-e"),
            ("yarn workspace app sh -c x", "-c"),
            ("yarn --script-shell ./x run a", "--script-shell"),
            ("pnpm -c exec x", "-c"),
            ("pnpm exec -c x", "-c"),
            ("pnpm --filter app exec -c x", "-c"),
            ("pnpm -F app dlx --shell-mode x", "--shell-mode"),
            ("pnpm exec find . -exec x", "-exec"),
            ("npx -c x", "-c"),
            ("npx -p a -c x", "-c"),
            ("npx --package a --call x", "--call"),
            ("npx sh -c x", "-c"),
            ("npm exec -c x", "-c"),
            ("npm exec a -c x", "-c"),
            ("npm --foo exec -c x", "-c"),
            ("npm exec -- sh -c x", "-c"),
            ("npm run a --script-shell=./x", "--script-shell=./x"),
            ("fd -x x", "-x"),
            ("fd -tf -x x", "-x"),
            ("fd -HX x", "-HX"),
            ("fd -e -- -x x", "-x"),
            ("ssh -oProxyCommand=x host", "-oProxyCommand=x"),
            ("ssh host -p 22 -o proxycommand=x ls", "-o"),
            ("ssh -o User=a -o LocalCommand=x host", "-o"),
            ("ssh -I x host", "-I"),
            ("scp -D x a b", "-D"),
            ("scp -BoProxyCommand=x a b:c", "-BoProxyCommand=x"),
            ("sort -t -- --compress-program=x a", "--compress-program=x"),
            ("cargo --config x run -- a", "--config"),
            ("python -Wd -c x", "-c"),
            ("bash -euoc pipefail x", "-euoc"),
            ("bash -o pipefail -c x", "-c"),
            ("node --test-reporter a -e x", "-e"),
            ("perl -pe x", "-pe"),
            ("perl -i -e x", "-e"),
            ("perl -Mx;system(1) a", "-Mx;system(1)"),
            ("ruby -W2e x", "-W2e"),
            ("gradle -x a -I x", "-I"),
            ("make -C a -f x", "-f"),
            ("git --no-pager rebase -x x", "-x"),
        ] {
            check(command, Some(word));
        }
    }

    #[test]
    fn a_wildcard_rule_covers_no_setting_of_php_that_runs_code() {
        for (command, word) in [
            ("php -r x", "-r"),
            ("php -d memory_limit=1G -r x", "-r"),
            ("php8.3 -nr x", "-nr"),
            ("php -d auto_prepend_file=x a.php", "-d"),
            ("php -dauto_append_file=x a.php", "-dauto_append_file=x"),
            ("php -nd Extension=x a.php", "-nd"),
            ("php -d zend_extension=x a.php", "-d"),
            ("php -d disable_functions= a.php", "-d"),
            ("php -d open_basedir= a.php", "-d"),
            ("php -d sendmail_path=x a.php", "-d"),
            ("php -d ffi.enable=1 a.php", "-d"),
            ("php --define opcache.preload=x a.php", "--define"),
            ("php --def=include_path=x a.php", "--def=include_path=x"),
            ("php -z x a.php", "-z"),
        ] {
            check(command, Some(word));
        }
        let lines = "memory_limit=1\nauto_prepend_file=x";
        assert_eq!(option_of(&["php", "-d", lines, "a.php"]).as_deref(), Some("-d"));
    }
}
