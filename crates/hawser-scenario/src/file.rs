//! The TOML form of a scenario, and the checks that turn it into the validated one.

use std::fmt::Display;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use hawser_types::{ByteCount, Rate};
use serde::Deserialize;

use crate::trace::{self, Segment};
use crate::values::{Percent, Span, SpanRange, from_text, maybe_text};
use crate::{
    Action, Direction, Event, InvalidScenario, Line, Link, MAX_LINKS, ReadText, Scenario, Service,
};

pub(super) fn parse(
    name: &str,
    text: &str,
    read: ReadText<'_>,
) -> Result<Scenario, InvalidScenario> {
    let file: File = toml::from_str(text)?;
    if file.link.is_empty() || file.link.len() > MAX_LINKS {
        return Err(out_of_range("link", file.link.len(), "1 to 16 links"));
    }
    let links = file
        .link
        .into_iter()
        .enumerate()
        .map(|(index, link)| link.check(index + 1, read))
        .collect::<Result<Vec<_>, _>>()?;
    let mut events = Vec::new();
    for (index, event) in file.event.into_iter().enumerate() {
        events.extend(event.check(index + 1, &links)?);
    }
    events.sort_by_key(|event| event.at);
    if file.payload < MIN_PAYLOAD {
        return Err(out_of_range("payload", file.payload, "64KiB or more"));
    }
    Ok(Scenario {
        name: name.to_owned(),
        summary: file.summary,
        payload: file.payload,
        directions: match file.direction {
            Ways::Put => vec![Direction::Put],
            Ways::Get => vec![Direction::Get],
            Ways::Both => vec![Direction::Put, Direction::Get],
        },
        seed: file.seed,
        links,
        events,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    #[serde(default)]
    summary: String,
    #[serde(deserialize_with = "from_text")]
    payload: ByteCount,
    #[serde(default)]
    direction: Ways,
    #[serde(default = "default_seed")]
    seed: u64,
    link: Vec<LinkEntry>,
    #[serde(default)]
    event: Vec<EventEntry>,
}

fn default_seed() -> u64 {
    1
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
enum Ways {
    Put,
    Get,
    #[default]
    Both,
}

/// A link's keys hold for both directions; the tables `up` and `down` override them for one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct LinkEntry {
    #[serde(default, deserialize_with = "maybe_text")]
    rate: Option<Rate>,
    #[serde(default)]
    delay: Option<Span>,
    #[serde(default)]
    jitter: Option<Span>,
    #[serde(default)]
    loss: Option<Percent>,
    #[serde(default)]
    queue: Option<Span>,
    #[serde(default)]
    service: Option<ServiceEntry>,
    #[serde(default)]
    trace: Option<TraceEntry>,
    #[serde(default)]
    behind: Option<Ipv4Addr>,
    #[serde(default)]
    up: LineEntry,
    #[serde(default)]
    down: LineEntry,
}

#[derive(Deserialize, Default, Clone)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct LineEntry {
    #[serde(default, deserialize_with = "maybe_text")]
    rate: Option<Rate>,
    #[serde(default)]
    delay: Option<Span>,
    #[serde(default)]
    jitter: Option<Span>,
    #[serde(default)]
    loss: Option<Percent>,
    #[serde(default)]
    queue: Option<Span>,
    #[serde(default)]
    service: Option<ServiceEntry>,
    #[serde(default)]
    trace: Option<TraceEntry>,
}

/// On and off turns, each a span or a range of spans: `on = "200ms..400ms"`.
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

impl LinkEntry {
    fn check(self, number: usize, read: ReadText<'_>) -> Result<Link, InvalidScenario> {
        let both = LineEntry {
            rate: self.rate,
            delay: self.delay,
            jitter: self.jitter,
            loss: self.loss,
            queue: self.queue,
            service: self.service,
            trace: self.trace,
        };
        if let Some(address) = self.behind
            && (!address.is_private() || matches!(address.octets()[3], 0 | 1 | 255))
        {
            return Err(out_of_range(
                &format!("behind of link {number}"),
                address,
                "a private host address that does not end in .1",
            ));
        }
        Ok(Link {
            up: self.up.or(&both).check(number, "up", read)?,
            down: self.down.or(&both).check(number, "down", read)?,
            behind: self.behind,
        })
    }
}

impl LineEntry {
    fn or(self, other: &Self) -> Self {
        // What a line says itself about its rate over time replaces all the link says about it.
        let shaped = self.service.is_some() || self.trace.is_some();
        let traced = self.trace.is_some();
        let rated = self.rate.is_some();
        Self {
            rate: self.rate.or(other.rate.filter(|_| !traced)),
            delay: self.delay.or(other.delay),
            jitter: self.jitter.or(other.jitter),
            loss: self.loss.or(other.loss),
            queue: self.queue.or(other.queue),
            service: self.service.or(other.service.clone().filter(|_| !shaped)),
            trace: self
                .trace
                .or(other.trace.clone().filter(|_| !shaped && !rated)),
        }
    }

    fn check(self, number: usize, way: &str, read: ReadText<'_>) -> Result<Line, InvalidScenario> {
        let key = |name: &str| format!("{name} of link {number} {way}");
        let span = |name: &str, given: Option<Span>, otherwise, most, allowed| {
            let span = given.map_or(otherwise, |span| span.0);
            if span > most {
                return Err(out_of_range(&key(name), format!("{span:?}"), allowed));
            }
            Ok(span)
        };
        let zero = Duration::ZERO;
        let delay = span("delay", self.delay, zero, MAX_SPAN, "0 to 60s")?;
        let jitter = span("jitter", self.jitter, zero, delay, "0 to the delay")?;
        let queue = span("queue", self.queue, DEFAULT_QUEUE, MAX_SPAN, "0 to 60s")?;
        let loss = self.loss.map_or(0.0, |percent| percent.0);
        let (rate, service) = self.check_service(&key, read)?;
        if rate < MIN_RATE || rate > MAX_RATE {
            return Err(out_of_range(&key("rate"), rate, "8kbit/s to 10Gbit/s"));
        }
        Ok(Line {
            rate,
            delay,
            jitter,
            loss,
            queue,
            service,
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
            (None, _, None) => Err(out_of_range(&key("rate"), "missing", "a rate or a trace")),
            (_, _, Some(_)) => {
                let got = "given beside rate or service";
                Err(out_of_range(&key("trace"), got, "a trace alone"))
            }
        }
    }
}

impl ServiceEntry {
    fn check(self, key: &impl Fn(&str) -> String) -> Result<Service, InvalidScenario> {
        for (name, range) in [("service.on", self.on.0), ("service.off", self.off.0)] {
            if range.0 < MIN_TURN || range.1 > MAX_SPAN || range.0 > range.1 {
                return Err(out_of_range(
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct EventEntry {
    at: Span,
    link: usize,
    action: ActionEntry,
    /// Undone after this long; only for those that can be undone.
    #[serde(default, rename = "for")]
    span: Option<Span>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ActionEntry {
    BlackHole,
    Pass,
    CarrierDown,
    CarrierUp,
    AddressChange,
}

impl EventEntry {
    fn check(self, number: usize, links: &[Link]) -> Result<Vec<Event>, InvalidScenario> {
        let Some(link) = self.link.checked_sub(1).filter(|link| *link < links.len()) else {
            return Err(out_of_range(
                &format!("link of event {number}"),
                self.link,
                "the number of a link, from 1",
            ));
        };
        let (action, undo) = match self.action {
            ActionEntry::BlackHole => (Action::BlackHole, Some(Action::Pass)),
            ActionEntry::CarrierDown => (Action::CarrierDown, Some(Action::CarrierUp)),
            ActionEntry::Pass => (Action::Pass, None),
            ActionEntry::CarrierUp => (Action::CarrierUp, None),
            ActionEntry::AddressChange => (Action::AddressChange, None),
        };
        if action == Action::AddressChange && links[link].behind.is_some() {
            return Err(out_of_range(
                &format!("action of event {number}"),
                "address-change on a link behind a modem",
                "address-change on a link without `behind`",
            ));
        }
        let at = self.at.0;
        let mut events = vec![Event { at, link, action }];
        match (self.span, undo) {
            (None, _) => {}
            (Some(span), Some(action)) => events.push(Event {
                at: at + span.0,
                link,
                action,
            }),
            (Some(span), None) => {
                return Err(out_of_range(
                    &format!("for of event {number}"),
                    format!("{:?}", span.0),
                    "only beside black-hole and carrier-down",
                ));
            }
        }
        Ok(events)
    }
}

fn out_of_range(key: &str, got: impl Display, allowed: &'static str) -> InvalidScenario {
    InvalidScenario::Value {
        key: key.to_owned(),
        got: got.to_string(),
        allowed,
    }
}

const DEFAULT_QUEUE: Duration = Duration::from_millis(100);
const MIN_TURN: Duration = Duration::from_millis(1);
const MAX_SPAN: Duration = Duration::from_secs(60);
const MIN_RATE: Rate = Rate::from_bits_per_second(8_000);
const MAX_RATE: Rate = Rate::from_bits_per_second(10_000_000_000);
const MIN_PAYLOAD: ByteCount = ByteCount::from_kib(64);

#[cfg(test)]
mod tests;
