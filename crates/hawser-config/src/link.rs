use std::time::Duration;

use hawser_sched::rules::{Allowance, AtLimit, Rule};
use hawser_types::{ByteCount, LinkUse, SignalStrength, parse_duration};

use crate::ConfigError;
use crate::document::{Field, Section};

/// `[[link]]`: properties of one link, and its rules.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkConfig {
    /// `name`: the interface, such as `wwan0`. Mandatory.
    pub name: String,
    /// The other keys.
    ///
    /// `use`, and `up` and `down` for one direction: when it is used. Default `"normal"`.
    ///
    /// `weight`: multiplies its rate where the scheduler is `weighted-round-robin` or
    /// `load-index`. From 1 to 1000, default 1.
    ///
    /// `price`: of a gigabyte, default 0. `price-weight`: its weight against throughput where the
    /// scheduler is `load-index`, from 0 to 1, default 0.
    ///
    /// `allowance`: maximum traffic in a month, both directions together. None by default.
    /// `reset-day`: first day of the month, from 1 to 31, default 1. `at-limit`: effect when it is
    /// used up, default `"stop"`.
    pub rule: Rule,
    /// Currency of `price`; empty without one.
    pub currency: String,
    /// `leave-below`: signal strength below which traffic leaves the link for others. By default it
    /// depends on the kind of radio.
    pub leave_below: Option<SignalStrength>,
    /// `measure-signal`: how often ModemManager is asked to measure the signal of the modem, from
    /// 1s to 60s. None by default: measuring keeps the modem awake.
    pub measure_signal: Option<Duration>,
    /// `standby`: lets NetworkManager connect the link when no other is well, and disconnect it
    /// later. Default: no; links are connected and disconnected by others only.
    pub standby: bool,
}

impl TryFrom<Section<'_>> for LinkConfig {
    type Error = ConfigError;

    fn try_from(section: Section<'_>) -> Result<Self, ConfigError> {
        section.allow_only(&KEYS)?;
        let name = section.required("name", LINK_NAME)?;
        let mut rule = Rule::default();
        if let Some(field) = section.field("use") {
            (rule.up, rule.down) = field
                .named(LinkUse::ALL, LinkUse::name)
                .map(|both| (both, both))?;
        }
        if let Some(field) = section.field("up") {
            rule.up = field.named(LinkUse::ALL, LinkUse::name)?;
        }
        if let Some(field) = section.field("down") {
            rule.down = field.named(LinkUse::ALL, LinkUse::name)?;
        }
        if let Some(field) = section.field("weight") {
            rule.weight = f64::from(field.integer(1..=MAX_WEIGHT)?);
        }
        let mut currency = String::new();
        if let Some(field) = section.field("price") {
            (rule.price, currency) = field.parse_with(read_price, PRICE)?;
        }
        if let Some(field) = section.field("price-weight") {
            rule.price_weight = field.fraction()?;
        }
        rule.allowance = read_allowance(&section)?;
        let leave_below = section.field("leave-below");
        let leave_below =
            leave_below.map(|field| field.parse_with(|text| text.parse().ok(), STRENGTH));
        let measure_signal = section.field("measure-signal");
        let measure_signal = measure_signal.map(|field| field.parse_with(read_interval, INTERVAL));
        Ok(Self {
            name: name.parse_with(read_link_name, LINK_NAME)?,
            rule,
            currency,
            leave_below: leave_below.transpose()?,
            measure_signal: measure_signal.transpose()?,
            standby: section
                .field("standby")
                .map_or(Ok(false), |it| it.boolean())?,
        })
    }
}

/// Reads every `[[link]]` of the file. A second one for the same interface is refused, and so is a
/// second currency.
pub(crate) fn read_all(root: &Section<'_>) -> Result<Vec<LinkConfig>, ConfigError> {
    let Some(field) = root.field("link") else {
        return Ok(Vec::new());
    };
    let mut links: Vec<LinkConfig> = Vec::new();
    for entry in field.list("sections that begin with [[link]]")? {
        let section = entry.section()?;
        let name = section.required("name", LINK_NAME)?;
        let price = section.field("price");
        let link = LinkConfig::try_from(section)?;
        if links.iter().any(|other| other.name == link.name) {
            return Err(name.wrong("one [[link]] for each interface"));
        }
        let priced = links.iter().find(|other| other.rule.price > 0.0);
        if let (Some(price), Some(other)) = (price, priced)
            && link.rule.price > 0.0
            && link.currency != other.currency
        {
            return Err(price.wrong(&format!("a price in {}, like the others", other.currency)));
        }
        links.push(link);
    }
    Ok(links)
}

/// Reads a list of names of interfaces; without the key it is empty.
pub(crate) fn read_link_names(
    section: &Section<'_>,
    key: &str,
) -> Result<Vec<String>, ConfigError> {
    let Some(field) = section.field(key) else {
        return Ok(Vec::new());
    };
    let names = field.list("a list of interfaces such as [\"eth0\", \"wwan0\"]")?;
    let read = names
        .iter()
        .map(|field| field.parse_with(read_link_name, LINK_NAME));
    read.collect()
}

/// Returns `text` if the kernel accepts it as the name of an interface.
pub fn read_link_name(text: &str) -> Option<String> {
    let fits = (1..=MAX_LINK_NAME).contains(&text.len()) && text != "." && text != "..";
    let is_clean = text
        .chars()
        .all(|c| !c.is_whitespace() && !c.is_control() && c != '/' && c != ':');
    (fits && is_clean).then(|| text.to_owned())
}

fn read_allowance(section: &Section<'_>) -> Result<Option<Allowance>, ConfigError> {
    let (day, limit) = (section.field("reset-day"), section.field("at-limit"));
    let Some(field) = section.field("allowance") else {
        // These keys need an allowance.
        return match day.or(limit) {
            Some(_) => Err(section.missing("allowance", ALLOWANCE)),
            None => Ok(None),
        };
    };
    let read = |text: &str| text.parse().ok().filter(|bytes| *bytes > ByteCount::ZERO);
    Ok(Some(Allowance {
        bytes: field.parse_with(read, ALLOWANCE)?,
        reset_day: read_day(day)?,
        at_limit: limit.map_or(Ok(AtLimit::default()), |field| field.word(&AT_LIMIT))?,
    }))
}

fn read_day(field: Option<Field<'_>>) -> Result<u8, ConfigError> {
    let day = field.map_or(Ok(1), |field| field.integer(1..=31))?;
    // The range is checked.
    Ok(day as u8)
}

/// Reads an interval of whole seconds, as ModemManager takes it.
fn read_interval(text: &str) -> Option<Duration> {
    let interval = parse_duration(text).ok()?;
    let is_sound = (1..=60).contains(&interval.as_secs()) && interval.subsec_nanos() == 0;
    is_sound.then_some(interval)
}

/// Reads `2.5EUR/GB`: the price of a gigabyte and its currency.
fn read_price(text: &str) -> Option<(f64, String)> {
    let (amount, unit) = text.trim().split_once('/')?;
    let end = amount.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, currency) = amount.split_at(end.unwrap_or(amount.len()));
    let number: f64 = number.parse().ok()?;
    let currency = currency.trim();
    let is_word = currency.chars().count() <= MAX_CURRENCY
        && currency
            .chars()
            .all(|c| !c.is_whitespace() && !c.is_control());
    let is_sound = unit.trim() == "GB" && (0.0..=MAX_PRICE).contains(&number) && is_word;
    is_sound.then(|| (number, currency.to_owned()))
}

const KEYS: [&str; 13] = [
    "name",
    "use",
    "up",
    "down",
    "weight",
    "price",
    "price-weight",
    "allowance",
    "reset-day",
    "at-limit",
    "leave-below",
    "measure-signal",
    "standby",
];

const AT_LIMIT: [(&str, AtLimit); 3] = [
    ("stop", AtLimit::Stop),
    ("backup", AtLimit::Backup),
    ("continue", AtLimit::Continue),
];

/// Values of [`read_link_name`], for errors.
pub(crate) const LINK_NAME: &str = "the name of an interface such as \"wwan0\"";
const PRICE: &str = "a price from 0 to 1000000 such as \"2.5EUR/GB\"";
const ALLOWANCE: &str = "a size such as \"10GB\"";
const STRENGTH: &str = "a signal strength from \"-160dBm\" to \"0dBm\"";
const INTERVAL: &str = "whole seconds from \"1s\" to \"60s\"";

const MAX_WEIGHT: u32 = 1000;
const MAX_PRICE: f64 = 1e6;
const MAX_CURRENCY: usize = 8;
/// `IFNAMSIZ` less the closing zero.
const MAX_LINK_NAME: usize = 15;
