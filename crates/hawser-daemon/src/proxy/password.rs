//! The file with the user name and the password of the proxy port.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use hawser_front::proxy::Credentials;
use zeroize::Zeroizing;

use crate::setup::Usage;

/// Reads the user name and the password in `file`, which other users must not be able to read.
///
/// # Errors
/// A mistake of the user. The error shows nothing of the file's content.
pub(crate) fn read(file: &Path) -> Result<Credentials, Usage> {
    let text = read_private(file)?;
    let wrong = |error| Usage(format!("the password file {}: {error}", file.display()));
    Credentials::parse(&text).map_err(wrong)
}

/// Reads a short file, which other users must not be able to read.
///
/// # Errors
/// A mistake of the user. The error shows nothing of the file's content.
pub(crate) fn read_private(file: &Path) -> Result<Zeroizing<String>, Usage> {
    let wrong = |problem: &dyn std::fmt::Display| {
        Usage(format!("the password file {}: {problem}", file.display()))
    };
    let opened = File::open(file).map_err(|error| wrong(&error))?;
    let metadata = opened.metadata().map_err(|error| wrong(&error))?;
    if !metadata.is_file() {
        return Err(wrong(&"not a regular file"));
    }
    let mode = metadata.mode() & 0o777;
    if mode & OTHERS != 0 {
        let problem = format!("every user has access to it (mode {mode:03o}); chmod 600 it");
        return Err(wrong(&problem));
    }
    let mut text = Zeroizing::new(String::new());
    let mut bounded = opened.take(MAX_FILE);
    let read = bounded.read_to_string(&mut text);
    read.map(|_| text).map_err(|error| wrong(&error))
}

const OTHERS: u32 = 0o007;
/// Longest file that is read, longer than the longest line.
const MAX_FILE: u64 = 1024;

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_that_others_can_read_or_that_holds_no_password_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        let said = |text: &str, mode: u32| {
            write(&file, text).unwrap();
            set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            read(&file).map(drop).map_err(|error| error.0)
        };
        assert_eq!(said("me:secret\n", 0o600), Ok(()));
        assert_eq!(said("me:secret", 0o640), Ok(()));
        assert!(said("me:secret", 0o644).unwrap_err().contains("mode 644"));
        assert!(said("me:secret", 0o602).unwrap_err().contains("mode 602"));
        let long = format!("me:{}", "secret".repeat(1000));
        for text in ["secret", "me:secret\nyou:secret", &long] {
            let problem = said(text, 0o600).unwrap_err();
            assert!(!problem.contains("secret"), "{problem}");
        }
        let problem = |path: &Path| read(path).unwrap_err().0;
        assert!(problem(folder.path()).contains("not a regular file"));
        assert!(problem(&folder.path().join("none")).contains("No such file"));
    }
}
