//! Where an object goes: a few candidate servers by hashing, one of them by choice.
//!
//! Source: Li and Xu, "Client choices for hash placement" (`CHOICE`), `APSys` 2016; the theory of
//! two choices after Azar et al. 1999 and Peres, Talwar and Wieder 2015. Hashing alone fills one
//! disk first, and then the whole cluster is full. A client that looks at two candidates and takes
//! the better one fills them all alike, without a directory:
//!
//! ```text
//! object ---hash 0---> group 17 ---> servers 4, 9, 2      used 61 + 40 + 55 % = 1.56
//!        \--hash 1---> group  5 ---> servers 1, 9, 7      used 35 + 40 + 48 % = 1.23   <- chosen
//! ```
//!
//! What was chosen is kept ([`choices`]), so that nobody has to look twice. Names do not depend on
//! the map of the cluster: when servers come and go, groups move to other servers and every object
//! is still found as the same candidate of the same name.
//!
//! The chapter in order:
//!
//! - [`hash`], [`straw`] (straw2) and [`cluster`]: from servers with capacities to a table of
//!   groups, made once per change of the cluster;
//! - [`candidates`]: from an object to its groups;
//! - [`rados`]: the same for names in a pool of Ceph, whose map it is;
//! - [`loads`]: what is known of the servers, corrected for what has happened since, with [`lag`]
//!   where figures are old when they come;
//! - [`policy`]: which candidate is better; [`choose`] takes it;
//! - [`odds`]: choosing without looking at all, by a table of one byte per group;
//! - [`certificate`]: how full a cluster can get at most;
//! - [`choices`]: two bits per object;
//! - [`moves`]: what has to move when servers join or leave.

pub mod candidates;
pub mod certificate;
pub mod choices;
pub mod choose;
pub mod cluster;
pub mod hash;
pub mod lag;
pub mod loads;
pub mod moves;
pub mod odds;
pub mod policy;
pub mod rados;
pub mod straw;

/// Most candidates that an object may have: three, and "none yet", are what two bits can say.
pub const CANDIDATES_MAX: usize = 3;
