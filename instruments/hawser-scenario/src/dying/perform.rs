//! Runs a cell, step by step.

use std::time::Duration;

use hawser_types::ByteCount;

use super::{Cell, Dies, Figures, RATE, REST, TRANSFER, Work};
use crate::figures::percentile;

/// A session over some links, on which cells are performed: the simulator's or the lab's.
pub trait Stage {
    /// Error that prevents a step.
    type Error;

    /// Lets time pass.
    fn rest(&mut self, span: Duration);

    /// Lets links begin to die now, those that die in this run.
    fn die(&mut self) -> Result<(), Self::Error>;

    /// Makes a transfer.
    fn transfer(&mut self, bytes: ByteCount) -> Result<Transfer, Self::Error>;

    /// Makes a transfer that goes on until [`ENDS`](super::ENDS) at least, in which links begin to
    /// die at [`DIES_AT`](super::DIES_AT). Its goodput is that between the two.
    fn long_transfer(&mut self) -> Result<Transfer, Self::Error>;

    /// Makes a request on a stream or connection of its own, and returns the time that it took.
    fn request(&mut self) -> Result<Duration, Self::Error>;
}

/// Result of one transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    /// Goodput in kbit/s; 0 if the transfer never ended.
    pub goodput: u64,
    /// Longest time without anything new at the reader.
    pub silence: Duration,
    /// Time that a block of the call beside it took, 99th percentile; `None` without a call.
    pub p99: Option<Duration>,
}

impl Cell {
    /// Performs the cell on a stage whose links are those of [`Cell::scenario`].
    pub fn perform<S: Stage>(&self, stage: &mut S) -> Result<Figures, S::Error> {
        if self.dies == Dies::Between {
            stage.transfer(RATE * (TRANSFER / 2))?;
            stage.rest(REST);
            stage.die()?;
            stage.rest(REST);
        }
        match self.work {
            Work::Requests => self.requests(stage),
            Work::Bulk | Work::Call if self.dies == Dies::During => {
                Ok(Figures::of(&[stage.long_transfer()?]))
            }
            Work::Bulk | Work::Call => {
                let mut transfers = Vec::new();
                for _ in 0..TRANSFERS {
                    transfers.push(stage.transfer(RATE * TRANSFER)?);
                    stage.rest(REST);
                }
                Ok(Figures::of(&transfers))
            }
        }
    }

    fn requests<S: Stage>(&self, stage: &mut S) -> Result<Figures, S::Error> {
        let mut times = Vec::new();
        for number in 0..REQUESTS {
            if self.dies == Dies::During && number == REQUESTS / 4 {
                stage.die()?;
            }
            times.push(stage.request()?.as_micros() as u64);
            // Not in step with any timer.
            stage.rest(BETWEEN + Duration::from_micros(number * 7919 % 30_000));
        }
        times.sort_unstable();
        Ok(Figures {
            goodputs: Vec::new(),
            silence: times.last().map_or(0, |micros| micros / 1000),
            p99: percentile(&times, 99),
        })
    }
}

impl Figures {
    /// Returns the figures of transfers: the worst silence and the worst 99th percentile.
    fn of(transfers: &[Transfer]) -> Self {
        let silences = transfers.iter().map(|it| it.silence);
        let slow = transfers.iter().filter_map(|it| it.p99);
        Self {
            goodputs: transfers.iter().map(|it| it.goodput).collect(),
            silence: silences.max().unwrap_or_default().as_millis() as u64,
            p99: slow.max().map(|delay| delay.as_micros() as u64),
        }
    }
}

const TRANSFERS: usize = 2;
const REQUESTS: u64 = 100;
/// Shortest time between two requests.
const BETWEEN: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::super::{TRANSPORTS, draw};
    use super::*;

    /// Writes down what it is told to do.
    #[derive(Default)]
    struct Script {
        steps: Vec<&'static str>,
        requests: u64,
    }

    impl Stage for Script {
        type Error = Infallible;

        fn rest(&mut self, _span: Duration) {}

        fn die(&mut self) -> Result<(), Infallible> {
            self.steps.push("die");
            Ok(())
        }

        fn transfer(&mut self, bytes: ByteCount) -> Result<Transfer, Infallible> {
            self.steps.push("transfer");
            let silence = Duration::from_micros(bytes.as_u64());
            let p99 = Some(Duration::from_micros(self.steps.len() as u64));
            let goodput = self.steps.len() as u64;
            Ok(Transfer {
                goodput,
                silence,
                p99,
            })
        }

        fn long_transfer(&mut self) -> Result<Transfer, Infallible> {
            self.steps.push("long");
            Ok(Transfer::default())
        }

        fn request(&mut self) -> Result<Duration, Infallible> {
            if self.requests == 0 || self.steps.last() == Some(&"die") {
                self.steps.push("request");
            }
            self.requests += 1;
            Ok(Duration::from_millis(self.requests))
        }
    }

    fn performed(work: Work, dies: Dies) -> (Vec<&'static str>, Figures) {
        let cell = draw(1, 1, &TRANSPORTS).unwrap()[0];
        let mut script = Script::default();
        let cell = Cell { work, dies, ..cell };
        let Ok(figures) = cell.perform(&mut script);
        (script.steps, figures)
    }

    #[test]
    fn links_die_before_during_or_between_transfers() {
        let steps = |dies| performed(Work::Bulk, dies).0;
        assert_eq!(steps(Dies::Before), ["transfer", "transfer"]);
        assert_eq!(steps(Dies::During), ["long"]);
        let between = ["transfer", "die", "transfer", "transfer"];
        assert_eq!(steps(Dies::Between), between);
    }

    #[test]
    fn the_transfer_before_links_die_is_no_figure() {
        let (_, figures) = performed(Work::Call, Dies::Between);
        assert_eq!(figures.goodputs, [3, 4]);
        // 16 Mbit/s for four seconds are 8 MB, and the script makes a microsecond of each byte.
        assert_eq!((figures.silence, figures.p99), (8_000, Some(4)));
    }

    #[test]
    fn requests_go_on_while_links_die_and_the_slowest_is_the_silence() {
        let (steps, figures) = performed(Work::Requests, Dies::During);
        assert_eq!(steps, ["request", "die", "request"]);
        assert_eq!(figures.p99, Some(99_000));
        assert_eq!(figures.silence, 100);
        assert!(figures.goodputs.is_empty());
    }
}
