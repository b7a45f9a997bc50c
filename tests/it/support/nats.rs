//! A NATS server of one test, which can be killed and started again where it was.
//!
//! Without one on the machine its tests pass, unless `REQUIRE_NATS=1`.

use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use async_nats::jetstream;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;
use tine::fleet::engine::{Engine, Job, Settings};
use tokio::runtime::Runtime;

use super::tine::HANG_LIMIT;
use super::wait::{found, until};

/// The address of clients in a configuration: a server chooses its own port.
pub(crate) const ADDRESS: &str = "127.0.0.1:PORT";

/// How clients come to the server there, where nothing is set but the lease.
pub(crate) fn settings(url: String, lease: Duration) -> Settings {
    Settings {
        servers: vec![url],
        prefix: "tine".to_owned(),
        credentials: None,
        tls: None,
        lease,
        replicas: None,
    }
}

/// Offers jobs, and returns once their tickets are stored.
pub(crate) async fn offer(engine: &Engine, jobs: impl IntoIterator<Item = Job>) {
    let (offers, mut refused) = engine.offer_queue();
    jobs.into_iter().for_each(|job| offers.push(job));
    drop(offers);
    if let Some((job, error)) = refused.next().await {
        panic!("no ticket for {job:?}: {error}");
    }
}

/// A server with JetStream, which is killed when this is dropped.
pub(crate) struct NatsServer {
    directory: TempDir,
    program: PathBuf,
    /// Its configuration but for the port.
    configuration: String,
    /// A user and a password, as an address has them; may be empty.
    login: String,
    port: u16,
    /// Where it tells of itself, if it was asked to.
    monitor: Option<String>,
    running: Option<Child>,
    /// What it says, from when it is ready.
    said: Option<Receiver<String>>,
}

impl NatsServer {
    /// Starts a server; `None` where there is none to start.
    pub(crate) fn start() -> Option<Self> {
        let synced = "sync_interval: always";
        Self::start_with(&format!("jetstream {{ store_dir: STORE, {synced} }}"))
    }

    /// Starts a server with its own configuration, in which `STORE` stands for a
    /// directory of its own.
    pub(crate) fn start_with(more: &str) -> Option<Self> {
        Self::start_from(&format!("listen: {ADDRESS:?}\n{more}"))
    }

    /// Starts a server with a whole configuration, in which there is [`ADDRESS`] for
    /// clients, too.
    pub(crate) fn start_from(configuration: &str) -> Option<Self> {
        let program = program()?;
        let directory = tempfile::tempdir().expect("there is a temporary directory");
        let mut server = Self {
            directory,
            program,
            configuration: String::new(),
            login: String::new(),
            port: 0,
            monitor: None,
            running: None,
            said: None,
        };
        server.configuration = configuration.replace("STORE", &format!("{:?}", server.store()));
        server.restart();
        Some(server)
    }

    /// Has its own address name this user, with the password.
    pub(crate) fn entered_by(mut self, user: &str, password: &str) -> Self {
        self.login = format!("{user}:{password}@");
        self
    }

    /// Starts three servers, `n0` to `n2`, that are one cluster. Each is tagged with its name.
    pub(crate) fn start_cluster() -> Option<[Self; 3]> {
        program()?;
        let addresses = routes();
        let routes = addresses.each_ref().map(|address| format!("nats-route://{address}"));
        let mut servers = [0, 1, 2].map(|number| {
            let listen = &addresses[number];
            let more = format!(
                "server_name: n{number}\nserver_tags: [n{number}]\nhttp: \"127.0.0.1:-1\"\n\
                 jetstream {{ store_dir: STORE, sync_interval: always }}\n\
                 cluster {{ name: tine, listen: {listen:?}, routes: {routes:?} }}"
            );
            Self::start_with(&more).expect("the program is there")
        });
        wait_until_found(&servers);
        // Of servers that are all new, NATS 2.10 leaves one out now and then (on a busy
        // machine, of one cluster in fifty), until that is started again.
        if let Some(number) = left_out(&servers) {
            servers[number].restart();
            until("the server is taken in", || left_out(&servers).is_none());
            wait_until_found(&servers);
        }
        Some(servers)
    }

    /// Starts the server again on the same port with the same store.
    pub(crate) fn restart(&mut self) {
        self.kill9();
        // The first time the server chooses, and says which it has.
        let port = if self.port == 0 { "-1".to_owned() } else { self.port.to_string() };
        let path = self.directory.path().join("nats.conf");
        let text = self.configuration.replace(ADDRESS, &format!("127.0.0.1:{port}"));
        fs::write(&path, text).expect("it is ours");
        let mut child = Command::new(&self.program)
            .arg("--config")
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let log = child.stderr.take().expect("it is piped");
        let mut lines = BufReader::new(log).lines().map_while(Result::ok);
        self.running = Some(child);
        let mut said = Vec::new();
        let is_ready = lines.by_ref().any(|line| {
            if let Some((_, address)) = line.split_once("client connections on ") {
                let port = address.rsplit(':').next().and_then(|port| port.trim().parse().ok());
                self.port = port.expect("an address has a port");
            }
            if let Some((_, address)) = line.split_once("http monitor on ") {
                self.monitor = Some(address.trim().to_owned());
            }
            let is_ready = line.contains("Server is ready");
            said.push(line);
            is_ready
        });
        assert!(is_ready, "the server did not get ready: {said:#?}");
        let (sender, said) = mpsc::channel();
        self.said = Some(said);
        // A pipe that nobody reads would stop the server; this ends with it, whether
        // anybody wants to know or not.
        std::thread::spawn(move || lines.for_each(|line| drop(sender.send(line))));
    }

    /// Starts it again as one without JetStream. The next restart brings that back.
    pub(crate) fn restart_without_storage(&mut self) {
        let without = format!("listen: {ADDRESS:?}\n");
        let whole = std::mem::replace(&mut self.configuration, without);
        self.restart();
        self.configuration = whole;
    }

    /// Kills the server, so that it has no time to say or write anything.
    pub(crate) fn kill9(&mut self) {
        if let Some(mut child) = self.running.take() {
            child.kill().expect("it is ours");
            child.wait().expect("it is ours");
        }
    }

    /// Ends the server, and gives it the time to tell the others that it goes.
    pub(crate) fn stop(&mut self) {
        if let Some(child) = &mut self.running {
            let id = Pid::from_raw(child.id().try_into().expect("it is one"));
            kill(id, Signal::SIGTERM).expect("it is ours");
            until("the server ends", || child.try_wait().expect("it is ours").is_some());
            self.running = None;
        }
    }

    /// Waits for a line of its log with this text.
    #[track_caller]
    pub(crate) fn wait_until_says(&self, text: &str) {
        self.says_before(text);
    }

    /// The same, and returns what it has said before that since it was last listened
    /// to.
    #[track_caller]
    pub(crate) fn says_before(&self, text: &str) -> Vec<String> {
        let said = self.said.as_ref().expect("it was started");
        let mut before = Vec::new();
        loop {
            let line = said.recv_timeout(HANG_LIMIT);
            let line = line.unwrap_or_else(|_| panic!("it never says `{text}`"));
            if line.contains(text) {
                return before;
            }
            before.push(line);
        }
    }

    /// Tells whether it has said this since it was last listened to.
    pub(crate) fn has_said(&self, text: &str) -> bool {
        let said = self.said.as_ref().expect("it was started");
        said.try_iter().any(|line| line.contains(text))
    }

    /// Returns where it keeps what it stores, if it is asked to keep it in `STORE`.
    pub(crate) fn store(&self) -> PathBuf {
        self.directory.path().join("store")
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://{}127.0.0.1:{}", self.login, self.port)
    }

    /// Asks it for what it tells of itself at this path. Its configuration has to have
    /// an address for that.
    pub(crate) fn tells(&self, path: &str) -> Value {
        let monitor = self.monitor.as_ref().expect("it was asked to tell of itself");
        let mut stream = TcpStream::connect(monitor).expect("it listens there");
        let request = format!("GET {path} HTTP/1.0\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads that");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers and closes");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body is behind a head");
        serde_json::from_str(body).expect("it is JSON")
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.kill9();
    }
}

/// Returns addresses at which three servers of a cluster can meet.
///
/// Each has to know the others before they are there, and a port that is free now may be
/// somebody else's by then: so this process has addresses of its own, and each of its
/// clusters a port there.
pub(crate) fn routes() -> [String; 3] {
    static PORT: AtomicU16 = AtomicU16::new(6222);
    let (port, id) = (PORT.fetch_add(1, Ordering::Relaxed), process::id());
    let (high, middle, low) = (id >> 14 & 0xff, id >> 6 & 0xff, (id & 0x3f) << 2);
    [1, 2, 3].map(|number| format!("127.{high}.{middle}.{}:{port}", low + number))
}

/// Waits until the servers of a cluster have found each other.
fn wait_until_found(servers: &[NatsServer]) {
    let runtime = Runtime::new().expect("a runtime");
    for server in servers {
        let client = runtime.block_on(async_nats::connect(server.url()));
        let client = client.expect("it is ready");
        until("the servers have found each other", || {
            let asked = async { jetstream::new(client.clone()).query_account().await };
            runtime.block_on(asked).is_ok()
        });
    }
}

/// Returns the server that whichever leads the others does not count among them.
fn left_out(servers: &[NatsServer]) -> Option<usize> {
    let (leader, others) = found("one of the servers leads", || {
        servers.iter().find_map(|server| {
            let cluster = server.tells("/jsz?meta=1")["meta_cluster"].take();
            let others = cluster["replicas"].as_array()?.iter();
            let others: Vec<_> = others.map(|replica| replica["name"].clone()).collect();
            Some((cluster["leader"].clone(), others))
        })
    });
    let is_in = |name: &Value| *name == leader || others.contains(name);
    (0..servers.len()).find(|number| !is_in(&format!("n{number}").into()))
}

/// Has a server look at a configuration, and returns what it has to say against it;
/// `None` where there is no server.
pub(crate) fn objects_to(configuration: &str) -> Option<Result<(), String>> {
    let program = program()?;
    let directory = tempfile::tempdir().expect("there is a temporary directory");
    let path = directory.path().join("nats.conf");
    fs::write(&path, configuration).expect("it is ours");
    let looked = Command::new(program).arg("-t").arg("-c").arg(&path).output();
    let looked = looked.expect("the server starts");
    let said = String::from_utf8_lossy(&looked.stderr).into_owned();
    Some(if looked.status.success() { Ok(()) } else { Err(said) })
}

/// Finds the server.
fn program() -> Option<PathBuf> {
    let named = env::var_os("NATS_SERVER").map(PathBuf::from);
    let path = env::var_os("PATH").unwrap_or_default();
    let there = env::split_paths(&path).map(|directory| directory.join("nats-server"));
    let found = named
        .into_iter()
        .chain(there)
        .chain([PathBuf::from("/usr/sbin/nats-server")])
        .find(|program| program.is_file());
    let is_required = env::var("REQUIRE_NATS").is_ok_and(|value| value == "1");
    assert!(
        found.is_some() || !is_required,
        "`REQUIRE_NATS` is set and there is no `nats-server`: not where `NATS_SERVER` says, not in `PATH`"
    );
    found
}
