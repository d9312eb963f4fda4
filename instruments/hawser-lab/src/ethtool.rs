//! Interface offloads, switched by ioctl so that no program is needed.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Turns every offload of `interface` off, in the calling thread's network namespace.
///
/// With offloads on, one "packet" of a virtual interface is up to 64 KiB long and its checksum
/// is never computed: rate, loss and queue of an emulated link would mean nothing.
pub(crate) fn offloads_off(interface: &str) -> io::Result<()> {
    // SAFETY: a plain system call; the result is checked before it is owned.
    let socket = unsafe {
        let raw = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(raw)
    };
    for command in COMMANDS {
        switch(&socket, interface, command).map_err(|e| {
            io::Error::new(
                e.kind(),
                format!("offload {command:#x} of {interface}: {e}"),
            )
        })?;
    }
    Ok(())
}

fn switch(socket: &OwnedFd, interface: &str, command: u32) -> io::Result<()> {
    let mut value = Value { command, data: 0 };
    // SAFETY: all-zero is a valid request; the value outlives the call.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        let bytes = interface.as_bytes();
        if bytes.len() >= request.ifr_name.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
            *to = *from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        if libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// ETHTOOL_STSO, SGSO, SGRO, STXCSUM, SSG: segmentation before what it rests on.
const COMMANDS: [u32; 5] = [0x1f, 0x24, 0x2c, 0x17, 0x19];
