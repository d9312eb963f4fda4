//! The filter of lists.

/// Returns whether `filter`, in lower case, is part of `text`, in any case.
pub(super) fn contains(text: &str, filter: &str) -> bool {
    filter.is_empty() || text.to_lowercase().contains(filter)
}
