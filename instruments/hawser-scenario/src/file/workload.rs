//! The connections of a scenario file.

use hawser_sched::connection::Class;
use hawser_types::ByteCount;
use serde::Deserialize;

use crate::values::{Span, from_text};
use crate::{Application, InvalidScenario, Sizes, Workload};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct WorkloadEntry {
    span: Span,
    application: Vec<ApplicationEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ApplicationEntry {
    name: String,
    #[serde(default, deserialize_with = "from_text")]
    class: Class,
    #[serde(deserialize_with = "from_text")]
    size: ByteCount,
    #[serde(default)]
    sizes: Sizes,
    #[serde(default)]
    per_second: f64,
    #[serde(default)]
    at_start: u32,
}

impl WorkloadEntry {
    pub(super) fn check(self) -> Result<Workload, InvalidScenario> {
        let span = self.span.0;
        if span < MIN_SPAN || span > MAX_SPAN {
            return Err(InvalidScenario::out_of_range(
                "span of workload",
                format!("{span:?}"),
                "1s to 24h",
            ));
        }
        let count = self.application.len();
        if count == 0 || count > MAX_APPLICATIONS {
            return Err(InvalidScenario::out_of_range(
                "application of workload",
                count,
                "1 to 16 applications",
            ));
        }
        let mut applications: Vec<Application> = Vec::new();
        for entry in self.application {
            let application = entry.check()?;
            if applications
                .iter()
                .any(|other| other.name == application.name)
            {
                return Err(InvalidScenario::out_of_range(
                    "name of application",
                    application.name,
                    "a name given once",
                ));
            }
            applications.push(application);
        }
        Ok(Workload { span, applications })
    }
}

impl ApplicationEntry {
    fn check(self) -> Result<Application, InvalidScenario> {
        let key = |key: &str| format!("{key} of application {}", self.name);
        if !(0.0..=MAX_PER_SECOND).contains(&self.per_second) {
            return Err(InvalidScenario::out_of_range(
                &key("per-second"),
                self.per_second,
                "0 to 1000",
            ));
        }
        if self.at_start > MAX_AT_START {
            return Err(InvalidScenario::out_of_range(
                &key("at-start"),
                self.at_start,
                "0 to 1000",
            ));
        }
        if self.size == ByteCount::ZERO || self.size > MAX_SIZE {
            return Err(InvalidScenario::out_of_range(
                &key("size"),
                self.size,
                "1 B to 1 GB",
            ));
        }
        Ok(Application {
            name: self.name,
            class: self.class,
            size: self.size,
            sizes: self.sizes,
            per_second: self.per_second,
            at_start: self.at_start,
        })
    }
}

const MIN_SPAN: std::time::Duration = std::time::Duration::from_secs(1);
const MAX_SPAN: std::time::Duration = std::time::Duration::from_secs(24 * 3600);
const MAX_APPLICATIONS: usize = 16;
const MAX_PER_SECOND: f64 = 1000.0;
const MAX_AT_START: u32 = 1000;
const MAX_SIZE: ByteCount = ByteCount::new(1_000_000_000);
