//! The signals of links, from all sources, and the links that traffic should leave because of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hawser_control::{ModemStatus, SignalSource, SignalStatus};
use hawser_sched::signal::{SignalJudge, SignalThresholds};
use hawser_types::{Instant, Radio, SignalState, SignalStrength};

/// A source's reading of a link's signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) source: SignalSource,
    pub(crate) radio: Radio,
    /// `None` if the source no longer knows the signal.
    pub(crate) strength: Option<SignalStrength>,
}

/// The signals of all links, by their names.
#[derive(Debug, Default)]
pub(super) struct Signals {
    links: BTreeMap<String, LinkSignal>,
    /// States of modems, by the names of their links.
    modems: BTreeMap<String, ModemStatus>,
    /// Configured strengths below which traffic leaves a link, by the links' names.
    leave_below: BTreeMap<String, SignalStrength>,
}

#[derive(Debug)]
struct LinkSignal {
    judge: SignalJudge,
    source: SignalSource,
    radio: Radio,
    /// Time when the last reading is forgotten, since the source no longer knows the link.
    forgotten_at: Option<Instant>,
}

impl Signals {
    /// `leave_below`: strengths below which traffic leaves links, by the links' names.
    pub(super) fn new(leave_below: BTreeMap<String, SignalStrength>) -> Self {
        Self {
            leave_below,
            ..Self::default()
        }
    }

    /// Handles a reading. The user's reading overrides the radio's, until the user withdraws it or
    /// the link loses its carrier. The radio's last reading stays valid for a while without new
    /// ones: a reading may fail, and that does not make a fading link better.
    pub(super) fn handle_reading(&mut self, now: Instant, link: &str, reading: Reading) {
        let by_user = |it: &LinkSignal| it.source == SignalSource::User;
        let known = self.links.get_mut(link);
        if reading.source != SignalSource::User && known.as_deref().is_some_and(by_user) {
            return;
        }
        let Some(strength) = reading.strength else {
            match known.filter(|known| known.source == reading.source) {
                Some(known) if by_user(known) => drop(self.links.remove(link)),
                Some(known) => {
                    known.forgotten_at.get_or_insert(now + FORGET_AFTER);
                }
                None => {}
            }
            return;
        };
        if known.is_none() && self.links.len() >= MAX_LINKS {
            return;
        }
        let leave = self.leave_below.get(link).copied();
        let by_radio = SignalThresholds::of(reading.radio);
        let thresholds = leave.map_or(by_radio, SignalThresholds::leaving_below);
        let signal = self.links.entry(link.to_owned());
        let signal = signal.or_insert_with(|| LinkSignal {
            judge: SignalJudge::new(thresholds),
            source: reading.source,
            radio: reading.radio,
            forgotten_at: None,
        });
        signal.forgotten_at = None;
        // Readings of another radio or source do not continue the trend.
        if (signal.source, signal.radio) != (reading.source, reading.radio) {
            (signal.source, signal.radio) = (reading.source, reading.radio);
            signal.judge = SignalJudge::new(thresholds);
        }
        signal.judge.handle_reading(now, strength);
    }

    /// Sets the states of all links' modems.
    pub(super) fn set_modems(&mut self, modems: BTreeMap<String, ModemStatus>) {
        self.modems = modems;
    }

    /// Handles the passing of time: forgets old readings, and updates the states.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        let is_known = |it: &LinkSignal| it.forgotten_at.is_none_or(|at| at > now);
        self.links.retain(|_, signal| is_known(signal));
        for signal in self.links.values_mut() {
            signal.judge.handle_timeout(now);
        }
    }

    /// Returns when to call [`Self::handle_timeout`].
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let all = self.links.values();
        let times = all.flat_map(|it| [it.judge.poll_timeout(), it.forgotten_at]);
        times.flatten().min()
    }

    /// Forgets the signals of all links except those for which `is_kept` returns true.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.links.retain(|link, _| is_kept(link));
    }

    /// Returns the links that traffic should leave: their signal fades, or their modem has no
    /// network.
    pub(super) fn to_leave(&self) -> BTreeSet<&str> {
        let fading = self.links.iter();
        let fading = fading.filter(|(_, it)| it.judge.state() != SignalState::Good);
        let cut_off = self.modems.iter().filter(|(_, it)| !it.state.has_network());
        let fading = fading.map(|(link, _)| link.as_str());
        fading
            .chain(cut_off.map(|(link, _)| link.as_str()))
            .collect()
    }

    /// Returns the links whose signal is weak.
    pub(super) fn weak(&self) -> Vec<String> {
        let weak = self.links.iter().filter(|(_, it)| it.judge.is_weak());
        weak.map(|(link, _)| link.clone()).collect()
    }

    /// Returns the state of a link's modem.
    pub(super) fn modem(&self, link: &str) -> Option<&ModemStatus> {
        self.modems.get(link)
    }

    /// Returns the status of a link's signal, if it is known.
    pub(super) fn status(&self, link: &str) -> Option<SignalStatus> {
        let signal = self.links.get(link)?;
        Some(SignalStatus {
            strength: signal.judge.strength()?,
            radio: signal.radio,
            state: signal.judge.state(),
            source: signal.source,
            leave_below: signal.judge.thresholds().leave,
        })
    }
}

/// Validity of the last reading. Wi-Fi is read twice a second, and a link that has lost its access
/// point soon loses its carrier.
const FORGET_AFTER: Duration = Duration::from_secs(10);
/// Limit of known links: interfaces appear under ever new names.
const MAX_LINKS: usize = 256;

#[cfg(test)]
mod tests {
    use hawser_types::ModemState;

    use super::*;

    fn reading(source: SignalSource, dbm: Option<i16>) -> Reading {
        Reading {
            source,
            radio: Radio::WiFi,
            strength: dbm.map(|dbm| SignalStrength::new(dbm).unwrap()),
        }
    }

    #[test]
    fn what_the_user_says_holds_until_it_is_taken_back() {
        use SignalSource::{Kernel, User};
        let mut signals = Signals::default();
        let mut tell = |source, dbm| {
            signals.handle_reading(Instant::ZERO, "wlan0", reading(source, dbm));
            let status = signals.status("wlan0");
            status.map(|it| (it.source, it.strength.dbm(), it.state))
        };
        let good = SignalState::Good;
        let fading = Some((User, -85, SignalState::Fading));
        assert_eq!(tell(Kernel, Some(-50)), Some((Kernel, -50, good)));
        assert_eq!(tell(User, Some(-85)), fading);
        assert_eq!(tell(Kernel, Some(-51)), fading);
        assert_eq!(tell(Kernel, None), fading);
        assert_eq!(tell(User, None), None);
        assert_eq!(tell(Kernel, Some(-52)), Some((Kernel, -52, good)));
        assert_eq!(tell(SignalSource::Modem, None), Some((Kernel, -52, good)));
    }

    #[test]
    fn a_reading_that_is_missing_makes_no_fading_link_good_and_a_silent_radio_is_forgotten() {
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let mut signals = Signals::default();
        let kernel = |dbm| reading(SignalSource::Kernel, dbm);
        signals.handle_reading(at(0), "wlan0", kernel(Some(-85)));
        signals.handle_reading(at(500), "wlan0", kernel(None));
        assert_eq!(signals.to_leave(), BTreeSet::from(["wlan0"]));
        // The signal still fades when it is read again in time, at a strength between the
        // thresholds.
        signals.handle_reading(at(1000), "wlan0", kernel(Some(-77)));
        signals.handle_timeout(at(60_000));
        assert_eq!(signals.to_leave(), BTreeSet::from(["wlan0"]));
        signals.handle_reading(at(60_000), "wlan0", kernel(None));
        let due = at(60_000) + FORGET_AFTER;
        assert_eq!(signals.poll_timeout(), Some(due));
        signals.handle_timeout(at(69_999));
        assert_eq!(signals.to_leave(), BTreeSet::from(["wlan0"]));
        signals.handle_timeout(due);
        assert_eq!(signals.status("wlan0"), None);
        assert_eq!(signals.poll_timeout(), None);
    }

    #[test]
    fn links_are_left_where_the_user_wants_and_signals_are_forgotten() {
        let leave = SignalStrength::new(-60).unwrap();
        let mut signals = Signals::new(BTreeMap::from([("b".to_owned(), leave)]));
        for link in ["a", "b"] {
            signals.handle_reading(Instant::ZERO, link, reading(SignalSource::User, Some(-65)));
        }
        assert_eq!(signals.to_leave(), BTreeSet::from(["b"]));
        assert_eq!(signals.status("b").unwrap().leave_below, leave);
        signals.handle_reading(Instant::ZERO, "b", reading(SignalSource::User, Some(-50)));
        let due = signals.poll_timeout().unwrap();
        signals.handle_timeout(due);
        assert!(signals.to_leave().is_empty());
        signals.retain(|link| link == "a");
        assert_eq!((signals.status("b"), signals.poll_timeout()), (None, None));
    }

    #[test]
    fn links_are_left_while_their_modem_has_no_network() {
        let mut signals = Signals::default();
        for (state, is_left) in [
            (ModemState::Connected, false),
            (ModemState::Searching, true),
            (ModemState::Failed, true),
            (ModemState::Roaming, false),
        ] {
            let modem = ModemStatus {
                state,
                technology: None,
                reason: None,
            };
            signals.set_modems(BTreeMap::from([("wwan0".to_owned(), modem)]));
            assert_eq!(signals.to_leave().contains("wwan0"), is_left, "{state}");
        }
        signals.set_modems(BTreeMap::new());
        assert_eq!(
            (signals.modem("wwan0"), signals.to_leave().len()),
            (None, 0)
        );
    }

    #[test]
    fn ever_new_names_fill_no_memory() {
        let mut signals = Signals::default();
        for number in 0..1000 {
            let link = format!("veth{number}");
            signals.handle_reading(
                Instant::ZERO,
                &link,
                reading(SignalSource::Kernel, Some(-65)),
            );
        }
        assert_eq!(signals.links.len(), MAX_LINKS);
    }
}
