//! Appearance: with or without colours, in the characters that the terminal can show.

use hawser_text::printable;
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::{bar, border};

/// Abilities of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// True if colours are used. Their meaning is also shown in words.
    pub colour: bool,
    /// True if only ASCII is shown.
    pub ascii: bool,
}

impl Look {
    /// Reads the environment; `variable` returns the value of one of its variables. There is no
    /// colour with `NO_COLOR` or on a terminal without colours, and ASCII only unless the locale
    /// uses UTF-8.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let variable = |name: &&str| variable(name).filter(|value| !value.is_empty());
        let terminal = variable(&"TERM").unwrap_or_default();
        let knows_colours = !MONOCHROME.iter().any(|name| terminal.starts_with(name));
        let locale = LOCALE.iter().find_map(variable).unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        Self {
            colour: knows_colours && !terminal.is_empty() && variable(&"NO_COLOR").is_none(),
            ascii: !(locale.contains("utf-8") || locale.contains("utf8")),
        }
    }

    /// Returns an external text without characters that must not reach the terminal.
    pub(super) fn text(self, text: &str) -> String {
        let text = printable(text);
        if self.ascii {
            let nearest = |character: char| match character {
                character if character.is_ascii() => character,
                '…' => '~',
                _ => '?',
            };
            text.chars().map(nearest).collect()
        } else {
            text
        }
    }

    /// Returns bars in exactly `width` columns, the latest at the right; `top` fills a column.
    pub(super) fn bars(self, values: &[u64], top: u64, width: usize) -> String {
        let set = self.bar_set();
        let level = |value: &u64| match eighths(*value, top) {
            0 => set.empty,
            1 => set.one_eighth,
            2 => set.one_quarter,
            3 => set.three_eighths,
            4 => set.half,
            5 => set.five_eighths,
            6 => set.three_quarters,
            7 => set.seven_eighths,
            _ => set.full,
        };
        let shown = values.iter().skip(values.len().saturating_sub(width));
        let missing = width - shown.len();
        " ".repeat(missing) + &shown.map(level).collect::<String>()
    }

    pub(super) fn bar_set(self) -> bar::Set<'static> {
        if self.ascii {
            ASCII_BARS
        } else {
            bar::NINE_LEVELS
        }
    }

    pub(super) fn border(self) -> border::Set<'static> {
        if self.ascii {
            ASCII_BORDER
        } else {
            border::PLAIN
        }
    }

    pub(super) fn rule(self) -> &'static str {
        if self.ascii { "-" } else { "─" }
    }

    pub(super) fn times(self) -> &'static str {
        if self.ascii { "x" } else { "×" }
    }

    pub(super) fn good(self) -> Style {
        self.tint(Color::Green)
    }

    /// Style of text that needs the user's attention.
    pub(super) fn notable(self) -> Style {
        self.tint(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    pub(super) fn bad(self) -> Style {
        self.tint(Color::Red).add_modifier(Modifier::BOLD)
    }

    pub(super) fn up(self) -> Style {
        self.tint(Color::Cyan)
    }

    pub(super) fn down(self) -> Style {
        self.tint(Color::Green)
    }

    pub(super) fn head(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    fn tint(self, colour: Color) -> Style {
        if self.colour {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }
}

/// A small value is not shown as zero.
fn eighths(value: u64, top: u64) -> u64 {
    let eighths = (u128::from(value) * 8).div_ceil(u128::from(top.max(1)));
    u64::try_from(eighths).unwrap_or(u64::MAX)
}

/// Names of terminals without colours begin like this.
const MONOCHROME: [&str; 5] = ["dumb", "vt1", "vt2", "vt3", "unknown"];
/// Variables with the locale; the first one that is set applies.
const LOCALE: [&str; 3] = ["LC_ALL", "LC_CTYPE", "LANG"];

const ASCII_BARS: bar::Set<'static> = bar::Set {
    full: "#",
    seven_eighths: "#",
    three_quarters: "*",
    five_eighths: "*",
    half: "+",
    three_eighths: "=",
    one_quarter: "-",
    one_eighth: "_",
    empty: " ",
};

const ASCII_BORDER: border::Set<'static> = border::Set {
    top_left: "+",
    top_right: "+",
    bottom_left: "+",
    bottom_right: "+",
    vertical_left: "|",
    vertical_right: "|",
    horizontal_top: "-",
    horizontal_bottom: "-",
};

#[cfg(test)]
mod tests {
    use super::*;

    fn look(variables: &[(&str, &str)]) -> Look {
        Look::of(|name| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_says_what_the_terminal_knows() {
        let modern = look(&[("TERM", "xterm-256color"), ("LANG", "C.UTF-8")]);
        assert_eq!(
            modern,
            Look {
                colour: true,
                ascii: false
            }
        );
        for plain in [
            &[("TERM", "vt100")][..],
            &[("TERM", "dumb")],
            &[],
            &[("TERM", "xterm"), ("NO_COLOR", "1")],
        ] {
            assert_eq!(
                look(plain),
                Look {
                    colour: false,
                    ascii: true
                },
                "{plain:?}"
            );
        }
        let overridden = [("TERM", "xterm"), ("LC_ALL", "C"), ("LANG", "de_DE.utf8")];
        assert!(look(&overridden).ascii);
        assert!(!look(&[("LC_ALL", ""), ("LANG", "de_DE.utf8")]).ascii);
        assert!(look(&[("TERM", "xterm"), ("NO_COLOR", "")]).colour);
    }

    #[test]
    fn bars_end_with_the_latest_and_show_a_little() {
        let rich = Look {
            colour: false,
            ascii: false,
        };
        let plain = Look {
            ascii: true,
            ..rich
        };
        assert_eq!(rich.bars(&[0, 1, 500, 1000], 1000, 6), "   ▁▄█");
        assert_eq!(plain.bars(&[0, 1, 500, 1000], 1000, 6), "   _+#");
        assert_eq!(rich.bars(&[9, 9, 1000, 0], 1000, 2), "█ ");
        assert_eq!(rich.bars(&[], 0, 2), "  ");
    }

    #[test]
    fn nothing_that_others_wrote_reaches_the_terminal_as_a_command() {
        let rich = Look {
            colour: true,
            ascii: false,
        };
        assert_eq!(rich.text("a\u{1b}[2Jb\u{9b}c\u{202e}ö"), "a?[2Jb?c?ö");
        let plain = Look {
            ascii: true,
            ..rich
        };
        assert_eq!(plain.text("naïve…\n"), "na?ve~?");
    }
}
