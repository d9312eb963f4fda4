mod abandoning;
mod black_holes;
mod delivery;
mod hostile;
mod network;
mod placed;
mod placement;
mod reasons;
mod recovery;
mod reinjection;
mod reports;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_sched::chunk::ChunkPolicy;
use hawser_types::{ByteCount, Instant, LinkIndex, PathId};
use hawser_wire::sctp::{
    Data, Framing, GapBlock, PacketWriter, Sack, StreamNumber, Tsn, VerificationTag,
};

use super::window::Status;
use super::{Message, Outbound, Reliability};
use crate::handshake::Negotiated;
use crate::path::Paths;
use crate::{AssociationConfig, Control, Local, Misbehaviour, Route};

/// An `Outbound` whose packets and SACKs a test moves by hand. TSNs begin shortly before they wrap.
struct Bench {
    outbound: Outbound,
    paths: Paths,
    now: Instant,
}

/// A packet that has left.
#[derive(Debug)]
struct Sent {
    path: PathId,
    chunks: Vec<Data>,
}

impl Bench {
    /// Creates a bench with this many answering paths, without estimates.
    fn new(paths: u32, config: &AssociationConfig) -> Self {
        Self::with_negotiated(paths, config, &negotiated(config))
    }

    fn with_negotiated(count: u32, config: &AssociationConfig, negotiated: &Negotiated) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let mut paths = Paths::new(config, 7);
        for number in 0..count {
            paths.add(now, route(number), true);
        }
        Self {
            outbound: Outbound::new(config, negotiated),
            paths,
            now,
        }
    }

    /// Creates a bench with paths of these round-trip times, in milliseconds.
    fn with_rtts(rtts: &[u64], config: &AssociationConfig) -> Self {
        let mut bench = Self::new(rtts.len() as u32, config);
        let now = bench.now;
        for (path, rtt) in bench.paths.iter_mut().zip(rtts) {
            path.rtt.on_sample(now, ms(*rtt));
        }
        bench
    }

    /// Queues a message of this many bytes.
    fn write(&mut self, stream: u16, bytes: usize) {
        let taken = self
            .outbound
            .send(self.now, StreamNumber::new(stream), message(bytes));
        assert_eq!(taken, Ok(()));
    }

    fn write_limited(&mut self, stream: u16, bytes: usize, reliability: Reliability) {
        let message = Message {
            reliability,
            ..message(bytes)
        };
        let taken = self
            .outbound
            .send(self.now, StreamNumber::new(stream), message);
        assert_eq!(taken, Ok(()));
    }

    /// Returns all packets that leave now.
    fn pump(&mut self) -> Vec<Sent> {
        std::iter::from_fn(|| self.packet()).collect()
    }

    /// Returns the next packet that leaves now.
    fn packet(&mut self) -> Option<Sent> {
        while let Some(id) = self.outbound.next_path(self.now, &mut self.paths) {
            let size = self.outbound.packet_size(self.paths.path(id)?);
            let mut writer = match self.outbound.framing {
                Framing::Whole => PacketWriter::new(9, 9, VerificationTag::new(1), size),
                Framing::Compact => PacketWriter::compact(BytesMut::new(), size),
            };
            if self
                .outbound
                .fill(self.now, &mut self.paths, id, &mut writer)
            {
                return Some(Sent {
                    path: id,
                    chunks: network::chunks(writer, self.outbound.framing),
                });
            }
        }
        None
    }

    fn wait(&mut self, millis: u64) {
        self.now += ms(millis);
        self.outbound.handle_timeout(self.now, &mut self.paths);
    }

    /// Waits until the next timer fires.
    fn wait_for_timer(&mut self) -> Duration {
        let at = self
            .outbound
            .poll_timeout(&self.paths)
            .expect("a timer runs");
        let waited = at.since(self.now);
        self.now = self.now.max(at);
        self.outbound.handle_timeout(self.now, &mut self.paths);
        waited
    }

    /// Handles a SACK for everything before the chunk of this number, and these runs beyond.
    fn sack(&mut self, next: u64, runs: &[(u64, u64)]) -> Result<ByteCount, Misbehaviour> {
        self.read(&self.sack_of(next, runs))
    }

    fn sack_of(&self, next: u64, runs: &[(u64, u64)]) -> Sack {
        let distance = |chunk: u64| u16::try_from(chunk + 1 - next).unwrap();
        let block = |(first, last): &(u64, u64)| GapBlock {
            first: distance(*first),
            last: distance(*last),
        };
        Sack {
            cumulative: tsn(next.wrapping_sub(1)),
            window: 1 << 20,
            gaps: runs.iter().map(block).collect(),
            duplicates: Vec::new(),
        }
    }

    fn read(&mut self, sack: &Sack) -> Result<ByteCount, Misbehaviour> {
        self.read_over(sack, 0)
    }

    fn read_over(&mut self, sack: &Sack, path: u32) -> Result<ByteCount, Misbehaviour> {
        let over = Some(PathId::new(path));
        self.outbound.on_sack(self.now, sack, over, &mut self.paths)
    }

    fn status(&self, chunk: u64) -> Option<Status> {
        self.outbound.window.get(chunk).map(|record| record.status)
    }

    fn in_flight(&self, path: u32) -> u64 {
        let path = self.paths.path(PathId::new(path)).unwrap();
        path.flight.bytes().as_u64()
    }

    fn window(&self, path: u32) -> ByteCount {
        self.paths
            .path(PathId::new(path))
            .unwrap()
            .congestion
            .window()
    }
}

impl Sent {
    /// Returns the numbers of its chunks, from 0.
    fn numbers(&self) -> Vec<u64> {
        let number = |data: &Data| u64::from(data.tsn.since(tsn(0)));
        self.chunks.iter().map(number).collect()
    }
}

/// Returns the numbers of these packets' chunks.
fn numbers(packets: &[Sent]) -> Vec<u64> {
    packets.iter().flat_map(Sent::numbers).collect()
}

fn config() -> AssociationConfig {
    AssociationConfig {
        policy: ChunkPolicy::LeastRtt,
        control: Control::Reno,
        ..AssociationConfig::default()
    }
}

fn negotiated(config: &AssociationConfig) -> Negotiated {
    Negotiated {
        local_tag: VerificationTag::new(1),
        peer_tag: VerificationTag::new(2),
        initial_tsn: tsn(0),
        peer_initial_tsn: Tsn::new(1),
        outbound_streams: 16,
        inbound_streams: 16,
        peer_window: 1 << 20,
        port: 9,
        peer_port: 9,
        peer_addresses: Vec::new(),
        interleaving: config.interleaving,
        partial_reliability: config.partial_reliability,
        reconfiguration: false,
        zero_checksum: false,
    }
}

fn message(bytes: usize) -> Message {
    Message::new(Bytes::from(vec![7; bytes]))
}

fn route(number: u32) -> Route {
    let last = number as u8 + 1;
    Route {
        local: Local {
            link: LinkIndex::new(number + 1),
            address: [10, 0, 0, last].into(),
        },
        remote: ([10, 0, 1, last], 9899).into(),
    }
}

/// Returns the TSN of the chunk with this number.
fn tsn(chunk: u64) -> Tsn {
    Tsn::new(u32::MAX - 3).advance(chunk as u32)
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Payload of a chunk that fills a packet of 1200 bytes, with I-DATA.
const FULL: usize = 1200 - 12 - 20;
