/// The largest value of the last ten rounds, kept as the best three.
///
/// Source: Linux `lib/win_minmax.c`, after Kathleen Nichols.
#[derive(Debug, Default)]
pub(super) struct MaxFilter([(u64, u64); 3]);

impl MaxFilter {
    pub(super) fn max(&self) -> u64 {
        self.0[0].1
    }

    pub(super) fn add(&mut self, round: u64, value: u64) {
        let new = (round, value);
        let best = &mut self.0;
        if value >= best[0].1 || round - best[2].0 > BANDWIDTH_ROUNDS {
            *best = [new; 3];
            return;
        }
        if value >= best[1].1 {
            best[1] = new;
            best[2] = new;
        } else if value >= best[2].1 {
            best[2] = new;
        }
        let age = round - best[0].0;
        if age > BANDWIDTH_ROUNDS {
            *best = [best[1], best[2], new];
            if round - best[0].0 > BANDWIDTH_ROUNDS {
                *best = [best[1], best[2], new];
            }
        } else if best[1].0 == best[0].0 && age > BANDWIDTH_ROUNDS / 4 {
            best[1] = new;
            best[2] = new;
        } else if best[2].0 == best[1].0 && age > BANDWIDTH_ROUNDS / 2 {
            best[2] = new;
        }
    }
}

const BANDWIDTH_ROUNDS: u64 = 10;

/// Bandwidth is in segments per microsecond, times two to this.
pub(super) const BANDWIDTH_SHIFT: u32 = 24;
