//! Tests of the trace formats from outside: what is encoded comes back, no bytes can hurt a
//! decoder, and real traces are read whole. Their statistics, and what caches make of them, are
//! the published ones.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod damage;
mod document;
mod figures;
mod hostile;
mod native;
mod policies;
mod real;
mod recent;
mod round_trip;
mod support;
