//! Packages by the real apt-get.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hawser_types::ByteCount;

use super::downloads::empty;
use super::files::{self, File};
use super::site::{HOSTS, Load, Site};
use crate::process::output_of;

/// A repository on each of four hosts, and what apt-get knows of them. What is in the packages is
/// never looked at: apt-get checks their sizes and sums, and is told not to unpack them.
pub(super) struct Apt {
    files: Vec<File>,
    published: Vec<PathBuf>,
    folder: PathBuf,
}

impl Apt {
    /// Puts the repositories there and lets apt-get read their lists.
    pub(super) fn publish(site: &Site<'_>) -> anyhow::Result<Self> {
        let files = files::packages(site.percent);
        let folder = site.folder.join("apt");
        let (mut sources, mut published) = (String::new(), vec![PathBuf::new(); files.len()]);
        for (number, host) in HOSTS.into_iter().enumerate() {
            let repository = site.root.join(format!("apt{number}"));
            let own: Vec<_> = (number..files.len()).step_by(HOSTS.len()).collect();
            let some: Vec<_> = own.iter().map(|which| files[*which].clone()).collect();
            files::publish(&repository, &some)?;
            std::fs::write(repository.join("Packages"), index(&repository, &some)?)?;
            writeln!(sources, "deb [trusted=yes] http://{host}/apt{number} ./")?;
            for which in own {
                published[which] = repository.join(&files[which].name);
            }
        }
        for name in ["state/lists/partial", "cache"] {
            std::fs::create_dir_all(folder.join(name))?;
        }
        std::fs::write(folder.join("status"), "")?;
        std::fs::write(folder.join("sources.list"), sources)?;
        std::fs::write(folder.join("apt.conf"), configuration(&folder))?;
        let apt = Self {
            files,
            published,
            folder,
        };
        empty(&apt.archives().join("partial"))?;
        let mut update = site.client().command("env");
        update.arg(apt.setting()).args(["apt-get", "update"]);
        output_of("apt-get update", update, UPDATE_LIMIT)?;
        Ok(apt)
    }

    fn archives(&self) -> PathBuf {
        self.folder.join("archives")
    }

    /// For `env`: which configuration counts, ahead of the machine's own.
    fn setting(&self) -> OsString {
        let mut setting = OsString::from("APT_CONFIG=");
        setting.push(self.folder.join("apt.conf"));
        setting
    }
}

impl Load for Apt {
    fn bytes(&self) -> ByteCount {
        files::total(&self.files)
    }

    fn command(&self, round: u8) -> io::Result<Vec<OsString>> {
        empty(&self.archives())?;
        std::fs::create_dir_all(self.archives().join("partial"))?;
        let mut words = vec!["env".into(), self.setting()];
        words.extend(["apt-get", "install", "--download-only", "-y", "-q"].map(OsString::from));
        let files = files::shuffled(&self.files, round);
        words.extend(files.iter().map(|file| package(file).into()));
        Ok(words)
    }

    fn check(&self, _printed: &str) -> anyhow::Result<Option<f64>> {
        for (file, published) in self.files.iter().zip(&self.published) {
            let archive = format!("{}_1_all.deb", package(file));
            files::compare(published, &self.archives().join(archive))?;
        }
        Ok(None)
    }
}

/// Returns the name of a file's package.
fn package(file: &File) -> &str {
    file.name.trim_end_matches(".deb")
}

/// The list of a repository's packages.
fn index(repository: &Path, files: &[File]) -> anyhow::Result<String> {
    let mut command = Command::new("sha256sum");
    command.current_dir(repository);
    command.args(files.iter().map(|file| &file.name));
    let printed = output_of("sha256sum", command, UPDATE_LIMIT)?;
    let mut text = String::new();
    for (file, line) in files.iter().zip(printed.lines()) {
        let sum = line.split_whitespace().next().unwrap_or_default();
        let (package, name, size) = (package(file), &file.name, file.size);
        writeln!(
            text,
            "Package: {package}\nVersion: 1\nArchitecture: all\nMaintainer: lab <lab@localhost>\n\
             Filename: ./{name}\nSize: {size}\nSHA256: {sum}\nDescription: bytes\n"
        )?;
    }
    Ok(text)
}

/// Configures apt so that it neither reads nor writes the machine's own state and runs as this
/// user.
fn configuration(folder: &Path) -> String {
    let at = folder.display();
    format!(
        "Dir::State \"{at}/state\";
Dir::State::status \"{at}/status\";
Dir::Cache \"{at}/cache\";
Dir::Cache::archives \"{at}/archives\";
Dir::Etc::main \"/dev/null\";
Dir::Etc::parts \"/dev/null\";
Dir::Etc::sourcelist \"{at}/sources.list\";
Dir::Etc::sourceparts \"/dev/null\";
Dir::Etc::preferences \"/dev/null\";
Dir::Etc::preferencesparts \"/dev/null\";
Dir::Log \"{at}\";
APT::Sandbox::User \"root\";
Acquire::Languages \"none\";
Acquire::Retries \"0\";
"
    )
}

const UPDATE_LIMIT: Duration = Duration::from_secs(60);
