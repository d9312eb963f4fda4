//! Columns of text.

/// Alignment of a text in its column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
    /// Left; cut if the line would be too long, the widest column first; or left out if it is
    /// empty.
    Flexible,
}

/// Rows under a header.
pub(crate) struct Table<const N: usize> {
    sides: [Side; N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(columns: [(&str, Side); N]) -> Self {
        Self {
            sides: columns.map(|(_, side)| side),
            rows: vec![columns.map(|(head, _)| head.to_owned())],
        }
    }

    pub(crate) fn push(&mut self, row: [String; N]) {
        self.rows.push(row.map(|text| printable(&text)));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    /// Returns lines of at most `width` characters, each indented by `indent` spaces.
    pub(crate) fn lines(&self, indent: usize, width: usize) -> Vec<String> {
        let widths = self.widths(width.saturating_sub(indent));
        let line = |row: &[String; N]| {
            let cells = row.iter().zip(self.sides).zip(widths);
            let cells: Vec<String> = cells
                .filter(|(_, room)| *room > 0)
                .map(|((text, side), room)| {
                    let text = clip(text, room);
                    match side {
                        Side::Right => format!("{text:>room$}"),
                        Side::Left | Side::Flexible => format!("{text:<room$}"),
                    }
                })
                .collect();
            let line = format!("{:indent$}{}", "", cells.join(GAP));
            clip(line.trim_end(), width)
        };
        self.rows.iter().map(line).collect()
    }

    /// Returns the widths of the columns; zero for those that are left out.
    fn widths(&self, room: usize) -> [usize; N] {
        let mut widths = [0; N];
        for row in &self.rows {
            for (width, text) in widths.iter_mut().zip(row) {
                *width = text.chars().count().max(*width);
            }
        }
        let used = widths.iter().sum::<usize>() + GAP.len() * N.saturating_sub(1);
        let mut excess = used.saturating_sub(room);
        for (place, width) in widths.iter_mut().enumerate() {
            // A flexible column with nothing but its header is left out.
            let mut cells = self.rows.iter().skip(1).filter_map(|row| row.get(place));
            let is_flexible = self.sides.get(place) == Some(&Side::Flexible);
            if excess > 0 && is_flexible && cells.all(String::is_empty) {
                excess = excess.saturating_sub(*width + GAP.len());
                *width = 0;
            }
        }
        for _ in 0..excess {
            let flexible = widths.iter_mut().zip(self.sides);
            let flexible = flexible.filter(|(_, side)| *side == Side::Flexible);
            // Of equally wide columns, the last.
            match flexible.map(|(width, _)| width).max() {
                Some(width) if *width > MIN_FLEXIBLE => *width -= 1,
                _ => break,
            }
        }
        widths
    }
}

/// Returns at most `room` characters of `text`.
pub(crate) fn clip(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(room.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Returns the text with `?` in place of characters that control a terminal, or hide or reverse the
/// text beside them: other hosts choose the names.
pub fn printable(text: &str) -> String {
    text.replace(|it: char| it.is_control() || is_unseen(it), "?")
}

/// Whether a character has no width, or changes the direction of writing.
fn is_unseen(character: char) -> bool {
    matches!(
        character,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    )
}

const GAP: &str = "  ";
const MIN_FLEXIBLE: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flexible_columns_give_way_first() {
        let mut table = Table::new([("NAME", Side::Flexible), ("BYTES", Side::Right)]);
        table.push(["a-very-long-name.example.org".into(), "5".into()]);
        assert_eq!(
            table.lines(2, 24),
            ["  NAME             BYTES", "  a-very-long-na…      5"]
        );
        assert!(
            table
                .lines(2, 10)
                .iter()
                .all(|line| line.chars().count() <= 10)
        );
    }

    #[test]
    fn a_flexible_column_without_anything_is_left_out_where_there_is_no_room() {
        let heads = ["NAME", "WHY", "TO"].map(|head| (head, Side::Flexible));
        let mut table = Table::new(heads);
        table.push(["a-long-name".into(), String::new(), "x".into()]);
        assert_eq!(table.lines(0, 20)[1], "a-long-name       x");
        assert_eq!(table.lines(0, 15), ["NAME         TO", "a-long-name  x"]);
        assert_eq!(table.lines(0, 13), ["NAME       TO", "a-long-n…  x"]);
    }

    #[test]
    fn of_flexible_columns_the_widest_gives_way() {
        let heads = ["MONTH", "WHY"].map(|head| (head, Side::Flexible));
        let mut table = Table::new(heads);
        table.push(["3 MB of 5 MB".into(), "a long story, of no use".into()]);
        assert_eq!(table.lines(0, 30)[1], "3 MB of 5 MB  a long story, o…");
    }

    #[test]
    fn control_characters_are_not_passed_on() {
        let mut table = Table::new([("NAME", Side::Left)]);
        table.push(["\u{1b}[31mred\n".into()]);
        assert_eq!(table.lines(0, 80)[1], "?[31mred?");
        assert_eq!(printable("txt.\u{202e}exe\u{200b}"), "txt.?exe?");
    }
}
