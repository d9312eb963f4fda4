//! Strict TOML to validated types.
