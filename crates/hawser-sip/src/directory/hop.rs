//! Next hop of a request, for a directory.

use std::net::{IpAddr, SocketAddr};

use hawser_types::{Host, Instant};

use super::config::DirectoryConfig;
use super::flows::Flows;
use crate::fields::Transport;
use crate::registrar::Origin;
use crate::transaction::Flow;
use crate::uri::Uri;

/// Decides where requests may be sent. The owner implements it, because it knows its machine.
pub trait Reach {
    /// Whether a request may be sent to an address. `is_origin`: the called user proved the
    /// password from this address.
    fn may_reach(&self, address: IpAddr, is_origin: bool) -> bool;
}

/// Next hop of a request.
pub(super) struct Hop {
    pub(super) transport: Transport,
    pub(super) flow: Flow,
    /// Destination of the new stream to open, if the flow is one.
    pub(super) connects: Option<SocketAddr>,
}

/// Returns the next hop of a request to `uri`, or the far end of `origin`'s stream while that is
/// open; `None` if it can't be reached from here.
pub(super) fn next_hop(
    now: Instant,
    (config, reach): (&DirectoryConfig, &dyn Reach),
    flows: &mut Flows,
    (uri, origin): (&Uri, Origin),
) -> Option<Hop> {
    let hop = |transport, flow| Hop {
        transport,
        flow,
        connects: None,
    };
    if let Some(flow) = origin.stream
        && let Some(stream) = flows.stream(flow)
    {
        return Some(hop(stream.transport.clone(), flow));
    }
    let (transport, to) = target(uri)?;
    if !reach.may_reach(to.ip(), origin.address == Some(to.ip())) {
        return None;
    }
    let flow = match transport {
        Transport::Udp => flows.datagrams(now, (socket_for(config, to.ip())?, to))?,
        // Hosts have no certificates, so only the host itself opens a TLS stream.
        _ => match flows.stream_to(&transport, to) {
            Some(flow) => flow,
            None if transport != Transport::Tcp => return None,
            None => {
                let flow = flows.open(now, (transport.clone(), to), config.messages)?;
                let connects = Some(to);
                return Some(Hop {
                    connects,
                    ..hop(transport, flow)
                });
            }
        },
    };
    Some(hop(transport, flow))
}

/// Returns the transport and address of a URI. Names are not resolved: hosts register addresses.
fn target(uri: &Uri) -> Option<(Transport, SocketAddr)> {
    let uri = uri.as_sip()?;
    let transport = Transport::to_uri(uri);
    if matches!(transport, Transport::Other(_)) {
        return None;
    }
    let Host::Ip(address) = uri.host.to_canonical() else {
        return None;
    };
    let port = uri.port.unwrap_or_else(|| transport.default_port());
    (port != 0).then(|| (transport, SocketAddr::new(address, port)))
}

/// Returns the socket for an address: one of its family, or of both.
fn socket_for(config: &DirectoryConfig, address: IpAddr) -> Option<u32> {
    let sockets = &config.sockets;
    let of_family = |it: &SocketAddr| it.is_ipv4() == address.is_ipv4();
    let of_both = |it: &SocketAddr| it.is_ipv6() && it.ip().is_unspecified();
    let place = sockets.iter().position(of_family);
    let place = place.or_else(|| sockets.iter().position(of_both))?;
    u32::try_from(place).ok()
}
