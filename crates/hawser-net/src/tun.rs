//! TUN devices: interfaces of this machine whose packets a program carries.

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

use crate::sys;
pub use enclosure::{Enclosed, Enclosure, EnclosureError, enter};
use frames::Frames;
pub use frames::{TunMemory, Written};
pub use keeper::keep;
pub use routes::TunRoutes;
pub use set_up::{TunAddresses, set_up};
pub(crate) use set_up::{default_route, local_route};
pub use watch::until_lost;

/// A TUN device in the hands of this program. It goes when this is dropped, with its routes.
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
    /// The system makes none.
    #[error("cannot make the TUN device {name}: {source}")]
    Make {
        /// The name that was asked for.
        name: String,
        /// The system's answer.
        source: io::Error,
    },
    /// It takes no addresses or routes.
    #[error("cannot set up the TUN device {name}: {reason}")]
    SetUp {
        /// The device.
        name: String,
        /// The kernel's answer.
        reason: String,
    },
    /// Another program or a user has changed it.
    #[error("the TUN device {name} cannot be used any more: {problem}")]
    Lost {
        /// The device.
        name: String,
        /// What has become of it.
        problem: &'static str,
    },
    /// Another Hawser in this network has routes by a device of its own.
    #[error("another Hawser on this machine carries its packets already")]
    Taken,
    /// It cannot be read by this program.
    #[error("cannot use the TUN device: {0}")]
    Use(io::Error),
}

/// True for the name of a device that [`create`] has made for Hawser, here or in another process.
pub(crate) fn is_own(name: &str) -> bool {
    name.strip_prefix("hawser").is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
    })
}

/// Makes a TUN device in this network namespace. `name` may have `%d` for the next free number.
/// Returns the device, and its name. It needs `CAP_NET_ADMIN` here.
///
/// # Errors
/// That the system forbids it, or has none.
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
    /// Takes a device that [`create`] has made, here or in another process. Needs a tokio runtime.
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

    /// Waits for packets that this machine sends by the device and puts those that are there behind
    /// `packets`: frames with 64 of them, or a few more.
    ///
    /// # Errors
    /// That the device is gone, or what else the system says.
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

    /// Lets a packet arrive at this machine by the device, at once or not at all.
    ///
    /// # Errors
    /// What the system says: that the packet is malformed, or that there is no room.
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        let write = |frame: &[IoSlice<'_>]| self.write_frame(frame);
        Ok(self.frames.write_one(&write, packet)?)
    }

    /// Lets packets arrive at this machine by the device, each at once or not at all, and in the
    /// order of its flow. Those of a flow that follow each other are handed over with one call.
    pub fn write_all(&self, packets: &mut Vec<Bytes>) -> Written {
        let write = |frame: &[IoSlice<'_>]| self.write_frame(frame);
        self.frames.write_all(&write, packets)
    }

    fn write_frame(&self, frame: &[IoSlice<'_>]) -> Result<(), Errno> {
        writev(self.file.get_ref(), frame).map(drop)
    }
}

/// Packets that are read before others have their turn.
const MOST_AT_ONCE: usize = 64;
const DEVICE: &str = "/dev/net/tun";
/// Name for a device in this network: the next one that is free.
pub const NAME: &str = "hawser%d";
