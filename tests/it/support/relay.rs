//! A stretch of network on the way to a server, which a test can cut: then no packet
//! passes and no connection is closed, in both directions, until it is mended.
//!
//! What either side sends meanwhile waits, as it does in the memory of real systems.
//! A client that gives up and connects anew waits, too.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, watch};

use super::tine::HANG_LIMIT;

/// Most bytes that pass at a time.
const PIECE: usize = 16 * 1024;

/// Most pieces of a client that wait for a cut to end: more than a client sends before
/// it finds that nobody answers.
const WAITING_CAP: usize = 4_096;

/// A relay between clients and one server. All connections end when this value goes.
pub(crate) struct Relay {
    runtime: Runtime,
    address: SocketAddr,
    way: Arc<Way>,
}

/// What all connections share.
struct Way {
    server: SocketAddr,
    is_open: watch::Sender<bool>,
    /// What clients have sent since it was cut.
    held: watch::Sender<Vec<u8>>,
}

impl Relay {
    /// Starts one to the server that listens on this port, over which everything passes.
    pub(crate) fn to(port: u16) -> Self {
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let way = Arc::new(Way {
            server: SocketAddr::from(([127, 0, 0, 1], port)),
            is_open: watch::Sender::new(true),
            held: watch::Sender::new(Vec::new()),
        });
        runtime.spawn(accept(listener, Arc::clone(&way)));
        Self { runtime, address, way }
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// Lets nothing pass from now on.
    pub(crate) fn cut(&self) {
        self.way.held.send_modify(Vec::clear);
        self.way.is_open.send_replace(false);
    }

    /// Lets everything pass from now on, and all that waits.
    pub(crate) fn mend(&self) {
        self.way.is_open.send_replace(true);
    }

    /// Waits until a client has said something with this text since it was cut.
    #[track_caller]
    pub(crate) fn wait_until_held(&self, text: &str) {
        let mut held = self.way.held.subscribe();
        let is_there =
            |bytes: &Vec<u8>| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        let waiting =
            async { tokio::time::timeout(HANG_LIMIT, held.wait_for(is_there)).await.is_ok() };
        assert!(self.runtime.block_on(waiting), "nobody says `{text}`");
    }
}

impl Way {
    /// Waits until something may pass.
    async fn opened(&self) {
        let mut is_open = self.is_open.subscribe();
        is_open.wait_for(|is_open| *is_open).await.expect("the way holds its sender");
    }
}

async fn accept(listener: TcpListener, way: Arc<Way>) {
    while let Ok((client, _)) = listener.accept().await {
        tokio::spawn(connect(client, Arc::clone(&way)));
    }
}

async fn connect(client: TcpStream, way: Arc<Way>) {
    way.opened().await;
    // A client of a server that is away is closed.
    let Ok(server) = TcpStream::connect(way.server).await else { return };
    for socket in [&client, &server] {
        // It is only slower without.
        let _ = socket.set_nodelay(true);
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let (sender, waiting) = mpsc::channel(WAITING_CAP);
    let reading = read_client(from_client, sender, Arc::clone(&way));
    let writing = write_server(waiting, to_server, Arc::clone(&way));
    let answering = pass_to_client(from_server, to_client, way);
    tokio::join!(reading, writing, answering);
}

/// Takes what a client sends, also while it cannot pass.
async fn read_client(mut client: OwnedReadHalf, to: mpsc::Sender<Vec<u8>>, way: Arc<Way>) {
    let mut piece = vec![0; PIECE];
    // One that breaks off has ended.
    while let Ok(count @ 1..) = client.read(&mut piece).await {
        if !*way.is_open.borrow() {
            way.held.send_modify(|held| held.extend(&piece[..count]));
        }
        if to.send(piece[..count].to_vec()).await.is_err() {
            return;
        }
    }
}

/// Sends it on, and its end, once it may pass.
async fn write_server(
    mut waiting: mpsc::Receiver<Vec<u8>>,
    mut server: OwnedWriteHalf,
    way: Arc<Way>,
) {
    while let Some(piece) = waiting.recv().await {
        way.opened().await;
        if server.write_all(&piece).await.is_err() {
            return;
        }
    }
    way.opened().await;
    // It may be gone.
    let _ = server.shutdown().await;
}

async fn pass_to_client(mut server: OwnedReadHalf, mut client: OwnedWriteHalf, way: Arc<Way>) {
    let mut piece = vec![0; PIECE];
    loop {
        way.opened().await;
        let Ok(count @ 1..) = server.read(&mut piece).await else { break };
        // It may have been cut while this was waited for.
        way.opened().await;
        if client.write_all(&piece[..count]).await.is_err() {
            return;
        }
    }
    way.opened().await;
    // As above.
    let _ = client.shutdown().await;
}
