//! Header in front of an inner packet that is carried as a message of its own.

use bytes::{Buf, BufMut};

use crate::{Malformed, MalformedReason, put_varint, take_varint};

/// Header of one message of a tunnel: one inner IP packet follows it, up to the message's end.
///
/// ```text
///  0 1 2 3 4 5 6 7
/// +-+-+-+-+-+-+-+-+ - - - -+-------------+--------------
/// |0 0|U|C|E| run | flow v | number (3)  | inner packet
/// +-+-+-+-+-+-+-+-+ - - - -+-------------+--------------
/// ```
///
/// It has five bytes for flows below 64 and six for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TunnelHeader {
    /// Order in which the packet is to be handed on.
    pub flow: TunnelFlow,
    /// Number of the packet among those of its flow, modulo 2^24.
    pub number: FlowNumber,
    /// The packet is handed on when it arrives, even when packets before it are missing.
    pub unheld: bool,
    /// The packet was sent more than once, so that it may arrive more than once.
    pub copied: bool,
    /// Packets of the flow with lower numbers leave after this one.
    pub early: bool,
    /// Packets of the flow that left just before this one over the same path.
    pub run: Run,
}

/// Kind of a tunnel's message, as its first byte announces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelMessage {
    /// An inner packet.
    Packet(TunnelHeader),
    /// A kind of a later version, from 1 to 3, which the receiver skips.
    Unknown(u8),
}

/// Number of a flow: an order of its own. At most [`TunnelFlow::COUNT`] exist at a time.
///
/// A sender may give the number of a flow that ended to another one, whose packets then go on
/// counting where the first one's ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TunnelFlow(u16);

/// The lower 24 bits of a packet's number in its flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowNumber(u32);

/// A lower bound of how many packets left just before over the same path, on a scale of eight
/// steps: 0, 1, 3, 7, 15, 31, 63, 127.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Run(u8);

impl TunnelHeader {
    /// Length of the longest header in bytes.
    pub const MAX_LENGTH: usize = 6;

    /// Appends the header.
    pub fn put(&self, out: &mut impl BufMut) {
        let mut first = self.run.0;
        first |= if self.unheld { UNHELD } else { 0 };
        first |= if self.copied { COPIED } else { 0 };
        first |= if self.early { EARLY } else { 0 };
        out.put_u8(first);
        put_varint(out, u64::from(self.flow.0));
        out.put_uint(u64::from(self.number.0), NUMBER_LENGTH);
    }
}

impl TunnelMessage {
    /// Reads the front of a message; the inner packet is left. Nothing follows of a kind that is
    /// not known: its message ends with it.
    ///
    /// # Errors
    /// Fails for a header that is cut short and for a flow beyond [`TunnelFlow::COUNT`].
    pub fn take(input: &mut impl Buf) -> Result<Self, Malformed> {
        if !input.has_remaining() {
            return Err(Malformed::truncated(WHAT));
        }
        let first = input.get_u8();
        let kind = first >> KIND_SHIFT;
        if kind != 0 {
            return Ok(Self::Unknown(kind));
        }
        let flow = take_varint(input, WHAT)?;
        let flow = u16::try_from(flow).ok().and_then(TunnelFlow::new);
        let flow = flow.ok_or(Malformed::new(WHAT, MalformedReason::TooLarge))?;
        if input.remaining() < NUMBER_LENGTH {
            return Err(Malformed::truncated(WHAT));
        }
        let number = FlowNumber(input.get_uint(NUMBER_LENGTH) as u32);
        Ok(Self::Packet(TunnelHeader {
            flow,
            number,
            unheld: first & UNHELD != 0,
            copied: first & COPIED != 0,
            early: first & EARLY != 0,
            run: Run(first & RUN),
        }))
    }
}

impl TunnelFlow {
    /// Number of flows that can be told apart.
    pub const COUNT: u16 = 4096;

    /// Wraps a number below [`Self::COUNT`].
    pub const fn new(value: u16) -> Option<Self> {
        if value < Self::COUNT {
            Some(Self(value))
        } else {
            None
        }
    }

    /// The plain number.
    pub const fn value(self) -> u16 {
        self.0
    }

    /// The plain number, for a place in a table.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl FlowNumber {
    /// Cuts a whole number to its lower 24 bits.
    pub const fn of(whole: u64) -> Self {
        Self((whole & NUMBER_MASK) as u32)
    }

    /// Returns the whole number with these lower bits that is nearest to `near`, and not negative.
    pub const fn expand(self, near: u64) -> u64 {
        const HALF: u64 = 1 << (NUMBER_BITS - 1);
        let ahead = (self.0 as u64).wrapping_sub(near) & NUMBER_MASK;
        if ahead < HALF || near + ahead < 1 << NUMBER_BITS {
            near.saturating_add(ahead)
        } else {
            near + ahead - (1 << NUMBER_BITS)
        }
    }
}

impl Run {
    /// The largest step that is not above `packets`.
    pub const fn of(packets: u64) -> Self {
        let steps = (packets.saturating_add(1)).ilog2();
        Self(if steps > RUN as u32 { RUN } else { steps as u8 })
    }

    /// Packets that left before over the same path, at least.
    pub const fn packets(self) -> u64 {
        (1 << self.0) - 1
    }
}

const WHAT: &str = "tunnel header";
const KIND_SHIFT: u32 = 6;
const UNHELD: u8 = 0x20;
const COPIED: u8 = 0x10;
const EARLY: u8 = 0x08;
const RUN: u8 = 0x07;
const NUMBER_LENGTH: usize = 3;
const NUMBER_BITS: u32 = 24;
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(flow: u16, number: u64) -> TunnelHeader {
        TunnelHeader {
            flow: TunnelFlow::new(flow).unwrap(),
            number: FlowNumber::of(number),
            unheld: false,
            copied: false,
            early: false,
            run: Run::default(),
        }
    }

    #[test]
    fn headers_have_these_golden_bytes() {
        let long = TunnelHeader {
            unheld: true,
            copied: true,
            early: true,
            run: Run::of(1000),
            ..header(4095, 0x0123_4567)
        };
        for (header, golden) in [
            (header(0, 0), &[0x00, 0x00, 0, 0, 0][..]),
            (header(63, 1), &[0x00, 0x3f, 0, 0, 1]),
            (long, &[0x3f, 0x4f, 0xff, 0x23, 0x45, 0x67]),
        ] {
            let mut out = Vec::new();
            header.put(&mut out);
            assert_eq!(out, golden);
            let read = TunnelMessage::take(&mut &out[..]);
            assert_eq!(read, Ok(TunnelMessage::Packet(header)));
            for end in 0..out.len() {
                assert!(TunnelMessage::take(&mut &out[..end]).is_err(), "{end}");
            }
        }
    }

    #[test]
    fn later_kinds_are_told_apart_and_flows_beyond_the_last_are_refused() {
        let read = TunnelMessage::take(&mut &[0x40, 1, 2, 3][..]);
        assert_eq!(read, Ok(TunnelMessage::Unknown(1)));
        let read = TunnelMessage::take(&mut &[0xff][..]);
        assert_eq!(read, Ok(TunnelMessage::Unknown(3)));
        let error = TunnelMessage::take(&mut &[0, 0x50, 0, 0, 0, 0][..]).unwrap_err();
        assert_eq!(error.reason, MalformedReason::TooLarge);
    }

    #[test]
    fn runs_have_eight_steps() {
        let steps: Vec<u64> = (0..9).map(|n| Run::of((1 << n) - 1).packets()).collect();
        assert_eq!(steps, [0, 1, 3, 7, 15, 31, 63, 127, 127]);
        assert_eq!(Run::of(u64::MAX).packets(), 127);
        assert_eq!(Run::of(6).packets(), 3);
    }

    proptest! {
        #[test]
        fn a_number_is_found_again_from_any_that_is_near(
            whole in 0u64..1 << 40,
            off in -(1i64 << 22)..1 << 22,
        ) {
            let near = whole.saturating_add_signed(off);
            prop_assert_eq!(FlowNumber::of(whole).expand(near), whole);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..12)) {
            if let Ok(TunnelMessage::Packet(header)) = TunnelMessage::take(&mut &bytes[..]) {
                let mut out = Vec::new();
                header.put(&mut out);
                let again = TunnelMessage::take(&mut &out[..]);
                prop_assert_eq!(again, Ok(TunnelMessage::Packet(header)));
            }
        }
    }
}
