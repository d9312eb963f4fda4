//! `hawser bench`: the throughput of each link alone, and of all links together.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use hawser_front::bonded::Purpose;
use hawser_front::gateway::{MAX_SOURCE, noise};
use hawser_keys::host_port::HostPort;
use hawser_link::links::{Link, LinkMonitor, usable};
use hawser_net::client::{Client, ClientConfig};
use hawser_net::stream::BondStream;
use hawser_sched::rules::LinkRules;
use hawser_types::{ByteCount, Rate};
use serde::Serialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::args::BenchArgs;
use hawser_daemon::proxy::links::Links;
use hawser_daemon::proxy::rules::LinkRuleStore;
use hawser_daemon::proxy::session::Target;
use hawser_daemon::setup::{Setup, asked_to_end, show, show_json};

/// Measures, and shows the result.
pub(crate) async fn run(setup: &Setup, args: &BenchArgs) -> anyhow::Result<()> {
    let wanted = &setup.config.up.links;
    setup.state.prepare()?;
    let rules = LinkRuleStore::open(&setup.config, &setup.state);
    let Some(target) = Target::find(setup, &setup.state, None, wanted, &rules)? else {
        bail!("no gateway is enrolled; `hawser up --gateway INVITE` enrols with one");
    };
    let (_monitor, links) = LinkMonitor::start()
        .await
        .context("can't follow the links")?;
    let bench = Bench {
        names: link_names(&target.config, &links),
        config: target.config,
        rules,
        links,
        amount: match args.size {
            Some(size) => Amount::Size(size.as_u64().min(MAX_SOURCE)),
            None => Amount::Time(MEASURE_FOR),
        },
    };
    ensure!(!bench.names.is_empty(), "no link can be used");
    let report = tokio::select! {
        report = bench.measure_all() => report,
        () = asked_to_end() => bail!("interrupted"),
    };
    if args.table.json {
        show_json(&report)?;
    } else {
        show(&report.to_string())?;
    }
    match report.together.problem {
        Some(problem) => bail!("all links together can't be measured: {problem}"),
        None => Ok(()),
    }
}

/// The measurements to make: links, gateway and amount of data.
struct Bench {
    config: ClientConfig,
    rules: Arc<LinkRuleStore>,
    names: Vec<String>,
    links: Links,
    amount: Amount,
}

/// Amount of data or time of one measurement.
#[derive(Clone, Copy)]
enum Amount {
    Size(u64),
    Time(Duration),
}

/// The results of a measurement.
#[derive(Debug, Serialize)]
struct BenchReport {
    gateway: String,
    links: Vec<Measured>,
    together: Measured,
    /// Rate of all links together by the sum of their single rates. Source: PATTHEL §IV, bandwidth
    /// utilisation.
    up_utilisation: Option<f64>,
    down_utilisation: Option<f64>,
}

/// Result for one link, or for all of them together.
#[derive(Debug, Default, Serialize)]
struct Measured {
    name: String,
    up_bps: Option<u64>,
    down_bps: Option<u64>,
    problem: Option<String>,
}

impl Bench {
    async fn measure_all(&self) -> BenchReport {
        let mut links = Vec::new();
        for name in &self.names {
            let config = ClientConfig {
                links: vec![name.clone()],
                express: false,
                ..self.config.clone()
            };
            links.push(self.measure(name, config, 1).await);
        }
        let all = self.config.clone();
        let together = self.measure("together", all, self.names.len()).await;
        let utilisation = |of: fn(&Measured) -> Option<u64>| {
            let singles: u64 = links.iter().filter_map(of).sum();
            (singles > 0).then(|| Some(of(&together)? as f64 / singles as f64))?
        };
        BenchReport {
            gateway: self.config.gateway.to_string(),
            up_utilisation: utilisation(|it| it.up_bps),
            down_utilisation: utilisation(|it| it.down_bps),
            links,
            together,
        }
    }

    async fn measure(&self, name: &str, config: ClientConfig, links: usize) -> Measured {
        let mut measured = Measured {
            name: name.to_owned(),
            ..Measured::default()
        };
        let client = Arc::new(Client::start_enrolled(config, self.links.clone()));
        let keeping = self.rules.keep(&client, &self.links);
        if let Err(error) = self.both_ways(&client, links, &mut measured).await {
            let problem = hawser_daemon::setup::explained(&error);
            eprintln!("{name}: {problem}");
            measured.problem = Some(problem);
        }
        keeping.finish(&client).await;
        client.close(FAREWELL).await;
        measured
    }

    async fn both_ways(
        &self,
        client: &Client,
        links: usize,
        measured: &mut Measured,
    ) -> anyhow::Result<()> {
        client.admitted(CONNECT_PATIENCE).await?;
        wait_for_links(client, links).await;
        let up = upload(client, self.amount).await.context("upload")?;
        eprintln!("{}: up {up}", measured.name);
        measured.up_bps = Some(up.bits_per_second());
        let down = download(client, self.amount).await.context("download")?;
        eprintln!("{}: down {down}", measured.name);
        measured.down_bps = Some(down.bits_per_second());
        Ok(())
    }
}

impl std::fmt::Display for BenchReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let megabits = |rate: Option<u64>| match rate {
            Some(rate) => format!("{:.2}", rate as f64 / 1e6),
            None => "-".to_owned(),
        };
        let rows = self.links.iter().chain([&self.together]);
        let width = rows.clone().map(|row| row.name.chars().count());
        let width = width.max().unwrap_or(0).max("utilisation".len());
        writeln!(
            f,
            "{:<width$}  {:>10}  {:>11}",
            "LINK", "UP Mbit/s", "DOWN Mbit/s"
        )?;
        for row in rows {
            let (up, down) = (megabits(row.up_bps), megabits(row.down_bps));
            writeln!(f, "{:<width$}  {up:>10}  {down:>11}", row.name)?;
        }
        let share = |share: Option<f64>| match share {
            Some(share) => format!("{share:.3}"),
            None => "-".to_owned(),
        };
        let (up, down) = (share(self.up_utilisation), share(self.down_utilisation));
        writeln!(f, "{:<width$}  {up:>10}  {down:>11}", "utilisation")
    }
}

/// Returns the links to measure one by one.
fn link_names(config: &ClientConfig, links: &Links) -> Vec<String> {
    let is_local = |address: &HostPort| {
        let address = address.socket_addr();
        address.is_some_and(|address| address.ip().is_loopback())
    };
    let links = links.borrow();
    let chosen = if config.addresses.iter().all(is_local) {
        // No other link leads to a gateway on this machine.
        links.iter().filter(|link| link.loopback).cloned().collect()
    } else {
        usable(&links, &config.links)
    };
    let is_forbidden = |link: &Link| {
        config
            .rules
            .get(&link.name)
            .is_some_and(LinkRules::forbid_all)
    };
    let chosen = chosen.into_iter().filter(|link| !is_forbidden(link));
    chosen.map(|link| link.name).collect()
}

/// Waits until every link has joined, so that the measurement covers all of them.
async fn wait_for_links(client: &Client, links: usize) {
    let deadline = Instant::now() + JOIN_PATIENCE;
    while Instant::now() < deadline {
        let snapshot = client.snapshot(0);
        let mut joined: Vec<_> = snapshot.session.map_or_else(Vec::new, |session| {
            session
                .channels
                .iter()
                .map(|channel| channel.link)
                .collect()
        });
        joined.sort_unstable();
        joined.dedup();
        if joined.len() >= links {
            return;
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Sends data to the gateway's sink, which reports at the end how much it received.
async fn upload(client: &Client, amount: Amount) -> anyhow::Result<Rate> {
    let mut stream = begin(client, Purpose::Sink).await?;
    let (noise, begun) = (noise(), Instant::now());
    let mut sent = 0;
    while let Some(piece) = amount.next(sent, begun, noise.len()) {
        let piece = noise.get(..piece).unwrap_or_default();
        timeout(STALL, stream.write_all(piece))
            .await
            .context("the transfer has stalled")??;
        sent += piece.len() as u64;
    }
    stream.shutdown().await?;
    let mut answer = [0; 8];
    let answered = timeout(STALL * 2, stream.read_exact(&mut answer)).await;
    let time = begun.elapsed();
    answered.context("the gateway does not confirm")??;
    let received = u64::from_be_bytes(answer);
    ensure!(
        received == sent,
        "the gateway got {received} of {sent} bytes"
    );
    Ok(Rate::over(ByteCount::new(sent), time))
}

/// Reads from the gateway's source.
async fn download(client: &Client, amount: Amount) -> anyhow::Result<Rate> {
    let size = match amount {
        Amount::Size(size) => size,
        Amount::Time(_) => MAX_SOURCE,
    };
    let mut stream = begin(client, Purpose::Source(size)).await?;
    let (mut buffer, begun) = (vec![0; READ_SIZE], Instant::now());
    let mut received = 0;
    while amount.next(received, begun, READ_SIZE).is_some() {
        let read = timeout(STALL, stream.read(&mut buffer)).await;
        match read.context("the transfer has stalled")?? {
            0 => break,
            read => received += read as u64,
        }
    }
    let time = begun.elapsed();
    // Discard the data that is still in flight.
    stream.reset(0);
    if let Amount::Size(size) = amount {
        ensure!(
            received == size,
            "the gateway sent {received} of {size} bytes"
        );
    }
    Ok(Rate::over(ByteCount::new(received), time))
}

async fn begin(client: &Client, purpose: Purpose) -> anyhow::Result<BondStream> {
    let mut stream = client.open(purpose.opening()).await?;
    let accepted = timeout(STALL, stream.accepted()).await;
    accepted
        .context("the gateway does not answer")?
        .context("the gateway cannot measure; is it an older version?")?;
    Ok(stream)
}

impl Amount {
    /// Returns the number of bytes to move next, at most `most`; `None` once the amount is reached.
    fn next(self, moved: u64, begun: Instant, most: usize) -> Option<usize> {
        match self {
            Self::Size(size) => {
                let left = usize::try_from(size.saturating_sub(moved)).unwrap_or(most);
                Some(left.min(most)).filter(|left| *left > 0)
            }
            Self::Time(time) => (begun.elapsed() < time).then_some(most),
        }
    }
}

/// Long enough for slow start to matter little on any link.
const MEASURE_FOR: Duration = Duration::from_secs(5);
const CONNECT_PATIENCE: Duration = Duration::from_secs(15);
const JOIN_PATIENCE: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(20);
const STALL: Duration = Duration::from_secs(20);
const FAREWELL: Duration = Duration::from_millis(500);
const READ_SIZE: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_kept_to_the_byte() {
        let begun = Instant::now();
        let amount = Amount::Size(1000);
        assert_eq!(amount.next(0, begun, 600), Some(600));
        assert_eq!(amount.next(600, begun, 600), Some(400));
        assert_eq!(amount.next(1000, begun, 600), None);
        assert_eq!(Amount::Time(Duration::ZERO).next(0, begun, 600), None);
    }

    #[test]
    fn the_table_shows_what_is_missing() {
        let measured = |name: &str, up| Measured {
            name: name.to_owned(),
            up_bps: up,
            ..Measured::default()
        };
        let report = BenchReport {
            gateway: String::new(),
            links: vec![measured("eth0", Some(10_000_000)), measured("wwan0", None)],
            together: measured("together", Some(9_500_000)),
            up_utilisation: Some(0.95),
            down_utilisation: None,
        };
        let expected = "\
LINK          UP Mbit/s  DOWN Mbit/s
eth0              10.00            -
wwan0                 -            -
together           9.50            -
utilisation       0.950            -
";
        assert_eq!(report.to_string(), expected);
    }
}
