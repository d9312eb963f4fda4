//! This machine as the router of networks behind it: packets of their hosts go to a TUN device, and
//! their TCP connections to a port of this machine.
//!
//! Hosts need no set-up. Packets that leave by the device have an address that the far end has
//! assigned (RFC 3022): one for each host, else this machine's. TCP is taken over transparently
//! (TPROXY): the accepted socket has the destination's address. A guard owns the settings, rules
//! and the nftables table, and removes them when this program ends, however it ends.

mod hold;
mod modes;
pub(crate) mod rules;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use hawser_policy::Rule;
use ipnet::IpNet;
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::spawn_blocking;

use crate::forwarding::{Family, of_interface, setting_of, tell_of_firewalls};
use crate::guard::{Guard, GuardError};
use crate::nft::{self, NftError};
use hawser_link::bind::bind_to_interface;
use hawser_link::inherited;
use hawser_link::links::is_own;
use hawser_link::links::{Link, LinkKind};
pub use hold::LanHold;
use modes::{CHOOSING, Chain, TAKEN};

/// The traffic that is taken, and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LanPlan {
    /// Interfaces that lead to the networks.
    pub interfaces: Vec<String>,
    /// The TUN device.
    pub device: String,
    /// The device's address of each family that the far end carries. Other families keep their
    /// routes.
    pub families: Vec<IpAddr>,
    /// Networks from which hosts get addresses of their own, at most one of each family. Hosts of a
    /// family without one share the device's address.
    pub hosts: Vec<IpNet>,
    /// The ports of [`listen`].
    pub ports: LanPorts,
    /// Rules for connections, which may have TCP sent as packets.
    pub rules: Vec<Rule>,
}

/// Ports on the loopback addresses that accept the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LanPorts {
    /// The port at 127.0.0.1.
    pub v4: u16,
    /// The port at ::1; `None` without IPv6.
    pub v6: Option<u16>,
}

/// Routing of networks, until [`Self::end`] or the end of this value.
#[derive(Debug)]
pub struct LanRouting {
    guard: Guard,
    plan: LanPlan,
}

/// Why a network is not routed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LanError {
    /// No interface has this name.
    #[error("no interface is called {name}; there are {known}")]
    Missing {
        /// The name.
        name: String,
        /// Names of the existing interfaces.
        known: String,
    },
    /// The interface cannot have a network of hosts behind it.
    #[error("{name} {reason}")]
    Unsuitable {
        /// The interface.
        name: String,
        /// The reason.
        reason: &'static str,
    },
    /// A port for connections could not be opened.
    #[error("cannot accept connections of other hosts: {0}; this needs root, or CAP_NET_ADMIN")]
    Port(io::Error),
    /// The nftables table could not be created.
    #[error(transparent)]
    Rules(#[from] NftError),
    /// A system setting could not be changed.
    #[error(transparent)]
    Setting(#[from] GuardError),
    /// The guard has ended.
    #[error("cannot tell the guard: {0}")]
    NoGuard(io::Error),
    /// The kernel refuses the routing rules.
    #[error("cannot route packets of other hosts: {0}")]
    Routes(String),
    /// The program is about to end.
    #[error("the program ends")]
    Ending,
}

/// Checks that these interfaces exist and lead to no network other than one behind this machine.
/// `links` lists all interfaces; `wanted` names those that the user has chosen as links.
///
/// # Errors
/// The fault of one interface.
pub fn check(interfaces: &[String], links: &[Link], wanted: &[String]) -> Result<(), LanError> {
    let is_there = |name: &String| links.iter().any(|link| link.name == *name);
    if let Some(missing) = interfaces.iter().find(|name| !is_there(name)) {
        let known: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
        return Err(LanError::Missing {
            name: missing.clone(),
            known: known.join(", "),
        });
    }
    check_known(interfaces, links, wanted)
}

/// As [`check`], while some of the interfaces may still be missing.
///
/// # Errors
/// The fault of one interface, as far as known.
pub fn check_known(
    interfaces: &[String],
    links: &[Link],
    wanted: &[String],
) -> Result<(), LanError> {
    for name in interfaces {
        let link = links.iter().find(|link| link.name == *name);
        if let Some(reason) = unsuitable(name, link, wanted) {
            let name = name.clone();
            return Err(LanError::Unsuitable { name, reason });
        }
    }
    Ok(())
}

/// Returns why hosts can't be behind an interface; `link` is `None` while it is missing.
fn unsuitable(name: &str, link: Option<&Link>, wanted: &[String]) -> Option<&'static str> {
    let is = |what: fn(&Link) -> bool| link.is_some_and(what);
    Some(match () {
        () if is(|it| it.loopback) => "is the loopback interface",
        () if is_own(name) => "is an interface of Hawser itself",
        () if is(|it| it.has_default_route_v4 || it.has_default_route_v6) => {
            "is a link: a default route leads by it"
        }
        () if wanted.iter().any(|it| it == name) => "is one of the links that are to be used",
        () if is(|it| it.kind == LinkKind::Bridge) && do_rules_see_bridges() => {
            "is a bridge whose frames pass nftables rules, so no TCP can be taken over there: set \
             net.bridge.bridge-nf-call-iptables=0 and net.bridge.bridge-nf-call-ip6tables=0"
        }
        // Names are written into rules, where some characters have a special meaning.
        () if !has_plain_name(name) => "has a name that rules can't contain",
        () => return None,
    })
}

/// Checks whether this machine can route hosts: `nft` exists, and accepts the rules. Blocks.
///
/// # Errors
/// The missing feature.
pub fn check_system() -> Result<(), LanError> {
    for is_v6 in [false, true] {
        match open(is_v6) {
            // A machine without IPv6 makes do with IPv4.
            Err(error) if is_v6 => tracing::debug!(%error, "cannot take over IPv6 connections"),
            opened => drop(opened.map_err(LanError::Port)?),
        }
    }
    let plan = LanPlan {
        interfaces: vec!["lan".to_owned()],
        device: TRIAL.to_owned(),
        families: vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()],
        hosts: vec![
            IpAddr::V4(Ipv4Addr::LOCALHOST).into(),
            IpAddr::V6(Ipv6Addr::LOCALHOST).into(),
        ],
        ports: LanPorts { v4: 1, v6: Some(1) },
        rules: Vec::new(),
    };
    nft::check(&script(&plan, &[], &[]))?;
    Ok(())
}

/// Opens the port of a family for taken connections: they are accepted at the addresses of their
/// destinations. Needs a tokio runtime, and `CAP_NET_ADMIN`.
///
/// The port itself is on loopback, so that other hosts cannot reach it.
///
/// # Errors
/// The system refuses.
pub fn listen(is_v6: bool) -> Result<TcpListener, LanError> {
    let socket = open(is_v6).map_err(LanError::Port)?;
    let begin = || {
        socket.listen(BACKLOG)?;
        TcpListener::from_std(socket.into())
    };
    begin().map_err(LanError::Port)
}

/// Opens the port for name queries at an address of `interface`, for hosts behind it alone. Uses
/// the predecessor's listener if there is one. Needs a tokio runtime, and the privilege to open
/// ports below 1024.
///
/// # Errors
/// The system refuses, for example because a name server uses the port.
pub fn listen_for_names(interface: &Link, address: IpAddr) -> io::Result<(TcpListener, UdpSocket)> {
    let open = |kind, protocol| {
        let at = SocketAddr::new(address, NAMES);
        let socket = Socket::new(Domain::for_address(at), kind, Some(protocol))?;
        socket.set_nonblocking(true)?;
        bind_to_interface(&socket, interface.index)?;
        io::Result::Ok((socket, at))
    };
    let (socket, at) = open(Type::DGRAM, Protocol::UDP)?;
    socket.bind(&at.into())?;
    let at = SocketAddr::new(address, NAMES);
    if let Some(inherited) = inherited::take_on_link(at, interface.index) {
        return Ok((inherited, UdpSocket::from_std(socket.into())?));
    }
    let (listener, at) = open(Type::STREAM, Protocol::TCP)?;
    // Otherwise a restart would have to wait for the connections of the previous run.
    listener.set_reuse_address(true)?;
    listener.bind(&at.into())?;
    listener.listen(BACKLOG)?;
    let listener = TcpListener::from_std(listener.into())?;
    Ok((listener, UdpSocket::from_std(socket.into())?))
}

fn open(is_v6: bool) -> io::Result<Socket> {
    let (domain, address) = if !is_v6 {
        (Domain::IPV4, IpAddr::V4(Ipv4Addr::LOCALHOST))
    } else {
        (Domain::IPV6, IpAddr::V6(Ipv6Addr::LOCALHOST))
    };
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    if !is_v6 {
        socket.set_ip_transparent_v4(true)?
    } else {
        socket.set_ip_transparent_v6(true)?
    }
    // Accepted sockets inherit keepalive. Hosts vanish silently, and may sleep for a while.
    let alive = TcpKeepalive::new()
        .with_time(KEEPALIVE_AFTER)
        .with_interval(KEEPALIVE_EVERY);
    socket.set_tcp_keepalive(&alive)?;
    socket.bind(&SocketAddr::new(address, 0).into())?;
    Ok(socket)
}

impl LanRouting {
    /// Begins the routing: first the table, then settings, then the rules that route packets to the
    /// device.
    ///
    /// # Errors
    /// The system lacks a feature or forbids it; then nothing is changed.
    pub async fn begin(mut plan: LanPlan, guard: Guard) -> Result<Self, LanError> {
        // A machine without IPv6 makes do with IPv4.
        let is_off = of_interface(Family::V6, &plan.device, "disable_ipv6").as_deref() != Some("0");
        plan.families.retain(|it| it.is_ipv4() || !is_off);
        plan.hosts.retain(|it| it.addr().is_ipv4() || !is_off);
        // Routes come first: adding them fails if another Hawser has such routes.
        let routes = rules::add_routes(&plan.device, &plan.families).await;
        routes.map_err(LanError::Routes)?;
        let to_prepare = plan.clone();
        let preparing = spawn_blocking(move || prepare(&to_prepare, guard));
        let guard = preparing.await.map_err(|_| LanError::Ending)??;
        let begun = rules::add_rules(&plan.interfaces, &plan.families).await;
        let routing = Self { guard, plan };
        match begun {
            Ok(()) => Ok(routing),
            Err(reason) => {
                routing.end().await;
                Err(LanError::Routes(reason))
            }
        }
    }

    /// Sets the rules for connections that select the TCP sent as packets. Existing connections
    /// keep their mode.
    ///
    /// # Errors
    /// `nft` refuses the rules, or the guard has ended; then the previous rules stay.
    pub async fn set_rules(&mut self, rules: Vec<Rule>) -> Result<(), LanError> {
        let next = LanPlan {
            rules,
            ..self.plan.clone()
        };
        let chains = choosing(&next);
        if chains == choosing(&self.plan) {
            self.plan = next;
            return Ok(());
        }
        // The guard owns the table, so the check uses a table of another name.
        let trial = LanPlan {
            device: TRIAL.to_owned(),
            ..next.clone()
        };
        let script = script(&trial, &[], &[]);
        let checking = spawn_blocking(move || nft::check(&script));
        checking.await.map_err(|_| LanError::Ending)??;
        let table = table_of(&next.device);
        let change: String = chains.iter().map(|it| it.replacement(&table)).collect();
        self.guard
            .change_rules(&change)
            .map_err(LanError::NoGuard)?;
        self.plan = next;
        Ok(())
    }

    /// Ends the routing: the previous state is restored when this returns.
    pub async fn end(self) {
        if let Err(error) = rules::take_back().await {
            tracing::warn!(%error, "cannot remove routing rules");
        }
        // Dropping the guard waits for its process.
        let _ = spawn_blocking(move || drop(self.guard)).await;
    }
}

/// Creates the table and applies the settings. Blocks.
fn prepare(plan: &LanPlan, mut guard: Guard) -> Result<Guard, LanError> {
    guard.take_back_lan_rules().map_err(LanError::NoGuard)?;
    let has = |family: Family| {
        let mut families = plan.families.iter();
        families.any(|address| address.is_ipv4() == (family == Family::V4))
    };
    let forwards = |name: &&str| {
        let value = of_interface(Family::V4, name, FORWARDING);
        value.is_none_or(|value| value != "0")
    };
    let to_make = || {
        let names = plan.interfaces.iter().map(String::as_str);
        let newly_v4: Vec<&str> = names.filter(|name| !forwards(name)).collect();
        let mut newly = Vec::new();
        if has(Family::V6) && !Family::V6.is_forwarded() {
            newly.push(Family::V6);
        }
        script(plan, &newly_v4, &newly)
    };
    guard.begin_table(&table_of(&plan.device), to_make)?;
    if has(Family::V4) {
        // For IPv4 the setting of the incoming interface decides.
        for name in plan.interfaces.iter().chain([&plan.device]) {
            guard.set(&setting_of(Family::V4, name, FORWARDING), "1")?;
        }
        // Answers that arrive by the device have source addresses that other routes lead to.
        let loose = setting_of(Family::V4, &plan.device, "rp_filter");
        guard.set(&loose, "2")?;
    }
    if has(Family::V6) {
        Family::V6.forward(&mut guard)?;
    }
    tell_of_firewalls(&plan.device);
    Ok(guard)
}

/// Builds the table on one line, so that it takes effect at once. `newly_v4` are interfaces from
/// which IPv4 was not forwarded before, `newly` whole families that were not forwarded.
fn script(plan: &LanPlan, newly_v4: &[&str], newly: &[Family]) -> String {
    let (table, device) = (table_of(&plan.device), &plan.device);
    let (lans, taking, taken) = (set_of(&plan.interfaces), taking(plan), taken(plan));
    let choosing: String = choosing(plan).iter().map(Chain::definition).collect();
    let leaving = leaving(plan);
    let mut passing = format!(
        "iifname \"{device}\" oifname != {lans} drop; \
         iifname \"{device}\" ct state new,invalid drop; \
         iifname != {lans} oifname \"{device}\" drop; "
    );
    // Traffic that was not forwarded before is still not forwarded, except to and from the device.
    if !newly_v4.is_empty() {
        let newly = set_of(newly_v4);
        passing += &format!("meta nfproto ipv4 iifname {newly} oifname != \"{device}\" drop; ");
    }
    for family in newly {
        let family = family.name();
        passing += &format!(
            "meta nfproto {family} iifname != \"{device}\" oifname != \"{device}\" drop; "
        );
    }
    format!(
        "table inet {table} {{ flags owner; \
         chain {TAKEN} {{ {taken}}}; {choosing}\
         chain taking {{ type filter hook prerouting priority -90; policy accept; {taking}}}; \
         chain passing {{ type filter hook forward priority -10; policy accept; {passing}}}; \
         chain leaving {{ type nat hook postrouting priority 100; policy accept; {leaving}}}; }}\n"
    )
}

/// Builds the rules that give packets an address of the tunnel when they leave by the device. A
/// host's address there has the last bits of its own address, so that both ends of the tunnel can
/// tell hosts apart. Two hosts with the same bits share an address.
fn leaving(plan: &LanPlan) -> String {
    let device = &plan.device;
    let mut leaving = String::new();
    for own in &plan.families {
        let family = if own.is_ipv4() { "ip" } else { "ip6" };
        let nets = plan.hosts.iter();
        for net in nets.filter(|net| net.addr().is_ipv4() == own.is_ipv4()) {
            let (network, bits) = (net.network(), net.hostmask());
            leaving += &format!(
                "oifname \"{device}\" {family} saddr != {own} \
                 snat {family} to {family} saddr & {bits} | {network}; "
            );
        }
    }
    leaving + &format!("oifname \"{device}\" masquerade; ")
}

/// Builds the rules that take TCP over, after other tables have changed destinations (-100). They
/// take only packets that a default route would forward: none for this machine itself, and none
/// with a specific route. The mark stays on taken packets, and routes them to this machine.
fn taking(plan: &LanPlan) -> String {
    let lans = set_of(&plan.interfaces);
    let set = format!("meta mark set meta mark or {:#x}", rules::TAKEN);
    let clear = cleared();
    let mut taking = format!(
        "iifname != {lans} accept; meta l4proto != tcp accept; \
         fib daddr type {{ local, broadcast, anycast, multicast }} accept; "
    );
    let is_carried = |is_v4| plan.families.iter().any(|it| it.is_ipv4() == is_v4);
    for (is_v4, family) in [(true, "ipv4"), (false, "ipv6")] {
        if !is_carried(is_v4) {
            taking += &format!("meta nfproto {family} accept; ");
        }
    }
    taking += &format!(
        "{set}; fib daddr . mark oif exists {clear} accept; \
         ip daddr {{ {NOWHERE_V4} }} drop; ip6 daddr {{ {NOWHERE_V6} }} drop; "
    );
    taking + &format!("jump {CHOOSING}; goto {TAKEN}; ")
}

/// Builds the rules for taken TCP packets.
fn taken(plan: &LanPlan) -> String {
    let v4 = plan.ports.v4;
    let mut taken =
        format!("meta nfproto ipv4 meta l4proto tcp tproxy ip to 127.0.0.1:{v4} accept; ");
    if let Some(v6) = plan.ports.v6 {
        taken += &format!("meta nfproto ipv6 meta l4proto tcp tproxy ip6 to [::1]:{v6} accept; ");
    }
    // Reached only when the port is closed.
    taken + "drop; "
}

/// Builds the chains that select the TCP sent as packets. Such packets lose the mark.
fn choosing(plan: &LanPlan) -> Vec<Chain> {
    let pass = format!("{} accept", cleared());
    let own = plan.families.iter().map(|it| IpNet::from(*it));
    let own: Vec<IpNet> = own.chain(plan.hosts.iter().copied()).collect();
    modes::chains(&plan.rules, &own, &pass)
}

fn cleared() -> String {
    format!("meta mark set meta mark and {:#x}", !rules::TAKEN)
}

fn set_of(names: &[impl AsRef<str>]) -> String {
    let quoted = names.iter().map(|name| format!("\"{}\"", name.as_ref()));
    format!("{{ {} }}", quoted.collect::<Vec<_>>().join(", "))
}

fn table_of(device: &str) -> String {
    format!("hawser_lan_{device}")
}

/// Returns whether bridged frames pass these rules (`br_netfilter`). The socket that TPROXY chooses
/// there is lost on the way up.
fn do_rules_see_bridges() -> bool {
    let is_on = |family: &str| {
        let setting = format!("/proc/sys/net/bridge/bridge-nf-call-{family}");
        std::fs::read_to_string(setting).is_ok_and(|value| value.trim() == "1")
    };
    is_on("iptables") || is_on("ip6tables")
}

/// Returns whether an interface's name has no special meaning in rules.
pub(crate) fn has_plain_name(interface: &str) -> bool {
    let is_plain = |letter: char| {
        letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.' | '@' | '+')
    };
    !interface.is_empty() && interface.chars().all(is_plain)
}

/// Device name of a table that is only checked.
const TRIAL: &str = "hawser";
/// The port of name servers.
const NAMES: u16 = 53;
const FORWARDING: &str = "forwarding";
/// Destinations that are never forwarded (RFC 6890).
const NOWHERE_V4: &str = "0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16, 224.0.0.0/3";
const NOWHERE_V6: &str = "::/127, fe80::/10, ff00::/8";
/// Connections that wait to be accepted. Beyond that the kernel uses SYN cookies.
const BACKLOG: i32 = 1024;
const KEEPALIVE_AFTER: Duration = Duration::from_secs(600);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(60);
