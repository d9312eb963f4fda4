//! A lab: client host, server host, and the links between them.

use std::io;
use std::net::Ipv4Addr;

use parking_lot::Mutex;

use crate::emulator::{Counters, Emulator, LinkBytes, PacketSocket, Span, Translation};
use crate::ethtool;
use crate::ip::{self, IpError};
use crate::netns::NetNs;
use crate::scenario::{Action, Direction, Scenario};

/// The server host's address that every link leads to.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);

/// Namespaces, interfaces, addresses and a running emulator; gone when dropped.
#[derive(Debug)]
pub struct Lab {
    // First, so that the links stop before their namespaces go.
    emulator: Option<Emulator>,
    client: NetNs,
    server: NetNs,
    middle: Option<NetNs>,
    links: Vec<LabLink>,
}

/// One link as the client host sees it.
#[derive(Debug)]
pub struct LabLink {
    /// The client's interface.
    pub interface: String,
    /// The client's gateway on the link.
    pub gateway: Ipv4Addr,
    /// True if the client's address stands on another link too, so that it says nothing.
    pub ambiguous: bool,
    subnet: Subnet,
    address: Mutex<Ipv4Addr>,
}

impl LabLink {
    /// The client's address on the link.
    pub fn address(&self) -> Ipv4Addr {
        *self.address.lock()
    }

    /// The server's address on it.
    pub fn gateway(&self) -> Ipv4Addr {
        self.gateway
    }
}

/// Errors of building or changing a lab.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The `ip` program.
    #[error(transparent)]
    Ip(#[from] IpError),
    /// A system call.
    #[error("{step}: {reason}")]
    System {
        /// The step that failed.
        step: String,
        /// The system's error.
        reason: io::Error,
    },
    /// A scenario asks for what only the simulator has.
    #[error("link {link} has a translation that forgets (`nat`): only hawser-sim can do that")]
    Forgetful {
        /// Number of the link, from 1.
        link: usize,
    },
    /// The links together exceed what they share in front of the server.
    #[error("the links carry more than the server's line (`server`): only hawser-sim can do that")]
    NarrowServer,
}

impl Lab {
    /// Builds the links of a scenario, each shaped by the emulator.
    pub fn shaped(scenario: &Scenario) -> Result<Self, LabError> {
        refuse(scenario)?;
        let inside: Vec<_> = scenario.links.iter().map(|link| link.behind).collect();
        let mut lab = Self::bare(&inside)?;
        let middle = namespace("emulator")?;
        quieten(&middle, "emulator")?;
        let mut lines = Vec::new();
        let (client, server) = (lab.client.path(), lab.server.path());
        for k in 1..=inside.len() {
            for (name, peer, host, far) in [
                (format!("c{k}"), format!("l{k}"), client.display(), false),
                (format!("s{k}"), format!("w{k}"), server.display(), true),
            ] {
                let mac = mac(k, far);
                lines.push(format!(
                    "link add {name} type veth peer name {peer} address {mac} netns {host}"
                ));
                lines.push(format!("link set {name} up"));
            }
        }
        ip::batch(&middle, &lines)?;
        lab.configure_hosts()?;
        let mut spans = Vec::new();
        for (index, link) in scenario.links.iter().enumerate() {
            let k = index + 1;
            for (host, name) in [
                (&lab.client, format!("l{k}")),
                (&lab.server, format!("w{k}")),
            ] {
                host.run(|| ethtool::offloads_off(&name))
                    .map_err(failed("turning offloads off"))?;
            }
            let open = |name: String| {
                middle
                    .run(|| {
                        ethtool::offloads_off(&name)?;
                        PacketSocket::open(&name)
                    })
                    .map_err(failed("opening a packet socket"))
            };
            spans.push(Span {
                client: open(format!("c{k}"))?,
                server: open(format!("s{k}"))?,
                link: link.clone(),
                translation: link.behind.map(|inside| Translation {
                    inside,
                    outside: Subnet::of_link(k).host(FIRST_HOST),
                }),
            });
        }
        let emulator = Emulator::start(spans, scenario.seed).map_err(failed("starting"))?;
        lab.emulator = Some(emulator);
        lab.middle = Some(middle);
        Ok(lab)
    }

    /// Builds `links` plain virtual cables with their offloads on and nothing in between.
    pub fn unshaped(links: usize) -> Result<Self, LabError> {
        let lab = Self::bare(&vec![None; links])?;
        let server = lab.server.path();
        let lines: Vec<_> = (1..=links)
            .map(|k| {
                let (near, far) = (mac(k, false), mac(k, true));
                let server = server.display();
                format!(
                    "link add l{k} address {near} type veth peer name w{k} address {far} netns {server}"
                )
            })
            .collect();
        ip::batch(&lab.client, &lines)?;
        lab.configure_hosts()?;
        Ok(lab)
    }

    fn bare(inside: &[Option<Ipv4Addr>]) -> Result<Self, LabError> {
        let (client, server) = (namespace("client")?, namespace("server")?);
        quieten(&client, "client")?;
        quieten(&server, "server")?;
        let links = inside
            .iter()
            .enumerate()
            .map(|(index, behind)| {
                let subnet = behind.map_or(Subnet::of_link(index + 1), Subnet::around);
                LabLink {
                    interface: format!("l{}", index + 1),
                    gateway: subnet.host(1),
                    ambiguous: behind.is_some()
                        && inside.iter().filter(|other| *other == behind).count() > 1,
                    subnet,
                    address: Mutex::new(behind.unwrap_or(subnet.host(FIRST_HOST))),
                }
            })
            .collect();
        Ok(Self {
            emulator: None,
            client,
            server,
            middle: None,
            links,
        })
    }

    /// Gives both hosts their addresses, routes, neighbours and MPTCP endpoints.
    fn configure_hosts(&self) -> Result<(), LabError> {
        let mut client = vec!["link set lo up".to_owned()];
        let mut endpoints = vec![MPTCP_LIMITS.to_owned()];
        let mut server = vec![
            "link set lo up".to_owned(),
            format!("address add {SERVER}/32 dev lo"),
        ];
        for (index, link) in self.links.iter().enumerate() {
            let k = index + 1;
            let seen = Subnet::of_link(k);
            server.extend([
                format!("address add {}/24 dev w{k}", seen.host(1)),
                format!("link set w{k} up"),
            ]);
            // The neighbours are known for good: a lost ARP packet is no property of a link.
            for host in [FIRST_HOST, SECOND_HOST] {
                let near = mac(k, false);
                server.push(format!(
                    "neigh add {} lladdr {near} dev w{k} nud permanent",
                    seen.host(host)
                ));
            }
            client.push(format!("link set l{k} up"));
            client.push(format!("address add {}/24 dev l{k}", link.address()));
            client.extend(link.routes(k, "add"));
            client.push(link.rule(k, "add"));
            if index > 0 && !link.ambiguous {
                endpoints.push(link.endpoint(k, "add"));
            }
        }
        ip::batch(&self.client, &client)?;
        ip::batch(&self.server, &server)?;
        if self.speaks_mptcp() {
            ip::batch(&self.client, &endpoints)?;
            ip::batch(&self.server, &[MPTCP_LIMITS.to_owned()])?;
        }
        Ok(())
    }

    /// Returns whether MPTCP can be measured here: the kernel has it, and the client's addresses
    /// differ.
    pub fn speaks_mptcp(&self) -> bool {
        std::path::Path::new("/proc/sys/net/mptcp/enabled").exists()
            && !self.links.iter().any(|link| link.ambiguous)
    }

    /// The client host's namespace.
    pub fn client(&self) -> &NetNs {
        &self.client
    }

    /// The server host's namespace.
    pub fn server(&self) -> &NetNs {
        &self.server
    }

    /// The links, in order.
    pub fn links(&self) -> &[LabLink] {
        &self.links
    }

    /// Returns the emulator's counters so far; all zero without one.
    pub fn counters(&self) -> Counters {
        self.emulator
            .as_ref()
            .map(Emulator::counters)
            .unwrap_or_default()
    }

    /// IP bytes that every link has carried so far; nothing without an emulator.
    pub fn carried(&self) -> Vec<LinkBytes> {
        self.emulator
            .as_ref()
            .map(Emulator::carried)
            .unwrap_or_default()
    }

    /// The emulator, which labs without shaped links do not have.
    pub fn emulator(&self) -> Option<&Emulator> {
        self.emulator.as_ref()
    }

    /// Lets something happen to a link.
    pub fn apply(&self, index: usize, action: Action) -> Result<(), LabError> {
        let (Some(emulator), Some(middle), Some(link)) =
            (&self.emulator, &self.middle, self.links.get(index))
        else {
            return Ok(());
        };
        let k = index + 1;
        match action {
            Action::BlackHole => emulator.set_black_hole(index, true),
            Action::Pass => emulator.set_black_hole(index, false),
            Action::CarrierDown => ip::batch(middle, &[format!("link set c{k} down")])?,
            Action::CarrierUp => ip::batch(middle, &[format!("link set c{k} up")])?,
            Action::AddressChange => self.change_address(link, k)?,
        }
        Ok(())
    }

    fn change_address(&self, link: &LabLink, k: usize) -> Result<(), LabError> {
        let old = link.address();
        let new = link.subnet.host(match old.octets()[3] {
            FIRST_HOST => SECOND_HOST,
            _ => FIRST_HOST,
        });
        let endpoint = k > 1 && self.speaks_mptcp();
        let mut lines = vec![link.rule(k, "del")];
        lines.push(format!("address del {old}/24 dev l{k}"));
        *link.address.lock() = new;
        lines.push(format!("address add {new}/24 dev l{k}"));
        // Routes went with the address that was their subnet's last.
        lines.extend(link.routes(k, "replace"));
        lines.push(link.rule(k, "add"));
        if endpoint {
            lines.push(format!("mptcp endpoint del id {k}"));
            lines.push(link.endpoint(k, "add"));
        }
        Ok(ip::batch(&self.client, &lines)?)
    }
}

impl LabLink {
    fn routes(&self, k: usize, verb: &str) -> Vec<String> {
        let gateway = self.gateway;
        let table = FIRST_TABLE + k;
        vec![
            format!("route {verb} default via {gateway} dev l{k} metric {table}"),
            format!("route {verb} default via {gateway} dev l{k} table {table}"),
            format!(
                "neigh replace {gateway} lladdr {} dev l{k} nud permanent",
                mac(k, true)
            ),
        ]
    }

    /// Replies and bound sources leave by their own link.
    fn rule(&self, k: usize, verb: &str) -> String {
        let table = FIRST_TABLE + k;
        format!(
            "rule {verb} from {} table {table} priority {table}",
            self.address()
        )
    }

    fn endpoint(&self, k: usize, verb: &str) -> String {
        format!(
            "mptcp endpoint {verb} {} dev l{k} id {k} subflow",
            self.address()
        )
    }
}

/// Refuses features that only the simulator has.
fn refuse(scenario: &Scenario) -> Result<(), LabError> {
    if let Some(forgets) = scenario.links.iter().position(|link| link.nat.is_some()) {
        return Err(LabError::Forgetful { link: forgets + 1 });
    }
    let narrow = |direction| {
        let server = scenario.server.as_ref().map(|it| it.line(direction).rate);
        server.is_some_and(|rate| rate < scenario.total_rate(direction))
    };
    // One that is wide enough is never full, so it needs no emulation.
    if narrow(Direction::Put) || narrow(Direction::Get) {
        return Err(LabError::NarrowServer);
    }
    Ok(())
}

/// The first three bytes of a /24.
#[derive(Clone, Copy, Debug)]
struct Subnet([u8; 3]);

impl Subnet {
    fn of_link(k: usize) -> Self {
        Self([10, 77, u8::try_from(k).unwrap_or(u8::MAX)])
    }

    fn around(address: Ipv4Addr) -> Self {
        let [a, b, c, _] = address.octets();
        Self([a, b, c])
    }

    fn host(self, last: u8) -> Ipv4Addr {
        let [a, b, c] = self.0;
        Ipv4Addr::new(a, b, c, last)
    }
}

/// Returns the hardware address of an end of a link, from 1.
pub(crate) fn mac(link: usize, server: bool) -> String {
    format!("02:68:77:{:02x}:00:{:02x}", link, 1 + u8::from(server))
}

fn namespace(role: &str) -> Result<NetNs, LabError> {
    NetNs::create().map_err(failed(&format!("making the {role} namespace")))
}

/// Parameters that keep the kernel from adding its own to what is measured.
fn quieten(namespace: &NetNs, role: &str) -> Result<(), LabError> {
    let parameters = [
        ("net/ipv4/conf/all/rp_filter", "0"),
        ("net/ipv4/conf/default/rp_filter", "0"),
        // Otherwise one transfer's loss would set the next one's slow-start threshold.
        ("net/ipv4/tcp_no_metrics_save", "1"),
        // Router solicitations and the like would be traffic of their own on a thin link.
        ("net/ipv6/conf/default/disable_ipv6", "1"),
    ];
    for parameter in parameters {
        match namespace.set_parameters(&[parameter]) {
            // A kernel without IPv6 has nothing to be quietened.
            Err(_) if parameter.0.starts_with("net/ipv6") => {}
            result => result.map_err(failed(&format!("preparing the {role} namespace")))?,
        }
    }
    Ok(())
}

fn failed(step: &str) -> impl FnOnce(io::Error) -> LabError {
    let step = step.to_owned();
    move |reason| LabError::System { step, reason }
}

const MPTCP_LIMITS: &str = "mptcp limits set subflow 8 add_addr_accepted 8";
const FIRST_HOST: u8 = 2;
const SECOND_HOST: u8 = 3;
/// Routing table and rule priority of link k are this plus k.
const FIRST_TABLE: usize = 100;
