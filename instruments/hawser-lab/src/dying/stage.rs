//! A session in a lab, on which a cell is performed.

use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use hawser_scenario::dying::{
    Cell, DIES_AT, Dies, ENDS, Figures, LIMIT, RATE, REQUEST, REST, Stage, Transfer, Work,
};
use hawser_types::{ByteCount, Rate};

use super::report::Run;
use crate::interactive::{BLOCK, Stream};
use crate::measure::{Bench, Programs, Session, StepError, recovery};
use crate::meter::{self, BIN, Order, Outcome};
use crate::scenario::Direction;
use crate::statistics::Spread;
use crate::topology::Lab;

/// Performs a cell, in a lab of its own, over the healthy link and `dying` others. `run` keeps what
/// was measured, up to a failure.
pub(super) fn perform(
    cell: &Cell,
    dying: usize,
    programs: &Programs,
    place: &Path,
    run: &mut Run,
) -> Result<Figures, StepError> {
    std::fs::create_dir_all(place)?;
    let bench = Bench::new(Lab::shaped(&cell.scenario(dying))?, place)?;
    let mut session = Session::start(&bench, programs, 1)?;
    // A link that is dying already may take minutes for its first handshake.
    let links = match cell.dies {
        Dies::Before => 1,
        Dies::During | Dies::Between => dying + 1,
    };
    session.until_paths(programs, links)?;
    std::thread::sleep(REST);
    let figures = cell.perform(&mut LabStage {
        cell,
        dying,
        bench: &bench,
        session: &session,
        run,
    });
    run.hawser = session.counters(programs);
    // An end of a program says more than the time-out that comes of it.
    session.check_alive()?;
    let figures = figures?;
    bench.check_emulator()?;
    Ok(figures)
}

struct LabStage<'a> {
    cell: &'a Cell,
    dying: usize,
    bench: &'a Bench,
    session: &'a Session,
    run: &'a mut Run,
}

impl Stage for LabStage<'_> {
    type Error = StepError;

    fn rest(&mut self, span: Duration) {
        std::thread::sleep(span);
    }

    fn die(&mut self) -> Result<(), StepError> {
        self.let_links_die();
        Ok(())
    }

    fn transfer(&mut self, bytes: ByteCount) -> Result<Transfer, StepError> {
        let order = self.order(self.cell.direction, bytes);
        let transfer = self.beside_call(|stage| stage.bench.transfer(&order, LIMIT, &[]));
        let (outcome, p99) = transfer?;
        let transfer = Transfer {
            goodput: (outcome.mbps * 1e3) as u64,
            silence: Duration::from_secs_f64(outcome.worst_gap),
            p99,
        };
        self.run.transfers.push(outcome);
        Ok(transfer)
    }

    /// The silence is that of the whole transfer, its end included.
    fn long_transfer(&mut self) -> Result<Transfer, StepError> {
        let links = u32::try_from(self.dying).unwrap_or(0) + 1;
        let bytes = RATE * (DIES_AT * links + (ENDS - DIES_AT) + SPARE);
        let order = self.order(self.cell.direction, bytes);
        let (outcome, p99) = self.beside_call(|stage| {
            std::thread::scope(|scope| {
                let transfer = scope.spawn(|| stage.bench.transfer(&order, LIMIT, &[]));
                std::thread::sleep(DIES_AT);
                stage.let_links_die();
                let outcome = transfer.join();
                outcome.unwrap_or_else(|_| Err(io::Error::other("it panicked").into()))
            })
        })?;
        let transfer = Transfer {
            goodput: goodput_between(&outcome, DIES_AT, ENDS),
            silence: Duration::from_secs_f64(outcome.worst_gap),
            p99,
        };
        self.run.transfers.push(outcome);
        Ok(transfer)
    }

    fn request(&mut self) -> Result<Duration, StepError> {
        let order = self.order(self.cell.direction, REQUEST);
        let client = self.bench.lab().client();
        let outcome = client.run(|| meter::transfer(&order, &AtomicU64::new(0)))?;
        if !outcome.ok {
            return Err(StepError::Corrupted);
        }
        self.run.request_seconds.push(outcome.seconds);
        Ok(Duration::from_secs_f64(outcome.seconds))
    }
}

impl LabStage<'_> {
    fn order(&self, direction: Direction, bytes: ByteCount) -> Order {
        let order = self
            .bench
            .socks_order(self.session.socks(), direction, bytes);
        Order {
            patience: LIMIT,
            ..order
        }
    }

    fn let_links_die(&self) {
        let Some(emulator) = self.bench.lab().emulator() else {
            return;
        };
        for index in 1..=self.dying {
            emulator.change_link(index, self.cell.dying_link());
        }
    }

    /// Makes a transfer, beside a call where the cell has one, and returns what the call's blocks
    /// took there and back at the 99th percentile.
    fn beside_call(
        &mut self,
        transfer: impl FnOnce(&Self) -> Result<Outcome, StepError>,
    ) -> Result<(Outcome, Option<Duration>), StepError> {
        if self.cell.work != Work::Call {
            return Ok((transfer(self)?, None));
        }
        let block = self.order(Direction::Put, ByteCount::new(BLOCK as u64));
        let call = Stream::open(self.bench.lab().client(), &block)?;
        let began = Instant::now();
        let outcome = transfer(self)?;
        let ended = Instant::now();
        let echoes = call.end()?.between(began + WARM_UP, ended);
        let p99 = Spread::of(&echoes).map(|spread| Duration::from_secs_f64(spread.p99));
        self.run.echo_seconds.extend(echoes);
        Ok((outcome, p99))
    }
}

/// Returns the goodput in kbit/s between two times since the beginning of a transfer, or until its
/// end if that came first.
fn goodput_between(outcome: &Outcome, from: Duration, until: Duration) -> u64 {
    let last = recovery::bin(outcome, until).min(outcome.timeline.len());
    let bins = outcome.timeline.get(recovery::bin(outcome, from)..last);
    let bins = bins.unwrap_or_default();
    let bytes = ByteCount::new(bins.iter().sum());
    let span = BIN * u32::try_from(bins.len()).unwrap_or(u32::MAX);
    Rate::over(bytes, span).bits_per_second() / 1000
}

/// Bulk has filled the links by then.
const WARM_UP: Duration = Duration::from_secs(1);
/// More payload than all links can carry until the last look.
const SPARE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_goodput_of_a_part_is_that_of_its_bins() {
        // A second without anything, then a megabyte a second for two.
        let mut timeline = vec![0; 20];
        timeline.extend([50_000; 40]);
        let outcome = Outcome {
            timeline,
            ..Outcome::default()
        };
        let between = |from, until| {
            let [from, until] = [from, until].map(Duration::from_millis);
            goodput_between(&outcome, from, until)
        };
        assert_eq!(between(1000, 3000), 8000);
        assert_eq!(between(500, 1500), 4000);
        // What came after its end is not silence.
        assert_eq!(between(2000, 9000), 8000);
        assert_eq!(between(4000, 9000), 0);
    }
}
