use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;

use aya::maps::{Array, HashMap, LpmTrie, MapData, PerCpuArray, RingBuf};
use aya::{Ebpf, EbpfLoader, VerifierLogLevel};
use hawser_sched::PortClass;
use hawser_sched::connection::ConnectionPolicy;
use ipnet::IpNet;

use crate::attach::{attach, check_kernel, open_group, with_log_if_refused};
use crate::diag::Diagnosis;
use crate::maps::{MAPPED, Trie, prefix, replace, replace_trie, snapshot, take};
use crate::rule_tables::RuleTables;
use crate::seen::FlowState;
use crate::settings::policy_number;
use crate::sys::Ring;
use crate::tables::{
    self, DemandKey, DemandRow, FlowRow, LinkRow, Links, Loads, MAX_LINKS, NamePort, NameServerRow,
    PeerKey, RemainingRow, SettingsRow,
};
use crate::{
    Bytes, CaptureError, CarriedFamilies, Connection, Events, LinkEntry, OriginTable, Origins,
    Settings, Unruled, sys,
};

/// The programs in the kernel that assign the connections of a control group and its descendants to
/// links.
///
/// Nothing is pinned: capture ends when this is dropped or the process ends. Connections that are
/// open then continue unchanged.
///
/// A socket belongs to the control group of its process at the socket's creation. After a move of
/// the process, its old sockets stay captured, and new ones follow the new group.
#[derive(Debug)]
pub struct Capture {
    /// The loaded programs and their attachments.
    pub(crate) programs: Ebpf,
    pub(crate) tables: Tables,
    pub(crate) rules: RuleTables,
    pub(crate) diagnosis: Diagnosis,
    /// Progress of each open connection at the last look.
    pub(crate) seen: BTreeMap<u64, FlowState>,
    settings: SettingsRow,
    events: Option<Ring>,
    origins: Origins,
}

/// The tables shared with the kernel's program.
pub(crate) struct Tables {
    settings: Array<MapData, SettingsRow>,
    pub(crate) links: Array<MapData, Links>,
    pub(crate) loads: Array<MapData, Loads>,
    pub(crate) flows: HashMap<MapData, u64, FlowRow>,
    pub(crate) remaining: HashMap<MapData, u64, RemainingRow>,
    local: LpmTrie<MapData, [u8; 16], u64>,
    demands: HashMap<MapData, DemandKey, DemandRow>,
    peers: HashMap<MapData, PeerKey, u32>,
    name_servers: HashMap<MapData, NameServerRow, u32>,
    name_ports: HashMap<MapData, NamePort, NameServerRow>,
    counts: PerCpuArray<MapData, u64>,
}

/// Counters of the kernel's program since it was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counts {
    /// Connections bound to a link, or redirected.
    pub placed: u64,
    /// Events lost for lack of room; the tables are still correct.
    pub lost_events: u64,
    /// Connections not captured because the table of flows was full.
    pub full: u64,
    /// Connections not captured because their link disappeared before binding.
    pub unbound: u64,
    /// Connections refused because the rules allowed no link, or the destination is held.
    pub refused: u64,
}

impl Capture {
    /// Loads the programs and attaches them to the control group at `cgroup`, a folder in a version
    /// 2 hierarchy. The programs do nothing until there are links.
    ///
    /// The programs work in the caller's network namespace and ignore the caller's own process.
    /// Needs Linux 5.15, CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON.
    pub fn start(cgroup: &Path, settings: &Settings) -> Result<Self, CaptureError> {
        check_kernel()?;
        let group = open_group(cgroup)?;
        with_log_if_refused(|words| Self::load(&group, settings, words))
    }

    fn load(
        group: &File,
        settings: &Settings,
        words: VerifierLogLevel,
    ) -> Result<Self, CaptureError> {
        let mut loader = EbpfLoader::new();
        let mut programs = loader.verifier_log_level(words).load(OBJECT)?;
        let mut tables = Tables::of(&mut programs)?;
        let rules = RuleTables::of(&mut programs)?;
        let origins = HashMap::try_from(take(&mut programs, "ORIGINS")?)?;
        let origins = Arc::new(OriginTable::new(origins));
        let events = Ring(RingBuf::try_from(take(&mut programs, "EVENTS")?)?);
        tables.set_local(&[])?;
        let diagnosis =
            Diagnosis::open().map_err(CaptureError::system("the diagnosis of sockets"))?;
        let introduction =
            UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(CaptureError::system("a socket"))?;
        let mut row = first_settings(&introduction, settings)?;
        tables.settings.set(0, row, 0)?;
        attach(&mut programs, group)?;
        // Introduces this process to the program: its number in the kernel may differ from ours in
        // a PID namespace, so the program takes it from the connect of a known socket, which sends
        // nothing. Outside the group the program learns nothing, and need not.
        let _ = introduction.connect((Ipv4Addr::LOCALHOST, 9));
        row.process = tables.settings.get(&0, 0)?.process;
        row.introduction = 0;
        tables.settings.set(0, row, 0)?;
        Ok(Self {
            programs,
            tables,
            rules,
            diagnosis,
            seen: BTreeMap::new(),
            settings: row,
            events: Some(events),
            origins,
        })
    }

    /// Replaces the settings.
    pub fn set_settings(&mut self, settings: &Settings) -> Result<(), CaptureError> {
        fill(&mut self.settings, settings);
        Ok(self.tables.settings.set(0, self.settings, 0)?)
    }

    /// Sets the policy for links, and `unruled`, if given: the treatment of connections without a
    /// rule. Other settings stay.
    pub fn set_choice(
        &mut self,
        policy: ConnectionPolicy,
        unruled: Option<Unruled>,
    ) -> Result<(), CaptureError> {
        let row = SettingsRow {
            policy: policy_number(policy),
            auto_mode: unruled.map_or(self.settings.auto_mode, Unruled::number),
            ..self.settings
        };
        if [row.policy, row.auto_mode] != [self.settings.policy, self.settings.auto_mode] {
            self.tables.settings.set(0, row, 0)?;
            self.settings = row;
        }
        Ok(())
    }

    /// Sets the address families whose packets the machine's routes lead to a tunnel of this
    /// process. Datagrams for a gateway, and traffic that a rule sends as packets, are then left to
    /// these routes. Other settings stay.
    pub fn set_packets(&mut self, carried: CarriedFamilies) -> Result<(), CaptureError> {
        let packets = carried.number();
        if packets != self.settings.packets {
            let row = SettingsRow {
                packets,
                ..self.settings
            };
            self.tables.settings.set(0, row, 0)?;
            self.settings = row;
        }
        Ok(())
    }

    /// Sets the links. A link keeps its load. A removed link gets no more connections, and its
    /// connections continue. A new link gets none before the rules are in force for it.
    ///
    /// Call it twice a second: it also looks for the control groups named in rules, and retries
    /// rules that failed.
    pub fn set_links(&mut self, links: &[LinkEntry]) -> Result<(), CaptureError> {
        let before = self.tables.links.get(&0, 0)?;
        let table = self.tables.placed(before, links)?;
        let stays = |place: usize| {
            let name = |row: &LinkRow| (row.index, row.name);
            name(&before.at[place]) == name(&table.at[place])
        };
        let stay = places(stays);
        // Rules name links, which the kernel knows by slot.
        self.rules.due |= stay != places(|_| true);
        self.rules.look_for_groups();
        if self.rules.due {
            let mut first = table;
            first.ipv4 &= before.ipv4 & stay;
            first.ipv6 &= before.ipv6 & stay;
            self.tables.links.set(0, first, 0)?;
            self.apply_rules()?;
        }
        Ok(self.tables.links.set(0, table, 0)?)
    }

    /// Sets prefixes not reached by the default route: local addresses, networks on a link, private
    /// networks behind a VPN. Connections to these prefixes are not captured unless the
    /// destination is held. Connections to this host, link-local and multicast addresses are never
    /// captured. Replaces the earlier prefixes.
    pub fn set_local_prefixes(&mut self, prefixes: &[IpNet]) -> Result<(), CaptureError> {
        self.tables.set_local(prefixes)
    }

    /// Adds or replaces demand estimates of connections, by program name of at most 15 bytes and
    /// port class. Beyond 8192, the least recently used are dropped.
    pub fn set_demands<'a>(
        &mut self,
        demands: impl IntoIterator<Item = (&'a str, PortClass, Bytes)>,
    ) -> Result<(), CaptureError> {
        for (program, port_class, demand) in demands {
            let key = DemandKey {
                program: tables::comm(program),
                port_class: port_class as u32,
            };
            self.tables
                .demands
                .insert(key, DemandRow::from(demand), 0)?;
        }
        Ok(())
    }

    /// Sets the destinations that support bonding, and those that are held. Connections to a held
    /// destination go through this process or nowhere, whatever routes say, unless a rule makes
    /// them direct or names links. Datagrams to a held destination are refused, those of
    /// unconnected sockets whatever rules say. Exempt are sockets that the program has bound to an
    /// address or a device, and destinations that are always near: this host, link-local and
    /// multicast addresses. Port 0 stands for all ports.
    ///
    /// A destination in both sets is held, even if one of its entries is for all ports. Replaces
    /// the earlier sets. There is room for [`MAX_PEERS`]; held destinations come first, and peers
    /// without room are left out.
    ///
    /// # Errors
    /// [`CaptureError::TooManyHeld`], where nothing has changed, and errors of the system.
    pub fn set_peers(
        &mut self,
        peers: &[SocketAddr],
        held: &[SocketAddr],
    ) -> Result<(), CaptureError> {
        let all = peer_rows(peers, held)?;
        let row = SettingsRow {
            held: (!held.is_empty()).into(),
            ..self.settings
        };
        replace(&mut self.tables.peers, all.into_iter())?;
        if row.held != self.settings.held {
            self.tables.settings.set(0, row, 0)?;
            self.settings = row;
        }
        Ok(())
    }

    /// Sets the name servers for which ports of this process answer, on the loopback address of
    /// each server's family. Queries to port 53 of these servers, over UDP and TCP, go to these
    /// ports, and the answers seem to come from the servers. Exempt are sockets that the program
    /// has bound to an address or a device, connections that rules give links, and
    /// systemd-resolved. Replaces the earlier set.
    pub fn set_name_servers(&mut self, servers: &[(IpAddr, u16)]) -> Result<(), CaptureError> {
        let row = |server: &IpAddr| NameServerRow {
            address: tables::mapped(*server),
        };
        let key = |(server, port): &(IpAddr, u16)| NamePort {
            port: *port,
            ipv6: server.is_ipv6().into(),
        };
        // First the way back: programs reject answers from another address than the server's.
        let ports = servers.iter().map(|it| (key(it), row(&it.0)));
        replace(&mut self.tables.name_ports, ports)?;
        let there = servers
            .iter()
            .map(|(server, port)| (row(server), u32::from(*port)));
        replace(&mut self.tables.name_servers, there)
    }

    /// Returns the stream of events; `None` the second time. Needs a tokio runtime with I/O.
    pub fn events(&mut self) -> Result<Option<Events>, CaptureError> {
        let events = self.events.take().map(Events::new).transpose();
        events.map_err(CaptureError::system("the ring of events"))
    }

    /// Returns the original destinations of redirected connections.
    pub fn origins(&self) -> Origins {
        Arc::clone(&self.origins)
    }

    /// Returns the open captured connections; concurrent changes may hide some.
    pub fn open(&self) -> Vec<Connection> {
        let flows = snapshot(&self.tables.flows).into_iter();
        let open = flows.filter(|(_, flow)| flow.state & tables::FLOW_ENDED == 0);
        open.map(|(cookie, flow)| Connection::new(cookie, &flow))
            .collect()
    }

    /// Returns the program's counters.
    pub fn counts(&self) -> Result<Counts, CaptureError> {
        let count = |index: u32| -> Result<u64, CaptureError> {
            Ok(self.tables.counts.get(&index, 0)?.iter().sum())
        };
        Ok(Counts {
            placed: count(4)?,
            lost_events: count(0)?,
            full: count(1)?,
            unbound: count(2)?,
            refused: count(3)?,
        })
    }
}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tables").finish_non_exhaustive()
    }
}

impl Tables {
    fn of(programs: &mut Ebpf) -> Result<Self, CaptureError> {
        Ok(Self {
            settings: Array::try_from(take(programs, "SETTINGS")?)?,
            links: Array::try_from(take(programs, "LINKS")?)?,
            loads: Array::try_from(take(programs, "LOADS")?)?,
            flows: HashMap::try_from(take(programs, "FLOWS")?)?,
            remaining: HashMap::try_from(take(programs, "REMAINING")?)?,
            local: LpmTrie::try_from(take(programs, "LOCAL")?)?,
            demands: HashMap::try_from(take(programs, "DEMANDS")?)?,
            peers: HashMap::try_from(take(programs, "PEERS")?)?,
            name_servers: HashMap::try_from(take(programs, "NAME_SERVERS")?)?,
            name_ports: HashMap::try_from(take(programs, "NAME_PORTS")?)?,
            counts: PerCpuArray::try_from(take(programs, "COUNTS")?)?,
        })
    }

    /// Assigns a slot to each link, and no load to a new one. A link keeps its slot, so that its
    /// load stays counted.
    fn placed(&mut self, before: Links, links: &[LinkEntry]) -> Result<Links, CaptureError> {
        let mut table = before;
        for row in &mut table.at {
            let stays = links.iter().find(|link| link.index.value() == row.index);
            *row = stays.map_or_else(LinkRow::default, LinkEntry::row);
        }
        for link in links {
            let has = |index: u32| move |row: &LinkRow| row.index == index;
            if table.at.iter().any(has(link.index.value())) {
                continue;
            }
            let free = table.at.iter().position(has(0));
            let place = free.ok_or(CaptureError::TooManyLinks(links.len()))?;
            table.at[place] = link.row();
            let mut loads = self.loads.get(&0, 0)?;
            loads.at[place] = Default::default();
            self.loads.set(0, loads, 0)?;
        }
        table.ipv4 = mask(&table, links, |link| link.usable && link.ipv4);
        table.ipv6 = mask(&table, links, |link| link.usable && link.ipv6);
        table.metered = mask(&table, links, |link| link.metered);
        Ok(table)
    }

    fn set_local(&mut self, prefixes: &[IpNet]) -> Result<(), CaptureError> {
        let always: Vec<IpNet> = ALWAYS_LOCAL.iter().flat_map(|it| it.parse()).collect();
        let all = always.iter().chain(prefixes);
        // The lookup returns only the longest prefix.
        let value = |net: &IpNet| {
            if always.iter().any(|it| it.contains(net)) {
                tables::LOCAL_ALWAYS
            } else {
                tables::LOCAL_NOW
            }
        };
        // A short IPv6 prefix must not match IPv4-mapped addresses.
        let mut rows = Trie::from([(MAPPED, 0)]);
        rows.extend(all.map(|net| (prefix(net), value(net))));
        replace_trie(&mut self.local, &rows)
    }
}

/// Returns the rows of the table of peers.
fn peer_rows(
    peers: &[SocketAddr],
    held: &[SocketAddr],
) -> Result<BTreeMap<PeerKey, u32>, CaptureError> {
    let key = |peer: &SocketAddr| PeerKey {
        remote: tables::mapped(peer.ip()),
        port: peer.port().into(),
    };
    let held = held.iter().map(|peer| (key(peer), tables::PEER_HELD));
    let mut all: BTreeMap<PeerKey, u32> = held.collect();
    if all.len() > MAX_PEERS {
        return Err(CaptureError::TooManyHeld(all.len()));
    }
    for peer in peers.iter().map(key) {
        // The program looks for the exact port first.
        let is_held = all.contains_key(&PeerKey { port: 0, ..peer });
        if !is_held && all.len() < MAX_PEERS {
            all.entry(peer).or_insert(tables::PEER_BONDED);
        }
    }
    Ok(all)
}

/// Returns the slots of links with a property.
fn mask(table: &Links, links: &[LinkEntry], is: fn(&LinkEntry) -> bool) -> u32 {
    let index = |link: &LinkEntry| link.index.value();
    let has = |row: &LinkRow| {
        links
            .iter()
            .any(|link| index(link) == row.index && is(link))
    };
    places(|place| has(&table.at[place]))
}

/// Returns the slots with a property.
fn places(are: impl Fn(usize) -> bool) -> u32 {
    let places = (0..MAX_LINKS).filter(|place| are(*place));
    places.map(|place| 1_u32 << place).sum()
}

fn fill(row: &mut SettingsRow, settings: &Settings) {
    row.policy = policy_number(settings.policy);
    row.auto_mode = settings.unruled.number();
    row.demand = settings.demand.map(DemandRow::from);
    row.mark = settings.mark.unwrap_or(0);
    let ipv4 = settings.redirect_ipv4;
    row.redirect4 = ipv4.map_or([0; 4], |to| to.ip().octets());
    row.redirect4_port = ipv4.map_or(0, |to| to.port());
    let ipv6 = settings.redirect_ipv6;
    row.redirect6 = ipv6.map_or([0; 16], |to| to.ip().octets());
    row.redirect6_port = ipv6.map_or(0, |to| to.port());
}

fn first_settings(
    introduction: &UdpSocket,
    settings: &Settings,
) -> Result<SettingsRow, CaptureError> {
    let namespace = sys::namespace_cookie(introduction);
    let cookie = sys::socket_cookie(introduction);
    let mut row = SettingsRow {
        netns: namespace.map_err(CaptureError::system("the network namespace's cookie"))?,
        introduction: cookie.map_err(CaptureError::system("a socket's cookie"))?,
        ..SettingsRow::default()
    };
    fill(&mut row, settings);
    Ok(row)
}

static OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/capture.o");

/// Most destinations that support bonding or are held, together. The kernel's table has room for
/// twice as many, since a new set is added before the old one is removed.
pub const MAX_PEERS: usize = 4096;

/// This host, link-local, multicast and broadcast; `::/128` is "any", which means this host.
const ALWAYS_LOCAL: [&str; 9] = [
    "0.0.0.0/8",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "224.0.0.0/4",
    "255.255.255.255/32",
    "::/128",
    "::1/128",
    "fe80::/10",
    "ff00::/8",
];
