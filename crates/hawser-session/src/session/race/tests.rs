use super::*;

/// What the carriers would deliver, in bytes a second, and how a transfer goes.
struct World {
    race: Race,
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
            race: Race::default(),
            now: Instant::from_nanos(1_000_000_000),
            rates: [tcp, sctp],
            look: Look {
                demand: true,
                held: [0; 2],
                sound: [true; 2],
                in_flight: [0; 2],
                round_trip: Duration::from_millis(40),
            },
            used: [Duration::ZERO; 2],
            trials: 0,
        }
    }

    /// A look each 20 ms. What was under way on the other carrier drains meanwhile.
    fn run(&mut self, millis: u64) {
        for _ in 0..millis / 20 {
            let step = Duration::from_millis(20);
            self.now += step;
            let used = index(self.race.in_use());
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

    fn chosen(&self) -> (Carrier, CarrierReason) {
        (self.race.chosen(), self.race.reason())
    }
}

#[test]
fn what_delivers_more_is_kept_after_a_trial() {
    let mut world = World::new(1_000_000, 1_200_000);
    // A start that is slow says nothing of what follows.
    world.rates[0] = 100_000;
    world.run(300);
    world.rates[0] = 1_000_000;
    world.run(900);
    assert_eq!(world.chosen(), (Carrier::Tcp, CarrierReason::First));
    assert!(!world.race.is_trying());
    world.run(200);
    assert!(world.race.is_trying());
    assert_eq!(world.race.in_use(), Carrier::Association);
    // What is small waits for the outcome where it was.
    assert_eq!(world.race.chosen(), Carrier::Tcp);
    world.run(2000);
    assert_eq!(
        world.chosen(),
        (Carrier::Association, CarrierReason::Faster)
    );
    let measured = world.race.measured().map(|rate| {
        let rate = rate.unwrap().bytes_per_second();
        (rate + 5000) / 10_000
    });
    assert_eq!(measured, [100, 120]);
}

#[test]
fn a_little_more_is_not_worth_a_change() {
    let mut world = World::new(1_000_000, 1_030_000);
    world.run(10_000);
    assert_eq!(world.trials, 1);
    assert_eq!(world.chosen(), (Carrier::Tcp, CarrierReason::Faster));
}

#[test]
fn a_trial_of_what_is_much_worse_ends_early_and_comes_less_and_less_often() {
    let mut world = World::new(1_000_000, 100_000);
    world.run(10_000);
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
    assert_eq!(world.race.chosen(), Carrier::Tcp);
    world.rates = [1_000_000, 2_000_000];
    world.run(150_000);
    assert_eq!(world.race.chosen(), Carrier::Association);
    world.rates = [4_000_000, 2_000_000];
    world.run(300_000);
    assert_eq!(world.race.chosen(), Carrier::Tcp);
}

#[test]
fn what_has_become_much_worse_is_left_sooner() {
    let mut world = World::new(1_000_000, 900_000);
    world.run(500_000);
    let waits = world.race.pause;
    assert!(waits >= RETRY * 4, "{waits:?}");
    world.rates = [300_000, 900_000];
    world.run(35_000);
    assert_eq!(world.race.chosen(), Carrier::Association);
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
    world.run(1500);
    assert!(world.race.is_trying());
    world.look.demand = false;
    world.run(600);
    assert!(!world.race.is_trying());
    assert_eq!(world.race.in_use(), Carrier::Tcp);
    // One that stops for a moment goes on.
    world.look.demand = true;
    world.run(1500);
    assert!(world.race.is_trying());
    world.look.demand = false;
    world.run(100);
    world.look.demand = true;
    world.run(3000);
    assert_eq!(world.race.chosen(), Carrier::Association);
}

#[test]
fn what_falls_silent_is_left_at_once() {
    let mut world = World::new(1_000_000, 1_200_000);
    world.run(5_000);
    assert_eq!(world.race.in_use(), Carrier::Association);
    world.look.sound[1] = false;
    world.run(20);
    assert_eq!(world.chosen(), (Carrier::Tcp, CarrierReason::Silent));
    world.look.sound[1] = true;
    world.run(20_000);
    assert_eq!(world.race.chosen(), Carrier::Tcp);
    world.run(20_000);
    assert_eq!(world.race.chosen(), Carrier::Association);
    // With nothing else there is no choice.
    world.look.sound = [false; 2];
    world.run(1000);
    assert_eq!(world.race.in_use(), Carrier::Association);
}

#[test]
fn a_trial_of_what_falls_silent_is_over_at_once() {
    let mut world = World::new(1_000_000, 1_200_000);
    world.run(1500);
    assert!(world.race.is_trying());
    world.look.sound[1] = false;
    world.run(20);
    assert_eq!(world.race.in_use(), Carrier::Tcp);
    world.look.sound[1] = true;
    world.run(10_000);
    assert_eq!(world.trials, 1);
}

#[test]
fn what_the_first_left_under_way_does_not_count() {
    let mut world = World::new(1_000_000, 800_000);
    world.run(1500);
    // Its queue still drains into the peer's hands.
    for _ in 0..60 {
        assert!(world.race.is_trying());
        world.look.in_flight[0] = 500_000;
        world.look.held[0] += 100_000;
        world.run(20);
    }
    world.run(3000);
    assert_eq!(world.race.chosen(), Carrier::Tcp);
}
