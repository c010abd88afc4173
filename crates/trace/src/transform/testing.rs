//! Traces for the property tests of the transformations.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use proptest::prelude::*;

use crate::{Record, SourceId, Sources};

/// Up to `count` records of four sources `s0` to `s3`, in the order of time, with ties.
pub(crate) fn records(count: usize) -> impl Strategy<Value = Vec<Record>> {
    let fields = (0u64..40, 0u32..4, 0usize..6, 0u64..2048, 1u64..64, any::<Option<u32>>());
    proptest::collection::vec(fields, 0..count).prop_map(|rows| {
        let mut at = Nanos::ZERO;
        rows.into_iter()
            .map(|(gap, source, kind, sector, sectors, response)| {
                at += Span(gap);
                let kind = Kind::ALL[kind];
                let carries_bytes = u64::from(kind != Kind::Flush);
                Record {
                    at,
                    source: SourceId(source),
                    kind,
                    offset: sector * 512 * carries_bytes,
                    length: sectors * 512 * carries_bytes,
                    response: response.map(|ns| Span(u64::from(ns))),
                }
            })
            .collect()
    })
}

/// Names `s0`, `s1`, .. for every source of a trace.
pub(crate) fn sources_of(trace: &[Record]) -> Sources {
    let mut sources = Sources::default();
    let count = trace.iter().map(|record| record.source.0 + 1).max().unwrap_or(0);
    for id in 0..count {
        sources.intern(&format!("s{id}")).expect("few names");
    }
    sources
}
