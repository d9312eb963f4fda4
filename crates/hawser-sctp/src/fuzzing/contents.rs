use std::collections::BTreeMap;

use bytes::Bytes;

use crate::{End, Received};

/// Messages that one host sent, and what the other received of them.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// By the number that they carry as their protocol.
    sent: BTreeMap<u32, Sent>,
}

#[derive(Debug)]
struct Sent {
    stream: u16,
    unordered: bool,
    length: usize,
    may_be_abandoned: bool,
    received: usize,
    is_over: bool,
}

impl Contents {
    /// Returns the payload of the message that is sent next, and its number.
    pub(super) fn next(&self, length: usize) -> (u32, Bytes) {
        let number = self.sent.len() as u32;
        let start = number as usize % PERIOD;
        let end = start + length.clamp(1, MAX_LENGTH);
        (number, Bytes::from_static(&PATTERN).slice(start..end))
    }

    /// Notes that the association took the message with this number.
    pub(super) fn on_sent(&mut self, number: u32, stream: u16, message: &crate::Message) {
        let sent = Sent {
            stream,
            unordered: message.unordered,
            length: message.payload.len(),
            may_be_abandoned: message.reliability != crate::Reliability::Full,
            received: 0,
            is_over: false,
        };
        self.sent.insert(number, sent);
    }

    /// Checks a message, or a piece of one, that was received.
    pub(super) fn on_received(&mut self, received: &Received) {
        let number = received.protocol;
        let Some(sent) = self.sent.get_mut(&number) else {
            panic!("message {number} was never sent");
        };
        assert!(!sent.is_over, "message {number} came twice");
        assert_eq!(received.stream.value(), sent.stream);
        assert_eq!(received.unordered, sent.unordered);
        for part in received.parts() {
            let start = number as usize % PERIOD + sent.received;
            let expected = PATTERN.get(start..start + part.len());
            assert!(
                expected == Some(&part[..]),
                "message {number} has other bytes"
            );
            sent.received += part.len();
        }
        match received.end {
            End::More => return,
            End::Whole => assert_eq!(sent.received, sent.length, "of message {number}"),
            End::GivenUp => assert!(sent.may_be_abandoned, "message {number} was given up"),
        }
        sent.is_over = true;
    }

    /// Returns a message that has to arrive and has not.
    pub(super) fn missing(&self) -> Option<u32> {
        let is_missing = |sent: &Sent| !sent.is_over && !sent.may_be_abandoned;
        let mut all = self.sent.iter();
        all.find_map(|(number, sent)| is_missing(sent).then_some(*number))
    }
}

const PERIOD: usize = 251;
/// The longest message.
pub(super) const MAX_LENGTH: usize = 20_000;
static PATTERN: [u8; MAX_LENGTH + PERIOD] = pattern();

const fn pattern() -> [u8; MAX_LENGTH + PERIOD] {
    let mut pattern = [0; MAX_LENGTH + PERIOD];
    let mut at = 0;
    while at < pattern.len() {
        pattern[at] = (at % PERIOD) as u8;
        at += 1;
    }
    pattern
}
