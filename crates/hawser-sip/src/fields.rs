//! Header fields that this crate parses.

mod name_addr;
mod small;
mod via;

use crate::cursor::{Cursor, SyntaxFault};
pub use name_addr::{Contacts, NameAddr};
pub use small::{CSeq, CallId, Event, MaxForwards, Q, QFault, Seconds, SubscriptionState, Token};
pub use via::{Transport, Via};

/// A header field, or one entry of its list, that can be read from text.
pub(crate) trait Field: Sized {
    /// Reads one entry, and stops behind it.
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, SyntaxFault>;

    /// Reads all of `text` as one entry.
    fn parse(text: &str) -> Result<Self, SyntaxFault> {
        let mut cursor = Cursor::new(text);
        cursor.skip_space();
        let field = Self::read(&mut cursor)?;
        cursor.end()?;
        Ok(field)
    }

    /// Reads all of `text` as a comma-separated list of at least one entry.
    fn parse_list(text: &str, list: &mut Vec<Self>) -> Result<(), SyntaxFault> {
        let mut cursor = Cursor::new(text);
        cursor.skip_space();
        loop {
            if list.len() == MAX_LIST {
                return Err(SyntaxFault::TooMany(MAX_LIST));
            }
            list.push(Self::read(&mut cursor)?);
            if !cursor.eat(',') {
                return cursor.end();
            }
        }
    }
}

/// Limit of entries of one header field in a message. The longest of RFC 4475 has 34 of Via.
pub const MAX_LIST: usize = 64;
