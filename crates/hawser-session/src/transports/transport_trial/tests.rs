use super::*;

/// The transports' rates, in bytes a second, and the course of a transfer. TCP was chosen while the
/// association was silent, so that trials are of the association.
struct World {
    race: TransportTrial,
    now: Instant,
    rates: [u64; 2],
    look: Look,
    /// How long each was in use for bulk.
    used: [Duration; 2],
    trials: u32,
}

impl World {
    fn new(tcp: u64, sctp: u64) -> Self {
        Self {
            race: TransportTrial {
                chosen: Transport::Tcp,
                was_met: true,
                ..TransportTrial::new()
            },
            now: Instant::from_nanos(1_000_000_000),
            rates: [tcp, sctp],
            look: Look {
                demand: true,
                held: [0; 2],
                sound: [true; 2],
                in_flight: [0; 2],
                round_trip: Duration::from_millis(40),
                longest_path: Duration::from_millis(30),
                in_turns: false,
                is_policed: false,
            },
            used: [Duration::ZERO; 2],
            trials: 0,
        }
    }

    /// A look each 20 ms. What was in flight on the other transport drains meanwhile.
    fn run(&mut self, millis: u64) {
        for _ in 0..millis / 20 {
            let step = Duration::from_millis(20);
            self.now += step;
            let used = self.race.in_use().index();
            if self.look.demand {
                self.used[used] += step;
                self.look.held[used] += self.rates[used] / 50;
                self.look.in_flight[used] = self.rates[used] / 10;
            }
            self.look.in_flight[1 - used] /= 2;
            let tried = self.race.is_trying();
            self.race.on_look(self.now, &self.look);
            self.trials += u32::from(!tried && self.race.is_trying());
        }
    }

    fn chosen(&self) -> (Transport, TransportReason) {
        (self.race.chosen(), self.race.reason())
    }

    /// Until a trial begins, for so many seconds at most. Whether one did.
    fn until_trial(&mut self, seconds: u64) -> bool {
        for _ in 0..seconds * 50 {
            if self.race.is_trying() {
                break;
            }
            self.run(20);
        }
        self.race.is_trying()
    }
}

#[test]
fn what_delivers_more_is_kept_after_a_trial() {
    let mut world = World::new(1_000_000, 1_200_000);
    // A start that is slow says nothing of what follows.
    world.rates[0] = 100_000;
    world.run(300);
    world.rates[0] = 1_000_000;
    world.run(9_000);
    assert_eq!(world.chosen(), (Transport::Tcp, TransportReason::First));
    assert!(world.until_trial(15));
    assert_eq!(world.race.in_use(), Transport::Association);
    // Small transfers stay where they were until the outcome.
    assert_eq!(world.race.chosen(), Transport::Tcp);
    world.run(2000);
    assert_eq!(
        world.chosen(),
        (Transport::Association, TransportReason::Faster)
    );
    let measured = world.race.measured().map(|rate| {
        let rate = rate.unwrap().bytes_per_second();
        (rate + 5000) / 10_000
    });
    assert_eq!(measured, [100, 120]);
}

#[test]
fn a_little_more_is_not_worth_a_change() {
    let mut world = World::new(1_000_000, 1_020_000);
    world.run(30_000);
    assert_eq!(world.trials, 1);
    assert_eq!(world.chosen(), (Transport::Tcp, TransportReason::Faster));
}

#[test]
fn what_a_network_hinders_is_compared_at_once() {
    let policed = || {
        let mut world = World::new(1_000_000, 100_000);
        world.race = TransportTrial::new();
        world.look.is_policed = true;
        world
    };
    let mut world = policed();
    world.run(3000);
    assert_eq!(world.chosen(), (Transport::Tcp, TransportReason::Faster));
    assert!(
        world.used[1] <= Duration::from_millis(600),
        "{:?}",
        world.used
    );

    // Properties of the links count less than measured rates.
    world.look.in_turns = true;
    world.run(3000);
    assert_eq!(world.race.chosen(), Transport::Tcp);

    // Rates that may only be the start of the association are no reason to leave it.
    let mut world = policed();
    world.rates[0] = 140_000;
    world.run(3000);
    assert_eq!(world.trials, 1);
    assert_eq!(world.race.chosen(), Transport::Association);
    // A sign that is there all the time costs little.
    world.run(600_000);
    assert!(world.trials <= 8, "{}", world.trials);
}

/// The pause after a trial holds for trials out of curiosity only.
#[test]
fn what_a_network_begins_to_hinder_is_compared_soon_after_another_trial() {
    // The first such trial waits for no time that would pay for it.
    for earlier in [3, 10, 19, 60] {
        let mut world = World::new(1_000_000, 1_000_000);
        world.race = TransportTrial::new();
        world.run(earlier * 1000);
        assert_eq!(world.race.chosen(), Transport::Association);
        assert_eq!(world.trials > 0, earlier > 18, "{}", world.trials);
        let before = world.used;
        (world.rates[1], world.look.is_policed) = (100_000, true);
        world.run(4000);
        assert_eq!(world.chosen(), (Transport::Tcp, TransportReason::Faster));
        let slow = world.used[1] - before[1];
        assert!(slow <= Duration::from_millis(900), "{earlier}: {slow:?}");
    }
}

/// The sign of a limit comes before the rate of a quarter of a second shows it. TCP would never
/// deliver 1.5 times what the association did without the limit.
#[test]
fn what_is_compared_is_the_rate_under_the_limit() {
    for early in [0, 60, 120, 180, 240] {
        let mut world = World::new(1_000_000, 1_000_000);
        world.race = TransportTrial::new();
        world.run(5000);
        world.look.is_policed = true;
        world.run(early);
        world.rates[1] = 25_000;
        let before = world.used;
        world.run(3000);
        assert_eq!(world.chosen(), (Transport::Tcp, TransportReason::Faster));
        let slow = world.used[1] - before[1];
        assert!(slow <= Duration::from_millis(900), "{early}: {slow:?}");
        assert_eq!(world.trials, 1);
    }
}

/// Data in flight on a limited association takes seconds, and little of it from TCP.
#[test]
fn a_trial_does_not_wait_for_what_is_stuck_behind_a_limit() {
    let mut world = World::new(1_000_000, 100_000);
    world.race = TransportTrial::new();
    world.look.is_policed = true;
    while world.race.chosen() == Transport::Association && world.used[0] < Duration::from_secs(9) {
        world.run(20);
        world.look.in_flight[1] = 200_000;
    }
    assert!(world.used[0] < Duration::from_secs(2), "{:?}", world.used);
}

#[test]
fn what_falls_time_and_again_costs_little() {
    let mut world = World::new(1000, 1_000_000);
    world.race = TransportTrial::new();
    world.look.is_policed = true;
    for _ in 0..360 {
        world.rates[1] = 1_000_000;
        world.run(5000);
        world.rates[1] = 100_000;
        world.run(5000);
    }
    assert_eq!(world.race.chosen(), Transport::Association);
    assert!(world.trials > 60, "{}", world.trials);
    assert!(world.used[0] < world.used[1] / 25, "{:?}", world.used);
}

#[test]
fn what_still_grows_is_not_compared() {
    let mut world = World::new(100_000, 1_000_000);
    for _ in 0..60 {
        world.rates[0] += world.rates[0] / 25;
        world.run(1000);
    }
    assert_eq!(world.trials, 0);
    assert!(world.until_trial(5));
    // Neither is what is tried, as long as that costs little.
    world.rates[1] = world.rates[0] / 10 * 7;
    for _ in 0..10 {
        world.rates[1] += world.rates[0] / 20;
        world.run(250);
    }
    world.run(2000);
    assert_eq!(world.race.chosen(), Transport::Association);
}

#[test]
fn where_a_way_is_long_the_association_comes_first_until_something_better_is_measured() {
    let mut world = World::new(1_000_000, 700_000);
    world.look.longest_path = Duration::from_millis(600);
    world.look.round_trip = Duration::from_millis(700);
    world.look.sound[1] = false;
    world.run(100);
    assert_eq!(world.race.chosen(), Transport::Tcp);
    world.look.sound[1] = true;
    world.run(20);
    assert_eq!(
        world.chosen(),
        (Transport::Association, TransportReason::First)
    );
    assert!(world.until_trial(300));
    world.run(20_000);
    assert_eq!(world.chosen(), (Transport::Tcp, TransportReason::Faster));
    world.run(600_000);
    assert_eq!(world.race.chosen(), Transport::Tcp);
}

#[test]
fn the_association_comes_first_unless_it_does_not_come() {
    let fresh = || World {
        race: TransportTrial::new(),
        ..World::new(300_000, 1_000_000)
    };
    let mut world = fresh();
    world.run(15_000);
    assert_eq!(world.race.chosen(), Transport::Association);
    assert_eq!(world.used[0], Duration::ZERO);

    let mut without = fresh();
    without.look.sound[1] = false;
    without.run(20);
    assert_eq!(without.race.in_use(), Transport::Tcp);
    without.run(2000);
    assert_eq!(without.chosen(), (Transport::Tcp, TransportReason::Silent));

    // One that comes in the middle of a transfer has the next one.
    without.look.sound[1] = true;
    without.run(5000);
    assert_eq!(without.race.in_use(), Transport::Tcp);
    without.look.demand = false;
    without.run(20);
    let first = (Transport::Association, TransportReason::First);
    assert_eq!(without.chosen(), first);
}

#[test]
fn what_was_silent_before_anything_was_sent_has_the_first_transfer() {
    let mut world = World::new(300_000, 1_000_000);
    world.race = TransportTrial::new();
    world.look.demand = false;
    world.look.sound[1] = false;
    world.run(20);
    // It comes, and nothing is looked at in between.
    assert_eq!(world.race.wanted(), Transport::Association);
}

#[test]
fn on_slow_links_a_long_way_is_no_reason() {
    let mut world = World::new(20_000, 20_000);
    world.look.longest_path = Duration::from_millis(600);
    world.look.in_turns = true;
    world.run(30_000);
    assert_eq!(world.race.chosen(), Transport::Tcp);
    assert_eq!(world.used[1], Duration::ZERO);
}

#[test]
fn where_a_link_serves_in_turns_the_association_is_taken_without_a_trial_once() {
    let mut world = World::new(1_000_000, 1_000_000);
    world.run(5000);
    world.look.in_turns = true;
    world.run(20);
    assert_eq!(
        world.chosen(),
        (Transport::Association, TransportReason::First)
    );
    world.look.sound[1] = false;
    world.run(1500);
    world.look.sound[1] = true;
    world.run(5000);
    assert_eq!(world.chosen(), (Transport::Tcp, TransportReason::Silent));
    assert_eq!(world.trials, 0);
}

#[test]
fn what_trials_cost_is_a_small_part_of_the_time() {
    for sctp in [100_000, 900_000, 970_000, 1_020_000] {
        let mut world = World::new(1_000_000, sctp);
        world.run(3_600_000);
        let missed = world.used[1].mul_f64(1.0 - (sctp as f64 / 1e6).min(1.0));
        let whole = world.used[0] + world.used[1];
        assert!(missed <= whole / 60, "{sctp}: {missed:?} of {whole:?}");
        assert!(world.trials >= 3, "{sctp}: {}", world.trials);
    }
}

#[test]
fn rates_that_go_up_and_down_alike_are_no_reason_to_change() {
    let mut world = World::new(0, 0);
    for second in 0..600 {
        let rate = [600_000, 1_100_000, 900_000, 1_400_000][second % 4];
        world.rates = [rate; 2];
        world.run(1000);
    }
    assert!(world.trials >= 1);
    assert_eq!(world.race.chosen(), Transport::Tcp);
}

#[test]
fn on_slow_links_a_trial_waits_for_longer() {
    let mut world = World::new(20_000, 40_000);
    world.run(60_000);
    assert_eq!(world.trials, 0);
    assert!(world.until_trial(400));
    world.run(60_000);
    assert_eq!(world.race.chosen(), Transport::Association);
}

#[test]
fn a_trial_of_what_is_much_worse_ends_early_and_comes_less_and_less_often() {
    let mut world = World::new(1_000_000, 100_000);
    world.run(25_000);
    assert_eq!(world.trials, 1);
    assert!(
        world.used[1] <= Duration::from_millis(700),
        "{:?}",
        world.used
    );
    world.run(590_000);
    assert!((3..=6).contains(&world.trials), "{}", world.trials);
    world.run(3_000_000);
    assert!(world.trials <= 12, "{}", world.trials);
    assert!(world.used[0] > world.used[1] * 400, "{:?}", world.used);
}

#[test]
fn the_other_is_tried_again_and_taken_when_it_has_become_better() {
    let mut world = World::new(1_000_000, 900_000);
    world.run(60_000);
    assert_eq!(world.race.chosen(), Transport::Tcp);
    world.rates = [1_000_000, 2_000_000];
    world.run(150_000);
    assert_eq!(world.race.chosen(), Transport::Association);
    world.rates = [4_000_000, 2_000_000];
    world.run(300_000);
    assert_eq!(world.race.chosen(), Transport::Tcp);
}

#[test]
fn what_has_become_much_worse_is_left_sooner() {
    let mut world = World::new(1_000_000, 900_000);
    world.run(500_000);
    let waits = world.race.pause;
    assert!(waits >= RETRY * 4, "{waits:?}");
    world.rates = [300_000, 900_000];
    world.run(35_000);
    assert_eq!(world.race.chosen(), Transport::Association);
}

#[test]
fn short_transfers_see_no_trial() {
    let mut world = World::new(1_000_000, 5_000_000);
    for _ in 0..100 {
        world.look.demand = true;
        world.run(900);
        world.look.demand = false;
        world.run(600);
    }
    assert_eq!((world.trials, world.used[1]), (0, Duration::ZERO));
}

#[test]
fn a_transfer_that_ends_ends_its_trial() {
    let mut world = World::new(1_000_000, 5_000_000);
    assert!(world.until_trial(30));
    world.look.demand = false;
    world.run(600);
    assert!(!world.race.is_trying());
    assert_eq!(world.race.in_use(), Transport::Tcp);
    // One that stops for a moment goes on.
    world.look.demand = true;
    assert!(world.until_trial(30));
    world.look.demand = false;
    world.run(100);
    world.look.demand = true;
    world.run(3000);
    assert_eq!(world.race.chosen(), Transport::Association);
}

#[test]
fn what_falls_silent_is_kept_where_the_other_delivers_nothing_either() {
    let mut world = World::new(0, 1_200_000);
    world.race = TransportTrial::new();
    world.run(2_000);
    world.look.sound[1] = false;
    world.run(5_000);
    assert_eq!(world.race.in_use(), Transport::Tcp);
    world.look.sound[1] = true;
    world.run(20);
    assert_eq!(world.race.in_use(), Transport::Association);
}

#[test]
fn what_falls_silent_is_left_at_once_and_for_good_when_that_lasts() {
    let mut world = World::new(1_000_000, 1_200_000);
    world.run(25_000);
    assert_eq!(world.race.in_use(), Transport::Association);
    for (millis, left_for) in [(500, Transport::Association), (1_200, Transport::Tcp)] {
        world.look.sound[1] = false;
        world.run(20);
        assert_eq!(world.race.in_use(), Transport::Tcp);
        world.run(millis);
        world.look.sound[1] = true;
        world.run(20);
        assert_eq!(world.race.in_use(), left_for);
        world.run(5_000);
    }
    assert_eq!(world.chosen(), (Transport::Tcp, TransportReason::Silent));
    world.run(15_000);
    assert_eq!(world.race.chosen(), Transport::Tcp);
    world.run(25_000);
    assert_eq!(world.race.chosen(), Transport::Association);
    // With nothing else there is no choice.
    world.look.sound = [false; 2];
    world.run(1000);
    assert_eq!(world.race.in_use(), Transport::Association);
}

#[test]
fn a_trial_of_what_falls_silent_is_over_at_once() {
    let mut world = World::new(1_000_000, 1_200_000);
    assert!(world.until_trial(30));
    world.look.sound[1] = false;
    world.run(20);
    assert_eq!(world.race.in_use(), Transport::Tcp);
    world.look.sound[1] = true;
    world.run(10_000);
    assert_eq!(world.trials, 1);
}

#[test]
fn what_the_first_left_in_flight_does_not_count() {
    let mut world = World::new(1_000_000, 800_000);
    assert!(world.until_trial(30));
    // Its queue still drains into the peer's hands.
    for _ in 0..60 {
        assert!(world.race.is_trying());
        world.look.in_flight[0] = 500_000;
        world.look.held[0] += 100_000;
        world.run(20);
    }
    world.run(3000);
    assert_eq!(world.race.chosen(), Transport::Tcp);
}
