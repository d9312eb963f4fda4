use std::path::Path;
use std::sync::LazyLock;

use hawser_policy::{
    Avoid, Class, Dscp, LinkChoice, MAX_VALUES, Mode, PortRange, Profile, Protocol, Rule, RuleSet,
    Source, User,
};

use crate::document::{self, Field, Key, key, optional};
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
    document::load(path, parse_rules)
}

/// Reads the text of a file of rules; `file` is the name that errors give to it.
pub fn parse_rules(file: &str, text: &str) -> Result<Vec<Rule>, ConfigError> {
    parse(file, text, Source::User)
}

fn parse(file: &str, text: &str, source: Source) -> Result<Vec<Rule>, ConfigError> {
    let mut rules = Vec::new();
    document::parse(file, text, |root| {
        root.read_keys(vec![key("rule", &mut rules, |f| read_all(f, source))])
    })?;
    Ok(rules)
}

/// Every `[[rule]]` of the file, in its order.
pub(crate) fn read_all(field: &Field<'_>, source: Source) -> Result<Vec<Rule>, ConfigError> {
    let allowed = "sections that begin with [[rule]]";
    field.list(allowed, |section| read_rule(section, source))
}

fn read_rule(section: &Field<'_>, source: Source) -> Result<Rule, ConfigError> {
    let mut rule = Rule {
        source,
        ..Rule::default()
    };
    let (when, then) = (&mut rule.when, &mut rule.then);
    let [mut any, mut only, mut order, mut never] = [const { None }; 4];
    let names = |f: &Field<'_>| read_list(f, |f| f.parse_with(read_link_name, LINK_NAME));
    let class = |f: &Field<'_>| f.named(&Class::ALL, Class::name);
    section.read_keys(vec![
        optional("name", &mut rule.name, |f| {
            let is_sound = |name: &String| {
                (1..=MAX_NAME).contains(&name.chars().count()) && !name.contains(char::is_control)
            };
            f.parse_if(is_sound, NAME)
        }),
        values("program", &mut when.program, |f| f.parse(PATTERN)),
        values("executable", &mut when.executable, |f| f.parse(PATTERN)),
        values("user", &mut when.user, read_one_user),
        values("cgroup", &mut when.cgroup, |f| f.parse(GROUP)),
        values("domain", &mut when.domain, |f| f.parse(DOMAIN)),
        values("address", &mut when.address, |f| {
            f.parse_with(read_network, NETWORK)
        }),
        values("port", &mut when.port, read_ports),
        optional("protocol", &mut when.protocol, |f| {
            f.named(&Protocol::ALL, Protocol::name)
        }),
        values("dscp", &mut when.dscp, read_dscp),
        values("of-class", &mut when.class, class),
        optional("class", &mut then.class, class),
        optional("links", &mut any, |f| {
            f.word(&[("any", ())]).map(|()| LinkChoice::Any)
        }),
        optional("only", &mut only, move |f| names(f).map(LinkChoice::Only)),
        optional("order", &mut order, move |f| {
            names(f).map(LinkChoice::Order)
        }),
        optional("never", &mut never, move |f| {
            names(f).map(LinkChoice::Except)
        }),
        optional("avoid", &mut then.avoid, |f| {
            read_list(f, |f| f.named(Avoid::ALL, Avoid::name))
        }),
        optional("mode", &mut then.mode, |f| f.named(Mode::ALL, Mode::name)),
    ])?;
    let choices = [
        ("links", any),
        ("only", only),
        ("order", order),
        ("never", never),
    ];
    let mut choices = choices
        .into_iter()
        .filter_map(|(key, links)| Some((key, links?)));
    rule.then.links = choices.next().map(|(_, links)| links);
    if let Some((second, _)) = choices.next() {
        return Err(section.refuse(second, "only one of `links`, `only`, `order` and `never`"));
    }
    check(&rule, section)?;
    Ok(rule)
}

/// Refuses a rule whose keys do not fit each other.
fn check(rule: &Rule, section: &Field<'_>) -> Result<(), ConfigError> {
    if rule.then.is_empty() {
        return Err(section.refuse("class", NO_ACTION));
    }
    if rule.then.mode == Some(Mode::Packet) && !rule.when.domain.is_empty() {
        return Err(section.refuse("mode", NAMED_PACKET));
    }
    if rule.then.class.is_some() && !rule.when.class.is_empty() {
        let allowed = "nothing in a rule that asks for the class with `of-class`";
        return Err(section.refuse("class", allowed));
    }
    Ok(())
}

/// A key with one value or a list of them.
fn values<'a, T>(
    name: &'static str,
    place: &'a mut Vec<T>,
    read: impl Fn(&Field<'_>) -> Result<T, ConfigError> + 'a,
) -> Key<'a> {
    key(name, place, |field| read_list(field, read))
}

/// Reads one value or a list of them. An empty list is refused, since it would match everything,
/// and so is one that takes long to look through for each connection.
fn read_list<T>(
    field: &Field<'_>,
    read: impl Fn(&Field<'_>) -> Result<T, ConfigError>,
) -> Result<Vec<T>, ConfigError> {
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

/// Reads rules that are part of the program; a test shows that they can be read.
fn own(file: &str, text: &str, source: Source) -> Vec<Rule> {
    parse(file, text, source).unwrap_or_default()
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
const NAME: &str = "1 to 80 characters";
const MAX_NAME: usize = 80;
const PATTERN: &str = "1 to 255 characters, with * for any number of them, such as \"teams*\"";
const GROUP: &str = "paths from the root, such as \"/user.slice\"";
const DOMAIN: &str = "names such as \"example.org\", or \"*.example.org\" for all below it";
const NETWORK: &str = "networks such as \"192.168.7.0/24\" or \"fd00::/8\"";
const PORT: &str = "ports from 1 to 65535 and ranges such as \"5000-5100\"";
const DSCP: &str =
    "code points from 0 to 63, or \"ef\", \"le\", \"cs0\" to \"cs7\", \"af11\" to \"af43\"";
const NO_ACTION: &str = "a rule says at least one of class, links, only, order, never, avoid, mode";

#[cfg(test)]
mod tests;
