//! Header fields whose parts matter here.

mod name_addr;
mod small;
mod via;

use crate::cursor::{Cursor, SyntaxFault};
pub use name_addr::{Contacts, NameAddr};
pub use small::{CSeq, CallId, Event, MaxForwards, Q, QFault, Seconds, SubscriptionState, Token};
pub use via::{Transport, Via};

/// A header field, or one entry of its list, that can be read from text.
pub(crate) trait Field: Sized {
    /// Reads one, and stops behind it.
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, SyntaxFault>;

    /// Reads all of `text` as one.
    fn parse(text: &str) -> Result<Self, SyntaxFault> {
        let mut cursor = Cursor::new(text);
        cursor.skip_space();
        let field = Self::read(&mut cursor)?;
        cursor.end()?;
        Ok(field)
    }

    /// Reads all of `text` as a list with commas, which has one entry at least.
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

/// Entries of one kind of header in one message. The longest of RFC 4475 has 34 of Via.
pub const MAX_LIST: usize = 64;
