/// Detection of the rate that stops growing.
#[derive(Debug, Default)]
pub(super) struct Startup {
    best: u64,
    rounds: u32,
    /// The path was full once, so that startup is over.
    pub(super) is_over: bool,
}

impl Startup {
    /// Judges the rate at the end of a round that the application did not limit.
    pub(super) fn judge(&mut self, rate: u64) {
        if self.is_over {
            return;
        }
        if rate as f64 >= self.best as f64 * STILL_GROWING {
            (self.best, self.rounds) = (rate, 0);
            return;
        }
        self.rounds += 1;
        self.is_over = self.rounds >= FULL_ROUNDS;
    }
}

const STILL_GROWING: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;
