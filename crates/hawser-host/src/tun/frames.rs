//! Frames of a TUN device: many packets of a flow with one call, if the kernel supports that.

#[cfg(test)]
mod tests;

use std::io::IoSlice;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::{Bytes, BytesMut};
use hawser_tunnel::PacketMemory;
use hawser_tunnel::offload::{Coalescer, Frame, Split, VirtioHeader};
use rustix::io::Errno;
use smallvec::SmallVec;

use hawser_link::sys::TunFrames;

/// Buffers of one reader of a device.
#[derive(Debug)]
pub struct TunMemory {
    frame: Vec<u8>,
    packets: PacketMemory,
}

/// Outcome of a write of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Packets that this machine accepted.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
    /// Packets that this machine refused.
    pub dropped: u64,
}

/// The kind of frames that the device reads and writes.
#[derive(Debug)]
pub(super) struct Frames {
    kind: TunFrames,
    /// Frames of several packets that the kernel has refused since it last accepted one.
    refused: AtomicU32,
}

impl TunMemory {
    /// Allocates memory for one frame of any length.
    pub fn new() -> Self {
        Self {
            frame: vec![0; VirtioHeader::LENGTH + MAX_FRAME],
            packets: PacketMemory::default(),
        }
    }

    pub(super) fn frame(&mut self) -> &mut [u8] {
        &mut self.frame
    }

    /// Splits a frame into packets. They share small blocks of memory, so that a waiting packet
    /// keeps little other memory alive.
    fn split(&mut self, mut split: Split<'_>, packets: &mut Vec<Bytes>) {
        loop {
            let room = self.packets.room_for(split.longest());
            if split.write_next(room).is_none() {
                return;
            }
            packets.push(room.split().freeze());
        }
    }
}

impl Default for TunMemory {
    fn default() -> Self {
        Self::new()
    }
}

impl Frames {
    pub(super) fn new(kind: TunFrames) -> Self {
        Self {
            kind,
            refused: AtomicU32::new(0),
        }
    }

    /// Appends the packets of a frame of `length` bytes to `packets`.
    pub(super) fn take(&self, memory: &mut TunMemory, length: usize, packets: &mut Vec<Bytes>) {
        let frame = std::mem::take(&mut memory.frame);
        let read = &frame[..length.min(frame.len())];
        if self.kind == TunFrames::Bare {
            packets.push(Bytes::copy_from_slice(read));
        } else {
            match Split::new(read) {
                Ok(split) => memory.split(split, packets),
                Err(error) => {
                    // The reader of the packet counts it as malformed.
                    tracing::trace!(%error, "cannot parse a frame");
                    let packet = read.get(VirtioHeader::LENGTH..).unwrap_or_default();
                    packets.push(Bytes::copy_from_slice(packet));
                }
            }
        }
        memory.frame = frame;
    }

    /// Writes a packet. `write` is the system call, which takes a frame in parts.
    pub(super) fn write_one(&self, write: &impl Write, packet: &[u8]) -> Result<(), Errno> {
        let header = VirtioHeader::default().encode();
        let parts = [IoSlice::new(&header), IoSlice::new(packet)];
        let skipped = usize::from(self.kind == TunFrames::Bare);
        write(&parts[skipped..])
    }

    /// Writes all packets; joins consecutive packets of a flow in one frame.
    pub(super) fn write_all(&self, write: &impl Write, packets: &mut Vec<Bytes>) -> Written {
        let mut written = Written::default();
        // Some versions of the kernel claim to accept frames of several packets, and refuse them.
        let joins = matches!(self.kind, TunFrames::Tcp | TunFrames::TcpAndUdp)
            && self.refused.load(Ordering::Relaxed) < MAX_REFUSED;
        if packets.len() < 2 || !joins {
            for packet in packets.drain(..) {
                self.write_counted(write, &packet, &mut written);
            }
            return written;
        }
        let mut coalescer = Coalescer::new(self.kind == TunFrames::TcpAndUdp);
        for packet in packets.drain(..) {
            coalescer.push(packet);
            while let Some(frame) = coalescer.pop() {
                self.write_frame(write, &frame, &mut written);
            }
        }
        coalescer.finish();
        while let Some(frame) = coalescer.pop() {
            self.write_frame(write, &frame, &mut written);
        }
        written
    }

    fn write_frame(&self, write: &impl Write, frame: &Frame, written: &mut Written) {
        let mut slices: SmallVec<[IoSlice<'_>; 66]> = SmallVec::new();
        slices.push(IoSlice::new(&frame.head));
        slices.extend(frame.parts.iter().map(|part| IoSlice::new(part)));
        let is_joined = frame.packets() > 1;
        match write(&slices) {
            Ok(()) => {
                if is_joined {
                    self.refused.store(0, Ordering::Relaxed);
                }
                written.packets += frame.packets();
                written.bytes += frame.packet_bytes();
            }
            Err(Errno::INVAL) if is_joined => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                self.write_apart(write, &slices, written);
            }
            Err(error) => {
                tracing::trace!(%error, "kernel refuses a frame");
                written.dropped += frame.packets();
            }
        }
    }

    /// Writes the packets of a refused frame one by one.
    fn write_apart(&self, write: &impl Write, frame: &[IoSlice<'_>], written: &mut Written) {
        let whole: Vec<u8> = frame.iter().flat_map(|part| part.iter().copied()).collect();
        let Ok(mut split) = Split::new(&whole) else {
            // Cannot happen: the frame was made of packets a moment ago.
            written.dropped += 1;
            return;
        };
        let mut packet = BytesMut::new();
        while split.write_next(&mut packet).is_some() {
            self.write_counted(write, &packet, written);
            packet.clear();
        }
    }

    fn write_counted(&self, write: &impl Write, packet: &[u8], written: &mut Written) {
        match self.write_one(write, packet) {
            Ok(()) => {
                written.packets += 1;
                written.bytes += packet.len() as u64;
            }
            Err(error) => {
                tracing::trace!(%error, "kernel refuses a packet");
                written.dropped += 1;
            }
        }
    }
}

/// Writes a frame in parts.
pub(super) trait Write: Fn(&[IoSlice<'_>]) -> Result<(), Errno> {}

impl<F: Fn(&[IoSlice<'_>]) -> Result<(), Errno>> Write for F {}

/// Longest IPv4 packet, or IPv6 payload without jumbograms plus its header.
const MAX_FRAME: usize = 65_535 + 40;
/// Consecutive refused frames after which no more are tried.
const MAX_REFUSED: u32 = 16;
