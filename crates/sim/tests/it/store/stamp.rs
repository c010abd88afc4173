//! What clients write, so that every byte that is read tells where it comes from.
//!
//! A cell is 512 bytes, the smallest that clients write. It repeats eight bytes: the write's
//! number, which no other write of the run has, and the cell's own place. So a cell that is torn,
//! of another place, of a write that should have no effect any more, or of no client, shows.

/// Bytes of a cell.
pub(crate) const CELL_BYTES: usize = 512;

/// Which write a cell's content is of; 0 for zeroes.
pub(crate) type Author = u32;

/// The content of some cells from `first` on, all by one author.
pub(crate) fn paint(author: Author, first: u32, cells: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(cells as usize * CELL_BYTES);
    for cell in first..first + cells {
        bytes.extend(stamp(author, cell).to_le_bytes().repeat(CELL_BYTES / 8));
    }
    bytes
}

/// Who wrote each of the cells from `first` on.
///
/// # Errors
/// If a cell is nobody's, or another place's; says what is there.
pub(crate) fn authors(first: u32, bytes: &[u8]) -> Result<Vec<Author>, String> {
    (first..).zip(bytes.chunks_exact(CELL_BYTES)).map(|(cell, bytes)| author(cell, bytes)).collect()
}

fn author(cell: u32, bytes: &[u8]) -> Result<Author, String> {
    let found = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes of a cell"));
    if bytes[8..] != bytes[..CELL_BYTES - 8] {
        return Err(format!("cell {cell} is not of one piece"));
    }
    let author = u32::try_from(found >> 32).expect("the upper half");
    if found == 0 || found == stamp(author, cell) {
        return Ok(author);
    }
    Err(format!("cell {cell} holds {found:#018x}, which is not its own"))
}

fn stamp(author: Author, cell: u32) -> u64 {
    u64::from(author) << 32 | u64::from(cell)
}

#[test]
fn a_cell_tells_its_author_and_whether_it_is_whole_and_in_its_place() {
    let bytes = paint(7, 3, 2);
    assert_eq!(authors(3, &bytes), Ok(vec![7, 7]));
    assert_eq!(authors(3, &[0; CELL_BYTES]), Ok(vec![0]));
    assert!(authors(4, &bytes).is_err(), "of another place");
    let torn = [&bytes[..256], &paint(8, 3, 1)[256..512]].concat();
    assert!(authors(3, &torn).is_err());
}
