//! Ring 3: the `evenkeel` command as a library, so that its parts can be tested and fuzzed.
//!
//! | module | what it does |
//! |---|---|
//! | [`cli`] | the command line: one variant per subcommand, one file per variant |
//! | [`config`] | the policy file: text to [`evenkeel_engine::policy::Policy`] and back |
//! | [`units`] | sizes, rates and durations as people write them |
//! | [`serve`] | the daemon: gate, signals, service manager |
//! | [`control`] | the control plane: HTTP over a unix socket, and its client |
//! | [`ctl`], [`check`], [`completions`], [`man`] | the smaller subcommands |
//! | [`metrics`] | the accounts as Prometheus text |
//! | [`status`] | the accounts as JSON |
//! | [`top`] | the accounts as a live picture |
//! | [`demo`] | a minute that shows what shares are for |
//! | [`drive`] | models of hard disks beside recordings of real ones |
//! | [`calibrate`] | a model of a live backend, by measurement |
//! | [`load`] | `bench`: load on NBD servers, and how they bear it |
//! | [`trace`] | block traces: conversion, statistics, replay |
//! | [`reproduce`] | a paper's experiments, claim by claim |
//! | [`place`] | objects on many servers: what choices would gain, and what moves |
//! | [`advise`] | what enforcing would bring, from what a gate has seen |
//! | [`plan`] | a recorded trace under another policy, on other storage |
//! | [`simulate`] | a scenario in virtual time |
//! | [`evidence`] | what an experiment's rows are worth: verdicts, and the machine they came from |
//! | [`exchange`] | decisions with other gates, made once more from a recording |
//! | [`explain`] | why tenants get no more, from a running gate |
//! | [`prove`] | whether a running gate keeps what its policy promises |
//! | [`plot`] | charts as SVG and PNG |
//! | [`store`] | stores made, looked at, checked, scrubbed and mended |
//! | [`volumes`] | volumes and snapshots of stores, as people name them |
//! | [`stage`] | gates and data servers as child processes, for experiments |

#![allow(
    clippy::format_push_string,
    reason = "texts for people are built once; `write!` would bring a Result that cannot fail"
)]

pub mod advise;
pub mod calibrate;
pub mod check;
pub mod cli;
pub mod completions;
pub mod config;
pub mod control;
pub mod ctl;
pub mod demo;
pub mod drive;
pub mod emulate;
pub mod evidence;
pub mod exchange;
pub mod exit;
pub mod explain;
pub mod human;
mod interrupt;
pub mod load;
pub mod man;
mod measured;
pub mod metrics;
pub mod place;
pub mod plan;
pub mod plot;
pub mod prove;
pub mod reproduce;
pub mod serve;
pub mod simulate;
pub mod spark;
pub mod stage;
pub mod status;
pub mod store;
pub mod terminal;
pub mod top;
pub mod trace;
pub mod units;
pub mod version;
pub mod volume;
pub mod volumes;

// Under this name, so that the fuzz target of policies can compile [`config`] without ring 2.
use evenkeel_io::built;

#[cfg(test)]
mod testing;
