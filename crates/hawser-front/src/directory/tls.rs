//! The certificate of a directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::TLS13;
use thiserror::Error;

/// The certificate and key with which a directory proves its name to SIP clients over TLS.
#[derive(Clone, Debug)]
pub struct DirectoryTls(pub(super) Arc<ServerConfig>);

/// Why a certificate and its key can't be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsFileError {
    /// A file can't be read, or holds no PEM of this kind.
    #[error("can't read {what} in {}: {source}", path.display())]
    Pem {
        /// The kind of item that was expected.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The fault.
        source: rustls::pki_types::pem::Error,
    },
    /// Certificate and key do not match, or are of an unknown kind.
    #[error(
        "can't use certificate {} with key {}: {source}", certificate.display(), key.display()
    )]
    Refused {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// The fault.
        source: rustls::Error,
    },
}

impl DirectoryTls {
    /// Reads a chain of certificates and its private key, in PEM.
    ///
    /// # Errors
    /// See [`TlsFileError`].
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, TlsFileError> {
        let pem = |what, path: &Path, source| TlsFileError::Pem {
            what,
            path: path.to_path_buf(),
            source,
        };
        let chain = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|source| pem("the certificate", certificate, source))?;
        let private = PrivateKeyDer::from_pem_file(key)
            .map_err(|source| pem("the private key", key, source))?;
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13])
            .and_then(|builder| {
                builder
                    .with_no_client_auth()
                    .with_single_cert(chain, private)
            });
        let config = config.map_err(|source| TlsFileError::Refused {
            certificate: certificate.to_path_buf(),
            key: key.to_path_buf(),
            source,
        })?;
        Ok(Self(Arc::new(config)))
    }
}
