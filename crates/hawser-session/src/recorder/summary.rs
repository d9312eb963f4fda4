//! Summary of a recorder's counts, for people and programs.

use std::time::Duration;

use hawser_sched::chunk::Reason;
use hawser_types::{ByteCount, Instant, LinkIndex, StreamId};

use super::tally::{LinkTally, StreamTally, Verdict};
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
    /// Number of its channels now.
    pub channels: u32,
    /// Number of its suspect channels.
    pub suspect: u32,
    /// Payload that it carried, without copies.
    pub bytes: ByteCount,
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
        let (streams, rest) = self.tallies.streams();
        let mut all = StreamTally::default();
        match stream {
            Some(id) => all.add(streams.iter().find(|tally| tally.stream == id)?),
            None => {
                streams.iter().for_each(|tally| all.add(tally));
                all.add(rest);
            }
        }
        let sent = |tally: &StreamTally| {
            let bytes = tally.links.iter().map(|link| link.bytes).sum();
            (tally.stream, ByteCount::new(bytes))
        };
        let mut streams: Vec<_> = streams.iter().map(sent).collect();
        streams.sort_unstable();
        let states = self.tallies.links().iter().zip(&all.links);
        let link = |(state, tally): (&super::tally::LinkState, &LinkTally)| LinkSummary {
            link: state.link,
            channels: state.channels,
            suspect: state.suspect,
            ..LinkSummary::of(tally)
        };
        Some(Summary {
            began: self.began,
            links: states.map(link).collect(),
            streams,
            notes: self.notes.iter().copied().collect(),
        })
    }
}

impl LinkSummary {
    fn of(tally: &LinkTally) -> Self {
        let some = |count: &u64| *count > 0;
        let verdicts = Verdict::ALL.into_iter().zip(tally.verdicts.map(u64::from));
        let chosen = Reason::ALL.into_iter().zip(tally.chosen.map(u64::from));
        let held = Reason::ALL.into_iter().zip(tally.held);
        Self {
            bytes: ByteCount::new(tally.bytes),
            copied: ByteCount::new(tally.copied),
            decisions: tally.decisions(),
            verdicts: verdicts.filter(|(_, count)| some(count)).collect(),
            chosen: chosen.filter(|(_, count)| some(count)).collect(),
            held: held
                .filter(|(_, nanos)| some(nanos))
                .map(|(reason, nanos)| (reason, Duration::from_nanos(nanos)))
                .collect(),
            later: tally.arrivals(),
            ..Self::default()
        }
    }
}
