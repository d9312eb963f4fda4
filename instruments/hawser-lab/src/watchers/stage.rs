//! A bonded session whose client can be monitored.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::Context;
use hawser_types::{ByteCount, Rate};
use serde::Serialize;

use super::client::{READY, WatcherOutcome};
use super::options::{Crowd, Links, Options};
use crate::cpu;
use crate::dialogue::Dialogue;
use crate::measure::{Bench, Programs, Session, own_program};
use crate::scenario::Direction;
use crate::topology::Lab;

pub(super) struct Stage<'a> {
    links: &'a Links,
    pub(super) options: &'a Options,
    bench: Bench,
    session: Session,
}

/// One transfer.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Sample {
    /// Goodput.
    pub(super) mbps: f64,
    /// The longest time without a byte at the receiver, in seconds.
    pub(super) longest_gap: f64,
    /// Processor seconds of the daemon per 10^9 bytes of payload.
    pub(super) cpu_per_gigabyte: f64,
    /// The most resident memory that the daemon had meanwhile, in bytes.
    pub(super) memory: u64,
    /// The most descriptors that it had open.
    pub(super) descriptors: usize,
}

impl<'a> Stage<'a> {
    pub(super) fn start(
        links: &'a Links,
        options: &'a Options,
        programs: &Programs,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let lab = match links {
            Links::Of(scenario) => Lab::shaped(scenario)?,
            Links::Unshaped => Lab::unshaped(CABLES)?,
        };
        let bench = Bench::new(lab, folder)?;
        let web = ["--web".to_owned(), WEB.to_string()];
        Ok(Self {
            links,
            options,
            session: Session::start_with(&bench, programs, 1, &web)?,
            bench,
        })
    }

    /// Makes a first transfer, so that what is allocated once is there; says how much the others
    /// are to carry.
    pub(super) fn warm_up(&mut self, direction: Direction) -> anyhow::Result<ByteCount> {
        let span = Duration::from_secs(self.options.seconds.into());
        let known = match self.links {
            Links::Of(scenario) => Some(scenario.total_rate(direction) * span),
            Links::Unshaped => None,
        };
        let payload = known.unwrap_or(FIRST);
        let sample = self.transfer(direction, payload)?;
        let rate = Rate::from_bits_per_second((sample.mbps * 1e6) as u64);
        Ok(known.unwrap_or(rate * span))
    }

    /// One transfer over the session.
    pub(super) fn transfer(
        &mut self,
        direction: Direction,
        payload: ByteCount,
    ) -> anyhow::Result<Sample> {
        let [daemon, _] = self.session.ids();
        let used = cpu::of(daemon)?;
        let socks = self.session.socks();
        let order = self.bench.socks_order(socks, direction, payload);
        let transfer = || self.bench.transfer(&order, LIMIT, &[]);
        let (outcome, [memory, descriptors]) = meanwhile(transfer, || {
            Ok([cpu::resident(daemon)?, cpu::descriptors(daemon)? as u64])
        });
        self.session.check_alive()?;
        let seconds = (cpu::of(daemon)? - used).as_secs_f64();
        let outcome = outcome?;
        Ok(Sample {
            mbps: outcome.mbps,
            longest_gap: outcome.worst_gap,
            cpu_per_gigabyte: seconds / (outcome.bytes as f64 / 1e9),
            memory,
            descriptors: descriptors as usize,
        })
    }

    /// One transfer while a crowd looks, which comes as it begins and is gone at the end.
    pub(super) fn transfer_watched(
        &mut self,
        crowd: Crowd,
        direction: Direction,
        payload: ByteCount,
    ) -> anyhow::Result<(Sample, WatcherOutcome)> {
        let mut watchers = self.send(crowd)?;
        let sample = self.transfer(direction, payload);
        let failed = "those who look have failed";
        let said = watchers.hear().context(failed)?;
        anyhow::ensure!(said.trim() == READY, "those who look say {said:?}");
        watchers.say_no_more();
        let seen = serde_json::from_str(&watchers.hear().context(failed)?)?;
        drop(watchers);
        self.wait_until_alone()?;
        Ok((sample?, seen))
    }

    /// Starts the clients.
    fn send(&self, crowd: Crowd) -> io::Result<Dialogue> {
        let mut command = self.bench.lab().client().command(own_program()?);
        command.args(["meter", "watch", crowd.name(), &WEB.to_string()]);
        command.arg(self.session.client_state().join(TOKEN));
        command.args(["--feeds", &self.options.feeds.to_string()]);
        command.args(["--rate", &self.options.rate.to_string()]);
        Dialogue::start(command)
    }

    /// Resident memory of the daemon.
    pub(super) fn memory(&self) -> io::Result<u64> {
        cpu::resident(self.session.ids()[0])
    }

    /// Waits until the daemon has closed the connections of clients that are gone.
    fn wait_until_alone(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let read = || std::fs::read_to_string("/proc/thread-self/net/tcp");
            let held = held_at(WEB, &self.bench.lab().client().run(read)?);
            if held == 0 {
                return Ok(());
            }
            anyhow::ensure!(
                Instant::now() < deadline,
                "the daemon holds {held} connections of those who are gone"
            );
            std::thread::sleep(EVERY);
        }
    }
}

/// Does the work, and looks at two figures from time to time: the most of each.
fn meanwhile<T>(
    work: impl FnOnce() -> T,
    look: impl Fn() -> io::Result<[u64; 2]> + Send,
) -> (T, [u64; 2]) {
    std::thread::scope(|scope| {
        let (stop, stopped) = channel::<()>();
        let most = scope.spawn(move || {
            let mut most = [0; 2];
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(EVERY) {
                // What has ended is noticed by others.
                let now = look().unwrap_or_default();
                most = std::array::from_fn(|place| now[place].max(most[place]));
            }
            most
        });
        let result = work();
        drop(stop);
        (result, most.join().unwrap_or_default())
    })
}

/// Returns the number of connections of a listener there, by the kernel's table.
fn held_at(listener: SocketAddrV4, table: &str) -> usize {
    let port = format!(":{:04X}", listener.port());
    let is_held = |line: &&str| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, state) = (fields.next(), fields.nth(1));
        local.is_some_and(|local| local.ends_with(&port))
            && state.is_some_and(|state| HELD.contains(&state))
    };
    table.lines().filter(is_held).count()
}

const WEB: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7480);
/// Name of the file in the client's state directory.
const TOKEN: &str = "web-token";
const CABLES: usize = 2;
/// Bytes of the first transfer where no scenario tells how many a second takes.
const FIRST: ByteCount = ByteCount::new(200_000_000);
const LIMIT: Duration = Duration::from_secs(300);
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks.
const EVERY: Duration = Duration::from_millis(200);
/// Established, and ended by the other side only.
const HELD: [&str; 2] = ["01", "08"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_at_a_port_are_those_that_its_owner_has_not_closed() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue
   0: 0100007F:1D38 00000000:0000 0A 00000000:00000000
   1: 0100007F:1D38 0100007F:C001 01 00000000:00000000
   2: 0100007F:C001 0100007F:1D38 01 00000000:00000000
   3: 0100007F:1D38 0100007F:C002 08 00000000:00000000
   4: 0100007F:1D38 0100007F:C003 06 00000000:00000000\n";
        assert_eq!(held_at(WEB, table), 2);
        assert_eq!(held_at(WEB, ""), 0);
    }

    #[test]
    fn the_most_is_seen_of_what_changes_meanwhile() {
        let looks = parking_lot::Mutex::new([3, 9, 4].into_iter());
        let look = || {
            let next = looks.lock().next();
            Ok([next.unwrap_or(0), 1])
        };
        let all_seen = || {
            while looks.lock().len() > 0 {
                std::thread::yield_now();
            }
        };
        assert_eq!(meanwhile(all_seen, look).1, [9, 1]);
    }
}
