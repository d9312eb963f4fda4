//! A TOML document that is read key by key and keeps their positions for errors.

use std::fs::File;
use std::io::{self, Read};
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use std::str::FromStr;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::ConfigError;

/// Reads a whole file of at most [`MAX_FILE`] bytes.
pub(crate) fn read_bounded(path: &Path) -> io::Result<String> {
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

/// A parsed file.
pub(crate) struct Document<'a> {
    origin: Origin<'a>,
    root: Spanned<DeTable<'a>>,
}

impl<'a> Document<'a> {
    pub(crate) fn parse(file: &'a str, text: &'a str) -> Result<Self, ConfigError> {
        let origin = Origin { file, text };
        match DeTable::parse(text) {
            Ok(root) => Ok(Self { origin, root }),
            Err(error) => Err(ConfigError::Syntax {
                file: file.to_owned(),
                line: origin.line(&error.span().unwrap_or(0..0)),
                message: one_line(error.message()),
            }),
        }
    }

    /// The section that holds all others.
    pub(crate) fn root(&self) -> Section<'_> {
        Section {
            origin: self.origin,
            key: String::new(),
            span: self.root.span(),
            table: self.root.get_ref(),
        }
    }
}

/// A table of the file.
pub(crate) struct Section<'a> {
    origin: Origin<'a>,
    /// Its full name; empty for the root.
    key: String,
    span: Range<usize>,
    table: &'a DeTable<'a>,
}

impl<'a> Section<'a> {
    /// Refuses a key that is not among `allowed`.
    pub(crate) fn allow_only(&self, allowed: &[&str]) -> Result<(), ConfigError> {
        // The table is sorted by name; report the first unknown key of the file.
        let unknown = self
            .table
            .keys()
            .filter(|key| !allowed.contains(&key.get_ref().as_ref()));
        let Some(first) = unknown.min_by_key(|key| key.span().start) else {
            return Ok(());
        };
        Err(ConfigError::UnknownKey {
            file: self.origin.file.to_owned(),
            line: self.origin.line(&first.span()),
            key: self.full_key(&shorten(first.get_ref())),
            allowed: allowed.join(", "),
        })
    }

    /// The value behind `key`.
    pub(crate) fn field(&self, key: &str) -> Option<Field<'a>> {
        let (_, value) = self
            .table
            .iter()
            .find(|(name, _)| name.get_ref().as_ref() == key)?;
        Some(Field {
            origin: self.origin,
            key: self.full_key(key),
            span: value.span(),
            value: value.get_ref(),
        })
    }

    /// Returns the value behind `key`, which is mandatory.
    pub(crate) fn required(
        &self,
        key: &str,
        allowed: &'static str,
    ) -> Result<Field<'a>, ConfigError> {
        self.field(key).ok_or_else(|| self.missing(key, allowed))
    }

    /// Creates the error for a missing mandatory `key`.
    pub(crate) fn missing(&self, key: &str, allowed: &'static str) -> ConfigError {
        ConfigError::Missing {
            file: self.origin.file.to_owned(),
            line: self.origin.line(&self.span),
            key: self.full_key(key),
            allowed,
        }
    }

    /// Reads the section called `key`; the default if it is missing.
    pub(crate) fn section_or_default<T>(&self, key: &str) -> Result<T, ConfigError>
    where
        T: TryFrom<Section<'a>, Error = ConfigError> + Default,
    {
        self.field(key)
            .map_or_else(|| Ok(T::default()), |field| T::try_from(field.section()?))
    }

    fn full_key(&self, key: &str) -> String {
        match self.key.as_str() {
            "" => key.to_owned(),
            outer => format!("{outer}.{key}"),
        }
    }
}

/// A value of the file and its key.
pub(crate) struct Field<'a> {
    origin: Origin<'a>,
    key: String,
    span: Range<usize>,
    value: &'a DeValue<'a>,
}

impl<'a> Field<'a> {
    /// A section.
    pub(crate) fn section(self) -> Result<Section<'a>, ConfigError> {
        let DeValue::Table(table) = self.value else {
            return Err(self.wrong("a section with keys of its own"));
        };
        Ok(Section {
            origin: self.origin,
            key: self.key,
            span: self.span,
            table,
        })
    }

    /// A string that reads as a `T`.
    pub(crate) fn parse<T: FromStr>(&self, allowed: &str) -> Result<T, ConfigError> {
        self.parse_with(|text| text.parse().ok(), allowed)
    }

    /// A string in which `read` finds something.
    pub(crate) fn parse_with<T>(
        &self,
        read: impl FnOnce(&str) -> Option<T>,
        allowed: &str,
    ) -> Result<T, ConfigError> {
        let text = match self.value {
            DeValue::String(text) => Some(text.as_ref()),
            _ => None,
        };
        text.and_then(read).ok_or_else(|| self.wrong(allowed))
    }

    /// The text, where it is one.
    pub(crate) fn text(&self) -> Option<&str> {
        match self.value {
            DeValue::String(text) => Some(text.as_ref()),
            _ => None,
        }
    }

    /// One of a few words.
    pub(crate) fn word<T: Clone>(&self, words: &[(&str, T)]) -> Result<T, ConfigError> {
        let names: Vec<_> = words
            .iter()
            .map(|(name, _)| format!("\"{name}\""))
            .collect();
        let find = |text: &str| {
            words
                .iter()
                .find(|(name, _)| *name == text)
                .map(|(_, t)| t.clone())
        };
        self.parse_with(find, &names.join(", "))
    }

    /// One of `all`, by its name.
    pub(crate) fn named<T: Copy>(
        &self,
        all: &[T],
        name: impl Fn(T) -> &'static str,
    ) -> Result<T, ConfigError> {
        let words: Vec<_> = all.iter().map(|one| (name(*one), *one)).collect();
        self.word(&words)
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

    /// The values of a list.
    pub(crate) fn list(&self, allowed: &str) -> Result<Vec<Field<'a>>, ConfigError> {
        let DeValue::Array(values) = self.value else {
            return Err(self.wrong(allowed));
        };
        Ok(self.fields(values.iter().map(|value| (value.span(), value.get_ref()))))
    }

    /// Returns the values of a list, or this single value.
    pub(crate) fn entries(&self) -> Vec<Field<'a>> {
        let single = std::slice::from_ref(self.value);
        let DeValue::Array(values) = self.value else {
            return self.fields(single.iter().map(|value| (self.span.clone(), value)));
        };
        self.fields(values.iter().map(|value| (value.span(), value.get_ref())))
    }

    fn fields(
        &self,
        values: impl Iterator<Item = (Range<usize>, &'a DeValue<'a>)>,
    ) -> Vec<Field<'a>> {
        let field = |(span, value)| Field {
            origin: self.origin,
            key: self.key.clone(),
            span,
            value,
        };
        values.map(field).collect()
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
