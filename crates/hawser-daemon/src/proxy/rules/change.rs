//! Changes of a link's rules while a daemon runs.

use hawser_config::{Config, ConfigError};
use hawser_control::{LinkChange, SignalSource};
use hawser_sched::rules::{Allowance, AtLimit};
use hawser_types::{ByteCount, LinkUse, Radio, SignalStrength};
use toml_edit::{Table, Value, value};

use super::{LinkRuleStore, Reading};
use crate::refusal::Refused;

/// A valid [`LinkChange`].
#[derive(Clone, Debug)]
pub struct CheckedChange {
    pub(crate) name: String,
    pub(crate) up: Option<LinkUse>,
    pub(crate) down: Option<LinkUse>,
    weight: Option<f64>,
    /// Price of a gigabyte, and its currency.
    price: Option<(f64, String)>,
    /// New allowance; an inner `None` removes the limit.
    allowance: Option<Option<ByteCount>>,
    /// New signal strength; an inner `None` follows the radio again.
    pub(crate) signal: Option<Option<SignalStrength>>,
    /// The keys of a `[[link]]` for the change, except `use`, `up` and `down`; keys without a value
    /// are removed.
    pub(crate) keys: Vec<(&'static str, Option<Value>)>,
}

impl CheckedChange {
    /// Checks a change by the rules of the configuration.
    pub fn read(change: &LinkChange) -> Result<Self, Refused> {
        let keys = keys(change);
        let mut link = Table::new();
        link.insert("name", value(&change.name));
        for (key, one) in &keys {
            one.iter().for_each(|one| {
                link.insert(key, value(one.clone()));
            });
        }
        let text = format!("[[link]]\n{link}");
        let config = Config::parse("the change", &text).map_err(refused)?;
        let Some(read) = config.links.first() else {
            return Err(Refused::Nothing);
        };
        let allowance = read.rule.allowance.map(|allowance| allowance.bytes);
        Ok(Self {
            name: read.name.clone(),
            up: change.up,
            down: change.down,
            weight: change.weight.map(|_| read.rule.weight),
            price: change
                .price
                .as_ref()
                .map(|_| (read.rule.price, read.currency.clone())),
            allowance: change.allowance.as_ref().map(|_| allowance),
            signal: signal(change)?,
            keys,
        })
    }

    /// Returns whether the change is empty.
    pub(crate) fn is_empty(&self) -> bool {
        !self.is_rule() && self.signal.is_none()
    }

    fn is_rule(&self) -> bool {
        self.up.is_some() || self.down.is_some() || !self.keys.is_empty()
    }
}

impl LinkRuleStore {
    /// Returns whether the configuration, or a later change, has a rule for a link with this name.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.inner.lock().rules.contains_key(name)
    }

    /// Refuses a price that can't be compared with those of other links.
    pub(crate) fn check(&self, change: &CheckedChange) -> Result<(), Refused> {
        let Some((price, currency)) = change.price.as_ref().filter(|(price, _)| *price > 0.0)
        else {
            return Ok(());
        };
        let inner = self.inner.lock();
        let priced = inner.rules.iter().filter(|(_, rule)| rule.price > 0.0);
        let mut others = priced.filter(|(name, _)| **name != change.name);
        let other = others.find_map(|(name, _)| {
            let theirs = inner.currencies.get(name).map_or("", String::as_str);
            (theirs != currency).then_some(theirs)
        });
        match other {
            None => Ok(()),
            Some(theirs) => Err(Refused::Value {
                key: "price".to_owned(),
                got: format!("{price}{currency}/GB"),
                allowed: format!("a price in {theirs}, like the others"),
            }),
        }
    }

    /// Applies a change of a link's rules.
    pub(crate) fn apply(&self, change: &CheckedChange) {
        if let Some(strength) = change.signal {
            let reading = Reading {
                source: SignalSource::User,
                radio: Radio::default(),
                strength,
            };
            self.handle_signal(&change.name, reading);
        }
        if !change.is_rule() {
            return;
        }
        let mut inner = self.inner.lock();
        let rule = inner.rules.entry(change.name.clone()).or_default();
        rule.up = change.up.unwrap_or(rule.up);
        rule.down = change.down.unwrap_or(rule.down);
        rule.weight = change.weight.unwrap_or(rule.weight);
        if let Some(bytes) = change.allowance {
            let before = rule.allowance;
            rule.allowance = bytes.map(|bytes| Allowance {
                bytes,
                reset_day: before.map_or(1, |before| before.reset_day),
                at_limit: before.map_or(AtLimit::default(), |before| before.at_limit),
            });
        }
        if let Some((price, currency)) = &change.price {
            rule.price = *price;
            inner
                .currencies
                .insert(change.name.clone(), currency.clone());
        }
    }
}

fn signal(change: &LinkChange) -> Result<Option<Option<SignalStrength>>, Refused> {
    let value = |key: &str, got: &str, allowed: &str| Refused::Value {
        key: key.to_owned(),
        got: got.to_owned(),
        allowed: allowed.to_owned(),
    };
    match change.signal.as_deref() {
        None => Ok(None),
        Some(_) if change.save => Err(value("save", "true", "false, since signals are not saved")),
        Some(NO_SIGNAL) => Ok(Some(None)),
        Some(text) => match text.parse() {
            Ok(strength) => Ok(Some(Some(strength))),
            Err(_) => Err(value("signal", text, "-160dBm to 0dBm, or off")),
        },
    }
}

/// Returns the link's keys for the configuration, except those of its use.
fn keys(change: &LinkChange) -> Vec<(&'static str, Option<Value>)> {
    let mut keys = Vec::new();
    if let Some(weight) = change.weight {
        let weight = i64::try_from(weight).unwrap_or(i64::MAX);
        keys.push(("weight", Some(weight.into())));
    }
    if let Some(price) = &change.price {
        let price = match price.trim() {
            "0" => FREE,
            price => price,
        };
        keys.push(("price", Some(price.into())));
    }
    match change.allowance.as_deref().map(str::trim) {
        None => {}
        // The other keys have no meaning without an allowance.
        Some(UNLIMITED) => keys.extend(ALLOWANCE.map(|key| (key, None))),
        Some(allowance) => keys.push(("allowance", Some(allowance.into()))),
    }
    keys
}

/// Converts an error of the configuration, without line numbers, as there is no file.
fn refused(error: ConfigError) -> Refused {
    match error {
        ConfigError::Value {
            key, got, allowed, ..
        } => {
            let key = key.strip_prefix("link.").unwrap_or(&key).to_owned();
            let more = match key.as_str() {
                "price" => ", or 0",
                "allowance" => ", or none",
                _ => "",
            };
            let allowed = format!("{allowed}{more}");
            Refused::Value { key, got, allowed }
        }
        error => Refused::Config(error),
    }
}

/// The word that withdraws a signal.
const NO_SIGNAL: &str = "off";
/// The word for no allowance.
const UNLIMITED: &str = "none";
const ALLOWANCE: [&str; 3] = ["allowance", "reset-day", "at-limit"];
/// A price of zero, in any currency.
const FREE: &str = "0/GB";
