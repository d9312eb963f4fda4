//! The modules of one crate.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};

use super::scan::{self, Module};

/// The modules of a crate, its root first.
pub(crate) struct Tree {
    nodes: Vec<Node>,
}

/// A module with its place in the crate.
pub(crate) struct Node {
    /// The file below `src`, such as `driver/channel.rs`.
    pub(crate) file: String,
    /// The module around it; the root's is the root.
    pub(crate) parent: usize,
    /// The modules in it, by name.
    pub(crate) children: BTreeMap<String, usize>,
    /// What stands in it.
    pub(crate) module: Module,
}

impl Tree {
    /// Reads the crate whose root file is `start` in the folder `source`.
    pub(crate) fn read(source: &Path, start: &str) -> Result<Self> {
        Self::build(start, &|file| {
            let path = source.join(file);
            std::fs::read_to_string(&path).with_context(|| path.display().to_string())
        })
    }

    /// Reads a crate whose files `load` gives, by their names below `src`.
    pub(crate) fn build(start: &str, load: &dyn Fn(&str) -> Result<String>) -> Result<Self> {
        let mut tree = Self { nodes: Vec::new() };
        tree.add_file(start, "", 0, load)?;
        Ok(tree)
    }

    /// Every module with its number.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (usize, &Node)> {
        self.nodes.iter().enumerate()
    }

    /// The module with this number.
    pub(crate) fn node(&self, number: usize) -> &Node {
        &self.nodes[number]
    }

    /// Adds the module in `file`, whose modules lie in `folder`, which is empty or ends in `/`.
    fn add_file(
        &mut self,
        file: &str,
        folder: &str,
        parent: usize,
        load: &dyn Fn(&str) -> Result<String>,
    ) -> Result<usize> {
        let module = scan::scan(&load(file)?);
        self.add(file, folder, parent, module, load)
    }

    fn add(
        &mut self,
        file: &str,
        folder: &str,
        parent: usize,
        mut module: Module,
        load: &dyn Fn(&str) -> Result<String>,
    ) -> Result<usize> {
        let inline = std::mem::take(&mut module.inline);
        let names = std::mem::take(&mut module.files);
        let number = self.nodes.len();
        self.nodes.push(Node {
            file: file.to_owned(),
            parent,
            children: BTreeMap::new(),
            module,
        });
        for (name, inside) in inline {
            let folder = format!("{folder}{name}/");
            let child = self.add(file, &folder, number, inside, load)?;
            self.nodes[number].children.insert(name, child);
        }
        for name in names {
            let child = format!("{folder}{name}.rs");
            let folder = format!("{folder}{name}/");
            let child = self.add_file(&child, &folder, number, load)?;
            self.nodes[number].children.insert(name, child);
        }
        Ok(number)
    }
}
