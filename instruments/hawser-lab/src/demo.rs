//! The demonstration: one download over the better of two links, then over both.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use hawser_types::ByteCount;
use indicatif::{ProgressBar, ProgressStyle};

use crate::interrupt::TemporaryFolder;
use crate::measure::{Bench, Programs, Session, TCP_SHARE};
use crate::meter::{self, Order, Outcome};
use crate::output::print;
use crate::scenario::{Direction, Link, Scenario, no_files};
use crate::topology::Lab;

/// Runs the demonstration with the given binary.
pub(crate) fn run(programs: &Programs) -> anyhow::Result<ExitCode> {
    let scenario = Scenario::parse("demo", SCENARIO, &no_files)?;
    print("Two emulated access links between this machine and a server:")?;
    for (index, link) in scenario.links.iter().enumerate() {
        print(&format!("  link {}: {}", index + 1, describe(link)))?;
    }
    let folder = TemporaryFolder::create()?;
    let bench = Bench::new(Lab::shaped(&scenario)?, folder.path())?;
    let best = scenario
        .links
        .iter()
        .enumerate()
        .max_by_key(|(_, link)| link.down.rate)
        .map_or(0, |(index, _)| index);
    let size = scenario.payload;
    print(&format!(
        "\nA download of {size}, plain TCP over link {}:",
        best + 1
    ))?;
    let order = Order {
        congestion: None,
        ..bench.tcp_order(best, meter::Congestion::Cubic, Direction::Get, size)
    };
    let alone = watched(&bench, &order)?;
    print("The same download through Hawser, over both links:")?;
    let session = Session::start(&bench, programs, 1)?;
    let order = bench.socks_order(session.socks(), Direction::Get, size);
    let together = watched(&bench, &order)?;
    let offered = scenario.total_rate(Direction::Get);
    print(&format!(
        "\n{:.1} s instead of {:.1} s: {:.2} times as fast, {:.0} % of what both links offer.",
        together.seconds,
        alone.seconds,
        alone.seconds / together.seconds,
        together.mbps * 1e8 / (offered.bits_per_second() as f64 * TCP_SHARE)
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn describe(link: &Link) -> String {
    let line = &link.down;
    let mut text = format!("{}, {:?} away", line.rate, line.delay * 2);
    if line.loss.mean > 0.0 {
        text.push_str(&format!(", {} % loss", line.loss.mean * 100.0));
    }
    text
}

/// One transfer with a bar that follows it.
fn watched(bench: &Bench, order: &Order) -> anyhow::Result<Outcome> {
    let done = AtomicU64::new(0);
    let bar = ProgressBar::new(order.bytes);
    bar.set_style(ProgressStyle::with_template(
        "  {bar:40} {decimal_bytes:>9} of {decimal_total_bytes}  {decimal_bytes_per_sec:>11}",
    )?);
    let outcome = std::thread::scope(|scope| {
        let transfer = scope.spawn(|| {
            let work = || meter::transfer(order, &done);
            bench.lab().client().run(work)
        });
        while !transfer.is_finished() {
            bar.set_position(done.load(Ordering::Relaxed));
            std::thread::sleep(Duration::from_millis(50));
        }
        transfer.join()
    });
    bar.finish_and_clear();
    let outcome = outcome
        .map_err(|_| anyhow::anyhow!("the transfer's thread failed"))?
        .context("the transfer failed")?;
    anyhow::ensure!(
        outcome.ok,
        "the bytes that arrived are not those that were sent"
    );
    print(&format!(
        "  {} in {:.1} s, {:.1} Mbit/s",
        ByteCount::new(outcome.bytes),
        outcome.seconds,
        outcome.mbps
    ))?;
    Ok(outcome)
}

/// Short enough for both transfers to end within half a minute.
const SCENARIO: &str = r#"
summary = "Wi-Fi and LTE, for the demonstration"
payload = "40MB"
direction = "get"

[[link]]
rate = "30Mbit/s"
delay = "10ms"
queue = "60ms"

[[link]]
rate = "20Mbit/s"
delay = "30ms"
loss = "0.05%"
queue = "200ms"
"#;
