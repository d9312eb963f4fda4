//! Handshake state of captured connections.

use std::time::Duration;

use aya::maps::MapError;

use crate::tables::{FLOW_ENDED, FLOW_STARTED, FlowRow};
use crate::{Capture, CaptureError, sys};

/// Handshake state of a captured TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// The connection has not sent anything yet.
    NotBegun,
    /// The connection has had no answer for this time.
    Unanswered(Duration),
    /// The connection was answered.
    Answered {
        /// Time until the answer.
        after: Duration,
        /// Time since the answer.
        ago: Duration,
    },
    /// The connection has ended without an answer, or is unknown.
    Over,
}

impl Capture {
    /// Returns the handshake state of a captured TCP connection. Costs about as much as one system
    /// call.
    pub fn handshake(&self, cookie: u64) -> Result<Handshake, CaptureError> {
        match self.tables.flows.get(&cookie, 0) {
            Ok(flow) => Ok(Handshake::of(&flow, sys::monotonic_nanos())),
            Err(MapError::KeyNotFound) => Ok(Handshake::Over),
            Err(error) => Err(error.into()),
        }
    }
}

impl Handshake {
    fn of(flow: &FlowRow, now: u64) -> Self {
        let span = |from: u64, to: u64| Duration::from_nanos(to.saturating_sub(from));
        if flow.established != 0 {
            return Self::Answered {
                after: span(flow.began, flow.established),
                ago: span(flow.established, now),
            };
        }
        if flow.state & FLOW_ENDED != 0 {
            Self::Over
        } else if flow.state & FLOW_STARTED == 0 {
            Self::NotBegun
        } else {
            Self::Unanswered(span(flow.began, now))
        }
    }
}
