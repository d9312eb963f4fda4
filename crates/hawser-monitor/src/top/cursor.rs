//! The selected entry of a list whose entries appear, disappear and move.

/// A selection that follows its entry by key, and stays in place when the entry disappears.
#[derive(Debug)]
pub(super) struct Cursor<K> {
    key: Option<K>,
    place: usize,
}

impl<K> Default for Cursor<K> {
    fn default() -> Self {
        Self {
            key: None,
            place: 0,
        }
    }
}

impl<K: Clone + PartialEq> Cursor<K> {
    /// Returns the place of the selected entry among `keys`; `None` for an empty list.
    pub(super) fn place(&self, keys: &[K]) -> Option<usize> {
        let last = keys.len().checked_sub(1)?;
        let found = self
            .key
            .as_ref()
            .and_then(|key| keys.iter().position(|it| it == key));
        Some(found.unwrap_or(self.place.min(last)))
    }

    /// Moves the selection by this many places, as far as there are entries.
    pub(super) fn step(&mut self, keys: &[K], by: isize) {
        if let Some(place) = self.place(keys) {
            self.place = place.saturating_add_signed(by).min(keys.len() - 1);
            self.key = keys.get(self.place).cloned();
        }
    }
}

/// Returns the first of `count` lines to show in `room` lines, so that `place` is visible, in the
/// middle if there are more lines on both sides.
pub(super) fn first_shown(place: usize, count: usize, room: usize) -> usize {
    place
        .saturating_sub(room / 2)
        .min(count.saturating_sub(room))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selection_follows_its_entry() {
        let mut cursor = Cursor::default();
        assert_eq!(cursor.place(&[]), None);
        assert_eq!(cursor.place(&["a", "b"]), Some(0));
        cursor.step(&["a", "b", "c"], 1);
        assert_eq!(cursor.place(&["b", "a"]), Some(0));
        assert_eq!(cursor.place(&["x", "a", "z", "b"]), Some(3));
        // The selected entry is gone.
        assert_eq!(cursor.place(&["x", "y"]), Some(1));
        assert_eq!(cursor.place(&["x"]), Some(0));
        cursor.step(&["x", "y", "z"], isize::MAX);
        assert_eq!(cursor.place(&["x", "y", "z"]), Some(2));
        cursor.step(&["x", "y", "z"], isize::MIN);
        assert_eq!(cursor.place(&["x", "y", "z"]), Some(0));
    }

    #[test]
    fn what_is_selected_is_seen() {
        assert_eq!(first_shown(0, 500, 10), 0);
        assert_eq!(first_shown(250, 500, 10), 245);
        assert_eq!(first_shown(499, 500, 10), 490);
        assert_eq!(first_shown(3, 5, 10), 0);
    }
}
