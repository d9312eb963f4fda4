//! TCP of a host behind a router, compared with TCP of a program on the router itself: both go as
//! streams, captured by TPROXY or by the hook of connect(2).

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde::Serialize;

use super::stage;
use super::tools;
use crate::captured::{Capture, Captured, Setup};
use crate::measure::{Bench, Programs, StepError};
use crate::process::output_of;
use crate::router::{Hosts, host};
use crate::scenario::Direction;
use crate::statistics::median;
use crate::text_table::cells;
use crate::topology::{Lab, SERVER};
use crate::verdict::{Asked, Verdict};

/// Transfers of one kind.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct StreamRow {
    taken: Taken,
    direction: Direction,
    /// Median goodput in Gbit/s, and that of each repetition.
    gbps: f64,
    samples: Vec<f64>,
}

/// By what a connection is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Taken {
    /// That of a host behind the router.
    Tproxy,
    /// That of a program of the router.
    ConnectHook,
}

/// Measures both ways in turns over one cable without limits, with logs in `folder`.
pub(super) fn measure(
    seconds: u64,
    repeat: u32,
    programs: &Programs,
    folder: &Path,
) -> anyhow::Result<Vec<StreamRow>> {
    std::fs::create_dir_all(folder)?;
    let bench = Bench::new(Lab::unshaped(1)?, folder)?;
    let hosts = Hosts::new(bench.lab(), 1)?;
    let _server = stage::server(&bench, SERVER, stage::BULK)?;
    let setup = Setup {
        capture: Capture::Lan(host(1)),
        policy: "auto",
        tcp_as_packets: false,
    };
    let daemons = Captured::start(&bench, programs, folder, setup)?;
    let mut rows = Vec::new();
    for direction in [Direction::Put, Direction::Get] {
        let mut samples = Taken::ALL.map(|_| Vec::new());
        for _ in 0..repeat {
            for (taken, samples) in Taken::ALL.into_iter().zip(&mut samples) {
                let gbps = transfer(direction, seconds, || match taken {
                    Taken::Tproxy => Ok(hosts.first().command("iperf3")),
                    Taken::ConnectHook => daemons.hooked("iperf3"),
                })?;
                let (name, direction) = (taken.name(), direction.name());
                eprintln!("  stream by {name} {direction}: {gbps:.2} Gbit/s");
                samples.push(gbps);
            }
        }
        let each = Taken::ALL.into_iter().zip(samples);
        rows.extend(each.filter_map(|(taken, samples)| {
            Some(StreamRow {
                taken,
                direction,
                gbps: median(samples.iter().copied())?,
                samples,
            })
        }));
    }
    Ok(rows)
}

/// Goodput of one connection in Gbit/s.
fn transfer(
    direction: Direction,
    seconds: u64,
    command: impl Fn() -> Result<Command, StepError>,
) -> Result<f64, StepError> {
    let limit = Duration::from_secs(seconds) + PATIENCE;
    let text = stage::ask_iperf3(|| {
        let mut command = command()?;
        command.arg("-c").arg(SERVER.to_string());
        command.args(["-p", &stage::BULK.to_string(), "-J", "-O", "1", "-t"]);
        command.arg(seconds.to_string());
        command.args((direction == Direction::Get).then_some("-R"));
        Ok(output_of("iperf3", command, limit)?)
    })?;
    let mbps = tools::tcp(&text).ok_or_else(|| stage::unreadable("iperf3", &text))?;
    Ok(mbps / 1e3)
}

/// Judges what TPROXY gives, as a share of what the connect hook does.
pub(super) fn judge(rows: &[StreamRow]) -> impl Iterator<Item = Verdict> {
    rows.iter().filter_map(|row| {
        let other = |it: &&StreamRow| it.taken == Taken::ConnectHook;
        let mut others = rows.iter().filter(|it| it.direction == row.direction);
        let hooked = others.find(other)?;
        let name = format!(
            "stream {}: by TPROXY of by the connect hook",
            row.direction.name()
        );
        let ratio = row.gbps / hooked.gbps;
        (row.taken == Taken::Tproxy).then(|| Verdict::new(name, ratio, SHARE))
    })
}

/// Lines of the table.
pub(super) fn lines(rows: &[StreamRow]) -> impl Iterator<Item = Vec<String>> {
    rows.iter().map(|row| {
        let gbps = format!("{:.2}", row.gbps);
        cells(["stream", row.direction.name(), row.taken.name(), &gbps])
    })
}

impl Taken {
    const ALL: [Self; 2] = [Self::Tproxy, Self::ConnectHook];

    const fn name(self) -> &'static str {
        match self {
            Self::Tproxy => "tproxy",
            Self::ConnectHook => "connect hook",
        }
    }
}

const SHARE: Asked = Asked::AtLeast(0.95);
const PATIENCE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    fn row(taken: Taken, direction: Direction, gbps: f64) -> StreamRow {
        StreamRow {
            taken,
            direction,
            gbps,
            samples: vec![gbps],
        }
    }

    #[test]
    fn each_direction_is_judged_by_the_hook_of_its_own() {
        let rows = [
            row(Taken::Tproxy, Direction::Put, 3.9),
            row(Taken::ConnectHook, Direction::Put, 4.0),
            row(Taken::Tproxy, Direction::Get, 3.0),
            row(Taken::ConnectHook, Direction::Get, 4.0),
        ];
        let met: Vec<_> = judge(&rows).map(|it| it.met).collect();
        assert_eq!(met, [true, false]);
        assert_eq!(judge(&rows[1..]).count(), 1, "what failed is not judged");
    }
}
