//! A plain table: a row a thing, no borders, `-` for nothing, within 80 columns.
//!
//! Where the rows are wider, the widest column gives way; its texts then end in `...`.

use anstyle::Style;

use crate::foreign;
use crate::style::{self, PLAIN};
use crate::wrap::{WIDTH_MAX, wrapped};

/// Blanks between two columns.
const GAP: usize = 2;
/// A column is never made narrower than this.
const COLUMN_MIN: usize = 8;

/// One value, with its style.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A value in a style. It may be foreign: it is made safe here.
    pub(crate) fn styled(style: Style, text: impl std::fmt::Display) -> Self {
        let text = foreign::line(&text.to_string());
        Self { text: if text.is_empty() { "-".to_owned() } else { text }, style }
    }

    /// A state, coloured by what it means.
    pub(crate) fn state(state: &str) -> Self {
        Self::styled(style::of_state(state), state)
    }

    /// A value, or `-`.
    pub(crate) fn maybe(text: Option<impl std::fmt::Display>) -> Self {
        text.map_or_else(|| Self::from(""), |text| Self::styled(PLAIN, text))
    }
}

impl<T: std::fmt::Display> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::styled(PLAIN, text)
    }
}

/// Which side of a column its values keep to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    /// Texts.
    Left,
    /// Numbers.
    Right,
}

/// A table being filled.
#[derive(Debug)]
pub(crate) struct Table<const COLUMNS: usize> {
    heads: [(&'static str, Align); COLUMNS],
    rows: Vec<[Cell; COLUMNS]>,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    /// An empty one.
    pub(crate) const fn new(heads: [(&'static str, Align); COLUMNS]) -> Self {
        Self { heads, rows: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: [Cell; COLUMNS]) {
        self.rows.push(cells);
    }

    /// The lines, each ended.
    pub(crate) fn render(&self) -> String {
        let widths = self.widths();
        let heads = self.heads.map(|(head, _)| Cell::from(head));
        std::iter::once(&heads).chain(&self.rows).map(|cells| self.line(cells, &widths)).collect()
    }

    fn widths(&self) -> [usize; COLUMNS] {
        let mut widths = self.heads.map(|(head, _)| head.len());
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.text.chars().count());
            }
        }
        loop {
            let total: usize = widths.iter().sum::<usize>() + GAP * COLUMNS.saturating_sub(1);
            let Some(widest) = widths.iter_mut().max() else { return widths };
            if total <= WIDTH_MAX || *widest <= COLUMN_MIN {
                return widths;
            }
            *widest -= 1;
        }
    }

    fn line(&self, cells: &[Cell; COLUMNS], widths: &[usize; COLUMNS]) -> String {
        let mut line = String::new();
        let mut owed = 0;
        for ((cell, width), (_, align)) in cells.iter().zip(widths).zip(self.heads) {
            let text = foreign::cut(&cell.text, *width);
            let fill = width.saturating_sub(text.chars().count());
            let (before, after) = if align == Align::Right { (fill, 0) } else { (0, fill) };
            line.extend(std::iter::repeat_n(' ', owed + before));
            line.push_str(&style::paint(cell.style, text));
            owed = after + GAP;
        }
        line.push('\n');
        line
    }
}

/// `KEY  value` lines, the keys as wide as the widest, long values continued under their beginning.
pub(crate) fn key_values(pairs: &[(&str, String)]) -> String {
    let width = pairs.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    let line = |key, value| wrapped(&format!("{key:width$}{:GAP$}{value}", ""), width + GAP);
    pairs.iter().map(|(key, value)| format!("{}\n", line(key, value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_numbers_keep_right() {
        let mut table = Table::new([("NAME", Align::Left), ("JOBS", Align::Right), ("AGE", Align::Left)]);
        table.row(["atlas".into(), 3.into(), "2m".into()]);
        table.row(["n".into(), 12.into(), "".into()]);
        assert_eq!(table.render(), "NAME   JOBS  AGE\natlas     3  2m\nn        12  -\n");
    }

    #[test]
    fn a_wide_table_is_cut_to_eighty_columns() {
        let mut table = Table::new([("NAME", Align::Left), ("TASK", Align::Left)]);
        table.row(["reviewer".into(), "x".repeat(200).into()]);
        let text = table.render();
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH_MAX), "{text}");
        assert!(text.ends_with("xxx...\n"));
    }

    #[test]
    fn a_hostile_name_stays_in_its_cell() {
        let mut table = Table::new([("NAME", Align::Left)]);
        table.row(["a\nroot \u{1b}[31m".into()]);
        assert_eq!(table.render().lines().count(), 2);
    }
}
