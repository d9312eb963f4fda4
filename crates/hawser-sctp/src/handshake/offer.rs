use std::net::IpAddr;
use std::ops::ControlFlow;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_wire::sctp::{Init, Parameter, Tsn, UnknownAction, VerificationTag};

use super::identifiers::Identifiers;
use super::scope::{is_host, may_list};
use crate::{AssociationConfig, Checksum};

/// The parameters that this end states in its INIT or INIT ACK.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) window: u32,
    pub(crate) outbound_streams: u16,
    pub(crate) inbound_streams: u16,
    pub(crate) features: Features,
}

/// Optional features beyond RFC 9260.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Features {
    pub(crate) interleaving: bool,
    pub(crate) partial_reliability: bool,
    pub(crate) reconfiguration: bool,
    pub(crate) zero_checksum: bool,
    /// I-FORWARD-TSN is supported; without it, interleaving excludes partial reliability.
    pub(crate) interleaved_forward: bool,
}

/// The parameters that the peer states in its INIT or INIT ACK.
#[derive(Clone, Debug)]
pub(crate) struct PeerOffer {
    pub(crate) tag: VerificationTag,
    pub(crate) window: u32,
    pub(crate) outbound_streams: u16,
    pub(crate) inbound_streams: u16,
    pub(crate) initial_tsn: Tsn,
    pub(crate) features: Features,
    /// Further addresses of the peer, without the source of the packet and without addresses of a
    /// scope that the peer must not list; fewer than [`MAX_PEER_ADDRESSES`].
    pub(crate) addresses: Vec<IpAddr>,
    /// Support of IPv4, and of IPv6.
    pub(crate) families: [bool; 2],
    pub(crate) cookie: Option<Bytes>,
    /// Requested extension of the cookie's lifetime.
    pub(crate) cookie_life_increment: Duration,
    /// Unknown parameters that have to be reported, each whole.
    pub(crate) unrecognized: Vec<Bytes>,
    /// Lower bound of the packet's size in bytes.
    pub(crate) min_packet_size: usize,
}

/// Reason why an INIT or INIT ACK is unusable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InitFault {
    /// Its tag is 0, so that no answer can reach the sender.
    NoTag,
    /// It has no streams, or a window too small for a packet.
    Numbers,
    /// It gives a host name instead of an address.
    HostName(Bytes),
}

impl Offer {
    /// Creates the offer that the configuration asks for.
    pub(crate) fn new(config: &AssociationConfig) -> Self {
        let window = u32::try_from(config.receive_buffer.as_u64()).unwrap_or(u32::MAX);
        Self {
            window: window.max(MIN_WINDOW),
            outbound_streams: config.outbound_streams.max(1),
            inbound_streams: config.inbound_streams.max(1),
            features: Features {
                interleaving: config.interleaving,
                partial_reliability: config.partial_reliability,
                // A forged request could take the association over, so it needs packets
                // authenticated below, as RFC 5061 demands.
                reconfiguration: config.checksum == Checksum::LowerLayer,
                zero_checksum: config.checksum == Checksum::LowerLayer,
                interleaved_forward: config.interleaving && config.partial_reliability,
            },
        }
    }

    /// Builds the content of the chunk. `addresses`: further addresses of this end.
    pub(crate) fn init(&self, identifiers: Identifiers, addresses: &[IpAddr]) -> Init {
        let mut parameters = self.features.parameters();
        parameters.extend(addresses.iter().map(|it| Parameter::Address(*it)));
        Init {
            tag: identifiers.tag,
            window: self.window,
            outbound_streams: self.outbound_streams,
            inbound_streams: self.inbound_streams,
            initial_tsn: identifiers.initial_tsn,
            parameters,
        }
    }
}

impl Features {
    /// Returns the features that both ends support.
    pub(crate) fn and(self, peer: Self) -> Self {
        let interleaving = self.interleaving && peer.interleaving;
        let interleaved_forward = self.interleaved_forward && peer.interleaved_forward;
        let partial = self.partial_reliability && peer.partial_reliability;
        Self {
            interleaving,
            partial_reliability: partial && (!interleaving || interleaved_forward),
            reconfiguration: self.reconfiguration && peer.reconfiguration,
            zero_checksum: self.zero_checksum && peer.zero_checksum,
            interleaved_forward,
        }
    }

    fn parameters(self) -> Vec<Parameter> {
        let mut extensions = Vec::new();
        let mut parameters = Vec::new();
        if self.interleaving {
            extensions.push(I_DATA);
        }
        if self.interleaved_forward {
            extensions.push(I_FORWARD_TSN);
        }
        if self.partial_reliability {
            extensions.push(FORWARD_TSN);
            parameters.push(Parameter::ForwardTsnSupported);
        }
        if self.reconfiguration {
            extensions.extend([ASCONF, ASCONF_ACK]);
        }
        if self.zero_checksum {
            parameters.push(Parameter::ZeroChecksumAcceptable(DETECTED_BELOW));
        }
        if !extensions.is_empty() {
            parameters.push(Parameter::SupportedExtensions(extensions));
        }
        parameters
    }
}

impl PeerOffer {
    /// Reads a chunk that came from `source` to `local`.
    pub(crate) fn read(init: &Init, source: IpAddr, local: IpAddr) -> Result<Self, InitFault> {
        if init.tag == VerificationTag::NONE {
            return Err(InitFault::NoTag);
        }
        if init.outbound_streams == 0 || init.inbound_streams == 0 || init.window < MIN_WINDOW {
            return Err(InitFault::Numbers);
        }
        let mut offer = Self {
            tag: init.tag,
            window: init.window,
            outbound_streams: init.outbound_streams,
            inbound_streams: init.inbound_streams,
            initial_tsn: init.initial_tsn,
            features: Features::default(),
            addresses: Vec::new(),
            families: [source.is_ipv4(), source.is_ipv6()],
            cookie: None,
            cookie_life_increment: Duration::ZERO,
            unrecognized: Vec::new(),
            min_packet_size: MIN_INIT,
        };
        for parameter in &init.parameters {
            offer.min_packet_size += min_size(parameter);
            if offer.on_parameter(parameter, source, local)?.is_break() {
                break;
            }
        }
        Ok(offer)
    }

    fn on_parameter(
        &mut self,
        parameter: &Parameter,
        source: IpAddr,
        local: IpAddr,
    ) -> Result<ControlFlow<()>, InitFault> {
        match parameter {
            Parameter::Address(address) => self.on_address(*address, source, local),
            Parameter::Cookie(cookie) => self.cookie = Some(cookie.clone()),
            Parameter::CookiePreservative(millis) => {
                self.cookie_life_increment = Duration::from_millis(u64::from(*millis));
            }
            Parameter::SupportedAddressTypes(types) => {
                self.families[0] |= types.contains(&IPV4);
                self.families[1] |= types.contains(&IPV6);
            }
            Parameter::ForwardTsnSupported => self.features.partial_reliability = true,
            Parameter::SupportedExtensions(extensions) => {
                let has = |kind| extensions.contains(&kind);
                self.features.interleaving |= has(I_DATA);
                self.features.interleaved_forward |= has(I_FORWARD_TSN);
                self.features.partial_reliability |= has(FORWARD_TSN);
                self.features.reconfiguration |= has(ASCONF) && has(ASCONF_ACK);
            }
            Parameter::ZeroChecksumAcceptable(method) => {
                self.features.zero_checksum = *method == DETECTED_BELOW;
            }
            Parameter::Unknown {
                kind: HOST_NAME,
                parameter,
                ..
            } => {
                return Err(InitFault::HostName(parameter.clone()));
            }
            Parameter::Unknown {
                action, parameter, ..
            } => {
                return Ok(self.on_unknown(*action, parameter));
            }
            // Parameters of other chunks, and the peer's report of unknown parameters: a feature
            // that the peer does not know is absent from its own offer anyway.
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    }

    fn on_address(&mut self, address: IpAddr, source: IpAddr, local: IpAddr) {
        let is_new = address != source && !self.addresses.contains(&address);
        let is_usable = is_host(address) && address != local && may_list(source, address);
        if is_new && is_usable && self.addresses.len() + 1 < MAX_PEER_ADDRESSES {
            self.families[usize::from(address.is_ipv6())] = true;
            self.addresses.push(address);
        }
    }

    fn on_unknown(&mut self, action: UnknownAction, parameter: &Bytes) -> ControlFlow<()> {
        let (stops, reports) = stops_and_reports(action);
        let reported: usize = self.unrecognized.iter().map(Bytes::len).sum();
        if reports && reported + parameter.len() <= MAX_REPORTED {
            self.unrecognized.push(parameter.clone());
        }
        if stops {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    /// Returns all reported parameters as one cause value, padded.
    pub(crate) fn unrecognized_whole(&self) -> Bytes {
        let mut whole = BytesMut::new();
        for parameter in &self.unrecognized {
            whole.extend_from_slice(parameter);
            whole.resize(whole.len().next_multiple_of(4), 0);
        }
        whole.freeze()
    }
}

/// Returns the minimum encoded size of a parameter.
fn min_size(parameter: &Parameter) -> usize {
    match parameter {
        Parameter::Address(IpAddr::V4(_)) | Parameter::ZeroChecksumAcceptable(_) => 8,
        Parameter::Address(IpAddr::V6(_)) => 20,
        Parameter::SupportedExtensions(extensions) => 4 + extensions.len(),
        Parameter::Unknown { parameter, .. } => parameter.len(),
        _ => 4,
    }
}

/// Returns whether reading stops at an unknown element, and whether it is reported.
pub(crate) fn stops_and_reports(action: UnknownAction) -> (bool, bool) {
    match action {
        UnknownAction::Stop => (true, false),
        UnknownAction::StopAndReport => (true, true),
        UnknownAction::Skip => (false, false),
        UnknownAction::SkipAndReport => (false, true),
    }
}

/// Maximum number of a peer's addresses; each costs heartbeats to an address of the peer's choice.
pub(crate) const MAX_PEER_ADDRESSES: usize = 16;

/// Minimum advertised window. Source: RFC 9260 §3.3.2.
const MIN_WINDOW: u32 = 1500;

/// Size of the common header and an INIT without parameters.
const MIN_INIT: usize = 32;

/// Maximum total size of reported unknown parameters, in bytes.
const MAX_REPORTED: usize = 256;

/// The error detection method "DTLS below SCTP", which sealing below is equivalent to. Source: RFC
/// 9653 §8.
const DETECTED_BELOW: u32 = 1;

const I_DATA: u8 = 0x40;
const ASCONF: u8 = 0xC1;
const ASCONF_ACK: u8 = 0x80;
const FORWARD_TSN: u8 = 0xC0;
const I_FORWARD_TSN: u8 = 0xC2;

/// Parameter types. Source: RFC 9260 §3.3.2.1.
const IPV4: u16 = 5;
const IPV6: u16 = 6;
const HOST_NAME: u16 = 11;
