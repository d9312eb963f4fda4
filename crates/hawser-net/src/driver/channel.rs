//! The two tasks of a TCP channel: one reads, one writes.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use hawser_channels::tcp_writer::{KernelState, Next, Step, TcpWriter};
use hawser_session::seal::{RecordReader, Sealer};
use hawser_session::{ChannelSpec, Outgoing, ReadBuffer, Side};
use hawser_types::{ChannelId, Charge, Instant};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Interval, MissedTickBehavior};
use tracing::Span;

use super::gauge::Gauge;
use super::inner::{Handle, Meter};
use super::reader::Reader;
use super::shared::SharedSession;
use crate::clock;
use crate::congestion::Choice;
use hawser_link::bind;
use hawser_seal::is_tls_record;

/// An authenticated connection on its way into a session.
pub(crate) struct NewChannel {
    pub(crate) stream: TcpStream,
    pub(crate) reader: RecordReader,
    pub(crate) sealer: Sealer,
}

/// Adds the channel to the session and starts its tasks.
pub(super) fn start(
    shared: &Arc<SharedSession>,
    mut spec: ChannelSpec,
    new: NewChannel,
    charge: Charge,
) {
    let stream = Arc::new(new.stream);
    let gauge = Arc::new(Gauge::new(Arc::clone(&stream)));
    let write = Arc::new(Notify::new());
    let segment = hawser_link::tcp_info::read(&stream)
        .ok()
        .map(|info| info.mss.as_u64());
    spec.segment_size = segment
        .and_then(|mss| u32::try_from(mss).ok())
        .filter(|mss| *mss > 0);
    let id = spec.id;
    shared.with(|inner, now| {
        if inner.closed.is_some() {
            return;
        }
        let writer = Writer {
            shared: Arc::downgrade(shared),
            id,
            stream: Arc::clone(&stream),
            gauge: Arc::clone(&gauge),
            sealer: new.sealer,
            pending: Pending::default(),
            writer: TcpWriter::new(now, id),
            choice: Choice::new(&shared.congestion),
            span: shared.span.clone(),
        };
        let refusable = shared.side == Side::Client && spec.records == 0;
        let reader = Reader::new(new.reader, &shared.budgets.reading);
        let reading = read(Arc::downgrade(shared), id, stream, reader, refusable);
        let reading = tokio::spawn(reading);
        let writing = tokio::spawn(writer.run(Arc::clone(&write)));
        let tasks = smallvec::smallvec![reading.abort_handle(), writing.abort_handle()];
        inner.channels.insert(
            id,
            Handle {
                meter: Meter::Tcp(Arc::clone(&gauge)),
                write,
                tasks,
                _charge: charge,
            },
        );
        inner.session.add_channel(now, spec);
        if let Some(sample) = gauge.sample() {
            inner.session.handle_sample(now, id, sample);
        }
        inner.session.handle_writable(now, id);
    });
    shared.tell_change();
}

/// Reads records until the connection ends.
///
/// `refusable`: a refusal of this side's key may stand in place of the first record, as on the
/// connection with which a client begins a session.
async fn read(
    shared: Weak<SharedSession>,
    id: ChannelId,
    stream: Arc<TcpStream>,
    mut reader: Reader,
    refusable: bool,
) {
    let mut records = Vec::new();
    let mut trim = tokio::time::interval_at(tokio::time::Instant::now() + TRIM_EVERY, TRIM_EVERY);
    trim.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut first, mut refusal) = (refusable, false);
    let mut turn = clock::now();
    let ended = loop {
        // A peer that sends faster than this task reads never lets it wait, and tasks of other
        // sessions on this thread would never have their turn.
        if clock::now().since(turn) >= TURN {
            tokio::task::yield_now().await;
            turn = clock::now();
        }
        // Bytes that came along with the handshake are in the reader before the first read.
        if let Err(error) = take_records(&mut reader.records, &mut records) {
            if refusal && let Some(shared) = shared.upgrade() {
                shared.lock().refused = true;
                shared.abort();
                return;
            }
            break error;
        }
        if !records.is_empty() && !hand_over(&shared, id, &mut records) {
            return;
        }
        let buffer = reader.buffer();
        let empty = buffer.is_empty();
        let result = stream.try_read_buf(buffer);
        // A gateway refuses a client's key by a TLS record, in place of the first record.
        refusal = first && empty && buffer.first().is_some_and(|byte| is_tls_record(*byte));
        first &= matches!(&result, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        match result {
            Ok(0) => break io::ErrorKind::UnexpectedEof.into(),
            Ok(n) => reader.size_next(n),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if let Err(error) = readable(&stream, &mut reader, &mut trim).await {
                    break error;
                }
                turn = clock::now();
            }
            Err(error) => break error,
        }
    };
    let Some(shared) = shared.upgrade() else {
        return;
    };
    let _span = shared.span.enter();
    if reader.records.is_mid_record() && ended.kind() == io::ErrorKind::UnexpectedEof {
        tracing::debug!(%id, "the connection ended inside a record");
    } else {
        tracing::debug!(%id, error = %ended, "the connection ended");
    }
    shared.lose_channel(id);
}

/// Waits for bytes, and gives back memory that is not needed meanwhile.
async fn readable(stream: &TcpStream, reader: &mut Reader, trim: &mut Interval) -> io::Result<()> {
    reader.give_back_if_scarce();
    if reader.is_one_too_many() {
        let why = "no memory for more incomplete records";
        return Err(io::Error::new(io::ErrorKind::OutOfMemory, why));
    }
    while reader.records.holds_memory() {
        tokio::select! {
            result = stream.readable() => return result,
            _ = trim.tick() => reader.trim(),
        }
    }
    stream.readable().await
}

/// Gives the received records to the session. Returns false if the session is over.
fn hand_over(shared: &Weak<SharedSession>, id: ChannelId, records: &mut Vec<Slice>) -> bool {
    let Some(shared) = shared.upgrade() else {
        return false;
    };
    let result = shared.with(|inner, now| {
        let mut records = records.drain(..);
        records.try_for_each(|Slice { record, buffer }| {
            let session = &mut inner.session;
            session.handle_record_in(now, id, record, buffer)
        })
    });
    if let Err(fault) = result {
        shared.fail(&fault);
        return false;
    }
    true
}

/// A record, and the buffer that it keeps alive.
struct Slice {
    record: Bytes,
    buffer: ReadBuffer,
}

fn take_records(reader: &mut RecordReader, records: &mut Vec<Slice>) -> io::Result<()> {
    loop {
        let buffer = reader.read_buffer();
        match reader.next_record() {
            Ok(Some(record)) => records.push(Slice { record, buffer }),
            Ok(None) => return Ok(()),
            Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        }
    }
}

/// Writes records as the session gives them out.
struct Writer {
    shared: Weak<SharedSession>,
    id: ChannelId,
    stream: Arc<TcpStream>,
    gauge: Arc<Gauge>,
    sealer: Sealer,
    pending: Pending,
    writer: TcpWriter,
    choice: Choice,
    /// The session's span, entered for samples and log lines.
    span: Span,
}

/// Bytes that the kernel has not accepted yet: sealed ones in one buffer, unsealed payloads as they
/// are.
#[derive(Default)]
struct Pending {
    sealed: BytesMut,
    pieces: VecDeque<Bytes>,
}

/// The session's answer to the writer.
struct Answer {
    step: Step,
    is_over: bool,
    is_plain: bool,
}

impl Writer {
    async fn run(mut self, work: Arc<Notify>) {
        let mut out = Outgoing::default();
        loop {
            if let Err(error) = self.flush().await {
                let _span = self.span.enter();
                tracing::debug!(id = %self.id, %error, "cannot write to connection");
                // The reading task sees the same error, and may have more to read before.
                return;
            }
            // The session is gone, or has ended and everything was written.
            let Some(next) = self.next(&mut out) else {
                return;
            };
            match next {
                Next::Write => {}
                Next::Idle => work.notified().await,
                Next::Full => {
                    tokio::select! {
                        () = work.notified() => {}
                        _ = self.stream.writable() => {}
                    }
                }
                Next::Drain(span) => {
                    tokio::select! {
                        () = work.notified() => {}
                        () = tokio::time::sleep(span) => {}
                    }
                }
            }
        }
    }

    /// Asks the session for the next record and seals it; `None` when the session is over.
    fn next(&mut self, out: &mut Outgoing) -> Option<Next> {
        let shared = self.shared.upgrade()?;
        let now = clock::now();
        let is_due = self.writer.is_sample_due(now);
        let _span = is_due.then(|| self.span.clone().entered());
        let kernel = KernelState {
            sample: is_due.then(|| self.gauge.sample()).flatten(),
            is_writable: self.gauge.is_ready(),
        };
        let answer = self.step(&shared, kernel, out);
        let Step {
            low_water,
            control,
            next,
        } = answer.step;
        if let Some(mark) = low_water
            && let Err(error) = bind::set_not_sent_low_water(&self.gauge.socket(), mark)
        {
            let _span = self.span.enter();
            tracing::debug!(%error, "cannot limit unsent data");
        }
        if let Some(control) = control {
            self.choice.set(&self.gauge.socket(), control, &self.span);
        }
        match next {
            Next::Write => {
                // The first record proves who joined, so it is always sealed.
                let plain = answer.is_plain && self.sealer.records() > 0;
                self.pending.push(now, &mut self.sealer, out, plain);
                self.gauge.set_pending(self.pending.len());
            }
            _ if answer.is_over => return None,
            _ => {}
        }
        Some(next)
    }

    /// Reports the channel's state to the session, and takes a record from it if there is one.
    fn step(&mut self, shared: &SharedSession, kernel: KernelState, out: &mut Outgoing) -> Answer {
        let (writer, gauge) = (&mut self.writer, &self.gauge);
        shared.with(|inner, now| {
            let unacknowledged = || gauge.unacknowledged();
            let step = writer.step(now, &mut inner.session, kernel, unacknowledged, out);
            Answer {
                step,
                is_over: inner.closed.is_some(),
                is_plain: inner.session.sends_plain(),
            }
        })
    }

    /// Writes until nothing is pending.
    async fn flush(&mut self) -> io::Result<()> {
        while !self.pending.is_empty() {
            match self.pending.write_to(&self.stream) {
                Ok(()) => self.gauge.set_pending(self.pending.len()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.stream.writable().await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Pending {
    fn push(&mut self, now: Instant, sealer: &mut Sealer, out: &mut Outgoing, plain: bool) {
        if plain {
            let payload = out.payload.iter().map(Bytes::len).sum();
            sealer.plain(&out.head, payload, &mut self.sealed);
            self.pieces.push_back(self.sealed.split().freeze());
            self.pieces.extend(out.payload.drain(..));
        } else {
            sealer.seal(now, &out.head, &out.payload, &mut self.sealed);
            out.payload.clear();
        }
    }

    fn len(&self) -> usize {
        self.sealed.len() + self.pieces.iter().map(Bytes::len).sum::<usize>()
    }

    fn is_empty(&self) -> bool {
        self.sealed.is_empty() && self.pieces.is_empty()
    }

    fn write_to(&mut self, stream: &TcpStream) -> io::Result<()> {
        if self.pieces.is_empty() {
            let written = stream.try_write(&self.sealed)?;
            if written == self.sealed.len() {
                // Keeps the buffer's memory for the next record.
                self.sealed.clear();
            } else {
                self.sealed.advance(written);
            }
            return Ok(());
        }
        let slices: smallvec::SmallVec<[io::IoSlice<'_>; MAX_SLICES]> = self
            .pieces
            .iter()
            .take(MAX_SLICES)
            .map(|piece| io::IoSlice::new(piece))
            .collect();
        let mut written = stream.try_write_vectored(&slices)?;
        drop(slices);
        while let Some(front) = self.pieces.front_mut().filter(|_| written > 0) {
            let step = front.len().min(written);
            front.advance(step);
            written -= step;
            if front.is_empty() {
                self.pieces.pop_front();
            }
        }
        // Empty pieces would never be written.
        while self.pieces.front().is_some_and(Bytes::is_empty) {
            self.pieces.pop_front();
        }
        Ok(())
    }
}

/// Interval at which memory that reading did not need is given back.
const TRIM_EVERY: Duration = Duration::from_secs(1);
/// Time for which a channel's reader works before other tasks on its thread have their turn.
const TURN: Duration = Duration::from_millis(1);
const MAX_SLICES: usize = 36;
