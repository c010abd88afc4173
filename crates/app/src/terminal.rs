//! Output to people and programs: data to stdout, talk to stderr, colour only where it is welcome.

use std::io::{self, IsTerminal, Write};

use indicatif::ProgressStyle;

/// Writes data to stdout in one piece.
///
/// # Errors
/// Whatever stdout says; a reader that went away is [`io::ErrorKind::BrokenPipe`], which
/// [`crate::cli::main`] takes as a normal end.
pub fn data(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Writes a JSON document to stdout, indented, with a final newline.
///
/// # Errors
/// As [`data`].
pub fn json(document: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(document)?;
    text.push('\n');
    Ok(data(&text)?)
}

/// Writes a line of talk to stderr. Nobody to hear it is no error.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// How a progress bar looks: the bar, the part that is done, what is `told` of it, and the time
/// left.
///
/// # Panics
/// If what is told is no template of `indicatif`.
pub fn bar_style(told: &str) -> ProgressStyle {
    let template = format!("{{bar:30}} {{percent:>3}}%  {told}  {{eta}} left");
    ProgressStyle::with_template(&template).expect("the template is right").progress_chars("=> ")
}

/// True if colour is welcome on stderr: a terminal, and `NO_COLOR` unset or empty.
pub fn colour_on_stderr() -> bool {
    colour_allowed() && io::stderr().is_terminal()
}

/// True if colour is welcome on stdout: a terminal, and `NO_COLOR` unset or empty.
pub fn colour_on_stdout() -> bool {
    colour_allowed() && io::stdout().is_terminal()
}

/// True unless `NO_COLOR` is set to something (<https://no-color.org>) or the terminal is dumb.
pub fn colour_allowed() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Lays out rows in columns: the first column to the left, the others to the right, but for those
/// whose title begins with `<`.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let to_left: Vec<bool> = header
        .iter()
        .enumerate()
        .map(|(column, title)| column == 0 || title.starts_with('<'))
        .collect();
    let titles: Vec<&str> = header.iter().map(|title| title.trim_start_matches('<')).collect();
    let mut widths: Vec<usize> = titles.iter().map(|title| title.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let start = text.len();
        for (column, (cell, &width)) in cells.zip(&widths).enumerate() {
            text += if column == 0 { "" } else { "  " };
            text += &if to_left[column] {
                format!("{cell:<width$}")
            } else {
                format!("{cell:>width$}")
            };
        }
        text.truncate(start + text[start..].trim_end().len());
        text.push('\n');
    };
    line(&mut titles.iter().copied());
    for row in rows {
        line(&mut row.iter().map(String::as_str));
    }
    text
}

/// Holds a document of the repository equal to what the code says; with `EVENKEEL_BLESS=1` it is
/// rewritten instead.
#[cfg(test)]
pub(crate) fn assert_document(path: &str, text: &str) {
    let full = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("EVENKEEL_BLESS").is_some_and(|value| !value.is_empty()) {
        std::fs::create_dir_all(full.parent().expect("a document has a folder")).unwrap();
        std::fs::write(&full, text).unwrap();
        return;
    }
    let written = std::fs::read_to_string(&full).unwrap_or_default();
    assert!(
        written == text,
        "{path} does not say what the code says; run the tests with EVENKEEL_BLESS=1\n{text}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_end_without_spaces() {
        let rows =
            vec![vec!["db".to_owned(), "4".to_owned()], vec!["backup".to_owned(), "10".to_owned()]];
        assert_eq!(
            table(&["TENANT", "SHARE"], &rows),
            "TENANT  SHARE\ndb          4\nbackup     10\n"
        );
    }
}
