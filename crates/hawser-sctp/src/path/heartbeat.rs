use std::time::Duration;

use bytes::Bytes;
use hawser_types::{Instant, LinkIndex, PathId};
use rand::Rng;

use super::{Path, PathState, Paths};
use crate::Selection;

/// Heartbeat state of a path: when the next one is due, and the outstanding one.
///
/// Source: RFC 9260 §8.3.
#[derive(Debug)]
pub(super) struct Heartbeat {
    /// Time of the next one, unless the path is in use.
    due: Instant,
    /// A heartbeat is requested even if the path is in use.
    wanted: bool,
    outstanding: Option<Outstanding>,
    /// Consecutive heartbeats not answered in time.
    unanswered: u32,
}

/// An outstanding heartbeat.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    nonce: u64,
    at: Instant,
    /// Time from which it counts as unanswered; a late answer is still accepted.
    until: Instant,
    counted: bool,
}

/// A HEARTBEAT to be sent now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeartbeatToSend {
    pub(crate) path: PathId,
    /// Heartbeat information, which the peer returns.
    pub(crate) info: Bytes,
    /// Length of the value of a PAD chunk in the same packet; 0 for no PAD chunk.
    pub(crate) pad: u16,
}

impl Heartbeat {
    /// Creates the state of a new path, which gets a heartbeat at once.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            due: now,
            wanted: false,
            outstanding: None,
            unanswered: 0,
        }
    }

    /// Returns the outstanding heartbeat that has not timed out.
    fn open(&self) -> Option<Outstanding> {
        self.outstanding.filter(|outstanding| !outstanding.counted)
    }
}

impl Paths {
    pub(super) fn heartbeat_due(&mut self, now: Instant) -> Option<HeartbeatToSend> {
        let interval = self.config.heartbeat_interval;
        let named = self.config.announces_links;
        let plain = self.config.framing.packet_header() + PLAIN + if named { LINK } else { 0 };
        let due = self
            .paths
            .iter_mut()
            .find(|path| path.heartbeat.open().is_none() && path.next_heartbeat(interval) <= now);
        if let Some(path) = due {
            let nonce = self.rng.random();
            // A jitter of half a time-out, so that the heartbeats of paths do not stay in step.
            let spread = self.rng.random_range(0.5..1.5);
            path.on_heartbeat_sent(now, nonce, interval, spread);
            // The paper compares the time that a full packet takes: its RTT = p/b + ε (§3.4).
            let pad = match self.config.selection {
                Selection::Paper { .. } => path.packet_size.saturating_sub(plain),
                Selection::Answering => 0,
            };
            return Some(to_send(path, nonce, named, pad));
        }
        let mut answering = self.paths.iter_mut().filter(|path| path.has_answered_all());
        let (path, size) = answering.find_map(|path| {
            let size = path.size.due(now)?;
            Some((path, size))
        })?;
        let nonce = self.rng.random();
        path.size.on_sent(now, nonce, size, path.rtt.rto());
        Some(to_send(path, nonce, named, size - plain))
    }

    /// Returns the path whose heartbeat `info` answers.
    pub(super) fn answered_by(&mut self, now: Instant, info: &[u8]) -> Option<PathId> {
        let (info, rest) = info.split_first_chunk::<INFO>()?;
        let named = if self.config.announces_links { LINK } else { 0 };
        if rest.len() != named {
            return None;
        }
        let (id, nonce) = info.split_at(4);
        let id = PathId::new(u32::from_be_bytes(id.try_into().ok()?));
        let nonce = u64::from_be_bytes(nonce.try_into().ok()?);
        let path = self.path_mut(id)?;
        let rtt = match path.heartbeat.outstanding {
            Some(outstanding) if outstanding.nonce == nonce => {
                path.heartbeat.outstanding = None;
                now.since(outstanding.at)
            }
            _ => path.size.on_answered(now, nonce)?,
        };
        path.heartbeat.unanswered = 0;
        path.rtt.on_sample(now, rtt);
        path.take_packet_size();
        Some(id)
    }

    /// Returns the paths whose heartbeat has just timed out, and its send time.
    pub(super) fn unanswered(&mut self, now: Instant) -> Vec<(PathId, Instant)> {
        let mut paths = Vec::new();
        for path in &mut self.paths {
            path.size.handle_timeout(now, path.errors == 0);
            let late = path.heartbeat.outstanding.as_mut();
            if let Some(late) =
                late.filter(|outstanding| !outstanding.counted && outstanding.until <= now)
            {
                late.counted = true;
                path.heartbeat.unanswered = path.heartbeat.unanswered.saturating_add(1);
                // While data is in flight, its own time-outs count instead.
                if path.flight.is_empty() {
                    paths.push((path.id, late.at));
                }
            }
        }
        paths
    }

    /// Returns when a path needs attention.
    pub(super) fn wakes_at(&self, path: &Path) -> Instant {
        let heartbeat = match path.heartbeat.open() {
            Some(outstanding) => outstanding.until,
            None => path.next_heartbeat(self.config.heartbeat_interval),
        };
        let size = path.size.wakes_at().filter(|_| path.has_answered_all());
        let suspect = path.suspect_at().filter(|_| !path.was_suspect);
        [size, suspect]
            .into_iter()
            .flatten()
            .fold(heartbeat, Instant::min)
    }
}

impl Path {
    /// Returns when the next heartbeat is due. A path that carries data needs none unless its
    /// acknowledgements stay away.
    fn next_heartbeat(&self, interval: Duration) -> Instant {
        if self.heartbeat.wanted {
            return self.last_sent;
        }
        if self.was_suspect {
            let outstanding = self.heartbeat.outstanding;
            outstanding.map_or(Instant::ZERO, |outstanding| outstanding.until)
        } else if self.state == PathState::Active && self.rtt.smoothed().is_some() {
            self.heartbeat.due.max(self.last_sent + interval)
        } else {
            self.heartbeat.due
        }
    }

    fn on_heartbeat_sent(&mut self, now: Instant, nonce: u64, interval: Duration, spread: f64) {
        // The interval is limited, so that the return of a silent path is noticed.
        let rto = self.rtt.rto_without_backoff();
        let doubled = rto.saturating_mul(1 << self.heartbeat.unanswered.min(MAX_DOUBLINGS));
        let longest = match self.state {
            PathState::Active => interval / PROBES_PER_INTERVAL,
            // Such a path may be down for long.
            PathState::Unconfirmed | PathState::Inactive => interval,
        };
        let patience = doubled.min(longest.max(rto));
        self.heartbeat.wanted = false;
        self.heartbeat.outstanding = Some(Outstanding {
            nonce,
            at: now,
            until: now + patience,
            counted: false,
        });
        let pause = match self.state {
            PathState::Unconfirmed => self.unconfirmed_pause(),
            PathState::Active | PathState::Inactive => interval,
        };
        self.heartbeat.due = now + pause + patience.mul_f64(spread);
    }

    /// Returns the pause between heartbeats to an unconfirmed address. The peer chooses the
    /// address, so that one that stays silent gets few.
    fn unconfirmed_pause(&self) -> Duration {
        if self.errors < UNCONFIRMED_TRIES {
            Duration::ZERO
        } else {
            UNCONFIRMED_PAUSE
        }
    }

    /// Tells whether the path is given up: it has failed more than `most` times, or was never
    /// confirmed after many heartbeats.
    pub(super) fn is_given_up(&self, now: Instant, most: u32) -> bool {
        match self.state {
            PathState::Unconfirmed => self.errors > most.min(UNCONFIRMED_TRIES - 1),
            PathState::Active | PathState::Inactive => self.has_failed(now, most),
        }
    }

    /// Tells whether the path has failed more than `most` times in a row, for as long as that many
    /// time-outs last by the specification. A shorter RTO must not give up sooner.
    pub(super) fn has_failed(&self, now: Instant, most: u32) -> bool {
        let silence = now.since(self.failing_since);
        self.errors > most && silence >= self.rtt.failure_delay(most)
    }

    /// Requests a heartbeat, since chunks were acknowledged sooner than the path's round-trip time
    /// allows.
    pub(crate) fn request_heartbeat(&mut self) {
        self.heartbeat.wanted = true;
    }

    /// Tells whether the path is active and without recent time-outs.
    pub(crate) fn has_answered_all(&self) -> bool {
        self.state == PathState::Active && self.errors == 0
    }
}

/// Returns the link that a heartbeat of the peer states. The reserved numbers for none and all are
/// not links.
pub(super) fn link_in(info: &[u8]) -> Option<LinkIndex> {
    let (_, link) = info.split_first_chunk::<INFO>()?;
    let link = LinkIndex::new(u32::from_be_bytes(link.try_into().ok()?));
    (link.value() != 0 && link != LinkIndex::ALL).then_some(link)
}

/// Builds a heartbeat. `named`: with the link that it leaves by.
fn to_send(path: &Path, nonce: u64, named: bool, pad: usize) -> HeartbeatToSend {
    let mut info = Vec::with_capacity(INFO + LINK);
    info.extend_from_slice(&path.id.value().to_be_bytes());
    info.extend_from_slice(&nonce.to_be_bytes());
    if named {
        info.extend_from_slice(&path.route.local.link.value().to_be_bytes());
    }
    HeartbeatToSend {
        path: path.id,
        info: info.into(),
        pad: u16::try_from(pad).unwrap_or(u16::MAX),
    }
}

/// Number of heartbeats to an unconfirmed address before the long pauses.
const UNCONFIRMED_TRIES: u32 = 8;
/// Pause between heartbeats from then on.
const UNCONFIRMED_PAUSE: Duration = Duration::from_secs(60);
/// Length of the heartbeat information: the path's number and the nonce.
const INFO: usize = 4 + 8;
/// Length of the link's index behind them.
const LINK: usize = 4;
/// Size of a HEARTBEAT and a PAD without value: both chunk headers, and the HEARTBEAT's parameter.
const PLAIN: usize = 4 + 4 + INFO + 4;
const MAX_DOUBLINGS: u32 = 10;
/// Number of heartbeats in an interval to a silent path, until it is inactive.
const PROBES_PER_INTERVAL: u32 = 4;
