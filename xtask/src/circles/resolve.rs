//! Finds the file that defines the item of a path.

use std::collections::BTreeSet;

use super::tree::Tree;

/// A line of one file that names an item of another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Import {
    /// The file with the line, below `src`.
    pub(crate) from: String,
    /// The line, counted from 1.
    pub(crate) line: usize,
    /// The path as it stands there.
    pub(crate) name: String,
    /// The file that defines the item.
    pub(crate) to: String,
}

/// Returns what files of a crate import of each other: of each item the first line in each file.
pub(crate) fn imports(tree: &Tree) -> Vec<Import> {
    let mut found = BTreeSet::new();
    for (number, node) in tree.nodes() {
        let module = &node.module;
        // A name that is only passed on to other modules is not used.
        let used = module.bindings.iter();
        let used = used.filter(|b| !b.is_public || module.words.contains_key(&b.name));
        let used = used.map(|b| (b.path.clone(), b.line));
        let words = if module.globs.is_empty() {
            None
        } else {
            Some(module.words.iter())
        };
        let from_globs = words.into_iter().flatten();
        let from_globs = from_globs.map(|(word, line)| (vec![word.clone()], *line));
        let in_code = module
            .paths
            .iter()
            .map(|(path, line)| (path.clone(), *line));
        for (path, line) in used.chain(in_code).chain(from_globs) {
            // Modules, and what lies outside the crate, don't count.
            let target = resolve(tree, number, &path, &mut BTreeSet::new());
            let Some(Target::Item(to)) = target else {
                continue;
            };
            let to = &tree.node(to).file;
            if *to != node.file {
                found.insert(Import {
                    from: node.file.clone(),
                    line,
                    name: path.join("::"),
                    to: to.clone(),
                });
            }
        }
    }
    found.into_iter().collect()
}

#[derive(Clone, Copy)]
enum Target {
    /// An item that this module defines.
    Item(usize),
    Module(usize),
}

/// Names that are being looked up, by module, so that a circle of re-exports ends.
type Pending = BTreeSet<(usize, String)>;

fn resolve(tree: &Tree, from: usize, path: &[String], pending: &mut Pending) -> Option<Target> {
    let (first, rest) = path.split_first()?;
    let mut rest = rest;
    let mut target = match first.as_str() {
        "crate" => Target::Module(0),
        "self" => Target::Module(from),
        "super" => Target::Module(tree.node(from).parent),
        name => look_up(tree, from, name, rest.is_empty(), pending)?,
    };
    while let (Target::Module(module), Some((name, behind))) = (target, rest.split_first()) {
        rest = behind;
        target = match name.as_str() {
            "super" => Target::Module(tree.node(module).parent),
            // A macro may have made what is not to be seen.
            name => look_up(tree, module, name, rest.is_empty(), pending)
                .unwrap_or(Target::Item(module)),
        };
    }
    Some(target)
}

/// Finds a name in a module. The last word of a path means the item rather than the module.
fn look_up(
    tree: &Tree,
    module: usize,
    name: &str,
    is_last: bool,
    pending: &mut Pending,
) -> Option<Target> {
    let node = tree.node(module);
    let child = node.children.get(name).map(|child| Target::Module(*child));
    let item = node.module.items.contains(name);
    let item = item.then_some(Target::Item(module));
    let own = if is_last {
        item.or(child)
    } else {
        child.or(item)
    };
    if own.is_some() || !pending.insert((module, name.to_owned())) {
        return own;
    }
    let bindings = node.module.bindings.iter().filter(|b| b.name == name);
    let mut targets: Vec<Target> = bindings
        .filter_map(|b| resolve(tree, module, &b.path, pending))
        .collect();
    for glob in &node.module.globs {
        if let Some(Target::Module(source)) = resolve(tree, module, glob, pending) {
            targets.extend(look_up(tree, source, name, is_last, pending));
        }
    }
    pending.remove(&(module, name.to_owned()));
    let item = |target: &&Target| matches!(target, Target::Item(_)) == is_last;
    targets.iter().find(item).or(targets.first()).copied()
}
