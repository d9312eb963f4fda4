//! One end of an association: bytes that tell their place, as `association/usrsctp.c` sends and checks them.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use bytes::{BufMut, Bytes, BytesMut};
use hawser_net::association::{AssociationEndpoint, AssociationHandle};
use hawser_net::links::{Link, list_links};
use hawser_sctp::{AssociationConfig, Closed, Local, Message};
use hawser_types::LinkIndex;
use hawser_wire::sctp::StreamNumber;
use serde::{Deserialize, Serialize};

use crate::cpu;

/// What an end of an association is to do.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AssociationOrder {
    /// This end's addresses
    #[arg(long, required = true, value_delimiter = ',')]
    locals: Vec<IpAddr>,
    /// The peer's; without any, the peer begins
    #[arg(long, value_delimiter = ',')]
    remotes: Vec<IpAddr>,
    /// Bytes to send, or to receive
    #[arg(long)]
    bytes: u64,
    /// Bytes of one message
    #[arg(long, default_value_t = 1400)]
    message: usize,
    /// Receive instead of sending
    #[arg(long)]
    receive: bool,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct AssociationOutcome {
    /// `send` or `receive`.
    pub(crate) role: String,
    /// Bytes of payload that were sent, or came.
    pub(crate) bytes: u64,
    /// How many of them were not what they should be.
    pub(crate) wrong: u64,
    /// From the first byte to the last.
    pub(crate) seconds: f64,
    /// Processor time of the process.
    pub(crate) cpu: f64,
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
        let config = AssociationConfig::default();
        let endpoint = AssociationEndpoint::bind(config.clone(), &locals, UDP_PORT)
            .context("can't open the sockets")?;
        let association = if self.remotes.is_empty() {
            // Whoever started this waits for the line.
            println!("listening");
            endpoint.accept().await
        } else {
            let remotes = self.remotes.iter();
            let remotes: Vec<SocketAddr> =
                remotes.map(|it| SocketAddr::new(*it, UDP_PORT)).collect();
            endpoint.connect(config, &remotes)?
        };
        let established = association.established().await;
        established.map_err(|why| anyhow::anyhow!("no association: {why:?}"))?;
        match self.receive {
            true => self.receive_all(&association).await,
            false => self.send_all(&association).await,
        }
    }

    async fn send_all(
        &self,
        association: &AssociationHandle,
    ) -> anyhow::Result<AssociationOutcome> {
        let began = Instant::now();
        let mut place = 0;
        while place < self.bytes {
            let size = (self.message as u64).min(self.bytes - place);
            let message = Message::new(pattern(place, size));
            association.send(StreamNumber::new(0), message).await?;
            place += size;
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
            let payload = received.payload();
            let right = pattern(place, payload.len() as u64);
            let differ = payload
                .iter()
                .zip(&right)
                .filter(|(got, right)| got != right);
            wrong += differ.count() as u64;
            place += payload.len() as u64;
        }
        let began = began.unwrap_or_else(Instant::now);
        let outcome = self.outcome("receive", place, wrong, began);
        // The last word of the peer may be lost with its link, and nobody is there to say it again.
        let _ = tokio::time::timeout(GOODBYE, association.closed()).await;
        Ok(outcome)
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

/// The bytes at a place of what is sent: byte n is byte n % 8 of a hash of n / 8.
fn pattern(place: u64, size: u64) -> Bytes {
    let mut bytes = BytesMut::with_capacity(size as usize + 16);
    let skipped = (place % 8) as usize;
    for word in place / 8..(place + size).div_ceil(8) {
        bytes.put_u64_le(hash(word));
    }
    let bytes = bytes.freeze();
    bytes.slice(skipped..skipped + size as usize)
}

/// SplitMix64.
fn hash(word: u64) -> u64 {
    let mixed = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// An address, with the interface that has it; without one, packets leave as routes have it.
fn place(address: IpAddr, links: &[Link]) -> Local {
    let mut owners = links.iter().filter(|link| !link.loopback);
    let owner = owners.find(|link| link.addresses.contains(&address));
    Local {
        link: LinkIndex::new(owner.map_or(0, |link| link.index)),
        address,
    }
}

const UDP_PORT: u16 = 9899;
const GOODBYE: Duration = Duration::from_secs(10);
