//! Weighted round robin: in turns of one unit each, and in turns that count bytes.

use std::collections::BTreeMap;

use hawser_types::ChannelId;

use crate::PathView;

/// Turns of one unit each, in proportion to weights and spread evenly.
///
/// Every turn gives each participant a credit of its weight, and the richest pays the sum of all
/// weights for its turn: smooth weighted round robin, as in nginx.
#[derive(Debug, Default)]
pub struct SmoothTurns<K>(BTreeMap<K, i128>);

impl<K: Copy + Ord> SmoothTurns<K> {
    /// Returns the participant whose turn it is, and ends that turn; `None` without participants.
    /// Of equally rich ones, the lowest is next. One that is absent from `weights` is forgotten.
    pub fn take(&mut self, weights: impl Iterator<Item = (K, i128)> + Clone) -> Option<K> {
        let credits = &mut self.0;
        credits.retain(|known, _| weights.clone().any(|(key, _)| key == *known));
        let mut total = 0;
        for (key, weight) in weights {
            total += weight;
            *credits.entry(key).or_default() += weight;
        }
        // Of equals, `max_by_key` takes the last.
        let (key, credit) = credits.iter_mut().rev().max_by_key(|(_, it)| **it)?;
        *credit -= total;
        Some(*key)
    }
}

/// Turns of channels by their virtual finishing times, in seconds.
///
/// A unit advances its channel's time by `size / (rate · weight)`; the channel with the lowest time
/// is next. Strict: while that one is busy, the unit waits for it.
#[derive(Debug, Default)]
pub(crate) struct ByteTurns(BTreeMap<ChannelId, f64>);

impl ByteTurns {
    /// Returns the path of `usable` whose turn it is, if any, and charges it with `cost` if it is
    /// ready. Channels that are absent from `known` are forgotten.
    pub(crate) fn take<'a>(
        &mut self,
        known: impl Iterator<Item = &'a PathView> + Clone,
        usable: impl Iterator<Item = &'a PathView>,
        cost: impl Fn(&PathView) -> f64,
    ) -> Option<&'a PathView> {
        let times = &mut self.0;
        times.retain(|channel, _| known.clone().any(|path| path.channel == *channel));
        // A newcomer starts level with the one that is furthest behind, not with a debt.
        let floor = times.values().copied().min_by(f64::total_cmp);
        for path in known {
            times.entry(path.channel).or_insert(floor.unwrap_or(0.0));
        }
        let next = usable.min_by(|a, b| times[&a.channel].total_cmp(&times[&b.channel]))?;
        if next.ready {
            *times.entry(next.channel).or_default() += cost(next);
        }
        Some(next)
    }
}
