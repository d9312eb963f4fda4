//! Options of `cargo xtask dist`.

use std::path::PathBuf;

use anyhow::{Result, bail};

/// How to make packages.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) source: Source,
    /// Another folder than the usual one; none of its other files is touched.
    pub(super) out: Option<PathBuf>,
    /// Another version than the workspace's.
    pub(super) version: Option<String>,
    /// Build in two folders and compare.
    pub(super) is_twice: bool,
}

/// Where the program comes from.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// It is built with this profile of cargo's.
    Profile(String),
    /// It is there already.
    Program(PathBuf),
}

impl Options {
    pub(super) fn parse(arguments: &[&str]) -> Result<Self> {
        let [mut profile, mut program, mut out, mut version] = [None; 4];
        let mut is_twice = false;
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            let slot = match *word {
                "--twice" => {
                    is_twice = true;
                    continue;
                }
                "--profile" => &mut profile,
                "--program" => &mut program,
                "--out" => &mut out,
                "--version" => &mut version,
                other => bail!("dist: unknown argument: {other}"),
            };
            let Some(value) = rest.next() else {
                bail!("dist: {word} needs a value");
            };
            if slot.replace(*value).is_some() {
                bail!("dist: {word} is given twice");
            }
        }
        if let Some(version) = version
            && !is_version(version)
        {
            bail!(
                "dist: --version is {version}; it begins with a digit, and has [A-Za-z0-9.+~] only"
            );
        }
        let source = match (profile, program) {
            (Some(_), Some(_)) => bail!("dist: give --profile or --program, not both"),
            (profile, None) => Source::Profile(profile.unwrap_or("dist").to_owned()),
            (None, Some(program)) => Source::Program(program.into()),
        };
        if is_twice && (matches!(source, Source::Program(_)) || out.is_some()) {
            bail!("dist: --twice builds by itself, in folders of its own");
        }
        Ok(Self {
            source,
            out: out.map(std::path::absolute).transpose()?,
            version: version.map(str::to_owned),
            is_twice,
        })
    }
}

/// Whether Debian and file names take it, without a number of the packaging.
fn is_version(version: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || ".+~".contains(c);
    version.starts_with(|c: char| c.is_ascii_digit()) && version.chars().all(is_allowed)
}

/// Where packages are, below the workspace's folder.
pub(crate) const PACKAGES: &str = "target/packages";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_flags_the_profile_for_packages_is_built_once() {
        let options = Options::parse(&[]).unwrap();
        assert_eq!(options.source, Source::Profile("dist".to_owned()));
        assert_eq!((options.out, options.version), (None, None));
        assert!(!options.is_twice);
    }

    #[test]
    fn flags_that_contradict_each_other_are_refused() {
        for (line, about) in [
            ("--profile dev --program x", "not both"),
            ("--twice --program x", "by itself"),
            ("--twice --out x", "by itself"),
            ("--out", "--out needs a value"),
            ("--out a --out b", "given twice"),
            ("--version 1/2", "--version is 1/2"),
            ("--version x1", "--version is x1"),
            ("--fast", "unknown argument: --fast"),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            let error = Options::parse(&words).unwrap_err().to_string();
            assert!(error.contains(about), "{line}: {error}");
        }
    }
}
