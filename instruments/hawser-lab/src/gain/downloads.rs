//! Files by curl: all at once by one, or each by one of its own.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use hawser_types::ByteCount;

use super::files::{self, File};
use super::site::{HOSTS, Load, Site};

/// Files on the server and where they go.
pub(super) struct Downloads {
    files: Vec<File>,
    published: PathBuf,
    got: PathBuf,
    list: Option<PathBuf>,
}

impl Downloads {
    /// Eight files, for one curl.
    pub(super) fn at_once(site: &Site<'_>) -> io::Result<Self> {
        let files = files::mixed(site.percent);
        Self::publish(site, "curl", files, None)
    }

    /// Packages, for a curl each.
    pub(super) fn one_by_one(site: &Site<'_>) -> io::Result<Self> {
        let files = files::packages(site.percent);
        let list = site.folder.join("fetch.list");
        Self::publish(site, "fetch", files, Some(list))
    }

    fn publish(
        site: &Site<'_>,
        name: &str,
        files: Vec<File>,
        list: Option<PathBuf>,
    ) -> io::Result<Self> {
        let published = site.root.join(name);
        files::publish(&published, &files)?;
        Ok(Self {
            files,
            published,
            got: site.folder.join(format!("{name}-got")),
            list,
        })
    }

    fn urls(&self, round: u8) -> Vec<String> {
        let (host, folder) = (HOSTS[0], self.published.file_name().unwrap_or_default());
        let folder = folder.to_string_lossy();
        let files = files::shuffled(&self.files, round);
        let urls = files
            .iter()
            .map(|file| format!("http://{host}/{folder}/{}", file.name));
        urls.collect()
    }
}

impl Load for Downloads {
    fn bytes(&self) -> ByteCount {
        files::total(&self.files)
    }

    fn command(&self, round: u8) -> io::Result<Vec<OsString>> {
        empty(&self.got)?;
        let urls = self.urls(round);
        let mut words: Vec<OsString> = Vec::new();
        if let Some(list) = &self.list {
            std::fs::write(list, urls.join("\n"))?;
            words.extend(["xargs", "-n", "1", "-P", AT_A_TIME, "-a"].map(OsString::from));
            words.push(list.into());
        }
        words.extend(CURL.map(OsString::from));
        words.push((&self.got).into());
        match &self.list {
            Some(_) => words.push("--remote-name".into()),
            None => {
                words.extend(["--parallel", "--remote-name-all"].map(OsString::from));
                words.extend(urls.into_iter().map(OsString::from));
            }
        }
        Ok(words)
    }

    fn check(&self, _printed: &str) -> anyhow::Result<Option<f64>> {
        for file in &self.files {
            files::compare(&self.published.join(&file.name), &self.got.join(&file.name))?;
        }
        Ok(None)
    }
}

/// The folder with nothing in it.
pub(super) fn empty(folder: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::fs::create_dir_all(folder)
}

/// Options that keep curl from reading the user's configuration.
const CURL: [&str; 7] = [
    "curl",
    "--disable",
    "--http1.1",
    "--fail",
    "--silent",
    "--show-error",
    "--output-dir",
];
/// As pacman and dnf have it.
const AT_A_TIME: &str = "5";
