//! The registration of this host's name in a directory.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use hawser_config::{Digest, UpConfig};
use hawser_control::{ContactStatus, RegistrationStatus};
use hawser_front::connection::SharedDirector;
use hawser_front::registration::{
    CallSettings, Calling, HostRegistration, OwnLinks, RegistrationSettings, RegistrationView,
};
use hawser_front::root_certificates::RootCertificates;
use hawser_link::links::{Link, usable};
use hawser_net::clock;
use hawser_sip::digest::Algorithm;
use hawser_sip::uri::{SipUri, Uri};
use hawser_types::{HostNameAt, LinkIndex, Rate};
use tokio::sync::watch;
use zeroize::Zeroizing;

use super::links::Links;
use super::password::read_private;
use super::rules::LinkRuleStore;
use crate::setup::Usage;

/// A configured registration, with its settings.
pub(crate) struct Wanted {
    name: HostNameAt,
    user: SipUri,
    directory: SipUri,
    password: Zeroizing<String>,
    weakest: Algorithm,
    roots: RootCertificates,
}

impl Wanted {
    /// Reads the settings, so that mistakes are reported before anything is opened.
    pub(crate) fn read(config: &UpConfig) -> anyhow::Result<Option<Self>> {
        let Some(name) = &config.name else {
            let missing = match config.directory {
                Some(_) => "a directory needs the --name of this host in it",
                None if !config.offer.is_empty() => "--offer needs the --name of this host",
                None => return Ok(None),
            };
            return Err(Usage(missing.to_owned()).into());
        };
        let user = SipUri::new(Some(name.user()), name.domain().clone(), None)
            .map_err(|fault| Usage(format!("--name {name}: {fault}")))?;
        let directory = match &config.directory {
            None => SipUri::new(None, name.domain().clone(), None)?,
            Some(text) => directory(text)?,
        };
        let roots = RootCertificates::read(config.directory_certificates.as_deref());
        Ok(Some(Self {
            name: name.clone(),
            user,
            directory,
            password: password(config)?,
            weakest: match config.directory_digest {
                Digest::Md5 => Algorithm::Md5,
                Digest::Sha256 => Algorithm::Sha256,
            },
            roots: roots.map_err(|error| Usage(format!("directory-certificates: {error}")))?,
        }))
    }

    /// Begins to register, over the links that the user allows and has not left out. Also returns
    /// the calling side, which opens sessions with other hosts; `calls` are its settings.
    pub(crate) fn start(
        &self,
        (links, rules): (&Links, &Arc<LinkRuleStore>),
        chosen: &[String],
        director: SharedDirector,
        calls: CallSettings,
    ) -> anyhow::Result<(OwnRegistration, Calling)> {
        let settings = RegistrationSettings {
            name: self.user.clone(),
            directory: self.directory.clone(),
            password: self.password.clone(),
            weakest: self.weakest,
            roots: self.roots.clone(),
            calls,
        };
        let own = AllowedLinks {
            links: links.clone(),
            rules: Arc::clone(rules),
            chosen: chosen.to_vec(),
            director,
        };
        let (running, calling) = HostRegistration::start(settings, own, links.clone())
            .context("can't register this host")?;
        let shown = ShownRegistration {
            name: self.name.to_string(),
            directory: self.directory.to_string(),
            view: running.view(),
        };
        Ok((OwnRegistration { running, shown }, calling))
    }
}

/// A running registration.
pub(crate) struct OwnRegistration {
    running: HostRegistration,
    shown: ShownRegistration,
}

/// The part of a registration that is shown.
#[derive(Clone)]
pub(crate) struct ShownRegistration {
    name: String,
    directory: String,
    view: watch::Receiver<RegistrationView>,
}

impl OwnRegistration {
    pub(crate) fn shown(&self) -> ShownRegistration {
        self.shown.clone()
    }

    /// Removes this host from the directory.
    pub(crate) async fn end(self) {
        self.running.end(END_PATIENCE).await;
    }
}

impl ShownRegistration {
    pub(crate) fn status(&self) -> RegistrationStatus {
        let view = self.view.borrow().clone();
        let left = view.until.map(|until| until.since(clock::now()));
        let left = left.filter(|left| !left.is_zero());
        let contacts = view.contacts.into_iter();
        RegistrationStatus {
            name: self.name.clone(),
            directory: self.directory.clone(),
            is_registered: left.is_some(),
            left,
            reason: view.problem,
            contacts: contacts
                .map(|(contact, preference)| ContactStatus {
                    contact,
                    preference,
                })
                .collect(),
            other_count: view.others as u64,
        }
    }
}

/// The links that the user allows.
struct AllowedLinks {
    links: Links,
    rules: Arc<LinkRuleStore>,
    chosen: Vec<String>,
    director: SharedDirector,
}

impl OwnLinks for AllowedLinks {
    fn usable(&self) -> Vec<Link> {
        let rules = self.rules.for_director();
        let mut links = usable(&self.links.borrow(), &self.chosen);
        links.retain(|link| rules.place(link).is_some());
        links
    }

    fn rate(&self, link: LinkIndex) -> Rate {
        let report = self.director.report();
        let found = report.links.iter().find(|it| it.link.index == link);
        found.map_or(Rate::ZERO, |link| link.down)
    }
}

fn directory(text: &str) -> Result<SipUri, Usage> {
    let wrong = |problem: &str| {
        Usage(format!(
            "--directory {text}: {problem}; a URI such as sip:example.org, \
             sip:192.0.2.1:5060;transport=tcp or sips:example.org is needed"
        ))
    };
    let uri: Uri = text
        .parse()
        .map_err(|fault: hawser_sip::SyntaxFault| wrong(&fault.to_string()))?;
    let uri = uri
        .as_sip()
        .ok_or_else(|| wrong("the scheme is neither sip nor sips"))?;
    if uri.escaped_user().is_some() {
        return Err(wrong("it names a user"));
    }
    match uri
        .param("transport")
        .map(str::to_ascii_lowercase)
        .as_deref()
    {
        None | Some("udp" | "tcp" | "tls") => Ok(uri.clone()),
        Some(_) => Err(wrong("the transport is none of udp, tcp and tls")),
    }
}

/// Reads the password, which is neither on the command line nor in the configuration.
fn password(config: &UpConfig) -> Result<Zeroizing<String>, Usage> {
    let missing = || {
        let problem = "--name needs a password: in a file (--directory-password-file), or in the \
                       variable HAWSER_DIRECTORY_PASSWORD";
        Usage(problem.to_owned())
    };
    let text = match &config.directory_password_file {
        Some(file) => read_private(file)?,
        None => Zeroizing::new(std::env::var(PASSWORD).map_err(|_| missing())?),
    };
    let mut lines = text.lines();
    match (lines.next(), lines.next()) {
        (Some(line), None) if !line.is_empty() => Ok(Zeroizing::new(line.to_owned())),
        (None, _) | (Some(_), None) => Err(missing()),
        _ => Err(Usage("the password is more than one line".to_owned())),
    }
}

const PASSWORD: &str = "HAWSER_DIRECTORY_PASSWORD";
const END_PATIENCE: Duration = Duration::from_secs(3);
