//! The path of the configuration file.

use std::env;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use hawser_config::{Config, ConfigError};
use hawser_keys::store::StateDir;

/// The file of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFile {
    path: PathBuf,
    /// The user has named the file, so it must exist; otherwise it may be missing.
    is_named: bool,
}

impl ConfigFile {
    /// Returns the file that was named on the command line, or else the default file, which may be
    /// missing:
    ///
    /// - `/etc/hawser/hawser.toml` for the system's state directory;
    /// - `hawser.toml` in the state directory, if the user has named one;
    /// - `$XDG_CONFIG_HOME/hawser/hawser.toml`, by default `~/.config/hawser/hawser.toml`.
    pub fn resolve(named: Option<PathBuf>, state: &StateDir, is_state_named: bool) -> Self {
        match named {
            Some(path) => Self {
                path,
                is_named: true,
            },
            None => Self::usual(state, is_state_named, |name| env::var_os(name)),
        }
    }

    fn usual(
        state: &StateDir,
        is_state_named: bool,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Self {
        let path = match folder_of_user(variable) {
            _ if state.is_system() => PathBuf::from("/etc/hawser").join(NAME),
            Some(folder) if !is_state_named => folder.join("hawser").join(NAME),
            _ => state.file(NAME),
        };
        Self {
            path,
            is_named: false,
        }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the user has named the file, so that it must exist.
    pub fn is_named(&self) -> bool {
        self.is_named
    }

    /// Returns whether the file exists or must exist.
    pub fn is_there(&self) -> bool {
        self.is_named || self.path.exists()
    }

    /// Reads the file; returns the defaults if the default file is missing.
    pub fn load(&self) -> Result<Config, ConfigError> {
        match Config::load(&self.path) {
            Err(ConfigError::Read { source, .. }) if !self.is_named && is_missing(&source) => {
                Ok(Config::default())
            }
            read => read,
        }
    }

    /// Creates an empty file and its folder if the default file is missing. Does nothing if the
    /// user has named a file.
    pub fn begin(&self) -> anyhow::Result<()> {
        if self.is_there() {
            return Ok(());
        }
        let make = || {
            if let Some(folder) = self.path.parent() {
                fs::create_dir_all(folder)?;
            }
            let made = OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&self.path);
            match made {
                // Another process has created the file meanwhile.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                made => made.map(drop),
            }
        };
        make().with_context(|| format!("cannot make {}", self.path.display()))
    }
}

/// Returns the folder of the user's configurations by the environment variable `$XDG_CONFIG_HOME`,
/// by default `~/.config`.
pub fn folder_of_user(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // The XDG specification requires that relative paths are ignored.
    let absolute = |name| {
        variable(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))
}

/// Returns the absolute path, which is valid in any working directory.
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

/// Returns whether the error means that the file or one of its folders is missing.
fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

const NAME: &str = "hawser.toml";

#[cfg(test)]
mod tests {
    use super::*;

    fn usual(state: &str, is_state_named: bool, set: &[(&str, &str)]) -> String {
        let state = StateDir::resolve(Some(state.into())).unwrap();
        let variable = |name: &str| {
            set.iter()
                .find(|(it, _)| *it == name)
                .map(|(_, value)| value.into())
        };
        let file = ConfigFile::usual(&state, is_state_named, variable);
        assert!(!file.is_named());
        file.path().display().to_string()
    }

    #[test]
    fn it_goes_with_the_state_directory() {
        let home = [("HOME", "/home/u")];
        let xdg = [("HOME", "/home/u"), ("XDG_CONFIG_HOME", "/c")];
        let of_user = "/home/u/.local/state/hawser";
        assert_eq!(
            usual("/var/lib/hawser", true, &home),
            "/etc/hawser/hawser.toml"
        );
        assert_eq!(
            usual("/var/lib/hawser", false, &[]),
            "/etc/hawser/hawser.toml"
        );
        assert_eq!(
            usual(of_user, false, &home),
            "/home/u/.config/hawser/hawser.toml"
        );
        assert_eq!(usual(of_user, false, &xdg), "/c/hawser/hawser.toml");
        assert_eq!(usual("/other", true, &xdg), "/other/hawser.toml");
    }

    #[test]
    fn the_usual_one_may_be_missing_and_a_named_one_may_not() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::resolve(Some(folder.path().join("state"))).unwrap();
        let usual = ConfigFile::resolve(None, &state, true);
        assert!(!usual.is_there());
        assert_eq!(usual.load().unwrap(), Config::default());
        let named = ConfigFile::resolve(Some(usual.path().to_owned()), &state, true);
        assert!(named.is_there());
        let error = named.load().unwrap_err().to_string();
        assert!(error.contains("hawser.toml"), "{error}");
        named.begin().unwrap();
        assert!(!usual.is_there());

        usual.begin().unwrap();
        assert!(usual.is_there());
        fs::write(usual.path(), "[connection]\nprofile = \"calls\"\n").unwrap();
        usual.begin().unwrap();
        assert_ne!(usual.load().unwrap(), Config::default());
        fs::write(usual.path(), "nonsense").unwrap();
        assert!(usual.load().is_err());
    }
}
