//! Licence expressions of SPDX, as `MIT OR (Apache-2.0 AND ISC)`.

use std::collections::BTreeSet;

use anyhow::{Result, bail};

/// Whether licences among those `allowed` fulfil the expression. `/` is `OR`, as in older crates.
pub(super) fn is_met(expression: &str, allowed: &BTreeSet<String>) -> Result<bool> {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader {
        words: &words,
        allowed,
        depth: 0,
    };
    let is_met = reader.any()?;
    match reader.words {
        [] => Ok(is_met),
        [word, ..] => bail!("`{word}` was not expected"),
    }
}

struct Reader<'a> {
    words: &'a [&'a str],
    allowed: &'a BTreeSet<String>,
    depth: usize,
}

impl Reader<'_> {
    fn any(&mut self) -> Result<bool> {
        let mut is_met = self.all()?;
        while self.take("OR") {
            is_met |= self.all()?;
        }
        Ok(is_met)
    }

    fn all(&mut self) -> Result<bool> {
        let mut is_met = self.one()?;
        while self.take("AND") {
            is_met &= self.one()?;
        }
        Ok(is_met)
    }

    fn one(&mut self) -> Result<bool> {
        if self.take("(") {
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                bail!("it has too many brackets");
            }
            let is_met = self.any()?;
            self.depth -= 1;
            if !self.take(")") {
                bail!("a bracket is not closed");
            }
            return Ok(is_met);
        }
        let [word, rest @ ..] = self.words else {
            bail!("a licence is missing");
        };
        if ["OR", "AND", "WITH", ")"].contains(word) {
            bail!("`{word}` stands where a licence is expected");
        }
        self.words = rest;
        // An exception only allows more than its licence.
        if self.take("WITH") {
            let [_, rest @ ..] = self.words else {
                bail!("an exception is missing");
            };
            self.words = rest;
        }
        Ok(self.allowed.contains(*word))
    }

    fn take(&mut self, wanted: &str) -> bool {
        match self.words {
            [word, rest @ ..] if *word == wanted => {
                self.words = rest;
                true
            }
            _ => false,
        }
    }
}

const MAX_DEPTH: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_met_by_licences_that_can_be_chosen() {
        let allowed = ["MIT", "ISC", "Apache-2.0"].map(str::to_owned).into();
        for (expression, expected) in [
            ("MIT", true),
            ("GPL-2.0", false),
            ("GPL-2.0 OR MIT", true),
            ("GPL-2.0/MIT", true),
            ("MIT AND GPL-2.0", false),
            ("Apache-2.0 AND ISC", true),
            ("(MIT OR GPL-2.0) AND (ISC OR BSD)", true),
            ("MIT OR GPL-2.0 AND BSD", true),
            ("Apache-2.0 WITH LLVM-exception", true),
        ] {
            assert_eq!(
                is_met(expression, &allowed).unwrap(),
                expected,
                "{expression}"
            );
        }
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        let brackets = "(".repeat(100_000);
        for expression in [
            "", "MIT OR", "(MIT", "MIT ISC", "AND", "MIT WITH", ")", &brackets,
        ] {
            assert!(
                is_met(expression, &BTreeSet::new()).is_err(),
                "{expression}"
            );
        }
    }
}
