use std::time::Duration;

use hawser_types::Instant;

/// Whether a link leads anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Health {
    /// Nothing speaks against it.
    #[default]
    Sound,
    /// Connections over it were not answered where others were: a black hole.
    Suspect,
    /// Somebody on it answers in the name of others: a captive portal.
    Portal,
}

impl Health {
    /// The word for it in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sound => "sound",
            Self::Suspect => "suspect",
            Self::Portal => "portal",
        }
    }
}

/// What came of connecting over one link, and what follows from it.
///
/// A link is suspect once [`MISSES`] connections in a row went unanswered on it that another link
/// was answered for. It is left out for [`FIRST_HOLD`]; then one connection tries it beside another
/// link, and unless that is answered the next hold is twice as long, up to [`MAX_HOLD`].
#[derive(Debug)]
pub(super) struct Record {
    misses: u32,
    /// When something last came over it.
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

impl Record {
    pub(super) const fn new() -> Self {
        Self {
            misses: 0,
            heard: None,
            suspicion: None,
            portal: false,
        }
    }

    pub(super) const fn health(&self) -> Health {
        match (self.portal, self.suspicion) {
            (true, _) => Health::Portal,
            (false, Some(_)) => Health::Suspect,
            (false, None) => Health::Sound,
        }
    }

    /// The far end has answered, be it with a refusal, or a connection on it moves. `at`: when that
    /// was. What came before the link was suspected says nothing against that.
    pub(super) fn handle_answer(&mut self, at: Instant) {
        self.heard = self.heard.max(Some(at));
        if self.suspicion.is_none_or(|suspicion| suspicion.since <= at) {
            self.misses = 0;
            self.suspicion = None;
        }
    }

    /// Whether anything has come over it since then.
    pub(super) fn was_heard_since(&self, then: Instant) -> bool {
        self.heard.is_some_and(|heard| heard >= then)
    }

    /// A connection went unanswered, and another link was answered in its place.
    pub(super) fn handle_miss(&mut self, now: Instant) {
        self.misses = self.misses.saturating_add(1);
        if self.misses >= MISSES && self.suspicion.is_none() {
            self.suspicion = Some(Suspicion {
                since: now,
                until: now + FIRST_HOLD,
                hold: FIRST_HOLD,
            });
        }
    }

    /// What the check for a captive portal has found.
    pub(super) const fn set_portal(&mut self, portal: bool) {
        self.portal = portal;
    }

    /// Whether a suspect link is due to be tried again; if so, it is the caller's to do, and the
    /// next time comes later.
    pub(super) fn take_trial(&mut self, now: Instant) -> bool {
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

/// One may be a lost packet.
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
        let mut record = Record::new();
        record.handle_miss(at(1));
        record.handle_answer(at(1));
        record.handle_miss(at(2));
        assert_eq!(record.health(), Health::Sound);
        record.handle_miss(at(2));
        assert_eq!(record.health(), Health::Suspect);
        record.handle_answer(at(3));
        assert_eq!(record.health(), Health::Sound);
    }

    #[test]
    fn what_came_before_the_suspicion_does_not_end_it() {
        let mut record = Record::new();
        record.handle_miss(at(5));
        record.handle_miss(at(5));
        record.handle_answer(at(4));
        assert_eq!(record.health(), Health::Suspect);
        assert!(record.was_heard_since(at(4)) && !record.was_heard_since(at(5)));
    }

    #[test]
    fn a_suspect_is_tried_once_after_each_hold_and_the_holds_grow() {
        let mut record = Record::new();
        record.handle_miss(at(10));
        record.handle_miss(at(10));
        assert!(!record.take_trial(at(10)));
        assert!(record.take_trial(at(11)));
        assert!(!record.take_trial(at(12)), "the next hold is two seconds");
        assert!(record.take_trial(at(13)));
        assert!(!record.take_trial(at(16)) && record.take_trial(at(17)));
        for _ in 0..10 {
            record.take_trial(at(1_000_000));
        }
        assert!(
            record.take_trial(at(1_000_060)),
            "never longer than a minute"
        );
    }

    #[test]
    fn a_portal_is_one_whatever_it_answers() {
        let mut record = Record::new();
        record.set_portal(true);
        record.handle_answer(at(1));
        assert_eq!(record.health(), Health::Portal);
        record.set_portal(false);
        assert_eq!(record.health(), Health::Sound);
    }
}
