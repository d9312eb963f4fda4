//! Links on which short segments arrive and full ones do not.

use hawser_path::Stall;
use hawser_types::ByteCount;

use super::Channels;
use crate::channel::Channel;

impl Channels {
    /// True if the link of a channel carries short segments only: full ones were sent again and
    /// again, none arrived, and the link answered meanwhile.
    pub(crate) fn loses_full_segments(&self, channel: &Channel) -> bool {
        let Some(stall) = channel.full_segments().stall() else {
            return false;
        };
        // A channel that has carried full segments is left to the judgement of silences: where the
        // route has changed, the one in its place will be found out.
        if has_carried(channel) {
            return false;
        }
        let enough = match self.answers_in(channel, stall) {
            true => REPEATS,
            false if self.all_stall(channel) => REPEATS_UNHEARD,
            false => return false,
        };
        stall.repeats >= enough
    }

    /// True if a sign of life of the link would soon show that it carries short segments only.
    pub(crate) fn may_lose_full_segments(channel: &Channel) -> bool {
        let stall = channel.full_segments().stall();
        stall.is_some_and(|stall| stall.repeats >= REPEATS) && !has_carried(channel)
    }

    /// True if full segments are the likely cause of the silence of a channel that a fresh
    /// connection replaces: the handshake of that one has passed, and the channel never carried
    /// much.
    pub(crate) fn stalled_from_the_start(channel: &Channel) -> bool {
        let stall = channel.full_segments().stall();
        stall.is_some_and(|stall| stall.repeats > 0) && !has_carried(channel)
    }

    /// True if another channel of the link had an answer to all that it sent since a stall began:
    /// then everything that was sent before has arrived, or is lost.
    fn answers_in(&self, channel: &Channel, stall: Stall) -> bool {
        self.of_link(channel.link()).any(|other| {
            let asked = other.liveness().heartbeat_at();
            asked.is_some_and(|asked| {
                asked >= stall.since
                    && other.path().silence().last_heard() > Some(asked)
                    && other.path().latest().unacknowledged == ByteCount::ZERO
            })
        })
    }

    /// True if each channel of the link has a full segment ahead of any answer. On a link that is
    /// only slow, one of them moves.
    fn all_stall(&self, channel: &Channel) -> bool {
        let repeats = |other: &Channel| {
            let stall = other.full_segments().stall();
            stall.is_some_and(|stall| stall.repeats > 0)
        };
        self.of_link(channel.link()).all(repeats)
    }
}

/// True if so much has arrived that full segments were among it.
fn has_carried(channel: &Channel) -> bool {
    channel.outbound().arrived() >= CARRIED
}

/// The loss probe of TCP, and the first time-out.
const REPEATS: u64 = 2;
const REPEATS_UNHEARD: u64 = 3;
/// Short records add up to this only after a hundred of them.
const CARRIED: u64 = 8 * 1448;
