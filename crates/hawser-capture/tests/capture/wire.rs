//! What passes the interfaces of the calling thread's network namespace.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A socket that hears every frame, both ways.
pub(crate) struct Wire(OwnedFd);

/// A segment of TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Port that it comes from, and the one that it goes to.
    pub(crate) ports: (u16, u16),
    pub(crate) syn: bool,
    pub(crate) ack: bool,
    /// Options, padding included.
    pub(crate) options: Vec<u8>,
    pub(crate) payload: usize,
    /// The whole frame.
    pub(crate) frame: Vec<u8>,
}

impl Wire {
    pub(crate) fn new() -> Self {
        let protocol = u16::try_from(libc::ETH_P_ALL).unwrap().to_be();
        // SAFETY: takes no memory.
        let code = unsafe {
            libc::socket(
                libc::AF_PACKET,
                libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC,
                i32::from(protocol),
            )
        };
        assert!(code >= 0, "{}", io::Error::last_os_error());
        // SAFETY: it was just opened, and nobody else has it.
        Self(unsafe { OwnedFd::from_raw_fd(code) })
    }

    /// Returns the segments from or to this port that have passed since the last call.
    pub(crate) fn segments(&self, port: u16) -> Vec<Segment> {
        let mut segments = Vec::new();
        let mut frame = vec![0; 65_536];
        loop {
            // SAFETY: the kernel writes at most as many bytes as there are.
            let length = unsafe {
                libc::recv(
                    self.0.as_raw_fd(),
                    frame.as_mut_ptr().cast(),
                    frame.len(),
                    0,
                )
            };
            let Ok(length) = usize::try_from(length) else {
                let error = io::Error::last_os_error();
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
                return segments;
            };
            let segment = Segment::read(&frame[..length]);
            segments.extend(segment.filter(|it| it.ports.0 == port || it.ports.1 == port));
        }
    }
}

impl Segment {
    fn read(frame: &[u8]) -> Option<Self> {
        let kind = frame.get(12..14)?;
        let packet = &frame[14..];
        let (protocol, header, length) = match kind {
            [0x08, 0x00] => {
                let length = u16::from_be_bytes([packet[2], packet[3]]);
                (
                    packet[9],
                    usize::from(packet[0] & 15) * 4,
                    usize::from(length),
                )
            }
            [0x86, 0xdd] => {
                let length = u16::from_be_bytes([packet[4], packet[5]]);
                (packet[6], 40, usize::from(length) + 40)
            }
            _ => return None,
        };
        if i32::from(protocol) != libc::IPPROTO_TCP {
            return None;
        }
        let segment = &packet[header..length];
        let port = |at: usize| u16::from_be_bytes([segment[at], segment[at + 1]]);
        let data = usize::from(segment[12] >> 4) * 4;
        Some(Self {
            ports: (port(0), port(2)),
            syn: segment[13] & 0x02 != 0,
            ack: segment[13] & 0x10 != 0,
            options: segment[20..data].to_vec(),
            payload: segment.len() - data,
            frame: frame.to_vec(),
        })
    }

    /// Returns its option of kind 254, if it has one.
    pub(crate) fn option(&self) -> Option<&[u8]> {
        let mut rest = &self.options[..];
        loop {
            match rest {
                [] | [0, ..] => return None,
                [1, behind @ ..] => rest = behind,
                [kind, length, ..] => {
                    let (option, behind) = rest.split_at(usize::from(*length));
                    if *kind == 254 {
                        return Some(option);
                    }
                    rest = behind;
                }
                [_] => panic!("broken options: {:02x?}", self.options),
            }
        }
    }
}
