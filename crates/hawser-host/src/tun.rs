//! TUN devices: interfaces of this machine whose packets a program transports.

mod enclosure;
mod frames;
mod keeper;
mod routes;
mod set_up;
mod watch;

use std::fs::OpenOptions;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd as _, OwnedFd};

use bytes::Bytes;
use rustix::io::{Errno, read, writev};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

pub use enclosure::{Enclosed, Enclosure, EnclosureError, enter};
use frames::Frames;
pub use frames::{TunMemory, Written};
use hawser_link::sys;
pub use keeper::keep;
pub use routes::TunRoutes;
pub use set_up::{TunAddresses, set_up};
pub(crate) use set_up::{default_route, local_route};
pub use watch::until_lost;

/// A TUN device that this program owns. Dropping it removes the device and its routes.
#[derive(Debug)]
pub struct Tun {
    file: AsyncFd<OwnedFd>,
    frames: Frames,
}

/// Why there is no TUN device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunError {
    /// The system has no TUN devices, or this program may not open the file.
    #[error("cannot open {DEVICE}: {0}")]
    Open(io::Error),
    /// The system refuses to create a device.
    #[error("cannot make the TUN device {name}: {source}")]
    Make {
        /// The requested name.
        name: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The device's addresses or routes could not be set.
    #[error("cannot set up the TUN device {name}: {reason}")]
    SetUp {
        /// The device.
        name: String,
        /// The kernel's answer.
        reason: String,
    },
    /// Another program or a user has changed the device.
    #[error("the TUN device {name} cannot be used any more: {problem}")]
    Lost {
        /// The device.
        name: String,
        /// What happened to the device.
        problem: &'static str,
    },
    /// Another Hawser in this network routes packets to its own device.
    #[error("another Hawser on this machine carries its packets already")]
    Taken,
    /// This program cannot read the device.
    #[error("cannot use the TUN device: {0}")]
    Use(io::Error),
}

/// Creates a TUN device in this network namespace. `name` may contain `%d` for the next free
/// number. Returns the device, and its name. Needs `CAP_NET_ADMIN`.
///
/// # Errors
/// The system forbids it, or has no TUN devices.
pub fn create(name: &str) -> Result<(OwnedFd, String), TunError> {
    let file = OpenOptions::new().read(true).write(true).open(DEVICE);
    let file = OwnedFd::from(file.map_err(TunError::Open)?);
    match sys::make_tun(file.as_fd(), name) {
        Ok(name) => Ok((file, name)),
        Err(source) => Err(TunError::Make {
            name: name.to_owned(),
            source,
        }),
    }
}

impl Tun {
    /// Uses a device that [`create`] has made, here or in another process. Needs a tokio runtime.
    ///
    /// # Errors
    /// The system's error.
    pub fn new(file: OwnedFd) -> Result<Self, TunError> {
        let begin = || {
            let flags = rustix::fs::fcntl_getfl(&file)?;
            rustix::fs::fcntl_setfl(&file, flags | rustix::fs::OFlags::NONBLOCK)?;
            let frames = Frames::new(sys::begin_tun_frames(file.as_fd())?);
            Ok::<_, io::Error>((sys::watch(file)?, frames))
        };
        let (file, frames) = begin().map_err(TunError::Use)?;
        Ok(Self { file, frames })
    }

    /// Waits for packets that this machine sends by the device and appends the available ones to
    /// `packets`: frames with 64 packets, or a few more.
    ///
    /// # Errors
    /// The device is gone, or another error of the system.
    pub async fn read_some(
        &self,
        memory: &mut TunMemory,
        packets: &mut Vec<Bytes>,
    ) -> io::Result<()> {
        let most = packets.len() + MOST_AT_ONCE;
        let read_all = |file: &OwnedFd| {
            let mut any = false;
            while packets.len() < most {
                match read(file, memory.frame()) {
                    Ok(length) => self.frames.take(memory, length, packets),
                    Err(Errno::AGAIN) if any => break,
                    Err(error) => return Err(error.into()),
                }
                any = true;
            }
            Ok(())
        };
        self.file.async_io(Interest::READABLE, read_all).await
    }

    /// Delivers a packet to this machine by the device, at once or not at all.
    ///
    /// # Errors
    /// The packet is malformed, there is no room, or another error of the system.
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        let write = |frame: &[IoSlice<'_>]| self.write_frame(frame);
        Ok(self.frames.write_one(&write, packet)?)
    }

    /// Delivers packets to this machine by the device, each at once or not at all, and in the order
    /// of its flow. Consecutive packets of a flow are delivered with one call.
    pub fn write_all(&self, packets: &mut Vec<Bytes>) -> Written {
        let write = |frame: &[IoSlice<'_>]| self.write_frame(frame);
        self.frames.write_all(&write, packets)
    }

    fn write_frame(&self, frame: &[IoSlice<'_>]) -> Result<(), Errno> {
        writev(self.file.get_ref(), frame).map(drop)
    }
}

/// Most packets of one read, so that other tasks get their turn.
const MOST_AT_ONCE: usize = 64;
const DEVICE: &str = "/dev/net/tun";
/// Name pattern for a device in this network: the next free number.
pub const NAME: &str = "hawser%d";
