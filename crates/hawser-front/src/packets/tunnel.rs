//! The client's end of packet mode: forwards packets between one TUN device and the gateway.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hawser_host::tun::{Tun, TunMemory};
use hawser_net::client::{Client, OpenStreamError};
use hawser_net::session::SessionHandle;
use hawser_net::stream::{BondStream, PacketLane, PacketSink, ResetByPeer};
use hawser_tunnel::packet::PacketView;
use ipnet::IpNet;
use tokio::time::sleep;

use super::answers::{Answers, fitted};
use super::fit::{self, Unfit};
use super::inbound::{Inbound, InboundFlows};
use super::question::Question;
use super::terms::{HostNetworks, Terms, Wish};
use crate::name_stub::NameStub;
use crate::transport::DialError;

/// A tunnel to the gateway.
#[derive(Debug)]
pub struct PacketTunnel {
    client: Arc<Client>,
    stream: BondStream,
    terms: Terms,
    wish: Wish,
    inbound: InboundFlows,
}

/// Why there is no tunnel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunnelError {
    /// There is no session with the gateway.
    #[error(transparent)]
    Open(#[from] OpenStreamError),
    /// The gateway has an older version, or packet forwarding is disabled there.
    #[error("the gateway carries no packets: it needs `hawser serve --packet-exit nat`")]
    NotCarried,
    /// The gateway has no address left.
    #[error("the gateway has no address left for another tunnel")]
    LimitReached,
    /// The session was lost meanwhile.
    #[error("the session with the gateway was lost")]
    Lost,
    /// The gateway's answer is malformed.
    #[error("the gateway's answer is malformed")]
    Malformed,
    /// The gateway gives an address that it may not give.
    #[error("{0}")]
    Unfit(#[from] Unfit),
    /// The tunnel lost its address, so connections with that address can't continue.
    #[error("the gateway has given {0} to another client")]
    AddressLost(String),
    /// The device is gone.
    #[error("the TUN device is gone: {0}")]
    Device(std::io::Error),
}

impl PacketTunnel {
    /// Opens a tunnel. Waits for a session, and for the gateway's answer.
    ///
    /// # Errors
    /// The reason why no tunnel can be opened.
    pub async fn open(
        client: &Arc<Client>,
        wish: Wish,
        inbound: InboundFlows,
    ) -> Result<Self, TunnelError> {
        let mut stream = client.open(wish.to_opening()).await?;
        let accepted = stream.accepted().await;
        let answer = accepted.map_err(|error| refusal(&error))?;
        let mut terms = Terms::read(&answer).ok_or(TunnelError::Malformed)?;
        if !wish.is_for_hosts {
            terms.hosts = HostNetworks::default();
        }
        fit::check(&terms, inbound)?;
        Ok(Self {
            client: Arc::clone(client),
            stream,
            terms,
            wish: Wish {
                before: terms.client,
                ..wish
            },
            inbound,
        })
    }

    /// Returns the gateway's grant.
    pub fn terms(&self) -> Terms {
        self.terms
    }

    /// Removes granted networks for hosts that overlap with a network of `here`; returns each with
    /// the network that it overlaps. The hosts then share the client's own address.
    pub fn leave_out(&mut self, here: &[IpNet]) -> Vec<(IpNet, IpNet)> {
        let hosts = &mut self.terms.hosts;
        let granted = hosts.networks();
        let found = granted.filter_map(|net| Some((net, fit::overlapping(net, here)?)));
        let found: Vec<_> = found.collect();
        for (net, _) in &found {
            match net {
                IpNet::V4(_) => hosts.v4 = None,
                IpNet::V6(_) => hosts.v6 = None,
            }
        }
        found
    }

    /// Waits until the client changes to another session, and opens a tunnel there with the same
    /// addresses. Until then, packets use `session`. Never returns if `session` is over.
    async fn open_beside(
        client: &Arc<Client>,
        (wish, inbound): (Wish, InboundFlows),
        terms: Terms,
        session: SessionHandle,
    ) -> Self {
        session.superseded().await;
        while session.end().is_none() {
            match Self::open(client, wish, inbound).await {
                Ok(next) if lost(terms, next.terms).is_empty() => return next,
                // The addresses may still belong to the gateway that is being replaced.
                Ok(_) => session.span().in_scope(|| {
                    tracing::debug!("tunnel in next session has other addresses, trying again");
                }),
                Err(error) => session.span().in_scope(|| {
                    tracing::debug!(%error, "cannot open a tunnel in the next session");
                }),
            }
            sleep(BESIDE_PAUSE).await;
        }
        std::future::pending().await
    }

    /// Forwards the packets of `tun`, over one session after the other, until that becomes
    /// impossible. DNS questions to the gateway's inner address are answered here.
    pub async fn carry(self, tun: Tun, names: Arc<NameStub>) -> TunnelError {
        let tun = Arc::new(tun);
        let Self {
            client,
            stream,
            terms,
            wish,
            inbound,
        } = self;
        let own = Arc::new(Inbound::new(terms.of_client(), inbound));
        let (mut stream, mut next) = (Some(stream), None);
        let mut granted = terms;
        loop {
            if let Some(stream) = stream.take() {
                let session = SessionHandle::of(&stream);
                let span = stream.span();
                let lane = stream.into_packet_lane();
                let device = Arc::new(Device {
                    tun: Arc::clone(&tun),
                    terms: granted,
                    inbound: Arc::clone(&own),
                });
                let sink = Arc::<Device>::clone(&device);
                let asked = (wish, inbound);
                next = tokio::select! {
                    error = up(&device, &lane, &names) => return TunnelError::Device(error),
                    ended = lane.receive(terms.of_client(), sink) => {
                        span.in_scope(|| tracing::debug!(?ended, "tunnel ended"));
                        None
                    }
                    next = Self::open_beside(&client, asked, terms, session) => Some(next),
                };
            }
            let again = match next.take() {
                Some(next) => Ok(next),
                None => tokio::select! {
                    // Packets without a session are discarded: they would arrive too late.
                    error = discard(&tun) => return TunnelError::Device(error),
                    again = Self::open(&client, wish, inbound) => again,
                },
            };
            match again {
                Ok(again) => {
                    let lost = lost(terms, again.terms);
                    if !lost.is_empty() {
                        return TunnelError::AddressLost(lost.join(" and "));
                    }
                    SessionHandle::of(&again.stream)
                        .span()
                        .in_scope(|| tracing::info!("tunnel reopened"));
                    // The largest packet may have another size now; the device's MTU stays.
                    // Networks that are granted beside the earlier ones are not used.
                    granted = again.terms;
                    stream = Some(again.stream);
                }
                // Waiting would not help.
                Err(
                    error @ (TunnelError::Open(OpenStreamError::Closed)
                    | TunnelError::NotCarried
                    | TunnelError::LimitReached
                    | TunnelError::Unfit(_)
                    | TunnelError::Malformed),
                ) => return error,
                Err(error) => {
                    tracing::debug!(%error, "cannot open the tunnel yet");
                    tokio::select! {
                        error = discard(&tun) => return TunnelError::Device(error),
                        () = sleep(PAUSE) => {}
                    }
                }
            }
        }
    }
}

/// Returns the earlier addresses of a client that it no longer has.
fn lost(before: Terms, now: Terms) -> Vec<String> {
    let now = now.of_client();
    let lost = before.of_client().into_iter();
    let lost = lost.filter(|it| !now.contains(it));
    lost.map(|it| it.to_string()).collect()
}

/// Forwards packets of this machine; returns the error when the device fails.
async fn up(device: &Device, lane: &PacketLane, names: &Arc<NameStub>) -> std::io::Error {
    let Device {
        tun,
        terms,
        inbound,
    } = device;
    let mut memory = TunMemory::new();
    let mut packets = Vec::new();
    let answers = Answers::new(terms.gateway);
    loop {
        if let Err(error) = tun.read_some(&mut memory, &mut packets).await {
            return error;
        }
        packets.retain_mut(|packet: &mut Bytes| {
            let Ok(view) = PacketView::parse(packet) else {
                // The tunnel counts the malformed packet.
                return true;
            };
            if let Some(question) = Question::of(&view, terms.gateway) {
                answer(tun, names, question);
                return false;
            }
            if let Some(answer) = answers.at_client(&view, terms.mtu) {
                if let Err(error) = tun.write(&answer) {
                    tracing::trace!(%error, "device did not take a packet");
                }
                return false;
            }
            if let Some(fitting) = fitted(&view, terms.mtu) {
                *packet = fitting.into();
            }
            true
        });
        // Noted before an answer can arrive.
        inbound.note(&packets);
        lane.send(&mut packets);
    }
}

/// Answers a DNS question.
fn answer(tun: &Arc<Tun>, names: &Arc<NameStub>, question: Question) {
    let (tun, names) = (Arc::clone(tun), Arc::clone(names));
    tokio::spawn(async move {
        if let Some(answer) = names.datagram(question.from, &question.message).await {
            // The answer may be lost, as any packet.
            let _ = tun.write(&question.answered_by(&answer));
        }
    });
}

/// The device, and the filter for the gateway's packets.
struct Device {
    tun: Arc<Tun>,
    terms: Terms,
    inbound: Arc<Inbound>,
}

impl PacketSink for Device {
    /// Gives accepted packets of the gateway to the device, with fitting TCP segment sizes.
    fn take(&self, packets: &mut Vec<Bytes>) -> u64 {
        let refused = self.inbound.retain(packets);
        for packet in &mut *packets {
            let view = PacketView::parse(packet).ok();
            if let Some(fitting) = view.and_then(|view| fitted(&view, self.terms.mtu)) {
                *packet = fitting.into();
            }
        }
        self.tun.write_all(packets);
        refused
    }
}

async fn discard(tun: &Tun) -> std::io::Error {
    let mut memory = TunMemory::new();
    let mut packets = Vec::new();
    loop {
        if let Err(error) = tun.read_some(&mut memory, &mut packets).await {
            return error;
        }
        packets.clear();
    }
}

fn refusal(error: &std::io::Error) -> TunnelError {
    let reset = error.get_ref().and_then(|it| it.downcast_ref());
    let code = reset.and_then(|ResetByPeer { code }| u16::try_from(*code).ok());
    match code.and_then(DialError::from_code) {
        Some(DialError::LimitReached) => TunnelError::LimitReached,
        Some(_) => TunnelError::NotCarried,
        None => TunnelError::Lost,
    }
}

const PAUSE: Duration = Duration::from_millis(250);
/// Not urgent: the tunnel in the previous session still forwards packets.
const BESIDE_PAUSE: Duration = Duration::from_millis(500);
