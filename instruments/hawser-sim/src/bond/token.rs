use hawser_session::Side;
use hawser_types::ChannelId;

use super::side::place;

/// The purpose of an alarm of the network.
#[derive(Clone, Copy, Debug)]
pub(super) enum Token {
    Timer(Side),
    Hold(Side, ChannelId),
    Keeper(usize),
    /// The timer of an association.
    Association(Side),
    /// Another association may begin.
    BeginAssociation,
    Owner(u64),
}

impl Token {
    pub(super) fn pack(self) -> u64 {
        let (kind, value) = match self {
            Self::Timer(side) => (0, place(side) as u64),
            Self::Hold(side, id) => (1 + place(side) as u64, u64::from(id.value())),
            Self::Keeper(link) => (3, link as u64),
            Self::Owner(token) => (4, token),
            Self::Association(side) => (5, place(side) as u64),
            Self::BeginAssociation => (6, 0),
        };
        kind << 56 | value
    }

    pub(super) fn unpack(packed: u64) -> Self {
        let value = packed & ((1 << 56) - 1);
        let side = |gateway| if gateway { Side::Gateway } else { Side::Client };
        match packed >> 56 {
            0 => Self::Timer(side(value == 0)),
            kind @ (1 | 2) => Self::Hold(side(kind == 1), ChannelId::new(value as u32)),
            3 => Self::Keeper(value as usize),
            5 => Self::Association(side(value == 0)),
            6 => Self::BeginAssociation,
            _ => Self::Owner(value),
        }
    }
}
