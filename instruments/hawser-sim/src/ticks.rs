//! An interactive stream: a few bytes at a steady pace in each direction, beside other traffic.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use hawser_session::{Event, ReadOutcome, Side};
use hawser_types::{Instant, StreamId};

use crate::bond::Bond;

/// One interactive stream, and how long each of its ticks took.
#[derive(Debug)]
pub(crate) struct Ticks {
    id: StreamId,
    began: Instant,
    accepted: bool,
    /// By who sends: the client, the gateway.
    ways: [TickDirection; 2],
}

#[derive(Debug, Default)]
struct TickDirection {
    /// When ticks left that have not arrived whole.
    in_flight: VecDeque<Instant>,
    arrived: u64,
    delays: Vec<Duration>,
}

impl Ticks {
    /// Opens the stream; `None` when the session refuses.
    pub(crate) fn open(bond: &mut Bond) -> Option<Self> {
        let opened = bond.with(Side::Client, |session, now| {
            session.open_stream(now, Bytes::from_static(b"ticks"))
        });
        Some(Self {
            id: opened.ok()?,
            began: bond.now(),
            accepted: false,
            ways: Default::default(),
        })
    }

    /// Sends a tick each way. Returns when to call again.
    pub(crate) fn tick(&mut self, bond: &mut Bond) -> Instant {
        let now = bond.now();
        for (side, way) in [Side::Client, Side::Gateway]
            .into_iter()
            .zip(&mut self.ways)
        {
            if side == Side::Gateway && !self.accepted {
                continue;
            }
            let id = self.id;
            let written = bond.with(side, |session, now| {
                session.write_slice(now, id, &[0; SIZE])
            });
            if written == Ok(SIZE) {
                way.in_flight.push_back(now);
            }
        }
        now + EVERY
    }

    pub(crate) fn on_event(&mut self, bond: &mut Bond, side: Side, event: &Event) {
        let id = self.id;
        match *event {
            Event::StreamOpened(opened) if opened == id => {
                let accept = |session: &mut hawser_session::Session, now| {
                    session.accept_stream(now, id, Bytes::new())
                };
                self.accepted = bond.with(side, accept).is_ok();
                self.read(bond, side);
            }
            Event::Readable(readable) if readable == id => self.read(bond, side),
            _ => {}
        }
    }

    /// The delays of the ticks that left once everything was in full swing, rising; client's first.
    pub(crate) fn into_delays(self) -> [Vec<Duration>; 2] {
        self.ways.map(|way| {
            let mut delays = way.delays;
            delays.sort_unstable();
            delays
        })
    }

    fn read(&mut self, bond: &mut Bond, reader: Side) {
        let id = self.id;
        let read = bond.with(reader, |session, now| {
            let mut read = 0;
            while let Ok(ReadOutcome::Data(_, bytes)) = session.read(now, id, READ) {
                read += bytes.len();
            }
            read
        });
        let way = &mut self.ways[usize::from(reader == Side::Client)];
        let before = way.arrived / SIZE as u64;
        way.arrived += read as u64;
        for _ in before..way.arrived / SIZE as u64 {
            if let Some(left) = way.in_flight.pop_front()
                && left.since(self.began) >= WARM_UP
            {
                way.delays.push(bond.now().since(left));
            }
        }
    }
}

const SIZE: usize = 64;
const EVERY: Duration = Duration::from_millis(20);
/// Ticks do not count before the bulk beside them has filled the links.
const WARM_UP: Duration = Duration::from_secs(1);
const READ: usize = 1 << 16;
