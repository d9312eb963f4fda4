use std::net::{Ipv6Addr, SocketAddr};
use std::str::FromStr;

use hawser_types::ByteCount;
use ipnet::IpNet;

use crate::address::{read_listen, read_networks};
use crate::document::{Field, key, optional};
use crate::link::read_link_names;
use crate::{ConfigError, FrontConfig, HostPort, read_network};

/// `[serve]`: settings of a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeConfig {
    /// `listen`: address for clients. Default `[::]:7443`, which accepts IPv4 too.
    pub listen: SocketAddr,
    /// `advertise`: the addresses that invites carry. Empty by default: then they carry `listen`,
    /// or every address that is not loopback when `listen` names none.
    pub advertise: Vec<HostPort>,
    /// `allow-destination`: networks that clients may reach although they are private, link-local
    /// or loopback. Empty by default; public addresses need no permission.
    pub allow_destination: Vec<IpNet>,
    /// `limits`: limits for one client and for all of them.
    pub limits: ServeLimits,
    /// `udp`: allows data over UDP, at the port of `listen`. Default yes.
    pub udp: bool,
    /// `client-schedulers`: a client's user may choose the policy for what the gateway sends to
    /// that client. Default yes.
    pub client_schedulers: bool,
    /// `packet-exit`: carries clients' packets to the internet. Default no: that changes how this
    /// machine forwards.
    pub packet_exit: PacketExit,
    /// `packet-pool`: the networks that clients' inner addresses are of, one of each family at
    /// most. Default [`PACKET_POOL`].
    pub packet_pool: Vec<IpNet>,
    /// `meet`: passes bytes on between clients that can't reach each other. Default no: that costs
    /// this machine's traffic twice.
    pub meet: bool,
    /// `further-links`: interfaces on which the gateway connects to clients that accept joins,
    /// where no connection of theirs comes by them. Empty by default: on none.
    pub further_links: Vec<String>,
    /// Services of this machine for hosts that have not enrolled.
    pub front: FrontConfig,
    /// `web`: address of the dashboard. None by default: it is off.
    pub web: Option<SocketAddr>,
}

/// Handling of clients' packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PacketExit {
    /// They are not carried.
    #[default]
    Off,
    /// They leave by this machine's address.
    Nat,
    /// They leave by the clients' addresses, which others route here.
    Routed,
}

impl FromStr for PacketExit {
    type Err = UnknownPacketExit;

    fn from_str(text: &str) -> Result<Self, UnknownPacketExit> {
        match text {
            "off" => Ok(Self::Off),
            "nat" => Ok(Self::Nat),
            "routed" => Ok(Self::Routed),
            _ => Err(UnknownPacketExit),
        }
    }
}

/// A text that is no [`PacketExit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected nat, routed or off")]
pub struct UnknownPacketExit;

/// `[serve.limits]`: limits for one client and for all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeLimits {
    /// `sessions`: at once, of all clients. Default 1024.
    pub sessions: u32,
    /// `sessions-per-client`: at once, of one key. Default 16.
    pub sessions_per_client: u32,
    /// `streams-per-session`: open at once. Default 4096.
    pub streams_per_session: u32,
    /// `memory`: for the data of all sessions together. Default 1 GiB.
    pub memory: ByteCount,
    /// `half-open-handshakes`: concurrent connections without a proven key. Default 256.
    pub half_open_handshakes: u32,
    /// `connects-per-second`: to destinations, for one client. Default 2000.
    pub connects_per_second: u32,
    /// `packet-flows-per-client`: that the kernel tracks at once, of one client's packets, hosts
    /// behind it among them. Default 8192.
    pub packet_flows_per_client: u32,
    /// `packet-flows-per-second`: that begin, of one client. Default 1000.
    pub packet_flows_per_second: u32,
}

impl Default for ServeConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), DEFAULT_GATEWAY_PORT),
            advertise: Vec::new(),
            allow_destination: Vec::new(),
            limits: ServeLimits::default(),
            udp: true,
            client_schedulers: true,
            packet_exit: PacketExit::Off,
            packet_pool: PACKET_POOL
                .iter()
                .filter_map(|net| net.parse().ok())
                .collect(),
            meet: false,
            further_links: Vec::new(),
            front: FrontConfig::default(),
            web: None,
        }
    }
}

impl Default for ServeLimits {
    fn default() -> Self {
        Self {
            sessions: 1024,
            sessions_per_client: 16,
            streams_per_session: 4096,
            memory: ByteCount::from_mib(1024),
            half_open_handshakes: 256,
            connects_per_second: 2000,
            packet_flows_per_client: 8192,
            packet_flows_per_second: 1000,
        }
    }
}

impl ServeConfig {
    pub(crate) fn read(section: &Field<'_>) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        let mut keys = vec![
            key("listen", &mut config.listen, read_listen),
            key("advertise", &mut config.advertise, |f| {
                f.list(HOSTS, |f| f.parse(HOSTS))
            }),
            key(
                "allow-destination",
                &mut config.allow_destination,
                read_networks,
            ),
            key("limits", &mut config.limits, ServeLimits::read),
            key("udp", &mut config.udp, Field::boolean),
            key(
                "client-schedulers",
                &mut config.client_schedulers,
                Field::boolean,
            ),
            key("packet-exit", &mut config.packet_exit, |f| {
                f.parse("\"nat\", \"routed\" or \"off\"")
            }),
            key("packet-pool", &mut config.packet_pool, |f| {
                f.list(POOL, |f| f.parse_with(read_network, POOL))
            }),
            key("meet", &mut config.meet, Field::boolean),
            key("further-links", &mut config.further_links, read_link_names),
            optional("web", &mut config.web, read_web),
        ];
        keys.extend(config.front.keys());
        section.read_keys(keys)?;
        match config.front.problem(config.listen) {
            None => Ok(config),
            Some(problem) => {
                let allowed = format!("other ports, since {problem}");
                Err(section.refuse("front", &allowed))
            }
        }
    }
}

impl ServeLimits {
    fn read(section: &Field<'_>) -> Result<Self, ConfigError> {
        let mut limits = Self::default();
        let count = |name, place| key(name, place, |f| f.integer(1..=MAX_LIMIT));
        section.read_keys(vec![
            count("sessions", &mut limits.sessions),
            count("sessions-per-client", &mut limits.sessions_per_client),
            count("streams-per-session", &mut limits.streams_per_session),
            key("memory", &mut limits.memory, |f| {
                let allowed = "a size of 16MiB or more, such as \"1GiB\"";
                f.parse_if(|memory| *memory >= MIN_MEMORY, allowed)
            }),
            count("half-open-handshakes", &mut limits.half_open_handshakes),
            count("connects-per-second", &mut limits.connects_per_second),
            count(
                "packet-flows-per-client",
                &mut limits.packet_flows_per_client,
            ),
            count(
                "packet-flows-per-second",
                &mut limits.packet_flows_per_second,
            ),
        ])?;
        Ok(limits)
    }
}

/// Reads the address of the dashboard.
pub(crate) fn read_web(field: &Field<'_>) -> Result<SocketAddr, ConfigError> {
    field.parse_with(read_web_address, WEB_ADDRESS)
}

/// Reads an address for the dashboard, which other machines must not reach. Port 0 lets the system
/// choose.
pub fn read_web_address(text: &str) -> Option<SocketAddr> {
    let address = text.parse::<SocketAddr>().ok();
    address.filter(|address| address.ip().is_loopback())
}

const HOSTS: &str = "a list of hosts such as \"gw.example\" or \"[2001:db8::1]:7443\"";
const POOL: &str = "networks such as [\"10.83.0.0/16\", \"fd83:83:83::/64\"]";

/// Values of [`read_web_address`], for errors.
pub const WEB_ADDRESS: &str = "a loopback address and a port such as 127.0.0.1:7480; from other machines it is \
     reached by ssh -L 7480:127.0.0.1:7480 HOST";

/// Default port of a gateway.
pub const DEFAULT_GATEWAY_PORT: u16 = 7443;

/// Networks of clients' inner addresses, unless others are given: private ones (RFC 1918, RFC 4193)
/// that are seldom met.
pub const PACKET_POOL: [&str; 2] = ["10.83.0.0/16", "fd48:6177:7365:72::/64"];

/// The highest value of a count among the limits.
pub const MAX_LIMIT: u32 = 1_000_000;
const MIN_MEMORY: ByteCount = ByteCount::from_mib(16);
