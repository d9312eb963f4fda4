use std::time::Duration;

use bytes::Bytes;
use hawser_types::{Instant, LinkIndex, PathId};
use rand::Rng;

use super::{Path, PathState, Paths};
use crate::Selection;

/// When a path is asked whether it is there, and what it was asked last.
///
/// Source: RFC 9260 §8.3.
#[derive(Debug)]
pub(super) struct Heartbeat {
    /// The next one leaves then, unless the path is in use.
    due: Instant,
    /// One is wanted whether the path is in use or not.
    wanted: bool,
    asked: Option<Asked>,
    /// Questions in a row that were not answered in time.
    unanswered: u32,
}

/// A question under way.
#[derive(Clone, Copy, Debug)]
struct Asked {
    nonce: u64,
    at: Instant,
    /// Later, it counts as unanswered; an answer is still welcome.
    until: Instant,
    counted: bool,
}

/// A HEARTBEAT to be sent now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeartbeatToSend {
    pub(crate) path: PathId,
    /// What comes back.
    pub(crate) info: Bytes,
    /// Bytes of value of a PAD chunk behind it, in the same packet; 0 for no such chunk.
    pub(crate) pad: u16,
}

impl Heartbeat {
    /// A new path is asked at once.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            due: now,
            wanted: false,
            asked: None,
            unanswered: 0,
        }
    }

    /// A question for whose answer there is time yet.
    fn open(&self) -> Option<Asked> {
        self.asked.filter(|asked| !asked.counted)
    }
}

impl Paths {
    pub(super) fn heartbeat_due(&mut self, now: Instant) -> Option<HeartbeatToSend> {
        let interval = self.config.heartbeat_interval;
        let named = self.config.names_links;
        let plain = self.config.framing.packet_header() + PLAIN + if named { LINK } else { 0 };
        let due = self
            .paths
            .iter_mut()
            .find(|path| path.heartbeat.open().is_none() && path.next_heartbeat(interval) <= now);
        if let Some(path) = due {
            let nonce = self.rng.random();
            // Half a time-out either way, so that paths do not ask together for ever.
            let spread = self.rng.random_range(0.5..1.5);
            path.on_heartbeat_sent(now, nonce, interval, spread);
            // The paper compares what a whole packet takes: its RTT = p/b + ε (§3.4).
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

    /// The path whose question `info` answers.
    pub(super) fn answered_by(&mut self, now: Instant, info: &[u8]) -> Option<PathId> {
        let (info, rest) = info.split_first_chunk::<INFO>()?;
        let named = if self.config.names_links { LINK } else { 0 };
        if rest.len() != named {
            return None;
        }
        let (id, nonce) = info.split_at(4);
        let id = PathId::new(u32::from_be_bytes(id.try_into().ok()?));
        let nonce = u64::from_be_bytes(nonce.try_into().ok()?);
        let path = self.path_mut(id)?;
        let rtt = match path.heartbeat.asked {
            Some(asked) if asked.nonce == nonce => {
                path.heartbeat.asked = None;
                now.since(asked.at)
            }
            _ => path.size.on_answered(now, nonce)?,
        };
        path.heartbeat.unanswered = 0;
        path.rtt.on_sample(now, rtt);
        path.take_packet_size();
        Some(id)
    }

    /// The paths whose question was not answered in time, each told once, and when it was asked.
    pub(super) fn unanswered(&mut self, now: Instant) -> Vec<(PathId, Instant)> {
        let mut paths = Vec::new();
        for path in &mut self.paths {
            path.size.handle_timeout(now, path.errors == 0);
            let late = path.heartbeat.asked.as_mut();
            if let Some(late) = late.filter(|asked| !asked.counted && asked.until <= now) {
                late.counted = true;
                path.heartbeat.unanswered = path.heartbeat.unanswered.saturating_add(1);
                // While data is under way its own time-outs count, not these as well.
                if path.flight.is_empty() {
                    paths.push((path.id, late.at));
                }
            }
        }
        paths
    }

    /// When a path has something to do.
    pub(super) fn wakes_at(&self, path: &Path) -> Instant {
        let heartbeat = match path.heartbeat.open() {
            Some(asked) => asked.until,
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
    /// When it is asked next: one that carries data is not, since its acknowledgements say as much,
    /// unless they stay away.
    fn next_heartbeat(&self, interval: Duration) -> Instant {
        if self.heartbeat.wanted {
            return self.last_sent;
        }
        if self.was_suspect {
            let asked = self.heartbeat.asked;
            asked.map_or(Instant::ZERO, |asked| asked.until)
        } else if self.state == PathState::Active && self.rtt.smoothed().is_some() {
            self.heartbeat.due.max(self.last_sent + interval)
        } else {
            self.heartbeat.due
        }
    }

    fn on_heartbeat_sent(&mut self, now: Instant, nonce: u64, interval: Duration, spread: f64) {
        // One that does not answer is not asked ever more seldom: its return should be seen.
        let rto = self.rtt.rto_without_backoff();
        let doubled = rto.saturating_mul(1 << self.heartbeat.unanswered.min(MAX_DOUBLINGS));
        let longest = match self.state {
            PathState::Active => interval / OFTEN,
            // By now it may be away for long.
            PathState::Unconfirmed | PathState::Inactive => interval,
        };
        let patience = doubled.min(longest.max(rto));
        self.heartbeat.wanted = false;
        self.heartbeat.asked = Some(Asked {
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

    /// Whoever lists an address makes this host send there: one that does not answer for long is asked
    /// only now and then.
    fn unconfirmed_pause(&self) -> Duration {
        if self.errors < UNCONFIRMED_TRIES {
            Duration::ZERO
        } else {
            UNCONFIRMED_PAUSE
        }
    }

    /// It was asked in vain more than `most` times in a row, or so often without ever having answered
    /// that it hardly is any more.
    pub(super) fn is_given_up(&self, now: Instant, most: u32) -> bool {
        match self.state {
            PathState::Unconfirmed => self.errors > most.min(UNCONFIRMED_TRIES - 1),
            PathState::Active | PathState::Inactive => self.has_failed(now, most),
        }
    }

    /// It has failed to answer more than `most` times in a row, and for as long as so many time-outs
    /// last by the specification: asking more often must not give up sooner.
    pub(super) fn has_failed(&self, now: Instant, most: u32) -> bool {
        let silence = now.since(self.failing_since);
        self.errors > most && silence >= self.rtt.silence_of(most)
    }

    /// Chunks were acknowledged sooner than the path is known to allow: it is asked how quick it is.
    pub(crate) fn ask_for_heartbeat(&mut self) {
        self.heartbeat.wanted = true;
    }

    /// It answers, and has not just failed to.
    pub(crate) fn has_answered_all(&self) -> bool {
        self.state == PathState::Active && self.errors == 0
    }
}

/// The link that a heartbeat of the peer has left by, if it says so. One that stands for none or for all does not.
pub(super) fn link_in(info: &[u8]) -> Option<LinkIndex> {
    let (_, link) = info.split_first_chunk::<INFO>()?;
    let link = LinkIndex::new(u32::from_be_bytes(link.try_into().ok()?));
    (link.value() != 0 && link != LinkIndex::ALL).then_some(link)
}

/// `named`: with the link that it leaves by.
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

/// How often an address is asked whether it is the peer's before that takes its time.
const UNCONFIRMED_TRIES: u32 = 8;
/// How long from then on.
const UNCONFIRMED_PAUSE: Duration = Duration::from_secs(60);
/// The path's number, and the nonce.
const INFO: usize = 4 + 8;
/// Behind them: the link that it leaves by.
const LINK: usize = 4;
/// A HEARTBEAT and a PAD without value: both chunks' headers and that of the HEARTBEAT's parameter.
const PLAIN: usize = 4 + 4 + INFO + 4;
const MAX_DOUBLINGS: u32 = 10;
/// A path that has fallen silent is asked so many times in an interval, until it counts as down.
const OFTEN: u32 = 4;
