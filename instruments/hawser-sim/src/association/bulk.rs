use std::time::Duration;

use bytes::Bytes;
use hawser_sctp::{AssociationConfig, Message, SendError};
use hawser_types::{ByteCount, LinkIndex, Rate};
use hawser_wire::sctp::StreamNumber;

use super::fabric::Fabric;

/// A transfer of messages as fast as they are taken, from one host to the other.
#[derive(Clone, Copy, Debug)]
pub struct Bulk {
    /// The payload in all.
    pub size: ByteCount,
    /// That of one message.
    pub message: ByteCount,
    /// From the client to the server.
    pub up: bool,
    /// Given up after this.
    pub limit: Duration,
}

/// What came of it.
#[derive(Clone, Debug, Default, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Outcome {
    /// The payload that arrived.
    pub delivered: ByteCount,
    /// From the first message given to the last one received.
    pub span: Duration,
    /// What each link carried meanwhile in that direction, IP headers included.
    pub carried: Vec<ByteCount>,
    /// Packets that each lost or had no room for.
    pub lost: Vec<u64>,
}

impl Bulk {
    /// Runs it over an association that stands.
    pub fn run(&self, fabric: &mut Fabric) -> Outcome {
        let (from, to) = if self.up { (0, 1) } else { (1, 0) };
        let way = from;
        let links = fabric.links();
        let before = carried(fabric, &links, way);
        let (began, end) = (fabric.now(), fabric.now() + self.limit);
        let payload = Bytes::from(vec![0x5a; self.message.as_u64() as usize]);
        let (mut left, mut outcome) = (self.size, Outcome::default());
        loop {
            while left > ByteCount::ZERO {
                let part = payload.slice(..payload.len().min(left.as_u64() as usize));
                let size = ByteCount::new(part.len() as u64);
                let now = fabric.now();
                let stream = StreamNumber::new(0);
                match fabric
                    .association(from)
                    .send(now, stream, Message::new(part))
                {
                    Ok(()) => left -= size,
                    Err(SendError::Full) => break,
                    Err(_) => return outcome,
                }
            }
            fabric.pump(from);
            while let Some(received) = fabric.association(to).receive() {
                outcome.delivered += ByteCount::new(received.length() as u64);
                outcome.span = fabric.now().since(began);
            }
            fabric.pump(to);
            if outcome.delivered >= self.size || fabric.step(end).is_none() {
                break;
            }
        }
        let after = carried(fabric, &links, way);
        let moved = after
            .iter()
            .zip(&before)
            .map(|(after, before)| *after - *before);
        outcome.carried = moved.collect();
        outcome.lost = links.iter().map(|link| fabric.lost(*link)).collect();
        outcome
    }
}

impl Outcome {
    /// Payload in time.
    pub fn goodput(&self) -> Rate {
        Rate::over(self.delivered, self.span)
    }

    /// What all links carried in time.
    pub fn throughput(&self) -> Rate {
        Rate::over(self.carried.iter().copied().sum(), self.span)
    }
}

/// Makes an association over these links and runs a transfer over it; `None`: it did not come to
/// be.
pub(super) fn over(
    fabric: &mut Fabric,
    config: &AssociationConfig,
    bulk: &Bulk,
) -> Option<Outcome> {
    fabric.establish(config).then(|| bulk.run(fabric))
}

fn carried(fabric: &Fabric, links: &[LinkIndex], way: usize) -> Vec<ByteCount> {
    let links = links.iter();
    links.map(|link| fabric.carried(*link)[way]).collect()
}
