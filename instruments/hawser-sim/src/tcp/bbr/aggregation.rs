use hawser_types::Instant;

use super::super::window::Progress;
use super::max_filter::BANDWIDTH_SHIFT;

/// What arrives beyond the estimated bandwidth, in bursts.
#[derive(Debug, Default)]
pub(super) struct Aggregation {
    epoch: Instant,
    acknowledged: u64,
    extra: [u32; 2],
    slot: usize,
    rounds: u32,
}

impl Aggregation {
    /// The connection begins.
    pub(super) fn begin(&mut self, now: Instant) {
        self.epoch = now;
    }

    /// It sends again after a pause.
    pub(super) fn restart(&mut self, now: Instant) {
        self.epoch = now;
        self.acknowledged = 0;
    }

    /// Takes in an acknowledgement. `is_round_start`: a round of the connection begins with it.
    pub(super) fn on_progress(
        &mut self,
        p: &Progress,
        is_round_start: bool,
        bandwidth: u64,
        congestion: u32,
    ) {
        if p.delivered_now == 0 || !p.sample.any || p.sample.delivered == 0 {
            return;
        }
        if is_round_start {
            self.rounds += 1;
            if self.rounds >= ROUNDS {
                self.rounds = 0;
                self.slot ^= 1;
                self.extra[self.slot] = 0;
            }
        }
        let micros = p.delivered_at.since(self.epoch).as_micros() as u64;
        let mut expected = bandwidth.saturating_mul(micros) >> BANDWIDTH_SHIFT;
        let now = u64::from(p.delivered_now);
        if self.acknowledged <= expected || self.acknowledged + now >= 1 << 20 {
            self.acknowledged = 0;
            self.epoch = p.delivered_at;
            expected = 0;
        }
        self.acknowledged += now;
        let extra = (self.acknowledged - expected).min(u64::from(congestion)) as u32;
        let kept = &mut self.extra[self.slot];
        *kept = (*kept).max(extra);
    }

    /// Segments beyond the bandwidth in the latest rounds, at most.
    pub(super) fn extra(&self) -> u32 {
        self.extra[0].max(self.extra[1])
    }
}

const ROUNDS: u32 = 5;
