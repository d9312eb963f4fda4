//! A flow of UDP while links appear and disappear.

use hawser_scenario::{Action, Doing, Phase, Scenario, Step};
use hawser_types::Rate;

use super::plan::Run;
use super::report::{RoamPhase, RoamReport};
use super::tunnel::Tunnel;
use super::udp::{DRAINS, Flow, PACKET};

/// A flow at this rate for as long as the scenario's phases last, after the warm-up.
pub(super) fn run(
    tunnel: &mut Tunnel,
    run: &Run,
    scenario: &Scenario,
    announced: bool,
    rate: Rate,
) -> RoamReport {
    let phases = scenario.phases();
    take_absent(tunnel, scenario);
    let (from, began) = (run.from(), tunnel.now());
    let zero = began + run.warm_up;
    let mut flow = Flow::new(1000, PACKET, rate, began, run.warm_up);
    let steps = scenario.steps(announced);
    let mut steps = steps.iter().peekable();
    let end = zero + phases.last().map_or(run.span, |phase| phase.until);
    while tunnel.now() < end + DRAINS {
        while let Some(step) = steps.next_if(|step| zero + step.at <= tunnel.now()) {
            make(tunnel, step);
        }
        if tunnel.now() < end {
            flow.send_due(tunnel, from);
            tunnel.pump(from);
        }
        let due = [flow.next_at, end + DRAINS].into_iter();
        let due = due.filter(|at| *at > tunnel.now());
        let step = steps.peek().map(|step| zero + step.at);
        let next = due.chain(step).min().unwrap_or(end + DRAINS);
        tunnel.step(next);
        while let Some(delivery) = tunnel.take(1 - from) {
            flow.take(tunnel.now(), &delivery.packet);
        }
    }
    RoamReport {
        scenario: scenario.name.clone(),
        policy: run.policy.name(),
        announced,
        offered: rate.bits_per_second() / 1000,
        phases: phases.into_iter().map(|it| of(&flow, zero, it)).collect(),
    }
}

/// Takes links away that come later.
pub(super) fn take_absent(tunnel: &mut Tunnel, scenario: &Scenario) {
    for link in scenario.absent_links() {
        tunnel.act(link, Action::CarrierDown);
    }
}

pub(super) fn make(tunnel: &mut Tunnel, step: &Step) {
    match step.what {
        Doing::Happen(action) => tunnel.act(step.link, action),
        Doing::Signal(strength) => tunnel.read_signal(step.link, strength),
    }
}

/// What came of the packets that were sent in a phase.
fn of(flow: &Flow, zero: hawser_types::Instant, phase: Phase) -> RoamPhase {
    let span = zero + phase.from..zero + phase.until;
    let (sent, mut delays) = flow.sent_in(&span);
    delays.sort_unstable();
    let at = |part: usize| {
        let place = (delays.len() * part / 100).min(delays.len().saturating_sub(1));
        delays
            .get(place)
            .map_or(0, |delay| delay.as_micros() as u64)
    };
    RoamPhase {
        lost: sent - delays.len() as u64,
        sent,
        delay_p50: at(50),
        delay_p99: at(99),
        gap: flow.gap_in(&span).as_micros() as u64,
        phase,
    }
}
