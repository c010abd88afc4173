//! Rules about single lines of any text file.

use super::scan::is_word;
use super::{File, Finding};

const COLUMNS_MAX: usize = 100;

/// Words that mark work put off, in comments as in code. Written in halves: this file is checked
/// like any other.
const MARKERS: &[&str] =
    &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK")];

/// Code that parks a test or stands in for code, and what to do instead.
const PARKED: &[(&str, &str)] = &[
    ("#[ignore", "a test that does not run rots: fix it, delete it, or skip it aloud"),
    ("unimplemented!", "finish it, or take the item out"),
    ("todo!", "finish it, or take the item out"),
];

pub(super) fn check(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, (line, code)) in file.text.lines().zip(file.code.lines()).enumerate() {
        let remedies = [
            too_long(file, line),
            trailing_blank(line),
            tab(file, line),
            not_ascii(line),
            marker(line),
            parked(file, code),
        ];
        findings.extend(remedies.into_iter().flatten().map(|why| file.finding(index + 1, why)));
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        findings.push(file.finding(file.text.lines().count(), "end the last line"));
    }
    findings
}

fn too_long(file: &File, line: &str) -> Option<String> {
    // A row of a table, a link and a value of TOML cannot be broken without changing their meaning.
    let is_bound = file.is_rust() || file.extension() == "sh";
    let columns = line.chars().count();
    (is_bound && columns > COLUMNS_MAX)
        .then(|| format!("{columns} columns: break the line at {COLUMNS_MAX}"))
}

fn trailing_blank(line: &str) -> Option<String> {
    line.ends_with([' ', '\t', '\r']).then(|| "delete the blanks at the end of the line".into())
}

fn tab(file: &File, line: &str) -> Option<String> {
    (file.is_rust() && line.contains('\t')).then(|| "use blanks, or write `\\t`".into())
}

fn not_ascii(line: &str) -> Option<String> {
    let odd = line.chars().find(|character| !character.is_ascii())?;
    Some(format!("U+{:04X} is not ASCII: spell it out or escape it", u32::from(odd)))
}

fn marker(line: &str) -> Option<String> {
    let word = MARKERS.iter().find(|marker| holds_word(line, marker))?;
    Some(format!("`{word}` puts work off: do it now or open an issue"))
}

fn parked(file: &File, code: &str) -> Option<String> {
    if !file.is_rust() {
        return None;
    }
    let (_, remedy) = PARKED.iter().find(|(text, _)| code.contains(text))?;
    Some((*remedy).into())
}

fn holds_word(line: &str, word: &str) -> bool {
    let is_edge = |byte: Option<&u8>| byte.is_none_or(|byte| !is_word(*byte));
    let bytes = line.as_bytes();
    line.match_indices(word).any(|(start, _)| {
        is_edge(start.checked_sub(1).and_then(|before| bytes.get(before)))
            && is_edge(bytes.get(start + word.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remedies(path: &str, text: &str) -> Vec<String> {
        check(&File::new(path, text)).into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn a_line_ends_at_100_columns_in_code_but_not_in_prose() {
        let line = format!("// {}\n", "x".repeat(98));
        assert_eq!(remedies("a.rs", &line), ["a.rs:1: 101 columns: break the line at 100"]);
        assert!(remedies("a.md", &line).is_empty());
    }

    #[test]
    fn blanks_tabs_and_odd_characters_are_found_with_their_line() {
        assert!(remedies("a.rs", "//!\nx \n")[0].starts_with("a.rs:2: delete the blanks"));
        assert!(remedies("a.rs", "//!\n\tx\n")[0].starts_with("a.rs:2: use blanks"));
        assert!(remedies("a.md", "caf\u{e9}\n")[0].starts_with("a.md:1: U+00E9"));
        assert!(remedies("a.md", "open end")[0].starts_with("a.md:1: end the last line"));
    }

    #[test]
    fn markers_count_as_words_only() {
        let word = concat!("TO", "DO");
        assert_eq!(remedies("a.rs", &format!("// {word}: later\n")).len(), 1);
        assert!(remedies("a.rs", &format!("// MAS{word}N\n")).is_empty());
    }

    #[test]
    fn parked_code_is_found_but_may_be_spoken_of() {
        assert_eq!(remedies("a.rs", concat!("    to", "do!()\n")).len(), 1);
        assert!(remedies("a.rs", "// never write unimplemented!()\n").is_empty());
    }
}
