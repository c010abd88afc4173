//! Rules about the shape of a Rust file: how it opens, how long it and its functions are, and that
//! exceptions from lints state their reason.

use super::scan::is_word;
use super::{File, Finding};

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;

pub(super) fn check(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !file.text.starts_with("//!") {
        findings.push(file.finding(1, "open with `//!`: what the file is for"));
    }
    let lines = file.text.lines().count();
    if lines > FILE_LINES_MAX {
        let remedy = format!("{lines} lines: split the file by concept at {FILE_LINES_MAX}");
        findings.push(file.finding(FILE_LINES_MAX, remedy));
    }
    findings.extend(long_functions(file));
    findings.extend(unreasoned_exceptions(file));
    findings
}

fn long_functions(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (start, _) in file.code.match_indices("fn ") {
        if start > 0 && is_word(file.code.as_bytes()[start - 1]) {
            continue;
        }
        let lines = body_lines(&file.code[start..]);
        if lines > FUNCTION_LINES_MAX {
            let remedy = format!("{lines} lines: split the function at {FUNCTION_LINES_MAX}");
            findings.push(file.finding(line_of(&file.code, start), remedy));
        }
    }
    findings
}

/// Lines from here to the closing brace of the first body; zero for a declaration without one.
fn body_lines(code: &str) -> usize {
    let mut nesting = 0_i32;
    let mut depth = 0_i32;
    let mut lines = 1;
    for byte in code.bytes() {
        match byte {
            b'\n' => lines += 1,
            b'(' | b'[' if depth == 0 => nesting += 1,
            b')' | b']' if depth == 0 => nesting -= 1,
            b';' if depth == 0 && nesting == 0 => return 0,
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 && nesting == 0 {
                    return lines;
                }
            }
            _ => {}
        }
    }
    0
}

fn unreasoned_exceptions(file: &File) -> Vec<Finding> {
    let starts = ["#[allow(", "#![allow(", "#[expect(", "#![expect("];
    let mut findings = Vec::new();
    for (start, _) in starts.iter().flat_map(|text| file.code.match_indices(text)) {
        let end = file.code[start..].find(")]").map_or(file.code.len(), |end| start + end);
        if !file.code[start..end].contains("reason") {
            let remedy = "give the exception its `reason = \"..\"`";
            findings.push(file.finding(line_of(&file.code, start), remedy));
        }
    }
    findings
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remedies(text: &str) -> Vec<String> {
        check(&File::new("a.rs", text)).into_iter().map(|finding| finding.to_string()).collect()
    }

    fn function(lines: usize) -> String {
        format!("//! Doc.\nfn f(x: [u8; 2]) {{\n{}}}\n", "    x;\n".repeat(lines - 2))
    }

    #[test]
    fn a_function_of_71_lines_is_one_line_too_long() {
        assert!(remedies(&function(70)).is_empty());
        assert_eq!(remedies(&function(71)), ["a.rs:2: 71 lines: split the function at 70"]);
    }

    #[test]
    fn braces_in_literals_do_not_count() {
        let text = "//! Doc.\nfn f() {\n    g('{', \"{\"); // {\n}\nfn g();\n";
        assert!(remedies(text).is_empty());
    }

    #[test]
    fn a_file_opens_with_its_purpose_and_ends_at_800_lines() {
        assert_eq!(remedies("use x;\n"), ["a.rs:1: open with `//!`: what the file is for"]);
        assert_eq!(remedies(&"//! Doc.\n".repeat(801)).len(), 1);
    }

    #[test]
    fn an_exception_states_its_reason() {
        assert_eq!(remedies("//! Doc.\n#[allow(dead_code)]\nfn f() {}\n").len(), 1);
        let text = "//! Doc.\n#[expect(\n    x,\n    reason = \"y\"\n)]\nfn f() {}\n";
        assert!(remedies(text).is_empty());
    }
}
