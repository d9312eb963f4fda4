//! The TOML form of a scenario, and the checks that turn it into the validated one.

mod link;
mod sweep;
mod workload;

use hawser_types::ByteCount;
use serde::Deserialize;

use crate::values::{Span, maybe_text};
use crate::{
    Action, Direction, Event, InvalidScenario, Link, MAX_LINKS, Point, ReadText, Scenario,
};
use link::LinkEntry;
use sweep::SweepEntry;
use workload::WorkloadEntry;

pub(super) fn parse(
    name: &str,
    text: &str,
    read: ReadText<'_>,
) -> Result<Scenario, InvalidScenario> {
    let file: File = toml::from_str(text)?;
    file.check(name, read)
}

/// Parses all scenarios of a file: one, or those of its sweep.
pub(super) fn parse_points(
    name: &str,
    text: &str,
    read: ReadText<'_>,
) -> Result<Vec<Point>, InvalidScenario> {
    let mut file: File = toml::from_str(text)?;
    let Some(sweep) = file.sweep.take() else {
        return Ok(vec![Point {
            key: String::new(),
            value: String::new(),
            scenario: file.check(name, read)?,
        }]);
    };
    let mut points = Vec::new();
    for variant in sweep.variants(text)? {
        let file: File = variant.table.try_into()?;
        points.push(Point {
            key: sweep.key.clone(),
            value: variant.value,
            scenario: file.check(name, read)?,
        });
    }
    Ok(points)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    #[serde(default)]
    summary: String,
    /// Required without a workload.
    #[serde(default, deserialize_with = "maybe_text")]
    payload: Option<ByteCount>,
    #[serde(default)]
    direction: Ways,
    #[serde(default = "default_seed")]
    seed: u64,
    link: Vec<LinkEntry>,
    #[serde(default)]
    event: Vec<EventEntry>,
    server: Option<LinkEntry>,
    workload: Option<WorkloadEntry>,
    sweep: Option<SweepEntry>,
}

impl File {
    fn check(self, name: &str, read: ReadText<'_>) -> Result<Scenario, InvalidScenario> {
        if self.link.is_empty() || self.link.len() > MAX_LINKS {
            return Err(InvalidScenario::out_of_range(
                "link",
                self.link.len(),
                "1 to 16 links",
            ));
        }
        let links = self.link.into_iter().enumerate();
        let links = links
            .map(|(index, link)| link.check(&format!("link {}", index + 1), read))
            .collect::<Result<Vec<_>, _>>()?;
        let mut events = Vec::new();
        for (index, event) in self.event.into_iter().enumerate() {
            events.extend(event.check(index + 1, &links)?);
        }
        events.sort_by_key(|event| event.at);
        let workload = self.workload.map(WorkloadEntry::check).transpose()?;
        let payload = match (self.payload, &workload) {
            (Some(payload), _) if payload >= MIN_PAYLOAD => payload,
            (None, Some(_)) => MIN_PAYLOAD,
            (Some(payload), _) => {
                return Err(InvalidScenario::out_of_range(
                    "payload",
                    payload,
                    "64KiB or more",
                ));
            }
            (None, None) => {
                return Err(InvalidScenario::out_of_range(
                    "payload",
                    "missing",
                    "64KiB or more",
                ));
            }
        };
        let server = self.server.map(|server| server.check_server(read));
        Ok(Scenario {
            name: name.to_owned(),
            summary: self.summary,
            payload,
            directions: match self.direction {
                Ways::Put => vec![Direction::Put],
                Ways::Get => vec![Direction::Get],
                Ways::Both => vec![Direction::Put, Direction::Get],
            },
            seed: self.seed,
            links,
            events,
            server: server.transpose()?,
            workload,
        })
    }
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct EventEntry {
    at: Span,
    link: usize,
    action: ActionEntry,
    /// Duration of the event; only for events that can be undone.
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
            return Err(InvalidScenario::out_of_range(
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
            return Err(InvalidScenario::out_of_range(
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
                return Err(InvalidScenario::out_of_range(
                    &format!("for of event {number}"),
                    format!("{:?}", span.0),
                    "only beside black-hole and carrier-down",
                ));
            }
        }
        Ok(events)
    }
}

const MIN_PAYLOAD: ByteCount = ByteCount::from_kib(64);

#[cfg(test)]
mod tests;
