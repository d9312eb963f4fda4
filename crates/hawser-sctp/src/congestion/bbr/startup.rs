/// Detection of the rate that stops growing.
#[derive(Debug, Default)]
pub(super) struct Startup {
    best: u64,
    rounds: u32,
    /// The path was full once, so that startup is over.
    pub(super) is_over: bool,
}

impl Startup {
    /// Judges the rate at the end of a round. `queued`: all packets of the round waited behind
    /// others of this path. `limited`: the application limited the round, so that its rate alone
    /// says nothing.
    pub(super) fn judge(&mut self, rate: u64, queued: bool, limited: bool) {
        if self.is_over {
            return;
        }
        if rate as f64 >= self.best as f64 * STILL_GROWING {
            (self.best, self.rounds) = (rate, 0);
        } else if queued {
            self.is_over = true;
        } else if !limited {
            self.rounds += 1;
            self.is_over = self.rounds >= FULL_ROUNDS;
        }
    }
}

const STILL_GROWING: f64 = 1.25;
/// Rounds that tell it without a queue, as behind a policer.
const FULL_ROUNDS: u32 = 3;
