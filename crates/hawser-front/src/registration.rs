//! Registers this host with a directory, over whichever of its links leads there, and negotiates
//! sessions with other hosts by name.
//!
//! `hawser_sip::agent::HostAgent` decides what to say and from where; this module has the sockets.

mod calling;
mod far;
mod heard;
mod task;
mod ways;

use std::sync::Arc;
use std::time::Duration;

use hawser_link::links::Link;
use hawser_net::clock;
use hawser_sip::agent::{AnnouncerConfig, HostAgent, RegistrationEvent};
use hawser_sip::digest::{Algorithm, Answerer};
use hawser_sip::fields::Transport;
use hawser_sip::uri::SipUri;
use hawser_types::{Instant, LinkIndex, Rate};
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use zeroize::Zeroizing;

use crate::root_certificates::RootCertificates;
pub use calling::{Ask, CallSettings, Calling};
use calling::{Places, Signalling};
use far::FarEnd;
use heard::Heard;
use ways::Ways;

/// Settings of a registration.
pub struct RegistrationSettings {
    /// The name of this host, such as `sip:alice@example.org`.
    pub name: SipUri,
    /// The directory, such as `sip:example.org;transport=tcp`.
    pub directory: SipUri,
    /// The password of the name's user.
    pub password: Zeroizing<String>,
    /// The weakest hash with which the password may be proved.
    pub weakest: Algorithm,
    /// Certificates that authenticate the directory, for TLS.
    pub roots: RootCertificates,
    /// How other hosts reach this one.
    pub calls: CallSettings,
}

/// The links that may be used now.
pub trait OwnLinks: Send + 'static {
    /// Returns the links that the user's rules and choice allow.
    fn usable(&self) -> Vec<Link>;

    /// Returns the rate of a link towards this host, as far as it is known.
    fn rate(&self, link: LinkIndex) -> Rate;
}

/// A registration that is renewed for as long as this lives.
pub struct HostRegistration {
    shown: watch::Receiver<RegistrationView>,
    close: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// The state of a registration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegistrationView {
    /// When the directory's binding expires; `None` without a binding.
    pub until: Option<Instant>,
    /// Why the last attempt failed; `None` if it did not.
    pub problem: Option<String>,
    /// The registered contacts, with their shares in thousandths.
    pub contacts: Vec<(String, u16)>,
    /// Contacts that other hosts have registered under the same name.
    pub others: usize,
}

impl HostRegistration {
    /// Begins to register, and keeps renewing. `changes` signals changes of links. The returned
    /// [`Calling`] opens sessions with other hosts and reports on them.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn start(
        settings: RegistrationSettings,
        links: impl OwnLinks,
        changes: watch::Receiver<Arc<Vec<Link>>>,
    ) -> std::io::Result<(Self, Calling)> {
        let mut seed = [0; 32];
        SystemRandom::new()
            .fill(&mut seed)
            .map_err(|_| std::io::Error::other("the system has no randomness"))?;
        let transport = transport(&settings.directory);
        let config = AnnouncerConfig {
            name: settings.name.clone(),
            transport: transport.clone(),
            lifetime: LIFETIME,
        };
        let user = settings.name.user().unwrap_or_default();
        let answerer = Answerer::new(&user, &settings.password, settings.weakest);
        let (show, shown) = watch::channel(RegistrationView::default());
        let (close, closed) = oneshot::channel();
        let (sender, heard) = mpsc::channel(MAX_HEARD);
        let far = FarEnd::new(settings.directory, transport, settings.roots);
        let CallSettings { keys, number, port } = settings.calls;
        let (calling, signalling) = Calling::new();
        let run = Run {
            agent: HostAgent::new(config, Some(answerer), keys, number, &seed),
            ways: Ways::new(far, sender),
            places: Places::new(port),
            signalling,
            links,
            show,
        };
        let running = Self {
            shown,
            close,
            task: tokio::spawn(run.run(changes, heard, closed)),
        };
        Ok((running, calling))
    }

    /// Returns the state of the registration, as it changes.
    #[must_use]
    pub fn view(&self) -> watch::Receiver<RegistrationView> {
        self.shown.clone()
    }

    /// Removes the registration; waits at most `patience` until the directory has removed it.
    pub async fn end(self, patience: Duration) {
        drop(self.close);
        let abort = self.task.abort_handle();
        if timeout(patience, self.task).await.is_err() {
            abort.abort();
        }
    }
}

struct Run<L> {
    agent: HostAgent,
    ways: Ways,
    /// Addresses at which other hosts reach this one.
    places: Places,
    signalling: Signalling,
    links: L,
    show: watch::Sender<RegistrationView>,
}

impl<L: OwnLinks> Run<L> {
    async fn run(
        mut self,
        mut changes: watch::Receiver<Arc<Vec<Link>>>,
        mut heard: mpsc::Receiver<Heard>,
        mut closed: oneshot::Receiver<()>,
    ) {
        let mut look = interval(RATES_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_closing = false;
        loop {
            let due = self.agent.poll_timeout();
            let due = due.map(|at| at.since(clock::now()));
            tokio::select! {
                _ = &mut closed, if !is_closing => {
                    is_closing = true;
                    self.agent.close(clock::now());
                }
                Ok(()) = changes.changed() => self.follow(),
                _ = look.tick() => self.follow(),
                Some(heard) = heard.recv() => self.hear(heard),
                ask = self.signalling.asked() => match ask {
                    Ask::Call(peer) => self.agent.call(clock::now(), &peer),
                    Ask::CallAnew(peer) => self.agent.call_anew(clock::now(), &peer),
                    Ask::HangUp(peer) => self.agent.hang_up(clock::now(), &peer),
                },
                () = sleep(due.unwrap_or(RATES_EVERY)) => {
                    self.agent.handle_timeout(clock::now());
                }
            }
            // The other hosts learn this host's addresses if these have changed.
            let agent = &self.agent;
            if let Some(candidates) = self.places.poll_change(|flow| agent.seen(flow)) {
                self.agent.set_candidates(clock::now(), candidates);
            }
            self.send();
            self.signalling.tell(&mut self.agent).await;
            if is_closing && self.agent.is_closed() {
                return;
            }
        }
    }

    /// Updates the ways and addresses for the present links.
    fn follow(&mut self) {
        let links = self.links.usable();
        let mut addresses = self.ways.follow(&links);
        for (link, address) in &mut addresses {
            address.rate = self.links.rate(*link);
        }
        let rates = links.iter().map(|link| self.links.rate(link.index));
        self.places.follow(&links, rates.collect(), &addresses);
        let addresses = addresses.into_iter().map(|(_, address)| address);
        self.agent.set_addresses(clock::now(), addresses.collect());
        if let Some(problem) = self.ways.problem() {
            self.show.send_if_modified(|view| {
                let is_news = view.problem.as_ref() != Some(&problem);
                view.problem = Some(problem);
                is_news
            });
        }
    }

    fn hear(&mut self, heard: Heard) {
        let now = clock::now();
        match heard {
            Heard::Message(flow, message) => self.agent.handle_message(now, flow, *message),
            Heard::Failed(flow) => {
                self.ways.close(flow);
                self.agent.handle_flow_failure(now, flow);
            }
            Heard::Lookup(lookup) => {
                self.ways.handle_lookup(lookup);
                self.follow();
            }
        }
    }

    fn send(&mut self) {
        while let Some(transmit) = self.agent.poll_transmit() {
            if !self.ways.send(transmit.flow, &transmit.bytes) {
                self.agent.handle_flow_failure(clock::now(), transmit.flow);
            }
        }
        while let Some(event) = self.agent.poll_event() {
            self.tell(event);
        }
        let contacts = self.agent.contacts().iter();
        let contacts: Vec<_> = contacts
            .map(|it| (it.uri.to_string(), it.q.thousandths()))
            .collect();
        self.show.send_if_modified(|view| {
            let is_news = view.contacts != contacts;
            view.contacts = contacts;
            is_news
        });
    }

    fn tell(&mut self, event: RegistrationEvent) {
        self.show.send_modify(|view| match event {
            RegistrationEvent::Registered { until, bindings } => {
                if view.until.is_none() {
                    tracing::info!("registered with the directory");
                }
                view.until = Some(until);
                view.problem = None;
                view.others = bindings.len().saturating_sub(self.agent.contacts().len());
            }
            RegistrationEvent::Removed => view.until = None,
            RegistrationEvent::Failed { fault, .. } => {
                let problem = fault.to_string();
                if view.problem.as_ref() != Some(&problem) {
                    tracing::warn!(%problem, "can't register with the directory");
                }
                // The last binding remains valid until it expires.
                view.until = view.until.filter(|until| *until > clock::now());
                view.problem = Some(problem);
                self.ways.close_streams();
                self.ways.look_up_again();
            }
        });
    }
}

/// Returns the transport to a directory, by its URI.
fn transport(directory: &SipUri) -> Transport {
    match directory.param("transport") {
        _ if directory.is_secure => Transport::Tls,
        Some(name) if name.eq_ignore_ascii_case("tls") => Transport::Tls,
        Some(name) if name.eq_ignore_ascii_case("tcp") => Transport::Tcp,
        _ => Transport::Udp,
    }
}

/// Lifetime of a registration: a host that has vanished is called for no longer than this.
const LIFETIME: Duration = Duration::from_secs(600);
const RATES_EVERY: Duration = Duration::from_secs(5);
const MAX_HEARD: usize = 64;
