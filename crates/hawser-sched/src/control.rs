mod facts;
mod rivals;

use std::time::Duration;

pub use facts::ControlFacts;
use hawser_types::{Instant, Rate};
use rivals::Rivals;

/// A kind of congestion control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Control {
    /// A window that loss makes smaller: cubic, or reno. It shares with others' connections as
    /// these do, keeps a path full, and fills the queue before it.
    #[default]
    Window,
    /// A measured rate: bbr. Loss is nothing to it, and alone it keeps the queue short. It lowers
    /// its rate to measure the path's length, which costs the more the longer the path is.
    Rate,
}

/// Chooses the congestion control of one connection, again and again, on the live socket.
///
/// A window (cubic) is chosen for these paths:
/// - round trips below a millisecond: bbr's timers would cost more than the network;
/// - a detour whose medium loses nothing: no call feels its queue, and bbr's probe of a long path
///   costs up to a tenth;
/// - a path that serves in turns, and whose medium loses nothing: bbr takes the mean of a round
///   trip for the rate, and never learns what a turn carries;
/// - a slow path whose queue others fill, and whose medium loses little: bbr gives way to them for
///   ten seconds, and takes more than they do later.
///
/// A rate (bbr) is chosen for all others: loss is not congestion, and bulk must not ruin calls.
///
/// A medium passes for one that loses nothing once a thousand segments came without a loss. After a
/// loss the
/// path has bbr at once, and for half a minute; for twice as long each time it is believed in vain.
/// A window that takes over from bbr has to find its size anew, so that happens between transfers,
/// save
/// beside others, who take what is left to them meanwhile. After ten seconds bbr sees whether they
/// are gone, and after
/// twice as long each time it finds them there.
#[derive(Clone, Copy, Debug, Default)]
pub struct ControlChoice {
    chosen: Control,
    lost: u64,
    /// Segments that had been delivered at the last loss.
    delivered: u64,
    /// The medium is not trusted until then.
    clean_at: Instant,
    /// For how long the next loss counts; zero: [`DISTRUST`].
    distrust: Duration,
    rivals: Rivals,
    /// Others fill the queue until then, as far as is known.
    shared_until: Instant,
    /// For how long that was believed; zero: never yet.
    sharing: Duration,
}

impl ControlChoice {
    /// Takes in what is known now, and tells which control the connection should have.
    pub fn on_sample(&mut self, now: Instant, facts: &ControlFacts) -> Control {
        if facts.rtt.is_zero() {
            return self.chosen;
        }
        if facts.lost_by_medium > self.lost {
            let distrust = self.distrust.max(DISTRUST);
            if now >= self.clean_at {
                self.distrust = (distrust * 2).min(MAX_DISTRUST);
            }
            self.clean_at = self.clean_at.max(now + distrust);
            self.delivered = facts.delivered;
        }
        self.lost = facts.lost_by_medium;
        let short = self.chosen == Control::Window && facts.rtt < FAR;
        let shared = self.is_shared(now, facts);
        let is_clean =
            |segments| now >= self.clean_at && facts.delivered >= self.delivered + segments;
        // Pauses tell soon, and there is no rate that a window would have to find anew.
        let turns = facts.in_turns && facts.rate >= QUICK && is_clean(A_FEW);
        // A window that begins in the middle of a transfer has to find its size anew.
        let keeps = facts.idle || self.chosen == Control::Window;
        let detour = facts.detour && keeps && is_clean(ENOUGH);
        self.chosen = if short || shared || turns || detour {
            Control::Window
        } else {
            Control::Rate
        };
        self.chosen
    }

    /// Returns the latest choice.
    pub const fn chosen(&self) -> Control {
        self.chosen
    }

    /// Whether others fill the queue.
    fn is_shared(&mut self, now: Instant, facts: &ControlFacts) -> bool {
        let judges = self.chosen == Control::Rate && !facts.idle && !facts.lossy;
        if judges && self.rivals.on_sample(now, facts) {
            self.sharing = if now.since(self.shared_until) <= RECENT {
                (self.sharing * 2).clamp(SHARING, MAX_SHARING)
            } else {
                SHARING
            };
            self.shared_until = now + self.sharing;
            self.rivals.begin_anew();
        }
        now < self.shared_until && !facts.lossy
    }
}

/// Round trips from here on are a network's, not a wire's between two machines.
const FAR: Duration = Duration::from_millis(1);
/// Segments without a loss that make a medium pass for one that loses nothing.
const ENOUGH: u64 = 1000;
/// Segments without a loss, where a path goes in turns.
const A_FEW: u64 = 100;
/// Below, segments are pauses apart, and what a window queues takes seconds.
const QUICK: Rate = Rate::from_bits_per_second(1_000_000);
const DISTRUST: Duration = Duration::from_secs(30);
const MAX_DISTRUST: Duration = Duration::from_secs(600);
/// For how long others are believed to fill a queue before bbr looks again.
const SHARING: Duration = Duration::from_secs(10);
const MAX_SHARING: Duration = Duration::from_secs(60);
/// Others that bbr finds within this time are the same ones.
const RECENT: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    /// A long way beside a shorter one, at rest, over which much has gone.
    fn detour() -> ControlFacts {
        ControlFacts {
            rtt: Duration::from_millis(200),
            delivered: ENOUGH,
            idle: true,
            detour: true,
            ..ControlFacts::default()
        }
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    /// A path of which nothing is known but that it stands still now and then.
    fn in_turns() -> ControlFacts {
        ControlFacts {
            rtt: Duration::from_millis(80),
            delivered: A_FEW,
            in_turns: true,
            rate: QUICK,
            ..ControlFacts::default()
        }
    }

    /// Samples every 20 ms for a minute: the seconds in which a window is chosen.
    fn beside_others(facts: &ControlFacts) -> Vec<u64> {
        let mut choice = ControlChoice::default();
        let mut seconds = Vec::new();
        for step in 0..3000 {
            let now = Instant::ZERO + Duration::from_millis(20 * step);
            if choice.on_sample(now, facts) == Control::Window {
                seconds.push(step / 50);
            }
        }
        seconds.dedup();
        seconds
    }

    #[test]
    fn beside_others_a_path_has_a_window_and_bbr_looks_again_less_and_less_often() {
        let mut facts = ControlFacts {
            rtt: Duration::from_millis(150),
            length: Duration::from_millis(10),
            rate: Rate::from_bits_per_second(2_000_000),
            ..ControlFacts::default()
        };
        let seconds = beside_others(&facts);
        let breaks: Vec<_> = seconds.windows(2).filter(|w| w[1] > w[0] + 1).collect();
        assert_eq!(seconds[0], 2);
        assert_eq!(breaks, [[12, 14], [34, 36]]);
        facts.lossy = true;
        assert!(beside_others(&facts).is_empty());
        facts.lossy = false;
        facts.rtt = Duration::from_millis(50);
        assert!(beside_others(&facts).is_empty());
    }

    #[test]
    fn what_goes_in_turns_gets_a_window_at_once_unless_it_loses_or_is_slow() {
        let mut choice = ControlChoice::default();
        let mut facts = ControlFacts {
            in_turns: false,
            ..in_turns()
        };
        assert_eq!(choice.on_sample(at(0), &facts), Control::Rate);
        facts.in_turns = true;
        assert_eq!(choice.on_sample(at(1), &facts), Control::Window);
        facts.lost_by_medium = 1;
        assert_eq!(choice.on_sample(at(2), &facts), Control::Rate);
        facts.delivered += A_FEW;
        assert_eq!(choice.on_sample(at(3), &facts), Control::Rate);
        assert_eq!(choice.on_sample(at(40), &facts), Control::Window);
        let slow = ControlFacts {
            rate: Rate::from_bits_per_second(400_000),
            ..in_turns()
        };
        assert_eq!(
            ControlChoice::default().on_sample(at(0), &slow),
            Control::Rate
        );
    }

    #[test]
    fn wires_keep_the_window_that_they_begin_with_and_networks_get_bbr() {
        let mut choice = ControlChoice::default();
        let mut facts = ControlFacts::default();
        assert_eq!(choice.on_sample(at(0), &facts), Control::Window);
        facts.rtt = FAR / 2;
        assert_eq!(choice.on_sample(at(1), &facts), Control::Window);
        facts.rtt = FAR;
        assert_eq!(choice.on_sample(at(2), &facts), Control::Rate);
        // A connection that was paced once stays paced, so there is no way back.
        facts.rtt = FAR / 2;
        assert_eq!(choice.on_sample(at(3), &facts), Control::Rate);
    }

    #[test]
    fn a_detour_gets_a_window_between_transfers_once_enough_has_come_without_loss() {
        let mut choice = ControlChoice::default();
        let young = ControlFacts {
            delivered: ENOUGH - 1,
            ..detour()
        };
        assert_eq!(choice.on_sample(at(0), &young), Control::Rate);
        let busy = ControlFacts {
            idle: false,
            ..detour()
        };
        assert_eq!(choice.on_sample(at(1), &busy), Control::Rate);
        assert_eq!(choice.on_sample(at(2), &detour()), Control::Window);
        assert_eq!(choice.on_sample(at(3), &busy), Control::Window);
        // The shorter link is gone: this one carries the calls now.
        let alone = ControlFacts {
            detour: false,
            ..busy
        };
        assert_eq!(choice.on_sample(at(4), &alone), Control::Rate);
    }

    #[test]
    fn a_loss_by_the_medium_calls_for_bbr_and_for_longer_each_time() {
        let mut choice = ControlChoice::default();
        let mut facts = detour();
        assert_eq!(choice.on_sample(at(0), &facts), Control::Window);
        let mut now = 1;
        for distrust in [30, 60, 120, 240, 480, 600, 600] {
            facts.lost_by_medium += 1;
            assert_eq!(choice.on_sample(at(now), &facts), Control::Rate);
            facts.delivered += ENOUGH;
            assert_eq!(
                choice.on_sample(at(now + distrust - 1), &facts),
                Control::Rate
            );
            now += distrust;
            assert_eq!(
                choice.on_sample(at(now), &facts),
                Control::Window,
                "{distrust}"
            );
        }
    }
}
