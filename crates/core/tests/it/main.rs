//! Tests of the schedulers from outside: claims of their papers, scripts with golden output, and
//! property tests against plain models.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod allocation;
mod automatic_depth;
mod churn;
mod clocks;
mod closed_loop;
mod control;
mod edf_deadlines;
mod gates;
mod limits;
mod mclock_rates;
mod paper_dsfq;
mod paper_sfq;
mod paper_sfq_d2;
mod scripts;
mod share;
mod support;
mod tiered;
