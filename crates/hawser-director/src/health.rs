use std::time::Duration;

use hawser_types::Instant;

/// State of a link, as shown by connections over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Health {
    /// Connections over it are answered, as far as known.
    #[default]
    Sound,
    /// Connections over it were not answered where other links were: a black hole.
    Suspect,
    /// A captive portal on it answers in the name of other hosts.
    Portal,
}

impl Health {
    /// Returns its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sound => "sound",
            Self::Suspect => "suspect",
            Self::Portal => "portal",
        }
    }
}

/// Answers to connections over one link, and the link's state derived from them.
///
/// A link is suspect once [`MISSES`] consecutive connections on it were unanswered while another
/// link was answered. It is left out for [`FIRST_HOLD`]. Then one connection tries it in parallel
/// to another link; if that is unanswered, the next hold is twice as long, up to [`MAX_HOLD`].
#[derive(Debug)]
pub(crate) struct Reachability {
    misses: u32,
    /// Time of the latest packet received over it.
    heard: Option<Instant>,
    suspicion: Option<Suspicion>,
    portal: bool,
}

#[derive(Clone, Copy, Debug)]
struct Suspicion {
    since: Instant,
    until: Instant,
    hold: Duration,
}

impl Reachability {
    pub(crate) const fn new() -> Self {
        Self {
            misses: 0,
            heard: None,
            suspicion: None,
            portal: false,
        }
    }

    pub(crate) const fn health(&self) -> Health {
        match (self.portal, self.suspicion) {
            (true, _) => Health::Portal,
            (false, Some(_)) => Health::Suspect,
            (false, None) => Health::Sound,
        }
    }

    /// Returns since when the link is suspect, if it is.
    pub(crate) fn suspect_since(&self) -> Option<Instant> {
        self.suspicion.map(|suspicion| suspicion.since)
    }

    /// Returns when a packet was last noticed on it.
    pub(crate) const fn last_heard(&self) -> Option<Instant> {
        self.heard
    }

    /// Records that the far end answered at `at`, by acceptance, refusal or data. An answer from
    /// before the suspicion does not end it.
    pub(crate) fn on_answer(&mut self, at: Instant) {
        self.heard = self.heard.max(Some(at));
        if self.suspicion.is_none_or(|suspicion| suspicion.since <= at) {
            self.misses = 0;
            self.suspicion = None;
        }
    }

    /// True if a packet arrived over it since `then`.
    pub(crate) fn was_heard_since(&self, then: Instant) -> bool {
        self.heard.is_some_and(|heard| heard >= then)
    }

    /// Records an unanswered connection, while another link was answered instead.
    pub(crate) fn on_miss(&mut self, now: Instant) {
        self.misses = self.misses.saturating_add(1);
        if self.misses >= MISSES && self.suspicion.is_none() {
            self.suspicion = Some(Suspicion {
                since: now,
                until: now + FIRST_HOLD,
                hold: FIRST_HOLD,
            });
        }
    }

    /// Sets the result of the check for a captive portal.
    pub(crate) const fn set_portal(&mut self, portal: bool) {
        self.portal = portal;
    }

    /// True if the link is suspect and due for a trial. The caller must try it then; the next trial
    /// is later.
    pub(crate) fn take_trial(&mut self, now: Instant) -> bool {
        match &mut self.suspicion {
            Some(suspicion) if suspicion.until <= now => {
                suspicion.hold = suspicion.hold.saturating_mul(2).min(MAX_HOLD);
                suspicion.until = now + suspicion.hold;
                true
            }
            _ => false,
        }
    }
}

/// A single miss may be a lost packet.
const MISSES: u32 = 2;
const FIRST_HOLD: Duration = Duration::from_secs(1);
const MAX_HOLD: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn one_unanswered_connection_is_no_black_hole_but_two_in_a_row_are() {
        let mut link = Reachability::new();
        link.on_miss(at(1));
        link.on_answer(at(1));
        link.on_miss(at(2));
        assert_eq!(link.health(), Health::Sound);
        link.on_miss(at(2));
        assert_eq!(link.health(), Health::Suspect);
        link.on_answer(at(3));
        assert_eq!(link.health(), Health::Sound);
    }

    #[test]
    fn what_came_before_the_suspicion_does_not_end_it() {
        let mut link = Reachability::new();
        link.on_miss(at(5));
        link.on_miss(at(5));
        link.on_answer(at(4));
        assert_eq!(link.health(), Health::Suspect);
        assert!(link.was_heard_since(at(4)) && !link.was_heard_since(at(5)));
    }

    #[test]
    fn a_suspect_is_tried_once_after_each_hold_and_the_holds_grow() {
        let mut link = Reachability::new();
        link.on_miss(at(10));
        link.on_miss(at(10));
        assert!(!link.take_trial(at(10)));
        assert!(link.take_trial(at(11)));
        assert!(!link.take_trial(at(12)), "the next hold is two seconds");
        assert!(link.take_trial(at(13)));
        assert!(!link.take_trial(at(16)) && link.take_trial(at(17)));
        for _ in 0..10 {
            link.take_trial(at(1_000_000));
        }
        assert!(link.take_trial(at(1_000_060)), "never longer than a minute");
    }

    #[test]
    fn a_portal_is_one_whatever_it_answers() {
        let mut link = Reachability::new();
        link.set_portal(true);
        link.on_answer(at(1));
        assert_eq!(link.health(), Health::Portal);
        link.set_portal(false);
        assert_eq!(link.health(), Health::Sound);
    }
}
