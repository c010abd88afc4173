//! What a volume must hold: the plain list of its blocks after each operation.

use evenkeel_store::Buffer;

/// One operation, as it changes blocks. A value of 0 stands for zeroes.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) block: u64,
    pub(crate) values: Vec<u64>,
}

/// The content of blocks, as values.
pub(crate) type Image = Vec<u64>;

impl Change {
    pub(crate) fn apply(&self, image: &mut Image) {
        let start = usize::try_from(self.block).unwrap();
        image[start..start + self.values.len()].copy_from_slice(&self.values);
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let end = |change: &Self| change.block + change.values.len() as u64;
        self.block < end(other) && other.block < end(self)
    }

    pub(crate) fn data(&self) -> Buffer {
        let bytes: Vec<u8> = self.values.iter().flat_map(|&value| block(value)).collect();
        Buffer::copy_of(&bytes)
    }
}

/// The bytes that stand for a value.
pub(crate) fn block(value: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(512)
}

/// The values of whole blocks; panics at a block that nobody wrote.
pub(crate) fn values(bytes: &[u8]) -> Image {
    let value = |bytes: &[u8]| {
        let value = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        assert!(bytes == block(value), "a block holds something that nobody wrote");
        value
    };
    bytes.chunks_exact(4096).map(value).collect()
}
