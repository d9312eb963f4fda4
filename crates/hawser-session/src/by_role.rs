use std::ops::{Index, IndexMut};

use hawser_wire::ChannelRole;

/// One value for bulk and one for express.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByRole<T>([T; 2]);

impl<T> ByRole<T> {
    /// Returns both values, bulk first.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }

    /// Returns both values, to change them, bulk first.
    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.0.iter_mut()
    }
}

impl<T> Index<ChannelRole> for ByRole<T> {
    type Output = T;

    fn index(&self, role: ChannelRole) -> &T {
        &self.0[slot(role)]
    }
}

impl<T> IndexMut<ChannelRole> for ByRole<T> {
    fn index_mut(&mut self, role: ChannelRole) -> &mut T {
        &mut self.0[slot(role)]
    }
}

/// Returns the place of a role in arrays of two.
pub(crate) const fn slot(role: ChannelRole) -> usize {
    match role {
        ChannelRole::Bulk => 0,
        ChannelRole::Express => 1,
    }
}
