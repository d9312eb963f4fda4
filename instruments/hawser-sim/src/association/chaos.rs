//! Loss, reordering, duplicates, outages and changing addresses: no data may be lost, duplicated or
//! out of order, and no transfer may stall.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Disorder, Fabric, LinkModel, client_local};
use bytes::{Bytes, BytesMut};
use hawser_scenario::{Line, Loss, Service};
use hawser_sctp::{
    AssociationConfig, Checksum, Closed, ConnectStrategy, Control, End, Event, Framing, Message,
    Received, Selection, SendError,
};
use hawser_types::{ByteCount, LinkIndex, Rate};
use hawser_wire::sctp::StreamNumber;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// What must never happen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Breach {
    /// The two hosts did not come together.
    NoAssociation,
    /// The payload of a message is not what was sent.
    OtherPayload,
    /// A message came twice.
    Twice,
    /// A message came before or after its turn on this stream.
    OutOfOrder(StreamNumber),
    /// Messages were still missing after a very long time: sent and arrived, in either direction.
    StandsStill([(usize, usize); 2]),
    /// A shutdown did not come to its end.
    NeverEnds,
    /// A host was told something else than that everything went well.
    EndsOtherwise(Option<Event>),
}

/// Plays what `seed` draws: two hosts, their links, what is sent, and what happens meanwhile.
///
/// # Errors
/// The first breach.
///
/// # Panics
/// When time stands still in the simulator, or sending never stops.
pub fn play(seed: u64) -> Result<(), Breach> {
    Story::new(seed).play()
}

/// One run: what is sent, and what has come of it.
struct Story {
    fabric: Fabric,
    config: AssociationConfig,
    rng: SmallRng,
    /// Messages still to be sent by each host, and how many each has sent on each stream.
    left: [u32; 2],
    sent: [BTreeMap<(u16, bool), u32>; 2],
    /// The next ordered message of each stream, and the unordered ones that have come.
    expected: [BTreeMap<u16, u32>; 2],
    loose: [BTreeMap<u16, BTreeSet<u32>>; 2],
    /// Messages of which only the beginning has come.
    pieces: [BTreeMap<(u16, bool, u32), Vec<u8>>; 2],
    next_address: u8,
    /// What arrives at this host is left where it is.
    stalled: [bool; 2],
}

impl Story {
    fn new(seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let config = draw_config(&mut rng);
        let links = rng.random_range(1..=3);
        let links: Vec<LinkModel> = (0..links).map(|_| draw_link(&mut rng)).collect();
        let fabric = Fabric::new([&config; 2], &links, rng.random_range(1..=2), seed);
        Self {
            left: [rng.random_range(1..400), rng.random_range(0..400)],
            fabric,
            stalled: [false; 2],
            config,
            rng,
            sent: Default::default(),
            expected: Default::default(),
            loose: Default::default(),
            pieces: Default::default(),
            next_address: 50,
        }
    }

    fn play(mut self) -> Result<(), Breach> {
        let config = self.config.clone();
        if !self.fabric.establish(&config) {
            return Err(Breach::NoAssociation);
        }
        let mut rounds = 0;
        while self.left != [0, 0]
            || self
                .progress()
                .iter()
                .any(|(sent, arrived)| sent != arrived)
        {
            self.send_some();
            self.change_something();
            let span = Duration::from_millis(self.rng.random_range(1..300));
            self.pass(span)?;
            rounds += 1;
            if rounds == MAX_ROUNDS {
                return Err(Breach::StandsStill(self.progress()));
            }
        }
        self.end()
    }

    fn send_some(&mut self) {
        for host in 0..2 {
            for _ in 0..self.rng.random_range(0..40) {
                if self.left[host] == 0 || !self.send_one(host) {
                    break;
                }
                self.left[host] -= 1;
            }
            self.fabric.pump(host);
        }
    }

    /// Returns whether there was room.
    fn send_one(&mut self, host: usize) -> bool {
        let stream = self.rng.random_range(0..4u16);
        let unordered = self.rng.random_bool(0.2);
        let largest = if self.rng.random_bool(0.1) {
            20_000
        } else {
            1500
        };
        let size = self.rng.random_range(8..largest);
        let number = *self.sent[host].entry((stream, unordered)).or_default();
        let now = self.fabric.now();
        let message = Message {
            unordered,
            ..Message::new(payload(number, size))
        };
        let stream_number = StreamNumber::new(stream);
        match self
            .fabric
            .association(host)
            .send(now, stream_number, message)
        {
            Ok(()) => {
                *self.sent[host].entry((stream, unordered)).or_default() += 1;
                true
            }
            Err(SendError::Full) => false,
            Err(other) => panic!("{other}"),
        }
    }

    fn change_something(&mut self) {
        let links = self.fabric.links();
        let link = links[self.rng.random_range(0..links.len())];
        match self.rng.random_range(0..40) {
            0 => self.disorder(link).dark = true,
            1..6 => links
                .iter()
                .for_each(|link| self.disorder(*link).dark = false),
            6 => {
                let drawn = draw_link(&mut self.rng);
                self.fabric.set_link(link, &drawn);
            }
            7 if links.len() > 1 => self.move_link(link),
            8 => self.stalled[self.rng.random_range(0..2)] = true,
            9..14 => self.stalled = [false; 2],
            14 => {
                let sizes = [None, Some(1400), Some(1252), Some(900)];
                self.disorder(link).largest = sizes[self.rng.random_range(0..sizes.len())];
            }
            15 => self.disorder(link).mute = true,
            16..21 => links
                .iter()
                .for_each(|link| self.disorder(*link).mute = false),
            _ => {}
        }
    }

    fn disorder(&mut self, link: LinkIndex) -> &mut Disorder {
        self.fabric
            .disorder_mut(link)
            .expect("a link of the fabric")
    }

    /// A link of the client gets another address.
    fn move_link(&mut self, link: LinkIndex) {
        let now = self.fabric.now();
        let locals = &mut self.fabric.hosts[0].locals;
        let Some(index) = locals.iter().position(|local| local.link == link) else {
            return;
        };
        let old = locals[index];
        let mut new = client_local(self.next_address.into());
        new.link = link;
        self.next_address = if self.next_address == 240 {
            50
        } else {
            self.next_address + 1
        };
        locals[index] = new;
        let association = self.fabric.association(0);
        association.remove_local(now, old);
        association.add_local(now, new);
        self.fabric.pump(0);
    }

    /// Lets time pass, and takes what arrives.
    fn pass(&mut self, span: Duration) -> Result<(), Breach> {
        let end = self.fabric.now() + span;
        loop {
            for host in 0..2 {
                if !self.stalled[host] {
                    self.take(host)?;
                }
            }
            if self.fabric.step(end).is_none() {
                return Ok(());
            }
        }
    }

    fn take(&mut self, host: usize) -> Result<(), Breach> {
        let mut any = false;
        while let Some(received) = self.fabric.association(host).receive() {
            any = true;
            let key = (
                received.stream.value(),
                received.unordered,
                received.message,
            );
            let pieces = self.pieces[host].entry(key).or_default();
            pieces.extend_from_slice(&received.payload());
            if received.end != End::Whole {
                continue;
            }
            let bytes = self.pieces[host].remove(&key).unwrap_or_default();
            self.check(host, &received, &bytes)?;
        }
        if any {
            self.fabric.pump(host);
        }
        Ok(())
    }

    /// A whole message has come.
    fn check(&mut self, host: usize, received: &Received, bytes: &[u8]) -> Result<(), Breach> {
        let number = bytes.first_chunk().copied().map(u32::from_be_bytes);
        let number = number.ok_or(Breach::OtherPayload)?;
        if bytes != payload(number, bytes.len()) {
            return Err(Breach::OtherPayload);
        }
        let stream = received.stream.value();
        if received.unordered {
            let seen = self.loose[host].entry(stream).or_default();
            if !seen.insert(number) {
                return Err(Breach::Twice);
            }
        } else {
            let expected = self.expected[host].entry(stream).or_default();
            if number != *expected {
                return Err(Breach::OutOfOrder(received.stream));
            }
            *expected += 1;
        }
        Ok(())
    }

    fn progress(&self) -> [(usize, usize); 2] {
        [0, 1].map(|from| {
            let sent: u32 = self.sent[from].values().sum();
            let to = 1 - from;
            let ordered: u32 = self.expected[to].values().sum();
            let loose = self.loose[to].values().flatten();
            (sent as usize, ordered as usize + loose.count())
        })
    }

    fn end(mut self) -> Result<(), Breach> {
        for link in self.fabric.links() {
            let disorder = self.disorder(link);
            (disorder.dark, disorder.mute) = (false, false);
        }
        let now = self.fabric.now();
        let first = self.rng.random_range(0..2);
        self.fabric.association(first).shutdown(now);
        self.fabric.pump(first);
        let closed = |event: &Event| matches!(event, Event::Closed(_));
        let over = self.fabric.run_until(Duration::from_secs(3600), |fabric| {
            let mut hosts = fabric.hosts.iter();
            hosts.all(|host| host.events.iter().any(closed))
        });
        if !over {
            return Err(Breach::NeverEnds);
        }
        let lasts = self.fabric.hosts.iter().map(|host| host.events.last());
        for last in lasts {
            if last != Some(&Event::Closed(Closed::Shutdown)) {
                return Err(Breach::EndsOtherwise(last.cloned()));
            }
        }
        Ok(())
    }
}

fn draw_config(rng: &mut SmallRng) -> AssociationConfig {
    let controls = [Control::Reno, Control::Cubic, Control::Bbr];
    let base = if rng.random_bool(0.3) {
        AssociationConfig::paper()
    } else {
        AssociationConfig::default()
    };
    AssociationConfig {
        control: controls[rng.random_range(0..3)],
        selection: if rng.random_bool(0.5) {
            Selection::Answering
        } else {
            Selection::Paper { theta: 4.0 }
        },
        interleaving: rng.random_bool(0.5),
        // Addresses may change only under a seal.
        checksum: Checksum::LowerLayer,
        framing: if rng.random_bool(0.5) {
            Framing::Compact
        } else {
            Framing::Whole
        },
        receive_buffer: ByteCount::new(rng.random_range(65_536..1 << 20)),
        send_buffer: ByteCount::new(rng.random_range(65_536..1 << 20)),
        // Nothing may be given up for lost while every path rests, or loses a dozen packets in a
        // row.
        association_max_retransmissions: 1000,
        max_init_retransmissions: 1000,
        connect: if rng.random_bool(0.5) {
            ConnectStrategy::AtOnce
        } else {
            ConnectStrategy::InTurn
        },
        ..base
    }
}

fn draw_link(rng: &mut SmallRng) -> LinkModel {
    let mut sometimes = |chance: f64, most: f64| {
        if rng.random_bool(chance) {
            rng.random_range(0.0..most)
        } else {
            0.0
        }
    };
    let (loss, duplicated) = (sometimes(0.5, 0.15), sometimes(0.3, 0.1));
    let late = Duration::from_secs_f64(sometimes(0.5, 0.05));
    let line = Line {
        rate: Rate::from_bits_per_second(rng.random_range(200_000..50_000_000)),
        delay: Duration::from_micros(rng.random_range(100..150_000)),
        jitter: Duration::ZERO,
        loss: Loss {
            mean: loss,
            burst: rng.random_bool(0.3).then_some(4.0),
        },
        queue: Duration::from_millis(rng.random_range(10..500)),
        service: Service::Steady,
        largest_packet: None,
    };
    LinkModel {
        up: line.clone(),
        down: line,
        disorder: Disorder {
            late,
            duplicated,
            dark: false,
            mute: false,
            largest: rng.random_bool(0.2).then_some(1252),
        },
    }
}

/// What message `number` of `size` bytes says, so that a mixed-up one shows.
fn payload(number: u32, size: usize) -> Bytes {
    let mut bytes = BytesMut::with_capacity(size);
    bytes.extend_from_slice(&number.to_be_bytes());
    while bytes.len() < size {
        let mixed = (bytes.len() as u32).wrapping_mul(2_654_435_761) ^ number;
        bytes.extend_from_slice(&[(mixed >> 13) as u8]);
    }
    bytes.freeze()
}

/// Rounds of up to 300 ms each.
const MAX_ROUNDS: u32 = 20_000;
