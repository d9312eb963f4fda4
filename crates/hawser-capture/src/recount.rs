//! Periodic recount of the load of links.
//!
//! The kernel's program charges and releases load by itself. It does not see the progress of
//! connections, and its errors would persist; so this module examines the sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use hawser_path::Segments;
use hawser_sched::connection::{Load, remaining};
use hawser_types::{ByteCount, LinkIndex};

use crate::diag::Found;
use crate::maps::{missing_is_fine, snapshot};
use crate::seen::FlowState;
use crate::tables::{FLOW_ENDED, FLOW_RELEASED, FlowRow, Links, LoadRow, Loads, RemainingRow};
use crate::{Bytes, Capture, CaptureError, sys};

/// Progress of a captured connection at the last recount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedProgress {
    /// Bytes that the connection had moved.
    pub moved: Bytes,
    /// Time since the last packet from the peer, to a hundredth of a second; `None` if not counted.
    pub heard: Option<Duration>,
    /// Segments that this end has sent; `None` if not counted.
    pub segments: Option<Segments>,
}

impl Capture {
    /// Recounts the load of the links from the open sockets, so that errors of the kernel's program
    /// do not persist. Returns the load.
    ///
    /// Call it once or twice a second. If connections are placed, it takes time in proportion to
    /// the sockets of the system, about a millisecond for a thousand; otherwise it costs little.
    pub fn recount(&mut self) -> Result<Vec<(LinkIndex, Load)>, CaptureError> {
        let now = sys::monotonic_nanos();
        if self.seen.is_empty() && self.tables.flows.keys().next().is_none() {
            // Nothing has been placed, and earlier connections are gone.
            let loads = Loads::default();
            self.tables.loads.set(0, loads, 0)?;
            return Ok(by_link(&self.tables.links.get(&0, 0)?, &loads));
        }
        let mut sockets = self.list(libc::IPPROTO_TCP)?;
        sockets.append(&mut self.list(libc::IPPROTO_UDP)?);
        let links = self.tables.links.get(&0, 0)?;
        let mut loads = Loads::default();
        let mut seen = BTreeMap::new();
        for (cookie, flow) in snapshot(&self.tables.flows) {
            if flow.state & FLOW_ENDED != 0 {
                continue;
            }
            let socket = sockets.get(&cookie);
            // A flow that is about to connect has no socket yet. A released one without a socket is
            // stale: its end will never be reported.
            let is_released = flow.state & FLOW_RELEASED != 0;
            if socket.is_none() && is_released && older_than(flow.began, now, GRACE) {
                self.tables.flows.remove(&cookie).or_else(missing_is_fine)?;
                continue;
            }
            let (row, latest) = left(&flow, socket, self.seen.get(&cookie), now);
            seen.insert(cookie, latest);
            let place = flow.place as usize;
            let link = links.at.get(place).filter(|link| link.index == flow.link);
            if flow.link != 0 && link.is_some() {
                self.tables.remaining.insert(cookie, row, 0)?;
                let load = &mut loads.at[place];
                load.up = load.up.saturating_add(row.up);
                load.down = load.down.saturating_add(row.down);
                load.connections += row.connections;
                load.real_time += calls(&flow, &row);
            }
        }
        // Remove entries of flows that ended meanwhile.
        for cookie in snapshot(&self.tables.remaining).into_keys() {
            if !seen.contains_key(&cookie) {
                let removed = self.tables.remaining.remove(&cookie);
                removed.or_else(missing_is_fine)?;
            }
        }
        self.seen = seen;
        self.tables.loads.set(0, loads, 0)?;
        Ok(by_link(&links, &loads))
    }

    /// Returns the progress of a captured connection at the last [`Self::recount`]; `None` if it
    /// was not open then.
    pub fn progress(&self, cookie: u64) -> Option<CapturedProgress> {
        let now = sys::monotonic_nanos();
        self.seen.get(&cookie).map(|seen| CapturedProgress {
            moved: Bytes {
                up: ByteCount::new(seen.moved.0),
                down: ByteCount::new(seen.moved.1),
            },
            heard: (seen.heard != 0).then(|| Duration::from_nanos(now.saturating_sub(seen.heard))),
            segments: seen.segments,
        })
    }

    /// Sets the load of the links, for a caller that knows of more connections than the captured
    /// ones.
    pub fn set_loads(&mut self, wanted: &[(LinkIndex, Load)]) -> Result<(), CaptureError> {
        let links = self.tables.links.get(&0, 0)?;
        let mut loads = self.tables.loads.get(&0, 0)?;
        for (index, load) in wanted {
            let place = links.at.iter().position(|link| link.index == index.value());
            if let Some(row) = place.and_then(|place| loads.at.get_mut(place)) {
                row.up = load.up.as_u64();
                row.down = load.down.as_u64();
                row.connections = load.connections.into();
            }
        }
        Ok(self.tables.loads.set(0, loads, 0)?)
    }

    /// Returns the load of the links in the kernel's program.
    pub fn loads(&self) -> Result<Vec<(LinkIndex, Load)>, CaptureError> {
        Ok(by_link(
            &self.tables.links.get(&0, 0)?,
            &self.tables.loads.get(&0, 0)?,
        ))
    }

    fn list(&mut self, protocol: i32) -> Result<BTreeMap<u64, Found>, CaptureError> {
        let found = self.diagnosis.list(protocol, u32::MAX);
        found.map_err(CaptureError::system("the list of sockets"))
    }

    /// Aborts the connections over `link` that have had no answer yet, so that their programs can
    /// retry at once. For a link that has failed. Returns their number.
    ///
    /// Needs a kernel with `CONFIG_INET_DIAG_DESTROY`, which Debian and Ubuntu have.
    pub fn abort_unanswered(&mut self, link: LinkIndex) -> Result<usize, CaptureError> {
        self.abort(1 << SYN_SENT, |_, placed_on| placed_on == link)
            .map_err(CaptureError::system("ending connections without an answer"))
    }

    /// Aborts these connections, named by their sockets' cookies, so that their programs get an
    /// error at once. For connections over a link that is gone. Returns how many still existed.
    ///
    /// Needs a kernel with `CONFIG_INET_DIAG_DESTROY`, which Debian and Ubuntu have.
    pub fn abort_placed(&mut self, cookies: &BTreeSet<u64>) -> Result<usize, CaptureError> {
        self.abort(u32::MAX, |cookie, _| cookies.contains(&cookie))
            .map_err(CaptureError::system(
                "ending connections over a link that is gone",
            ))
    }

    /// Aborts the placed connections in one of `states` that `is_meant` picks by cookie and link.
    fn abort(
        &mut self,
        states: u32,
        is_meant: impl Fn(u64, LinkIndex) -> bool,
    ) -> io::Result<usize> {
        let sockets = self.diagnosis.list(libc::IPPROTO_TCP, states)?;
        let mut ended = 0;
        for (cookie, socket) in sockets {
            // Sockets that a program has bound itself are not touched.
            let flow = self.tables.flows.get(&cookie, 0);
            let is_meant = flow.is_ok_and(|flow| {
                socket.bound_to() == flow.link && is_meant(cookie, LinkIndex::new(flow.link))
            });
            if !is_meant {
                continue;
            }
            match self.diagnosis.destroy(&socket) {
                Ok(()) => ended += 1,
                // The connection was answered, or has ended, meanwhile.
                Err(gone) if gone.raw_os_error() == Some(libc::ENOENT) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(ended)
    }
}

fn by_link(links: &Links, loads: &Loads) -> Vec<(LinkIndex, Load)> {
    let rows = links.at.iter().zip(&loads.at);
    let rows = rows.filter(|(link, _)| link.index != 0);
    rows.map(|(link, load)| (LinkIndex::new(link.index), Load::from(load)))
        .collect()
}

/// Returns the remaining demand of a flow. A flow that is idle for a while counts as nothing until
/// it moves bytes again; so does a flow that never got a socket on the network.
fn left(
    flow: &FlowRow,
    socket: Option<&Found>,
    seen: Option<&FlowState>,
    now: u64,
) -> (RemainingRow, FlowState) {
    let moved = match i32::from(flow.protocol) {
        // The socket's diagnosis has no such counters.
        libc::IPPROTO_UDP => (flow.sent, flow.received),
        _ => socket.and_then(|socket| socket.moved).unwrap_or_default(),
    };
    let mut latest = seen.copied().unwrap_or(FlowState {
        moved: (0, 0),
        at: flow.began,
        heard: 0,
        segments: None,
    });
    latest.segments = socket.and_then(|socket| socket.segments);
    if moved != latest.moved {
        (latest.moved, latest.at) = (moved, now);
    }
    if let Some(ago) = socket.and_then(|socket| socket.heard) {
        latest.heard = now.saturating_sub(u64::try_from(ago.as_nanos()).unwrap_or(u64::MAX));
    }
    if older_than(latest.at, now, GRACE) {
        return (RemainingRow::default(), latest);
    }
    let left = |demand, moved| remaining(ByteCount::new(demand), ByteCount::new(moved)).as_u64();
    let row = RemainingRow {
        up: left(flow.demand.up, moved.0),
        down: left(flow.demand.down, moved.1),
        connections: 1,
    };
    (row, latest)
}

/// Returns the number of calls that the flow counts as. A call over datagrams may pause, so it
/// counts as long as its socket is open.
fn calls(flow: &FlowRow, left: &RemainingRow) -> u64 {
    match (flow.class, i32::from(flow.protocol)) {
        (REAL_TIME, libc::IPPROTO_UDP) => 1,
        (REAL_TIME, _) => left.connections,
        _ => 0,
    }
}

const fn older_than(then: u64, now: u64, span: Duration) -> bool {
    now.saturating_sub(then) as u128 > span.as_nanos()
}

impl From<&LoadRow> for Load {
    fn from(row: &LoadRow) -> Self {
        Self {
            connections: u32::try_from(row.connections).unwrap_or(u32::MAX),
            up: ByteCount::new(row.up),
            down: ByteCount::new(row.down),
        }
    }
}

const REAL_TIME: u8 = 0;
/// The kernel's number for the state SYN-SENT.
const SYN_SENT: u32 = 2;
/// Time without progress after which a connection is idle.
const GRACE: Duration = Duration::from_secs(2);
