//! The question put to an allocator: devices, and clients that need them.
//!
//! Every client has a vector of demands: what one of its requests takes of each device. Two kinds
//! of units are in use, and the arithmetic does not care which:
//!
//! ```text
//!                    capacity of a device       demand of a request
//! counting           requests per second        chance that it goes there: (1-h, h) for two tiers
//! device time        device-seconds per second  device-seconds that it takes there
//! ```
//!
//! Inside, both become **fractions**: `demand / capacity`, the part of a device that one request
//! per second of this client takes. All devices then have capacity 1 and no unit, and weights
//! become parts of their sum. In these terms,
//!
//! ```text
//! bottleneck of i   the device with the greatest fraction (the earlier one of equals)
//! fair share of i   part_i / its greatest fraction: what i gets of n equal slices of every device
//! ```

use std::fmt;

/// Most devices (tiers) that one problem may have.
pub const DEVICES_MAX: usize = 8;

/// Weights, capacities and demands lie between this and its inverse, or are zero where that makes
/// sense. Far beyond any storage, and far enough from where floats end that no product overflows.
const MAGNITUDE_MIN: f64 = 1e-30;

/// How far floors may exceed a device before they count as too much: rounding, not policy.
const ADMISSION_TOLERANCE: f64 = 1e-12;

/// A device (tier) of a problem, as the index of its capacity. Slow tiers come first by custom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceId(pub u8);

impl DeviceId {
    /// The identifier as an index.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// What one request takes of each device on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand([f64; DEVICES_MAX]);

impl Demand {
    /// Demands in the order of the devices; those not named are zero. More than [`DEVICES_MAX`]
    /// are a bug of the caller.
    pub fn per_request(amounts: &[f64]) -> Self {
        let mut demand = [0.0; DEVICES_MAX];
        demand[..amounts.len()].copy_from_slice(amounts);
        Self(demand)
    }

    /// Two tiers, the slow one first: `hit_ratio` of the requests are served by the fast one, each
    /// request costs 1 on the device that it meets.
    pub fn hit_ratio(hit_ratio: f64) -> Self {
        Self::per_request(&[1.0 - hit_ratio, hit_ratio])
    }

    /// The demand on one device.
    pub fn on(&self, device: DeviceId) -> f64 {
        self.0[device.index()]
    }
}

/// Who wants service, and on which terms. Rates are in requests per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Client {
    /// Shares are in proportion to it; positive.
    pub weight: f64,
    /// What one request takes.
    pub demand: Demand,
    /// What the client asks for at most; infinite while it is backlogged. One that asks for nothing
    /// still counts among those whom fair shares are reckoned for; leave it out to have it not.
    pub offered_iops: f64,
    /// What it is promised whenever it asks for it, before anybody's share is counted.
    pub floor_iops: f64,
    /// What it never gets more of.
    pub limit_iops: f64,
}

impl Client {
    /// A client with unlimited appetite, no floor and no limit.
    pub fn backlogged(weight: f64, demand: Demand) -> Self {
        let (offered_iops, limit_iops) = (f64::INFINITY, f64::INFINITY);
        Self { weight, demand, offered_iops, floor_iops: 0.0, limit_iops }
    }

    /// The most that it may be given: a limit acts like a demand that ends there.
    pub fn cap_iops(&self) -> f64 {
        self.offered_iops.min(self.limit_iops)
    }

    /// The floor as far as it is asked for.
    pub fn reserved_iops(&self) -> f64 {
        self.floor_iops.min(self.cap_iops())
    }
}

/// Devices and clients, checked and brought to fractions. See the [module](self).
#[derive(Clone, Debug)]
pub struct Problem {
    capacities: Vec<f64>,
    clients: Vec<Client>,
    /// Part of each device that one request per second takes.
    fractions: Vec<[f64; DEVICES_MAX]>,
    /// Weights as parts of their sum.
    parts: Vec<f64>,
    bottlenecks: Vec<DeviceId>,
}

impl Problem {
    /// Checks the problem.
    ///
    /// # Errors
    /// Numbers out of range, and floors that no allocation can keep: on every device, the floors
    /// together must fit.
    pub fn new(capacities: &[f64], clients: Vec<Client>) -> Result<Self, ProblemError> {
        if capacities.is_empty() || capacities.len() > DEVICES_MAX {
            return Err(ProblemError::DeviceCount { count: capacities.len() });
        }
        for (device, &capacity) in (0..).map(DeviceId).zip(capacities) {
            if !is_magnitude(capacity) {
                return Err(ProblemError::Capacity { device, capacity });
            }
        }
        for (client, terms) in clients.iter().enumerate() {
            check_client(client, terms, capacities.len())?;
        }
        for (device, reserved) in (0..).map(DeviceId).zip(reserved_fractions(capacities, &clients))
        {
            if reserved > 1.0 + ADMISSION_TOLERANCE {
                return Err(ProblemError::Floors { device, reserved });
            }
        }
        Ok(Self::of_checked(capacities, clients))
    }

    fn of_checked(capacities: &[f64], clients: Vec<Client>) -> Self {
        let total: f64 = clients.iter().map(|client| client.weight).sum();
        let parts = clients.iter().map(|client| client.weight / total).collect();
        let mut inverse = [0.0; DEVICES_MAX];
        for (inverse, capacity) in inverse.iter_mut().zip(capacities) {
            *inverse = 1.0 / capacity;
        }
        let mut fractions = Vec::with_capacity(clients.len());
        let mut bottlenecks = Vec::with_capacity(clients.len());
        for client in &clients {
            let mut fraction = client.demand.0;
            fraction.iter_mut().zip(&inverse).for_each(|(fraction, inverse)| *fraction *= inverse);
            bottlenecks.push(greatest(&fraction));
            fractions.push(fraction);
        }
        Self { capacities: capacities.to_vec(), clients, fractions, parts, bottlenecks }
    }

    /// Number of devices, 1 to [`DEVICES_MAX`].
    pub fn device_count(&self) -> usize {
        self.capacities.len()
    }

    /// The devices in order.
    pub fn devices(&self) -> impl Iterator<Item = DeviceId> + use<> {
        (0..=u8::MAX).map(DeviceId).take(self.device_count())
    }

    /// Capacity of a device, in the caller's unit.
    pub fn capacity(&self, device: DeviceId) -> f64 {
        self.capacities[device.index()]
    }

    /// The clients in the order given.
    pub fn clients(&self) -> &[Client] {
        &self.clients
    }

    /// The device that a client would fill first if it were alone.
    pub fn bottleneck(&self, client: usize) -> DeviceId {
        self.bottlenecks[client]
    }

    /// What the client would get if every device were cut into slices by weight.
    pub fn fair_share_iops(&self, client: usize) -> f64 {
        self.parts[client] / self.fractions[client][self.bottlenecks[client].index()]
    }

    /// Part of each device that these rates keep busy.
    pub fn utilisation(&self, rates_iops: &[f64]) -> Vec<f64> {
        let mut busy = [0.0; DEVICES_MAX];
        for (fraction, rate) in self.fractions.iter().zip(rates_iops) {
            busy.iter_mut().zip(fraction).for_each(|(busy, fraction)| *busy += fraction * rate);
        }
        busy[..self.device_count()].to_vec()
    }

    /// Part of each device that one request per second of the client takes; zero beyond the last.
    pub(super) fn fractions(&self, client: usize) -> &[f64; DEVICES_MAX] {
        &self.fractions[client]
    }

    /// The client's weight as a part of the sum of weights.
    pub(super) fn part(&self, client: usize) -> f64 {
        self.parts[client]
    }

    pub(super) fn bottlenecks(&self) -> &[DeviceId] {
        &self.bottlenecks
    }

    /// The only device that the client needs, if there is just one.
    pub(super) fn only_device(&self, client: usize) -> Option<DeviceId> {
        let device = self.bottlenecks[client];
        let needed = self.fractions[client].iter().filter(|&&fraction| fraction > 0.0).count();
        (needed == 1).then_some(device)
    }
}

/// Part of each device that the floors take together: the verdict of admission, device by device.
/// Above 1 they cannot be kept. Capacities must be positive.
pub fn reserved_fractions(capacities: &[f64], clients: &[Client]) -> Vec<f64> {
    let on = |device: usize| {
        let needed: f64 = clients.iter().map(|c| c.floor_iops * c.demand.0[device]).sum();
        needed / capacities[device]
    };
    (0..capacities.len()).map(on).collect()
}

/// What is wrong with a problem.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ProblemError {
    /// There must be 1 to [`DEVICES_MAX`] devices.
    DeviceCount {
        /// Devices given.
        count: usize,
    },
    /// A capacity is not a positive number of reasonable size.
    Capacity {
        /// The device.
        device: DeviceId,
        /// Its capacity as given.
        capacity: f64,
    },
    /// A weight is not a positive number of reasonable size.
    Weight {
        /// The client.
        client: usize,
        /// Its weight as given.
        weight: f64,
    },
    /// A demand is negative or not a number of reasonable size, or lies on a device that is not
    /// there.
    Demand {
        /// The client.
        client: usize,
        /// The device.
        device: DeviceId,
        /// The demand as given.
        demand: f64,
    },
    /// The client needs no device at all, so no rate would be enough.
    NoDemand {
        /// The client.
        client: usize,
    },
    /// Offered rate, floor or limit is negative or no number, or the floor is infinite or above
    /// the limit.
    Terms {
        /// The client.
        client: usize,
    },
    /// The floors take more of a device than there is.
    Floors {
        /// The device.
        device: DeviceId,
        /// Part of it that the floors would take.
        reserved: f64,
    },
}

impl fmt::Display for ProblemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::DeviceCount { count } => {
                write!(f, "{count} devices were given; name 1 to {DEVICES_MAX}")
            }
            Self::Capacity { device, capacity } => {
                write!(f, "device {}: capacity {capacity}; it must be positive", device.0)
            }
            Self::Weight { client, weight } => {
                write!(f, "client {client}: weight {weight}; it must be positive")
            }
            Self::Demand { client, device, demand } => write!(
                f,
                "client {client}: demand {demand} on device {}; it must be zero or positive, and \
                 zero on devices that are not there",
                device.0
            ),
            Self::NoDemand { client } => {
                write!(f, "client {client} needs no device; give it a demand on at least one")
            }
            Self::Terms { client } => write!(
                f,
                "client {client}: rates must not be negative, and the floor must be finite and not \
                 above the limit"
            ),
            Self::Floors { device, reserved } => write!(
                f,
                "the floors need {:.1} % of device {}; lower them or add capacity",
                reserved * 100.0,
                device.0
            ),
        }
    }
}

impl std::error::Error for ProblemError {}

fn check_client(client: usize, terms: &Client, devices: usize) -> Result<(), ProblemError> {
    if !is_magnitude(terms.weight) {
        return Err(ProblemError::Weight { client, weight: terms.weight });
    }
    for (index, &demand) in terms.demand.0.iter().enumerate() {
        if demand != 0.0 && (index >= devices || !is_magnitude(demand)) {
            let device = DeviceId(u8::try_from(index).expect("there are few devices"));
            return Err(ProblemError::Demand { client, device, demand });
        }
    }
    if terms.demand.0.iter().all(|&demand| demand == 0.0) {
        return Err(ProblemError::NoDemand { client });
    }
    let Client { offered_iops, floor_iops, limit_iops, .. } = *terms;
    let floor_holds = floor_iops.is_finite() && floor_iops >= 0.0 && floor_iops <= limit_iops;
    if !(floor_holds && offered_iops >= 0.0) {
        return Err(ProblemError::Terms { client });
    }
    Ok(())
}

fn is_magnitude(value: f64) -> bool {
    (MAGNITUDE_MIN..=1.0 / MAGNITUDE_MIN).contains(&value)
}

fn greatest(fractions: &[f64; DEVICES_MAX]) -> DeviceId {
    let mut best = 0;
    for index in 1..DEVICES_MAX {
        if fractions[index] > fractions[best] {
            best = index;
        }
    }
    DeviceId(u8::try_from(best).expect("there are few devices"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> Client {
        Client::backlogged(1.0, Demand::hit_ratio(0.5))
    }

    fn refusal(capacities: &[f64], client: Client) -> ProblemError {
        Problem::new(capacities, vec![client]).unwrap_err()
    }

    #[test]
    fn the_balance_point_belongs_to_the_slow_device() {
        let of = |h| Client::backlogged(1.0, Demand::hit_ratio(h));
        let problem = Problem::new(&[1.0, 3.0], vec![of(0.75), of(0.751), of(0.0)]).unwrap();
        let sets: Vec<u8> = (0..3).map(|client| problem.bottleneck(client).0).collect();
        assert_eq!(sets, [0, 1, 0]);
        assert_eq!([1, 2].map(|i| problem.only_device(i)), [None, Some(DeviceId(0))]);
    }

    #[test]
    fn nonsense_is_refused_with_its_place() {
        use ProblemError as E;
        let two = [100.0, 500.0];
        assert_eq!(refusal(&[], client()), E::DeviceCount { count: 0 });
        assert_eq!(refusal(&[1.0; 9], client()), E::DeviceCount { count: 9 });
        let capacity = E::Capacity { device: DeviceId(1), capacity: 0.0 };
        assert_eq!(refusal(&[1.0, 0.0], client()), capacity);
        let weightless = Client { weight: 0.0, ..client() };
        assert_eq!(refusal(&two, weightless), E::Weight { client: 0, weight: 0.0 });
        let nowhere = Client { demand: Demand::per_request(&[1.0, 1.0, 2.0]), ..client() };
        let demand = E::Demand { client: 0, device: DeviceId(2), demand: 2.0 };
        assert_eq!(refusal(&two, nowhere), demand);
        let idle = Client { demand: Demand::per_request(&[]), ..client() };
        assert_eq!(refusal(&two, idle), E::NoDemand { client: 0 });
        let crossed = Client { floor_iops: 5.0, limit_iops: 4.0, ..client() };
        assert_eq!(refusal(&two, crossed), E::Terms { client: 0 });
        let unknown = Client { offered_iops: f64::NAN, ..client() };
        assert_eq!(refusal(&two, unknown), E::Terms { client: 0 });
    }

    #[test]
    fn floors_are_admitted_on_every_device_or_not_at_all() {
        let promised = |floor_iops| Client { floor_iops, ..client() };
        assert!(Problem::new(&[100.0, 500.0], vec![promised(120.0), promised(80.0)]).is_ok());
        let error = Problem::new(&[100.0, 500.0], vec![promised(120.0), promised(120.0)]);
        let text = error.unwrap_err().to_string();
        assert_eq!(text, "the floors need 120.0 % of device 0; lower them or add capacity");
        let verdict = reserved_fractions(&[100.0, 500.0], &[promised(120.0), promised(120.0)]);
        assert_eq!(verdict, [1.2, 0.24]);
    }
}
