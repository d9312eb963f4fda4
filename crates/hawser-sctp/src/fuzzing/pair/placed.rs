//! Messages whose paths the owners choose.

use bytes::Bytes;
use hawser_types::PathId;
use hawser_wire::script::Script;

use super::World;
use crate::{Association, Turn};

impl World {
    /// Sends a message over a path of the owner's choice.
    pub(super) fn place(&mut self, host: usize, script: &mut Script<'_>) {
        let (choice, length) = (script.below(256), script.below(2000));
        let now = self.now;
        let number = self.hosts[host].placed;
        let Some(association) = self.association(host) else {
            return;
        };
        let mut paths = Vec::new();
        association.show_rooms(now, Turn::Any, |view, _| paths.push(view.channel.value()));
        if paths.is_empty() {
            return;
        }
        let path = PathId::new(paths[choice % paths.len()]);
        let mut payload = vec![number as u8; 8 + length];
        payload[..8].copy_from_slice(&number.to_be_bytes());
        if association.send_over(path, Bytes::from(payload)).is_ok() {
            self.hosts[host].placed += 1;
        }
    }

    /// Placed messages come once, whole, or not at all.
    pub(super) fn receive_placed(&mut self, host: usize) {
        while let Some(received) = self.association(host).and_then(Association::receive_placed) {
            if !self.is_honest {
                continue;
            }
            let payload = received.payload();
            let number = payload.first_chunk().map(|it| u64::from_be_bytes(*it));
            let number = number.expect("it is as long as it was");
            assert!(payload[8..].iter().all(|byte| *byte == number as u8));
            let from = &mut self.hosts[1 - host];
            assert!(number < from.placed, "it was never sent");
            assert!(from.placed_seen.insert(number), "it came twice");
        }
    }
}
