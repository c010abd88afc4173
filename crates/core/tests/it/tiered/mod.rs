//! The dispatcher over several devices, in closed loops of virtual time: what the paper promises,
//! what changes do, and that limits and floors hold over all devices together.

mod oracle;
mod paper;
mod terms;
mod world;
