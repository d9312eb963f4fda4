//! Requests for sessions with other hosts, and the events that follow.

use std::net::IpAddr;

use hawser_link::links::Link;
use hawser_sip::agent::{
    CallEvent, CandidateLink, HostAgent, Keys, OwnAddress, candidates, preferences,
};
use hawser_sip::sdp::Candidate;
use hawser_sip::transaction::Flow;
use hawser_sip::uri::SipUri;
use hawser_types::{LinkIndex, Rate};
use tokio::sync::mpsc;

/// How other hosts reach this host.
pub struct CallSettings {
    /// The key of this host, and the keys of the other hosts.
    pub keys: Box<dyn Keys>,
    /// Number of this start; higher with each start of this host.
    pub number: u64,
    /// The TCP and UDP port at which sessions begin.
    pub port: u16,
}

/// A request. An address of record names the other host.
#[derive(Clone, Debug)]
pub enum Ask {
    /// Begin a session with the host, unless there is one.
    Call(SipUri),
    /// Begin a session with the host in place of a useless one.
    CallAnew(SipUri),
    /// End the session with the host.
    HangUp(SipUri),
}

/// Requests sessions, and receives events.
#[derive(Debug)]
pub struct Calling {
    /// Takes requests.
    pub asks: mpsc::Sender<Ask>,
    /// Events. Receive them without delay: the registration waits meanwhile.
    pub events: mpsc::Receiver<CallEvent>,
}

/// The registration's ends of the channels in [`Calling`].
pub(super) struct Signalling {
    asks: mpsc::Receiver<Ask>,
    events: mpsc::Sender<CallEvent>,
}

impl Calling {
    pub(super) fn new() -> (Self, Signalling) {
        let (ask, asks) = mpsc::channel(MAX_WAITING);
        let (tell, events) = mpsc::channel(MAX_WAITING);
        let calling = Self { asks: ask, events };
        let signalling = Signalling { asks, events: tell };
        (calling, signalling)
    }
}

impl Signalling {
    pub(super) async fn asked(&mut self) -> Ask {
        match self.asks.recv().await {
            Some(ask) => ask,
            // All senders of requests are gone.
            None => std::future::pending().await,
        }
    }

    pub(super) async fn tell(&mut self, agent: &mut HostAgent) {
        while let Some(event) = agent.poll_call_event() {
            // The receiver may be gone.
            let _ = self.events.send(event).await;
        }
    }
}

/// Addresses at which other hosts reach this host, for each of its links.
pub(super) struct Places {
    port: u16,
    links: Vec<(CandidateLink, Option<Flow>)>,
    told: Vec<Candidate>,
}

impl Places {
    pub(super) fn new(port: u16) -> Self {
        Self {
            port,
            links: Vec::new(),
            told: Vec::new(),
        }
    }

    /// Sets the present links, their rates, and the ways to the directory over them.
    pub(super) fn follow(
        &mut self,
        links: &[Link],
        rates: Vec<Rate>,
        ways: &[(LinkIndex, OwnAddress)],
    ) {
        let shares = preferences(&rates);
        let places = links.iter().zip(shares).map(|(link, share)| {
            let way = ways.iter().find(|(index, _)| *index == link.index);
            let place = CandidateLink {
                addresses: link.addresses.clone(),
                seen: None,
                share,
            };
            (place, way.map(|(_, address)| address.flow))
        });
        self.links = places.collect();
    }

    /// Returns this host's candidate addresses if they have changed, or if their shares differ much
    /// from the last result. `seen` returns the address that the directory sees for a flow.
    pub(super) fn poll_change(
        &mut self,
        seen: impl Fn(Flow) -> Option<IpAddr>,
    ) -> Option<Vec<Candidate>> {
        let places = self.links.iter().map(|(place, flow)| CandidateLink {
            seen: flow.and_then(&seen),
            ..place.clone()
        });
        let now = candidates(&places.collect::<Vec<_>>(), self.port);
        let share = |it: &Candidate| it.share.map_or(0, |share| share.thousandths());
        let is_same = now.len() == self.told.len()
            && now.iter().all(|candidate| {
                let known = self.told.iter().find(|it| it.address == candidate.address);
                known.is_some_and(|known| {
                    known.kind == candidate.kind && share(known).abs_diff(share(candidate)) < MUCH
                })
            });
        if is_same {
            return None;
        }
        self.told.clone_from(&now);
        Some(now)
    }
}

const MAX_WAITING: usize = 64;
/// Difference in shares, in thousandths, that is reported.
const MUCH: u16 = 200;
