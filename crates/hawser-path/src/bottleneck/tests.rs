use super::*;

/// A queue that a little more enters than leaves, by random bursts, bounded as buffers are: full
/// for most of the time, with dips.
struct Queue {
    seed: u64,
    length: f64,
    load: f64,
}

impl Queue {
    fn new(seed: u64) -> Self {
        Self {
            seed,
            length: 0.02,
            load: 0.0,
        }
    }

    fn random(&mut self) -> f64 {
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 40) as f64 / (1_u64 << 24) as f64
    }

    /// The delay after ten more milliseconds, in seconds.
    fn step(&mut self) -> f64 {
        // The load wanders, so that queues stand for a second or so.
        self.load = self.load * 0.98 + (self.random() - 0.5) * 0.006;
        self.length =
            (self.length + self.load * 0.2 + (self.random() - 0.25) * 0.004).clamp(0.0, 0.06);
        self.length
    }
}

const fn link(number: u32) -> LinkIndex {
    LinkIndex::new(number)
}

/// Runs `seconds`; `delays` gives each link's delay and loss in a step of 10 ms.
fn run<const N: usize>(seconds: u64, mut delays: impl FnMut() -> [(f64, bool); N]) -> Vec<Group> {
    let mut bottlenecks = Bottlenecks::default();
    let mut now = Instant::ZERO;
    for _ in 0..seconds * 100 {
        now += Duration::from_millis(10);
        for (n, (delay, lost)) in delays().into_iter().enumerate() {
            let link = link(n as u32);
            bottlenecks.on_delay(now, link, Duration::from_secs_f64(delay));
            bottlenecks.on_segments(now, link, 1, u64::from(lost));
        }
    }
    bottlenecks.groups(now)
}

#[test]
fn links_that_queue_in_one_place_are_found_and_the_others_left_alone() {
    let mut found = 0;
    for seed in 0..20 {
        let (mut shared, mut own) = (Queue::new(seed), Queue::new(seed + 1000));
        let mut noise = Queue::new(seed + 2000);
        let groups = run(18, || {
            let common = shared.step();
            let jitter = noise.random() * 0.003;
            // Paths of other lengths, and a link with a queue of its own.
            [
                (0.01 + common, false),
                (0.04 + common + jitter, false),
                (0.02 + own.step(), false),
            ]
        });
        for group in &groups {
            assert_eq!(group.links, [link(0), link(1)], "seed {seed}");
            assert!(group.confidence > 0.9);
        }
        found += groups.len();
    }
    assert!(found >= 16, "{found} of 20");
}

#[test]
fn links_that_are_alike_and_share_nothing_are_hardly_ever_grouped() {
    let mut grouped = 0;
    for seed in 0..100 {
        let (mut a, mut b) = (Queue::new(seed), Queue::new(seed + 500));
        grouped += run(18, || [(a.step(), false), (b.step(), false)]).len();
    }
    assert!(grouped <= 5, "{grouped} of 100");
}

#[test]
fn links_that_one_sender_begins_to_fill_at_the_same_time_are_not_grouped_for_that() {
    for seed in 0..20 {
        let (mut a, mut b) = (Queue::new(seed), Queue::new(seed + 500));
        let mut steps = 0;
        let groups = run(18, || {
            steps += 1;
            let ours = if steps > 400 { 0.1 } else { 0.0 };
            [(ours + a.step(), false), (ours + b.step(), false)]
        });
        assert_eq!(groups, [], "seed {seed}");
    }
}

#[test]
fn links_without_congestion_share_no_bottleneck() {
    let mut noise = Queue::new(7);
    let groups = run(18, || {
        // Rare spikes above a steady floor, the same on both: skewed the other way.
        let spike = if noise.random() > 0.9 { 0.02 } else { 0.0 };
        [(0.02 + spike, false), (0.03 + spike, false)]
    });
    assert_eq!(groups, []);
}

#[test]
fn heavy_loss_is_congestion_whatever_the_skewness() {
    let mut noise = Queue::new(3);
    let groups = run(18, || {
        let spike = noise.random().powi(4) * 0.02;
        let lost = noise.random() > 0.85;
        [(0.02 + spike, lost), (0.05 + spike, lost)]
    });
    assert_eq!(groups.len(), 1);
}

#[test]
fn nothing_is_said_before_enough_was_seen_nor_of_what_is_long_over() {
    let mut shared = Queue::new(1);
    let both = |delay: f64| [(delay, true), (0.01 + delay, true)];
    assert_eq!(run(5, || both(shared.step())), []);
    let mut bottlenecks = Bottlenecks::default();
    let mut now = Instant::ZERO;
    for _ in 0..2000 {
        now += Duration::from_millis(10);
        let delay = Duration::from_secs_f64(shared.step());
        for link in [link(1), link(2)] {
            bottlenecks.on_delay(now, link, delay);
            bottlenecks.on_segments(now, link, 9, 1);
        }
    }
    assert_eq!(bottlenecks.groups(now).len(), 1);
    assert_eq!(bottlenecks.groups(now + Duration::from_secs(20)), []);
    let mut without = bottlenecks.clone();
    without.remove(link(2));
    assert_eq!(without.groups(now), []);
}
