//! The link emulator: one thread that carries frames between the two ends of every link.
//!
//! Frames come in through memory-mapped packet rings, with the kernel's time of arrival, so the
//! moment at which a frame may leave is known exactly even when the thread itself runs late.

mod cable;
mod faults;
mod packet;
mod ports;
mod rewrite;
mod ring;
mod span;
mod strip;
mod switches;
mod watch;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use hawser_types::Instant;

use self::switches::Switches;
use crate::scenario::Link;

pub use faults::{Faults, Translator};
pub use rewrite::Translation;
pub use ring::PacketSocket;
pub use span::Span;
pub use watch::{Rates, Watch};

/// A running emulator; it stops when this is dropped.
#[derive(Debug)]
pub struct Emulator {
    switches: Arc<Switches>,
    thread: Option<JoinHandle<()>>,
}

impl Emulator {
    /// Starts carrying frames. `seed` makes loss, jitter and service repeatable.
    pub fn start(spans: Vec<Span>, seed: u64) -> io::Result<Self> {
        let switches = Arc::new(Switches::new(spans.len()));
        let thread = std::thread::Builder::new()
            .name("lab-emulator".to_owned())
            .spawn({
                let switches = Arc::clone(&switches);
                move || cable::Cable::new(spans, seed, switches).run()
            })?;
        Ok(Self {
            switches,
            thread: Some(thread),
        })
    }

    /// Drops every packet of link `index` from now on, both ways, or lets them pass again.
    pub fn set_black_hole(&self, index: usize, closed: bool) {
        if let Some(hole) = self.switches.black_holes.get(index) {
            hole.store(closed, Ordering::Relaxed);
        }
    }

    /// Changes the faults of link `index`.
    pub fn change_faults(&self, index: usize, change: impl FnOnce(&mut Faults)) {
        if let Some(faults) = self.switches.faults.lock().get_mut(index) {
            change(faults);
        }
    }

    /// Makes link `index` another one from now on, with the same ends: behind a tree, say. Packets
    /// that are on the way arrive as they would have.
    pub fn change_link(&self, index: usize, into: Link) {
        self.switches.changes.lock().push((index, into));
    }

    /// Watches, from now on, the next TCP connection to this port of the server.
    pub fn watch(&self, port: u16) {
        *self.switches.watch.lock() = Some(Watch::new(port, self.now()));
    }

    /// Ends the watch; nothing when there was none.
    pub fn end_watch(&self) -> Option<Watch> {
        self.switches.watch.lock().take()
    }

    /// The time by which a watch counts.
    pub fn now(&self) -> Instant {
        cable::monotonic()
    }

    /// IP bytes that every link has carried since the start, in order of links.
    pub fn carried(&self) -> Vec<LinkBytes> {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let links = self.switches.carried.iter();
        links
            .map(|[up, down]| LinkBytes {
                up: load(up),
                down: load(down),
            })
            .collect()
    }

    /// Counters since the start.
    pub fn counters(&self) -> Counters {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            delivered: load(&self.switches.delivered),
            overflowed: load(&self.switches.overflowed),
            lost: load(&self.switches.lost),
            missed: load(&self.switches.missed),
            latest_nanos: load(&self.switches.latest_nanos),
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.switches.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            eprintln!("hawser-lab: the link emulator had failed before its end");
        }
    }
}

/// IP bytes of one link that reached its other end or are on the way there. Packets that found the
/// queue full or were lost by chance do not count, so a retransmission of them is not counted
/// twice; what a black hole swallows does count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LinkBytes {
    /// Client to server.
    pub up: u64,
    /// Server to client.
    pub down: u64,
}

impl LinkBytes {
    /// Returns the bytes carried between `before` and now.
    pub fn since(self, before: Self) -> Self {
        Self {
            up: self.up.saturating_sub(before.up),
            down: self.down.saturating_sub(before.down),
        }
    }
}

/// The emulator's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Counters {
    /// Frames that reached their other end.
    pub delivered: u64,
    /// Frames that found the queue full.
    pub overflowed: u64,
    /// Frames lost by the scenario's chance or in a black hole.
    pub lost: u64,
    /// Frames that the emulator itself failed to carry: anything above zero means that the
    /// machine was too slow for the scenario, and that its figures are not to be trusted.
    pub missed: u64,
    /// The latest delivery of a frame, in nanoseconds after its time.
    pub latest_nanos: u64,
}
