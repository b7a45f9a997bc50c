//! Tables, laid out for the columns there are.

use pulldown_cmark::Alignment;

use super::wrap::Flow;
use crate::report::ink::Ink;
use crate::report::row::Row;

/// What stands between two columns.
const BETWEEN: usize = 2;

/// Fewest columns of a cell that is still read as one. Where they are not to be
/// had, each row of the table becomes lines of its own.
const NARROWEST: usize = 8;

/// A table without its rows: how they are laid out.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layout {
    alignments: Vec<Alignment>,
    header: Vec<Flow>,
    /// How wide each column is; `None` if each row becomes lines of its own.
    widths: Option<Vec<usize>>,
    columns: usize,
}

impl Layout {
    /// Returns how a table with these rows is laid out.
    pub(super) fn new(
        alignments: &[Alignment],
        header: &[Flow],
        rows: &[Vec<Flow>],
        columns: usize,
    ) -> Self {
        let natural = |number: usize| {
            let cells = rows.iter().filter_map(|row| row.get(number)).chain(header.get(number));
            cells.map(Flow::columns).max().unwrap_or(0).max(1)
        };
        let natural: Vec<usize> = (0..alignments.len()).map(natural).collect();
        let room = columns.saturating_sub(BETWEEN * alignments.len().saturating_sub(1));
        let widths = fitted(natural, room);
        Self { alignments: alignments.to_vec(), header: header.to_vec(), widths, columns }
    }

    /// Returns the rows above those of the table.
    pub(super) fn head(&self) -> Vec<Row> {
        let Some(widths) = &self.widths else { return Vec::new() };
        let mut rows: Vec<Row> =
            self.cells(&self.header, widths).into_iter().map(|row| row.all(Ink::Strong)).collect();
        let rules = widths.iter().map(|width| "-".repeat(*width));
        let rule = rules.collect::<Vec<_>>().join(&" ".repeat(BETWEEN));
        rows.push(Row::new().text(Ink::Dim, &rule));
        rows
    }

    /// Returns a row of the table.
    pub(super) fn row(&self, cells: &[Flow]) -> Vec<Row> {
        match &self.widths {
            Some(widths) => self.cells(cells, widths),
            None => self.pairs(cells),
        }
    }

    /// Returns a row as a line for each cell, a rule below them.
    fn pairs(&self, cells: &[Flow]) -> Vec<Row> {
        let mut rows = Vec::new();
        for (name, cell) in self.header.iter().zip(cells) {
            let mut pair = Flow::new(Ink::Strong, &name.plain());
            pair.push(Ink::Strong, ": ");
            pair.extend(cell);
            rows.extend(pair.wrapped(self.columns));
        }
        rows.push(Row::new().text(Ink::Dim, "---").cut(self.columns));
        rows
    }

    fn cells(&self, cells: &[Flow], widths: &[usize]) -> Vec<Row> {
        let wrapped: Vec<Vec<Row>> = widths
            .iter()
            .enumerate()
            .map(|(number, width)| cells.get(number).cloned().unwrap_or_default().wrapped(*width))
            .collect();
        let height = wrapped.iter().map(Vec::len).max().unwrap_or(1);
        (0..height).map(|line| self.line(&wrapped, widths, line)).collect()
    }

    fn line(&self, wrapped: &[Vec<Row>], widths: &[usize], line: usize) -> Row {
        let mut row = Row::new();
        let mut from = 0;
        for ((cell, width), alignment) in wrapped.iter().zip(widths).zip(&self.alignments) {
            if let Some(text) = cell.get(line).filter(|text| text.columns() > 0) {
                let free = width.saturating_sub(text.columns());
                let before = match alignment {
                    Alignment::None | Alignment::Left => 0,
                    Alignment::Center => free / 2,
                    Alignment::Right => free,
                };
                row = row.padded(from + before).row(text);
            }
            from += width + BETWEEN;
        }
        row
    }
}

/// Returns widths that fit the room, the widest made narrower first; `None` if
/// they would be too narrow to read.
fn fitted(mut widths: Vec<usize>, room: usize) -> Option<Vec<usize>> {
    while widths.iter().sum::<usize>() > room {
        let total: usize = widths.iter().sum();
        let widest = widths.iter().copied().max()?;
        let second = widths.iter().copied().filter(|width| *width < widest).max().unwrap_or(0);
        let all = widths.iter().filter(|width| **width == widest).count();
        let excess = (total - room).div_ceil(all);
        let narrower = widest.saturating_sub(excess).max(second);
        if narrower < NARROWEST {
            return None;
        }
        for width in widths.iter_mut().filter(|width| **width == widest) {
            *width = narrower;
        }
    }
    Some(widths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_columns_give_way_first() {
        assert_eq!(fitted(vec![5, 5], 20), Some(vec![5, 5]));
        assert_eq!(fitted(vec![5, 40], 25), Some(vec![5, 20]));
        assert_eq!(fitted(vec![30, 40], 40), Some(vec![20, 20]));
        assert_eq!(fitted(vec![30, 40, 50], 20), None);
        assert_eq!(fitted(Vec::new(), 0), Some(Vec::new()));
    }
}
