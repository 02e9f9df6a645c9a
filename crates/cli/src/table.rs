//! Tables in plain text.
//!
//! Answers to: `explain`, `doctor`, `ps`, `holds`. Must not: let a cell steer a terminal or break its line.

/// The rows under their heads, columns aligned by spaces. The last column is as wide as it is.
pub fn table(heads: &[&str], rows: Vec<Vec<String>>) -> String {
    let heads = heads.iter().map(|head| (*head).to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(heads).chain(rows).map(harmless).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or_default()).collect();
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}", width = *width)).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn harmless(row: Vec<String>) -> Vec<String> {
    row.into_iter().map(|cell| ringfence_audit::escape(&cell, 2000)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_each_other() {
        let rows = vec![vec!["embedded".to_owned(), "a\u{1b}b".to_owned()], vec!["x".to_owned(), String::new()]];
        assert_eq!(table(&["TIER", "WHY"], rows), "TIER      WHY\nembedded  a\\u{1b}b\nx\n");
    }
}
