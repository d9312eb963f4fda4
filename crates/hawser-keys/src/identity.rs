//! The identity of a host: an Ed25519 key pair, and nothing else. No names, authorities or dates.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hawser_wire::KeyHint;
use ring::digest;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{self, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize as _, Zeroizing};

use crate::files;

pub use crate::files::FileError;

/// The raw Ed25519 public key of a host: its whole identity.
///
/// The text form is base64url without padding, 43 characters. A key made from arbitrary bytes is
/// harmless: it verifies nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// Length of a key in bytes.
    pub const LENGTH: usize = 32;

    /// Makes a key from its raw bytes (RFC 8032, little-endian).
    pub const fn from_bytes(bytes: [u8; Self::LENGTH]) -> Self {
        Self(bytes)
    }

    /// Returns the raw bytes (RFC 8032, little-endian).
    pub const fn as_bytes(&self) -> &[u8; Self::LENGTH] {
        &self.0
    }

    /// Returns the hint of a key that is not proved yet: the first bytes of its SHA-256. A hint
    /// proves nothing, but another hint means another key. For Hawser's own programs.
    #[doc(hidden)]
    pub fn hint(&self) -> KeyHint {
        let hash = digest::digest(&digest::SHA256, &self.0);
        let mut hint = [0; 8];
        hint.copy_from_slice(&hash.as_ref()[..8]);
        KeyHint(hint)
    }

    /// Checks that `signature` is this key's signature over `message`.
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> Result<(), BadSignature> {
        UnparsedPublicKey::new(&signature::ED25519, self.0)
            .verify(message, signature)
            .map_err(|_| BadSignature)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl FromStr for PublicKey {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, ParseKeyError> {
        if text.len() != KEY_TEXT_LENGTH {
            return Err(ParseKeyError::Length { got: text.len() });
        }
        let mut key = [0; Self::LENGTH];
        match URL_SAFE_NO_PAD.decode_slice(text, &mut key) {
            Ok(Self::LENGTH) => Ok(Self(key)),
            _ => Err(ParseKeyError::Alphabet),
        }
    }
}

impl TryFrom<String> for PublicKey {
    type Error = ParseKeyError;

    fn try_from(text: String) -> Result<Self, ParseKeyError> {
        text.parse()
    }
}

impl From<PublicKey> for String {
    fn from(key: PublicKey) -> Self {
        key.to_string()
    }
}

/// Why a text is not a public key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseKeyError {
    /// Too long or too short.
    #[error("a public key has {KEY_TEXT_LENGTH} characters, got {got} bytes")]
    Length {
        /// Bytes in the text.
        got: usize,
    },
    /// Not base64url.
    #[error("a public key is base64url without padding (A-Z, a-z, 0-9, - and _)")]
    Alphabet,
}

/// A signature does not belong to the key and the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the signature does not match the key and the message")]
pub struct BadSignature;

/// A host's own Ed25519 key pair. Cheap to clone.
///
/// Dropping the last clone wipes the seed from memory; `ring` keeps an expanded copy for signing
/// and gives no way to wipe that.
#[derive(Clone)]
pub struct Identity(Arc<Secret>);

struct Secret {
    seed: Zeroizing<[u8; SEED_LENGTH]>,
    pair: Ed25519KeyPair,
    public: PublicKey,
}

impl Identity {
    /// Generates a new key pair from the system's random numbers.
    pub fn generate() -> Result<Self, IdentityError> {
        let mut seed = Zeroizing::new([0; SEED_LENGTH]);
        SystemRandom::new()
            .fill(seed.as_mut())
            .map_err(|_| IdentityError::NoRandomness)?;
        Ok(Self::from_zeroizing(seed))
    }

    /// Returns the key pair that RFC 8032 derives from `seed`, always the same for the same seed.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self::from_zeroizing(Zeroizing::new(seed))
    }

    /// Reads the key file `path`, or creates it with a new key pair when it is missing.
    ///
    /// The file is one line of text, mode 0600, in a directory that is created with mode 0700 when
    /// missing. It appears whole or not at all, and two processes that start at the same time end
    /// up with the same key. A file that others can read is refused, as is one that is not a key
    /// file; neither is ever overwritten.
    pub fn load_or_create(path: &Path) -> Result<Self, IdentityError> {
        match Self::load(path) {
            Err(IdentityError::File(e)) if e.is_not_found() => {}
            loaded_or_failed => return loaded_or_failed,
        }
        files::private_dir(files::parent(path))?;
        let identity = Self::generate()?;
        match files::create_new(path, identity.to_file().as_bytes()) {
            Ok(()) => Ok(identity),
            Err(e) if e.is_already_there() => Self::load(path),
            Err(e) => Err(e.into()),
        }
    }

    /// Reads the key file `path`; see [`Self::load_or_create`].
    pub fn load(path: &Path) -> Result<Self, IdentityError> {
        let file = files::open_private(path, 0o600)?;
        let bytes = Zeroizing::new(files::read_bounded(&file, path, MAX_KEY_FILE)?);
        let not_a_key = || IdentityError::NotAKeyFile {
            path: path.display().to_string(),
        };
        let text = std::str::from_utf8(&bytes).map_err(|_| not_a_key())?;
        let encoded = text
            .trim_end()
            .strip_prefix(KEY_FILE_PREFIX)
            .ok_or_else(not_a_key)?;
        if encoded.len() != KEY_TEXT_LENGTH {
            return Err(not_a_key());
        }
        let mut seed = Zeroizing::new([0; SEED_LENGTH]);
        match URL_SAFE_NO_PAD.decode_slice(encoded, seed.as_mut()) {
            Ok(SEED_LENGTH) => Ok(Self::from_zeroizing(seed)),
            _ => Err(not_a_key()),
        }
    }

    /// Returns the public key.
    pub fn public(&self) -> PublicKey {
        self.0.public
    }

    /// Returns the signature over `message` that [`PublicKey::verify`] accepts.
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        let mut bytes = [0; 64];
        bytes.copy_from_slice(self.0.pair.sign(message).as_ref());
        bytes
    }

    fn from_zeroizing(seed: Zeroizing<[u8; SEED_LENGTH]>) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed.as_ref())
            .expect("every seed of 32 bytes is an Ed25519 key");
        let mut public = [0; PublicKey::LENGTH];
        public.copy_from_slice(pair.public_key().as_ref());
        Self(Arc::new(Secret {
            seed,
            pair,
            public: PublicKey(public),
        }))
    }

    fn to_file(&self) -> Zeroizing<String> {
        let mut encoded = URL_SAFE_NO_PAD.encode(self.0.seed.as_ref());
        let line = Zeroizing::new(format!("{KEY_FILE_PREFIX}{encoded}\n"));
        encoded.zeroize();
        line
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.public())
    }
}

/// Why a key pair could not be loaded or made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The system provides no random numbers.
    #[error("the system gives no random numbers to make a key of")]
    NoRandomness,
    /// The key file could not be read or written, or others can read it.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file exists and is private, but its content is not a key.
    #[error("{path} is not a key file; move it away to have a new key made")]
    NotAKeyFile {
        /// The file.
        path: String,
    },
}

const SEED_LENGTH: usize = 32;
/// 32 bytes in base64 without padding.
const KEY_TEXT_LENGTH: usize = 43;
const KEY_FILE_PREFIX: &str = "hawser-private-key-1 ";
const MAX_KEY_FILE: u64 = 4096;

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use proptest::prelude::*;

    use super::*;
    use crate::files::faults::{Step, at_every_step};

    #[test]
    fn whichever_step_of_writing_fails_there_is_a_whole_key_afterwards_or_none() {
        at_every_step(
            || tempfile::tempdir().unwrap(),
            |folder| Identity::load_or_create(&folder.path().join("key")),
            |folder, step, outcome| {
                let error = outcome.unwrap_err().to_string();
                assert!(error.contains("no storage space"), "{error}");
                let path = folder.path().join("key");
                let is_there = Identity::load(&path).is_ok();
                assert_eq!(is_there, path.exists());
                assert_eq!(is_there, step == Step::SyncDirectory);
                let made = Identity::load_or_create(&path).unwrap();
                assert_eq!(Identity::load(&path).unwrap().public(), made.public());
            },
        );
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_key_file_is_made_once_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state/key");
        let made = Identity::load_or_create(&path).unwrap();
        let loaded = Identity::load_or_create(&path).unwrap();
        assert_eq!(made.public(), loaded.public());
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        assert_eq!(
            fs::read_dir(path.parent().unwrap()).unwrap().count(),
            1,
            "no leftovers"
        );
    }

    #[test]
    fn starting_twice_at_once_gives_one_key() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state/key");
        let keys: Vec<_> = std::thread::scope(|scope| {
            let load = || Identity::load_or_create(&path).unwrap().public();
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(load)).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| key == &keys[0]), "{keys:?}");
    }

    #[test]
    fn a_key_file_that_others_can_read_is_refused_with_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        Identity::load_or_create(&path).unwrap();
        for open in [0o640, 0o604, 0o660] {
            fs::set_permissions(&path, Permissions::from_mode(open)).unwrap();
            let error = Identity::load_or_create(&path).unwrap_err().to_string();
            assert!(
                error.contains("chmod 600") && error.contains("key"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_file_that_is_no_key_is_refused_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        for content in [
            "",
            "hawser-private-key-1 short",
            "hawser-private-key-2 AAAA",
            "\u{fffd}",
        ] {
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            let error = Identity::load_or_create(&path).unwrap_err();
            assert!(
                matches!(error, IdentityError::NotAKeyFile { .. }),
                "{error}"
            );
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
    }

    #[test]
    fn the_first_key_pair_of_rfc_8032_comes_out() {
        let mut seed = [0; 32];
        let hex = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
        for (byte, pair) in seed.iter_mut().zip(hex.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        }
        let public = Identity::from_seed(seed).public();
        assert_eq!(public.as_bytes()[..4], [0xd7, 0x5a, 0x98, 0x01]);
        assert_eq!(
            public.to_string(),
            "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
        );
    }

    #[test]
    fn a_signature_holds_for_its_message_and_key_only() {
        let (me, other) = (Identity::from_seed([1; 32]), Identity::from_seed([2; 32]));
        let signature = me.sign(b"hello");
        assert_eq!(me.public().verify(b"hello", &signature), Ok(()));
        assert_eq!(me.public().verify(b"hellO", &signature), Err(BadSignature));
        assert_eq!(
            other.public().verify(b"hello", &signature),
            Err(BadSignature)
        );
        assert_eq!(
            me.public().verify(b"hello", &signature[..63]),
            Err(BadSignature)
        );
    }

    #[test]
    fn debug_shows_the_public_key_and_no_secret() {
        let identity = Identity::from_seed([7; 32]);
        let shown = format!("{identity:?}");
        assert_eq!(shown, format!("Identity({})", identity.public()));
    }

    #[test]
    fn a_key_text_with_stray_bits_is_refused() {
        // The last character carries four bits only; other spellings of the same key are refused.
        let text = PublicKey::from_bytes([0; 32]).to_string();
        let spelled_otherwise = format!("{}B", &text[..42]);
        assert_eq!(
            spelled_otherwise.parse::<PublicKey>(),
            Err(ParseKeyError::Alphabet)
        );
        assert_eq!(
            "".parse::<PublicKey>(),
            Err(ParseKeyError::Length { got: 0 })
        );
    }

    proptest! {
        #[test]
        fn keys_survive_text_and_json(bytes: [u8; 32]) {
            let key = PublicKey::from_bytes(bytes);
            prop_assert_eq!(key.to_string().parse(), Ok(key));
            let json = serde_json::to_string(&key).unwrap();
            prop_assert_eq!(serde_json::from_str::<PublicKey>(&json).unwrap(), key);
        }

        #[test]
        fn any_text_parses_without_panic(text in ".{0,60}") {
            let _ = text.parse::<PublicKey>();
        }
    }
}
