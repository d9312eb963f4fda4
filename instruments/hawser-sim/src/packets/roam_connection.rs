//! A connection inside the tunnel while links appear and disappear.

use std::time::Duration;

use hawser_scenario::{Phase, Scenario};
use hawser_types::{ByteCount, Rate};

use super::connection::{Connection, End};
use super::plan::Run;
use super::report::RatePhase;
use super::roam;
use super::tunnel::Tunnel;

/// Lets the end of the host that sends fill the tunnel for as long as the scenario's phases last,
/// after the warm-up. `most`: payload that these links carry.
pub(super) fn run<E: End>(
    tunnel: &mut Tunnel,
    run: &Run,
    scenario: &Scenario,
    announced: bool,
    ends: [E; 2],
    most: impl Fn(&[usize]) -> Rate,
) -> Vec<RatePhase> {
    roam::take_absent(tunnel, scenario);
    let zero = tunnel.now() + run.warm_up;
    let phases = scenario.phases();
    let end = zero + phases.last().map_or(run.span, |phase| phase.until);
    let steps = scenario.steps(announced);
    let mut steps = steps.iter().peekable();
    let mut connection = Connection::new(ends, run.from(), 1000);
    let (mut arrived, mut dropped) = (Vec::new(), Vec::new());
    while tunnel.now() < end {
        let now = tunnel.now();
        while let Some(step) = steps.next_if(|step| zero + step.at <= now) {
            roam::make(tunnel, step);
        }
        connection.drive(tunnel);
        let bin = zero + BIN * arrived.len() as u32;
        let due = connection.next_timeout(now).into_iter();
        let due = due.chain(steps.peek().map(|step| zero + step.at));
        let due = due.chain([bin, end]).filter(|at| *at > now);
        tunnel.step(due.min().unwrap_or(end));
        for host in 0..2 {
            while let Some(delivery) = tunnel.take(host) {
                connection.take(tunnel.now(), host, &delivery.packet);
            }
        }
        while zero + BIN * arrived.len() as u32 <= tunnel.now() {
            arrived.push(connection.arrived());
            dropped.push(tunnel.stats(run.from()).sent.dropped);
        }
    }
    let phases = phases.into_iter();
    phases
        .map(|phase| {
            let most = most(&phase.links);
            of(&arrived, &dropped, phase, most)
        })
        .collect()
}

/// What became of a phase. `arrived`, `dropped`: bytes that arrived and packets that the sender's
/// queue dropped by the beginning of each bin. `most`: what the links of the phase carry.
fn of(arrived: &[u64], dropped: &[u64], phase: Phase, most: Rate) -> RatePhase {
    let bin = |at: Duration| (at.as_nanos() / BIN.as_nanos()) as usize;
    let last = arrived.len().saturating_sub(1);
    let (from, until) = (bin(phase.from).min(last), bin(phase.until).min(last));
    let rate = |from: usize, until: usize| {
        let bytes = arrived[until].saturating_sub(arrived[from]);
        Rate::over(ByteCount::new(bytes), BIN * (until - from) as u32).bits_per_second() / 1000
    };
    let most = most.bits_per_second() / 1000;
    let halves = || (from..(until + 1).saturating_sub(HALF)).map(|at| (at, rate(at, at + HALF)));
    let mut full = halves().filter(|(_, rate)| rate * 10 >= most * 9);
    let least = halves().take(HANDOVER).map(|(_, rate)| rate).min();
    RatePhase {
        allowed: most,
        goodput: rate(from, until),
        dropped: dropped[until].saturating_sub(dropped[from]),
        full_after: full.next().map(|(at, _)| {
            let span = BIN * (at - from) as u32;
            span.as_millis() as u64
        }),
        least: least.unwrap_or_default(),
        phase,
    }
}

const BIN: Duration = Duration::from_millis(50);
/// Bins in half a second.
const HALF: usize = 10;
/// Bins at which a half second begins that lies in the two seconds of a handover.
const HANDOVER: usize = 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_is_judged_by_its_half_seconds() {
        // 10 kB in each bin, from the second second on twice as much.
        let arrived: Vec<u64> = (0..101_u64)
            .map(|it| 10_000 * (it + it.saturating_sub(40)))
            .collect();
        let phase = |from, until| Phase {
            from: Duration::from_secs(from),
            until: Duration::from_secs(until),
            links: vec![0],
        };
        let most = Rate::from_bytes_per_second(400_000);
        let dropped: Vec<u64> = (0..101).map(|it| it / 20).collect();
        let second = of(&arrived, &dropped, phase(1, 5), most);
        assert_eq!((second.allowed, second.goodput), (3200, 2800));
        assert_eq!(second.dropped, 4);
        // Eight of ten bins have twice as much.
        assert_eq!((second.full_after, second.least), (Some(900), 1600));
        assert_eq!(of(&arrived, &dropped, phase(0, 1), most).full_after, None);
    }
}
