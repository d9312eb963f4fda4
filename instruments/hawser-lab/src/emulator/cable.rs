//! The emulator's thread: takes frames in, asks the lines for their fate, sends those due.

use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hawser_scenario::{Fate, LineState, TcpOption};
use hawser_types::{ByteCount, Instant};

use super::faults::Filter;
use super::packet::ETHERNET_HEADER;
use super::rewrite::Translation;
use super::ring::PacketSocket;
use super::span::Span;
use super::strip;
use super::switches::Switches;
use crate::scenario::Direction;

/// Everything that the thread owns.
pub(super) struct Cable {
    sockets: Vec<PacketSocket>,
    directions: Vec<OneWay>,
    /// Of each link.
    filters: Vec<Filter>,
    spare: Vec<Vec<u8>>,
    switches: Arc<Switches>,
    /// Time that the busy thread sleeps between rounds.
    gather: Duration,
}

/// One direction: from socket `from` to socket `to`, both indices.
struct OneWay {
    from: usize,
    to: usize,
    link: usize,
    direction: Direction,
    line: LineState,
    translation: Option<Translation>,
    /// Options that are removed from TCP's headers.
    strip: Vec<TcpOption>,
    last_arrival: Instant,
    /// Frames on the way, in order of delivery.
    flying: VecDeque<(Instant, Vec<u8>)>,
}

impl Cable {
    pub(super) fn new(spans: Vec<Span>, seed: u64, switches: Arc<Switches>) -> Self {
        let now = monotonic();
        let lines = spans.iter().flat_map(|s| [&s.link.up, &s.link.down]);
        let shortest = lines.map(|line| line.delay).min().unwrap_or_default();
        let (mut sockets, mut directions) = (Vec::new(), Vec::new());
        let filters = spans.iter().map(|_| Filter::default()).collect();
        for (link, span) in spans.into_iter().enumerate() {
            let client = sockets.len();
            sockets.extend([span.client, span.server]);
            let lines = [
                (Direction::Put, span.link.up),
                (Direction::Get, span.link.down),
            ];
            for (direction, line) in lines {
                let outwards = direction == Direction::Put;
                let seed = seed.wrapping_mul(1_000_003) ^ directions.len() as u64;
                directions.push(OneWay {
                    from: client + usize::from(!outwards),
                    to: client + usize::from(outwards),
                    link,
                    direction,
                    line: LineState::new(line, seed, now),
                    translation: span.translation,
                    strip: span.link.strip.clone(),
                    last_arrival: now,
                    flying: VecDeque::new(),
                });
            }
        }
        Self {
            sockets,
            directions,
            filters,
            spare: Vec::new(),
            switches,
            gather: (shortest / GATHER_SHARE).clamp(MIN_GATHER, MAX_GATHER),
        }
    }

    pub(super) fn run(mut self) {
        be_prompt();
        let mut polls: Vec<libc::pollfd> = self
            .sockets
            .iter()
            .map(|socket| libc::pollfd {
                fd: socket.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            })
            .collect();
        let mut rounds = 0_u64;
        while !self.switches.stop.load(Ordering::Relaxed) {
            self.change_links();
            let received = self.take_in();
            self.send_due();
            rounds += 1;
            if rounds.is_multiple_of(DROP_CHECK_ROUNDS) {
                self.count_drops();
            }
            let next = self
                .directions
                .iter()
                .filter_map(|w| w.flying.front().map(|f| f.0))
                .min();
            if received > 0 {
                // Traffic is on: arrivals carry their own time, so a short sleep costs nothing
                // and gathers frames.
                std::thread::sleep(self.gather);
            } else {
                self.wait(&mut polls, next);
            }
        }
        self.count_drops();
    }

    /// Makes links what they are to be from now on.
    fn change_links(&mut self) {
        for (index, link) in self.switches.changes.lock().drain(..) {
            for way in self.directions.iter_mut().filter(|way| way.link == index) {
                let line = link.line(way.direction).clone();
                way.line.change(monotonic(), line);
            }
        }
    }

    fn take_in(&mut self) -> usize {
        let mut total = 0;
        let now = monotonic();
        let wall_offset =
            clock(libc::CLOCK_REALTIME).saturating_sub(Duration::from_nanos(now.as_nanos()));
        let Self {
            sockets,
            directions,
            filters,
            spare,
            switches,
            gather: _,
        } = self;
        let mut watch = switches.watch.lock();
        let faults = switches.faults.lock();
        for way in directions {
            let hole = &switches.black_holes[way.link];
            let [up, down] = &switches.carried[way.link];
            let carried = match way.direction {
                Direction::Put => up,
                Direction::Get => down,
            };
            let mut immediate: Vec<Vec<u8>> = Vec::new();
            let (count, cut) = sockets[way.from].drain(|frame, wall| {
                let since_boot = wall.saturating_sub(wall_offset);
                let stamped =
                    Instant::from_nanos(u64::try_from(since_boot.as_nanos()).unwrap_or(0));
                let arrival = stamped.clamp(way.last_arrival, now.max(way.last_arrival));
                way.last_arrival = arrival;
                if !is_ip(frame) {
                    immediate.push(frame.to_vec());
                    return;
                }
                let size = ByteCount::from(frame.len().saturating_sub(ETHERNET_HEADER));
                let filter = &mut filters[way.link];
                if !filter.pass(&faults[way.link], arrival, way.direction, frame) {
                    add(&switches.lost, 1);
                    return;
                }
                let counter = match way.line.handle_packet(arrival, size) {
                    Fate::Delivered(at) => {
                        add(carried, size.as_u64());
                        if let Some(watch) = watch.as_mut() {
                            watch.note(way.link, way.direction, at, frame, size);
                        }
                        way.rewrite(frame);
                        let mut copy = spare.pop().unwrap_or_default();
                        copy.clear();
                        copy.extend_from_slice(frame);
                        way.flying.push_back((at, copy));
                        return;
                    }
                    Fate::Overflowed => &switches.overflowed,
                    Fate::Lost | Fate::TooLarge => &switches.lost,
                };
                add(counter, 1);
            });
            add(&switches.missed, cut);
            total += count;
            // Address resolution belongs to the local wire, not to the link.
            if !hole.load(Ordering::Relaxed) {
                sockets[way.to].send(immediate.iter().map(Vec::as_slice));
            }
        }
        total
    }

    fn send_due(&mut self) {
        let now = monotonic();
        // As much too early as too late, so that the mean delay is right.
        let horizon = now + self.gather / 2;
        for way in &mut self.directions {
            loop {
                let due = way
                    .flying
                    .iter()
                    .take(BATCH)
                    .take_while(|(at, _)| *at <= horizon)
                    .count();
                if due == 0 {
                    break;
                }
                let late = way
                    .flying
                    .front()
                    .map_or(Duration::ZERO, |f| now.since(f.0));
                let late = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
                self.switches
                    .latest_nanos
                    .fetch_max(late, Ordering::Relaxed);
                if self.switches.black_holes[way.link].load(Ordering::Relaxed) {
                    add(&self.switches.lost, due as u64);
                } else {
                    let frames = way
                        .flying
                        .iter()
                        .take(due)
                        .map(|(_, frame)| frame.as_slice());
                    let refused = self.sockets[way.to].send(frames);
                    add(&self.switches.lost, refused as u64);
                    add(&self.switches.delivered, (due - refused) as u64);
                }
                self.spare
                    .extend(way.flying.drain(..due).map(|(_, frame)| frame));
            }
        }
        self.spare.truncate(MAX_SPARE);
    }

    fn wait(&self, polls: &mut [libc::pollfd], next: Option<Instant>) {
        let now = monotonic() + self.gather / 2;
        let longest = next.map_or(IDLE, |at| at.since(now).clamp(SHORTEST, IDLE));
        let timeout = libc::timespec {
            tv_sec: longest.as_secs() as libc::time_t,
            tv_nsec: longest.subsec_nanos().into(),
        };
        // SAFETY: the array and the timeout outlive the call.
        let ready = unsafe {
            libc::ppoll(
                polls.as_mut_ptr(),
                polls.len() as libc::nfds_t,
                &raw const timeout,
                std::ptr::null(),
            )
        };
        if ready > 0 {
            for (poll, socket) in polls.iter().zip(&self.sockets) {
                if poll.revents & libc::POLLERR != 0 {
                    socket.clear_error();
                }
            }
        }
    }

    fn count_drops(&self) {
        let drops = self.sockets.iter().map(PacketSocket::take_drops).sum();
        add(&self.switches.missed, drops);
    }
}

impl OneWay {
    fn rewrite(&self, frame: &mut [u8]) {
        strip::strip(frame, &self.strip);
        if let Some(translation) = self.translation {
            match self.direction {
                Direction::Put => translation.outwards(frame),
                Direction::Get => translation.inwards(frame),
            }
        }
    }
}

/// Lets this thread run before the programs under test: their links do not wait for them.
fn be_prompt() {
    // SAFETY: plain system calls on the calling thread; refusal is harmless and expected when
    // the lab runs without privilege.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1_000_u64, 0, 0, 0);
        let parameter = libc::sched_param { sched_priority: 1 };
        if libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) != 0 {
            libc::setpriority(libc::PRIO_PROCESS, 0, -10);
        }
    }
}

fn is_ip(frame: &[u8]) -> bool {
    matches!(frame.get(12..14), Some([0x08, 0x00] | [0x86, 0xdd]))
}

fn add(counter: &AtomicU64, count: u64) {
    if count > 0 {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

pub(super) fn monotonic() -> Instant {
    Instant::from_nanos(u64::try_from(clock(libc::CLOCK_MONOTONIC).as_nanos()).unwrap_or(0))
}

fn clock(id: libc::clockid_t) -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: both clocks always exist and the result is written into a local.
    unsafe {
        libc::clock_gettime(id, &raw mut time);
    }
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// A busy thread sleeps this part of the shortest delay between rounds, within the bounds: each
/// round costs the machine as much as dozens of frames.
const GATHER_SHARE: u32 = 50;
const MIN_GATHER: Duration = Duration::from_micros(50);
const MAX_GATHER: Duration = Duration::from_micros(200);
const SHORTEST: Duration = Duration::from_micros(20);
/// The longest sleep, after which the stop flag is looked at.
const IDLE: Duration = Duration::from_millis(50);
/// Frames in one system call.
const BATCH: usize = 64;
/// Frame buffers kept for reuse.
const MAX_SPARE: usize = 4096;
const DROP_CHECK_ROUNDS: u64 = 1024;
