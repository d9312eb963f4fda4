use std::fmt;
use std::str::FromStr;

/// A pattern for names or paths, with `*` for any number of characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pattern(String);

impl Pattern {
    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The only text it matches, when it has no `*`.
    pub fn literal(&self) -> Option<&str> {
        (!self.0.contains('*')).then_some(&self.0)
    }

    /// Tells whether it matches the whole of `text`, case-sensitively.
    ///
    /// The number of steps is at most the product of both lengths.
    pub fn matches(&self, text: &str) -> bool {
        let (pattern, text) = (self.0.as_bytes(), text.as_bytes());
        let (mut p, mut t) = (0, 0);
        // Position behind the last `*`, and the end of its match: only the last one ever has to
        // match more.
        let mut star = None;
        while t < text.len() {
            if pattern.get(p) == Some(&b'*') {
                star = Some((p + 1, t));
                p += 1;
            } else if pattern.get(p) == text.get(t) {
                p += 1;
                t += 1;
            } else if let Some((behind, taken)) = star {
                star = Some((behind, taken + 1));
                p = behind;
                t = taken + 1;
            } else {
                return false;
            }
        }
        pattern.iter().skip(p).all(|byte| *byte == b'*')
    }

    /// Tells whether it matches a process's name, which the kernel cuts to 15 bytes.
    pub fn matches_program(&self, name: &str) -> bool {
        let cut = |text: &str| text.as_bytes().get(..MAX_COMM) == Some(name.as_bytes());
        self.matches(name) || self.literal().is_some_and(cut)
    }
}

/// A domain name, or all below one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DomainPattern {
    /// In small letters, without the last dot.
    name: String,
    below: bool,
}

impl DomainPattern {
    /// Tells whether it matches `name`, ignoring case and a final dot.
    pub fn matches(&self, name: &str) -> bool {
        let name = name.strip_suffix('.').unwrap_or(name);
        if !self.below {
            return name.eq_ignore_ascii_case(&self.name);
        }
        let split = name.len().checked_sub(self.name.len());
        let parts = split.and_then(|at| name.split_at_checked(at));
        parts.is_some_and(|(label, rest)| {
            label.len() > 1 && label.ends_with('.') && rest.eq_ignore_ascii_case(&self.name)
        })
    }
}

/// A control group and all below it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CgroupPath(String);

impl CgroupPath {
    /// The path, with the `/` at its beginning and none at its end; empty for the root.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Tells whether `path` is this group or below it.
    pub fn contains(&self, path: &str) -> bool {
        let rest = path.strip_prefix(self.0.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let fits = (1..=MAX_PATTERN).contains(&text.len());
        if fits && !text.contains(char::is_control) {
            Ok(Self(text.to_owned()))
        } else {
            Err(PatternError::Text)
        }
    }
}

impl fmt::Display for DomainPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let below = if self.below { "*." } else { "" };
        write!(f, "{below}{}", self.name)
    }
}

impl FromStr for DomainPattern {
    type Err = PatternError;

    /// `example.org`, or `*.example.org` for all below it.
    fn from_str(text: &str) -> Result<Self, PatternError> {
        let (below, name) = match text.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, text),
        };
        let name = name.strip_suffix('.').unwrap_or(name);
        // Names that are not ASCII reach the network as `xn--…`.
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_label =
            |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(is_of_name);
        if name.len() > MAX_DOMAIN || !name.split('.').all(is_label) {
            return Err(PatternError::Domain);
        }
        let name = name.to_ascii_lowercase();
        Ok(Self { name, below })
    }
}

impl fmt::Display for CgroupPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "/" } else { &self.0 })
    }
}

impl FromStr for CgroupPath {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let fits = text.len() <= MAX_PATH && text.starts_with('/');
        if fits && !text.contains(char::is_control) {
            Ok(Self(text.trim_end_matches('/').to_owned()))
        } else {
            Err(PatternError::Cgroup)
        }
    }
}

/// A text that can't be matched against anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// No name or path.
    #[error("expected 1 to 255 characters, with * for any number of them")]
    Text,
    /// No domain.
    #[error("expected a name such as example.org, or *.example.org for all below it")]
    Domain,
    /// No control group.
    #[error("expected a path from the root, such as /user.slice")]
    Cgroup,
}

/// Length of a process's name in the kernel: `TASK_COMM_LEN` less the closing zero.
const MAX_COMM: usize = 15;
const MAX_PATTERN: usize = 255;
/// The longest name in the DNS.
const MAX_DOMAIN: usize = 253;
/// `PATH_MAX`.
const MAX_PATH: usize = 4096;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pattern(text: &str) -> Pattern {
        text.parse().unwrap()
    }

    #[test]
    fn a_star_takes_any_number_of_characters() {
        for (text, yes, no) in [
            ("curl", &["curl"][..], &["curl2", "cur", "", "Curl"][..]),
            ("teams*", &["teams", "teams-for-linux"], &["team", "xteams"]),
            ("*/bin/*sh", &["/usr/bin/bash", "/bin/sh"], &["/bin/sh.old"]),
            ("*", &["", "anything"], &[]),
            ("a*b*a", &["aba", "abba", "aXbXa"], &["ab", "aa", "abab"]),
        ] {
            for name in yes {
                assert!(pattern(text).matches(name), "{text} {name}");
            }
            for name in no {
                assert!(!pattern(text).matches(name), "{text} {name}");
            }
        }
    }

    #[test]
    fn a_long_name_matches_what_the_kernel_keeps_of_it() {
        let long = pattern("transmission-daemon");
        assert!(long.matches_program("transmission-da"));
        assert!(long.matches_program("transmission-daemon"));
        assert!(!long.matches_program("transmission-d"));
        assert!(!long.matches_program("transmission-gt"));
        // The rest of a cut name is unknown.
        assert!(!pattern("transmission-d*n").matches_program("transmission-da"));
    }

    #[test]
    fn what_is_within_a_group_of_the_corpus_stays_so_further_below() {
        let folder = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../fuzz/corpus/cgroup_paths"
        );
        let mut within = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            let (rule, group) = text.split_once('\0').unwrap_or((&text, "/user.slice"));
            let Ok(rule) = rule.parse::<CgroupPath>() else {
                continue;
            };
            assert_eq!(rule.to_string().parse(), Ok(rule.clone()));
            if rule.contains(group) {
                assert!(rule.contains(&format!("{group}/below")));
                within += 1;
            }
        }
        assert!(
            within >= 3,
            "the corpus is gone, or no group is within another"
        );
    }

    #[test]
    fn a_domain_is_one_name_or_all_below_it() {
        let one: DomainPattern = "Example.org.".parse().unwrap();
        assert!(one.matches("example.org") && one.matches("EXAMPLE.ORG."));
        assert!(!one.matches("www.example.org") && !one.matches("example.org.evil"));
        let below: DomainPattern = "*.example.org".parse().unwrap();
        assert!(below.matches("www.Example.org") && below.matches("a.b.example.org."));
        for name in ["example.org", ".example.org", "badexample.org", "", "ä.ö"] {
            assert!(!below.matches(name), "{name}");
        }
        assert_eq!(below.to_string(), "*.example.org");
    }

    #[test]
    fn a_control_group_has_those_below_it() {
        let group: CgroupPath = "/user.slice/".parse().unwrap();
        assert!(group.contains("/user.slice") && group.contains("/user.slice/a/b"));
        assert!(!group.contains("/user.slices") && !group.contains("/system.slice"));
        let root: CgroupPath = "/".parse().unwrap();
        assert!(root.contains("/") && root.contains("/system.slice"));
        assert_eq!(root.to_string(), "/");
    }

    #[test]
    fn what_matches_nothing_is_refused() {
        assert_eq!("".parse::<Pattern>(), Err(PatternError::Text));
        assert_eq!("a\nb".parse::<Pattern>(), Err(PatternError::Text));
        assert_eq!("x".repeat(256).parse::<Pattern>(), Err(PatternError::Text));
        for text in ["", ".", "*.", "a..b", "*", "a.*.b", "a b", "müller.de"] {
            assert_eq!(
                text.parse::<DomainPattern>(),
                Err(PatternError::Domain),
                "{text}"
            );
        }
        assert_eq!(
            "user.slice".parse::<CgroupPath>(),
            Err(PatternError::Cgroup)
        );
    }

    /// Matches by definition: a star takes nothing, or one character and then as much as a star.
    fn by_definition(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => {
                by_definition(rest, text)
                    || (!text.is_empty() && by_definition(pattern, &text[1..]))
            }
            ([p, rest @ ..], [t, after @ ..]) if p == t => by_definition(rest, after),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn matches_as_defined(text in "[ab]{0,8}", glob in "[ab*]{1,6}") {
            let expected = by_definition(glob.as_bytes(), text.as_bytes());
            prop_assert_eq!(pattern(&glob).matches(&text), expected);
        }

        #[test]
        fn any_domain_can_be_asked(
            name in ".{0,20}",
            domain in "(\\*\\.)?[a-z]{1,3}\\.[a-z]{1,3}",
        ) {
            let domain: DomainPattern = domain.parse().unwrap();
            prop_assert!(!domain.matches(&name) || name.is_ascii());
        }
    }
}
