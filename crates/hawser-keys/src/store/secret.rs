//! Secrets that programs of one user share through a file.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom as _, SystemRandom};
use zeroize::Zeroizing;

use super::error::StoreError;
use crate::files;

/// Reads the secret in the file `path`; creates the file with a new secret when it is missing.
pub(super) fn load_or_create(path: &Path) -> Result<Zeroizing<String>, StoreError> {
    match load(path) {
        Err(StoreError::File(error)) if error.is_not_found() => {}
        loaded_or_failed => return loaded_or_failed,
    }
    let secret = generate()?;
    match files::create_new(path, line(&secret).as_bytes()) {
        Ok(()) => Ok(secret),
        Err(error) if error.is_already_there() => load(path),
        Err(error) => Err(error.into()),
    }
}

/// Writes a new secret to the file `path`, and overwrites any content.
pub(super) fn renew(path: &Path) -> Result<Zeroizing<String>, StoreError> {
    let secret = generate()?;
    files::replace_state(path, line(&secret).as_bytes())?;
    Ok(secret)
}

fn load(path: &Path) -> Result<Zeroizing<String>, StoreError> {
    let file = files::open_private(path, 0o600)?;
    let bytes = Zeroizing::new(files::read_bounded(&file, path, MAX_FILE)?);
    let text = std::str::from_utf8(&bytes).unwrap_or_default().trim_end();
    let mut secret = Zeroizing::new([0; LENGTH]);
    match URL_SAFE_NO_PAD.decode_slice(text, secret.as_mut()) {
        Ok(LENGTH) => Ok(Zeroizing::new(text.to_owned())),
        _ => Err(StoreError::Corrupt {
            path: path.to_path_buf(),
            reason: "it holds no secret that this program has made".to_owned(),
        }),
    }
}

fn line(secret: &str) -> Zeroizing<String> {
    Zeroizing::new(format!("{secret}\n"))
}

/// Makes a new secret.
pub(super) fn generate() -> Result<Zeroizing<String>, StoreError> {
    let mut secret = Zeroizing::new([0; LENGTH]);
    SystemRandom::new()
        .fill(secret.as_mut())
        .map_err(|_| StoreError::NoRandomness)?;
    Ok(Zeroizing::new(URL_SAFE_NO_PAD.encode(secret.as_ref())))
}

/// 256 bits.
const LENGTH: usize = 32;
const MAX_FILE: u64 = 4096;

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_secret_is_made_once_and_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let made = load_or_create(&path).unwrap();
        assert_eq!(made.len(), 43);
        assert_eq!(load_or_create(&path).unwrap(), made);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let other = load_or_create(&folder.path().join("other")).unwrap();
        assert_ne!(made, other);
    }

    #[test]
    fn a_new_one_takes_the_place_of_whatever_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let made = load_or_create(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let renewed = renew(&path).unwrap();
        assert_ne!(renewed, made);
        assert_eq!(load_or_create(&path).unwrap(), renewed);
    }

    #[test]
    fn one_that_others_can_read_or_that_is_damaged_is_refused_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        load_or_create(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let error = load_or_create(&path).unwrap_err().to_string();
        assert!(error.contains("chmod 600"), "{error}");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        for content in [&b""[..], b"short", &[b'A'; 44], &[0xff; 43], &[b'A'; 5000]] {
            fs::write(&path, content).unwrap();
            assert!(load_or_create(&path).is_err());
            assert_eq!(fs::read(&path).unwrap(), content);
        }
    }
}
