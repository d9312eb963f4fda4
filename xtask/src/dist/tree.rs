//! The files of an installation, below its prefix.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::program::Program;
use super::release::Release;
use crate::licences::ThirdParties;
use crate::process::{run, said};

/// A folder with `bin`, `lib` and `share` in it.
pub(super) struct Tree {
    pub(super) folder: PathBuf,
}

impl Tree {
    /// Puts everything into `folder`.
    pub(super) fn fill(
        root: &Path,
        program: &Program,
        release: &Release,
        folder: &Path,
    ) -> Result<Self> {
        let tree = Self {
            folder: folder.to_owned(),
        };
        tree.copy(&program.stripped, "bin/hawser", 0o755)?;
        for (from, to) in FILES {
            tree.copy(&root.join(from), to, 0o644)?;
        }
        tree.copy_all(&root.join("docs/guide"), "share/doc/hawser/guide")?;
        let hawser = || Command::new(&program.stripped);
        for (shell, to) in COMPLETIONS {
            let script = said(hawser().args(["completions", shell]))?;
            tree.write(to, &format!("{script}\n"))?;
        }
        let pages = tree.folder.join("share/man/man1");
        run(hawser().args(["man", "--out"]).arg(&pages))?;
        let example = fs::read_to_string(root.join("docs/hawser.example.toml"))?;
        tree.write("share/hawser/hawser.toml", &commented(&example))?;
        // It has to be what the program takes.
        let config = tree.folder.join("share/hawser/hawser.toml");
        said(
            hawser()
                .arg("--config")
                .arg(config)
                .args(["rule", "list", "--json", "--state"])
                .arg(tree.folder.join("no-state")),
        )?;
        let licences = ThirdParties::find(root)?.text()?;
        tree.write("share/doc/hawser/THIRD-PARTY-LICENCES", &licences)?;
        let changes = tree.folder.join("share/doc/hawser/changelog");
        fs::copy(root.join("CHANGELOG.md"), &changes)?;
        let mut texts = files(&pages, 0)?;
        for folder in ["share/doc/hawser", "share/doc/hawser/guide"] {
            texts.extend(files(&tree.folder.join(folder), LONG)?);
        }
        run(Command::new("gzip").arg("-9n").args(texts))?;
        release.stamp(&tree.folder)?;
        Ok(tree)
    }

    fn copy(&self, from: &Path, to: &str, mode: u32) -> Result<()> {
        let text = fs::read(from).with_context(|| from.display().to_string())?;
        self.put(to, &text, mode)
    }

    /// Copies the files of a folder.
    fn copy_all(&self, from: &Path, to: &str) -> Result<()> {
        for file in fs::read_dir(from).with_context(|| from.display().to_string())? {
            let file = file?;
            let to = format!("{to}/{}", file.file_name().to_string_lossy());
            self.copy(&file.path(), &to, 0o644)?;
        }
        Ok(())
    }

    fn write(&self, to: &str, text: &str) -> Result<()> {
        self.put(to, text.as_bytes(), 0o644)
    }

    fn put(&self, to: &str, content: &[u8], mode: u32) -> Result<()> {
        let to = self.folder.join(to);
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&to, content).with_context(|| to.display().to_string())?;
        Ok(fs::set_permissions(&to, fs::Permissions::from_mode(mode))?)
    }
}

/// The files in a folder, but not below it, that are longer than this many bytes.
fn files(folder: &Path, bytes: u64) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for file in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let file = file?;
        let metadata = file.metadata()?;
        if metadata.is_file() && metadata.len() > bytes {
            found.push(file.path());
        }
    }
    Ok(found)
}

/// The configuration that an installation begins with: each key with its default, behind `#:`, so
/// that a later version's defaults count.
fn commented(example: &str) -> String {
    let mut text = HEAD.to_owned();
    // The example's own remarks on itself end with the first empty line.
    let body = example.split_once("\n\n").map_or(example, |(_, body)| body);
    for line in body.lines() {
        let is_said = !line.is_empty() && !line.starts_with('#');
        let is_section = line.starts_with('[') && !line.starts_with("[[");
        text.push_str(if is_said && !is_section { "#: " } else { "" });
        text.push_str(line);
        text.push('\n');
    }
    text
}

const HEAD: &str = "\
# Hawser's configuration. Lines that begin with \"#:\" show every key, with its default where it has
# one: take the \"#:\" away to set it. After a change: systemctl restart hawser-up (or
# hawser-serve). Units are part of the value: \"40ms\", \"60s\", \"5min\", \"7d\"; \"512B\", \"64KiB\",
# \"2MB\", \"1GiB\".

";

const FILES: [(&str, &str); 17] = [
    (
        "contrib/systemd/hawser-up.service",
        "lib/systemd/system/hawser-up.service",
    ),
    (
        "contrib/systemd/hawser-serve.service",
        "lib/systemd/system/hawser-serve.service",
    ),
    (
        "contrib/systemd/hawser-kill-switch.service",
        "lib/systemd/system/hawser-kill-switch.service",
    ),
    (
        "contrib/systemd/hawser-up.service.d/capture.conf",
        "share/doc/hawser/examples/hawser-up.service.d/capture.conf",
    ),
    (
        "contrib/systemd/hawser-up.service.d/kill-switch.conf",
        "share/doc/hawser/examples/hawser-up.service.d/kill-switch.conf",
    ),
    (
        "contrib/systemd/hawser-up.service.d/programs.conf",
        "share/doc/hawser/examples/hawser-up.service.d/programs.conf",
    ),
    (
        "contrib/systemd/hawser-serve.service.d/front.conf",
        "share/doc/hawser/examples/hawser-serve.service.d/front.conf",
    ),
    (
        "contrib/polkit/60-hawser.rules",
        "share/doc/hawser/examples/60-hawser.rules",
    ),
    (
        "contrib/grafana/hawser.json",
        "share/doc/hawser/examples/grafana.json",
    ),
    ("README.md", "share/doc/hawser/README.md"),
    ("docs/errors.md", "share/doc/hawser/errors.md"),
    ("docs/operations.md", "share/doc/hawser/operations.md"),
    (
        "docs/images/guide-connections.svg",
        "share/doc/hawser/images/guide-connections.svg",
    ),
    (
        "docs/images/guide-packets.svg",
        "share/doc/hawser/images/guide-packets.svg",
    ),
    (
        "docs/images/guide-streams.svg",
        "share/doc/hawser/images/guide-streams.svg",
    ),
    ("docs/metrics.md", "share/doc/hawser/metrics.md"),
    ("docs/control-api.md", "share/doc/hawser/control-api.md"),
];

/// Longer documents are compressed, as Debian's policy asks (§12.3).
const LONG: u64 = 4096;

/// Shells, and where distributions keep what completes commands in them.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/hawser"),
    ("zsh", "share/zsh/vendor-completions/_hawser"),
    ("fish", "share/fish/vendor_completions.d/hawser.fish"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_configuration_sets_nothing() {
        let example =
            "# About.\n# More.\n\n# One.\n[serve]\nudp = true\n#: a = 1\n\n[[link]]\nx = 1\n";
        let text = commented(example);
        let body = text.strip_prefix(HEAD).unwrap();
        assert_eq!(
            body,
            "# One.\n[serve]\n#: udp = true\n#: a = 1\n\n#: [[link]]\n#: x = 1\n"
        );
    }
}
