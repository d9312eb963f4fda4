//! Dialogs: lines to fill in and lists to choose from, and the resulting requests.

use std::net::{IpAddr, SocketAddr};

use hawser_control::{LinkChange, Request, Scheduled};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde::Serialize;

/// The dialog that takes keys instead of the view.
#[derive(Debug)]
pub(super) enum Input {
    Line(Line),
    List(List),
    Help,
}

/// One line of text to fill in.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) title: String,
    pub(super) text: String,
    pub(super) then: Then,
}

/// A list of choices.
#[derive(Debug)]
pub(super) struct List {
    pub(super) title: String,
    pub(super) choices: Vec<String>,
    pub(super) place: usize,
    pub(super) then: Then,
}

/// Effect of a key on a dialog.
#[derive(Debug, PartialEq)]
pub(super) enum Entered {
    Nothing,
    GivenUp,
    /// The line's text, or the choice.
    Text(String),
}

/// Use of the entered text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Then {
    Filter,
    Link { link: String, what: Quantity },
    Scheduler(Scheduled),
    TransportChoice,
    Gateway,
    Profile,
    Only(Whose),
    RemoveRule(DoomedRule),
}

/// The rule that was shown when the user asked for its removal.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DoomedRule {
    pub(super) number: u64,
    /// Text of the rule.
    pub(super) rule: String,
    pub(super) is_written: bool,
}

/// Quantity of a link that the user can change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Quantity {
    Weight,
    Price,
    Allowance,
}

/// Connections that a rule applies to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Whose {
    Program(String),
    Domain(String),
    Address(IpAddr),
}

impl Line {
    pub(super) fn handle_key(&mut self, key: KeyEvent) -> Entered {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Esc => return Entered::GivenUp,
            KeyCode::Enter => return Entered::Text(self.text.trim().to_owned()),
            KeyCode::Backspace => drop(self.text.pop()),
            KeyCode::Char('u') if control => self.text.clear(),
            KeyCode::Char(it) if !control && !it.is_control() && self.text.len() < MAX_TEXT => {
                self.text.push(it);
            }
            _ => {}
        }
        Entered::Nothing
    }
}

impl List {
    pub(super) fn handle_key(&mut self, key: KeyEvent) -> Entered {
        let last = self.choices.len().saturating_sub(1);
        match key.code {
            KeyCode::Esc | KeyCode::Char('q') => return Entered::GivenUp,
            KeyCode::Enter => {
                let choice = self.choices.get(self.place).cloned();
                return choice.map_or(Entered::GivenUp, Entered::Text);
            }
            KeyCode::Up | KeyCode::Char('k') => self.place = self.place.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.place = (self.place + 1).min(last),
            _ => {}
        }
        Entered::Nothing
    }
}

impl Then {
    /// Returns the change and its description, or the error in `text`. `None` if nothing is to be
    /// requested.
    pub(super) fn change(
        &self,
        text: &str,
        save: bool,
    ) -> Result<Option<(Request, String)>, String> {
        let owned = text.to_owned();
        let (request, words) = match self {
            Self::Filter => return Ok(None),
            _ if text.is_empty() => return Ok(None),
            Self::Link { link, what } => (
                what.request(link, text, save)?,
                format!("{link}: {} {text}", what.word()),
            ),
            Self::Scheduler(of) => {
                let (of, scheduler) = (*of, owned);
                let whose = match of {
                    Scheduled::Connections => "connections",
                    Scheduled::Packets => "packets",
                    _ => "sessions",
                };
                let words = format!("{text} chooses links for {whose}");
                let request = Request::SetScheduler {
                    of,
                    scheduler,
                    save,
                };
                (request, words)
            }
            Self::TransportChoice => {
                let transport = owned;
                let request = Request::SetTransport { transport, save };
                (request, format!("sessions travel over: {text}"))
            }
            Self::Gateway => {
                let usage = owned;
                let request = Request::SetGateway { usage, save };
                (request, format!("gateway: {text}"))
            }
            Self::Profile => {
                let profile = owned;
                let request = Request::SetProfile { profile, save };
                (request, format!("profile: {text}"))
            }
            Self::Only(whose) => {
                let rule = whose.only(text)?;
                let request = Request::AddRule { rule, save };
                (request, format!("{whose} only over {text}"))
            }
            Self::RemoveRule(_) if text != REMOVE => return Ok(None),
            Self::RemoveRule(doomed) => {
                let request = Request::RemoveRule {
                    number: doomed.number,
                    rule: doomed.rule.clone(),
                    save: doomed.is_written,
                };
                (request, format!("rule {} removed", doomed.number))
            }
        };
        Ok(Some((request, words)))
    }
}

impl Quantity {
    fn word(self) -> &'static str {
        match self {
            Self::Weight => "weight",
            Self::Price => "price",
            Self::Allowance => "allowance",
        }
    }

    /// Returns the request that sets this quantity of a link to `text`, or the error in it.
    fn request(self, link: &str, text: &str, save: bool) -> Result<Request, String> {
        let mut change = LinkChange {
            name: link.to_owned(),
            save,
            ..LinkChange::default()
        };
        match self {
            Self::Weight => change.weight = Some(text.parse().map_err(|_| WEIGHT.to_owned())?),
            Self::Price => change.price = Some(text.to_owned()),
            Self::Allowance => change.allowance = Some(text.to_owned()),
        }
        Ok(Request::SetLink(change))
    }
}

impl Whose {
    /// Selects by the program if it is known, else by the destination.
    pub(super) fn of(program: Option<&str>, destination: &str) -> Result<Self, String> {
        match program {
            // A star would match other programs, too.
            Some(name)
                if !name.is_empty() && !name.contains(|it: char| it == '*' || it.is_control()) =>
            {
                Ok(Self::Program(name.to_owned()))
            }
            Some(_) => Err("no rule can name this program".to_owned()),
            None => Self::at(destination),
        }
    }

    fn at(destination: &str) -> Result<Self, String> {
        // Streams for datagrams have this suffix.
        let destination = destination.strip_suffix(" (udp)").unwrap_or(destination);
        if let Ok(address) = destination.parse::<SocketAddr>() {
            return Ok(Self::Address(address.ip()));
        }
        let host = destination
            .rsplit_once(':')
            .map_or(destination, |(host, _)| host);
        let is_named = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
        if !host.is_empty() && host.chars().all(is_named) {
            Ok(Self::Domain(host.to_owned()))
        } else {
            Err("neither its program nor where it leads is known".to_owned())
        }
    }

    /// Returns the rule that allows only one link.
    fn only(&self, link: &str) -> Result<String, String> {
        let mut rule = OnlyRule {
            only: link,
            ..OnlyRule::default()
        };
        match self {
            Self::Program(name) => rule.program = Some(name),
            Self::Domain(name) => rule.domain = Some(name),
            Self::Address(address) => rule.address = Some(*address),
        }
        toml::to_string(&rule).map_err(|error| error.to_string())
    }
}

impl std::fmt::Display for Whose {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Program(name) | Self::Domain(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
        }
    }
}

/// A `[[rule]]` of the configuration.
#[derive(Default, Serialize)]
struct OnlyRule<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    domain: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<IpAddr>,
    only: &'a str,
}

/// The choice that removes a rule.
pub(super) const REMOVE: &str = "remove it";
const WEIGHT: &str = "a weight is a number from 1 to 1000";
const MAX_TEXT: usize = 200;
