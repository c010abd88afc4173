//! Who waited for memory, and behind whom.

use std::fmt::Write as _;

use crate::ctl::seconds;
use crate::human;
use crate::status::Memory;

/// A line for each tenant that has waited, and one for connections that were cut.
pub(super) fn lines(memory: &Memory) -> String {
    let mut text = String::new();
    for tenant in memory.tenants.iter().filter(|tenant| tenant.waited_seconds > 0.0) {
        let waited = human::duration(seconds(tenant.waited_seconds));
        let most = tenant
            .behind
            .iter()
            .max_by(|one, other| one.waited_seconds.total_cmp(&other.waited_seconds));
        let behind = most.map_or_else(String::new, |most| {
            format!(
                ", {} of it behind {}",
                human::duration(seconds(most.waited_seconds)),
                most.culprit
            )
        });
        let held = human::size(tenant.held_bytes as f64);
        let name = &tenant.tenant;
        let _ = writeln!(text, "{name} waited {waited} for memory{behind}; it holds {held}");
    }
    if memory.cut_connections > 0 {
        let count = memory.cut_connections;
        let _ =
            writeln!(text, "connections cut: {count}, too slow with memory that others waited for");
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}
