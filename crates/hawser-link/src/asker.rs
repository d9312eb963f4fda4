//! Finds the process on this machine that made a connection.
//!
//! Asks the kernel for the socket (sock_diag(7)), then looks for it among the open files of
//! processes. Without privilege this finds only processes of the same user.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use crate::sys::effective_user;

/// Facts about a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Name of the process, as the kernel keeps it: 15 bytes at most.
    pub program: String,
    /// Path of the executable, where this process may read it.
    pub executable: Option<String>,
    /// User that owns the connection.
    pub user: u32,
    /// Path of the control group in the cgroup v2 hierarchy.
    pub cgroup: Option<String>,
}

/// Finds processes by their connections. Every call waits for the kernel, and some scan all of
/// `/proc`: do not call it on threads that others wait for.
#[derive(Debug)]
pub struct Askers {
    diagnosis: Socket,
    /// Processes that were found lately, the latest first: they tend to connect again.
    recent: VecDeque<u32>,
    /// Sockets of one of the `recent` processes.
    sockets: Option<Sockets>,
    /// Other users whose processes could not be searched, each with the time of the attempt.
    hidden: BTreeMap<u32, Instant>,
    /// User of this process.
    own: u32,
}

impl Askers {
    /// Opens a finder for this network namespace.
    pub fn open() -> io::Result<Self> {
        let protocol = Protocol::from(libc::NETLINK_SOCK_DIAG);
        let diagnosis = Socket::new(Domain::from(libc::AF_NETLINK), Type::DGRAM, Some(protocol))?;
        diagnosis.set_read_timeout(Some(PATIENCE))?;
        Ok(Self {
            diagnosis,
            recent: VecDeque::new(),
            sockets: None,
            hidden: BTreeMap::new(),
            own: effective_user(),
        })
    }

    /// Returns the process that made the TCP connection from `local` to `remote`, both on this
    /// machine; if several share the socket, any of them. `None` when it cannot be found.
    pub fn find(&mut self, local: SocketAddr, remote: SocketAddr) -> Option<Process> {
        let (user, inode) = self.owner(local, remote)?;
        let process = match self.look_again(inode) {
            Some(process) => process,
            None => self.look_everywhere(user, &format!("socket:[{inode}]"))?,
        };
        self.recent.retain(|recent| *recent != process);
        self.recent.push_front(process);
        self.recent.truncate(MAX_RECENT);
        describe(process, user)
    }

    /// Looks among processes that were found lately. When a client of the daemon lists its open
    /// connections, many look-ups at once tend to be for one process with many sockets.
    fn look_again(&mut self, inode: u32) -> Option<u32> {
        let fresh = self
            .sockets
            .as_ref()
            .filter(|it| it.read.elapsed() < FRESH_FOR);
        if let Some(known) = fresh.filter(|it| it.inodes.contains(&inode)) {
            return Some(known.process);
        }
        let mut recent = self.recent.iter().map(|process| Sockets::of(*process));
        let found = recent.find(|it| it.inodes.contains(&inode))?;
        let process = found.process;
        self.sockets = Some(found);
        Some(process)
    }

    /// Returns the user and the inode of a socket.
    fn owner(&self, local: SocketAddr, remote: SocketAddr) -> Option<(u32, u32)> {
        let request = request(local, remote)?;
        self.diagnosis.send(&request).ok()?;
        let mut answer = [0; MAX_ANSWER];
        let length = (&self.diagnosis).read(&mut answer).ok()?;
        let answer = answer.get(..length)?;
        let number = |at: usize| {
            let bytes = answer.get(at..at + 4)?;
            Some(u32::from_ne_bytes(bytes.try_into().ok()?))
        };
        // The type is two bytes, and the upper byte of either possible type is zero.
        let kind = number(KIND_AT)? & 0xffff;
        let (user, inode) = (number(USER_AT)?, number(INODE_AT)?);
        // A socket that its process has closed belongs to no process any more.
        (kind == SOCK_DIAG_BY_FAMILY && inode != 0).then_some((user, inode))
    }

    fn look_everywhere(&mut self, user: u32, socket: &str) -> Option<u32> {
        let now = Instant::now();
        self.hidden.retain(|_, since| now - *since < HIDDEN_FOR);
        if self.hidden.contains_key(&user) {
            return None;
        }
        let processes = fs::read_dir("/proc").ok()?.flatten();
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let holds = |process| open_files(process).any(|file| file == socket);
        let found = numbers.into_iter().find(|process| holds(*process));
        // This process can search almost all processes of its own user, and all when privileged:
        // one socket that is not found says nothing about other sockets.
        let is_foreign = self.own != ROOT && user != self.own;
        if found.is_none() && is_foreign && self.hidden.len() < MAX_HIDDEN {
            self.hidden.insert(user, now);
        }
        found
    }
}

/// The sockets that a process has open.
#[derive(Debug)]
struct Sockets {
    process: u32,
    inodes: BTreeSet<u32>,
    read: Instant,
}

impl Sockets {
    fn of(process: u32) -> Self {
        let read = Instant::now();
        let inode = |link: OsString| {
            let name = link.into_string().ok()?;
            let number = name.strip_prefix("socket:[")?.strip_suffix(']')?;
            number.parse().ok()
        };
        Self {
            process,
            inodes: open_files(process).filter_map(inode).collect(),
            read,
        }
    }
}

/// Builds the request for one socket: `nlmsghdr` and `inet_diag_req_v2`.
fn request(local: SocketAddr, remote: SocketAddr) -> Option<Vec<u8>> {
    let (from, to) = (local.ip().to_canonical(), remote.ip().to_canonical());
    let family = match (from, to) {
        (IpAddr::V4(_), IpAddr::V4(_)) => libc::AF_INET,
        (IpAddr::V6(_), IpAddr::V6(_)) => libc::AF_INET6,
        _ => return None,
    };
    let mut bytes = Vec::with_capacity(REQUEST);
    bytes.extend_from_slice(&(REQUEST as u32).to_ne_bytes());
    bytes.extend_from_slice(&(SOCK_DIAG_BY_FAMILY as u16).to_ne_bytes());
    bytes.extend_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    // Sequence number and port id: the kernel fills in the latter.
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(&[family as u8, libc::IPPROTO_TCP as u8, 0, 0]);
    // The socket may be in any state.
    bytes.extend_from_slice(&u32::MAX.to_ne_bytes());
    bytes.extend_from_slice(&local.port().to_be_bytes());
    bytes.extend_from_slice(&remote.port().to_be_bytes());
    bytes.extend_from_slice(&octets(from));
    bytes.extend_from_slice(&octets(to));
    // The socket may be on any interface, and have any cookie.
    bytes.extend_from_slice(&0_u32.to_ne_bytes());
    bytes.extend_from_slice(&u64::MAX.to_ne_bytes());
    Some(bytes)
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V6(address) => address.octets(),
        IpAddr::V4(address) => {
            let mut octets = [0; 16];
            let [a, b, c, d] = address.octets();
            [octets[0], octets[1], octets[2], octets[3]] = [a, b, c, d];
            octets
        }
    }
}

/// Returns the open files of a process, as far as this process may read them.
fn open_files(process: u32) -> impl Iterator<Item = OsString> {
    let files = fs::read_dir(format!("/proc/{process}/fd")).into_iter();
    let files = files.flatten().flatten().take(MAX_FILES);
    files.filter_map(|file| Some(fs::read_link(file.path()).ok()?.into_os_string()))
}

fn describe(process: u32, user: u32) -> Option<Process> {
    let read = |name: &str| fs::read_to_string(format!("/proc/{process}/{name}"));
    let executable = fs::read_link(format!("/proc/{process}/exe")).ok();
    let cgroup = read("cgroup").ok();
    let cgroup = cgroup
        .as_deref()
        .and_then(|text| text.lines().find_map(second_hierarchy));
    Some(Process {
        program: read("comm").ok()?.trim_end_matches('\n').to_owned(),
        executable: executable.and_then(|path| path.to_str().map(str::to_owned)),
        user,
        cgroup: cgroup.map(str::to_owned),
    })
}

fn second_hierarchy(line: &str) -> Option<&str> {
    line.strip_prefix("0::")
}

const SOCK_DIAG_BY_FAMILY: u32 = 20;
const REQUEST: usize = 72;
/// Offset of the message type in `nlmsghdr`.
const KIND_AT: usize = 4;
/// Offsets in the answer: the header, then `inet_diag_msg` with user and inode.
const USER_AT: usize = 80;
const INODE_AT: usize = 84;
const MAX_ANSWER: usize = 8192;
/// The kernel answers at once or never.
const PATIENCE: Duration = Duration::from_millis(200);
/// Time for which a process's list of sockets counts as current.
const FRESH_FOR: Duration = Duration::from_millis(100);
/// Processes that make connections at the same time.
const MAX_RECENT: usize = 16;
/// Most open files of a process that are searched.
const MAX_FILES: usize = 65_536;
const ROOT: u32 = 0;
/// Time to skip a hidden user: a scan of all processes takes tens of milliseconds.
const HIDDEN_FOR: Duration = Duration::from_secs(1);
const MAX_HIDDEN: usize = 64;

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn own_name() -> String {
        let name = fs::read_to_string("/proc/self/comm").unwrap();
        name.trim_end().to_owned()
    }

    #[test]
    fn a_connection_leads_to_the_process_that_made_it() {
        let mut askers = Askers::open().unwrap();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            for _ in 0..3 {
                let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                let (_server, peer) = listener.accept().unwrap();
                let process = askers.find(peer, client.peer_addr().unwrap()).unwrap();
                assert_eq!(process.program, own_name());
                let executable = std::env::current_exe().unwrap();
                assert_eq!(process.executable.as_deref(), executable.to_str());
                assert_eq!(process.user, effective_user());
            }
        }
        assert_eq!(askers.recent.len(), 1);
    }

    #[test]
    fn of_many_connections_of_a_process_each_leads_there() {
        let mut askers = Askers::open().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connect = || {
            (
                TcpStream::connect(address).unwrap(),
                listener.accept().unwrap(),
            )
        };
        let many: Vec<_> = (0..50).map(|_| connect()).collect();
        // This connection is opened after its process was searched.
        askers.find(many[0].1.1, address).unwrap();
        askers.find(many[1].1.1, address).unwrap();
        let later = connect();
        for (_client, (_server, peer)) in many.iter().chain([&later]) {
            assert_eq!(askers.find(*peer, address).unwrap().program, own_name());
        }
        assert_eq!(askers.recent.len(), 1);
    }

    #[test]
    fn a_connection_that_is_not_there_leads_nowhere() {
        let mut askers = Askers::open().unwrap();
        let nowhere = "127.0.0.1:1".parse().unwrap();
        assert_eq!(askers.find("127.0.0.1:9".parse().unwrap(), nowhere), None);
        assert_eq!(askers.find("[::1]:9".parse().unwrap(), nowhere), None);
        // Only another user's processes can be hidden; elsewhere the socket is just gone.
        for (own, hidden) in [(1000, vec![7]), (7, vec![]), (ROOT, vec![])] {
            askers.own = own;
            askers.hidden.clear();
            assert!(askers.look_everywhere(7, "socket:[0]").is_none());
            let found: Vec<u32> = askers.hidden.keys().copied().collect();
            assert_eq!(found, hidden, "{own}");
        }
    }

    #[test]
    fn a_connection_that_was_closed_hides_no_user() {
        let mut askers = Askers::open().unwrap();
        askers.own = 1000;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, peer) = listener.accept().unwrap();
        drop(client);
        assert_eq!(askers.find(peer, server.local_addr().unwrap()), None);
        assert!(askers.hidden.is_empty());
    }

    #[test]
    fn of_control_groups_the_second_hierarchy_counts() {
        let text = "4:memory:/old\n0::/user.slice/a.scope\n";
        let found = text.lines().find_map(second_hierarchy);
        assert_eq!(found, Some("/user.slice/a.scope"));
    }
}
