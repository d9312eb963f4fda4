//! Turns among groups of streams, and among the streams of each.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hawser_types::{StreamGroup, StreamId};
use hawser_wire::ChannelRole;

use crate::by_role::ByRole;

/// Streams that wait for their turn, for each kind of channel that their next chunks belong on.
#[derive(Debug, Default)]
pub(super) struct Turns(ByRole<GroupTurns>);

/// Streams that wait for their turn on one kind of channel.
///
/// The group that has sent least is next, and its streams take turns of a chunk each. Looking at
/// turns changes nothing.
///
/// A group is known for as long as a stream of it is open, so there are no more of them than
/// streams, and one that has nothing to send for a moment still stands where it stood.
///
/// Source: start-time fair queuing (Goyal, Vin, Cheng 1996), with groups in place of flows.
#[derive(Debug, Default)]
struct GroupTurns {
    groups: BTreeMap<StreamGroup, Group>,
    /// Groups with streams that wait. The one that stands lowest is next.
    order: BTreeSet<(u64, StreamGroup)>,
    /// Where the group stood that had its turn last.
    reached: u64,
}

#[derive(Debug, Default)]
struct Group {
    /// Streams that are open.
    open: usize,
    waiting: VecDeque<StreamId>,
    /// Bytes that the group has sent, on a scale that all groups share.
    stands_at: u64,
}

impl Turns {
    /// Adds a stream that is open to those of a group.
    pub(super) fn join(&mut self, group: StreamGroup) {
        self.0.iter_mut().for_each(|it| it.join(group));
    }

    /// Takes a stream that does not wait from those of a group.
    pub(super) fn leave(&mut self, group: StreamGroup) {
        self.0.iter_mut().for_each(|it| it.leave(group));
    }

    /// Gives a stream a place behind the others of its group.
    pub(super) fn push(&mut self, role: ChannelRole, group: StreamGroup, id: StreamId) {
        self.0[role].push(group, id);
    }

    /// Returns the stream whose turn it is.
    pub(super) fn first(&self, role: ChannelRole) -> Option<StreamId> {
        self.0[role].iter().next()
    }

    /// Takes the stream out whose turn it is.
    pub(super) fn take_first(&mut self, role: ChannelRole) -> Option<StreamId> {
        self.0[role].take_first()
    }

    /// Charges a group with what a stream of it has sent in its turn.
    pub(super) fn charge(&mut self, role: ChannelRole, group: StreamGroup, bytes: u64) {
        self.0[role].charge(group, bytes);
    }

    /// Takes a stream out that waits.
    pub(super) fn withdraw(&mut self, group: StreamGroup, id: StreamId) {
        self.0.iter_mut().for_each(|it| it.withdraw(group, id));
    }

    /// Returns the first streams that wait, of each kind at most `most`.
    pub(super) fn waiting(&self, most: usize) -> impl Iterator<Item = StreamId> {
        self.0.iter().flat_map(move |it| it.iter().take(most))
    }
}

impl GroupTurns {
    fn join(&mut self, group: StreamGroup) {
        self.groups.entry(group).or_default().open += 1;
    }

    fn leave(&mut self, group: StreamGroup) {
        if let Some(known) = self.groups.get_mut(&group) {
            known.open = known.open.saturating_sub(1);
            if known.open == 0 {
                self.order.remove(&(known.stands_at, group));
                self.groups.remove(&group);
            }
        }
    }

    /// A group that has rested has no claim to what others have sent meanwhile.
    fn push(&mut self, group: StreamGroup, id: StreamId) {
        let Some(known) = self.groups.get_mut(&group) else {
            return;
        };
        if known.waiting.is_empty() {
            known.stands_at = known.stands_at.max(self.reached);
            self.order.insert((known.stands_at, group));
        }
        known.waiting.push_back(id);
    }

    fn take_first(&mut self) -> Option<StreamId> {
        let first = *self.order.first()?;
        let known = self.groups.get_mut(&first.1)?;
        let id = known.waiting.pop_front();
        if known.waiting.is_empty() {
            self.order.remove(&first);
        }
        id
    }

    fn charge(&mut self, group: StreamGroup, bytes: u64) {
        let Some(known) = self.groups.get_mut(&group) else {
            return;
        };
        let before = known.stands_at;
        self.reached = self.reached.max(before);
        known.stands_at = before + bytes;
        if self.order.remove(&(before, group)) {
            self.order.insert((known.stands_at, group));
        }
    }

    fn withdraw(&mut self, group: StreamGroup, id: StreamId) {
        if let Some(known) = self.groups.get_mut(&group) {
            known.waiting.retain(|waiting| *waiting != id);
            if known.waiting.is_empty() {
                self.order.remove(&(known.stands_at, group));
            }
        }
    }

    /// Returns the streams that wait, in the order of their groups' turns.
    fn iter(&self) -> impl Iterator<Item = StreamId> {
        let groups = self.order.iter();
        let known = groups.filter_map(|(_, group)| self.groups.get(group));
        known.flat_map(|group| group.waiting.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: StreamGroup = StreamGroup::new(1);
    const TWO: StreamGroup = StreamGroup::new(2);

    /// Turns in which these streams wait, by group.
    fn waiting(streams: &[(StreamGroup, u64)]) -> GroupTurns {
        let mut turns = GroupTurns::default();
        for (group, id) in streams {
            turns.join(*group);
            turns.push(*group, StreamId::new(*id));
        }
        turns
    }

    /// The stream whose turn it is sends so many bytes, and waits again.
    fn send(turns: &mut GroupTurns, group_of: impl Fn(u64) -> StreamGroup, bytes: u64) -> u64 {
        let id = turns.take_first().unwrap();
        let group = group_of(id.value());
        turns.charge(group, bytes);
        turns.push(group, id);
        id.value()
    }

    #[test]
    fn a_group_with_eight_streams_sends_as_much_as_one_with_a_single_stream() {
        let group_of = |id| if id < 8 { ONE } else { TWO };
        let ids: Vec<_> = (0..9).map(|id| (group_of(id), id)).collect();
        let mut turns = waiting(&ids);
        let mut sent = [0_u64; 9];
        for _ in 0..800 {
            // Chunks of the one by itself are smaller.
            let is_alone = turns.iter().next() == Some(StreamId::new(8));
            let bytes = if is_alone { 1_000 } else { 3_000 };
            sent[send(&mut turns, group_of, bytes) as usize] += bytes;
        }
        let crowd: u64 = sent[..8].iter().sum();
        assert!(crowd.abs_diff(sent[8]) <= 3_000, "{sent:?}");
        // Within the group, too.
        assert!(
            sent[..8].iter().all(|it| it.abs_diff(sent[0]) <= 3_000),
            "{sent:?}"
        );
    }

    #[test]
    fn a_group_that_has_rested_has_no_claim_to_what_others_have_sent() {
        let mut turns = waiting(&[(ONE, 1)]);
        turns.join(TWO);
        let group_of = |id| if id == 1 { ONE } else { TWO };
        for _ in 0..100 {
            send(&mut turns, group_of, 1_000);
        }
        turns.push(TWO, StreamId::new(2));
        let next: Vec<_> = (0..8).map(|_| send(&mut turns, group_of, 1_000)).collect();
        let of_two = next.iter().filter(|id| **id == 2).count();
        assert!((3..=5).contains(&of_two), "{next:?}");
    }

    #[test]
    fn a_group_whose_only_stream_pauses_after_each_chunk_does_not_go_ahead() {
        let mut turns = waiting(&[(ONE, 1), (TWO, 2)]);
        let group_of = |id| if id == 1 { ONE } else { TWO };
        let next: Vec<_> = (0..6).map(|_| send(&mut turns, group_of, 1_000)).collect();
        assert_eq!(next, [1, 2, 1, 2, 1, 2]);
    }

    #[test]
    fn groups_are_forgotten_with_their_last_stream() {
        let mut turns = GroupTurns::default();
        for number in 0..10_000 {
            let (group, id) = (StreamGroup::new(number), StreamId::new(number.into()));
            turns.join(group);
            turns.join(group);
            turns.push(group, id);
            assert_eq!(turns.iter().next(), Some(id));
            turns.withdraw(group, id);
            turns.leave(group);
            assert_eq!(turns.groups.len(), 1);
            turns.leave(group);
        }
        assert!(turns.order.is_empty() && turns.groups.is_empty());
    }
}
