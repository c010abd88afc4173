//! What is wrong with a policy file, where, and what to do, shown as compilers do:
//!
//! ```text
//! error: unknown key `shrae` in [[tenant]]
//!   --> policy.toml:12:1
//!    |
//! 12 | shrae = 4
//!    | ^^^^^
//!    = help: did you mean `share`?
//! ```

use std::fmt;
use std::ops::Range;

use serde::Serialize;

/// Most findings kept; a file with more is not a policy file.
const FINDINGS_MAX: usize = 50;

/// Most characters of a line that are shown.
const SHOWN_MAX: usize = 96;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It works, but perhaps not as meant.
    Warning,
    /// The policy cannot be put in force.
    Error,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad.
    pub severity: Severity,
    /// Bytes of the file, if the finding has a place.
    pub span: Option<Range<usize>>,
    /// The other place, of two that contradict each other.
    pub also: Option<Range<usize>>,
    /// What is wrong.
    pub message: String,
    /// What to do; may be empty.
    pub remedy: String,
}

/// Everything found in one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostics {
    name: String,
    text: String,
    found: Vec<Diagnostic>,
    suppressed: usize,
}

/// A place in a file for people: line and column from 1, the column in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
}

/// A finding as `check --json` prints it.
#[derive(Debug, Serialize)]
struct Finding<'a> {
    severity: Severity,
    file: &'a str,
    #[serde(flatten)]
    position: Option<Position>,
    #[serde(skip_serializing_if = "Option::is_none")]
    also: Option<Position>,
    message: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    remedy: &'a str,
}

impl Diagnostics {
    /// No findings yet in the file `name` that says `text`.
    pub fn new(name: &str, text: &str) -> Self {
        Self { name: name.to_owned(), text: text.to_owned(), found: Vec::new(), suppressed: 0 }
    }

    /// Adds an error at `span`.
    pub fn error(
        &mut self,
        span: Range<usize>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.place(Severity::Error, span, message.into(), remedy.into());
    }

    /// Adds a warning at `span`.
    pub fn warning(
        &mut self,
        span: Range<usize>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.place(Severity::Warning, span, message.into(), remedy.into());
    }

    fn place(&mut self, severity: Severity, at: Range<usize>, message: String, remedy: String) {
        let span = Some(at);
        self.push(Diagnostic { severity, span, also: None, message, remedy });
    }

    /// Adds a finding.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        if self.found.len() < FINDINGS_MAX {
            self.found.push(diagnostic);
        } else {
            self.suppressed += 1;
        }
    }

    /// The findings, in the order of the file.
    pub fn found(&self) -> &[Diagnostic] {
        &self.found
    }

    /// True if the policy cannot be put in force.
    pub fn has_errors(&self) -> bool {
        self.found.iter().any(|finding| finding.severity == Severity::Error)
    }

    /// Puts the findings in the order of the file.
    pub fn sort(&mut self) {
        self.found
            .sort_by_key(|finding| finding.span.as_ref().map_or(usize::MAX, |span| span.start));
    }

    /// The place of a finding, if it has one.
    pub fn position(&self, finding: &Diagnostic) -> Option<Position> {
        finding.span.as_ref().map(|span| self.position_of(span))
    }

    fn position_of(&self, span: &Range<usize>) -> Position {
        let (before, line) = self.line_at(span.start);
        let column = self.text[line.start..before].chars().count() + 1;
        Position { line: self.text[..line.start].matches('\n').count() + 1, column }
    }

    /// The findings for programs.
    pub fn to_json(&self) -> serde_json::Value {
        let findings = self.found.iter().map(|finding| Finding {
            severity: finding.severity,
            file: &self.name,
            position: self.position(finding),
            also: finding.also.as_ref().map(|span| self.position_of(span)),
            message: &finding.message,
            remedy: &finding.remedy,
        });
        serde_json::json!({
            "valid": !self.has_errors(),
            "findings": findings.collect::<Vec<_>>(),
            "suppressed": self.suppressed,
        })
    }

    /// The findings for people, in colour if wanted.
    pub fn render(&self, colour: bool) -> String {
        let paint = Paint { colour };
        let mut text = String::new();
        for finding in &self.found {
            self.render_one(finding, paint, &mut text);
            text.push('\n');
        }
        if self.suppressed > 0 {
            text += &format!("... and {} more\n", self.suppressed);
        }
        text
    }

    fn render_one(&self, finding: &Diagnostic, paint: Paint, text: &mut String) {
        let (word, code) = match finding.severity {
            Severity::Error => ("error", "1;31"),
            Severity::Warning => ("warning", "1;33"),
        };
        let message = printable(&finding.message);
        *text += &format!("{}: {}\n", paint.with(code, word), paint.with("1", &message));
        let spans: Vec<&Range<usize>> = finding.span.iter().chain(&finding.also).collect();
        let numbers = spans.iter().map(|span| self.position_of(span).line.to_string().len());
        let margin = numbers.max().unwrap_or(1);
        for span in &spans {
            self.render_place(span, margin, paint, code, text);
        }
        if spans.is_empty() {
            *text += &format!(" {} {}\n", paint.with("1;34", "-->"), printable(&self.name));
        }
        if !finding.remedy.is_empty() {
            let remedy = printable(&finding.remedy);
            let sign = paint.with("1;34", "=");
            *text += &format!("{:margin$} {sign} {}: {remedy}\n", "", paint.with("1", "help"));
        }
    }

    /// A place with its line.
    fn render_place(
        &self,
        span: &Range<usize>,
        margin: usize,
        paint: Paint,
        code: &str,
        text: &mut String,
    ) {
        let Position { line, column } = self.position_of(span);
        let rule = paint.with("1;34", "|");
        let (arrow, name) = (paint.with("1;34", "-->"), printable(&self.name));
        *text += &format!("{:margin$}{arrow} {name}:{line}:{column}\n", "");
        let (shown, carets) = self.excerpt(span);
        let number = paint.with("1;34", &format!("{line:>margin$}"));
        *text += &format!("{:margin$} {rule}\n", "");
        *text += &format!("{number} {rule} {shown}\n");
        *text += &format!("{:margin$} {rule} {}\n", "", paint.with(code, &carets));
    }

    /// The line of `span`, and carets to put under it. Long lines are cut around the span.
    fn excerpt(&self, span: &Range<usize>) -> (String, String) {
        let (start, line) = self.line_at(span.start);
        let before: String = self.text[line.start..start].chars().map(plain).collect();
        let after: String = self.text[start..line.end].chars().map(plain).collect();
        let end = self.boundary(span.end.clamp(start, line.end));
        let marked = self.text[start..end].chars().count().clamp(1, SHOWN_MAX);
        let skipped = before.chars().count().saturating_sub(SHOWN_MAX / 2);
        let head: String = before.chars().skip(skipped).collect();
        let mut shown: String = head.chars().chain(after.chars()).take(SHOWN_MAX).collect();
        shown.truncate(shown.trim_end().len());
        let indent = head.chars().count();
        let marked = marked.min(SHOWN_MAX.saturating_sub(indent)).max(1);
        (shown, format!("{:indent$}{}", "", "^".repeat(marked)))
    }

    /// A byte position brought into the text, and the line around it.
    fn line_at(&self, at: usize) -> (usize, Range<usize>) {
        let at = self.boundary(at.min(self.text.len()));
        let start = self.text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let end = self.text[at..].find('\n').map_or(self.text.len(), |newline| at + newline);
        (at, start..end)
    }

    fn boundary(&self, mut at: usize) -> usize {
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        at
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.render(false).trim_end())
    }
}

impl std::error::Error for Diagnostics {}

#[derive(Clone, Copy)]
struct Paint {
    colour: bool,
}

impl Paint {
    fn with(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// One column wide and harmless to a terminal.
fn plain(c: char) -> char {
    match c {
        '\t' => ' ',
        c if c.is_control() => '?',
        c => c,
    }
}

/// Text from a file that goes into a message must not steer the terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c == '\n' { '\n' } else { plain(c) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str, span: Range<usize>) -> String {
        let mut diagnostics = Diagnostics::new("p.toml", text);
        diagnostics.error(span, "no", "do");
        diagnostics.render(false)
    }

    #[test]
    fn the_caret_stands_under_the_place() {
        let expected = "error: no\n --> p.toml:2:3\n  |\n2 | b cd e\n  |   ^^\n  = help: do\n\n";
        assert_eq!(one("a\nb cd e\nf", 4..6), expected);
    }

    #[test]
    fn of_two_places_that_contradict_each_other_both_are_shown() {
        let text = "a\nb\nc\nd\ne\nf\ng\nh\ni\njj\n";
        let mut diagnostics = Diagnostics::new("p.toml", text);
        diagnostics.push(Diagnostic {
            severity: Severity::Warning,
            span: Some(2..3),
            also: Some(18..20),
            message: "no".to_owned(),
            remedy: String::new(),
        });
        let expected = "warning: no\n  --> p.toml:2:1\n   |\n 2 | b\n   | ^\n  --> p.toml:10:1\n   \
                        |\n10 | jj\n   | ^^\n\n";
        assert_eq!(diagnostics.render(false), expected);
        assert_eq!(diagnostics.to_json()["findings"][0]["also"]["line"], 10);
    }

    #[test]
    fn a_place_at_or_past_the_end_shows_the_last_line() {
        assert!(one("abc", 3..3).contains("p.toml:1:4"));
        assert!(one("abc", 90..95).contains("p.toml:1:4"));
        assert!(one("", 0..0).contains("p.toml:1:1"));
    }

    #[test]
    fn columns_count_characters_and_controls_are_defused() {
        let shown = one("\u{e4}\u{e4} = \x1b[2J", 7..8);
        assert!(shown.contains("p.toml:1:6"), "{shown}");
        assert!(!shown.contains('\x1b'), "{shown}");
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let text = format!("{}X{}", "a".repeat(5_000), "b".repeat(5_000));
        let shown = one(&text, 5_000..5_001);
        assert!(shown.lines().all(|line| line.len() < 120), "{shown}");
        assert!(shown.contains('X'));
    }

    #[test]
    fn findings_are_bounded() {
        let mut diagnostics = Diagnostics::new("p.toml", "x");
        (0..60).for_each(|_| diagnostics.error(0..1, "no", ""));
        assert!(diagnostics.render(false).ends_with("... and 10 more\n"));
    }
}
