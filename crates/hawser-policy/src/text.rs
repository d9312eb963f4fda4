//! Display of rules, as text and key by key.

use std::fmt;

use crate::{Action, Avoid, Condition, Field, LinkChoice};

impl Condition {
    /// Returns the fields that are set, each with its values as in rules.
    pub fn entries(&self) -> Vec<(Field, Vec<String>)> {
        let all = [
            (Field::Program, texts(&self.program)),
            (Field::Executable, texts(&self.executable)),
            (Field::User, texts(&self.user)),
            (Field::Cgroup, texts(&self.cgroup)),
            (Field::Domain, texts(&self.domain)),
            (Field::Address, texts(&self.address)),
            (Field::Port, texts(&self.port)),
            (Field::Protocol, texts(self.protocol.as_slice())),
            (Field::Dscp, texts(&self.dscp)),
            (Field::Class, texts(&self.class)),
        ];
        let said = |(_, values): &(Field, Vec<String>)| !values.is_empty();
        all.into_iter().filter(said).collect()
    }
}

impl Action {
    /// Returns the keys that it sets, each with its values as in rules.
    pub fn entries(&self) -> Vec<(&'static str, Vec<String>)> {
        let (key, links) = match &self.links {
            None => ("links", Vec::new()),
            Some(LinkChoice::Any) => ("links", vec!["any".to_owned()]),
            Some(LinkChoice::Only(names)) => ("only", names.clone()),
            Some(LinkChoice::Order(names)) => ("order", names.clone()),
            Some(LinkChoice::Except(names)) => ("never", names.clone()),
        };
        let avoid: &[Avoid] = self.avoid.as_deref().unwrap_or_default();
        let all = [
            ("class", texts(self.class.as_slice())),
            (key, links),
            ("avoid", texts(avoid)),
            ("mode", texts(self.mode.as_slice())),
        ];
        let said = |(_, values): &(&str, Vec<String>)| !values.is_empty();
        all.into_iter().filter(said).collect()
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_any() {
            return f.write_str("any connection");
        }
        let entries = self.entries();
        let entry = |(field, values): &(Field, Vec<String>)| (field.key(), values.join(" or "));
        write(f, entries.iter().map(entry))
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.entries();
        let entry = |(key, values): &(&'static str, Vec<String>)| (*key, values.join(" "));
        write(f, entries.iter().map(entry))
    }
}

fn write(
    f: &mut fmt::Formatter<'_>,
    entries: impl Iterator<Item = (&'static str, String)>,
) -> fmt::Result {
    let parts: Vec<String> = entries
        .map(|(key, values)| format!("{key} {values}"))
        .collect();
    f.write_str(&parts.join(", "))
}

fn texts<T: fmt::Display>(values: &[T]) -> Vec<String> {
    values.iter().map(T::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Class, Mode, Protocol, User};

    #[test]
    fn a_rule_is_shown_in_the_words_it_is_written_in() {
        let when = Condition {
            program: vec!["restic".parse().unwrap(), "borg*".parse().unwrap()],
            user: vec![1000.into(), User::named("amy".to_owned(), 1001)],
            port: vec!["8000-8100".parse().unwrap()],
            protocol: Some(Protocol::Udp),
            ..Condition::default()
        };
        let expected = "program restic or borg*, user 1000 or amy, port 8000-8100, protocol udp";
        assert_eq!(when.to_string(), expected);
        assert_eq!(Condition::default().to_string(), "any connection");
        let then = Action {
            class: Some(Class::Bulk),
            links: Some(LinkChoice::Order(vec!["eth0".into(), "wwan0".into()])),
            avoid: Some(vec![Avoid::Metered, Avoid::Calls]),
            mode: Some(Mode::Direct),
        };
        let expected = "class bulk, order eth0 wwan0, avoid metered calls, mode direct";
        assert_eq!(then.to_string(), expected);
    }
}
