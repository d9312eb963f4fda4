//! The state that the owner of an emulator and its thread share.

use std::sync::atomic::{AtomicBool, AtomicU64};

use parking_lot::Mutex;

use super::faults::Faults;
use super::watch::Watch;
use crate::scenario::Link;

/// The shared state of an emulator's owner and its thread.
#[derive(Debug)]
pub(super) struct Switches {
    pub(super) stop: AtomicBool,
    pub(super) black_holes: Vec<AtomicBool>,
    /// Up and down of each link.
    pub(super) carried: Vec<[AtomicU64; 2]>,
    /// The faults of each link. Never locked for long: the emulator's thread needs them for every
    /// frame.
    pub(super) faults: Mutex<Vec<Faults>>,
    /// Links that are to become others, in order. Never locked for long: the emulator's thread
    /// looks at it in each round.
    pub(super) changes: Mutex<Vec<(usize, Link)>>,
    /// Never locked for long: the emulator's thread needs it for every frame.
    pub(super) watch: Mutex<Option<Watch>>,
    pub(super) delivered: AtomicU64,
    pub(super) overflowed: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) missed: AtomicU64,
    pub(super) latest_nanos: AtomicU64,
}

impl Switches {
    pub(super) fn new(links: usize) -> Self {
        Self {
            stop: AtomicBool::new(false),
            black_holes: (0..links).map(|_| AtomicBool::new(false)).collect(),
            carried: (0..links).map(|_| Default::default()).collect(),
            faults: Mutex::new(vec![Faults::default(); links]),
            changes: Mutex::default(),
            watch: Mutex::default(),
            delivered: AtomicU64::new(0),
            overflowed: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            latest_nanos: AtomicU64::new(0),
        }
    }
}
