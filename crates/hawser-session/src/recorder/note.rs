//! Events that are no decisions.

use std::time::Duration;

use hawser_sched::chunk::ChunkPolicy;
use hawser_sched::governor::Standing;
use hawser_types::{ByteCount, ChannelId, LinkIndex, Rate, StreamId};
use hawser_wire::ChannelRole;
use smallvec::{SmallVec, smallvec};

use crate::transport::{Transport, TransportReason};

/// An event of a channel, a link or the session that is no decision.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Note {
    /// A channel was added.
    Added {
        /// The channel.
        channel: ChannelId,
        /// The link below it.
        link: LinkIndex,
        /// Kind of its chunks.
        role: ChannelRole,
    },
    /// A channel ended: its connection ended, its link vanished, or it was given up.
    Lost {
        /// The channel.
        channel: ChannelId,
        /// The link below it.
        link: LinkIndex,
        /// Chunks on it that the peer had not acknowledged.
        chunks: u64,
        /// Time for which it had been silent although an answer was overdue.
        silence: Duration,
    },
    /// A channel became suspect: it is silent although an answer is overdue, or its link crawls.
    Suspect {
        /// The channel.
        channel: ChannelId,
        /// The link below it.
        link: LinkIndex,
        /// Chunks on it that the peer had not acknowledged: those that no other link carries are
        /// copied.
        chunks: u64,
        /// Time for which it had been silent.
        silence: Duration,
    },
    /// A suspect channel has answered.
    Recovered {
        /// The channel.
        channel: ChannelId,
        /// The link below it.
        link: LinkIndex,
        /// Time for which it was suspect.
        after: Duration,
    },
    /// Chunks of a channel are overdue although its link may be alive. Those that cause
    /// head-of-line blocking are reinjected.
    Stalled {
        /// The channel.
        channel: ChannelId,
        /// The link below it.
        link: LinkIndex,
        /// Reinjected chunks, with those of the following second.
        chunks: u64,
    },
    /// This policy places bulk chunks from now on.
    Policy(ChunkPolicy),
    /// The user's and the governor's permission for a link has changed.
    Standing {
        /// The link.
        link: LinkIndex,
        /// Permission from now on.
        standing: Standing,
    },
    /// A chunk in flight was also given to an idle channel.
    Helped {
        /// The chunk's stream.
        stream: StreamId,
        /// The idle channel.
        channel: ChannelId,
        /// The chunk's bytes.
        bytes: ByteCount,
    },
    /// The transport of chunks has changed.
    Transport {
        /// Transport of bulk from now on.
        transport: Transport,
        /// Reason for it.
        reason: TransportReason,
        /// Rates of TCP channels and of the association when last measured; zero if not measured.
        measured: [Rate; 2],
    },
    /// Figures of a channel, at most five times a second.
    Sample {
        /// The channel.
        channel: ChannelId,
        /// The link below it.
        link: LinkIndex,
        /// Delivery rate.
        rate: Rate,
        /// Smoothed round-trip time.
        rtt: Duration,
        /// Round-trip time of the empty path.
        min_rtt: Duration,
        /// Segments sent again, in total.
        retransmissions: u64,
        /// Segments that the peer's kernel has, in total; 0 if the kernel does not report it.
        delivered: u64,
        /// Bytes that the peer's kernel has not acknowledged.
        unacknowledged: ByteCount,
        /// Share of segments that the path loses without congestion, in millionths.
        lost_ppm: u64,
    },
}

/// The values of a note as numbers.
pub(super) type Words = SmallVec<[u64; 9]>;

impl Note {
    /// True if the note is rare, so that it is also kept apart from decisions.
    pub(super) fn is_rare(&self) -> bool {
        !matches!(self, Self::Helped { .. } | Self::Sample { .. })
    }

    /// Returns the number of its kind, and its values as numbers.
    pub(super) fn to_words(self) -> (u64, Words) {
        match self {
            Self::Added {
                channel,
                link,
                role,
            } => (0, smallvec![id(channel), at(link), role_code(role)]),
            Self::Lost {
                channel,
                link,
                chunks,
                silence,
            } => (1, smallvec![id(channel), at(link), chunks, nanos(silence)]),
            Self::Suspect {
                channel,
                link,
                chunks,
                silence,
            } => (2, smallvec![id(channel), at(link), chunks, nanos(silence)]),
            Self::Recovered {
                channel,
                link,
                after,
            } => (3, smallvec![id(channel), at(link), nanos(after)]),
            Self::Policy(policy) => {
                let place = ChunkPolicy::ALL.iter().position(|known| *known == policy);
                (4, smallvec![place.unwrap_or_default() as u64])
            }
            Self::Standing { link, standing } => {
                (5, smallvec![at(link), u64::from(standing.code())])
            }
            Self::Helped {
                stream,
                channel,
                bytes,
            } => (6, smallvec![stream.value(), id(channel), bytes.as_u64()]),
            Self::Stalled {
                channel,
                link,
                chunks,
            } => (8, smallvec![id(channel), at(link), chunks]),
            Self::Transport {
                transport,
                reason,
                measured,
            } => {
                let [tcp, sctp] = measured.map(Rate::bytes_per_second);
                let (transport, reason) = (transport as u64, reason as u64);
                (9, smallvec![transport, reason, tcp, sctp])
            }
            Self::Sample {
                channel,
                link,
                rate,
                rtt,
                min_rtt,
                retransmissions,
                delivered,
                unacknowledged,
                lost_ppm,
            } => {
                let rate = rate.bytes_per_second();
                let (rtt, min_rtt) = (nanos(rtt), nanos(min_rtt));
                let unacknowledged = unacknowledged.as_u64();
                let rest = [rtt, min_rtt, retransmissions, delivered, unacknowledged];
                let mut words: Words = smallvec![id(channel), at(link), rate];
                words.extend(rest);
                words.push(lost_ppm);
                (7, words)
            }
        }
    }

    /// Returns the note of this kind with these values; `None` if they are invalid.
    pub(super) fn from_words(kind: u64, words: &[u64]) -> Option<Self> {
        Some(match (kind, words) {
            (0, [channel, link, role]) => Self::Added {
                channel: channel_of(*channel)?,
                link: link_of(*link)?,
                role: role_of(*role)?,
            },
            (1, [channel, link, chunks, silence]) => Self::Lost {
                channel: channel_of(*channel)?,
                link: link_of(*link)?,
                chunks: *chunks,
                silence: Duration::from_nanos(*silence),
            },
            (2, [channel, link, chunks, silence]) => Self::Suspect {
                channel: channel_of(*channel)?,
                link: link_of(*link)?,
                chunks: *chunks,
                silence: Duration::from_nanos(*silence),
            },
            (3, [channel, link, after]) => Self::Recovered {
                channel: channel_of(*channel)?,
                link: link_of(*link)?,
                after: Duration::from_nanos(*after),
            },
            (4, [policy]) => Self::Policy(*ChunkPolicy::ALL.get(usize::try_from(*policy).ok()?)?),
            (5, [link, standing]) => Self::Standing {
                link: link_of(*link)?,
                standing: Standing::from_code(u8::try_from(*standing).ok()?)?,
            },
            (6, [stream, channel, bytes]) => Self::Helped {
                stream: StreamId::new(*stream),
                channel: channel_of(*channel)?,
                bytes: ByteCount::new(*bytes),
            },
            (
                7,
                [
                    channel,
                    link,
                    rate,
                    rtt,
                    min_rtt,
                    again,
                    delivered,
                    unacknowledged,
                    lost_ppm,
                ],
            ) => Self::Sample {
                channel: channel_of(*channel)?,
                link: link_of(*link)?,
                rate: Rate::from_bytes_per_second(*rate),
                rtt: Duration::from_nanos(*rtt),
                min_rtt: Duration::from_nanos(*min_rtt),
                retransmissions: *again,
                delivered: *delivered,
                unacknowledged: ByteCount::new(*unacknowledged),
                lost_ppm: *lost_ppm,
            },
            (8, [channel, link, chunks]) => Self::Stalled {
                channel: channel_of(*channel)?,
                link: link_of(*link)?,
                chunks: *chunks,
            },
            (9, [transport, reason, tcp, sctp]) => Self::Transport {
                transport: transport_of(*transport)?,
                reason: reason_of(*reason)?,
                measured: [*tcp, *sctp].map(Rate::from_bytes_per_second),
            },
            _ => return None,
        })
    }
}

/// Returns the nanoseconds of a duration.
pub(super) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

fn id(channel: ChannelId) -> u64 {
    channel.value().into()
}

fn at(link: LinkIndex) -> u64 {
    link.value().into()
}

fn channel_of(word: u64) -> Option<ChannelId> {
    u32::try_from(word).ok().map(ChannelId::new)
}

fn link_of(word: u64) -> Option<LinkIndex> {
    u32::try_from(word).ok().map(LinkIndex::new)
}

fn role_code(role: ChannelRole) -> u64 {
    match role {
        ChannelRole::Bulk => 0,
        ChannelRole::Express => 1,
    }
}

fn role_of(word: u64) -> Option<ChannelRole> {
    match word {
        0 => Some(ChannelRole::Bulk),
        1 => Some(ChannelRole::Express),
        _ => None,
    }
}

fn transport_of(word: u64) -> Option<Transport> {
    let known = [Transport::Tcp, Transport::Association];
    known
        .into_iter()
        .find(|transport| *transport as u64 == word)
}

fn reason_of(word: u64) -> Option<TransportReason> {
    let known = [
        TransportReason::Wished,
        TransportReason::First,
        TransportReason::Tried,
        TransportReason::Faster,
        TransportReason::Silent,
    ];
    known.into_iter().find(|reason| *reason as u64 == word)
}
