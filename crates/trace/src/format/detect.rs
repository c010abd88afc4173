//! Which format a file has, told from its first bytes, or else from its name.

use super::{Format, blk, csv, iolog, native, vscsi};

/// What the first bytes show beats what the name says.
pub(super) fn detect(head: &[u8], file_name: &str) -> Option<Format> {
    by_magic(head).or_else(|| by_first_line(head)).or_else(|| by_name(file_name))
}

fn by_magic(head: &[u8]) -> Option<Format> {
    if head.starts_with(&native::MAGIC) {
        return Some(Format::Native);
    }
    if head.starts_with(&blk::binary::MAGIC) {
        return Some(Format::Blktrace);
    }
    match iolog::version(head) {
        Some(iolog::Version::Two) => return Some(Format::Iolog2),
        Some(iolog::Version::Three) => return Some(Format::Iolog3),
        None => {}
    }
    vscsi::version(head).map(|_| Format::Vscsi)
}

fn by_first_line(head: &[u8]) -> Option<Format> {
    let mut lines = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let first = lines.clone().find(|line| !line.is_empty())?;
    if blk::text::is_event(first) {
        return Some(Format::Blkparse);
    }
    if lines.any(|line| line.starts_with(b"start ;")) {
        return Some(Format::Blkreplay);
    }
    let fields: Vec<_> = first.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).collect();
    match fields[..] {
        [_, _, _, b"Read" | b"Write" | b"Type", _, _, _] => Some(Format::Msr),
        [_, b"R" | b"W" | b"opcode", _, _, _] => Some(Format::Alibaba),
        [_, _, _, b"r" | b"w" | b"R" | b"W", _, ..] => Some(Format::Spc),
        [_, _, _, b"0" | b"1" | b"IOType", _] => Some(Format::Tencent),
        _ => csv::is_head(first).then_some(Format::Csv),
    }
}

/// A name that several formats share tells none of them.
fn by_name(file_name: &str) -> Option<Format> {
    let extension = file_name.rsplit_once('.')?.1;
    let mut named = Format::ALL.into_iter().filter(|f| f.extensions().contains(&extension));
    named.next().filter(|_| named.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_tells() {
        for (text, format) in [
            ("128166372003061629,hm,1,Read,383496192,32768,413\n", Format::Msr),
            ("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime", Format::Msr),
            ("0,303567,3584,w,0.026214\n", Format::Spc),
            ("419,W,8792731648,16384,1577808144360767", Format::Alibaba),
            ("1538323200,12910952,128,0,1063", Format::Tencent),
            ("version,time,op,size,lbn\n1,2,3,4,5", Format::Csv),
            ("\n  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [x]", Format::Blkparse),
            ("fio version 2 iolog\n", Format::Iolog2),
            ("fio version 3 iolog\n", Format::Iolog3),
            ("prose\n\nstart ; sector; length ; op ;\n", Format::Blkreplay),
        ] {
            assert_eq!(Format::detect(text.as_bytes(), "some.txt"), Some(format), "{text}");
        }
    }

    #[test]
    fn a_name_tells_where_the_bytes_do_not() {
        assert_eq!(Format::detect(b"0 0 8 16 1\n", "web.mqsim"), Some(Format::SsdSim));
        assert_eq!(Format::detect(b"0 0 8 16 1\n", "web.trace"), None);
        assert_eq!(Format::detect(b"a,b\n", "web.csv"), None);
        assert_eq!(Format::detect(b"", "web"), None);
    }

    #[test]
    fn names_return() {
        for format in Format::ALL {
            assert_eq!(Format::from_name(format.name()), Some(format));
        }
    }
}
