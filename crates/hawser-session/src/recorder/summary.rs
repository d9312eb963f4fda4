//! Summary of a recorder's counts, for people and programs.

use std::time::Duration;

use hawser_sched::chunk::Reason;
use hawser_sched::tally::{LinkTally, StreamTally, Verdict};
use hawser_types::{ByteCount, Instant, LinkIndex, StreamId};

use super::{Note, Recorder};

/// Reasons why links were used or not, for a session or one of its streams.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Time when the session began.
    pub began: Instant,
    /// All links that the session has or had.
    pub links: Vec<LinkSummary>,
    /// Streams that are counted separately, each with its bytes sent, without copies.
    pub streams: Vec<(StreamId, ByteCount)>,
    /// Latest events of channels and links, in order.
    pub notes: Vec<(Instant, Note)>,
}

/// Reasons why one link was used or not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkSummary {
    /// The link.
    pub link: LinkIndex,
    /// Number of its TCP channels now, and one more if an association has a path over it.
    pub channels: u32,
    /// Number of these that are suspect.
    pub suspect: u32,
    /// Payload that it carried, without copies.
    pub bytes: ByteCount,
    /// Part of `bytes` that went over an association.
    pub associated: ByteCount,
    /// Payload of copies that it was given.
    pub copied: ByteCount,
    /// Chunks that were placed while the link was known.
    pub decisions: u64,
    /// Numbers of these by verdict, without those that are zero.
    pub verdicts: Vec<(Verdict, u64)>,
    /// Numbers of chunks placed on this link, by reason.
    pub chosen: Vec<(Reason, u64)>,
    /// Time for which it was ready and nothing was sent, by reason.
    pub held: Vec<(Reason, Duration)>,
    /// Mean delay of chunks that would have been later over this link than over the chosen one:
    /// over this one, and over the chosen one.
    pub later: Option<(Duration, Duration)>,
}

impl Recorder {
    /// Returns the summary of one stream, or of all; `None` for an unknown stream.
    pub fn summary(&self, stream: Option<StreamId>) -> Option<Summary> {
        let streams = self.tallies.streams();
        let mut all = StreamTally::default();
        match stream {
            Some(id) => all.add(streams.iter().find(|tally| tally.stream() == id)?),
            None => {
                streams.iter().for_each(|tally| all.add(tally));
                self.tallies.rest().into_iter().for_each(|it| all.add(it));
            }
        }
        let sent = |tally: &StreamTally| {
            let bytes = tally.links().iter().map(|link| link.bytes).sum();
            (tally.stream(), ByteCount::new(bytes))
        };
        let mut streams: Vec<_> = streams.iter().map(sent).collect();
        streams.sort_unstable();
        let tallies = self.tallies.links().iter().zip(all.links());
        let link = |(link, tally): (&LinkIndex, &LinkTally)| {
            let (channels, suspect) = self.links.connections(*link);
            LinkSummary {
                link: *link,
                channels,
                suspect,
                ..LinkSummary::of(tally)
            }
        };
        Some(Summary {
            began: self.began,
            links: tallies.map(link).collect(),
            streams,
            notes: self.notes.iter().copied().collect(),
        })
    }
}

impl LinkSummary {
    fn of(tally: &LinkTally) -> Self {
        Self {
            bytes: ByteCount::new(tally.bytes),
            associated: ByteCount::new(tally.associated),
            copied: ByteCount::new(tally.copied),
            decisions: tally.decisions(),
            verdicts: tally.verdicts().collect(),
            chosen: tally.chosen().collect(),
            held: tally.held().collect(),
            later: tally.arrivals(),
            ..Self::default()
        }
    }
}
