//! The declarations, imports and names of one file of Rust source.
//!
//! Scans tokens, because a few keywords identify the relevant parts (items at the top of a module,
//! `use` trees and paths). A parser would not see into macros' arguments.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::Source;

/// A module: a file, or `mod name { … }` in one.
#[derive(Debug, Default)]
pub(crate) struct Module {
    /// Names of the items that stand in the module itself.
    pub(crate) items: BTreeSet<String>,
    /// Names of the modules that lie in files of their own.
    pub(crate) files: Vec<String>,
    /// The modules in braces, with their names.
    pub(crate) inline: Vec<(String, Module)>,
    /// The names that `use` brings.
    pub(crate) bindings: Vec<Binding>,
    /// The paths of `use path::*`, with their lines.
    pub(crate) globs: Vec<(Vec<String>, usize)>,
    /// Paths of two words and more in the code, with their lines.
    pub(crate) paths: BTreeMap<Vec<String>, usize>,
    /// Single words in the code, with the line where each stands first.
    pub(crate) words: BTreeMap<String, usize>,
}

/// A name that a `use` brings into a module.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    /// The name in this module.
    pub(crate) name: String,
    /// The path to what it names.
    pub(crate) path: Vec<String>,
    /// True if other modules can see the name.
    pub(crate) is_public: bool,
    /// Line, counted from 1.
    pub(crate) line: usize,
}

/// Reads what a file says outside tests.
pub(crate) fn scan(text: &str) -> Module {
    let mut scanner = Scanner {
        tokens: tokens(text),
        at: 0,
    };
    scanner.module()
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    /// `::`
    Colons,
    Sign(char),
}

fn tokens(text: &str) -> Vec<(Token, usize)> {
    let source = Source::parse(text);
    let tests = source.test_items();
    let mut found = Vec::new();
    for (index, (line, raw)) in source.lines.iter().zip(text.split('\n')).enumerate() {
        if tests.iter().any(|t| t.contains(&index)) {
            continue;
        }
        push_tokens(line, index + 1, &mut found, raw);
    }
    found
}

/// Adds the tokens of one line of code, which reads `raw` in the file.
fn push_tokens(code: &str, line: usize, found: &mut Vec<(Token, usize)>, raw: &str) {
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let length = rest
            .find(|c: char| !(c.is_alphanumeric() || c == '_'))
            .unwrap_or(rest.len());
        let (token, used) = if length > 0 {
            (Token::Word(rest[..length].to_owned()), length)
        } else if rest.starts_with("::") {
            (Token::Colons, 2)
        } else {
            (Token::Sign(first), first.len_utf8())
        };
        if token == Token::Sign('"') && is_path_expected(found) {
            let before = code.chars().count() - rest.chars().count();
            let inside = raw.chars().skip(before + 1).take_while(|c| *c != '"');
            let inside: String = inside.collect();
            push_tokens(&inside, line, found, "");
        } else if token != Token::Sign(' ') {
            found.push((token, line));
        }
        rest = &rest[used..];
    }
}

/// Whether the text that follows these tokens is the value of an attribute that holds a path, as in
/// `#[serde(with = "crate::units::milliseconds")]`.
fn is_path_expected(tokens: &[(Token, usize)]) -> bool {
    let [.., (Token::Word(name), _), (Token::Sign('='), _)] = tokens else {
        return false;
    };
    PATH_ATTRIBUTES.contains(&name.as_str())
}

struct Scanner {
    tokens: Vec<(Token, usize)>,
    at: usize,
}

impl Scanner {
    fn peek(&self, ahead: usize) -> Option<&Token> {
        self.tokens.get(self.at + ahead).map(|(token, _)| token)
    }

    fn line(&self) -> usize {
        self.tokens.get(self.at).map_or(0, |(_, line)| *line)
    }

    fn word(&self, ahead: usize) -> Option<&str> {
        match self.peek(ahead) {
            Some(Token::Word(word)) => Some(word),
            _ => None,
        }
    }

    fn is_sign(&self, ahead: usize, sign: char) -> bool {
        self.peek(ahead) == Some(&Token::Sign(sign))
    }

    /// Reads a module up to its closing brace, or to the end of the file.
    fn module(&mut self) -> Module {
        let mut module = Module::default();
        let mut depth = 0_usize;
        let mut is_public = false;
        while let Some(token) = self.peek(0).cloned() {
            match token {
                Token::Sign('{' | '(' | '[') => depth += 1,
                Token::Sign('}' | ')' | ']') if depth == 0 => {
                    self.at += 1;
                    return module;
                }
                Token::Sign('}' | ')' | ']') => depth -= 1,
                Token::Word(word) if word == "pub" => {
                    self.skip_visibility();
                    is_public = true;
                    continue;
                }
                Token::Word(word) => {
                    self.statement(&mut module, &word, depth, is_public);
                    is_public = false;
                    continue;
                }
                _ => {}
            }
            is_public = false;
            self.at += 1;
        }
        module
    }

    /// Passes `pub`, or `pub(…)`.
    fn skip_visibility(&mut self) {
        self.at += 1;
        if self.is_sign(0, '(') {
            while self.peek(0).is_some() && !self.is_sign(0, ')') {
                self.at += 1;
            }
            self.at += 1;
        }
    }

    /// Reads what begins with a word.
    fn statement(&mut self, module: &mut Module, word: &str, depth: usize, is_public: bool) {
        let name = self.word(1).map(str::to_owned);
        match (word, name) {
            ("mod", Some(name)) if self.is_sign(2, ';') => {
                module.files.push(name);
                self.at += 3;
            }
            ("mod", Some(name)) if self.is_sign(2, '{') => {
                self.at += 3;
                let inside = self.module();
                module.inline.push((name, inside));
            }
            // `use<'a>` in a type is no import.
            ("use", name) if name.is_some() || !self.is_sign(1, '<') => {
                let line = self.line();
                self.at += 1;
                self.use_tree(module, &[], is_public, line);
            }
            ("macro_rules", _) if self.is_sign(1, '!') => {
                module.items.extend(self.word(2).map(str::to_owned));
                self.at += 3;
            }
            // `const fn`, `const unsafe fn`
            ("const", Some(next)) if ["fn", "unsafe", "extern"].contains(&next.as_str()) => {
                self.at += 1;
            }
            (_, Some(name)) if is_item_word(word) => {
                if depth == 0 {
                    module.items.insert(name);
                }
                self.at += 2;
            }
            _ => self.path(module),
        }
    }

    /// Reads one branch of a `use`, behind `prefix`.
    fn use_tree(&mut self, module: &mut Module, prefix: &[String], is_public: bool, line: usize) {
        let mut path = prefix.to_vec();
        loop {
            match self.peek(0).cloned() {
                Some(Token::Word(word)) if word == "as" => {
                    let name = self.word(1).unwrap_or("_").to_owned();
                    self.at += 2;
                    module.bind(name, path, is_public, line);
                    return;
                }
                Some(Token::Word(word)) => {
                    path.push(word);
                    self.at += 1;
                }
                Some(Token::Colons) => self.at += 1,
                Some(Token::Sign('*')) => {
                    self.at += 1;
                    module.globs.push((path, line));
                    return;
                }
                Some(Token::Sign('{')) => {
                    self.at += 1;
                    while self.peek(0).is_some() && !self.is_sign(0, '}') {
                        self.use_tree(module, &path, is_public, line);
                        if self.is_sign(0, ',') {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                Some(Token::Sign(',' | '}' | ';')) | None => break,
                Some(Token::Sign(_)) => self.at += 1,
            }
        }
        // `use a::{self}` names `a`.
        if path.len() > 1 && path.last().is_some_and(|word| word == "self") {
            path.pop();
        }
        if let Some(name) = path.last().cloned() {
            module.bind(name, path, is_public, line);
        }
    }

    /// Reads a word of the code, with the words that `::` ties to it.
    fn path(&mut self, module: &mut Module) {
        let line = self.line();
        let behind = |back: usize| self.at.checked_sub(back).map(|at| &self.tokens[at].0);
        let dot = Some(&Token::Sign('.'));
        // `0..LENGTH` and `..Options::default()` name no member.
        let is_member = behind(1) == dot && behind(2) != dot;
        let is_tail = behind(1) == Some(&Token::Colons);
        let mut path: Vec<String> = self.word(0).map(str::to_owned).into_iter().collect();
        self.at += 1;
        while self.peek(0) == Some(&Token::Colons) {
            let Some(word) = self.word(1) else { break };
            path.push(word.to_owned());
            self.at += 2;
        }
        if is_member || is_tail {
            return;
        }
        if let Some(first) = path.first() {
            module.words.entry(first.clone()).or_insert(line);
        }
        if path.len() > 1 {
            module.paths.entry(path).or_insert(line);
        }
    }
}

impl Module {
    fn bind(&mut self, name: String, path: Vec<String>, is_public: bool, line: usize) {
        self.bindings.push(Binding {
            name,
            path,
            is_public,
            line,
        });
    }
}

/// True for a word behind which the name of a new item stands.
fn is_item_word(word: &str) -> bool {
    const WORDS: [&str; 8] = [
        "fn", "struct", "enum", "union", "trait", "type", "const", "static",
    ];
    WORDS.contains(&word)
}

/// Attributes of serde whose values are paths.
const PATH_ATTRIBUTES: [&str; 8] = [
    "default",
    "deserialize_with",
    "from",
    "into",
    "serialize_with",
    "skip_serializing_if",
    "try_from",
    "with",
];
