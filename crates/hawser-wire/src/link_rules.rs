//! Rules of a client's user for one link, for what the gateway sends.

use bytes::{Buf, Bytes, BytesMut};
use hawser_types::{LimitedBy, Permission};

use crate::association::take_link;
use crate::varint::take_varint_u32;
use crate::{Malformed, MalformedReason, put_varint, take_varint};

/// The user's rules for one link. Fractions are integers in small units, so that all values are
/// ordered and finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkRulesEntry {
    /// The client's number for the link, as in [`Hello::link`](crate::Hello) and in joins.
    pub link: u32,
    /// Permission of the gateway to send over the link. [`LimitedBy::Signal`] only to a gateway
    /// that has said [`Hello::knows_signals`](crate::Hello::knows_signals).
    pub permission: Permission,
    /// Weight in thousandths, from 1 to [`LinkRulesEntry::MAX_WEIGHT`].
    pub weight: u32,
    /// Price of a gigabyte in millionths of the user's unit; at most [`LinkRulesEntry::MAX_PRICE`].
    pub price: u64,
    /// Weight of the price against throughput, in thousandths, at most
    /// [`LinkRulesEntry::MAX_PRICE_WEIGHT`].
    pub price_weight: u32,
}

impl LinkRulesEntry {
    /// Maximum weight: a thousand times the default.
    pub const MAX_WEIGHT: u32 = 1_000_000;
    /// Maximum price: a million for a gigabyte.
    pub const MAX_PRICE: u64 = 1_000_000_000_000;
    /// Maximum price weight: only the price counts.
    pub const MAX_PRICE_WEIGHT: u32 = 1000;

    pub(crate) fn encode(&self, out: &mut BytesMut) {
        put_varint(out, u64::from(self.link));
        put_varint(out, permission_code(self.permission));
        put_varint(out, u64::from(self.weight));
        put_varint(out, self.price);
        put_varint(out, u64::from(self.price_weight));
    }

    fn take(input: &mut Bytes) -> Result<Self, Malformed> {
        let entry = Self {
            link: take_link(input, WHAT)?,
            permission: permission_from_code(take_varint(input, WHAT)?)?,
            weight: take_varint_u32(input, WHAT)?,
            price: take_varint(input, WHAT)?,
            price_weight: take_varint_u32(input, WHAT)?,
        };
        let is_sound = (1..=Self::MAX_WEIGHT).contains(&entry.weight)
            && entry.price <= Self::MAX_PRICE
            && entry.price_weight <= Self::MAX_PRICE_WEIGHT;
        if is_sound {
            Ok(entry)
        } else {
            Err(Malformed::new(WHAT, MalformedReason::BadValue))
        }
    }
}

fn permission_code(permission: Permission) -> u64 {
    match permission {
        Permission::Allowed => 0,
        Permission::Preferred => 1,
        Permission::Reserve(LimitedBy::Choice) => 2,
        Permission::Reserve(LimitedBy::Allowance) => 3,
        // A link is never forbidden for its signal.
        Permission::Forbidden(LimitedBy::Choice | LimitedBy::Signal) => 4,
        Permission::Forbidden(LimitedBy::Allowance) => 5,
        Permission::Reserve(LimitedBy::Signal) => 6,
    }
}

fn permission_from_code(code: u64) -> Result<Permission, Malformed> {
    Ok(match code {
        0 => Permission::Allowed,
        1 => Permission::Preferred,
        2 => Permission::Reserve(LimitedBy::Choice),
        3 => Permission::Reserve(LimitedBy::Allowance),
        4 => Permission::Forbidden(LimitedBy::Choice),
        5 => Permission::Forbidden(LimitedBy::Allowance),
        6 => Permission::Reserve(LimitedBy::Signal),
        _ => return Err(Malformed::new(WHAT, MalformedReason::BadValue)),
    })
}

/// Reads entries up to the end of the value.
pub(crate) fn take_link_rules(input: &mut Bytes) -> Result<Vec<LinkRulesEntry>, Malformed> {
    let mut list = Vec::new();
    while input.has_remaining() {
        if list.len() == MAX_LINK_RULES {
            return Err(Malformed::new(WHAT, MalformedReason::TooLarge));
        }
        list.push(LinkRulesEntry::take(input)?);
    }
    Ok(list)
}

const WHAT: &str = "link rules";
/// Maximum number of links in one command.
pub const MAX_LINK_RULES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(values: [u64; 5]) -> Bytes {
        let mut out = BytesMut::new();
        values.iter().for_each(|value| put_varint(&mut out, *value));
        out.freeze()
    }

    #[test]
    fn values_outside_their_range_are_refused() {
        let sound = [7, 5, 1000, 2_500_000, 500];
        let entry = LinkRulesEntry {
            link: 7,
            permission: Permission::Forbidden(LimitedBy::Allowance),
            weight: 1000,
            price: 2_500_000,
            price_weight: 500,
        };
        assert_eq!(take_link_rules(&mut bytes(sound)), Ok(vec![entry]));
        for (place, value) in [
            (1, 7),
            (2, 0),
            (2, u64::from(LinkRulesEntry::MAX_WEIGHT) + 1),
            (3, LinkRulesEntry::MAX_PRICE + 1),
            (4, u64::from(LinkRulesEntry::MAX_PRICE_WEIGHT) + 1),
        ] {
            let mut wrong = sound;
            wrong[place] = value;
            let error = take_link_rules(&mut bytes(wrong)).unwrap_err();
            assert_eq!(error.reason, MalformedReason::BadValue, "{wrong:?}");
        }
    }

    #[test]
    fn each_permission_has_the_number_of_the_specification() {
        for (code, permission) in [
            (0, Permission::Allowed),
            (1, Permission::Preferred),
            (2, Permission::Reserve(LimitedBy::Choice)),
            (3, Permission::Reserve(LimitedBy::Allowance)),
            (4, Permission::Forbidden(LimitedBy::Choice)),
            (5, Permission::Forbidden(LimitedBy::Allowance)),
            (6, Permission::Reserve(LimitedBy::Signal)),
        ] {
            let encoded = bytes([7, code, 1000, 0, 0]);
            let read = take_link_rules(&mut encoded.clone()).unwrap();
            assert_eq!(read[0].permission, permission);
            let mut out = BytesMut::new();
            read[0].encode(&mut out);
            assert_eq!(out, encoded);
        }
    }

    #[test]
    fn more_links_than_allowed_are_refused() {
        let one = bytes([7, 0, 1000, 0, 0]);
        let mut many = Bytes::from(one.repeat(MAX_LINK_RULES));
        assert_eq!(take_link_rules(&mut many).map(|list| list.len()), Ok(64));
        let mut more = Bytes::from(one.repeat(MAX_LINK_RULES + 1));
        let error = take_link_rules(&mut more).unwrap_err();
        assert_eq!(error.reason, MalformedReason::TooLarge);
    }
}
