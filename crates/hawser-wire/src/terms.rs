//! Rules of a client's user for one link, for what the gateway sends.

use bytes::{Buf, Bytes, BytesMut};

use crate::association::take_link;
use crate::varint::take_varint_u32;
use crate::{Malformed, MalformedReason, put_varint, take_varint};

/// The user's rules for one link. Fractions are integers in small units, so that all values are
/// ordered and finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkTerms {
    /// The client's number for the link, as in [`Hello::link`](crate::Hello) and in joins.
    pub link: u32,
    /// Use of the link.
    pub usage: LinkUse,
    /// Weight in thousandths, from 1 to [`LinkTerms::MAX_WEIGHT`].
    pub weight: u32,
    /// Price of a gigabyte in millionths of the user's unit; at most [`LinkTerms::MAX_PRICE`].
    pub price: u64,
    /// Weight of the price against throughput, in thousandths, at most
    /// [`LinkTerms::MAX_PRICE_WEIGHT`].
    pub price_weight: u32,
}

/// Use of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkUse {
    /// Like any other.
    Normal,
    /// Before the others.
    Prefer,
    /// Only while no other link works: by the user's choice.
    Backup,
    /// Only while no other link works: its allowance is used up.
    Spare,
    /// Never: by the user's choice.
    Never,
    /// Never: its allowance is used up.
    Spent,
}

impl LinkTerms {
    /// Maximum weight: a thousand times the default.
    pub const MAX_WEIGHT: u32 = 1_000_000;
    /// Maximum price: a million for a gigabyte.
    pub const MAX_PRICE: u64 = 1_000_000_000_000;
    /// Maximum price weight: only the price counts.
    pub const MAX_PRICE_WEIGHT: u32 = 1000;

    pub(crate) fn encode(&self, out: &mut BytesMut) {
        put_varint(out, u64::from(self.link));
        put_varint(out, self.usage as u64);
        put_varint(out, u64::from(self.weight));
        put_varint(out, self.price);
        put_varint(out, u64::from(self.price_weight));
    }

    fn take(input: &mut Bytes) -> Result<Self, Malformed> {
        let terms = Self {
            link: take_link(input, WHAT)?,
            usage: LinkUse::read(take_varint(input, WHAT)?)?,
            weight: take_varint_u32(input, WHAT)?,
            price: take_varint(input, WHAT)?,
            price_weight: take_varint_u32(input, WHAT)?,
        };
        let is_sound = (1..=Self::MAX_WEIGHT).contains(&terms.weight)
            && terms.price <= Self::MAX_PRICE
            && terms.price_weight <= Self::MAX_PRICE_WEIGHT;
        match is_sound {
            true => Ok(terms),
            false => Err(Malformed::new(WHAT, MalformedReason::BadValue)),
        }
    }
}

impl LinkUse {
    fn read(value: u64) -> Result<Self, Malformed> {
        let known = [
            Self::Normal,
            Self::Prefer,
            Self::Backup,
            Self::Spare,
            Self::Never,
            Self::Spent,
        ];
        let found = known.into_iter().find(|usage| *usage as u64 == value);
        found.ok_or(Malformed::new(WHAT, MalformedReason::BadValue))
    }
}

/// Reads entries up to the end of the value.
pub(crate) fn take_terms(input: &mut Bytes) -> Result<Vec<LinkTerms>, Malformed> {
    let mut list = Vec::new();
    while input.has_remaining() {
        if list.len() == MAX_LINK_TERMS {
            return Err(Malformed::new(WHAT, MalformedReason::TooLarge));
        }
        list.push(LinkTerms::take(input)?);
    }
    Ok(list)
}

const WHAT: &str = "link terms";
/// Maximum number of links in one command.
pub const MAX_LINK_TERMS: usize = 64;

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
        let terms = LinkTerms {
            link: 7,
            usage: LinkUse::Spent,
            weight: 1000,
            price: 2_500_000,
            price_weight: 500,
        };
        assert_eq!(take_terms(&mut bytes(sound)), Ok(vec![terms]));
        for (place, value) in [
            (1, 6),
            (2, 0),
            (2, u64::from(LinkTerms::MAX_WEIGHT) + 1),
            (3, LinkTerms::MAX_PRICE + 1),
            (4, u64::from(LinkTerms::MAX_PRICE_WEIGHT) + 1),
        ] {
            let mut wrong = sound;
            wrong[place] = value;
            let error = take_terms(&mut bytes(wrong)).unwrap_err();
            assert_eq!(error.reason, MalformedReason::BadValue, "{wrong:?}");
        }
    }

    #[test]
    fn more_links_than_allowed_are_refused() {
        let one = bytes([7, 0, 1000, 0, 0]);
        let mut many = Bytes::from(one.repeat(MAX_LINK_TERMS));
        assert_eq!(take_terms(&mut many).map(|list| list.len()), Ok(64));
        let mut more = Bytes::from(one.repeat(MAX_LINK_TERMS + 1));
        let error = take_terms(&mut more).unwrap_err();
        assert_eq!(error.reason, MalformedReason::TooLarge);
    }
}
