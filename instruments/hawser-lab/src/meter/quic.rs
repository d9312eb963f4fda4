//! One end of QUIC connections (quinn), each with one stream: a reference for associations.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use hawser_sim::quic_keys;
use quinn::congestion::BbrConfig;
use quinn::{ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig, VarInt};
use tokio::task::JoinSet;

use super::association::AssociationOutcome;
use super::places::{bytes_at, wrong_at};
use crate::cpu;

/// The task of one end of the connections.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct QuicOrder {
    /// This end's addresses, one for each connection
    #[arg(long, required = true, value_delimiter = ',')]
    locals: Vec<IpAddr>,
    /// The peer's, in the same order; without any, the peer begins
    #[arg(long, value_delimiter = ',')]
    remotes: Vec<IpAddr>,
    /// The end that begins receives, in place of sending
    #[arg(long)]
    pull: bool,
    /// Congestion control of this end
    #[arg(long, default_value = "cubic")]
    congestion: QuicControl,
    /// Bytes over all of them, in equal parts
    #[arg(long)]
    bytes: u64,
    /// Bytes of one write
    #[arg(long)]
    message: usize,
}

/// Congestion controls of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum QuicControl {
    Cubic,
    Bbr,
}

impl QuicControl {
    pub(crate) const ALL: [Self; 2] = [Self::Cubic, Self::Bbr];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
        }
    }
}

/// Sends or receives.
pub(crate) fn run(order: &QuicOrder) -> anyhow::Result<AssociationOutcome> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(order.run())
}

/// The results of one connection.
struct Part {
    bytes: u64,
    wrong: u64,
    began: Instant,
    ended: Instant,
}

impl QuicOrder {
    async fn run(&self) -> anyhow::Result<AssociationOutcome> {
        let mut parts = JoinSet::new();
        let listens = self.remotes.is_empty();
        ensure!(
            listens || self.remotes.len() == self.locals.len(),
            "one remote address for each local one"
        );
        let sends = listens == self.pull;
        let (bytes, message) = (self.bytes / self.locals.len() as u64, self.message);
        for (index, local) in self.locals.iter().enumerate() {
            let endpoint = self.endpoint(SocketAddr::new(*local, UDP_PORT))?;
            let remote = self.remotes.get(index);
            let remote = remote.map(|remote| SocketAddr::new(*remote, UDP_PORT));
            parts.spawn(async move {
                if sends {
                    send(endpoint, remote, bytes, message).await
                } else {
                    receive(endpoint, remote).await
                }
            });
        }
        if listens {
            // The parent process waits for the line.
            println!("listening");
        }
        let mut done = Vec::new();
        while let Some(part) = parts.join_next().await {
            done.push(part??);
        }
        let began = done.iter().map(|part| part.began).min();
        let ended = done.iter().map(|part| part.ended).max();
        let spans = began.zip(ended).context("no connection")?;
        Ok(AssociationOutcome {
            role: if sends { "send" } else { "receive" }.to_owned(),
            bytes: done.iter().map(|part| part.bytes).sum(),
            wrong: done.iter().map(|part| part.wrong).sum(),
            seconds: (spans.1 - spans.0).as_secs_f64(),
            cpu: cpu::of_this_process(),
        })
    }

    fn endpoint(&self, local: SocketAddr) -> anyhow::Result<Endpoint> {
        let mut transport = TransportConfig::default();
        // What associations have by default.
        transport.stream_receive_window(VarInt::from_u32(BUFFER));
        transport.receive_window(VarInt::from_u32(BUFFER));
        transport.send_window(BUFFER.into());
        match self.congestion {
            QuicControl::Cubic => {}
            QuicControl::Bbr => {
                transport.congestion_controller_factory(Arc::new(BbrConfig::default()));
            }
        }
        let transport = Arc::new(transport);
        let endpoint = if self.remotes.is_empty() {
            let mut config = ServerConfig::with_crypto(Arc::new(quic_keys::server()?));
            config.transport_config(transport);
            Endpoint::server(config, local)
        } else {
            Endpoint::client(local).and_then(|mut endpoint| {
                let crypto = quic_keys::client().map_err(std::io::Error::other)?;
                let mut config = ClientConfig::new(Arc::new(crypto));
                config.transport_config(transport);
                endpoint.set_default_client_config(config);
                Ok(endpoint)
            })
        };
        endpoint.context("can't open a socket")
    }
}

/// Connects to the peer, or waits until it does.
async fn connect(endpoint: &Endpoint, remote: Option<SocketAddr>) -> anyhow::Result<Connection> {
    if let Some(remote) = remote {
        return Ok(endpoint.connect(remote, "lab")?.await?);
    }
    let incoming = endpoint.accept().await.context("no connection arrived")?;
    Ok(incoming.await?)
}

async fn send(
    endpoint: Endpoint,
    remote: Option<SocketAddr>,
    bytes: u64,
    message: usize,
) -> anyhow::Result<Part> {
    let connection = connect(&endpoint, remote).await?;
    let began = Instant::now();
    let mut stream = connection.open_uni().await?;
    let mut place = 0;
    while place < bytes {
        let size = usize::try_from(bytes - place).map_or(message, |rest| rest.min(message));
        stream.write_chunk(bytes_at(place, size)).await?;
        place += size as u64;
    }
    stream.finish()?;
    // Until the peer has everything.
    stream.stopped().await?;
    let ended = Instant::now();
    connection.close(VarInt::from_u32(0), b"");
    endpoint.wait_idle().await;
    Ok(Part {
        bytes: place,
        wrong: 0,
        began,
        ended,
    })
}

async fn receive(endpoint: Endpoint, remote: Option<SocketAddr>) -> anyhow::Result<Part> {
    let connection = connect(&endpoint, remote).await?;
    let mut stream = connection.accept_uni().await?;
    let (mut began, mut place, mut wrong) = (None, 0, 0);
    while let Some(chunk) = stream.read_chunk(usize::MAX, true).await? {
        began.get_or_insert_with(Instant::now);
        wrong += wrong_at(place, &chunk.bytes);
        place += chunk.bytes.len() as u64;
    }
    let ended = Instant::now();
    connection.closed().await;
    endpoint.wait_idle().await;
    Ok(Part {
        bytes: place,
        wrong,
        began: began.unwrap_or(ended),
        ended,
    })
}

const UDP_PORT: u16 = 9899;
const BUFFER: u32 = 8 << 20;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[tokio::test]
    async fn what_is_sent_over_a_connection_arrives_and_is_checked() {
        for pull in [false, true] {
            let order = |remotes| QuicOrder {
                locals: vec![Ipv4Addr::LOCALHOST.into()],
                remotes,
                pull,
                congestion: QuicControl::Bbr,
                bytes: 300_000,
                message: 7_000,
            };
            let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let listening = order(Vec::new()).endpoint(local).unwrap();
            let remote = listening.local_addr().unwrap();
            let begins = order(vec![remote.ip()]).endpoint(local).unwrap();
            let remote = Some(remote);
            let (sent, received) = if !pull {
                tokio::join!(
                    send(begins, remote, 300_000, 7_000),
                    receive(listening, None)
                )
            } else {
                tokio::join!(
                    send(listening, None, 300_000, 7_000),
                    receive(begins, remote)
                )
            };
            let received = received.unwrap();
            assert_eq!(sent.unwrap().bytes, 300_000);
            assert_eq!((received.bytes, received.wrong), (300_000, 0));
        }
    }
}
