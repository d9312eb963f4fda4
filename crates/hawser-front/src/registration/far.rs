//! The directory that this host registers with: its addresses and its identity.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hawser_link::links::Link;
use hawser_link::names::Names;
use hawser_sip::fields::Transport;
use hawser_sip::uri::SipUri;
use hawser_types::Host;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::heard::{Heard, Lookup};
use super::task::Task;
use crate::root_certificates::RootCertificates;

/// The directory.
pub(super) struct FarEnd {
    uri: SipUri,
    transport: Transport,
    roots: RootCertificates,
    names: Names,
    found: Vec<IpAddr>,
    /// When the directory's name is looked up again.
    next: Option<Instant>,
    /// The lookup in progress.
    looking: Option<Task>,
    problem: Option<String>,
}

impl FarEnd {
    pub(super) fn new(uri: SipUri, transport: Transport, roots: RootCertificates) -> Self {
        Self {
            uri,
            transport,
            roots,
            names: Names::new(),
            found: Vec::new(),
            next: None,
            looking: None,
            problem: None,
        }
    }

    pub(super) fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Returns the TLS configuration, and the name that the certificate must have.
    pub(super) fn tls(&self) -> Option<(Arc<ClientConfig>, ServerName<'static>)> {
        if self.transport != Transport::Tls {
            return None;
        }
        let name = match &self.uri.host {
            Host::Ip(address) => ServerName::from(*address),
            Host::Name(name) => ServerName::try_from(name.to_string()).ok()?,
        };
        Some((self.roots.tls(), name))
    }

    /// Returns why the directory can't be found, if so.
    pub(super) fn problem(&self) -> Option<String> {
        self.problem.clone()
    }

    /// Looks the name up again soon, since the directory did not answer and may have moved.
    pub(super) fn look_up_again(&mut self) {
        let soon = Instant::now() + LOOK_UP_PAUSE;
        self.next = self.next.map(|next| next.min(soon));
    }

    /// Returns the directory's address for a link; `None` where the link does not lead there.
    pub(super) fn by(&self, link: &Link) -> Option<SocketAddr> {
        let leads = |address: &&IpAddr| link.source_address(**address).is_some();
        let port = self
            .uri
            .port
            .unwrap_or_else(|| self.transport.default_port());
        let address = self.found.iter().find(leads)?;
        Some(SocketAddr::new(*address, port))
    }

    /// Begins to look up the directory's name over the links, if that is due. Sends the result to
    /// `tell`, for [`FarEnd::handle_lookup`]: a lookup may take as long as servers are silent.
    pub(super) fn find(&mut self, links: &[Link], tell: &mpsc::Sender<Heard>) {
        let name = match &self.uri.host {
            Host::Ip(address) => {
                self.found = vec![address.to_canonical()];
                return;
            }
            Host::Name(name) => name.clone(),
        };
        let is_due = self.next.is_none_or(|next| Instant::now() >= next);
        if !is_due || self.looking.is_some() {
            return;
        }
        let (names, links, tell) = (self.names.clone(), links.to_vec(), tell.clone());
        let look = async move {
            let found = names.lookup(&name, &links).await;
            // The receiver is gone if the registration has ended.
            let _ = tell.send(Heard::Lookup(found)).await;
        };
        self.looking = Some(Task::spawn(look));
    }

    /// Stores the result of a lookup.
    pub(super) fn handle_lookup(&mut self, lookup: Lookup) {
        self.looking = None;
        match lookup {
            Ok(found) => {
                self.found = found;
                self.problem = None;
                self.next = Some(Instant::now() + LOOK_UP_EVERY);
            }
            Err(error) => {
                // Earlier addresses may still be valid.
                let host = &self.uri.host;
                self.problem = self.found.is_empty().then(|| format!("{host}: {error}"));
                self.next = Some(Instant::now() + LOOK_UP_PAUSE);
            }
        }
    }
}

const LOOK_UP_EVERY: Duration = Duration::from_secs(600);
const LOOK_UP_PAUSE: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lookup_runs_in_the_background() {
        let uri: hawser_sip::uri::Uri = "sip:localhost:5070".parse().unwrap();
        let uri = uri.as_sip().unwrap().clone();
        let roots = RootCertificates::read(None).unwrap();
        let mut far = FarEnd::new(uri, Transport::Udp, roots);
        let (tell, mut heard) = mpsc::channel(4);
        far.find(&[], &tell);
        // The name is looked up once, and its address is unknown until the answer.
        far.find(&[], &tell);
        assert!(far.found.is_empty());
        let Some(Heard::Lookup(lookup)) = heard.recv().await else {
            panic!("nothing but the lookup can be heard");
        };
        far.handle_lookup(lookup);
        assert!(far.found.iter().all(IpAddr::is_loopback), "{:?}", far.found);
        assert!(!far.found.is_empty(), "{:?}", far.problem);
        assert!(heard.try_recv().is_err());
        // The address is known for a while.
        far.find(&[], &tell);
        assert!(far.looking.is_none());
    }
}
