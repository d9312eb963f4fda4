//! Encoding of views of channels: the fields that have changed, as numbers.

use std::time::Duration;

use hawser_sched::PathView;
use hawser_sched::governor::Standing;
use hawser_types::{ByteCount, ChannelId, LinkIndex, Rate};

use super::bytes::{Reader, put, put_change};
use super::note::nanos;

/// Value of a view that can be written as a number.
trait Word: Copy {
    fn to_word(self) -> u64;
    fn from_word(word: u64) -> Option<Self>;
}

macro_rules! fields {
    ($($field:ident: $type:ty),+ $(,)?) => {
        /// Names of a view's fields, in the order of their bits.
        pub(super) const FIELDS: &[&str] = &[$(stringify!($field)),+];

        /// Appends the difference of `new` from `old`: a bit for each field, then the changes.
        /// The channel's number is written elsewhere.
        pub(super) fn put_view(out: &mut Vec<u8>, new: &PathView, old: &PathView) {
            // A new field does not compile until it is listed below.
            let PathView { channel: _, $($field),+ } = new;
            let mut changed = 0_u64;
            let mut bit = 1_u64;
            $(
                if *$field != old.$field {
                    changed |= bit;
                }
                bit <<= 1;
            )+
            let _ = bit;
            put(out, changed);
            let mut rest = changed;
            $(
                if rest & 1 != 0 {
                    put_change(out, $field.to_word(), old.$field.to_word());
                }
                rest >>= 1;
            )+
            let _ = rest;
        }

        /// Applies a difference written by [`put_view`]; `None` if it is invalid.
        pub(super) fn change_view(reader: &mut Reader<'_>, view: &mut PathView) -> Option<()> {
            let mut rest = reader.number()?;
            $(
                if rest & 1 != 0 {
                    let word = reader.change(view.$field.to_word())?;
                    view.$field = <$type>::from_word(word)?;
                }
                rest >>= 1;
            )+
            (rest == 0).then_some(())
        }
    };
}

// New fields are added at the end, so that older recordings stay readable.
fields! {
    link: LinkIndex,
    ready: bool,
    in_flight: ByteCount,
    suspect: bool,
    rtt: Duration,
    min_rtt: Duration,
    rtt_variation: Duration,
    standing_queue: Duration,
    rate: Rate,
    confidence: f64,
    congestion_window: ByteCount,
    kernel_backlog: ByteCount,
    chunk: ByteCount,
    weight: f64,
    price: f64,
    price_weight: f64,
    preferred: bool,
    standing: Standing,
    bottleneck: Option<u8>,
    stalled: Duration,
    beside: ByteCount,
}

/// Returns the view of a channel before its first difference.
pub(super) fn unknown(channel: ChannelId) -> PathView {
    PathView {
        channel,
        ..PathView::default()
    }
}

impl Word for Duration {
    fn to_word(self) -> u64 {
        nanos(self)
    }

    fn from_word(word: u64) -> Option<Self> {
        Some(Self::from_nanos(word))
    }
}

impl Word for Rate {
    fn to_word(self) -> u64 {
        self.bytes_per_second()
    }

    fn from_word(word: u64) -> Option<Self> {
        Some(Self::from_bytes_per_second(word))
    }
}

impl Word for ByteCount {
    fn to_word(self) -> u64 {
        self.as_u64()
    }

    fn from_word(word: u64) -> Option<Self> {
        Some(Self::new(word))
    }
}

impl Word for LinkIndex {
    fn to_word(self) -> u64 {
        self.value().into()
    }

    fn from_word(word: u64) -> Option<Self> {
        u32::try_from(word).ok().map(Self::new)
    }
}

impl Word for bool {
    fn to_word(self) -> u64 {
        self.into()
    }

    fn from_word(word: u64) -> Option<Self> {
        (word <= 1).then_some(word == 1)
    }
}

impl Word for f64 {
    /// Returns the bits in reverse order: values with few significant bits become small numbers.
    fn to_word(self) -> u64 {
        self.to_bits().reverse_bits()
    }

    fn from_word(word: u64) -> Option<Self> {
        Some(Self::from_bits(word.reverse_bits()))
    }
}

impl Word for Standing {
    fn to_word(self) -> u64 {
        self.code().into()
    }

    fn from_word(word: u64) -> Option<Self> {
        Self::from_code(u8::try_from(word).ok()?)
    }
}

impl Word for Option<u8> {
    fn to_word(self) -> u64 {
        self.map_or(0, |value| u64::from(value) + 1)
    }

    fn from_word(word: u64) -> Option<Self> {
        match word.checked_sub(1) {
            None => Some(None),
            Some(value) => u8::try_from(value).ok().map(Some),
        }
    }
}
