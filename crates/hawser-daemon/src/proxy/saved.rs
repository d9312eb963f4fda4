//! Run-time changes, written into the daemon's configuration.

use std::path::Path;

use hawser_types::LinkUse;
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, TableLike, Value, value};

use crate::proxy::rules::CheckedChange;
use crate::setup::Usage;
use crate::toml_file::{Content, change, put, section_at_end};

/// Sets a key of a section.
pub fn set(config: &Path, section: &str, key: &str, value: impl Into<Value>) -> anyhow::Result<()> {
    change(config, Content::Config, |document| {
        if !document.contains_key(section) {
            let new = section_at_end(document);
            document.insert(section, Item::Table(new));
        }
        let table = document.get_mut(section).and_then(Item::as_table_like_mut);
        let Some(table) = table else {
            return Err(other_form(config, section).into());
        };
        put(table, key, value.into());
        Ok(())
    })
}

/// Writes the changed keys of a link, and leaves its other keys as they are.
pub fn set_link(config: &Path, said: &CheckedChange) -> anyhow::Result<()> {
    change(config, Content::Config, |document| {
        let Some(place) = place_of(document, &said.name, config)? else {
            let mut link = section_at_end(document);
            link.insert("name", value(&said.name));
            say(&mut link, said);
            let links = document.entry(LINK).or_insert_with(no_links);
            if let Item::ArrayOfTables(links) = links {
                links.push(link);
            }
            return Ok(());
        };
        let links = document.get_mut(LINK);
        let links = links.and_then(Item::as_array_of_tables_mut);
        if let Some(link) = links.and_then(|links| links.get_mut(place)) {
            say(link, said);
        }
        Ok(())
    })
}

/// Returns the index of the `[[link]]` with this name.
fn place_of(document: &DocumentMut, name: &str, config: &Path) -> Result<Option<usize>, Usage> {
    let is_it = |link: &Table| link.get("name").and_then(Item::as_str) == Some(name);
    match document.get(LINK) {
        None => Ok(None),
        Some(Item::ArrayOfTables(links)) => Ok(links.iter().position(is_it)),
        Some(_) => Err(other_form(config, LINK)),
    }
}

fn say(link: &mut dyn TableLike, said: &CheckedChange) {
    say_use(link, said.up, said.down);
    for (key, value) in &said.keys {
        match value {
            Some(value) => put(link, key, value.clone()),
            None => drop(link.remove(key)),
        }
    }
}

/// Writes the use of a link. `use` is for both directions, and a key for one direction overrides
/// it, so an existing one has to be changed, too.
fn say_use(link: &mut dyn TableLike, up: Option<LinkUse>, down: Option<LinkUse>) {
    let both = up.filter(|_| up == down);
    let is_apart = link.contains_key("up") && link.contains_key("down");
    if let Some(both) = both.filter(|_| !is_apart) {
        put(link, "use", both.to_string().into());
    }
    for (key, one) in [("up", up), ("down", down)] {
        if let Some(one) = one.filter(|_| both.is_none() || link.contains_key(key)) {
            put(link, key, one.to_string().into());
        }
    }
}

fn no_links() -> Item {
    Item::ArrayOfTables(ArrayOfTables::new())
}

/// Error for a file that is valid, but written in a form that this program can't change.
fn other_form(config: &Path, section: &str) -> Usage {
    let config = config.display();
    Usage(format!(
        "{config}: `{section}` is not written in sections of its own, so change it there yourself"
    ))
}

const LINK: &str = "link";

#[cfg(test)]
mod tests;
