use hawser_session::Side;

use crate::network::End;

/// The place of a side in arrays of two.
pub(super) const fn place(side: Side) -> usize {
    match side {
        Side::Gateway => 0,
        Side::Client => 1,
    }
}

pub(super) const fn side_of(end: End) -> Side {
    if end.client {
        Side::Client
    } else {
        Side::Gateway
    }
}

pub(super) const fn other(side: Side) -> Side {
    match side {
        Side::Gateway => Side::Client,
        Side::Client => Side::Gateway,
    }
}
