//! Parameters of header fields: `;name`, `;name=value`, `;name="value"`.

use std::fmt;

use crate::cursor::{Cursor, SyntaxFault, is_token, quote};

/// Parameters of a header field, in their order. Names are compared without regard to case and are
/// unique (RFC 3261 §7.3.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Params(Vec<Param>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Param {
    name: String,
    value: Option<Value>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Plain(String),
    Quoted(String),
}

impl Params {
    /// Returns the value of a parameter, without quotation marks; empty for a parameter without a
    /// value.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        self.find(name).map(|param| match &param.value {
            Some(Value::Plain(text) | Value::Quoted(text)) => text.as_str(),
            None => "",
        })
    }

    /// Whether there is a parameter of this name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Sets a parameter to a value, which is quoted if necessary.
    ///
    /// # Panics
    /// Panics if `name` is no token.
    pub fn set(&mut self, name: &str, value: &str) {
        let value = if !value.is_empty() && value.bytes().all(is_plain) {
            Value::Plain(value.to_owned())
        } else {
            Value::Quoted(value.to_owned())
        };
        self.put(name, Some(value));
    }

    /// Sets a parameter to a quoted value, which some parameters require.
    ///
    /// # Panics
    /// Panics if `name` is no token.
    pub fn set_quoted(&mut self, name: &str, value: &str) {
        self.put(name, Some(Value::Quoted(value.to_owned())));
    }

    /// Sets a parameter without a value.
    ///
    /// # Panics
    /// Panics if `name` is no token.
    pub fn set_flag(&mut self, name: &str) {
        self.put(name, None);
    }

    /// Removes a parameter.
    pub fn remove(&mut self, name: &str) {
        self.0
            .retain(|param| !param.name.eq_ignore_ascii_case(name));
    }

    /// Whether there is no parameter.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads `*( SEMI param )`.
    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Self, SyntaxFault> {
        let mut params = Self::default();
        while cursor.eat(';') {
            let name = cursor.token("the name of a parameter")?;
            let value = if cursor.eat('=') {
                Some(read_value(cursor)?)
            } else {
                None
            };
            params.push(name, value)?;
        }
        Ok(params)
    }

    fn push(&mut self, name: &str, value: Option<Value>) -> Result<(), SyntaxFault> {
        if self.contains(name) {
            return Err(SyntaxFault::Repeated(name.to_owned()));
        }
        if self.0.len() == MAX_PARAMS {
            return Err(SyntaxFault::TooMany(MAX_PARAMS));
        }
        let name = name.to_owned();
        self.0.push(Param { name, value });
        Ok(())
    }

    fn put(&mut self, name: &str, value: Option<Value>) {
        assert!(!name.is_empty() && name.bytes().all(is_token), "{name:?}");
        let found = self
            .0
            .iter_mut()
            .find(|param| param.name.eq_ignore_ascii_case(name));
        match found {
            Some(param) => param.value = value,
            None => {
                let name = name.to_owned();
                self.0.push(Param { name, value });
            }
        }
    }

    fn find(&self, name: &str) -> Option<&Param> {
        self.0
            .iter()
            .find(|param| param.name.eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Param { name, value } in &self.0 {
            match value {
                None => write!(f, ";{name}")?,
                Some(Value::Plain(text)) => write!(f, ";{name}={text}")?,
                Some(Value::Quoted(text)) => write!(f, ";{name}={}", quote(text))?,
            }
        }
        Ok(())
    }
}

/// Reads `token / host / quoted-string`.
fn read_value(cursor: &mut Cursor<'_>) -> Result<Value, SyntaxFault> {
    if cursor.peek() == Some(b'"') {
        return cursor.quoted().map(Value::Quoted);
    }
    match cursor.take_while(is_plain) {
        "" => Err(SyntaxFault::Expected("the value of a parameter")),
        text => Ok(Value::Plain(text.to_owned())),
    }
}

/// Characters of tokens and of hosts, which may be IPv6 addresses in brackets.
fn is_plain(byte: u8) -> bool {
    is_token(byte) || b"[]:".contains(&byte)
}

const MAX_PARAMS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Params, SyntaxFault> {
        let mut cursor = Cursor::new(text);
        let params = Params::read(&mut cursor)?;
        cursor.end()?;
        Ok(params)
    }

    #[test]
    fn parameters_are_read_and_written() {
        let params = read(" ; a = 1;B;c = \"x;\\\"y\" ;maddr=[2001:db8::1]").unwrap();
        assert_eq!(params.value("A"), Some("1"));
        assert_eq!(params.value("b"), Some(""));
        assert_eq!(params.value("c"), Some("x;\"y"));
        assert_eq!(params.value("d"), None);
        let written = params.to_string();
        assert_eq!(written, ";a=1;B;c=\"x;\\\"y\";maddr=[2001:db8::1]");
        assert_eq!(read(&written).unwrap(), params);
    }

    #[test]
    fn what_is_no_parameter_is_refused() {
        for text in [";", ";;a", ";a=", ";a=1;A=2", ";a b", ";=1", ";a=\"1", "x"] {
            assert!(read(text).is_err(), "{text}");
        }
        let many: String = (0..65).map(|number| format!(";p{number}")).collect();
        assert_eq!(read(&many), Err(SyntaxFault::TooMany(64)));
    }

    #[test]
    fn values_are_quoted_where_they_have_to_be() {
        let mut params = Params::default();
        params.set("a", "x y");
        params.set("b", "");
        params.set("A", "z");
        params.set_flag("lr");
        assert_eq!(params.to_string(), ";a=z;b=\"\";lr");
        params.remove("B");
        assert_eq!(params.to_string(), ";a=z;lr");
    }
}
