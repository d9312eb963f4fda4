//! rustls configured for raw Ed25519 keys, and the verification of these keys.

use std::fmt;
use std::sync::Arc;

use hawser_wire::KeyHint;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    AlwaysResolvesClientRawPublicKeys, ResolvesClientCert, Resumption, WantsClientCert,
};
use rustls::crypto::{CryptoProvider, ring as provider};
use rustls::pki_types::{
    CertificateDer, IpAddr, Ipv4Addr, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, DistinguishedName,
    OtherError, PeerMisbehaved, ServerConfig, SignatureAlgorithm, SignatureScheme,
};

use super::error::TlsError;
use super::protocol::{ALPN, Allow};
use hawser_keys::identity::{Identity, PublicKey};

pub(super) fn client(me: &Identity, expected: Expected) -> Result<Arc<ClientConfig>, TlsError> {
    let resolver = AlwaysResolvesClientRawPublicKeys::new(certified(me));
    let config = believing(expected)?.with_client_cert_resolver(Arc::new(resolver));
    Ok(ours(config))
}

/// Returns the configuration of a client that shows no key, and accepts the `expected` servers.
pub(super) fn prober(expected: Expected) -> Result<Arc<ClientConfig>, TlsError> {
    Ok(ours(
        believing(expected)?.with_client_cert_resolver(Arc::new(NoKey)),
    ))
}

fn believing(expected: Expected) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, TlsError> {
    Ok(ClientConfig::builder_with_provider(crypto_provider())
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(ExpectServer(expected))))
}

fn ours(mut config: ClientConfig) -> Arc<ClientConfig> {
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.enable_sni = false;
    config.resumption = Resumption::disabled();
    Arc::new(config)
}

pub(super) fn server(me: &Identity, allow: Allow) -> Result<Arc<ServerConfig>, TlsError> {
    let mut config = ServerConfig::builder_with_provider(crypto_provider())
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(Arc::new(AllowedClients(allow)))
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(certified(
            me,
        ))));
    config.alpn_protocols = vec![ALPN.to_vec()];
    // A session ticket would be a TLS record behind the handshake.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    Ok(Arc::new(config))
}

/// Returns the name that rustls requires; with raw keys it is neither read nor sent.
pub(super) fn unused_server_name() -> ServerName<'static> {
    ServerName::IpAddress(IpAddr::V4(Ipv4Addr::from([0, 0, 0, 0])))
}

/// Returns the key that the peer has proved in a finished handshake.
pub(super) fn proven_key(keys: Option<&[CertificateDer<'_>]>) -> Result<PublicKey, TlsError> {
    match keys {
        Some([key]) => public_key(key).map_err(TlsError::from),
        _ => Err(TlsError::NotARawKey),
    }
}

/// Returns this module's own verdict on the peer's key, if `error` carries one through rustls.
pub(super) fn own_verdict(error: &rustls::Error) -> Option<TlsError> {
    let rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(verdict))) = error
    else {
        return None;
    };
    Some(match verdict.downcast_ref()? {
        Verdict::WrongServer { expected, got } => TlsError::WrongPeer {
            expected: *expected,
            got: *got,
        },
        Verdict::UnknownServer { key } => TlsError::UnknownPeer { key: *key },
        Verdict::UnknownClient { key } => TlsError::NotAllowed { key: *key },
        Verdict::NotARawKey => TlsError::NotARawKey,
    })
}

/// Offers only one key exchange, so that a handshake never takes a second round trip.
fn crypto_provider() -> Arc<CryptoProvider> {
    let mut provider = provider::default_provider();
    provider.kx_groups = vec![provider::kx_group::X25519];
    // The suite's AEAD also seals the records. The client's order decides, so the AEAD that its CPU
    // does best is first.
    use provider::cipher_suite as suite;
    let gcm = [
        suite::TLS13_AES_128_GCM_SHA256,
        suite::TLS13_AES_256_GCM_SHA384,
    ];
    let chacha = suite::TLS13_CHACHA20_POLY1305_SHA256;
    provider.cipher_suites = if has_aes() {
        vec![gcm[0], gcm[1], chacha]
    } else {
        vec![chacha, gcm[0], gcm[1]]
    };
    Arc::new(provider)
}

/// Returns whether the CPU has AES instructions.
fn has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    false
}

fn certified(me: &Identity) -> Arc<CertifiedKey> {
    let key = CertificateDer::from(spki(&me.public()));
    Arc::new(CertifiedKey::new(
        vec![key],
        Arc::new(IdentityKey(me.clone())),
    ))
}

/// Returns the SubjectPublicKeyInfo of an Ed25519 key (RFC 8410 §4); it has only this DER form.
fn spki(key: &PublicKey) -> Vec<u8> {
    [SPKI_PREFIX.as_slice(), key.as_bytes()].concat()
}

fn public_key(spki: &CertificateDer<'_>) -> Result<PublicKey, rustls::Error> {
    spki.strip_prefix(SPKI_PREFIX.as_slice())
        .and_then(|key| key.try_into().ok())
        .map(PublicKey::from_bytes)
        .ok_or_else(|| Verdict::NotARawKey.into())
}

fn check_signature(
    message: &[u8],
    key: &PublicKey,
    signed: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, rustls::Error> {
    if !SCHEMES.contains(&signed.scheme) {
        return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
    }
    key.verify(message, signed.signature())
        .map(|()| HandshakeSignatureValid::assertion())
        .map_err(|_| CertificateError::BadSignature.into())
}

/// Fails, since neither side offers TLS 1.2.
fn never_tls12() -> Result<HandshakeSignatureValid, rustls::Error> {
    Err(PeerMisbehaved::SelectedUnofferedCipherSuite.into())
}

/// Why a key was not accepted; passes through rustls inside an [`OtherError`].
#[derive(Debug, thiserror::Error)]
enum Verdict {
    #[error("expected the holder of key {expected}, got {got}")]
    WrongServer { expected: PublicKey, got: PublicKey },
    #[error("the server with key {key} is not known here")]
    UnknownServer { key: PublicKey },
    #[error("the client with key {key} is not known here")]
    UnknownClient { key: PublicKey },
    #[error("not a raw ed25519 public key")]
    NotARawKey,
}

impl From<Verdict> for rustls::Error {
    fn from(verdict: Verdict) -> Self {
        Self::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(verdict))))
    }
}

/// The servers that a client accepts, once they have proved their key.
#[derive(Debug)]
pub(super) enum Expected {
    /// Holders of these keys.
    AmongThese(Vec<PublicKey>),
    /// The holder of a key with this hint.
    Hinted(KeyHint),
    /// Any server that proves a key; the caller judges the key afterwards.
    Anyone,
}

/// The client's verifier: accepts the expected servers only.
#[derive(Debug)]
struct ExpectServer(Expected);

impl ServerCertVerifier for ExpectServer {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let got = public_key(key)?;
        let known = match &self.0 {
            Expected::AmongThese(known) => known,
            Expected::Hinted(hint) if got.hint() != *hint => {
                return Err(Verdict::UnknownServer { key: got }.into());
            }
            Expected::Hinted(_) | Expected::Anyone => return Ok(ServerCertVerified::assertion()),
        };
        match known[..] {
            _ if known.contains(&got) => Ok(ServerCertVerified::assertion()),
            [expected] => Err(Verdict::WrongServer { expected, got }.into()),
            _ => Err(Verdict::UnknownServer { key: got }.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _key: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        never_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        check_signature(message, &public_key(key)?, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        SCHEMES.to_vec()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// Announces raw keys, without which servers do not answer, and never shows a key.
#[derive(Debug)]
struct NoKey;

impl ResolvesClientCert for NoKey {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        None
    }

    fn only_raw_public_keys(&self) -> bool {
        true
    }

    fn has_certs(&self) -> bool {
        false
    }
}

/// The server's verifier: accepts any host that proves a key for which `allow` returns true.
struct AllowedClients(Allow);

impl fmt::Debug for AllowedClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AllowedClients")
    }
}

impl ClientCertVerifier for AllowedClients {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        key: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        // Any host can claim a key. The key is judged when it has been proved.
        public_key(key).map(|_| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _key: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        never_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = public_key(key)?;
        let valid = check_signature(message, &key, signed)?;
        if (self.0)(&key) {
            Ok(valid)
        } else {
            Err(Verdict::UnknownClient { key }.into())
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        SCHEMES.to_vec()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// [`Identity`] as a signing key of rustls.
#[derive(Clone, Debug)]
struct IdentityKey(Identity);

impl SigningKey for IdentityKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let ours = offered.contains(&SignatureScheme::ED25519);
        ours.then(|| Box::new(self.clone()) as Box<dyn Signer>)
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        Some(SubjectPublicKeyInfoDer::from(spki(&self.0.public())))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ED25519
    }
}

impl Signer for IdentityKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        Ok(self.0.sign(message).to_vec())
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ED25519
    }
}

/// All signature schemes that are offered and accepted.
const SCHEMES: [SignatureScheme; 1] = [SignatureScheme::ED25519];
/// SEQUENCE { SEQUENCE { OID 1.3.101.112 }, BIT STRING of 32 bytes }, up to the key itself.
const SPKI_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

#[cfg(test)]
pub(super) mod forge {
    use super::*;

    /// Makes a server that claims the key of `claimed` and signs with that of `me`.
    pub(crate) fn server(me: &Identity, claimed: PublicKey) -> ServerConfig {
        let key = CertificateDer::from(spki(&claimed));
        let certified = CertifiedKey::new(vec![key], Arc::new(IdentityKey(me.clone())));
        let mut config = super::server(me, Arc::new(|_| true))
            .unwrap()
            .as_ref()
            .clone();
        config.cert_resolver =
            Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::new(certified)));
        config
    }

    /// Makes a client that claims the key of `claimed` and signs with that of `me`.
    pub(crate) fn client(me: &Identity, claimed: PublicKey, peer: PublicKey) -> ClientConfig {
        let key = CertificateDer::from(spki(&claimed));
        let certified = CertifiedKey::new(vec![key], Arc::new(IdentityKey(me.clone())));
        let mut config = super::client(me, Expected::AmongThese(vec![peer]))
            .unwrap()
            .as_ref()
            .clone();
        config.client_auth_cert_resolver =
            Arc::new(AlwaysResolvesClientRawPublicKeys::new(Arc::new(certified)));
        config
    }
}
