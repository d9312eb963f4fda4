//! A machine on the way that alters segments: it has two interfaces and no address.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hawser_skip::namespace::{Neighbour, within};
use hawser_skip::wire::{Flag, Segment};
use socket2::{Domain, Protocol, Socket, Type};

/// Forwards frames between its interfaces `near` and `far`, altered, for as long as this lives.
pub(crate) struct Relay {
    ends: Arc<AtomicBool>,
    directions: Vec<JoinHandle<()>>,
    _machine: Neighbour,
}

/// The alterations of TCP segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Altered {
    /// Added to the sequence numbers of the near host, and of the far one.
    pub(crate) shift: [u32; 2],
    /// Maximum number of bytes in a segment.
    pub(crate) most: usize,
}

impl Relay {
    /// Starts the relay in a machine that has both interfaces.
    pub(crate) fn begin(machine: Neighbour, altered: Altered) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let [here, there] = altered.shift;
        let mut directions = Vec::new();
        for (from, to, shift) in [
            ("near", "far", [here, there]),
            ("far", "near", [there, here]),
        ] {
            let (from, to) = within(machine.process(), || (open(from), open(to)));
            let ends = Arc::clone(&ends);
            let altered = Altered { shift, ..altered };
            let pass = move || pass_on(&from, &to, altered, &ends);
            directions.push(std::thread::spawn(pass));
        }
        Self {
            ends,
            directions,
            _machine: machine,
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for direction in self.directions.drain(..) {
            let _ = direction.join();
        }
    }
}

fn pass_on(mut from: &Socket, mut to: &Socket, altered: Altered, ends: &AtomicBool) {
    let mut frame = vec![0; 1 << 17];
    while !ends.load(Ordering::Relaxed) {
        let Ok(length) = from.read(&mut frame) else {
            continue;
        };
        let frame = &frame[..length];
        let Some(segment) = Segment::of_frame(frame) else {
            let _ = to.write(frame);
            continue;
        };
        let ethernet = &frame[..14];
        for piece in altered.pieces(&segment) {
            let _ = to.write(&[ethernet, &piece.packet()].concat());
        }
    }
}

impl Altered {
    fn pieces(self, segment: &Segment) -> Vec<Segment> {
        let [here, there] = self.shift;
        let mut whole = segment.clone();
        whole.sequence = whole.sequence.wrapping_add(here);
        if whole.has(Flag::Ack) {
            whole.acknowledgement = whole.acknowledgement.wrapping_sub(there);
        }
        if whole.payload.len() <= self.most {
            return vec![whole];
        }
        let count = whole.payload.len().div_ceil(self.most);
        let pieces = whole.payload.chunks(self.most).enumerate();
        let last_alone = Flag::Fin as u8 | Flag::Push as u8;
        let piece = |(number, payload): (usize, &[u8])| Segment {
            sequence: (whole.sequence).wrapping_add(u32::try_from(number * self.most).unwrap()),
            flags: if number + 1 == count {
                whole.flags
            } else {
                whole.flags & !last_alone
            },
            payload: payload.to_vec(),
            ..whole.clone()
        };
        pieces.map(piece).collect()
    }
}

/// Opens a socket for the frames that arrive at an interface, and those that leave by it.
fn open(interface: &str) -> Socket {
    let all = u16::try_from(libc::ETH_P_ALL).unwrap().to_be();
    // The socket receives nothing before it is bound.
    let socket = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(0))).unwrap();
    let name = std::ffi::CString::new(interface).unwrap();
    let ignores: libc::c_int = 1;
    // SAFETY: the name ends with a zero; the kernel reads as many bytes as are said to be there.
    let codes = unsafe {
        let mut at: libc::sockaddr_ll = std::mem::zeroed();
        at.sll_family = u16::try_from(libc::AF_PACKET).unwrap();
        at.sll_protocol = all;
        at.sll_ifindex = i32::try_from(libc::if_nametoindex(name.as_ptr())).unwrap();
        let ignoring = libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_IGNORE_OUTGOING,
            (&raw const ignores).cast(),
            4,
        );
        let length = u32::try_from(size_of_val(&at)).unwrap();
        let bound = libc::bind(socket.as_raw_fd(), (&raw const at).cast(), length);
        (ignoring, bound)
    };
    assert_eq!(codes, (0, 0), "{}", io::Error::last_os_error());
    socket.set_read_timeout(Some(LOOK_AGAIN)).unwrap();
    socket
}

/// Interval at which an idle relay checks whether it must end.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
