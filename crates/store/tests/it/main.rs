//! Tests of the store from outside: what is written is read, and what was acknowledged survives.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod bounded;
mod cache;
mod check;
mod crash;
mod damage;
mod drives;
mod everyday;
mod golden;
mod image;
mod replace;
mod scrub;
mod support;
mod together;
mod volumes;
mod zones;
