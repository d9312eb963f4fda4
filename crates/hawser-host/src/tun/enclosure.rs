//! Runs a program in a separate network namespace that has only a TUN device.
//!
//! The program's process enters new namespaces, creates the device in them, and hands it to the
//! process that transports its packets, which stays outside. If the user lacks the privilege for
//! that, a user namespace grants it.

use std::ffi::CString;
use std::fs;
use std::io::{self, IoSlice, IoSliceMut, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;

use ring::rand::{SecureRandom as _, SystemRandom};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::{getegid, geteuid};
use tokio::io::{AsyncWriteExt as _, Interest};

use super::set_up::set_loopback_up;
use super::{Tun, TunAddresses, TunError, create, set_up};
use hawser_link::sys;

/// Why a program could not get a network namespace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnclosureError {
    /// The system allows no new namespaces.
    #[error("cannot make a network for the program: {0}")]
    Forbidden(io::Error),
    /// The device could not be created or set up.
    #[error(transparent)]
    Tun(#[from] TunError),
    /// The program would ask the wrong name servers.
    #[error("cannot replace {RESOLV_CONF} for the program: {0}")]
    Names(io::Error),
    /// The other process is gone.
    #[error("cannot hand over the TUN device: {0}")]
    HandOver(io::Error),
}

/// The side that transports packets: waits for the device.
#[derive(Debug)]
pub struct Enclosure {
    listener: tokio::net::UnixListener,
    name: String,
}

/// A device that was received, whose program waits for permission to start.
#[derive(Debug)]
pub struct Enclosed {
    tun: Tun,
    program: tokio::net::UnixStream,
}

impl Enclosure {
    /// Opens the socket for the hand-over. Needs a tokio runtime.
    ///
    /// # Errors
    /// The system's error.
    pub fn prepare() -> io::Result<Self> {
        let mut number = [0; 16];
        SystemRandom::new()
            .fill(&mut number)
            .map_err(|_| io::Error::other("no random numbers"))?;
        let digits = number.iter().map(|byte| format!("{byte:02x}"));
        let name = format!("hawser-tun-{}", digits.collect::<String>());
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener: tokio::net::UnixListener::from_std(listener)?,
            name,
        })
    }

    /// Returns the name to pass to [`enter`] in the program's process.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for the device.
    ///
    /// # Errors
    /// The process has ended, or the system's error.
    pub async fn device(&self) -> Result<Enclosed, EnclosureError> {
        let receive = async {
            loop {
                let (program, _) = self.listener.accept().await?;
                // Any process may know the name, so the user is checked.
                if program.peer_cred()?.uid() != geteuid().as_raw() {
                    continue;
                }
                let received = program.async_io(Interest::READABLE, || receive_file(&program));
                return received.await.map(|file| (file, program));
            }
        };
        let (file, program) = receive.await.map_err(EnclosureError::HandOver)?;
        let tun = Tun::new(file)?;
        Ok(Enclosed { tun, program })
    }
}

impl Enclosed {
    /// Returns the process id of the program, if the system reports it.
    pub fn process(&self) -> Option<i32> {
        self.program.peer_cred().ok()?.pid()
    }

    /// Lets the program start, and returns its device.
    ///
    /// # Errors
    /// The process has ended.
    pub async fn start(mut self) -> Result<Tun, EnclosureError> {
        let told = self.program.write_all(&[GO]).await;
        told.map_err(EnclosureError::HandOver)?;
        Ok(self.tun)
    }
}

/// Moves this process, which must be single-threaded, into a network namespace with a device that
/// has the addresses `wanted`. Sends the device to the [`Enclosure`] with that name, and covers the
/// system's `resolv.conf` by `resolv_conf`. Returns when the program may start.
///
/// # Errors
/// The system forbids a step.
pub fn enter(
    enclosure: &str,
    wanted: &TunAddresses,
    resolv_conf: &Path,
) -> Result<(), EnclosureError> {
    // Connects first, since abstract sockets belong to a network namespace.
    let connect = || UnixStream::connect_addr(&SocketAddr::from_abstract_name(enclosure)?);
    let mut outside = connect().map_err(EnclosureError::HandOver)?;
    leave().map_err(EnclosureError::Forbidden)?;
    let (file, name) = create(NAME)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(TunError::Use)?;
    runtime.block_on(async {
        set_loopback_up().await?;
        set_up(&name, wanted).await
    })?;
    drop(runtime);
    let group = getegid().as_raw();
    // Without this setting, only privileged programs can ping.
    if let Err(error) = fs::write(PING_GROUPS, format!("{group} {group}")) {
        tracing::debug!(%error, "cannot allow pings");
    }
    let cover_names = || {
        // `resolv.conf` is often a symbolic link.
        let over = fs::canonicalize(RESOLV_CONF)?;
        let text = |path: &Path| CString::new(path.as_os_str().as_bytes());
        sys::cover_file(&text(resolv_conf)?, &text(&over)?)
    };
    cover_names().map_err(EnclosureError::Names)?;
    let mut hand_over = || {
        send_file(&outside, &file)?;
        outside.read_exact(&mut [0])
    };
    hand_over().map_err(EnclosureError::HandOver)
}

/// Leaves the namespaces, with the help of a user namespace if necessary.
fn leave() -> io::Result<()> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    if user == 0 && sys::leave_namespaces(false).is_ok() {
        return Ok(());
    }
    sys::leave_namespaces(true)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

fn send_file(socket: &UnixStream, file: &OwnedFd) -> io::Result<()> {
    let files = [file.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&files));
    sendmsg(
        socket,
        &[IoSlice::new(&[GO])],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

fn receive_file(socket: &tokio::net::UnixStream) -> io::Result<OwnedFd> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut byte)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let mut files = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    files
        .next()
        .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

const NAME: &str = "hawser0";
const RESOLV_CONF: &str = "/etc/resolv.conf";
const PING_GROUPS: &str = "/proc/sys/net/ipv4/ping_group_range";
const GO: u8 = 1;
