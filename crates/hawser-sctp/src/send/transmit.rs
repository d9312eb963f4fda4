//! Filling of packets.

use hawser_types::{ByteCount, Instant, LinkIndex, PathId};
use hawser_wire::sctp::PacketWriter;
use smallvec::SmallVec;

use super::Outbound;
use super::duplicate::second_path;
use super::job::{Job, Kind};
use super::window::{LOOK_AHEAD, Record, Status, Transmission};
use crate::path::{Path, Paths};

/// A packet that is being filled for a path.
#[derive(Debug, Default)]
struct Filling {
    path: PathId,
    link: LinkIndex,
    number: u64,
    chunks: SmallVec<[u64; 2]>,
    bytes: u64,
    /// Chunks to be duplicated.
    to_duplicate: SmallVec<[u64; 2]>,
    /// The peer shall acknowledge at once (RFC 7053).
    immediate: bool,
}

impl Outbound {
    /// Returns the path of the next packet, for a call of [`Self::fill`]; `None` when nothing may
    /// leave now.
    pub(crate) fn next_path(&mut self, now: Instant, paths: &mut Paths) -> Option<PathId> {
        self.expire(now, paths);
        self.wake_at = None;
        self.job = self.choose(now, paths);
        if self.job.is_none() {
            self.on_nothing_to_do(now, paths);
        }
        self.job.as_ref().map(|job| job.path)
    }

    /// Returns the size of the packet for [`Self::fill`], with its SCTP header: more than the
    /// path's packet size only for a chunk that was cut for a larger one.
    pub(crate) fn packet_size(&self, path: &Path) -> usize {
        let chunk = match &self.job {
            Some(Job { path: of, kind }) if *of == path.id => match kind {
                Kind::Retransmission(chunk) => self.window.get(*chunk),
                Kind::Reinjection(chunks) | Kind::Duplicate(chunks) => {
                    chunks.first().and_then(|chunk| self.window.get(*chunk))
                }
                Kind::Probe => path
                    .flight
                    .latest()
                    .and_then(|packet| packet.chunks.first())
                    .and_then(|chunk| self.window.get(*chunk)),
                Kind::Placed => {
                    let chunk = self.placed.next_on(path.id);
                    chunk.and_then(|chunk| self.window.get(chunk))
                }
                Kind::New { .. } => None,
            },
            _ => None,
        };
        let header = self.framing.packet_header();
        let chunk = chunk.map_or(0, |record| record.size() as usize + header);
        path.packet_size.max(chunk)
    }

    /// Puts chunks into a packet that leaves now over the path from [`Self::next_path`]; returns
    /// whether there were any. Chunks that do not fit leave with the next packet.
    pub(crate) fn fill(
        &mut self,
        now: Instant,
        paths: &mut Paths,
        id: PathId,
        writer: &mut PacketWriter,
    ) -> bool {
        let Some(job) = self.job.take().filter(|job| job.path == id) else {
            return false;
        };
        let Some(path) = paths.path(id) else {
            return false;
        };
        let few = path.congestion.window() <= ByteCount::from(FEW_PACKETS * path.packet_size);
        let mut filling = Filling {
            path: id,
            link: path.link,
            number: path.flight.next_number(),
            bytes: self.framing.packet_header() as u64,
            immediate: few,
            ..Filling::default()
        };
        match job.kind {
            Kind::Retransmission(chunk) => {
                self.fill_retransmissions(chunk, paths, &mut filling, writer);
            }
            Kind::New { second } => {
                self.fill_new(paths, &mut filling, writer);
                self.copies = match second {
                    Some(second) => Some((second, filling.chunks.clone())),
                    None => self.choose_second(now, paths, &filling),
                };
                self.copies.take_if(|(_, chunks)| chunks.is_empty());
            }
            Kind::Placed => self.fill_placed(&mut filling, writer),
            Kind::Reinjection(chunks) => self.fill_copies(&chunks, false, &mut filling, writer),
            Kind::Duplicate(chunks) => {
                self.fill_copies(&chunks, true, &mut filling, writer);
                // Behind a SACK there may be no room.
                self.copies =
                    (filling.chunks.is_empty() && !writer.is_empty()).then_some((id, chunks));
            }
            Kind::Probe => self.fill_probe(paths, &mut filling, writer),
        }
        self.on_filled(now, paths, filling)
    }

    fn fill_retransmissions(
        &mut self,
        first: u64,
        paths: &mut Paths,
        filling: &mut Filling,
        writer: &mut PacketWriter,
    ) {
        if !self.put(first, filling, writer) {
            return;
        }
        let others: SmallVec<[u64; LOOK_AHEAD]> =
            self.window.to_retransmit().take(LOOK_AHEAD).collect();
        let is_only = paths.iter().filter(|path| path.selected).count() < 2;
        for chunk in others {
            let Some(record) = self.window.get(chunk) else {
                continue;
            };
            let fits = record.size() as usize <= writer.room();
            let allowed = is_only || !record.failed_on(filling.path);
            if fits && allowed && self.may_retransmit(chunk, record) {
                self.put(chunk, filling, writer);
            }
        }
    }

    fn fill_new(&mut self, paths: &Paths, filling: &mut Filling, writer: &mut PacketWriter) {
        while let Some(next) = self.queue.next() {
            let (rest, limit) = (next.rest, self.smallest_payload(paths, &next));
            let space = next.payload_within(self.framing, writer.room());
            if space == 0 {
                return;
            }
            let length = rest.min(space).min(limit);
            let is_short = length < rest && length < limit / 4;
            let is_over = length as u64 > self.room();
            // One chunk may be sent into a closed window, to learn when it opens.
            let may_probe = self.window.bytes_in_flight() == 0 && filling.chunks.is_empty();
            if (is_short && !writer.is_empty()) || (is_over && !may_probe) {
                return;
            }
            let Some(part) = self.queue.cut(length) else {
                return;
            };
            let last = part.data.last;
            let message = part.message;
            let chunk = self.window.push(part.data, message);
            let limited = message.is_some_and(|id| self.abandon.on_cut(id, chunk, last));
            if let Some(record) = self.window.get_mut(chunk) {
                record.owner_stream = part.owner_stream;
                record.message = message.filter(|_| limited);
            }
            if !self.put(chunk, filling, writer) {
                self.window.set_status(chunk, Status::Fail);
                return;
            }
            self.budget.on_sent(length as u64);
            self.shares.on_queued(length as u64);
            if part.duplicate {
                filling.to_duplicate.push(chunk);
            }
        }
    }

    /// Fills a packet with chunks that the owner has placed on its path.
    fn fill_placed(&mut self, filling: &mut Filling, writer: &mut PacketWriter) {
        while let Some(chunk) = self.placed.next_on(filling.path) {
            let record = self.window.get(chunk);
            let bytes = record.map_or(0, Record::length);
            if bytes > self.room() && self.window.bytes_in_flight() > 0 {
                return;
            }
            let was_empty = writer.is_empty();
            let fits = self.put(chunk, filling, writer);
            if !fits && !was_empty {
                return;
            }
            self.placed.pop(filling.path, bytes);
            if !fits {
                // It would never fit any packet.
                self.window.end_placed(chunk, Status::Abandoned);
            }
        }
    }

    /// Chooses the path for the copies of a packet's chunks, and the chunks.
    fn choose_second(
        &mut self,
        now: Instant,
        paths: &mut Paths,
        filling: &Filling,
    ) -> Option<(PathId, SmallVec<[u64; 2]>)> {
        if filling.to_duplicate.is_empty() {
            return None;
        }
        let second = second_path(now, paths, filling.path)?;
        let records = filling.to_duplicate.iter();
        let records = records.filter_map(|chunk| self.window.get(*chunk));
        let bytes = records.map(|record| record.length()).sum();
        let allowed = self.budget.spend(now, bytes);
        allowed.then(|| (second, filling.to_duplicate.clone()))
    }

    fn fill_copies(
        &mut self,
        chunks: &[u64],
        is_duplicate: bool,
        filling: &mut Filling,
        writer: &mut PacketWriter,
    ) {
        for chunk in chunks {
            let record = self.window.get(*chunk);
            let may = record.is_some_and(|record| record.status == Status::Wait);
            if may && self.put(*chunk, filling, writer) {
                self.window.on_copied(*chunk, is_duplicate);
            }
        }
    }

    /// Fills a probe with new chunks, or else with the last packet's: the acknowledgement shows
    /// what is missing before it. Source: RFC 8985 §7.3.
    fn fill_probe(&mut self, paths: &mut Paths, filling: &mut Filling, writer: &mut PacketWriter) {
        filling.immediate = true;
        let (path, number) = (filling.path, filling.number);
        let next = self.queue.next();
        let payload = next.map_or(0, |next| self.next_payload(paths, &next));
        if payload > 0 && payload as u64 <= self.room() {
            self.fill_new(paths, filling, writer);
        }
        let latest = paths.path(path).and_then(|path| path.flight.latest());
        let latest = latest.filter(|_| filling.chunks.is_empty());
        for chunk in latest.into_iter().flat_map(|packet| packet.chunks.clone()) {
            let transmission = |transmission: &Transmission| {
                transmission.path == path && transmission.packet < number
            };
            let record = self.window.get(chunk);
            if record.is_some_and(|record| record.in_flight.iter().any(transmission)) {
                self.put(chunk, filling, writer);
            }
        }
        // Behind a SACK there may be no room: then the next packet is the probe.
        let is_void = filling.chunks.is_empty() && writer.is_empty();
        if let Some(path) = paths.path_mut(path).filter(|_| is_void) {
            path.flight.give_up_probe();
        }
    }

    /// Puts one chunk into the packet; `false` if it does not fit.
    fn put(&mut self, chunk: u64, filling: &mut Filling, writer: &mut PacketWriter) -> bool {
        let room = self.room();
        let Some(record) = self.window.get_mut(chunk) else {
            return false;
        };
        record.data.immediate = filling.immediate;
        if record.status == Status::Fail {
            record.window_probe = record.length() > room;
        }
        let size = record.size();
        if !writer.put_data_behind(&record.front, &record.data) {
            return false;
        }
        if let Some(stream) = record.owner_stream {
            let bytes = record.length();
            let (before, here) = record.was_sent(filling.path);
            // Repeats on the same path are that path's own affair, as retransmissions of TCP are.
            if !before || !here {
                self.tallies.add_link(filling.link);
                self.tallies.on_given(stream, filling.link, bytes, before);
            }
        }
        filling.chunks.push(chunk);
        filling.bytes += size;
        let transmission = Transmission {
            path: filling.path,
            packet: filling.number,
        };
        self.window.on_sent(chunk, transmission);
        true
    }

    /// Records a filled packet as sent.
    fn on_filled(&mut self, now: Instant, paths: &mut Paths, filling: Filling) -> bool {
        let Some(path) = paths.path_mut(filling.path) else {
            return false;
        };
        if filling.chunks.is_empty() {
            return false;
        }
        let (flight, pace) = (path.flight.bytes(), path.congestion.pacing());
        path.on_sent(now, ByteCount::new(filling.bytes), flight);
        let (chunks, bytes) = (filling.chunks, filling.bytes);
        path.flight.on_sent(now, chunks, bytes, pace);
        true
    }
}

/// Window in packets up to which acknowledgements are requested at once, since what follows may
/// have to wait.
const FEW_PACKETS: usize = 2;
