//! The report of `hawser-lab connect`.

use serde::Serialize;

use crate::experiment::Head;
use crate::measure::StepError;
use crate::meter::FirstAnswer;
use crate::statistics::Spread;

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct ConnectReport {
    #[serde(flatten)]
    pub(super) head: Head,
    pub(super) repeat: u32,
    /// The link with the shortest round trip, from 1; plain TCP uses it alone.
    pub(super) best_link: usize,
    /// Its round trip when nothing waits, from the scenario.
    pub(super) base_rtt_seconds: f64,
    pub(super) phases: Vec<Phase>,
}

/// All connections of one kind.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Phase {
    pub(super) kind: Kind,
    /// From the call to connect until the application may send its first byte.
    pub(super) connected_seconds: Option<Spread>,
    /// From the call to connect until the first byte of the answer to that.
    pub(super) answered_seconds: Option<Spread>,
    /// Each connection: both times, in seconds.
    pub(super) samples: Vec<[f64; 2]>,
    pub(super) failures: Vec<String>,
    /// Attempts that were refused before one succeeded, all together.
    pub(super) refused: u32,
}

/// State of Hawser when a connection is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// Plain TCP on the best link alone.
    Tcp,
    /// The first connection through a Hawser that has just been started, enrolled before.
    Fresh,
    /// A later one on the same session.
    Warm,
    /// The first one after the gateway was killed and started again, refused attempts included.
    GatewayRestarted,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tcp => "plain tcp",
            Self::Fresh => "hawser fresh",
            Self::Warm => "hawser warm",
            Self::GatewayRestarted => "gateway restarted",
        }
    }
}

impl Phase {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
            connected_seconds: None,
            answered_seconds: None,
            samples: Vec::new(),
            failures: Vec::new(),
            refused: 0,
        }
    }

    pub(super) fn note(&mut self, result: Result<FirstAnswer, StepError>) {
        match result {
            Ok(answer) => self
                .samples
                .push([answer.connected, answer.answered].map(|time| time.as_secs_f64())),
            Err(error) => self.failures.push(error.to_string()),
        }
    }

    pub(super) fn sum_up(&mut self) {
        let spread = |of: fn(&[f64; 2]) -> f64| {
            let times: Vec<_> = self.samples.iter().map(of).collect();
            Spread::of(&times)
        };
        self.connected_seconds = spread(|sample| sample[0]);
        self.answered_seconds = spread(|sample| sample[1]);
    }
}
