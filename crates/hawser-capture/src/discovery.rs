//! Capability in the handshake: the SYN reveals which servers can bond.

mod asking;
mod diverting;
mod learnt;
mod listeners;
mod middleboxes;
mod options;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use aya::maps::{Array, HashMap, Map, MapData, PerCpuArray, RingBuf};
use aya::programs::{CgroupAttachMode, SockOps};
use aya::{Ebpf, EbpfLoader, VerifierLogLevel};
use hawser_types::LinkIndex;
use hawser_wire::KeyHint;

use crate::CaptureError;
use crate::attach::{check_kernel, open_group, with_log_if_refused};
use crate::maps::{missing_is_fine, program, replace, take};
use crate::sys::{self, Ring};
use crate::tables::{self, AnnouncingRow, AvoidedKey, FrontedRow};

pub use asking::Asking;
pub use learnt::{Discoveries, Learnt, Outcome, kernel_time};
pub use middleboxes::{Avoidance, Middleboxes};
pub use options::{Announcement, Bonds, FrontedPort};

use diverting::Diverting;

/// The kernel's programs that announce in the SYN that this host can bond, and that answer such
/// SYNs.
///
/// They work for the sockets of a control group and its descendants in the caller's network
/// namespace, and do nothing until they are configured. If anything fails, the connection is made
/// without the option. Nothing is pinned: the programs end when this is dropped.
///
/// A listener answers if its port was among those of [`Self::set_fronted`] at `listen(2)`, or at
/// [`Self::reach_listeners`].
#[derive(Debug)]
pub struct Discovery {
    /// The loaded programs and their attachments.
    programs: Ebpf,
    tables: Tables,
    asking: Asking,
    diverting: Diverting,
    row: AnnouncingRow,
    events: Option<Ring>,
}

struct Tables {
    announcing: Array<MapData, AnnouncingRow>,
    avoided: HashMap<MapData, AvoidedKey, u64>,
    fronted: HashMap<MapData, u32, FrontedRow>,
    /// The same table, for a program that is created later.
    fronted_table: OwnedFd,
    tally: PerCpuArray<MapData, u64>,
}

/// Counters of the programs since their start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DiscoveryCounts {
    /// SYNs that left with the option.
    pub asked: u64,
    /// SYN-ACKs of fronted ports that left with the option.
    pub answered: u64,
    /// SYN-ACKs of fronted ports without the option: the SYN had none, or they were repeated.
    pub unanswered: u64,
    /// SYNs that were diverted.
    pub diverted: u64,
    /// SYNs and SYN-ACKs whose other options left no room.
    pub no_room: u64,
    /// Events lost for lack of room.
    pub lost_events: u64,
}

impl Discovery {
    /// Loads the programs and attaches them to the control group at `cgroup`, a folder in a version
    /// 2 hierarchy; [`crate::mount_point`] is all of the system. Needs the rights and the kernel of
    /// [`crate::Capture::start`].
    pub fn start(cgroup: &Path) -> Result<Self, CaptureError> {
        check_kernel()?;
        let group = open_group(cgroup)?;
        with_log_if_refused(|words| Self::load(&group, words)).map_err(|error| match error {
            CaptureError::Refused(reason) => CaptureError::NoHeaderOptions(reason),
            other => other,
        })
    }

    fn load(group: &File, words: VerifierLogLevel) -> Result<Self, CaptureError> {
        let mut programs = EbpfLoader::new().verifier_log_level(words).load(OBJECT)?;
        let mut tables = Tables::of(&mut programs)?;
        let asking = Asking::of(&mut programs)?;
        let diverting = Diverting::of(&mut programs)?;
        let events = Ring(RingBuf::try_from(take(&mut programs, "LEARNT")?)?);
        let socket =
            UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(CaptureError::system("a socket"))?;
        let namespace = sys::namespace_cookie(&socket);
        let row = AnnouncingRow {
            netns: namespace.map_err(CaptureError::system("the network namespace's cookie"))?,
            question: options::questions(1)?,
            ..AnnouncingRow::default()
        };
        tables.announcing.set(0, row, 0)?;
        let handshake: &mut SockOps = program(&mut programs, HANDSHAKE)?.try_into()?;
        handshake.load()?;
        handshake.attach(group, CgroupAttachMode::Single)?;
        Ok(Self {
            programs,
            tables,
            asking,
            diverting,
            row,
            events: Some(events),
        })
    }

    /// Sets the number of this host's interfaces, 1 to 99, as SYNs tell it.
    pub fn set_interfaces(&mut self, interfaces: u8) -> Result<(), CaptureError> {
        let question = options::questions(interfaces)?;
        if self.row.question == question {
            return Ok(());
        }
        let row = AnnouncingRow {
            question,
            ..self.row
        };
        self.tables.announcing.set(0, row, 0)?;
        self.row = row;
        Ok(())
    }

    /// Sets what SYNs to all destinations announce, except loopback.
    pub fn set_everywhere(&mut self, says: Option<Announcement>) -> Result<(), CaptureError> {
        self.row.everywhere = says.map_or(0, Announcement::number);
        Ok(self.tables.announcing.set(0, self.row, 0)?)
    }

    /// Sets what the next SYN of a socket announces, whatever its destination. Call it before the
    /// socket connects.
    pub fn announce_on(
        &mut self,
        socket: impl AsFd,
        says: Option<Announcement>,
    ) -> Result<(), CaptureError> {
        self.asking.announce_on(socket, says)
    }

    /// Returns a handle that announces on sockets without this struct.
    pub fn socket_announcer(&self) -> Asking {
        self.asking.clone()
    }

    /// Leaves out the option at a place that [`Middleboxes`] avoids, or no longer avoids the place.
    pub fn avoid(&mut self, avoidance: &Avoidance) -> Result<(), CaptureError> {
        let key = AvoidedKey {
            remote: avoidance.to.map_or([0; 16], tables::mapped),
            link: avoidance.link.map_or(0, LinkIndex::value),
        };
        let span = u64::try_from(avoidance.span.as_nanos()).unwrap_or(u64::MAX);
        let until = sys::monotonic_nanos().saturating_add(span);
        Ok(self.tables.avoided.insert(key, until, 0)?)
    }

    /// Forgets the places to avoid over a link, as [`Middleboxes::forget_link`] does.
    pub fn forget_link(&mut self, link: Option<LinkIndex>) -> Result<(), CaptureError> {
        let index = link.map_or(0, LinkIndex::value);
        let known: Vec<AvoidedKey> = self.tables.avoided.keys().collect::<Result<_, _>>()?;
        for key in known.iter().filter(|key| key.link == index) {
            // The oldest entries are evicted automatically.
            self.tables.avoided.remove(key).or_else(missing_is_fine)?;
        }
        Ok(())
    }

    /// Sets the ports whose listeners answer. Replaces the earlier set; listeners on removed ports
    /// stop answering. At most 1024 different ports can ever be set.
    pub fn set_fronted(&mut self, ports: &[FrontedPort]) -> Result<(), CaptureError> {
        // A listener keeps its callbacks, and the sockets that it accepts must still lose them.
        let earlier: Vec<u32> = self.tables.fronted.keys().collect::<Result<_, _>>()?;
        let off = earlier.into_iter();
        let mut rows: BTreeMap<u32, FrontedRow> = off.map(|it| (it, Default::default())).collect();
        for port in ports {
            rows.insert(port.port.into(), port.row()?);
        }
        replace(&mut self.tables.fronted, rows.into_iter())
    }

    /// Makes listeners answer that existed before their ports were set. Needs Linux 6.12; on older
    /// kernels their services must be restarted.
    pub fn reach_listeners(&self) -> Result<(), CaptureError> {
        listeners::switch_on(self.tables.fronted_table.as_fd())
    }

    /// Tests [`Self::reach_listeners`] on a listener of this process, which replaces all other
    /// fronted ports: without a listener to change, every kernel seems able to do it.
    pub fn try_to_reach_a_listener(&mut self) -> Result<(), CaptureError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listener = listener.map_err(CaptureError::system("a listener"))?;
        let own = listener.local_addr();
        let own = own.map_err(CaptureError::system("a listener's address"))?;
        self.set_fronted(&[FrontedPort {
            port: own.port(),
            interfaces: 1,
            key_hint: KeyHint([0; 8]),
            bonds: Bonds::Refused,
        }])?;
        self.reach_listeners()
    }

    /// Creates a listener for diverted connections at each of these loopback addresses, for the
    /// connections of its family; listeners of an earlier call receive no more. An address family
    /// that this host lacks is left out, unless it lacks all of them. Accepted sockets have the
    /// addresses and ports that clients asked for. Otherwise, only connections from this machine to
    /// the listeners' own loopback ports reach them.
    pub fn listen(&mut self, at: &[IpAddr]) -> Result<Vec<TcpListener>, CaptureError> {
        self.diverting.listen(at)
    }

    /// Sets the addresses of this host: connections to other hosts are not diverted. Replaces the
    /// earlier set; addresses beyond 2048 are left out.
    pub fn set_own_addresses(
        &mut self,
        addresses: impl IntoIterator<Item = IpAddr>,
    ) -> Result<(), CaptureError> {
        self.diverting.set_own_addresses(addresses)
    }

    /// Diverts the connections of [`Bonds::Diverted`] on this interface too, until this is dropped
    /// or [`Self::stop_diverting_on`]. If an interface is replaced by another of the same name,
    /// call this again.
    pub fn divert_on(&mut self, interface: &str) -> Result<(), CaptureError> {
        self.diverting.divert_on(&mut self.programs, interface)
    }

    /// Diverts nothing on this interface any more, if it still exists.
    pub fn stop_diverting_on(&mut self, interface: &str) -> Result<(), CaptureError> {
        self.diverting.stop_on(&mut self.programs, interface)
    }

    /// As [`Self::divert_on`] in the way of kernels before 6.6. Removes the program that a killed
    /// daemon has left on the interface. Other programs there stay.
    pub fn divert_by_filter_on(&mut self, interface: &str) -> Result<(), CaptureError> {
        self.diverting.filter_on(&mut self.programs, interface)
    }

    /// Returns the stream of handshake results; `None` the second time. Needs a tokio runtime with
    /// I/O.
    pub fn discoveries(&mut self) -> Result<Option<Discoveries>, CaptureError> {
        let events = self.events.take().map(Discoveries::new).transpose();
        events.map_err(CaptureError::system("the ring of events"))
    }

    /// Returns the programs' counters.
    pub fn counts(&self) -> Result<DiscoveryCounts, CaptureError> {
        let count = |index: u32| -> Result<u64, CaptureError> {
            Ok(self.tables.tally.get(&index, 0)?.iter().sum())
        };
        Ok(DiscoveryCounts {
            lost_events: count(0)?,
            asked: count(1)?,
            no_room: count(2)?,
            answered: count(3)?,
            unanswered: count(4)?,
            diverted: count(5)?,
        })
    }
}

impl Tables {
    fn of(programs: &mut Ebpf) -> Result<Self, CaptureError> {
        let fronted = take(programs, "FRONTED")?;
        let Map::HashMap(table) = &fronted else {
            return Err(CaptureError::Refused("FRONTED is no hash table".to_owned()));
        };
        let fronted_table = table.fd().as_fd().try_clone_to_owned();
        Ok(Self {
            fronted_table: fronted_table.map_err(CaptureError::system("a table"))?,
            announcing: Array::try_from(take(programs, "ANNOUNCING")?)?,
            avoided: HashMap::try_from(take(programs, "AVOIDED")?)?,
            fronted: HashMap::try_from(fronted)?,
            tally: PerCpuArray::try_from(take(programs, "TALLY")?)?,
        })
    }
}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tables").finish_non_exhaustive()
    }
}

const HANDSHAKE: &str = "handshake";

static OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/discovery.o");
