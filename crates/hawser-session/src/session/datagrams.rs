//! Calls of applications on datagrams.

use bytes::Bytes;
use hawser_types::{Instant, StreamId};
use hawser_wire::MAX_DATAGRAM;

use super::Session;
use crate::datagrams::Spread;
use crate::error::{DatagramError, StreamError};
use crate::event::Event;

impl Session {
    /// True if the peer takes datagrams; `None` until it has said so.
    pub fn takes_datagrams(&self) -> Option<bool> {
        self.commands.peer_takes_datagrams()
    }

    /// Sends a datagram that belongs to a stream, once, as soon as a channel would send it. It may
    /// be lost, and overtake others. A peer that does not know the stream yet drops it.
    pub fn send_datagram(
        &mut self,
        now: Instant,
        id: StreamId,
        payload: Bytes,
    ) -> Result<(), DatagramError> {
        self.send_spread(now, id, payload, Spread::InTurns)
    }

    /// As [`Session::send_datagram`], for packets of flows whose ends take what is overtaken for
    /// lost, as those of QUIC and TCP do: they stay on one channel until it keeps them
    /// waiting.
    pub fn send_datagram_in_order(
        &mut self,
        now: Instant,
        id: StreamId,
        payload: Bytes,
    ) -> Result<(), DatagramError> {
        self.send_spread(now, id, payload, Spread::InOrder)
    }

    fn send_spread(
        &mut self,
        now: Instant,
        id: StreamId,
        payload: Bytes,
        spread: Spread,
    ) -> Result<(), DatagramError> {
        if self.takes_datagrams() != Some(true) {
            return Err(DatagramError::NotTaken);
        }
        if payload.len() > MAX_DATAGRAM {
            return Err(DatagramError::TooLarge {
                size: payload.len(),
                max: MAX_DATAGRAM,
            });
        }
        if self.is_closed() {
            return Err(StreamError::SessionClosed.into());
        }
        if !self.streams.contains(id) {
            return Err(StreamError::Unknown(id).into());
        }
        self.datagrams.push(now, id, payload, spread);
        self.place_datagrams(now);
        self.counters.datagrams_dropped += self.datagrams.drop_oldest();
        Ok(())
    }

    /// Marks the datagrams of a stream as a call's: an association duplicates them.
    pub fn set_call(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.set_call();
        }
    }

    /// Returns the next datagram that came for a stream; `None`: [`Event::Datagram`] tells when
    /// there is one.
    pub fn receive_datagram(&mut self, id: StreamId) -> Result<Option<Bytes>, StreamError> {
        match self.streams.open_mut(id)?.datagrams_mut().pop() {
            Some((payload, cost)) => {
                self.datagrams.on_taken(cost);
                Ok(Some(payload))
            }
            None if self.is_closed() => Err(StreamError::SessionClosed),
            None => Ok(None),
        }
    }

    /// Takes in a datagram. One for a stream that is over or has not begun is lost, and so is one
    /// that no reader takes.
    pub(super) fn on_datagram(&mut self, id: StreamId, payload: &Bytes) {
        self.counters.datagrams_received += 1;
        let stream = self.streams.get_mut(id);
        let Some(stream) = stream.filter(|stream| !stream.is_abandoned()) else {
            self.counters.datagrams_dropped += 1;
            return;
        };
        let taken = self.datagrams.on_arrival(payload, stream.datagrams_mut());
        self.counters.datagrams_dropped += taken.dropped();
        if taken.is_kept() {
            self.events.push(Event::Datagram(id));
        }
    }

    /// Gives waiting datagrams to channels that would send them at once.
    pub(super) fn place_datagrams(&mut self, now: Instant) {
        if !self.datagrams.is_empty() {
            let channels = &mut self.channels;
            let association = self.transports.association_for_datagrams(now, channels);
            self.datagrams.place(now, channels, association);
        }
    }
}
