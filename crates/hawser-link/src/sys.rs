//! System calls that no safe wrapper covers. All `unsafe` code of this crate is in this file.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Returns the effective user id of this process.
pub(crate) fn effective_user() -> u32 {
    // SAFETY: takes no argument, touches no memory and cannot fail.
    unsafe { libc::geteuid() }
}

/// Releases the memory of these pages. The ranges must map files unmodified, and no thread may
/// write them; the kernel reads the same content again on demand.
pub(crate) fn release_pages(ranges: Vec<Range<usize>>) -> io::Result<()> {
    for range in ranges {
        let from = std::ptr::without_provenance_mut(range.start);
        // SAFETY: no page of the range was modified privately, so each is read from the file again
        // with the same content.
        check(unsafe { libc::madvise(from, range.len(), libc::MADV_DONTNEED) })?;
    }
    Ok(())
}

/// Returns unused memory of the allocator to the system.
pub(crate) fn trim_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: touches nothing that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Sets a socket option whose value is a C `int`.
pub fn set_int_option(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the pointer and the length describe `value`, which lives until the call returns.
    let code = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    check(code)
}

/// Reads a socket option of varying length into `value`; returns the number of valid bytes.
///
/// Bytes that the kernel did not write keep their value.
pub(crate) fn read_option(
    socket: RawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &mut [u8],
) -> io::Result<usize> {
    let mut length = libc::socklen_t::try_from(value.len()).unwrap_or(libc::socklen_t::MAX);
    // SAFETY: the kernel writes at most `length` bytes, and `length` is at most the slice's. A
    // descriptor that is not open is answered with EBADF.
    let code = unsafe {
        libc::getsockopt(
            socket,
            level,
            name,
            value.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    check(code)?;
    Ok((length as usize).min(value.len()))
}

/// Duplicates a descriptor of this process; programs that this process starts do not inherit it.
pub(crate) fn duplicate(descriptor: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: touches no memory. A descriptor that is not open is answered with EBADF.
    let copy = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 3) };
    check(copy.min(0))?;
    // SAFETY: the kernel has just returned it to this call, so no other owner has it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Returns the index of the interface that a socket is bound to; 0 if it is not bound.
pub(crate) fn bound_interface(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut index = [0; 4];
    let (level, name) = (libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX);
    read_option(socket.as_raw_fd(), level, name, &mut index)?;
    Ok(u32::from_ne_bytes(index))
}

/// Makes the second of the UDP sockets that share this address and port (`SO_REUSEPORT`) receive
/// all further datagrams; without a second one the kernel chooses.
pub fn lead_to_second(socket: BorrowedFd<'_>) -> io::Result<()> {
    let mut return_one = libc::sock_filter {
        code: (libc::BPF_RET | libc::BPF_K) as u16,
        jt: 0,
        jf: 0,
        k: 1,
    };
    let program = libc::sock_fprog {
        len: 1,
        filter: &raw mut return_one,
    };
    // SAFETY: the pointer and the length describe `program`, which like its one instruction lives
    // until the call returns; the kernel copies both.
    let code = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    check(code)
}

/// Returns the bytes in the send queue of a TCP socket that the peer has not acknowledged,
/// including unsent ones.
pub fn send_queue(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open for as long as it is borrowed; TIOCOUTQ (SIOCOUTQ) writes one
    // C int, which lives until the call returns.
    let code = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    check(code)?;
    Ok(u64::try_from(bytes).unwrap_or(0))
}

/// Returns BBR's estimate of the lowest round-trip time, in microseconds; `None` for a socket with
/// another congestion control.
pub fn bbr_min_rtt(socket: BorrowedFd<'_>) -> Option<u32> {
    let mut name = [0; 16];
    let length = read_option(
        socket.as_raw_fd(),
        libc::IPPROTO_TCP,
        libc::TCP_CONGESTION,
        &mut name,
    )
    .ok()?;
    if name.get(..length)?.split(|byte| *byte == 0).next()? != b"bbr" {
        return None;
    }
    // struct tcp_bbr_info: bandwidth (two words), lowest round-trip time, two gains.
    let mut info = [0; 20];
    let length = read_option(
        socket.as_raw_fd(),
        libc::IPPROTO_TCP,
        libc::TCP_CC_INFO,
        &mut info,
    )
    .ok()?;
    let word = info.get(8..12).filter(|_| length >= 12)?;
    Some(u32::from_ne_bytes(word.try_into().ok()?))
}

/// Returns whether a write to the socket would not block. For TCP this checks the low-water mark of
/// unsent data, and asks the kernel to notify when the answer changes.
pub fn is_writable(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let mut poll = libc::pollfd {
        fd: socket.as_raw_fd(),
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: one pollfd, which lives until the call returns; a timeout of zero never waits.
    let ready = unsafe { libc::poll(&raw mut poll, 1, 0) };
    check(ready.min(0))?;
    Ok(ready > 0)
}

/// Turns an open `/dev/net/tun` into a TUN device for whole IP packets with the name `name`; `%d`
/// in it stands for the next free number. Each frame begins with a virtio header, if the kernel
/// supports that. Returns the whole name.
pub fn make_tun(file: BorrowedFd<'_>, name: &str) -> io::Result<String> {
    let bytes = name.as_bytes();
    if bytes.len() >= libc::IFNAMSIZ || bytes.contains(&0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut request = empty_request();
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = from.cast_signed() as libc::c_char;
    }
    let plain = libc::IFF_TUN | libc::IFF_NO_PI;
    let make = |request: &mut libc::ifreq, flags| {
        request.ifr_ifru.ifru_flags = libc::c_short::try_from(flags).unwrap_or_default();
        // SAFETY: the descriptor is open for as long as it is borrowed; TUNSETIFF reads and writes
        // one `ifreq`, which lives until the call returns.
        check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, request) })
    };
    match make(&mut request, plain | libc::IFF_VNET_HDR) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => make(&mut request, plain)?,
        made => made?,
    }
    let letters = request.ifr_name.iter().map(|letter| *letter as u8);
    let letters: Vec<u8> = letters.take_while(|letter| *letter != 0).collect();
    Ok(String::from_utf8_lossy(&letters).into_owned())
}

/// Frames that a TUN device may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunFrames {
    /// Single packets, without a header.
    Bare,
    /// Single packets behind a virtio header.
    Single,
    /// Additionally many segments of one TCP flow in one frame.
    Tcp,
    /// Additionally many datagrams of one UDP flow in one frame.
    TcpAndUdp,
}

/// Enables frames with many packets on a TUN device, as far as the kernel supports them (datagrams
/// from Linux 6.2 on).
pub fn begin_tun_frames(file: BorrowedFd<'_>) -> io::Result<TunFrames> {
    let mut request = empty_request();
    // SAFETY: the descriptor is open for as long as it is borrowed; TUNGETIFF writes one `ifreq`,
    // which lives until the call returns.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNGETIFF as _, &raw mut request) })?;
    // SAFETY: TUNGETIFF has set the flags, and any bytes are a number.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    if libc::c_int::from(flags) & libc::IFF_VNET_HDR == 0 {
        return Ok(TunFrames::Bare);
    }
    for (what, value) in [
        (libc::TUNSETVNETHDRSZ, VIRTIO_HEADER),
        (libc::TUNSETVNETLE, 1),
    ] {
        // SAFETY: the descriptor is open for as long as it is borrowed; both read one C int, which
        // lives until the call returns.
        check(unsafe { libc::ioctl(file.as_raw_fd(), what as _, &raw const value) })?;
    }
    let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    let udp = libc::TUN_F_USO4 | libc::TUN_F_USO6;
    let takes = |offloads: libc::c_uint| {
        let offloads = libc::c_ulong::from(offloads);
        // SAFETY: the descriptor is open for as long as it is borrowed; the argument is a number.
        check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD as _, offloads) }).is_ok()
    };
    Ok(if takes(tcp | udp) {
        TunFrames::TcpAndUdp
    } else if takes(tcp) {
        TunFrames::Tcp
    } else {
        TunFrames::Single
    })
}

/// Length of `struct virtio_net_hdr`.
const VIRTIO_HEADER: libc::c_int = 10;

fn empty_request() -> libc::ifreq {
    // SAFETY: all of its fields are numbers or unions of numbers and a pointer, for which zero is
    // valid.
    unsafe { std::mem::zeroed() }
}

/// Registers a file with the runtime, for reading.
pub fn watch(file: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor stays open and the same for as long as it is owned.
    let watched = unsafe { AsyncFd::register_with_interest(file, Interest::READABLE) };
    watched.map_err(|error| error.into_parts().1)
}

/// Registers a file with the runtime, for reading and writing.
pub fn watch_both(file: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor stays open and the same for as long as it is owned.
    let watched = unsafe { AsyncFd::register(file) };
    watched.map_err(|error| error.into_parts().1)
}

/// Ignores the signals that end services and terminal programs, in this process and in programs
/// that it starts.
pub fn ignore_signals() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: no handler of this program's is involved.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Leaves the network namespace, the mount namespace and, if `user`, the user namespace for new
/// ones. The process must be single-threaded.
pub fn leave_namespaces(user: bool) -> io::Result<()> {
    let mut flags = libc::CLONE_NEWNET | libc::CLONE_NEWNS;
    if user {
        flags |= libc::CLONE_NEWUSER;
    }
    // SAFETY: no files or memory are unshared, so nothing that this program relies on is lost.
    check(unsafe { libc::unshare(flags) })
}

/// Makes mounts of this namespace private, and bind-mounts the file `by` over the file `over`.
pub fn cover_file(by: &CStr, over: &CStr) -> io::Result<()> {
    let none = std::ptr::null();
    let private = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: the paths are C strings that live until the call returns; where the kernel takes no
    // notice of a pointer, it is null.
    check(unsafe { libc::mount(none, c"/".as_ptr(), none, private, none.cast()) })?;
    // SAFETY: as above.
    check(unsafe { libc::mount(by.as_ptr(), over.as_ptr(), none, libc::MS_BIND, none.cast()) })
}

/// Why the system's resolver has no addresses for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// The name does not exist or has no addresses.
    NoSuchName,
    /// The resolver failed.
    Failed,
}

/// Asks the system's resolver for the addresses of `name`, as `getaddrinfo` sorts them. Blocks.
///
/// Unlike std, this distinguishes a name that does not exist from a resolver without an answer.
pub fn addresses_of(name: &str) -> Result<Vec<IpAddr>, NameError> {
    let name = CString::new(name).map_err(|_| NameError::NoSuchName)?;
    // SAFETY: all of its fields are numbers or pointers, for which zero is valid.
    let mut hints: libc::addrinfo = unsafe { std::mem::zeroed() };
    hints.ai_socktype = libc::SOCK_STREAM;
    let mut list: *mut libc::addrinfo = std::ptr::null_mut();
    // SAFETY: the name is a C string and the hints are valid; both live until the call returns,
    // which sets `list` only where it succeeds.
    let code = unsafe { libc::getaddrinfo(name.as_ptr(), std::ptr::null(), &hints, &raw mut list) };
    match code {
        0 => {}
        libc::EAI_NONAME | EAI_NODATA => return Err(NameError::NoSuchName),
        _ => return Err(NameError::Failed),
    }
    let mut addresses = Vec::new();
    let mut entry = list;
    // SAFETY: the entries of a list that `getaddrinfo` made are valid until it is freed.
    while let Some(one) = unsafe { entry.as_ref() } {
        let length = one.ai_addrlen as usize;
        if let Some(address) = address_of(one.ai_addr, length)
            && !addresses.contains(&address)
            && addresses.len() < MAX_ADDRESSES
        {
            addresses.push(address);
        }
        entry = one.ai_next;
    }
    // SAFETY: `getaddrinfo` made the list, and no part of it is used any more.
    unsafe { libc::freeaddrinfo(list) };
    Ok(addresses)
}

/// Returns the address in a socket address of `length` bytes from `getaddrinfo`.
fn address_of(address: *const libc::sockaddr, length: usize) -> Option<IpAddr> {
    if address.is_null() || length < size_of::<libc::sockaddr>() {
        return None;
    }
    // SAFETY: it is not null and has at least the size of a `sockaddr`; the pointer comes from
    // `getaddrinfo`, which aligns it for every family.
    let family = libc::c_int::from(unsafe { (*address).sa_family });
    match family {
        libc::AF_INET if length >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: family and length show that it is a `sockaddr_in`.
            let address = unsafe { &*address.cast::<libc::sockaddr_in>() };
            Some(Ipv4Addr::from(address.sin_addr.s_addr.to_ne_bytes()).into())
        }
        libc::AF_INET6 if length >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: family and length show that it is a `sockaddr_in6`.
            let address = unsafe { &*address.cast::<libc::sockaddr_in6>() };
            Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

fn check(code: libc::c_int) -> io::Result<()> {
    if code == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// glibc's error for a name that exists without addresses; musl has no such error.
const EAI_NODATA: libc::c_int = -5;
/// Most addresses that are kept of one name.
const MAX_ADDRESSES: usize = 16;
