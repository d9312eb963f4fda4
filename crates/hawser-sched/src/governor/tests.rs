use hawser_types::ByteCount;

use super::*;

/// Behaviour of a link in each second of a test.
#[derive(Clone, Copy)]
struct Behaviour {
    /// Megabytes delivered, and megabytes that others send again.
    delivers: f64,
    again: f64,
    /// Shares of the time.
    blocked: f64,
    stalled: f64,
    /// Megabytes in each second, milliseconds, and share.
    rate: f64,
    rtt: u64,
    loss: f64,
}

const GOOD: Behaviour = Behaviour {
    delivers: 5.0,
    again: 0.0,
    blocked: 0.05,
    stalled: 0.0,
    rate: 5.0,
    rtt: 20,
    loss: 0.0,
};

/// Brings half a megabyte, and stalls links that could carry five for a fifth of the time.
const HARMFUL: Behaviour = Behaviour {
    delivers: 0.5,
    again: 0.1,
    blocked: 0.5,
    stalled: 0.2,
    rate: 0.5,
    rtt: 400,
    loss: 0.15,
};

struct World {
    governor: Governor,
    now: Instant,
    reports: Vec<LinkReport>,
}

const fn link(number: u32) -> LinkIndex {
    LinkIndex::new(number)
}

impl World {
    fn new(links: u32) -> Self {
        let report = |n| LinkReport {
            link: link(n),
            delivered: ByteCount::ZERO,
            sent_again: ByteCount::ZERO,
            blocked: Duration::ZERO,
            stalled: Duration::ZERO,
            rate: Rate::ZERO,
            rtt: Duration::ZERO,
            loss: 0.0,
            demand: true,
            bottleneck: None,
        };
        Self::with(Governor::default(), (1..=links).map(report).collect())
    }

    /// The governor has known the links for a while, and nothing of them.
    fn with(governor: Governor, reports: Vec<LinkReport>) -> Self {
        let links = reports.len();
        let now = Instant::from_nanos(1_000_000_000);
        let mut world = Self {
            governor,
            now,
            reports,
        };
        let nothing = Behaviour {
            delivers: 0.0,
            blocked: 0.0,
            ..GOOD
        };
        world.run(4500, &vec![nothing; links]);
        world
    }

    /// Lets `millis` pass. A link that only probes neither delivers nor harms.
    fn run(&mut self, millis: u64, behaviours: &[Behaviour]) {
        for _ in 0..millis / 50 {
            self.now += Duration::from_millis(50);
            for (report, behaviour) in self.reports.iter_mut().zip(behaviours) {
                let full = self.governor.standing(report.link) == Standing::Full;
                let share = if full { 0.05 } else { 0.0 };
                let bytes = |mega: f64| ByteCount::new((mega * share * 1e6) as u64);
                report.delivered += bytes(behaviour.delivers);
                report.sent_again += bytes(behaviour.again);
                report.blocked += Duration::from_secs_f64(behaviour.blocked * share);
                report.stalled += Duration::from_secs_f64(behaviour.stalled * share);
                report.rate = Rate::from_bytes_per_second((behaviour.rate * 1e6) as u64);
                report.rtt = Duration::from_millis(behaviour.rtt);
                report.loss = behaviour.loss;
            }
            self.governor.on_reports(self.now, &self.reports);
        }
    }

    fn standing(&self, number: u32) -> Standing {
        self.governor.standing(link(number))
    }
}

const PROBING: Standing = Standing::Probing(Harm::LowersGoodput);

#[test]
fn a_link_that_stalls_the_others_for_more_than_it_brings_is_demoted_within_two_seconds() {
    let mut world = World::new(3);
    world.run(1500, &[GOOD, GOOD, HARMFUL]);
    assert_eq!(world.standing(1), Standing::Full);
    assert_eq!(world.standing(2), Standing::Full);
    assert_eq!(world.standing(3), PROBING);
    assert!(world.governor.balance(link(3)).unwrap() < 0.0);
    assert!(world.governor.balance(link(1)).unwrap() > 3e6);
}

#[test]
fn a_slow_link_that_does_no_harm_stays() {
    let slow = Behaviour {
        delivers: 0.2,
        rate: 0.2,
        rtt: 300,
        blocked: 0.1,
        ..GOOD
    };
    let mut world = World::new(2);
    for _ in 0..100 {
        world.run(250, &[GOOD, slow]);
        assert_eq!(world.standing(2), Standing::Full);
    }
}

#[test]
fn a_link_that_brings_little_and_keeps_readers_waiting_is_demoted_where_delay_is_judged() {
    let laggard = Behaviour {
        stalled: 0.0,
        again: 0.0,
        delivers: 0.1,
        blocked: 0.9,
        ..HARMFUL
    };
    let mut world = World::new(2);
    world.run(1800, &[GOOD, laggard]);
    assert_eq!(world.standing(2), Standing::Full);
    let mut world = World::with(Governor::judging_delay(), world.reports);
    world.run(1800, &[GOOD, laggard]);
    assert_eq!(world.standing(2), Standing::Probing(Harm::RaisesDelay));
}

#[test]
fn a_link_that_recovers_is_back_within_two_seconds_however_often_it_failed() {
    let mut world = World::new(2);
    // Long enough for the patience to have grown to a minute.
    world.run(200_000, &[GOOD, HARMFUL]);
    while world.standing(2) == Standing::Full {
        world.run(50, &[GOOD, HARMFUL]);
    }
    world.run(2000, &[GOOD, HARMFUL]);
    assert_eq!(world.standing(2), PROBING);
    world.run(2000, &[GOOD, GOOD]);
    assert_eq!(world.standing(2), Standing::Full);
    world.run(20_000, &[GOOD, GOOD]);
    assert_eq!(world.standing(2), Standing::Full);
}

#[test]
fn a_link_that_stays_bad_is_tried_ever_more_seldom() {
    let mut world = World::new(2);
    let mut full = [0; 2];
    for half in &mut full {
        for _ in 0..2000 {
            world.run(50, &[GOOD, HARMFUL]);
            *half += u32::from(world.standing(2) == Standing::Full);
        }
    }
    assert!(full[1] < full[0] / 2, "{full:?}");
    assert!(full[1] < 100, "less than a twentieth of the time: {full:?}");
}

#[test]
fn a_demotion_that_makes_things_worse_is_taken_back() {
    let mut world = World::new(2);
    world.run(1000, &[GOOD, HARMFUL]);
    assert_eq!(world.standing(2), PROBING);
    // The books were wrong: without the link the other delivers less than before.
    let worse = Behaviour {
        delivers: 1.0,
        ..GOOD
    };
    world.run(1500, &[worse, HARMFUL]);
    assert_eq!(world.standing(2), Standing::Full);
    world.run(10_000, &[GOOD, HARMFUL]);
    assert_eq!(world.standing(2), Standing::Full);
}

#[test]
fn without_demand_no_link_is_judged() {
    let mut world = World::new(2);
    world.reports.iter_mut().for_each(|r| r.demand = false);
    world.run(10_000, &[GOOD, HARMFUL]);
    assert_eq!(world.standing(2), Standing::Full);
}

#[test]
fn when_the_best_link_goes_one_of_the_others_is_used_fully() {
    let mut world = World::new(2);
    world.run(1500, &[GOOD, HARMFUL]);
    assert_eq!(world.standing(2), PROBING);
    world.reports.remove(0);
    world.run(50, &[HARMFUL]);
    assert_eq!(world.standing(2), Standing::Full);
}

#[test]
fn links_that_share_a_bottleneck_count_once() {
    let mut world = World::new(3);
    world.run(500, &[GOOD, GOOD, GOOD]);
    assert_eq!(world.governor.capacity().bytes_per_second(), 15_000_000);
    world.reports[0].bottleneck = Some(0);
    world.reports[2].bottleneck = Some(0);
    world.run(500, &[GOOD, GOOD, GOOD]);
    assert_eq!(world.governor.capacity().bytes_per_second(), 10_000_000);
}

/// Whatever links do, one is always used fully, and the one that delivers most is never demoted.
#[test]
fn never_all_and_never_the_best() {
    let mut seed = 9_u64;
    let mut random = move || {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 40) as f64 / (1_u64 << 24) as f64
    };
    let mut demoted = 0;
    for _ in 0..100 {
        let behaviours: Vec<Behaviour> = (0..4)
            .map(|_| Behaviour {
                delivers: random() * 5.0,
                again: random() * 2.0,
                blocked: random(),
                stalled: random() * 0.5,
                rate: random() * 5.0,
                rtt: (random() * 500.0) as u64,
                loss: random() * 0.2,
            })
            .collect();
        let most = behaviours.iter().map(|b| b.delivers).fold(0.0, f64::max);
        let mut world = World::new(4);
        for _ in 0..40 {
            world.run(250, &behaviours);
            for (report, behaviour) in world.reports.iter().zip(&behaviours) {
                let full = world.governor.standing(report.link) == Standing::Full;
                assert!(full || behaviour.delivers < most);
                demoted += u32::from(!full);
            }
        }
    }
    assert!(demoted > 1000, "the test shows little: {demoted}");
}

#[test]
fn links_that_fail_together_are_not_all_given_up() {
    let mut world = World::new(3);
    for _ in 0..200 {
        world.run(250, &[HARMFUL; 3]);
        assert!((1..=3).any(|n| world.standing(n) == Standing::Full));
    }
}
