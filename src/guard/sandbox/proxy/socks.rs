//! SOCKS5 (RFC 1928): the command `CONNECT`, without authentication.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::{Gatekeeper, NoConnection, Target, Tunnel, within};

/// The first byte of every message of a client.
pub(super) const VERSION: u8 = 5;

/// The method without authentication, and the reply that no offered method is accepted.
const NO_PASSWORD: u8 = 0;
const NO_METHOD: u8 = 0xFF;

/// The command to connect.
const CONNECT: u8 = 1;

/// Kinds of addresses.
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// A reply code.
#[derive(Debug, Clone, Copy)]
enum ReplyCode {
    Connected = 0,
    NotAllowed = 2,
    Unreachable = 4,
    NoSuchCommand = 7,
    NoSuchAddress = 8,
}

/// The target of a request, or the reply code if there is none.
type Request = Result<Target, ReplyCode>;

pub(super) async fn open(
    client: &mut TcpStream,
    gatekeeper: &dyn Gatekeeper,
    ended: &CancellationToken,
) -> io::Result<Option<Tunnel>> {
    let Some(request) = within(ended, read(client)).await? else { return Ok(None) };
    let connected = match request {
        Ok(target) => match gatekeeper.connect(target).await {
            Ok(host) => Ok(host),
            Err(NoConnection::Refused(_)) => Err(ReplyCode::NotAllowed),
            Err(NoConnection::Failed(_)) => Err(ReplyCode::Unreachable),
        },
        Err(answer) => Err(answer),
    };
    let (answer, tunnel) = match connected {
        Ok(host) => (ReplyCode::Connected, Some(Tunnel { host, request: None })),
        Err(answer) => (answer, None),
    };
    // The address from which tine connects is not for the command.
    let reply = [VERSION, answer as u8, 0, IPV4, 0, 0, 0, 0, 0, 0];
    within(ended, client.write_all(&reply)).await?;
    Ok(tunnel)
}

/// Reads the greeting and the request; `None` if the client would have to send a password.
async fn read(client: &mut TcpStream) -> io::Result<Option<Request>> {
    let _version = client.read_u8().await?;
    let mut methods = vec![0; usize::from(client.read_u8().await?)];
    client.read_exact(&mut methods).await?;
    if !methods.contains(&NO_PASSWORD) {
        client.write_all(&[VERSION, NO_METHOD]).await?;
        return Ok(None);
    }
    client.write_all(&[VERSION, NO_PASSWORD]).await?;
    let [version, command, _reserved, kind] = array(client).await?;
    if version != VERSION {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let host = match kind {
        IPV4 => Ipv4Addr::from(array::<4>(client).await?).to_string(),
        IPV6 => Ipv6Addr::from(array::<16>(client).await?).to_string(),
        NAME => {
            let mut name = vec![0; usize::from(client.read_u8().await?)];
            client.read_exact(&mut name).await?;
            String::from_utf8(name).unwrap_or_default()
        }
        _ => return Ok(Some(Err(ReplyCode::NoSuchAddress))),
    };
    let port = client.read_u16().await?;
    Ok(Some(match command {
        CONNECT => Target::new(&host, port).ok_or(ReplyCode::NoSuchAddress),
        _ => Err(ReplyCode::NoSuchCommand),
    }))
}

async fn array<const N: usize>(client: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut array = [0; N];
    client.read_exact(&mut array).await?;
    Ok(array)
}
