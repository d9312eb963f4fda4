//! Changes the files that hold rules. What the user has written there stays as it is.

use std::path::{Path, PathBuf};

use hawser_policy::{Field, Rule};
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, RawString, Table, Value, value};

use crate::args::Spot;
use crate::rule_files::{RuleFiles, UserRules};
use crate::setup::Usage;
use crate::toml_file::{Content, RULES_HEAD, change};

/// Writes `rule` into the configuration, or into the state directory where no configuration is
/// named, or where the rule stands that it is to come before; says where. Numbers count `ahead` rules
/// that are in no file.
pub(crate) fn add(
    files: &RuleFiles,
    rule: &Rule,
    spot: &Spot,
    ahead: usize,
) -> anyhow::Result<PathBuf> {
    let (path, place) = match spot {
        Spot::Last => (files.config.as_ref().unwrap_or(&files.own).clone(), None),
        Spot::First => (files.config.as_ref().unwrap_or(&files.own).clone(), Some(0)),
        Spot::Before(other) => {
            let place = find(&files.read()?, other, ahead)?;
            let (path, place) = file_of(files, place)?;
            (path, Some(place))
        }
    };
    change(&path, content(files, &path), |document| {
        let rules = document.entry(RULE).or_insert_with(no_rules);
        let Item::ArrayOfTables(rules) = rules else {
            let problem = format!("{}: `rule` is not made of [[rule]]", path.display());
            return Err(Usage(problem).into());
        };
        let is_alone = rules.is_empty();
        insert(rules, place.unwrap_or(rules.len()), table(rule));
        if is_alone {
            keep_ahead(document);
        }
        Ok(())
    })?;
    Ok(path)
}

/// The place among the user's rules of the one with this name or, if none has it, this number.
fn find(read: &UserRules, other: &str, ahead: usize) -> anyhow::Result<usize> {
    let all: Vec<&Rule> = read.configured.iter().chain(&read.own).collect();
    let is_named = |rule: &&Rule| rule.name.as_deref() == Some(other);
    let mut named = all.iter().enumerate().filter(|(_, rule)| is_named(rule));
    if let Some((place, _)) = named.next() {
        return match named.next() {
            None => Ok(place),
            Some(_) => {
                let problem = format!("more than one rule is called {other}: say its number");
                Err(Usage(problem).into())
            }
        };
    }
    let number = other.parse::<usize>().ok();
    let number = number.and_then(|it| it.checked_sub(ahead + 1));
    let place = number.filter(|place| *place < all.len());
    place.ok_or_else(|| {
        let count = all.len();
        let problem = format!("there is no rule {other} of your own; you have {count}");
        Usage(problem).into()
    })
}

/// The file in which the user's rule at `place` stands, and its place there.
fn file_of(files: &RuleFiles, place: usize) -> anyhow::Result<(PathBuf, usize)> {
    let configured = files.read()?.configured.len();
    Ok(match &files.config {
        Some(config) if place < configured => (config.clone(), place),
        _ => (files.own.clone(), place - configured),
    })
}

fn content(files: &RuleFiles, path: &Path) -> Content {
    match files.config.as_deref() == Some(path) {
        true => Content::Config,
        false => Content::Rules,
    }
}

/// What stood at the end of the file stays where it was: ahead of its first rule.
fn keep_ahead(document: &mut DocumentMut) {
    let end = document.trailing().as_str().unwrap_or_default().to_owned();
    let rules = document
        .get_mut(RULE)
        .and_then(Item::as_array_of_tables_mut);
    let Some(first) = rules.and_then(|rules| rules.get_mut(0)) else {
        return;
    };
    if end.is_empty() {
        return;
    }
    let gap = if end == RULES_HEAD { "" } else { "\n" };
    first.decor_mut().set_prefix(format!("{end}{gap}"));
    document.set_trailing("");
}

/// Puts `table` at `place`. What stands in the file stays in its order.
fn insert(rules: &mut ArrayOfTables, place: usize, mut table: Table) {
    let mut behind = Vec::new();
    while rules.len() > place {
        behind.push(rules.remove(place));
    }
    if let Some(next) = behind.first_mut() {
        // The same place in the file, and before it since it comes before it here.
        if let Some(position) = next.position() {
            table.set_position(position);
        }
        let before = next.decor().prefix().and_then(RawString::as_str);
        let before = before.unwrap_or_default().to_owned();
        // What heads the file stays at its head.
        let (head, own) = match before.strip_prefix(RULES_HEAD) {
            Some(own) => (RULES_HEAD, own),
            None => ("", before.as_str()),
        };
        let is_apart = own.starts_with('\n');
        table
            .decor_mut()
            .set_prefix(match is_apart && head.is_empty() {
                true => "\n",
                false => head,
            });
        let gap = if is_apart { "" } else { "\n" };
        next.decor_mut().set_prefix(format!("{gap}{own}"));
    }
    rules.push(table);
    for next in behind {
        rules.push(next);
    }
}

/// Takes the user's rule with that number out; gives it and the file that it stood in. Numbers count
/// `ahead` rules that are in no file.
pub(crate) fn remove(
    files: &RuleFiles,
    number: usize,
    ahead: usize,
) -> anyhow::Result<(Rule, PathBuf)> {
    let read = files.read()?;
    let all = read.configured.len() + read.own.len();
    let mut user = read.configured.into_iter().chain(read.own);
    let place = number.checked_sub(ahead + 1);
    let Some((place, rule)) = place.and_then(|place| Some((place, user.nth(place)?))) else {
        let problem = format!("there is no rule {number} of your own; you have {all}");
        return Err(Usage(problem).into());
    };
    let (path, place) = file_of(files, place)?;
    change(&path, content(files, &path), |document| {
        let rules = document.get_mut(RULE);
        let rules = rules.and_then(Item::as_array_of_tables_mut);
        let Some(rules) = rules.filter(|rules| place < rules.len()) else {
            let problem = format!("{}: `rule` is not made of [[rule]]", path.display());
            return Err(Usage(problem).into());
        };
        rules.remove(place);
        Ok(())
    })?;
    Ok((rule, path))
}

/// The keys and values of a `[[rule]]` that says the same.
pub(crate) fn text(rule: &Rule) -> String {
    table(rule).to_string()
}

/// `[[rule]]` with everything that the rule says.
fn table(rule: &Rule) -> Table {
    let mut table = Table::new();
    if let Some(name) = &rule.name {
        table.insert("name", value(name));
    }
    for (field, values) in rule.when.entries() {
        let is_number = field == Field::User;
        table.insert(field.key(), item(&values, is_number));
    }
    for (key, values) in rule.then.entries() {
        table.insert(key, item(&values, false));
    }
    table
}

fn item(values: &[String], is_number: bool) -> Item {
    let one = |text: &String| match text.parse::<i64>() {
        Ok(number) if is_number => Value::from(number),
        _ => Value::from(text),
    };
    match values {
        [single] => value(one(single)),
        many => value(many.iter().map(one).collect::<Array>()),
    }
}

fn no_rules() -> Item {
    Item::ArrayOfTables(ArrayOfTables::new())
}

const RULE: &str = "rule";
#[cfg(test)]
mod tests;
