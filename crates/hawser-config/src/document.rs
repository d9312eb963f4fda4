//! A TOML document that is read key by key and keeps their positions for errors.

use std::fs::File;
use std::io::{self, Read};
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use hawser_types::parse_duration;
use toml::de::{DeTable, DeValue};

use crate::ConfigError;

/// Reads the file at `path`, and its text by `parse`, which is also given the file's name.
pub(crate) fn load<T>(
    path: &Path,
    parse: impl FnOnce(&str, &str) -> Result<T, ConfigError>,
) -> Result<T, ConfigError> {
    let file = path.display().to_string();
    match read_bounded(path) {
        Ok(text) => parse(&file, &text),
        Err(source) => Err(ConfigError::Read { file, source }),
    }
}

/// Reads `text` by `read`, which is given the section that holds all others; `file` is the name
/// that errors give to it.
pub(crate) fn parse<T>(
    file: &str,
    text: &str,
    read: impl FnOnce(&Field<'_>) -> Result<T, ConfigError>,
) -> Result<T, ConfigError> {
    let origin = Origin { file, text };
    let root = DeTable::parse(text).map_err(|error| ConfigError::Syntax {
        file: file.to_owned(),
        line: origin.line(&error.span().unwrap_or(0..0)),
        message: one_line(error.message()),
    })?;
    read(&Field {
        origin,
        key: String::new(),
        span: root.span(),
        value: &DeValue::Table(root.into_inner()),
    })
}

/// Reads a whole file of at most [`MAX_FILE`] bytes.
fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?
        .take(MAX_FILE + 1)
        .read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            "larger than 1 MiB",
        ));
    }
    Ok(text)
}

/// Reads the value of a key into its place.
type ReadInto<'a> = dyn FnOnce(&Field<'a>) -> Result<(), ConfigError> + 'a;

/// A key that a section may have, and what is done with its value.
pub(crate) struct Key<'a> {
    name: &'static str,
    read: Box<ReadInto<'a>>,
}

/// The key called `name`; what `read` makes of its value goes to `place`.
pub(crate) fn key<'a, T>(
    name: &'static str,
    place: &'a mut T,
    read: impl FnOnce(&Field<'a>) -> Result<T, ConfigError> + 'a,
) -> Key<'a> {
    let read = Box::new(move |field: &Field<'a>| {
        *place = read(field)?;
        Ok(())
    });
    Key { name, read }
}

/// Like [`key`], for a place that is empty without it.
pub(crate) fn optional<'a, T>(
    name: &'static str,
    place: &'a mut Option<T>,
    read: impl FnOnce(&Field<'a>) -> Result<T, ConfigError> + 'a,
) -> Key<'a> {
    key(name, place, |field| read(field).map(Some))
}

/// A value of the file and its key, such as a section.
pub(crate) struct Field<'a> {
    origin: Origin<'a>,
    /// Its full name; empty for the root.
    key: String,
    span: Range<usize>,
    value: &'a DeValue<'a>,
}

impl<'a> Field<'a> {
    /// Reads a section: the values of `keys` in this order. Refuses other keys before.
    pub(crate) fn read_keys(&self, keys: Vec<Key<'a>>) -> Result<(), ConfigError> {
        let DeValue::Table(table) = self.value else {
            return Err(self.wrong("a section with keys of its own"));
        };
        // The table is sorted by name; report the first unknown key of the file.
        let is_unknown = |name: &str| keys.iter().all(|key| key.name != name);
        let unknown = table.keys().filter(|name| is_unknown(name.get_ref()));
        if let Some(first) = unknown.min_by_key(|name| name.span().start) {
            let allowed: Vec<_> = keys.iter().map(|key| key.name).collect();
            return Err(ConfigError::UnknownKey {
                file: self.origin.file.to_owned(),
                line: self.origin.line(&first.span()),
                key: self.full_key(&shorten(first.get_ref())),
                allowed: allowed.join(", "),
            });
        }
        keys.into_iter()
            .try_for_each(|key| match self.inner(key.name) {
                Some(field) => (key.read)(&field),
                None => Ok(()),
            })
    }

    /// The value behind `key` of a section.
    fn inner(&self, key: &str) -> Option<Field<'a>> {
        let DeValue::Table(table) = self.value else {
            return None;
        };
        let (_, value) = table.iter().find(|(name, _)| name.get_ref() == key)?;
        Some(Field {
            origin: self.origin,
            key: self.full_key(key),
            span: value.span(),
            value: value.get_ref(),
        })
    }

    fn full_key(&self, key: &str) -> String {
        match self.key.as_str() {
            "" => key.to_owned(),
            outer => format!("{outer}.{key}"),
        }
    }

    /// Creates the error for a `key` of a section that is missing, or has a value that is not
    /// allowed beside the others.
    pub(crate) fn refuse(&self, key: &str, allowed: &str) -> ConfigError {
        match self.inner(key) {
            Some(field) => field.wrong(allowed),
            None => ConfigError::Missing {
                file: self.origin.file.to_owned(),
                line: self.origin.line(&self.span),
                key: self.full_key(key),
                allowed: allowed.to_owned(),
            },
        }
    }

    /// A string that reads as a `T`.
    pub(crate) fn parse<T: FromStr>(&self, allowed: &str) -> Result<T, ConfigError> {
        self.parse_if(|_| true, allowed)
    }

    /// A string that reads as a `T` with which `is_allowed` holds.
    pub(crate) fn parse_if<T: FromStr>(
        &self,
        is_allowed: impl FnOnce(&T) -> bool,
        allowed: &str,
    ) -> Result<T, ConfigError> {
        self.parse_with(|text| text.parse().ok().filter(is_allowed), allowed)
    }

    /// A string in which `read` finds something.
    pub(crate) fn parse_with<T>(
        &self,
        read: impl FnOnce(&str) -> Option<T>,
        allowed: &str,
    ) -> Result<T, ConfigError> {
        self.text()
            .and_then(read)
            .ok_or_else(|| self.wrong(allowed))
    }

    /// The text, where it is one.
    pub(crate) fn text(&self) -> Option<&str> {
        match self.value {
            DeValue::String(text) => Some(text.as_ref()),
            _ => None,
        }
    }

    /// A span of time within `range`.
    pub(crate) fn duration(
        &self,
        range: RangeInclusive<Duration>,
        allowed: &str,
    ) -> Result<Duration, ConfigError> {
        let is_within = |span: &Duration| range.contains(span);
        self.parse_with(|text| parse_duration(text).ok().filter(is_within), allowed)
    }

    /// One of a few words.
    pub(crate) fn word<T: Copy>(&self, words: &[(&'static str, T)]) -> Result<T, ConfigError> {
        self.named(words, |(name, _)| name).map(|(_, value)| value)
    }

    /// One of `all`, by its name.
    pub(crate) fn named<T: Copy>(
        &self,
        all: &[T],
        name: impl Fn(T) -> &'static str,
    ) -> Result<T, ConfigError> {
        let mut values = all.iter().copied();
        let value = self
            .text()
            .and_then(|text| values.find(|value| name(*value) == text));
        value.ok_or_else(|| {
            let names: Vec<_> = all
                .iter()
                .map(|one| format!("\"{}\"", name(*one)))
                .collect();
            self.wrong(&names.join(", "))
        })
    }

    /// `true` or `false`.
    pub(crate) fn boolean(&self) -> Result<bool, ConfigError> {
        match self.value {
            DeValue::Boolean(value) => Ok(*value),
            _ => Err(self.wrong("true, false")),
        }
    }

    /// A whole number within `range`.
    pub(crate) fn integer(&self, range: RangeInclusive<u32>) -> Result<u32, ConfigError> {
        let number = match self.value {
            DeValue::Integer(number) => u32::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        number.filter(|n| range.contains(n)).ok_or_else(|| {
            let allowed = format!("a whole number from {} to {}", range.start(), range.end());
            self.wrong(&allowed)
        })
    }

    /// A number from 0 to 1.
    pub(crate) fn fraction(&self) -> Result<f64, ConfigError> {
        let number: Option<f64> = match self.value {
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse().ok(),
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => None,
        };
        let number = number.filter(|n| (0.0..=1.0).contains(n));
        number.ok_or_else(|| self.wrong("a number from 0 to 1 such as 0.5"))
    }

    /// The values of a list, each by `read`.
    pub(crate) fn list<T>(
        &self,
        allowed: &str,
        read: impl FnMut(&Field<'a>) -> Result<T, ConfigError>,
    ) -> Result<Vec<T>, ConfigError> {
        match self.value {
            DeValue::Array(_) => self.entries().iter().map(read).collect(),
            _ => Err(self.wrong(allowed)),
        }
    }

    /// Returns the values of a list, or this single value.
    pub(crate) fn entries(&self) -> Vec<Field<'a>> {
        let field = |span, value| Field {
            origin: self.origin,
            key: self.key.clone(),
            span,
            value,
        };
        match self.value {
            DeValue::Array(values) => values
                .iter()
                .map(|value| field(value.span(), value.get_ref()))
                .collect(),
            single => vec![field(self.span.clone(), single)],
        }
    }

    /// Creates the error for a value that is not allowed.
    pub(crate) fn wrong(&self, allowed: &str) -> ConfigError {
        let text = self.origin.text.get(self.span.clone()).unwrap_or_default();
        ConfigError::Value {
            file: self.origin.file.to_owned(),
            line: self.origin.line(&self.span),
            key: self.key.clone(),
            // An invite has its secret behind `#`, and an error may be logged.
            got: shorten(text.split('#').next().unwrap_or_default()),
            allowed: allowed.to_owned(),
        }
    }
}

/// The text that spans point into, and its name.
#[derive(Clone, Copy)]
struct Origin<'a> {
    file: &'a str,
    text: &'a str,
}

impl Origin<'_> {
    /// The line in which `span` begins, counted from 1.
    fn line(&self, span: &Range<usize>) -> usize {
        let before = self.text.as_bytes().iter().take(span.start);
        1 + before.filter(|byte| **byte == b'\n').count()
    }
}

/// At most [`MAX_SHOWN`] characters of `text`, on one line.
fn shorten(text: &str) -> String {
    let line = one_line(text);
    if line.chars().count() <= MAX_SHOWN {
        return line;
    }
    let head: String = line.chars().take(MAX_SHOWN - 1).collect();
    format!("{head}…")
}

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace(char::is_control, "?")
}

/// Maximum size of a configuration, which is written by hand.
const MAX_FILE: u64 = 1 << 20;
const MAX_SHOWN: usize = 60;
