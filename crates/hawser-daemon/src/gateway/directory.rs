//! The SIP directory that runs beside a gateway.

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hawser_config::{Digest, DirectoryConfig};
use hawser_control::{BindingStatus, DirectoryStatus};
use hawser_front::directory::{
    BindingTable, DirectoryLimits, DirectoryServer, DirectorySettings, DirectoryTls, UserFile,
};
use hawser_front::gateway::DestinationPolicy;
use hawser_keys::store::{StateDir, StateFile};
use hawser_sip::digest::Algorithm;
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use tokio::task::spawn_blocking;

/// A directory without its ports and its table, which another process may still have.
pub(crate) struct PlannedDirectory {
    config: DirectoryConfig,
    users: UserFile,
    tls: Option<DirectoryTls>,
    policy: DestinationPolicy,
}

impl PlannedDirectory {
    /// Reads the users, the certificate and its key; returns `None` if no directory is configured.
    /// `policy` decides which destinations users' contacts may have.
    pub(crate) fn read(
        config: DirectoryConfig,
        policy: DestinationPolicy,
    ) -> anyhow::Result<Option<Self>> {
        if config.domains.is_empty() {
            return Ok(None);
        }
        let file = config.users_file.as_deref();
        let file = file.context("a directory needs a users-file")?;
        let users = UserFile::open(file, &config.domains)?;
        if users.count() == 0 {
            tracing::warn!(file = %file.display(), "no host can register: the file lists no users");
        }
        let tls = config
            .certificate
            .as_deref()
            .zip(config.private_key.as_deref());
        let tls = tls.map(|(certificate, key)| DirectoryTls::read(certificate, key));
        let tls = tls.transpose()?;
        Ok(Some(Self {
            config,
            users,
            tls,
            policy,
        }))
    }

    /// Opens the directory's ports, with the bindings in `state`.
    async fn serve(&self, state: &StateDir) -> anyhow::Result<DirectoryServer> {
        let config = &self.config;
        let tls = self.tls.clone();
        let server = DirectoryServer::start(DirectorySettings {
            domains: config.domains.clone(),
            listen: config.listen.clone(),
            tls: tls.map(|tls| (config.tls_listen.clone(), tls)),
            users: self.users.clone(),
            table: BindingTable::open(&state.file(TABLE))?,
            seed: seed(state)?,
            digests: config.digests.iter().copied().map(algorithm).collect(),
            limits: DirectoryLimits {
                addresses: config.limits.addresses as usize,
                requests_per_second: config.limits.requests_per_second,
                connections: config.limits.connections as usize,
            },
            policy: self.policy.clone(),
        })?;
        let bound = server.bound();
        tracing::info!(listen = ?bound.listen, tls = ?bound.tls, "the directory is ready");
        Ok(server)
    }
}

/// A directory that runs, unless another process has taken over.
pub(crate) struct OwnDirectory {
    /// The users and the certificate as they were read at the start, so that the directory can run
    /// again even if the files have become invalid.
    plan: PlannedDirectory,
    state: StateDir,
    server: Mutex<Option<DirectoryServer>>,
}

impl OwnDirectory {
    /// Opens the directory's ports, with the bindings in `state`.
    pub(crate) async fn start(plan: PlannedDirectory, state: &StateDir) -> anyhow::Result<Self> {
        let server = plan.serve(state).await?;
        Ok(Self {
            plan,
            state: state.clone(),
            server: Mutex::new(Some(server)),
        })
    }

    /// Closes the directory's ports and table, so that another process can open them, until
    /// [`Self::resume`].
    pub(crate) async fn suspend(&self) {
        let server = self.server().take();
        // Dropping the server waits for a thread.
        let _ = spawn_blocking(move || drop(server)).await;
    }

    /// Opens the directory's ports and table again after [`Self::suspend`].
    pub(crate) async fn resume(&self) {
        match self.plan.serve(&self.state).await {
            Ok(server) => *self.server() = Some(server),
            Err(error) => tracing::error!("can't resume the directory: {error:#}"),
        }
    }

    fn server(&self) -> MutexGuard<'_, Option<DirectoryServer>> {
        self.server.lock()
    }

    /// Returns the directory's status, with at most `most` bindings; `None` while it does not run.
    pub(crate) fn status(&self, most: usize) -> Option<DirectoryStatus> {
        let server = self.server();
        let server = server.as_ref()?;
        let view = server.view(most);
        let bound = server.bound();
        let bindings = view.listed.into_iter().map(|binding| BindingStatus {
            address: binding.address,
            contact: binding.contact,
            preference: binding.q,
            left: binding.left,
            age: binding.age,
        });
        let domains = self.plan.config.domains.iter();
        Some(DirectoryStatus {
            domains: domains.map(ToString::to_string).collect(),
            listen: bound.listen.clone(),
            tls_listen: bound.tls.clone(),
            user_count: view.users as u64,
            address_count: view.addresses as u64,
            binding_count: view.bindings as u64,
            connection_count: view.connections as u64,
            bindings: bindings.collect(),
        })
    }

    /// Returns the directory's counters since its start; `None` while it does not run.
    pub(crate) fn counts(&self) -> Option<Counts> {
        let counts = self.server().as_ref()?.counts();
        Some(Counts {
            requests: counts.requests,
            over_limit: counts.over_limit,
            malformed: counts.malformed,
            not_admitted: counts.not_admitted,
            registers: counts.registers,
            subscribes: counts.subscribes,
            forwarded: counts.forwarded,
            connections_refused: counts.streams_refused,
        })
    }
}

/// The counters, in the form in which they are listed.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Counts {
    requests: u64,
    over_limit: u64,
    malformed: u64,
    not_admitted: u64,
    registers: u64,
    subscribes: u64,
    forwarded: u64,
    connections_refused: u64,
}

/// Returns the seed of the key that seals calls' routes. Kept in a file: calls outlive a restart.
fn seed(state: &StateDir) -> anyhow::Result<[u8; 32]> {
    let secret = state.secret(SEED)?;
    let bytes = URL_SAFE_NO_PAD.decode(secret.as_bytes()).ok();
    let seed = bytes.and_then(|bytes| bytes.try_into().ok());
    seed.with_context(|| format!("{} holds no valid key", state.file(SEED).display()))
}

fn algorithm(digest: Digest) -> Algorithm {
    match digest {
        Digest::Md5 => Algorithm::Md5,
        Digest::Sha256 => Algorithm::Sha256,
    }
}

const TABLE: &str = StateFile::Directory.name();
const SEED: &str = StateFile::DirectoryKey.name();
