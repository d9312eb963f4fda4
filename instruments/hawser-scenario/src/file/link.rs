//! One link of a scenario file.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use hawser_types::{ByteCount, Rate};
use serde::Deserialize;

use crate::trace::{self, Segment};
use crate::values::{LossText, Span, SpanRange, from_text, maybe_text};
use crate::{Forgotten, InvalidScenario, Line, Link, Loss, Nat, ReadText, Service, TcpOption};

/// A link's keys hold for both directions; the tables `up` and `down`, of the same form, override
/// them for one. The last five keys are for a link as a whole.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct LinkEntry {
    #[serde(deserialize_with = "maybe_text")]
    rate: Option<Rate>,
    delay: Option<Span>,
    jitter: Option<Span>,
    loss: Option<LossText>,
    queue: Option<Span>,
    service: Option<ServiceEntry>,
    trace: Option<TraceEntry>,
    /// Bytes of the largest IP packet that passes.
    largest_packet: Option<u64>,
    behind: Option<Ipv4Addr>,
    nat: Option<NatEntry>,
    strip: Vec<TcpOption>,
    up: Option<Box<LinkEntry>>,
    down: Option<Box<LinkEntry>>,
}

/// On and off periods, each a span or a range of spans: `on = "200ms..400ms"`.
#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ServiceEntry {
    on: SpanRange,
    off: SpanRange,
}

#[derive(Deserialize, Clone)]
#[serde(untagged)]
enum TraceEntry {
    File(PathBuf),
    Steps(Vec<StepEntry>),
}

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct StepEntry {
    #[serde(rename = "for")]
    span: Span,
    #[serde(deserialize_with = "from_text")]
    rate: Rate,
}

/// Time-out of the NAT on a link, and its consequence.
#[derive(Deserialize, Clone, Copy)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct NatEntry {
    forget: Span,
    then: Forgotten,
}

impl LinkEntry {
    pub(super) fn check(self, whose: &str, read: ReadText<'_>) -> Result<Link, InvalidScenario> {
        if let Some(address) = self.behind
            && (!address.is_private() || matches!(address.octets()[3], 0 | 1 | 255))
        {
            return Err(InvalidScenario::out_of_range(
                &format!("behind of {whose}"),
                address,
                "a private host address that does not end in .1",
            ));
        }
        let nat = self.nat.map(|nat| nat.check(whose)).transpose()?;
        let nothing = Self::default();
        let line = |own: &Option<Box<Self>>, way: &str| {
            let own = own.as_deref().unwrap_or(&nothing);
            if own.is_whole_links() {
                let key = format!("{way} of {whose}");
                let got = "a table with behind, nat, strip, up or down";
                return Err(InvalidScenario::out_of_range(
                    &key,
                    got,
                    "what concerns one direction",
                ));
            }
            own.or(&self).check_line(whose, way, read)
        };
        Ok(Link {
            up: line(&self.up, "up")?,
            down: line(&self.down, "down")?,
            behind: self.behind,
            nat,
            strip: self.strip,
        })
    }

    /// Reads the line that all links share in front of the server.
    pub(super) fn check_server(self, read: ReadText<'_>) -> Result<Link, InvalidScenario> {
        if self.behind.is_some() || self.nat.is_some() || !self.strip.is_empty() {
            let got = "a table with behind, nat or strip";
            return Err(InvalidScenario::out_of_range(
                "server",
                got,
                "what a line has",
            ));
        }
        self.check("server", read)
    }

    /// Tells whether it sets a key that only a whole link can have.
    fn is_whole_links(&self) -> bool {
        let nested = self.up.is_some() || self.down.is_some();
        nested || self.behind.is_some() || self.nat.is_some() || !self.strip.is_empty()
    }

    /// Merges the keys of one direction with those of its link, which are the defaults.
    fn or(&self, link: &Self) -> Self {
        // A line's own keys for its rate over time replace all of the link's.
        let shaped = self.service.is_some() || self.trace.is_some();
        let traced = self.trace.is_some();
        let rated = self.rate.is_some();
        let service = link.service.clone().filter(|_| !shaped);
        let trace = link.trace.clone().filter(|_| !shaped && !rated);
        Self {
            rate: self.rate.or(link.rate.filter(|_| !traced)),
            delay: self.delay.or(link.delay),
            jitter: self.jitter.or(link.jitter),
            loss: self.loss.or(link.loss),
            queue: self.queue.or(link.queue),
            service: self.service.clone().or(service),
            trace: self.trace.clone().or(trace),
            largest_packet: self.largest_packet.or(link.largest_packet),
            ..Self::default()
        }
    }

    fn check_line(
        self,
        whose: &str,
        way: &str,
        read: ReadText<'_>,
    ) -> Result<Line, InvalidScenario> {
        let key = |name: &str| format!("{name} of {whose} {way}");
        let span = |name: &str, given: Option<Span>, otherwise, most, allowed| {
            let span = given.map_or(otherwise, |span| span.0);
            if span > most {
                return Err(InvalidScenario::out_of_range(
                    &key(name),
                    format!("{span:?}"),
                    allowed,
                ));
            }
            Ok(span)
        };
        let zero = Duration::ZERO;
        let delay = span("delay", self.delay, zero, MAX_SPAN, "0 to 60s")?;
        let jitter = span("jitter", self.jitter, zero, delay, "0 to the delay")?;
        let queue = span("queue", self.queue, DEFAULT_QUEUE, MAX_SPAN, "0 to 60s")?;
        let loss = check_loss(self.loss, &key)?;
        let largest_packet = check_largest(self.largest_packet, &key)?;
        let (rate, service) = self.check_service(&key, read)?;
        if rate < MIN_RATE || rate > MAX_RATE {
            return Err(InvalidScenario::out_of_range(
                &key("rate"),
                rate,
                "8kbit/s to 10Gbit/s",
            ));
        }
        Ok(Line {
            rate,
            delay,
            jitter,
            loss,
            queue,
            service,
            largest_packet,
        })
    }

    /// A trace brings its own rate, everything else needs one.
    fn check_service(
        self,
        key: &impl Fn(&str) -> String,
        read: ReadText<'_>,
    ) -> Result<(Rate, Service), InvalidScenario> {
        match (self.rate, self.service, self.trace) {
            (Some(rate), None, None) => Ok((rate, Service::Steady)),
            (Some(rate), Some(turns), None) => Ok((rate, turns.check(key)?)),
            (None, None, Some(entry)) => {
                let invalid = |reason| InvalidScenario::Trace {
                    key: key("trace"),
                    reason,
                };
                let segments = entry.load(read).map_err(invalid)?;
                Ok((trace::mean_rate(&segments), Service::Trace(segments)))
            }
            (None, _, None) => Err(InvalidScenario::out_of_range(
                &key("rate"),
                "missing",
                "a rate or a trace",
            )),
            (_, _, Some(_)) => {
                let got = "given beside rate or service";
                Err(InvalidScenario::out_of_range(
                    &key("trace"),
                    got,
                    "a trace alone",
                ))
            }
        }
    }
}

impl ServiceEntry {
    fn check(self, key: &impl Fn(&str) -> String) -> Result<Service, InvalidScenario> {
        for (name, range) in [("service.on", self.on.0), ("service.off", self.off.0)] {
            if range.0 < MIN_TURN || range.1 > MAX_SPAN || range.0 > range.1 {
                return Err(InvalidScenario::out_of_range(
                    &key(name),
                    format!("{:?}..{:?}", range.0, range.1),
                    "a span or a rising range between 1ms and 60s",
                ));
            }
        }
        Ok(Service::Bursty {
            on: self.on.0,
            off: self.off.0,
        })
    }
}

impl TraceEntry {
    fn load(self, read: ReadText<'_>) -> Result<Vec<Segment>, trace::TraceError> {
        match self {
            Self::File(path) => trace::load(&path, read),
            Self::Steps(steps) => trace::check(
                steps
                    .into_iter()
                    .map(|step| Segment {
                        span: step.span.0,
                        rate: step.rate,
                    })
                    .collect(),
            ),
        }
    }
}

impl NatEntry {
    fn check(self, whose: &str) -> Result<Nat, InvalidScenario> {
        let forget = self.forget.0;
        if forget < MIN_FORGET || forget > MAX_FORGET {
            let key = format!("nat.forget of {whose}");
            return Err(InvalidScenario::out_of_range(
                &key,
                format!("{forget:?}"),
                "100ms to 24h",
            ));
        }
        let then = self.then;
        Ok(Nat { forget, then })
    }
}

fn check_largest(
    bytes: Option<u64>,
    key: &impl Fn(&str) -> String,
) -> Result<Option<ByteCount>, InvalidScenario> {
    match bytes {
        Some(bytes) if !(MIN_LARGEST..=MAX_LARGEST).contains(&bytes) => Err(
            InvalidScenario::out_of_range(&key("largest-packet"), bytes, "576 to 1500 bytes"),
        ),
        bytes => Ok(bytes.map(ByteCount::new)),
    }
}

fn check_loss(
    text: Option<LossText>,
    key: &impl Fn(&str) -> String,
) -> Result<Loss, InvalidScenario> {
    let Some(LossText { mean, burst }) = text else {
        return Ok(Loss::NONE);
    };
    let Some(burst) = burst else {
        return Ok(Loss { mean, burst });
    };
    if !(1.0..=MAX_BURST).contains(&burst) {
        return Err(InvalidScenario::out_of_range(
            &key("loss.burst"),
            burst,
            "1 to 1000 packets",
        ));
    }
    // At least one packet lies between two bursts.
    if mean > burst / (burst + 1.0) {
        let got = format!("{}%", mean * 100.0);
        let allowed = "at most burst / (burst + 1)";
        return Err(InvalidScenario::out_of_range(
            &key("loss.mean"),
            got,
            allowed,
        ));
    }
    Ok(Loss {
        mean,
        burst: Some(burst),
    })
}

const DEFAULT_QUEUE: Duration = Duration::from_millis(100);
const MIN_TURN: Duration = Duration::from_millis(1);
const MAX_SPAN: Duration = Duration::from_secs(60);
const MIN_RATE: Rate = Rate::from_bits_per_second(8_000);
const MAX_RATE: Rate = Rate::from_bits_per_second(10_000_000_000);
const MAX_BURST: f64 = 1000.0;
/// Every host takes a packet of this size (RFC 791).
const MIN_LARGEST: u64 = 576;
/// The interfaces' own limit.
const MAX_LARGEST: u64 = 1500;
const MIN_FORGET: Duration = Duration::from_millis(100);
const MAX_FORGET: Duration = Duration::from_secs(24 * 3600);
