//! Just enough of a Rust lexer to tell code from comments and literals.
//!
//! [`blank_out_literals`] keeps the shape of the text: every line keeps its number, every byte of
//! code its place, and what lies in comments, strings and characters becomes blanks. Rules that
//! look for code can then search plainly.
//!
//! ```text
//! let brace = '{'; // {      becomes      let brace =    ;
//! ```

/// The text with comments, strings and characters as blanks.
pub(super) fn blank_out_literals(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let length = literal_length(bytes, at);
        if length == 0 {
            code.push(bytes[at]);
            at += 1;
        } else {
            let blank = |byte: &u8| if *byte == b'\n' { b'\n' } else { b' ' };
            code.extend(bytes[at..at + length].iter().map(blank));
            at += length;
        }
    }
    String::from_utf8_lossy(&code).into_owned()
}

/// The length of the comment or literal that starts here; zero if none does.
fn literal_length(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let follows_word = at > 0 && is_word(bytes[at - 1]);
    match rest {
        [b'/', b'/', ..] => line_length(rest),
        [b'/', b'*', ..] => block_comment_length(rest),
        [b'"', ..] => string_length(rest),
        [b'\'', ..] => character_length(rest),
        [b'r', ..] if !follows_word => raw_string_length(rest),
        [b'b' | b'c', b'r', ..] if !follows_word => {
            let length = raw_string_length(&rest[1..]);
            if length == 0 { 0 } else { length + 1 }
        }
        _ => 0,
    }
}

fn line_length(rest: &[u8]) -> usize {
    rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
}

fn block_comment_length(rest: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at + 1 < rest.len() {
        match &rest[at..at + 2] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn string_length(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// A character, or zero for a lifetime.
fn character_length(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        // The byte after the backslash may itself be a quote.
        let end = rest.iter().skip(3).position(|byte| *byte == b'\'');
        return end.map_or(rest.len(), |end| end + 4);
    }
    // One character is at most four bytes long.
    let end = rest.iter().take(6).skip(2).position(|byte| *byte == b'\'');
    match end {
        Some(0) => 3,
        Some(end) if rest[1] >= 0x80 => end + 3,
        _ => 0,
    }
}

fn raw_string_length(rest: &[u8]) -> usize {
    let hashes = rest.iter().skip(1).take_while(|byte| **byte == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return 0;
    }
    let mut close = vec![b'"'];
    close.resize(hashes + 1, b'#');
    let open = hashes + 2;
    let body = &rest[open.min(rest.len())..];
    let end = body.windows(close.len()).position(|window| window == close);
    end.map_or(rest.len(), |end| open + end + close.len())
}

/// Whether a byte can be part of a name.
pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, code: &str) {
        assert_eq!(blank_out_literals(text).trim_end(), code.trim_end(), "of {text:?}");
    }

    #[test]
    fn comments_become_blanks() {
        check("a // { b", "a");
        check("a /* { /* } */ { */ b", "a                   b");
        check("a // x\nb", "a     \nb");
    }

    #[test]
    fn strings_become_blanks() {
        check(r#"f("{ \" }", b"{") ;"#, r"f(        , b   ) ;");
        check("f(r#\"{ \" }\"#) ;", "f(          ) ;");
        check("f(br\"{\") ;", "f(     ) ;");
    }

    #[test]
    fn characters_become_blanks_and_lifetimes_stay() {
        check("f('{', '\\'', '\\n') ;", "f(   ,     ,     ) ;");
        check("fn f<'a>(x: &'a str) ;", "fn f<'a>(x: &'a str) ;");
    }

    #[test]
    fn a_name_that_ends_in_r_opens_no_string() {
        check("other\"{\" ;", "other    ;");
    }
}
