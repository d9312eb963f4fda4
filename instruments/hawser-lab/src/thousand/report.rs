//! Measurements with a thousand clients.

use std::fmt;

use serde::Serialize;

use crate::crowd::jain;
use crate::experiment::{Findings, Head};
use crate::meter::{Answers, Loaded};
use crate::statistics::Spread;
use crate::text_table::aligned;
use crate::verdict::{Asked, Verdict};

/// All figures of one run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Report {
    #[serde(flatten)]
    head: Head,
    clients: u32,
    links: u8,
    /// Resident memory of the gateway before any client came, in bytes.
    pub(super) alone: u64,
    pub(super) connect: Return,
    pub(super) idle: Idle,
    /// A tenth of the clients transfers, others make small requests.
    pub(super) busy: Loading,
    /// The same beside one hostile client.
    pub(super) hostile: Loading,
    /// After the gateway was killed and started again.
    pub(super) restart: Return,
    /// After all links were silent.
    pub(super) cut: Return,
    verdicts: Vec<Verdict>,
}

/// The gateway while no client asks for anything.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Idle {
    pub(super) seconds: f64,
    /// Part of one core that it takes.
    pub(super) core: f64,
    /// Resident memory, in bytes: all of it, and for each client what it has grown by.
    pub(super) memory: u64,
    pub(super) memory_each: u64,
    pub(super) descriptors: usize,
}

/// Time until clients have answers again.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Return {
    /// Seconds until each had its answer; none of those that had none are in it.
    spread: Option<Spread>,
    /// Part of all clients that had an answer within [`IN_TIME`].
    in_time: f64,
    missing: usize,
}

/// Clients under load.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Loading {
    /// Goodput of all busy clients together, Gbit/s.
    gbps: f64,
    /// Jain's index over the busy clients.
    jain: f64,
    /// Seconds that a small request of another client took.
    requests: Option<Spread>,
    failed_requests: usize,
    /// Part of one core that the gateway took, the beginning included.
    core: f64,
    /// Resident memory of the gateway at the end, in bytes.
    memory: u64,
    hostile_streams: u64,
}

impl Report {
    pub(super) fn new(clients: u32, links: u8) -> Self {
        Self {
            head: Head::new("thousand", "cables"),
            clients,
            links,
            alone: 0,
            connect: Return::default(),
            idle: Idle::default(),
            busy: Loading::default(),
            hostile: Loading::default(),
            restart: Return::default(),
            cut: Return::default(),
            verdicts: Vec::new(),
        }
    }

    /// Sets the figures against what is asked of them.
    pub(super) fn judge(&mut self) {
        let is = |what: &str, figure, asked| Verdict::new(what.to_owned(), figure, asked);
        let kilobytes = self.idle.memory_each as f64 / 1e3;
        let kept = self.hostile.gbps / self.busy.gbps;
        self.verdicts = vec![
            is("idle: kB each", kilobytes, Asked::AtMost(100.0)),
            is("idle: of a core", self.idle.core, Asked::AtMost(0.1)),
            is("restart: back in 10 s", self.restart.in_time, MOST_ARE_BACK),
            is("cut: back in 10 s", self.cut.in_time, MOST_ARE_BACK),
            is("busy: Jain's index", self.busy.jain, Asked::AtLeast(0.95)),
            is("hostile: goodput kept", kept, Asked::AtLeast(0.9)),
        ];
    }
}

impl Return {
    pub(super) fn new(answers: &Answers) -> Self {
        let all = answers.seconds.len() + answers.missing;
        let in_time = answers.seconds.iter().filter(|took| **took <= IN_TIME);
        Self {
            spread: Spread::of(&answers.seconds),
            in_time: in_time.count() as f64 / all.max(1) as f64,
            missing: answers.missing,
        }
    }
}

impl fmt::Display for Return {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(spread) = &self.spread {
            let (median, p99, max) = (spread.median, spread.p99, spread.max);
            write!(f, "median {median:.2} s, p99 {p99:.2} s, last {max:.2} s, ")?;
        }
        let in_time = self.in_time * 100.0;
        write!(
            f,
            "{in_time:.1} % within {IN_TIME} s, {} missing",
            self.missing
        )
    }
}

impl Loading {
    pub(super) fn new(loaded: &Loaded, core: f64, memory: u64) -> Self {
        let bytes: u64 = loaded.bytes.iter().sum();
        Self {
            gbps: bytes as f64 * 8.0 / loaded.seconds / 1e9,
            jain: jain(loaded.bytes.iter().map(|bytes| *bytes as f64)),
            requests: Spread::of(&loaded.requests),
            failed_requests: loaded.failed,
            core,
            memory,
            hostile_streams: loaded.hostile_streams,
        }
    }
}

impl fmt::Display for Loading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} Gbit/s, Jain {:.3}", self.gbps, self.jain)?;
        if let Some(spread) = &self.requests {
            let [median, p99] = [spread.median, spread.p99].map(|seconds| seconds * 1e3);
            write!(f, ", requests median {median:.0} ms, p99 {p99:.0} ms")?;
        }
        let megabytes = self.memory as f64 / 1e6;
        write!(
            f,
            ", {} failed, {:.2} of a core",
            self.failed_requests, self.core
        )?;
        write!(f, ", {megabytes:.0} MB")?;
        match self.hostile_streams {
            0 => Ok(()),
            streams => write!(f, ", {streams} hostile streams"),
        }
    }
}

impl Findings for Report {
    fn head(&self) -> &Head {
        &self.head
    }

    fn table(&self) -> String {
        let title = format!(
            "{} clients at one gateway over {} virtual cables",
            self.clients, self.links
        );
        let idle = &self.idle;
        let idle = format!(
            "{:.1} % of a core over {:.0} s; {:.0} MB, alone {:.0} MB: {:.0} kB each; {} files",
            idle.core * 100.0,
            idle.seconds,
            idle.memory as f64 / 1e6,
            self.alone as f64 / 1e6,
            idle.memory_each as f64 / 1e3,
            idle.descriptors,
        );
        let rows = [
            ("connect", self.connect.to_string()),
            ("idle", idle),
            ("10 % busy", self.busy.to_string()),
            ("one hostile", self.hostile.to_string()),
            ("restart", self.restart.to_string()),
            ("cut", self.cut.to_string()),
        ];
        let rows = rows.map(|(name, text)| vec![name.to_owned(), text]);
        self.head.title(&title) + &aligned(&rows)
    }

    fn failures(&self) -> Vec<String> {
        Vec::new()
    }

    fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }
}

const MOST_ARE_BACK: Asked = Asked::AtLeast(0.99);
/// Seconds.
const IN_TIME: f64 = 10.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_had_no_answer_count_as_late() {
        let back = Return::new(&Answers {
            seconds: vec![0.5, 9.0, 11.0],
            missing: 1,
        });
        assert_eq!((back.in_time, back.missing), (0.5, 1));
        assert_eq!(back.spread.map(|spread| spread.max), Some(11.0));
    }

    #[test]
    fn the_verdict_on_a_hostile_client_compares_with_the_load_before() {
        let loaded = |bytes: u64| Loaded {
            bytes: vec![bytes; 10],
            seconds: 1.0,
            ..Loaded::default()
        };
        let mut report = Report::new(100, 2);
        report.busy = Loading::new(&loaded(1_000_000), 0.5, 1);
        report.hostile = Loading::new(&loaded(500_000), 0.5, 1);
        report.judge();
        let kept = report
            .verdicts
            .iter()
            .find(|it| it.what.starts_with("hostile"));
        assert!(kept.is_some_and(|it| !it.met && it.figure == Some(0.5)));
    }
}
