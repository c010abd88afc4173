//! Every metric: name, type, labels and help. Names and base units follow the conventions of
//! Prometheus. docs/metrics.md is made from this table.
//!
//! Label sets are bounded by the policy (tenants, backends, exports) and by fixed bounds (pairs of
//! interference); nothing that a client chooses becomes a label.

/// One metric.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its full name.
    pub name: &'static str,
    /// What kind of number.
    pub kind: Kind,
    /// Its label names, in the order in which values are given.
    pub labels: &'static [&'static str],
    /// What it says.
    pub help: &'static str,
}

/// What kind of number a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, until the gate restarts.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by upper bound.
    Histogram,
}

impl Kind {
    /// The word in a TYPE line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

impl Metric {
    /// The base unit, as its name tells.
    pub fn unit(&self) -> &'static str {
        let stem = self.name.strip_suffix("_total").unwrap_or(self.name);
        let units = ["seconds", "bytes", "ratio", "requests", "connections", "units"];
        units.into_iter().find(|unit| stem.ends_with(unit)).unwrap_or("")
    }
}

macro_rules! metrics {
    ($($constant:ident = $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $constant: Metric = Metric {
                name: $name,
                kind: Kind::$kind,
                labels: &[$($label),*],
                help: $help,
            };
        )*

        /// Every metric, in the order of the output.
        pub const TABLE: &[&Metric] = &[$(&$constant),*];
    };
}

metrics! {
    BUILD_INFO = Gauge "evenkeel_build_info" ["version", "commit"]
        "Always 1; the labels say which build runs.";
    UPTIME = Gauge "evenkeel_uptime_seconds" []
        "Time since the gate started.";
    MODE = Gauge "evenkeel_mode" ["mode"]
        "1 for the mode in force (observe, shadow or enforce), 0 for the others.";
    CONNECTIONS = Gauge "evenkeel_connections" []
        "Client connections now open, negotiating ones included.";
    CONNECTIONS_REFUSED = Counter "evenkeel_connections_refused_total" []
        "Connections refused because a bound was reached.";
    REFUSED_OPENS = Counter "evenkeel_refused_opens_total" []
        "How often clients asked for exports that the policy does not let them open.";
    PROTOCOL_ERRORS = Counter "evenkeel_protocol_errors_total" []
        "Connections closed because the peer broke the protocol.";
    MEMORY = Gauge "evenkeel_memory_bytes" []
        "Bytes that requests and unread answers now hold in the gate.";
    MEMORY_BOUND = Gauge "evenkeel_memory_bound_bytes" []
        "The most bytes that they may hold.";
    MEMORY_CUT = Counter "evenkeel_memory_cut_connections_total" []
        "Connections cut because they were too slow with memory that others waited for.";
    MEMORY_HELD = Gauge "evenkeel_tenant_memory_bytes" ["tenant"]
        "Bytes that a tenant's requests and unread answers now hold in the gate.";
    MEMORY_WAITED = Counter "evenkeel_tenant_memory_wait_seconds_total" ["tenant"]
        "How long connections of a tenant have waited for memory.";

    RECORDED = Counter "evenkeel_recorded_requests_total" ["result"]
        "Requests of the recording under way: written, or dropped because the disk could not keep \
         up. Absent while nothing is recorded.";
    RECORDED_BYTES = Counter "evenkeel_recorded_bytes_total" []
        "Bytes of the recording under way, before compression.";

    OFFERED_REQUESTS = Counter "evenkeel_offered_requests_total" ["domain", "tenant", "op"]
        "Requests that arrived.";
    OFFERED_BYTES = Counter "evenkeel_offered_bytes_total" ["domain", "tenant", "op"]
        "Bytes that the arrived requests ask for.";
    REQUESTS = Counter "evenkeel_requests_total" ["domain", "tenant", "op", "result"]
        "Requests that ended; result is ok, error, or abandoned (the client vanished).";
    BYTES = Counter "evenkeel_bytes_total" ["domain", "tenant", "op"]
        "Bytes of the requests answered well.";
    IN_FLIGHT = Gauge "evenkeel_in_flight_requests" ["domain", "tenant"]
        "Requests now queued or with a backend.";
    QUEUE = Histogram "evenkeel_queue_seconds" ["domain", "tenant"]
        "Time from arrival to dispatch, per unit: the gate's part of the wait.";
    DEVICE = Histogram "evenkeel_device_seconds" ["domain", "tenant"]
        "Time from dispatch to the backend's answer, per unit: the storage's part of the wait.";
    REQUEST = Histogram "evenkeel_request_seconds" ["domain", "tenant"]
        "Time from arrival to answer, per request.";
    WAITED = Counter "evenkeel_waited_seconds_total" ["domain", "tenant"]
        "Request-time waited because of others: beyond what idle servers would have taken, own \
         limit excluded.";
    WAITED_FOR_SLOTS = Counter "evenkeel_waited_for_slots_seconds_total" ["domain", "tenant"]
        "Request-time that went to exports of the tenant's own that are slow or hang; not in \
         evenkeel_waited_seconds_total.";
    THROTTLED = Counter "evenkeel_throttled_seconds_total" ["domain", "tenant"]
        "Request-time held by the tenant's own limit.";
    SHADOW_HELD = Counter "evenkeel_shadow_held_seconds_total" ["domain", "tenant"]
        "Request-time that enforcing would have held.";
    SHADOW_HELD_UNITS = Counter "evenkeel_shadow_held_units_total" ["domain", "tenant"]
        "Units that enforcing would have held.";
    BACKLOGGED = Counter "evenkeel_backlogged_seconds_total" ["domain", "tenant"]
        "Time during which the tenant had something queued.";
    SERVICE = Counter "evenkeel_service_seconds_total" ["domain", "tenant"]
        "Device time given to the tenant, as measured: busy time divided by what requests take, \
         whatever the policy says that they cost.";
    WEIGHT = Gauge "evenkeel_share_weight" ["domain", "tenant"]
        "The weight of the tenant in force.";
    FLOOR_REQUESTS = Gauge "evenkeel_floor_requests_per_second" ["tenant"]
        "The tenant's floor in requests per second; absent without one.";
    FLOOR_BYTES = Gauge "evenkeel_floor_bytes_per_second" ["tenant"]
        "The tenant's floor in bytes per second; absent without one.";
    LATENCY_GOAL = Gauge "evenkeel_latency_goal_seconds" ["tenant"]
        "The goal for the tenant's response time; absent without one.";
    SHARE = Gauge "evenkeel_share_ratio" ["domain", "tenant", "kind"]
        "Share of the domain's service in the last window: delivered, entitled (by weight among \
         the active) and attainable (with the work that was offered).";
    BELOW_DUE = Gauge "evenkeel_below_due" ["domain", "tenant", "cause"]
        "1 for the cause for which a tenant gets less than it is due, over the last seconds; \
         absent where it has its due. `evenkeel explain` says the same in words.";
    INTERFERENCE = Counter "evenkeel_interference_seconds_total" ["domain", "victim", "culprit"]
        "Request-time that the victim waited while the culprit was served, or for the device \
         itself, `(device)`; the top pairs only.";
    INTERFERENCE_OTHER = Counter "evenkeel_interference_other_seconds_total" ["domain"]
        "Request-time of the pairs that are not among the top ones.";

    SERVER_IN_SERVICE = Gauge "evenkeel_server_in_service_units" ["domain", "backend"]
        "Units with the backend now.";
    SERVER_QUEUED = Gauge "evenkeel_server_queued_units" ["domain", "backend"]
        "Units queued for the backend now.";
    SERVER_DEPTH = Gauge "evenkeel_server_depth" ["domain", "backend"]
        "The depth in force, in units or bytes as configured; 0 for none.";
    SERVER_SERVICE = Counter "evenkeel_server_service_seconds_total" ["domain", "backend"]
        "Device time given out, as measured: its busy time, but for stalls.";
    SERVER_BUSY = Counter "evenkeel_server_busy_seconds_total" ["domain", "backend"]
        "Time during which something was with the backend.";
    BACKEND_UP = Gauge "evenkeel_backend_up" ["backend"]
        "1 if the backend can serve requests now, else 0.";
    DISCIPLINE = Gauge "evenkeel_backend_discipline" ["backend", "discipline"]
        "Always 1; the label says which request of the backend's queue goes next.";
    RECONNECTS = Counter "evenkeel_backend_reconnects_total" ["backend"]
        "Connections to the backend that were lost.";
    REPLAYED = Counter "evenkeel_backend_replayed_requests_total" ["backend"]
        "Requests sent again after a reconnect.";
    NOT_REPLAYED = Counter "evenkeel_backend_not_replayed_requests_total" ["backend"]
        "Requests failed because sending them again was not safe, or patience ran out.";
    TIMED_OUT = Counter "evenkeel_backend_timed_out_requests_total" ["backend"]
        "Requests failed because the backend did not answer within `request_timeout`.";
    RESIZES = Counter "evenkeel_backend_resized_exports_total" ["backend"]
        "Changes of the size of the backend's exports, seen when a connection was made.";
    HANGING = Gauge "evenkeel_hanging_requests" ["domain", "backend", "tenant", "export"]
        "Units of a tenant at an export that has not answered some of them for long.";
    SLOW = Gauge "evenkeel_slow_export_seconds" ["domain", "backend", "tenant", "export"]
        "How long requests of an export take that answers like one of another, slower device than \
         others of its backend.";
    SPREAD_OBJECTS = Gauge "evenkeel_spread_objects" ["domain", "backend"]
        "Objects of a spread volume that the server has room in use for.";
    SPREAD_LOST = Gauge "evenkeel_spread_lost_objects" ["domain"]
        "Objects that were written and are not where they should be.";
    SPREAD_TO_MOVE = Gauge "evenkeel_spread_objects_to_move" ["domain"]
        "Objects that have to move before a change of the volume's servers is over.";
    SPREAD_MOVED = Counter "evenkeel_spread_moved_objects_total" ["domain"]
        "Objects that were moved to other servers since the volume was opened.";
    STORE_LIVE = Gauge "evenkeel_store_live_bytes" ["backend"]
        "Bytes of clients in the store, one copy counted.";
    STORE_PROVISIONED = Gauge "evenkeel_store_provisioned_bytes" ["backend"]
        "Bytes that will be there when all provisioned volumes are full.";
    STORE_UNTIL_CLEANING = Gauge "evenkeel_store_until_cleaning_bytes" ["backend"]
        "Bytes that can be written to the store until something has to be cleaned.";
    STORE_DEBT = Gauge "evenkeel_store_cleaner_debt_bytes" ["backend"]
        "Bytes that have to be moved until cleaning rests.";
    STORE_THIN = Gauge "evenkeel_store_thin_segments" ["backend"]
        "Segments that have fewer copies than they should.";
    STORE_SCRUB_DONE = Gauge "evenkeel_store_scrub_done_bytes" ["backend"]
        "Bytes that the last scrub has read since the store was opened.";
    STORE_SCRUB_FLAWS = Gauge "evenkeel_store_scrub_flaws" ["backend", "kind"]
        "Blocks that the last scrub found bad: on one copy, or lost on all.";
    STORE_DAMAGE = Counter "evenkeel_store_damage_total" ["backend", "kind"]
        "Damage that the store met since it was opened: headers of records that were restored \
         (header_restored), copies of blocks that were bad (copy_bad), and reads of clients that \
         failed since no copy was good (read_failed).";
    STORE_STOPS = Counter "evenkeel_store_spindle_stops_total" ["backend", "drive"]
        "How often the spindle of a drive was stopped, where `power_down` lets it.";
    STORE_STOOD = Counter "evenkeel_store_spindle_stood_seconds_total" ["backend", "drive"]
        "How long the spindle of a drive has stood still.";
    STORE_CLIENT = Counter "evenkeel_store_client_bytes_total" ["backend"]
        "Bytes of whole blocks that clients wrote to the store.";
    STORE_DRIVES = Counter "evenkeel_store_drive_bytes_total" ["backend", "direction"]
        "Bytes of all drives of the store, read or written, whatever for.";
    CACHE_READS = Counter "evenkeel_cache_reads_total" ["backend", "side", "found"]
        "Reads of blocks of 4 KiB, on the tail or the body, by where they were found: memory, ssd, \
         or missed (on the drives alone).";
    CACHE_SSD = Gauge "evenkeel_cache_ssd_bytes" ["backend"]
        "Bytes of the SSD that the cache uses; 0 without one, or if it failed.";
    CACHE_LEFT_OUT = Counter "evenkeel_cache_left_out_total" ["backend", "why"]
        "Blocks that the SSD did not get (unworthy, budget, busy) or could not give back (failed).";
    CACHE_KEPT = Counter "evenkeel_cache_ssd_kept_total" ["backend"]
        "Blocks on the SSD that were written there once more, since they are used.";
    CACHE_WRITTEN = Counter "evenkeel_cache_ssd_written_bytes_total" ["backend"]
        "Bytes written to the SSD since the store was opened.";
    CACHE_WRITTEN_IN_LIFE = Gauge "evenkeel_cache_ssd_life_written_bytes" ["backend"]
        "Bytes written to the SSD in its life as a cache.";
    CACHE_ENDURANCE = Gauge "evenkeel_cache_ssd_endurance_bytes" ["backend"]
        "Bytes that the SSD can take in its life; absent if the policy does not say.";
    CACHE_LIFETIME = Gauge "evenkeel_cache_ssd_lifetime_seconds" ["backend"]
        "Time until the SSD is worn out, at the rate since the store was opened; absent if \
         unknown.";
    POOL_OBJECTS = Gauge "evenkeel_ceph_objects" ["backend"]
        "Objects of a volume in Ceph that were written.";
    POOL_GROUPS = Gauge "evenkeel_ceph_groups" ["backend"]
        "Placement groups of the volume's pool.";
    POOL_UNSERVED = Gauge "evenkeel_ceph_unserved_groups" ["backend"]
        "Placement groups of the volume's pool that no OSD serves at present.";
    POOL_CEILING = Gauge "evenkeel_ceph_ceiling_ratio" ["backend"]
        "The part of an OSD that new objects of the volume may fill.";
    POOL_FULLEST = Gauge "evenkeel_ceph_fullest_ratio" ["backend"]
        "The part in use of the pool's fullest OSD, with what was written since it reported.";
    POOL_AGE = Gauge "evenkeel_ceph_figures_age_seconds" ["backend"]
        "Time since Ceph's manager last told how full OSDs are.";
    OSD_CAPACITY = Gauge "evenkeel_ceph_osd_capacity_bytes" ["backend", "osd"]
        "Bytes that an OSD of the volume's pool can hold; of the first 1024 OSDs.";
    OSD_USED = Gauge "evenkeel_ceph_osd_used_bytes" ["backend", "osd"]
        "Bytes in use on an OSD of the volume's pool, by whatever is on it.";
    OSD_UP = Gauge "evenkeel_ceph_osd_up" ["backend", "osd"]
        "1 if the OSD runs, 0 if it is down and the cluster has not given it up.";
    EXPORT_SIZE = Gauge "evenkeel_export_size_bytes" ["export"]
        "Size of the export.";
    EXPORT_CONNECTIONS = Gauge "evenkeel_export_connections" ["export", "tenant"]
        "Open connections to the export by tenant.";

    PEER_SILENT = Gauge "evenkeel_peer_silent_seconds" ["peer"]
        "Time since the word of another gate was last taken.";
    PEER_SKEW = Gauge "evenkeel_peer_skew_periods" ["peer"]
        "By how many periods another gate's clock was ahead when it last spoke.";
    PEER_SENT = Counter "evenkeel_peer_sent_datagrams_total" ["peer"]
        "Summaries sent to another gate.";
    PEER_RECEIVED = Counter "evenkeel_peer_received_datagrams_total" ["peer"]
        "Summaries of another gate that came in with a good tag.";
    PEER_LOST = Counter "evenkeel_peer_lost_datagrams_total" ["peer"]
        "Summaries of another gate that never came, by the gaps in their numbers.";
    EXCHANGE_CLOCK_OFF = Gauge "evenkeel_exchange_clock_off_seconds" []
        "By how much this gate's clock is ahead of the gates' time; 0 up to two periods.";
    EXCHANGE_CONNECTED = Gauge "evenkeel_exchange_server_connected" ["kind"]
        "Whether the server through which gates meet is there.";
    EXCHANGE_CONNECTS = Counter "evenkeel_exchange_server_connects_total" ["kind"]
        "Connections made to the server through which gates meet.";
    EXCHANGE_REFUSED = Counter "evenkeel_exchange_refused_datagrams_total" ["reason"]
        "Datagrams that came in and did not count.";
    SHARED_SLOTS = Gauge "evenkeel_shared_slots" ["backend"]
        "Requests that this gate may have at a shared device at once.";
    SHARED_SLOTS_ALL = Gauge "evenkeel_shared_slots_all" ["backend"]
        "Requests that all gates together are meant to have at a shared device; 0 if not known.";
    SHARED_UNMET = Gauge "evenkeel_shared_unmet_targets" ["backend"]
        "Tenants of this gate whose targets are not met at a shared device.";
    SHARED_BELOW_FLOOR = Gauge "evenkeel_shared_tenants_below_floor" ["backend"]
        "Tenants of this gate that are below their floor over all gates, though they ask for it.";
    SHARED_DISAGREEMENTS = Gauge "evenkeel_shared_disagreements" ["backend"]
        "What other gates before a shared device say otherwise than this one's policy.";
    SERVED_ELSEWHERE = Counter "evenkeel_served_by_other_gates_seconds_total" ["group", "tenant"]
        "Device time that other gates gave a tenant of this one, by the cost model.";

    CPU = Counter "process_cpu_seconds_total" []
        "User and system CPU time of the process.";
    RESIDENT = Gauge "process_resident_memory_bytes" []
        "Resident memory of the process.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::assert_document;

    #[test]
    fn names_follow_the_conventions() {
        for metric in TABLE {
            let counter = metric.kind == Kind::Counter;
            assert_eq!(metric.name.ends_with("_total"), counter, "{}", metric.name);
            assert!(metric.help.ends_with('.'), "{}", metric.name);
            assert!(!metric.labels.contains(&"le"), "{}", metric.name);
        }
        let mut names: Vec<_> = TABLE.iter().map(|metric| metric.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TABLE.len());
    }

    #[test]
    fn the_documentation_lists_every_metric() {
        let mut text = String::from(
            "# Metrics\n\n\
             `GET /metrics` on the address of `serve --metrics` (127.0.0.1:9809) answers in the \
             text format of Prometheus.\n\
             It is asked by address or as `localhost`. A scraper that asks by another name is \
             answered 421 until the policy\nlists the name, as `hosts = [\"gate.example\"]` in \
             `[metrics]` ([who may ask](control.md#who-may-ask)).\n\
             This page is made from `crates/app/src/metrics/table.rs`.\n\n\
             A *domain* is what shares count over: a group of backends, or a backend in no group. \
             `op` is read, write,\nflush, trim, cache or write_zeroes. Label sets are bounded by \
             the policy; nothing that a client chooses becomes a label.\n\n\
             | metric | type | unit | labels | meaning |\n|---|---|---|---|---|\n",
        );
        for metric in TABLE {
            let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            let (name, kind, unit) = (metric.name, metric.kind.name(), metric.unit());
            text += &format!(
                "| `{name}` | {kind} | {unit} | {} | {} |\n",
                labels.join(" "),
                metric.help
            );
        }
        let bounds: Vec<_> =
            crate::metrics::text::BOUNDS.iter().map(|(_, label)| format!("{label} s")).collect();
        text += &format!("\nHistograms have these upper bounds: {}.\n", bounds.join(", "));
        text += "\n## Questions and the expressions that answer them\n\n\
            | question | expression |\n|---|---|\n\
            | who uses what | `sum by (tenant) (rate(evenkeel_bytes_total[1m]))` |\n\
            | does a tenant wait in the gate or in the storage | \
            `rate(evenkeel_queue_seconds_sum[1m])` beside \
             `rate(evenkeel_device_seconds_sum[1m])` |\n\
            | who makes whom wait | `topk(5, rate(evenkeel_interference_seconds_total[5m]))` |\n\
            | whose requests take longer than they may | \
            `histogram_quantile(0.99, sum by (tenant, le) (rate(evenkeel_request_seconds_bucket\
            [5m]))) > on (tenant) evenkeel_latency_goal_seconds` |\n\
            | who gets less than it could | \
            `evenkeel_share_ratio{kind=\"delivered\"} < ignoring(kind) 0.9 * \
            evenkeel_share_ratio{kind=\"attainable\"}` |\n\
            | is a backend gone | `evenkeel_backend_up == 0` |\n";
        assert_document("docs/metrics.md", &text);
    }
}
