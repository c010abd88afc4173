//! Whole runs of the simulator.

mod arrival;
mod chained;
mod cleaning;
mod costs;
mod depths;
mod devices;
mod faults;
mod fleet;
mod forecast;
mod golden;
mod hdd;
mod hdd_oracle;
mod load;
mod promises;
mod random;
mod rate_limits;
mod scenes;
mod script;
mod shares;
mod sites;
mod starving;
mod store;
mod tiers;
