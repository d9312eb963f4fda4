use bytes::Bytes;
use hawser_scenario::Scenario;
use hawser_session::{Event, ReadOutcome, Side};
use hawser_types::{Instant, StreamId};

use super::messages::{Ledger, Load, MESSAGE, PATIENCE, WARM_UP, written_at};
use crate::bond::{Bond, BondConfig, Signal};
use crate::experiment::{self, Options};

struct Run {
    bond: Bond,
    began: Instant,
    end: Instant,
    idle: StreamId,
    ledger: Ledger,
}

/// Messages go as the session has it: over express channels, what the busy streams write over
/// others.
pub(super) fn run(scenario: &Scenario, load: &Load, config: &BondConfig, seed: u64) -> Ledger {
    let mut bond = experiment::ready_bond(scenario, &Options::new(seed, config.clone()));
    let Some(idle) = open(&mut bond) else {
        return Ledger::default();
    };
    let busy: Vec<StreamId> = (0..load.busy).filter_map(|_| open(&mut bond)).collect();
    let began = bond.now();
    let mut run = Run {
        bond,
        began,
        end: began + WARM_UP + load.span,
        idle,
        ledger: Ledger::default(),
    };
    busy.into_iter().for_each(|id| run.push(id));
    run.bond.set_alarm(began + written_at(0), 0);
    while (run.bond.now() < run.end || !run.ledger.is_settled())
        && let Some(signal) = run.bond.step(run.end + PATIENCE)
    {
        run.on_signal(&signal);
    }
    run.ledger
}

impl Run {
    fn on_signal(&mut self, signal: &Signal) {
        match signal {
            Signal::Alarm(number) => self.write(*number as u32),
            Signal::Event(Side::Gateway, Event::StreamOpened(id)) => {
                let id = *id;
                self.bond.with(Side::Gateway, |session, now| {
                    let _ = session.accept_stream(now, id, Bytes::new());
                });
                self.read(id);
            }
            Signal::Event(Side::Gateway, Event::Readable(id)) => self.read(*id),
            Signal::Event(Side::Client, Event::Writable(id)) if *id != self.idle => self.push(*id),
            Signal::Event(..) => {}
        }
    }

    /// The idle stream's message with this number.
    fn write(&mut self, number: u32) {
        let (id, now) = (self.idle, self.bond.now());
        if now >= self.end {
            return;
        }
        let written = self.bond.with(Side::Client, |session, now| {
            session.write_slice(now, id, &MESSAGE)
        });
        // The stream has room for many of them.
        if written == Ok(MESSAGE.len()) {
            self.ledger.on_written(now);
        }
        let next = (self.began + written_at(number + 1)).min(self.end);
        self.bond.set_alarm(next, u64::from(number) + 1);
    }

    /// A busy stream writes what it may.
    fn push(&mut self, id: StreamId) {
        if self.bond.now() >= self.end {
            return;
        }
        self.bond.with(Side::Client, |session, now| {
            let mut bytes = Bytes::from_static(&ZEROS);
            while session
                .write(now, id, &mut bytes)
                .is_ok_and(|taken| taken > 0)
            {
                bytes = Bytes::from_static(&ZEROS);
            }
        });
    }

    fn read(&mut self, id: StreamId) {
        let read = self.bond.with(Side::Gateway, |session, now| {
            let mut read = 0;
            while let Ok(ReadOutcome::Data(_, bytes)) = session.read(now, id, ZEROS.len()) {
                read += bytes.len() as u64;
            }
            read
        });
        let now = self.bond.now();
        if id == self.idle {
            self.ledger.on_read(now, read);
        } else if now >= self.began + WARM_UP && now < self.end {
            self.ledger.on_bulk(read);
        }
    }
}

/// A stream from the client.
fn open(bond: &mut Bond) -> Option<StreamId> {
    let opened = bond.with(Side::Client, |session, now| {
        session.open_stream(now, Bytes::from_static(b"delay"))
    });
    opened.ok()
}

static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
