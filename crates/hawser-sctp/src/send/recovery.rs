//! Loss handling and retransmission.

use hawser_types::{ByteCount, Instant, PathId};
use smallvec::SmallVec;

use super::Outbound;
use super::message::MessageId;
use super::window::{Status, Transmission};
use crate::LossRule;
use crate::congestion::Lost;
use crate::path::{Path, Paths, SentPacket};

impl Outbound {
    /// Returns when [`Self::handle_timeout`] or [`Self::next_path`] has something to do.
    pub(crate) fn poll_timeout(&self, paths: &Paths) -> Option<Instant> {
        let of_paths = paths.iter().flat_map(|path| self.timers(path));
        of_paths
            .flatten()
            .chain(self.wake_at)
            .chain(self.abandon.deadline())
            .chain(self.abandon.repeat_at(&self.window, paths))
            .min()
    }

    /// Handles timers that have expired.
    pub(crate) fn handle_timeout(&mut self, now: Instant, paths: &mut Paths) {
        self.wake_at = self.wake_at.filter(|at| *at > now);
        self.train = None;
        let is_due = |path: &&Path| self.timers(path).into_iter().flatten().any(|at| at <= now);
        let due: SmallVec<[PathId; 8]> = paths.iter().filter(is_due).map(|path| path.id).collect();
        for id in due {
            self.handle_path_timeout(now, id, paths);
        }
        self.expire(now, paths);
        self.abandon.repeat_forward_tsn(now, &self.window, paths);
    }

    /// Handles a removed path: its chunks in flight are sent again over others.
    pub(crate) fn on_path_gone(&mut self, _now: Instant, paths: &mut Paths, gone: PathId) {
        self.train = None;
        self.job = self.job.take().filter(|job| job.path != gone);
        self.copies = self.copies.take().filter(|(path, _)| *path != gone);
        for chunk in self.window.chunks() {
            let Some(record) = self.window.get_mut(chunk) else {
                continue;
            };
            record
                .failed
                .retain(|transmission| transmission.path != gone);
            let mut left_at = None;
            record.in_flight.retain(|transmission| {
                let is_here = transmission.path == gone;
                if is_here {
                    let path = paths.path(gone);
                    left_at = path.and_then(|path| path.flight.sent_at(transmission.packet));
                }
                !is_here
            });
            if record.in_flight.is_empty() && record.status == Status::Wait {
                if record.is_placed {
                    self.lose_placed(chunk, left_at);
                } else {
                    self.window.set_status(chunk, Status::Fail);
                }
            }
        }
        if let Some(path) = paths.path_mut(gone) {
            path.flight.take_all();
        }
        self.drop_placed(gone);
    }

    /// Detects losses by acknowledgements and time, and reports them to the congestion control.
    pub(super) fn find_lost(&mut self, now: Instant, id: PathId, paths: &mut Paths) {
        let Some(path) = paths.path_mut(id) else {
            return;
        };
        let mut packets: SmallVec<[SentPacket; 4]> = SmallVec::new();
        while let Some(packet) = path.flight.pop_lost(now, &path.rtt) {
            packets.push(packet);
        }
        let Some(newest_sent) = packets.last().map(|packet| packet.at) else {
            return;
        };
        let bytes = self.on_lost(now, id, &packets, paths);
        if let Some(path) = paths.path_mut(id).filter(|_| bytes > ByteCount::ZERO) {
            path.on_lost(&Lost {
                now,
                bytes,
                newest_sent,
            });
        }
    }

    fn handle_path_timeout(&mut self, now: Instant, id: PathId, paths: &mut Paths) {
        let Some(path) = paths.path_mut(id) else {
            return;
        };
        let [t3, loss, probe] = self.timers(path);
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if is_due(t3) {
            return self.on_t3(now, id, paths);
        }
        if is_due(probe) {
            path.flight.request_probe();
        }
        if is_due(loss) {
            self.find_lost(now, id, paths);
        }
    }

    /// Handles T3: everything in flight on the path is lost (RFC 9260 §6.3.3).
    fn on_t3(&mut self, now: Instant, id: PathId, paths: &mut Paths) {
        let Some(path) = paths.path_mut(id) else {
            return;
        };
        let packets = path.flight.take_all();
        let newest = packets.last().map(|packet| packet.at).unwrap_or_default();
        tracing::debug!(path = %id, packets = packets.len(), "T3 expired");
        let oldest = packets.first().map_or(now, |packet| packet.at);
        let bytes = self.on_lost(now, id, &packets, paths);
        let Some(path) = paths.path_mut(id) else {
            return;
        };
        if bytes > ByteCount::ZERO {
            path.on_timeout(now);
            paths.on_timeout_counted(now, oldest, id);
        } else {
            // The peer had no room for it, which does not count against the path, unless the path
            // is silent too.
            path.rtt.back_off();
            if self.heard_at <= newest {
                paths.on_timeout_counted(now, oldest, id);
            }
        }
    }

    /// Marks the chunks of lost packets as failed; returns the bytes that count against the path.
    fn on_lost(
        &mut self,
        now: Instant,
        path: PathId,
        packets: &[SentPacket],
        paths: &mut Paths,
    ) -> ByteCount {
        let mut bytes = 0;
        let mut spent: SmallVec<[MessageId; 4]> = SmallVec::new();
        let mut any_placed = false;
        for packet in packets {
            let mut is_path_to_blame = false;
            let transmission = Transmission {
                path,
                packet: packet.number,
            };
            for chunk in &packet.chunks {
                let Some(record) = self.window.get(*chunk) else {
                    continue;
                };
                if !record.in_flight.contains(&transmission) {
                    continue;
                }
                is_path_to_blame |= !record.window_probe;
                if let Some(path) = paths.path_mut(path).filter(|_| !record.window_probe) {
                    path.on_chunk_lost(now, packet.at, record.size());
                }
                let (message, send_count) = (record.message, record.send_count);
                let is_placed = record.is_placed;
                if !self.window.on_lost(now, *chunk, transmission) {
                    continue;
                }
                if is_placed {
                    self.lose_placed(*chunk, Some(packet.at));
                    self.remember(*chunk, transmission);
                    any_placed = true;
                } else {
                    spent.extend(message.filter(|id| self.abandon.is_spent(*id, send_count)));
                }
            }
            if is_path_to_blame {
                bytes += packet.bytes;
            }
        }
        for id in spent {
            self.give_up(id, paths);
        }
        if any_placed {
            self.abandon.advance(&self.window);
        }
        ByteCount::new(bytes)
    }

    /// Returns the times of T3, of the next loss and of the tail loss probe.
    fn timers(&self, path: &Path) -> [Option<Instant>; 3] {
        let (flight, rtt) = (&path.flight, &path.rtt);
        if matches!(self.losses, LossRule::Reports { .. }) {
            return [flight.t3(rtt), None, None];
        }
        [
            flight.t3(rtt),
            flight.loss_at(rtt),
            flight.probe_at(rtt, self.sack_delay),
        ]
    }
}
