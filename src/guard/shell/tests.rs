//! The gate in a world without a disk.

use std::path::Path;

use insta::assert_snapshot;

use super::*;

/// Every program is installed, `/work` is the workspace, and of its files
/// those are there that a test names.
struct Fake<'a> {
    there: &'a [&'a str],
    filters: &'a [&'a str],
}

impl Look for Fake<'_> {
    fn has_program(&self, name: &str) -> bool {
        !name.contains('/')
    }

    fn is_inside(&self, path: &Path) -> bool {
        path.starts_with("/work")
    }

    fn is_there(&self, path: &Path) -> bool {
        self.there.iter().any(|there| Path::new(there) == path)
    }

    fn real(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }

    fn link(&self, _: &Path) -> Link {
        Link::None
    }

    fn git_filters(&self, _: &Path) -> Option<Vec<String>> {
        Some(self.filters.iter().map(|&name| name.to_owned()).collect())
    }
}

fn judged(command: &str, look: &Fake<'_>) -> Judged {
    judge(command, World { directory: Path::new("/work"), look })
}

/// The script, or the reason to ask.
fn shown(command: &str) -> String {
    match judged(command, &Fake { there: &[], filters: &[] }) {
        Judged::Reads(reading) => reading.script,
        Judged::Ask { reason } => format!("asks: {reason}"),
    }
}

/// What a command reads by name, `/**` for all that is below it.
fn touched(command: &str) -> Vec<String> {
    let look = Fake { there: &["/.git"], filters: &[] };
    let Judged::Reads(reading) = judged(command, &look) else { panic!("{command} asks") };
    let touched = reading.parts.into_iter().flat_map(|part| part.touched);
    touched
        .map(|Touched { path, reach }| match reach {
            Reach::Itself => path.display().to_string(),
            Reach::Below => format!("{}/**", path.display()),
            Reach::BelowSparing => format!("{}/** but secrets", path.display()),
        })
        .collect()
}

#[test]
fn a_command_is_written_out_again_in_quotes() {
    assert_snapshot!(shown("ls -la"), @"'ls' '-la'");
    assert_snapshot!(shown("ls  a\\ b 'c'\"d\" # all"), @"'ls' 'a b' 'cd'");
    assert_snapshot!(
        shown("cat a|head -n 3&&wc -l <\"/dev/null\" || echo it\\'s;pwd\ntrue"),
        @"'cat' 'a' | 'head' '-n' '3' && 'wc' '-l' </dev/null || 'echo' 'it'\\''s'; 'pwd'; 'true'"
    );
    assert_snapshot!(
        shown("ls 2>/dev/null x >& /dev/null |& wc -l 2>&1"),
        @"'ls' 'x' 2>/dev/null >/dev/null 2>&1 2>&1 | 'wc' '-l' 2>&1"
    );
    assert_snapshot!(shown("sed -n 1,5p x"), @"'sed' '--sandbox' '-n' '1,5p' 'x'");
    assert_snapshot!(
        shown("rg -n x src"),
        @"'rg' '--no-config' '--iglob=!{.env,.env.*,.envrc,id_rsa,id_dsa,id_ecdsa,id_ed25519}' '--iglob=!*.{kdbx,p12,pem,pfx,ppk,tfstate,tfstate.backup}' '-n' 'x' 'src'"
    );
    assert_snapshot!(
        shown("grep -rn -- -x src"),
        @"'grep' '-rn' '--exclude=.[eE][nN][vV]' '--exclude=.[eE][nN][vV].*' '--exclude=.[eE][nN][vV][rR][cC]' '--exclude=[iI][dD]_[rR][sS][aA]' '--exclude=[iI][dD]_[dD][sS][aA]' '--exclude=[iI][dD]_[eE][cC][dD][sS][aA]' '--exclude=[iI][dD]_[eE][dD]25519' '--exclude=*.[kK][dD][bB][xX]' '--exclude=*.[pP]12' '--exclude=*.[pP][eE][mM]' '--exclude=*.[pP][fF][xX]' '--exclude=*.[pP][pP][kK]' '--exclude=*.[tT][fF][sS][tT][aA][tT][eE]' '--exclude=*.[tT][fF][sS][tT][aA][tT][eE].[bB][aA][cC][kK][uU][pP]' '--' '-x' 'src'"
    );
    assert_snapshot!(
        shown("grep -r x src"),
        @"'grep' '-r' 'x' 'src' '--exclude=.[eE][nN][vV]' '--exclude=.[eE][nN][vV].*' '--exclude=.[eE][nN][vV][rR][cC]' '--exclude=[iI][dD]_[rR][sS][aA]' '--exclude=[iI][dD]_[dD][sS][aA]' '--exclude=[iI][dD]_[eE][cC][dD][sS][aA]' '--exclude=[iI][dD]_[eE][dD]25519' '--exclude=*.[kK][dD][bB][xX]' '--exclude=*.[pP]12' '--exclude=*.[pP][eE][mM]' '--exclude=*.[pP][fF][xX]' '--exclude=*.[pP][pP][kK]' '--exclude=*.[tT][fF][sS][tT][aA][tT][eE]' '--exclude=*.[tT][fF][sS][tT][aA][tT][eE].[bB][aA][cC][kK][uU][pP]'"
    );
    assert_snapshot!(shown("grep x a"), @"'grep' 'x' 'a'");
    assert_snapshot!(shown("rg --iglob=.env x"), @"asks: `rg --iglob=.env` may do more than read");
    assert_snapshot!(shown("cargo metadata --no-deps"), @"'cargo' 'metadata' '--frozen' '--no-deps'");
    assert_snapshot!(shown("[ -f a ] && test ! -d b"), @"'[' '-f' 'a' ']' && 'test' '!' '-d' 'b'");
}

#[test]
fn git_is_told_to_run_nothing() {
    let look = Fake { there: &[], filters: &["lfs"] };
    let Judged::Reads(reading) = judged("git -C sub diff --stat", &look) else { panic!("it asks") };
    assert_snapshot!(reading.script.replace(" '-c' ", "\n"), @"
    'git' '--no-pager' '--no-optional-locks'
    'core.fsmonitor='
    'core.hooksPath=/dev/null'
    'core.pager=cat'
    'core.editor=false'
    'core.sshCommand=false'
    'core.askPass='
    'core.alternateRefsCommand=false'
    'credential.helper='
    'diff.external='
    'gpg.program=false'
    'gpg.ssh.program=false'
    'gpg.x509.program=false'
    'commit.gpgSign=false'
    'log.showSignature=false'
    'protocol.allow=never'
    'submodule.recurse=false'
    'gc.auto=0'
    'maintenance.auto=false'
    'mailmap.file='
    'diff.orderFile=/dev/null'
    'safe.bareRepository=explicit'
    'diff.submodule=short'
    'diff.autoRefreshIndex=false'
    'status.submoduleSummary=false'
    'gpg.openpgp.program=false'
    'filter.lfs.clean='
    'filter.lfs.smudge='
    'filter.lfs.process='
    'filter.lfs.required=false' '-C' 'sub' 'diff' '--no-ext-diff' '--no-textconv' '--ignore-submodules=dirty' '--stat'
    ");
}

#[test]
fn a_part_tells_what_it_reads() {
    for (command, expected) in [
        ("cat a ../b -", &["/work/a", "/work/../b"][..]),
        ("ls", &["/work/."]),
        ("ls -R src", &["/work/src/** but secrets"]),
        ("rg x", &["/work/./** but secrets"]),
        ("rg -n x src /etc", &["/work/src/** but secrets", "/etc/** but secrets"]),
        ("grep -f list x", &["/work/x", "/work/list"]),
        ("grep -rn x", &["/work/./** but secrets"]),
        ("find src -name x", &["/work/src/** but secrets"]),
        ("head -n 3 a", &["/work/a"]),
        ("head -n3 -- -a", &["/work/-a"]),
        (
            "git show HEAD:secret",
            &["/work/HEAD:secret", "/work/secret", "/secret", "/work/./**", "//**"],
        ),
        (
            "git ls-tree ':0:(top)a'",
            &["/work/:0:(top)a", "/work/0:(top)a", "/0:(top)a", "/work/a", "/a"],
        ),
        ("git stash list --cc", &["/work/./**", "//**"]),
        ("git reflog -c", &["/work/./**", "//**"]),
        ("git status", &[]),
        ("git log -p", &["/work/./**", "//**"]),
        ("echo secret", &[]),
        ("test -f secret", &["/work/secret"]),
        ("cd sub && cat a", &["/work/a", "/work/sub/a"]),
        ("sort --key=2 a", &["/work/a"]),
    ] {
        assert_eq!(touched(command), expected, "{command}");
    }
}

#[test]
fn a_file_that_names_a_compiler_stands_in_the_way_of_cargo() {
    for file in ["/work/.cargo/config.toml", "/.cargo/config", "/work/rust-toolchain"] {
        let look = Fake { there: &[file], filters: &[] };
        let reason = format!("`{file}` may say what `cargo` runs");
        assert_eq!(judged("cargo metadata --no-deps", &look), Judged::Ask { reason });
    }
}

#[test]
fn an_empty_repository_hides_none_around_it() {
    let look = Fake { there: &["/work/.git", "/work/sub/.git"], filters: &[] };
    let world = World { directory: Path::new("/work/sub"), look: &look };
    let Judged::Reads(reading) = judge("git show HEAD:a/b", world) else { panic!("it reads") };
    let touched: Vec<_> = reading.parts[0].touched.iter().map(|it| it.path.as_path()).collect();
    assert!(touched.contains(&Path::new("/work/a/b")), "{touched:?}");
    assert!(touched.contains(&Path::new("/work")), "{touched:?}");
}

#[test]
fn git_compares_nothing_that_is_outside_the_repository() {
    let judged = |there: &[&str]| {
        let look = Fake { there, filters: &[] };
        matches!(judged("git diff a /etc/b", &look), Judged::Reads(_))
    };
    assert!(judged(&["/work/.git", "/work/a"]));
    assert!(!judged(&["/work/.git", "/work/a", "/etc/b"]));
    assert!(!judged(&["/work/a"]));
}

#[test]
fn git_is_asked_about_a_directory_once_however_many_commands_run_there() {
    struct Counted(std::cell::RefCell<Vec<String>>);
    impl Look for Counted {
        fn has_program(&self, _: &str) -> bool {
            true
        }

        fn is_inside(&self, _: &Path) -> bool {
            true
        }

        fn is_there(&self, _: &Path) -> bool {
            false
        }

        fn real(&self, path: &Path) -> PathBuf {
            path.to_owned()
        }

        fn link(&self, _: &Path) -> Link {
            Link::None
        }

        fn git_filters(&self, directory: &Path) -> Option<Vec<String>> {
            self.0.borrow_mut().push(directory.display().to_string());
            Some(Vec::new())
        }
    }
    let look = Counted(std::cell::RefCell::default());
    let command = format!("cd a;{}", "git log;".repeat(40));
    let judged = judge(&command, World { directory: Path::new("/work"), look: &look });
    assert!(matches!(judged, Judged::Reads(_)), "{judged:?}");
    assert_eq!(*look.0.borrow(), ["/work", "/work/a"]);
}

#[test]
fn a_command_of_very_many_is_asked_about() {
    let of = |count: usize| shown(&"pwd;".repeat(count));
    assert!(!of(PARTS_CAP).starts_with("asks"));
    assert_eq!(of(PARTS_CAP + 1), "asks: it is made of more than 100 commands");
    let filters: Vec<String> = (0..1_000).map(|number| format!("filter-{number}")).collect();
    let filters: Vec<&str> = filters.iter().map(String::as_str).collect();
    let reason = "it comes to too long a script".to_owned();
    assert_eq!(judged("git log", &Fake { there: &[], filters: &filters }), Judged::Ask { reason });
}

#[test]
fn a_filter_that_cannot_be_named_stands_in_the_way_of_git() {
    let look = Fake { there: &[], filters: &["a=b"] };
    let reason = "the filter `a=b` cannot be turned off".to_owned();
    assert_eq!(judged("git status", &look), Judged::Ask { reason });
}

const MORE_THAN_PLAIN: &str = r#"
    rm x
    ./ls
    /bin/ls
    ls $x
    ls *
    ls > x
    ls < x
    ls &
    (ls)
    { ls; }
    ! ls
    X=1 ls
    X=1
    if ls; then ls; fi
    cat <<< x
    echo $(ls)
    time ls
    ls `x`
    for i in a; do ls; done
    f() { ls; }
    [[ -f x ]]
    ls 'x
    # x
    > x
    ls 2>&3
    ls > /dev/nullx
    [ a ]2>/dev/null
    ls {PATH}>/dev/null
"#;

const MORE_THAN_READING: &str = r#"
    sort -o x
    sort --outpu=x
    uniq a b
    xxd a b
    xxd a -p
    git commit
    git -c a=b log
    git branch x
    git branch -v x
    git log --output=x
    find . -delete
    rg --pre x y
    fd -x y
    sed -i s/a/b/ x
    sed 'w x' y
    printf %n x
    date 0101
    cd ..
    cd /etc
    cd
    cd -
    cd --
    cd a | ls
    git --help branch
    git describe --dirty
    ls -lRL x
    ps -eo pid,environ
    cat /proc/self/fd/3
    hostname x
    command ls
    env ls
    git diff --format --output=x
    diff @x y
    tail -f x
    jq 'import "a" as $a; 1'
    git log --format=%G?
    cargo build
"#;

/// Each line's command and what the gate says of it.
fn all_shown(commands: &str) -> String {
    let commands = commands.trim().lines().map(str::trim);
    commands.map(|command| format!("{command}: {}\n", shown(command))).collect()
}

#[test]
fn a_question_says_what_is_more_than_a_plain_command() {
    assert_snapshot!(all_shown(MORE_THAN_PLAIN), @"
    rm x: asks: `rm` may do more than read
    ./ls: asks: `./ls` may do more than read
    /bin/ls: asks: `/bin/ls` may do more than read
    ls $x: asks: `$x` is expanded
    ls *: asks: `*` is expanded
    ls > x: asks: `> x` redirects to a file
    ls < x: asks: `< x` redirects to a file
    ls &: asks: `&` leaves a command running in the background
    (ls): asks: it is more than a plain command: subshell
    { ls; }: asks: it is more than a plain command: compound statement
    ! ls: asks: it is more than a plain command: negated command
    X=1 ls: asks: it sets a variable
    X=1: asks: it sets a variable
    if ls; then ls; fi: asks: it is more than a plain command: if statement
    cat <<< x: asks: it holds a text as input
    echo $(ls): asks: it runs a command inside a word
    time ls: asks: `time` may do more than read
    ls `x`: asks: it runs a command inside a word
    for i in a; do ls; done: asks: it is more than a plain command: for statement
    f() { ls; }: asks: it is more than a plain command: function definition
    [[ -f x ]]: asks: it holds a conditional expression
    ls 'x: asks: it cannot be parsed
    # x: asks: it is empty
    > x: asks: it names no program
    ls 2>&3: asks: `2>&3` redirects to a file
    ls > /dev/nullx: asks: `> /dev/nullx` redirects to a file
    [ a ]2>/dev/null: asks: it is not plain where a word ends
    ls {PATH}>/dev/null: asks: it is not plain where a word ends
    ");
    let strange = ["", "cat <<E\nE", "ls \u{200b}", "r\\\nm x"];
    assert_snapshot!(strange.map(shown).join("\n"), @r##"
    asks: it is empty
    asks: it holds a document as input
    asks: it holds the invisible character \u{200b}
    asks: it is not plain where a word ends
    "##);
}

#[test]
fn a_question_says_what_may_do_more_than_read() {
    assert_snapshot!(all_shown(MORE_THAN_READING), @r##"
    sort -o x: asks: `sort -o` may do more than read
    sort --outpu=x: asks: `sort --outpu=x` may do more than read
    uniq a b: asks: `b` is one operand too many for `uniq`
    xxd a b: asks: `b` is one operand too many for `xxd`
    xxd a -p: asks: `-p` is one operand too many for `xxd`
    git commit: asks: `git commit` may do more than read
    git -c a=b log: asks: `git -c` may do more than read
    git branch x: asks: `git branch x` may write
    git branch -v x: asks: `git branch x` may write
    git log --output=x: asks: `git log --output=x` may do more than read
    find . -delete: asks: `find -delete` may do more than read
    rg --pre x y: asks: `rg --pre` may do more than read
    fd -x y: asks: `fd -x` may do more than read
    sed -i s/a/b/ x: asks: `sed -i` may do more than read
    sed 'w x' y: asks: `w x` does more than print, delete and replace lines
    printf %n x: asks: `%n` in `%n` is not known to be harmless
    date 0101: asks: `date 0101` may set the clock
    cd ..: asks: `..` may lead out of the workspace
    cd /etc: asks: `/etc` may lead out of the workspace
    cd: asks: `cd` does not say where
    cd -: asks: `-` may lead out of the workspace
    cd --: asks: `--` may lead out of the workspace
    cd a | ls: asks: it changes the directory inside a pipe
    git --help branch: asks: `git --help branch` may show a manual page
    git describe --dirty: asks: `git describe --dirty` may do more than read
    ls -lRL x: asks: `ls` may follow links wherever they lead
    ps -eo pid,environ: asks: `pid,environ` shows the environment of processes
    cat /proc/self/fd/3: asks: where `/proc/self/fd/3` leads is another place for each process
    hostname x: asks: `x` is one operand too many for `hostname`
    command ls: asks: `command` may do more than read
    env ls: asks: `ls` is one operand too many for `env`
    git diff --format --output=x: asks: `git diff --format` may do more than read
    diff @x y: asks: `@x` may hold more options
    tail -f x: asks: `tail -f` may do more than read
    jq 'import "a" as $a; 1': asks: `import` in the filter may read other files
    git log --format=%G?: asks: `--format=%G?` is expanded
    cargo build: asks: `cargo build` may do more than read
    "##);
}

#[test]
fn a_long_command_is_asked_about() {
    let command = format!("echo {}", "x".repeat(LENGTH_CAP));
    assert_eq!(shown(&command), "asks: it is longer than 10000 bytes");
    let many = vec!["ls"; PARTS_CAP].join(";");
    assert!(shown(&many).starts_with("'ls'; 'ls'"));
}

#[test]
fn what_is_nested_deeply_overflows_nothing() {
    for (open, close) in [("(", ")"), ("{ ", "}"), ("$(", ")"), ("if ", ""), ("\"$(", ")\"")] {
        let command = format!("{}a{}", open.repeat(2_500), close.repeat(2_500));
        assert!(shown(&command).starts_with("asks: "), "{open}");
        assert!(obscurity(&command).is_some(), "{open}");
    }
}
