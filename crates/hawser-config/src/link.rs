use std::time::Duration;

use hawser_sched::rules::{Allowance, AtLimit, Rule};
use hawser_types::{ByteCount, LinkUse, SignalStrength, parse_duration};

use crate::ConfigError;
use crate::document::{Field, key, optional};

/// `[[link]]`: properties of one link, and its rules.
#[derive(Clone, Debug, Default, PartialEq)]
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

impl LinkConfig {
    fn read(section: &Field<'_>) -> Result<Self, ConfigError> {
        let mut link = Self::default();
        let (mut both, mut up, mut down, mut price) = (None, None, None, None);
        let (mut bytes, mut reset_day, mut at_limit) = (None, None, None);
        let read_use = |field: &Field<'_>| field.named(LinkUse::ALL, LinkUse::name);
        section.read_keys(vec![
            key("name", &mut link.name, |f| {
                f.parse_with(read_link_name, LINK_NAME)
            }),
            optional("use", &mut both, read_use),
            optional("up", &mut up, read_use),
            optional("down", &mut down, read_use),
            key("weight", &mut link.rule.weight, |f| {
                f.integer(1..=MAX_WEIGHT).map(f64::from)
            }),
            optional("price", &mut price, |f| f.parse_with(read_price, PRICE)),
            key("price-weight", &mut link.rule.price_weight, Field::fraction),
            optional("allowance", &mut bytes, |f| {
                f.parse_if(|bytes| *bytes > ByteCount::ZERO, ALLOWANCE)
            }),
            optional("reset-day", &mut reset_day, |f| {
                f.integer(1..=31).map(|day| day as u8)
            }),
            optional("at-limit", &mut at_limit, |f| f.word(&AT_LIMIT)),
            optional("leave-below", &mut link.leave_below, |f| f.parse(STRENGTH)),
            optional("measure-signal", &mut link.measure_signal, |f| {
                let is_sound = |interval: &Duration| {
                    // As ModemManager takes it.
                    (1..=60).contains(&interval.as_secs()) && interval.subsec_nanos() == 0
                };
                f.parse_with(|text| parse_duration(text).ok().filter(is_sound), INTERVAL)
            }),
            key("standby", &mut link.standby, Field::boolean),
        ])?;
        if link.name.is_empty() {
            return Err(section.refuse("name", LINK_NAME));
        }
        link.rule.up = up.or(both).unwrap_or_default();
        link.rule.down = down.or(both).unwrap_or_default();
        (link.rule.price, link.currency) = price.unwrap_or_default();
        if bytes.is_none() && (reset_day.is_some() || at_limit.is_some()) {
            return Err(section.refuse("allowance", ALLOWANCE));
        }
        link.rule.allowance = bytes.map(|bytes| Allowance {
            bytes,
            reset_day: reset_day.unwrap_or(1),
            at_limit: at_limit.unwrap_or_default(),
        });
        Ok(link)
    }
}

/// Reads every `[[link]]` of the file. A second one for the same interface is refused, and so is a
/// second currency.
pub(crate) fn read_all(field: &Field<'_>) -> Result<Vec<LinkConfig>, ConfigError> {
    let mut links: Vec<LinkConfig> = Vec::new();
    field.list("sections that begin with [[link]]", |section| {
        let link = LinkConfig::read(section)?;
        if links.iter().any(|other| other.name == link.name) {
            return Err(section.refuse("name", "one [[link]] for each interface"));
        }
        let priced = links.iter().find(|other| other.rule.price > 0.0);
        if let Some(LinkConfig { currency, .. }) = priced
            && link.rule.price > 0.0
            && link.currency != *currency
        {
            let allowed = format!("a price in {currency}, like the others");
            return Err(section.refuse("price", &allowed));
        }
        links.push(link);
        Ok(())
    })?;
    Ok(links)
}

/// Reads a list of names of interfaces.
pub(crate) fn read_link_names(field: &Field<'_>) -> Result<Vec<String>, ConfigError> {
    let allowed = "a list of interfaces such as [\"eth0\", \"wwan0\"]";
    field.list(allowed, |name| name.parse_with(read_link_name, LINK_NAME))
}

/// Returns `text` if the kernel accepts it as the name of an interface.
pub fn read_link_name(text: &str) -> Option<String> {
    let fits = (1..=MAX_LINK_NAME).contains(&text.len()) && text != "." && text != "..";
    let is_clean = text
        .chars()
        .all(|c| !c.is_whitespace() && !c.is_control() && c != '/' && c != ':');
    (fits && is_clean).then(|| text.to_owned())
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
