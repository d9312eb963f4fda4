//! `hawser upgrade`.

use std::time::Duration;

use clap::Args;

/// `hawser upgrade`.
#[derive(Args, Debug)]
pub(crate) struct UpgradeArgs {
    /// End connections that are still open in the old process after this time, such as 10m
    /// [default: 1h]
    #[arg(long, value_name = "DURATION", value_parser = limit)]
    pub(crate) limit: Option<Duration>,
}

fn limit(text: &str) -> Result<Duration, String> {
    let limit = hawser_types::parse_duration(text).map_err(|error| error.to_string())?;
    if limit <= MAX_LIMIT {
        Ok(limit)
    } else {
        Err("expected a time from 0s to 365d".to_owned())
    }
}

const MAX_LIMIT: Duration = Duration::from_secs(365 * 24 * 3600);
