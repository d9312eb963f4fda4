//! The gateway of `hawser up`.

use std::sync::Arc;
use std::time::Duration;

use hawser_net::client::Client;

use crate::proxy::links::Links;
use crate::proxy::rules::{Keeping, LinkRuleStore};
use crate::proxy::session::Target;
use crate::setup::Setup;

/// The gateway that this machine has enrolled with.
pub(super) struct Enrolled {
    pub(super) client: Arc<Client>,
    keeping: Keeping,
    /// The gateway's key.
    pub(super) peer: String,
}

impl Enrolled {
    /// Connects to the gateway; waits for the enrolment, if one is needed.
    pub(super) async fn connect(
        target: Target,
        setup: &Setup,
        links: &Links,
        rules: &Arc<LinkRuleStore>,
    ) -> anyhow::Result<Self> {
        let (peer, enrolling) = (target.config.gateway.to_string(), !target.known);
        let client = Arc::new(target.connect(&setup.state, links.clone()).await?);
        if enrolling {
            tracing::info!("enrolled: from now on `hawser up` needs no --gateway");
        }
        Ok(Self {
            keeping: rules.keep(&client, links),
            client,
            peer,
        })
    }

    /// Ends the session in order, within `patience`.
    pub(super) async fn end(self, patience: Duration) {
        self.keeping.finish(&self.client).await;
        self.client.close(patience).await;
    }
}
