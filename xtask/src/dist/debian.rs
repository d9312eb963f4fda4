//! The Debian packages: the program, and its debug symbols.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::program::{Program, Symbols};
use super::release::Release;
use super::tree::Tree;
use crate::process::{run, said};

/// Makes the packages; returns their files. A program that was not built for packages has no debug
/// symbols.
pub(super) fn pack(
    root: &Path,
    tree: &Tree,
    program: &Program,
    release: &Release,
    packages: &Path,
) -> Result<Vec<PathBuf>> {
    let architecture = said(Command::new("dpkg").arg("--print-architecture"))?;
    let packing = Packing {
        root,
        program,
        release,
        packages,
        architecture,
    };
    let mut made = vec![packing.program(tree)?];
    if let Some(symbols) = &program.symbols {
        made.push(packing.symbols(symbols)?);
    }
    Ok(made)
}

struct Packing<'a> {
    root: &'a Path,
    program: &'a Program,
    release: &'a Release,
    packages: &'a Path,
    /// As Debian calls it, such as `amd64`.
    architecture: String,
}

impl Packing<'_> {
    fn program(&self, tree: &Tree) -> Result<PathBuf> {
        let folder = self.packages.join("work/deb");
        fs::create_dir_all(folder.join("usr"))?;
        run(Command::new("cp")
            .arg("-a")
            .arg(tree.folder.join("."))
            .arg(folder.join("usr")))?;
        let put = |from: &str, to: &str| {
            let to = folder.join(to);
            fs::create_dir_all(to.parent().context("a file is in a folder")?)?;
            fs::copy(self.root.join(from), &to)?;
            anyhow::Ok(())
        };
        put("contrib/debian/default", "etc/default/hawser")?;
        put(
            "contrib/debian/sysusers.conf",
            "usr/lib/sysusers.d/hawser.conf",
        )?;
        let overrides = "usr/share/lintian/overrides/hawser";
        put("contrib/debian/lintian-overrides", overrides)?;
        fs::write(
            folder.join("usr/share/doc/hawser/copyright"),
            self.copyright()?,
        )?;
        let changes = folder.join("usr/share/doc/hawser/changelog.Debian");
        fs::write(&changes, self.changelog()?)?;
        run(Command::new("gzip").arg("-9n").arg(&changes))?;
        for script in ["postinst", "prerm", "postrm"] {
            let to = format!("DEBIAN/{script}");
            put(&format!("contrib/debian/{script}"), &to)?;
            fs::set_permissions(folder.join(to), fs::Permissions::from_mode(0o755))?;
        }
        fs::write(folder.join("DEBIAN/conffiles"), "/etc/default/hawser\n")?;
        self.build("hawser", "contrib/debian/control.in", &folder)
    }

    fn symbols(&self, of: &Symbols) -> Result<PathBuf> {
        let folder = self.packages.join("work/dbgsym");
        let (first, rest) = of.build_id.split_at(2);
        let symbols = folder.join(format!("usr/lib/debug/.build-id/{first}/{rest}.debug"));
        fs::create_dir_all(symbols.parent().context("a file is in a folder")?)?;
        fs::copy(&of.file, &symbols)?;
        let docs = folder.join("usr/share/doc/hawser-dbgsym");
        fs::create_dir_all(&docs)?;
        fs::write(docs.join("copyright"), self.copyright()?)?;
        fs::create_dir_all(folder.join("DEBIAN"))?;
        self.build("hawser-dbgsym", "contrib/debian/control-dbgsym.in", &folder)
    }

    /// Writes control information for `folder` and packs it.
    fn build(&self, name: &str, control: &str, folder: &Path) -> Result<PathBuf> {
        let control = fs::read_to_string(self.root.join(control))?;
        let size = said(
            Command::new("du")
                .args(["-k", "-s", "--apparent-size"])
                .arg(folder),
        )?;
        let size = size.split_whitespace().next().unwrap_or("0");
        let symbols = self.program.symbols.as_ref();
        let control = control
            .replace("@VERSION@", &self.version())
            .replace("@ARCHITECTURE@", &self.architecture)
            .replace("@DEPENDS@", &self.depends()?)
            .replace("@BUILD_ID@", symbols.map_or("", |it| &it.build_id))
            .replace("@SIZE@", size);
        fs::write(folder.join("DEBIAN/control"), control)?;
        run(Command::new("sh").current_dir(folder).args([
            "-c",
            "find usr etc -type f 2>/dev/null | LC_ALL=C sort | xargs md5sum > DEBIAN/md5sums",
        ]))?;
        run(Command::new("chmod")
            .args(["-R", "u=rwX,go=rX"])
            .arg(folder))?;
        self.release.stamp(folder)?;
        let file = format!("{name}_{}_{}.deb", self.version(), self.architecture);
        let file = self.packages.join(file);
        run(Command::new("dpkg-deb")
            .args(["--root-owner-group", "-Zxz"])
            // What is only tried here is packed soon.
            .args(symbols.is_none().then_some("-z1"))
            .arg("--build")
            .arg(folder)
            .arg(&file)
            .env("SOURCE_DATE_EPOCH", &self.release.time))?;
        Ok(file)
    }

    /// The libraries that the program needs, with their versions.
    fn depends(&self) -> Result<String> {
        let folder = self.packages.join("work/shlibs");
        fs::create_dir_all(folder.join("debian"))?;
        // It looks for the sources of a package, to know who asks.
        fs::write(
            folder.join("debian/control"),
            "Source: hawser\n\nPackage: hawser\nArchitecture: any\n",
        )?;
        let found = said(
            Command::new("dpkg-shlibdeps")
                .current_dir(&folder)
                .args(["-O", "-e"])
                .arg(&self.program.stripped),
        )
        .context("package dpkg-dev has it")?;
        let depends = found.strip_prefix("shlibs:Depends=");
        Ok(depends
            .context("dpkg-shlibdeps names no library")?
            .to_owned())
    }

    /// The packaging's own; the project's is `changelog.gz`.
    fn changelog(&self) -> Result<String> {
        let time = format!("@{}", self.release.time);
        let date = said(Command::new("date").args(["--utc", "-R", "-d", &time]))?;
        Ok(format!(
            "hawser ({}) unstable; urgency=medium\n\n  * Build of the project itself.\n\n \
             -- Hawser maintainers <maintainers@hawser.invalid>  {date}\n",
            self.version()
        ))
    }

    /// With the number of the packaging, which Debian wants.
    fn version(&self) -> String {
        format!("{}-1", self.release.version)
    }

    fn copyright(&self) -> Result<String> {
        let mit = fs::read_to_string(self.root.join("LICENSE-MIT"))?;
        let mit = mit.lines().map(|line| match line.trim_end() {
            "" => " .\n".to_owned(),
            line => format!(" {line}\n"),
        });
        Ok(format!(
            "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
             Upstream-Name: hawser\n\
             Comment: The program contains libraries of others. Their licences and\n \
             copyrights are in /usr/share/doc/hawser/THIRD-PARTY-LICENCES.gz.\n\n\
             Files: *\n\
             Copyright: 2026 The Hawser contributors\n\
             License: Apache-2.0 or Expat\n\n\
             License: Apache-2.0\n On Debian systems the text is in\n \
             /usr/share/common-licenses/Apache-2.0.\n\n\
             License: Expat\n{}",
            mit.collect::<String>()
        ))
    }
}
