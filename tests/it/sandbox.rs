//! The sandbox under attack: everything that works without it fails in it.
//!
//! As root too, and as a user without rights if root runs the tests. Where a
//! backend is missing its tests pass, unless `REQUIRE_SANDBOX=1`.

mod absent;
mod attacks;
mod ground;
pub(crate) mod hosts;
mod terminal;

use std::process::Output;

use nix::unistd::Uid;

use attacks::Needs;
use ground::{Ground, Talking, User};

const BWRAP: &str = "bwrap";
const LANDLOCK: &str = "landlock";
const READ_ONLY: &str = "read-only";
const WORKSPACE_WRITE: &str = "workspace-write";

/// Not a test by itself: the process in which the attempts are made.
#[test]
fn attacked() {
    ground::attack();
}

/// The users that the tests can be.
fn users() -> Vec<User> {
    if Uid::effective().is_root() { vec![User::Ours, User::Nobody] } else { vec![User::Ours] }
}

/// Calls `check` for each user who has the backend.
fn with(backend: &str, check: impl Fn(&Ground)) {
    for user in users() {
        let ground = Ground::new(user);
        let tried = ground.shell(&["--backend", backend, "--policy", READ_ONLY], "exit 0");
        if tried.status.success() {
            check(&ground);
        } else {
            let required = std::env::var("REQUIRE_SANDBOX").is_ok_and(|value| value == "1");
            assert!(!required, "no {backend} for {user:?}: {}", stderr(&tried));
        }
    }
}

#[track_caller]
fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("what the tests print is text")
}

#[track_caller]
fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("what the tests print is text")
}

/// What must work for this user without a sandbox.
fn alive(which: &str) -> Vec<&'static str> {
    let is_root = Uid::effective().is_root();
    let attempts = attacks::attempts(which).into_iter();
    let certain = attempts.filter(|(_, needs, _)| match needs {
        Needs::Nothing => true,
        Needs::Root => is_root,
        Needs::Kernel => false,
    });
    certain.map(|(name, _, _)| name).collect()
}

#[test]
fn every_attack_works_without_a_sandbox() {
    for which in ["elsewhere", "protected"] {
        let ground = Ground::new(User::Ours);
        let (report, _) = ground.attack(&["--policy", "off"], which);
        for name in alive(which) {
            assert!(report.worked.contains(&name), "{name} is no attack:\n{}", report.said);
        }
    }
}

/// Attacks everything outside the workspace. Only `leaks` may work.
#[track_caller]
fn check_elsewhere(backend: &str, policy: &str, leaks: &[&str]) {
    with(backend, |ground| {
        let before = ground.outside(leaks);
        let (report, _) = ground.attack(&["--backend", backend, "--policy", policy], "elsewhere");
        assert_eq!(report.worked, leaks, "{backend}, {policy}:\n{}", report.said);
        assert_eq!(ground.outside(leaks), before);
    });
}

#[test]
fn nothing_gets_out_of_bubblewrap() {
    check_elsewhere(BWRAP, READ_ONLY, &[]);
    check_elsewhere(BWRAP, WORKSPACE_WRITE, &[]);
}

#[test]
fn nothing_gets_out_of_landlock_but_modes_and_times_where_files_may_be_written() {
    check_elsewhere(LANDLOCK, READ_ONLY, &[]);
    check_elsewhere(LANDLOCK, WORKSPACE_WRITE, &["mode", "times"]);
}

#[test]
fn with_the_shared_network_come_all_addresses_and_no_other_sockets_of_this_machine() {
    for backend in [BWRAP, LANDLOCK] {
        with(backend, |ground| {
            let (report, _) =
                ground.attack(&["--backend", backend, "--network=shared"], "elsewhere");
            let mut worked = report.worked;
            worked.retain(|name| !["mode", "times", "netlink"].contains(name));
            assert_eq!(worked, ["tcp", "udp"], "{backend}:\n{}", report.said);
        });
    }
}

#[test]
fn bubblewrap_holds_what_other_programs_obey_and_leaves_nothing_behind() {
    with(BWRAP, |ground| {
        let before = ground.protected();
        let (report, said) = ground.attack(&["--backend", BWRAP], "protected");
        assert_eq!(report.worked, [""; 0], "{}", report.said);
        assert_eq!(ground.protected(), before);
        assert_eq!(said, "");
    });
}

#[test]
fn after_landlock_what_other_programs_obey_is_put_back_and_told_of() {
    with(LANDLOCK, |ground| {
        let before = ground.protected();
        let (_, said) = ground.attack(&["--backend", LANDLOCK], "protected");
        assert_eq!(ground.protected(), before);
        for name in [".git/config", ".git/hooks/old", ".git/hooks/pre-commit", ".mcp.json"] {
            let path = ground.work().join(name);
            let line = said.lines().find(|line| line.contains(&format!("`{}`", path.display())));
            let line = line.unwrap_or_else(|| panic!("{name} is not told of:\n{said}"));
            // Of what was removed, nothing stood there.
            let now = match line.contains("` was removed") {
                true => line.ends_with("; it is as it was again"),
                false => line.contains("; it is as it was again; what stood there is in `"),
            };
            assert!(now, "{line}");
        }
    });
}

#[test]
fn a_link_or_a_file_that_redirects_git_is_put_back_after_bubblewrap_too() {
    with(BWRAP, |ground| {
        let link = ground.work().join(".claude");
        std::os::unix::fs::symlink("file", &link).unwrap();
        let script = "rm .claude; mkdir .claude; echo ../evil >.git/commondir";
        let output = ground.shell(&["--backend", BWRAP], script);
        assert_eq!(std::fs::read_link(&link).unwrap(), std::path::Path::new("file"));
        assert!(!ground.work().join(".git/commondir").exists());
        let said = stderr(&output);
        assert_eq!(
            said.lines().filter(|line| line.contains("as it was again")).count(),
            2,
            "{said}"
        );
    });
}

#[test]
fn read_only_writes_nothing_in_the_workspace_either() {
    for backend in [BWRAP, LANDLOCK] {
        with(backend, |ground| {
            let script = "touch new; echo x >>file; rm file; mv file f; ln file g; chmod 777 file; \
                          touch file; mkdir d; : >$TMPDIR/own && echo own; cat file";
            let output = ground.shell(&["--backend", backend, "--policy", READ_ONLY], script);
            assert_eq!(stdout(&output), "own\nsafe");
            let mut names: Vec<_> = std::fs::read_dir(ground.work())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            assert_eq!(names, [".agents", ".git", "file", "point", "way-out"]);
            assert_eq!(std::fs::read_dir(ground.root().join("tmp")).unwrap().count(), 0);
        });
    }
}

#[test]
fn a_command_sees_no_variable_and_no_descriptor_that_it_was_not_given() {
    for backend in [BWRAP, LANDLOCK] {
        with(backend, |ground| {
            let secret = ground.root().join("home/.ssh/key");
            let tine = ground.sandbox(&["--backend", backend]);
            let mut command = ground.command("bash".as_ref());
            let script = format!("exec 9<{}; exec \"$@\"", secret.display());
            command.args(["-c", &script, "bash"]).arg(tine.get_program()).args(tine.get_args());
            let script = "env; ls /proc/self/fd; cat <&9";
            let output = command.args(["sh", "-c", script]).output().unwrap();
            let said = stdout(&output);
            assert!(said.contains("PATH=") && !said.contains("s3cret") && !said.contains("safe"));
            let descriptors: Vec<&str> = said
                .lines()
                .filter(|line| line.bytes().all(|byte| byte.is_ascii_digit()))
                .collect();
            // The third is the list itself.
            assert_eq!(descriptors, ["0", "1", "2", "3"], "{said}");
        });
    }
}

#[test]
fn input_output_and_exit_codes_go_through() {
    for backend in [BWRAP, LANDLOCK] {
        with(backend, |ground| {
            let check = |script: &str, code: i32, expected: &str| {
                let output = ground.shell(&["--backend", backend], script);
                let found = (output.status.code(), stdout(&output), stderr(&output));
                assert_eq!(found, (Some(code), expected.to_owned(), String::new()), "{script}");
            };
            check("cat; echo out; pwd >/dev/null", 0, "out\n");
            check("exit 7", 7, "");
            check("kill -9 $$", 137, "");
            check("bash -c 'read -r line < <(echo pair); echo $line'", 0, "pair\n");
        });
    }
}

/// A command that leaves its session, and answers for as long as it lives.
const SURVIVOR: &str = "mkfifo ask; exec 8<>ask; setsid sh -c 'echo up; read -r line <&8; echo \
                        $line' & wait; exec sleep 1000";

/// Kills tine while a script runs that says `up`.
fn kill_tine(ground: &Ground, flags: &[&str], script: &str) -> Talking {
    let mut command = ground.sandbox(flags);
    command.args(["sh", "-c", script]);
    let mut talking = Talking::start(command);
    assert_eq!(talking.line(), "up\n");
    talking.child.kill().expect("it runs");
    talking.child.wait().expect("it runs");
    talking
}

#[test]
fn nothing_survives_when_tine_is_killed() {
    let free = Ground::new(User::Ours);
    assert_eq!(kill_tine(&free, &["--policy", "off"], SURVIVOR).line(), "");
    for backend in [BWRAP, LANDLOCK] {
        with(backend, |ground| {
            assert_eq!(kill_tine(ground, &["--backend", backend], SURVIVOR).line(), "");
        });
    }
}

#[test]
fn what_a_killed_process_left_in_a_workspace_is_removed_at_the_next_start() {
    with(BWRAP, |ground| {
        let before = ground.protected();
        let mut killed = kill_tine(ground, &["--backend", BWRAP], "echo up; exec sleep 1000");
        assert_ne!(ground.protected(), before);
        assert_eq!(killed.line(), "");
        let tine = ground.sandbox(&[]).get_program().to_owned();
        let mut tine = ground.command(tine.as_ref());
        let output = tine.args(["-p", "hello", "-m", "offline"]).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(ground.protected(), before);
    });
}

#[test]
fn git_adds_and_commits_in_a_repository_and_in_a_linked_worktree() {
    for backend in [BWRAP, LANDLOCK] {
        with(backend, |ground| {
            let commit = "git add -A && git -c user.name=a -c user.email=a@example.invalid \
                          -c commit.gpgsign=false commit -qm more && git status --short";
            let set_up = "rm -rf .git && git init -q && touch b && \
                          git -c user.name=a -c user.email=a@example.invalid \
                          -c commit.gpgsign=false commit -q --allow-empty -m one && \
                          git worktree add -q ../linked";
            let output = ground.shell(&["--policy", "off"], set_up);
            assert!(output.status.success(), "{}", stderr(&output));
            for place in [ground.work(), ground.root().join("linked")] {
                let check = |script: &str, expected: &str| {
                    let mut command = ground.sandbox(&["--backend", backend]);
                    command.current_dir(&place).args(["sh", "-c", script]);
                    let output = command.output().unwrap();
                    assert_eq!(stdout(&output), expected, "{}", stderr(&output));
                    output.status.success()
                };
                std::fs::write(place.join("a"), "a").unwrap();
                assert!(check(commit, ""));
                assert!(check("git log --format=%s -n 1", "more\n"));
            }
        });
    }
}

#[test]
fn secrets_of_a_home_and_our_own_configuration_are_not_seen() {
    for backend in [BWRAP, LANDLOCK] {
        with(backend, |ground| {
            // Somewhere that is seen otherwise.
            let home = ground.work().join("home");
            for (path, file) in
                [(".ssh", "key"), (".config/tine", "config.toml"), (".config/other", "file")]
            {
                std::fs::create_dir_all(home.join(path)).unwrap();
                std::fs::write(home.join(path).join(file), "").unwrap();
            }
            let script = "cat home/.config/other/file && echo seen; cat home/.ssh/key && echo 1; \
                          cat home/.config/tine/config.toml && echo 2; echo x >home/.ssh/new && \
                          echo 3; echo x >home/.config/tine/config.toml && echo 4";
            for policy in [READ_ONLY, WORKSPACE_WRITE] {
                // A home inside the workspace is believed only if it is trusted.
                let flags = ["--trust", "--backend", backend, "--policy", policy];
                let mut command = ground.sandbox(&flags);
                command.env("HOME", &home).args(["sh", "-c", script]);
                assert_eq!(stdout(&command.output().unwrap()), "seen\n", "{backend}, {policy}");
            }
            // Not even where it was said that all of it may be written.
            let write = ["--trust", "--config", "sandbox.write=[\"~/.cargo\"]"];
            std::fs::create_dir_all(home.join(".cargo/registry")).unwrap();
            let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o777);
            std::fs::set_permissions(home.join(".cargo/registry"), everybody).unwrap();
            std::fs::write(home.join(".cargo/credentials.toml"), "").unwrap();
            let program = ground.sandbox(&[]).get_program().to_owned();
            let mut command = ground.command(program.as_ref());
            command.args(write).args(["sandbox", "--backend", backend, "--"]);
            let script = "touch home/.cargo/registry/new && echo made; cat \
                          home/.cargo/credentials.toml && echo 1; echo x \
                          >home/.cargo/credentials.toml && echo 2";
            command.env("HOME", &home).args(["sh", "-c", script]);
            assert_eq!(stdout(&command.output().unwrap()), "made\n", "{backend}");
        });
    }
}
