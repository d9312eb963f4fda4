//! A packet socket on one interface: frames in by a memory-mapped ring, out in batches.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A raw socket bound to one interface of the namespace that it was opened in.
///
/// A ring needs no receive-buffer limit raised, which an unprivileged user could not do, and it
/// keeps the time at which the kernel saw each frame.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
    ring: *mut u8,
    next: usize,
}

// SAFETY: the mapping belongs to this value alone; nothing about it is tied to a thread.
unsafe impl Send for PacketSocket {}

impl PacketSocket {
    /// Opens a socket on `interface`, in the calling thread's network namespace.
    pub fn open(interface: &str) -> io::Result<Self> {
        // SAFETY: a plain system call; the result is checked before it is owned.
        let fd = unsafe {
            let raw = check(libc::socket(
                libc::AF_PACKET,
                libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
                0,
            ))?;
            OwnedFd::from_raw_fd(raw)
        };
        let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
        set_option(&fd, libc::PACKET_VERSION, &version)?;
        set_option(&fd, libc::PACKET_IGNORE_OUTGOING, &1_i32)?;
        set_option(&fd, libc::PACKET_QDISC_BYPASS, &1_i32)?;
        let request = libc::tpacket_req {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: (RING_BYTES / BLOCK_BYTES) as u32,
            tp_frame_size: SLOT_BYTES as u32,
            tp_frame_nr: SLOTS as u32,
        };
        set_option(&fd, libc::PACKET_RX_RING, &request)?;
        // SAFETY: a fresh mapping of the ring that was just asked for, of its whole length.
        let ring = unsafe {
            libc::mmap(
                ptr::null_mut(),
                RING_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if ring == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let socket = Self {
            fd,
            ring: ring.cast(),
            next: 0,
        };
        socket.bind(interface)?;
        Ok(socket)
    }

    fn bind(&self, interface: &str) -> io::Result<()> {
        let name = std::ffi::CString::new(interface)?;
        // SAFETY: the name is a terminated string and the address outlives the call.
        unsafe {
            let index = libc::if_nametoindex(name.as_ptr());
            if index == 0 {
                return Err(io::Error::last_os_error());
            }
            let mut address: libc::sockaddr_ll = zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
            address.sll_ifindex = index as i32;
            check(libc::bind(
                self.fd.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as u32,
            ))?;
        }
        Ok(())
    }

    /// Gives every waiting frame to `take`, with the kernel's wall-clock time of its arrival.
    /// Returns how many there were, and how many were too long for a slot.
    pub fn drain(&mut self, mut take: impl FnMut(&mut [u8], Duration)) -> (usize, u64) {
        let (mut count, mut cut) = (0, 0);
        while count < SLOTS {
            // SAFETY: `next` stays below SLOTS, so the slot lies inside the mapping; the kernel
            // leaves a slot alone from the moment it sets TP_STATUS_USER until we clear it.
            let (header, status) = unsafe {
                let header = self
                    .ring
                    .add(self.next * SLOT_BYTES)
                    .cast::<libc::tpacket2_hdr>();
                (header, &*(&raw mut (*header).tp_status).cast::<AtomicU32>())
            };
            if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                break;
            }
            // SAFETY: as above; the bounds of the frame are checked against the slot.
            unsafe {
                let (start, length) = ((*header).tp_mac as usize, (*header).tp_snaplen as usize);
                let at = Duration::new((*header).tp_sec.into(), (*header).tp_nsec);
                if length < (*header).tp_len as usize || start + length > SLOT_BYTES {
                    cut += 1;
                } else {
                    let frame = header.cast::<u8>().add(start);
                    take(std::slice::from_raw_parts_mut(frame, length), at);
                }
            }
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.next = (self.next + 1) % SLOTS;
            count += 1;
        }
        (count, cut)
    }

    /// Sends frames out of the interface; returns how many the kernel did not take.
    pub fn send<'a>(&self, frames: impl Iterator<Item = &'a [u8]>) -> usize {
        let mut parts: Vec<libc::iovec> = frames
            .map(|frame| libc::iovec {
                iov_base: frame.as_ptr().cast_mut().cast(),
                iov_len: frame.len(),
            })
            .collect();
        let mut messages: Vec<libc::mmsghdr> = parts
            .iter_mut()
            .map(|part| {
                // SAFETY: all-zero is a valid message header.
                let mut message: libc::mmsghdr = unsafe { zeroed() };
                message.msg_hdr.msg_iov = part;
                message.msg_hdr.msg_iovlen = 1;
                message
            })
            .collect();
        let (mut sent, mut refused) = (0, 0);
        while sent + refused < messages.len() {
            let rest = &mut messages[sent + refused..];
            // SAFETY: the headers point at frames that outlive the call.
            let done = unsafe {
                libc::sendmmsg(self.fd.as_raw_fd(), rest.as_mut_ptr(), rest.len() as u32, 0)
            };
            match usize::try_from(done) {
                Ok(done) if done > 0 => sent += done,
                // The first frame was refused (the interface is down): go on behind it.
                _ => refused += 1,
            }
        }
        refused
    }

    /// Frames that found the ring full since the last call.
    pub fn take_drops(&self) -> u64 {
        // SAFETY: the kernel writes at most the given length.
        unsafe {
            let mut stats: libc::tpacket_stats = zeroed();
            let mut length = size_of::<libc::tpacket_stats>() as u32;
            let result = libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut stats).cast(),
                &raw mut length,
            );
            if result == 0 {
                stats.tp_drops.into()
            } else {
                0
            }
        }
    }

    /// Forgets a pending error, so that polling sleeps again after the interface went down.
    pub fn clear_error(&self) {
        let mut error = 0_i32;
        let mut length = size_of::<i32>() as u32;
        // SAFETY: the kernel writes at most the given length.
        unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ERROR,
                (&raw mut error).cast(),
                &raw mut length,
            );
        }
    }
}

impl AsRawFd for PacketSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl Drop for PacketSocket {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `open` mapped; nothing borrows from it any more.
        unsafe {
            libc::munmap(self.ring.cast(), RING_BYTES);
        }
    }
}

fn set_option<T>(fd: &OwnedFd, name: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as the value has.
    unsafe {
        check(libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            name,
            ptr::from_ref(value).cast(),
            size_of::<T>() as u32,
        ))?;
    }
    Ok(())
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// One frame of 1514 bytes with the kernel's header.
const SLOT_BYTES: usize = 2048;
/// Enough for 40 ms of small packets at 1 Gbit/s.
const SLOTS: usize = 4096;
const RING_BYTES: usize = SLOT_BYTES * SLOTS;
/// A small allocation order, which fragmented memory can still give.
const BLOCK_BYTES: usize = 1 << 15;
