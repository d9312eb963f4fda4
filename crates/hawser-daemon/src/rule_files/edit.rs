//! Changes the files that hold rules. Keeps the user's text and comments there.

use std::path::{Path, PathBuf};

use hawser_policy::{Field, Rule};
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, RawString, Table, Value, value};

use crate::rule_files::{RuleFiles, UserRules};
use crate::setup::Usage;
use crate::toml_file::{Content, RULES_HEAD, change};

/// Place of a rule among those of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spot {
    /// After all others.
    Last,
    /// Before all others.
    First,
    /// Before the rule with this name, or this number.
    Before(String),
}

/// Writes `rule` into the file of the rule that it must precede; else into the configuration, or
/// into the state directory if there is no configuration. Returns the file. `ahead` is the number
/// of rules in no file, which are numbered first.
pub fn add(files: &RuleFiles, rule: &Rule, spot: &Spot, ahead: usize) -> anyhow::Result<PathBuf> {
    let before = match spot {
        Spot::Before(other) => Some(find(files, &files.read()?, other, ahead)?),
        Spot::First | Spot::Last => None,
    };
    let (path, content) = match &before {
        Some(before) => (before.path.clone(), before.content),
        None if files.config.is_there() => (files.config.path().to_owned(), Content::Config),
        None => (files.own.clone(), Content::Rules),
    };
    change(&path, content, |document| {
        if let Some(before) = &before {
            before.check(document, &text(&before.rule))?;
        }
        let rules = document.entry(RULE).or_insert_with(no_rules);
        let Item::ArrayOfTables(rules) = rules else {
            return Err(no_tables(&path).into());
        };
        let is_alone = rules.is_empty();
        let place = match (&before, spot) {
            (Some(before), _) => before.place,
            (None, Spot::First) => 0,
            (None, _) => rules.len(),
        };
        insert(rules, place, table(rule));
        if is_alone {
            keep_ahead(document);
        }
        Ok(())
    })?;
    Ok(path)
}

/// Finds the user's rule with this name or, if no rule has the name, with this number.
fn find(
    files: &RuleFiles,
    read: &UserRules,
    other: &str,
    ahead: usize,
) -> anyhow::Result<Standing> {
    let is_named = |(_, rule): &(usize, &Rule)| rule.name.as_deref() == Some(other);
    let mut named = read.all().enumerate().filter(is_named);
    let place = match (named.next(), named.next()) {
        (Some((place, _)), None) => Some(place),
        (Some(_), Some(_)) => {
            let problem = format!("more than one rule is called {other}: say its number");
            return Err(Usage(problem).into());
        }
        (None, _) => {
            let number = other.parse::<usize>().ok();
            number.and_then(|it| it.checked_sub(ahead + 1))
        }
    };
    let standing = place.and_then(|place| Standing::at(files, read, place));
    standing.ok_or_else(|| not_there(other, read).into())
}

/// One of the user's rules, and its position in a file.
struct Standing {
    rule: Rule,
    path: PathBuf,
    content: Content,
    /// Index among the rules of the file.
    place: usize,
}

impl Standing {
    /// Returns the rule at this index among all rules of the user.
    fn at(files: &RuleFiles, read: &UserRules, place: usize) -> Option<Self> {
        let rule = read.all().nth(place)?.clone();
        let (path, content, place) = match place.checked_sub(read.configured.len()) {
            None => (files.config.path(), Content::Config, place),
            Some(behind) => (files.own.as_path(), Content::Rules, behind),
        };
        Some(Self {
            rule,
            path: path.to_owned(),
            content,
            place,
        })
    }

    /// Fails unless the rule at this position still has the text `meant`: other programs may have
    /// written the file since it was read, and since the user has seen its rules.
    fn check(&self, document: &DocumentMut, meant: &str) -> anyhow::Result<()> {
        let name = self.path.display().to_string();
        let rules = self.content.rules(&name, &document.to_string())?;
        let there = rules.get(self.place);
        if there.is_some_and(|rule| is_meant(rule, meant)) {
            Ok(())
        } else {
            Err(RulesChanged.into())
        }
    }
}

/// Error for a rule that is no longer at the position that the user named.
#[derive(Debug, thiserror::Error)]
#[error("the rules have changed meanwhile, and the rule has moved or is gone; nothing was changed")]
pub struct RulesChanged;

/// Returns whether the rule is the one with this [`text`].
pub(crate) fn is_meant(rule: &Rule, meant: &str) -> bool {
    text(rule).trim_end() == meant.trim_end()
}

fn not_there(other: &str, read: &UserRules) -> Usage {
    let count = read.all().count();
    Usage(format!(
        "there is no rule {other} of your own; you have {count}"
    ))
}

/// Keeps the text at the end of the file before the file's first rule.
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

/// Inserts the rule `table` at index `place`. Keeps the order of the rest of the file.
fn insert(rules: &mut ArrayOfTables, place: usize, mut table: Table) {
    let mut behind = Vec::new();
    while rules.len() > place {
        behind.push(rules.remove(place));
    }
    if let Some(next) = behind.first_mut() {
        // With equal positions, the array's order decides: `table` precedes `next` in the file.
        if let Some(position) = next.position() {
            table.set_position(position);
        }
        let before = next.decor().prefix().and_then(RawString::as_str);
        let before = before.unwrap_or_default().to_owned();
        // The head of the file stays at the top.
        let (head, own) = match before.strip_prefix(RULES_HEAD) {
            Some(own) => (RULES_HEAD, own),
            None => ("", before.as_str()),
        };
        let is_apart = own.starts_with('\n');
        table
            .decor_mut()
            .set_prefix(if is_apart && head.is_empty() {
                "\n"
            } else {
                head
            });
        let gap = if is_apart { "" } else { "\n" };
        next.decor_mut().set_prefix(format!("{gap}{own}"));
    }
    rules.push(table);
    for next in behind {
        rules.push(next);
    }
}

/// Removes the user's rule with this number; returns the rule and its file. `ahead` is the number
/// of rules in no file, which are numbered first.
///
/// Fails with [`RulesChanged`] if the rule's text is not `meant`, or has changed since it was
/// read.
pub fn remove(
    files: &RuleFiles,
    number: usize,
    ahead: usize,
    meant: Option<&str>,
) -> anyhow::Result<(Rule, PathBuf)> {
    let read = files.read()?;
    let place = number.checked_sub(ahead + 1);
    let standing = place.and_then(|place| Standing::at(files, &read, place));
    let standing = standing.ok_or_else(|| not_there(&number.to_string(), &read))?;
    let meant = meant.map_or_else(|| text(&standing.rule), str::to_owned);
    change(&standing.path, standing.content, |document| {
        standing.check(document, &meant)?;
        let rules = document.get_mut(RULE);
        let rules = rules.and_then(Item::as_array_of_tables_mut);
        let Some(rules) = rules.filter(|rules| standing.place < rules.len()) else {
            return Err(no_tables(&standing.path).into());
        };
        let removed = rules.remove(standing.place);
        keep_remarks(document, &removed, standing.place);
        Ok(())
    })?;
    Ok((standing.rule, standing.path))
}

/// Error for rules that are valid, but written in a form that this program can't change.
fn no_tables(path: &Path) -> Usage {
    Usage(format!(
        "{}: the rules are not written as [[rule]] sections, so change them there yourself",
        path.display()
    ))
}

/// Keeps the text above the rule that was removed from `place`, when a blank line separates them.
fn keep_remarks(document: &mut DocumentMut, removed: &Table, place: usize) {
    let above = removed.decor().prefix().and_then(RawString::as_str);
    let above = above.unwrap_or_default();
    let kept = match above.rsplit_once("\n\n") {
        Some((kept, _)) => format!("{kept}\n"),
        None if above.starts_with(RULES_HEAD) => RULES_HEAD.to_owned(),
        None => return,
    };
    let sections = document.iter_mut().flat_map(|(key, item)| {
        let before = if key == RULE { place } else { 0 };
        match item {
            Item::Table(section) => vec![section],
            Item::ArrayOfTables(sections) => sections.iter_mut().skip(before).collect(),
            _ => Vec::new(),
        }
    });
    let behind = sections.filter(|section| section.position() >= removed.position());
    match behind.min_by_key(|section| section.position()) {
        Some(next) => {
            let own = next.decor().prefix().and_then(RawString::as_str);
            let own = own.unwrap_or_default();
            let gap = if own.starts_with('\n') { "" } else { "\n" };
            let all = format!("{kept}{gap}{own}");
            next.decor_mut().set_prefix(all);
        }
        None => {
            let end = document.trailing().as_str().unwrap_or_default().to_owned();
            document.set_trailing(format!("{kept}{end}"));
        }
    }
}

/// Returns the keys and values of a `[[rule]]` that is equal to the rule.
pub fn text(rule: &Rule) -> String {
    table(rule).to_string()
}

/// Returns a `[[rule]]` table with all fields of the rule.
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
