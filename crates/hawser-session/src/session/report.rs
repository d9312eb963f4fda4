//! What the two ends tell each other of channels: what is silent, what queues, what came.
//!
//! Source: DBAS §II.C, estimates of a route with the peer's help.

use std::time::Duration;

use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, Rate};
use hawser_wire::{PathReport, StateFrame};

use super::{Outgoing, Session};
use crate::channel::Channel;
use crate::snapshot::PeerView;

/// What is to be said of a channel on another link's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// How it looks from here.
    Report(ChannelId),
    /// How many of its records have come.
    Ack(ChannelId),
}

/// When a channel's state was last reported on it, and what had been carried by then.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reported {
    at: Instant,
    carried: u64,
    received: u64,
}

impl Session {
    /// The peer hears over another link that a channel is silent: what it has to send should not
    /// go there either, and it may hold what this side does not know it holds.
    pub(super) fn tell_of_silence(&mut self, id: ChannelId) {
        let Some(link) = self.channels.get(&id).map(|channel| channel.spec.link) else {
            return;
        };
        let sound = |channel: &&Channel| {
            channel.spec.link != link && channel.suspect_since.is_none() && !channel.is_excluded()
        };
        let transports = self.channels.values().filter(sound);
        let transport = transports.min_by_key(|channel| channel.slowness());
        if let Some(transport) = transport.map(|channel| channel.spec.id) {
            self.notify(transport, Notice::Report(id));
        }
    }

    /// A report came on `transport`.
    pub(super) fn on_report(&mut self, now: Instant, transport: ChannelId, report: &PathReport) {
        let stamp = Instant::from_nanos(report.stamp.saturating_mul(1000));
        let Some(channel) = self.channels.get_mut(&report.channel) else {
            return;
        };
        if channel.peer.is_some_and(|known| known.stamp >= stamp) {
            return;
        }
        channel.peer = Some(PeerView {
            stamp,
            silent: report.silent,
            queue: report.queue.map(Duration::from_micros),
            rate: Rate::from_bytes_per_second(report.rate),
        });
        if let Some(queue) = channel.peer.and_then(|peer| peer.queue) {
            self.shared.on_queue(now, channel, queue);
        }
        if transport == report.channel {
            // What an association says may have come over any path.
            if !channel.spec.is_association() {
                channel.path.on_stamps(stamp, now);
            }
        } else if report.silent {
            let link = channel.spec.link;
            self.notify(transport, Notice::Ack(report.channel));
            if self.seems_silent(now, link) && self.lives_without(link) {
                self.doubt(now, link);
            }
        }
    }

    /// Whether this side, too, has had no sign of life of a link for as long as would make it suspect,
    /// be it that nothing was due: what is under way there since is little.
    fn seems_silent(&self, now: Instant, link: LinkIndex) -> bool {
        let mut on_link = self.channels.values().filter(|c| c.spec.link == link);
        on_link.all(|channel| {
            let silence = channel.path.silence();
            let patience = silence.suspect_after(self.expectation(channel));
            let unheard = silence.last_heard().map(|at| now.since(at));
            unheard.is_none_or(|unheard| unheard > patience.max(QUIET))
        })
    }

    /// Puts what is due of reports ahead of a record's chunk: notices, and now and then the
    /// channel's own state where a record is sent anyway.
    pub(super) fn put_reports(&mut self, now: Instant, id: ChannelId, out: &mut Outgoing) {
        let Some(channel) = self.channels.get_mut(&id) else {
            return;
        };
        for notice in std::mem::take(&mut channel.notices) {
            match notice {
                Notice::Report(about) => self.put_report(now, about, out),
                Notice::Ack(about) => {
                    if let Some(channel) = self.channels.get(&about) {
                        let (channel, records) = (about, channel.inbound.records);
                        StateFrame::Ack { channel, records }.encode(&mut out.head);
                    }
                }
            }
        }
        let due = |channel: &Channel| {
            let Reported { at, carried, .. } = channel.reported;
            now.since(at) >= REPORT_EVERY && channel.carried() - carried >= REPORT_AFTER
        };
        if self.channels.get(&id).is_some_and(due) {
            self.put_report(now, id, out);
        }
    }

    fn put_report(&mut self, now: Instant, about: ChannelId, out: &mut Outgoing) {
        let Some(channel) = self.channels.get_mut(&about) else {
            return;
        };
        let before = channel.reported;
        let received = channel.payload_received - before.received;
        let rate = match before.at {
            Instant::ZERO => Rate::ZERO,
            at => Rate::over(ByteCount::new(received), now.since(at)),
        };
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        channel.reported = Reported {
            at: now,
            carried: channel.carried(),
            received: channel.payload_received,
        };
        let report = PathReport {
            channel: about,
            stamp: now.as_nanos() / 1000,
            silent: channel.suspect_since.is_some(),
            queue: channel.path.one_way().queue().map(micros),
            rate: rate.bytes_per_second(),
        };
        StateFrame::Path(report).encode(&mut out.head);
    }

    fn notify(&mut self, transport: ChannelId, notice: Notice) {
        if let Some(channel) = self.channels.get_mut(&transport)
            && !channel.notices.contains(&notice)
        {
            channel.notices.push(notice);
            self.wake(transport);
        }
    }
}

impl Channel {
    /// Bytes of chunks that went over it, both ways.
    fn carried(&self) -> u64 {
        self.payload_sent + self.payload_received
    }
}

/// A link that was heard within this time is not as silent as the peer believes.
const QUIET: Duration = Duration::from_millis(60);
/// How often a channel that carries something is reported on, at most.
const REPORT_EVERY: Duration = Duration::from_millis(100);
/// What it has to carry between two reports: a report is some twenty bytes, and is to take a
/// thousandth of a slow link at most.
const REPORT_AFTER: u64 = 20_000;
