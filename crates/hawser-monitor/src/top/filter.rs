//! The filter of lists.

/// Returns whether `filter`, in small letters, is part of `text`, in letters of any size.
pub(super) fn contains(text: &str, filter: &str) -> bool {
    filter.is_empty() || text.to_lowercase().contains(filter)
}
