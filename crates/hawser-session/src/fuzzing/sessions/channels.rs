//! Actions of channels between two sessions, and of a hostile peer on them.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_types::{ChannelId, LinkIndex};
use hawser_wire::script::Script;
use hawser_wire::{ChannelRole, MAX_RECORD_BODY};

use super::super::forged;
use super::super::wire::{End, Wire};
use super::World;
use crate::{ChannelSpec, Side};

impl World {
    pub(super) fn join(&mut self, script: &mut Script<'_>) {
        let (how, rtt) = (script.byte(), script.byte());
        let Some(id) = self.session(End::Client).take_grant() else {
            return;
        };
        let role = match how & 1 {
            0 => ChannelRole::Bulk,
            _ => ChannelRole::Express,
        };
        let now = self.now;
        if how & 2 != 0 && how & 4 != 0 {
            self.session(End::Client).give_up_grant(now, id);
        } else if self.session(End::Gateway).reserve_join(id).is_ok() {
            let begun_by = match how & 32 {
                0 => Side::Client,
                _ => Side::Gateway,
            };
            let spec = ChannelSpec {
                begun_by,
                ..spec(id, role, u32::from(how >> 3 & 3))
            };
            self.add(spec, Duration::from_millis(rtt.into()));
        }
    }

    pub(super) fn add_channel(&mut self, id: ChannelId, role: ChannelRole, link: u32, rtt: u64) {
        self.add(spec(id, role, link), Duration::from_millis(rtt));
    }

    pub(super) fn add(&mut self, spec: ChannelSpec, rtt: Duration) {
        let now = self.now;
        let wire = Wire::new(now, spec.id, spec.is_association(), rtt);
        for end in End::BOTH {
            let session = self.session(end);
            session.add_channel(now, spec);
            wire.sample(now, end, session);
            session.handle_writable(now, spec.id);
        }
        self.wires.push(wire);
    }

    /// An association comes about, if the gateway has heard of it, or is only announced.
    pub(super) fn associate(&mut self, script: &mut Script<'_>) {
        let how = script.byte();
        let Some(id) = self.session(End::Client).take_grant() else {
            return;
        };
        let now = self.now;
        self.session(End::Client).begin_association(now, id);
        self.settle();
        if how & 1 == 0 {
            self.deliver_all();
        }
        if self.session(End::Gateway).check_join(id) == Err(crate::JoinRefused::Used(id)) {
            self.add(
                ChannelSpec::association(id),
                Duration::from_millis(u64::from(how)),
            );
        }
    }

    pub(super) fn wire(&mut self, script: &mut Script<'_>) -> Option<&mut Wire> {
        let which = script.below(self.wires.len());
        self.wires.get_mut(which)
    }

    pub(super) fn deliver(&mut self, from: End, script: &mut Script<'_>) {
        let which = script.below(self.wires.len());
        let (place, count) = (script.below(256), script.below(16) + 1);
        for _ in 0..count {
            if !self.deliver_one(from, which, place) {
                break;
            }
        }
    }

    pub(super) fn deliver_all(&mut self) {
        for which in (0..self.wires.len()).rev() {
            for from in End::BOTH {
                while self.deliver_one(from, which, 0) {}
            }
        }
        self.settle();
    }

    pub(super) fn deliver_one(&mut self, from: End, which: usize, place: usize) -> bool {
        let now = self.now;
        let Some(wire) = self.wires.get_mut(which) else {
            return false;
        };
        let id = wire.id;
        let Some(record) = wire.deliver(now, from, place) else {
            return false;
        };
        self.hand_over(from.other(), id, record.body);
        self.session(from).handle_writable(now, id);
        true
    }

    pub(super) fn hand_over(&mut self, to: End, id: ChannelId, body: Bytes) {
        let now = self.now;
        let outcome = self.session(to).handle_record(now, id, body);
        if let Err(fault) = outcome {
            assert!(!self.is_honest, "an honest peer is blamed: {fault}");
            self.session(to).abort();
        }
    }

    /// Breaks a connection, as both ends notice.
    pub(super) fn cut(&mut self, script: &mut Script<'_>) {
        if !self.wires.is_empty() {
            let which = script.below(self.wires.len());
            let id = self.wires.remove(which).id;
            let now = self.now;
            for end in End::BOTH {
                self.session(end).handle_channel_lost(now, id);
            }
        }
    }

    pub(super) fn fall_silent(&mut self, script: &mut Script<'_>) {
        if let Some(wire) = self.wire(script) {
            wire.is_dead = !wire.is_dead || !wire.is_association;
        }
    }

    pub(super) fn lose(&mut self, from: End, script: &mut Script<'_>) {
        let place = script.below(256);
        if let Some(wire) = self.wire(script).filter(|wire| wire.is_association) {
            wire.lose(from, place);
        }
    }

    /// A record comes that the other end never sent.
    pub(super) fn forge(&mut self, to: End, script: &mut Script<'_>) {
        let which = script.below(self.wires.len());
        let Some(wire) = self.wires.get(which) else {
            return;
        };
        let id = wire.id;
        let position = &mut self.commands[to.other() as usize];
        let body = forged::record(script, wire.is_association, position);
        self.is_honest = false;
        if body.len() <= MAX_RECORD_BODY {
            self.hand_over(to, id, body);
        }
    }

    /// The next record comes altered, twice or not at all.
    pub(super) fn alter(&mut self, from: End, script: &mut Script<'_>) {
        let (how, place, bit) = (script.byte(), script.short(), script.byte() % 8);
        let Some(wire) = self.wire(script) else {
            return;
        };
        let Some(record) = wire.next_record(from) else {
            return;
        };
        let copy = record.clone();
        match how % 3 {
            0 => {
                let mut body = BytesMut::from(&record.body[..]);
                let place = usize::from(place) % body.len().max(1);
                if let Some(byte) = body.get_mut(place) {
                    *byte ^= 1 << bit;
                }
                record.body = body.freeze();
            }
            1 => wire.send(from, copy),
            _ => {
                record.body.clear();
            }
        }
        self.is_honest = false;
    }
}

fn spec(id: ChannelId, role: ChannelRole, link: u32) -> ChannelSpec {
    ChannelSpec {
        id,
        role,
        link: LinkIndex::new(link),
        begun_by: Side::Client,
        records: u64::from(id.value() > 0),
        segment_size: None,
    }
}
