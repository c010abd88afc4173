//! The chained log on drives that lose power, lie and break.
//!
//! Clients are modelled twice: those who wait for each answer have an exact oracle ([`history`]),
//! many at once a weaker one ([`order`] across crashes, [`register`] between them). All that is
//! written says who wrote it ([`stamp`]).

mod aged;
mod attended;
mod cached;
mod check;
mod clients;
mod crash;
mod cuts;
mod damaged;
mod damaged_after_cuts;
mod faults;
mod full;
mod history;
mod honest;
mod mutants;
mod order;
mod proof;
mod random;
mod real;
mod register;
mod replace;
mod rotten;
mod scrub;
mod shape;
mod short;
mod stamp;
mod subject;
mod sustained;
mod toy;
mod zoned;
