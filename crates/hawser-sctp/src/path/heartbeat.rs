use std::time::Duration;

use bytes::Bytes;
use hawser_types::{Instant, LinkIndex, PathId};

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

    /// Requests a heartbeat even if the path is in use.
    pub(super) fn request(&mut self) {
        self.wanted = true;
    }

    /// Tells whether one was requested since the last one.
    pub(super) fn is_requested(&self) -> bool {
        self.wanted
    }

    /// Returns the time of the next one on a path that is not in use.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Returns when the outstanding one times out; `None` if there is none, or if it has.
    pub(super) fn timeout(&self) -> Option<Instant> {
        let open = self.outstanding.filter(|outstanding| !outstanding.counted);
        open.map(|outstanding| outstanding.until)
    }

    /// Returns when the latest one that was not answered has timed out, or will.
    pub(super) fn latest_timeout(&self) -> Option<Instant> {
        self.outstanding.map(|outstanding| outstanding.until)
    }

    /// Returns how often the time-out is doubled.
    pub(super) fn doublings(&self) -> u32 {
        self.unanswered.min(MAX_DOUBLINGS)
    }

    /// Handles one that leaves, and counts as unanswered after `patience`. The next one is due
    /// after `pause`.
    pub(super) fn on_sent(
        &mut self,
        now: Instant,
        nonce: u64,
        patience: Duration,
        pause: Duration,
    ) {
        self.wanted = false;
        self.outstanding = Some(Outstanding {
            nonce,
            at: now,
            until: now + patience,
            counted: false,
        });
        self.due = now + pause;
    }

    /// Handles an answer with this nonce: returns the send time of the heartbeat if it was the
    /// outstanding one.
    pub(super) fn on_answered(&mut self, nonce: u64) -> Option<Instant> {
        let answered = self.outstanding.take_if(|it| it.nonce == nonce)?;
        Some(answered.at)
    }

    /// Ends the count of consecutive heartbeats without an answer.
    pub(super) fn forget_unanswered(&mut self) {
        self.unanswered = 0;
    }

    /// Counts the outstanding one if it has timed out just now; returns its send time then.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> Option<Instant> {
        let late = self.outstanding.as_mut();
        let late = late.filter(|outstanding| !outstanding.counted && outstanding.until <= now)?;
        late.counted = true;
        self.unanswered = self.unanswered.saturating_add(1);
        Some(late.at)
    }
}

/// Heartbeat information, which the peer returns.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeartbeatInfo {
    pub(super) path: PathId,
    pub(super) nonce: u64,
    /// The link that the heartbeat leaves by, if the peer is told.
    pub(super) link: Option<LinkIndex>,
}

impl HeartbeatInfo {
    pub(super) fn encode(&self) -> Bytes {
        let mut info = Vec::with_capacity(INFO + LINK);
        info.extend_from_slice(&self.path.value().to_be_bytes());
        info.extend_from_slice(&self.nonce.to_be_bytes());
        if let Some(link) = self.link {
            info.extend_from_slice(&link.value().to_be_bytes());
        }
        info.into()
    }

    /// Reads information of this host that the peer has returned. `named`: it was sent with a link.
    pub(super) fn decode(info: &[u8], named: bool) -> Option<(PathId, u64)> {
        let (info, rest) = info.split_first_chunk::<INFO>()?;
        if rest.len() != link_length(named) {
            return None;
        }
        let (id, nonce) = info.split_at(4);
        let id = PathId::new(u32::from_be_bytes(id.try_into().ok()?));
        let nonce = u64::from_be_bytes(nonce.try_into().ok()?);
        Some((id, nonce))
    }
}

/// Returns the link that a heartbeat of the peer states. The reserved numbers for none and all are
/// not links.
pub(super) fn link_in(info: &[u8]) -> Option<LinkIndex> {
    let (_, link) = info.split_first_chunk::<INFO>()?;
    let link = LinkIndex::new(u32::from_be_bytes(link.try_into().ok()?));
    (link.value() != 0 && link != LinkIndex::ALL).then_some(link)
}

/// Returns the size of a HEARTBEAT and a PAD without value: both chunk headers, and the
/// HEARTBEAT's parameter. `named`: the parameter has a link.
pub(super) fn plain_size(named: bool) -> usize {
    4 + 4 + INFO + 4 + link_length(named)
}

fn link_length(named: bool) -> usize {
    if named { LINK } else { 0 }
}

/// Length of the heartbeat information: the path's number and the nonce.
const INFO: usize = 4 + 8;
/// Length of the link's index behind them.
const LINK: usize = 4;
const MAX_DOUBLINGS: u32 = 10;
