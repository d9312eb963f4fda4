//! Two sessions and their channels, driven by a script.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_sched::chunk::ChunkPolicy;
use hawser_sched::rules::LinkRules;
use hawser_types::{ByteCount, ChannelId, Instant, LimitedBy, LinkIndex, Permission, StreamId};
use hawser_wire::{ChannelRole, MAX_RECORD_BODY, TransportChoice};

use super::contents::Contents;
use super::forged::{self, CommandPosition};
use super::wire::{End, Record, Wire};
use crate::{ChannelSpec, ChunkSize, Event, Outgoing, ReadOutcome, Session, SessionConfig, Side};
use hawser_wire::fuzzing::Script;

/// Bound of the memory of both sessions under any script, beside the script: the limits of the
/// configuration that [`fuzz_sessions`] uses, and the fixed ones of queues, for each end, with the
/// factor eight of payloads that keep their buffer.
pub const MAX_SESSIONS_MEMORY: u64 = 48 << 20;

/// Drives two sessions through a script: streams, datagrams, time, channels that come, die and fall
/// silent, associations that reorder and lose, and records that a hostile peer makes up or alters.
///
/// Panics when a session breaks a promise. Whatever came: no record is larger than allowed, every
/// queue can be drained and every timer moves on, and what the snapshot counts stays within its
/// limits. As long as nobody lied: no fault is found in the peer, every byte read is the one that
/// was written, and with a channel left everything that was finished arrives.
pub fn fuzz_sessions(script: &[u8]) {
    let mut script = Script::new(script);
    let mut world = World::new(&mut script);
    let mut steps = 0;
    while !script.is_over() && steps < MAX_STEPS {
        world.step(&mut script);
        world.settle();
        world.check_counts();
        steps += 1;
    }
    if world.is_honest {
        world.bring_everything_home();
    }
}

struct World {
    now: Instant,
    ends: [Session; 2],
    wires: Vec<Wire>,
    contents: Contents,
    commands: [CommandPosition; 2],
    /// No record was forged or altered so far.
    is_honest: bool,
    next_free: u32,
}

impl World {
    fn new(script: &mut Script<'_>) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let how = script.byte();
        let config = SessionConfig {
            scheduler: ChunkPolicy::ALL[script.below(ChunkPolicy::ALL.len())],
            chunk_size: match how & 3 {
                0 => ChunkSize::Mtu,
                1 => ChunkSize::Fixed(ByteCount::new(256)),
                2 => ChunkSize::Fixed(ByteCount::new(65_536)),
                _ => ChunkSize::Auto,
            },
            receive_memory: MEMORY,
            send_memory: MEMORY,
            max_streams: MAX_STREAMS,
            recorder: ByteCount::ZERO,
            plain: how & 4 != 0,
            ..SessionConfig::default()
        };
        let sides = [Side::Client, Side::Gateway];
        let mut world = Self {
            now,
            ends: sides.map(|side| Session::new(now, side, config.clone())),
            wires: Vec::new(),
            contents: Contents::default(),
            commands: Default::default(),
            is_honest: true,
            next_free: FIRST_FREE,
        };
        world.add_channel(ChannelId::new(0), ChannelRole::Express, 1, 10);
        world.settle();
        // A session whose first channel dies before the greeting is over never began.
        if how & 8 == 0 {
            (0..4).for_each(|_| world.deliver_all());
        }
        world
    }

    fn step(&mut self, script: &mut Script<'_>) {
        let op = script.byte();
        let end = End::BOTH[usize::from(op >> 7)];
        match op % 32 {
            0 | 1 => self.open(end, script),
            2..=4 => self.write(end, script),
            5 => self.finish(end, script),
            6..=8 => self.read(end, script),
            9 => self.end_early(end, script),
            10..=12 => self.pass_time(Duration::from_millis(u64::from(script.byte()))),
            13 => self.pass_time(Duration::from_millis(u64::from(script.byte()) * 50)),
            14..=17 => self.deliver(end, script),
            18 | 19 => self.deliver_all(),
            20 => self.join(script),
            21 => self.associate(script),
            22 => self.cut(script),
            23 => self.fall_silent(script),
            24 => self.lose(end, script),
            25 | 26 => self.send_datagram(end, script),
            27 => self.configure(end, script),
            28 => self.close(end, script),
            29 | 30 => self.forge(end, script),
            _ => self.alter(end, script),
        }
    }

    fn session(&mut self, end: End) -> &mut Session {
        &mut self.ends[end as usize]
    }

    // What applications do.

    fn open(&mut self, end: End, script: &mut Script<'_>) {
        let metadata = Bytes::copy_from_slice(script.bytes());
        let now = self.now;
        if let Ok(id) = self.session(end).open_stream(now, metadata) {
            self.contents.begin(id);
        }
    }

    fn stream(&self, script: &mut Script<'_>) -> Option<StreamId> {
        let count = self.contents.streams().count();
        self.contents.streams().nth(script.below(count))
    }

    fn write(&mut self, end: End, script: &mut Script<'_>) {
        let Some(id) = self.stream(script) else {
            return;
        };
        let length = usize::from(script.short());
        let mut bytes = self.contents.to_write(end, id, length);
        let now = self.now;
        let written = match script.byte() & 1 {
            0 => self.session(end).write(now, id, &mut bytes),
            _ => self.session(end).write_slice(now, id, &bytes),
        };
        if let Ok(written) = written {
            self.contents.on_written(end, id, written);
        }
    }

    fn finish(&mut self, end: End, script: &mut Script<'_>) {
        if let Some(id) = self.stream(script) {
            let now = self.now;
            if self.session(end).finish(now, id).is_ok() {
                self.contents.on_finished(end, id);
            }
        }
    }

    fn read(&mut self, end: End, script: &mut Script<'_>) {
        let Some(id) = self.stream(script) else {
            return;
        };
        let max = usize::from(script.short());
        self.read_once(end, id, max);
        while let Ok(Some(_)) = self.session(end).receive_datagram(id) {}
    }

    /// Reads a piece. True if there was one.
    fn read_once(&mut self, end: End, id: StreamId, max: usize) -> bool {
        let now = self.now;
        match self.session(end).read(now, id, max) {
            Ok(ReadOutcome::Data(at, bytes)) => {
                if self.is_honest {
                    self.contents.on_read(end.other(), id, at, &bytes);
                }
                true
            }
            Ok(ReadOutcome::End) => {
                if self.is_honest {
                    self.contents.on_end_read(end.other(), id);
                }
                false
            }
            Ok(ReadOutcome::Blocked) | Err(_) => false,
        }
    }

    /// Ends a stream, or a direction of it, before its end.
    fn end_early(&mut self, end: End, script: &mut Script<'_>) {
        let Some(id) = self.stream(script) else {
            return;
        };
        let (now, how) = (self.now, script.byte());
        let session = self.session(end);
        match how % 5 {
            0 => session.reset(now, id, 1),
            1 => session.stop_reading(now, id, 2),
            2 => session.reset_sending(now, id, 3),
            3 => session.abandon(now, id),
            _ => {
                if session.set_unordered(id).is_ok() {
                    self.contents.on_unordered(end.other(), id);
                }
                return;
            }
        }
        for writer in End::BOTH {
            self.contents.cut_short(writer, id);
        }
    }

    fn send_datagram(&mut self, end: End, script: &mut Script<'_>) {
        let Some(id) = self.stream(script) else {
            return;
        };
        let length = usize::from(script.short()) % (hawser_wire::MAX_DATAGRAM + 1);
        let payload = self.contents.to_write(end, id, length);
        let now = self.now;
        for _ in 0..=script.byte() % 64 {
            let _ = self.session(end).send_datagram(now, id, payload.clone());
        }
    }

    fn configure(&mut self, end: End, script: &mut Script<'_>) {
        let (now, what) = (self.now, script.byte());
        let session = self.session(end);
        match what % 4 {
            0 => {
                let policy = ChunkPolicy::ALL[script.below(ChunkPolicy::ALL.len())];
                session.set_scheduler(now, policy);
            }
            1 => {
                let choice = TransportChoice::ALL[script.below(TransportChoice::ALL.len())];
                session.set_transport(now, choice);
            }
            2 => {
                let part = MEMORY.as_u64() / 4 * script.below(5) as u64;
                session.set_memory(now, ByteCount::new(part), MEMORY);
            }
            _ => {
                let link = LinkIndex::new(script.below(4) as u32);
                let permission = PERMISSIONS[script.below(PERMISSIONS.len())];
                let rules = LinkRules {
                    up: permission,
                    down: permission,
                    ..LinkRules::default()
                };
                session.set_rules(now, &BTreeMap::from([(link, rules)]));
            }
        }
    }

    fn close(&mut self, end: End, script: &mut Script<'_>) {
        // Most scripts are to go on.
        let (now, how) = (self.now, script.byte());
        match how {
            0..16 => self.session(end).close(now, 7),
            16..32 => self.session(end).close_because(now, 8, "enough"),
            32..40 => self.session(end).abort(),
            _ => {}
        }
    }

    // What channels do.

    fn join(&mut self, script: &mut Script<'_>) {
        let (how, rtt) = (script.byte(), script.byte());
        let Some(id) = self.session(End::Client).take_grant() else {
            return;
        };
        let role = match how & 1 {
            0 => ChannelRole::Bulk,
            _ => ChannelRole::Express,
        };
        let now = self.now;
        if how & 2 != 0 && how & 4 != 0 {
            self.session(End::Client).give_up_grant(now, id);
        } else if self.session(End::Gateway).reserve_join(id).is_ok() {
            self.add_channel(id, role, u32::from(how >> 3 & 3), u64::from(rtt));
        }
    }

    fn add_channel(&mut self, id: ChannelId, role: ChannelRole, link: u32, rtt: u64) {
        let spec = ChannelSpec {
            id,
            role,
            link: LinkIndex::new(link),
            records: u64::from(id.value() > 0),
            segment_size: None,
        };
        self.add(spec, Duration::from_millis(rtt));
    }

    fn add(&mut self, spec: ChannelSpec, rtt: Duration) {
        let now = self.now;
        let wire = Wire::new(now, spec.id, spec.is_association(), rtt);
        for end in End::BOTH {
            let session = self.session(end);
            session.add_channel(now, spec);
            wire.sample(now, end, session);
            session.handle_writable(now, spec.id);
        }
        self.wires.push(wire);
    }

    /// An association comes about, if the gateway has heard of it, or is only announced.
    fn associate(&mut self, script: &mut Script<'_>) {
        let how = script.byte();
        let Some(id) = self.session(End::Client).take_grant() else {
            return;
        };
        let now = self.now;
        self.session(End::Client).begin_association(now, id);
        self.settle();
        if how & 1 == 0 {
            self.deliver_all();
        }
        if self.session(End::Gateway).check_join(id) == Err(crate::JoinRefused::Used(id)) {
            self.add(
                ChannelSpec::association(id),
                Duration::from_millis(u64::from(how)),
            );
        }
    }

    fn wire(&mut self, script: &mut Script<'_>) -> Option<&mut Wire> {
        let which = script.below(self.wires.len());
        self.wires.get_mut(which)
    }

    fn deliver(&mut self, from: End, script: &mut Script<'_>) {
        let which = script.below(self.wires.len());
        let (place, count) = (script.below(256), script.below(16) + 1);
        for _ in 0..count {
            if !self.deliver_one(from, which, place) {
                break;
            }
        }
    }

    fn deliver_all(&mut self) {
        for which in (0..self.wires.len()).rev() {
            for from in End::BOTH {
                while self.deliver_one(from, which, 0) {}
            }
        }
        self.settle();
    }

    fn deliver_one(&mut self, from: End, which: usize, place: usize) -> bool {
        let now = self.now;
        let Some(wire) = self.wires.get_mut(which) else {
            return false;
        };
        let id = wire.id;
        let Some(record) = wire.deliver(now, from, place) else {
            return false;
        };
        self.hand_over(from.other(), id, record.body);
        self.session(from).handle_writable(now, id);
        true
    }

    fn hand_over(&mut self, to: End, id: ChannelId, body: Bytes) {
        let now = self.now;
        let outcome = self.session(to).handle_record(now, id, body);
        if let Err(fault) = outcome {
            assert!(!self.is_honest, "an honest peer is blamed: {fault}");
            self.session(to).abort();
        }
    }

    /// Breaks a connection, as both ends notice.
    fn cut(&mut self, script: &mut Script<'_>) {
        if !self.wires.is_empty() {
            let which = script.below(self.wires.len());
            let id = self.wires.remove(which).id;
            let now = self.now;
            for end in End::BOTH {
                self.session(end).handle_channel_lost(now, id);
            }
        }
    }

    fn fall_silent(&mut self, script: &mut Script<'_>) {
        if let Some(wire) = self.wire(script) {
            wire.is_dead = !wire.is_dead || !wire.is_association;
        }
    }

    fn lose(&mut self, from: End, script: &mut Script<'_>) {
        let place = script.below(256);
        if let Some(wire) = self.wire(script).filter(|wire| wire.is_association) {
            wire.lose(from, place);
        }
    }

    /// A record comes that the other end never sent.
    fn forge(&mut self, to: End, script: &mut Script<'_>) {
        let which = script.below(self.wires.len());
        let Some(wire) = self.wires.get(which) else {
            return;
        };
        let id = wire.id;
        let position = &mut self.commands[to.other() as usize];
        let body = forged::record(script, wire.is_association, position);
        self.is_honest = false;
        if body.len() <= MAX_RECORD_BODY {
            self.hand_over(to, id, body);
        }
    }

    /// The next record comes altered, twice or not at all.
    fn alter(&mut self, from: End, script: &mut Script<'_>) {
        let (how, place, bit) = (script.byte(), script.short(), script.byte() % 8);
        let Some(wire) = self.wire(script) else {
            return;
        };
        let Some(record) = wire.next_record(from) else {
            return;
        };
        let copy = record.clone();
        match how % 3 {
            0 => {
                let mut body = BytesMut::from(&record.body[..]);
                let place = usize::from(place) % body.len().max(1);
                if let Some(byte) = body.get_mut(place) {
                    *byte ^= 1 << bit;
                }
                record.body = body.freeze();
            }
            1 => wire.send(from, copy),
            _ => {
                record.body.clear();
            }
        }
        self.is_honest = false;
    }

    // Time.

    fn pass_time(&mut self, time: Duration) {
        self.now += time;
        self.wake_up();
    }

    /// Gives both sessions what is due; their timers have to move on.
    fn wake_up(&mut self) {
        let now = self.now;
        for end in End::BOTH {
            for count in 0.. {
                let session = &mut self.ends[end as usize];
                if session.poll_timeout().is_none_or(|at| at > now) {
                    break;
                }
                assert!(count < MAX_ROUNDS, "a timer does not move on");
                for wire in &self.wires {
                    wire.sample(now, end, session);
                }
                session.handle_timeout(now);
                self.settle();
            }
        }
    }

    /// Drains both sessions.
    fn settle(&mut self) {
        for count in 0.. {
            let mut moved = false;
            for end in End::BOTH {
                moved |= self.drain(end);
            }
            if !moved {
                return;
            }
            assert!(count < MAX_ROUNDS, "the sessions never come to rest");
        }
    }

    fn drain(&mut self, end: End) -> bool {
        let mut moved = false;
        for count in 0.. {
            let Some(id) = self.session(end).poll_wake() else {
                break;
            };
            assert!(count < MAX_AT_ONCE, "channels are woken for ever");
            moved |= self.transmit(end, id);
        }
        for count in 0.. {
            let Some(event) = self.session(end).poll_event() else {
                break;
            };
            assert!(count < MAX_AT_ONCE * 16, "events never end");
            moved = true;
            self.on_event(end, event);
        }
        moved
    }

    fn transmit(&mut self, end: End, id: ChannelId) -> bool {
        let now = self.now;
        let mut out = Outgoing::default();
        for count in 0.. {
            if !self.ends[end as usize].poll_transmit(now, id, &mut out) {
                return count > 0;
            }
            assert!(count < MAX_AT_ONCE, "a channel sends without end");
            let mut body = out.head.clone();
            out.payload.iter().for_each(|it| body.extend_from_slice(it));
            assert!(body.len() <= MAX_RECORD_BODY, "a record of {}", body.len());
            let body = body.freeze();
            let may_get_lost = out.lifetime.is_some();
            let Some(wire) = self.wires.iter_mut().find(|wire| wire.id == id) else {
                continue;
            };
            if !wire.is_association {
                self.commands[end as usize].on_record(&body);
            }
            wire.send(end, Record { body, may_get_lost });
            if wire.takes_more(end) {
                self.ends[end as usize].handle_writable(now, id);
            }
        }
        false
    }

    fn on_event(&mut self, end: End, event: Event) {
        let now = self.now;
        match event {
            Event::StreamOpened(id) => {
                self.contents.begin(id);
                let reply = Bytes::from_static(b"reply");
                let _ = self.session(end).accept_stream(now, id, reply);
            }
            Event::Dead(id) => {
                // This end closes the connection, which the other notices unless the path is dead.
                let place = self.wires.iter().position(|wire| wire.id == id);
                if let Some(place) = place {
                    let is_dead = self.wires[place].is_dead;
                    self.wires[place].clear();
                    self.wires[place].is_dead = true;
                    if !is_dead {
                        self.wires.remove(place);
                        self.session(end.other()).handle_channel_lost(now, id);
                    }
                }
            }
            // Both directions are over, whoever ended them.
            Event::Reset(id, _) | Event::Over(id) => {
                for writer in End::BOTH {
                    self.contents.cut_short(writer, id);
                }
            }
            _ => {}
        }
    }

    // Promises.

    fn check_counts(&self) {
        for session in &self.ends {
            let snapshot = session.snapshot(self.now, 0);
            let lent = snapshot.credit_lent;
            assert!(lent <= MEMORY, "{lent} are lent");
            let kept = snapshot.unacknowledged;
            let most = MEMORY + SLACK;
            assert!(kept <= most, "{kept} wait for acknowledgements");
        }
    }

    /// With a fresh channel everything that was finished arrives.
    fn bring_everything_home(&mut self) {
        if self.ends.iter().any(Session::is_closed) {
            return;
        }
        let now = self.now;
        for wire in std::mem::take(&mut self.wires) {
            for end in End::BOTH {
                self.session(end).handle_channel_lost(now, wire.id);
            }
        }
        for end in End::BOTH {
            self.session(end).set_memory(now, MEMORY, MEMORY);
        }
        let id = ChannelId::new(self.next_free);
        self.next_free += 1;
        // A link that no rule of the script names.
        self.add_channel(id, ChannelRole::Bulk, 9, 10);
        for _ in 0..MAX_ROUNDS {
            self.pass_time(Duration::from_millis(25));
            self.deliver_all();
            let streams: Vec<_> = self.contents.streams().collect();
            for id in streams {
                for end in End::BOTH {
                    while self.read_once(end, id, usize::from(u16::MAX)) {}
                }
            }
            self.settle();
            let over = self.ends.iter().any(Session::is_closed);
            if over || self.contents.missing().is_none() {
                return;
            }
        }
        let (writer, id) = self
            .contents
            .missing()
            .unwrap_or((End::Client, StreamId::COMMANDS));
        panic!("{id} from {writer:?} never arrives");
    }
}

const PERMISSIONS: [Permission; 4] = [
    Permission::Preferred,
    Permission::Allowed,
    Permission::Reserve(LimitedBy::Choice),
    Permission::Forbidden(LimitedBy::Choice),
];
/// Memory of each end, to lend and to keep. Small, so that scripts reach the bound.
const MEMORY: ByteCount = ByteCount::from_kib(256);
/// The last chunks may go beyond the bound.
const SLACK: ByteCount = ByteCount::from_kib(192);
const MAX_STREAMS: u64 = 8;
const MAX_STEPS: u32 = 2000;
/// Limit of records and wake-ups in a row, above what the memory can cause.
const MAX_AT_ONCE: u32 = 10_000;
const MAX_ROUNDS: u32 = 1000;
/// Numbers that no grant reaches.
const FIRST_FREE: u32 = 1 << 30;
