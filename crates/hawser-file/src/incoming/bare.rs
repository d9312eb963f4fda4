//! Directories and symbolic links: they consist of the offer alone.

use std::sync::Arc;

use tokio::io::AsyncWrite;

use super::{Incoming, Received, blocking};
use crate::claims::Claim;
use crate::error::ReceiveError;
use crate::inbox::Inbox;
use crate::transport::UnorderedRead;
use crate::wire::{Kind, Offer};

impl<R: UnorderedRead + Send, W: AsyncWrite + Unpin + Send> Incoming<'_, R, W> {
    /// Makes an offered directory or symbolic link.
    pub(super) async fn bare(
        &mut self,
        offer: &Offer,
        claim: Claim,
    ) -> Result<Received, ReceiveError> {
        let (inbox, about) = (Arc::clone(self.inbox), offer.clone());
        // The claim moves along: it must outlive the work even if this future is dropped.
        let work = move || {
            let _claim = claim;
            make(&inbox, &about)
        };
        let already_there = blocking(work).await??;
        Ok(self.received(offer, already_there, offer.kind.bare_hash()))
    }
}

/// Makes the entry; returns whether it existed before.
fn make(inbox: &Inbox, offer: &Offer) -> Result<bool, ReceiveError> {
    let Kind::Link(target) = &offer.kind else {
        return inbox.make_directory(offer);
    };
    let directory = inbox.folder(&offer.path)?;
    let made = directory.link(offer, target.as_str(), inbox.replaces())?;
    Ok(!made)
}
