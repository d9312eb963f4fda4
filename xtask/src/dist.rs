//! `cargo xtask dist`: what others install, a Debian package and a tarball.

mod debian;
mod program;
mod release;
mod tarball;
mod tree;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use program::Program;
use release::Release;
use tree::Tree;

/// Builds the program for packages, and packages in `target/packages`.
///
/// Two builds of one commit, by the same compiler, give the same bytes: times are the commit's, and
/// no path of this machine gets into the program.
pub(crate) fn dist(root: &Path) -> Result<()> {
    let release = Release::of(root)?;
    let packages = root.join("target/packages");
    if packages.exists() {
        fs::remove_dir_all(&packages)?;
    }
    let work = packages.join("work");
    fs::create_dir_all(&work)?;
    let program = Program::build(root, &release, &work)?;
    let tree = Tree::fill(root, &program, &release, &work.join("tree"))?;
    let mut made = vec![tarball::pack(root, &tree, &release, &packages)?];
    match Command::new("dpkg-deb").arg("--version").output() {
        Ok(_) => made.extend(debian::pack(root, &tree, &program, &release, &packages)?),
        Err(error) => eprintln!("no Debian package is made: cannot run dpkg-deb: {error}"),
    }
    fs::remove_dir_all(&work)?;
    for file in made {
        println!("{}", file.display());
    }
    Ok(())
}
