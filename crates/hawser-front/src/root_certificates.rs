//! Root certificates that authenticate servers by name.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore};

/// Certificate authorities that this host trusts to identify servers, over TLS 1.3 only.
#[derive(Clone, Debug)]
pub struct RootCertificates(Arc<ClientConfig>);

impl RootCertificates {
    /// Reads the certificates in a PEM file; `None`: those of the system.
    ///
    /// # Errors
    /// The file can't be read or has no certificate. A system without any is no error: no server is
    /// trusted then.
    pub fn read(file: Option<&Path>) -> std::io::Result<Self> {
        let mut roots = RootCertStore::empty();
        match file {
            Some(path) => {
                let wrong = |error: rustls::pki_types::pem::Error| {
                    std::io::Error::other(format!("{}: {error}", path.display()))
                };
                let all = CertificateDer::pem_file_iter(path).map_err(wrong)?;
                for certificate in all {
                    let added = roots.add(certificate.map_err(wrong)?);
                    added.map_err(std::io::Error::other)?;
                }
                if roots.is_empty() {
                    let problem = format!("{} holds no certificate", path.display());
                    return Err(std::io::Error::other(problem));
                }
            }
            None => {
                let system = SYSTEM_ROOTS.iter().find(|path| Path::new(path).exists());
                let all = system.and_then(|path| CertificateDer::pem_file_iter(path).ok());
                roots.add_parsable_certificates(all.into_iter().flatten().flatten());
            }
        }
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13])
            .map_err(std::io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }

    /// Returns the configuration for TLS.
    pub(crate) fn tls(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.0)
    }
}

/// Files in which distributions keep the trusted certificates.
const SYSTEM_ROOTS: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];
