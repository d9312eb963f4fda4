//! Just enough of Rust's lexical structure to count lines and match braces.

use std::ops::RangeInclusive;

/// Rust source with everything that is not code blanked, line for line.
pub(crate) struct Source {
    /// The code: comments are spaces, the inside of literals is `"`.
    pub(crate) lines: Vec<String>,
    /// Every line comment or line of a block comment, with its line (from 0) and column.
    pub(crate) comments: Vec<Comment>,
}

/// A comment's text on one line.
pub(crate) struct Comment {
    /// Line, counted from 0.
    pub(crate) line: usize,
    /// Column of its first character, counted from 0.
    pub(crate) column: usize,
    /// The text with its slashes.
    pub(crate) text: String,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// Its name.
    pub(crate) name: String,
    /// From the line of `fn` to that of the closing brace, counted from 0.
    pub(crate) lines: RangeInclusive<usize>,
}

impl Source {
    /// Reads Rust source. Broken source gives some answer, never a failure.
    pub(crate) fn parse(text: &str) -> Self {
        let mut lexer = Lexer {
            rest: text.chars().collect(),
            at: 0,
            code: String::new(),
            comments: Vec::new(),
        };
        lexer.run();
        let mut comments = Vec::new();
        let starts = line_starts(&lexer.code);
        for (offset, text) in lexer.comments {
            let line = starts.partition_point(|&start| start <= offset) - 1;
            comments.push(Comment {
                line,
                column: offset - starts[line],
                text,
            });
        }
        Self {
            lines: lexer.code.split('\n').map(str::to_owned).collect(),
            comments,
        }
    }

    /// Whether line `line` holds code.
    pub(crate) fn is_code(&self, line: usize) -> bool {
        self.lines
            .get(line)
            .is_some_and(|text| !text.trim().is_empty())
    }

    /// Lines of items that only tests see, attribute included.
    pub(crate) fn test_items(&self) -> Vec<RangeInclusive<usize>> {
        let code = Code::new(&self.lines);
        let mut found: Vec<RangeInclusive<usize>> = Vec::new();
        for start in code
            .find_all("#[cfg(test)]")
            .chain(code.find_all("#[cfg(all(test"))
        {
            let Some(end) = code.item_end(code.skip_attributes(start)) else {
                continue;
            };
            found.push(code.line_of(start)..=code.line_of(end));
        }
        found
    }

    /// Every function that has a body, nested ones too.
    pub(crate) fn functions(&self) -> Vec<Function> {
        let code = Code::new(&self.lines);
        let mut found = Vec::new();
        for start in code.find_all("fn ") {
            if start > 0 && is_word(code.chars[start - 1]) {
                continue;
            }
            let name: String = code.chars[start + 3..]
                .iter()
                .copied()
                .skip_while(|c| *c == ' ')
                .take_while(|c| is_word(*c))
                .collect();
            let Some(end) = code.item_end(start) else {
                continue;
            };
            if !name.is_empty() && code.chars[end] == '}' {
                found.push(Function {
                    name,
                    lines: code.line_of(start)..=code.line_of(end),
                });
            }
        }
        found
    }
}

/// The blanked code as characters, with what is asked of it.
struct Code {
    chars: Vec<char>,
    starts: Vec<usize>,
}

impl Code {
    fn new(lines: &[String]) -> Self {
        let text = lines.join("\n");
        Self {
            starts: line_starts(&text),
            chars: text.chars().collect(),
        }
    }

    fn line_of(&self, offset: usize) -> usize {
        self.starts.partition_point(|&start| start <= offset) - 1
    }

    fn find_all(&self, needle: &str) -> impl Iterator<Item = usize> {
        let needle: Vec<char> = needle.chars().collect();
        (0..self.chars.len()).filter(move |&at| self.chars[at..].starts_with(&needle))
    }

    /// The place behind the attributes that begin at `at`.
    fn skip_attributes(&self, mut at: usize) -> usize {
        loop {
            while self.chars.get(at).is_some_and(|c| c.is_whitespace()) {
                at += 1;
            }
            if self.chars.get(at) != Some(&'#') {
                return at;
            }
            let mut depth = 0_usize;
            while let Some(c) = self.chars.get(at) {
                at += 1;
                match c {
                    '[' => depth += 1,
                    ']' if depth <= 1 => break,
                    ']' => depth -= 1,
                    _ => {}
                }
            }
        }
    }

    /// Where the item that begins at `at` ends: its `;`, or the brace that closes its body.
    fn item_end(&self, at: usize) -> Option<usize> {
        let (mut braces, mut nested) = (0_usize, 0_usize);
        for (offset, c) in self.chars.iter().enumerate().skip(at) {
            match c {
                '(' | '[' => nested += 1,
                ')' | ']' => nested = nested.saturating_sub(1),
                '{' => braces += 1,
                '}' if braces <= 1 => return Some(offset),
                '}' => braces -= 1,
                ';' if braces == 0 && nested == 0 => return Some(offset),
                _ => {}
            }
        }
        None
    }
}

/// Walks source text once and blanks comments and literals. Offsets count characters.
struct Lexer {
    rest: Vec<char>,
    at: usize,
    code: String,
    comments: Vec<(usize, String)>,
}

impl Lexer {
    fn run(&mut self) {
        while let Some(c) = self.peek(0) {
            match c {
                '/' if self.peek(1) == Some('/') => self.line_comment(),
                '/' if self.peek(1) == Some('*') => self.block_comment(),
                '"' => self.string(),
                '\'' => self.quote(),
                'r' if self.raw_hashes().is_some() => self.raw_string(),
                _ => {
                    self.code.push(c);
                    self.at += 1;
                }
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.rest.get(self.at + ahead).copied()
    }

    /// Passes one character, which is shown as `shown`; line ends stay.
    fn pass(&mut self, shown: char) {
        let c = self.peek(0);
        // One `char` of code for one of source keeps offsets equal.
        self.code.push(if c == Some('\n') { '\n' } else { shown });
        self.at += 1;
    }

    fn line_comment(&mut self) {
        let start = self.at;
        while self.peek(0).is_some_and(|c| c != '\n') {
            self.pass(' ');
        }
        self.note_comment(start);
    }

    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        let mut start = self.at;
        while let Some(c) = self.peek(0) {
            let pair = (c, self.peek(1));
            match pair {
                ('/', Some('*')) => depth += 1,
                ('*', Some('/')) => depth -= 1,
                ('\n', _) => {
                    self.note_comment(start);
                    start = self.at + 1;
                }
                _ => {}
            }
            if matches!(pair, ('/', Some('*')) | ('*', Some('/'))) {
                self.pass(' ');
            }
            self.pass(' ');
            if depth == 0 {
                break;
            }
        }
        self.note_comment(start);
    }

    fn note_comment(&mut self, start: usize) {
        let text = self.rest[start..self.at.min(self.rest.len())]
            .iter()
            .collect();
        self.comments.push((start, text));
    }

    fn string(&mut self) {
        self.pass('"');
        while let Some(c) = self.peek(0) {
            self.pass('"');
            match c {
                '\\' if self.peek(0).is_some() => self.pass('"'),
                '"' => return,
                _ => {}
            }
        }
    }

    /// A character literal, or else the tick of a lifetime.
    fn quote(&mut self) {
        let literal = self.peek(1) == Some('\\') || self.peek(2) == Some('\'');
        self.pass('"');
        if !literal {
            return;
        }
        while let Some(c) = self.peek(0) {
            self.pass('"');
            match c {
                '\\' if self.peek(0).is_some() => self.pass('"'),
                '\'' => return,
                _ => {}
            }
        }
    }

    /// How many `#` open the raw string that begins here, if one does.
    fn raw_hashes(&self) -> Option<usize> {
        let before = self.at.checked_sub(1).map(|at| self.rest[at]);
        let before_that = self.at.checked_sub(2).map(|at| self.rest[at]);
        let prefixed = matches!(before, Some('b' | 'c')) && !before_that.is_some_and(is_word);
        if before.is_some_and(is_word) && !prefixed {
            return None;
        }
        let hashes = self.rest[self.at + 1..]
            .iter()
            .take_while(|c| **c == '#')
            .count();
        (self.peek(1 + hashes) == Some('"')).then_some(hashes)
    }

    fn raw_string(&mut self) {
        let hashes = self.raw_hashes().unwrap_or(0);
        for _ in 0..hashes + 2 {
            self.pass('"');
        }
        while let Some(c) = self.peek(0) {
            let closes = c == '"' && (1..=hashes).all(|ahead| self.peek(ahead) == Some('#'));
            self.pass('"');
            if closes {
                for _ in 0..hashes {
                    self.pass('"');
                }
                return;
            }
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Offsets, in characters, at which lines begin; never empty.
fn line_starts(text: &str) -> Vec<usize> {
    let behind = text.chars().enumerate().filter(|(_, c)| *c == '\n');
    std::iter::once(0)
        .chain(behind.map(|(at, _)| at + 1))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_of(text: &str) -> String {
        Source::parse(text).lines.join("\n")
    }

    #[test]
    fn comments_become_blank_and_are_kept_aside() {
        let source = Source::parse("a; // b {\n/* c /* d */\n e */ f\n");
        assert_eq!(source.lines.join("\n").replace(' ', ""), "a;\n\nf\n");
        let notes: Vec<_> = source.comments.iter().map(|c| (c.line, c.column)).collect();
        assert_eq!(notes, [(0, 3), (1, 0), (2, 0)]);
        assert_eq!(source.comments[0].text, "// b {");
    }

    #[test]
    fn braces_in_literals_are_no_braces() {
        for literal in [
            "\"{\"",
            "\"\\\"{\"",
            "'{'",
            "r\"{\"",
            "br#\"{\"{\"#",
            "b'{'",
            "'\\''",
        ] {
            let code = code_of(&format!("let x = {literal};"));
            assert!(!code.contains('{'), "{literal}: {code}");
            assert!(code.ends_with(';'), "{literal}: {code}");
        }
    }

    #[test]
    fn lifetimes_and_raw_identifiers_stay_code() {
        assert!(code_of("fn f<'a>(x: &'a u8) { r#type }").ends_with("r#type }"));
        assert!(code_of("for\"").starts_with("for"));
    }

    #[test]
    fn finds_functions_with_bodies_only() {
        let text = "trait T { fn no(&self); }\nfn yes(x: [u8; 2]) -> u8 {\n  if a { b }\n}\n\
                    type F = fn (u8);\nfn outer() { fn inner() {} }";
        let names: Vec<_> = Source::parse(text)
            .functions()
            .into_iter()
            .map(|f| (f.name, f.lines))
            .collect();
        let expected = [("yes", 1..=3), ("outer", 5..=5), ("inner", 5..=5)];
        assert_eq!(
            names,
            expected.map(|(name, lines)| (name.to_owned(), lines))
        );
    }

    #[test]
    fn finds_what_only_tests_see() {
        let text = "fn a() {}\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n fn b() {}\n}\n\
                    #[cfg(test)]\nuse c;\nfn d() {}";
        assert_eq!(Source::parse(text).test_items(), [1..=5, 6..=7]);
    }

    #[test]
    fn broken_source_is_no_reason_to_fail() {
        for text in [
            "\"",
            "'",
            "r#\"",
            "/*",
            "*/",
            "fn",
            "fn f(",
            "}",
            "#[cfg(test)]",
            "'\\",
            "é'",
        ] {
            let source = Source::parse(text);
            let _ = (source.functions(), source.test_items(), source.is_code(0));
        }
    }
}
