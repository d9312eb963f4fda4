use crate::links::Link;

/// The links that need a socket of their own: with a single one there is nothing to choose.
pub(super) fn wanted(links: &[Link]) -> impl Iterator<Item = &Link> {
    let usable = links.iter().filter(|link| link.why_unusable().is_none());
    let several = usable.clone().nth(1).is_some();
    usable.filter(move |_| several).take(MAX_LINKS)
}

/// A host of containers may have hundreds of interfaces.
pub(super) const MAX_LINKS: usize = 64;
