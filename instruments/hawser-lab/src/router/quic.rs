//! A QUIC download (quinn) of each host, all at the same time.

use std::io;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use super::hosts::{Hosts, server_of};
use crate::measure::{Bench, StepError, own_program};
use crate::meter::AssociationOutcome;
use crate::process::{Program, output_of};
use crate::scenario::{Direction, Scenario};

/// Goodput of each host in Mbit/s. All have the same bytes, which together are what the links carry
/// in `span`.
pub(super) fn downloads(
    bench: &Bench,
    scenario: &Scenario,
    hosts: &Hosts,
    span: Duration,
) -> Result<Vec<f64>, StepError> {
    let all = (scenario.total_rate(Direction::Get) * span).as_u64();
    let count = hosts.each().count() as u64;
    let servers: Vec<_> = hosts.each().map(|(number, _)| server_of(number)).collect();
    let _server = serve(bench, &servers, all)?;
    let limit = span * 4 + PATIENCE;
    std::thread::scope(|scope| {
        let each = hosts.each().map(|(number, host)| {
            let local = Ipv4Addr::UNSPECIFIED;
            let order = order(&[local], Some(server_of(number)), all / count);
            scope.spawn(move || {
                let mut command = host.command(own_program()?);
                command.args(order);
                output_of("QUIC", command, limit)
            })
        });
        let each: Vec<_> = each.collect();
        let died = |_| io::Error::other("a thread of a host died");
        let done = each.into_iter().map(|it| {
            let said = it.join().map_err(died)??;
            let outcome = said
                .lines()
                .find_map(|line| serde_json::from_str(line).ok());
            let unreadable = || io::Error::other(format!("no figures of QUIC: {said}"));
            let outcome: AssociationOutcome = outcome.ok_or_else(unreadable)?;
            match outcome.wrong {
                0 => Ok(outcome.mbps()),
                wrong => Err(io::Error::other(format!("{wrong} bytes are wrong")).into()),
            }
        });
        done.collect()
    })
}

fn serve(bench: &Bench, servers: &[Ipv4Addr], bytes: u64) -> Result<Program, StepError> {
    let mut command = bench.lab().server().command(own_program()?);
    command.args(order(servers, None, bytes));
    let log = bench.folder().join("quic-server.log");
    let mut server = Program::start("the server of QUIC", command, &log)?;
    let deadline = Instant::now() + PATIENCE;
    while !server.last_words().contains("listening") {
        server.check_alive()?;
        if Instant::now() > deadline {
            return Err(io::Error::from(io::ErrorKind::TimedOut).into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(server)
}

fn order(locals: &[Ipv4Addr], remote: Option<Ipv4Addr>, bytes: u64) -> Vec<String> {
    let locals: Vec<_> = locals.iter().map(Ipv4Addr::to_string).collect();
    let (locals, bytes) = (locals.join(","), bytes.to_string());
    let mut order = vec!["meter", "quic", "--locals", &locals, "--bytes", &bytes];
    order.extend(["--message", "65536", "--congestion", "bbr", "--pull"]);
    let mut order: Vec<String> = order.into_iter().map(str::to_owned).collect();
    if let Some(remote) = remote {
        order.extend(["--remotes".to_owned(), remote.to_string()]);
    }
    order
}

const PATIENCE: Duration = Duration::from_secs(30);
