//! A lab in which one transport is ready for use.

use std::net::SocketAddrV4;
use std::path::Path;
use std::time::{Duration, Instant};

use hawser_session::TransportChoice;
use hawser_types::{ByteCount, Rate};

use super::way::Way;
use crate::captured::{Capture, Captured, Setup};
use crate::interactive::BLOCK;
use crate::measure::{Bench, Programs, SOCKS, Session, StepError, limit_for, start_direct};
use crate::meter::{self, Congestion, Order};
use crate::packets::{FAR_END, WireGuard};
use crate::process::Program;
use crate::scenario::{Action, Direction, Event, Scenario};

pub(super) struct Site<'a> {
    way: Way,
    scenario: &'a Scenario,
    bench: &'a Bench,
    running: Running<'a>,
}

/// What has to run for a way.
enum Running<'a> {
    Nothing,
    WireGuard(WireGuard),
    Direct(Program),
    Session(Box<Session>),
    Captured(Box<Captured<'a>>),
}

impl<'a> Site<'a> {
    /// Starts what the way needs; `wireguard` is the program of that way.
    pub(super) fn start(
        way: Way,
        scenario: &'a Scenario,
        bench: &'a Bench,
        programs: &'a Programs,
        wireguard: Option<&Path>,
    ) -> Result<Self, StepError> {
        let session = |transport| {
            let programs = programs.clone().with_transport(Some(transport));
            let mut session = Session::start(bench, &programs, 1)?;
            session.until_met(bench, &programs)?;
            Ok::<_, StepError>(Running::Session(Box::new(session)))
        };
        let running = match (way, wireguard) {
            (Way::Link | Way::Mptcp, _) | (Way::WireGuard, None) => Running::Nothing,
            (Way::WireGuard, Some(program)) => {
                let link = best(scenario, Direction::Get);
                Running::WireGuard(WireGuard::start(bench, program.as_os_str(), link)?)
            }
            (Way::Connections, _) => {
                Running::Direct(start_direct(bench, programs, bench.folder(), &[])?)
            }
            (Way::Streams, _) => session(TransportChoice::Tcp)?,
            (Way::Association, _) => session(TransportChoice::Sctp)?,
            (Way::Packets, _) => {
                let setup = Setup {
                    capture: Capture::System,
                    policy: "auto",
                    tcp_as_packets: true,
                };
                let mut captured = Captured::start(bench, programs, bench.folder(), setup)?;
                captured.until_met()?;
                Running::Captured(Box::new(captured))
            }
        };
        Ok(Self {
            way,
            scenario,
            bench,
            running,
        })
    }

    /// Moves as much as the way's links carry in `span`; gives Mbit/s of payload.
    pub(super) fn transfer(
        &self,
        direction: Direction,
        control: Option<Congestion>,
        span: Duration,
    ) -> Result<f64, StepError> {
        let (rate, count) = (self.rate(direction), self.way.connections());
        let bytes = rate * span;
        let limit = limit_for(bytes, rate, &[], true);
        let each = ByteCount::new(bytes.as_u64() / count);
        let order = self.order(direction, control, each);
        let begun = Instant::now();
        let moved = std::thread::scope(|scope| {
            let all: Vec<_> = (0..count)
                .map(|_| scope.spawn(|| self.bench.transfer(&order, limit, &[])))
                .collect();
            let moved = all.into_iter().map(|one| {
                let died = |_| std::io::Error::other("the thread of a transfer died");
                one.join().map_err(died)?
            });
            moved.collect::<Result<Vec<_>, _>>()
        })?;
        Ok(match moved.as_slice() {
            [one] => one.mbps,
            several => {
                let bytes: u64 = several.iter().map(|outcome| outcome.bytes).sum();
                bytes as f64 * 8.0 / begun.elapsed().as_secs_f64() / 1e6
            }
        })
    }

    /// The longest silence at the receiver of a download, in seconds, when the best link falls
    /// silent in its midst and stays so.
    pub(super) fn gap(
        &self,
        control: Option<Congestion>,
        span: Duration,
    ) -> Result<f64, StepError> {
        let link = best(self.scenario, Direction::Get);
        let own = self.scenario.links[link].line(Direction::Get).rate;
        let rate = self.rate(Direction::Get);
        let bytes = rate * span - own * (span / 2);
        let events = [Event {
            at: span / 2,
            link,
            action: Action::BlackHole,
        }];
        let limit = limit_for(bytes, rate, &events, true);
        let order = self.order(Direction::Get, control, bytes);
        Ok(self.bench.transfer(&order, limit, &events)?.worst_gap)
    }

    /// An echo of the blocks of a call.
    pub(super) fn echo(&self, control: Option<Congestion>) -> Order {
        self.order(Direction::Get, control, ByteCount::new(BLOCK as u64))
    }

    fn order(&self, direction: Direction, control: Option<Congestion>, bytes: ByteCount) -> Order {
        let bench = self.bench;
        match (self.way, control) {
            (Way::Link, Some(control)) => {
                let link = best(self.scenario, direction);
                bench.tcp_order(link, control, direction, bytes)
            }
            (Way::Mptcp, Some(control)) => bench.mptcp_order(control, direction, bytes),
            (Way::WireGuard, control) => Order {
                congestion: control,
                server: SocketAddrV4::new(FAR_END, meter::port(false, control)),
                ..bench.plain_order(direction, bytes)
            },
            (Way::Connections | Way::Streams | Way::Association, _) => {
                bench.socks_order(SOCKS, direction, bytes)
            }
            (Way::Packets, _) | (_, None) => bench.plain_order(direction, bytes),
        }
    }

    /// Rate of the links that the way takes, together.
    fn rate(&self, direction: Direction) -> Rate {
        match (self.way, self.way.takes_all_links()) {
            (_, true) => self.scenario.total_rate(direction),
            // It stays where it was led.
            (Way::WireGuard, _) => {
                let link = best(self.scenario, Direction::Get);
                self.scenario.links[link].line(direction).rate
            }
            _ => {
                let link = best(self.scenario, direction);
                self.scenario.links[link].line(direction).rate
            }
        }
    }

    pub(super) fn check_alive(&mut self) -> std::io::Result<()> {
        match &mut self.running {
            Running::Nothing => Ok(()),
            Running::WireGuard(tunnel) => tunnel.check_alive(),
            Running::Direct(client) => client.check_alive(),
            Running::Session(session) => session.check_alive(),
            Running::Captured(captured) => captured.check_alive(),
        }
    }
}

/// The link with the highest rate, from 0; of equal ones the first.
fn best(scenario: &Scenario, direction: Direction) -> usize {
    let rates = scenario.links.iter().map(|link| link.line(direction).rate);
    let rates = rates.enumerate().rev();
    rates
        .max_by_key(|(_, rate)| *rate)
        .map_or(0, |(link, _)| link)
}
