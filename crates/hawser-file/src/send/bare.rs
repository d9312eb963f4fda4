//! Directories and symbolic links: they consist of the offer alone.

use tokio::io::{AsyncRead, AsyncWrite};

use super::{Outgoing, Sent};
use crate::error::SendError;
use crate::wire::{Answer, Fault, Offer};

impl<S: AsyncRead + AsyncWrite + Send> Outgoing<'_, S> {
    /// Sends a directory or a link.
    pub(super) async fn bare(&mut self, offer: &Offer) -> Result<Sent, SendError> {
        self.progress.begin(&offer.path, Some(offer.size));
        self.offer(offer).await?;
        match self.answers.next().await? {
            Answer::Finished {
                already_there,
                hash,
            } => {
                let ours = Some(offer.kind.bare_hash());
                self.finished(already_there, hash, ours).await
            }
            Answer::Refused { refusal, detail } => Err(SendError::Refused { refusal, detail }),
            Answer::Want(_) => Err(Fault::Unexpected.into()),
        }
    }
}
