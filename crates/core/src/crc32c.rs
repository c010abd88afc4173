//! CRC-32C (Castagnoli), the checksum of iSCSI, ext4 and Btrfs: polynomial 0x1EDC6F41, reflected,
//! eight bytes at a step by eight tables ("slicing by eight", Kounavis and Berry, ISCC 2005).

const POLYNOMIAL_REFLECTED: u32 = 0x82f6_3b78;

static TABLES: [[u32; 256]; 8] = tables();

/// Table 0 takes one byte; table `n` takes a byte behind which `n` more were taken.
const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0_u32;
    while byte < 256 {
        let mut value = byte;
        let mut bit = 0;
        while bit < 8 {
            value = (value >> 1) ^ (POLYNOMIAL_REFLECTED * (value & 1));
            bit += 1;
        }
        tables[0][byte as usize] = value;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let previous = tables[table - 1][byte];
            tables[table][byte] = (previous >> 8) ^ tables[0][(previous & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// The checksum of these bytes.
pub fn crc32c(bytes: &[u8]) -> u32 {
    let mut state = u32::MAX;
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let mixed = u64::from_le_bytes(word.try_into().expect("eight bytes")) ^ u64::from(state);
        state = mixed
            .to_le_bytes()
            .iter()
            .zip(TABLES.iter().rev())
            .fold(0, |sum, (&byte, table)| sum ^ table[usize::from(byte)]);
    }
    for &byte in words.remainder() {
        state = (state >> 8) ^ TABLES[0][usize::from(state.to_le_bytes()[0] ^ byte)];
    }
    !state
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bit_by_bit(bytes: &[u8]) -> u32 {
        let mut state = u32::MAX;
        for &byte in bytes {
            state ^= u32::from(byte);
            for _ in 0..8 {
                state = (state >> 1) ^ (POLYNOMIAL_REFLECTED * (state & 1));
            }
        }
        !state
    }

    #[test]
    fn the_published_vectors_hold() {
        // RFC 3720, appendix B.4.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    }

    proptest! {
        #[test]
        fn tables_agree_with_the_plain_division(bytes: Vec<u8>) {
            prop_assert_eq!(crc32c(&bytes), bit_by_bit(&bytes));
        }
    }
}
