//! What a recorder has counted, for people and programs.

use std::time::Duration;

use hawser_sched::chunk::Reason;
use hawser_types::{ByteCount, Instant, LinkIndex, StreamId};

use super::tally::{LinkTally, StreamTally, Verdict};
use super::{Note, Recorder};

/// Why links were used or not, for a session or one of its streams.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// When the session began.
    pub began: Instant,
    /// Each link that the session has or had.
    pub links: Vec<LinkSummary>,
    /// The streams that are counted by themselves, with what was sent of each, copies left out.
    pub streams: Vec<(StreamId, ByteCount)>,
    /// The latest that happened to channels and links, in order.
    pub notes: Vec<(Instant, Note)>,
}

/// Why one link was used or not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkSummary {
    /// The link.
    pub link: LinkIndex,
    /// Its channels now.
    pub channels: u32,
    /// Those of them that are silent.
    pub suspect: u32,
    /// Payload that it carried, copies left out.
    pub bytes: ByteCount,
    /// Payload that it was given as a copy.
    pub copied: ByteCount,
    /// Chunks that were placed while the link could be judged.
    pub decisions: u64,
    /// How many of these, by what became of the link; none are left out that are zero.
    pub verdicts: Vec<(Verdict, u64)>,
    /// How many chunks were placed here, by the reason.
    pub chosen: Vec<(Reason, u64)>,
    /// For how long it was ready and nothing was sent, by the reason.
    pub held: Vec<(Reason, Duration)>,
    /// Where a chunk would have been later than by the link that was chosen: how long it would
    /// have taken here, and took there, on average.
    pub later: Option<(Duration, Duration)>,
}

impl Recorder {
    /// What was counted of one stream, or of all; `None` when nothing is known of the stream.
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
