//! Hosts that commands reach through the proxy, and everything that they do not reach.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Output;

use super::ground::Ground;
use super::{BWRAP, LANDLOCK, stderr, stdout, with};

/// Opens the proxy as descriptor 3, says `words` to it, and prints what comes back.
pub(crate) fn through_proxy(words: &str) -> String {
    format!("exec 3<>/dev/tcp/127.0.0.1/3128 && printf '{words}' >&3 && cat <&3")
}

/// A server of this machine that answers each connection with one line.
pub(crate) fn line_server() -> (u16, impl Drop) {
    struct Stop(u16);
    impl Drop for Stop {
        fn drop(&mut self) {
            // The last connection ends it.
            drop(std::net::TcpStream::connect(("127.0.0.1", self.0)));
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut byte = [0];
            // The test has ended.
            if stream.read(&mut byte).is_ok_and(|read| read == 0) {
                return;
            }
            // The client may have closed the connection.
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nreached\n");
        }
    });
    (port, Stop(port))
}

fn bash(ground: &Ground, config: &[String], flags: &[&str], script: &str) -> Output {
    let mut command = ground.command(ground.tine());
    for setting in config {
        command.args(["--config", setting]);
    }
    command.arg("sandbox").args(flags).args(["--", "bash", "-c", script]);
    command.output().expect("a ground is ours to make and look at")
}

#[test]
fn with_hosts_or_the_public_internet_nothing_of_this_machine_is_reached() {
    for backend in [BWRAP, LANDLOCK] {
        for network in ["--network=hosts", "--network"] {
            with(backend, |ground| {
                let before = ground.outside(&["mode", "times"]);
                let (report, _) = ground.attack(&["--backend", backend, network], "elsewhere");
                let mut worked = report.worked;
                // A datagram can be sent within the command's own network.
                worked.retain(|name| !["mode", "times", "netlink", "udp"].contains(name));
                assert_eq!(worked, [""; 0], "{backend}, {network}:\n{}", report.said);
                assert!(ground.has_heard_nothing(), "{backend}, {network}");
                assert_eq!(ground.outside(&["mode", "times"]), before);
            });
        }
    }
}

#[test]
fn a_listed_host_is_reached_through_the_proxy_and_no_other_one() {
    let (port, _server) = line_server();
    let reach = |host: &str| {
        let words = format!("CONNECT {host}:{port} HTTP/1.1\\r\\n\\r\\nGET / HTTP/1.1\\r\\n\\r\\n");
        through_proxy(&words)
    };
    let near = format!("web.allow_hosts=[\"localhost:{port}\",\"127.0.0.1:{port}\"]");
    let listed = "sandbox.hosts=[\"localhost\"]".to_owned();
    let allowed = "permissions.allow=[\"SandboxNetworkAccess(localhost)\"]".to_owned();
    let denied = "permissions.deny=[\"SandboxNetworkAccess(localhost)\"]".to_owned();
    for backend in [BWRAP, LANDLOCK] {
        with(backend, |ground| {
            let run = |config: &[&String], network: &str, host: &str| {
                let config: Vec<String> = config.iter().map(|it| (*it).clone()).collect();
                let output = bash(ground, &config, &["--backend", backend, network], &reach(host));
                (stdout(&output), stderr(&output))
            };
            for config in [&listed, &allowed] {
                let (said, warned) = run(&[&near, config], "--network=hosts", "localhost");
                assert!(said.ends_with("reached\n"), "{backend}: {said}\n{warned}");
                assert_eq!(warned, "");
            }
            let (said, _) = run(&[&near], "--network=public", "localhost");
            assert!(said.ends_with("reached\n"), "{backend}: {said}");
            // A name is allowed, and not the address that it leads to.
            for (config, network, host) in [
                (&[&near, &listed][..], "--network=hosts", "127.0.0.1"),
                (&[&near], "--network=hosts", "localhost"),
                (&[&near, &listed, &denied], "--network=hosts", "localhost"),
                (&[&near, &denied], "--network", "localhost"),
            ] {
                let (said, warned) = run(config, network, host);
                assert!(said.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{backend}: {said}");
                assert!(warned.contains(&format!("no connection to {host}: ")), "{warned}");
            }
            // What is on this machine takes the user's word for it as well.
            for (config, network) in [(&[&listed][..], "--network=hosts"), (&[], "--network")] {
                let (said, warned) = run(config, network, "localhost");
                assert!(said.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{backend}: {said}");
                assert!(warned.contains("localhost is not on the public internet"), "{warned}");
            }
        });
    }
}

#[test]
fn programs_find_the_proxy_and_keep_servers_of_their_own() {
    let script = "echo \"$HTTPS_PROXY $https_proxy $ALL_PROXY $NO_PROXY\"; \
                  exec 3<>/dev/tcp/127.0.0.1/1 || echo refused; ls /proc/self/fd | wc -l";
    let expected = "http://127.0.0.1:3128 http://127.0.0.1:3128 socks5h://127.0.0.1:3128 \
                    localhost,127.0.0.1,::1\nrefused\n4\n";
    for backend in [BWRAP, LANDLOCK] {
        with(backend, |ground| {
            let output = bash(ground, &[], &["--backend", backend, "--network"], script);
            assert_eq!(stdout(&output), expected, "{backend}: {}", stderr(&output));
            let output = bash(ground, &[], &["--backend", backend], "echo \"[$HTTPS_PROXY]\"");
            assert_eq!(stdout(&output), "[]\n");
        });
    }
}

#[test]
fn without_a_sandbox_no_network_can_be_chosen() {
    with(BWRAP, |ground| {
        let output = ground.shell(&["--policy", "off", "--network=hosts"], "echo ran");
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains("cannot limit its network"), "{}", stderr(&output));
        assert_eq!(stdout(&output), "");
    });
}

#[test]
fn a_command_that_cannot_be_started_says_so_as_without_the_proxy() {
    for backend in [BWRAP, LANDLOCK] {
        with(backend, |ground| {
            let flags = ["--backend", backend, "--network"];
            let mut command = ground.sandbox(&flags);
            let output = command.arg("/no/such/program").output().expect("tine is there");
            assert_eq!(output.status.code(), Some(127), "{}", stderr(&output));
            let said = stderr(&output);
            assert!(said.contains("cannot run `/no/such/program`: "), "{backend}: {said}");
        });
    }
}
