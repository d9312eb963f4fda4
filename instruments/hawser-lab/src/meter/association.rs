//! One end of an association, which sends and checks bytes that encode their position.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use hawser_link::links::{Link, list_links};
use hawser_net::association::{AssociationEndpoint, AssociationHandle, Seal};
use hawser_sctp::{AssociationConfig, Closed, Local, Message};
use hawser_session::seal::{Aead, Direction, SessionKeys};
use hawser_types::{ChannelId, LinkIndex};
use hawser_wire::sctp::StreamNumber;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::places::{bytes_at, wrong_at};
use crate::cpu;

/// The task of one end of an association, or of its like.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AssociationOrder {
    /// This end's addresses
    #[arg(long, required = true, value_delimiter = ',')]
    pub(super) locals: Vec<IpAddr>,
    /// The peer's; without any, the peer begins
    #[arg(long, value_delimiter = ',')]
    pub(super) remotes: Vec<IpAddr>,
    /// Bytes to send, or to receive
    #[arg(long)]
    pub(super) bytes: u64,
    /// Bytes of one message
    #[arg(long, default_value_t = 1400)]
    pub(super) message: usize,
    /// Receive instead of sending
    #[arg(long)]
    receive: bool,
    /// Seal the datagrams
    #[arg(long)]
    sealed: bool,
}

/// The results of one end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct AssociationOutcome {
    /// `send` or `receive`.
    pub(crate) role: String,
    /// Bytes of payload that were sent, or came.
    pub(crate) bytes: u64,
    /// Number of bytes that differ from the expected ones.
    pub(crate) wrong: u64,
    /// From the first byte to the last.
    pub(crate) seconds: f64,
    /// Processor time of the process.
    pub(crate) cpu: f64,
}

impl AssociationOutcome {
    /// Goodput, in Mbit/s.
    pub(crate) fn mbps(&self) -> f64 {
        self.bytes as f64 * 8e-6 / self.seconds
    }
}

/// Sends or receives, over one association.
pub(crate) fn run(order: &AssociationOrder) -> anyhow::Result<AssociationOutcome> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(order.run())
}

impl AssociationOrder {
    async fn run(&self) -> anyhow::Result<AssociationOutcome> {
        let links = list_links().await?;
        let locals = self.locals.iter().map(|address| place(*address, &links));
        let locals: Vec<Local> = locals.collect();
        let endpoint = if self.sealed {
            AssociationEndpoint::bind_sealed(&locals, UDP_PORT)
        } else {
            AssociationEndpoint::bind(AssociationConfig::default(), &locals, UDP_PORT)
        };
        let endpoint = endpoint.context("can't open the sockets")?;
        let association = if self.remotes.is_empty() {
            self.accept(&endpoint).await?
        } else {
            self.connect(&endpoint)?
        };
        let established = association.established().await;
        established.map_err(|why| anyhow::anyhow!("no association: {why:?}"))?;
        if self.receive {
            self.receive_all(&association).await
        } else {
            self.send_all(&association).await
        }
    }

    async fn accept(&self, endpoint: &AssociationEndpoint) -> anyhow::Result<AssociationHandle> {
        let expected = self.sealed.then(|| {
            let seal = seal(Direction::GatewayToClient);
            endpoint.expect(AssociationConfig::default(), seal)
        });
        // The parent process waits for the line.
        println!("listening");
        Ok(match expected.transpose()? {
            Some(expected) => expected.accept().await,
            None => endpoint.accept().await,
        })
    }

    fn connect(&self, endpoint: &AssociationEndpoint) -> anyhow::Result<AssociationHandle> {
        let remotes = self.remotes.iter();
        let remotes: Vec<SocketAddr> = remotes.map(|it| SocketAddr::new(*it, UDP_PORT)).collect();
        let config = AssociationConfig::default();
        Ok(if self.sealed {
            endpoint.connect_sealed(config, &remotes, seal(Direction::ClientToGateway))?
        } else {
            endpoint.connect(config, &remotes)?
        })
    }

    async fn send_all(
        &self,
        association: &AssociationHandle,
    ) -> anyhow::Result<AssociationOutcome> {
        let began = Instant::now();
        let mut place = 0;
        while place < self.bytes {
            let size = self.message_at(place);
            let message = Message::new(bytes_at(place, size));
            association.send(StreamNumber::new(0), message).await?;
            place += size as u64;
        }
        match association.shutdown().await {
            Closed::Shutdown => Ok(self.outcome("send", place, 0, began)),
            other => bail!("the association ended otherwise: {other:?}"),
        }
    }

    async fn receive_all(
        &self,
        association: &AssociationHandle,
    ) -> anyhow::Result<AssociationOutcome> {
        let (mut began, mut place, mut wrong) = (None, 0, 0);
        while place < self.bytes
            && let Some(received) = association.receive().await
        {
            began.get_or_insert_with(|| {
                println!("began");
                Instant::now()
            });
            for part in received.parts() {
                wrong += wrong_at(place, part);
                place += part.len() as u64;
            }
        }
        let began = began.unwrap_or_else(Instant::now);
        let outcome = self.outcome("receive", place, wrong, began);
        // The last packet of the peer may be lost with its link, and the peer has ended and cannot
        // send it again.
        let _ = tokio::time::timeout(GOODBYE, association.closed()).await;
        Ok(outcome)
    }

    /// Returns the length of the message that begins at `place`.
    pub(super) fn message_at(&self, place: u64) -> usize {
        usize::try_from(self.bytes - place).map_or(self.message, |rest| rest.min(self.message))
    }

    fn outcome(&self, role: &str, bytes: u64, wrong: u64, began: Instant) -> AssociationOutcome {
        AssociationOutcome {
            role: role.to_owned(),
            bytes,
            wrong,
            seconds: began.elapsed().as_secs_f64(),
            cpu: cpu::of_this_process(),
        }
    }
}

/// Keys that both ends know without having met.
fn seal(direction: Direction) -> Seal {
    let keys = SessionKeys::new(Zeroizing::new([7; 32]), Aead::Aes128Gcm);
    Seal::new(&keys, ChannelId::new(1), direction)
}

/// An address, with the interface that has it; without one, packets leave as routes have it.
fn place(address: IpAddr, links: &[Link]) -> Local {
    let mut owners = links.iter().filter(|link| !link.loopback);
    let owner = owners.find(|link| link.addresses.contains(&address));
    Local {
        link: owner.map_or(LinkIndex::new(0), |link| link.index),
        address,
    }
}

const UDP_PORT: u16 = 9899;
const GOODBYE: Duration = Duration::from_secs(10);
