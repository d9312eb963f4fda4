//! A stream of one session for each request: both ends are Hawser.

use std::collections::BTreeMap;

use bytes::Bytes;
use hawser_scenario::figures::Served;
use hawser_scenario::{Scenario, Workload};
use hawser_sched::chunk::ChunkPolicy;
use hawser_session::{Event, ReadOutcome, SessionConfig, Side};
use hawser_types::{Instant, StreamId};

use super::requests::{self, REQUEST};
use crate::bond::{Bond, BondConfig, Signal};
use crate::experiment::{self, Options};

struct Client {
    bond: Bond,
    began: Instant,
    open: BTreeMap<StreamId, Open>,
    served: Vec<Served>,
    left: usize,
}

/// A stream that has not ended.
struct Open {
    /// Its place in the list of what is to be served.
    number: usize,
    /// The request, as far as the gateway has not read it.
    unheard: u64,
    /// The answer, as far as the gateway has not written it.
    unwritten: u64,
    /// The answer, as far as the client has not read it.
    unread: u64,
}

/// Runs a workload to its end, over a session that stands already.
pub(super) fn run(
    scenario: &Scenario,
    workload: &Workload,
    policy: ChunkPolicy,
    seed: u64,
) -> Vec<Served> {
    let config = BondConfig::default();
    let config = BondConfig {
        session: SessionConfig {
            scheduler: policy,
            ..config.session
        },
        ..config
    };
    let bond = experiment::ready_bond(scenario, &Options::new(seed, config));
    let served = requests::planned(workload, seed);
    let mut client = Client {
        began: bond.now(),
        bond,
        open: BTreeMap::new(),
        left: served.len(),
        served,
    };
    for number in 0..client.served.len() {
        let at = client.began + client.served[number].arrival.at;
        client.bond.set_alarm(at, number as u64);
    }
    let limit = client.began + requests::limit(scenario, workload);
    while client.left > 0 {
        match client.bond.step(limit) {
            Some(Signal::Alarm(number)) => client.begin(number as usize),
            Some(Signal::Event(side, event)) => client.on_event(side, &event),
            None => break,
        }
    }
    client.served
}

impl Client {
    fn begin(&mut self, number: usize) {
        let size = self.served[number].arrival.size.as_u64();
        let opened = self.bond.with(Side::Client, |session, now| {
            let id = session.open_stream(now, Bytes::from_static(b"request"))?;
            let mut request = Bytes::from_static(&ZEROS[..REQUEST as usize]);
            // A fresh stream has room for a request.
            let _ = session.write(now, id, &mut request);
            Ok::<_, hawser_session::OpenError>(id)
        });
        if let Ok(id) = opened {
            let open = Open {
                number,
                unheard: REQUEST,
                unwritten: size,
                unread: size,
            };
            self.open.insert(id, open);
        }
    }

    fn on_event(&mut self, side: Side, event: &Event) {
        match (side, event) {
            (Side::Gateway, Event::StreamOpened(id)) => {
                let id = *id;
                self.bond.with(side, |session, now| {
                    let _ = session.accept_stream(now, id, Bytes::new());
                });
                self.answer(id);
            }
            (Side::Gateway, Event::Readable(id) | Event::Writable(id)) => self.answer(*id),
            (Side::Client, Event::Readable(id)) => self.read(*id),
            _ => {}
        }
    }

    /// The gateway reads the request, then writes what there is room for.
    fn answer(&mut self, id: StreamId) {
        let Some(open) = self.open.get_mut(&id) else {
            return;
        };
        self.bond.with(Side::Gateway, |session, now| {
            while let Ok(ReadOutcome::Data(_, bytes)) = session.read(now, id, READ) {
                open.unheard = open.unheard.saturating_sub(bytes.len() as u64);
            }
            if open.unheard > 0 || open.unwritten == 0 {
                return;
            }
            while open.unwritten > 0 {
                let wanted = open.unwritten.min(ZEROS.len() as u64);
                let mut bytes = Bytes::from_static(&ZEROS[..wanted as usize]);
                match session.write(now, id, &mut bytes) {
                    Ok(0) | Err(_) => return,
                    Ok(taken) => open.unwritten -= taken as u64,
                }
            }
            let _ = session.finish(now, id);
        });
    }

    /// The client reads what there is.
    fn read(&mut self, id: StreamId) {
        let Some(open) = self.open.get_mut(&id) else {
            return;
        };
        self.bond.with(Side::Client, |session, now| {
            while let Ok(ReadOutcome::Data(_, bytes)) = session.read(now, id, READ) {
                open.unread = open.unread.saturating_sub(bytes.len() as u64);
            }
            if open.unread == 0 {
                session.abandon(now, id);
            }
        });
        if open.unread == 0 {
            self.served[open.number].ended = Some(self.bond.now().since(self.began));
            self.open.remove(&id);
            self.left -= 1;
        }
    }
}

static ZEROS: [u8; 1 << 20] = [0; 1 << 20];
const READ: usize = 1 << 20;
