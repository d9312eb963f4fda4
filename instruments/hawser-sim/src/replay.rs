//! Repeats the recorded decisions of a policy, and compares the answers.

pub mod conditions;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use hawser_sched::chunk::{ChunkPolicy, Decision, express_scheduler};
use hawser_session::recorder::{Entry, Note, Recorded, Recording};
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, StreamId};
use hawser_wire::ChannelRole;
use serde::Serialize;

/// What came of it.
///
/// Every decision is asked with what was true then. What another policy's own decisions would have
/// made of the links is not in it; for that there are [`conditions`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Replay {
    /// The policy that was recorded.
    pub recorded: &'static str,
    /// The policy that was asked.
    pub asked: &'static str,
    /// Whether the recording begins with the session. A policy that is asked from the middle on
    /// lacks what the recorded one remembered.
    pub is_whole: bool,
    /// From the first entry to the last, in milliseconds.
    pub span: u64,
    /// How many decisions were asked again.
    pub decisions: u64,
    /// How many answers were the same: reasons included where the recorded policy was asked.
    pub same: u64,
    /// The first that were not.
    pub differences: Vec<Difference>,
    /// What each link got.
    pub links: Vec<Share>,
}

/// A decision that comes out otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Difference {
    /// Microseconds since the recording's first entry.
    pub at: u64,
    /// The stream.
    pub stream: u64,
    /// What was decided.
    pub recorded: String,
    /// What is decided now.
    pub now: String,
}

/// Chunks for one link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Share {
    /// The link.
    pub link: String,
    /// Those that were recorded, copies included.
    pub recorded: u64,
    /// Those that it would have got.
    pub now: u64,
}

/// Replays a recording with the recorded policy, or with another one for bulk.
pub fn replay(recording: &Recording, policy: Option<ChunkPolicy>) -> Replay {
    let head = &recording.head;
    let asked = policy.unwrap_or(head.policy);
    let mut bulk = asked.scheduler();
    let mut express = express_scheduler();
    let mut shares: BTreeMap<LinkIndex, (u64, u64)> = BTreeMap::new();
    let mut span: Option<(Instant, Instant)> = None;
    let mut replay = Replay {
        recorded: head.policy.name(),
        asked: asked.name(),
        is_whole: head.is_whole,
        span: 0,
        decisions: 0,
        same: 0,
        differences: Vec::new(),
        links: Vec::new(),
    };
    for entry in recording.entries() {
        let (first, _) = *span.get_or_insert((entry.at(), entry.at()));
        span = Some((first, entry.at()));
        let recorded = match entry {
            Entry::Decision(recorded) => recorded,
            Entry::Note(_, Note::Policy(changed)) if policy.is_none() => {
                bulk = changed.scheduler();
                continue;
            }
            Entry::Note(..) => continue,
        };
        let scheduler = match recorded.role {
            ChannelRole::Bulk => &mut bulk,
            ChannelRole::Express => &mut express,
        };
        let now = scheduler.select(recorded.now, recorded.unit, &recorded.views);
        for link in links(&recorded, recorded.decision) {
            shares.entry(link).or_default().0 += 1;
        }
        for link in links(&recorded, now) {
            shares.entry(link).or_default().1 += 1;
        }
        let same = match policy {
            None => now == recorded.decision,
            // Others go to the same channel for reasons of their own.
            Some(_) => places(now) == places(recorded.decision),
        };
        replay.take(&recorded, now, same, first);
    }
    let span = span.map(|(first, last)| last.since(first));
    replay.span = span.unwrap_or_default().as_millis() as u64;
    let share = |(link, (recorded, now))| Share {
        link: link_name(recording, link),
        recorded,
        now,
    };
    replay.links = shares.into_iter().map(share).collect();
    replay
}

impl Replay {
    fn take(&mut self, recorded: &Recorded, now: Decision, same: bool, first: Instant) {
        self.decisions += 1;
        if same {
            self.same += 1;
        } else if self.differences.len() < MAX_DIFFERENCES {
            self.differences.push(Difference {
                at: recorded.now.since(first).as_micros() as u64,
                stream: recorded.stream.value(),
                recorded: words(recorded.decision, recorded.now),
                now: words(now, recorded.now),
            });
        }
    }
}

/// The name of a link, or its number where the recording has none.
fn link_name(recording: &Recording, link: LinkIndex) -> String {
    let known = recording
        .head
        .links
        .iter()
        .find(|(index, _)| *index == link);
    known.map_or_else(|| link.to_string(), |(_, name)| name.clone())
}

/// The links that a decision gives a chunk to.
fn links(recorded: &Recorded, decision: Decision) -> impl Iterator<Item = LinkIndex> {
    places(decision).into_iter().flatten().filter_map(|id| {
        let view = recorded.views.iter().find(|view| view.channel == id)?;
        Some(view.link)
    })
}

/// The channels that a decision gives a chunk to.
fn places(decision: Decision) -> [Option<ChannelId>; 2] {
    match decision {
        Decision::Channel(id, _) => [Some(id), None],
        Decision::Duplicate([one, two], _) => [Some(one), Some(two)],
        Decision::Wait(..) => [None; 2],
    }
}

fn words(decision: Decision, now: Instant) -> String {
    match decision {
        Decision::Channel(id, reason) => format!("{id}, {}", reason.name()),
        Decision::Duplicate([one, two], reason) => format!("{one} and {two}, {}", reason.name()),
        Decision::Wait(None, reason) => format!("wait, {}", reason.name()),
        Decision::Wait(Some(until), reason) => {
            format!("wait {:?}, {}", until.since(now), reason.name())
        }
    }
}

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = Duration::from_millis(self.span);
        writeln!(
            f,
            "{} recorded for {span:?}; {} asked {} decisions again: {} the same, {} not",
            self.recorded,
            self.asked,
            self.decisions,
            self.same,
            self.decisions - self.same,
        )?;
        if !self.is_whole {
            writeln!(
                f,
                "the recording begins in the middle: the policy lacks what it remembered then"
            )?;
        }
        for share in &self.links {
            let Share {
                link,
                recorded,
                now,
            } = share;
            writeln!(f, "  {link}: {recorded} chunks recorded, {now} now")?;
        }
        for it in &self.differences {
            let (stream, seconds) = (StreamId::new(it.stream), it.at as f64 / 1e6);
            writeln!(
                f,
                "  {seconds:.6} s, {stream}: {}; now {}",
                it.recorded, it.now
            )?;
        }
        let more = self.decisions - self.same - self.differences.len() as u64;
        match more {
            0 => Ok(()),
            more => writeln!(f, "  and {more} more"),
        }
    }
}

/// What the decisions gave to links, each byte counted once.
fn placed(recorded: &Recorded) -> ByteCount {
    let chosen = match recorded.decision {
        Decision::Channel(id, _) | Decision::Duplicate([id, _], _) => id,
        Decision::Wait(..) => return ByteCount::ZERO,
    };
    let view = recorded.views.iter().find(|view| view.channel == chosen);
    match view {
        Some(view) if !recorded.unit.again => recorded.unit.size.min(view.chunk),
        _ => ByteCount::ZERO,
    }
}

const MAX_DIFFERENCES: usize = 20;
