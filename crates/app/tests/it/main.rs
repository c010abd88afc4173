//! End to end: the real `evenkeel` between real clients and real servers, and between hostile ones.
//!
//! | file | claims |
//! |---|---|
//! | `clients` | other people's clients work through the gate as they do without it |
//! | `hostile` | no bytes from a client or a server crash, hang or grow the gate |
//! | `load` | many connections and greedy ones leave memory and neighbours alone |
//! | `experiments` | the load generator tells the truth, the demo shows it and cleans up |
//! | `faults` | nothing acknowledged is lost when the server or the gate is killed |
//! | `isolation` | what one tenant's export does to its server costs the others nothing |
//! | `automatic` | shares hold on servers of which the policy says nothing |
//! | `access` | exports are opened by those whom the policy lets, and are not there for others |
//! | `memory` | who holds memory and does not move takes none from the others |
//! | `replays` | what a lost connection left is sent again only for those who still wait for it |
//! | `in_doubt` | what a server carries out late of a lost connection lies over nothing newer |
//! | `fencing` | of two gates only the rightful one writes, whatever pauses and networks do |
//! | `ceph` | a volume in a pool of Ceph stays one disk, and one gate's |
//! | `tiers` | a volume over tiers stays one disk while its extents move and its parts fail |
//! | `store` | stores are made, checked, scrubbed and mended, and nothing is destroyed unasked |
//! | `stores` | a chained log behind the gate keeps what it acknowledged |
//! | `block` | stores live on block devices, and take none that is somebody else's |
//! | `zoned` | stores live on devices with zones that a kernel keeps |
//! | `caches` | the cache of a store saves reads, and loses nothing when its SSD fails |
//! | `upkeep` | what a store does for itself has its turn and its account |
//! | `volume_care` | what is damaged of a tiered or spread volume is found, and mended or named |
//! | `volumes` | volumes and snapshots of a store come and go, also under writes |
//! | `restarts` | of the gate and of its upstream, told to stop or killed: fio notices none |
//! | `reload` | a new policy drops no connection and loses no request |
//! | `simulate` | scenarios run in virtual time, repeat themselves, and are refused with a place |
//! | `plan` | a trace is forecast beside the present, with a verdict |
//! | `trace` | traces convert, stream in bounded memory, and say what is wrong with them |
//! | `trace_tables` | tables are read as they were meant, or refused with what would say it |
//! | `trace_sort` | traces in any order are sorted, in bounded memory, with nothing left behind |
//! | `trace_replay` | the gate records what it serves, and replays keep their times |
//! | `recorded_policies` | traces tell the policies in force, and transformations keep them true |
//! | `exchange` | gates that share a device keep a target, by UDP and NATS, and heed no stranger |
//! | `etcd` | gates find each other and their policy in etcd, and go on without it |
//! | `baa` | the figures of bottleneck-aware allocation come out |
//! | `choices` | two choices fill virtual clusters where hashing does not |
//! | `gecko` | a chained log is ahead of a striped one beside readers |
//! | `calibrate` | the rate and the delay of a known server are found, and nothing is harmed |
//! | `cli` | what people and scripts see: diagnostics, exit codes, help |
//!
//! A test that misses a program it needs says `SKIPPED`; `cargo xtask setup` installs them.

mod access;
mod advise;
mod automatic;
mod baa;
mod block;
mod caches;
mod calibrate;
mod ceph;
mod choices;
mod cli;
mod clients;
mod copies;
#[cfg(feature = "etcd")]
mod etcd;
mod exchange;
mod experiments;
mod faults;
mod fencing;
mod first_hour;
mod full_disk;
mod gecko;
mod harness;
mod hostile;
mod in_doubt;
mod isolation;
mod load;
mod memory;
mod place;
mod plan;
mod prove_load;
mod recorded_policies;
mod recordings;
mod reload;
mod replays;
mod restarts;
mod simulate;
mod spread;
mod store;
mod stores;
mod tiers;
mod trace;
mod trace_replay;
mod trace_sort;
mod trace_tables;
mod upkeep;
mod volume_care;
mod volumes;
mod zoned;
