//! Two sessions under virtual time, with channels that have a rate and a delay and can be cut.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_path::KernelSample;
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, Rate, StreamId};
use hawser_wire::ChannelRole;

use super::pipe::{Pipe, Weather};
use crate::{ChannelSpec, Event, Outgoing, ReadOutcome, Session, SessionConfig, Side};

pub(super) const CLIENT: usize = 0;
pub(super) const GATEWAY: usize = 1;

pub(super) struct Pair {
    pub(super) now: Instant,
    pub(super) sides: [Session; 2],
    pub(super) events: [Vec<Event>; 2],
    wires: BTreeMap<(ChannelId, usize), Wire>,
    pub(super) pipes: BTreeMap<(ChannelId, usize), Pipe>,
}

/// One direction of a connection: a serialiser, a delay, and a reliable pipe.
struct Wire {
    rate: Rate,
    delay: Duration,
    free_at: Instant,
    in_flight: VecDeque<(Instant, Bytes)>,
    /// When bytes will be acknowledged, and how many.
    acks: VecDeque<(Instant, u64)>,
    last_ack: Instant,
    holed: bool,
    /// TCP goes on, and what it carries is lost: the other end hangs, or a middlebox does.
    swallows: bool,
    told_ready: bool,
}

pub(super) struct Link {
    pub(super) number: u32,
    pub(super) mbit: u64,
    pub(super) delay: u64,
}

pub(super) const fn link(number: u32, mbit: u64, delay: u64) -> Link {
    Link {
        number,
        mbit,
        delay,
    }
}

impl Pair {
    pub(super) fn new(config: SessionConfig) -> Self {
        Self::with_configs([config.clone(), config])
    }

    /// A pair of a client and a gateway with these configurations.
    pub(super) fn with_configs([client, gateway]: [SessionConfig; 2]) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let sides = [(Side::Client, client), (Side::Gateway, gateway)]
            .map(|(side, config)| Session::new(now, side, config));
        Self {
            now,
            sides,
            events: Default::default(),
            wires: BTreeMap::new(),
            pipes: BTreeMap::new(),
        }
    }

    /// A pair with one bulk channel on each link, numbered like it.
    pub(super) fn over(links: &[Link]) -> Self {
        let mut pair = Self::new(SessionConfig::default());
        for (n, link) in links.iter().enumerate() {
            let role = if n == 0 {
                ChannelRole::Express
            } else {
                ChannelRole::Bulk
            };
            pair.add_channel(n as u32, role, link);
        }
        pair
    }

    pub(super) fn add_channel(&mut self, id: u32, role: ChannelRole, link: &Link) {
        let id = ChannelId::new(id);
        let spec = ChannelSpec {
            begun_by: Side::Client,
            id,
            role,
            link: LinkIndex::new(link.number),
            records: u64::from(id.value() > 0),
            segment_size: None,
        };
        for side in [CLIENT, GATEWAY] {
            self.wires.insert(
                (id, side),
                Wire {
                    rate: Rate::from_bits_per_second(link.mbit * 1_000_000),
                    delay: Duration::from_millis(link.delay),
                    free_at: self.now,
                    in_flight: VecDeque::new(),
                    acks: VecDeque::new(),
                    last_ack: self.now,
                    holed: false,
                    swallows: false,
                    told_ready: false,
                },
            );
            self.sides[side].add_channel(self.now, spec);
        }
        self.pump();
    }

    /// Adds an association, which is established at once. Its messages fare as the seed has it.
    pub(super) fn add_association(&mut self, id: u32, weather: Weather, seed: u64) {
        let id = ChannelId::new(id);
        for side in [CLIENT, GATEWAY] {
            let pipe = Pipe::new(self.now, weather, seed * 2 + side as u64 + 1);
            self.pipes.insert((id, side), pipe);
            self.sides[side].add_channel(self.now, ChannelSpec::association(id));
        }
        self.sample(CLIENT);
        self.sample(GATEWAY);
        self.pump();
    }

    /// From now on nothing crosses the association, or again everything does.
    pub(super) fn set_dead(&mut self, id: u32, is_dead: bool) {
        for side in [CLIENT, GATEWAY] {
            if let Some(pipe) = self.pipes.get_mut(&(ChannelId::new(id), side)) {
                pipe.is_dead = is_dead;
            }
        }
        self.pump();
    }

    /// From now on nothing crosses the channel, silently.
    pub(super) fn hole(&mut self, id: u32) {
        if self.pipes.contains_key(&(ChannelId::new(id), CLIENT)) {
            return self.set_dead(id, true);
        }
        for side in [CLIENT, GATEWAY] {
            let wire = self.wires.get_mut(&(ChannelId::new(id), side)).unwrap();
            wire.holed = true;
            for (at, _) in &mut wire.acks {
                *at = NEVER;
            }
        }
    }

    /// From now on what is sent is acknowledged by TCP and goes nowhere.
    pub(super) fn swallow(&mut self, id: u32) {
        for side in [CLIENT, GATEWAY] {
            let wire = self.wires.get_mut(&(ChannelId::new(id), side)).unwrap();
            wire.swallows = true;
        }
    }

    /// The connection breaks, as both ends notice.
    pub(super) fn cut(&mut self, id: u32) {
        let id = ChannelId::new(id);
        for side in [CLIENT, GATEWAY] {
            self.wires.remove(&(id, side));
            self.pipes.remove(&(id, side));
            self.sides[side].handle_channel_lost(self.now, id);
        }
        self.pump();
    }

    /// Lets everything happen that happens until `until`.
    pub(super) fn run_until(&mut self, until: Instant) {
        self.pump();
        while let Some(next) = self.next_moment().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            self.deliver();
            self.deliver_messages();
            for side in [CLIENT, GATEWAY] {
                if self.sides[side]
                    .poll_timeout()
                    .is_some_and(|at| at <= self.now)
                {
                    self.sample(side);
                    self.sides[side].handle_timeout(self.now);
                }
            }
            self.pump();
        }
        self.now = self.now.max(until);
    }

    pub(super) fn run_for(&mut self, millis: u64) {
        self.run_until(self.now + Duration::from_millis(millis));
    }

    /// Writes all of `data` to a stream as fast as its buffer allows, then ends it; reads
    /// everything on the other side. Returns what was read and how long it took.
    pub(super) fn transfer(&mut self, from: usize, data: &[u8]) -> (Vec<u8>, Duration) {
        let began = self.now;
        let id = self.sides[from]
            .open_stream(self.now, Bytes::from_static(b"test"))
            .unwrap();
        let mut rest = Bytes::copy_from_slice(data);
        let (mut got, mut finished) = (Vec::new(), false);
        for _ in 0..200_000 {
            if !finished {
                self.sides[from].write(self.now, id, &mut rest).unwrap();
                finished = rest.is_empty();
                if finished {
                    self.sides[from].finish(self.now, id).unwrap();
                }
            }
            self.run_for(1);
            if self.read_into(1 - from, id, &mut got) {
                return (got, self.now.since(began));
            }
        }
        panic!(
            "the transfer came to a stand after {} of {} bytes",
            got.len(),
            data.len()
        );
    }

    /// Reads what there is; whether the end was reached.
    pub(super) fn read_into(&mut self, side: usize, id: StreamId, out: &mut Vec<u8>) -> bool {
        loop {
            match self.sides[side].read(self.now, id, usize::MAX) {
                Ok(ReadOutcome::Data(_, bytes)) => out.extend_from_slice(&bytes),
                Ok(ReadOutcome::End) => return true,
                Ok(ReadOutcome::Blocked) => break,
                // The opening chunk has not come yet.
                Err(crate::StreamError::Unknown(_)) if out.is_empty() => break,
                Err(error) => panic!("{error}"),
            }
        }
        self.pump();
        false
    }

    /// Reads for a while, as data comes; whether the end was reached.
    pub(super) fn read_for(
        &mut self,
        millis: u64,
        side: usize,
        id: StreamId,
        out: &mut Vec<u8>,
    ) -> bool {
        (0..millis).any(|_| {
            self.run_for(1);
            self.read_into(side, id, out)
        })
    }

    fn next_moment(&self) -> Option<Instant> {
        let wires = self
            .wires
            .values()
            .filter(|wire| !wire.holed)
            .flat_map(|wire| {
                let ready = (!wire.told_ready).then(|| wire.ready_at());
                let arrival = wire.in_flight.front().map(|(at, _)| *at);
                [ready, arrival].into_iter().flatten()
            });
        let pipes = self.pipes.values().filter(|pipe| !pipe.is_dead);
        let pipes = pipes.flat_map(|pipe| {
            let ready = (!pipe.told_ready).then(|| pipe.ready_at());
            let arrival = pipe.in_flight.keys().next().map(|(at, _)| *at);
            [ready, arrival].into_iter().flatten()
        });
        let timers = self.sides.iter().filter_map(Session::poll_timeout);
        wires.chain(pipes).chain(timers).min()
    }

    fn deliver(&mut self) {
        let ids: Vec<_> = self.wires.keys().copied().collect();
        for (id, side) in ids {
            while let Some(wire) = self.wires.get_mut(&(id, side)).filter(|wire| !wire.holed) {
                if wire.in_flight.front().is_none_or(|(at, _)| *at > self.now) {
                    break;
                }
                let (_, body) = wire.in_flight.pop_front().unwrap();
                if wire.swallows {
                    continue;
                }
                self.sides[1 - side]
                    .handle_record(self.now, id, body)
                    .unwrap();
            }
        }
    }

    fn deliver_messages(&mut self) {
        let ids: Vec<_> = self.pipes.keys().copied().collect();
        for (id, side) in ids {
            while let Some(pipe) = self.pipes.get_mut(&(id, side)) {
                let Some(message) = pipe.receive(self.now) else {
                    break;
                };
                let other = &mut self.sides[1 - side];
                other.handle_record(self.now, id, message).unwrap();
            }
        }
    }

    fn sample(&mut self, side: usize) {
        let ids = self.pipes.keys().filter(|(_, of)| *of == side);
        for (id, _) in ids.copied().collect::<Vec<_>>() {
            let received = self.pipes.get(&(id, 1 - side)).map(|other| other.received);
            let pipe = self.pipes.get_mut(&(id, side)).unwrap();
            let (paths, totals) = pipe.sample(self.now, received.unwrap_or_default());
            let sample = totals.with(&paths);
            self.sides[side].handle_association_sample(self.now, id, &sample);
        }
        for ((id, _), wire) in self.wires.iter_mut().filter(|((_, of), _)| *of == side) {
            while let Some((at, _)) = wire.acks.front().filter(|(at, _)| *at <= self.now) {
                wire.last_ack = *at;
                wire.acks.pop_front();
            }
            let rtt = wire.delay * 2;
            let sample = KernelSample {
                rtt,
                min_rtt: Some(rtt),
                delivery_rate: wire.rate,
                congestion_window: ByteCount::new(1 << 20),
                unacknowledged: ByteCount::new(wire.acks.iter().map(|(_, bytes)| bytes).sum()),
                since_ack: self.now.since(wire.last_ack),
                ..KernelSample::default()
            };
            self.sides[side].handle_sample(self.now, *id, sample);
            self.sides[side].choose_control(self.now, *id);
        }
    }

    /// Carries records from sessions to wires until nothing moves.
    pub(super) fn pump(&mut self) {
        for side in [CLIENT, GATEWAY] {
            loop {
                let mut moved = false;
                while let Some(id) = self.sides[side].poll_wake() {
                    moved |= self.transmit(side, id);
                }
                let ready: Vec<_> = self
                    .wires
                    .iter_mut()
                    .filter(|((_, of), w)| *of == side && !w.told_ready && !w.holed)
                    .filter(|(_, wire)| wire.ready_at() <= self.now)
                    .map(|((id, _), wire)| {
                        wire.told_ready = true;
                        *id
                    })
                    .collect();
                let pipes = self.pipes.iter_mut().filter(|((_, of), pipe)| {
                    *of == side && !pipe.told_ready && pipe.ready_at() <= self.now
                });
                let pipes = pipes.map(|((id, _), pipe)| {
                    pipe.told_ready = true;
                    *id
                });
                for id in ready.into_iter().chain(pipes).collect::<Vec<_>>() {
                    self.sides[side].handle_writable(self.now, id);
                    moved |= self.transmit(side, id);
                }
                if !moved {
                    break;
                }
            }
            while let Some(event) = self.sides[side].poll_event() {
                if let Event::Dead(id) = event {
                    self.wires.remove(&(id, side));
                    self.pipes.remove(&(id, side));
                }
                self.events[side].push(event);
            }
        }
    }

    fn transmit(&mut self, side: usize, id: ChannelId) -> bool {
        let mut out = Outgoing::default();
        let mut any = false;
        while self.sides[side].poll_transmit(self.now, id, &mut out) {
            any = true;
            let mut body = BytesMut::from(&out.head[..]);
            out.payload
                .iter()
                .for_each(|piece| body.extend_from_slice(piece));
            if let Some(pipe) = self.pipes.get_mut(&(id, side)) {
                pipe.send(self.now, body.freeze(), out.lifetime);
                pipe.twice += u32::from(out.duplicate);
                continue;
            }
            assert!(!out.duplicate, "TCP repeats by itself");
            let Some(wire) = self.wires.get_mut(&(id, side)) else {
                continue;
            };
            let size = body.len() as u64 + 20;
            let time = wire.rate.time_for(ByteCount::new(size)).unwrap();
            wire.free_at = wire.free_at.max(self.now) + time;
            wire.acks.push_back((wire.free_at + wire.delay * 2, size));
            if wire.holed {
                wire.acks.back_mut().unwrap().0 = NEVER;
            }
            wire.in_flight
                .push_back((wire.free_at + wire.delay, body.freeze()));
            wire.told_ready = false;
        }
        any
    }
}

impl Wire {
    /// When less than 2 ms of what it was given is left to send.
    fn ready_at(&self) -> Instant {
        self.free_at - Duration::from_millis(2)
    }
}

const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// Bytes that differ everywhere.
pub(super) fn pattern(length: usize) -> Vec<u8> {
    (0..length as u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}
