use std::fmt::Write;

use hawser_scenario::{Direction, Scenario, no_files};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// The link set of a seed, and which way its payload goes.
pub fn draw(seed: u64) -> (Scenario, Direction) {
    let (text, direction) = text(seed);
    let name = format!("hunt-{seed}");
    match Scenario::parse(&name, &text, &no_files) {
        Ok(scenario) => (scenario, direction),
        Err(error) => unreachable!("drawn from {seed}: {error}\n{text}"),
    }
}

/// The same as a scenario file.
pub fn text(seed: u64) -> (String, Direction) {
    let rng = &mut SmallRng::seed_from_u64(seed ^ SALT);
    let count = [1, 2, 2, 2, 2, 3, 3, 4, 5, 6][rng.random_range(0..10)];
    let direction = if rng.random_bool(0.5) {
        Direction::Put
    } else {
        Direction::Get
    };
    let mut links = String::new();
    let mut total = 0;
    for _ in 0..count {
        total += link(rng, direction, &mut links);
    }
    let payload = (total / 8 * SECONDS).max(MIN_PAYLOAD);
    let mut text = format!(
        "summary = \"Drawn by hawser-sim hunt, seed {seed}\"\npayload = \"{payload}B\"\n\
         direction = \"{}\"\nseed = {}\n",
        direction.name(),
        seed % 1000 + 1
    );
    text += &links;
    if count > 1 && rng.random_bool(0.25) {
        event(rng, count, &mut text);
    }
    (text, direction)
}

/// Adds a link; returns its rate in the direction that counts, in bit/s.
fn link(rng: &mut SmallRng, direction: Direction, text: &mut String) -> u64 {
    let mut rate = round(between(rng, 60_000.0, 100_000_000.0));
    let delay = round(between(rng, 1_000.0, 320_000.0));
    let queue = round(between(rng, 10_000.0, 2_000_000.0));
    let _ = write!(
        text,
        "\n[[link]]\ndelay = \"{delay}us\"\nqueue = \"{queue}us\"\n"
    );
    if rng.random_bool(0.4) {
        loss(rng, text);
    }
    if rng.random_bool(0.25) {
        let jitter = delay * rng.random_range(1..=50) / 100;
        let _ = writeln!(text, "jitter = \"{jitter}us\"");
    }
    match rng.random_range(0..20) {
        0 | 1 => {
            let turn = round(between(rng, 20.0, 400.0));
            let turns = format!("\"{turn}ms..{}ms\"", turn * 2);
            let _ = writeln!(text, "service = {{ on = {turns}, off = {turns} }}");
        }
        // A cellular link that falls silent now and then.
        2 => {
            let on = round(between(rng, 1_000.0, 5_000.0));
            let off = round(between(rng, 100.0, 1_500.0));
            let _ = writeln!(
                text,
                "service = {{ on = \"{on}ms..{}ms\", off = \"{off}ms..{}ms\" }}",
                on * 2,
                off * 2
            );
        }
        3 => {
            rate = trace(rng, rate, text);
            return rate;
        }
        _ => {}
    }
    let _ = writeln!(text, "rate = \"{rate}bit/s\"");
    if rng.random_bool(0.3) {
        // The way back is often the thinner one.
        let back = match direction {
            Direction::Put => "down",
            Direction::Get => "up",
        };
        let thin = round(rate as f64 / between(rng, 1.0, 12.0)).max(30_000);
        let _ = writeln!(text, "{back} = {{ rate = \"{thin}bit/s\" }}");
    }
    rate
}

/// Losses by themselves, or in a row.
fn loss(rng: &mut SmallRng, text: &mut String) {
    let loss = round(between(rng, 10.0, 10_000.0));
    let mean = format!("{}.{:03}%", loss / 1000, loss % 1000);
    if rng.random_bool(0.3) {
        let burst = round(between(rng, 2.0, 64.0));
        let _ = writeln!(text, "loss = {{ mean = \"{mean}\", burst = {burst} }}");
    } else {
        let _ = writeln!(text, "loss = \"{mean}\"");
    }
}

/// A rate that wanders around `rate`; returns its mean.
fn trace(rng: &mut SmallRng, rate: u64, text: &mut String) -> u64 {
    let (mut bits, mut millis) = (0, 0);
    text.push_str("trace = [\n");
    for _ in 0..rng.random_range(4..=16) {
        let span = round(between(rng, 100.0, 2_000.0));
        let step = if rng.random_bool(0.1) {
            0
        } else {
            round(rate as f64 * between(rng, 0.25, 2.0))
        };
        let _ = writeln!(
            text,
            "    {{ for = \"{span}ms\", rate = \"{step}bit/s\" }},"
        );
        bits += step * span;
        millis += span;
    }
    // One piece at least serves.
    let _ = writeln!(text, "    {{ for = \"1s\", rate = \"{rate}bit/s\" }},\n]");
    (bits + rate * 1000) / (millis + 1000)
}

fn event(rng: &mut SmallRng, links: u64, text: &mut String) {
    let (at, link) = (rng.random_range(500..5000), rng.random_range(1..=links));
    let _ = write!(text, "\n[[event]]\nat = \"{at}ms\"\nlink = {link}\n");
    let span = round(between(rng, 100.0, 6000.0));
    match rng.random_range(0..3) {
        0 => {
            let _ = writeln!(text, "action = \"black-hole\"\nfor = \"{span}ms\"");
        }
        1 => {
            let _ = writeln!(text, "action = \"carrier-down\"\nfor = \"{span}ms\"");
        }
        _ => {
            let _ = writeln!(text, "action = \"address-change\"");
        }
    }
}

/// Every order of magnitude as often as any other.
fn between(rng: &mut SmallRng, low: f64, high: f64) -> f64 {
    // By roots and products: those are exact on every machine, logarithms are not.
    let mut value = low;
    let mut span = high / low;
    for _ in 0..STEPS {
        span = span.sqrt();
        if rng.random_bool(0.5) {
            value *= span;
        }
    }
    value
}

/// Two digits, then zeros.
fn round(value: f64) -> u64 {
    let whole = value.round() as u64;
    let mut unit = 1;
    while whole / unit >= 100 {
        unit *= 10;
    }
    (whole + unit / 2) / unit * unit
}

/// Keeps seeds that follow one another from giving sets that are alike.
pub(super) const SALT: u64 = 0x9e37_79b9_7f4a_7c15;
/// How long the links together carry the payload at their rates.
const SECONDS: u64 = 8;
const MIN_PAYLOAD: u64 = 100_000;
const STEPS: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_drawn_set_is_a_valid_scenario_and_the_same_each_time() {
        for seed in 0..2000 {
            let (scenario, direction) = draw(seed);
            assert_eq!(draw(seed), (scenario.clone(), direction));
            assert!(scenario.links.len() <= 6);
        }
    }

    #[test]
    fn numbers_keep_two_digits() {
        assert_eq!(
            [7, 64, 649, 651, 9_960].map(|n| round(n as f64)),
            [7, 64, 650, 650, 10_000]
        );
    }
}
