use hawser_scenario::Scenario;
use hawser_sctp::AssociationConfig;
use hawser_wire::sctp::StreamNumber;

use super::super::fabric::Fabric;
use super::super::transfer::{self, CLIENT, SERVER};
use super::messages::{EVERY, Ledger, Load, MESSAGE, PATIENCE, WARM_UP, written_at};
use crate::experiment;

/// Stream 0 is the idle one.
pub(super) fn run(
    scenario: &Scenario,
    load: &Load,
    config: &AssociationConfig,
    seed: u64,
) -> Option<Ledger> {
    let mut fabric = Fabric::of_links(config, &scenario.links, seed);
    if !fabric.establish(config) {
        return None;
    }
    fabric.run_until(experiment::PAUSE, |_| false);
    let began = fabric.now();
    let end = began + WARM_UP + load.span;
    let mut ledger = Ledger::default();
    let (mut number, mut refused) = (0, 0);
    let mut turn = 0;
    while fabric.now() < end + PATIENCE && (fabric.now() < end || !ledger.is_settled()) {
        let now = fabric.now();
        while now < end && began + written_at(number) <= now {
            ledger.on_written(now);
            number += 1;
            refused += 1;
        }
        // It waits where there is no room for it, and its time counts.
        while refused > 0 && transfer::send(&mut fabric, CLIENT, IDLE, &MESSAGE) {
            refused -= 1;
        }
        while now < end && transfer::send(&mut fabric, CLIENT, stream(turn), &transfer::MESSAGE) {
            turn = (turn + 1) % load.busy;
        }
        fabric.pump(CLIENT);
        read(
            &mut fabric,
            &mut ledger,
            now >= began + WARM_UP && now < end,
        );
        let next = began + written_at(number);
        fabric.step(if now < end {
            next.min(end)
        } else {
            now + EVERY
        });
    }
    Some(ledger)
}

fn read(fabric: &mut Fabric, ledger: &mut Ledger, counts: bool) {
    let now = fabric.now();
    while let Some(received) = fabric.association(SERVER).receive() {
        let length = received.length() as u64;
        if received.stream == IDLE {
            ledger.on_read(now, length);
        } else if counts {
            ledger.on_bulk(length);
        }
    }
    fabric.pump(SERVER);
}

const fn stream(turn: u16) -> StreamNumber {
    StreamNumber::new(turn + 1)
}

const IDLE: StreamNumber = StreamNumber::new(0);
