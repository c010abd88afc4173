//! Devices as data; `build` makes the models from them.

use evenkeel_core::time::Span;

use super::array::Layout;
use super::hdd;
use super::ssd::{Precondition, SsdSpec};
use crate::calibrate::MeasuredSpec;

/// Which device, and how quick.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceSpec {
    /// A server of constant speed.
    Constant(ConstantSpec),
    /// As a server limited by nbdkit's rate filter.
    Rate(RateSpec),
    /// As a server behind nbdkit's delay filter.
    Delay(DelaySpec),
    /// A hard disk.
    Hdd(HddSpec),
    /// A flash drive.
    Ssd(SsdDevice),
    /// One that is known by calibration alone.
    Measured(MeasuredSpec),
    /// Several devices that look like one.
    Array(ArraySpec),
}

/// Devices that look like one.
#[derive(Clone, Debug, PartialEq)]
pub struct ArraySpec {
    /// How they hold its bytes.
    pub layout: Layout,
    /// The devices; arrays of arrays are possible.
    pub members: Vec<DeviceSpec>,
}

/// A hard disk, and the order in which it serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HddSpec {
    /// Which drive.
    pub drive: DriveSource<hdd::Parameters>,
    /// The order of service.
    pub order: hdd::Policy,
}

/// A flash drive, and the state in which it is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SsdDevice {
    /// Which drive.
    pub drive: DriveSource<SsdSpec>,
    /// Its state at the start; `None` keeps that of the drive's own figures.
    pub precondition: Option<Precondition>,
}

/// Where a drive's figures come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriveSource<P> {
    /// A drive that comes with the simulator, by its name: [`hdd::BUILT_IN`] or
    /// [`super::ssd::catalogue::DRIVES`].
    BuiltIn(String),
    /// These figures.
    Figures(Box<P>),
}

/// A server that takes `fixed + bytes / rate` for each request and serves some at a time, in the
/// order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConstantSpec {
    /// How many bytes it holds.
    pub size_bytes: u64,
    /// Time that any request takes.
    pub fixed: Span,
    /// Bytes per second on top, each server for itself; zero takes no time for bytes.
    pub rate_bytes: u64,
    /// Requests in service at once; at least 1.
    pub servers: u32,
}

/// Memory behind nbdkit's rate filter: a token bucket for reads and one for writes, over the whole
/// server and for each connection. See [`crate::device::rate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSpec {
    /// How many bytes it holds.
    pub size_bytes: u64,
    /// Bits per second over all connections, for each direction; zero for no limit.
    pub rate_bits: u64,
    /// Bits per second and connection, for each direction; zero for no limit.
    pub connection_rate_bits: u64,
    /// What a full bucket holds, as time at full rate; nbdkit has 2 s unless told.
    pub burstiness: Span,
    /// How the gate is connected to it.
    pub service: NbdkitService,
}

/// Memory behind nbdkit's delay filter: each request sleeps. See [`crate::device::delay`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelaySpec {
    /// How many bytes it holds.
    pub size_bytes: u64,
    /// Reads sleep so long.
    pub read: Span,
    /// Writes do.
    pub write: Span,
    /// Writes of zeroes do.
    pub zero: Span,
    /// Trims do.
    pub trim: Span,
    /// How the gate is connected to it.
    pub service: NbdkitService,
}

/// What nbdkit's filters share: connections, each with its threads, and the cost of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NbdkitService {
    /// Connections that the gate has to it; one is filled before the next is used.
    pub connections: u32,
    /// Threads of each connection; a request beyond them waits in the socket.
    pub threads: u32,
    /// Time that a request takes beside sleeping, in parallel.
    pub overhead: Span,
    /// By how much each sleep is longer than asked for.
    pub oversleep: Span,
}

impl Default for NbdkitService {
    /// One connection of 16 threads; Linux lets a thread oversleep by some 50 us.
    fn default() -> Self {
        Self { connections: 1, threads: 16, overhead: Span::ZERO, oversleep: Span::from_micros(50) }
    }
}

impl Default for ConstantSpec {
    /// 64 GiB at 100 us a request, one at a time.
    fn default() -> Self {
        Self { size_bytes: 64 << 30, fixed: Span::from_micros(100), rate_bytes: 0, servers: 1 }
    }
}

impl Default for RateSpec {
    /// 64 GiB without limits.
    fn default() -> Self {
        Self {
            size_bytes: 64 << 30,
            rate_bits: 0,
            connection_rate_bits: 0,
            burstiness: Span::from_secs(2),
            service: NbdkitService::default(),
        }
    }
}

impl Default for DelaySpec {
    /// 64 GiB without delays.
    fn default() -> Self {
        Self {
            size_bytes: 64 << 30,
            read: Span::ZERO,
            write: Span::ZERO,
            zero: Span::ZERO,
            trim: Span::ZERO,
            service: NbdkitService::default(),
        }
    }
}
