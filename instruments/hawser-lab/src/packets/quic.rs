//! QUIC connections (quinn) through the tunnel, compared with the same on each link alone.

use std::io;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use super::stage::{Stage, Way};
use crate::measure::{Bench, StepError, own_program};
use crate::meter::{AssociationOutcome, QuicControl};
use crate::process::Program;
use crate::scenario::{Direction, Scenario};
use crate::topology::SERVER;

/// Goodput of one connection in this direction in Mbit/s: on each link alone, and by the tunnel.
pub(super) fn measure(
    scenario: &Scenario,
    bench: &Bench,
    stage: &Stage<'_>,
    direction: Direction,
    control: QuicControl,
    seconds: u64,
) -> Result<(Vec<f64>, f64), StepError> {
    let flow = |way: Way, rate: u64| {
        let flow = Flow {
            direction,
            control,
            bytes: rate / 8 * seconds,
        };
        flow.run(bench, stage, way, seconds)
    };
    let rates = scenario.links.iter().map(|link| link.line(direction).rate);
    let rates: Vec<u64> = rates.map(|rate| rate.bits_per_second()).collect();
    let links = bench.lab().links().iter().zip(&rates);
    let alone = links.map(|(link, rate)| flow(Way::Link(link.address()), *rate));
    let alone = alone.collect::<Result<_, _>>()?;
    Ok((alone, flow(Way::Tunnel, rates.iter().sum())?))
}

/// One transfer. The client begins in both directions.
struct Flow {
    direction: Direction,
    control: QuicControl,
    bytes: u64,
}

impl Flow {
    /// Goodput in Mbit/s.
    fn run(
        &self,
        bench: &Bench,
        stage: &Stage<'_>,
        way: Way,
        seconds: u64,
    ) -> Result<f64, StepError> {
        let program = own_program()?;
        let mut command = bench.lab().server().command(&program);
        command.args(self.arguments(SERVER, None));
        let log = bench.folder().join("quic-server.log");
        let mut server = Program::start("the server of QUIC", command, &log)?;
        let deadline = Instant::now() + STARTS;
        while !server.last_words().contains("listening") {
            server.check_alive()?;
            if Instant::now() > deadline {
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let local = match way {
            Way::Link(address) => address,
            Way::Tunnel => Ipv4Addr::UNSPECIFIED,
        };
        let program = program.to_string_lossy();
        let text = stage.output(way, &program, &self.arguments(local, Some(SERVER)), seconds)?;
        let outcome = text
            .lines()
            .find_map(|line| serde_json::from_str(line).ok());
        let unreadable = || io::Error::other(format!("no figures of QUIC: {text}"));
        let outcome: AssociationOutcome = outcome.ok_or_else(unreadable)?;
        if outcome.wrong > 0 {
            return Err(io::Error::other(format!("{} bytes are wrong", outcome.wrong)).into());
        }
        Ok(outcome.mbps())
    }

    fn arguments(&self, local: Ipv4Addr, remote: Option<Ipv4Addr>) -> Vec<String> {
        let (local, bytes) = (local.to_string(), self.bytes.to_string());
        let mut arguments = vec!["meter", "quic", "--locals", &local];
        arguments.extend(["--bytes", &bytes, "--message", "65536"]);
        arguments.extend(["--congestion", self.control.name()]);
        if self.direction == Direction::Get {
            arguments.push("--pull");
        }
        let mut arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
        if let Some(remote) = remote {
            arguments.extend(["--remotes".to_owned(), remote.to_string()]);
        }
        arguments
    }
}

const STARTS: Duration = Duration::from_secs(10);
