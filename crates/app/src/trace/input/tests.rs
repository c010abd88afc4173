//! Reading traces of every packing, good and bad.

use std::io::Write;
use std::path::PathBuf;

use evenkeel_core::ticket::Kind;

use super::super::compression::Packer;
use super::*;

/// So many lines of an MSR trace, a microsecond apart.
fn lines(count: u64) -> String {
    let mut text = String::new();
    for n in 0..count {
        let (time, offset) = (128_166_372_000_000_000 + 10 * n, n % 1000 * 4096);
        let kind = if n % 3 == 0 { "Write" } else { "Read" };
        text += &format!("{time},web,0,{kind},{offset},4096,500\n");
    }
    text
}

fn file(folder: &tempfile::TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    let file = File::create(&path).unwrap();
    let mut packer = Packer::new(file, Compression::of_name(&path)).unwrap();
    packer.write_all(text.as_bytes()).unwrap();
    packer.finish().unwrap();
    path
}

fn read(path: &Path, options: &ReadOptions) -> anyhow::Result<(Vec<Record>, TraceReader)> {
    let mut reader = TraceReader::open(path, options)?;
    let mut records = Vec::new();
    reader.each(|_, record| {
        records.push(*record);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((records, reader))
}

#[test]
fn a_trace_reads_alike_plain_and_packed_over_many_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let text = lines(40_000);
    assert!(text.len() > 4 * BLOCK_BYTES, "lines fall across the ends of blocks");
    let (plain, _) = read(&file(&folder, "web.csv", &text), &ReadOptions::default()).unwrap();
    assert_eq!(plain.len(), 40_000);
    assert_eq!((plain[3].kind, plain[3].offset, plain[3].at.0), (Kind::Write, 12_288, 3000));
    for name in ["web.csv.gz", "web.csv.zst"] {
        let path = file(&folder, name, &text);
        let (packed, reader) = read(&path, &ReadOptions::default()).unwrap();
        assert!(packed == plain, "{name} reads otherwise");
        let size = std::fs::metadata(&path).unwrap().len();
        assert_eq!(reader.progress().read_bytes(), size);
        assert_eq!(reader.progress().size_bytes(), Some(size));
    }
}

#[test]
fn a_bad_line_is_refused_by_place_or_left_out_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let text = lines(100).replacen("Read", "Raed", 2);
    let path = file(&folder, "web.csv.gz", &text);
    let error = read(&path, &ReadOptions::default()).err().unwrap();
    assert_eq!(Exit::of(&error), Exit::Invalid);
    let message = error.to_string();
    assert!(message.contains("web.csv.gz:2: ") && message.contains("--skip-bad"), "{message}");
    let skip = ReadOptions { on_defect: OnDefect::Skip, ..ReadOptions::default() };
    let (records, reader) = read(&path, &skip).unwrap();
    assert_eq!((records.len(), reader.defects().count()), (98, 2));
    assert!(reader.defects().first()[1].contains("web.csv.gz:3: "));
}

#[test]
fn a_packed_trace_that_breaks_off_is_an_error_and_not_a_short_trace() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["web.csv.gz", "web.csv.zst"] {
        let path = file(&folder, name, &lines(20_000));
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        let error = read(&path, &ReadOptions::default()).err().unwrap();
        assert_eq!(Exit::of(&error), Exit::Invalid, "{name}: {error}");
    }
}

#[test]
fn a_format_that_cannot_be_told_can_be_given() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "mystery", "what is this\n");
    let error = read(&path, &ReadOptions::default()).err().unwrap().to_string();
    assert!(error.contains("--format") && error.contains("msr"), "{error}");
    let empty = file(&folder, "empty.txt", "");
    let options = ReadOptions { format: Some(Format::Msr), ..ReadOptions::default() };
    assert_eq!(read(&empty, &options).unwrap().0, []);
}
