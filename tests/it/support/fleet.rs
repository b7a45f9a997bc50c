//! Workers of a test: real binaries, each with a home of its own, that meet runs at
//! a NATS server of the test's.
//!
//! Whatever still runs when a [`Fleet`] goes is killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::nats::NatsServer;
use super::server::Server;
use super::tine::{HANG_LIMIT, Place, Tine, lines};

/// The key of workers whose requests can be told from the coordinator's.
pub(crate) const THEIR_KEY: &str = "sk-of-a-worker";

/// A server and those who work there.
pub(crate) struct Fleet {
    pub(crate) nats: NatsServer,
    /// The other servers of its cluster.
    pub(crate) others: Vec<NatsServer>,
    /// How long one may be silent, in seconds.
    lease_s: u32,
    /// What stands under `[executor.nats]` besides, for everybody.
    keys: String,
    pub(crate) workers: Vec<Worker>,
}

/// A process that takes slots.
pub(crate) struct Worker {
    child: Child,
    /// What it says on standard error.
    said: Receiver<String>,
    /// What it is called where runs and workers meet.
    pub(crate) name: String,
    place: Place,
}

impl Fleet {
    /// Starts a server, and nobody who works; `None` where there is no server to
    /// start.
    pub(crate) fn start(lease_s: u32) -> Option<Self> {
        NatsServer::start().map(|nats| Self::at(nats, lease_s))
    }

    /// Has a server that was started, and nobody who works.
    pub(crate) fn at(nats: NatsServer, lease_s: u32) -> Self {
        let (keys, others, workers) = (String::new(), Vec::new(), Vec::new());
        Self { nats, others, lease_s, keys, workers }
    }

    /// Starts a cluster of three servers, and nobody who works.
    pub(crate) fn start_cluster(lease_s: u32) -> Option<Self> {
        let [nats, one, other] = NatsServer::start_cluster()?;
        Some(Self { others: vec![one, other], ..Self::at(nats, lease_s) })
    }

    /// Has more keys under `[executor.nats]`.
    pub(crate) fn with(self, keys: &str) -> Self {
        Self { keys: keys.to_owned(), ..self }
    }

    pub(crate) fn lease(&self) -> Duration {
        Duration::from_secs(self.lease_s.into())
    }

    /// Returns what a configuration says of the place to meet.
    pub(crate) fn configuration(&self) -> String {
        self.configuration_of(&self.urls())
    }

    /// Returns the addresses of all servers.
    fn urls(&self) -> Vec<String> {
        [&self.nats].into_iter().chain(&self.others).map(NatsServer::url).collect()
    }

    /// The same for those who reach the server at this address.
    pub(crate) fn configuration_over(&self, url: &str) -> String {
        self.configuration_of(&[url.to_owned()])
    }

    fn configuration_of(&self, urls: &[String]) -> String {
        let Self { lease_s, keys, .. } = self;
        format!("[executor.nats]\nservers = {urls:?}\nlease_s = {lease_s}\n{keys}")
    }

    /// Starts a worker that takes so many slots at once, and asks this server if it
    /// asks any.
    pub(crate) fn work(&mut self, most: usize, model: Option<&Server>) -> &mut Worker {
        let (place, tine) = self.prepared(&self.urls(), most, model);
        self.employ(Worker::start(place, tine))
    }

    /// Starts one that reaches the server at this address.
    pub(crate) fn work_over(
        &mut self,
        url: &str,
        most: usize,
        model: Option<&Server>,
    ) -> &mut Worker {
        let (place, tine) = self.prepared(&[url.to_owned()], most, model);
        self.employ(Worker::start(place, tine))
    }

    /// Starts one whose copies of workspaces are on a disk of their own, with so many
    /// bytes.
    pub(crate) fn work_on_disk(
        &mut self,
        bytes: u64,
        most: usize,
        model: Option<&Server>,
    ) -> &mut Worker {
        let (place, tine) = self.prepared(&self.urls(), most, model);
        let (disk, bytes) = (directory(&place), bytes.to_string());
        fs::create_dir(&disk).expect("the place is new");
        let disk = disk.to_str().expect("the path of a place is text");
        let all = ["--die-with-parent", "--dev-bind", "/", "/", "--size", &bytes, "--tmpfs", disk];
        self.employ(Worker::start(place, tine.by("bwrap", all)))
    }

    fn prepared(&self, urls: &[String], most: usize, model: Option<&Server>) -> (Place, Tine) {
        let place = self.place(urls, "");
        let alone = Worker::command(&place, most, &[]);
        let tine = match model {
            Some(model) => alone.server(model),
            None => alone,
        };
        (place, tine)
    }

    /// Starts a worker that asks this server with a key of its own, [`THEIR_KEY`]; more
    /// stands in its configuration.
    pub(crate) fn work_apart(&mut self, most: usize, model: &Server, more: &str) -> &mut Worker {
        self.work_as(most, &[], more, |tine| tine.server(model).env("OPENAI_API_KEY", THEIR_KEY))
    }

    /// Starts a worker with flags and an environment of its own; more stands in its
    /// configuration.
    pub(crate) fn work_as(
        &mut self,
        most: usize,
        flags: &[&str],
        more: &str,
        dressed: impl FnOnce(Tine) -> Tine,
    ) -> &mut Worker {
        let place = self.place(&self.urls(), more);
        let tine = dressed(Worker::command(&place, most, flags));
        self.employ(Worker::start(place, tine))
    }

    fn place(&self, urls: &[String], more: &str) -> Place {
        let place = Place::new();
        // Slots of a test may look at what is beside their own workspace.
        let own = format!("{}[sandbox]\nmode = \"off\"\n{more}", self.configuration_of(urls));
        place.configure(&own);
        place
    }

    fn employ(&mut self, worker: Worker) -> &mut Worker {
        self.workers.push(worker);
        self.workers.last_mut().expect("one was just put there")
    }
}

impl Worker {
    fn command(place: &Place, most: usize, flags: &[&str]) -> Tine {
        let (directory, most) = (directory(place), most.to_string());
        let directory = directory.to_str().expect("the path of a place is text");
        let fixed = ["worker", "--max-concurrent", &most, "--work-dir", directory];
        place.tine(fixed.iter().chain(flags))
    }

    /// Starts one and waits until it takes slots.
    fn start(place: Place, tine: Tine) -> Self {
        let mut command = tine.into_command();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("cargo has built the binary");
        let stderr = child.stderr.take().expect("it was piped");
        let said = lines(move || stderr);
        let mut worker = Self { child, said, name: String::new(), place };
        let ready = worker.says();
        let words: Vec<&str> = ready.split(' ').collect();
        let ["worker", name, "takes", ..] = words[..] else { panic!("it is not ready: {ready}") };
        worker.name = name.to_owned();
        worker
    }

    /// Waits for the next line that it says.
    #[track_caller]
    pub(crate) fn says(&self) -> String {
        let line = self.said.recv_timeout(HANG_LIMIT).expect("the worker says something");
        line.trim_end().to_owned()
    }

    /// Returns where it keeps copies of workspaces.
    pub(crate) fn directory(&self) -> PathBuf {
        directory(&self.place)
    }

    /// Returns where the disk is seen from here that the worker has alone.
    pub(crate) fn disk(&self) -> PathBuf {
        let id = self.child.id();
        let inside = fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let inside = inside.expect("the system tells of children");
        let inside = inside.split_whitespace().next().expect("the worker runs in there");
        let disk = directory(&self.place);
        let disk = disk.strip_prefix("/").expect("the path of a place is whole");
        Path::new("/proc").join(inside).join("root").join(disk)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).expect("a process id fits its own type");
        kill(Pid::from_raw(id), signal).expect("the process was not waited for");
    }

    /// Kills it, so that it has no time to say or write anything.
    pub(crate) fn kill9(&mut self) {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it is ours");
    }

    /// Waits for its end, and returns its exit code and what it has said until then.
    #[track_caller]
    pub(crate) fn ends(&mut self) -> (Option<i32>, Vec<String>) {
        let mut rest = Vec::new();
        loop {
            match self.said.recv_timeout(HANG_LIMIT) {
                Ok(line) => rest.push(line.trim_end().to_owned()),
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("it hangs: {rest:#?}"),
            }
        }
        (self.child.wait().expect("it is ours").code(), rest)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It has ended, unless the test is over before it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn directory(place: &Place) -> PathBuf {
    place.root().join("copies")
}
