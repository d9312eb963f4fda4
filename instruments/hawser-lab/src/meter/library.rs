//! A transfer between two programs that embed the library: no port, no proxy.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hawser::{
    BondStream, Connection, Encryption, Endpoint, EndpointBuilder, Invite, TransportChoice,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::body::{BLOCK, Sink, Source};
use super::header::{HEADER, Header, Operation};
use super::{MAX_RECEIPT, Outcome, Receipt};
use crate::scenario::Direction;

/// One transfer to make between endpoints.
#[derive(Debug)]
pub(crate) struct LibraryOrder {
    pub(crate) direction: Direction,
    pub(crate) bytes: u64,
    /// The file with the server's invite.
    pub(crate) invite: PathBuf,
    /// Keeps this endpoint's key, so that one invite is enough for all transfers.
    pub(crate) state: PathBuf,
    /// Over these interfaces.
    pub(crate) links: Vec<String>,
    pub(crate) how: Embedding,
}

/// Options of the library at both ends of transfers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Embedding {
    pub(crate) encryption: Encryption,
    pub(crate) transport: TransportChoice,
}

impl Embedding {
    pub(super) fn builder(self) -> EndpointBuilder {
        let builder = Endpoint::builder().encryption(self.encryption);
        builder.transport(self.transport)
    }
}

/// Serves streams at `listen` until it is killed. Once it listens it writes `count` invites into
/// the file `invites`, one in a line.
pub(crate) fn serve_library(
    listen: SocketAddr,
    invites: &Path,
    count: u32,
    how: Embedding,
) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let endpoint = how.builder().build()?;
        let listener = endpoint.listen(listen).await?;
        let mut text = String::new();
        for _ in 0..count {
            writeln!(text, "{}", listener.invite(INVITE_TTL)?)?;
        }
        // Whole or not at all: the other end waits for the name.
        let folder = invites.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        io::Write::write_all(&mut file, text.as_bytes())?;
        file.persist(invites)?;
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(async move {
                if let Err(error) = handle(stream).await {
                    eprintln!("meter: {error}");
                }
            });
        }
    })
}

/// Makes one transfer over a connection of its own.
pub(crate) fn library_transfer(order: &LibraryOrder) -> anyhow::Result<Outcome> {
    let invite: Invite = std::fs::read_to_string(&order.invite)?.trim().parse()?;
    runtime()?.block_on(async {
        let endpoint = order
            .how
            .builder()
            .state_dir(&order.state)
            .links(&order.links)
            .build()?;
        let start = Instant::now();
        let connection = endpoint.connect(&invite).await?;
        let mut stream = connection.open().await?;
        let connected = start.elapsed();
        let header = Header::transfer(order.direction, order.bytes);
        stream.write_all(&header.bytes()).await?;
        let receipt = match order.direction {
            Direction::Put => put(&mut stream, order.bytes).await?,
            Direction::Get => take(&mut stream, order.bytes).await?,
        };
        let outcome = Outcome::new(order.bytes, start, connected, receipt);
        drop(stream);
        end(&connection).await;
        Ok(outcome)
    })
}

/// Ends a connection in order. A peer that does not acknowledge the end in time changes nothing:
/// the outcome stands.
pub(super) async fn end(connection: &Connection) {
    connection.close(0, "");
    let _ = tokio::time::timeout(END_PATIENCE, connection.closed()).await;
}

pub(super) fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
}

async fn handle(mut stream: BondStream) -> io::Result<()> {
    let mut header = [0; HEADER];
    stream.read_exact(&mut header).await?;
    let header = Header::parse(header)?;
    match header.operation {
        Operation::Put => {
            let receipt = take(&mut stream, header.size).await?;
            stream.write_all(&serde_json::to_vec(&receipt)?).await?;
        }
        Operation::Get => feed(&mut stream, header.size).await?,
        Operation::Echo => return Err(io::ErrorKind::InvalidData.into()),
    }
    stream.shutdown().await
}

pub(super) async fn put(stream: &mut BondStream, bytes: u64) -> io::Result<Receipt> {
    feed(stream, bytes).await?;
    stream.shutdown().await?;
    let mut text = Vec::new();
    stream.take(MAX_RECEIPT).read_to_end(&mut text).await?;
    if text.is_empty() {
        return Err(io::Error::other("the receiver ended without a receipt"));
    }
    Ok(serde_json::from_slice(&text)?)
}

async fn feed(to: &mut (impl AsyncWrite + Unpin), bytes: u64) -> io::Result<()> {
    let mut source = Source::new(bytes);
    while let Some(part) = source.next_part() {
        to.write_all(part).await?;
    }
    to.write_all(&u64::from(source.crc()).to_be_bytes()).await
}

pub(super) async fn take(from: &mut (impl AsyncRead + Unpin), bytes: u64) -> io::Result<Receipt> {
    let mut block = vec![0; BLOCK];
    let mut sink = Sink::new();
    while sink.bytes < bytes {
        let wanted = usize::try_from(bytes - sink.bytes).unwrap_or(BLOCK);
        match from.read(&mut block[..wanted.min(BLOCK)]).await? {
            0 => break,
            count => sink.note(&block[..count]),
        }
    }
    let check = from.read_u64().await.ok();
    Ok(sink.receipt(bytes, check))
}

const INVITE_TTL: Duration = Duration::from_secs(24 * 3600);
const END_PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_move_bytes_both_ways_sealed_and_plain() {
        for (encryption, transport) in [
            (Encryption::Default, TransportChoice::Tcp),
            (Encryption::None, TransportChoice::Tcp),
            (Encryption::Default, TransportChoice::Sctp),
        ] {
            let how = Embedding {
                encryption,
                transport,
            };
            let folder = tempfile::tempdir().unwrap();
            let invite = folder.path().join("invite");
            let serving = invite.clone();
            std::thread::spawn(move || {
                serve_library(SocketAddr::from(([127, 0, 0, 1], 0)), &serving, 1, how)
            });
            while !invite.exists() {
                std::thread::sleep(Duration::from_millis(5));
            }
            for direction in [Direction::Put, Direction::Get] {
                let order = LibraryOrder {
                    direction,
                    bytes: 3_000_001,
                    invite: invite.clone(),
                    state: folder.path().join("client"),
                    links: Vec::new(),
                    how,
                };
                let outcome = library_transfer(&order).unwrap();
                assert!(outcome.ok, "{direction:?} {how:?}");
                assert_eq!(outcome.timeline.iter().sum::<u64>(), 3_000_001);
            }
        }
    }
}
