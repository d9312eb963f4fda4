use std::io;

/// Why a configuration was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {file}: {source}")]
    Read {
        /// The file's name.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// The text is not TOML.
    #[error("{file}:{line}: not TOML: {message}")]
    Syntax {
        /// The file's name.
        file: String,
        /// The line, counted from 1.
        line: usize,
        /// What the parser said.
        message: String,
    },
    /// A key that means nothing here.
    #[error("{file}:{line}: unknown key `{key}`; allowed: {allowed}")]
    UnknownKey {
        /// The file's name.
        file: String,
        /// The line, counted from 1.
        line: usize,
        /// The key with the sections it stands in, joined by dots.
        key: String,
        /// The keys that have a meaning in that section.
        allowed: String,
    },
    /// A key that must be there is not.
    #[error("{file}:{line}: `{key}` is missing; allowed: {allowed}")]
    Missing {
        /// The file's name.
        file: String,
        /// The line where its section begins, counted from 1.
        line: usize,
        /// The key with the sections it stands in, joined by dots.
        key: String,
        /// What the key takes.
        allowed: &'static str,
    },
    /// A value of the wrong kind or outside its range.
    #[error("{file}:{line}: `{key}` is {got}; allowed: {allowed}")]
    Value {
        /// The file's name.
        file: String,
        /// The line, counted from 1.
        line: usize,
        /// The key with the sections it stands in, joined by dots.
        key: String,
        /// The value as it stands in the file, shortened.
        got: String,
        /// What the key takes.
        allowed: String,
    },
}
