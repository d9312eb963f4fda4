use std::time::Duration;

/// Pauses between consecutive associations of a client, because networks that block UDP usually
/// keep doing so.
#[derive(Debug)]
pub struct AssociationBackOff {
    pause: Duration,
}

impl Default for AssociationBackOff {
    fn default() -> Self {
        Self { pause: MIN_PAUSE }
    }
}

impl AssociationBackOff {
    /// Returns the pause after an association that ended, or failed to open, `age` after its start.
    pub fn next_pause(&mut self, age: Duration) -> Duration {
        if age > LASTING {
            self.reset();
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(MAX_PAUSE);
        pause
    }

    /// Resets the pause: links or settings changed, so the next attempt may succeed.
    pub fn reset(&mut self) {
        self.pause = MIN_PAUSE;
    }
}

const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// An association that lasted this long was no failure.
const LASTING: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_an_association_lasted_or_something_changed() {
        let (mut back_off, short) = (AssociationBackOff::default(), Duration::from_secs(10));
        let pauses = [(); 8].map(|()| back_off.next_pause(short).as_secs());
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(back_off.next_pause(LASTING * 2), MIN_PAUSE);
        assert_eq!(back_off.next_pause(short), MIN_PAUSE * 2);
        back_off.reset();
        assert_eq!(back_off.next_pause(short), MIN_PAUSE);
    }
}
