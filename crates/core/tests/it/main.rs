//! Tests of the schedulers from outside: claims of their papers, scripts, and property tests against
//! plain models.

mod closed_loop;
