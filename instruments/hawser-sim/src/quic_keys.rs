//! Keys for QUIC connections (quinn) between programs of a lab: no other host can answer.

use std::sync::Arc;

use anyhow::Context as _;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring as provider};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{DigitallySignedStruct, SignatureScheme};

/// What the end that listens has.
///
/// # Errors
/// As the libraries have them; there is no reason for any.
pub fn server() -> anyhow::Result<QuicServerConfig> {
    let key = [&PKCS8_PREFIX[..], &[7; 32]].concat();
    let key = provider::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(key))?;
    let public = key.public_key().context("a key without its public half")?;
    let public = CertificateDer::from(public.to_vec());
    let certified = Arc::new(CertifiedKey::new(vec![public], key));
    let config = rustls::ServerConfig::builder_with_provider(crypto_provider())
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(certified)));
    Ok(QuicServerConfig::try_from(config)?)
}

/// What the end that connects has.
///
/// # Errors
/// As for [`server`].
pub fn client() -> anyhow::Result<QuicClientConfig> {
    let config = rustls::ClientConfig::builder_with_provider(crypto_provider())
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    Ok(QuicClientConfig::try_from(config)?)
}

/// The suite that sealed associations use in the lab comes first.
fn crypto_provider() -> Arc<CryptoProvider> {
    let mut provider = provider::default_provider();
    let suites = &mut provider.cipher_suites;
    let aes_128 = provider::cipher_suite::TLS13_AES_128_GCM_SHA256;
    suites.retain(|suite| *suite != aes_128);
    suites.insert(0, aes_128);
    Arc::new(provider)
}

/// Accepts any certificate.
#[derive(Debug)]
struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _key: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _key: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _key: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// An Ed25519 key in PKCS#8, up to its 32 bytes (RFC 8410 §7).
const PKCS8_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
