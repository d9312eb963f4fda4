use std::path::Path;
use std::str::FromStr;
use std::sync::LazyLock;

use hawser_policy::{
    Action, Avoid, Class, Condition, Dscp, LinkChoice, MAX_VALUES, Mode, PortRange, Profile,
    Protocol, Rule, RuleSet, Source, User,
};

use crate::document::{Document, Field, Section, read_bounded};
use crate::link::{LINK_NAME, read_link_name};
use crate::user::{MAX_USER, read_user};
use crate::{ConfigError, read_network};

/// Returns the complete rule set: `user`'s rules, then those of the profile, then the built-in
/// ones.
pub fn rule_set(user: impl IntoIterator<Item = Rule>, profile: Profile) -> RuleSet {
    let profile: &[Rule] = match profile {
        Profile::Calls => &CALLS,
        Profile::Saver => &SAVER,
        Profile::Speed => &[],
    };
    let own = profile.iter().chain(BUILT_IN.iter()).cloned();
    RuleSet::new(user.into_iter().chain(own))
}

/// Reads a file of rules: `[[rule]]` sections and nothing else.
///
/// Fails as [`Config::load`](crate::Config::load) does.
pub fn load_rules(path: &Path) -> Result<Vec<Rule>, ConfigError> {
    let file = path.display().to_string();
    let text = read_bounded(path).map_err(|source| ConfigError::Read {
        file: file.clone(),
        source,
    })?;
    parse_rules(&file, &text)
}

/// Reads the text of a file of rules; `file` is the name that errors give to it.
pub fn parse_rules(file: &str, text: &str) -> Result<Vec<Rule>, ConfigError> {
    let document = Document::parse(file, text)?;
    let root = document.root();
    root.allow_only(&["rule"])?;
    read_all(&root, Source::User)
}

/// Every `[[rule]]` of the file, in its order.
pub(crate) fn read_all(root: &Section<'_>, source: Source) -> Result<Vec<Rule>, ConfigError> {
    let Some(field) = root.field("rule") else {
        return Ok(Vec::new());
    };
    let entries = field.list("sections that begin with [[rule]]")?;
    let read = entries
        .into_iter()
        .map(|entry| read_rule(&entry.section()?, source));
    read.collect()
}

fn read_rule(section: &Section<'_>, source: Source) -> Result<Rule, ConfigError> {
    section.allow_only(&KEYS)?;
    let name = section.field("name");
    let rule = Rule {
        name: name.map(|f| f.parse_with(read_name, NAME)).transpose()?,
        source,
        when: read_condition(section)?,
        then: read_action(section)?,
    };
    if rule.then.is_empty() {
        return Err(section.missing("class", NO_ACTION));
    }
    if let Some(field) = section.field("mode")
        && rule.then.mode == Some(Mode::Packet)
        && !rule.when.domain.is_empty()
    {
        return Err(field.wrong(NAMED_PACKET));
    }
    if let Some(field) = section.field("class")
        && !rule.when.class.is_empty()
    {
        return Err(field.wrong("nothing in a rule that asks for the class with `of-class`"));
    }
    Ok(rule)
}

fn read_condition(section: &Section<'_>) -> Result<Condition, ConfigError> {
    let protocol = section.field("protocol");
    let protocol = protocol.map(|f| f.named(&Protocol::ALL, Protocol::name));
    Ok(Condition {
        program: read_texts(section, "program", PATTERN)?,
        executable: read_texts(section, "executable", PATTERN)?,
        user: read_list(section, "user", read_one_user)?,
        cgroup: read_texts(
            section,
            "cgroup",
            "paths from the root, such as \"/user.slice\"",
        )?,
        domain: read_texts(section, "domain", DOMAIN)?,
        address: read_list(section, "address", |f| f.parse_with(read_network, NETWORK))?,
        port: read_list(section, "port", read_ports)?,
        protocol: protocol.transpose()?,
        dscp: read_list(section, "dscp", read_dscp)?,
        class: read_list(section, "of-class", |f| f.named(&Class::ALL, Class::name))?,
    })
}

fn read_action(section: &Section<'_>) -> Result<Action, ConfigError> {
    let class = section.field("class");
    let class = class.map(|f| f.named(&Class::ALL, Class::name));
    let mode = section
        .field("mode")
        .map(|f| f.named(Mode::ALL, Mode::name));
    let avoid = read_list(section, "avoid", |f| f.named(Avoid::ALL, Avoid::name))?;
    Ok(Action {
        class: class.transpose()?,
        links: read_links(section)?,
        avoid: (!avoid.is_empty()).then_some(avoid),
        mode: mode.transpose()?,
    })
}

/// Reads at most one of the keys for the allowed links.
fn read_links(section: &Section<'_>) -> Result<Option<LinkChoice>, ConfigError> {
    let mut choice = None;
    for key in LINK_KEYS {
        let Some(field) = section.field(key) else {
            continue;
        };
        if choice.is_some() {
            return Err(field.wrong("only one of `links`, `only`, `order` and `never`"));
        }
        if key == "links" {
            choice = Some(field.word(&[("any", LinkChoice::Any)])?);
            continue;
        }
        let names = read_list(section, key, |f| f.parse_with(read_link_name, LINK_NAME))?;
        choice = Some(match key {
            "only" => LinkChoice::Only(names),
            "order" => LinkChoice::Order(names),
            _ => LinkChoice::Except(names),
        });
    }
    Ok(choice)
}

/// Reads one value behind `key` or a list of them. An empty list is refused, since it would match
/// everything, and so is one that takes long to look through for each connection.
fn read_list<T>(
    section: &Section<'_>,
    key: &str,
    read: impl Fn(&Field<'_>) -> Result<T, ConfigError>,
) -> Result<Vec<T>, ConfigError> {
    let Some(field) = section.field(key) else {
        return Ok(Vec::new());
    };
    let entries = field.entries();
    if entries.is_empty() {
        return Err(field.wrong("a value, or a list of at least one"));
    }
    if let Some(beyond) = entries.get(MAX_VALUES) {
        let most = format!("at most {MAX_VALUES} values in a list; another rule can have more");
        return Err(beyond.wrong(&most));
    }
    entries.iter().map(read).collect()
}

fn read_texts<T: FromStr>(
    section: &Section<'_>,
    key: &str,
    allowed: &str,
) -> Result<Vec<T>, ConfigError> {
    read_list(section, key, |field| field.parse(allowed))
}

fn read_one_user(field: &Field<'_>) -> Result<User, ConfigError> {
    match field.text() {
        None => field.integer(0..=MAX_USER).map(User::from),
        Some(name) => read_user(name).map_err(|error| field.wrong(&error.to_string())),
    }
}

fn read_ports(field: &Field<'_>) -> Result<PortRange, ConfigError> {
    match field.integer(1..=u32::from(u16::MAX)).map(u16::try_from) {
        Ok(Ok(port)) => PortRange::new(port, port).ok_or_else(|| field.wrong(PORT)),
        _ => field.parse(PORT),
    }
}

fn read_dscp(field: &Field<'_>) -> Result<Dscp, ConfigError> {
    match field.integer(0..=63).map(u8::try_from) {
        Ok(Ok(value)) => Dscp::new(value).ok_or_else(|| field.wrong(DSCP)),
        _ => field.parse(DSCP),
    }
}

fn read_name(text: &str) -> Option<String> {
    let fits = (1..=MAX_NAME).contains(&text.chars().count());
    (fits && !text.contains(char::is_control)).then(|| text.to_owned())
}

/// Reads rules that are part of the program; a test shows that they can be read.
fn own(file: &str, text: &str, source: Source) -> Vec<Rule> {
    let read = || read_all(&Document::parse(file, text)?.root(), source);
    read().unwrap_or_default()
}

static BUILT_IN: LazyLock<Vec<Rule>> =
    LazyLock::new(|| own("built-in rules", BUILT_IN_TEXT, Source::BuiltIn));
static CALLS: LazyLock<Vec<Rule>> =
    LazyLock::new(|| own("profile calls", CALLS_TEXT, Source::Profile));
static SAVER: LazyLock<Vec<Rule>> =
    LazyLock::new(|| own("profile saver", SAVER_TEXT, Source::Profile));

const BUILT_IN_TEXT: &str = include_str!("rule/built-in.toml");
const CALLS_TEXT: &str = include_str!("rule/calls.toml");
const SAVER_TEXT: &str = include_str!("rule/saver.toml");

/// Packets are told apart as they begin, by what stands in them.
const NAMED_PACKET: &str = "auto, direct or bonded in a rule with `domain`, since the name is not \
                            known when packets begin; ask for `address`";
/// The keys of a rule: its name, its condition, its action.
const KEYS: [&str; 18] = [
    "name",
    "program",
    "executable",
    "user",
    "cgroup",
    "domain",
    "address",
    "port",
    "protocol",
    "dscp",
    "of-class",
    "class",
    "links",
    "only",
    "order",
    "never",
    "avoid",
    "mode",
];
const LINK_KEYS: [&str; 4] = ["links", "only", "order", "never"];

const NAME: &str = "1 to 80 characters";
const MAX_NAME: usize = 80;
const PATTERN: &str = "1 to 255 characters, with * for any number of them, such as \"teams*\"";
const DOMAIN: &str = "names such as \"example.org\", or \"*.example.org\" for all below it";
const NETWORK: &str = "networks such as \"192.168.7.0/24\" or \"fd00::/8\"";
const PORT: &str = "ports from 1 to 65535 and ranges such as \"5000-5100\"";
const DSCP: &str =
    "code points from 0 to 63, or \"ef\", \"le\", \"cs0\" to \"cs7\", \"af11\" to \"af43\"";
const NO_ACTION: &str = "a rule says at least one of class, links, only, order, never, avoid, mode";

#[cfg(test)]
mod tests;
