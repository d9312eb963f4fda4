//! Actions of applications with two sessions.

use std::collections::BTreeMap;

use bytes::Bytes;
use hawser_sched::chunk::ChunkPolicy;
use hawser_sched::rules::LinkRules;
use hawser_types::{ByteCount, LimitedBy, LinkIndex, Permission, StreamId};
use hawser_wire::TransportChoice;
use hawser_wire::script::Script;

use super::super::wire::End;
use super::{MEMORY, World};
use crate::ReadOutcome;

impl World {
    pub(super) fn open(&mut self, end: End, script: &mut Script<'_>) {
        let metadata = Bytes::copy_from_slice(script.bytes());
        let now = self.now;
        if let Ok(id) = self.session(end).open_stream(now, metadata) {
            self.contents.begin(id);
        }
    }

    pub(super) fn stream(&self, script: &mut Script<'_>) -> Option<StreamId> {
        let count = self.contents.streams().count();
        self.contents.streams().nth(script.below(count))
    }

    pub(super) fn write(&mut self, end: End, script: &mut Script<'_>) {
        let Some(id) = self.stream(script) else {
            return;
        };
        let length = usize::from(script.short());
        let mut bytes = self.contents.to_write(end, id, length);
        let now = self.now;
        let written = match script.byte() & 1 {
            0 => self.session(end).write(now, id, &mut bytes),
            _ => self.session(end).write_slice(now, id, &bytes),
        };
        if let Ok(written) = written {
            self.contents.on_written(end, id, written);
        }
    }

    pub(super) fn finish(&mut self, end: End, script: &mut Script<'_>) {
        if let Some(id) = self.stream(script) {
            let now = self.now;
            if self.session(end).finish(now, id).is_ok() {
                self.contents.on_finished(end, id);
            }
        }
    }

    pub(super) fn read(&mut self, end: End, script: &mut Script<'_>) {
        let Some(id) = self.stream(script) else {
            return;
        };
        let max = usize::from(script.short());
        self.read_once(end, id, max);
        while let Ok(Some(_)) = self.session(end).receive_datagram(id) {}
    }

    /// Reads a piece. True if there was one.
    pub(super) fn read_once(&mut self, end: End, id: StreamId, max: usize) -> bool {
        let now = self.now;
        match self.session(end).read(now, id, max) {
            Ok(ReadOutcome::Data(at, bytes)) => {
                if self.is_honest {
                    self.contents.on_read(end.other(), id, at, &bytes);
                }
                true
            }
            Ok(ReadOutcome::End) => {
                if self.is_honest {
                    self.contents.on_end_read(end.other(), id);
                }
                false
            }
            Ok(ReadOutcome::Blocked) | Err(_) => false,
        }
    }

    /// Ends a stream, or a direction of it, before its end.
    pub(super) fn end_early(&mut self, end: End, script: &mut Script<'_>) {
        let Some(id) = self.stream(script) else {
            return;
        };
        let (now, how) = (self.now, script.byte());
        let session = self.session(end);
        match how % 5 {
            0 => session.reset(now, id, 1),
            1 => session.stop_reading(now, id, 2),
            2 => session.reset_sending(now, id, 3),
            3 => session.abandon(now, id),
            _ => {
                if session.set_unordered(id).is_ok() {
                    self.contents.on_unordered(end.other(), id);
                }
                return;
            }
        }
        for writer in End::BOTH {
            self.contents.cut_short(writer, id);
        }
    }

    pub(super) fn send_datagram(&mut self, end: End, script: &mut Script<'_>) {
        let Some(id) = self.stream(script) else {
            return;
        };
        let length = usize::from(script.short()) % (hawser_wire::MAX_DATAGRAM + 1);
        let payload = self.contents.to_write(end, id, length);
        let now = self.now;
        for _ in 0..=script.byte() % 64 {
            let payload = payload.clone();
            let _ = match payload.len() % 2 {
                0 => self.session(end).send_datagram(now, id, payload),
                _ => self.session(end).send_datagram_in_order(now, id, payload),
            };
        }
    }

    pub(super) fn configure(&mut self, end: End, script: &mut Script<'_>) {
        let (now, what) = (self.now, script.byte());
        let session = self.session(end);
        match what % 4 {
            0 => {
                let policy = ChunkPolicy::ALL[script.below(ChunkPolicy::ALL.len())];
                session.set_scheduler(now, policy);
            }
            1 => {
                let choice = TransportChoice::ALL[script.below(TransportChoice::ALL.len())];
                session.set_transport(now, choice);
            }
            2 => {
                let part = MEMORY.as_u64() / 4 * script.below(5) as u64;
                session.set_memory(now, ByteCount::new(part), MEMORY);
            }
            _ => {
                let link = LinkIndex::new(script.below(4) as u32);
                let permission = PERMISSIONS[script.below(PERMISSIONS.len())];
                let rules = LinkRules {
                    up: permission,
                    down: permission,
                    ..LinkRules::default()
                };
                session.set_rules(now, &BTreeMap::from([(link, rules)]));
            }
        }
    }

    pub(super) fn close(&mut self, end: End, script: &mut Script<'_>) {
        // Most scripts are to go on.
        let (now, how) = (self.now, script.byte());
        match how {
            0..16 => self.session(end).close(now, 7),
            16..32 => self.session(end).close_because(now, 8, "enough"),
            32..40 => self.session(end).abort(),
            _ => {}
        }
    }
}

const PERMISSIONS: [Permission; 4] = [
    Permission::Preferred,
    Permission::Allowed,
    Permission::Reserve(LimitedBy::Choice),
    Permission::Forbidden(LimitedBy::Choice),
];
