//! A table in kubectl's plain style: columns apart by three spaces, no lines.

use comfy_table::{Cell, ContentArrangement, presets};

/// A table for a person.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with those columns.
    pub(crate) fn new(columns: &[impl AsRef<str>]) -> Self {
        Self { columns: columns.iter().map(|column| column.as_ref().to_owned()).collect(), rows: Vec::new() }
    }

    /// Adds a row; what a terminal would obey rather than show is replaced.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(|cell| printable(&cell.into())).collect());
    }

    /// The table as text, ending in a newline.
    pub(crate) fn render(&self) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(self.columns.iter().map(Cell::new));
        for row in &self.rows {
            table.add_row(row.iter().map(Cell::new));
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 3));
        }
        let mut text = table.trim_fmt();
        text.push('\n');
        text
    }
}

/// The text without control characters: a message of a container must not move a terminal's cursor.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_padded_and_lines_end_without_spaces() {
        let mut table = Table::new(&["NAME", "DATA", "AGE"]);
        table.row(["a-long-name", "1", "5s"]);
        table.row(["b", "12", "3m"]);
        assert_eq!(
            table.render(),
            "NAME          DATA   AGE\n\
             a-long-name   1      5s\n\
             b             12     3m\n"
        );
    }

    #[test]
    fn what_a_terminal_would_obey_is_not_passed_on() {
        assert_eq!(printable("a\u{1b}[31mb\nc"), "a [31mb c");
    }
}
