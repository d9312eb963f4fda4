//! A transfer as applications see it, with the link events during it.

use std::time::Duration;

use bytes::Bytes;
use hawser_scenario::{Direction, Event};
use hawser_sctp::Message;
use hawser_types::ByteCount;
use hawser_wire::sctp::StreamNumber;

use super::fabric::Fabric;

/// One transfer over an association that stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer<'a> {
    /// Which way the payload goes.
    pub(super) direction: Direction,
    /// The payload.
    pub(super) bytes: ByteCount,
    /// What happens to links meanwhile.
    pub(super) events: &'a [Event],
    /// When to give up.
    pub(super) limit: Duration,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moved {
    /// Until the client knows that everything has arrived; `None` when it gave up before.
    pub(super) took: Option<Duration>,
    /// What the sender sent more than once.
    pub(super) repeated: ByteCount,
}

/// A transfer in progress.
struct Exchange {
    from: usize,
    to: usize,
    size: ByteCount,
    left: ByteCount,
    arrived: ByteCount,
    /// Who sends knows that it is wanted.
    asked: bool,
    /// Who put something was told that it has arrived.
    told: bool,
    /// The client knows that everything has arrived.
    known: bool,
}

impl Transfer<'_> {
    /// As over a session: who gets asks first, and who puts is told of the end.
    pub(super) fn run(&self, fabric: &mut Fabric) -> Moved {
        let mut exchange = Exchange::new(self);
        let from = exchange.from;
        let (began, end) = (fabric.now(), fabric.now() + self.limit);
        let before = fabric.association(from).repeated();
        let mut events = self.events.iter().peekable();
        if !exchange.asked {
            say(fabric, CLIENT);
        }
        loop {
            while let Some(event) = events.next_if(|event| began + event.at <= fabric.now()) {
                fabric.act(event.link, event.action);
            }
            exchange.go_on(fabric);
            if exchange.known || fabric.now() >= end {
                break;
            }
            let next = events.peek().map_or(end, |event| began + event.at);
            fabric.step(next.min(end));
        }
        Moved {
            took: exchange.known.then(|| fabric.now().since(began)),
            repeated: fabric.association(from).repeated() - before,
        }
    }
}

impl Exchange {
    fn new(transfer: &Transfer<'_>) -> Self {
        let (from, to) = match transfer.direction {
            Direction::Put => (CLIENT, SERVER),
            Direction::Get => (SERVER, CLIENT),
        };
        Self {
            from,
            to,
            size: transfer.bytes,
            left: transfer.bytes,
            arrived: ByteCount::ZERO,
            asked: from == CLIENT,
            told: false,
            known: false,
        }
    }

    fn go_on(&mut self, fabric: &mut Fabric) {
        let news = [CLIENT, SERVER].map(|host| hear(fabric, host));
        self.asked |= news[SERVER] > ByteCount::ZERO;
        self.arrived += news[self.to];
        if self.asked {
            self.put(fabric);
        }
        let is_whole = self.arrived >= self.size;
        if self.to == CLIENT {
            self.known = is_whole;
        } else {
            self.told |= is_whole && !self.told && say(fabric, SERVER);
            self.known = news[CLIENT] > ByteCount::ZERO;
        }
    }

    /// Sends what there is room for.
    fn put(&mut self, fabric: &mut Fabric) {
        while self.left > ByteCount::ZERO {
            let length = MESSAGE.len().min(self.left.as_usize());
            if !send(fabric, self.from, BULK, &MESSAGE[..length]) {
                break;
            }
            self.left -= ByteCount::from(length);
        }
        fabric.pump(self.from);
    }
}

/// Whether there was room for it.
pub(super) fn send(
    fabric: &mut Fabric,
    host: usize,
    stream: StreamNumber,
    payload: &'static [u8],
) -> bool {
    let now = fabric.now();
    let message = Message::new(Bytes::from_static(payload));
    let sent = fabric.association(host).send(now, stream, message);
    sent.is_ok()
}

fn say(fabric: &mut Fabric, host: usize) -> bool {
    let sent = send(fabric, host, BULK, b"!");
    fabric.pump(host);
    sent
}

/// Reads all that has arrived.
fn hear(fabric: &mut Fabric, host: usize) -> ByteCount {
    let mut heard = ByteCount::ZERO;
    while let Some(received) = fabric.association(host).receive() {
        heard += ByteCount::from(received.length());
    }
    if heard > ByteCount::ZERO {
        fabric.pump(host);
    }
    heard
}

pub(super) const CLIENT: usize = 0;
pub(super) const SERVER: usize = 1;
const BULK: StreamNumber = StreamNumber::new(0);
/// What a stream that is busy gives at once.
pub(super) static MESSAGE: [u8; 16 * 1024] = [0x5a; 16 * 1024];
