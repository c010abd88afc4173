//! No bytes hurt a decoder, and how they are cut changes nothing.

use evenkeel_trace::format::{Format, TableOptions, understand};
use proptest::prelude::*;

use crate::support::{decode, encode, hold, raws};

/// Words that appear in one format or another; noise alone never gets past a comma.
const WORDS: &[&str] = &[
    "\n",
    "\n",
    "\n",
    "\r\n",
    ",",
    ",",
    ",",
    ",",
    " ",
    " ",
    ";",
    " ; ",
    "0",
    "1",
    "7",
    "512",
    "4096",
    "-1",
    "1.5",
    "0.000000001",
    "128166372003061629",
    "18446744073709551615",
    "99999999999999999999",
    "hm",
    "Read",
    "Write",
    "R",
    "W",
    "r",
    "w",
    "2a",
    "0x28",
    "8,0",
    "Q",
    "D",
    "C",
    "WS",
    "FWS",
    "+",
    "[0]",
    "CPU0 (8,0):",
    "fio version 2 iolog\n",
    "fio version 3 iolog\n",
    "f",
    "wait",
    "read",
    "sync",
    "trim",
    "add",
    "start ; sector",
    "time,op,size,lbn\n",
    "time_ns,source,op,offset,size,response_ns\n",
    "ts,rw_flag,lba,size,lat\n",
    "0.000,153,0,4096,0,0.010,4096\n",
    "\"",
    "\"\"",
    "\u{feff}",
    "#",
    "\t",
    "\u{e9}",
    "\x00",
    "Timestamp",
];

fn word_salad() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(proptest::sample::select(WORDS), 0..200)
        .prop_map(|words| words.concat().into_bytes())
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(1_usize..120, 1..6)
}

/// Whole, in pieces, and byte by byte.
fn check(format: Format, bytes: &[u8], sizes: &[usize]) {
    let whole = decode(format, bytes, &[usize::MAX]);
    for sizes in [sizes, &[1]] {
        let pieces = decode(format, bytes, sizes);
        assert_eq!(pieces, whole, "{format:?} in pieces of {sizes:?}");
    }
    for defect in &whole.defects {
        assert!(defect.reason.chars().all(|c| !c.is_control()), "{defect}");
    }
    let told = understand(bytes, true, &TableOptions::default());
    let told = told.map_or_else(|unclear| unclear.problems.concat(), |it| it.text);
    assert!(told.chars().all(|c| !c.is_control()), "{told}");
}

proptest! {
    #[test]
    fn noise_hurts_nobody(bytes: Vec<u8>, sizes in sizes()) {
        for format in Format::ALL {
            check(format, &bytes, &sizes);
        }
    }

    #[test]
    fn familiar_words_hurt_nobody(bytes in word_salad(), sizes in sizes()) {
        for format in Format::ALL {
            check(format, &bytes, &sizes);
        }
    }

    #[test]
    fn damaged_files_hurt_nobody(
        raws in raws(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
        sizes in sizes(),
    ) {
        for format in Format::ALL {
            let (sources, records) = hold(format).records(&raws);
            let mut file = encode(format, &sources, &records);
            if file.is_empty() {
                continue;
            }
            for (place, byte) in &damage {
                let place = place.index(file.len());
                file[place] = *byte;
            }
            check(format, &file, &sizes);
            check(format, &file[..cut.index(file.len())], &sizes);
        }
    }
}
