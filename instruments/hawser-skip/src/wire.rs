//! TCP segments on the interfaces of a network namespace, for tests: captured, and sent as no
//! kernel would. All functions panic on errors, as tests do.

mod by_hand;
mod segment;

use std::io::{self, Read as _};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

pub use by_hand::{ByHand, Connection};
pub use segment::{Flag, Segment};

/// A socket that hears every frame of the namespace that the calling thread is in, both ways.
pub struct Wire(Socket);

impl Wire {
    /// Hears what passes from now on.
    ///
    /// # Errors
    /// What the kernel says; it takes root, or CAP_NET_RAW.
    pub fn new() -> io::Result<Self> {
        let socket = Socket::new(Domain::PACKET, Type::RAW, Some(all_protocols()))?;
        // Whatever comes before it is read waits here.
        socket.set_recv_buffer_size(BUFFER)?;
        Ok(Self(socket))
    }

    /// Returns the segments from or to this port that have passed since the last call.
    pub fn segments(&self, port: u16) -> Vec<Segment> {
        self.segments_of(&[port])
    }

    /// Likewise for several ports.
    pub fn segments_of(&self, ports: &[u16]) -> Vec<Segment> {
        self.0.set_nonblocking(true).unwrap();
        let mut segments = Vec::new();
        let its = |it: &Segment| ports.contains(&it.from.port()) || ports.contains(&it.to.port());
        while let Some(segment) = self.next() {
            segments.extend(segment.filter(its));
        }
        segments
    }

    /// Waits for the next segment that is `wanted`; `None` if none came within `patience`.
    pub fn wait_for(
        &self,
        patience: Duration,
        wanted: impl Fn(&Segment) -> bool,
    ) -> Option<Segment> {
        self.0.set_nonblocking(false).unwrap();
        self.0.set_read_timeout(Some(patience)).unwrap();
        let begun = std::time::Instant::now();
        while begun.elapsed() < patience {
            if let Some(segment) = self.next()?.filter(&wanted) {
                return Some(segment);
            }
        }
        None
    }

    /// Reads a frame. `None` without a frame, `Some(None)` for a frame that is no segment.
    fn next(&self) -> Option<Option<Segment>> {
        let mut frame = vec![0; LONGEST_FRAME];
        match (&self.0).read(&mut frame) {
            Ok(length) => Some(Segment::of_frame(&frame[..length])),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
                None
            }
        }
    }
}

/// `ETH_P_ALL`, as sockets want it.
fn all_protocols() -> Protocol {
    Protocol::from(i32::from(0x0003_u16.to_be()))
}

/// With what offloads join.
const LONGEST_FRAME: usize = 1 << 17;
const BUFFER: usize = 8 << 20;
