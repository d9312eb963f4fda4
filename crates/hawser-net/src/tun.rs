//! TUN devices: interfaces of this machine whose packets a program carries.

mod enclosure;
mod keeper;
mod routes;
mod set_up;

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use bytes::Bytes;
use rustix::io::{Errno, read, write};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::sys;
pub use enclosure::{Enclosed, Enclosure, EnclosureError, enter};
pub use keeper::keep;
pub use routes::TunRoutes;
pub(crate) use set_up::default_route;
pub use set_up::{TunAddresses, set_up};

/// A TUN device in the hands of this program. It goes when this is dropped, with its routes.
#[derive(Debug)]
pub struct Tun {
    file: AsyncFd<OwnedFd>,
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
            sys::watch(file)
        };
        Ok(Self {
            file: begin().map_err(TunError::Use)?,
        })
    }

    /// Waits for packets that this machine sends by the device and puts those that are there behind
    /// `packets`, up to 64. `scratch` has room for one packet; a longer one is cut.
    ///
    /// # Errors
    /// That the device is gone, or what else the system says.
    pub async fn read_some(&self, scratch: &mut [u8], packets: &mut Vec<Bytes>) -> io::Result<()> {
        let read_all = |file: &OwnedFd| {
            for count in 0..MOST_AT_ONCE {
                match read(file, &mut *scratch) {
                    Ok(length) => packets.push(Bytes::copy_from_slice(&scratch[..length])),
                    Err(Errno::AGAIN) if count > 0 => break,
                    Err(error) => return Err(error.into()),
                }
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
        write(self.file.get_ref(), packet)?;
        Ok(())
    }
}

/// Packets that are read before others have their turn.
const MOST_AT_ONCE: usize = 64;
const DEVICE: &str = "/dev/net/tun";
/// Name for a device in this network: the next one that is free.
pub const NAME: &str = "hawser%d";
