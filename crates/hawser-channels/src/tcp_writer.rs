//! Next step of the writer of a TCP channel.

use std::time::Duration;

use hawser_path::KernelSample;
use hawser_sched::Control;
use hawser_session::{Outgoing, Session};
use hawser_types::{ByteCount, ChannelId, Instant};

use crate::SAMPLE_INTERVAL;

/// The writer of one TCP channel: it moves records from the session to the kernel as fast as the
/// kernel sends them, and keeps the session informed.
///
/// The owner calls [`TcpWriter::step`] whenever the kernel has taken all data so far, does what the
/// step says, and waits as its `next` says.
#[derive(Debug)]
pub struct TcpWriter {
    channel: ChannelId,
    next_sample: Instant,
    /// Low-water mark last set on the connection.
    low_water: u32,
}

/// State of the connection before a step.
#[derive(Clone, Copy, Debug)]
pub struct KernelState {
    /// A sample, if [`TcpWriter::is_sample_due`] asked for one and it was available.
    pub sample: Option<KernelSample>,
    /// Whether the kernel would send more at once.
    pub is_writable: bool,
}

/// Instructions after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// New low-water mark of unsent data for the connection.
    pub low_water: Option<ByteCount>,
    /// Congestion control for the channel, if the session was asked.
    pub control: Option<Control>,
    /// Next action.
    pub next: Next,
}

/// Next action of the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Write the record from the session, then take another step.
    Write,
    /// Wait for the session.
    Idle,
    /// Wait for the session or until the connection is writable.
    Full,
    /// Wait for the session, for at most this long: the channel is being drained
    /// ([`Session::holds`]).
    Drain(Duration),
}

impl TcpWriter {
    /// Creates the writer of a channel that was just added to the session.
    pub fn new(now: Instant, channel: ChannelId) -> Self {
        Self {
            channel,
            next_sample: now,
            low_water: 0,
        }
    }

    /// True if the next step needs a sample.
    pub fn is_sample_due(&self, now: Instant) -> bool {
        now >= self.next_sample
    }

    /// Reports the connection's state to the session, and takes the next record from it into `out`.
    ///
    /// `unacknowledged` returns the bytes that the peer's kernel has not acknowledged; it is called
    /// only when necessary.
    pub fn step(
        &mut self,
        now: Instant,
        session: &mut Session,
        kernel: KernelState,
        unacknowledged: impl Fn() -> ByteCount,
        out: &mut Outgoing,
    ) -> Step {
        let channel = self.channel;
        let (mut low_water, mut control) = (None, None);
        if let Some(sample) = kernel.sample {
            self.next_sample = now + SAMPLE_INTERVAL;
            session.handle_sample(now, channel, sample);
            let wanted = session.low_water(channel);
            low_water = wanted.and_then(|bytes| self.low_water_mark(bytes));
            control = session.choose_control(now, channel);
        }
        let drains = session.holds(now, channel, unacknowledged);
        if kernel.is_writable && !drains {
            session.handle_writable(now, channel);
        } else {
            session.handle_full(channel);
        }
        // Records without chunks are sent in any case.
        let found = session.poll_transmit(now, channel, out);
        let next = match (found, drains, kernel.is_writable) {
            (true, ..) => Next::Write,
            (false, true, _) => Next::Drain(DRAIN_STEP),
            (false, false, true) => Next::Idle,
            (false, false, false) => Next::Full,
        };
        Step {
            low_water,
            control,
            next,
        }
    }

    /// Returns the mark for this much unsent data, if it differs enough from the current one to be
    /// worth a system call.
    fn low_water_mark(&mut self, unsent: u32) -> Option<ByteCount> {
        // The kernel asks for more when less than half the mark is left.
        let mark = unsent.saturating_mul(2);
        let differs = mark.abs_diff(self.low_water) > self.low_water / 4;
        differs.then(|| {
            self.low_water = mark;
            ByteCount::new(u64::from(mark))
        })
    }
}

/// Interval of checks on a channel that is being drained.
const DRAIN_STEP: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use hawser_session::{ChannelSpec, SessionConfig, Side};
    use hawser_types::LinkIndex;
    use hawser_wire::ChannelRole;

    use super::*;

    const START: Instant = Instant::from_nanos(1_000_000_000);

    fn session() -> Session {
        let mut session = Session::new(START, Side::Client, SessionConfig::default());
        let spec = ChannelSpec {
            id: ChannelId::new(0),
            role: ChannelRole::Bulk,
            link: LinkIndex::new(1),
            begun_by: Side::Client,
            records: 0,
            segment_size: None,
        };
        session.add_channel(START, spec);
        session
    }

    fn step(writer: &mut TcpWriter, session: &mut Session, now: Instant, writable: bool) -> Step {
        let kernel = KernelState {
            sample: writer.is_sample_due(now).then_some(KernelSample::default()),
            is_writable: writable,
        };
        let mut out = Outgoing::default();
        writer.step(now, session, kernel, || ByteCount::ZERO, &mut out)
    }

    #[test]
    fn samples_are_asked_for_in_an_interval_and_bring_what_the_connection_is_to_have() {
        let (mut session, mut writer) = (session(), TcpWriter::new(START, ChannelId::new(0)));
        let first = step(&mut writer, &mut session, START, true);
        assert!(first.low_water.is_some() && first.control.is_some());
        let soon = START + SAMPLE_INTERVAL / 2;
        assert!(!writer.is_sample_due(soon));
        let second = step(&mut writer, &mut session, soon, true);
        assert_eq!((second.low_water, second.control), (None, None));
        assert!(writer.is_sample_due(START + SAMPLE_INTERVAL));
        // The mark is the same: it is not set again.
        let third = step(&mut writer, &mut session, START + SAMPLE_INTERVAL, true);
        assert_eq!(third.low_water, None);
    }

    #[test]
    fn the_writer_waits_for_the_kernel_only_when_that_is_full() {
        let (mut session, mut writer) = (session(), TcpWriter::new(START, ChannelId::new(0)));
        let drained = |writer: &mut TcpWriter, session: &mut Session, writable| {
            let mut last = step(writer, session, START, writable);
            while last.next == Next::Write {
                last = step(writer, session, START, writable);
            }
            last.next
        };
        assert_eq!(drained(&mut writer, &mut session, true), Next::Idle);
        assert_eq!(drained(&mut writer, &mut session, false), Next::Full);
    }

    #[test]
    fn a_low_water_mark_that_hardly_differs_is_left_as_it_is() {
        let mut writer = TcpWriter::new(START, ChannelId::new(0));
        let mut mark = |bytes| writer.low_water_mark(bytes).map(ByteCount::as_u64);
        assert_eq!(mark(10_000), Some(20_000));
        assert_eq!([9000, 12_000].map(&mut mark), [None, None]);
        assert_eq!([13_000, 9000].map(&mut mark), [Some(26_000), Some(18_000)]);
    }
}
