//! `hawser-lab run` and `hawser-lab fronted`.

use std::process::ExitCode;
use std::time::Duration;

use hawser_types::ByteCount;

use crate::experiment::{Common, Directions, Several};
use crate::measure::{self, ContenderKind, Meeting, Options, Payload};

#[derive(Debug, clap::Args)]
pub(super) struct RunArguments {
    #[command(flatten)]
    several: Several,
    #[command(flatten)]
    common: Common,
    /// Repetitions of each transfer
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Direction of the bytes; the scenario's own when not given
    #[arg(long)]
    direction: Option<Directions>,
    /// Only these contenders
    #[arg(long, value_delimiter = ',')]
    only: Vec<ContenderKind>,
    /// Later transfers on each Hawser session
    #[arg(long, default_value_t = 1)]
    warm: u32,
    /// Carry what all links carry in N seconds, where there are no events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: Option<u64>,
    /// Carry so many bytes rather than the scenario's payload
    #[arg(long, value_name = "BYTES", conflicts_with = "seconds")]
    payload: Option<ByteCount>,
    /// After the first time, only the congestion control that is ahead
    #[arg(long)]
    quick: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct FrontedArguments {
    #[command(flatten)]
    run: RunArguments,
    /// Take connections where programs make them, rather than at Hawser's port
    #[arg(long)]
    captured: bool,
}

impl FrontedArguments {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        self.run.execute(if self.captured {
            Meeting::DiscoveredByCapture
        } else {
            Meeting::Discovered
        })
    }
}

impl RunArguments {
    pub(super) fn execute(self, meeting: Meeting) -> anyhow::Result<ExitCode> {
        let all = [
            ContenderKind::Tcp,
            ContenderKind::Mptcp,
            ContenderKind::Hawser,
        ];
        let contenders = if self.only.is_empty() {
            all.to_vec()
        } else {
            self.only
        };
        let wants_hawser = contenders.contains(&ContenderKind::Hawser);
        if let Some(given) = self.payload.filter(|given| *given < measure::MIN_PAYLOAD) {
            anyhow::bail!("--payload is {given}: allowed is 64KiB or more");
        }
        let options = Options {
            repeat: self.repeat,
            directions: self
                .direction
                .map(Directions::directions)
                .unwrap_or_default(),
            hawser: wants_hawser.then(|| self.common.programs()).transpose()?,
            meeting,
            contenders,
            warm: self.warm,
            payload: match (self.seconds, self.payload) {
                (Some(seconds), _) => Payload::Span(Duration::from_secs(seconds)),
                (None, Some(bytes)) => Payload::Bytes(bytes),
                (None, None) => Payload::Own,
            },
            quick: self.quick,
        };
        self.common.measure_all(&self.several, |scenario, folder| {
            measure::run(scenario, &options, folder)
        })
    }
}
