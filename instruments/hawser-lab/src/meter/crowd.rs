//! Many clients of one server at once: each with an endpoint, a key and a session of its own.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context as _;
use hawser::{Connection, Invite};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinSet;

use super::header::Header;
use super::library::{Embedding, end, put, runtime, take};
use crate::cpu;
use crate::scenario::Direction;

/// Transfers to make at the same time, one for each invite.
#[derive(Debug)]
pub(crate) struct CrowdOrder {
    pub(crate) direction: Direction,
    /// Bytes of each client's transfer.
    pub(crate) bytes: u64,
    /// The file with the server's invites, one in a line.
    pub(crate) invites: PathBuf,
    /// The interfaces that every client uses.
    pub(crate) links: Vec<String>,
    pub(crate) how: Embedding,
}

/// The results of the transfers of all clients.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct CrowdOutcome {
    /// Bytes of all transfers together.
    pub(crate) bytes: u64,
    /// Seconds until every client's session stood.
    pub(crate) connect_seconds: f64,
    /// Seconds from the common start to the end of the last transfer.
    pub(crate) seconds: f64,
    /// Seconds that each client's transfer took.
    pub(crate) each: Vec<f64>,
    /// Processor time of this process between the common start and the last end, in seconds.
    pub(crate) cpu_seconds: f64,
    /// True if all bytes of all clients arrived unchanged.
    pub(crate) ok: bool,
}

/// Connects all clients, then lets them transfer at the same time.
pub(crate) fn run(order: &CrowdOrder) -> anyhow::Result<CrowdOutcome> {
    let invites = std::fs::read_to_string(&order.invites)
        .with_context(|| order.invites.display().to_string())?;
    let invites = invites.lines().map(str::parse::<Invite>);
    let invites = invites.collect::<Result<Vec<_>, _>>()?;
    runtime()?.block_on(async {
        let start = Instant::now();
        let connections = connect(order, invites).await?;
        let connect_seconds = start.elapsed().as_secs_f64();
        let (start, used) = (Instant::now(), cpu::of_this_process());
        let transfers = connections.into_iter().map(|connection| {
            let (direction, bytes) = (order.direction, order.bytes);
            async move {
                let ok = transfer(&connection, direction, bytes).await?;
                Ok::<_, anyhow::Error>((start.elapsed().as_secs_f64(), ok, connection))
            }
        });
        let transfers = transfers.collect::<JoinSet<_>>().join_all().await;
        let cpu_seconds = cpu::of_this_process() - used;
        let (mut each, mut ok) = (Vec::new(), true);
        let mut connections = Vec::new();
        for transfer in transfers {
            let (seconds, is_whole, connection) = transfer?;
            each.push(seconds);
            ok &= is_whole;
            connections.push(connection);
        }
        let closing = connections
            .into_iter()
            .map(|connection| async move { end(&connection).await });
        closing.collect::<JoinSet<_>>().join_all().await;
        Ok(CrowdOutcome {
            bytes: order.bytes * each.len() as u64,
            connect_seconds,
            seconds: each.iter().copied().fold(0.0, f64::max),
            each,
            cpu_seconds,
            ok,
        })
    })
}

/// Connects one client for each invite, a few at a time, as the server's door admits them.
async fn connect(order: &CrowdOrder, invites: Vec<Invite>) -> anyhow::Result<Vec<Connection>> {
    let mut connections = Vec::with_capacity(invites.len());
    for some in invites.chunks(TOGETHER) {
        let mut connecting = JoinSet::new();
        for invite in some {
            let endpoint = order.how.builder().links(&order.links).build()?;
            let invite = invite.clone();
            connecting.spawn(async move { endpoint.connect(&invite).await });
        }
        for connected in connecting.join_all().await {
            connections.push(connected?);
        }
    }
    Ok(connections)
}

/// Makes one client's transfer. True if all of its bytes arrived unchanged.
async fn transfer(
    connection: &Connection,
    direction: Direction,
    bytes: u64,
) -> anyhow::Result<bool> {
    let mut stream = connection.open().await?;
    let header = Header::transfer(direction, bytes);
    stream.write_all(&header.bytes()).await?;
    let verdict = match direction {
        Direction::Put => put(&mut stream, bytes).await?,
        Direction::Get => take(&mut stream, bytes).await?,
    };
    Ok(verdict.ok)
}

/// Clients that connect at the same time: fewer than a server lets in from one address.
const TOGETHER: usize = 16;

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use hawser::{Encryption, TransportChoice};

    use super::super::library::serve_library;
    use super::*;

    #[test]
    fn twenty_clients_of_one_server_transfer_at_once() {
        for transport in [TransportChoice::Tcp, TransportChoice::Sctp] {
            let how = Embedding {
                encryption: Encryption::Default,
                transport,
            };
            let folder = tempfile::tempdir().unwrap();
            let invites = folder.path().join("invites");
            let serving = invites.clone();
            std::thread::spawn(move || {
                serve_library(SocketAddr::from(([127, 0, 0, 1], 0)), &serving, 20, how)
            });
            while !invites.exists() {
                std::thread::sleep(Duration::from_millis(5));
            }
            let outcome = run(&CrowdOrder {
                direction: Direction::Get,
                bytes: 100_001,
                invites,
                links: Vec::new(),
                how,
            })
            .unwrap();
            assert!(outcome.ok, "{transport:?}");
            assert_eq!(outcome.each.len(), 20);
            assert_eq!(outcome.bytes, 2_000_020);
        }
    }
}
