//! Bulk transfers over a session, and interactive streams beside them.

use std::time::Duration;

use bytes::Bytes;
use hawser_scenario::{Direction, Event as LinkEvent, Scenario};
use hawser_session::{Event, ReadOutcome, SessionSnapshot, Side};
use hawser_types::{ByteCount, Instant, StreamId};

use crate::arrivals::Arrivals;
use crate::bond::{Bond, Signal};
use crate::ticks::Ticks;

/// One transfer over every link.
#[derive(Clone, Debug)]
pub struct Bulk {
    /// Which way the payload goes.
    pub direction: Direction,
    /// The payload.
    pub bytes: ByteCount,
    /// What happens to links meanwhile.
    pub events: Vec<LinkEvent>,
    /// An interactive stream runs beside it.
    pub ticks: bool,
    /// The client asks links for a sign of life at rest, as the program does.
    pub asks_at_rest: bool,
    /// Who is told how the sender stands, now and then.
    pub observer: Option<Observer>,
    /// When to give up.
    pub limit: Duration,
}

impl Bulk {
    /// A transfer during which nothing else happens.
    pub fn new(direction: Direction, bytes: ByteCount, limit: Duration) -> Self {
        Self {
            direction,
            bytes,
            events: Vec::new(),
            ticks: false,
            asks_at_rest: false,
            observer: None,
            limit,
        }
    }

    /// More payload than the links can carry before the end.
    pub fn endless(scenario: &Scenario, direction: Direction, limit: Duration) -> Self {
        // Links that serve in turns, and TCP's overhead, stay far below.
        let bytes = scenario.total_rate(direction) * (limit * 4);
        Self::new(direction, bytes, limit)
    }
}

/// Looks at the sending session while a transfer runs.
#[derive(Clone, Copy, Debug)]
pub struct Observer {
    /// How much time passes between two looks.
    pub every: Duration,
    /// Is told.
    pub tell: fn(&Moment),
}

/// A transfer in progress.
#[derive(Clone, Debug)]
pub struct Moment {
    /// Time since it began.
    pub age: Duration,
    /// What has come in order.
    pub arrived: ByteCount,
    /// The sending session.
    pub session: SessionSnapshot,
}

/// What a transfer came to.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// From the opening of the stream to the moment at which the client knows that everything has
    /// arrived; `None` when it gave up before.
    pub took: Option<Duration>,
    /// What came to the reader, and when.
    pub arrivals: Arrivals,
    /// The most that waited for order in the receiving session.
    pub most_waiting: ByteCount,
    /// Bytes sent twice ahead of need.
    pub duplicated: ByteCount,
    /// Bytes sent again since a channel failed them.
    pub again: ByteCount,
    /// How long the interactive stream's ticks took, rising: the client's, the gateway's.
    pub ticks: [Vec<Duration>; 2],
}

/// Makes one transfer.
pub fn run(bond: &mut Bond, bulk: &Bulk) -> Outcome {
    let began = bond.now();
    for (index, event) in bulk.events.iter().enumerate() {
        bond.set_alarm(began + event.at, index as u64);
    }
    let mut ticks = bulk.ticks.then(|| Ticks::open(bond)).flatten();
    if let Some(ticks) = &mut ticks {
        let next = ticks.tick(bond);
        bond.set_alarm(next, TICK);
    }
    if bulk.asks_at_rest {
        ask_at_rest(bond);
    }
    let Some(mut transfer) = Transfer::open(bond, bulk) else {
        return Outcome::default();
    };
    let before = bond.session(transfer.from).snapshot(began, 0).counters;
    transfer.push(bond);
    let deadline = began + bulk.limit;
    let mut look_at = began;
    while !transfer.answered {
        let mut until = deadline;
        if let Some(observer) = bulk.observer {
            if bond.now() >= look_at {
                look_at = bond.now() + observer.every;
                (observer.tell)(&transfer.moment(bond));
            }
            until = until.min(look_at);
        }
        match bond.step(until) {
            None if until < deadline => {}
            None => break,
            Some(Signal::Alarm(TICK)) => {
                if let Some(ticks) = &mut ticks {
                    let next = ticks.tick(bond);
                    bond.set_alarm(next, TICK);
                }
            }
            Some(Signal::Alarm(ASK_AT_REST)) => ask_at_rest(bond),
            Some(Signal::Alarm(index)) => {
                if let Some(event) = bulk.events.get(index as usize) {
                    bond.act(event.link, event.action);
                }
            }
            Some(Signal::Event(side, event)) => {
                if let Some(ticks) = &mut ticks {
                    ticks.on_event(bond, side, &event);
                }
                transfer.on_event(bond, side, &event);
            }
        }
    }
    let after = bond.session(transfer.from).snapshot(bond.now(), 0).counters;
    let mut outcome = transfer.outcome;
    outcome.ticks = ticks.map(Ticks::into_delays).unwrap_or_default();
    outcome.took = transfer.answered.then(|| bond.now().since(began));
    outcome.duplicated = ByteCount::new(after.bytes_duplicated - before.bytes_duplicated);
    outcome.again = ByteCount::new(after.bytes_again - before.bytes_again);
    outcome
}

/// Lets the client ask links for a sign of life, now and again later.
fn ask_at_rest(bond: &mut Bond) {
    bond.with(Side::Client, |session, now| {
        session.probe_at_rest(now, REST, PAUSE);
    });
    bond.set_alarm(bond.now() + ASK_EVERY, ASK_AT_REST);
}

struct Transfer {
    id: StreamId,
    from: Side,
    to: Side,
    left: u64,
    finished: bool,
    /// A get: the gateway has heard what is wanted.
    asked: bool,
    /// The receiver has said that it has everything.
    answered: bool,
    began: Instant,
    outcome: Outcome,
}

impl Transfer {
    fn open(bond: &mut Bond, bulk: &Bulk) -> Option<Self> {
        let (from, to) = match bulk.direction {
            Direction::Put => (Side::Client, Side::Gateway),
            Direction::Get => (Side::Gateway, Side::Client),
        };
        let opened = bond.with(Side::Client, |session, now| {
            session.open_stream(now, Bytes::from_static(b"bulk"))
        });
        Some(Self {
            id: opened.ok()?,
            from,
            to,
            left: bulk.bytes.as_u64(),
            finished: false,
            asked: false,
            answered: false,
            began: bond.now(),
            outcome: Outcome::default(),
        })
    }

    fn moment(&self, bond: &Bond) -> Moment {
        let now = bond.now();
        Moment {
            age: now.since(self.began),
            arrived: self.outcome.arrivals.total(),
            session: bond.session(self.from).snapshot(now, MAX_STREAMS),
        }
    }

    fn on_event(&mut self, bond: &mut Bond, side: Side, event: &Event) {
        match *event {
            Event::StreamOpened(id) if id == self.id => {
                let accepted = bond.with(side, |session, now| {
                    session.accept_stream(now, id, Bytes::new())
                });
                self.asked = accepted.is_ok();
                self.push(bond);
                self.pull(bond);
            }
            Event::Writable(id) if id == self.id && side == self.from => self.push(bond),
            Event::Readable(id) if id == self.id && side == self.to => self.pull(bond),
            Event::Readable(id) if id == self.id => {
                // The client that sends hears that everything has arrived.
                bond.with(side, |session, now| {
                    while let Ok(ReadOutcome::Data(..)) = session.read(now, id, READ) {}
                });
                self.answered |= side == Side::Client && self.from == Side::Client;
            }
            _ => {}
        }
    }

    /// Writes what there is room for, then the end.
    fn push(&mut self, bond: &mut Bond) {
        if self.finished || self.from == Side::Gateway && !self.asked {
            return;
        }
        let (id, mut left) = (self.id, self.left);
        let ended = bond.with(self.from, |session, now| {
            while left > 0 {
                let wanted = left.min(ZEROS.len() as u64);
                let mut bytes = Bytes::from_static(&ZEROS[..wanted as usize]);
                match session.write(now, id, &mut bytes) {
                    Ok(0) | Err(_) => return false,
                    Ok(taken) => left -= taken as u64,
                }
            }
            session.finish(now, id).is_ok()
        });
        self.left = left;
        self.finished = ended;
    }

    /// Reads what there is; at the end says so to a client that sends.
    fn pull(&mut self, bond: &mut Bond) {
        let (id, to) = (self.id, self.to);
        self.note_waiting(bond);
        let (read, ended) = bond.with(to, |session, now| {
            let mut read = 0;
            loop {
                match session.read(now, id, READ) {
                    Ok(ReadOutcome::Data(_, bytes)) => read += bytes.len() as u64,
                    Ok(ReadOutcome::End) => return (read, true),
                    Ok(ReadOutcome::Blocked) | Err(_) => return (read, false),
                }
            }
        });
        if read > 0 {
            let age = bond.now().since(self.began);
            self.outcome.arrivals.note(age, ByteCount::new(read));
        }
        if ended && to == Side::Client {
            self.answered = true;
            bond.with(to, |session, now| session.abandon(now, id));
        } else if ended {
            bond.with(to, |session, now| {
                let _ = session.write_slice(now, id, b"!");
                session.abandon(now, id);
            });
        }
    }

    fn note_waiting(&mut self, bond: &Bond) {
        let snapshot = bond.session(self.to).snapshot(bond.now(), MAX_STREAMS);
        let Some(stream) = snapshot.streams.iter().find(|stream| stream.id == self.id) else {
            return;
        };
        let behind = stream.received - self.outcome.arrivals.total() - stream.readable;
        self.outcome.most_waiting = self.outcome.most_waiting.max(behind);
    }
}

static ZEROS: [u8; 1 << 20] = [0; 1 << 20];
/// The alarm of the interactive stream; others are numbers of events.
const TICK: u64 = 1 << 32;
/// The alarm at which the client asks links for a sign of life; the times are those of the program.
const ASK_AT_REST: u64 = (1 << 32) + 1;
const ASK_EVERY: Duration = Duration::from_millis(250);
const REST: Duration = Duration::from_secs(12);
const PAUSE: Duration = Duration::from_millis(400);
const READ: usize = 1 << 20;
const MAX_STREAMS: usize = 64;
