//! Checks of the receiver's permitted behaviour.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hawser_types::Instant;
use hawser_wire::tunnel::TunnelHeader;

/// When and how a packet arrived first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    pub(super) at: Instant,
    pub(super) link: usize,
    pub(super) place: u64,
    pub(super) header: TunnelHeader,
}

/// What the receiver could know: the rule, computed a second time from all that arrived.
#[derive(Default)]
pub(super) struct Watch {
    /// The highest place of each usable link, and of each link that ever was.
    highest: BTreeMap<usize, u64>,
    ever: BTreeMap<usize, u64>,
    /// What all usable links had reached, with when that changed.
    reached: Vec<(Instant, u64)>,
    /// Arrivals of each flow, in the order of time.
    flows: BTreeMap<u16, Vec<Arrived>>,
}

impl Watch {
    pub(super) fn on_arrival(&mut self, arrived: &Arrived) {
        if let Some(highest) = self.highest.get_mut(&arrived.link) {
            *highest = (*highest).max(arrived.place);
        }
        let ever = self.ever.entry(arrived.link).or_default();
        *ever = (*ever).max(arrived.place);
        self.note(arrived.at);
        let flow = self.flows.entry(arrived.header.flow.value());
        flow.or_default().push(*arrived);
    }

    /// The receiver learns that these links are usable, and no others.
    pub(super) fn set_usable(&mut self, now: Instant, links: BTreeSet<usize>) {
        self.highest.retain(|link, _| links.contains(link));
        for link in links {
            self.highest.entry(link).or_insert(0);
        }
        self.note(now);
    }

    fn note(&mut self, now: Instant) {
        let reached = self.highest.values().min().copied();
        self.reached.extend(reached.map(|reached| (now, reached)));
    }

    /// Whether the rule allowed others to go before this packet: one with a higher number had
    /// waited for the shortest time that a receiver waits, or a later place had come on every
    /// usable path, or on the only path that counted; and then, where it is one that waits, for the
    /// shortest time in which a lost packet could come once more.
    pub(super) fn may_be_late(&self, late: &Arrived) -> bool {
        let number_of = |it: &Arrived| it.header.number.expand(0);
        let mut flow = self.flows[&late.header.flow.value()].iter();
        flow.any(|other| {
            let is_before = number_of(other) > number_of(late) && other.at <= late.at;
            let waited = late.at.since(other.at);
            let repair = if other.header.unheld {
                Duration::ZERO
            } else {
                MIN_REPAIR
            };
            let has_waited = waited >= MIN_HOLD + repair;
            let is_early = other.header.early || other.header.copied;
            let since = self.reached.partition_point(|(at, _)| *at < other.at);
            let mut reached = self.reached[since..].iter();
            let by_all = reached.any(|(_, reached)| *reached > other.place);
            let distance = number_of(other) - number_of(late).min(number_of(other));
            let by_path =
                distance <= other.header.run.packets() && self.ever[&other.link] > other.place;
            let is_lost = has_waited || !is_early && (by_all || by_path);
            is_before && is_lost && waited >= repair
        })
    }
}

/// The receiver waits for no less, but where places prove a loss.
const MIN_HOLD: Duration = Duration::from_millis(10);
/// What it adds at least for a packet that was lost.
const MIN_REPAIR: Duration = Duration::from_millis(10);
