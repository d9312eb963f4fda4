//! Two sessions and their channels, driven by a script.

mod applications;
mod channels;

use std::time::Duration;

use bytes::Bytes;
use hawser_sched::chunk::ChunkPolicy;
use hawser_types::{ByteCount, ChannelId, Instant, StreamId};
use hawser_wire::{ChannelRole, MAX_RECORD_BODY};

use super::contents::Contents;
use super::forged::CommandPosition;
use super::wire::{End, Record, Wire};
use crate::{ChunkSize, Event, Outgoing, Session, SessionConfig, Side};
use hawser_wire::script::Script;

/// Bound of the memory of both sessions under any script, beside the script: the limits of the
/// configuration that [`fuzz_sessions`] uses, and the fixed ones of queues, for each end, with the
/// factor eight of payloads that keep their buffer.
pub const MAX_SESSIONS_MEMORY: u64 = 48 << 20;

/// Drives two sessions through a script: streams, datagrams, time, channels that come, die and fall
/// silent, associations that reorder and lose, and records that a hostile peer makes up or alters.
///
/// Panics when a session breaks a promise. Whatever came: no record is larger than allowed, every
/// queue can be drained and every timer moves on, and what the snapshot counts stays within its
/// limits. As long as no peer lied: no fault is found in the peer, every byte read is the one that
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
            // Both directions are over, whichever end closed them.
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
        let mut grant = self.session(End::Client).take_grant();
        if grant.is_none() {
            // The gateway grants more as soon as it hears that those were used.
            (0..4).for_each(|_| self.deliver_all());
            grant = self.session(End::Client).take_grant();
        }
        let Some(id) = grant else {
            return;
        };
        let now = self.now;
        for wire in std::mem::take(&mut self.wires) {
            for end in End::BOTH {
                self.session(end).handle_channel_lost(now, wire.id);
            }
        }
        for end in End::BOTH {
            self.session(end).set_memory(now, MEMORY, MEMORY);
        }
        let joined = self.session(End::Gateway).reserve_join(id);
        assert_eq!(joined, Ok(()), "a number that was granted is refused");
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

/// Memory of each end, to lend and to keep. Small, so that scripts reach the bound.
const MEMORY: ByteCount = ByteCount::from_kib(256);
/// The last chunks may go beyond the bound.
const SLACK: ByteCount = ByteCount::from_kib(192);
const MAX_STREAMS: u64 = 8;
const MAX_STEPS: u32 = 2000;
/// Limit of records and wake-ups in a row, above what the memory can cause.
const MAX_AT_ONCE: u32 = 10_000;
const MAX_ROUNDS: u32 = 1000;

#[cfg(test)]
mod tests;
