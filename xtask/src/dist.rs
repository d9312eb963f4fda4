//! `cargo xtask dist`: builds the packages for users, a Debian package and a tarball.

mod debian;
mod options;
mod program;
mod release;
mod tarball;
mod tree;
mod twice;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

pub(crate) use options::PACKAGES;
use options::{Options, Source};
use program::Program;
use release::Release;
use tree::Tree;

/// Builds the program for packages, and packages in `target/packages`, as `arguments` say.
///
/// Two builds of one commit, by the same compiler, give the same bytes: times are the commit's, and
/// no path of this machine gets into the program. With `--twice` that is checked.
pub(crate) fn dist(root: &Path, arguments: &[&str]) -> Result<()> {
    let options = Options::parse(arguments)?;
    if options.is_twice {
        return twice::compare(root, &options);
    }
    for file in pack(root, &options)? {
        println!("{}", file.display());
    }
    Ok(())
}

/// Makes the packages anew; returns their files.
fn pack(root: &Path, options: &Options) -> Result<Vec<PathBuf>> {
    let release = Release::of(root, options.version.as_deref())?;
    let folder = options.out.clone();
    let packages = folder.unwrap_or_else(|| root.join(PACKAGES));
    let work = packages.join("work");
    match &options.out {
        // The folder may belong to another program.
        Some(_) if work.exists() => bail!("{} is there already", work.display()),
        None if packages.exists() => fs::remove_dir_all(&packages)?,
        _ => {}
    }
    fs::create_dir_all(&work)?;
    let program = match &options.source {
        Source::Profile(profile) => Program::build(root, profile, &release, &work)?,
        Source::Program(file) => Program::given(file, &work)?,
    };
    let tree = Tree::fill(root, &program, &release, &work.join("tree"))?;
    let mut made = Vec::new();
    // A program that is packed as it was found is for trying the package, not for others.
    let is_for_others = program.symbols.is_some();
    if is_for_others {
        made.push(tarball::pack(root, &tree, &release, &packages)?);
    }
    match Command::new("dpkg-deb").arg("--version").output() {
        Ok(_) => made.extend(debian::pack(root, &tree, &program, &release, &packages)?),
        Err(error) if is_for_others => {
            eprintln!("no Debian package is made: cannot run dpkg-deb: {error}");
        }
        Err(error) => bail!("cannot run dpkg-deb: {error}"),
    }
    fs::remove_dir_all(&work)?;
    Ok(made)
}
